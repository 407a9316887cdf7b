"""SQLite frontier: the `Frontier` API on one file, with one thread and group commit; and reads of the file alone.

`SqliteFrontier` is the writer. Promises: when a call returns, its changes survive a power cut; calls that arrive
together share one commit; a call that fails changes nothing and harms no other. One thread does all the work, so
nothing here needs a lock. Its calls are methods of `FrontierStore` and its parts, which run inside a transaction that
the caller commits. The PostgreSQL frontier runs the same parts on its row cache (`postgres/`).

The `read_...` functions and `FrontierSnapshot` read the file beside a frontier server or without one, as of its last
commit.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import apsw

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.errors import DataError, DiskFull, Locked, TarrafaError
from tarrafa.frontier.export_import.export_records import ExportBatch, ExportCatalogue, FrontierCursor
from tarrafa.frontier.export_import.host_export_import import HostTransfer
from tarrafa.frontier.messages import (
    ENTRIES_PER_RESPONSE,
    FIRST_HOST,
    GRAPH,
    ClockReading,
    CollectionRow,
    DiscoveredUrl,
    FrontierOverview,
    Lease,
    RegistrationTerms,
    RevisitPage,
    TakedownBatch,
    UrlLookup,
    UrlStatusFacts,
    UrlWeight,
)
from tarrafa.frontier.store.collections import (
    CollectionDeleter,
    CollectionDeletionLog,
    Collections,
    LoadedCollection,
    RevisitTuning,
    StoreContext,
)
from tarrafa.frontier.store.counters import Counters, CounterTable
from tarrafa.frontier.store.database import FrontierDatabase, check_schema, open_database
from tarrafa.frontier.store.dispatch import VisitDispatcher
from tarrafa.frontier.store.host_removal import HostRemoval
from tarrafa.frontier.store.leases import HostLeases, LeaseClock, ReadyQueue
from tarrafa.frontier.store.lookup import StoreLookup, status_facts
from tarrafa.frontier.store.part_owners import PartOwners
from tarrafa.frontier.store.retries import Retries
from tarrafa.frontier.store.revisit_plans import RevisitPlans
from tarrafa.frontier.store.runs import Runs, check_can_begin_run, has_runs, roots_of
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.i18n import Message, message
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.process_identity import ProcessId
from tarrafa.runtime.sqlite import open_sqlite_readonly
from tarrafa.takedown import CurrentTakedowns, TakedownEntry, append_entries, read_entries_from

CLOCK_RECORDED_EVERY_S = 2.0  # how exactly the file knows when it was last open
JOBS_PER_COMMIT_MAX = 256
PAGES_PER_READ = 5_000
P = ParamSpec("P")
T = TypeVar("T")


class FrontierStore:
    """All parts of the store, and the operations that concern several of them. The caller commits."""

    def __init__(
        self,
        db: FrontierDatabase,
        clock: Clock,
        lease_clock: LeaseClock,
        counters: Counters | None = None,
        catalogue: Collections | None = None,
        is_taken_down: Callable[[str], bool] = lambda url: False,
    ) -> None:
        self.db, self.clock, self._clock_recorded_at, self._is_taken_down = db, clock, 0.0, is_taken_down
        self.counters = counters or Counters(CounterTable(db))
        self.collections = catalogue or Collections(db, self.counters, clock)
        self.ready = ReadyQueue(db)
        context = StoreContext(db, self.counters, self.collections, self.ready, clock)
        self.urls = FrontierUrls(context)
        self.runs = Runs(context, self.urls)
        self.visits = VisitDispatcher(context, self.urls, self.runs)
        self.hosts = HostLeases(context, self.urls, self.visits, lease_clock)
        self.planning = RevisitPlans(context, self.urls.revisits)
        self.deletion_log = CollectionDeletionLog(context)
        self.deleter = CollectionDeleter(context, self.deletion_log)
        self.lookup = StoreLookup(context, self.urls)
        self.retries = Retries(context, self.urls, self.lookup)
        self.transfer = HostTransfer(context, self.urls)
        self.removal = HostRemoval(context, self.urls)
        self.owners = PartOwners(db, clock, lease_clock)

    # -- collections ------------------------------------------------------------------------------------------

    def open_collection(self, config: bytes, roots: Sequence[DiscoveredUrl] = (), start: bool = True) -> CollectionRow:
        finished = {known.row.id for known in self.collections.all() if known.row.state == "finished"}
        known, before = self.collections.open(config, start=start)
        if before is not None:
            self.begin_config_change(known, before)
            self.apply_config_change(known, before, self._is_taken_down, start=start)
            self.end_config_change(known, before)
            if start and known.row.id in finished and self.urls.breadth.is_over(known):
                self.urls.breadth.restart(known)
        self.urls.seed(known.row.id, roots)
        return known.row

    def begin_config_change(self, known: LoadedCollection, before: Collection) -> None:
        """Apply a new configuration to the collection as a whole."""
        if _revisits_changed(known, before):
            self.collections.set_tuning(known, RevisitTuning())
            self.urls.revisits.begin_policy_change(known)
            self.urls.page_replacement.begin_rebuilding(known)
        if before.strategy != known.config.strategy:
            self.urls.breadth.begin_order_change(known, before.strategy.order)

    def apply_config_change(
        self, known: LoadedCollection, before: Collection, is_taken_down: Callable[[str], bool], *, start: bool
    ) -> None:
        """Apply it to the hosts that are at hand. Scans them, once per change."""
        if has_runs(before) and not has_runs(known.config) and known.run > 1:
            self.runs.end_runs(known)
        if start:
            self.retries.retry_failed(known)
        self.retries.requeue_lifted_takedowns(known, is_taken_down)
        old, new = before.scope.depth_max, known.config.scope.depth_max
        if old is not None and (new is None or new > old):
            self.retries.reopen_depth(known)
        if before.strategy != known.config.strategy:
            self.urls.reorder(known, before.strategy)
        if before.scope != known.config.scope:
            self.retries.recheck_scope(known)
        if _revisits_changed(known, before):
            self.visits.unchoose(known)
            self.urls.revisits.apply_policy_change(known)
            self.urls.page_replacement.rebuild(known)

    def end_config_change(self, known: LoadedCollection, before: Collection) -> None:
        """Finish the change when all hosts are done."""
        if before.strategy != known.config.strategy:
            self.urls.breadth.end_order_change(known, before.strategy.order)

    def begin_run(self, name: str, reason: Message | str) -> CollectionRow:
        known = self.collections.by_name(name)
        check_can_begin_run(known)
        self.runs.begin(known, reason, known.run + 1, roots_of(known))
        return known.row

    def sweep(self, name: str, limit: int) -> bool:
        return self.runs.sweep(self.collections.by_name(name), limit)

    def delete_collection(self, name: str, limit: int) -> bool:
        return self.deleter.delete(self.collections.by_name(name), limit)

    def record_deletion(self, name: str) -> bool:
        self.expire()
        return self.deleter.record_deletion(self.collections.by_name(name))

    def update_weights(self, collection: str, weights: list[UrlWeight], epoch: int = 0) -> bool:
        """Weights of an unknown collection are ignored: an archive may be older than its frontier."""
        if not self.owners.accepts_epoch(GRAPH, 1, epoch):
            return False
        known = self.collections.find(collection)
        if known is not None:
            self.urls.update_weights(known, weights)
        return True

    # -- workers ----------------------------------------------------------------------------------------------

    def expire(self) -> None:
        """Take back the hosts of workers that are dead or silent."""
        for worker, is_silent in self.hosts.expired_workers():
            (self.hosts.release_silent_worker if is_silent else self.hosts.release_worker)(worker)

    def release_process(self, process: ProcessId) -> None:
        for worker in self.hosts.workers_of_process(process):
            self.hosts.release_worker(worker)

    def join(self, name: str, process: ProcessId) -> RegistrationTerms:
        self.expire()
        former = self.hosts.find_rejoining(name, process)
        if former is not None:
            self.hosts.release_worker(former)
        return self.hosts.join(name, process)

    def lease(self, worker: int, hosts: int) -> list[Lease]:
        self.expire()
        return self.hosts.lease(worker, hosts)

    def overview(self) -> FrontierOverview:
        self.expire()
        return FrontierOverview(self.collections.status(), self.hosts.worker_statuses())

    def time(self) -> ClockReading:
        return ClockReading(self.clock.now(), self.clock.scale)

    def record_clock(self) -> None:
        """Store the time now and then, for `last_clock_reading`."""
        now = self.clock.now()
        if abs(now - self._clock_recorded_at) > CLOCK_RECORDED_EVERY_S * self.clock.scale:
            self.db.run("INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (now,))
            self._clock_recorded_at = now


def _revisits_changed(known: LoadedCollection, before: Collection) -> bool:
    return before.revisit != known.config.revisit or before.scope.pages_max != known.config.scope.pages_max


# -- the writer --------------------------------------------------------------------------------------------------------


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


def _on_store(
    find: Callable[[FrontierStore], Callable[P, T]],
) -> "Callable[Concatenate[SqliteFrontier, P], Coroutine[Any, Any, T]]":
    """Makes an API call from a method of the store with the same arguments."""

    def call(self: "SqliteFrontier", /, *positional: P.args, **named: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._call(lambda store: find(store)(*positional, **named))

    return call


class SqliteFrontier:
    """The `Frontier` API on one file. `on_fatal` is called when the file can no longer be written."""

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
            raise Locked(message("{path}: another process has the frontier open", path=path))
        self._lock, self._path, self._on_fatal = lock, path, on_fatal
        self._data = DataDirectory(path.parent)
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        try:
            db, is_taken_down = open_database(str(path), suffix_list), CurrentTakedowns(self._data).covers
            self._store = FrontierStore(db, clock, lease_clock or LeaseClock(), is_taken_down=is_taken_down)
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
            cause = (
                self._translate(error)
                if isinstance(error, apsw.Error)
                else DataError(message("{path}: {error}", path=self._path, error=repr(error)))
            )
            for job in jobs:
                job.error = job.error or cause
            if self._on_fatal is not None:
                self._on_fatal(cause)

    def _attempt(self, job: _Job) -> None:
        """Run one call within the shared transaction; if it fails, only its changes are undone."""
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
            store.collections.flush()  # the sequence numbers that earlier calls of this transaction have reserved
            store.collections.reload()
        store.db.connection.execute("RELEASE job")

    def _translate(self, error: apsw.Error) -> DataError:
        if isinstance(error, apsw.FullError | apsw.IOError):
            return DiskFull(
                message(
                    "{path}: the disk is full or cannot be written ({error}); free some space and run the"
                    " command again",
                    path=self._path,
                    error=error,
                )
            )
        return translate_error(self._path, error)

    async def _call(self, work: Callable[[FrontierStore], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._jobs.put(_Job(work, future, loop))
        return await future

    async def time(self) -> ClockReading:
        return self._store.time()

    async def retry_host(self, host: HostId, host_key: str) -> None:
        await self._call(lambda store: store.retries.retry_host(host))

    async def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        """Reads through a connection of its own, so that no other call waits."""
        return await asyncio.to_thread(read_status_facts, self._path, name, status, self._store.clock)

    async def record_takedowns(self, entries: list[TakedownEntry]) -> None:
        """Append to the log beside the file, where every process of this data directory reads it."""
        await asyncio.to_thread(append_entries, self._data, entries)

    async def takedowns(self, after: int) -> TakedownBatch:
        return TakedownBatch(*await asyncio.to_thread(read_entries_from, self._data, after, ENTRIES_PER_RESPONSE))

    # The other calls are methods of the store and its parts; each runs within a commit.
    open_collection = _on_store(lambda store: store.open_collection)
    seed = _on_store(lambda store: store.urls.seed)
    begin_run = _on_store(lambda store: store.begin_run)
    sweep = _on_store(lambda store: store.sweep)
    delete_collection = _on_store(lambda store: store.delete_collection)
    record_deletion = _on_store(lambda store: store.record_deletion)
    deletions = _on_store(lambda store: store.deletion_log.deletions)
    retry_by_status = _on_store(lambda store: store.retries.retry_by_status)
    host_counts = _on_store(lambda store: store.lookup.host_counts)
    collections = _on_store(lambda store: store.collections.rows)
    collection = _on_store(lambda store: store.collections.row)
    collection_states = _on_store(lambda store: store.collections.collection_states)
    set_state = _on_store(lambda store: store.collections.set_state)
    discover = _on_store(lambda store: store.urls.discover)
    join = _on_store(lambda store: store.join)
    release_process = _on_store(lambda store: store.release_process)
    renew = _on_store(lambda store: store.hosts.renew)
    leave = _on_store(lambda store: store.hosts.release_worker)
    lease = _on_store(lambda store: store.lease)
    held_leases = _on_store(lambda store: store.hosts.held_leases)
    borrow_host = _on_store(lambda store: store.hosts.borrow_host)
    robots_text = _on_store(lambda store: store.hosts.robots_text)
    claim_address = _on_store(lambda store: store.hosts.claim_address)
    finish = _on_store(lambda store: store.hosts.finish)
    update_weights = _on_store(lambda store: store.update_weights)
    claim_parts = _on_store(lambda store: store.owners.claim_parts)
    look_up = _on_store(lambda store: store.lookup.look_up)
    overview = _on_store(lambda store: store.overview)
    collections_to_plan = _on_store(lambda store: store.planning.collections_to_plan)
    revisit_pages = _on_store(lambda store: store.planning.revisit_pages)
    revisit_shelves = _on_store(lambda store: store.planning.revisit_shelves)
    set_price = _on_store(lambda store: store.planning.set_price)
    recompute_due = _on_store(lambda store: store.planning.recompute_due)
    add_planned_visits = _on_store(lambda store: store.planning.add_planned_visits)
    activate_plan = _on_store(lambda store: store.planning.activate_plan)
    drop_old_plans = _on_store(lambda store: store.planning.drop_old_plans)
    export_catalogue = _on_store(lambda store: store.transfer.export_catalogue)
    export_hosts = _on_store(lambda store: store.transfer.export_hosts)
    import_collection = _on_store(lambda store: store.collections.import_collection)
    import_hosts = _on_store(lambda store: store.transfer.import_hosts)
    import_deletions = _on_store(lambda store: store.deletion_log.import_deletions)
    forget_host = _on_store(lambda store: store.removal.forget)


# -- reads of the file -------------------------------------------------------------------------------------------------


class FrontierSnapshot:
    """Exports a frontier from its file. Use it in a `with`.

    It is one read transaction: SQLite shows the file as it was when the first row was read, whatever a running frontier
    server writes. So an exact copy needs no stop of the crawl. Meanwhile the write-ahead log (`-wal`) cannot be
    checkpointed, and grows.
    """

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        try:
            self._connection = open_sqlite_readonly(path)
            self._connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # see database.py
            check_schema(FrontierDatabase(self._connection), path)
            self._connection.execute("BEGIN")
            self._store = FrontierStore(FrontierDatabase(self._connection), clock, LeaseClock())
        except apsw.Error as error:
            raise DataError(message("{path}: {error}", path=path, error=error)) from None

    def __enter__(self) -> "FrontierSnapshot":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()

    async def export_catalogue(self) -> ExportCatalogue:
        return self._store.transfer.export_catalogue()

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch:
        try:
            return self._store.transfer.export_hosts(after, limit)
        except apsw.Error as error:
            raise DataError(message("{path}: {error}", path=self._path, error=error)) from None

    def count_urls(self) -> dict[str, int]:
        return {one.name: one.known for one in self._store.collections.status()}


def last_clock_reading(path: Path) -> float:
    """The time of the frontier's clock when its file was last open, to a few seconds; 0 if it never was."""
    if not path.exists():
        return 0.0
    try:
        with contextlib.closing(open_sqlite_readonly(path)) as connection:
            sql = "SELECT value FROM meta WHERE key = 'clock'"
            return float(FrontierDatabase(connection).value(sql) or 0.0)
    except apsw.Error:  # reported when the file is opened for writing
        return 0.0


