"""Newest visit of each URL in each collection, and the archive cursor, of the triple store.

Promises: visits never go back in time; a page that is gone keeps its row, so that a late file cannot bring an old
version back. Where several collections have a URL, what was fetched last among them stands for it. All of it is
saved in the transaction of whoever calls.
Knows nothing of statements.
"""

from collections.abc import Callable
from typing import NamedTuple

import apsw

from tarrafa.archive.warc_reader import Cursor
from tarrafa.model import UrlId
from tarrafa.runtime.sqlite import rows


class StoredVersion(NamedTuple):
    """A page as one visit found it, and where the archive has its record."""

    collection: str
    at: float
    changed: float | None
    file: str
    start: int


class PageVersions:
    """On the connection that writes."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._run = connection.execute
        self.cursor: Cursor = dict(rows(connection, "SELECT file, offset FROM cursor"))
        self._files: dict[str, int] = dict(rows(connection, "SELECT name, file FROM files"))
        self._names = {number: name for name, number in self._files.items()}

    def is_newer(self, collection: str, key: UrlId, visit: int) -> bool:
        found = rows(self._connection, "SELECT visit FROM visits WHERE id = ? AND collection = ?", (key, collection))
        return not found or bool(visit > found[0][0])

    def record_visit(self, key: UrlId, collection: str, visit: int, version: StoredVersion | None) -> None:
        """This visit is the newest; without a version the page is not there."""
        place: tuple[object, ...] = (None, None, None, None)
        if version is not None:
            place = (self._number(version.file), version.start, version.at, version.changed)
        self._run("INSERT OR REPLACE INTO visits VALUES (?, ?, ?, ?, ?, ?, ?)", (key, collection, visit, *place))

    def _number(self, file: str) -> int:
        number = self._files.get(file)
        if number is None:
            number = self._files[file] = len(self._files) + 1
            self._names[number] = file
            self._run("INSERT INTO files VALUES (?, ?)", (number, file))
        return number

    def versions(self, key: UrlId) -> list[StoredVersion]:
        """What the collections have of a page; what was fetched last comes first, of two at once always the same."""
        found = rows(
            self._connection,
            "SELECT collection, at, changed, file, start FROM visits WHERE id = ? AND file IS NOT NULL"
            " ORDER BY at DESC, collection",
            (key,),
        )
        return [StoredVersion(name, at, changed, self._names[file], start) for name, at, changed, file, start in found]

    def dropped_collections(self) -> dict[str, float]:
        """The collections that were dropped, and as of when they were deleted."""
        return dict(rows(self._connection, "SELECT collection, at FROM deleted"))

    def drop_some(self, collection: str, limit: int) -> list[UrlId]:
        """Forget visits that were made for a collection, as many as that; of which pages they were."""
        sql = "SELECT id FROM visits WHERE collection = ? LIMIT ?"
        keys = [key for (key,) in rows(self._connection, sql, (collection, limit))]
        sql = "DELETE FROM visits WHERE id = ? AND collection = ?"
        self._connection.executemany(sql, ((key, collection) for key in keys))
        return keys

    def note_dropped(self, collection: str, at: float) -> None:
        self._run("INSERT OR REPLACE INTO deleted VALUES (?, ?)", (collection, at))

    def begin_reapply(self) -> Callable[[str, UrlId], None]:
        """What the returned function is called with is forgotten, the first time: its visits are all applied anew."""
        self._run("DROP TABLE IF EXISTS temp.again")
        self._run("CREATE TEMP TABLE again (id BLOB, collection TEXT, PRIMARY KEY (id, collection)) WITHOUT ROWID")

        def forget_once(collection: str, key: UrlId) -> None:
            self._run("INSERT OR IGNORE INTO temp.again VALUES (?, ?)", (key, collection))
            if self._connection.changes():
                self._run("DELETE FROM visits WHERE id = ? AND collection = ?", (key, collection))

        return forget_once

    def save_cursor(self) -> None:
        self._connection.executemany("INSERT OR REPLACE INTO cursor VALUES (?, ?)", self.cursor.items())
