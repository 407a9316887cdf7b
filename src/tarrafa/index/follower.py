"""Index follower: applies archived visits to the tantivy index, commits, and rebuilds it.

Promises: follows the archive from where it stopped, whatever stopped it; a page is findable a few seconds after it
became durable, and within a second when nothing else comes; updates and deletions go by URL and never back in time.
An index that another version of Tarrafa laid out is refused, untouched.
Commit first, then cursor and visit numbers: a crash repeats work and changes nothing. One process at a time for each
part of the index (`shards`), which reads past what belongs to the others.
`behind` is 0 only when every durable record is committed, in every part that is kept here.
Knows nothing of queries.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from time import thread_time
from types import TracebackType
from typing import IO

import tantivy

from tarrafa.archive.projection import (
    COMMIT_IDLE_S,
    ArchiveProjection,
    cursor_of,
    lock_projection,
    unread_bytes,
    with_each_follower,
)
from tarrafa.archive.warc_reader import ArchiveEntry, Cursor, visit_lengths
from tarrafa.clock import boottime
from tarrafa.errors import DataError
from tarrafa.index import indexed_visits, schema, shards, takedowns
from tarrafa.index.anchor_refresh import AnchorRefresher
from tarrafa.index.document_builder import DocumentBuilder, DocumentBuilderPool, PreparedDocument, PrepareDocument
from tarrafa.index.document_fields import IndexAction, document_key, index_action
from tarrafa.model import VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory

POLL_S = 0.2
REFRESH_STEP_S, REFRESH_STEP_BUSY_S = 0.1, 0.03  # that writing pages anew may keep a new one waiting
WRITER_HEAP_BYTES = 64 << 20
WRITER_THREADS = 1


class IndexFollower:
    """Reads, writes and commits when it is time. Use it in a `with`: it holds the lock and the writer."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._path = schema.folder(data)
        self._analyst = DocumentBuilder(data)
        self._changes = 0
        self._lock = _lock(data)
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        if _is_other_version(self._data):
            raise DataError(
                f"{self._path}: written by another version of Tarrafa; nothing was changed. `tarrafa rebuild index`"
                " makes it again from the archive"
            )
        if not schema.exists(self._data):  # whatever the visits say was in it, is not
            takedowns.clear_applied(self._data)
            indexed_visits.remove(self._data)
        index = schema.open_index(self._data, create=True)
        with schema.tantivy_errors(self._path):
            self._writer: tantivy.IndexWriter | None = index.writer(WRITER_HEAP_BYTES, WRITER_THREADS)
            # A crash in mid-commit leaves a list of deletions whose name, segment and operation number, the replay
            # would use again: tantivy then refuses to commit, for ever (found by killing it; 1 run in 8).
            self._writer.garbage_collect_files()
        self._visits = indexed_visits.IndexedVisits(self._data)
        with self._visits.errors:
            self._projection = ArchiveProjection(
                self._data, self._visits.state, self._visits.errors, self, shards.url_filter(self._data)
            )
        self._refresher = AnchorRefresher(self._data, self._visits)

    def __enter__(self) -> "IndexFollower":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer = None  # dropped, it stops its threads and lets go of its lock
        self._visits.close()
        self._lock.close()

    def read(self, now: float, stop: threading.Event | None = None, analysts: DocumentBuilderPool | None = None) -> int:
        """Apply all that is durable now, committing whenever a full batch is reached; how many records that were."""
        return self._projection.read(now, stop, partial(self.apply_all, analysts=analysts))

    def is_due(self, now: float) -> bool:
        """Whether what has been read should be shown now."""
        return self._projection.pace.is_due(now)

    def commit(self) -> None:
        """Show what has been read."""
        self._projection.commit()

    def drop_deleted(self) -> None:
        """Take out the collections that were deleted since."""
        self._projection.drop_deleted()

    def apply_takedowns(self) -> None:
        """Take out what was taken down, and bring back what was lifted, if anything was since."""
        self._projection.apply_takedowns()

    # -- what the projection calls ---------------------------------------------------------------------------------

    def apply_all(
        self, entries: Iterable[ArchiveEntry], analysts: DocumentBuilderPool | None = None
    ) -> Iterator[ArchiveEntry]:
        for entry, prepare in self._prepared(entries) if analysts is None else analysts.build_all(entries):
            self._apply(entry, prepare)
            yield entry

    def _prepared(self, entries: Iterable[ArchiveEntry]) -> Iterator[tuple[ArchiveEntry, PrepareDocument]]:
        for entry in entries:
            yield entry, partial(self._analyst.build, entry.record)

    def commit_target(self) -> None:
        if self._changes:
            with schema.tantivy_errors(self._path):
                self._open_writer().commit()
        self._changes = 0

    def drop_collection(self, name: str, at: float) -> None:
        with schema.tantivy_errors(self._path):
            self._open_writer().delete_documents_by_term(schema.COLLECTION, name)
            self._open_writer().commit()
        state, after = self._projection.state, b""
        with self._visits.errors:
            state.begin()
            while keys := self._projection.visits.drop_some(name, after, indexed_visits.DROPPED_AT_ONCE):
                after = keys[-1]
            state.note_dropped(name, at)
            state.commit()

    def take_out(self) -> None:
        takedowns.clear_applied(self._data)
        with schema.tantivy_errors(self._path):
            takedowns.delete_documents(self._open_writer(), self._projection.takedowns.added())
        self._changes += 1

    def takedowns_applied(self) -> None:
        takedowns.mark_applied(self._data, self._projection.takedowns.orders)

    # -- pages -----------------------------------------------------------------------------------------------------

    def refresh(self, now: float, step_s: float) -> bool:
        """Write pages anew that others speak of otherwise by now, for so long at most; whether there may be more."""
        graph = self._analyst.graph
        if graph is None or not self._refresher.is_due(graph, now, committed=not self._projection.pace.records):
            return False
        began_s = thread_time()
        while (clock := boottime()) < now + step_s:
            entry = self._refresher.next_entry()
            if entry is None:
                self.commit()
                self._refresher.end(clock)
                return False
            self._rewrite(entry, clock)
        self._refresher.add_time(thread_time() - began_s)
        return True

    def _rewrite(self, entry: ArchiveEntry, now: float) -> None:
        record = entry.record
        if self._is_excluded(record) or index_action(record) is not IndexAction.WRITE:
            return
        self._write(entry, self._analyst.build(record))
        self._projection.pace.touch(now)

    def _is_excluded(self, record: VisitRecord) -> bool:
        return self._projection.takedowns.covers(record.url) or self._projection.deletions.covers(record)

    def merge(self) -> None:
        """Wait until tantivy has merged what it thinks worth merging; the writer is used up by that."""
        with schema.tantivy_errors(self._path):
            self._open_writer().wait_merging_threads()

    def _apply(self, entry: ArchiveEntry, prepare: PrepareDocument) -> None:
        record, meaning = entry.record, index_action(entry.record)
        # What changes nothing is not counted either: files are not read in the order of their visits.
        if meaning is IndexAction.NOTHING or self._is_excluded(record):
            return
        if record.visit > self._visits.newest(record.collection, url_id(record.url)):
            self._write(entry, prepare() if meaning is IndexAction.WRITE else None)

    def _write(self, entry: ArchiveEntry, prepared: PreparedDocument | None) -> None:
        """The document of a page is this one now, or none."""
        record, identity = entry.record, url_id(entry.record.url)
        self._changes += 1
        writer = self._open_writer()
        with schema.tantivy_errors(self._path):
            writer.delete_documents_by_term(schema.KEY, document_key(record.collection, identity))
            if prepared is not None:
                writer.add_document(prepared.document)
        with self._visits.errors:
            self._projection.state.begin()
            self._projection.visits.record(entry, identity, None if prepared is None else prepared.standing)

    def _open_writer(self) -> tantivy.IndexWriter:
        assert self._writer is not None, "the follower is closed"
        return self._writer


