"""The frontier in one SQLite file.

Promises: what a call has returned for survives a power cut; calls that arrive together share one commit; a call that
fails changes nothing and harms no other. One thread does all the work, so nothing here needs a lock.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import apsw

from tarrafa.clock import Clock
from tarrafa.data import DataDirectory, open_to_read, try_lock
from tarrafa.errors import DataError, DiskFull, Locked, TarrafaError
from tarrafa.frontier.images import Album, Catalogue, CollectionImage, HostImage, Place
from tarrafa.frontier.protocol import (
    ENTRIES_PER_ANSWER,
    FIRST_HOST,
    CollectionRow,
    Continuation,
    Deletion,
    Facts,
    HostCounts,
    HostReport,
    Instant,
    Lease,
    Loan,
    Offer,
    Overview,
    PageFacts,
    PlannedVisit,
    Retried,
    ShelfFacts,
    Standing,
    StatusFacts,
    Terms,
    Weight,
    Withholding,
)
from tarrafa.frontier.store.alike import facts_of
from tarrafa.frontier.store.breadth import Breadth
from tarrafa.frontier.store.collections import Collections, Counters, Known
from tarrafa.frontier.store.facts import look_up
from tarrafa.frontier.store.hosts import LeaseClock
from tarrafa.frontier.store.planning import Planning
from tarrafa.frontier.store.ready import Ready
from tarrafa.frontier.store.revisits import Revisits
from tarrafa.frontier.store.schema import Database, check_schema, open_tables
from tarrafa.frontier.store.store import Store
from tarrafa.model import HostId, UrlId
from tarrafa.process import ProcessId
from tarrafa.takedown import Entry, TakenDown, append, read_from

JOBS_PER_COMMIT_MAX = 256
PAGES_PER_READ = 5_000
T = TypeVar("T")


@dataclass(slots=True)
class _Job:
    work: Callable[[Store], Any]
    future: "asyncio.Future[Any]"
    loop: asyncio.AbstractEventLoop
    result: Any = None
    error: BaseException | None = None

    def deliver(self) -> None:
        self.loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self.future.done():
            return
        if self.error is not None:
            self.future.set_exception(self.error)
        else:
            self.future.set_result(self.result)


class SqliteFrontier:
    """The Protocol on one file. `on_fatal` is told when the file can no longer be written."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        suffix_list: str,
        on_fatal: Callable[[TarrafaError], None] | None = None,
        lease_clock: LeaseClock | None = None,
    ) -> None:
        lock = try_lock(path.with_name(path.name + ".lock"))
        if lock is None:
            raise Locked(f"{path}: another process has the frontier open")
        self._lock, self._path, self._on_fatal = lock, path, on_fatal
        self._data = DataDirectory(path.parent)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        try:
            self._store = Store(open_tables(str(path), suffix_list), clock, lease_clock or LeaseClock())
            self._store.is_taken_down = TakenDown(self._data).covers
        except apsw.Error as error:
            raise self._translate(error) from None
        self._thread = threading.Thread(target=self._run, name="frontier", daemon=True)
        self._thread.start()

    async def close(self) -> None:
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._store.db.connection.close()
        self._lock.close()

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            jobs: list[_Job] = [job]
            while len(jobs) < JOBS_PER_COMMIT_MAX and not self._jobs.empty():
                more = self._jobs.get()
                if more is None:
                    self._jobs.put(None)
                    break
                jobs.append(more)
            self._commit(jobs)
            for done in jobs:
                done.deliver()

    def _commit(self, jobs: list[_Job]) -> None:
        store = self._store
        try:
            store.db.connection.execute("BEGIN IMMEDIATE")
            for job in jobs:
                self._attempt(job)
            store.counters.flush()
            store.catalogue.flush()
            store.mark()
            store.db.connection.execute("COMMIT")
            store.counters.settle()
        except Exception as error:
            with contextlib.suppress(apsw.Error):
                store.db.connection.execute("ROLLBACK")
            store.counters.forget()
            store.catalogue.reload()
            told = self._translate(error) if isinstance(error, apsw.Error) else DataError(f"{self._path}: {error!r}")
            for job in jobs:
                job.error = job.error or told
            if self._on_fatal is not None:
                self._on_fatal(told)

    def _attempt(self, job: _Job) -> None:
        """One call within the shared transaction: if it fails, it alone is undone."""
        store, before = self._store, self._store.counters.snapshot()
        store.db.connection.execute("SAVEPOINT job")
        try:
            job.result = job.work(store)
        except (apsw.FullError, apsw.IOError, apsw.CorruptError, apsw.ReadOnlyError, apsw.CantOpenError):
            raise
        except Exception as error:
            job.error = self._translate(error) if isinstance(error, apsw.Error) else error
            store.db.connection.execute("ROLLBACK TO job")
            store.counters.restore(before)
            store.catalogue.flush()  # the numbers that earlier calls of this transaction have given out
            store.catalogue.reload()
        store.db.connection.execute("RELEASE job")

    def _translate(self, error: apsw.Error) -> DataError:
        if isinstance(error, apsw.FullError | apsw.IOError):
            return DiskFull(
                f"{self._path}: the disk is full or cannot be written ({error}); "
                "free some space and run the command again"
            )
        return _in_our_words(self._path, error)

    async def _call(self, work: Callable[[Store], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, future, loop))
        return await future

    async def open_collection(self, config: bytes, roots: Sequence[Offer] = (), start: bool = True) -> CollectionRow:
        return await self._call(lambda store: store.open_collection(config, list(roots), start))

    async def seed(self, collection: int, roots: list[Offer]) -> None:
        await self._call(lambda store: store.urls.seed(collection, roots))

    async def begin_run(self, name: str, reason: str) -> CollectionRow:
        return await self._call(lambda store: store.begin_run(name, reason))

    async def sweep(self, name: str, limit: int) -> bool:
        return await self._call(lambda store: store.sweep(name, limit))

    async def delete_collection(self, name: str, limit: int) -> bool:
        return await self._call(lambda store: store.delete_collection(name, limit))

    async def note_deletion(self, name: str) -> bool:
        return await self._call(lambda store: store.note_deletion(name))

    async def deletions(self, after: int) -> list[Deletion]:
        return await self._call(lambda store: store.deletions.after(after))

    async def retry(self, host: HostId, host_key: str) -> None:
        await self._call(lambda store: store.trouble.retry(host))

    async def alike(self, name: str, status: int) -> StatusFacts:
        """By a connection of its own, which keeps nobody waiting."""
        return await asyncio.to_thread(read_alike, self._path, name, status, self._store.clock)

    async def retry_alike(self, name: str, status: int, after: Place, limit: int) -> Retried:
        return await self._call(lambda store: store.alike.retry(store.catalogue.named(name), status, after, limit))

    async def hosts(self, name: str) -> HostCounts:
        return await self._call(lambda store: store.trouble.counts(name))

    async def collections(self) -> list[CollectionRow]:
        return await self._call(lambda store: store.catalogue.rows())

    async def collection(self, name: str) -> CollectionRow | None:
        return await self._call(lambda store: store.catalogue.row(name))

    async def standings(self) -> list[Standing]:
        return await self._call(lambda store: store.catalogue.standings())

    async def control(self, name: str, state: str, reason: str) -> None:
        await self._call(lambda store: store.catalogue.control(name, state, reason))

    async def discover(self, collection: int, offers: list[Offer]) -> None:
        await self._call(lambda store: store.urls.discover(collection, offers))

    async def join(self, name: str, process: ProcessId) -> Terms:
        return await self._call(lambda store: store.join(name, process))

    async def bury(self, process: ProcessId) -> None:
        await self._call(lambda store: store.bury(process))

    async def time(self) -> Instant:
        return Instant(self._store.clock.now(), self._store.clock.scale)

    async def renew(self, worker: int, note: str) -> float:
        return await self._call(lambda store: store.hosts.renew(worker, note))

    async def leave(self, worker: int) -> None:
        await self._call(lambda store: store.hosts.free(worker))

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        return await self._call(lambda store: store.lease(worker, hosts))

    async def held(self, worker: int) -> list[Lease]:
        return await self._call(lambda store: store.hosts.held(worker))

    async def borrow(self, worker: int, collection: int, host: HostId, host_key: str) -> Loan:
        return await self._call(lambda store: store.hosts.borrow(worker, collection, host, host_key))

    async def robots_text(self, digest: bytes) -> bytes:
        return await self._call(lambda store: store.hosts.robots_text(digest))

    async def claim(self, worker: int, host: HostId, address: str) -> float:
        return await self._call(lambda store: store.hosts.claim(worker, host, address))

    async def finish(self, worker: int, batch: list[HostReport]) -> list[Continuation]:
        return await self._call(lambda store: store.hosts.finish(worker, batch))

    async def weigh(self, collection: str, weights: list[Weight]) -> None:
        await self._call(lambda store: store.weigh(collection, weights))

    async def look_up(self, host: HostId, url: UrlId) -> Facts:
        return await self._call(lambda store: store.look_up(host, url))

    async def overview(self) -> Overview:
        return await self._call(lambda store: store.overview())

    async def unplanned(self) -> list[int]:
        return await self._call(lambda store: store.planning.unplanned())

    async def pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[PageFacts]:
        return await self._plan(collection, lambda known, planning: planning.pages(known, host, url, limit))

    async def shelves(self, collection: int, host: HostId, limit: int) -> list[ShelfFacts]:
        return await self._plan(collection, lambda known, planning: planning.shelves(known, host, limit))

    async def price(self, collection: int, price: float) -> None:
        await self._plan(collection, lambda known, planning: planning.price(known, price))

    async def stir(self, collection: int, host: HostId, limit: int) -> HostId | None:
        return await self._plan(collection, lambda known, planning: planning.stir(known, host, limit))

    async def plan(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        await self._plan(collection, lambda known, planning: planning.plan(known, number, visits))

    async def begin_plan(self, collection: int, number: int, end: float) -> None:
        await self._plan(collection, lambda known, planning: planning.begin_plan(known, number, end))

    async def drop_plans(self, collection: int, limit: int) -> int:
        return await self._plan(collection, lambda known, planning: planning.drop_plans(known, limit))

    async def catalogue(self) -> Catalogue:
        return await self._call(lambda store: store.images.catalogue())

    async def images(self, after: Place, limit: int) -> Album:
        return await self._call(lambda store: store.images.after(after, limit))

    async def restore_collection(self, image: CollectionImage) -> CollectionRow:
        return await self._call(lambda store: store.catalogue.restore(image).row)

    async def restore(self, images: list[HostImage]) -> None:
        await self._call(lambda store: store.images.restore(images))

    async def restore_deletions(self, moments: dict[str, float]) -> None:
        await self._call(lambda store: store.deletions.remember(moments))

    async def forget(self, host: HostId) -> None:
        await self._call(lambda store: store.images.forget(host))

    async def withhold(self, entries: list[Entry]) -> None:
        """In the log beside our file: whoever looks at this directory sees it there."""
        await asyncio.to_thread(append, self._data, entries)

    async def withheld(self, after: int) -> Withholding:
        return Withholding(*await asyncio.to_thread(read_from, self._data, after, ENTRIES_PER_ANSWER))

    async def _plan(self, collection: int, work: Callable[[Known, Planning], T]) -> T:
        return await self._call(lambda store: work(store.catalogue.by_id(collection), store.planning))


def last_seen(path: Path) -> float:
    """What the frontier's clock showed when its file was last open, to a few seconds; 0 if it never was."""
    if not path.exists():
        return 0.0
    try:
        db = Database(open_to_read(path))
        try:
            return float(db.value("SELECT value FROM meta WHERE key = 'clock'") or 0.0)
        finally:
            db.connection.close()
    except apsw.Error:  # whoever opens it for writing says what is wrong
        return 0.0


def read_overview(path: Path) -> Overview:
    """The frontier's numbers while no process owns it."""
    return _read(path, lambda db: Overview(Collections(db, Counters(db), Clock.real()).status(), []))


def read_rows(path: Path) -> list[CollectionRow]:
    """The collections while no process owns the frontier."""
    return _read(path, lambda db: Collections(db, Counters(db), Clock.real()).rows())


def read_facts(path: Path, host: HostId, url: UrlId) -> Facts:
    """What is known of a URL while no process owns the frontier."""

    def read(db: Database) -> Facts:
        counters, clock = Counters(db), Clock.real()
        collections, ready = Collections(db, counters, clock), Ready(db)
        revisits, breadth = Revisits(db, counters, ready, clock), Breadth(db, counters, ready, clock)
        return look_up(db, host, url, collections, revisits, breadth)

    return _read(path, read)


def read_alike(path: Path, name: str, status: int, clock: Clock) -> StatusFacts:
    """What ended alike, as of the last commit."""

    def read(db: Database) -> StatusFacts:
        known = Collections(db, Counters(db), clock).named(name)
        return facts_of(known, status, clock.now(), db.rows)

    return _read(path, read)


def read_pages(path: Path, name: str) -> tuple[CollectionRow, list[PageFacts]]:
    """A collection and its pages that are kept fresh, while no process owns the frontier."""

    def read(db: Database) -> tuple[CollectionRow, list[PageFacts]]:
        counters, clock = Counters(db), Clock.real()
        collections = Collections(db, counters, clock)
        planning = Planning(db, counters, collections, Revisits(db, counters, Ready(db), clock), clock)
        known = collections.named(name)
        return known.row, planning.pages(known, FIRST_HOST, b"", -1)

    return _read(path, read)


def each_page(path: Path, name: str, take: Callable[[list[PageFacts]], None]) -> None:
    """Show a collection's pages that are kept fresh, some at a time, while no process owns the frontier."""

    def read(db: Database) -> None:
        counters, clock = Counters(db), Clock.real()
        collections = Collections(db, counters, clock)
        planning = Planning(db, counters, collections, Revisits(db, counters, Ready(db), clock), clock)
        known, host, url = collections.named(name), FIRST_HOST, b""
        while some := planning.pages(known, host, url, PAGES_PER_READ):
            take(some)
            host, url = some[-1].host, some[-1].id

    _read(path, read)


def read_statuses(path: Path, collection: str) -> list[tuple[str, int | None, int]]:
    """How many URLs of each host ended how, while no process owns the frontier. Scans."""
    return _read(
        path,
        lambda db: [
            (str(key), status, int(count))
            for key, status, count in db.rows(
                "SELECT key, url.status, count(*) FROM url JOIN host ON host.id = url.host"
                " WHERE collection = (SELECT id FROM collection WHERE name = ?) GROUP BY 1, 2",
                (collection,),
            )
        ],
    )


def _read(path: Path, question: Callable[[Database], T]) -> T:
    if not path.exists():
        raise DataError(
            f"{path}: is missing; of a frontier that is elsewhere ask with --frontier ADDRESS; if it was here and got"
            " lost, `tarrafa rebuild frontier` makes it again"
        )
    try:
        db = Database(open_to_read(path))
        try:
            check_schema(db, path)
            return question(db)
        finally:
            db.connection.close()
    except apsw.Error as error:
        raise _in_our_words(path, error) from None


def _in_our_words(path: Path, error: apsw.Error) -> DataError:
    remedy = "`tarrafa rebuild frontier` makes it again from the archive"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DataError(f"{path}: damaged ({error}); {remedy}")
    if isinstance(error, apsw.CantOpenError) and not path.exists():
        return DataError(f"{path}: is missing; {remedy}")
    return DataError(f"{path}: {error}")
