"""How is the frontier reached from another process?

`serve` opens any body of the Protocol on a Unix socket; `RemoteFrontier` is the same Protocol at the other end, and
`Line` a plain blocking one for threads. Promise: a lost connection fails every call that was under way, at once and by
name; nothing is silently repeated.
"""

import asyncio
import contextlib
import itertools
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from tarrafa.errors import FrontierError, TarrafaError
from tarrafa.frontier import wire
from tarrafa.frontier.images import Album, Catalogue, CollectionImage, HostImage, Place
from tarrafa.frontier.protocol import (
    CollectionRow,
    Continuation,
    Facts,
    Frontier,
    HostReport,
    Lease,
    Loan,
    Offer,
    Overview,
    PageFacts,
    PlannedVisit,
    ShelfFacts,
    Terms,
    Weight,
)
from tarrafa.model import HostId, UrlId
from tarrafa.process import ProcessId

CALL_TIMEOUT_S = 60.0
GONE = "the URL server went away"


async def serve(frontier: Frontier, path: str) -> asyncio.Server:
    """Answer on a Unix socket that only this user may open."""
    Path(path).unlink(missing_ok=True)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _Session(frontier, writer).run(reader)

    server = await asyncio.start_unix_server(connected, path)
    Path(path).chmod(0o600)
    return server


