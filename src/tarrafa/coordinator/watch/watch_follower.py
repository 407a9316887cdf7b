"""Follows the archive for all watches: finds the changes, and completes the messages that are due.

A pass reads the visits that are new in the archive, up to where the index of captures and the text index have read it:
the captures that a visit is compared with, and the text that a query is compared with, are there.
Promises: one process at a time (by a lock); the changes of a batch and the cursor behind it are one transaction, and so
are a complete message and its notices in the outbox, so that after a kill no change is lost and none comes twice. A
pass is bounded in visits, and a query is compared with the pages of those visits only. A watch that is added meanwhile
misses nothing: the batch is then read again. Blocks on the disk: do not call it in an event loop.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from types import TracebackType
from typing import IO, NamedTuple

from tarrafa.archive.warc_reader import ArchiveEntry, Cursor, UrlFilter, follow
from tarrafa.captures.capture_access import CaptureStore
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.coordinator.notify.notice_outbox import put_notice
from tarrafa.coordinator.watch.page_changes import find_change, is_page_gone, page_change
from tarrafa.coordinator.watch.watch_messages import message_notice
from tarrafa.coordinator.watch.watch_queries import WatchedQueries
from tarrafa.coordinator.watch.watch_store import (
    MATCHES_MAX,
    WATCHES_MAX,
    PageChange,
    Watch,
    WatchSettings,
    WatchStore,
    WatchTables,
)
from tarrafa.coordinator.watch.watches import readable_lengths
from tarrafa.errors import Locked, QueryError
from tarrafa.i18n import message
from tarrafa.model import UrlId, VisitRecord
from tarrafa.parse.url import UrlIdentity, domain_and_parents, host_name, url_id
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.takedown import CurrentTakedowns

WATCH_EVERY_S = 5.0  # pause between two passes
BATCH_VISITS = 1_000
PASS_BATCHES = 10
ITEMS_TOLD = 100  # of a message, in a mail or webhook call
NONE = frozenset[str]()
log = logging.getLogger(__name__)


class BatchMatches(NamedTuple):
    """The newest record of each page that a query may concern, and which of these pages match now."""

    records: dict[UrlId, VisitRecord]
    matching: set[UrlId]


@dataclass(slots=True)
class BatchFindings:
    """What a batch of visits means for each watch, by its number."""

    changes: defaultdict[int, list[PageChange]] = field(default_factory=lambda: defaultdict(list))
    kept: defaultdict[int, list[PageChange]] = field(default_factory=lambda: defaultdict(list))  # news if it was gone
    matches: dict[int, BatchMatches] = field(default_factory=dict)


class WatchFollower:
    """Use it in a `with`: it holds the lock. `public`: the address of the site, for links in messages."""

    def __init__(self, data: DataDirectory, public: str = "") -> None:
        self._data, self._public = data, public
        self._store, self._captures = WatchStore(data), CaptureStore(data)
        self._queries, self._takedowns = WatchedQueries(data), CurrentTakedowns(data)
        lock = try_lock(data.run / "watches.lock")
        if lock is None:
            raise Locked(message("{folder}: another process looks for changes now", folder=data.root))
        self._lock: IO[bytes] = lock

    def __enter__(self) -> "WatchFollower":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._lock.close()

    def run_pass(self, now: float, outbox_now: float) -> int:
        """Read what is new, and complete the messages that are due; the number of notices for the outbox, which has a
        clock of its own."""
        watches = self._store.watches()
        if not watches:
            return 0
        self._read(watches, now)
        return self._complete_due(now, outbox_now)

    def _read(self, watches: list[Watch], now: float) -> None:
        upto = readable_lengths(self._data)
        with self._store.reading() as tables:
            position = tables.cursor() if tables is not None else {}
        found = follow(self._data.archive, position.copy(), wanted=_url_filter(watches), conversions=NONE, upto=upto)
        batch, batches = list[ArchiveEntry](), 0
        for entry in found:
            batch.append(entry)
            position[entry.file] = entry.end
            if len(batch) == BATCH_VISITS:
                batches += 1
                if not self._apply(watches, batch, position, now) or batches == PASS_BATCHES:
                    return
                batch = []
        position.update({file: max(length, position.get(file, 0)) for file, length in upto.items()})
        self._apply(watches, batch, position, now)

    def _apply(self, watches: list[Watch], batch: list[ArchiveEntry], position: Cursor, now: float) -> bool:
        """Enter the changes of a batch, and the cursor. False: there is another watch, nothing was entered."""
        findings = self._findings(watches, batch)
        with self._store.writing() as tables:
            present = {one.number for one in tables.watches()}
            if present - {one.number for one in watches}:
                return False
            for watch in watches:
                if watch.number in present:
                    _enter(tables, watch, findings, now)
            tables.save_cursor(position)
        return True

    # -- what a batch means ----------------------------------------------------------------------------------------

    def _findings(self, watches: list[Watch], batch: list[ArchiveEntry]) -> BatchFindings:
        findings, takedowns = BatchFindings(), self._takedowns.now()
        by_url = [one for one in watches if one.settings.kind != "query"]
        entries = [one for one in batch if not takedowns.covers(one.record.url)]
        for entry in entries:
            concerned = [one for one in by_url if _is_watched(one.settings, entry.record.url)]
            self._find_change([one for one in concerned if _is_after(one, entry.record)], entry, findings)
        telling = [one.record for one in entries if one.record.outcome.kept or is_page_gone(one.record.outcome)]
        for watch in watches:
            if watch.settings.kind == "query":
                self._find_matches(watch, telling, findings)
        return findings

    def _find_change(self, watches: list[Watch], entry: ArchiveEntry, findings: BatchFindings) -> None:
        if not watches:
            return
        change = find_change(entry, self._captures)
        if change is not None:
            for one in watches:
                findings.changes[one.number].append(change)
        elif entry.record.outcome.kept:
            again = page_change("new", entry.record, timestamp_of(entry.record.outcome.at))
            for one in watches:
                findings.kept[one.number].append(again)

    def _find_matches(self, watch: Watch, telling: list[VisitRecord], findings: BatchFindings) -> None:
        """Of a page that is gone, another collection may still have a copy: the index knows."""
        wanted = watch.settings.collection
        records = {url_id(one.url): one for one in telling if wanted in ("", one.collection)}
        try:
            matching = self._queries.matching_among(watch.settings, records.keys())
        except QueryError as error:  # such as a class that the ontology does not know any more
            log.warning("watch %d: %s", watch.number, error)
        else:
            findings.matches[watch.number] = BatchMatches(records, matching)

    # -- messages --------------------------------------------------------------------------------------------------

    def _complete_due(self, now: float, outbox_now: float) -> int:
        """Complete the messages whose period is over, and queue their notices, in one transaction."""
        notices = 0
        with self._store.writing() as tables:
            watches = {one.number: one for one in tables.watches()}
            for number, place, opened in tables.open_messages():
                watch = watches.get(number)
                if watch is None or now - opened < watch.settings.period_s:
                    continue
                tables.complete(number, place, now)
                targets = watch.settings.email, watch.settings.webhook
                if any(targets):
                    notice = message_notice(watch, tables.message(number, place, ITEMS_TOLD), self._public)
                    put_notice(tables.connection, notice, *targets, outbox_now)
                    notices += 1
        return notices


def run_watch_pass(data: DataDirectory, public: str, now: float, outbox_now: float) -> int:
    """One pass, if there are watches; the number of notices for the outbox."""
    if not WatchStore(data).watches():
        return 0
    with WatchFollower(data, public) as follower:
        return follower.run_pass(now, outbox_now)


def _enter(tables: WatchTables, watch: Watch, findings: BatchFindings, now: float) -> None:
    number = watch.number
    for change in findings.changes.get(number, ()):
        tables.add_change(number, change, now)
    for change in findings.kept.get(number, ()):
        if tables.is_gone(number, url_id(change.url), change.at):
            tables.add_change(number, change, now)
    if number in findings.matches:
        _enter_matches(tables, watch, findings.matches[number], now)


def _enter_matches(tables: WatchTables, watch: Watch, found: BatchMatches, now: float) -> None:
    records, matching = found
    tables.remove_matches(watch.number, records.keys() - matching)
    new = matching - tables.known_matches(watch.number, matching)
    is_full = bool(new) and tables.count_matches(watch.number) + len(new) > MATCHES_MAX
    if new and is_full != watch.is_full:
        tables.mark_full(watch.number, is_full=is_full)
    if not new or is_full:
        return
    tables.add_matches(watch.number, new)
    for key, record in records.items():  # in the order of the archive
        if key in new:
            tables.add_change(watch.number, page_change("match", record, timestamp_of(record.outcome.at)), now)


def _url_filter(watches: Iterable[Watch]) -> UrlFilter | None:
    """Which visits concern a watch; None: all."""
    settings = [one.settings for one in watches]
    if any(one.kind == "query" for one in settings):
        return None
    pages = {url for one in settings if one.kind == "page" for url in _spellings(one.what)}
    sites = {one.what for one in settings if one.kind == "site"}
    return lambda url: url in pages or (bool(sites) and not sites.isdisjoint(domain_and_parents(host_name(url))))


def _is_watched(settings: WatchSettings, url: str) -> bool:
    if settings.kind == "page":
        return url in _spellings(settings.what)
    return settings.what in domain_and_parents(host_name(url))


def _is_after(watch: Watch, record: VisitRecord) -> bool:
    wanted = watch.settings.collection
    return record.outcome.at >= watch.created and wanted in ("", record.collection)


@lru_cache(WATCHES_MAX)
def _spellings(url: str) -> frozenset[str]:
    """A collection may fold its URLs (`[identity]`): the page is the same in each spelling."""
    return frozenset(UrlIdentity(fold, strip).fold(url) for fold in (False, True) for strip in (False, True))
