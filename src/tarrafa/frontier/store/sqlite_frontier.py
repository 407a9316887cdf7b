"""SQLite frontier: the `Frontier` API on one file, with one thread and group commit.

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
from tarrafa.errors import DataError, DiskFull, Locked, TarrafaError
from tarrafa.frontier.api import (
    ENTRIES_PER_RESPONSE,
    FIRST_HOST,
    ClockReading,
    CollectionRow,
    DeletedCollection,
    DiscoveredUrl,
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
from tarrafa.frontier.store.breadth_sites import BreadthSites
from tarrafa.frontier.store.collections import Collections, Counters, LoadedCollection
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.lookup import look_up
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.store.retries import status_facts
from tarrafa.frontier.store.revisit_plans import RevisitPlans
from tarrafa.frontier.store.revisit_queue import RevisitQueue
from tarrafa.frontier.store.schema import FrontierDatabase, check_schema, open_database
from tarrafa.frontier.transfer.host_export import (
    CollectionExport,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
)
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.process import ProcessId
from tarrafa.runtime.sqlite import open_sqlite_readonly
from tarrafa.takedown import CurrentTakedowns, TakedownEntry, append_entries, read_entries_from

JOBS_PER_COMMIT_MAX = 256
PAGES_PER_READ = 5_000
T = TypeVar("T")


@dataclass(slots=True)
class _Job:
    work: Callable[[FrontierStore], Any]
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
            self._store = FrontierStore(open_database(str(path), suffix_list), clock, lease_clock or LeaseClock())
            self._store.is_taken_down = CurrentTakedowns(self._data).covers
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
            store.collections.flush()
            store.record_clock()
            store.db.connection.execute("COMMIT")
            store.counters.on_commit()
        except Exception as error:
            with contextlib.suppress(apsw.Error):
                store.db.connection.execute("ROLLBACK")
            store.counters.on_rollback()
            store.collections.reload()
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
            store.counters.restore_snapshot(before)
            store.collections.flush()  # the numbers that earlier calls of this transaction have given out
            store.collections.reload()
        store.db.connection.execute("RELEASE job")

    def _translate(self, error: apsw.Error) -> DataError:
        if isinstance(error, apsw.FullError | apsw.IOError):
            return DiskFull(
                f"{self._path}: the disk is full or cannot be written ({error}); "
                "free some space and run the command again"
            )
        return _translate_error(self._path, error)

    async def _call(self, work: Callable[[FrontierStore], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, future, loop))
        return await future

    async def open_collection(
        self, config: bytes, roots: Sequence[DiscoveredUrl] = (), start: bool = True
    ) -> CollectionRow:
        return await self._call(lambda store: store.open_collection(config, list(roots), start))

    async def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        await self._call(lambda store: store.urls.seed(collection, roots))

    async def begin_run(self, name: str, reason: str) -> CollectionRow:
        return await self._call(lambda store: store.begin_run(name, reason))

    async def sweep(self, name: str, limit: int) -> bool:
        return await self._call(lambda store: store.sweep(name, limit))

    async def delete_collection(self, name: str, limit: int) -> bool:
        return await self._call(lambda store: store.delete_collection(name, limit))

    async def record_deletion(self, name: str) -> bool:
        return await self._call(lambda store: store.record_deletion(name))

    async def deletions(self, after: int) -> list[DeletedCollection]:
        return await self._call(lambda store: store.deletion_log.after(after))

    async def retry_host(self, host: HostId, host_key: str) -> None:
        await self._call(lambda store: store.host_retries.retry_host(host))

    async def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        """By a connection of its own, which keeps nobody waiting."""
        return await asyncio.to_thread(read_status_facts, self._path, name, status, self._store.clock)

    async def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        return await self._call(
            lambda store: store.status_retries.retry_by_status(store.collections.by_name(name), status, after, limit)
        )

    async def host_counts(self, name: str) -> HostCounts:
        return await self._call(lambda store: store.host_retries.host_counts(name))

    async def collections(self) -> list[CollectionRow]:
        return await self._call(lambda store: store.collections.rows())

    async def collection(self, name: str) -> CollectionRow | None:
        return await self._call(lambda store: store.collections.row(name))

    async def collection_states(self) -> list[FrontierCollectionState]:
        return await self._call(lambda store: store.collections.collection_states())

    async def set_state(self, name: str, state: str, reason: str) -> None:
        await self._call(lambda store: store.collections.set_state(name, state, reason))

    async def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        await self._call(lambda store: store.urls.discover(collection, offers))

    async def join(self, name: str, process: ProcessId) -> WorkerRegistration:
        return await self._call(lambda store: store.join(name, process))

    async def release_process(self, process: ProcessId) -> None:
        await self._call(lambda store: store.release_process(process))

    async def time(self) -> ClockReading:
        return ClockReading(self._store.clock.now(), self._store.clock.scale)

    async def renew(self, worker: int, note: str) -> float:
        return await self._call(lambda store: store.hosts.renew(worker, note))

    async def leave(self, worker: int) -> None:
        await self._call(lambda store: store.hosts.release_worker(worker))

    async def lease(self, worker: int, hosts: int) -> list[Lease]:
        return await self._call(lambda store: store.lease(worker, hosts))

    async def held_leases(self, worker: int) -> list[Lease]:
        return await self._call(lambda store: store.hosts.held_leases(worker))

    async def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        return await self._call(lambda store: store.hosts.borrow_host(worker, collection, host, host_key))

    async def robots_text(self, digest: bytes) -> bytes:
        return await self._call(lambda store: store.hosts.robots_text(digest))

    async def claim_address(self, worker: int, host: HostId, address: str) -> float:
        return await self._call(lambda store: store.hosts.claim_address(worker, host, address))

    async def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        return await self._call(lambda store: store.hosts.finish(worker, batch))

    async def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        await self._call(lambda store: store.update_weights(collection, weights))

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        return await self._call(lambda store: store.look_up(host, url))

    async def overview(self) -> FrontierOverview:
        return await self._call(lambda store: store.overview())

    async def collections_to_plan(self) -> list[int]:
        return await self._call(lambda store: store.planning.collections_to_plan())

    async def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        return await self._with_plans(
            collection, lambda known, planning: planning.revisit_pages(known, host, url, limit)
        )

    async def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        return await self._with_plans(collection, lambda known, planning: planning.revisit_shelves(known, host, limit))

    async def set_price(self, collection: int, price: float) -> None:
        await self._with_plans(collection, lambda known, planning: planning.set_price(known, price))

    async def recompute_due(self, collection: int, host: HostId, limit: int) -> HostId | None:
        return await self._with_plans(collection, lambda known, planning: planning.recompute_due(known, host, limit))

    async def add_planned_visits(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        await self._with_plans(collection, lambda known, planning: planning.add_planned_visits(known, number, visits))

    async def activate_plan(self, collection: int, number: int, end: float) -> None:
        await self._with_plans(collection, lambda known, planning: planning.activate_plan(known, number, end))

    async def drop_old_plans(self, collection: int, limit: int) -> int:
        return await self._with_plans(collection, lambda known, planning: planning.drop_old_plans(known, limit))

    async def export_catalogue(self) -> ExportCatalogue:
        return await self._call(lambda store: store.transfer.export_catalogue())

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        return await self._call(lambda store: store.transfer.export_hosts(after, limit))

    async def import_collection(self, image: CollectionExport) -> CollectionRow:
        return await self._call(lambda store: store.collections.import_collection(image).row)

    async def import_hosts(self, images: list[HostExport]) -> None:
        await self._call(lambda store: store.transfer.import_hosts(images))

    async def import_deletions(self, moments: dict[str, float]) -> None:
        await self._call(lambda store: store.deletion_log.import_deletions(moments))

    async def forget_host(self, host: HostId) -> None:
        await self._call(lambda store: store.transfer.forget_host(host))

    async def record_takedowns(self, entries: list[TakedownEntry]) -> None:
        """In the log beside our file: whoever looks at this directory sees it there."""
        await asyncio.to_thread(append_entries, self._data, entries)

    async def takedowns(self, after: int) -> TakedownBatch:
        return TakedownBatch(*await asyncio.to_thread(read_entries_from, self._data, after, ENTRIES_PER_RESPONSE))

    async def _with_plans(self, collection: int, work: Callable[[LoadedCollection, RevisitPlans], T]) -> T:
        return await self._call(lambda store: work(store.collections.by_id(collection), store.planning))


def last_clock_reading(path: Path) -> float:
    """What the frontier's clock showed when its file was last open, to a few seconds; 0 if it never was."""
    if not path.exists():
        return 0.0
    try:
        db = FrontierDatabase(open_sqlite_readonly(path))
        try:
            return float(db.value("SELECT value FROM meta WHERE key = 'clock'") or 0.0)
        finally:
            db.connection.close()
    except apsw.Error:  # whoever opens it for writing says what is wrong
        return 0.0


