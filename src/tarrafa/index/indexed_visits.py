"""SQLite record of the index follower: newest visit of each URL, cursor, deletions.

Promises: all of it is saved together, and only after tantivy has committed what it speaks of. A crash in between
replays records over documents that are already there, and replaying is harmless: each begins by deleting its own key.
Deleted pages keep their row, so that a late file cannot bring an old version back; a page that is shown keeps where
the archive has its record, and how it stood with others when it was written (`Marks`), so that it can be written anew
when that has changed (`refresh`). What an earlier version of Tarrafa saved is recognised (`is_foreign`). Knows
nothing of documents.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from tarrafa.archive.warc_reader import Cursor
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, rows

FORMAT = 2
ID_BYTES = 16

SCHEMA = """
CREATE TABLE visits (
    key      BLOB PRIMARY KEY,        -- the URL's id, and the collection's name
    visit    INTEGER NOT NULL,
    file     INTEGER,                 -- where its record is; NULL: the page is not shown
    start    INTEGER,
    in_links INTEGER,                 -- its marks, as they were when it was written
    rank     REAL
) WITHOUT ROWID;
CREATE TABLE files (file INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE cursor (file TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE deleted (collection TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE settled (links TEXT NOT NULL); -- that every page was looked at with: see `refresh`
"""


class IndexedStanding(NamedTuple):
    """How a page stands with others."""

    in_links: int = 0
    rank: float = 0.0


class IndexedPage(NamedTuple):
    """A page that is shown: whose it is, where its record is, and its marks."""

    key: UrlId
    collection: str
    visit: int
    file: str
    start: int
    standing: IndexedStanding


VisitRow = tuple[int, int | None, int | None, int | None, float | None]


def path_of(data: DataDirectory) -> Path:
    return data.index / "followed.sqlite"


def database_file(data: DataDirectory) -> SqliteFile:
    return SqliteFile(path_of(data), FORMAT, "`tarrafa rebuild index` makes it again from the archive")


class IndexedVisits:
    """The writing side; `newest` also sees what is not saved yet."""

    def __init__(self, data: DataDirectory) -> None:
        self._path = path_of(data)
        self._unsaved: dict[bytes, VisitRow] = {}
        file = database_file(data)
        self._connection = file.open(SCHEMA)
        self.errors = file.errors(self._connection)
        with self.errors:
            self.cursor: Cursor = dict(rows(self._connection, "SELECT file, offset FROM cursor"))
            self._files: dict[str, int] = dict(rows(self._connection, "SELECT name, file FROM files"))

    def is_newer(self, collection: str, key: UrlId, visit: int) -> bool:
        """True when this visit is to be applied; it is then the newest, and nothing is shown of it."""
        if visit <= self.newest(collection, key):
            return False
        self._unsaved[key + collection.encode()] = (visit, None, None, None, None)
        return True

    def newest(self, collection: str, key: UrlId) -> int:
        """The number of the newest visit that was applied; -1: none was."""
        row = key + collection.encode()
        known = self._unsaved.get(row)
        if known is not None:
            return known[0]
        with self.errors:
            found = rows(self._connection, "SELECT visit FROM visits WHERE key = ?", (row,))
        return found[0][0] if found else -1

    def mark_shown(self, written: IndexedPage) -> None:
        """The page is shown from now on, as that visit found it."""
        file = self._files.setdefault(written.file, len(self._files) + 1)
        row = written.key + written.collection.encode()
        self._unsaved[row] = (written.visit, file, written.start, *written.standing)

    def shown_pages(self, after: bytes, limit: int) -> tuple[list[IndexedPage], bytes]:
        """Pages that are shown, as they were saved, in the order of their keys, from the first one after a key on; and
        the key to go on after, empty at the end."""
        with self.errors:
            found = rows(self._connection, "SELECT * FROM visits WHERE key > ? ORDER BY key LIMIT ?", (after, limit))
        names = {number: name for name, number in self._files.items()}
        several = [
            IndexedPage(key[:ID_BYTES], key[ID_BYTES:].decode(), visit, names[file], start, IndexedStanding(*marks))
            for key, visit, file, start, *marks in found
            if file is not None
        ]
        return several, found[-1][0] if len(found) == limit else b""

    def begin_reapply(self) -> Callable[[str, UrlId], None]:
        """What the returned function is called with is forgotten, the first time: its visits are all applied anew."""
        run = self._connection.execute
        with self.errors:
            run("DROP TABLE IF EXISTS temp.again")
            run("CREATE TEMP TABLE again (key BLOB PRIMARY KEY) WITHOUT ROWID")

        def forget_once(collection: str, key: UrlId) -> None:
            row = key + collection.encode()
            with self.errors:
                run("INSERT OR IGNORE INTO temp.again VALUES (?)", (row,))
                if self._connection.changes():
                    run("DELETE FROM visits WHERE key = ?", (row,))
                    self._unsaved.pop(row, None)

        return forget_once

    def dropped_collections(self) -> dict[str, float]:
        """The collections that were dropped, and as of when they were deleted."""
        with self.errors:
            return dict(rows(self._connection, "SELECT collection, at FROM deleted"))

    def drop_collection(self, collection: str, at: float) -> None:
        """Forget every visit that was made for a collection; tantivy has committed that it is no more."""
        name = collection.encode()
        with self.errors, self._connection:
            self._connection.execute(f"DELETE FROM visits WHERE substr(key, {ID_BYTES + 1}) = ?", (name,))  # noqa: S608
            self._connection.execute("INSERT OR REPLACE INTO deleted VALUES (?, ?)", (collection, at))
        for key in [key for key in self._unsaved if key[ID_BYTES:] == name]:
            del self._unsaved[key]

    @property
    def path(self) -> Path:
        return self._path

    @property
    def connection(self) -> apsw.Connection:
        return self._connection

    def save(self) -> None:
        many = self._connection.executemany
        with self.errors, self._connection:
            changed = sorted(self._unsaved.items())
            many("INSERT OR REPLACE INTO visits VALUES (?, ?, ?, ?, ?, ?)", ((key, *row) for key, row in changed))
            many("INSERT OR REPLACE INTO cursor VALUES (?, ?)", self.cursor.items())
            many("INSERT OR IGNORE INTO files VALUES (?, ?)", ((number, name) for name, number in self._files.items()))
        self._unsaved.clear()

    def note_links_version(self, links: str) -> None:
        """Note which links all pages have been looked at with."""
        with self.errors, self._connection:
            self._connection.execute("DELETE FROM settled")
            self._connection.execute("INSERT INTO settled VALUES (?)", (links,))

    def close(self) -> None:
        self._connection.close()


def _read_rows(data: DataDirectory, sql: str) -> list[tuple[Any, ...]]:
    """What another process may be writing; nothing, if there are no tables yet, or those of another version."""
    file = database_file(data)
    if file.found_format() != FORMAT:
        return []
    with file.reading() as connection:
        return rows(connection, sql)


def read_cursor(data: DataDirectory) -> Cursor:
    """How far the index has read the archive, as another process may ask."""
    return dict(_read_rows(data, "SELECT file, offset FROM cursor"))


def read_links_version(data: DataDirectory) -> str:
    """Which links all pages have been looked at with."""
    return "".join(links for (links,) in _read_rows(data, "SELECT links FROM settled"))


def is_other_version(data: DataDirectory) -> bool:
    """Whether another version of Tarrafa saved what is there."""
    return database_file(data).found_format() not in (0, FORMAT)


def remove(data: DataDirectory) -> None:
    database_file(data).remove()


def replace_with(data: DataDirectory, successor: DataDirectory) -> None:
    """Put another's in the place of this one. Nobody has either of them open to write, so all is in the files."""
    path = path_of(data)
    for suffix in ("-wal", "-shm"):  # that a killed one may have left: not the other's
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path_of(successor).replace(path)
