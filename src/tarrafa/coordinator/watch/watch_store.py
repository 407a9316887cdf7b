"""The tables of watches, with their messages and items, in DATA/coordinator.sqlite.

A *watch* names a page, a site or a query; an *item* is a change of one page; a *message* has the items of a period, and
is one entry of the feed, one mail and one webhook call, with the same id. Promises: the items of a part of the archive
and the cursor behind it are one transaction, and so are a complete message and its notices in the outbox: a kill loses
no change and makes none twice. Everything is bounded: watches, pages that match a query, items and messages kept
of each watch. Blocks on the disk: do not call it in an event loop. Knows nothing of records, searches or HTTP.
"""

import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple, cast

import apsw
import msgspec

from tarrafa.archive.warc_reader import Cursor
from tarrafa.coordinator.notify.notice_outbox import OUTBOX_TABLE
from tarrafa.coordinator.store import store_file, store_transaction
from tarrafa.errors import ConfigError, NotFound
from tarrafa.i18n import message
from tarrafa.model import UrlId
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows

WATCHES_MAX = 1_000
MATCHES_MAX = 50_000  # pages that match a watched query
MESSAGES_KEPT = 100  # of each watch
ITEMS_KEPT = 1_000  # of each message; the others are counted
TOKEN_BYTES = 24

SCHEMA = """
CREATE TABLE IF NOT EXISTS watch (
    number INTEGER PRIMARY KEY AUTOINCREMENT, token TEXT NOT NULL UNIQUE, created REAL NOT NULL, content BLOB NOT NULL,
    is_full INTEGER NOT NULL DEFAULT 0 -- more pages match its query than are remembered
);
CREATE TABLE IF NOT EXISTS watch_message ( -- `sent` is NULL as long as items are added
    watch INTEGER NOT NULL, number INTEGER NOT NULL, opened REAL NOT NULL, sent REAL, new INTEGER NOT NULL DEFAULT 0,
    changed INTEGER NOT NULL DEFAULT 0, gone INTEGER NOT NULL DEFAULT 0, match INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (watch, number)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watch_item (
    watch INTEGER NOT NULL, id TEXT NOT NULL, message INTEGER NOT NULL, place INTEGER NOT NULL, page BLOB NOT NULL,
    content BLOB NOT NULL, PRIMARY KEY (watch, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS watch_item_message ON watch_item (watch, message, place);
CREATE INDEX IF NOT EXISTS watch_item_page ON watch_item (watch, page, message, place);
CREATE TABLE IF NOT EXISTS watch_match (
    watch INTEGER NOT NULL, id BLOB NOT NULL, PRIMARY KEY (watch, id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS watch_cursor (file TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
"""
WatchKind = Literal["page", "site", "query"]
ChangeKind = Literal["new", "changed", "gone", "match"]
CHANGE_KINDS: tuple[ChangeKind, ...] = ("new", "changed", "gone", "match")