def _lock(data: DataDirectory, *, wait: bool = False) -> IO[bytes]:
    return lock_projection(data.index, "index", wait=wait)


def follow(data: DataDirectory, stop: threading.Event) -> None:
    """Follow the archive until told to stop; what has been read by then is committed. In between, pages are written
    anew that others speak of otherwise by now."""
    read_at = 0.0
    with IndexFollower(data) as follower:
        while not stop.is_set():
            now = boottime()
            read = follower.read(now, stop)
            if follower.is_due(boottime()):
                follower.commit()
            read_at = now if read else read_at
            quiet = now - read_at >= COMMIT_IDLE_S
            more = follower.refresh(boottime(), REFRESH_STEP_S if quiet else REFRESH_STEP_BUSY_S)
            if not read and not (more and quiet):
                stop.wait(POLL_S)
        follower.commit()


def catch_up(data: DataDirectory) -> int:
    """Make everything that is durable now findable; the number of records read."""
    read = 0
    for part in shards.parts(data):
        with IndexFollower(part) as follower:
            read += follower.read(boottime())
            follower.commit()
    return read


def build_part(part: DataDirectory, analysts: int = 0) -> int:
    """Make everything that is durable now findable, in one part, and merge it well; the number of records read."""
    with ExitStack() as stack:
        helpers = stack.enter_context(DocumentBuilderPool(part, analysts)) if analysts else None
        follower = stack.enter_context(IndexFollower(part))
        read = follower.read(boottime(), analysts=helpers)
        follower.commit()
        follower.merge()
    return read


