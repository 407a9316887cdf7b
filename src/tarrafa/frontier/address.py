"""Frontier addresses (unix:, tcp://, postgresql://): parses and redacts them, and connects to the frontier they name.

    unix:PATH                        the frontier server of a data directory on this machine (DATA/run/frontier.sock)
    tcp://HOST:PORT                  a frontier server on another machine (`tarrafa frontier serve`), with a token
    postgresql://USER@HOST:PORT/DB   one PostgreSQL server, or several, in order; a server that fails over to another
                                     machine has the hosts of all: postgresql://USER@HOST:PORT,HOST:PORT/DB

Promises: an address never shows its secrets, in no message and in no list of processes: children get it through their
environment.
`connect` opens the `Frontier` API for coroutines, `connect_reader` for a person who waits, `connect_blocking` the same
calls for a thread.
"""

import asyncio
import importlib
import os
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlsplit

from tarrafa.archive.segment_log.object_store import check_address as check_store
from tarrafa.archive.segment_log.segment import LogIdentity, SegmentManifest
from tarrafa.clock import CLOCK_VARIABLE, Clock
from tarrafa.errors import ConfigError, FrontierError, Unreachable
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.rpc.frontier_client import CALL_TIMEOUT_S, OnLost, RemoteFrontier, SocketClient
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_ON_COMMAND_LINE, TOKEN_VARIABLE, Token, load_token

FRONTIER_VARIABLE = "TARRAFA_FRONTIER"
ADDRESSES_MAX, TEXT_MAX = 64, 2_000
READ_TIMEOUT_S = 3.0  # of one question to a local server; then its file is read
REMOTE_READ_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 5.0  # then a frontier counts as silent
SCHEMES = ("unix:", "tcp://", "postgresql://", "postgres://")
ADDRESS_SEPARATOR = re.compile(rf"[,\s]+(?={'|'.join(map(re.escape, SCHEMES))})")  # a DSN may have commas of its own
SECRET_KEYS = frozenset({"password", "sslpassword"})
ADDRESS_FORMS = "unix:PATH, tcp://HOST:PORT or postgresql://USER@HOST:PORT/DATABASE"


class OpenFrontier(Frontier, Protocol):
    """An open frontier, to be closed by its opener."""

    async def close(self) -> None: ...


class BlockingClient(Protocol):
    """Frontier calls for a thread that depends on no event loop."""

    def call(self, method: str, *arguments: Any) -> Any: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class UnixSocket:
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"

    def texts(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True, slots=True)
class TcpServer:
    host: str
    port: int
    token: Token = field(default_factory=Token)

    def __str__(self) -> str:
        return f"tcp://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def texts(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True, slots=True)
class PostgresServers:
    """PostgreSQL servers in order: collections and workers are on the first."""

    dsns: tuple[str, ...] = field(repr=False)

    def __str__(self) -> str:
        return ", ".join(redact_address(dsn) for dsn in self.dsns)

    def __repr__(self) -> str:
        return f"PostgresServers({self})"

    def texts(self) -> list[str]:
        return list(self.dsns)


Address = UnixSocket | TcpServer | PostgresServers


def local_address(data: DataDirectory) -> UnixSocket:
    """The frontier of a data directory on this machine."""
    return UnixSocket(data.socket)


def parse_address(texts: Sequence[str], token: Token | None = None, where: str = "--frontier") -> Address:
    """Parse one address; `where` names its source in messages. Several texts: several PostgreSQL servers."""
    found = [_parse_one(text.strip(), token or Token(), where) for text in texts]
    if not found:
        raise ConfigError(f"{where}: no address; one is written {ADDRESS_FORMS}")
    if len(found) == 1:
        return found[0]
    dsns = [dsn for one in found if isinstance(one, PostgresServers) for dsn in one.dsns]
    if len(dsns) < len(found):
        other = next(one for one in found if not isinstance(one, PostgresServers))
        raise ConfigError(f"{where}: several addresses are several PostgreSQL servers; {other} is none")
    if len(set(dsns)) < len(dsns) or len(dsns) > ADDRESSES_MAX:
        raise ConfigError(f"{where}: the same PostgreSQL server is named twice, or more than {ADDRESSES_MAX} are named")
    return PostgresServers(tuple(dsns))


def _parse_one(text: str, token: Token, where: str) -> Address:
    if len(text) > TEXT_MAX or not text.isprintable():
        raise ConfigError(f"{where}: an address has at most {TEXT_MAX:,} printable characters")
    if text.startswith("unix:"):
        path = text.removeprefix("unix:").removeprefix("//")
        if not path:
            raise ConfigError(f"{where}: unix: needs a path, such as unix:tarrafa-data/run/frontier.sock")
        return UnixSocket(path)
    if text.startswith("tcp://"):
        return TcpServer(*parse_host_port(text.removeprefix("tcp://"), where, text), token)
    if text.startswith(("postgresql://", "postgres://")):
        _check_dsn(text, where)
        return PostgresServers((text,))
    raise ConfigError(
        f"{where}: not an address of a frontier: {redact_address(text)!r}; one is written {ADDRESS_FORMS}"
    )


