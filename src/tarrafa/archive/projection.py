"""The common base of the projections of the archive: index, link graph and triple store.

A projection follows the archive with a cursor and keeps a store of its own up to date, its *target*. Its state is in
one SQLite file: the cursor, the newest visits, the deletions and the takedowns that it has applied. Promises: the
durable length of the archive is read first; then deletions and takedowns are applied, and only then the records up to
there. So a deletion is known before any record that was archived after it, and a collection of the same name begins
anew (docs/decisions/0216). The target is made durable first, and then, in one transaction, the state that describes it:
a crash repeats work and changes nothing. Visits never go back in time: of each URL in each collection only a newer
visit is applied, in whichever order files are read. A page that is gone keeps its row, so that a late file cannot bring
an old version back. In index and triple store, a page that is taken down is removed with the next commit, and not
written while the takedown is in force; after a lift, its visits are applied again from the archive. (The link graph
keeps it: `graph/reader` hides it.) Knows nothing of the content of a projection's store.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, Protocol, TypeVar

import apsw

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.warc_reader import (
    ALL_CONVERSIONS,
    ArchiveEntry,
    Cursor,
    OnCollectionNote,
    UrlFilter,
    follow,
    visit_lengths,
)
from tarrafa.clock import boottime
from tarrafa.errors import Locked
from tarrafa.i18n import message
from tarrafa.model import UrlId, VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.takedown import CurrentTakedowns, TakedownSet, TakedownTarget

COMMIT_RECORDS = 2_000  # a commit every 100 costs three times as much
PROJECTION_COMMIT_S = 10.0  # while records come: small commits are dear, and their segments must be merged
COMMIT_IDLE_S = 0.4  # without new records for this long, commit
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
    {columns},                  -- the projection's own
    PRIMARY KEY (id, collection)
) WITHOUT ROWID;
"""

PageKey = tuple[UrlId, str]  # a URL's id and a collection
ForgetOnce = Callable[[str, UrlId], None]
ReadLimit = Callable[[Cursor], Cursor]  # from the durable lengths of the archive to those that are to be read
FollowerT = TypeVar("FollowerT")


# -- the state ---------------------------------------------------------------------------------------------------------


class ProjectionState:
    """Cursor, files and deletions of a projection, on the one connection that writes. `begin` opens a transaction that
    stays open until `commit`: all changes in between are saved together, or not at all.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.load()

    def load(self) -> None:
        """Load the state from the disk."""
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
        """Record that a collection, deleted at that moment, is completely dropped."""
        self.connection.execute("INSERT OR REPLACE INTO deleted VALUES (?, ?)", (collection, at))
        self.dropped[collection] = at

    def file_number(self, name: str) -> int:
        number = self._files.get(name)
        if number is None:
            number = self._files[name] = max(self._names, default=0) + 1  # compaction has removed some
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
        """The number of the newest visit that was applied; -1: none."""
        return self.newest_of([key]).get((key, collection), -1)

    def newest_of(self, keys: Sequence[UrlId]) -> dict[PageKey, int]:
        """The numbers of the newest visits of these few URLs that were applied, in all collections."""
        sql = f"SELECT id, collection, visit FROM visits WHERE id IN ({', '.join('?' * len(keys))})"  # noqa: S608 (marks)
        return {(key, name): visit for key, name, visit in rows(self._state.connection, sql, tuple(keys))}

    def record(
        self,
        entry: ArchiveEntry,
        key: UrlId,
        values: Sequence[float | None],
        *,
        is_there: bool,
    ) -> None:
        """Record the newest visit. `values`: of the projection's own columns; `is_there`: the projection has the page.
        (Not by REPLACE: it would not fire a trigger for the row that it deletes.)
        """
        record = entry.record
        place = (self._state.file_number(entry.file), entry.start) if is_there else (None, None)
        row = (key, record.collection, record.visit, *place, *values)
        self._run("DELETE FROM visits WHERE id = ? AND collection = ?", row[:2])
        self._run(f"INSERT INTO visits VALUES ({', '.join('?' * len(row))})", row)  # noqa: S608 (marks only)

    def drop_some(self, collection: str, after: UrlId, limit: int) -> list[UrlId]:
        """Forget some visits of a collection, in the order of their URL ids after a given id; the forgotten ids."""
        sql = "SELECT id FROM visits WHERE collection = ? AND id > ? ORDER BY id LIMIT ?"
        keys = [key for (key,) in rows(self._state.connection, sql, (collection, after, limit))]
        sql = "DELETE FROM visits WHERE id = ? AND collection = ?"
        self._state.connection.executemany(sql, ((key, collection) for key in keys))
        return keys

    def begin_reapply(self) -> ForgetOnce:
        """A function that forgets the newest visit of a page at its first call for that page: all visits of the page
        are then applied again.
        """
        self._run("DROP TABLE IF EXISTS temp.again")
        self._run("CREATE TEMP TABLE again (id BLOB, collection TEXT, PRIMARY KEY (id, collection)) WITHOUT ROWID")

        def forget_once(collection: str, key: UrlId) -> None:
            self._run("INSERT OR IGNORE INTO temp.again VALUES (?, ?)", (key, collection))
            if self._state.connection.changes():
                self._run("DELETE FROM visits WHERE id = ? AND collection = ?", (key, collection))

        return forget_once


class ProjectionDeletions:
    """The deleted collections, and whether the projection has dropped them."""

    def __init__(self, archive: Path, state: ProjectionState) -> None:
        self._deletions, self._state = ArchiveDeletions(archive), state

    def pending(self) -> list[tuple[str, float]]:
        """Collections to drop, with the time of their deletion."""
        dropped = self._state.dropped
        return [(name, at) for name, at in self._deletions.latest().items() if at > dropped.get(name, -1.0)]

    def dropped(self) -> dict[str, float]:
        """The collections whose last deletion the projection has applied, with the frontier's time of it."""
        latest, dropped = self._deletions.latest(), self._state.dropped
        times = self._deletions.by_frontier_clock
        return {name: times[name] for name, at in latest.items() if at <= dropped.get(name, -1.0)}

    def covers(self, record: VisitRecord) -> bool:
        return self._deletions.covers(record)

    def covers_visit(self, collection: str, at: float) -> bool:
        return self._deletions.covers_visit(collection, at)


