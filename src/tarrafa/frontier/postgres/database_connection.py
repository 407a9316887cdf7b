"""Database connection: one connection to PostgreSQL, opened when it is needed, with retry and reconnect.

Promises: a call that conflicts with another call's change is tried again; an unreachable database is waited for, and
the call is repeated then, which is harmless because committed changes are not lost. A silent server, whose machine or
processes hang while its network still acknowledges, is noticed within seconds. Of an address with several hosts, the
one that accepts changes is used: after a failover the new primary, never a standby, and never another server than
before. No message shows a password.
"""

import contextlib
import itertools
import random
import re
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import psycopg
from psycopg import errors as pg
from psycopg.abc import PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tarrafa.clock import boottime
from tarrafa.errors import ConfigError, DataError, DiskFull, FrontierError, Unreachable
from tarrafa.frontier.messages import LEASE_S
from tarrafa.frontier.postgres.row_cache import Row, StaleRow
from tarrafa.i18n import message

ATTEMPTS_MAX = 20  # of a call that conflicts with others
PATIENCE_S = LEASE_S  # a database unreachable for longer than a lease has cost us our hosts anyway
RECONNECT_EVERY_S = 0.5
SILENCE_S = 3  # without an answer: then another connection shows whether the server answers at all
SETTINGS = {
    "enable_hashjoin": "off", "enable_mergejoin": "off", "enable_seqscan": "off", "jit": "off",
    "idle_in_transaction_session_timeout": "5s", "statement_timeout": "10min", "lock_timeout": "60s",
    "tcp_keepalives_idle": "5", "tcp_keepalives_interval": "2", "tcp_keepalives_count": "3",
}  # fmt: skip
PREPARE = "SELECT (SELECT system_identifier FROM pg_control_system()), " + ", ".join(
    f"set_config('{name}', '{value}', false)" for name, value in SETTINGS.items()
)
CONNECTION = {
    "connect_timeout": SILENCE_S, "keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3,
    "tcp_user_timeout": 10_000, "application_name": "tarrafa", "target_session_attrs": "read-write",
}  # fmt: skip
PERMANENT_ERRORS = (
    "authentication failed", "does not exist", "no password supplied", "pg_hba.conf", "permission denied",
    "Servname not supported", "invalid port", "could not match",
)  # fmt: skip
FAILURE_OF_A_HOST = re.compile(r"\n- host: .*?, hostaddr: \S+: ")  # psycopg lists them, if the address has several
T = TypeVar("T")


class WatchedConnection(psycopg.Connection[Row]):
    """Closes itself when the server is silent. A server at work on a long statement, or waiting for a lock, still
    accepts another connection; a stopped one does not. The check is of this very server, by `own_dsn`: another host of
    the same address would answer for it."""

    own_dsn = ""

    def wait(self, gen: PQGen[T], interval: float = 0.1, timeout: float | None = None) -> T:
        return super().wait(self._watch(gen), interval, timeout)

    def _watch(self, steps: PQGen[T]) -> PQGen[T]:
        check_at = boottime() + SILENCE_S
        try:
            wanted = next(steps)
            while True:
                ready = yield wanted
                if not ready and boottime() > check_at:
                    self._check_server()
                    check_at = boottime() + SILENCE_S
                wanted = steps.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _check_server(self) -> None:
        try:
            psycopg.connect(self.own_dsn, connect_timeout=SILENCE_S).close()
        except pg.ConnectionTimeout:
            self.close()
            raise psycopg.OperationalError(f"no answer for {2 * SILENCE_S} s") from None
        except psycopg.OperationalError:  # it answers, and has no connection left for us
            return


