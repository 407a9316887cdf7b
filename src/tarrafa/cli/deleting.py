"""`tarrafa delete`: a collection goes, whether anything runs here or not."""

import asyncio

from tarrafa import secrets
from tarrafa.cli.curating import current_user
from tarrafa.clock import Clock
from tarrafa.coordinate.terminal import ControlRequest, send_control_request
from tarrafa.crawl.deletion import delete_collection as delete_it
from tarrafa.data import DataDirectory
from tarrafa.errors import Locked, Unreachable
from tarrafa.fetch.suffixes import bundled_suffix_list
from tarrafa.frontier.address import Address, connect, local_address
from tarrafa.frontier.store.sqlite import SqliteFrontier
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.triples import follower as triples

LATER = "; those who follow an archive of it drop its pages within seconds, or when they run"


def delete_collection(data: DataDirectory, address: Address | None, name: str) -> str:
    """Delete a collection of the frontier at that address, or of the one in the directory; what to say of it."""
    if address is not None and (data.frontier.exists() or not data.version.exists()):
        # Nothing is archived here, or for another frontier.
        asyncio.run(_delete_through(None, address, name))
        return f"{name}: deleted{LATER}"
    if address is None:
        data.check_version()
    try:
        if address is not None or asyncio.run(send_control_request(data, ControlRequest("delete", name, current_user()))) is None:
            asyncio.run(_delete_through(data, address or local_address(data), name))
    except Unreachable:
        if address is not None or not data.frontier.exists():
            raise
        asyncio.run(_delete_offline(data, name))
    secrets.write(data, name, [])  # they are nobody's now
    followers = (graph.drop_deleted(data), index.drop_deleted(data), triples.drop_deleted(data))
    return f"{name}: deleted{'' if address is None and all(followers) else LATER}"


async def _delete_through(data: DataDirectory | None, address: Address, name: str) -> None:
    frontier = await connect(address)
    try:
        await delete_it(frontier, data, name)
    finally:
        await frontier.close()


async def _delete_offline(data: DataDirectory, name: str) -> None:
    """Nobody owns the frontier: for this moment we do. Whatever its owner left running is not."""
    lock = data.try_lock()
    if lock is None:
        raise Locked(f"{data.root}: another Tarrafa process is working here, and does not answer")
    with lock:
        frontier = SqliteFrontier(data.frontier, Clock.from_environment(), bundled_suffix_list())
        try:
            for one in (await frontier.overview()).collections:
                if one.name == name and one.state == "running":
                    await frontier.set_state(name, "stopped", "interrupted")
            await delete_it(frontier, data, name)
        finally:
            await frontier.close()
