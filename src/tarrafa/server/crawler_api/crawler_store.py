"""SQLite store of the crawler API: workers, assigned visits, reported links, acknowledged in-links.

One SQLite file, `DATA/crawlers.sqlite`, written by the one process that serves crawlers: the worker of each crawler,
its assigned visits, its reported links of unfinished visits, the in-links that were sent to it, and the last
unacknowledged response. Promises: the changes of a method that has returned survive a power cut; repeating any method
is harmless. If the file is lost, nothing of the crawl is: crawlers join again and receive their in-links again. Knows
nothing of frontiers, graphs or HTTP.
"""

import contextlib
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from tarrafa.errors import Locked
from tarrafa.i18n import message
from tarrafa.model import HostId, Link, UrlId
from tarrafa.runtime.data_dir import try_lock
from tarrafa.runtime.sqlite import SqliteFile

FORMAT = 1
ID_BYTES = 16
VISITS_KEPT = 10_000  # of each crawler: for calls that are repeated
TRIM_EVERY = 500  # visits

SCHEMA = """
CREATE TABLE crawler (
    name TEXT PRIMARY KEY, worker INTEGER,
    incarnation INTEGER NOT NULL DEFAULT 0, stamp INTEGER NOT NULL DEFAULT 0, -- how far it has heard of its in-links
    cursor INTEGER NOT NULL DEFAULT 0, pending BLOB                           -- the last answer, not acknowledged
) WITHOUT ROWID;
CREATE TABLE visit (
    place INTEGER PRIMARY KEY, crawler TEXT NOT NULL, id BLOB NOT NULL, number INTEGER NOT NULL,
    host INTEGER NOT NULL, collection TEXT NOT NULL, UNIQUE (crawler, id, number)
);
CREATE INDEX visit_crawler ON visit (crawler, place);
CREATE TABLE links (
    crawler TEXT NOT NULL, id BLOB NOT NULL, number INTEGER NOT NULL, content BLOB NOT NULL,
    PRIMARY KEY (crawler, id, number)
) WITHOUT ROWID;
CREATE TABLE told (
    crawler TEXT NOT NULL, collection TEXT NOT NULL, id BLOB NOT NULL, ids BLOB NOT NULL,
    PRIMARY KEY (crawler, collection, id)
) WITHOUT ROWID;
"""


class AssignedVisit(msgspec.Struct, frozen=True):
    """A visit that was sent to a crawler, with the in-links that were sent: all there are, or the first."""

    id: UrlId
    number: int
    host: HostId
    collection: str
    in_links: tuple[UrlId, ...] = ()
    all_in_links: bool = False


class InlinkDifference(msgspec.Struct, frozen=True, array_like=True):
    """The changed in-links of one URL."""

    collection: str
    id: UrlId
    url: str
    new: list[UrlId]
    gone: list[UrlId]
    total: int


class PendingChanges(msgspec.Struct, frozen=True, array_like=True):
    """A response that is not acknowledged yet, and the stamp up to which it covers changes."""

    cursor: int
    stamp: int
    differences: list[InlinkDifference]
    more: bool = False


class InlinkCursor(msgspec.Struct, frozen=True):
    """How far changes of in-links were sent to a crawler."""

    incarnation: int
    stamp: int
    cursor: int
    pending: PendingChanges | None


_encode = msgspec.msgpack.Encoder().encode
_decode_links = msgspec.msgpack.Decoder(tuple[Link, ...]).decode
_decode_pending = msgspec.msgpack.Decoder(PendingChanges).decode