class ProjectionTakedowns:
    """The takedowns in force, and those applied in the committed projection."""

    def __init__(self, data: DataDirectory, state: ProjectionState, is_ours: UrlFilter | None) -> None:
        self._archive, self._current = data.archive, CurrentTakedowns(data)
        self._state, self._is_ours = state, is_ours
        self.orders = self._current.now()
        self._applied: TakedownSet | None = None  # the takedowns applied in the target, if known for certain
        self._before = {TakedownTarget(*row) for row in rows(state.connection, "SELECT kind, name FROM withheld")}

    def covers(self, url: str) -> bool:
        return self.orders.covers(url)

    def has_changes(self) -> bool:
        """Whether takedowns were added or lifted since; the first time, whether there are any to verify."""
        self.orders = self._current.now()
        if self._applied is None:
            return bool(self.orders or self._before)
        return self.orders is not self._applied and self.orders.targets != self._applied.targets

    def added(self) -> TakedownSet:
        """Takedowns whose pages may still be in the target."""
        return TakedownSet(self.orders.targets - (self._applied.targets if self._applied is not None else set()))

    def lifted_entries(self, upto: Cursor) -> Iterator[ArchiveEntry]:
        """Every visit, up to the cursor, of pages whose takedown was lifted. Reads the whole archive."""
        gone, ours = TakedownSet(self._before - self.orders.targets), self._is_ours
        if not gone:
            return
        wanted = gone.covers if ours is None else lambda url: ours(url) and gone.covers(url)
        for entry in follow(self._archive, {}, wanted=wanted, upto=upto):
            if not self.orders.covers(entry.record.url):
                yield entry

    def save_targets(self) -> None:
        """Save the takedowns that the target complies with after the next commit."""
        self._state.connection.execute("DELETE FROM withheld")
        self._state.connection.executemany("INSERT INTO withheld VALUES (?, ?)", sorted(self.orders.targets))

    def mark_applied(self) -> None:
        """Mark the takedowns as committed."""
        self._before, self._applied = set(self.orders.targets), self.orders


# -- following ---------------------------------------------------------------------------------------------------------


class CommitPace:
    """Decides when a projection commits: when a batch is full, a few seconds after its first record was read, and at
    once when no more records come.
    """

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.records = 0  # uncommitted records
        self._first_at = self._last_at = 0.0

    @property
    def has_uncommitted(self) -> bool:
        """Whether there is something to commit, even if only the cursor."""
        return self._first_at > 0

    @property
    def is_full(self) -> bool:
        return self.records >= COMMIT_RECORDS

    def is_due(self, now: float, more_coming: bool = False) -> bool:
        """`more_coming`: records are known that were not read yet."""
        is_idle = now - self._last_at >= COMMIT_IDLE_S and not more_coming
        return self.has_uncommitted and (is_idle or now - self._first_at >= PROJECTION_COMMIT_S)

    def touch(self, now: float, records: int = 0) -> None:
        """Mark that there is something to commit."""
        self.records += records
        self._first_at, self._last_at = self._first_at or now, now

    def advance(self, cursor: Cursor, now: float) -> None:
        """Advance the cursor; a position behind it is no change."""
        if any(self.cursor.get(file, 0) < end for file, end in cursor.items()):
            self.cursor.update(cursor)
            self.touch(now)

    def mark_committed(self) -> None:
        """Mark everything as committed."""
        self.records, self._first_at = 0, 0.0


def unread_entries(
    archive: Path,
    state: ProjectionState,
    apply_first: Callable[[], None],
    hear: OnCollectionNote | None = None,
    wanted: UrlFilter | None = None,
    limit: ReadLimit | None = None,
    conversions: frozenset[str] = ALL_CONVERSIONS,
) -> tuple[Cursor, Iterator[ArchiveEntry]]:
    """The durable lengths of the archive, perhaps limited, and the records up to there, to be read after deletions and
    takedowns are applied. `conversions`: the types of conversion records to read.
    """
    upto = visit_lengths(archive)  # first: deletions of later records may also become known later
    upto = upto if limit is None else limit(upto)
    apply_first()
    return upto, follow(archive, state.cursor.copy(), hear, wanted=wanted, conversions=conversions, upto=upto)


