"""Shard outbox: keeps links and weights on disk until an unreachable PostgreSQL server is back.

Discovered links and link weights wait in a small file of the worker until their server is back.
Promises: a stored message survives a kill and a power cut; it is removed only after its delivery; delivering twice is
harmless.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tarrafa.errors import data_error_from_os
from tarrafa.runtime.sqlite import SqliteFile

SCHEMA = """
CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY, place TEXT NOT NULL, method TEXT NOT NULL, arguments BLOB NOT NULL
);
"""


class ShardOutbox:
    """Messages by server, oldest first."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise data_error_from_os(error, path.parent) from None
        file = SqliteFile(path)
        self._db = file.open(SCHEMA, sync="full")
        self._errors = file.errors(self._db)

    def put(self, place: str, method: str, arguments: Any) -> None:
        with self._errors:
            self._db.execute(
                "INSERT INTO message (place, method, arguments) VALUES (?, ?, ?)",
                (place, method, msgspec.msgpack.encode(arguments)),
            )

    def destinations(self) -> set[str]:
        """The servers for which messages wait."""
        return {place for (place,) in self._db.execute("SELECT DISTINCT place FROM message")}

    def pending_messages(self, place: str) -> Iterator[tuple[int, str, bytes]]:
        """The messages of one server; each is removed with `remove` after its delivery."""
        while True:
            row = self._db.execute(
                "SELECT id, method, arguments FROM message WHERE place = ? ORDER BY id LIMIT 1", (place,)
            ).fetchone()
            if row is None:
                return
            yield row

    def remove(self, number: int) -> None:
        self._db.execute("DELETE FROM message WHERE id = ?", (number,))

    def __len__(self) -> int:
        return len(self._db.execute("SELECT 1 FROM message").fetchall())

    def close(self) -> None:
        self._db.close()
