"""A real worker at a real frontier, in the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.worker import StopSignal, Worker
from tarrafa.crawl.worker.worker_fence import register
from tarrafa.frontier.address import UnixSocket
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import sync_clock
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.frontier.rpc import frontier_client, frontier_server
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.runtime.data_dir import DataDirectory
from tests.wait import wait_until

CONNECTIONS_MAX = 100


@asynccontextmanager
async def running_worker(folder: Path) -> AsyncIterator[tuple[SqliteFrontier, DataDirectory]]:
    """A worker that runs until the context ends, and then commits and hands back what it has."""
    data, clock = DataDirectory(folder / "data"), Clock.real()
    data.create()
    frontier = SqliteFrontier(data.frontier, clock, "test\n")
    server = await frontier_server.serve_unix(frontier, data.socket)
    line = await frontier_client.RemoteFrontier.connect(data.socket)
    agreed = await sync_clock(line, clock)
    registered = await register(line, data, "w1")
    worker = Worker(data, "w1", UnixSocket(data.socket), line, agreed, registered, CONNECTIONS_MAX, 1, StopSignal())
    work = asyncio.create_task(worker.run())
    try:
        yield frontier, data
    finally:
        worker.stop()
        await work
        await line.close()
        server.close()
        await frontier.close()


async def submit(frontier: Frontier, table: dict[str, object]) -> None:
    """Begin a collection, or go on with it otherwise."""
    collection = config.collection_from_table(table, "test")
    await frontier.open_collection(config.encode_collection(collection), list(Admission(collection).admit_roots()))


async def numbers(frontier: Frontier, name: str = "c") -> CollectionStatus:
    return next(one for one in (await frontier.overview()).collections if one.name == name)


async def wait_until_nothing_is_out(frontier: Frontier) -> None:
    async def nothing_is_out() -> bool:
        return not (await numbers(frontier)).handed_out

    await wait_until(nothing_is_out)


async def wait_until_nothing_waits(frontier: Frontier) -> None:
    async def nothing_waits() -> bool:
        now = await numbers(frontier)
        return not now.handed_out and not now.pending

    await wait_until(nothing_waits)
