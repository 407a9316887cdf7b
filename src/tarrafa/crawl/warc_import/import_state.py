"""The state of imports, in `DATA/imports.sqlite`: which captures of which files are still to be imported.

Promises: losing the file loses no capture and doubles none of the newest hundred of each URL: archive and frontier are
the truth, and this is their summary. What is marked as imported here is in both; what is in the archive and not yet
marked is found by `archive_position`.
"""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apsw
from xxhash import xxh3_64_intdigest, xxh3_128_digest

from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile

ROWS_AT_ONCE = 1_000
REMOVED_AT_ONCE = 20_000
SCHEMA = """
CREATE TABLE IF NOT EXISTS source (   -- a WARC or ARC file, known by the digest of its bytes
    id INTEGER PRIMARY KEY, collection TEXT NOT NULL, digest BLOB NOT NULL, options TEXT NOT NULL, name TEXT NOT NULL,
    surveyed INTEGER NOT NULL DEFAULT 0, solid INTEGER NOT NULL DEFAULT 0, done INTEGER NOT NULL DEFAULT 0,
    -- `done`: the revision of the collection under which all of it was imported
    UNIQUE (collection, digest, options)
);
CREATE TABLE IF NOT EXISTS capture (  -- in the order in which they are imported
    at REAL NOT NULL, source INTEGER NOT NULL, offset INTEGER NOT NULL, skip INTEGER NOT NULL,
    request_offset INTEGER NOT NULL, request_skip INTEGER NOT NULL, record INTEGER NOT NULL, place INTEGER NOT NULL,
    payload INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (at, source, offset, skip)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS tally (    -- what a file holds besides
    source INTEGER NOT NULL, what TEXT NOT NULL, number INTEGER NOT NULL, PRIMARY KEY (source, what)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS host (source INTEGER NOT NULL, root TEXT NOT NULL, PRIMARY KEY (source, root)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS damage (
    source INTEGER NOT NULL, offset INTEGER NOT NULL, reason TEXT NOT NULL, PRIMARY KEY (source, offset, reason)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (key BLOB PRIMARY KEY) WITHOUT ROWID;  -- captures that were imported
CREATE TABLE IF NOT EXISTS archive_position (file TEXT PRIMARY KEY, length INTEGER NOT NULL) WITHOUT ROWID;
"""
FORMAT = 1
NO_REQUEST = -1


def import_state_file(data: DataDirectory) -> SqliteFile:
    return SqliteFile(data.root / "imports.sqlite", FORMAT)


class SourceRow(NamedTuple):
    """A file of an import. A solid one is compressed as a whole."""

    number: int
    is_surveyed: bool
    is_solid: bool
    is_done: bool


class ImportRow(NamedTuple):
    """Where a capture is, and by what others refer to it."""

    at: float
    source: int
    offset: int
    skip: int
    request_offset: int = NO_REQUEST
    request_skip: int = 0
    record: int = 0  # hash of its record id
    place: int = 0  # hash of its URL and date, as written
    payload: int = 0  # hash of its payload digest, as written


ORIGINALS = {
    column: (
        "SELECT at, source, offset, skip, request_offset, request_skip, record, place, payload FROM capture"  # noqa: S608
        f" WHERE {column} = ? AND at <= ? AND source IN (SELECT source FROM session) ORDER BY at DESC LIMIT 1"
    )
    for column in ("record", "place", "payload")
}
BEFORE_ALL = ImportRow(-1.0, -1, -1, -1)


def reference_hash(text: str) -> int:
    """A number for a record id, a URL with its date, or a digest; 0 for none."""
    return (xxh3_64_intdigest(text.encode("utf-8", "surrogatepass")) >> 1) if text else 0


def capture_key(collection: str, url: str, at: float, length: int) -> bytes:
    """By this a capture is the same one: its URL, its date, and the length of its body."""
    return xxh3_128_digest(f"{collection}\n{url}\n{at!r}\n{length}".encode("utf-8", "surrogatepass"))


