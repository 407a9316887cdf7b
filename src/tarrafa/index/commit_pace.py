"""CommitPace: decides when a follower commits what it has read, and holds its cursor.

Promises: when a batch is full, a few seconds after its first record was read, and at once when nothing more comes.
Knows nothing of what is committed, or where to.
"""

from tarrafa.archive.warc_reader import Cursor

COMMIT_RECORDS = 2_000  # every 100 is three times dearer
COMMIT_EVERY_S = 3.0
COMMIT_IDLE_S = 0.4  # nothing new for so long: show what there is


class CommitPace:
    """How far one follower has read, and what of that waits to be committed."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.records = 0  # that wait
        self._first_at = self._last_at = 0.0

    @property
    def has_uncommitted(self) -> bool:
        """There is something to commit, be it only how far was read."""
        return self._first_at > 0

    @property
    def is_full(self) -> bool:
        return self.records >= COMMIT_RECORDS

    def is_due(self, now: float) -> bool:
        return self.has_uncommitted and (now - self._first_at >= COMMIT_EVERY_S or now - self._last_at >= COMMIT_IDLE_S)

    def touch(self, now: float, records: int = 0) -> None:
        """Something is to be committed."""
        self.records += records
        self._first_at, self._last_at = self._first_at or now, now

    def advance(self, cursor: Cursor, now: float) -> None:
        """So far was read; what is behind us already is no news."""
        if any(self.cursor.get(file, 0) < end for file, end in cursor.items()):
            self.cursor.update(cursor)
            self.touch(now)

    def mark_committed(self) -> None:
        """All of it is committed."""
        self.records, self._first_at = 0, 0.0
