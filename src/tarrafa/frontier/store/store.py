"""What can happen to the frontier's tables?

Every method runs inside a transaction that the caller commits. It is the same for every body that keeps tables: one
file of its own (sqlite.py), or a working copy of what a database has (postgres/).
"""

from collections.abc import Callable

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.frontier.protocol import CollectionRow, Facts, Lease, Offer, Overview, Terms, Weight
from tarrafa.frontier.store.alike import Alike
from tarrafa.frontier.store.collections import Collections, Counters, Known, Tuning
from tarrafa.frontier.store.deleting import Deleting
from tarrafa.frontier.store.deletions import Deletions
from tarrafa.frontier.store.facts import look_up
from tarrafa.frontier.store.hosts import Hosts, LeaseClock
from tarrafa.frontier.store.images import Images
from tarrafa.frontier.store.planning import Planning
from tarrafa.frontier.store.ready import Ready
from tarrafa.frontier.store.runs import Runs, check_can_begin, has_runs, roots_of
from tarrafa.frontier.store.schema import Database
from tarrafa.frontier.store.trouble import Trouble
from tarrafa.frontier.store.urls import Urls
from tarrafa.frontier.store.visits import Visits
from tarrafa.model import HostId, UrlId
from tarrafa.process import ProcessId

MARK_EVERY_S = 2.0  # how exactly the file knows when it was last open


class Store:
    """The tables and what can happen to them; every method runs inside a transaction that the caller commits."""

    def __init__(
        self,
        db: Database,
        clock: Clock,
        lease_clock: LeaseClock,
        counters: Counters | None = None,
        catalogue: Collections | None = None,
    ) -> None:
        self.db, self.clock, self._marked = db, clock, 0.0
        self.is_taken_down: Callable[[str], bool] = lambda url: False  # who opens the store knows
        self.counters = counters or Counters(db)
        self.catalogue = catalogue or Collections(db, self.counters, clock)
        self.ready = ready = Ready(self.db)
        self.urls = Urls(self.db, self.counters, self.catalogue, ready, clock)
        self.runs = Runs(self.db, self.counters, self.catalogue, self.urls)
        self.visits = Visits(self.db, self.counters, self.catalogue, self.urls, self.runs, ready)
        self.hosts = Hosts(self.db, self.catalogue, self.urls, self.visits, ready, clock, lease_clock)
        self.planning = Planning(self.db, self.counters, self.catalogue, self.urls.revisits, clock)
        self.deletions = Deletions(self.db, self.catalogue, clock)
        self.deleting = Deleting(self.db, self.counters, self.catalogue, ready, self.deletions)
        self.trouble = Trouble(self.db, self.counters, self.catalogue, self.urls, ready, clock)
        self.alike = Alike(self.db, self.urls, self.trouble)
        self.images = Images(self.db, self.counters, self.catalogue, self.urls, ready, clock)

    def open_collection(self, content: bytes, roots: list[Offer], start: bool = True) -> CollectionRow:
        finished = {known.row.id for known in self.catalogue.all() if known.row.state == "finished"}
        known, before = self.catalogue.open(content, start=start)
        if before is not None:
            self.begin_change(known, before)
            self.change(known, before, start=start)
            self.end_change(known, before)
            if start and known.row.id in finished and self.urls.breadth.is_over(known):
                self.urls.breadth.begin_again(known)
        self.urls.seed(known.row.id, roots)
        return known.row

    def begin_change(self, known: Known, before: Collection) -> None:
        """What a new configuration means for the collection as a whole."""
        if _is_kept_otherwise(known, before):
            self.catalogue.tune(known, Tuning())
            self.urls.revisits.begin_adoption(known)
            self.urls.exchange.begin_rebuilding(known)
        if before.strategy != known.config.strategy:
            self.urls.breadth.begin_adoption(known, before.strategy.order)

    def begin_run(self, name: str, reason: str) -> CollectionRow:
        known = self.catalogue.named(name)
        check_can_begin(known)
        self.runs.begin(known, reason, known.run + 1, roots_of(known))
        return known.row

    def sweep(self, name: str, limit: int) -> bool:
        return self.runs.sweep(self.catalogue.named(name), limit)

    def delete_collection(self, name: str, limit: int) -> bool:
        return self.deleting.delete(self.catalogue.named(name), limit)

    def note_deletion(self, name: str) -> bool:
        self.expire()
        return self.deleting.note(self.catalogue.named(name))

    def change(self, known: Known, before: Collection, *, start: bool = True) -> None:
        """What it means for each of its hosts: for those that are at hand. Scans them, once per change."""
        if has_runs(before) and not has_runs(known.config) and known.run > 1:
            self.runs.end(known)
        if start:
            self.urls.try_failures_again(known)
        self.urls.take_up_lifted(known, self.is_taken_down)
        old, new = before.scope.depth_max, known.config.scope.depth_max
        if old is not None and (new is None or new > old):
            self.urls.reopen_depth(known)
        if before.strategy != known.config.strategy:
            self.urls.reorder(known, before.strategy)
        if before.scope != known.config.scope:
            self.urls.judge_again(known)
        if _is_kept_otherwise(known, before):
            self.visits.unchoose(known)
            self.urls.revisits.adopt(known)
            self.urls.exchange.rebuild(known)

    def end_change(self, known: Known, before: Collection) -> None:
        """What is left to do when it is done for all of them."""
        if before.strategy != known.config.strategy:
            self.urls.breadth.end_adoption(known, before.strategy.order)

    def look_up(self, host: HostId, url: UrlId) -> Facts:
        return look_up(self.db, host, url, self.catalogue, self.urls.revisits, self.urls.breadth)

    def weigh(self, name: str, weights: list[Weight]) -> None:
        """An archive may be older than its frontier: what belongs to no collection here is nobody's business."""
        known = self.catalogue.find(name)
        if known is not None:
            self.urls.weigh(known, weights)

    def expire(self) -> None:
        """Take back the hosts of workers that are dead or silent."""
        for worker, wait_s in self.hosts.silent():
            self.hosts.free(worker, wait_s)

    def bury(self, process: ProcessId) -> None:
        for worker in self.hosts.of_process(process):
            self.hosts.free(worker)

    def mark(self) -> None:
        """Write down now and then what time it is: see `last_seen`."""
        now = self.clock.now()
        if abs(now - self._marked) > MARK_EVERY_S * self.clock.scale:
            self.db.run("INSERT OR REPLACE INTO meta VALUES ('clock', ?)", (now,))
            self._marked = now

    def join(self, name: str, process: ProcessId) -> Terms:
        self.expire()
        ghost = self.hosts.namesake(name, process)
        if ghost is not None:
            self.hosts.free(ghost)
        return self.hosts.join(name, process)

    def lease(self, worker: int, hosts: int) -> list[Lease]:
        self.expire()
        return self.hosts.lease(worker, hosts)

    def overview(self) -> Overview:
        self.expire()
        return Overview(self.catalogue.status(), self.hosts.nodes())


def _is_kept_otherwise(known: Known, before: Collection) -> bool:
    return before.revisit != known.config.revisit or before.scope.pages_max != known.config.scope.pages_max
