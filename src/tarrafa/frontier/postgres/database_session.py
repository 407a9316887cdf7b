"""Database session: runs one call as one PostgreSQL transaction on a working copy, with retry and reconnect.

Promises: what a call has returned for is committed; a call that meets another one's change begins anew; a database
that goes away is waited for, and whatever is asked again then is harmless. Time is the database's: no worker's clock
is asked. One thread does all the work of a process.
"""

import contextlib
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import errors as pg
from psycopg.conninfo import conninfo_to_dict

from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, DataError, DiskFull, FrontierError, Unreachable
from tarrafa.frontier.api import LEASE_S
from tarrafa.frontier.postgres.schema import open_schema
from tarrafa.frontier.postgres.shared_counters import SharedCollections, SharedCounters
from tarrafa.frontier.postgres.site_locks import SiteWorkingCopy
from tarrafa.frontier.postgres.working_copy import Cursor, Row, StaleCopy
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.frontier_store import FrontierStore
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.model import HostId

ATTEMPTS_MAX = 20  # of a call that meets others
PATIENCE_S = LEASE_S  # a database that is away for longer than a lease has cost us our hosts anyway
RECONNECT_EVERY_S = 0.5
CHANGE_LOCK = 0x7A66_0002  # held by everybody, and alone by who changes a collection's configuration
PLAN_LOCK = 0x7A66_0004  # held by the one who plans
LIMIT_LOCK = 0x7A66_0003  # held by who hands out the last visits of a collection with a limit
TABLE_LOCK = 0x7A66_0005  # held by who chooses sites from a collection's table
SETTINGS = {
    "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off", "jit": "off",
    "idle_in_transaction_session_timeout": "5s", "statement_timeout": "10min", "lock_timeout": "60s",
    "tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
}  # fmt: skip
CONNECTION = {
    "connect_timeout": 5, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000, "application_name": "tarrafa",
}  # fmt: skip
PERMANENT_ERRORS = (
    "authentication failed", "does not exist", "no password supplied", "pg_hba.conf", "permission denied",
    "Servname not supported", "invalid port",
)  # fmt: skip
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
    """One transaction: the store, what it runs on, and a way to ask the database itself."""

    store: FrontierStore
    copy: SiteWorkingCopy
    cursor: Cursor

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


