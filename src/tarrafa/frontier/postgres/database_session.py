"""Database session: runs one call as one PostgreSQL transaction, on a cache of the rows that the call needs.

Promises: when a call returns, its changes are committed; a call that fails changes nothing. Times are the database's:
no worker's clock is used. One thread does all the work of a process.
"""

import functools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec, TypeVar

from tarrafa.clock import Clock
from tarrafa.frontier.postgres.database_connection import DatabaseConnection, translate_errors
from tarrafa.frontier.postgres.note_segments import append_notes
from tarrafa.frontier.postgres.row_cache import Cursor, Row, StaleRow
from tarrafa.frontier.postgres.row_locks import LockedDatabase
from tarrafa.frontier.postgres.schema import open_schema
from tarrafa.frontier.postgres.shared_counters import SharedCollections, SharedCounters
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import FrontierStore
from tarrafa.model import HostId, UrlId

CHANGE_LOCK = 0x7A66_0002  # shared by all calls; exclusive for a change of a collection's configuration
P = ParamSpec("P")
T = TypeVar("T")


class DatabaseClock(Clock):
    """The time of the database's clock when the transaction began."""

    moment: float

    def set_to(self, moment: float) -> None:
        object.__setattr__(self, "moment", moment)  # as a dataclass it is frozen

    def now(self) -> float:
        return self.moment


class DatabaseLeaseClock(LeaseClock):
    """The same clock, for lease deadlines. It may be set, but it never begins anew. Each session has its own: servers
    have different clocks, and their transactions overlap."""

    era = ""
    moment = 0.0

    def set_to(self, moment: float) -> None:
        self.moment = moment

    def now(self) -> float:
        return self.moment


@dataclass(slots=True)
class PostgresTransaction:
    """One transaction: the store, the row cache that it runs on, and a cursor to query the database itself."""

    store: FrontierStore
    db: LockedDatabase
    counters: SharedCounters
    collections: SharedCollections
    cursor: Cursor

    def begin(self) -> None:
        """Start with an empty row cache, except the rows that every call needs."""
        self.db.end()
        self.db.begin(self.cursor)
        self.collections.begin(self.cursor)
        self.counters.begin(self.cursor)

    def write(self) -> None:
        """Write the changes so far, within the same transaction."""
        self.db.cache.apply(self.cursor.connection)
        self.counters.flush()

    def append_log_notes(self, scale: float = 1.0) -> None:
        """Bring the deletions and takedowns recorded so far into the segment log, if there is one."""
        self.flush()
        append_notes(self.cursor.connection, scale)

    def flush(self) -> None:
        """Write the changes so far, and empty the row cache."""
        self.write()
        self.begin()

    def collection(self, number: int) -> LoadedCollection:
        return self.store.collections.by_id(number)

    def breadth_collections(self) -> list[int]:
        """The collections in breadth order."""
        return [known.row.id for known in self.store.collections.all() if known.order.is_breadth]

    def ensure_hosts(self, rows: Iterable[tuple[HostId, str]], known: LoadedCollection) -> dict[HostId, str]:
        """Create the rows of new hosts, in order, so that two transactions may wait for each other but never deadlock.
        Returns their sites, as far as they are known."""
        rows = sorted(set(rows))
        hosts, sites = [host for host, _ in rows], [self._site_of(key, known) for _, key in rows]
        self.cursor.execute(
            "INSERT INTO host (id, key, site) SELECT * FROM unnest(%b::bigint[], %b::text[], %b::text[])"
            " ON CONFLICT DO NOTHING",
            [hosts, [key for _, key in rows], sites],
        )
        self.db.lock_hosts(hosts)
        return dict(zip(hosts, sites, strict=True))

    def _site_of(self, key: str, known: LoadedCollection) -> str:
        return self.store.urls.site_of(key, known.config.network.suffixes)

    def receive_hosts(self, rows: Iterable[tuple[HostId, str]], known: LoadedCollection) -> None:
        """The same for hosts that get URLs of the collection, with the rows of their sites."""
        rows, number = sorted(set(rows)), known.row.id
        if known.order.is_breadth:
            sites = {host: self._site_of(key, known) for host, key in rows}
            sites |= self.db.site_names(sites)
            self.db.create_and_lock_sites(number, sites.values())
            self.ensure_hosts(rows, known)
            if not sites.items() <= set(self.db.rows("SELECT id, site FROM host")):
                raise StaleRow("host: another transaction made one, of another site")
            return
        sites = self.ensure_hosts(rows, known)
        at_work = {host for (host,) in self.db.rows("SELECT host FROM work WHERE collection = ?", (number,))}
        self.db.prefetch("site", [(number, site) for host, site in sites.items() if host not in at_work])

    def fetch_host_ids(self, sql: str, *values: Any) -> list[HostId]:
        return [row[0] for row in self.cursor.execute(sql, values).fetchall()]

    def find_urls(
        self,
        known: LoadedCollection,
        after: tuple[HostId, UrlId],
        hosts_max: int,
        urls_max: int,
        condition: str,
        *values: int,
    ) -> tuple[list[HostId], list[tuple[HostId, int, UrlId]]]:
        """The next hosts of a collection, and the keys of their next URLs that meet a condition of the store."""
        number = known.row.id
        hosts = self.fetch_host_ids(
            "SELECT host FROM work WHERE collection = %b::bigint AND host >= %b::bigint ORDER BY host LIMIT %b::bigint",
            number,
            after[0],
            hosts_max,
        )
        rows = self.cursor.execute(
            "SELECT host, collection, id FROM url WHERE host = ANY(%b::bigint[]) AND collection = %b::bigint"
            f" AND {condition.replace('?', '%b::bigint')} AND (host, id) > (%b::bigint, %b::bytea)"
            " ORDER BY host, id LIMIT %b::bigint",
            [hosts, number, *values, *after, urls_max],
        ).fetchall()
        return hosts, [(host, collection, url) for host, collection, url in rows]

    def lock_returned_hosts(self, hosts: list[HostId]) -> None:
        """Lock hosts that are returned, and the sites whose sessions their visits belong to (`breadth` order)."""
        breadth, pairs = self.breadth_collections(), list[Row]()
        if breadth:
            pairs = self.cursor.execute(
                "SELECT DISTINCT collection, host FROM handed WHERE host = ANY(%b::bigint[])"
                " AND collection = ANY(%b::bigint[])",
                [hosts, breadth],
            ).fetchall()
        self.db.lock_site_sessions(((number, host) for number, host in pairs), hosts)

    def acquire_walks(self, number: int) -> None:
        """Acquire the sites of all hosts at hand."""
        if self.collection(number).order.is_breadth:
            self.db.acquire_walks(number, [site for (site,) in self.db.rows("SELECT DISTINCT site FROM host")])

    def prefetch_pages(self, known: LoadedCollection, keys: list[tuple[HostId, int, UrlId]]) -> None:
        """Prefetch what is stored about these URLs beside their rows, in a collection that is kept fresh."""
        if not known.config.keeps_fresh:
            return
        self.db.prefetch("page", keys)
        self.db.prefetch("due", self.db.rows("SELECT host, collection, shelf, key, id FROM page"))
        hosts = sorted({key[0] for key in keys})
        self.store.urls.revisits.prefetch_shelves(known, hosts)
        sites = dict(self.db.rows("SELECT id, site FROM host"))
        self.db.prefetch("site", [(known.row.id, sites[host]) for host in hosts if host in sites])