class DatabaseConnection:
    """The connection of one process to one database."""

    def __init__(self, dsn: str, patience_s: float = PATIENCE_S) -> None:
        self.where, self._dsn, self._patience_s = describe_dsn(dsn), dsn, patience_s
        self.losses = 0  # number of lost connections: each loses its pending answers and its locks
        self._connection: psycopg.Connection[Row] | None = None
        self._system: int | None = None  # the server's identifier, which its standbys share
        self._locks: set[int] = set()  # advisory locks that the connection holds
        self.connect()

    def connect(self) -> "psycopg.Connection[Row]":
        if self._connection is not None:
            if not self._connection.closed:
                return self._connection
            self._drop()
        with translate_errors(self.where):
            connection = WatchedConnection.connect(self._dsn, autocommit=True, **CONNECTION)  # type: ignore[arg-type]
            info = connection.info
            connection.own_dsn = make_conninfo(self._dsn, host=info.host, hostaddr=info.hostaddr, port=info.port)
            row = connection.execute(PREPARE).fetchone()
        assert row is not None
        if self._system not in (None, row[0]):
            connection.close()
            raise ConfigError(
                f"{self.where}: another server than before answers here; the hosts of one address are one server and"
                " its standbys (docs/cluster.md)"
            )
        self._system, self._connection = row[0], connection
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._locks.clear()
            self.losses += 1

    def read(self, sql: str) -> list[Row]:
        """Rows of the database as it is: nothing is copied or locked."""
        return self.with_retries(lambda: self.connect().execute(sql).fetchall())

    def with_retries(self, attempt: Callable[[], T]) -> T:
        """Call `attempt`; again after a conflict, later while the database is unreachable."""
        attempts, patience = 0, boottime() + self._patience_s
        while True:
            try:
                return attempt()
            except (StaleRow, pg.DeadlockDetected, pg.SerializationFailure, pg.UniqueViolation) as error:
                attempts += 1
                if attempts == ATTEMPTS_MAX:
                    raise FrontierError(f"{self.where}: gave up after {attempts} attempts ({error})") from None
                time.sleep(random.uniform(0.0, 0.01 * attempts))
            except (pg.DiskFull, pg.OutOfMemory) as error:
                raise DiskFull(f"{self.where}: {error}") from None
            except (psycopg.OperationalError, pg.ReadOnlySqlTransaction) as error:  # the latter: a primary no more
                self._wait_for_database(error, patience)
            except psycopg.Error as error:  # nothing is left of a connection that the server closed
                if self._connection is None or not self._connection.closed:
                    raise DataError(f"{self.where}: {' '.join(str(error).split())}") from None
                self._wait_for_database(error, patience)

    def _wait_for_database(self, error: psycopg.Error, until: float) -> None:
        """Wait and reconnect. The last answer may be lost, but not the commit: repeating the call is harmless."""
        self._drop()
        while True:
            try:
                self.connect()
                return
            except Unreachable:
                if boottime() > until:
                    said = " ".join(str(error).split())
                    raise Unreachable(
                        message("{server}: the database went away ({error})", server=self.where, error=said)
                    ) from None
                time.sleep(RECONNECT_EVERY_S)

    @contextlib.contextmanager
    def direct(self) -> "Iterator[psycopg.Connection[Row]]":
        """The connection itself, without a row cache; nothing is tried again."""
        try:
            yield self.connect()
        except psycopg.OperationalError as error:
            said = " ".join(str(error).split())
            raise Unreachable(
                message("{server}: the database went away ({error})", server=self.where, error=said)
            ) from None

    def try_lock(self, key: int) -> bool:
        """Take an advisory lock for as long as the connection lasts; whether the connection holds it."""
        with self.direct() as connection:
            if key not in self._locks:
                row = connection.execute(f"SELECT pg_try_advisory_lock({key})").fetchone()
                if row is not None and row[0]:
                    self._locks.add(key)
        return key in self._locks


@contextlib.contextmanager
def translate_errors(where: str) -> Iterator[None]:
    """Turn errors of the connection into ours."""
    try:
        yield
    except psycopg.OperationalError as error:
        failures = FAILURE_OF_A_HOST.split(str(error))[1:] or [str(error)]
        said = "; ".join(failure.strip().partition("\n")[0] for failure in failures)  # the rest are hints
        if all(any(words in failure for words in PERMANENT_ERRORS) for failure in failures):
            raise ConfigError(f"{where}: {said}") from None
        raise Unreachable(message("{server}: no database answers here ({error})", server=where, error=said)) from None
    except pg.Error as error:
        raise DataError(f"{where}: {' '.join(str(error).split())}") from None


def describe_dsn(dsn: str) -> str:
    """The address for people, never with its password."""
    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.ProgrammingError:  # its message shows the password too
        raise ConfigError("not the address of a PostgreSQL database; write postgresql://user@host:port/name") from None
    user = f"{parts['user']}@" if parts.get("user") else ""
    hosts = str(parts.get("host") or parts.get("hostaddr") or "").split(",")
    ports = str(parts.get("port") or "").split(",")
    ports *= len(hosts) if len(ports) == 1 else 1  # one port is that of every host
    places = [
        (f"[{host}]" if ":" in host else host) + (f":{port}" if port else "")
        for host, port in itertools.zip_longest(hosts, ports, fillvalue="")
    ]
    return f"postgresql://{user}{','.join(places)}/{parts.get('dbname') or ''}"