def parse_host_port(text: str, where: str, shown: str = "", *, any_port: bool = False) -> tuple[str, int]:
    """`HOST:PORT`, with an IPv6 address in brackets. Port 0 only where the system may choose one."""
    shown = redact_address(shown or text)
    if "@" in text or "?" in text:
        raise ConfigError(f"{where}: {shown!r}: only HOST:PORT is wanted here; {TOKEN_ON_COMMAND_LINE}")
    host, colon, port = text.removesuffix("/").rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ConfigError(f"{where}: {shown!r}: an IPv6 address is written in brackets, as in [::1]:8070")
    if not colon or not host or "/" in host or not re.fullmatch(r"[0-9]{1,5}", port):
        raise ConfigError(f"{where}: {shown!r}: HOST:PORT is wanted, such as 127.0.0.1:8070")
    if not (0 if any_port else 1) <= int(port) <= 65535:
        raise ConfigError(f"{where}: {shown!r}: a port is a number from 1 to 65535")
    return host, int(port)


def _check_dsn(dsn: str, where: str) -> None:
    """Catch simple mistakes; PostgreSQL checks the rest."""
    try:
        parts = urlsplit(dsn)
        _ = None if "," in parts.netloc else parts.port  # libpq allows a list of hosts
        if parts.netloc.count("@") > 1:  # libpq would take the rest of a password for a host, and show it
            raise ValueError
    except ValueError:  # its message might quote a password
        raise ConfigError(
            f"{where}: {redact_address(dsn)!r}: not an address of a PostgreSQL server; "
            "in a password the characters : / ? # @ [ ] % are written as %3A and so on"
        ) from None
    if not (parts.netloc or parts.path.strip("/") or parts.query):
        raise ConfigError(f"{where}: {redact_address(dsn)!r}: a PostgreSQL address names a server and a database")


def redact_address(text: str) -> str:
    """The text as it may be shown; a text that cannot be parsed is shown only in part."""
    scheme, colon, rest = text.partition("://")
    rest, _, query = rest.partition("?")
    if not colon or "@" in query:
        return f"{scheme}://…" if colon else re.sub(".*@", "…@", text)
    login, at, place = rest.rpartition("@")
    place = ",".join(
        host if host.startswith("[") else re.sub(r":(?!\d+(/|$))[^/]*", ":…", host) for host in place.split(",")
    )
    if not scheme.startswith("postgres"):  # no other address has a user, or settings
        return f"{scheme}://{'…@' if at else ''}{place}{'?…' if query else ''}"
    shown = "&".join(f"{key}={value}" for key, value in parse_qsl(query) if key not in SECRET_KEYS)
    return f"{scheme}://{login.partition(':')[0]}{at}{place}{shown and '?' + shown}"


def has_password(address: Address) -> bool:
    return isinstance(address, PostgresServers) and any(map(_names_password, address.dsns))


def _names_password(dsn: str) -> bool:
    parts = urlsplit(dsn)
    keys = {key for key, _ in parse_qsl(parts.query, keep_blank_values=True)}
    return ":" in parts.netloc.rpartition("@")[0] or bool(keys & SECRET_KEYS)


def from_command_line(texts: Sequence[str] | None, token_file: Path | None = None) -> Address | None:
    """The address in `--frontier`, else in the environment; None: in neither."""
    if texts:
        address = parse_address(texts, load_token(token_file))
        if has_password(address):
            raise ConfigError(
                "--frontier: everybody on this machine can read a password on the command line: put the whole address "
                f"into the environment variable {FRONTIER_VARIABLE}, or leave the password out and give it by "
                "PGPASSWORD or a password file (~/.pgpass)"
            )
        return address
    return from_environment(token_file)


def from_environment(token_file: Path | None = None) -> Address | None:
    """The address that the parent process, or a person, has set in the environment."""
    text = os.environ.get(FRONTIER_VARIABLE, "").strip(", \t\r\n")
    if not text:
        return None
    return parse_address(ADDRESS_SEPARATOR.split(text), load_token(token_file), FRONTIER_VARIABLE)


def address_from_supervisor() -> Address:
    """For a child process: the address that its supervisor set."""
    address = from_environment()
    if address is None:
        raise ConfigError(f"{FRONTIER_VARIABLE} is not set: this process is started by a supervisor")
    return address


