"""RPC client of the frontier: `RemoteFrontier` for coroutines and `SocketClient` for threads, over a Unix socket or
TCP.

`serve` opens any body of the Protocol on a Unix socket (`door.py`: on TCP); `RemoteFrontier` is the same Protocol at
the other end, and `Line` a plain blocking one for threads. Promise: a lost connection fails every call that was under
way, at once and by name; nothing is silently repeated; a peer that is cut off is noticed.
"""

import asyncio
import contextlib
import itertools
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tarrafa.clock import boottime
from tarrafa.errors import AccessRefused, FrontierError, TarrafaError, Unreachable
from tarrafa.frontier.api import (
    ClockReading,
    CollectionRow,
    DeletedCollection,
    DiscoveredUrl,
    Frontier,
    FrontierCollectionState,
    FrontierOverview,
    HostCounts,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    PlannedVisit,
    RetryBatch,
    RevisitPage,
    RevisitShelf,
    TakedownBatch,
    UrlLookup,
    UrlStatusFacts,
    UrlWeight,
    WorkerRegistration,
)
from tarrafa.frontier.rpc import codec, handshake
from tarrafa.frontier.transfer.host_export import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
from tarrafa.i18n import Message
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.process import ProcessId
from tarrafa.runtime.token import Token
from tarrafa.takedown import TakedownEntry

CALL_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0  # handshake included
REQUESTS_AT_ONCE_MAX = 256  # of one connection; it is not read from while so many wait
KEEPALIVE_IDLE_S, KEEPALIVE_EVERY_S, KEEPALIVE_PROBES = 10, 5, 3
SERVER_GONE = "the URL server went away"


