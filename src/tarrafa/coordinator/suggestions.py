"""Site suggestions of visitors: a store of URLs that wait for a decision.

DATA/coordinator.sqlite, tables `suggestion` and `suggesting`. Promises: only the URL, the day of its first suggestion
and the number of suggestions are stored, nothing about the visitor; a URL is listed once, and not again after a
decision; at most WAITING_MAX URLs wait, and the latest DECIDED_KEPT_MAX decisions are kept. Suggestions are accepted
only while an admin has switched them on. Safe for threads; blocks on the disk: do not call it in an event loop.
Knows nothing of HTTP.
"""

from collections.abc import Sequence
from typing import Literal, cast

import apsw
import msgspec

from tarrafa.coordinator.store import store_transaction
from tarrafa.crawl.scope.collection_loader import parse_root
from tarrafa.errors import Busy, ConfigError
from tarrafa.i18n import message
from tarrafa.parse.url import INPUT_LENGTH_MAX, UrlIdentity
from tarrafa.runtime.data_dir import DataDirectory

WAITING_MAX, DECIDED_KEPT_MAX = 10_000, 100_000
LISTED_MAX = 100
COUNT_MAX = 1_000_000_000
DAY_S = 86_400
SCHEMA = """
CREATE TABLE IF NOT EXISTS suggestion (
    number INTEGER PRIMARY KEY, url TEXT NOT NULL UNIQUE, day REAL NOT NULL, count INTEGER NOT NULL,
    state TEXT NOT NULL, collection TEXT NOT NULL DEFAULT '', decided INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS suggestion_state ON suggestion (state, count DESC, number);
CREATE INDEX IF NOT EXISTS suggestion_decided ON suggestion (decided);
CREATE TABLE IF NOT EXISTS suggesting (is_on INTEGER NOT NULL);
"""
FORGET = """DELETE FROM suggestion WHERE decided > 0 AND decided <= (
    SELECT decided FROM suggestion ORDER BY decided DESC LIMIT 1 OFFSET ?)"""

SuggestionDecision = Literal["accepted", "rejected"]


class Suggestion(msgspec.Struct, frozen=True):
    """A URL, the beginning of the day (UTC) of its first suggestion, and the number of suggestions."""

    url: str
    day: float
    count: int


class SuggestionsResponse(msgspec.Struct, frozen=True):
    """Whether suggestions are on, how many wait, and the most frequent of them."""

    is_on: bool
    waiting: int
    suggestions: list[Suggestion]


class Suggestions:
    def __init__(self, data: DataDirectory) -> None:
        self._path = data.coordinator
        with store_transaction(self._path, SCHEMA) as connection:
            row = connection.execute("SELECT is_on FROM suggesting").fetchone()
        self._is_on = bool(row and row[0])

    @property
    def is_on(self) -> bool:
        """Kept in memory: every search page asks."""
        return self._is_on

    def set_enabled(self, *, on: bool) -> None:
        with store_transaction(self._path, SCHEMA) as connection:
            connection.execute("DELETE FROM suggesting")
            connection.execute("INSERT INTO suggesting VALUES (?)", (int(on),))
        self._is_on = on

    def suggest(self, typed: str, now: float) -> str:
        """Count a suggestion; its canonical URL."""
        url = parse_root(typed.strip()[:INPUT_LENGTH_MAX], UrlIdentity())
        if url is None:
            raise ConfigError(message("not an http(s) URL or a host name: {typed!r}", typed=typed[:200]))
        day = now // DAY_S * DAY_S
        with store_transaction(self._path, SCHEMA) as connection:
            counted = "UPDATE suggestion SET count = min(count + 1, ?) WHERE url = ?"
            connection.execute(counted, (COUNT_MAX, url))
            if connection.changes():
                return url
            if _count_waiting(connection) >= WAITING_MAX:
                raise Busy(message("too many suggestions wait for a decision; try again in a few days"))
            new = "INSERT INTO suggestion (url, day, count, state) VALUES (?, ?, 1, 'waiting')"
            connection.execute(new, (url, day))
        return url

    def list_waiting(self, offset: int = 0, n: int = LISTED_MAX) -> SuggestionsResponse:
        with store_transaction(self._path, SCHEMA) as connection:
            rows = connection.execute(
                "SELECT url, day, count FROM suggestion WHERE state = 'waiting' ORDER BY count DESC, number "
                "LIMIT ? OFFSET ?",
                (max(1, min(n, LISTED_MAX)), max(0, offset)),
            ).fetchall()
            waiting = _count_waiting(connection)
        return SuggestionsResponse(
            self._is_on, waiting, [Suggestion(*cast(tuple[str, float, int], row)) for row in rows]
        )

    def filter_waiting(self, urls: Sequence[str]) -> list[str]:
        """The URLs among these that wait for a decision."""
        with store_transaction(self._path, SCHEMA) as connection:
            found = "SELECT 1 FROM suggestion WHERE url = ? AND state = 'waiting'"
            return [url for url in dict.fromkeys(urls) if connection.execute(found, (url,)).fetchone() is not None]

    def decide(self, urls: Sequence[str], decision: SuggestionDecision, collection: str = "") -> int:
        """Decide on the URLs that wait; their number. The others are unchanged."""
        with store_transaction(self._path, SCHEMA) as connection:
            (last,) = connection.execute("SELECT coalesce(max(decided), 0) FROM suggestion").fetchone() or (0,)
            count = 0
            for number, url in enumerate(urls, int(str(last)) + 1):
                connection.execute(
                    "UPDATE suggestion SET state = ?, collection = ?, decided = ? WHERE url = ? AND state = 'waiting'",
                    (decision, collection, number, url),
                )
                count += connection.changes()
            connection.execute(FORGET, (DECIDED_KEPT_MAX,))
        return count


def _count_waiting(connection: apsw.Connection) -> int:
    return cast(int, connection.execute("SELECT count(*) FROM suggestion WHERE state = 'waiting'").get)