class ProjectionTarget(Protocol):
    """The store that a projection writes, as `ArchiveProjection` calls it."""

    def apply_all(self, entries: Iterable[ArchiveEntry]) -> Iterator[ArchiveEntry]:
        """Apply each visit, and yield it once it is applied."""

    def commit_target(self) -> None:
        """Make the applied visits durable: the state that describes them is committed next."""

    def drop_collection(self, name: str, at: float) -> None:
        """Remove a deleted collection, and record that; after a kill in between it is repeated."""

    def take_out(self) -> None:
        """Remove pages that were taken down, with the next commit."""

    def takedowns_applied(self) -> None:
        """The takedowns in force are committed."""


class ArchiveProjection:
    """Keeps a target up to date that is committed from time to time, together with its state."""

    def __init__(
        self,
        data: DataDirectory,
        state: ProjectionState,
        errors: AbstractContextManager[None],
        target: ProjectionTarget,
        is_ours: UrlFilter | None,
        conversions: frozenset[str] = ALL_CONVERSIONS,
    ) -> None:
        self._data, self._errors, self._target, self._is_ours = data, errors, target, is_ours
        self._conversions = conversions
        self.state, self.visits, self.pace = state, NewestVisits(state), CommitPace(state.cursor)
        self.deletions = ProjectionDeletions(data.archive, state)
        self.takedowns = ProjectionTakedowns(data, state, is_ours)

    def read(self, now: float, stop: threading.Event | None = None, limit: ReadLimit | None = None) -> int:
        """Apply all durable records up to the limit, committing whenever a batch is full; the number of records."""
        upto, entries = unread_entries(
            self._data.archive,
            self.state,
            self._apply_first,
            wanted=self._is_ours,
            limit=limit,
            conversions=self._conversions,
        )
        read = 0
        for entry in self._target.apply_all(entries):
            self.pace.advance({entry.file: entry.end}, now)
            read += 1
            self._count(now)
            if stop is not None and stop.is_set():
                return read
        self.pace.advance(upto, now)  # beyond the last record of this part
        return read

    def _apply_first(self) -> None:
        self.drop_deleted()
        self.apply_takedowns()

    def _count(self, now: float) -> None:
        self.pace.touch(now, records=1)
        if self.pace.is_full:
            self.commit()

    def commit(self) -> None:
        """Commit the records that were read: the target first, then the state."""
        if not self.pace.has_uncommitted:
            return
        self._data.check_space()
        self._target.commit_target()
        with self._errors:
            self.state.commit()
        self.pace.mark_committed()

    def drop_deleted(self) -> None:
        """Remove the collections that were deleted since."""
        for name, at in self.deletions.pending():
            self.commit()
            self._target.drop_collection(name, at)

    @property
    def is_ahead(self) -> bool:
        """Whether the projection has more than the archive here: it was brought from another machine, and the mirror of
        the log has not come so far yet."""
        durable = visit_lengths(self._data.archive)
        return any(durable.get(file, 0) < end for file, end in self.state.cursor.items())

    def apply_takedowns(self) -> None:
        """Remove pages that were taken down, and restore those that were lifted, if any. Until a mirror has come as far
        as the projection, search filters them."""
        if not self.takedowns.has_changes() or self.is_ahead:
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
        """The same entries, with the earlier visits of their pages forgotten."""
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
    """How far a projection has read the archive; a missing one, or one of another format, has read nothing."""
    if file.found_format() != file.format:
        return {}
    with file.reading() as connection:
        return read_cursor(connection)


def unread_bytes(upto: Cursor, cursors: Sequence[Cursor]) -> int:
    """The number of bytes of the archive, up to these lengths, that the slowest of these cursors has not read."""
    return sum(
        max(0, length - min((one.get(file, 0) for one in cursors), default=length)) for file, length in upto.items()
    )


def lock_projection(folder: Path, name: str, *, wait: bool = False) -> IO[bytes]:
    """The lock of the one process that writes a projection. Keep the file open to keep the lock."""
    folder.mkdir(parents=True, exist_ok=True)
    while (lock := try_lock(folder / "lock")) is None:
        if not wait:
            raise Locked(message("{folder}: another process is writing the {name}", folder=folder, name=name))
        time.sleep(LOCK_POLL_S)
    return lock


def with_each_follower(
    parts: Sequence[DataDirectory],
    open_follower: Callable[[DataDirectory], AbstractContextManager[FollowerT]],
    do: Callable[[FollowerT], None],
) -> bool:
    """Call a function for each part of a projection. False: there is none, or its follower is running and does it."""
    try:
        for part in parts:
            with open_follower(part) as follower:
                do(follower)
    except Locked:
        return False
    return bool(parts)
