"""Which visit of each URL does the index show, and how far has the archive been read?

Promises: both are saved together, and only after tantivy has committed what they speak of. A crash in between replays
records over documents that are already there, and replaying is harmless: each begins by deleting its own key. Deleted
pages keep their row, so that a late file cannot bring an old version back.
Knows nothing of documents.
"""

from collections.abc import Callable
from pathlib import Path

import apsw

from tarrafa.archive.follow import Cursor
from tarrafa.data import DataDirectory
from tarrafa.graph.store import in_our_words, rows
from tarrafa.model import UrlId

BUSY_MS = 10_000

SCHEMA = """
CREATE TABLE IF NOT EXISTS visits (key BLOB PRIMARY KEY, visit INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS cursor (file TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
"""


def path_of(data: DataDirectory) -> Path:
    return data.index / "followed.sqlite"


class Visits:
    """The writing side; `newest` also sees what is not saved yet."""

    def __init__(self, data: DataDirectory) -> None:
        self._path = path_of(data)
        self._unsaved: dict[bytes, int] = {}
        with in_our_words(self._path, what="index"):
            self._connection = apsw.Connection(str(self._path))
        with in_our_words(self._path, self._connection, "index"):
            self._connection.set_busy_timeout(BUSY_MS)
            self._connection.pragma("journal_mode", "wal")
            self._connection.pragma("synchronous", "normal")
            self._connection.execute(SCHEMA)
            self.cursor: Cursor = dict(rows(self._connection, "SELECT file, offset FROM cursor"))

    def is_newer(self, collection: str, key: UrlId, visit: int) -> bool:
        """True when this visit is to be applied; it is then the newest."""
        row = key + collection.encode()
        newest = self._unsaved.get(row)
        if newest is None:
            with in_our_words(self._path, self._connection, "index"):
                found = rows(self._connection, "SELECT visit FROM visits WHERE key = ?", (row,))
            newest = found[0][0] if found else -1
        if visit <= newest:
            return False
        self._unsaved[row] = visit
        return True

    def start_over(self) -> Callable[[str, UrlId], None]:
        """What the returned function is called with is forgotten, the first time: its visits are all applied anew."""
        run = self._connection.execute
        with in_our_words(self._path, self._connection, "index"):
            run("DROP TABLE IF EXISTS temp.again")
            run("CREATE TEMP TABLE again (key BLOB PRIMARY KEY) WITHOUT ROWID")

        def forget_once(collection: str, key: UrlId) -> None:
            row = key + collection.encode()
            with in_our_words(self._path, self._connection, "index"):
                run("INSERT OR IGNORE INTO temp.again VALUES (?)", (row,))
                if self._connection.changes():
                    run("DELETE FROM visits WHERE key = ?", (row,))
                    self._unsaved.pop(row, None)

        return forget_once

    @property
    def path(self) -> Path:
        return self._path

    @property
    def connection(self) -> apsw.Connection:
        return self._connection

    def save(self) -> None:
        many = self._connection.executemany
        with in_our_words(self._path, self._connection, "index"), self._connection:
            many("INSERT OR REPLACE INTO visits VALUES (?, ?)", sorted(self._unsaved.items()))
            many("INSERT OR REPLACE INTO cursor VALUES (?, ?)", self.cursor.items())
        self._unsaved.clear()

    def close(self) -> None:
        self._connection.close()


def read_cursor(data: DataDirectory) -> Cursor:
    """How far the index has read the archive, as another process may ask."""
    path = path_of(data)
    if not path.exists():
        return {}
    with in_our_words(path, what="index"):
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            connection.set_busy_timeout(BUSY_MS)
            if not connection.table_exists(None, "cursor"):
                return {}
            return dict(rows(connection, "SELECT file, offset FROM cursor"))
        finally:
            connection.close()


def forget(data: DataDirectory) -> None:
    path = path_of(data)
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
