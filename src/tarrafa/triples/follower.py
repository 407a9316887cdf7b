"""Triples follower: applies archived statements to the triple store, commits and publishes it.

Promises: follows the archive from where it stopped, after any kind of stop; the statements of a page can be queried a
few seconds after it became durable; updates and deletions go by URL and never back in time. Of several collections with
a URL, the version fetched last is used; when that one is removed, the other is read again from the archive. A store
with the layout of another version of Tarrafa is refused and left unchanged. The store is written first, then cursor,
visits and counts in one transaction: a crash repeats work and changes nothing. One process at a time for each part
(they are those of the index). Commits are published for other processes every few seconds; `behind` is 0 only when
every durable record is committed and published, in every part that is kept here. Knows nothing of queries.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec

from tarrafa.archive.projection import ArchiveProjection, ProjectionState, with_each_follower
from tarrafa.archive.warc_reader import ArchiveEntry, read_entry
from tarrafa.archive.warc_writer import STATEMENTS_TYPE
from tarrafa.clock import boottime
from tarrafa.errors import ConfigError, data_error_from_os
from tarrafa.index import shards
from tarrafa.index.index_state import IndexAction, index_action
from tarrafa.model import UrlId, VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.sqlite import rows
from tarrafa.triples import ontology, status, storage
from tarrafa.triples.construct_rules import RuleRunner, write_rule_graph
from tarrafa.triples.snapshots import newest_number, publish
from tarrafa.triples.triple_writer import (
    RULES_GRAPH,
    ChangedPage,
    PageWriter,
    RecordedVisit,
    StatedContent,
    StoredVersion,
    newest_visits,
    page_versions,
    record_visits,
    recorded_visit,
)

log = logging.getLogger(__name__)
POLL_S = 0.2
PUBLISH_EVERY_S, PUBLISH_IDLE_S = 2.0, 0.5  # while records come, and when none come
OnProgress = Callable[[int], None]
T = TypeVar("T")
REWRITTEN_AT_ONCE = 200  # pages
DROPPED_AT_ONCE = 1_000  # pages of a deleted collection
SCANNED_AT_ONCE = 5_000  # pages that are checked for takedowns
HELD_CHARS_MAX = 8 << 20  # of statements waiting to be written
APPLIED_AT_ONCE = 64  # records whose newest visits are looked up together
WRITTEN_AT_ONCE = 64  # pages
CHARS_AT_ONCE = 1 << 20  # of these records or pages; the last one may have more


class TriplesFollower:
    """Reads, writes, commits and publishes at the right time. Use it in a `with`: it holds the lock and the store.
    `report` receives the bytes of the archive that were read since its last call.
    """

    def __init__(self, data: DataDirectory, report: OnProgress = lambda size: None) -> None:
        self._data, self._report = data, report
        self._changed: dict[UrlId, str] = {}  # pages to write
        self._contents: dict[tuple[UrlId, str], StatedContent] = {}  # of those that were just read
        self._held = 0
        self._published_at = 0.0
        self._lock = storage.acquire_lock(data)
        try:
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def _open(self) -> None:
        data, found = self._data, storage.format_of(self._data)
        if not found or (found == storage.FORMAT and not storage.store_path(data).exists()):
            storage.remove(data)  # store and database are useless without each other
        self._connection = storage.open_database(data)
        self._store = storage.open_store(data)
        self._errors = storage.StorageErrors(data, self._connection)
        with self._errors:
            self._state = ProjectionState(self._connection)
            self.projection = ArchiveProjection(
                data, self._state, self._errors, self, shards.url_filter(data), frozenset({STATEMENTS_TYPE})
            )
            self._pages = PageWriter(self._store, self._connection)
            for generation, content in rows(self._connection, "SELECT generation, content FROM ontology"):
                self._pages.generation = generation
                self._pages.ontology = msgspec.msgpack.decode(content, type=ontology.Ontology)
            self._commits = rows(self._connection, "SELECT coalesce(max(commits), 0) FROM commits")[0][0]
        self._shown = status.published_commit(data) if newest_number(data) else -1
        self._ontology_seen: object = None
        self._turned = 0  # counts the writes of pages
        self._has_replayed = False  # whether the records were read that a killed follower may have stored already
        self._rules = RuleRunner(data)
        self._rules.set_rules(self._pages.ontology.rules)

    def __enter__(self) -> "TriplesFollower":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._rules.stop()
        self._connection.close()
        del self._store, self._pages
        self._lock.close()

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, now: float, stop: threading.Event | None = None) -> int:
        """Apply all durable records, committing whenever a batch is full; the number of records."""
        read = self.projection.read(now, stop)
        self._has_replayed |= stop is None or not stop.is_set()
        return read

    def apply_all(self, entries: Iterable[ArchiveEntry]) -> Iterator[ArchiveEntry]:
        for some in _batches(entries, APPLIED_AT_ONCE, _chars_of):
            self._apply(some)
            for entry in some:
                self._report(entry.end - self._state.cursor.get(entry.file, 0))
                yield entry

    def _apply(self, entries: Sequence[ArchiveEntry]) -> None:
        """Apply the visits that have an effect. A visit without one is not recorded either: files are not read in the
        order of their visits.
        """
        found = [(entry, url_id(entry.record.url), index_action(entry.record)) for entry in entries]
        covers = self.projection.deletions.covers
        visits = [one for one in found if one[2] is not IndexAction.NOTHING and not covers(one[0].record)]
        with self._errors:
            self._state.begin()
            newest = newest_visits(self._state, {key for _, key, _ in visits})
            recorded: dict[tuple[UrlId, str], RecordedVisit] = {}
            for entry, key, meaning in visits:
                record, name = entry.record, entry.record.collection
                if self.projection.takedowns.covers(record.url):
                    self._changed[key] = record.url  # a killed follower may have written it just before
                elif record.visit > newest.get((key, name), -1):
                    newest[key, name] = record.visit
                    recorded[key, name] = recorded_visit(self._state, entry, key, meaning is IndexAction.WRITE)
                    self._hold(key, record)
            record_visits(self._state, recorded.values())
        if self._held > HELD_CHARS_MAX:
            self._write()

    def _hold(self, key: UrlId, record: VisitRecord) -> None:
        content = StatedContent.of(record.page)
        self._changed[key] = record.url
        self._contents[key, record.collection] = content
        self._held += len(content.text)

    # -- writing ---------------------------------------------------------------------------------------------------

    def _write(self) -> None:
        """Write the changed pages."""
        changed, contents = self._changed, self._contents
        self._changed, self._contents, self._held = {}, {}, 0
        rest = iter(changed.items())
        while some := list(islice(rest, WRITTEN_AT_ONCE)):
            with self._errors:
                self._state.begin()
                versions = page_versions(self._state, [key for key, _ in some])
                pages = (self._changed_page(key, url, versions[key], contents) for key, url in some)
                for batch in _batches(pages, WRITTEN_AT_ONCE, lambda page: len(page.content.text)):
                    self._turned += self._pages.write(batch)

    def _changed_page(
        self, key: UrlId, url: str, versions: list[StoredVersion], contents: dict[tuple[UrlId, str], StatedContent]
    ) -> ChangedPage:
        if not versions or self.projection.takedowns.covers(url):
            return ChangedPage(key, url, [], StatedContent())
        latest = versions[0]
        content = contents.get((key, latest.collection))
        if content is None:
            entry = read_entry(self._data.archive, latest.file, latest.start)
            content = StatedContent.of(entry.record.page if entry is not None else None)
        return ChangedPage(key, url, versions, content)

    def commit(self) -> None:
        """Commit the records that were read: the store first, then the state that describes it."""
        self.projection.commit()

    def commit_target(self) -> None:
        self._write()
        self._pages.store_may_be_ahead &= not self._has_replayed
        with self._errors:
            self._store.flush()
            self._state.begin()
            self._commits += 1
            self._connection.execute("DELETE FROM commits")
            self._connection.execute("INSERT INTO commits VALUES (?)", (self._commits,))

    def publish(self, now: float, every_s: float = PUBLISH_EVERY_S, *, at_once: bool = False) -> None:
        """Publish the last commit, if it is due and not published yet."""
        if not self._commits or self._shown == self._commits or self.projection.pace.has_uncommitted:
            return
        if at_once or not self._published_at or now - self._published_at >= every_s:
            publish(self._store, self._data)
            self._shown, self._published_at = self._commits, now
            self._write_file(status.published_commit_path(self._data), f"{self._commits}\n")

    def _write_file(self, path: Path, text: str) -> None:
        try:
            write_atomically(path, text.encode(), durable=False)
        except OSError as error:
            raise data_error_from_os(error, path) from None

    # -- inference -------------------------------------------------------------------------------------------------

    def load_ontology(self) -> None:
        """Reload the ontology if it has changed. The change is saved before any page is written under it: pages written
        under the former ontology are then known for certain.
        """
        seen = ontology.files_state(self._data)
        if seen == self._ontology_seen:
            return
        self._apply_ontology()
        self._ontology_seen = seen
        self._write_file(status.ontology_state_path(self._data), repr(seen))

    def _apply_ontology(self) -> None:
        pages = self._pages
        try:
            found = ontology.read_ontology(self._data)
        except ConfigError as error:
            # As text: its traceback holds the store.
            log.warning("%s; the former ontology applies until the file is corrected", str(error))
            return
        self._rules.set_rules(found.rules)
        is_stray = not found.rules and self._store.contains_named_graph(RULES_GRAPH)
        if found == pages.ontology and not is_stray:
            return
        self.commit()
        with self._errors:
            self._state.begin()
            pages.generation += found.digest() != pages.ontology.digest()
            pages.ontology = found
            self._connection.execute("DELETE FROM ontology")
            content = (pages.generation, msgspec.msgpack.encode(found))
            self._connection.execute("INSERT INTO ontology VALUES (?, ?)", content)
            if is_stray:
                self._store.remove_graph(RULES_GRAPH)
        self.projection.pace.touch(boottime())
        self.commit()

    def rewrite_outdated(self, now: float) -> bool:
        """Write some pages again that were written under another ontology; whether there may be more."""
        with self._errors:
            outdated = self._pages.outdated(REWRITTEN_AT_ONCE)
        if outdated:
            self._changed.update(outdated)
            self._write()
            self.projection.pace.touch(now)
        return bool(outdated)

    def run_rules(self, now: float, *, at_once: bool = False) -> None:
        """Store the results of the rules, and start the next run when it is due, or at once."""
        if self._rules.is_due(self._turned, now, at_once=at_once) and not self.projection.pace.has_uncommitted:
            with self._errors:
                self._rules.begin(self._store, self._turned)
        found = self._rules.wait() if at_once else self._rules.result()
        if found is not None:
            with self._errors:
                if write_rule_graph(self._store, found):
                    self.projection.pace.touch(now)

    # -- deletions and takedowns -----------------------------------------------------------------------------------

    def drop_collection(self, name: str, at: float) -> None:
        keys = [b""]
        while keys:
            with self._errors:
                self._state.begin()
                keys = self.projection.visits.drop_some(name, keys[-1], DROPPED_AT_ONCE)
                self._changed.update(self._pages.urls(keys))
                if not keys:
                    self._state.note_dropped(name, at)
            self.projection.pace.touch(boottime())
            self.commit()

    def take_out(self) -> None:
        with self._errors:
            self._state.begin()
            taken = dict(self._taken_down_pages())
            self._changed.update(taken)
            if taken:  # rules may have used their statements
                self._rules.stop()
                self._store.remove_graph(RULES_GRAPH)

    def _taken_down_pages(self) -> Iterator[tuple[UrlId, str]]:
        """The stored pages that are taken down. Checks every page with statements."""
        after, orders = 0, self.projection.takedowns.orders
        while orders and (some := self._pages.pages_after(after, SCANNED_AT_ONCE)):
            after = some[-1][0]
            yield from [(key, url) for _, key, url in some if orders.covers(url)]

    def takedowns_applied(self) -> None:
        self.publish(boottime(), at_once=True)


def _chars_of(entry: ArchiveEntry) -> int:
    page = entry.record.page
    return len(page.text) + len(page.statements) if page is not None else 0


def _batches(items: Iterable[T], count_max: int, chars_of: Callable[[T], int]) -> Iterator[list[T]]:
    """The items in batches of bounded size."""
    batch, chars = list[T](), 0
    for item in items:
        batch.append(item)
        chars += chars_of(item)
        if len(batch) == count_max or chars >= CHARS_AT_ONCE:
            yield batch
            batch, chars = [], 0
    if batch:
        yield batch


# -- entry points ------------------------------------------------------------------------------------------------------


def follow(data: DataDirectory, stop: threading.Event) -> None:
    """Follow the archive until `stop` is set; all records read are committed and published at the end, and then the
    results of the rules, if the time allows.
    """
    with TriplesFollower(data) as follower:
        while not stop.is_set():
            follower.load_ontology()
            read = follower.read(boottime(), stop)
            more = follower.rewrite_outdated(boottime())
            has_all = data.exhausted.exists() and not read and not more
            if has_all or follower.projection.pace.is_due(boottime()):
                follower.commit()
            follower.publish(boottime(), PUBLISH_EVERY_S if read or more else PUBLISH_IDLE_S, at_once=has_all)
            follower.run_rules(boottime())
            if not read and not more:
                stop.wait(POLL_S)
        follower.commit()
        follower.publish(boottime(), at_once=True)
        follower.run_rules(boottime(), at_once=True)
        follower.commit()
        follower.publish(boottime(), at_once=True)


def catch_up(data: DataDirectory) -> int:
    """Store all durable records; the number of records read."""
    return sum(build_part(part) for part in shards.parts(data))


def build_part(part: DataDirectory, report: OnProgress = lambda size: None) -> int:
    """Store all durable records of one part; the number of records read."""
    with TriplesFollower(part, report) as follower:
        follower.load_ontology()
        read = follower.read(boottime())
        follower.commit()
        while follower.rewrite_outdated(boottime()):
            follower.commit()
        follower.run_rules(boottime(), at_once=True)
        follower.commit()
        follower.publish(boottime(), at_once=True)
    return read


def rebuild(data: DataDirectory, report: OnProgress = lambda size: None) -> int:
    """Rebuild the store from the archive, part by part; the number of records read."""
    read = 0
    for part in shards.parts(data):
        remove_part(part)
        read += build_part(part, report)
    return read


def remove_part(data: DataDirectory) -> None:
    """Remove a part of the store; it can be rebuilt from the archive."""
    with storage.acquire_lock(data):
        storage.remove(data)


def drop_deleted(data: DataDirectory) -> bool:
    """Remove deleted collections from the store. False: there is no store, or its follower is running and does it."""

    def drop(follower: TriplesFollower) -> None:
        follower.projection.drop_deleted()
        follower.publish(boottime(), at_once=True)

    return with_each_follower(_current_parts(data), TriplesFollower, drop)


def apply_takedowns(data: DataDirectory) -> bool:
    """Apply takedowns and lifts to the store. False: there is no store, or its follower is running and does it."""

    def apply(follower: TriplesFollower) -> None:
        follower.projection.apply_takedowns()
        follower.run_rules(boottime(), at_once=True)
        follower.commit()
        follower.publish(boottime(), at_once=True)

    return with_each_follower(_current_parts(data), TriplesFollower, apply)


def _current_parts(data: DataDirectory) -> list[DataDirectory]:
    return [part for part in shards.parts(data) if storage.exists(part)]
