"""State of one part of the index: the visits that it holds (SQLite), its totals, and the takedowns it complies with.

Promises: cursor, visits and standings are saved together, and only after tantivy has committed the documents. A crash
in between replays records over existing documents, and replaying is harmless: each begins by deleting its own key. An
indexed page keeps the position of its archive record, and its in-links, rank and anchors at indexing time
(`IndexedStanding`), so that it can be written again when they have changed (`AnchorRefresher`). Search need
not filter pages that the index has deleted, as reported by `is_applied`: the takedown marker is written after the
commit, and removed before the next change. Every page that its collection keeps has a fate (`PageFate`), and the totals
by fate, which triggers keep, change with it in one transaction. A page that was kept and may be shown is written; a
page that is gone, moved, forbidden or marked noindex is deleted; temporary failures (time-outs, 5xx) and an unchanged
304 change nothing (`index_action`). Knows nothing of documents.
"""

from collections.abc import Sequence
from contextlib import suppress
from enum import Enum, IntEnum
from pathlib import Path
from typing import NamedTuple

import msgspec

from tarrafa.archive.projection import (
    STATE_SCHEMA,
    TAKEDOWN_SCHEMA,
    VISITS_SCHEMA,
    NewestVisits,
    PageKey,
    ProjectionState,
)
from tarrafa.errors import data_error_from_os
from tarrafa.i18n import message
from tarrafa.model import Status, UrlId, VisitRecord, is_inconclusive
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.heartbeat import Count
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.takedown import TakedownSet

FORMAT = 10
CACHE_KIB = 16 << 10
DROPPED_AT_ONCE = 10_000  # visits of a deleted collection

OWN_COLUMNS = (
    "in_links INTEGER, rank REAL, anchors INTEGER, fate INTEGER NOT NULL, cut INTEGER NOT NULL,"
    " cut_text INTEGER NOT NULL"
)
TOTALS_SCHEMA = """
CREATE TABLE settled (links TEXT NOT NULL); -- that every page was looked at with: see `AnchorRefresher`
CREATE TABLE totals (                       -- pages of each collection by fate; `cut`, `cut_text`: of those indexed
    collection TEXT PRIMARY KEY, indexed INTEGER NOT NULL, noindex INTEGER NOT NULL, taken_down INTEGER NOT NULL,
    cut INTEGER NOT NULL, cut_text INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE urls (indexed INTEGER NOT NULL); -- a URL counts once, in however many collections it is
INSERT INTO urls VALUES (0);
CREATE TRIGGER page_added AFTER INSERT ON visits WHEN NEW.fate > 0 BEGIN
    INSERT INTO totals VALUES (NEW.collection, 0, 0, 0, 0, 0) ON CONFLICT DO NOTHING;
    UPDATE totals SET indexed = indexed + (NEW.fate = 1), noindex = noindex + (NEW.fate = 2),
        taken_down = taken_down + (NEW.fate = 3), cut = cut + NEW.cut, cut_text = cut_text + NEW.cut_text
        WHERE collection = NEW.collection;
    UPDATE urls SET indexed = indexed + 1 WHERE NEW.fate = 1
        AND NOT EXISTS (SELECT 1 FROM visits WHERE id = NEW.id AND collection <> NEW.collection AND fate = 1);
END;
CREATE TRIGGER page_removed AFTER DELETE ON visits WHEN OLD.fate > 0 BEGIN
    UPDATE totals SET indexed = indexed - (OLD.fate = 1), noindex = noindex - (OLD.fate = 2),
        taken_down = taken_down - (OLD.fate = 3), cut = cut - OLD.cut, cut_text = cut_text - OLD.cut_text
        WHERE collection = OLD.collection;
    UPDATE urls SET indexed = indexed - 1 WHERE OLD.fate = 1
        AND NOT EXISTS (SELECT 1 FROM visits WHERE id = OLD.id AND fate = 1);
END;
"""
SCHEMA = f"{STATE_SCHEMA}{TAKEDOWN_SCHEMA}{VISITS_SCHEMA.format(columns=OWN_COLUMNS)}{TOTALS_SCHEMA}"


