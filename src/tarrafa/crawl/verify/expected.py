"""Expected content of frontier and projections: what the archive has, in a temporary SQLite file.

Rows are appended while the archive is read, and indexed once it is read: that costs a sort, and no memory. The file is
SQLite's own temporary one (in `SQLITE_TMPDIR`, `TMPDIR` or /var/tmp), which is gone when the connection is closed.
Knows nothing of files.
"""

from typing import NamedTuple

import apsw

from tarrafa.model import UrlId
from tarrafa.runtime.sqlite import rows

CACHE_KIB = 48 << 10
APPENDED_AT_ONCE = 5_000
INDEX_BIT, TRIPLES_BIT, GRAPH_BIT = 1, 2, 4  # the projection has read the record, and keeps its collection

SCHEMA = """
CREATE TABLE visit (
    id BLOB, collection TEXT, visit INTEGER, file INTEGER, start INTEGER, at REAL, status INTEGER, url TEXT,
    part INTEGER,       -- of index and triple store
    applied INTEGER,    -- bits
    action INTEGER,     -- of the index
    fate INTEGER,
    statements INTEGER,
    edges BLOB,         -- a digest; NULL: the visit saw none, and the known ones stay
    deleted INTEGER,    -- its collection was deleted since
    payload INTEGER     -- its response was archived
);
CREATE TABLE answer (file INTEGER, meta INTEGER);    -- a response, and where its visit is
CREATE TABLE tail (id BLOB, collection TEXT, visit INTEGER, file INTEGER);  -- visits behind a durable mark
CREATE TABLE capture (file INTEGER, offset INTEGER, facts BLOB, url TEXT, applied INTEGER);
CREATE TABLE record_id (id BLOB, file INTEGER, is_meta INTEGER, offset INTEGER, length INTEGER);
CREATE TABLE finished (host INTEGER, id BLOB, collection TEXT, visit INTEGER, at REAL, status INTEGER, worker TEXT);
CREATE TABLE stored_capture (file INTEGER, offset INTEGER, facts BLOB, url TEXT);
CREATE TABLE graph_name (name BLOB);
CREATE TABLE known_loss (id BLOB, collection TEXT, visit INTEGER, PRIMARY KEY (id, collection, visit)) WITHOUT ROWID;
"""
INDEXES = """
CREATE INDEX visit_by_key ON visit (id, collection, visit);
CREATE INDEX record_id_by_id ON record_id (id);
CREATE INDEX answer_by_meta ON answer (file, meta);
CREATE INDEX tail_by_key ON tail (id, collection, visit);
"""


class ExpectedVisit(NamedTuple):
    """A row of `visit`."""

    id: UrlId
    collection: str
    visit: int
    file: int
    start: int
    at: float
    status: int
    url: str
    part: int
    applied: int
    action: int
    fate: int
    statements: int
    edges: bytes | None
    deleted: bool
    payload: bool


class ExpectedContent:
    """The temporary file. `file_number` names archive files by small numbers."""

    def __init__(self) -> None:
        self.connection = apsw.Connection("")
        self.connection.pragma("cache_size", -CACHE_KIB)
        self.connection.pragma("journal_mode", "off")
        self.connection.execute(SCHEMA)
        self._numbers: dict[str, int] = {}
        self._names: list[str] = []
        self._waiting: dict[str, list[tuple[object, ...]]] = {}
        self.visits = 0

    def file_number(self, name: str) -> int:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = len(self._names)
            self._names.append(name)
        return number

    def file_name(self, number: int) -> str:
        return self._names[number]

    def append_visit(self, visit: ExpectedVisit) -> None:
        self.visits += 1
        self.append("visit", visit)

    def append(self, table: str, row: tuple[object, ...]) -> None:
        waiting = self._waiting.setdefault(table, [])
        waiting.append(row)
        if len(waiting) >= APPENDED_AT_ONCE:
            self._flush(table, waiting)

    def flush(self) -> None:
        for table, waiting in self._waiting.items():
            self._flush(table, waiting)

    def _flush(self, table: str, waiting: list[tuple[object, ...]]) -> None:
        if waiting:
            marks = ", ".join("?" * len(waiting[0]))
            with self.connection:
                self.connection.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", waiting)  # noqa: S608 (names of ours)
            waiting.clear()

    def finish_reading(self) -> None:
        """The archive is read: index the rows."""
        self.flush()
        self.connection.execute(INDEXES)

    def has_visit(self, key: UrlId, collection: str, visit: int) -> bool:
        sql = "SELECT 1 FROM visit WHERE id = ? AND collection = ? AND visit = ? AND NOT deleted"
        return self.connection.execute(sql, (key, collection, visit)).fetchone() is not None

    def has_visit_at(self, key: UrlId, collection: str, visit: int, place: tuple[str, int]) -> bool:
        """Whether this visit has a record at this place."""
        sql = "SELECT file, start FROM visit WHERE id = ? AND collection = ? AND visit = ?"
        found = rows(self.connection, sql, (key, collection, visit))
        return any((self.file_name(file), start) == place for file, start in found)

    def first_record(self, name: str, file: str, offset: int) -> tuple[str, int]:
        """File and offset of the first record with the id of a later one."""
        sql = (
            "SELECT o.file, o.is_meta, o.offset FROM record_id r JOIN record_id o ON o.id = r.id WHERE r.file = ?"
            " AND r.is_meta = ? AND r.offset = ? ORDER BY o.rowid LIMIT 1"
        )
        found = rows(self.connection, sql, (self.file_number(name), ".meta." in file, offset))
        return next((f"{self.file_name(one)}{'.meta' if is_meta else ''}.warc.gz", at) for one, is_meta, at in found)

    def close(self) -> None:
        self.connection.close()