def drop_deleted(data: DataDirectory) -> bool:
    """Let the index drop what was deleted. False: there is none, or its follower runs and does it."""
    return with_each_follower(_current_parts(data), IndexFollower, IndexFollower.drop_deleted)


def apply_takedowns(data: DataDirectory) -> bool:
    """Let the index keep to what was taken down and lifted. False: there is none, or its follower runs and does it."""
    return with_each_follower(_current_parts(data), IndexFollower, IndexFollower.apply_takedowns)


def _current_parts(data: DataDirectory) -> list[DataDirectory]:
    return [part for part in shards.parts(data) if schema.exists(part) and not _is_other_version(part)]


def rebuild(data: DataDirectory, divided: shards.ShardLayout | None = None) -> int:
    """Make the index again from the archive, from nothing, part by part; the number of records read. (`making` does it
    with all processors.)"""
    with replacement_parts(data, divided) as parts:
        return sum(map(build_part, parts))


@contextmanager
def replacement_parts(data: DataDirectory, divided: shards.ShardLayout | None = None) -> Iterator[list[DataDirectory]]:
    """The parts of an index that is made again, to be filled, divided so from now on if that is said. Until the end of
    the `with` the one that is there answers, and it stays if the end is an error or a kill. The caller holds
    DATA/lock."""
    divided = divided or shards.read_layout(data)
    fresh = shards.parts_of(data, divided, beside=True)
    shards.remove_unfinished(data)
    try:
        yield fresh
        for part, successor in zip(shards.parts_of(data, divided), fresh, strict=True):
            with _lock(part, wait=True):
                catch_up(successor)  # with what was taken down or lifted meanwhile
                _replace_part(part, successor)
        shards.set_layout(data, divided)
    finally:
        shards.remove_unfinished(data)


def _replace_part(data: DataDirectory, successor: DataDirectory) -> None:
    """Let another one take the place of a part of the index. Killed after the first step or the second, an index is
    there whose books say at worst that less was read than it holds: that is read again, and changes nothing."""
    takedowns.clear_applied(data)
    schema.replace_with(data, successor)
    indexed_visits.replace_with(data, successor)
    takedowns.replace_with(data, successor)


def _is_other_version(data: DataDirectory) -> bool:
    """Whether another version of Tarrafa made it."""
    return schema.is_other_version(data) or indexed_visits.is_other_version(data)


def cursor(data: DataDirectory) -> Cursor:
    """How far a part of the index has read the archive; one that is not ours has read nothing."""
    return {} if schema.is_other_version(data) else cursor_of(indexed_visits.database_file(data))


def behind(data: DataDirectory, until: Cursor | None = None) -> int:
    """How many durable bytes of the archive, or of what it held at some moment, are not findable yet, as far as they
    belong here. The archive is asked first: what becomes durable afterwards was not there when the question was put."""
    upto = visit_lengths(data.archive) if until is None else until
    return unread_bytes(upto, [cursor(part) for part in shards.parts(data)])
