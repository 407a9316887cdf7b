"""Database session: runs one call as one PostgreSQL transaction, on a working copy of the rows that the call needs.

Promises: what a call has returned for is committed; a call that fails changes nothing. Time is the database's: no
worker's clock is asked. One thread does all the work of a process.
"""

import functools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tarrafa.clock import Clock
from tarrafa.frontier.postgres.database_connection import DatabaseConnection, translate_errors
from tarrafa.frontier.postgres.schema import open_schema
from tarrafa.frontier.postgres.shared_counters import SharedCollections, SharedCounters
from tarrafa.frontier.postgres.site_locks import SiteWorkingCopy
from tarrafa.frontier.postgres.working_copy import Cursor, Row, StaleCopy
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.model import HostId, UrlId

CHANGE_LOCK = 0x7A66_0002  # held by everybody, and alone by who changes a collection's configuration
P = ParamSpec("P")
S = TypeVar("S", bound="HasSession")
T = TypeVar("T")


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
class PostgresTransaction:
    """One transaction: the store, the working copy that it runs on, and a cursor to ask the database itself."""

    store: FrontierStore
    copy: SiteWorkingCopy
    counters: SharedCounters
    collections: SharedCollections
    cursor: Cursor

    def begin(self) -> None:
        """An empty working copy, but for what every call needs."""
        self.copy.end()
        self.copy.begin(self.cursor)
        self.collections.begin(self.cursor)
        self.counters.begin(self.cursor)

    def write(self) -> None:
        """Write what was changed so far, within the same transaction."""
        self.copy.apply(self.cursor.connection)
        self.counters.flush()

    def flush(self) -> None:
        """The same, and then the copy is empty again."""
        self.write()
        self.begin()

    def collection(self, number: int) -> LoadedCollection:
        return self.store.collections.by_id(number)

    def breadth_collections(self) -> list[int]:
        """The collections whose sites are walked through."""
        return [known.row.id for known in self.store.collections.all() if known.order.is_breadth]

    def ensure_hosts(self, rows: Iterable[tuple[HostId, str]], known: LoadedCollection) -> dict[HostId, str]:
        """Make the rows of hosts that are new, in order, so that two who do so at once wait but never in a ring. Their
        sites, as far as we can tell."""
        rows = sorted(set(rows))
        hosts, sites = [host for host, _ in rows], [self._site_of(key, known) for _, key in rows]
        self.cursor.execute(
            "INSERT INTO host (id, key, site) SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[])"
            " ON CONFLICT DO NOTHING",
            [hosts, [key for _, key in rows], sites],
        )
        self.copy.lock_hosts(hosts)
        return dict(zip(hosts, sites, strict=True))

    def _site_of(self, key: str, known: LoadedCollection) -> str:
        return self.store.urls.site_of(key, known.config.network.suffixes)

    def receive_hosts(self, rows: Iterable[tuple[HostId, str]], known: LoadedCollection) -> None:
        """The same for hosts of which the collection is to have URLs: with what their sites know of them."""
        rows, number = sorted(set(rows)), known.row.id
        if known.order.is_breadth:
            sites = {host: self._site_of(key, known) for host, key in rows}
            sites |= self.copy.site_names(sites)
            self.copy.create_and_lock_sites(number, sites.values())
            self.ensure_hosts(rows, known)
            if not sites.items() <= set(self.copy.rows("SELECT id, site FROM host")):
                raise StaleCopy("host: somebody else made one, of another site")
            return
        sites = self.ensure_hosts(rows, known)
        at_work = {host for (host,) in self.copy.rows("SELECT host FROM work WHERE collection = ?", (number,))}
        self.copy.prefetch("site", [(number, site) for host, site in sites.items() if host not in at_work])

    def fetch_host_ids(self, sql: str, *values: Any) -> list[HostId]:
        return [row[0] for row in self.cursor.execute(sql, values).fetchall()]

    def lock_walks(self, hosts: list[HostId]) -> None:
        """Hosts that come back, and the walks through sites that their visits belong to (`breadth` order)."""
        walked, pairs = self.breadth_collections(), list[Row]()
        if walked:
            pairs = self.cursor.execute(
                "SELECT DISTINCT collection, host FROM handed WHERE host = ANY(%b::bigint[])"
                " AND collection = ANY(%b::bigint[])",
                [hosts, walked],
            ).fetchall()
        self.copy.lock_walks(((number, host) for number, host in pairs), hosts)

    def acquire_walks(self, number: int) -> None:
        """Of all sites that are at hand."""
        if self.collection(number).order.is_breadth:
            self.copy.acquire_walks(number, [site for (site,) in self.copy.rows("SELECT DISTINCT site FROM host")])

    def prefetch_pages(self, known: LoadedCollection, keys: list[tuple[HostId, int, UrlId]]) -> None:
        """What is known of these URLs beside their rows, in a collection that is kept fresh."""
        if not known.config.keeps_fresh:
            return
        self.copy.prefetch("page", keys)
        self.copy.prefetch("due", self.copy.rows("SELECT host, collection, shelf, key, id FROM page"))
        hosts = sorted({key[0] for key in keys})
        self.store.urls.revisits.prefetch_shelves(known, hosts)
        sites = dict(self.copy.rows("SELECT id, site FROM host"))
        self.copy.prefetch("site", [(known.row.id, sites[host]) for host in hosts if host in sites])


