"""Connection to the frontier's SQLite file: opens it, checks its schema version, and runs statements on it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw

from tarrafa.errors import DataError
from tarrafa.frontier.store.schema import SCHEMA_VERSION, TABLES
from tarrafa.runtime.sqlite import restrict_to_owner

STATEMENTS_KEPT = 400  # we have about a hundred; with apsw's 100, one in four was prepared anew (20 to 50 us each)
LOG_PAGES = 8_000  # 32 MB; a group of links from all over touches a thousand, the next one many of them again
ALL_ROWS = 1 << 30  # rows: as many as there are


class FrontierDatabase:
    """A connection that says what a statement is expected to give.

    `prefetch…` and `acquire…` name the rows that the next statements read or change. In a file of its own everything is
    at hand, and they do nothing; a row cache (postgres/row_locks.py) fetches and locks what it has not got.
    """

    is_row_cache = False

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Change something; how many rows were."""
        self.connection.execute(sql, values)
        return self.connection.changes()

    def many(self, sql: str, values: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany(sql, values)

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, values).fetchall()

    def row(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return self.connection.execute(sql, values).fetchone()

    def required_row(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...]:
        """The row that is certainly there."""
        row = self.row(sql, values)
        assert row is not None, f"no row: {sql} {values}"
        return row

    def value(self, sql: str, values: Sequence[Any] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.row(sql, values)
        return None if row is None else row[0]

    def prefetch(self, table: str, keys: Iterable[Sequence[Any]]) -> None:
        """The rows with these primary keys."""

    def prefetch_first(self, table: str, prefixes: Iterable[Sequence[Any]], count: int, *, last: bool = False) -> None:
        """The first (or last) rows whose primary keys begin so, for each of these beginnings."""

    def acquire_hosts(self, hosts: Sequence[int], walks_of: int | None = None) -> Sequence[int]:
        """Lock hosts with the rows below them, to be changed: those that no other transaction is changing now. If a
        collection is named, the sessions with their sites too."""
        return hosts

    def acquire_site(self, collection: int, host: int) -> None:
        """The row of a host's site, to be changed."""

    def acquire_walks(self, collection: int, names: Sequence[str]) -> None:
        """Lock, for these sites, whose rows are at hand, all hosts with pending URLs or with a gate that is not closed,
        to be changed, and fetch the head of each queue."""

    def acquire_site_table(self, collection: int, room: int, chosen: int, exchanged: int) -> None:
        """The rows of the sites that may come into the table or leave it, to be changed: so many as there is room for
        (less than none: as have to go), so many to be chosen, and no more than so many to be exchanged."""


def open_database(path: str, suffix_list: str) -> FrontierDatabase:
    """The frontier's file, open for writing and with its tables; the suffix list is stored once, at creation."""
    restrict_to_owner(Path(path))  # configurations hold the addresses of webhooks
    db = apsw.Connection(path, statementcachesize=STATEMENTS_KEPT)
    db.set_busy_timeout(10_000)
    version = int(db.pragma("user_version"))
    if version:
        check_schema(FrontierDatabase(db), Path(path))
    # Else a statement that meets a table with a partial index is planned anew for each set of values: 10 us, not 3.
    db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "full")  # a visit's number must survive a power cut; commits come in groups
    db.pragma("cache_size", -64_000)
    db.pragma("wal_autocheckpoint", LOG_PAGES)
    db.pragma("journal_size_limit", 64 << 20)
    if not version:
        with db:
            db.execute(TABLES)
            db.execute("INSERT INTO meta VALUES ('suffix_list', ?)", (suffix_list,))
            db.pragma("user_version", SCHEMA_VERSION)
    return FrontierDatabase(db)


def check_schema(db: FrontierDatabase, path: Path) -> None:
    """Refuse a file of another version, before anything is changed: the archive can give a frontier back."""
    version = int(db.connection.pragma("user_version"))
    if version > SCHEMA_VERSION:
        raise DataError(f"{path}: written by a newer Tarrafa (schema {version}, this one knows {SCHEMA_VERSION})")
    if version < SCHEMA_VERSION:
        raise DataError(
            f"{path}: written by an older Tarrafa (schema {version}, this one knows {SCHEMA_VERSION}); nothing was"
            " changed. `tarrafa rebuild frontier` makes it again from the archive, and keeps this one aside"
        )
