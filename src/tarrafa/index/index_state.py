"""State of one part of the index: the visits that it holds (SQLite), and the takedowns that it complies with.

Promises: cursor, visits and standings are saved together, and only after tantivy has committed the documents. A crash
in between replays records over existing documents, and replaying is harmless: each begins by deleting its own key. An
indexed page keeps the position of its archive record, and its in-links and rank at indexing time (`IndexedStanding`),
so that it can be written again when they have changed (`follower.AnchorRefresher`). Search need not filter pages that
the index has deleted, as reported by `is_applied`: the takedown marker is written after the commit, and removed before
the next change. Knows nothing of documents.
"""

from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tarrafa.archive.projection import STATE_SCHEMA, TAKEDOWN_SCHEMA, VISITS_SCHEMA, NewestVisits, ProjectionState
from tarrafa.errors import data_error_from_os
from tarrafa.i18n import message
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.takedown import TakedownSet

FORMAT = 3
CACHE_KIB = 16 << 10
DROPPED_AT_ONCE = 10_000  # visits of a deleted collection

SCHEMA = (
    f"{STATE_SCHEMA}{TAKEDOWN_SCHEMA}{VISITS_SCHEMA.format(columns='in_links INTEGER, rank REAL')}"
    + """
CREATE TABLE settled (links TEXT NOT NULL); -- that every page was looked at with: see `AnchorRefresher`
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
    return SqliteFile(path_of(data), FORMAT, message("`tarrafa rebuild index` makes it again from the archive"))


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
        pages = [
            IndexedPage(key, collection, visit, self.state.file_name(file), start, IndexedStanding(*standing))
            for key, collection, visit, file, start, *standing in found
            if file is not None
        ]
        return pages, (found[-1][0], found[-1][1]) if len(found) == limit else None

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
    """Whether another version of Tarrafa saved the visits."""
    return database_file(data).found_format() not in (0, FORMAT)


def replace_visits(data: DataDirectory, successor: DataDirectory) -> None:
    """Replace the visits with those of another index. No process has either file open for writing, so all data are in
    the files.
    """
    path = path_of(data)
    for suffix in ("-wal", "-shm"):  # left by a killed process: they do not belong to the new file
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    path_of(successor).replace(path)


# -- the takedown marker -----------------------------------------------------------------------------------------------


def _marker_path(data: DataDirectory) -> Path:
    return data.index / "withheld"


def is_applied(data: DataDirectory, orders: TakedownSet) -> bool:
    """Whether no taken-down page is in a snapshot that is taken after this call."""
    try:
        return _marker_path(data).read_bytes() == orders.digest
    except OSError:
        return False


def mark_applied(data: DataDirectory, orders: TakedownSet) -> None:
    """Write the marker: the index is committed and complies with the takedowns."""
    try:
        write_atomically(_marker_path(data), orders.digest, durable=False)
    except OSError as error:
        raise data_error_from_os(error, _marker_path(data)) from None


def clear_applied(data: DataDirectory) -> None:
    """Remove the marker."""
    try:
        _marker_path(data).unlink(missing_ok=True)
    except OSError as error:
        raise data_error_from_os(error, _marker_path(data)) from None


def replace_marker(data: DataDirectory, successor: DataDirectory) -> None:
    """Take over the marker of another index."""
    with suppress(FileNotFoundError):
        _marker_path(successor).replace(_marker_path(data))