def keep_alive(connection: "socket.socket") -> None:
    """Let the kernel find out, within half a minute, that the other machine is cut off or has lost its power."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_EVERY_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
    unheard_s = KEEPALIVE_IDLE_S + KEEPALIVE_EVERY_S * KEEPALIVE_PROBES
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unheard_s * 1000)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def serve_unix(frontier: Frontier, path: str) -> asyncio.Server:
    """Answer on a Unix socket that only this user may open."""
    Path(path).unlink(missing_ok=True)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await RpcSession(frontier, writer).run(reader)

    server = await asyncio.start_unix_server(connected, path)
    Path(path).chmod(0o600)
    return server


class RpcStats:
    """What this process has been asked so far, and by how many at this moment."""

    responses = sessions = 0


class RpcSession:
    """One connection: questions are answered as they get done, not in the order asked."""

    def __init__(self, frontier: Frontier, writer: asyncio.StreamWriter) -> None:
        self._frontier, self._writer = frontier, writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(REQUESTS_AT_ONCE_MAX)

    async def run(self, reader: asyncio.StreamReader) -> None:
        RpcStats.sessions += 1
        try:
            await self._serve_requests(reader)
        finally:
            RpcStats.sessions -= 1

    async def _serve_requests(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(
            asyncio.IncompleteReadError, OSError, *codec.DECODE_ERRORS, asyncio.CancelledError
        ):  # cancelled: the server ends
            while True:
                asked = codec.decode_request(await read_frame(reader))
                await self._room.acquire()
                task = asyncio.create_task(self._respond(asked))
                self._tasks.add(task)
                task.add_done_callback(self._request_done)
        self._writer.close()

    def _request_done(self, task: "asyncio.Task[None]") -> None:
        RpcStats.responses += 1
        self._tasks.discard(task)
        self._room.release()

    async def _respond(self, asked: codec.RpcRequest) -> None:
        try:
            method = codec.METHODS.get(asked.method)
            if method is None:
                raise FrontierError(f"the URL server knows no {asked.method!r}")
            arguments = method.arguments.decode(asked.arguments)
            reply = codec.encode_response(asked.number, await getattr(self._frontier, asked.method)(*arguments))
        except Exception as error:  # whoever asked must hear something
            reply = codec.encode_response(asked.number, None, error)
        with contextlib.suppress(OSError):
            self._writer.write(reply)
            await self._writer.drain()


async def read_frame(reader: asyncio.StreamReader, bytes_max: int = codec.FRAME_BYTES_MAX) -> bytes:
    (length,) = codec.LENGTH_PREFIX.unpack(await reader.readexactly(codec.LENGTH_PREFIX.size))
    if length > bytes_max:
        raise ConnectionError(f"a frame of {length} bytes")
    return await reader.readexactly(length)


class RemoteFrontier:
    """The Protocol over a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[str, asyncio.Future[Any] | None]] = {}
        self._gone = False
        self._listener = asyncio.create_task(self._listen(reader))

    @classmethod
    async def connect(cls, path: str) -> "RemoteFrontier":
        try:
            return cls(*await asyncio.open_unix_connection(path))
        except OSError as error:
            raise Unreachable(f"{path}: no URL server answers here ({error.strerror or error})") from None

    @classmethod
    async def connect_tcp(cls, host: str, port: int, token: Token) -> "RemoteFrontier":
        where, writer = _where(host, port), None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(host, port)
                keep_alive(writer.get_extra_info("socket"))
                await _run_handshake(reader, writer, token, where)
                return cls(reader, writer)
        except BaseException as error:
            if writer is not None:
                writer.close()
            raise _translate_connect_error(error, where) from None

    async def close(self) -> None:
        self._listener.cancel()
        self._writer.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                reply = codec.decode_response(await read_frame(reader))
                method, future = self._waiting.pop(reply.number, ("", None))
                if future is None or future.done():
                    continue
                try:
                    future.set_result(codec.decode_result(method, reply))
                except TarrafaError as error:
                    future.set_exception(error)
                except codec.DECODE_ERRORS:
                    future.set_exception(FrontierError(f"the URL server's answer to {method} makes no sense"))
        except (asyncio.IncompleteReadError, OSError, *codec.DECODE_ERRORS):
            pass
        finally:
            self._gone = True
            for _, future in self._waiting.values():
                if future is not None and not future.done():
                    future.set_exception(Unreachable(SERVER_GONE))
            self._waiting.clear()

    async def _call(self, method: str, *arguments: Any) -> Any:
        if self._gone:
            raise Unreachable(SERVER_GONE)
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, future)
        self._writer.write(codec.encode_request(number, method, arguments))
        try:
            return await asyncio.wait_for(future, CALL_TIMEOUT_S)
        except TimeoutError:
            self._waiting.pop(number, None)
            raise Unreachable(f"the URL server did not answer {method} within {CALL_TIMEOUT_S:.0f} s") from None

    async def open_collection(
        self, config: bytes, roots: Sequence[DiscoveredUrl] = (), start: bool = True
    ) -> CollectionRow:
        row: CollectionRow = await self._call("open_collection", config, list(roots), start)
        return row

    async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        await self._call("seed", collection, roots)

    async def begin_run(self, name: str, reason: Message | str) -> CollectionRow:
        row: CollectionRow = await self._call("begin_run", name, reason)
        return row

    async def sweep(self, name: str, limit: int) -> bool:
        more: bool = await self._call("sweep", name, limit)
        return more

    async def delete_collection(self, name: str, limit: int) -> bool:
        more: bool = await self._call("delete_collection", name, limit)
        return more

    async def record_deletion(self, name: str) -> bool:
        noted: bool = await self._call("record_deletion", name)
        return noted

    async def deletions(self, after: int) -> list[DeletedCollection]:
        found: list[DeletedCollection] = await self._call("deletions", after)
        return found

    async def retry_host(self, host: HostId, host_key: str) -> None:
        await self._call("retry_host", host, host_key)

    async def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        facts: UrlStatusFacts = await self._call("urls_by_status", name, status)
        return facts

    async def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        retried: RetryBatch = await self._call("retry_by_status", name, status, after, limit)
        return retried

    async def host_counts(self, name: str) -> HostCounts:
        counts: HostCounts = await self._call("host_counts", name)
        return counts

    async def collections(self) -> list[CollectionRow]:
        rows: list[CollectionRow] = await self._call("collections")
        return rows

    async def collection(self, name: str) -> CollectionRow | None:
        row: CollectionRow | None = await self._call("collection", name)
        return row

    async def collection_states(self) -> list[FrontierCollectionState]:
        found: list[FrontierCollectionState] = await self._call("collection_states")
        return found

    async def set_state(self, name: str, state: str, reason: Message | str) -> None:
        await self._call("set_state", name, state, reason)

    async def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        await self._call("discover", collection, offers)

    async def join(self, name: str, process: ProcessId) -> WorkerRegistration:
        terms: WorkerRegistration = await self._call("join", name, process)
        return terms

    async def release_process(self, process: ProcessId) -> None:
        await self._call("release_process", process)

    async def time(self) -> ClockReading:
        instant: ClockReading = await self._call("time")
        return instant

    async def renew(self, worker: int, note: str) -> float:
        lease_s: float = await self._call("renew", worker, note)
        return lease_s

    async def leave(self, worker: int) -> None:
        await self._call("leave", worker)

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        leases: list[Lease] = await self._call("lease", worker, hosts)
        return leases

    async def held_leases(self, worker: int) -> list[Lease]:
        leases: list[Lease] = await self._call("held_leases", worker)
        return leases

    async def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        loan: HostLoan = await self._call("borrow_host", worker, collection, host, host_key)
        return loan

    async def robots_text(self, digest: bytes) -> bytes:
        text: bytes = await self._call("robots_text", digest)
        return text

    async def claim_address(self, worker: int, host: HostId, address: str) -> float:
        free_at: float = await self._call("claim_address", worker, host, address)
        return free_at

    async def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        answers: list[NextVisits] = await self._call("finish", worker, batch)
        return answers

    async def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        await self._call("update_weights", collection, weights)

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        facts: UrlLookup = await self._call("look_up", host, url)
        return facts

    async def overview(self) -> FrontierOverview:
        overview: FrontierOverview = await self._call("overview")
        return overview

    async def collections_to_plan(self) -> list[int]:
        numbers: list[int] = await self._call("collections_to_plan")
        return numbers

    async def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        pages: list[RevisitPage] = await self._call("revisit_pages", collection, host, url, limit)
        return pages

    async def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        shelves: list[RevisitShelf] = await self._call("revisit_shelves", collection, host, limit)
        return shelves

    async def set_price(self, collection: int, price: float) -> None:
        await self._call("set_price", collection, price)

    async def recompute_due(self, collection: int, host: HostId, limit: int) -> HostId | None:
        last: HostId | None = await self._call("recompute_due", collection, host, limit)
        return last

    async def add_planned_visits(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        await self._call("add_planned_visits", collection, number, visits)

    async def activate_plan(self, collection: int, number: int, end: float) -> None:
        await self._call("activate_plan", collection, number, end)

    async def drop_old_plans(self, collection: int, limit: int) -> int:
        count: int = await self._call("drop_old_plans", collection, limit)
        return count

    async def export_catalogue(self) -> ExportCatalogue:
        catalogue: ExportCatalogue = await self._call("export_catalogue")
        return catalogue

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        album: ExportBatch = await self._call("export_hosts", after, limit)
        return album

    async def import_collection(self, image: CollectionExport) -> CollectionRow:
        row: CollectionRow = await self._call("import_collection", image)
        return row

    async def import_hosts(self, images: list[HostExport]) -> None:
        await self._call("import_hosts", images)

    async def import_deletions(self, moments: dict[str, float]) -> None:
        await self._call("import_deletions", moments)

    async def forget_host(self, host: HostId) -> None:
        await self._call("forget_host", host)

    async def record_takedowns(self, entries: list[TakedownEntry]) -> None:
        await self._call("record_takedowns", entries)

    async def takedowns(self, after: int) -> TakedownBatch:
        told: TakedownBatch = await self._call("takedowns", after)
        return told


async def _run_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: Token, where: str) -> None:
    talk = handshake.client_handshake(token, where)
    frame = next(talk)
    with contextlib.suppress(StopIteration):
        while True:
            writer.write(frame)
            frame = talk.send(await read_frame(reader, handshake.FRAME_BYTES_MAX))