class PageFate(IntEnum):
    """What became of a page in the index, by the newest visit that was applied; the triggers know these numbers."""

    NOT_KEPT = 0  # gone, moved, refused…
    INDEXED = 1
    NOINDEX = 2  # kept, and not indexed: the page says noindex
    TAKEN_DOWN = 3  # kept, and not indexed: it was taken down since


class IndexAction(Enum):
    """The effect of a visit on the index."""

    WRITE = 1
    DELETE = 2
    NOTHING = 3


def index_action(record: VisitRecord) -> IndexAction:
    outcome = record.outcome
    if is_inconclusive(outcome.status) or outcome.grace or outcome.status == Status.TAKEN_DOWN:  # see `takedowns`
        return IndexAction.NOTHING
    return IndexAction.WRITE if page_fate(record, is_taken_down=False) is PageFate.INDEXED else IndexAction.DELETE


def page_fate(record: VisitRecord, *, is_taken_down: bool) -> PageFate:
    """What becomes of the page of a conclusive visit."""
    if not record.outcome.kept or record.page is None:
        return PageFate.NOT_KEPT
    if record.page.robots.noindex:
        return PageFate.NOINDEX
    return PageFate.TAKEN_DOWN if is_taken_down else PageFate.INDEXED


class PagesByFate(msgspec.Struct, frozen=True):
    """How many pages that a collection keeps are in the index, and how many are not, and why. `cut`: indexed pages with
    more structured data than is kept of one page; `cut_text`: with more text.
    """

    collection: str
    indexed: Count = 0
    noindex: Count = 0
    taken_down: Count = 0
    cut: Count = 0
    cut_text: Count = 0


class IndexedStanding(NamedTuple):
    """In-links, rank and a hash of the anchors of a page at indexing time; None: the anchors are not known."""

    in_links: int = 0
    rank: float = 0.0
    anchors: int | None = None


class IndexedPage(NamedTuple):
    """An indexed page: its key, the position of its record, and its standing when it was written."""

    key: UrlId
    collection: str
    visit: int
    file: str
    start: int
    standing: IndexedStanding


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

    def newest_of(self, keys: Sequence[UrlId]) -> dict[PageKey, int]:
        """The numbers of the newest visits of these few URLs that were applied, in all collections."""
        with self.errors:
            return self._newest.newest_of(keys)

    def shown_pages(self, after: PageKey, limit: int) -> tuple[list[IndexedPage], PageKey | None]:
        """Indexed pages in the order of their keys, after a given key; and the key to continue after, None at the
        end.
        """
        sql = (
            "SELECT id, collection, visit, file, start, in_links, rank, anchors FROM visits"
            " WHERE (id, collection) > (?, ?) ORDER BY id, collection LIMIT ?"
        )
        with self.errors:
            found = rows(self.state.connection, sql, (*after, limit))
        pages = [
            IndexedPage(key, collection, visit, self.state.file_name(file), start, IndexedStanding(*standing))
            for key, collection, visit, file, start, *standing in found
            if file is not None
        ]
        return pages, (found[-1][0], found[-1][1]) if len(found) == limit else None

    def change_fate(self, key: UrlId, before: PageFate, after: PageFate, collection: str | None = None) -> None:
        """Change the fate of a page that is not in the index any more; in one collection, or in all."""
        with self.errors:
            self.state.begin()
            found = rows(
                self.state.connection,
                "DELETE FROM visits WHERE id = ?1 AND fate = ?2 AND (?3 IS NULL OR collection = ?3)"
                " RETURNING id, collection, visit",
                (key, int(before), collection),
            )
            self.state.connection.executemany(
                "INSERT INTO visits VALUES (?, ?, ?, NULL, NULL, NULL, NULL, NULL, ?, 0, 0)",
                [(*row, int(after)) for row in found],
            )

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


def pages_by_fate(part: DataDirectory) -> tuple[list[PagesByFate], int]:
    """The pages of each collection in a part, by fate; and the number of indexed URLs, each counted once."""
    with database_file(part).reading() as connection:
        found = rows(connection, "SELECT * FROM totals WHERE indexed + noindex + taken_down > 0")
        return [PagesByFate(*row) for row in found], rows(connection, "SELECT indexed FROM urls")[0][0]


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
