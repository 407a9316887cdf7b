"""Is everything that pages state in the store?

Promises: follows the archive from where it stopped, whatever stopped it; what a page states can be asked for a few
seconds after it became durable; updates and deletions go by URL and never back in time. Of several collections that
have a URL, what was fetched last stands for it; when that goes, the other's is read again from the archive. A store
that another version of Tarrafa laid out is made again from the archive: it holds nothing of its own.
Store first, then cursor, visits and counts in one transaction: a crash repeats work and changes nothing. One process
at a time for each part (they are those of the index). What is committed is published for others every few seconds;
`behind` is 0 only when every durable record is committed and published, in every part that is kept here.
Knows nothing of queries.
"""

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tarrafa.archive import follow as archive
from tarrafa.archive.follow import Cursor, Entry, entry_at
from tarrafa.clock import boottime
from tarrafa.data import DataDirectory, open_to_read, write_atomically
from tarrafa.errors import Locked, from_os
from tarrafa.graph.store import in_our_words, rows
from tarrafa.index import shards
from tarrafa.index.documents import Change, change
from tarrafa.model import Outcome, UrlId
from tarrafa.parse.moment import moment
from tarrafa.parse.url import url_id
from tarrafa.triples import layout
from tarrafa.triples.pages import Pages
from tarrafa.triples.publishing import publish
from tarrafa.triples.visits import Version, Visits
from tarrafa.triples.withheld import Withheld

log = logging.getLogger(__name__)
POLL_S = 0.2
COMMIT_RECORDS = 2_000
COMMIT_EVERY_S = 3.0
COMMIT_IDLE_S = 0.4  # nothing new for so long: show what there is
PUBLISH_EVERY_S = 2.0
Tell = Callable[[int], None]
HELD_CHARS_MAX = 8 << 20  # of statements that wait to be written


