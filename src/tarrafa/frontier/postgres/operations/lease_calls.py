"""Workers and leases on one PostgreSQL server: joining, leasing hosts, reports, limits and addresses.

The store does the work (`store/leases.py`, `store/dispatch.py`); each call here locks its hosts and names the rows that
it needs.
Promises: two processes never hold one host; a lease whose answer was lost goes back.
"""

from collections import defaultdict
from collections.abc import Iterable
from functools import partial

from tarrafa.clock import boottime
from tarrafa.frontier.messages import (
    FrontierOverview,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
    OwnedPart,
    OwnedParts,
    RegistrationTerms,
)
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction, on_store
from tarrafa.frontier.postgres.row_cache import StaleRow
from tarrafa.model import HostId
from tarrafa.runtime.process_identity import ProcessId

EXPIRE_EVERY_S = 1.0
LIMIT_LOCK = 0x7A66_0003  # held while the last visits of a collection with a limit are handed out
PART_LOCK = 0x7A66_0007  # held while parts are claimed
TABLE_LOCK = 0x7A66_0005  # held while sites are chosen from a collection's table
NEAR_LIMIT = 100_000  # visits per worker: more than any one call hands out
# An address is free again when the host's delay has passed; time and worker are the first parameters.
RELEASE_SQL = (
    "UPDATE claim SET host = NULL, worker = NULL, next_at = greatest(next_at, %b::float8 + delay_s)"
    " WHERE worker = %b::bigint"
)


