"""The common base of the projections of the archive: index, link graph and triple store.

A projection follows the archive with a cursor and keeps a store of its own up to date, its *target*. Its state is in
one SQLite file: the cursor, the newest visits, the deletions and the takedowns that it has applied.
Promises: how far the archive may be read is asked first; then deletions and takedowns are applied, and only then the
records up to there. So a deletion is known before any record that was archived after it, and a collection of the same
name begins anew (docs/decisions/0216). The target is made durable first, and then, in one transaction, the state that
speaks of it: a crash repeats work and changes nothing. Visits never go back in time: of each URL in each collection
only a newer visit is applied, in whichever order files are read. A page that is gone keeps its row, so that a late
file cannot bring an old version back. What is taken down is taken out with the next commit, and never written while
it is; what is lifted is applied again from the archive, as its visits have it.
Knows nothing of what a projection makes of a record.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol, TypeVar

import apsw

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.warc_reader import ArchiveEntry, Cursor, OnCollectionNote, UrlFilter, follow, visit_lengths
from tarrafa.clock import boottime
from tarrafa.errors import Locked
from tarrafa.model import UrlId, VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.takedown import CurrentTakedowns, TakedownSet, TakedownTarget

COMMIT_RECORDS = 2_000  # every 100 is three times dearer
COMMIT_EVERY_S = 3.0
COMMIT_IDLE_S = 0.4  # nothing new for so long: show what there is
LOCK_POLL_S = 0.2

STATE_SCHEMA = """
CREATE TABLE files (file INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE); -- of the archive
CREATE TABLE cursor (file TEXT PRIMARY KEY, offset INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE deleted (collection TEXT PRIMARY KEY, at REAL NOT NULL) WITHOUT ROWID; -- collections that were dropped
"""
TAKEDOWN_SCHEMA = """
CREATE TABLE withheld (kind TEXT, name TEXT, PRIMARY KEY (kind, name)) WITHOUT ROWID; -- takedowns that were applied
"""
VISITS_SCHEMA = """
CREATE TABLE visits (           -- the newest visit of each URL in each collection
    id         BLOB NOT NULL,
    collection TEXT NOT NULL,
    visit      INTEGER NOT NULL,
    file       INTEGER,         -- where its record is; NULL: the page is not there any more
    start      INTEGER,
    {columns},                  -- two of the projection's own
    PRIMARY KEY (id, collection)
) WITHOUT ROWID;
"""

ForgetOnce = Callable[[str, UrlId], None]
ApplyAll = Callable[[Iterable[ArchiveEntry]], Iterator[ArchiveEntry]]
FollowerT = TypeVar("FollowerT")


# -- the state ---------------------------------------------------------------------------------------------------------


class ProjectionState:
    """Cursor, files and deletions of a projection, on the one connection that writes. `begin` opens a transaction that
    stays open until `commit`: everything in between is saved together, or not at all."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.load()

    def load(self) -> None:
        """Begin from what is on the disk."""
        self.cursor = read_cursor(self.connection)
        self.dropped: dict[str, float] = dict(rows(self.connection, "SELECT * FROM deleted"))
        self._files: dict[str, int] = dict(rows(self.connection, "SELECT name, file FROM files"))
        self._names = {number: name for name, number in self._files.items()}

    def begin(self) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        self.begin()
        self.save_cursor(self.cursor)
        self.connection.execute("COMMIT")

    def save_cursor(self, cursor: Cursor) -> None:
        self.connection.executemany("INSERT OR REPLACE INTO cursor VALUES (?, ?)", cursor.items())

    def note_dropped(self, collection: str, at: float) -> None:
        """Nothing is left of a collection that was deleted at that moment."""
        self.connection.execute("INSERT OR REPLACE INTO deleted VALUES (?, ?)", (collection, at))
        self.dropped[collection] = at

    def file_number(self, name: str) -> int:
        number = self._files.get(name)
        if number is None:
            number = self._files[name] = len(self._files) + 1
            self._names[number] = name
            self.connection.execute("INSERT INTO files VALUES (?, ?)", (number, name))
        return number

    def file_name(self, number: int) -> str:
        return self._names[number]


class NewestVisits:
    """The newest visit of each URL in each collection, in the transaction of the state."""

    def __init__(self, state: ProjectionState) -> None:
        self._state, self._run = state, state.connection.execute

    def newest(self, collection: str, key: UrlId) -> int:
        """The number of the newest visit that was applied; -1: none was."""
        found = rows(
            self._state.connection, "SELECT visit FROM visits WHERE id = ? AND collection = ?", (key, collection)
        )
        return found[0][0] if found else -1

    def record(
        self,
        entry: ArchiveEntry,
        key: UrlId,
        values: tuple[float | None, float | None] | None,
    ) -> None:
        """This visit is the newest. `values`: the projection's own two; None: the page is not there."""
        record = entry.record
        place: tuple[float | None, ...] = (None, None, None, None)
        if values is not None:
            place = (self._state.file_number(entry.file), entry.start, *values)
        self._run(
            "INSERT OR REPLACE INTO visits VALUES (?, ?, ?, ?, ?, ?, ?)",
            (key, record.collection, record.visit, *place),
        )

    def drop_some(self, collection: str, after: UrlId, limit: int) -> list[UrlId]:
        """Forget some visits of a collection, in the order of their URL ids, from the first one after an id on; the
        ids."""
        sql = "SELECT id FROM visits WHERE collection = ? AND id > ? ORDER BY id LIMIT ?"
        keys = [key for (key,) in rows(self._state.connection, sql, (collection, after, limit))]
        sql = "DELETE FROM visits WHERE id = ? AND collection = ?"
        self._state.connection.executemany(sql, ((key, collection) for key in keys))
        return keys

    def begin_reapply(self) -> ForgetOnce:
        """A function that forgets the newest visit of a page the first time that it is called with it: all visits of
        the page are applied anew."""
        self._run("DROP TABLE IF EXISTS temp.again")
        self._run("CREATE TEMP TABLE again (id BLOB, collection TEXT, PRIMARY KEY (id, collection)) WITHOUT ROWID")

        def forget_once(collection: str, key: UrlId) -> None:
            self._run("INSERT OR IGNORE INTO temp.again VALUES (?, ?)", (key, collection))
            if self._state.connection.changes():
                self._run("DELETE FROM visits WHERE id = ? AND collection = ?", (key, collection))

        return forget_once


class ProjectionDeletions:
    """The collections that were deleted, and whether the projection has dropped them."""

    def __init__(self, archive: Path, state: ProjectionState) -> None:
        self._deletions, self._state = ArchiveDeletions(archive), state

    def pending(self) -> list[tuple[str, float]]:
        """Collections to be dropped, and when they were deleted."""
        dropped = self._state.dropped
        return [(name, at) for name, at in self._deletions.latest().items() if at > dropped.get(name, -1.0)]

    def covers(self, record: VisitRecord) -> bool:
        return self._deletions.covers(record)


class ProjectionTakedowns:
    """The takedowns in force, and those that the committed projection keeps to."""

    def __init__(self, data: DataDirectory, state: ProjectionState, is_ours: UrlFilter | None) -> None:
        self._archive, self._current = data.archive, CurrentTakedowns(data)
        self._state, self._is_ours = state, is_ours
        self.orders = self._current.now()
        self._applied: TakedownSet | None = None  # what the target keeps to, if that is known for certain
        self._before = {TakedownTarget(*row) for row in rows(state.connection, "SELECT kind, name FROM withheld")}

    def covers(self, url: str) -> bool:
        return self.orders.covers(url)

    def has_changes(self) -> bool:
        """Whether something was taken down or lifted since; the first time, whether there is anything to make sure
        of."""
        self.orders = self._current.now()
        if self._applied is None:
            return bool(self.orders or self._before)
        return self.orders is not self._applied and self.orders.targets != self._applied.targets

    def added(self) -> TakedownSet:
        """What is taken down and may still be in the target."""
        return TakedownSet(self.orders.targets - (self._applied.targets if self._applied is not None else set()))

    def lifted_entries(self, upto: Cursor) -> Iterator[ArchiveEntry]:
        """Every visit, as far as the archive was read, to what was taken down before and is so no longer. Reads the
        whole archive."""
        gone, ours = TakedownSet(self._before - self.orders.targets), self._is_ours
        if not gone:
            return
        wanted = gone.covers if ours is None else lambda url: ours(url) and gone.covers(url)
        for entry in follow(self._archive, {}, wanted=wanted, upto=upto):
            if not self.orders.covers(entry.record.url):
                yield entry

    def save_targets(self) -> None:
        """The target keeps to the orders, with the commit that follows."""
        self._state.connection.execute("DELETE FROM withheld")
        self._state.connection.executemany("INSERT INTO withheld VALUES (?, ?)", sorted(self.orders.targets))

    def mark_applied(self) -> None:
        """The orders are committed."""
        self._before, self._applied = set(self.orders.targets), self.orders


# -- following ---------------------------------------------------------------------------------------------------------


class CommitPace:
    """Decides when a projection commits: when a batch is full, a few seconds after its first record was read, and at
    once when nothing more comes."""

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


def unread_entries(
    archive: Path,
    state: ProjectionState,
    apply_first: Callable[[], None],
    hear: OnCollectionNote | None = None,
    wanted: UrlFilter | None = None,
) -> tuple[Cursor, Iterator[ArchiveEntry]]:
    """How far the archive may be read now, and the records up to there, once deletions and takedowns are applied."""
    upto = visit_lengths(archive)  # first: of what comes later, deletions may be heard of later, too
    apply_first()
    return upto, follow(archive, state.cursor.copy(), hear, wanted=wanted, upto=upto)


class ProjectionTarget(Protocol):
    """The store that a projection writes, as `ArchiveProjection` calls it."""

    def apply_all(self, entries: Iterable[ArchiveEntry]) -> Iterator[ArchiveEntry]:
        """Apply each visit, and yield it once it is applied."""

    def commit_target(self) -> None:
        """Make durable what was applied: the state that speaks of it is committed next."""

    def drop_collection(self, name: str, at: float) -> None:
        """Take out a collection that was deleted, and note it; killed in between, it is done again."""

    def take_out(self) -> None:
        """Take out what was taken down, with the next commit."""

    def takedowns_applied(self) -> None:
        """The takedowns in force are committed."""


class ArchiveProjection:
    """Keeps a target up to date that is committed now and then, and its state with it."""

    def __init__(
        self,
        data: DataDirectory,
        state: ProjectionState,
        errors: AbstractContextManager[None],
        target: ProjectionTarget,
        is_ours: UrlFilter | None,
    ) -> None:
        self._data, self._errors, self._target, self._is_ours = data, errors, target, is_ours
        self.state, self.visits, self.pace = state, NewestVisits(state), CommitPace(state.cursor)
        self.deletions = ProjectionDeletions(data.archive, state)
        self.takedowns = ProjectionTakedowns(data, state, is_ours)

    def read(self, now: float, stop: threading.Event | None = None, apply_all: ApplyAll | None = None) -> int:
        """Apply all that is durable now, committing whenever a full batch is reached; how many records that were.
        `apply_all`: instead of the target's."""
        upto, entries = unread_entries(self._data.archive, self.state, self._apply_first, wanted=self._is_ours)
        read = 0
        for entry in (apply_all or self._target.apply_all)(entries):
            self.pace.advance({entry.file: entry.end}, now)
            read += 1
            self._count(now)
            if stop is not None and stop.is_set():
                return read
        self.pace.advance(upto, now)  # beyond the last record that is ours
        return read

    def _apply_first(self) -> None:
        self.drop_deleted()
        self.apply_takedowns()

    def _count(self, now: float) -> None:
        self.pace.touch(now, records=1)
        if self.pace.is_full:
            self.commit()

    def commit(self) -> None:
        """Save what was read: the target first, then the state."""
        if not self.pace.has_uncommitted:
            return
        self._data.check_space()
        self._target.commit_target()
        with self._errors:
            self.state.commit()
        self.pace.mark_committed()

    def drop_deleted(self) -> None:
        """Take out the collections that were deleted since."""
        for name, at in self.deletions.pending():
            self.commit()
            self._target.drop_collection(name, at)

    def apply_takedowns(self) -> None:
        """Take out what was taken down, and bring back what was lifted, if anything was since."""
        if not self.takedowns.has_changes():
            return
        self._target.take_out()
        for _ in self._target.apply_all(self._forgotten(self.takedowns.lifted_entries(self.state.cursor))):
            self._count(boottime())
        with self._errors:
            self.state.begin()
            self.takedowns.save_targets()
        self.pace.touch(boottime())
        self.commit()
        self.takedowns.mark_applied()
        self._target.takedowns_applied()

    def _forgotten(self, entries: Iterator[ArchiveEntry]) -> Iterator[ArchiveEntry]:
        """The same entries, as if none of their pages had been visited before."""
        with self._errors:
            forget = self.visits.begin_reapply()
        for entry in entries:
            with self._errors:
                self.state.begin()
                forget(entry.record.collection, url_id(entry.record.url))
            yield entry


# -- for other processes -----------------------------------------------------------------------------------------------


def read_cursor(connection: apsw.Connection) -> Cursor:
    return dict(rows(connection, "SELECT file, offset FROM cursor"))


def cursor_of(file: SqliteFile) -> Cursor:
    """How far a projection has read the archive; one that is not there, or of another format, has read nothing."""
    if file.found_format() != file.format:
        return {}
    with file.reading() as connection:
        return read_cursor(connection)


def unread_bytes(upto: Cursor, cursors: Sequence[Cursor]) -> int:
    """How many bytes of the archive, up to there, the slowest of these cursors has not read."""
    return sum(max(0, length - min(one.get(file, 0) for one in cursors)) for file, length in upto.items())


def lock_projection(folder: Path, name: str, *, wait: bool = False) -> IO[bytes]:
    """The lock of the one process that writes a projection. Keep the file open to keep the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    while (lock := try_lock(folder / "lock")) is None:
        if not wait:
            raise Locked(f"{folder}: another process is writing the {name}")
        time.sleep(LOCK_POLL_S)
    return lock


def with_each_follower(
    parts: Sequence[DataDirectory],
    open_follower: Callable[[DataDirectory], AbstractContextManager[FollowerT]],
    do: Callable[[FollowerT], None],
) -> bool:
    """Have each part of a projection do something. False: there is none, or its follower runs and does it."""
    try:
        for part in parts:
            with open_follower(part) as follower:
                do(follower)
    except Locked:
        return False
    return bool(parts)
