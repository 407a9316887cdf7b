"""FrontierStore: all operations on the frontier's tables, used by the SQLite and the PostgreSQL frontier alike.

Every method runs inside a transaction that the caller commits. The code is the same for both frontiers with tables: one
SQLite file (`sqlite_frontier.py`), or the row cache of a PostgreSQL database (`postgres/`).
"""

from collections.abc import Callable, Sequence

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.frontier.export_import.host_export_import import HostTransfer
from tarrafa.frontier.messages import (
    ClockReading,
    CollectionRow,
    DiscoveredUrl,
    FrontierOverview,
    Lease,
    RegistrationTerms,
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
from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.frontier.store.dispatch import VisitDispatcher
from tarrafa.frontier.store.leases import HostLeases, LeaseClock
from tarrafa.frontier.store.lookup import StoreLookup
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.store.retries import Retries
from tarrafa.frontier.store.revisit_plans import RevisitPlans
from tarrafa.frontier.store.runs import Runs, check_can_begin_run, has_runs, roots_of
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.i18n import Message
from tarrafa.runtime.process_identity import ProcessId

CLOCK_RECORDED_EVERY_S = 2.0  # how exactly the file knows when it was last open


class FrontierStore:
    """All parts of the store, and the operations that concern several of them."""

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

    def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        """Weights of an unknown collection are ignored: an archive may be older than its frontier."""
        known = self.collections.find(collection)
        if known is not None:
            self.urls.update_weights(known, weights)

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