class DatabaseSession:
    """One database, and the store that runs on its row cache."""

    def __init__(
        self,
        connection: DatabaseConnection,
        suffix_list: str,
        clock: Clock | None = None,
        lease_clock: LeaseClock | None = None,
        servers: int = 1,
    ) -> None:
        self.connection = connection
        self._clock, self.lease_clock = (
            clock or DatabaseClock(0.0, 0.0),
            lease_clock or DatabaseLeaseClock.from_environment(),
        )
        with translate_errors(connection.where):
            self.meta = open_schema(connection.connect(), suffix_list, connection.where)
        self.db = LockedDatabase(self.meta["suffix_list"])
        self._counters = SharedCounters(self.db, random.getrandbits(16))
        self.collections = SharedCollections(self.db, self._counters, self._clock, servers)
        self._store = FrontierStore(self.db, self._clock, self.lease_clock, self._counters, self.collections)

    @property
    def id(self) -> str:
        """Id of the database, assigned when its tables were created."""
        return self.meta["id"]

    def close(self) -> None:
        self.connection.close()

    def transact(self, work: Callable[[PostgresTransaction], T], *, alone: bool = False) -> T:
        """Run one transaction; `alone`: while no other one runs."""
        return self.connection.with_retries(lambda: self._attempt(work, alone=alone))

    def _attempt(self, work: Callable[[PostgresTransaction], T], *, alone: bool) -> T:
        connection = self.connection.connect()
        cursor = connection.cursor(binary=True)
        transaction = PostgresTransaction(self._store, self.db, self._counters, self.collections, cursor)
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
            self.db.end()
            self._counters.on_rollback()

    def _lock_and_set_clocks(self, cursor: Cursor, *, alone: bool) -> None:
        if alone:  # others wait for us anyway, so a long pause does no harm
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '10min'")
        lock = "pg_advisory_xact_lock" if alone else "pg_advisory_xact_lock_shared"
        # Two statements in one message: the second sees what was committed while the first waited.
        asked = cursor.connection.execute(
            f"SELECT {lock}({CHANGE_LOCK}); SELECT extract(epoch FROM clock_timestamp())::float8"
        )
        asked.nextset()
        row = asked.fetchone()
        assert row is not None
        for clock in (self._clock, self.lease_clock):
            if isinstance(clock, DatabaseClock | DatabaseLeaseClock):
                clock.set_to(row[0])

    def reserve_sequence(self, count: int) -> int:
        """Reserve discovery numbers for the next call; returns the first. They are taken in a transaction of their own,
        so that no other process waits for that call to end."""

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


def in_transaction(
    function: Callable[Concatenate[PostgresTransaction, P], T],
) -> Callable[Concatenate[DatabaseSession, P], T]:
    """Make a function of a transaction a call on a session: one transaction."""

    @functools.wraps(function)
    def call(session: DatabaseSession, /, *positional: P.args, **named: P.kwargs) -> T:
        return session.transact(lambda work: function(work, *positional, **named))

    return call


def on_store(find: Callable[[FrontierStore], Callable[P, T]]) -> Callable[Concatenate[DatabaseSession, P], T]:
    """A call on a session that is a method of the store, with the same arguments, and needs no prefetched rows."""

    def call(session: DatabaseSession, /, *positional: P.args, **named: P.kwargs) -> T:
        return session.transact(lambda work: find(work.store)(*positional, **named))

    return call
