"""The frontier on a list of PostgreSQL servers."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from tarrafa.clock import Clock
from tarrafa.frontier.protocol import (
    CollectionRow,
    Continuation,
    Facts,
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
from tarrafa.frontier.store.hosts import LeaseClock
from tarrafa.frontier.store.postgres.server import Server
from tarrafa.model import HostId, UrlId
from tarrafa.process import ProcessId

T = TypeVar("T")


class PostgresFrontier:
    """The Protocol on one database."""

    def __init__(
        self, dsn: str, suffix_list: str, clock: Clock | None = None, lease_clock: LeaseClock | None = None
    ) -> None:
        self._server = Server(dsn, suffix_list, clock, lease_clock)
        self._thread = ThreadPoolExecutor(1, "frontier")

    async def close(self) -> None:
        self._thread.shutdown()
        self._server.close()

    async def _call(self, work: Callable[[Server], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._server)

    async def open_collection(self, config: bytes, roots: Sequence[Offer] = ()) -> CollectionRow:
        return await self._call(lambda server: server.open_collection(config, list(roots)))

    async def collections(self) -> list[CollectionRow]:
        return await self._call(lambda server: server.collections())

    async def control(self, name: str, state: str, reason: str) -> None:
        await self._call(lambda server: server.control(name, state, reason))

    async def discover(self, collection: int, offers: list[Offer]) -> None:
        await self._call(lambda server: server.discover(collection, offers))

    async def join(self, name: str, process: ProcessId) -> Terms:
        return await self._call(lambda server: server.join(name, process))

    async def renew(self, worker: int, note: str) -> float:
        return await self._call(lambda server: server.renew(worker, note))

    async def leave(self, worker: int) -> None:
        await self._call(lambda server: server.leave(worker))

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        return await self._call(lambda server: server.lease(worker, hosts))

    async def borrow(self, worker: int, collection: int, host: HostId, host_key: str) -> Loan:
        return await self._call(lambda server: server.borrow(worker, collection, host, host_key))

    async def robots_text(self, digest: bytes) -> bytes:
        return await self._call(lambda server: server.robots_text(digest))

    async def claim(self, worker: int, host: HostId, address: str) -> float:
        return await self._call(lambda server: server.claim(worker, host, address))

    async def finish(self, worker: int, batch: list[HostReport]) -> list[Continuation]:
        return await self._call(lambda server: server.finish(worker, batch))

    async def weigh(self, collection: str, weights: list[Weight]) -> None:
        await self._call(lambda server: server.weigh(collection, weights))

    async def look_up(self, host: HostId, url: UrlId) -> Facts:
        return await self._call(lambda server: server.look_up(host, url))

    async def overview(self) -> Overview:
        return await self._call(lambda server: server.overview())

    async def unplanned(self) -> list[int]:
        return await self._call(lambda server: server.unplanned())

    async def pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[PageFacts]:
        return await self._call(lambda server: server.pages(collection, host, url, limit))

    async def shelves(self, collection: int, host: HostId, limit: int) -> list[ShelfFacts]:
        return await self._call(lambda server: server.shelves(collection, host, limit))

    async def price(self, collection: int, price: float) -> None:
        await self._call(lambda server: server.price(collection, price))

    async def stir(self, collection: int, host: HostId, limit: int) -> HostId | None:
        return await self._call(lambda server: server.stir(collection, host, limit))

    async def plan(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        await self._call(lambda server: server.plan(collection, number, visits))

    async def begin_plan(self, collection: int, number: int, end: float) -> None:
        await self._call(lambda server: server.begin_plan(collection, number, end))

    async def drop_plans(self, collection: int, limit: int) -> int:
        return await self._call(lambda server: server.drop_plans(collection, limit))
