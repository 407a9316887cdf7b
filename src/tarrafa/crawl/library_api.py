"""Library API `pages()`: runs a crawl and yields its pages as they become durable.

`pages` starts a collection, or continues it, and yields its pages as they become durable. The cursor advances when the
caller asks for the next page.
Promises: a program that is killed gets its last page again, and loses none.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from tarrafa.archive.warc_reader import ArchiveEntry, Cursor, bytes_behind, follow
from tarrafa.config import Collection
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.crawl.supervisor.supervisor import Supervisor, submit_collection
from tarrafa.errors import Locked
from tarrafa.frontier.address import connect, local_address
from tarrafa.frontier.api import Frontier
from tarrafa.model import Page
from tarrafa.parse.robots_meta_usage import Use, reserved_uses
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.takedown import CurrentTakedowns

POLL_S = 0.2


async def pages(
    collection: Collection | Path | str,
    data: Path | str = "tarrafa-data",
    *,
    workers: int = 2,
    use: Use | None = None,
    on_reserved: Callable[[Page], None] = lambda page: None,
) -> AsyncGenerator[Page, None]:
    """Yield every page of the collection that this reader has not received yet, until the crawl is over.

    `use`: what the pages are for. A page whose publisher reserves this use goes to `on_reserved` instead, which may
    count it.
    Leaving the loop, or closing the iterator, stops the crawl cleanly if this call started it.
    """
    described = collection if isinstance(collection, Collection) else load_collection(Path(collection))
    directory = DataDirectory(Path(data))
    async with AsyncExitStack() as stack:
        started, stopping = asyncio.Event(), asyncio.Event()
        running = asyncio.create_task(_crawl(directory, described, workers, started, stopping))
        stack.push_async_callback(_stop, running, stopping)
        waiting = asyncio.create_task(started.wait())
        await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        reader = _PageCursor(directory, described.name)
        while True:
            over = running.done()
            for entry in reader.entries():
                page = entry.record.page
                is_there = entry.record.outcome.kept and not entry.record.removed
                if page is not None and is_there and reader.belongs_to_collection(entry):
                    if use is not None and use in reserved_uses(page):
                        on_reserved(page)
                    else:
                        yield page
                reader.advance(entry)
            if over and reader.is_done():
                running.result()
                return
            await asyncio.sleep(POLL_S)


class _PageCursor:
    def __init__(self, data: DataDirectory, name: str) -> None:
        self._archive, self._name, self._taken_down = data.archive, name, CurrentTakedowns(data)
        self._path = data.cursors / f"pages-{name}.json"
        self._cursor: Cursor = msgspec.json.decode(self._path.read_bytes(), type=Cursor) if self._path.exists() else {}

    def entries(self) -> Iterator[ArchiveEntry]:
        return follow(self._archive, dict(self._cursor))

    def belongs_to_collection(self, entry: ArchiveEntry) -> bool:
        return entry.record.collection == self._name and not self._taken_down.covers(entry.record.url)

    def advance(self, entry: ArchiveEntry) -> None:
        self._cursor[entry.file] = entry.end
        write_atomically(self._path, msgspec.json.encode(self._cursor), durable=False)

    def is_done(self) -> bool:
        return bytes_behind(self._archive, self._cursor) == 0


async def _crawl(
    data: DataDirectory, collection: Collection, workers: int, started: asyncio.Event, stopping: asyncio.Event
) -> None:
    """Run the crawl as supervisor, or submit it to the supervisor that runs already."""
    try:
        async with Supervisor(data, workers, submitted=collection) as supervisor:
            started.set()
            async for _ in supervisor.overviews():
                if stopping.is_set():
                    return
    except Locked:
        frontier = await connect(local_address(data))
        await submit_collection(frontier, collection)
        started.set()
        while not stopping.is_set() and await _is_running(frontier, collection.name):  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)
        await frontier.close()


async def _is_running(frontier: Frontier, name: str) -> bool:
    overview = await frontier.overview()
    return any(one.name == name and one.state == "running" for one in overview.collections)


async def _stop(running: "asyncio.Task[None]", stopping: asyncio.Event) -> None:
    """Let the crawl end by itself. A cancellation could be lost: `asyncio.wait_for` of Python 3.11 drops one that comes
    together with its result."""
    stopping.set()
    await asyncio.gather(running, return_exceptions=True)
