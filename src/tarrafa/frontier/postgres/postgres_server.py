"""PostgreSQL server: the blocking calls of the frontier on one database.

Each call says which hosts it is about and what it needs of them, and then runs the store's own code. Promises: two
processes never hold one host; no two calls wait for each other in a ring (sites that are walked through are locked
first, then hosts, both in order, and what hangs below none last).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import partial

from tarrafa.clock import boottime
from tarrafa.config import Collection
from tarrafa.frontier.api import (
    ClockReading,
    CollectionRow,
    DiscoveredUrl,
    FrontierCollectionState,
    FrontierOverview,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    UrlLookup,
    UrlWeight,
    WorkerRegistration,
)
from tarrafa.frontier.postgres.database_session import LIMIT_LOCK, DatabaseLeaseClock, PostgresTransaction
from tarrafa.frontier.postgres.known_filter import filter_new_urls, filter_new_weights
from tarrafa.frontier.postgres.operations.address_claims import RELEASE_SQL, AddressOperations
from tarrafa.frontier.postgres.operations.breadth_walks import BreadthOperations
from tarrafa.frontier.postgres.operations.collection_runs import RunOperations
from tarrafa.frontier.postgres.operations.planner_calls import PlannerOperations
from tarrafa.frontier.postgres.operations.takedown_log import TakedownOperations
from tarrafa.frontier.postgres.operations.transfer_calls import TransferOperations
from tarrafa.frontier.postgres.working_copy import Row, StaleCopy
from tarrafa.frontier.store.collections import DELETING, LimitUsage, LoadedCollection
from tarrafa.frontier.store.schema import ALL_ROWS
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.process import ProcessId

EXPIRE_EVERY_S = 1.0
NEAR_LIMIT = 100_000  # visits per worker: more than any one call hands out
URLS_PER_TRANSACTION = 4_000  # a transaction in which we think for longer than a moment is taken from us
HOSTS_PER_CHANGE = 500


class PostgresServer(
    RunOperations, PlannerOperations, TransferOperations, BreadthOperations, AddressOperations, TakedownOperations
):
    """The Protocol's methods; they block."""

    # -- collections ------------------------------------------------------------------------------------------

    def open_collection(
        self,
        config: bytes,
        roots: list[DiscoveredUrl],
        number: int | None = None,
        *,
        start: bool = True,
        is_over_elsewhere: bool = True,
    ) -> CollectionRow:
        """Elsewhere: where there are several servers, a run is over when it is on all of them."""
        self._reserve_sequence(len(roots))

        def work(work: PostgresTransaction) -> CollectionRow:
            finished = {known.row.id for known in work.store.collections.all() if known.row.state == "finished"}
            known, before = work.store.collections.open(config, number, start=start)
            if before is not None:
                work.store.is_taken_down = self._takedown_orders(work).covers
                work.store.begin_config_change(known, before)
                self._change(work, known.row.id, before, start=start)
                if start and known.row.id in finished and is_over_elsewhere:
                    self._restart_breadth(work, known.row.id)
            known = work.collection(known.row.id)
            self._seed(work, known, roots)
            return known.row

        return self._transact(work, alone=True)

    def _seed(self, work: PostgresTransaction, known: LoadedCollection, roots: list[DiscoveredUrl]) -> None:
        work.receive_hosts(((root.host, root.host_key) for root in roots), known)
        work.store.urls.seed(known.row.id, roots)

    def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        """More roots of a collection that was opened."""
        self._reserve_sequence(len(roots))
        self._transact(lambda work: self._seed(work, work.collection(collection), roots))

    def _change(self, work: PostgresTransaction, number: int, before: Collection, *, start: bool) -> None:
        for hosts in self._site_by_site(work, number):
            for table in ("url", "pending", "page", "due", "visit"):
                work.copy.prefetch_first(table, [(host, number) for host in hosts], ALL_ROWS)
            work.copy.prefetch_first("shelf", [(number, host) for host in hosts], ALL_ROWS)
            self._prefetch_standing(work, number)
            self._acquire_walks(work, number)
            work.store.apply_config_change(work.collection(number), before, start=start)
        work.store.end_config_change(work.collection(number), before)
        self._flush(work)

    def _restart_breadth(self, work: PostgresTransaction, number: int) -> None:
        if work.collection(number).order.is_breadth and work.store.urls.breadth.is_over(work.collection(number)):
            for _ in self._site_by_site(work, number):
                self._acquire_walks(work, number)
                work.store.urls.breadth.restart(work.collection(number))

    def _site_by_site(self, work: PostgresTransaction, number: int) -> Iterator[list[HostId]]:
        """A collection's hosts, whole sites together: memory holds some of them only, but the transaction all."""
        rows = work.cursor.execute(
            "SELECT host.id, site FROM work JOIN host ON host.id = work.host WHERE collection = %b::bigint"
            " ORDER BY site, host.id",
            [number],
        ).fetchall()
        for hosts in _chunks(rows):
            self._flush(work)
            work.copy.lock_hosts(hosts)
            sites = [site for (site,) in work.copy.rows("SELECT DISTINCT site FROM host")]
            work.copy.prefetch("site", [(number, site) for site in sites])
            yield hosts
        self._flush(work)

    @staticmethod
    def _prefetch_standing(work: PostgresTransaction, number: int) -> None:
        """By no prefix of its key: read as a whole, the few times that this happens."""
        urls = work.copy.rows("SELECT host, id, in_links FROM url WHERE collection = ?", (number,))
        work.copy.prefetch(
            "standing", [(number, kept, links, host, url) for host, url, links in urls for kept in (0, 1)]
        )

    def collections(self) -> list[CollectionRow]:
        return self._transact(lambda work: work.store.collections.rows())

    def collection(self, name: str) -> CollectionRow | None:
        return self._transact(lambda work: work.store.collections.row(name))

    def collection_states(self) -> list[FrontierCollectionState]:
        """Asked every second by everybody: without what a transaction needs to begin."""
        return [
            FrontierCollectionState(*row)
            for row in self._read("SELECT id, state, revision, name FROM collection ORDER BY id")
        ]

    def sync_collections(self, rows: list[CollectionRow]) -> None:
        """The collections are as the first of several servers has them."""
        mine = {row.id: row for row in self.collections()}
        for row in rows:
            here = mine.get(row.id)
            if here == row or (here is None and row.state == DELETING):
                continue
            if here is None or here.config != row.config:  # nobody asked us then
                starts = row.state == "running"
                here = self.open_collection(row.config, [], row.id, start=starts, is_over_elsewhere=False)
            if here.run < row.run:
                self.join_run(row)

            def work(work: PostgresTransaction, row: CollectionRow = row) -> None:
                work.store.collections.set_revision(work.collection(row.id), row.revision)
                work.store.collections.write_state(work.collection(row.id), row.state, row.reason)

            self._transact(work)

    def limit_usage(self) -> dict[int, LimitUsage]:
        return self._transact(lambda work: work.store.collections.limit_usage())

    def workers(self) -> int:
        return self._transact(lambda work: len(work.copy.rows("SELECT id FROM worker")))

    def share_limits(self, elsewhere: dict[int, LimitUsage]) -> None:
        """What other servers have of the collections counts towards their limits too."""
        self._catalogue.elsewhere = elsewhere

    def share_rates(self, servers: int) -> None:
        """Revisits are paid for here by one in so many of what comes in."""
        self._catalogue.set_servers(servers)

    def set_state(self, name: str, state: str, reason: str) -> None:
        self._transact(lambda work: work.store.collections.set_state(name, state, reason))

    # -- URLs -------------------------------------------------------------------------------------------------

    def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        for start in range(0, len(offers), URLS_PER_TRANSACTION):
            self._discover(collection, offers[start : start + URLS_PER_TRANSACTION])

    def _discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        news = self._transact(lambda work: filter_new_urls(work.cursor, collection, offers))
        if not news:
            return
        self._reserve_sequence(len(news))
        first = self._catalogue.reserved

        def work(work: PostgresTransaction) -> None:
            if work.store.collections.is_deleted(collection):
                return
            known, number = work.collection(collection), collection
            self._catalogue.reserved = first
            work.receive_hosts(((offer.host, offer.host_key) for offer in news), known)
            keys = [(offer.host, number, offer.id) for offer in news]
            work.copy.prefetch("url", keys)
            if known.config.keeps_fresh:
                self._prefetch_revisits(work, known, keys)
            work.store.urls.discover(collection, news)

        self._transact(work)

    def _prefetch_revisits(
        self, work: PostgresTransaction, known: LoadedCollection, keys: list[tuple[HostId, int, UrlId]]
    ) -> None:
        """What is kept fresh has more to it."""
        work.copy.prefetch("page", keys)
        rows = work.copy.rows("SELECT host, collection, shelf, key, id FROM page")
        work.copy.prefetch("due", rows)
        hosts = sorted({key[0] for key in keys})
        work.store.urls.revisits.prefetch_shelves(known, hosts)
        sites = dict(work.copy.rows("SELECT id, site FROM host"))
        work.copy.prefetch("site", [(known.row.id, sites[host]) for host in hosts if host in sites])

    def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        def work(work: PostgresTransaction) -> None:
            known = work.store.collections.find(collection)
            if known is None:
                return
            news = filter_new_weights(work.cursor, known.row.id, weights)
            if known.order.is_breadth:
                work.copy.lock_sites((known.row.id, weight.host) for weight in news)
            work.copy.lock_hosts(weight.host for weight in news)
            keys = [(weight.host, known.row.id, weight.id) for weight in news]
            work.copy.prefetch("url", keys)
            if known.config.keeps_fresh:
                self._prefetch_revisits(work, known, keys)
            work.store.urls.update_weights(known, news)

        self._transact(work)

    def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        return self._transact(lambda work: work.store.look_up(host, url))

    # -- workers and hosts ------------------------------------------------------------------------------------

    def join(self, name: str, process: ProcessId, number: int | None = None) -> WorkerRegistration:
        self.expire()
        ghost = self._transact(lambda work: work.store.hosts.find_rejoining(name, process))
        if ghost is not None:
            self.leave(ghost)

        def work(work: PostgresTransaction) -> WorkerRegistration:
            terms = work.store.hosts.join(name, process, number)
            if number is not None:
                self._unconfirmed[number] = self._lease_clock.now() + self._lease_clock.lease_s
            return terms

        return self._transact(work)

    def workers_of_process(self, process: ProcessId) -> list[int]:
        return self._transact(lambda work: work.store.hosts.workers_of_process(process))

    def time(self) -> ClockReading:
        return self._transact(lambda work: ClockReading(self._clock.now(), self._clock.scale))

    def is_confirmed(self, worker: int) -> bool:
        """Whether it has renewed since it joined: what renews knows of this server, and would miss it."""
        first = self._unconfirmed.get(worker)
        if first is None:
            return True

        def deadline(work: PostgresTransaction) -> float:
            return float(work.copy.value("SELECT deadline FROM worker WHERE id = ?", (worker,)) or 0.0)

        if self._transact(deadline) > first:
            del self._unconfirmed[worker]
        return worker not in self._unconfirmed

    def renew(self, worker: int, note: str) -> float:
        return self._transact(lambda work: work.store.hosts.renew(worker, note))

    def leave(self, worker: int) -> None:
        self._transact(lambda work: self._release_worker(work, worker, 0.0))
        self._held.pop(worker, None)

    def expire(self) -> None:
        """Take back the hosts of workers that are dead or silent, each in a transaction of its own."""
        for worker, _ in self._transact(lambda work: work.store.hosts.expired_workers()):

            def work(work: PostgresTransaction, worker: int = worker) -> None:
                wait_s = dict(work.store.hosts.expired_workers()).get(worker)
                if wait_s is not None:
                    # The database's clock may have been set: by its own, it may have up to one lease left.
                    self._release_worker(work, worker, max(wait_s, self._lease_clock.lease_s) if wait_s else 0.0)

            self._transact(work)

    def _release_worker(
        self, work: PostgresTransaction, worker: int, wait_s: float, keep: Iterable[HostId] = ()
    ) -> None:
        """Take hosts back; all of them, if none are to be kept, and then it is no worker any more."""
        question = "SELECT id FROM host WHERE worker = %b::bigint ORDER BY id"
        kept = set(keep)
        hosts = [host for host in work.fetch_host_ids(question, worker) if host not in kept]
        self._lock_walks(work, hosts)
        handed = work.copy.rows("SELECT host, collection, id FROM handed")
        work.copy.prefetch("url", handed)
        work.copy.prefetch("page", handed)
        if kept:
            work.store.hosts.release_hosts(worker, hosts)
            return
        work.store.hosts.release_worker(worker, wait_s)
        work.cursor.execute(RELEASE_SQL, [self._clock.now() + wait_s * self._clock.scale, worker])
        self._flush(work)
        if work.fetch_host_ids(question, worker):
            raise StaleCopy("it leased one more host meanwhile")

    def lease(self, worker: int, hosts: int) -> list[Lease]:
        if boottime() - self._expired_at > EXPIRE_EVERY_S or not isinstance(self._lease_clock, DatabaseLeaseClock):
            self.expire()
            self._expired_at = boottime()
        self._release_unacknowledged(worker)
        leases: list[Lease] = []
        try:
            self._lease_in_turn(worker, hosts, leases)
        except Exception:
            self._lost_answers = self._lost_answers or bool(leases)
            raise
        self._held[worker].update(lease.host for lease in leases)
        return leases

    def _lease_in_turn(self, worker: int, hosts: int, leases: list[Lease]) -> None:
        """One transaction, but for collections that have to choose sites first: those are chosen in one of their own,
        because that waits for others, and who leases has locked hosts already."""
        rest: list[int] | None = None
        while rest is None or rest:
            some = partial(self._lease_some, worker=worker, wanted=hosts - len(leases), rest=rest)
            found, rest = self._transact(some)
            leases += found
            if rest:
                self._choose_sites(rest[0])

    def _lease_some(
        self, work: PostgresTransaction, worker: int, wanted: int, rest: list[int] | None
    ) -> tuple[list[Lease], list[int]]:
        """Hosts, and the collections from which none were taken yet. The first of `rest` has chosen its sites."""
        self._respect_limits(work)
        hosts, visits, leases = work.store.hosts, work.store.visits, list[Lease]()
        numbers = [known.row.id for known in hosts.collections_in_turn(worker, wanted)] if rest is None else rest
        for place, number in enumerate(numbers):
            known = work.collection(number)
            is_ready = rest is not None and not place
            if not is_ready and visits.needs_sites(known) and work.copy.has_candidates(number):
                return leases, numbers[place:]
            if known.row.state == "running":
                leases += hosts.lease_collection(worker, known, wanted - len(leases))
        return leases, []

    def _respect_limits(self, work: PostgresTransaction) -> None:
        """Near a collection's limit visits are handed out by one at a time, who counts what the others have."""
        catalogue = work.store.collections
        workers = len(work.copy.rows("SELECT id FROM worker"))
        near = [known for known in catalogue.running() if catalogue.free_slots(known) < NEAR_LIMIT * workers]
        if near:
            for known in near:
                work.cursor.execute(f"SELECT pg_advisory_xact_lock({LIMIT_LOCK}, %b::int)", [known.row.id])
            self._counters.refresh()

    def _release_unacknowledged(self, worker: int) -> None:
        """Leases that were given in an answer that never came are not known to their holder."""
        if self._lost_answers:
            self._lost_answers = False
            self._transact(lambda work: self._release_worker(work, worker, 0.0, self._held[worker] | {-1}))

    def held_leases(self, worker: int) -> list[Lease]:
        def work(work: PostgresTransaction) -> list[Lease]:
            work.copy.lock_hosts(
                work.fetch_host_ids("SELECT id FROM host WHERE worker = %b::bigint ORDER BY id", worker)
            )
            return work.store.hosts.held_leases(worker)

        leases = self._transact(work)
        self._held[worker] = {lease.host for lease in leases}
        return leases

    def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        self._release_unacknowledged(worker)

        def work(work: PostgresTransaction) -> HostLoan:
            work.ensure_hosts([(host, host_key)], work.collection(collection))
            return work.store.hosts.borrow_host(worker, collection, host, host_key)

        loan = self._transact(work)
        if loan.granted:
            self._held[worker].add(host)
        return loan

    def robots_text(self, digest: bytes) -> bytes:
        return self._transact(lambda work: work.store.hosts.robots_text(digest))

    def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        def work(work: PostgresTransaction) -> list[NextVisits]:
            walked = work.breadth_collections()
            walks = [(report.collection, report.host) for report in batch if report.collection in walked]
            work.copy.lock_walks(walks, (report.host for report in batch))
            self._respect_limits(work)
            by_collection: defaultdict[int, list[HostReport]] = defaultdict(list)
            for report in batch:
                by_collection[report.collection].append(report)
            for number, some in by_collection.items():
                known = work.collection(number)
                keys = [(report.host, number, one.id) for report in some for one in report.reports]
                work.copy.prefetch("url", keys)
                if known.config.keeps_fresh:
                    self._prefetch_revisits(work, known, keys)
                work.store.visits.prefetch_visits(known, sorted({report.host for report in some if report.keep}))
            return work.store.hosts.finish(worker, batch)

        answers = self._transact(work)
        for report, answer in zip(batch, answers, strict=True):
            if not answer.held:
                self._held[worker].discard(report.host)
        return answers

    def overview(self) -> FrontierOverview:
        self.expire()
        return self._transact(
            lambda work: FrontierOverview(work.store.collections.status(), work.store.hosts.worker_statuses())
        )


def _chunks(rows: list[Row]) -> Iterator[list[HostId]]:
    """Some hundreds of hosts at a time; those of one site stay together."""
    chunk: list[HostId] = []
    before = None
    for host, site in rows:
        if len(chunk) >= HOSTS_PER_CHANGE and site != before:
            yield chunk
            chunk = []
        chunk.append(host)
        before = site
    if chunk:
        yield chunk