class DatabaseSession:
    """One database, and the store that runs on a working copy of it."""

    def __init__(
        self, dsn: str, suffix_list: str, clock: Clock | None = None, lease_clock: LeaseClock | None = None
    ) -> None:
        self.where, self._dsn = describe_dsn(dsn), dsn
        self._clock = clock or DatabaseClock(0.0, 0.0)
        self._lease_clock = lease_clock or DatabaseLeaseClock()
        self._suffix_list = suffix_list
        self._connection: psycopg.Connection[Row] | None = None
        self._store: FrontierStore | None = None
        self._expired_at = 0.0
        self._held: defaultdict[int, set[HostId]] = defaultdict(set)  # by our workers, as far as they know
        self._lost_answers = self._plans = False
        self._unconfirmed: dict[int, float] = {}
        self.keeps: Callable[[str], bool] = lambda host_key: True  # whether a host is kept here, and not elsewhere
        self.patience_s = PATIENCE_S
        self._connect()

    # -- the connection ---------------------------------------------------------------------------------------

    def _connect(self) -> "psycopg.Connection[Row]":
        if self._connection is not None and not self._connection.closed:
            return self._connection
        connection = connect(self._dsn, self.where)
        with _translate_errors(self.where):
            connection.execute("SELECT " + ", ".join(f"set_config('{k}', '{v}', false)" for k, v in SETTINGS.items()))
            if self._store is None:
                self._open(connection)
        self._connection = connection
        return connection

    def _open(self, connection: "psycopg.Connection[Row]") -> None:
        self.meta = open_schema(connection, self._suffix_list, self.where)
        self._copy = SiteWorkingCopy(self.meta["suffix_list"])
        counters = SharedCounters(self._copy, random.getrandbits(16))
        self._catalogue = SharedCollections(self._copy, counters, self._clock)
        self._store = FrontierStore(self._copy, self._clock, self._lease_clock, counters, self._catalogue)
        self._counters = counters

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _transact(self, work: Callable[[PostgresTransaction], T], *, alone: bool = False) -> T:
        """One transaction; again when somebody was in the way, later when the database is."""
        return self._with_retries(lambda: self._attempt(work, alone=alone))

    def _read(self, sql: str) -> list[Row]:
        """Rows of the database as it is: nothing is copied for it, and nothing locked."""
        return self._with_retries(lambda: self._connect().execute(sql).fetchall())

    def _with_retries(self, attempt: Callable[[], T]) -> T:
        attempts, patience = 0, boottime() + self.patience_s
        while True:
            try:
                return attempt()
            except (StaleCopy, pg.DeadlockDetected, pg.SerializationFailure, pg.UniqueViolation) as error:
                attempts += 1
                if attempts == ATTEMPTS_MAX:
                    raise FrontierError(f"{self.where}: gave up after {attempts} attempts ({error})") from None
                time.sleep(random.uniform(0.0, 0.01 * attempts))
            except (pg.DiskFull, pg.OutOfMemory) as error:
                raise DiskFull(f"{self.where}: {error}") from None
            except psycopg.OperationalError as error:
                self._lost_answers, self._plans = True, False
                self._wait_for_database(error, patience)
            except psycopg.Error as error:  # of a connection that was taken from us (we stood still) nothing is left
                if self._connection is None or not self._connection.closed:
                    raise DataError(f"{self.where}: {' '.join(str(error).split())}") from None
                self._lost_answers, self._plans = True, False
                self._wait_for_database(error, patience)

    def _wait_for_database(self, error: psycopg.Error, until: float) -> None:
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

    def _attempt(self, work: Callable[[PostgresTransaction], T], *, alone: bool) -> T:
        connection = self._connect()
        assert self._store is not None
        cursor = connection.cursor(binary=True)
        try:
            with connection.transaction():
                self._begin(cursor, alone=alone)
                result = work(PostgresTransaction(self._store, self._copy, cursor))
                self._copy.apply(connection)
                self._counters.flush()
                self._catalogue.flush()
            self._counters.on_commit()
            return result
        finally:
            self._copy.end()
            self._counters.on_rollback()

    def _begin(self, cursor: Cursor, *, alone: bool) -> None:
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
        for clock in (self._clock, self._lease_clock):
            if isinstance(clock, DatabaseClock | DatabaseLeaseClock):
                object.__setattr__(clock, "moment", row[0])
        self._reset_copy(cursor)

    def _reset_copy(self, cursor: Cursor) -> None:
        """An empty working copy, but for what everybody needs."""
        self._copy.end()
        self._copy.begin(cursor)
        self._catalogue.begin(cursor)
        self._counters.begin(cursor)

    def _flush(self, work: PostgresTransaction) -> None:
        """What was changed so far is written, within the same transaction; the copy is empty again."""
        assert self._connection is not None
        work.copy.apply(self._connection)
        self._counters.flush()
        self._reset_copy(work.cursor)

    # -- the list of servers ----------------------------------------------------------------------------------

    def server_ids(self) -> list[str]:
        """Of the first server: who belongs to its frontier, in order; nobody yet, if that was never said."""
        facts: dict[str, str] = dict(self._read("SELECT key, value FROM meta WHERE key IN ('member', 'servers')"))
        if "member" in facts:
            raise ConfigError(f"{self.where}: is one of several servers, and is not the first of its servers")
        return msgspec.json.decode(facts.get("servers", "[]"), type=list[str])

    def note_server_ids(self, ids: list[str]) -> list[str]:
        """The first time; who was quicker is right."""
        self._note("servers", msgspec.json.encode(ids).decode())
        return self.server_ids()

    def set_membership(self, first: str) -> None:
        """To the frontier of that first server."""
        if self._read("SELECT 1 FROM meta WHERE key = 'servers'"):
            raise ConfigError(f"{self.where}: is the first server of another frontier")
        self._note("member", first)
        if self._read("SELECT value FROM meta WHERE key = 'member'") != [(first,)]:
            raise ConfigError(f"{self.where}: belongs to another frontier")

    def site_suffixes(self, suffixes: list[str] | None) -> list[str] | None:
        """What is added to the list by which sites are told apart; given, if nobody has said so yet."""
        if suffixes is not None:
            self._note("suffixes", msgspec.json.encode(suffixes).decode())
        rows = self._read("SELECT value FROM meta WHERE key = 'suffixes'")
        return msgspec.json.decode(rows[0][0], type=list[str]) if rows else None

    def _note(self, key: str, value: str) -> None:
        """Once and for ever."""
        sql = "INSERT INTO meta VALUES (%s, %s) ON CONFLICT DO NOTHING"
        self._with_retries(lambda: self._connect().execute(sql, (key, value)))

    @contextlib.contextmanager
    def _direct_connection(self) -> "Iterator[psycopg.Connection[Row]]":
        """The connection itself, without a copy; nothing is tried again."""
        try:
            yield self._connect()
        except psycopg.OperationalError as error:
            said = " ".join(str(error).split())
            raise Unreachable(f"{self.where}: the database went away ({said})") from None

    def may_plan(self) -> bool:
        """Whether we are the one who does; until we are gone."""
        if not self._plans:
            with self._direct_connection() as connection:
                row = connection.execute(f"SELECT pg_try_advisory_lock({PLAN_LOCK})").fetchone()
            self._plans = row is not None and bool(row[0])
        return self._plans

    def lock_limits(self) -> None:
        """Held until it is given back, or until we are gone."""
        with self._direct_connection() as connection:
            connection.execute(f"SELECT pg_advisory_lock({LIMIT_LOCK}, 0)")

    def unlock_limits(self) -> None:
        with self._direct_connection() as connection:
            connection.execute(f"SELECT pg_advisory_unlock({LIMIT_LOCK}, 0)")


def connect(dsn: str, where: str) -> "psycopg.Connection[Row]":
    """A connection, and nothing more; `where` is what a message calls the place."""
    with _translate_errors(where):
        return psycopg.connect(dsn, autocommit=True, **CONNECTION)  # type: ignore[arg-type]


@contextlib.contextmanager
def _translate_errors(where: str) -> Iterator[None]:
    """What stands in the way of a connection, in our own words."""
    try:
        yield
    except psycopg.OperationalError as error:
        said = " ".join(str(error).split())
        if any(words in said for words in PERMANENT_ERRORS):
            raise ConfigError(f"{where}: {said}") from None
        raise Unreachable(f"{where}: no database answers here ({said})") from None
    except pg.Error as error:
        raise DataError(f"{where}: {' '.join(str(error).split())}") from None


def describe_dsn(dsn: str) -> str:
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