class LeaseCalls:
    """The workers of one server, and the hosts that they hold."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self._expired_at = 0.0
        self._held: defaultdict[int, set[HostId]] = defaultdict(set)  # by our workers, as far as they know
        self._unconfirmed: dict[int, float] = {}
        self._losses, self._has_lost_leases = session.connection.losses, False  # see `_release_unacknowledged`

    def join(self, name: str, process: ProcessId, number: int | None = None) -> RegistrationTerms:
        self.expire()
        ghost = self._session.transact(lambda work: work.store.hosts.find_rejoining(name, process))
        if ghost is not None:
            self.leave(ghost)

        def change(work: PostgresTransaction) -> RegistrationTerms:
            terms = work.store.hosts.join(name, process, number)
            if number is not None:
                self._unconfirmed[number] = self._session.lease_clock.now() + self._session.lease_clock.lease_s
            return terms

        return self._session.transact(change)

    def is_confirmed(self, worker: int) -> bool:
        """Whether the worker has renewed since it joined: then its worker fence knows this server, and notices its
        loss."""
        first = self._unconfirmed.get(worker)
        if first is None:
            return True

        def deadline(work: PostgresTransaction) -> float:
            return float(work.db.value("SELECT deadline FROM worker WHERE id = ?", (worker,)) or 0.0)

        if self._session.transact(deadline) > first:
            del self._unconfirmed[worker]
        return worker not in self._unconfirmed

    def leave(self, worker: int) -> None:
        self._session.transact(lambda work: self._release_worker(work, worker))
        self._held.pop(worker, None)

    def expire(self) -> None:
        """Take back the hosts of workers that are dead or silent, each worker in a transaction of its own."""
        for worker, _ in self._session.transact(lambda work: work.store.hosts.expired_workers()):

            def change(work: PostgresTransaction, worker: int = worker) -> None:
                expired = dict(work.store.hosts.expired_workers())
                if worker in expired:
                    self._release_worker(work, worker, silent=expired[worker])

            self._session.transact(change)

    def _release_worker(
        self, work: PostgresTransaction, worker: int, *, silent: bool = False, keep: Iterable[HostId] = ()
    ) -> None:
        """Take hosts back; without `keep`, all of them, and then the worker is removed. A silent worker may still wait
        for responses; and the database's clock may have been set: by its own clock, the worker may have one lease
        left."""
        question = "SELECT id FROM host WHERE worker = %b::bigint ORDER BY id"
        kept = set(keep)
        hosts = [host for host in work.fetch_host_ids(question, worker) if host not in kept]
        work.lock_returned_hosts(hosts)
        handed = work.db.rows("SELECT host, collection, id FROM handed")
        work.db.prefetch("url", handed)
        work.db.prefetch("page", handed)
        if kept:
            work.store.hosts.release_hosts(worker, hosts)
            return
        rest_s = 0.0
        if silent:
            lease_s = self._session.lease_clock.lease_s
            rest_s = max([lease_s, *map(work.store.hosts.request_s_max, hosts)])
            work.store.hosts.release_silent_worker(worker, lease_s)
        else:
            work.store.hosts.release_worker(worker)
        work.cursor.execute(RELEASE_SQL, [work.store.clock.now() + rest_s * work.store.clock.scale, worker])
        work.flush()
        if work.fetch_host_ids(question, worker):
            raise StaleRow("it leased one more host meanwhile")

    def lease(self, worker: int, hosts: int) -> list[Lease]:
        if boottime() - self._expired_at > EXPIRE_EVERY_S:
            self.expire()
            self._expired_at = boottime()
        self._release_unacknowledged(worker)
        leases: list[Lease] = []
        try:
            self._lease_in_turn(worker, hosts, leases)
        except Exception:
            self._has_lost_leases = self._has_lost_leases or bool(leases)
            raise
        self._held[worker].update(lease.host for lease in leases)
        return leases

    def _lease_in_turn(self, worker: int, hosts: int, leases: list[Lease]) -> None:
        """Lease in one transaction, except for collections that have to choose sites first: those choose in a
        transaction of their own, because choosing waits for others, and a leasing transaction holds host locks."""
        rest: list[int] | None = None
        while rest is None or rest:
            some = partial(self._lease_some, worker=worker, wanted=hosts - len(leases), rest=rest)
            found, rest = self._session.transact(some)
            leases += found
            if rest:
                _choose_sites(self._session, rest[0])

    def _lease_some(
        self, work: PostgresTransaction, worker: int, wanted: int, rest: list[int] | None
    ) -> tuple[list[Lease], list[int]]:
        """Lease hosts; returns them and the collections that were not reached yet. The first of `rest` has chosen its
        sites."""
        respect_limits(work)
        hosts, visits, leases = work.store.hosts, work.store.visits, list[Lease]()
        numbers = [known.row.id for known in hosts.collections_in_turn(worker, wanted)] if rest is None else rest
        for place, number in enumerate(numbers):
            known = work.collection(number)
            is_ready = rest is not None and not place
            if not is_ready and visits.needs_sites(known) and work.db.has_candidates(number):
                return leases, numbers[place:]
            if known.row.state == "running":
                leases += hosts.lease_collection(worker, known, wanted - len(leases))
        return leases, []

    def _release_unacknowledged(self, worker: int) -> None:
        """Return leases whose answer was lost, since their worker does not know them."""
        losses = self._session.connection.losses
        if self._has_lost_leases or losses != self._losses:
            self._has_lost_leases, self._losses = False, losses
            self._session.transact(lambda work: self._release_worker(work, worker, keep=self._held[worker] | {-1}))

    def held_leases(self, worker: int) -> list[Lease]:
        def change(work: PostgresTransaction) -> list[Lease]:
            work.db.lock_hosts(work.fetch_host_ids("SELECT id FROM host WHERE worker = %b::bigint ORDER BY id", worker))
            return work.store.hosts.held_leases(worker)

        leases = self._session.transact(change)
        self._held[worker] = {lease.host for lease in leases}
        return leases

    def borrow_host(self, worker: int, collection: int, host: HostId, host_key: str) -> HostLoan:
        self._release_unacknowledged(worker)

        def change(work: PostgresTransaction) -> HostLoan:
            work.ensure_hosts([(host, host_key)], work.collection(collection))
            return work.store.hosts.borrow_host(worker, collection, host, host_key)

        loan = self._session.transact(change)
        if loan.granted:
            self._held[worker].add(host)
        return loan

    def finish(self, worker: int, batch: list[HostReport]) -> list[NextVisits]:
        def change(work: PostgresTransaction) -> list[NextVisits]:
            breadth = work.breadth_collections()
            in_sessions = [(report.collection, report.host) for report in batch if report.collection in breadth]
            work.db.lock_site_sessions(in_sessions, (report.host for report in batch))
            respect_limits(work)
            by_collection: defaultdict[int, list[HostReport]] = defaultdict(list)
            for report in batch:
                by_collection[report.collection].append(report)
            for number, some in by_collection.items():
                known = work.collection(number)
                keys = [(report.host, number, one.id) for report in some for one in report.reports]
                work.db.prefetch("url", keys)
                work.prefetch_pages(known, keys)
                work.store.visits.prefetch_visits(known, sorted({report.host for report in some if report.keep}))
            return work.store.hosts.finish(worker, batch)

        answers = self._session.transact(change)
        for report, answer in zip(batch, answers, strict=True):
            if not answer.is_leased:
                self._held[worker].discard(report.host)
        return answers

    def overview(self) -> FrontierOverview:
        self.expire()
        return self._session.transact(
            lambda work: FrontierOverview(work.store.collections.status(), work.store.hosts.worker_statuses())
        )


@in_transaction
def _choose_sites(work: PostgresTransaction, number: int) -> None:
    """Choose sites, one process at a time: a process that had to wait finds it done."""
    work.cursor.execute(f"SELECT pg_advisory_xact_lock({TABLE_LOCK}, %b::int)", [number])
    work.counters.refresh()
    known = work.collection(number)
    if work.store.visits.needs_sites(known):
        work.store.urls.breadth.choose_sites(known)


@in_transaction
def claim_parts(
    work: PostgresTransaction,
    node: str,
    projection: str,
    parts: int,
    held: list[OwnedPart],
    at_hand: list[int],
    replicas: int,
) -> OwnedParts:
    """One process at a time claims."""
    work.cursor.execute(f"SELECT pg_advisory_xact_lock({PART_LOCK})")
    return work.store.owners.claim_parts(node, projection, parts, held, at_hand, replicas)


# -- limits of collections (pages_max, requests_max) -------------------------------------------------------------------


limit_usage = on_store(lambda store: store.collections.limit_usage)


@in_transaction
def worker_count(work: PostgresTransaction) -> int:
    return len(work.db.rows("SELECT id FROM worker"))


def lock_limits(session: DatabaseSession) -> None:
    """Lock until `unlock_limits`, or until the connection ends."""
    with session.connection.direct() as connection:
        connection.execute(f"SELECT pg_advisory_lock({LIMIT_LOCK}, 0)")


def unlock_limits(session: DatabaseSession) -> None:
    with session.connection.direct() as connection:
        connection.execute(f"SELECT pg_advisory_unlock({LIMIT_LOCK}, 0)")


def respect_limits(work: PostgresTransaction) -> None:
    """Near a collection's limit one transaction at a time hands out visits, and counts those of the others."""
    catalogue = work.store.collections
    workers = len(work.db.rows("SELECT id FROM worker"))
    near = [known for known in catalogue.running() if catalogue.free_slots(known) < NEAR_LIMIT * workers]
    if near:
        for known in near:
            work.cursor.execute(f"SELECT pg_advisory_xact_lock({LIMIT_LOCK}, %b::int)", [known.row.id])
        work.counters.refresh()