class _Session:
    """One connection: questions are answered as they get done, not in the order asked."""

    def __init__(self, frontier: Frontier, writer: asyncio.StreamWriter) -> None:
        self._frontier, self._writer = frontier, writer
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(
            asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError, asyncio.CancelledError
        ):  # cancelled: the server ends
            while True:
                asked = wire.decode_question(await _read_frame(reader))
                task = asyncio.create_task(self._answer(asked))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        self._writer.close()

    async def _answer(self, asked: wire.Question) -> None:
        try:
            method = wire.METHODS.get(asked.method)
            if method is None:
                raise FrontierError(f"the URL server knows no {asked.method!r}")
            arguments = method.arguments.decode(asked.arguments)
            reply = wire.answer(asked.number, await getattr(self._frontier, asked.method)(*arguments))
        except Exception as error:  # whoever asked must hear something
            reply = wire.answer(asked.number, None, error)
        with contextlib.suppress(ConnectionError):
            self._writer.write(reply)
            await self._writer.drain()


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    (length,) = wire.LENGTH.unpack(await reader.readexactly(wire.LENGTH.size))
    if length > wire.FRAME_BYTES_MAX:
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
            raise FrontierError(f"{path}: no URL server answers here ({error.strerror or error})") from None

    async def close(self) -> None:
        self._listener.cancel()
        self._writer.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                reply = wire.decode_answer(await _read_frame(reader))
                method, future = self._waiting.pop(reply.number, ("", None))
                if future is None or future.done():
                    continue
                try:
                    future.set_result(wire.result_of(method, reply))
                except TarrafaError as error:
                    future.set_exception(error)
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            pass
        finally:
            self._gone = True
            for _, future in self._waiting.values():
                if future is not None and not future.done():
                    future.set_exception(FrontierError(GONE))
            self._waiting.clear()

    async def _call(self, method: str, *arguments: Any) -> Any:
        if self._gone:
            raise FrontierError(GONE)
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, future)
        self._writer.write(wire.question(number, method, arguments))
        try:
            return await asyncio.wait_for(future, CALL_TIMEOUT_S)
        except TimeoutError:
            self._waiting.pop(number, None)
            raise FrontierError(f"the URL server did not answer {method} within {CALL_TIMEOUT_S:.0f} s") from None

    async def open_collection(self, config: bytes, roots: Sequence[Offer] = ()) -> CollectionRow:
        row: CollectionRow = await self._call("open_collection", config, list(roots))
        return row

    async def collections(self) -> list[CollectionRow]:
        rows: list[CollectionRow] = await self._call("collections")
        return rows

    async def control(self, name: str, state: str, reason: str) -> None:
        await self._call("control", name, state, reason)

    async def discover(self, collection: int, offers: list[Offer]) -> None:
        await self._call("discover", collection, offers)

    async def join(self, name: str, process: ProcessId) -> Terms:
        terms: Terms = await self._call("join", name, process)
        return terms

    async def renew(self, worker: int, note: str) -> float:
        lease_s: float = await self._call("renew", worker, note)
        return lease_s

    async def leave(self, worker: int) -> None:
        await self._call("leave", worker)

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        leases: list[Lease] = await self._call("lease", worker, hosts)
        return leases

    async def borrow(self, worker: int, collection: int, host: HostId, host_key: str) -> Loan:
        loan: Loan = await self._call("borrow", worker, collection, host, host_key)
        return loan

    async def robots_text(self, digest: bytes) -> bytes:
        text: bytes = await self._call("robots_text", digest)
        return text

    async def claim(self, worker: int, host: HostId, address: str) -> float:
        free_at: float = await self._call("claim", worker, host, address)
        return free_at

    async def finish(self, worker: int, batch: list[HostReport]) -> list[Continuation]:
        answers: list[Continuation] = await self._call("finish", worker, batch)
        return answers

    async def weigh(self, collection: str, weights: list[Weight]) -> None:
        await self._call("weigh", collection, weights)

    async def look_up(self, host: HostId, url: UrlId) -> Facts:
        facts: Facts = await self._call("look_up", host, url)
        return facts

    async def overview(self) -> Overview:
        overview: Overview = await self._call("overview")
        return overview

    async def unplanned(self) -> list[int]:
        numbers: list[int] = await self._call("unplanned")
        return numbers

    async def pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[PageFacts]:
        pages: list[PageFacts] = await self._call("pages", collection, host, url, limit)
        return pages

    async def shelves(self, collection: int, host: HostId, limit: int) -> list[ShelfFacts]:
        shelves: list[ShelfFacts] = await self._call("shelves", collection, host, limit)
        return shelves

    async def price(self, collection: int, price: float) -> None:
        await self._call("price", collection, price)

    async def stir(self, collection: int, host: HostId, limit: int) -> HostId | None:
        last: HostId | None = await self._call("stir", collection, host, limit)
        return last

    async def plan(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        await self._call("plan", collection, number, visits)

    async def begin_plan(self, collection: int, number: int, end: float) -> None:
        await self._call("begin_plan", collection, number, end)

    async def drop_plans(self, collection: int, limit: int) -> int:
        count: int = await self._call("drop_plans", collection, limit)
        return count

    async def catalogue(self) -> Catalogue:
        catalogue: Catalogue = await self._call("catalogue")
        return catalogue

    async def images(self, after: Place, limit: int) -> Album:
        album: Album = await self._call("images", after, limit)
        return album

    async def restore_collection(self, image: CollectionImage) -> CollectionRow:
        row: CollectionRow = await self._call("restore_collection", image)
        return row

    async def restore(self, images: list[HostImage]) -> None:
        await self._call("restore", images)

    async def forget(self, host: HostId) -> None:
        await self._call("forget", host)


class Line:
    """One blocking connection, for a thread that must not depend on any event loop."""

    def __init__(self, path: str) -> None:
        self._numbers = itertools.count()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(CALL_TIMEOUT_S)
        try:
            self._socket.connect(path)
        except OSError as error:
            raise FrontierError(f"{path}: no URL server answers here ({error.strerror or error})") from None

    def call(self, method: str, *arguments: Any) -> Any:
        """Ask and wait for the answer."""
        number = next(self._numbers)
        try:
            self._socket.sendall(wire.question(number, method, arguments))
            (length,) = wire.LENGTH.unpack(self._exactly(wire.LENGTH.size))
            reply = wire.decode_answer(self._exactly(length))
        except OSError as error:
            raise FrontierError(f"{GONE} ({error.strerror or error})") from None
        return wire.result_of(method, reply)

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            part = self._socket.recv(min(1 << 20, count - len(parts)))
            if not part:
                raise ConnectionResetError(0, "connection closed")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        self._socket.close()