@contextlib.contextmanager
def _reader(path: Path) -> Iterator[FrontierStore]:
    if not path.exists():
        raise DataError(
            message(
                "{path}: is missing; of a frontier that is elsewhere ask with --frontier ADDRESS; if it"
                " was here and got lost, `tarrafa rebuild frontier` makes it again",
                path=path,
            )
        )
    try:
        with contextlib.closing(open_sqlite_readonly(path)) as connection:
            check_schema(FrontierDatabase(connection), path)
            yield FrontierStore(FrontierDatabase(connection), Clock.real(), LeaseClock())
    except apsw.Error as error:
        raise translate_error(path, error) from None


def read_overview(path: Path) -> FrontierOverview:
    with _reader(path) as store:
        return FrontierOverview(store.collections.status(), [])


def read_collections(path: Path) -> list[CollectionRow]:
    with _reader(path) as store:
        return store.collections.rows()


def read_url_lookup(path: Path, host: HostId, url: UrlId) -> UrlLookup:
    with _reader(path) as store:
        return store.lookup.look_up(host, url)


def read_status_facts(path: Path, name: str, status: int, clock: Clock) -> UrlStatusFacts:
    with _reader(path) as store:
        return status_facts(store.collections.by_name(name), status, clock.now(), store.db.rows)