# -- IP addresses: one server alone keeps the claims itself; of several, the first keeps all, in the table `claim` -----


@in_transaction
def claim_address(work: PostgresTransaction, worker: int, host: HostId, address: str) -> float:
    work.db.lock_hosts([host])
    return work.store.hosts.claim_address(worker, host, address)


@in_transaction
def held_delay(work: PostgresTransaction, worker: int, host: HostId) -> float:
    """The delay of a host that this worker holds."""
    work.db.prefetch("host", [(host,)])
    return work.store.hosts.held_delay(worker, host)


@in_transaction
def claim_address_elsewhere(
    work: PostgresTransaction, worker: int, host: HostId, delay_s: float, address: str
) -> float:
    """Claim an address for a host of another server: the first server knows all claims."""
    now = work.store.clock.now()
    row = work.cursor.execute(
        "SELECT host, delay_s, next_at FROM claim WHERE address = %b::text FOR UPDATE", [address]
    ).fetchone() or (None, 0.0, 0.0)
    if row[0] not in {None, host}:
        return float(now + work.store.hosts.claim_wait_s(row[1]))
    if row[0] is None and row[2] > now:
        return float(row[2])
    work.cursor.execute(
        "INSERT INTO claim VALUES (%b::text, %b::bigint, %b::bigint, %b::float8, %b::float8)"
        " ON CONFLICT (address) DO UPDATE SET host = excluded.host, worker = excluded.worker,"
        " delay_s = excluded.delay_s",
        [address, host, worker, float(delay_s), float(row[2])],
    )
    return 0.0


@in_transaction
def release_addresses_elsewhere(work: PostgresTransaction, worker: int, keep: list[HostId]) -> None:
    """Release the worker's addresses of hosts that it holds no longer."""
    now = work.store.clock.now()
    work.cursor.execute(f"{RELEASE_SQL} AND NOT host = ANY(%b::bigint[])", [now, worker, keep])
