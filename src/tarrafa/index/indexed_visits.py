"""SQLite state of the index: newest visit, archive record and standing of each indexed page.

Promises: all of it is saved together, and only after tantivy has committed the documents. A crash in between replays
records over existing documents, and replaying is harmless: each begins by deleting its own key. An indexed page keeps
the position of its archive record, and its in-links and rank at indexing time (`IndexedStanding`), so that it can be
written again when they have changed (`anchor_refresh`). Knows nothing of documents.
"""

from pathlib import Path
from typing import NamedTuple

from tarrafa.archive.projection import STATE_SCHEMA, TAKEDOWN_SCHEMA, VISITS_SCHEMA, NewestVisits, ProjectionState
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, rows

FORMAT = 3
CACHE_KIB = 16 << 10
DROPPED_AT_ONCE = 10_000  # visits of a deleted collection

SCHEMA = (
    f"{STATE_SCHEMA}{TAKEDOWN_SCHEMA}{VISITS_SCHEMA.format(columns='in_links INTEGER, rank REAL')}"
    + """
CREATE TABLE settled (links TEXT NOT NULL); -- that every page was looked at with: see `anchor_refresh`
"""
)


class IndexedStanding(NamedTuple):
    """In-links and rank of a page at indexing time."""

    in_links: int = 0
    rank: float = 0.0


class IndexedPage(NamedTuple):
    """An indexed page: its key, the position of its record, and its standing when it was written."""

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
    """The writing side. It also sees uncommitted visits."""

    def __init__(self, data: DataDirectory) -> None:
        file = database_file(data)
        connection = file.open(SCHEMA, cache_kib=CACHE_KIB)
        self.errors = file.errors(connection)
        with self.errors:
            self.state = ProjectionState(connection)
            self._newest = NewestVisits(self.state)

    def newest(self, collection: str, key: UrlId) -> int:
        """The number of the newest visit that was applied; -1: none."""
        with self.errors:
            return self._newest.newest(collection, key)

    def shown_pages(self, after: PageKey, limit: int) -> tuple[list[IndexedPage], PageKey | None]:
        """Indexed pages in the order of their keys, after a given key; and the key to continue after, None at the
        end.
        """
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
        """Store the version of the links that the last sweep has checked all pages with."""
        with self.errors, self.state.connection:
            self.state.connection.execute("DELETE FROM settled")
            self.state.connection.execute("INSERT INTO settled VALUES (?)", (links,))

    def close(self) -> None:
        self.state.connection.close()


def read_links_version(data: DataDirectory) -> str:
    """The version of the links that the last sweep has checked all pages with."""
    file = database_file(data)
    if file.found_format() != FORMAT:
        return ""
    with file.reading() as connection:
        return "".join(links for (links,) in rows(connection, "SELECT links FROM settled"))


def is_other_version(data: DataDirectory) -> bool:
    """Whether another version of Tarrafa saved this file."""
    return database_file(data).found_format() not in (0, FORMAT)


def remove(data: DataDirectory) -> None:
    database_file(data).remove()


def replace_with(data: DataDirectory, successor: DataDirectory) -> None:
    """Replace this file with another one. No process has either of them open for writing, so all data are in the
    files.
    """
    path = path_of(data)
    for suffix in ("-wal", "-shm"):  # left by a killed process: they do not belong to the new file
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path_of(successor).replace(path)