def read_revisit_pages(path: Path, name: str) -> tuple[CollectionRow, list[RevisitPage]]:
    """A collection and its pages that are kept fresh."""
    with _reader(path) as store:
        row = store.collections.by_name(name).row
        return row, store.planning.revisit_pages(row.id, FIRST_HOST, b"", -1)


def for_each_revisit_page(path: Path, name: str, take: Callable[[list[RevisitPage]], None]) -> None:
    """Pass a collection's pages that are kept fresh to `take`, some at a time."""
    with _reader(path) as store:
        number, host, url = store.collections.by_name(name).row.id, FIRST_HOST, b""
        while some := store.planning.revisit_pages(number, host, url, PAGES_PER_READ):
            take(some)
            host, url = some[-1].host, some[-1].id


def read_statuses_by_host(path: Path, collection: str) -> list[tuple[str, int | None, int]]:
    """Host key, status and number of URLs. Scans the collection."""
    with _reader(path) as store:
        rows = store.db.rows(
            "SELECT key, url.status, count(*) FROM url JOIN host ON host.id = url.host"
            " WHERE collection = (SELECT id FROM collection WHERE name = ?) GROUP BY 1, 2",
            (collection,),
        )
        return [(str(key), status, int(count)) for key, status, count in rows]


def translate_error(path: Path, error: apsw.Error) -> DataError:
    remedy = message("`tarrafa rebuild frontier` makes it again from the archive")
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return DataError(message("{path}: damaged ({error}); {remedy}", path=path, error=error, remedy=remedy))
    if isinstance(error, apsw.CantOpenError) and not path.exists():
        return DataError(message("{path}: is missing; {remedy}", path=path, remedy=remedy))
    return DataError(message("{path}: {error}", path=path, error=error))
