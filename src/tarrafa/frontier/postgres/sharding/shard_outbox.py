"""Shard outbox: keeps links and weights on disk until an unreachable PostgreSQL server is back.

Links found and weights learned wait in a small file of the worker's own until their server is back. Promises: what
was put in survives a kill and a power cut; it is taken out only after it was delivered; delivering twice is harmless.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec

from tarrafa.errors import DataError, DiskFull, data_error_from_os


class ShardOutbox:
    """Messages by server, oldest first."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise data_error_from_os(error, path.parent) from None
        try:
            self._db = apsw.Connection(str(path))
            self._db.pragma("journal_mode", "wal")
            self._db.pragma("synchronous", "full")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS message (id INTEGER PRIMARY KEY, place TEXT NOT NULL, method TEXT NOT NULL,"
                " arguments BLOB NOT NULL)"
            )
        except apsw.Error as error:
            raise self._translate(error) from None

    def put(self, place: str, method: str, arguments: Any) -> None:
        try:
            self._db.execute(
                "INSERT INTO message (place, method, arguments) VALUES (?, ?, ?)",
                (place, method, msgspec.msgpack.encode(arguments)),
            )
        except apsw.Error as error:
            raise self._translate(error) from None

    def destinations(self) -> set[str]:
        """For whom something waits."""
        return {place for (place,) in self._db.execute("SELECT DISTINCT place FROM message")}

    def pending_messages(self, place: str) -> Iterator[tuple[int, str, bytes]]:
        """Each is to be taken out with `done` once it is delivered."""
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

    def _translate(self, error: apsw.Error) -> DataError:
        if isinstance(error, apsw.FullError):
            return DiskFull(f"{self._path}: the disk is full ({error}); free some space and run the command again")
        return DataError(f"{self._path}: {error}")