class WatchSettings(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is watched, and who is told. `what`: a canonical URL, the name of a site or host, or a query; `period_s`:
    changes within it are one message."""

    kind: WatchKind
    what: str
    collection: str = ""
    period_s: float = 0.0
    email: tuple[str, ...] = ()
    webhook: str = ""
    creator: str = ""


class Watch(NamedTuple):
    """`token`: the secret in the address of its feed."""

    number: int
    token: str
    created: float
    settings: WatchSettings
    is_full: bool


class PageChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of a page. `id` is the same whenever the same change is found; `before` and `after` are the timestamps
    of the captures that differ."""

    id: str
    kind: ChangeKind
    url: str
    at: float
    title: str = ""
    before: str = ""
    after: str = ""


class WatchMessage(NamedTuple):
    """The changes of a period. `counts`: of each kind; `items`: the first of them."""

    watch: int
    number: int
    at: float  # when it was complete; while it is not, when it was begun
    counts: dict[ChangeKind, int]
    items: list[PageChange]

    @property
    def id(self) -> str:
        return f"watch-{self.watch}-{self.number}"


class WatchStore:
    def __init__(self, data: DataDirectory) -> None:
        self._path = data.coordinator

    @contextmanager
    def writing(self) -> Iterator["WatchTables"]:
        """One transaction, from any thread and process."""
        with store_transaction(self._path, SCHEMA + OUTBOX_TABLE) as connection:
            yield WatchTables(connection)

    @contextmanager
    def reading(self) -> Iterator["WatchTables | None"]:
        """None: there was never a watch here."""
        if not self._path.exists():
            yield None
            return
        with store_file(self._path).reading() as connection:
            yield WatchTables(connection) if connection.table_exists(None, "watch_cursor") else None

    def watches(self) -> list[Watch]:
        with self.reading() as tables:
            return tables.watches() if tables is not None else []


class WatchTables:
    """The tables within one transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    # -- watches ---------------------------------------------------------------------------------------------------

    def watches(self) -> list[Watch]:
        sql = "SELECT number, token, created, content, is_full FROM watch ORDER BY number"
        return [_watch(row) for row in self.connection.execute(sql)]

    def watch(self, number: int) -> Watch:
        found = next((one for one in self.watches() if one.number == number), None)
        if found is None:
            raise NotFound(message("there is no watch {number}", number=str(number)))
        return found

    def watch_of_token(self, token: str) -> Watch | None:
        sql = "SELECT number, token, created, content, is_full FROM watch WHERE token = ?"
        row = self.connection.execute(sql, (token,)).fetchone()
        return _watch(row) if row is not None else None

    def add(self, settings: WatchSettings, now: float, matches: Iterable[UrlId]) -> Watch:
        if cast(int, self.connection.execute("SELECT count(*) FROM watch").get) >= WATCHES_MAX:
            raise ConfigError(message("there are {most} watches already: remove some first", most=WATCHES_MAX))
        sql = "INSERT INTO watch (token, created, content) VALUES (?, ?, ?) RETURNING number"
        token = secrets.token_urlsafe(TOKEN_BYTES)
        number = cast(int, self.connection.execute(sql, (token, now, msgspec.json.encode(settings))).get)
        self.add_matches(number, matches)
        return Watch(number, token, now, settings, False)

    def remove(self, number: int) -> Watch:
        found = self.watch(number)
        self.connection.execute("DELETE FROM watch WHERE number = ?", (number,))
        for table in ("watch_message", "watch_item", "watch_match"):
            self.connection.execute(f"DELETE FROM {table} WHERE watch = ?", (number,))  # noqa: S608 (our names)
        return found

    # -- the pages that match a query ------------------------------------------------------------------------------

    def known_matches(self, watch: int, ids: Iterable[UrlId]) -> set[UrlId]:
        sql = "SELECT 1 FROM watch_match WHERE watch = ? AND id = ?"
        return {one for one in ids if self.connection.execute(sql, (watch, one)).fetchone() is not None}

    def add_matches(self, watch: int, ids: Iterable[UrlId]) -> None:
        sql = "INSERT OR IGNORE INTO watch_match VALUES (?, ?)"
        self.connection.executemany(sql, ((watch, one) for one in sorted(ids)))

    def remove_matches(self, watch: int, ids: Iterable[UrlId]) -> None:
        sql = "DELETE FROM watch_match WHERE watch = ? AND id = ?"
        self.connection.executemany(sql, ((watch, one) for one in ids))

    def mark_full(self, watch: int, *, is_full: bool) -> None:
        """More pages match its query than are remembered: further ones are not reported."""
        self.connection.execute("UPDATE watch SET is_full = ? WHERE number = ?", (is_full, watch))

    def count_matches(self, watch: int) -> int:
        return cast(int, self.connection.execute("SELECT count(*) FROM watch_match WHERE watch = ?", (watch,)).get)

    # -- changes and messages --------------------------------------------------------------------------------------

    def is_gone(self, watch: int, page: UrlId, at: float) -> bool:
        """Whether the newest change of the page that is kept says that it was gone before this time."""
        sql = "SELECT content FROM watch_item WHERE watch = ? AND page = ? ORDER BY message DESC, place DESC LIMIT 1"
        row = self.connection.execute(sql, (watch, page)).fetchone()
        newest = _decode_change(cast(bytes, row[0])) if row is not None else None
        return newest is not None and newest.kind == "gone" and newest.at < at

    def add_change(self, watch: int, change: PageChange, now: float) -> bool:
        """Add a change to the message that is open. False: it is known already."""
        known = "SELECT 1 FROM watch_item WHERE watch = ? AND id = ?"
        if self.connection.execute(known, (watch, change.id)).fetchone() is not None:
            return False
        number, items = self._open_message(watch, now)
        sql = f"UPDATE watch_message SET {change.kind} = {change.kind} + 1 WHERE watch = ? AND number = ?"  # noqa: S608
        self.connection.execute(sql, (watch, number))
        if items < ITEMS_KEPT:
            row = (watch, change.id, number, items, url_id(change.url), msgspec.json.encode(change))
            self.connection.execute("INSERT INTO watch_item VALUES (?, ?, ?, ?, ?, ?)", row)
        return True

    def _open_message(self, watch: int, now: float) -> tuple[int, int]:
        """The number of the open message, and how many items it has."""
        sql = "SELECT number, sent, new + changed + gone + match FROM watch_message WHERE watch = ?"
        last = self.connection.execute(f"{sql} ORDER BY number DESC LIMIT 1", (watch,)).fetchone()
        if last is not None and last[1] is None:
            return cast(int, last[0]), cast(int, last[2])
        number = 1 if last is None else cast(int, last[0]) + 1
        sql = "INSERT INTO watch_message (watch, number, opened) VALUES (?, ?, ?)"
        self.connection.execute(sql, (watch, number, now))
        return number, 0

    def open_messages(self) -> list[tuple[int, int, float]]:
        """Watch, number and beginning of the messages that are not complete."""
        return rows(self.connection, "SELECT watch, number, opened FROM watch_message WHERE sent IS NULL")

    def complete(self, watch: int, number: int, now: float) -> None:
        """The message gets no more items. The oldest messages of the watch are dropped."""
        sql = "UPDATE watch_message SET sent = ? WHERE watch = ? AND number = ?"
        self.connection.execute(sql, (now, watch, number))
        for table, column in (("watch_message", "number"), ("watch_item", "message")):
            sql = f"DELETE FROM {table} WHERE watch = ? AND {column} <= ?"  # noqa: S608 (our names)
            self.connection.execute(sql, (watch, number - MESSAGES_KEPT))

    def message(self, watch: int, number: int, items_max: int) -> WatchMessage:
        sql = (
            f"SELECT ifnull(sent, opened), {', '.join(CHANGE_KINDS)} FROM watch_message WHERE watch = ? AND number = ?"  # noqa: S608
        )
        at, *counts = rows(self.connection, sql, (watch, number))[0]
        sql = "SELECT content FROM watch_item WHERE watch = ? AND message = ? ORDER BY place LIMIT ?"
        found = rows(self.connection, sql, (watch, number, items_max))
        items = [_decode_change(content) for (content,) in found]
        return WatchMessage(watch, number, at, dict(zip(CHANGE_KINDS, counts, strict=True)), items)

    def messages(self, watch: int, most: int, items_max: int) -> list[WatchMessage]:
        """The newest complete messages first."""
        sql = "SELECT number FROM watch_message WHERE watch = ? AND sent IS NOT NULL ORDER BY number DESC LIMIT ?"
        return [self.message(watch, number, items_max) for (number,) in rows(self.connection, sql, (watch, most))]

    def count_messages(self) -> dict[int, tuple[int, float]]:
        """How many complete messages each watch has had, and when the last was complete."""
        sql = "SELECT watch, max(number), max(sent) FROM watch_message WHERE sent IS NOT NULL GROUP BY watch"
        return {watch: (number, at) for watch, number, at in rows(self.connection, sql)}

    # -- the cursor ------------------------------------------------------------------------------------------------

    def cursor(self) -> Cursor:
        return dict(rows(self.connection, "SELECT file, offset FROM watch_cursor"))

    def save_cursor(self, cursor: Cursor) -> None:
        self.connection.executemany("INSERT OR REPLACE INTO watch_cursor VALUES (?, ?)", cursor.items())


_decode_settings = msgspec.json.Decoder(WatchSettings).decode
_decode_change = msgspec.json.Decoder(PageChange).decode


def _watch(row: tuple[object, ...]) -> Watch:
    number, token, created, content, is_full = row
    settings = _decode_settings(cast(bytes, content))
    return Watch(cast(int, number), cast(str, token), cast(float, created), settings, bool(is_full))
