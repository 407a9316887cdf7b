"""Which supervisor do the options of the command line ask for?

Of a frontier that is here, with or without a door for other machines; or of one that is elsewhere.
"""

import re
import socket
from pathlib import Path

from tarrafa.clock import Clock
from tarrafa.crawl.keeping import RemoteFrontierLink, LocalFrontierLink
from tarrafa.crawl.supervise import Supervisor
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError
from tarrafa.frontier.address import Address, UnixSocket, connect
from tarrafa.frontier.door import parse_listen_address
from tarrafa.frontier.timing import sync_clock
from tarrafa.frontier.token import load_token
from tarrafa.index import shards

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,59}")


def node_name(name: str | None) -> str:
    """What the names of this machine's workers begin with."""
    if name is None:
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname()).strip("-._")[:50] or "node"
    if not NAME.fullmatch(name):
        raise ConfigError(f"--name: {name[:80]!r}: letters, digits, '.', '_' and '-', at most 60, are allowed")
    return f"{name}-"


def build_supervisor(
    data: DataDirectory,
    workers: int,
    address: Address | None,
    token_file: Path | None = None,
    name: str | None = None,
    listen: str | None = None,
    *,
    lasting: bool = False,
    index_shards: str | None = None,
) -> Supervisor:
    """The one that these options ask for: of a frontier elsewhere, or of one that is here."""
    clock = Clock.from_environment()
    divided = None if index_shards is None else shards.parse_layout(index_shards, "--index-shards")
    if address is not None:
        if listen is not None:
            raise ConfigError(
                "--listen: only whoever keeps the frontier can serve it; leave out --frontier and TARRAFA_FRONTIER"
            )
        if isinstance(address, UnixSocket) and Path(address.path).resolve() == Path(data.socket).resolve():
            raise ConfigError(f"--frontier {address}: a frontier elsewhere needs a data directory of its own: --data")
        far = RemoteFrontierLink(address, clock)
        return Supervisor(data, workers, clock, keeper=far, name=node_name(name), lasting=True, divided=divided)
    own_name = "w" if name is None else node_name(name)
    if listen is None:
        return Supervisor(data, workers, clock, name=own_name, divided=divided)
    token = load_token(token_file)
    keeper = LocalFrontierLink(data, clock, parse_listen_address(listen, token), token)
    return Supervisor(
        data, workers, clock, keeper=keeper, name=own_name, lasting=lasting, follows=not lasting, divided=divided
    )


async def frontier_time(address: Address | None) -> float:
    """What time it is where the frontier is."""
    own = Clock.from_environment()
    if address is None:
        return own.now()
    frontier = await connect(address)
    try:
        return (await sync_clock(frontier, own)).clock.now()
    finally:
        await frontier.close()