class Follower:
    """Reads, writes, commits and publishes when it is time. Use it in a `with`: it holds the lock and the store."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._path = layout.books(data)
        self._is_ours = shards.is_ours(data)
        self._news: dict[UrlId, str] = {}  # pages to write
        self._texts: dict[tuple[UrlId, str], str] = {}  # what they state, as far as we have just read it
        self._held = self._records = 0
        self._first_at = self._last_at = self._published_at = 0.0
        self._lock = layout.lock(data)
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        data, found = self._data, layout.format_of(self._data)
        if found not in (0, layout.FORMAT):
            log.warning("%s: written by another version of Tarrafa; it is made again from the archive", data.triples)
        if found != layout.FORMAT or not layout.store_path(data).exists():  # one says nothing without the other
            layout.forget(data)
        self._connection = layout.open_books(data)
        self._store = layout.open_store(data)
        with self._in_words():
            self._visits = Visits(self._connection)
            self._cursor: Cursor = self._visits.cursor
            self._pages = Pages(self._store, self._connection)
            self._withheld = Withheld(data, self._connection)
            self._commits = rows(self._connection, "SELECT coalesce(max(commits), 0) FROM commits")[0][0]
        self._shown = _shown(data)

    def _in_words(self) -> "_InWords":
        return _InWords(self)

    def __enter__(self) -> "Follower":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()
        del self._store, self._pages
        self._lock.close()

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, now: float, stop: threading.Event | None = None, tell: Tell = lambda size: None) -> int:
        """Apply all that is durable now, committing whenever a full batch is reached; how many records that were."""
        read = 0
        self.withhold()
        upto = archive.published(self._data.archive)
        for entry in archive.follow(self._data.archive, self._cursor.copy(), wanted=self._is_ours, upto=upto):
            if stop is not None and stop.is_set():
                return read
            self._apply(entry)
            tell(entry.end - self._cursor.get(entry.file, 0))
            self._advance({entry.file: entry.end}, now)
            read += 1
            self._records += 1
            if self._records >= COMMIT_RECORDS:
                self.commit()
        self._advance(upto, now)  # beyond the last record that is ours
        return read

    def _advance(self, cursor: Cursor, now: float) -> None:
        if any(self._cursor.get(file, 0) < end for file, end in cursor.items()):
            self._cursor.update(cursor)
            self._first_at, self._last_at = self._first_at or now, now

    def _apply(self, entry: Entry) -> None:
        record, meaning = entry.record, change(entry.record)
        if meaning is Change.NOTHING:  # not counted either: files are not read in the order of their visits
            return
        key, name = url_id(record.url), record.collection
        with self._in_words():
            self._begin()
            if self._withheld.covers(record.url):
                self._news[key] = record.url  # a follower that was killed may have written it just before
                return
            if not self._visits.is_newer(name, key, record.visit):
                return
            version = None
            text = record.page.statements if record.page is not None else ""
            if meaning is Change.WRITE:
                outcome = record.outcome
                version = Version(name, outcome.at, changed_at(outcome), entry.file, entry.start)
            self._visits.note(key, name, record.visit, version)
        self._news[key] = record.url
        self._texts[key, name] = text
        self._held += len(text)
        if self._held > HELD_CHARS_MAX:
            self._write()

    # -- writing ---------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")

    def _write(self) -> None:
        """Write the pages that have news."""
        news, texts = self._news, self._texts
        self._news, self._texts, self._held = {}, {}, 0
        with self._in_words():
            self._begin()
            for key, url in news.items():
                versions = [] if self._withheld.covers(url) else self._visits.versions(key)
                text = self._text(key, versions[0], texts) if versions else ""
                self._pages.write(key, url, versions, text)

    def _text(self, key: UrlId, version: Version, texts: dict[tuple[UrlId, str], str]) -> str:
        known = texts.get((key, version.collection))
        if known is not None:
            return known
        entry = entry_at(self._data.archive, version.file, version.start)
        page = entry.record.page if entry is not None else None
        return page.statements if page is not None else ""

    def is_due(self, now: float) -> bool:
        """Whether what has been read should be committed now."""
        if not self._first_at:
            return False
        return now - self._first_at >= COMMIT_EVERY_S or now - self._last_at >= COMMIT_IDLE_S

    def commit(self) -> None:
        """Save what has been read: the store first, then what speaks of it."""
        if not self._first_at:
            return
        self._data.check_space()
        self._write()
        with self._in_words():
            self._store.flush()
            self._begin()
            self._visits.save_cursor()
            self._connection.execute("DELETE FROM commits")
            self._connection.execute("INSERT INTO commits VALUES (?)", (self._commits + 1,))
            self._connection.execute("COMMIT")
        self._commits += 1
        self._records = 0
        self._first_at = 0.0

    def publish(self, now: float, *, at_once: bool = False) -> None:
        """Show others what is committed, if it is time and they have not seen it."""
        if self._shown == self._commits or self._first_at:
            return
        if at_once or not self._published_at or now - self._published_at >= PUBLISH_EVERY_S:
            publish(self._store, self._data)
            self._shown, self._published_at = self._commits, now
            try:
                write_atomically(_sign(self._data), f"{self._commits}\n".encode(), durable=False)
            except OSError as error:
                raise from_os(error, _sign(self._data)) from None

    def withhold(self) -> None:
        """Take out what was taken down, and bring back what was lifted, if anything was since; it is published."""
        if not self._withheld.has_news():
            return
        with self._in_words():
            self._begin()
            self._news.update(self._withheld.taken(self._pages))
            forget = self._visits.start_over()
        for entry in self._withheld.lifted(self._cursor):
            with self._in_words():
                forget(entry.record.collection, url_id(entry.record.url))
            self._apply(entry)
            self._records, self._first_at = self._records + 1, self._first_at or boottime()
            if self._records >= COMMIT_RECORDS:
                self.commit()
        with self._in_words():
            self._begin()
            self._withheld.note()
        self._first_at = self._first_at or boottime()
        self.commit()
        self._withheld.settle()
        self.publish(boottime(), at_once=True)


class _InWords:
    """What SQLite and oxigraph complain of, as one line."""

    def __init__(self, follower: Follower) -> None:
        self._path, self._data = follower._path, follower._data
        self._connection = follower._connection

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if isinstance(error, OSError):
            with layout.in_the_stores_words(layout.store_path(self._data)):
                raise error
        if error is not None:
            with in_our_words(self._path, self._connection, "triples"):
                raise error


def changed_at(outcome: Outcome) -> float | None:
    """When the page was changed, as its server says; None, if it says nothing or the impossible."""
    said = moment(outcome.last_modified) if outcome.last_modified else 0.0
    return said if 0 < said <= outcome.at else None


# -- what others call --------------------------------------------------------------------------------------------------


def follow(data: DataDirectory, stop: threading.Event) -> None:
    """Follow the archive until told to stop; what has been read by then is committed and published."""
    with Follower(data) as follower:
        while not stop.is_set():
            read = follower.read(boottime(), stop)
            if follower.is_due(boottime()):
                follower.commit()
            follower.publish(boottime())
            if not read:
                stop.wait(POLL_S)
        follower.commit()
        follower.publish(boottime(), at_once=True)


def catch_up(data: DataDirectory) -> int:
    """Take in everything that is durable now; the number of records read."""
    return sum(make(part) for part in shards.parts(data))


def make(part: DataDirectory, tell: Tell = lambda size: None) -> int:
    """Take in everything that is durable now, in one part; the number of records read."""
    with Follower(part) as follower:
        read = follower.read(boottime(), tell=tell)
        follower.commit()
        follower.publish(boottime(), at_once=True)
    return read


def rebuild(data: DataDirectory, tell: Tell = lambda size: None) -> int:
    """Make the store again from the archive, from nothing, part by part; the number of records read. `tell` hears how
    many bytes of the archive were read since it was called last."""
    read = 0
    for part in shards.parts(data):
        forget(part)
        read += make(part, tell)
    return read


def forget(data: DataDirectory) -> None:
    """Take a part of the store away: the archive has all that is needed to make it again."""
    with layout.lock(data):
        layout.forget(data)


def withhold(data: DataDirectory) -> bool:
    """Let the store keep to what was taken down and lifted. False: there is none, or its follower runs and does it."""
    parts = [part for part in shards.parts(data) if layout.exists(part)]
    try:
        for part in parts:
            with Follower(part) as follower:
                follower.withhold()
    except Locked:
        return False
    return bool(parts)


def behind(data: DataDirectory) -> int:
    """0 when all that the archive holds can be asked for, as far as it belongs here; else roughly how much cannot.

    The archive is asked first: what becomes durable afterwards was not there when the question was put."""
    published = archive.published(data.archive)
    found = [_progress(part) for part in shards.parts(data)]
    unread = sum(max(0, length - min(cursor.get(file, 0) for cursor, _ in found)) for file, length in published.items())
    return unread + sum(unseen for _, unseen in found)


def cursor(data: DataDirectory) -> Cursor:
    """How far a part of the store has read the archive; one that is not ours has read nothing."""
    return _progress(data)[0]


def _progress(part: DataDirectory) -> tuple[Cursor, int]:
    """Where the follower of a part is, and whether it has to publish that."""
    if not layout.exists(part):
        return {}, 0
    path = layout.books(part)
    with in_our_words(path, what="triples"):
        connection = open_to_read(path)
        try:
            with connection:
                found = dict(rows(connection, "SELECT file, offset FROM cursor"))
                commits = rows(connection, "SELECT coalesce(max(commits), 0) FROM commits")[0][0]
        finally:
            connection.close()
    return found, int(commits != _shown(part))


def _sign(data: DataDirectory) -> Path:
    return data.triples / "shown"


def _shown(data: DataDirectory) -> int:
    """Which commit was published last."""
    try:
        text = _sign(data).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() else 0
