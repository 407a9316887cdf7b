"""Anonymous log of search queries by day: counts, and queries that found nothing.

`DATA/queries.sqlite` has for each day each query text, how often it was searched, and how many pages it found the last
time. Promises: nothing about the client is written, no address, no session, no time finer than the day; texts that look
personal (`is_personal`) are counted and not kept; a day is deleted after DAYS_KEPT days. Recording costs a search some
microseconds and never fails it: a thread writes every WRITE_EVERY_S, and what cannot be written is dropped, with one
warning. A kill loses the last of these seconds. A day keeps TEXTS_PER_DAY_MAX different texts and counts the others.
Several processes may write. Knows nothing of HTTP.
"""

import logging
import re
import threading
import time
import unicodedata
from bisect import bisect_left
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from heapq import nsmallest
from pathlib import Path

import apsw
import msgspec

from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.index.text_analysis import fold
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile

FORMAT = 1
DAY_S = 86_400
DAYS_KEPT = 90
TEXTS_PER_DAY_MAX = 5_000
PENDING_MAX = 2_000  # different texts between two writings
WRITE_EVERY_S = 2.0
BUSY_MS = 2_000
TEXT_CHARS_MAX = 100
REPORTED_DAYS, REPORTED_QUERIES = 30, 20
REPORTED_QUERIES_MAX = 1_000
SUGGESTED_TIMES_MIN, SUGGESTED_DAYS_MIN = 3, 2
SUGGESTED_QUERIES_MAX = 5_000
RECALL_EVERY_S = 60.0
LAST_CHARACTER = "\U0010ffff"  # sorts after every text with a beginning

SCHEMA = """
CREATE TABLE asked (
    day TEXT NOT NULL, query TEXT NOT NULL, times INTEGER NOT NULL, hits INTEGER NOT NULL, PRIMARY KEY (day, query)
) WITHOUT ROWID;
CREATE TABLE days (day TEXT PRIMARY KEY, times INTEGER NOT NULL, empty INTEGER NOT NULL, unkept INTEGER NOT NULL)
WITHOUT ROWID;
"""
log = logging.getLogger(__name__)


class QueryCount(msgspec.Struct, frozen=True):
    """A query, how often it was searched, and how many pages it found the last time."""

    query: str
    times: int
    hits: int


class QueryReport(msgspec.Struct, frozen=True):
    """The last days. `empty`: searches without results; `unkept`: searches whose text was not kept."""

    days: int
    asked: int
    empty: int
    unkept: int
    top: list[QueryCount]
    zero: list[QueryCount]


@dataclass(slots=True)
class _DayCounts:
    """The queries of one day that are not yet written."""

    times: int = 0
    empty: int = 0
    unkept: int = 0
    texts: dict[str, tuple[int, int]] = field(default_factory=dict)  # times and hits

    def add(self, text: str, hits: int, room: bool) -> None:
        self.times += 1
        self.empty += hits == 0
        if text and (room or text in self.texts):
            times, _ = self.texts.get(text, (0, 0))
            self.texts[text] = (times + 1, hits)
        else:
            self.unkept += 1


class QueryLog:
    """Records queries; to be closed at the end."""

    def __init__(self, data: DataDirectory, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = data.queries, now
        self._lock, self._writing = threading.Lock(), threading.Lock()
        self._pending: dict[str, _DayCounts] = {}
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._complained = False

    def record(self, text: str, hits: int) -> None:
        """Count a query, with the number of pages that it found."""
        kept, day = normalized_query(text), day_of(self._now())
        with self._lock:
            counted = self._pending.setdefault(day, _DayCounts())
            counted.add(kept, hits, len(counted.texts) < PENDING_MAX)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._write_loop, name="query log", daemon=True)
                self._thread.start()

    def flush(self) -> None:
        """Write what is pending now."""
        with self._lock:
            pending, self._pending = self._pending, {}
        if not pending:
            return
        try:
            with (
                self._writing,
                _file(self._path).writing(SCHEMA, owner_only=True, busy_timeout_ms=BUSY_MS) as connection,
            ):
                for day, counted in pending.items():
                    _write(connection, day, counted)
                _delete_old_days(connection, self._now())
        except DataError as error:
            if not self._complained:
                log.warning("queries are not logged: %s", error)
            self._complained = True

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self.flush()

    def __enter__(self) -> "QueryLog":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write_loop(self) -> None:
        while not self._stop.wait(WRITE_EVERY_S):
            self.flush()


def query_report(
    data: DataDirectory, now: float, days: int = REPORTED_DAYS, most: int = REPORTED_QUERIES
) -> QueryReport:
    """The most frequent queries, and the most frequent ones without results."""
    days, most = min(max(days, 1), DAYS_KEPT), min(max(most, 1), REPORTED_QUERIES_MAX)
    if not data.queries.exists():
        return QueryReport(days, 0, 0, 0, [], [])
    first = day_of(now - (days - 1) * DAY_S)
    with _file(data.queries).reading() as connection:
        ((asked, empty, unkept),) = connection.execute(
            "SELECT ifnull(sum(times), 0), ifnull(sum(empty), 0), ifnull(sum(unkept), 0) FROM days WHERE day >= ?",
            (first,),
        )
        top, zero = (
            [QueryCount(*row) for row in connection.execute(_TOP.format(chosen=chosen), (first, most))]
            for chosen in ("1", "hits = 0")
        )
    return QueryReport(days, asked, empty, unkept, top, zero)