def read_overview(path: Path) -> FrontierOverview:
    """The frontier's numbers while no process owns it."""
    return _read(path, lambda db: FrontierOverview(Collections(db, Counters(db), Clock.real()).status(), []))


def read_collections(path: Path) -> list[CollectionRow]:
    """The collections while no process owns the frontier."""
    return _read(path, lambda db: Collections(db, Counters(db), Clock.real()).rows())


def read_url_lookup(path: Path, host: HostId, url: UrlId) -> UrlLookup:
    """What is known of a URL while no process owns the frontier."""

    def read(db: FrontierDatabase) -> UrlLookup:
        counters, clock = Counters(db), Clock.real()
        collections, ready = Collections(db, counters, clock), ReadyQueue(db)
        revisits, breadth = RevisitQueue(db, counters, ready, clock), BreadthSites(db, counters, ready, clock)
        return look_up(db, host, url, collections, revisits, breadth)

    return _read(path, read)


def read_status_facts(path: Path, name: str, status: int, clock: Clock) -> UrlStatusFacts:
    """What ended alike, as of the last commit."""

    def read(db: FrontierDatabase) -> UrlStatusFacts:
        known = Collections(db, Counters(db), clock).by_name(name)
        return status_facts(known, status, clock.now(), db.rows)

    return _read(path, read)