def child_environment(address: Address, clock: Clock) -> dict[str, str]:
    """Environment variables through which a child finds the frontier, and its clock."""
    settings = {FRONTIER_VARIABLE: " ".join(address.texts()), CLOCK_VARIABLE: clock.to_environment()}
    if isinstance(address, TcpServer):
        settings[TOKEN_VARIABLE] = address.token.secret.decode()
    return settings


async def connect(
    address: Address,
    clock: Clock | None = None,
    *,
    keeps_links: bool = False,
    suffixes: str | None = None,
    timeout_s: float = CALL_TIMEOUT_S,
    on_lost: OnLost = lambda error: None,
) -> OpenFrontier:
    """Open the frontier. `keeps_links`: links for an unreachable PostgreSQL server wait; `suffixes` is the public
    suffix list that empty databases are created with, if it is not the usual one; `timeout_s` limits each call to a
    frontier server; `on_lost` is called when the connection to a frontier server ends, also between two calls."""
    if isinstance(address, UnixSocket):
        return await RemoteFrontier.connect(address.path, timeout_s, on_lost)
    if isinstance(address, TcpServer):
        return await RemoteFrontier.connect_tcp(address.host, address.port, address.token, timeout_s, on_lost)
    cluster = import_postgres_module("postgres_frontier")
    own = clock or Clock.from_environment()
    body: OpenFrontier = await cluster.open_postgres_frontier(
        list(address.dsns), own, suffixes, keeps_links=keeps_links
    )
    return body


async def require_answer(frontier: Frontier, where: object) -> None:
    """Raise `Unreachable` if the frontier is silent, before a call that may take long is made for a person."""
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            await frontier.time()
    except TimeoutError:
        raise Unreachable(
            f"{where}: the frontier did not answer within {ANSWER_TIMEOUT_S:.0f} s; nothing was changed"
        ) from None


async def connect_reader(data: DataDirectory, address: Address | None) -> OpenFrontier:
    """Open the frontier for a person who waits: at that address, or that of the data directory. A silent server is
    waited for only some seconds."""
    if address is None:
        return await connect(local_address(data), timeout_s=READ_TIMEOUT_S)
    return await connect(address, timeout_s=REMOTE_READ_TIMEOUT_S)


def import_postgres_module(name: str) -> Any:
    """Import a module that needs psycopg, which other frontiers do not."""
    try:
        return importlib.import_module(f"tarrafa.frontier.postgres.{name}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"a frontier on PostgreSQL needs {error.name}, which is not installed: pip install 'tarrafa[cluster]'"
        ) from None


def connect_blocking(address: Address) -> BlockingClient:
    """Open the frontier for a thread."""
    if isinstance(address, UnixSocket):
        return SocketClient.connect_unix(address.path)
    if isinstance(address, TcpServer):
        return SocketClient.connect_tcp(address.host, address.port, address.token)
    return EventLoopClient(lambda: connect(address))


def refuse_store_without_postgres(address: Address | None, store: str | None) -> None:
    if store is not None and not isinstance(address, PostgresServers):
        raise ConfigError(f"--store {store}: needs a frontier in PostgreSQL: --frontier postgresql://USER@HOST/DB")


def open_manifest(
    address: Address, store: str | None = None, patience_s: float | None = None, *, has_archive: bool = False
) -> tuple[SegmentManifest, LogIdentity] | None:
    """The manifest of the frontier's segment log, to be closed by its opener, and which log it is; None: each machine
    has an archive of its own. `store`: where to create the log, if the frontier is new, or `has_archive` that is pushed
    next; `patience_s`: how long a call waits for an unreachable database. Blocks."""
    refuse_store_without_postgres(address, store)
    if not isinstance(address, PostgresServers):
        return None
    manifest_module = importlib.import_module("tarrafa.frontier.postgres.segment_manifest")
    options = {} if patience_s is None else {"patience_s": patience_s}
    manifest = manifest_module.PostgresManifest(address.dsns[0], **options)
    log = manifest.identity() if store is None else manifest.create(check_store(store), has_archive=has_archive)
    if log is None:
        manifest.close()
        return None
    return manifest, log


class EventLoopClient:
    """Any frontier as a blocking client: an event loop in the calling thread that runs only during a call."""

    def __init__(self, opened: Callable[[], Coroutine[Any, Any, OpenFrontier]]) -> None:
        self._runner = asyncio.Runner()
        try:
            self._frontier = self._runner.run(opened())
        except BaseException:
            self._runner.close()
            raise

    def call(self, method: str, *arguments: Any) -> Any:
        api_call = getattr(self._frontier, method, None)
        if api_call is None:
            raise FrontierError(f"the frontier server has no call {method!r}")
        return self._runner.run(api_call(*arguments))

    def close(self) -> None:
        try:
            self._runner.run(self._frontier.close())
        finally:
            self._runner.close()
