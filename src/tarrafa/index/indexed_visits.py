"""SQLite state of the index: newest visit, archive record and standing of each indexed page.

Promises: all of it is saved together, and only after tantivy has committed what it speaks of. A crash in between
replays records over documents that are already there, and replaying is harmless: each begins by deleting its own key.
A page that is shown keeps where the archive has its record, and how it stood with others when it was written
(`IndexedStanding`), so that it can be written anew when that has changed (`anchor_refresh`). Knows nothing of
documents.
"""

from pathlib import Path
from typing import NamedTuple

from tarrafa.archive.projection import STATE_SCHEMA, TAKEDOWN_SCHEMA, VISITS_SCHEMA, NewestVisits, ProjectionState
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, rows

FORMAT = 3
CACHE_KIB = 16 << 10
DROPPED_AT_ONCE = 10_000  # visits of a collection that was deleted

SCHEMA = (
    f"{STATE_SCHEMA}{TAKEDOWN_SCHEMA}{VISITS_SCHEMA.format(columns='in_links INTEGER, rank REAL')}"
    + """
CREATE TABLE settled (links TEXT NOT NULL); -- that every page was looked at with: see `anchor_refresh`
"""
)


class IndexedStanding(NamedTuple):
    """How a page stands with others."""

    in_links: int = 0
    rank: float = 0.0


class IndexedPage(NamedTuple):
    """A page that is shown: whose it is, where its record is, and its standing when it was written."""

    key: UrlId
    collection: str
    visit: int
    file: str
    start: int
    standing: IndexedStanding


PageKey = tuple[UrlId, str]  # a URL's id and a collection
FIRST: PageKey = (b"", "")


def path_of(data: DataDirectory) -> Path:
    return data.index / "followed.sqlite"


def database_file(data: DataDirectory) -> SqliteFile:
    return SqliteFile(path_of(data), FORMAT, "`tarrafa rebuild index` makes it again from the archive")


class IndexedVisits:
    """The writing side. It also sees what is not committed yet."""

    def __init__(self, data: DataDirectory) -> None:
        file = database_file(data)
        connection = file.open(SCHEMA, cache_kib=CACHE_KIB)
        self.errors = file.errors(connection)
        with self.errors:
            self.state = ProjectionState(connection)
            self._newest = NewestVisits(self.state)

    def newest(self, collection: str, key: UrlId) -> int:
        """The number of the newest visit that was applied; -1: none was."""
        with self.errors:
            return self._newest.newest(collection, key)

    def shown_pages(self, after: PageKey, limit: int) -> tuple[list[IndexedPage], PageKey | None]:
        """Pages that are shown, in the order of their keys, from the first one after a key on; and the key to go on
        after, None at the end."""
        sql = "SELECT * FROM visits WHERE (id, collection) > (?, ?) ORDER BY id, collection LIMIT ?"
        with self.errors:
            found = rows(self.state.connection, sql, (*after, limit))
        several = [
            IndexedPage(key, collection, visit, self.state.file_name(file), start, IndexedStanding(*standing))
            for key, collection, visit, file, start, *standing in found
            if file is not None
        ]
        return several, (found[-1][0], found[-1][1]) if len(found) == limit else None

    def note_links_version(self, links: str) -> None:
        """Note which links all pages have been looked at with."""
        with self.errors, self.state.connection:
            self.state.connection.execute("DELETE FROM settled")
            self.state.connection.execute("INSERT INTO settled VALUES (?)", (links,))

    def close(self) -> None:
        self.state.connection.close()


def read_links_version(data: DataDirectory) -> str:
    """Which links all pages have been looked at with."""
    file = database_file(data)
    if file.found_format() != FORMAT:
        return ""
    with file.reading() as connection:
        return "".join(links for (links,) in rows(connection, "SELECT links FROM settled"))


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