def read_revisit_pages(path: Path, name: str) -> tuple[CollectionRow, list[RevisitPage]]:
    """A collection and its pages that are kept fresh, while no process owns the frontier."""

    def read(db: FrontierDatabase) -> tuple[CollectionRow, list[RevisitPage]]:
        counters, clock = Counters(db), Clock.real()
        collections = Collections(db, counters, clock)
        planning = RevisitPlans(db, counters, collections, RevisitQueue(db, counters, ReadyQueue(db), clock), clock)
        known = collections.by_name(name)
        return known.row, planning.revisit_pages(known, FIRST_HOST, b"", -1)

    return _read(path, read)


def for_each_revisit_page(path: Path, name: str, take: Callable[[list[RevisitPage]], None]) -> None:
    """Show a collection's pages that are kept fresh, some at a time, while no process owns the frontier."""

    def read(db: FrontierDatabase) -> None:
        counters, clock = Counters(db), Clock.real()
        collections = Collections(db, counters, clock)
        planning = RevisitPlans(db, counters, collections, RevisitQueue(db, counters, ReadyQueue(db), clock), clock)
        known, host, url = collections.by_name(name), FIRST_HOST, b""
        while some := planning.revisit_pages(known, host, url, PAGES_PER_READ):
            take(some)
            host, url = some[-1].host, some[-1].id

    _read(path, read)


def read_statuses_by_host(path: Path, collection: str) -> list[tuple[str, int | None, int]]:
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


def _read(path: Path, question: Callable[[FrontierDatabase], T]) -> T:
    if not path.exists():
        raise DataError(
            f"{path}: is missing; of a frontier that is elsewhere ask with --frontier ADDRESS; if it was here and got"
            " lost, `tarrafa rebuild frontier` makes it again"
        )
    try:
        db = FrontierDatabase(open_sqlite_readonly(path))
        try:
            check_schema(db, path)
            return question(db)
        finally:
            db.connection.close()
    except apsw.Error as error:
        raise _translate_error(path, error) from None


def _translate_error(path: Path, error: apsw.Error) -> DataError:
    remedy = "`tarrafa rebuild frontier` makes it again from the archive"
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DataError(f"{path}: damaged ({error}); {remedy}")
    if isinstance(error, apsw.CantOpenError) and not path.exists():
        return DataError(f"{path}: is missing; {remedy}")
    return DataError(f"{path}: {error}")
