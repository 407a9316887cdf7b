"""Resets the clock of a SQLite frontier that was ahead: moves its future times back to this machine's present.

The frontier's clock never goes back by itself, because a program cannot know which clock was wrong. A person can, and
runs this for a frontier that no process has open. Every time after the new present moves back by the difference: what
was to happen in a minute still happens in a minute. Times of the past stay as they are.

Promises: nothing is lost; a host waits at least its delay after its last request; queues and their counts agree. The
new present is later than the newest deletion of a collection: later records must be later than its note in the archive.
The dates of archived records (`url.archived`) stay.

Known weakness: a time that was set before the clock jumped, and that lies in the future, moves back too: a revisit or a
retry may come sooner by the difference, never later.
"""

import math
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import apsw
import msgspec

from tarrafa.clock import Clock, boottime
from tarrafa.errors import DataError, Locked
from tarrafa.frontier.store.collections import TICK_S
from tarrafa.frontier.store.database import FrontierDatabase, open_database
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.revisits import read_history
from tarrafa.frontier.store.sqlite_frontier import FrontierStore, translate_error
from tarrafa.revisit.policy import PLAN_SHELF, PageHistory
from tarrafa.runtime.data_dir import try_lock

# Columns with times of the past, and with times of what is to come. `host.next_at` is moved by itself.
PAST_COLUMNS = {
    "url": ("discovered", "fetched"),
    "visit": ("at",),
    "collection": ("created", "started"),
}
NEXT_COLUMNS = {
    "host": ("ended_at", "robots_expires"),
    "address": ("next_at",),
    "collection": ("plan_end",),
    "page": ("key",),
}


@dataclass(frozen=True, slots=True)
class ClockReset:
    """By how much the frontier's clock was set back, and by how much it is still ahead of the machine's, because a
    collection was deleted meanwhile. In seconds of the clock."""

    moved_s: float
    still_ahead_s: float


@dataclass(frozen=True, slots=True)
class _Shift:
    """Maps the times of the old clock to the new one."""

    present: float
    back_s: float
    earliest: float  # no time moves to before it

    def to_come(self, column: str) -> str:
        """SQL of a time that may lie in the future. The numbers are floats of our own."""
        moved = f"max({column} - {self.back_s!r}, {self.earliest!r})"
        return f"CASE WHEN {column} > {self.present!r} THEN {moved} ELSE {column} END"

    def past(self, column: str) -> str:
        """SQL of a time that has passed."""
        return f"min({self.to_come(column)}, {self.present!r})"

    def plan(self, column: str) -> str:
        """SQL of a shelf or plan: plans are numbered by their time, so that later ones have higher numbers."""
        least = max(self.present, PLAN_SHELF)
        return f"CASE WHEN {column} > {least!r} THEN {column} - {math.ceil(self.back_s)} ELSE {column} END"

    def history(self, page: PageHistory) -> PageHistory:
        first, last, rated = (self._past(at) for at in (page.first, page.last, page.rated))
        return msgspec.structs.replace(
            page, first=min(first, last), last=last, rated=rated, birth=min(page.birth, last)
        )

    def _past(self, at: float) -> float:
        return min(max(at - self.back_s, self.earliest), self.present) if at > self.present else at


def reset_clock(path: Path, own: Clock) -> ClockReset:
    """Reset the clock of the frontier to this machine's. Moves nothing if it is not ahead."""
    if not path.exists():
        raise DataError(f"{path}: is missing; reset the clock where the frontier's file is")
    lock = try_lock(path.with_name(path.name + ".lock"))
    if lock is None:
        raise Locked(f"{path}: another process has the frontier open; stop it first")
    with lock:
        try:
            with closing(open_database(str(path), "").connection) as connection, connection:
                reset = _reset(FrontierDatabase(connection), own)
        except apsw.Error as error:
            raise translate_error(path, error) from None
    return reset


def _reset(db: FrontierDatabase, own: Clock) -> ClockReset:
    now, last = own.now(), float(db.value("SELECT value FROM meta WHERE key = 'clock'") or 0.0)
    deleted = float(db.value("SELECT max(at) FROM deleted") or 0.0) + TICK_S
    present = max(now, deleted)
    if last <= present:
        return ClockReset(0.0, max(0.0, last - now))
    shift = _Shift(present, last - present, deleted)
    _move_columns(db, shift)
    _move_histories(db, shift)
    _move_due(db, shift)
    db.run("UPDATE meta SET value = ? WHERE key = 'clock'", (present,))
    store = FrontierStore(db, Clock(present, boottime(), own.scale), LeaseClock())
    for known in store.collections.all():
        for (host,) in db.rows("SELECT host FROM work WHERE collection = ?", (known.row.id,)):
            store.urls.revisits.update_due(known, host)
    store.ready.rebuild()
    return ClockReset(shift.back_s, max(0.0, present - now))


def _move_columns(db: FrontierDatabase, shift: _Shift) -> None:
    db.run(
        f"UPDATE host SET next_at = max({shift.to_come('next_at')}, {shift.to_come('ended_at')} + delay_s)"  # noqa: S608
        " WHERE next_at > ?",
        (shift.present,),
    )
    for columns, moved in ((PAST_COLUMNS, shift.past), (NEXT_COLUMNS, shift.to_come)):
        for table, names in columns.items():
            for name in names:
                db.run(f"UPDATE {table} SET {name} = {moved(name)} WHERE {name} > ?", (shift.present,))  # noqa: S608
    for table, name in (("page", "shelf"), ("collection", "plan")):
        db.run(f"UPDATE {table} SET {name} = {shift.plan(name)} WHERE {name} > ?", (shift.present,))  # noqa: S608


def _move_histories(db: FrontierDatabase, shift: _Shift) -> None:
    def changed() -> Iterator[tuple[bytes, int, int, bytes]]:
        for host, number, url, content in db.rows("SELECT host, collection, id, history FROM page"):
            before = read_history(content)
            after = shift.history(before)
            if after != before:
                yield msgspec.msgpack.encode(after), host, number, url

    db.many("UPDATE page SET history = ? WHERE host = ? AND collection = ? AND id = ?", changed())


def _move_due(db: FrontierDatabase, shift: _Shift) -> None:
    """Two planned visits of a page may fall on one time; then one of them is left."""
    shelf, key = shift.plan("shelf"), shift.to_come("key")
    db.run("CREATE TEMP TABLE moved AS SELECT * FROM due")
    db.run("DELETE FROM due")
    db.run(f"INSERT OR IGNORE INTO due SELECT host, collection, {shelf}, {key}, id FROM temp.moved")  # noqa: S608
    db.run("DROP TABLE temp.moved")
    db.run("DELETE FROM shelf")
    db.run("INSERT INTO shelf SELECT collection, host, shelf, count(*) FROM due GROUP BY 1, 2, 3")
