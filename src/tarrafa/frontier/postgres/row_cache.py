"""Row cache: fetches the rows of a transaction from PostgreSQL into SQLite in memory, and writes changed rows back.

The cache is a small SQLite database in memory with the frontier's own tables. The rows that a call names are fetched
from PostgreSQL, once each; the call runs on them as on a file; the difference, which SQLite's session extension
records, goes back in bulk. A call over thousands of URLs costs a dozen round trips, not a thousand.

Promises: a row is fetched once per transaction and never overwrites our change; a row that has changed since it was
fetched (`StaleRow`) undoes the whole call. Knows nothing of the order of locks: see `row_locks.py`.

Known weakness: a statement sees only prefetched rows. Every range that the store reads is preceded by a
`prefetch_first`, and the tests run the same random lives on a file and on a row cache and compare every answer.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import apsw
import psycopg

from tarrafa.frontier.store.database import ALL_ROWS, FrontierDatabase

TYPES = {"INTEGER": "bigint", "REAL": "double precision", "TEXT": "text", "BLOB": "bytea"}
LOCKED_TABLES = frozenset({"site", "address", "number", "part_owner"})  # below no host: locked when they are fetched
IDEMPOTENT_TABLES = frozenset({"robots"})  # several transactions may write the same row
# Rows below a locked host cannot conflict; the others are always written in this order, so that nothing deadlocks.
WRITE_ORDER = ("site", "address", "number", "worker", "collection", "robots")
CHUNK = 64  # more rows when a range turns out too short
TABLE_INFO = "FROM pragma_table_info(?)"

Row = tuple[Any, ...]
Cursor = psycopg.Cursor[Row]


class StaleRow(Exception):
    """Another transaction changed a fetched row: the call begins anew."""


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table as SQLite and PostgreSQL have it."""

    name: str
    columns: tuple[str, ...]
    types: dict[str, str]
    key: tuple[str, ...]
    key_places: tuple[int, ...]  # of the key's columns among all columns

    def key_of(self, row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(row[place] for place in self.key_places)

    def arrays(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
        """One array per column, each of one type."""
        return [[_convert(self.types[column], row[place]) for row in rows] for place, column in enumerate(columns)]

    def unnest(self, columns: Sequence[str]) -> str:
        return "unnest(" + ", ".join(f"%b::{self.types[column]}[]" for column in columns) + ")"


def _convert(kind: str, value: Any) -> Any:
    if value is None:
        return None
    if kind == "double precision":
        return float(value)
    if kind == "bigint":
        return int(value)
    return value.replace("\0", "�") if kind == "text" else value  # PostgreSQL's text holds everything but NUL


def _listed(prefix: str, columns: Sequence[str]) -> str:
    return ", ".join(prefix + column for column in columns)


@dataclass(slots=True)
class _FetchedRange:
    last: Row | None = None  # the key up to which all rows are here
    complete: bool = False


class RowCache:
    """The rows of one transaction in the SQLite database `db`, which has the frontier's tables."""

    def __init__(self, db: FrontierDatabase) -> None:
        self._db = db
        names = db.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")
        self.tables = {name: self._table(name) for (name,) in names}
        self._seen: defaultdict[str, set[Row]] = defaultdict(set)
        self._ranges: defaultdict[tuple[str, Row, bool], _FetchedRange] = defaultdict(_FetchedRange)

    def _table(self, name: str) -> TableSchema:
        types = {column: TYPES[kind] for column, kind in self._db.rows(f"SELECT name, type {TABLE_INFO}", (name,))}
        key = self._db.rows(f"SELECT name, cid {TABLE_INFO} WHERE pk ORDER BY pk", (name,))
        return TableSchema(name, tuple(types), types, tuple(one for one, _ in key), tuple(place for _, place in key))

    # -- a transaction ----------------------------------------------------------------------------------------

    def begin(self, cursor: Cursor) -> None:
        """Start empty, except for the collections and workers."""
        self._pg = cursor
        self._db.connection.execute("BEGIN")
        self._session = apsw.Session(self._db.connection, "main")
        self._session.attach()
        for table in ("collection", "worker"):
            self.fetch(table, "")

    def end(self) -> None:
        """Forget all rows."""
        if self._db.connection.in_transaction:
            self._session.close()
            self._db.connection.execute("ROLLBACK")
        self._seen.clear()
        self._ranges.clear()

    def query(self, sql: str, values: Sequence[Any]) -> list[Row]:
        """Rows of the database itself; nothing is cached."""
        return self._pg.execute(sql, values).fetchall()

    def fetch(self, table: str, clause: str, values: Sequence[Any] = (), *, again: bool = False) -> list[Row]:
        """Fetch the rows that a clause selects; `again`: as they are now, also if they were fetched before."""
        rows = self.query(f"SELECT {', '.join(self.tables[table].columns)} FROM {table} {clause}", values)
        if again:
            self._seen[table].difference_update(map(self.tables[table].key_of, rows))
        self._load(table, rows)
        return rows

    def fetched(self, table: str, keys: set[Row]) -> set[Row]:
        """Those of the keys that were fetched or looked for."""
        return keys & self._seen[table]

    def keep(self, table: str) -> None:
        """Keep the rows of a table as they are here: rows that are fetched later do not overwrite them."""
        self._seen[table].update(self._db.rows(f"SELECT {', '.join(self.tables[table].key)} FROM {table}"))

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Changes made meanwhile are not written to PostgreSQL."""
        self._session.enabled = False
        yield
        self._session.enabled = True

    def _load(self, table: str, rows: list[Row]) -> None:
        """Insert rows that are not here yet; they do not count as changes."""
        seen, key_of = self._seen[table], self.tables[table].key_of
        fresh = {key: row for row in rows if (key := key_of(row)) not in seen}
        seen.update(fresh)
        places = ", ".join("?" * len(self.tables[table].columns))
        with self.unrecorded():
            self._db.many(f"INSERT OR REPLACE INTO {table} VALUES ({places})", fresh.values())

    # -- prefetching ------------------------------------------------------------------------------------------

    def prefetch(self, table: str, keys: Iterable[Sequence[Any]]) -> None:
        seen, shape = self._seen[table], self.tables[table]
        missing = sorted({tuple(key) for key in keys} - seen)
        if not missing:
            return
        key = ", ".join(shape.key)
        lock = f" ORDER BY {_listed('t.', shape.key)} FOR UPDATE OF t" if table in LOCKED_TABLES else ""
        rows = self.query(
            f"SELECT {_listed('t.', shape.columns)} FROM {shape.unnest(shape.key)} AS k({key})"
            f" JOIN {table} t USING ({key}){lock}",
            shape.arrays(shape.key, missing),
        )
        self._load(table, rows)
        seen.update(missing)

    def prefetch_first(self, table: str, prefixes: Iterable[Sequence[Any]], count: int, *, last: bool = False) -> None:
        wanted = list(dict.fromkeys(tuple(prefix) for prefix in prefixes)) if count > 0 else []
        fresh = [prefix for prefix in wanted if (table, prefix, last) not in self._ranges]
        if fresh:
            self._fetch_first(table, fresh, count, last)
        for prefix in wanted:
            while not self._is_covered(table, prefix, count, last):
                self._fetch_more(table, prefix, count, last)

    def start_after(self, table: str, prefix: Sequence[Any], key: Sequence[Any]) -> None:
        """Skip the rows before this key."""
        self._ranges[table, tuple(prefix), False] = _FetchedRange(tuple(key))

    def _fetch_first(self, table: str, prefixes: list[Row], count: int, last: bool) -> None:
        shape, size = self.tables[table], len(prefixes[0])
        head = shape.key[:size]
        order = ", ".join(f"t.{one}{' DESC' if last else ''}" for one in shape.key)
        rows = self.query(
            f"SELECT k.n, {_listed('t.', shape.columns)}"
            f" FROM {shape.unnest(head)} WITH ORDINALITY AS k({', '.join(head)}, n) CROSS JOIN LATERAL"
            f" (SELECT * FROM {table} t WHERE {' AND '.join(f't.{one} = k.{one}' for one in head)}"
            f" ORDER BY {order} LIMIT %b::bigint) t ORDER BY k.n, {order}",
            [*shape.arrays(head, prefixes), count],
        )
        found: defaultdict[int, list[Row]] = defaultdict(list)
        for row in rows:
            found[row[0]].append(row[1:])
        for number, prefix in enumerate(prefixes, 1):
            self._add_range(table, prefix, found[number], count, last)

    def _fetch_more(self, table: str, prefix: Row, count: int, last: bool) -> None:
        shape, limit = self.tables[table], ALL_ROWS if count >= ALL_ROWS else max(count, CHUNK)
        keys, types = ", ".join(shape.key), [shape.types[one] for one in shape.key]
        order = ", ".join(f"{one} DESC" if last else one for one in shape.key)
        before = self._ranges[table, prefix, last].last or ()
        head = " AND ".join(f"{one} = %b::{shape.types[one]}" for one in shape.key[: len(prefix)])
        beyond = (
            f" AND ({keys}) {'<' if last else '>'} ({', '.join(f'%b::{kind}' for kind in types)})" if before else ""
        )
        rows = self.query(
            f"SELECT {', '.join(shape.columns)} FROM {table} WHERE {head}{beyond} ORDER BY {order} LIMIT %b::bigint",
            [*prefix, *before, limit],
        )
        self._add_range(table, prefix, rows, limit, last)

    def _add_range(self, table: str, prefix: Row, rows: list[Row], limit: int, last: bool) -> None:
        self._load(table, rows)
        reach = self._ranges[table, prefix, last]
        reach.complete = len(rows) < limit
        if rows:
            reach.last = self.tables[table].key_of(rows[-1])

    def _is_covered(self, table: str, prefix: Row, count: int, last: bool) -> bool:
        """Whether the first `count` rows, as they stand now, are certainly here."""
        reach = self._ranges[table, prefix, last]
        if reach.complete:
            return True
        if reach.last is None or count >= ALL_ROWS:
            return False
        shape = self.tables[table]
        keys, marks = ", ".join(shape.key), ", ".join("?" * len(shape.key))
        head = " AND ".join(f"{one} = ?" for one in shape.key[: len(prefix)])
        here = self._db.value(
            f"SELECT count(*) FROM {table} WHERE {head} AND ({keys}) {'>=' if last else '<='} ({marks})",
            (*prefix, *reach.last),
        )
        return int(here) >= count

    # -- the difference ---------------------------------------------------------------------------------------

    def apply(self, connection: psycopg.Connection[Row]) -> None:
        """Write the changes to PostgreSQL."""
        changes = _RowChanges(self.tables)
        changeset = self._session.changeset()
        for change in apsw.Changeset.iter(changeset):
            changes.add(change.name, change.op, change.old, change.new)
        places = {name: place for place, name in enumerate(WRITE_ORDER)}
        expected: list[tuple[Cursor, int, str]] = []
        with connection.pipeline():
            for name in sorted(changes.names, key=lambda one: (places.get(one, -1), one)):
                for sql, arrays, count in changes.statements(name):
                    expected.append((connection.execute(sql, arrays), count, name))
        for cursor, count, name in expected:
            if cursor.rowcount != count and name not in IDEMPOTENT_TABLES:
                raise StaleRow(f"{name}: {cursor.rowcount} rows instead of {count}")


class _RowChanges:
    """Changes of rows, by table."""

    def __init__(self, tables: dict[str, TableSchema]) -> None:
        self._tables = tables
        self.names: set[str] = set()
        self._deleted: defaultdict[str, list[Row]] = defaultdict(list)
        self._inserted: defaultdict[str, list[Row]] = defaultdict(list)
        self._updated: defaultdict[tuple[str, tuple[str, ...]], list[Row]] = defaultdict(list)

    def add(self, name: str, operation: str, old: Row | None, new: Row | None) -> None:
        self.names.add(name)
        table = self._tables[name]
        if operation == "INSERT":
            assert new is not None
            self._inserted[name].append(new)
        elif operation == "DELETE":
            assert old is not None
            self._deleted[name].append(table.key_of(old))
        else:
            assert old is not None
            assert new is not None
            changed = tuple(
                column
                for column, value in zip(table.columns, new, strict=True)
                if value is not apsw.no_change and column not in table.key
            )
            values = dict(zip(table.columns, new, strict=True))
            self._updated[name, changed].append((*table.key_of(old), *(values[column] for column in changed)))

    def statements(self, name: str) -> Iterable[tuple[str, list[Any], int]]:
        """Statements, sorted so that neighbouring rows are written together."""
        table = self._tables[name]
        keys = ", ".join(table.key)
        same = " AND ".join(f"t.{one} = k.{one}" for one in table.key)
        if rows := sorted(self._deleted[name]):
            sql = f"DELETE FROM {name} t USING {table.unnest(table.key)} AS k({keys}) WHERE {same}"
            yield sql, table.arrays(table.key, rows), len(rows)
        for (other, changed), rows in self._updated.items():
            if other == name:
                columns = (*table.key, *changed)
                values = ", ".join(f"{one} = k.{one}" for one in changed)
                sql = (
                    f"UPDATE {name} t SET {values} FROM {table.unnest(columns)} AS k({', '.join(columns)}) WHERE {same}"
                )
                ordered = sorted(rows, key=lambda row: tuple(row[: len(table.key)]))
                yield sql, table.arrays(columns, ordered), len(rows)
        if rows := sorted(self._inserted[name], key=table.key_of):
            ignore = " ON CONFLICT DO NOTHING" if name in IDEMPOTENT_TABLES else ""
            columns = table.columns
            sql = f"INSERT INTO {name} ({', '.join(columns)}) SELECT * FROM {table.unnest(columns)}{ignore}"
            yield sql, table.arrays(columns, rows), len(rows)
