"""Index follower: applies archived visits to the tantivy index, commits, refreshes anchors, and rebuilds the index.

Promises: follows the archive from where it stopped, after any kind of stop; a page can be found some ten seconds after
it became durable, and within a second when the crawl is idle; updates and deletions go by URL and never back in time. A
page that is taken down is deleted with the next commit; until then search filters it. An index with the layout of
another version of Tarrafa is refused and left unchanged. tantivy commits first, then cursor and visit numbers: a crash
repeats work and changes nothing. One process at a time for each part of the index (`shards`); it skips the records of
the other parts. `behind` is 0 only when every durable record is committed, in every part that is kept here. Knows
nothing of queries.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from math import inf
from time import thread_time
from types import TracebackType
from typing import IO, Protocol

import tantivy

from tarrafa.archive.projection import (
    COMMIT_IDLE_S,
    ArchiveProjection,
    PageKey,
    ReadLimit,
    cursor_of,
    lock_projection,
    unread_bytes,
    with_each_follower,
)
from tarrafa.archive.warc_reader import ArchiveEntry, Cursor, visit_lengths
from tarrafa.clock import boottime
from tarrafa.errors import DataError
from tarrafa.graph.reader import GraphReader
from tarrafa.i18n import message
from tarrafa.index import index_state, schema, shards
from tarrafa.index.anchor_refresh import AnchorRefresher
from tarrafa.index.document_builder import (
    DocumentBuilder,
    DocumentBuilderPool,
    PreparedDocument,
    PrepareDocument,
)
from tarrafa.index.document_fields import (
    LinkStanding,
    document_key,
    split_url_id,
)
from tarrafa.index.index_state import (
    IndexAction,
    IndexedVisits,
    PageFate,
    index_action,
    page_fate,
    read_links_version,
)
from tarrafa.index.part_snapshot import ahead_marker
from tarrafa.index.reader import IndexReader
from tarrafa.model import Status, UrlId, VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import TakedownSet

log = logging.getLogger(__name__)
POLL_S, LAST_POLL_S = 0.2, 0.05  # while records come; and when nothing is left to visit
REFRESH_STEP_S, REFRESH_STEP_BUSY_S = 0.1, 0.03  # maximum delay of new pages by a refresh step
WRITER_HEAP_BYTES = 64 << 20
WRITER_THREADS = 1
GRAPH_WAIT_S = 2.0  # see `GraphWait`
YOUNG_WAIT_S, YOUNG_BYTES = 8.0, 24 << 20  # of the first records of a new index: see `GraphWait`
FAST_RECORDS = 500  # between two commits: a fast crawl, see `AnchorRefresher`


class IndexFollower:
    """Reads, writes and commits at the right time. Use it in a `with`: it holds the lock and the writer. With a `pool`,
    its processes build the documents.
    """

    def __init__(self, data: DataDirectory, pool: DocumentBuilderPool | None = None) -> None:
        self._data = data
        self._path = schema.folder(data)
        self._builder = DocumentBuilder(data)
        self._build_all = (pool or self._builder).build_all
        self._has_changes = False
        self._committed_records = 0  # by the last commit
        self._lock = _lock(data)
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        if _is_other_version(self._data):
            raise DataError(
                message(
                    "{path}: written by another version of Tarrafa; nothing was changed. `tarrafa rebuild"
                    " index` makes it again from the archive",
                    path=self._path,
                )
            )
        if not schema.exists(self._data):  # without documents, the visit numbers are wrong
            index_state.clear_applied(self._data)
            index_state.database_file(self._data).remove()
        index = schema.open_index(self._data, create=True)
        with schema.tantivy_errors(self._path):
            self._writer = index.writer(WRITER_HEAP_BYTES, WRITER_THREADS)
            # A crash in mid-commit leaves a list of deletions with a name (segment and operation number) that the
            # replay would use again: tantivy then refuses every commit (found by killing it; 1 run in 8).
            self._writer.garbage_collect_files()
        self._visits = IndexedVisits(self._data)
        with self._visits.errors:
            self.projection = ArchiveProjection(
                self._data, self._visits.state, self._visits.errors, self, shards.url_filter(self._data)
            )
        self._refresher = AnchorRefresher(self._data, self._visits)
        self._begun_at = dict(self.projection.state.cursor)
        self._knows_links = False  # of what is indexed: the graph has read as much

    def __enter__(self) -> "IndexFollower":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        del self._writer  # it stops its threads and releases its lock
        self._visits.close()
        self._lock.close()

    def read(self, now: float, stop: threading.Event | None = None, limit: ReadLimit | None = None) -> int:
        """Apply all durable records up to the limit, committing whenever a batch is full; the number of records."""
        return self.projection.read(now, stop, limit)

    def graph_cursor(self) -> Cursor | None:
        """How far the link graph has applied the archive; None without a graph."""
        graph = self._builder.graph
        with suppress(DataError):
            return graph.cursor() if graph is not None else None
        return None

    def links_version(self) -> str:
        """The version of the links that pages are written with now; empty without a graph."""
        with suppress(DataError):
            return " ".join(GraphReader(self._data).version())
        return ""

    def note_settled(self, links: str) -> None:
        """Every page was written with this version of the links: no sweep is due."""
        self._visits.note_links_version(links)

    def commit(self) -> None:
        """Commit the records that were read."""
        self.projection.commit()

    # -- called by the projection ----------------------------------------------------------------------------------

    def apply_all(self, entries: Iterable[ArchiveEntry]) -> Iterator[ArchiveEntry]:
        for batch in self._build_all(entries):
            newest = self._visits.newest_of([url_id(entry.record.url) for entry, _ in batch])
            for entry, prepare in batch:
                self._apply(entry, prepare, newest)
                yield entry

    def commit_target(self) -> None:
        if self._has_changes:
            with schema.tantivy_errors(self._path):
                self._writer.commit()
        self._has_changes, self._committed_records = False, self.projection.pace.records
        self._refresher.note_committed(boottime())

    def drop_collection(self, name: str, at: float) -> None:
        with schema.tantivy_errors(self._path):
            self._writer.delete_documents_by_term(schema.COLLECTION, name)
            self._writer.commit()
        state, after = self.projection.state, b""
        with self._visits.errors:
            state.begin()
            while keys := self.projection.visits.drop_some(name, after, index_state.DROPPED_AT_ONCE):
                after = keys[-1]
            state.note_dropped(name, at)
            state.commit()

    def take_out(self) -> None:
        index_state.clear_applied(self._data)
        added, delete = self.projection.takedowns.added(), self._writer.delete_documents_by_term
        self.commit()  # so that a reader sees every page that is to be deleted
        for key in self._indexed_urls(added):
            self._visits.change_fate(key, PageFate.INDEXED, PageFate.TAKEN_DOWN)
        with schema.tantivy_errors(self._path):
            for site in added.sites:
                delete(schema.SITE, site)
            for host in added.hosts:
                for name in (host, f"{host}."):
                    delete(schema.HOST, name)
            for url in added.urls:
                delete(schema.ID_HIGH, split_url_id(url)[0])
        self._has_changes = True

    def _indexed_urls(self, added: TakedownSet) -> set[UrlId]:
        """The URLs in the committed index that were taken down."""
        halves = [split_url_id(url)[0] for url in added.urls]
        hosts = [name for host in added.hosts for name in (host, f"{host}.")]
        terms = ((schema.SITE, list(added.sites)), (schema.HOST, hosts), (schema.ID_HIGH, halves))
        snapshot, found = IndexReader(self._data).snapshot(), set[UrlId]()
        for field, values in terms:
            query = tantivy.Query.term_set_query(schema.SCHEMA, field, values)
            if values and (total := snapshot.top_matches(query, 1).total):
                found.update(snapshot.top_matches(query, total).ids())
        return found

    def takedowns_applied(self) -> None:
        index_state.mark_applied(self._data, self.projection.takedowns.orders)

    # -- pages -----------------------------------------------------------------------------------------------------

    def refresh(self, now: float, step_s: float, idle_s: float = 0.0) -> bool:
        """Write pages again whose in-links, anchors or rank have changed, up to a time limit; whether there may be
        more. A sweep begins after a commit. `idle_s`: since when nothing was to be read.
        """
        graph, is_fast = self._builder.graph, self._committed_records >= FAST_RECORDS
        if graph is None or (self.projection.pace.records and not self._refresher.is_running):
            return False
        if not self._has_links_of_index():
            return False
        if not self._refresher.is_due(graph, now, idle_s, is_fast=is_fast):
            return False
        began_s = thread_time()
        while (clock := boottime()) < now + step_s:
            found = self._refresher.next_entry()
            if found is None:
                self._end_sweep(clock)
                return False
            self._rewrite(*found, clock)
        self._refresher.add_time(thread_time() - began_s)
        return True

    def _has_links_of_index(self) -> bool:
        """Whether the graph has read as much as the index had when this follower began: an index that was brought from
        another machine may be ahead of it."""
        if not self._knows_links and _covers(self.graph_cursor() or {}, self._begun_at):
            self._knows_links = True
            ahead_marker(self._data).unlink(missing_ok=True)
        return self._knows_links

    def _end_sweep(self, now: float) -> None:
        """A sweep ends with a commit. While records come, it waits for theirs."""
        self._refresher.is_written = True
        if not self.projection.pace.has_uncommitted:
            self._refresher.note_committed(now)
        elif not self.projection.pace.records:
            self.commit()

    def _rewrite(self, entry: ArchiveEntry, standing: LinkStanding, now: float) -> None:
        record = entry.record
        if self._is_excluded(record) or index_action(record) is not IndexAction.WRITE:
            return
        self._write(entry, PageFate.INDEXED, self._builder.build(record, standing))
        self.projection.pace.touch(now)

    def _is_excluded(self, record: VisitRecord) -> bool:
        return self.projection.takedowns.covers(record.url) or self.projection.deletions.covers(record)

    def merge(self) -> None:
        """Wait until tantivy has finished its merges; the writer cannot be used afterwards."""
        with schema.tantivy_errors(self._path):
            self._writer.wait_merging_threads()

    def _apply(self, entry: ArchiveEntry, prepare: PrepareDocument, newest: dict[PageKey, int]) -> None:
        """Apply a visit if it is newer than the newest one of its page, and note it as such."""
        record, meaning, identity = entry.record, index_action(entry.record), url_id(entry.record.url)
        # A visit without effect is not recorded either: files are not read in the order of their visits.
        if self.projection.deletions.covers(record):
            return
        if record.outcome.status == Status.TAKEN_DOWN:  # from now on its collection does not keep it
            self._visits.change_fate(identity, PageFate.TAKEN_DOWN, PageFate.NOT_KEPT, record.collection)
        key = (identity, record.collection)
        if meaning is IndexAction.NOTHING or record.visit <= newest.get(key, -1):
            return
        newest[key] = record.visit
        fate = page_fate(record, is_taken_down=self.projection.takedowns.covers(record.url))
        self._write(entry, fate, prepare() if fate is PageFate.INDEXED else None)

    def _write(self, entry: ArchiveEntry, fate: PageFate, prepared: PreparedDocument | None) -> None:
        """Replace the document of a page, or delete it."""
        record, identity = entry.record, url_id(entry.record.url)
        page = record.page if prepared is not None else None
        standing = (None, None, None) if prepared is None else prepared.standing
        self._has_changes = True
        with schema.tantivy_errors(self._path):
            self._writer.delete_documents_by_term(schema.KEY, document_key(record.collection, identity))
            if prepared is not None:
                self._writer.add_document(prepared.document)
        with self._visits.errors:
            self.projection.state.begin()
            cut = (int(page.cut_statements), int(page.cut_text)) if page is not None else (0, 0)
            values = (*standing, int(fate), *cut)
            self.projection.visits.record(entry, identity, values, is_there=prepared is not None)


def _lock(data: DataDirectory, *, wait: bool = False) -> IO[bytes]:
    return lock_projection(data.index, "index", wait=wait)


# -- waiting for the graph ---------------------------------------------------------------------------------------------


class GraphWait:
    """Limits what the index reads to what the graph has applied: a page that is indexed before its links are known is
    written twice, and a third of all pages was.

    A record waits for GRAPH_WAIT_S at most. A graph that did not apply within that time what the archive held (it is
    stopped, it is rebuilt, it cannot keep pace) is not waited for until it has.

    In a new index, records wait for YOUNG_WAIT_S, until no more come, or until the archive has YOUNG_BYTES: the first
    pages of a fast crawl get most of their in-links in that time, and at its end there is not more to read than some
    seconds take. Then they are committed as soon as they are read: they can be found as early as without a wait.
    """

    def __init__(self, *, is_new: bool = False) -> None:
        self._awaited = deque[tuple[float, Cursor]]()  # what the archive held at some moments, the oldest first
        self.is_young, self._seen, self._grown_at = is_new, Cursor(), 0.0
        self._oldest_at: float | None = None  # since when records of a young index wait
        self.has_released = False  # whether they need not wait any more since the last time
        self.is_holding = False  # whether records were held back the last time

    @property
    def is_graph_behind(self) -> bool:
        """Whether the graph had not applied everything the last time, or records were held back."""
        return self.is_holding or bool(self._awaited)

    def limit(self, durable: Cursor, applied: Cursor | None, now: float) -> Cursor:
        """How far to read an archive of these lengths; `applied` by the graph, None without one."""
        self.is_holding = self._waits_young(durable, now)
        if self.is_holding:
            return dict.fromkeys(durable, 0)
        if applied is None:
            return durable
        awaited = self._awaited
        if not awaited or awaited[-1][1] != durable:
            awaited.append((now, durable))
        while awaited and _covers(applied, awaited[0][1]):
            awaited.popleft()
        if awaited and now - awaited[0][0] < GRAPH_WAIT_S:
            self.is_holding = True
            return {file: min(end, applied.get(file, 0)) for file, end in durable.items()}
        while len(awaited) > 1:  # applied, or not waited for: only the oldest says when to wait again
            awaited.pop()
        return durable

    def _waits_young(self, durable: Cursor, now: float) -> bool:
        """Whether the records of a young index wait for more."""
        self.has_released = False
        if not self.is_young:
            return False
        if durable != self._seen:
            self._seen, self._grown_at = durable, now
            self._oldest_at = now if self._oldest_at is None else self._oldest_at
        if self._oldest_at is None:
            return False
        self.is_young = sum(durable.values()) < YOUNG_BYTES
        if self.is_young and now - self._oldest_at < YOUNG_WAIT_S and now - self._grown_at < COMMIT_IDLE_S:
            return True
        self._oldest_at, self.has_released = None, True
        return False


def _covers(applied: Cursor, wanted: Cursor) -> bool:
    return all(applied.get(file, 0) >= end for file, end in wanted.items())


# -- entry points ------------------------------------------------------------------------------------------------------


class SnapshotMaker(Protocol):
    """Makes snapshots of the part that a follower keeps."""

    def consider(self, follower: IndexFollower) -> None:
        """Make one if it is due: everything that was read is committed."""


def follow(data: DataDirectory, stop: threading.Event, snapshots: SnapshotMaker | None = None) -> None:
    """Follow the archive until `stop` is set; all records read are committed at the end. Idle time is used to refresh
    pages whose in-links or rank have changed.
    """
    read_at = 0.0
    with IndexFollower(data) as follower:
        wait = GraphWait(is_new=not follower.projection.state.cursor)
        while not stop.is_set():
            now, is_last = boottime(), data.exhausted.exists()
            applied = follower.graph_cursor()
            wait.is_young &= not is_last
            read = follower.read(now, stop, lambda durable: wait.limit(durable, applied, now))  # noqa: B023 (called at once)
            has_all = is_last and not wait.is_graph_behind
            if has_all or wait.has_released or follower.projection.pace.is_due(boottime(), wait.is_holding):
                follower.commit()
            if snapshots is not None and not follower.projection.pace.has_uncommitted:
                snapshots.consider(follower)
            read_at = now if read or wait.is_graph_behind else read_at
            idle_s = inf if has_all else now - read_at
            quiet = idle_s >= COMMIT_IDLE_S
            more = follower.refresh(boottime(), REFRESH_STEP_S if quiet else REFRESH_STEP_BUSY_S, idle_s)
            if not read and not (more and quiet):
                stop.wait(LAST_POLL_S if is_last else POLL_S)
        follower.commit()


def catch_up(data: DataDirectory) -> int:
    """Index all durable records; the number of records read."""
    read = 0
    for part in shards.parts(data):
        with IndexFollower(part) as follower:
            read += follower.read(boottime())
            follower.commit()
    return read


def build_part(part: DataDirectory, processes: int = 0) -> int:
    """Index all durable records of one part, with child processes if any, and merge its segments; the number of records
    read.
    """
    with ExitStack() as stack:
        pool = stack.enter_context(DocumentBuilderPool(part, processes)) if processes else None
        follower = stack.enter_context(IndexFollower(part, pool))
        links = follower.links_version()
        read = follower.read(boottime())
        follower.commit()
        follower.merge()
        if links and links == follower.links_version():
            follower.note_settled(links)
    return read


def drop_deleted(data: DataDirectory) -> bool:
    """Remove deleted collections from the index. False: there is no index, or its follower is running and does it."""
    return with_each_follower(_current_parts(data), IndexFollower, lambda follower: follower.projection.drop_deleted())


def apply_takedowns(data: DataDirectory) -> bool:
    """Apply takedowns and lifts to the index. False: there is no index, or its follower is running and does it."""
    return with_each_follower(
        _current_parts(data), IndexFollower, lambda follower: follower.projection.apply_takedowns()
    )


def _current_parts(data: DataDirectory) -> list[DataDirectory]:
    return [part for part in shards.parts(data) if schema.exists(part) and not _is_other_version(part)]


def rebuild(data: DataDirectory, divided: shards.ShardLayout | None = None) -> int:
    """Rebuild the index from the archive, part by part; the number of records read. (`parallel_rebuild` uses all
    processors.)
    """
    with replacement_parts(data, divided) as parts:
        return sum(map(build_part, parts))


@contextmanager
def replacement_parts(data: DataDirectory, divided: shards.ShardLayout | None = None) -> Iterator[list[DataDirectory]]:
    """The empty parts of a rebuilt index, with a new layout if one is given. The old index answers until the end of the
    `with`, and stays if it ends in an error or a kill. The caller holds DATA/lock.
    """
    divided = divided or shards.read_layout(data)
    fresh = shards.parts_of(data, divided, beside=True)
    shards.remove_unfinished(data)
    try:
        yield fresh
        for part, successor in zip(shards.parts_of(data, divided), fresh, strict=True):
            with _lock(part, wait=True):
                catch_up(successor)  # with takedowns and lifts of the meantime
                _replace_part(part, successor)
        shards.set_layout(data, divided)
    finally:
        shards.remove_unfinished(data)


def _replace_part(data: DataDirectory, successor: DataDirectory) -> None:
    """Replace a part of the index with its successor. A kill after the first or second step leaves an index whose
    state, at worst, claims fewer records than it holds: these are read again, without effect.
    """
    index_state.clear_applied(data)
    schema.replace_with(data, successor)
    index_state.replace_visits(data, successor)
    index_state.replace_marker(data, successor)


def _is_other_version(data: DataDirectory) -> bool:
    """Whether another version of Tarrafa made this index."""
    return schema.is_other_version(data) or index_state.is_other_version(data)


def cursor(data: DataDirectory) -> Cursor:
    """How far a part of the index has read the archive; a part of another version has read nothing."""
    return {} if schema.is_other_version(data) else cursor_of(index_state.database_file(data))


def behind(data: DataDirectory, until: Cursor | None = None) -> int:
    """The number of durable bytes of the archive (now, or at a given moment) that are not indexed yet, in the parts
    kept here. The archive's length is read first: records that become durable later were not there when the caller
    asked.
    """
    upto = visit_lengths(data.archive) if until is None else until
    return unread_bytes(upto, [cursor(part) for part in shards.parts(data)])


def is_settled(data: DataDirectory) -> bool:
    """Whether every page, in every part of the index that is kept here, was written with the present links. (Ranks are
    computed later: search corrects for the difference.)
    """
    try:
        links, _ = GraphReader(data).version()
    except DataError:
        return True
    return all(read_links_version(part).partition(" ")[0] == links for part in shards.parts(data))