class AskedQueries:
    """Queries that many searches had in common, to complete what is typed: those that found pages, at least
    SUGGESTED_TIMES_MIN times and on SUGGESTED_DAYS_MIN days, so that none is the search of one person on one day. They
    are read again every RECALL_EVERY_S, at most SUGGESTED_QUERIES_MAX of them.
    """

    def __init__(self, data: DataDirectory, now: Callable[[], float] = time.time) -> None:
        self._data, self._now, self._lock = data, now, threading.Lock()
        self._not_before = float("-inf")
        self._sorted: list[tuple[str, int, str]] = []  # folded text, times, text

    def beginning_with(self, text: str, limit: int) -> list[str]:
        """The queries with this beginning, the most frequent first; the text itself is none of them."""
        typed = _folded_query(text)
        if not typed:
            return []
        found = self._newest()
        first, last = bisect_left(found, (typed,)), bisect_left(found, (typed + LAST_CHARACTER,))
        others = (one for one in found[first:last] if one[0] != typed)
        return [query for _, _, query in nsmallest(limit, others, key=lambda one: (-one[1], one[0]))]

    def _newest(self) -> list[tuple[str, int, str]]:
        with self._lock:
            if self._now() >= self._not_before:
                self._not_before = self._now() + RECALL_EVERY_S
                with suppress(DataError, apsw.Error):
                    self._sorted = sorted(self._read())
            return self._sorted

    def _read(self) -> list[tuple[str, int, str]]:
        if not self._data.queries.exists():
            return []
        first = day_of(self._now() - (REPORTED_DAYS - 1) * DAY_S)
        with _file(self._data.queries).reading() as connection:
            rows = connection.execute(_SHARED, (first, SUGGESTED_TIMES_MIN, SUGGESTED_DAYS_MIN, SUGGESTED_QUERIES_MAX))
            return [(_folded_query(str(query)), int(times), str(query)) for query, times in rows]


_SHARED = """
SELECT query, sum(times) FROM asked WHERE day >= ? AND hits > 0
GROUP BY query HAVING sum(times) >= ? AND count(*) >= ? ORDER BY 2 DESC, query LIMIT ?
"""


def _folded_query(text: str) -> str:
    """A text without accents and case; a space at its end stays: it ends the last word."""
    words = " ".join(filter(None, map(fold, text.split())))
    return words + " " * text.endswith(" ") if words else ""


# `hits` is that of the row with the last day: SQLite promises it for max().
_TOP = """
SELECT query, times, hits FROM (
    SELECT query, sum(times) AS times, hits, max(day) FROM asked WHERE day >= ? GROUP BY query
) WHERE {chosen} ORDER BY times DESC, query LIMIT ?
"""


def day_of(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).date().isoformat()


def normalized_query(text: str) -> str:
    """The text in lower case and with single spaces. Empty if it must not be kept."""
    plain = " ".join(unicodedata.normalize("NFC", text).lower().split())
    return plain if plain.isprintable() and not is_personal(plain) else ""


# An e-mail address, or six digits with the usual separators (telephone, CPF, card); years and dates are not personal.
_mail = re.compile(r"[^\s@]@[^\s@]").search
_years = re.compile(r"(?<![\d./-])(?:19\d\d|20[0-3]\d)(?:-\d{1,2}){0,2}(?![\d./-])").sub
_digits = re.compile(r"(?:\d[ ./()-]{0,2}){6}").search


def is_personal(text: str) -> bool:
    return len(text) > TEXT_CHARS_MAX or bool(_mail(text)) or bool(_digits(_years("", text)))


def _file(path: Path) -> SqliteFile:
    return SqliteFile(path, FORMAT, message("delete the file, and a new one is made"))


def _write(connection: apsw.Connection, day: str, counted: _DayCounts) -> None:
    (held,) = next(connection.execute("SELECT count(*) FROM asked WHERE day = ?", (day,)))
    room, unkept = max(0, TEXTS_PER_DAY_MAX - held), counted.unkept
    for text, (times, hits) in counted.texts.items():
        connection.execute("UPDATE asked SET times = times + ?, hits = ? WHERE day = ? AND query = ?",
                           (times, hits, day, text))  # fmt: skip
        if connection.changes() == 0:
            if room > 0:
                connection.execute("INSERT INTO asked VALUES (?, ?, ?, ?)", (day, text, times, hits))
                room -= 1
            else:
                unkept += times
    connection.execute(
        "INSERT INTO days VALUES (?, ?, ?, ?) ON CONFLICT (day) DO UPDATE SET"
        " times = times + excluded.times, empty = empty + excluded.empty, unkept = unkept + excluded.unkept",
        (day, counted.times, counted.empty, unkept),
    )


def _delete_old_days(connection: apsw.Connection, now: float) -> None:
    oldest = day_of(now - (DAYS_KEPT - 1) * DAY_S)
    connection.execute("DELETE FROM asked WHERE day < ?", (oldest,))
    connection.execute("DELETE FROM days WHERE day < ?", (oldest,))