class DatabaseSession:
    """One database, and the store that runs on a working copy of it."""

    def __init__(
        self,
        connection: DatabaseConnection,
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        servers: int = 1,
    ) -> None:
        self.connection = connection
        self._clock, self.lease_clock = clock or DatabaseClock(0.0, 0.0), lease_clock or DatabaseLeaseClock()
        with translate_errors(connection.where):
            self.meta = open_schema(connection.connect(), suffix_list, connection.where)
        self.copy = SiteWorkingCopy(self.meta["suffix_list"])
        self._counters = SharedCounters(self.copy, random.getrandbits(16))
        self.collections = SharedCollections(self.copy, self._counters, self._clock, servers)
        self._store = FrontierStore(self.copy, self._clock, self.lease_clock, self._counters, self.collections)

    def transact(self, work: Callable[[PostgresTransaction], T], *, alone: bool = False) -> T:
        """One transaction; `alone`: while no other one runs."""
        return self.connection.with_retries(lambda: self._attempt(work, alone=alone))

    def _attempt(self, work: Callable[[PostgresTransaction], T], *, alone: bool) -> T:
        connection = self.connection.connect()
        cursor = connection.cursor(binary=True)
        transaction = PostgresTransaction(self._store, self.copy, self._counters, self.collections, cursor)
        try:
            with connection.transaction():
                self._lock_and_set_clocks(cursor, alone=alone)
                transaction.begin()
                result = work(transaction)
                transaction.write()
                self.collections.flush()
            self._counters.on_commit()
            return result
        finally:
            self.copy.end()
            self._counters.on_rollback()

    def _lock_and_set_clocks(self, cursor: Cursor, *, alone: bool) -> None:
        if alone:  # nobody else is kept waiting by our thinking: they wait for us anyway
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '10min'")
        lock = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        # Two statements in one message: the second one sees what was committed while the first one waited.
        asked = cursor.connection.execute(
            f"SELECT {lock}({CHANGE_LOCK}); SELECT extract(epoch FROM clock_timestamp())::float8"
        )
        asked.nextset()
        row = asked.fetchone()
        assert row is not None
        for clock in (self._clock, self.lease_clock):
            if isinstance(clock, DatabaseClock | DatabaseLeaseClock):
                object.__setattr__(clock, "moment", row[0])

    def reserve_sequence(self, count: int) -> int:
        """The first of so many numbers in the order of discovery, for the next call. They are taken in a transaction of
        their own, so that no other process waits for that call to end."""

        def work(work: PostgresTransaction) -> int:
            row = work.cursor.execute(
                "INSERT INTO number VALUES ('sequence', %b::bigint) ON CONFLICT (name) DO UPDATE"
                " SET value = number.value + excluded.value RETURNING value",
                [count],
            ).fetchone()
            assert row is not None
            return int(row[0])

        first = self.transact(work) - count
        self.collections.start_sequence(first)
        return first


class HasSession(Protocol):
    """An object with calls on one database."""

    _session: DatabaseSession


def in_transaction(method: Callable[Concatenate[S, PostgresTransaction, P], T]) -> Callable[Concatenate[S, P], T]:
    """A method that is one transaction as a whole: it is given the transaction, and its caller is not asked for one."""

    @functools.wraps(method)
    def call(self: S, /, *positional: P.args, **named: P.kwargs) -> T:
        return self._session.transact(lambda work: method(self, work, *positional, **named))

    return call
