"""The frontier in one PostgreSQL database, as one process sees it.

Promises: what a call has returned for is committed; two processes never hold one host; no two calls wait for each
other in a ring (hosts are locked first, in order, and what hangs below none last); a call that meets another one's
change begins anew; a database that goes away is waited for, and then everything goes on where it was.

One thread does all the work of a process. Time is the database's: no worker's clock is asked.
"""

import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.errors import ConfigError, DataError, DiskFull, FrontierError, Unreachable
from tarrafa.frontier.protocol import (
    LEASE_S,
    CollectionRow,
    Continuation,
    Facts,
    HostReport,
    Instant,
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
from tarrafa.frontier.store.collections import Known, Tally
from tarrafa.frontier.store.hosts import LeaseClock
from tarrafa.frontier.store.postgres import buckets
from tarrafa.frontier.store.postgres.buckets import Atlas
from tarrafa.frontier.store.postgres.copy import Copy, Cursor, Row, Stale
from tarrafa.frontier.store.postgres.schema import open_schema
from tarrafa.frontier.store.postgres.shared import SharedCollections, SharedCounters
from tarrafa.frontier.store.schema import ALL
from tarrafa.frontier.store.store import Store
from tarrafa.model import HostId, UrlId
from tarrafa.process import ProcessId

ATTEMPTS_MAX = 20  # of a call that meets others
PATIENCE_S = LEASE_S  # a database that is away for longer than a lease has cost us our hosts anyway
RECONNECT_EVERY_S = 0.5
EXPIRE_EVERY_S = 1.0
CHANGE_LOCK = 0x7A66_0002  # held by everybody, and alone by who changes a collection's configuration
LIMIT_LOCK = 0x7A66_0003  # held by who hands out the last visits of a collection with a limit
NEAR_LIMIT = 2_000  # visits per worker
HOSTS_PER_CHANGE, PLANS_PER_CALL = 500, 20
SETTINGS = {
    "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off", "jit": "off",
    "idle_in_transaction_session_timeout": "30s", "statement_timeout": "10min", "lock_timeout": "60s",
    "tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
}  # fmt: skip
CONNECTION = {
    "connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000, "application_name": "tarrafa",
}  # fmt: skip
HOPELESS = (
    "authentication failed", "does not exist", "no password supplied", "pg_hba.conf", "permission denied",
    "Servname not supported", "invalid port",
)  # fmt: skip
T = TypeVar("T")


class Moved(FrontierError):
    """Which server keeps which sites has changed: nothing was done, and the atlas is to be read again."""


class DatabaseClock(Clock):
    """What the database's clock showed when the transaction began."""

    moment: float

    def now(self) -> float:
        return self.moment


class DatabaseLeaseClock(LeaseClock):
    """The same clock, for deadlines. It may be set, but it never begins anew."""

    era = ""
    moment = 0.0

    def now(self) -> float:
        return self.moment


@dataclass(slots=True)
class Work:
    """One transaction: the store, what it runs on, and a way to ask the database itself."""

    store: Store
    copy: Copy
    cursor: Cursor

    def known(self, number: int) -> Known:
        return self.store.catalogue.by_id(number)

    def ensure_hosts(self, rows: Iterable[tuple[HostId, str]], known: Known) -> None:
        """Make the rows of hosts that are new, in order, so that two who do so at once wait but never in a ring."""
        rows = sorted(set(rows))
        sites = [self.store.urls.site_of(key, known.config.network.suffixes) for _, key in rows]
        self.cursor.execute(
            "INSERT INTO host (id, key, site) SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[])"
            " ON CONFLICT DO NOTHING",
            [[host for host, _ in rows], [key for _, key in rows], sites],
        )
        self.copy.lock_hosts(host for host, _ in rows)
        names = {host: site for (host, _), site in zip(rows, sites, strict=True)}
        at_home = {host for (host,) in self.copy.rows("SELECT host FROM work WHERE collection = ?", (known.row.id,))}
        self.copy.need("site", [(known.row.id, site) for host, site in names.items() if host not in at_home])

    def hosts_after(self, sql: str, *values: Any) -> list[HostId]:
        return [row[0] for row in self.cursor.execute(sql, values).fetchall()]


class Server:
    """One database. Its methods are those of the Protocol, and block."""

    def __init__(
        self, dsn: str, suffix_list: str, clock: Clock | None = None, lease_clock: LeaseClock | None = None
    ) -> None:
        self.where, self._dsn = describe(dsn), dsn
        self._clock = clock or DatabaseClock(0.0, 0.0)
        self._lease_clock = lease_clock or DatabaseLeaseClock()
        self._suffix_list = suffix_list
        self._connection: psycopg.Connection[Row] | None = None
        self._store: Store | None = None
        self._expired_at = 0.0
        self._held: defaultdict[int, set[HostId]] = defaultdict(set)  # by our workers, as far as they know
        self._lost_answers = False
        self._unconfirmed: dict[int, float] = {}
        self.edition = 0  # of the atlas that our caller goes by; 0: any
        self.patience_s = PATIENCE_S
        self._connect()

    # -- the connection ---------------------------------------------------------------------------------------

    def _connect(self) -> "psycopg.Connection[Row]":
        if self._connection is not None and not self._connection.closed:
            return self._connection
        try:
            connection = psycopg.connect(self._dsn, autocommit=True, **CONNECTION)  # type: ignore[arg-type]
            connection.execute("SELECT " + ", ".join(f"set_config('{k}', '{v}', false)" for k, v in SETTINGS.items()))
            if self._store is None:
                self._open(connection)
        except psycopg.OperationalError as error:
            said = " ".join(str(error).split())
            if any(words in said for words in HOPELESS):
                raise ConfigError(f"{self.where}: {said}") from None
            raise Unreachable(f"{self.where}: no database answers here ({said})") from None
        except pg.Error as error:
            raise DataError(f"{self.where}: {' '.join(str(error).split())}") from None
        self._connection = connection
        return connection

    def _open(self, connection: "psycopg.Connection[Row]") -> None:
        self.meta = open_schema(connection, self._suffix_list, self.where)
        self._copy = Copy(self.meta["suffix_list"])
        counters = SharedCounters(self._copy, random.getrandbits(16))
        self._catalogue = SharedCollections(self._copy, counters, self._clock)
        self._store = Store(self._copy, self._clock, self._lease_clock, counters, self._catalogue)
        self._counters = counters

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _call(self, work: Callable[[Work], T], *, alone: bool = False) -> T:
        """One transaction; again when somebody was in the way, later when the database is."""
        attempts, patience = 0, boottime() + self.patience_s
        while True:
            try:
                return self._attempt(work, alone=alone)
            except (Stale, pg.DeadlockDetected, pg.SerializationFailure, pg.UniqueViolation) as error:
                attempts += 1
                if attempts == ATTEMPTS_MAX:
                    raise FrontierError(f"{self.where}: gave up after {attempts} attempts ({error})") from None
                time.sleep(random.uniform(0.0, 0.01 * attempts))
            except (pg.DiskFull, pg.OutOfMemory) as error:
                raise DiskFull(f"{self.where}: {error}") from None
            except psycopg.OperationalError as error:
                self._lost_answers = True
                self._wait_for_it(error, patience)
            except psycopg.Error as error:
                raise DataError(f"{self.where}: {' '.join(str(error).split())}") from None

    def _wait_for_it(self, error: psycopg.Error, until: float) -> None:
        """Its last answer may be lost, but not what it committed: whatever we ask again is harmless."""
        if self._connection is not None:
            self._connection.close()
        while True:
            try:
                self._connect()
                return
            except Unreachable:
                if boottime() > until:
                    said = " ".join(str(error).split())
                    raise Unreachable(f"{self.where}: the database went away ({said})") from None
                time.sleep(RECONNECT_EVERY_S)

    def _attempt(self, work: Callable[[Work], T], *, alone: bool) -> T:
        connection = self._connect()
        assert self._store is not None
        cursor = connection.cursor(binary=True)
        try:
            with connection.transaction():
                self._begin(cursor, alone=alone)
                result = work(Work(self._store, self._copy, cursor))
                self._copy.apply(connection)
                self._counters.flush()
                self._catalogue.flush()
            self._counters.settle()
            return result
        finally:
            self._copy.end()
            self._counters.forget()

    def _begin(self, cursor: Cursor, *, alone: bool) -> None:
        lock = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        cursor.execute(
            f"SELECT {lock}({CHANGE_LOCK}), extract(epoch FROM clock_timestamp())::float8,"
            " (SELECT value FROM number WHERE name = 'edition')"
        )
        row = cursor.fetchone()
        assert row is not None
        if self.edition and row[2] != self.edition:
            raise Moved(f"{self.where}: sites were moved between servers")
        for clock in (self._clock, self._lease_clock):
            if isinstance(clock, DatabaseClock | DatabaseLeaseClock):
                object.__setattr__(clock, "moment", row[1])
        self._renew_copy(cursor)

    def _renew_copy(self, cursor: Cursor) -> None:
        """An empty working copy, but for what everybody needs."""
        self._copy.end()
        self._copy.begin(cursor)
        self._catalogue.begin(cursor)
        self._counters.begin(cursor)

    # -- the atlas --------------------------------------------------------------------------------------------

    def read_atlas(self, places: list[str]) -> Atlas:
        """Of the first server."""
        if "member" in self.meta:
            raise ConfigError(f"{self.where}: is one of several servers, and is not the first of its servers")
        connection = self._connect()
        with connection.transaction():
            return buckets.read(connection, places)

    def write_atlas(self, atlas: Atlas) -> None:
        connection = self._connect()
        with connection.transaction():
            buckets.write(connection, atlas)

    def belong(self, first: str, edition: int) -> None:
        """To the frontier of that first server, which may be ourselves."""
        connection, mine = self._connect(), self.meta["id"]
        if "places" in self.meta and first != mine:
            raise ConfigError(f"{self.where}: is the first server of another frontier")
        with connection.transaction():
            if first != mine:
                connection.execute("INSERT INTO meta VALUES ('member', %s) ON CONFLICT DO NOTHING", (first,))
                row = connection.execute("SELECT value FROM meta WHERE key = 'member'").fetchone()
                if row is None or row[0] != first:
                    raise ConfigError(f"{self.where}: belongs to another frontier")
            buckets.set_edition(connection, edition)

    def lock_limits(self) -> None:
        """Held until it is given back, or until we are gone."""
        self._connect().execute(f"SELECT pg_advisory_lock({LIMIT_LOCK}, 0)")

    def unlock_limits(self) -> None:
        self._connect().execute(f"SELECT pg_advisory_unlock({LIMIT_LOCK}, 0)")

    # -- collections ------------------------------------------------------------------------------------------

    def open_collection(self, config: bytes, roots: list[Offer], number: int | None = None) -> CollectionRow:
        self._reserve(len(roots))

        def work(work: Work) -> CollectionRow:
            known, before = work.store.catalogue.open(config, number)
            if before is not None:
                work.store.begin_change(known, before)
                self._change(work, known.row.id, before)
            known = work.known(known.row.id)
            work.ensure_hosts(((root.host, root.host_key) for root in roots), known)
            work.store.urls.seed(known.row.id, roots)
            return known.row

        return self._call(work, alone=True)

    def _change(self, work: Work, number: int, before: Collection) -> None:
        """Host by host, whole sites together: memory holds some of them only, but the transaction all."""
        rows = work.cursor.execute(
            "SELECT host.id, site FROM work JOIN host ON host.id = work.host WHERE collection = %b::bigint"
            " ORDER BY site, host.id",
            [number],
        ).fetchall()
        for hosts in _chunks(rows):
            self._flush(work)
            work.copy.lock_hosts(hosts)
            for table in ("url", "pending", "page", "due", "visit"):
                work.copy.need_first(table, [(host, number) for host in hosts], ALL)
            work.copy.need_first("shelf", [(number, host) for host in hosts], ALL)
            sites = work.copy.rows("SELECT DISTINCT site FROM host")
            work.copy.need("site", [(number, site) for (site,) in sites])
            self._need_standing(work, number, hosts)
            work.store.change(work.known(number), before)
        self._flush(work)

    def _need_standing(self, work: Work, number: int, hosts: list[HostId]) -> None:
        """By no prefix of its key: read as a whole, the few times that this happens."""
        urls = work.copy.rows("SELECT host, id, in_links FROM url WHERE collection = ?", (number,))
        work.copy.need("standing", [(number, kept, links, host, url) for host, url, links in urls for kept in (0, 1)])

    def _flush(self, work: Work) -> None:
        """What was changed so far is written, within the same transaction; the copy is empty again."""
        assert self._connection is not None
        work.copy.apply(self._connection)
        self._counters.flush()
        self._renew_copy(work.cursor)

    def collections(self) -> list[CollectionRow]:
        return self._call(lambda work: work.store.catalogue.rows())

    def take_over(self, rows: list[CollectionRow]) -> None:
        """The collections are as the first of several servers has them."""
        mine = {row.id: row for row in self.collections()}
        for row in rows:
            here = mine.get(row.id)
            if here == row:
                continue
            if here is None or here.config != row.config:
                self.open_collection(row.config, [], row.id)

            def work(work: Work, row: CollectionRow = row) -> None:
                work.store.catalogue.set_revision(work.known(row.id), row.revision)
                work.store.catalogue.control(row.name, row.state, row.reason)

            self._call(work)

    def tally(self) -> dict[int, Tally]:
        return self._call(lambda work: work.store.catalogue.tally())

    def share_limits(self, elsewhere: dict[int, Tally]) -> None:
        """What other servers have of the collections counts towards their limits too."""
        self._catalogue.elsewhere = elsewhere

    def share_rates(self, servers: int) -> None:
        """Revisits are paid for here by one in so many of what comes in."""
        self._catalogue.servers = servers

    def control(self, name: str, state: str, reason: str) -> None:
        self._call(lambda work: work.store.catalogue.control(name, state, reason))

    # -- URLs -------------------------------------------------------------------------------------------------

    def _reserve(self, count: int) -> None:
        """Numbers in the order of discovery, in a transaction of their own: nobody waits for ours to end."""

        def work(work: Work) -> int:
            row = work.cursor.execute(
                "INSERT INTO number VALUES ('sequence', %b::bigint) ON CONFLICT (name) DO UPDATE"
                " SET value = number.value + excluded.value RETURNING value",
                [count],
            ).fetchone()
            assert row is not None
            return int(row[0])

        self._catalogue.reserved = self._call(work) - count

    def discover(self, collection: int, offers: list[Offer]) -> None:
        news = self._call(lambda work: self._news(work.cursor, collection, offers))
        if not news:
            return
        self._reserve(len(news))
        first = self._catalogue.reserved

        def work(work: Work) -> None:
            known, number = work.known(collection), collection
            self._catalogue.reserved = first
            work.ensure_hosts(((offer.host, offer.host_key) for offer in news), known)
            work.copy.need("url", [(offer.host, number, offer.id) for offer in news])
            if known.config.keeps_fresh:
                self._prepare(work, known, [(offer.host, number, offer.id) for offer in news])
            work.store.urls.discover(collection, news)

        self._call(work)

    @staticmethod
    def _news(cursor: Cursor, collection: int, offers: list[Offer]) -> list[Offer]:
        """What changes nothing needs no lock: most links lead to what is known at no greater depth."""
        rows = cursor.execute(
            "SELECT k.n FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::float8[])"
            " WITH ORDINALITY AS k(host, id, depth, redirects, role, announced, n)"
            " JOIN url u ON u.host = k.host AND u.collection = %b::bigint AND u.id = k.id"
            " WHERE (u.depth, u.redirects) <= (k.depth, k.redirects) AND (k.role = u.role OR u.role != 0)"
            " AND k.announced <= coalesce(u.announced, 0)",
            [
                [offer.host for offer in offers],
                [offer.id for offer in offers],
                [offer.depth for offer in offers],
                [offer.redirects for offer in offers],
                [offer.role for offer in offers],
                [float(offer.announced) for offer in offers],
                collection,
            ],
        ).fetchall()
        known = {number - 1 for (number,) in rows}
        return [offer for place, offer in enumerate(offers) if place not in known]

    def _prepare(self, work: Work, known: Known, keys: list[tuple[HostId, int, UrlId]]) -> None:
        """What is kept fresh has more to it."""
        work.copy.need("page", keys)
        rows = work.copy.rows("SELECT host, collection, shelf, key, id FROM page")
        work.copy.need("due", rows)
        work.store.urls.revisits.prepare(known, sorted({key[0] for key in keys}))
        sites = work.copy.rows("SELECT DISTINCT site FROM host")
        work.copy.need("site", [(known.row.id, site) for (site,) in sites])

    def weigh(self, collection: str, weights: list[Weight]) -> None:
        def work(work: Work) -> None:
            known = work.store.catalogue.find(collection)
            if known is None:
                return
            news = self._moved(work.cursor, known.row.id, weights)
            work.copy.lock_hosts(weight.host for weight in news)
            keys = [(weight.host, known.row.id, weight.id) for weight in news]
            work.copy.need("url", keys)
            if known.config.keeps_fresh:
                self._prepare(work, known, keys)
            work.store.urls.weigh(known, news)

        self._call(work)

    @staticmethod
    def _moved(cursor: Cursor, collection: int, weights: list[Weight]) -> list[Weight]:
        rows = cursor.execute(
            "SELECT k.n FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[])"
            " WITH ORDINALITY AS k(host, id, in_links, depth, n)"
            " JOIN url u ON u.host = k.host AND u.collection = %b::bigint AND u.id = k.id"
            " WHERE u.in_links != k.in_links OR k.depth >= 0 AND k.depth < u.depth",
            [
                [weight.host for weight in weights],
                [weight.id for weight in weights],
                [weight.in_links for weight in weights],
                [weight.depth for weight in weights],
                collection,
            ],
        ).fetchall()
        return [weights[number - 1] for (number,) in rows]

    def look_up(self, host: HostId, url: UrlId) -> Facts:
        return self._call(lambda work: work.store.look_up(host, url))

    # -- workers and hosts ------------------------------------------------------------------------------------

    def join(self, name: str, process: ProcessId, number: int | None = None) -> Terms:
        self.expire()
        ghost = self._call(lambda work: work.store.hosts.namesake(name, process))
        if ghost is not None:
            self.leave(ghost)

        def work(work: Work) -> Terms:
            terms = work.store.hosts.join(name, process, number)
            if number is not None:
                self._unconfirmed[number] = self._lease_clock.now() + self._lease_clock.lease_s
            return terms

        return self._call(work)

    def of_process(self, process: ProcessId) -> list[int]:
        return self._call(lambda work: work.store.hosts.of_process(process))

    def time(self) -> Instant:
        return self._call(lambda work: Instant(self._clock.now(), self._clock.scale))

    def is_confirmed(self, worker: int) -> bool:
        """Whether it has renewed since it joined: what renews knows of this server, and would miss it."""
        first = self._unconfirmed.get(worker)
        if first is None:
            return True

        def deadline(work: Work) -> float:
            return float(work.copy.value("SELECT deadline FROM worker WHERE id = ?", (worker,)) or 0.0)

        if self._call(deadline) > first:
            del self._unconfirmed[worker]
        return worker not in self._unconfirmed

    def renew(self, worker: int, note: str) -> float:
        return self._call(lambda work: work.store.hosts.renew(worker, note))

    def leave(self, worker: int) -> None:
        self._call(lambda work: self._free(work, worker, 0.0))
        self._held.pop(worker, None)

    def expire(self) -> None:
        """Take back the hosts of workers that are dead or silent, each in a transaction of its own."""
        for worker, _ in self._call(lambda work: work.store.hosts.silent()):

            def work(work: Work, worker: int = worker) -> None:
                wait_s = dict(work.store.hosts.silent()).get(worker)
                if wait_s is not None:
                    # The database's clock may have been set: by its own, it may have up to one lease left.
                    self._free(work, worker, max(wait_s, self._lease_clock.lease_s) if wait_s else 0.0)

            self._call(work)

    def _free(self, work: Work, worker: int, wait_s: float, keep: Iterable[HostId] = ()) -> None:
        """Take hosts back; all of them, if none are to be kept, and then it is no worker any more."""
        question = "SELECT id FROM host WHERE worker = %b::bigint ORDER BY id"
        kept = set(keep)
        hosts = [host for host in work.hosts_after(question, worker) if host not in kept]
        work.copy.lock_hosts(hosts)
        handed = work.copy.rows("SELECT host, collection, id FROM handed")
        work.copy.need("url", handed)
        work.copy.need("page", handed)
        if kept:
            work.store.hosts.hand_back(worker, hosts)
            return
        work.store.hosts.free(worker, wait_s)
        work.cursor.execute(
            "UPDATE claim SET host = NULL, worker = NULL, next_at = greatest(next_at, %b::float8 + delay_s)"
            " WHERE worker = %b::bigint",
            [self._clock.now() + wait_s * self._clock.scale, worker],
        )
        self._flush(work)
        if work.hosts_after(question, worker):
            raise Stale("it leased one more host meanwhile")

    def lease(self, worker: int, hosts: int) -> list[Lease]:
        if boottime() - self._expired_at > EXPIRE_EVERY_S or not isinstance(self._lease_clock, DatabaseLeaseClock):
            self.expire()
            self._expired_at = boottime()
        self._drop_ghosts(worker)

        def work(work: Work) -> list[Lease]:
            self._respect_limits(work)
            return work.store.hosts.lease(worker, hosts)

        leases = self._call(work)
        self._held[worker].update(lease.host for lease in leases)
        return leases

    def _respect_limits(self, work: Work) -> None:
        """Near a collection's limit visits are handed out by one at a time, who counts what the others have."""
        catalogue = work.store.catalogue
        workers = len(work.copy.rows("SELECT id FROM worker"))
        near = [known for known in catalogue.running() if catalogue.slots(known) < NEAR_LIMIT * workers]
        if near:
            for known in near:
                work.cursor.execute(f"SELECT pg_advisory_xact_lock({LIMIT_LOCK}, %b::int)", [known.row.id])
            self._counters.refresh()

    def _drop_ghosts(self, worker: int) -> None:
        """Leases that were given in an answer that never came are not known to their holder."""
        if self._lost_answers:
            self._lost_answers = False
            self._call(lambda work: self._free(work, worker, 0.0, self._held[worker] | {-1}))

    def held(self, worker: int) -> list[Lease]:
        def work(work: Work) -> list[Lease]:
            work.copy.lock_hosts(work.hosts_after("SELECT id FROM host WHERE worker = %b::bigint ORDER BY id", worker))
            return work.store.hosts.held(worker)

        leases = self._call(work)
        self._held[worker] = {lease.host for lease in leases}
        return leases

    def borrow(self, worker: int, collection: int, host: HostId, host_key: str) -> Loan:
        self._drop_ghosts(worker)

        def work(work: Work) -> Loan:
            work.ensure_hosts([(host, host_key)], work.known(collection))
            return work.store.hosts.borrow(worker, collection, host, host_key)

        loan = self._call(work)
        if loan.granted:
            self._held[worker].add(host)
        return loan

    def robots_text(self, digest: bytes) -> bytes:
        return self._call(lambda work: work.store.hosts.robots_text(digest))

    def claim(self, worker: int, host: HostId, address: str) -> float:
        def work(work: Work) -> float:
            work.copy.lock_hosts([host])
            return work.store.hosts.claim(worker, host, address)

        return self._call(work)

    def held_delay(self, worker: int, host: HostId) -> float:
        """The delay of a host that is with this worker."""

        def work(work: Work) -> float:
            work.copy.need("host", [(host,)])
            return work.store.hosts.held_delay(worker, host)

        return self._call(work)

    def claim_elsewhere(self, worker: int, host: HostId, delay_s: float, address: str) -> float:
        """An address for a host that another server keeps: the first of them knows of all that are taken."""

        def work(work: Work) -> float:
            now = self._clock.now()
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

        return self._call(work)

    def release_elsewhere(self, worker: int, keep: Iterable[HostId]) -> None:
        """The worker's addresses of hosts that it holds no longer."""
        kept = list(keep)

        def work(work: Work) -> None:
            work.cursor.execute(
                "UPDATE claim SET host = NULL, worker = NULL, next_at = greatest(next_at, %b::float8 + delay_s)"
                " WHERE worker = %b::bigint AND NOT host = ANY(%b::bigint[])",
                [self._clock.now(), worker, kept],
            )

        self._call(work)

    def finish(self, worker: int, batch: list[HostReport]) -> list[Continuation]:
        def work(work: Work) -> list[Continuation]:
            work.copy.lock_hosts(report.host for report in batch)
            self._respect_limits(work)
            by_collection: defaultdict[int, list[HostReport]] = defaultdict(list)
            for report in batch:
                by_collection[report.collection].append(report)
            for number, reports in by_collection.items():
                known = work.known(number)
                keys = [(report.host, number, one.id) for report in reports for one in report.reports]
                work.copy.need("url", keys)
                if known.config.keeps_fresh:
                    self._prepare(work, known, keys)
                work.store.visits.prepare(known, sorted({report.host for report in reports if report.keep}))
            return work.store.hosts.finish(worker, batch)

        answers = self._call(work)
        for report, answer in zip(batch, answers, strict=True):
            if not answer.held:
                self._held[worker].discard(report.host)
        return answers

    def overview(self) -> Overview:
        self.expire()
        return self._call(lambda work: Overview(work.store.catalogue.status(), work.store.hosts.nodes()))

    # -- plans ------------------------------------------------------------------------------------------------

    def unplanned(self) -> list[int]:
        return self._call(lambda work: work.store.planning.unplanned())

    def pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[PageFacts]:
        def work(work: Work) -> list[PageFacts]:
            rows = work.cursor.execute(
                "SELECT page.host, page.id FROM page JOIN url USING (host, collection, id)"
                " WHERE page.collection = %b::bigint AND (page.host, page.id) > (%b::bigint, %b::bytea) AND role = 0"
                " ORDER BY page.host, page.id LIMIT %b::bigint",
                [collection, host, url, ALL if limit < 0 else limit],
            ).fetchall()
            keys = [(one, collection, page) for one, page in rows]
            for table in ("page", "url"):
                work.copy.need(table, keys)
            work.copy.need("host", [(one,) for one, _ in rows])
            return work.store.planning.pages(work.known(collection), host, url, limit)

        return self._call(work)

    def shelves(self, collection: int, host: HostId, limit: int) -> list[ShelfFacts]:
        def work(work: Work) -> list[ShelfFacts]:
            hosts = self._shelved(work, collection, host, limit)
            work.copy.need_first("shelf", [(collection, one) for one in hosts], ALL)
            work.copy.need("host", [(one,) for one in hosts])
            return work.store.planning.shelves(work.known(collection), host, limit)

        return self._call(work)

    @staticmethod
    def _shelved(work: Work, collection: int, host: HostId, limit: int) -> list[HostId]:
        return work.hosts_after(
            "SELECT DISTINCT host FROM shelf WHERE collection = %b::bigint AND host > %b::bigint ORDER BY host"
            " LIMIT %b::bigint",
            collection, host, limit,
        )  # fmt: skip

    def price(self, collection: int, price: float) -> None:
        self._call(lambda work: work.store.planning.price(work.known(collection), price))

    def stir(self, collection: int, host: HostId, limit: int) -> HostId | None:
        def work(work: Work) -> HostId | None:
            hosts, known = self._shelved(work, collection, host, limit), work.known(collection)
            work.copy.lock_hosts(hosts)
            work.store.urls.revisits.prepare(known, hosts)
            return work.store.planning.stir(known, host, limit)

        return self._call(work)

    def plan(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        def work(work: Work) -> None:
            work.copy.lock_hosts(visit.host for visit in visits)
            ours = [visit for visit in visits if work.copy.is_locked(visit.host)]  # others are another server's
            work.copy.need("due", [(visit.host, collection, number, visit.at, visit.id) for visit in ours])
            work.copy.need("shelf", [(collection, visit.host, number) for visit in ours])
            work.store.planning.plan(work.known(collection), number, ours)

        self._call(work)

    def begin_plan(self, collection: int, number: int, end: float) -> None:
        self._call(lambda work: work.store.planning.begin_plan(work.known(collection), number, end))

    def drop_plans(self, collection: int, limit: int) -> int:
        def work(work: Work) -> int:
            known, most = work.known(collection), min(limit, PLANS_PER_CALL)
            rows = work.cursor.execute(
                "SELECT host, shelf FROM shelf WHERE collection = %b::bigint AND shelf >= 0 AND shelf < %b::bigint"
                " LIMIT %b::bigint",
                [collection, known.tuning.plan, most],
            ).fetchall()
            work.copy.lock_hosts(host for host, _ in rows)
            work.copy.need("shelf", [(collection, host, shelf) for host, shelf in rows])
            work.copy.need_first("due", [(host, collection, shelf) for host, shelf in rows], ALL)
            return work.store.planning.drop_plans(known, most)

        return self._call(work)


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


def describe(dsn: str) -> str:
    """The address for people: never with its password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # what it says of it holds the password too
        raise ConfigError("not the address of a PostgreSQL database; write postgresql://user@host:port/name") from None
    with contextlib.suppress(KeyError):
        del parts["password"]
    user = f"{parts['user']}@" if parts.get("user") else ""
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"postgresql://{user}{parts.get('host') or ''}{port}/{parts.get('dbname') or ''}"
