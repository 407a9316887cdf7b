"""What a compaction moves, and an erasure empties, of the watches in DATA/coordinator.sqlite.

The room of watches is above this one, so the names of its tables are repeated here. Promises: watches go on where they
were, so that no change is lost and none is told twice; of a change of an erased page, URL and time stay, and not its
title. No pass of the watches runs meanwhile (`watches_locked`). Blocks on the disk.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import msgspec

from tarrafa.archive.warc_reader import Cursor
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.sqlite import SqliteFile, rows

LOCK_POLL_S = 0.2
CURSOR, ITEM, NOTICE = "watch_cursor", "watch_item", "notice"
ADVANCE = (
    "INSERT INTO watch_cursor VALUES (?, ?) ON CONFLICT (file) DO UPDATE SET offset = max(offset, excluded.offset)"
)


@contextmanager
def watches_locked(data: DataDirectory) -> Iterator[None]:
    """Waits for a pass that is running."""
    if not data.coordinator.exists():
        yield
        return
    data.run.mkdir(exist_ok=True)
    while (lock := try_lock(data.run / "watches.lock")) is None:
        time.sleep(LOCK_POLL_S)
    with lock:
        yield


def watch_cursor(data: DataDirectory) -> Cursor:
    """How far the watches have read."""
    if not data.coordinator.exists():
        return {}
    with SqliteFile(data.coordinator).reading() as connection:
        return dict(rows(connection, "SELECT file, offset FROM watch_cursor")) if _has(connection, CURSOR) else {}


def advance_watches(data: DataDirectory, news: Cursor) -> None:
    """Enter the places in new files, before any of them can be read. A place that is farther stays."""
    if news:
        with SqliteFile(data.coordinator).writing(sync="full", owner_only=True) as connection:
            connection.executemany(ADVANCE, news.items())


def forget_files(data: DataDirectory, names: Iterable[str]) -> None:
    """Remove the places in files that are gone."""
    if data.coordinator.exists():
        with SqliteFile(data.coordinator).writing(sync="full", owner_only=True) as connection:
            if _has(connection, CURSOR):
                connection.executemany("DELETE FROM watch_cursor WHERE file = ?", ((name,) for name in names))


def forget_titles(data: DataDirectory, covers: Callable[[str], bool]) -> None:
    """Remove the titles of pages from changes that were told, and from notices."""
    if not data.coordinator.exists():
        return
    with watches_locked(data), SqliteFile(data.coordinator).writing(sync="full", owner_only=True) as connection:
        connection.pragma("secure_delete", True)
        if _has(connection, ITEM):
            for place in rows(connection, "SELECT DISTINCT watch, message FROM watch_item"):
                _empty(connection, ITEM, "content", "watch = ? AND message = ?", place, covers)
        if _has(connection, NOTICE):
            for target in rows(connection, "SELECT DISTINCT id FROM notice"):
                _empty(connection, NOTICE, "body", "id = ?", target, covers)


def _empty(
    connection: apsw.Connection,
    table: str,
    column: str,
    where: str,
    place: tuple[object, ...],
    covers: Callable[[str], bool],
) -> None:
    """Remove the titles from some rows of a table."""
    for (content,) in rows(connection, f"SELECT DISTINCT {column} FROM {table} WHERE {where}", place):  # noqa: S608 (ours)
        emptied = _without_titles(content, covers)
        if emptied is not None:
            sql = f"UPDATE {table} SET {column} = ? WHERE {where} AND {column} = ?"  # noqa: S608 (our names)
            connection.execute(sql, (emptied, *place, content))


def _has(connection: apsw.Connection, table: str) -> bool:
    return connection.table_exists(None, table)


def _without_titles(content: bytes, covers: Callable[[str], bool]) -> bytes | None:
    """A change, or a notice of several, without the titles of these pages; None: it has none."""
    found: dict[str, Any] = msgspec.json.decode(content)
    named = [one for one in (found, *found.get("items", ())) if one.get("title") and covers(one["url"])]
    for one in named:
        one["title"] = ""
    return msgspec.json.encode(found) if named else None