class CrawlerStore:
    """Every method is one transaction; they may be called from any thread."""

    def __init__(self, path: Path) -> None:
        lock = try_lock(path.with_name(path.name + ".lock"))
        if lock is None:
            raise Locked(f"{path}: another process serves crawlers here already")
        self._lock, self._turn = lock, threading.Lock()
        self._recorded = 0  # visits since the last trim
        try:
            file = SqliteFile(path, FORMAT, message("delete the file, and crawlers join again: nothing else is lost"))
            self._connection = file.open(SCHEMA, sync="full")  # what was acknowledged survives a power cut
            self._errors = file.errors(self._connection)
        except BaseException:
            lock.close()
            raise

    def close(self) -> None:
        with self._turn:
            self._connection.close()
            self._lock.close()

    # -- workers -----------------------------------------------------------------------------------------------

    def worker_of(self, crawler: str) -> int | None:
        """The worker number of a crawler, if it has joined."""
        with self._transaction():
            row = self._row("SELECT worker FROM crawler WHERE name = ?", (crawler,))
            return None if row is None else row[0]

    def set_worker(self, crawler: str, worker: int | None) -> None:
        with self._transaction():
            self._run(
                "INSERT INTO crawler (name, worker) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET worker = ?2",
                (crawler, worker),
            )

    # -- visits ------------------------------------------------------------------------------------------------

    def record_visits(self, crawler: str, visits: Iterable[AssignedVisit]) -> None:
        """Record visits, with their in-links, before they are sent to the crawler."""
        with self._transaction():
            for visit in visits:
                self._run(
                    "INSERT OR IGNORE INTO visit (crawler, id, number, host, collection) VALUES (?, ?, ?, ?, ?)",
                    (crawler, visit.id, visit.number, visit.host, visit.collection),
                )
                self._run(
                    "DELETE FROM links WHERE crawler = ? AND id = ? AND number < ?", (crawler, visit.id, visit.number)
                )
                before = [] if visit.all_in_links else self._known_inlinks(crawler, visit.collection, visit.id)
                self._save_known_inlinks(crawler, visit.collection, visit.id, [*before, *visit.in_links])
                self._recorded += 1
            if self._recorded >= TRIM_EVERY:
                self._recorded = 0
                self._trim(crawler)

    def visit_keys(self, crawler: str) -> frozenset[tuple[UrlId, int]]:
        """The visits that were sent to the crawler, the newest VISITS_KEPT or more."""
        with self._transaction():
            return frozenset(self._connection.execute("SELECT id, number FROM visit WHERE crawler = ?", (crawler,)))

    def find_visit(self, crawler: str, url: UrlId, number: int) -> AssignedVisit | None:
        with self._transaction():
            row = self._row(
                "SELECT host, collection FROM visit WHERE crawler = ? AND id = ? AND number = ?", (crawler, url, number)
            )
            return None if row is None else AssignedVisit(url, number, *row)

    def _trim(self, crawler: str) -> None:
        row = self._row(
            "SELECT place FROM visit WHERE crawler = ? ORDER BY place DESC LIMIT 1 OFFSET ?",
            (crawler, VISITS_KEPT),
        )
        if row is not None:
            self._run("DELETE FROM visit WHERE crawler = ? AND place <= ?", (crawler, row[0]))
        self._run(
            "DELETE FROM links WHERE crawler = ? AND NOT EXISTS (SELECT 1 FROM visit WHERE visit.crawler ="
            " links.crawler AND visit.id = links.id AND visit.number = links.number)",
            (crawler,),
        )

    # -- links of unfinished visits ------------------------------------------------------------------------------

    def links(self, crawler: str, url: UrlId, number: int) -> tuple[Link, ...]:
        with self._transaction():
            row = self._row(
                "SELECT content FROM links WHERE crawler = ? AND id = ? AND number = ?", (crawler, url, number)
            )
            return () if row is None else _decode_links(row[0])

    def save_links(self, crawler: str, url: UrlId, number: int, links: tuple[Link, ...]) -> None:
        with self._transaction():
            self._run("INSERT OR REPLACE INTO links VALUES (?, ?, ?, ?)", (crawler, url, number, _encode(links)))

    def delete_links(self, crawler: str, url: UrlId, number: int) -> None:
        """The visit is over."""
        with self._transaction():
            self._run("DELETE FROM links WHERE crawler = ? AND id = ? AND number <= ?", (crawler, url, number))

    # -- in-links ------------------------------------------------------------------------------------------------

    def inlink_cursor(self, crawler: str) -> InlinkCursor:
        with self._transaction():
            sql = "SELECT incarnation, stamp, cursor, pending FROM crawler WHERE name = ?"
            incarnation, stamp, cursor, pending = self._row(sql, (crawler,)) or (0, 0, 0, None)
            return InlinkCursor(incarnation, stamp, cursor, None if pending is None else _decode_pending(pending))

    def known_inlinks(self, crawler: str, collection: str, url: UrlId) -> list[UrlId]:
        """The in-links of a URL that were sent to the crawler and not removed since."""
        with self._transaction():
            return self._known_inlinks(crawler, collection, url)

    def save_pending(self, crawler: str, incarnation: int, stamp: int, pending: PendingChanges | None) -> None:
        """Record that changes up to a stamp are acknowledged, and what is sent next."""
        with self._transaction():
            self._run(
                "INSERT INTO crawler (name, incarnation, stamp, pending) VALUES (?1, ?2, ?3, ?4)"
                " ON CONFLICT DO UPDATE SET incarnation = ?2, stamp = ?3, pending = ?4",
                (crawler, incarnation, stamp, None if pending is None else _encode(pending)),
            )

    def acknowledge(self, crawler: str, pending: PendingChanges) -> None:
        """Record that the crawler has received what was pending."""
        with self._transaction():
            for one in pending.differences:
                gone = frozenset(one.gone)
                before = self._known_inlinks(crawler, one.collection, one.id)
                self._save_known_inlinks(
                    crawler, one.collection, one.id, [old for old in before if old not in gone] + one.new
                )
            self._run(
                "UPDATE crawler SET stamp = ?, cursor = ?, pending = NULL WHERE name = ?",
                (pending.stamp, pending.cursor, crawler),
            )

    def _known_inlinks(self, crawler: str, collection: str, url: UrlId) -> list[UrlId]:
        row = self._row(
            "SELECT ids FROM told WHERE crawler = ? AND collection = ? AND id = ?", (crawler, collection, url)
        )
        ids: bytes = b"" if row is None else row[0]
        return [ids[start : start + ID_BYTES] for start in range(0, len(ids), ID_BYTES)]

    def _save_known_inlinks(self, crawler: str, collection: str, url: UrlId, ids: Iterable[UrlId]) -> None:
        joined = b"".join(dict.fromkeys(ids))
        if joined:
            self._run("INSERT OR REPLACE INTO told VALUES (?, ?, ?, ?)", (crawler, collection, url, joined))
        else:
            self._run("DELETE FROM told WHERE crawler = ? AND collection = ? AND id = ?", (crawler, collection, url))

    # -- SQLite --------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._turn, self._errors, self._connection:
            yield

    def _row(self, sql: str, values: tuple[object, ...]) -> tuple[Any, ...] | None:
        return self._connection.execute(sql, values).fetchone()

    def _run(self, sql: str, values: tuple[object, ...]) -> None:
        self._connection.execute(sql, values)