class ImportState:
    """One connection that writes. Changes are saved by `commit`."""

    def __init__(self, data: DataDirectory) -> None:
        self._file = import_state_file(data)
        self._connection = self._file.open(SCHEMA, owner_only=True, cache_kib=32_000)
        self._run("CREATE TEMP TABLE session (source INTEGER PRIMARY KEY)")
        self._has_references = False

    def _run(self, sql: str, values: tuple[Any, ...] = ()) -> apsw.Cursor:
        with self._file.errors(self._connection):
            return self._connection.execute(sql, values)

    def _many(self, sql: str, rows: Iterable[tuple[Any, ...]]) -> None:
        with self._file.errors(self._connection):
            self._connection.executemany(sql, rows)

    def begin(self) -> None:
        if not self._connection.in_transaction:
            self._run("BEGIN IMMEDIATE")

    def commit(self) -> None:
        if self._connection.in_transaction:
            self._run("COMMIT")

    def close(self) -> None:
        self._connection.close()

    # -- files -----------------------------------------------------------------------------------------------------

    def open_source(self, collection: str, digest: bytes, options: str, name: str, revision: int) -> SourceRow:
        """What is known of a file. If the definition has changed since all of it was imported, it is read again."""
        self.begin()
        self._run(
            "INSERT OR IGNORE INTO source (collection, digest, options, name) VALUES (?, ?, ?, ?)",
            (collection, digest, options, name),
        )
        self._run(
            "UPDATE source SET done = 0, surveyed = 0 WHERE collection = ? AND digest = ? AND options = ?"
            " AND done NOT IN (0, ?)",
            (collection, digest, options, revision),
        )
        row = self._run(
            "SELECT id, surveyed, solid, done FROM source WHERE collection = ? AND digest = ? AND options = ?",
            (collection, digest, options),
        ).fetchone()
        assert row is not None
        known = SourceRow(row[0], *map(bool, row[1:]))
        if not known.is_done:
            self._run("INSERT OR IGNORE INTO session VALUES (?)", (known.number,))
        return known

    def begin_survey(self, source: int) -> None:
        """Forget what an interrupted survey found."""
        self.begin()
        for table in ("capture", "tally", "host", "damage"):
            self._run(f"DELETE FROM {table} WHERE source = ?", (source,))  # noqa: S608 (names of our own)

    def end_survey(self, source: int, *, is_solid: bool) -> None:
        self._run("UPDATE source SET surveyed = 1, solid = ? WHERE id = ?", (is_solid, source))
        self.commit()

    def add_captures(self, rows: Iterable[ImportRow]) -> None:
        self._many("INSERT OR IGNORE INTO capture VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0)", rows)

    def add_tally(self, source: int, tally: dict[str, int]) -> None:
        self._many(
            "INSERT INTO tally VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET number = number + excluded.number",
            ((source, what, number) for what, number in tally.items()),
        )

    def add_hosts(self, source: int, roots: Iterable[str]) -> None:
        self._many("INSERT OR IGNORE INTO host VALUES (?, ?)", ((source, root) for root in roots))

    def add_damage(self, source: int, offset: int, reason: str) -> None:
        self.begin()
        self._run("INSERT OR IGNORE INTO damage VALUES (?, ?, ?)", (source, offset, reason))

    def tally(self) -> dict[str, int]:
        sql = "SELECT what, sum(number) FROM tally WHERE source IN (SELECT source FROM session) GROUP BY what"
        return dict(self._run(sql))

    def roots(self, limit: int) -> list[str]:
        """The roots of all hosts with pages in the files of this import."""
        sql = "SELECT DISTINCT root FROM host WHERE source IN (SELECT source FROM session) ORDER BY root LIMIT ?"
        return [root for (root,) in self._run(sql, (limit,))]

    def damages(self) -> Iterator[tuple[str, int, str]]:
        sql = (
            "SELECT name, offset, reason FROM damage JOIN source ON source.id = damage.source"
            " WHERE source IN (SELECT source FROM session) ORDER BY source, offset"
        )
        yield from self._run(sql)

    # -- captures --------------------------------------------------------------------------------------------------

    def count_open(self) -> int:
        sql = "SELECT count(*) FROM capture WHERE done = 0 AND source IN (SELECT source FROM session)"
        (found,) = self._run(sql).fetchall()[0]
        assert isinstance(found, int)
        return found

    def open_captures(self) -> Iterator[ImportRow]:
        """The captures that are not imported yet, in the order of their dates."""
        sql = (
            "SELECT at, source, offset, skip, request_offset, request_skip, record, place, payload FROM capture"
            " WHERE (at, source, offset, skip) > (?, ?, ?, ?) AND done = 0 AND source IN (SELECT source FROM session)"
            " ORDER BY at, source, offset, skip LIMIT ?"
        )
        last = BEFORE_ALL
        while rows := [ImportRow(*row) for row in self._run(sql, (*last[:4], ROWS_AT_ONCE))]:
            yield from rows
            last = rows[-1]

    def find_original(self, column: str, key: int, before: float) -> ImportRow | None:
        """The newest capture up to a moment to which a revisit refers by its `record`, `place` or `payload`."""
        if not self._has_references:
            for one in ORIGINALS:
                self._run(f"CREATE INDEX IF NOT EXISTS capture_{one} ON capture ({one})")
            self._has_references = True
        row = self._run(ORIGINALS[column], (key, before)).fetchone()
        return None if row is None else ImportRow(*row)

    def is_seen(self, key: bytes) -> bool:
        return self._run("SELECT 1 FROM seen WHERE key = ?", (key,)).fetchone() is not None

    def save_batch(
        self,
        done: Iterable[ImportRow],
        keys: Iterable[bytes],
        tally: dict[int, dict[str, int]],
        position: dict[str, int],
    ) -> None:
        """Save that these captures are imported, and how far the frontier knows the archive."""
        self.begin()
        self._many(
            "UPDATE capture SET done = 1 WHERE at = ? AND source = ? AND offset = ? AND skip = ?",
            (row[:4] for row in done),
        )
        self._many("INSERT OR IGNORE INTO seen VALUES (?)", ((key,) for key in keys))
        for source, numbers in tally.items():
            self.add_tally(source, numbers)
        self._many("INSERT OR REPLACE INTO archive_position VALUES (?, ?)", position.items())
        self.commit()

    def position(self, file: str) -> int:
        row = self._run("SELECT length FROM archive_position WHERE file = ?", (file,)).fetchone()
        return 0 if row is None else int(row[0])

    def first_date(self) -> float | None:
        """The date of the first capture of this import."""
        sql = "SELECT min(at) FROM capture WHERE source IN (SELECT source FROM session)"
        (found,) = self._run(sql).fetchall()[0]
        return found if isinstance(found, float) else None

    def finish(self, revision: int) -> None:
        """All captures of this import are in: only that is remembered, and their keys."""
        self.begin()
        self._run("UPDATE source SET done = ? WHERE id IN (SELECT source FROM session)", (max(1, revision),))
        while True:
            self.begin()
            sql = (
                "DELETE FROM capture WHERE (at, source, offset, skip) IN (SELECT at, source, offset, skip FROM capture"
                " WHERE source IN (SELECT source FROM session) LIMIT ?)"
            )
            self._run(sql, (REMOVED_AT_ONCE,))
            removed = self._connection.changes()
            self.commit()
            if not removed:
                return