def _where(host: str, port: int) -> str:
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"


def _translate_connect_error(error: BaseException, where: str) -> BaseException:
    """Why no connection came about."""
    if isinstance(error, TimeoutError) and not error.errno:
        return Unreachable(f"{where}: no URL server answered within {CONNECT_TIMEOUT_S:.0f} s")
    if isinstance(error, ConnectionError) and not error.errno:  # a frame that no server of ours would send
        return AccessRefused(f"{where}: {handshake.NOT_A_FRONTIER}")
    if isinstance(error, asyncio.IncompleteReadError | EOFError):
        return Unreachable(f"{where}: it hung up on us before we could ask anything")
    if isinstance(error, OSError):
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        return Unreachable(f"{where}: no URL server answers here ({reason})")
    return error


class SocketClient:
    """One blocking connection, for a thread that must not depend on any event loop."""

    def __init__(self, connection: "socket.socket") -> None:
        self._numbers = itertools.count()
        self._socket = connection

    @classmethod
    def connect_unix(cls, path: str) -> "SocketClient":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError as error:
            connection.close()
            raise Unreachable(f"{path}: no URL server answers here ({error.strerror or error})") from None
        return cls(connection)

    @classmethod
    def connect_tcp(cls, host: str, port: int, token: Token) -> "SocketClient":
        where, connection, until = _where(host, port), None, boottime() + CONNECT_TIMEOUT_S
        try:
            connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
            keep_alive(connection)
            talk = handshake.client_handshake(token, where)
            frame = next(talk)
            with contextlib.suppress(StopIteration):
                while True:
                    connection.sendall(frame)
                    frame = talk.send(_receive_frame(connection, until, handshake.FRAME_BYTES_MAX))
        except BaseException as error:
            if connection is not None:
                connection.close()
            raise _translate_connect_error(error, where) from None
        return cls(connection)

    def call(self, method: str, *arguments: Any) -> Any:
        """Ask and wait for the answer."""
        number, until = next(self._numbers), boottime() + CALL_TIMEOUT_S
        try:
            self._socket.settimeout(CALL_TIMEOUT_S)
            self._socket.sendall(codec.encode_request(number, method, arguments))
            reply = codec.decode_response(_receive_frame(self._socket, until, codec.FRAME_BYTES_MAX))
        except (OSError, EOFError, *codec.DECODE_ERRORS) as error:
            raise Unreachable(f"{SERVER_GONE} ({getattr(error, 'strerror', None) or error})") from None
        if reply.number != number:  # an answer that came too late for somebody who went on
            raise Unreachable(SERVER_GONE)
        return codec.decode_result(method, reply)

    def close(self) -> None:
        self._socket.close()


def _receive_frame(connection: "socket.socket", until: float, bytes_max: int) -> bytes:
    (length,) = codec.LENGTH_PREFIX.unpack(_receive(connection, codec.LENGTH_PREFIX.size, until))
    if length > bytes_max:
        raise ConnectionError(f"a frame of {length} bytes")
    return _receive(connection, length, until)


def _receive(connection: "socket.socket", count: int, until: float) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        connection.settimeout(max(0.001, until - boottime()))
        part = connection.recv(min(1 << 20, count - len(parts)))
        if not part:
            raise EOFError("connection closed")
        parts += part
    return bytes(parts)
