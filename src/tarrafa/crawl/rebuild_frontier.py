"""Rebuilds a lost frontier by replaying the visits and notes of the archive.

Every visit has a record in the archive. Notes beside the records hold the configurations of the collections and the
content of robots.txt files and sitemaps. Records and notes are replayed in the order in which they were written, under
the rules of that time: the links of a page are offered to a new frontier, and the visit is finished there as it was
then (`frontier/replay.py`). The link graph, if there is one, supplies the number of links to each URL.

Promises: memory is bounded; an existing frontier is untouched until the new one is complete, and is then kept aside; a
rebuild that is killed is simply run again.
Known loss: what has no record is lost: the back-off of hosts, the memory of host sessions, saved-up revisits. See
docs/backup.md.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import apsw

from tarrafa import config
from tarrafa.archive import warc_reader
from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.warc_reader import ArchiveEvent, ArchiveSurvey
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.compaction.switch import recover
from tarrafa.crawl.scope.scope_rules import Admission, discovered_url
from tarrafa.crawl.worker.committer import LinkCache
from tarrafa.crawl.worker.outcome import discovered_urls
from tarrafa.crawl.worker.robots_fetch import robots_digest
from tarrafa.errors import ConfigError, DataError, DiskFull, data_error_from_os
from tarrafa.frontier.export_import.checkpoint_file import CheckpointContents, load_checkpoint, verify_checkpoint
from tarrafa.frontier.messages import DiscoveredUrl, RobotsCopy, UrlWeight
from tarrafa.frontier.replay import FrontierReplay
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.frontier.store.database import SCHEMA_VERSION
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.graph import follower as graph
from tarrafa.graph.graph_writer import graph_exists
from tarrafa.model import (
    LISTING_ROLES,
    OLDER_VERSION,
    CollectionlessNote,
    CollectionNote,
    HostNote,
    Listing,
    ListingNote,
    Outcome,
    RebuiltNote,
    UrlRole,
    Visit,
    VisitRecord,
)
from tarrafa.parse.url import host_id
from tarrafa.runtime.data_dir import DataDirectory, sync_directory, try_lock
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.sqlite import open_sqlite_readonly

BATCH = 1_000  # events in one transaction
REASON = "made again from the archive; `tarrafa crawl FILE` goes on where it was"

Advance = Callable[[int], None]
ProgressReporter = Callable[[str, int], AbstractContextManager[Advance]]  # name of the step, and its total


@dataclass(frozen=True, slots=True)
class RebuildResult:
    visits: int
    urls: int
    pages: int
    waiting: int
    aside: Path | None = None  # where the former frontier is now
    warning: str = ""


@dataclass(frozen=True, slots=True)
class ReplayClock(Clock):
    """Shows the time of the event that is replayed."""

    moment: list[float] = field(default_factory=lambda: [0.0])

    def now(self) -> float:
        return self.moment[0]


def rebuild(
    data: DataDirectory, given: list[Collection], base: Path | None, progress: ProgressReporter, *, force: bool = False
) -> RebuildResult:
    """Rebuild the frontier. `given` are configurations that replace those in the archive; `base` is an exported
    frontier to begin with."""
    data.check_version()
    lock, own = data.try_lock(), try_lock(data.frontier.with_name(f"{data.frontier.name}.lock"))
    if lock is None or own is None:
        raise ConfigError(f"{data.root}: a crawl runs here; stop it first")
    with lock, own:
        if _is_usable(data.frontier) and not force:
            raise ConfigError(
                f"{data.frontier}: is there and can be used; nothing was changed (--force makes it again, and keeps it)"
            )
        recover(data)
        contents = _inspect_base(base, progress)
        with progress(
            "looking through the archive", sum(warc_reader.durable_lengths(data.archive).values())
        ) as advance:
            survey = warc_reader.survey_archive(data.archive, advance)
        _check(data, survey, given, contents)
        scratch = data.frontier.with_name(f"{data.frontier.name}.rebuilding")
        try:
            _remove(scratch)
            result = _replay_archive(data, scratch, survey, {one.name: one for one in given}, contents, progress)
            _record_rebuild(data, result)
            return replace(result, aside=_put_in_place(data.frontier, scratch))
        except OSError as error:
            raise data_error_from_os(error, scratch) from None
        except apsw.Error as error:
            if isinstance(error, apsw.FullError | apsw.IOError):
                raise DiskFull(f"{scratch}: the disk is full or cannot be written ({error}); free some space") from None
            raise DataError(f"{scratch}: {error}") from None
        finally:
            with contextlib.suppress(OSError):
                _remove(scratch)


def _is_usable(path: Path) -> bool:
    """Whether SQLite opens the file and finds collections in it: such a frontier is not replaced. A file of an older
    format is unusable, and is kept aside."""
    if not path.exists():
        return False
    with contextlib.suppress(apsw.Error):
        connection = open_sqlite_readonly(path)
        try:
            is_older = int(connection.pragma("user_version")) < SCHEMA_VERSION
            return not is_older and bool(connection.execute("SELECT 1 FROM collection LIMIT 1").fetchall())
        finally:
            connection.close()
    return False


def _inspect_base(base: Path | None, progress: ProgressReporter) -> CheckpointContents | None:
    if base is None:
        return None
    with progress("looking through", base.stat().st_size if base.is_file() else 0) as advance:
        return verify_checkpoint(base, advance)


def _check(
    data: DataDirectory, survey: ArchiveSurvey, given: list[Collection], contents: CheckpointContents | None
) -> None:
    """Raise at once if anything that the rebuild needs is missing."""
    if not survey.names:
        raise DataError(f"{data.archive}: holds no visits; there is nothing to make a frontier from")
    known = {one.name for one in given} | set(survey.configs)
    if contents is not None:
        known |= {image.name for image in contents.header.catalogue.collections}
    if missing := sorted(survey.names - known):
        raise ConfigError(
            f"{data.archive}: does not say how {', '.join(missing)} was configured; give that with --collection FILE"
        )
    if unknown := sorted({one.name for one in given} - survey.names):
        raise ConfigError(
            f"{data.archive}: holds no visits of {', '.join(unknown)} (there are: {', '.join(sorted(survey.names))})"
        )


def _replay_archive(
    data: DataDirectory,
    scratch: Path,
    survey: ArchiveSurvey,
    given: dict[str, Collection],
    contents: CheckpointContents | None,
    progress: ProgressReporter,
) -> RebuildResult:
    past, since, suffixes = ReplayClock(0.0, 0.0), 0.0, bundled_suffix_list()
    if contents is not None:
        since, suffixes = contents.header.at, contents.header.catalogue.suffixes or suffixes
        with progress("importing", contents.summary.urls) as advance:
            asyncio.run(_import_base(scratch, contents, suffixes, advance))
    replay = FrontierReplay(str(scratch), past, suffixes)
    try:
        deletions = ArchiveDeletions(data.archive)
        history = HistoryReplay(replay, past, survey, given, since, deletions.latest())
        with progress("making the frontier again", sum(warc_reader.durable_lengths(data.archive).values())) as advance:
            events = warc_reader.read_events(data.archive, survey.starts, advance)
            while batch := list(islice(events, BATCH)):
                with replay.transaction():
                    for event in batch:
                        history.apply(event)
        with replay.transaction():
            replay.store.deletion_log.import_deletions(deletions.by_frontier_clock)
        past.moment[0] = max(past.moment[0], Clock.from_environment().now())
        warning = _deliver_link_weights(data, replay, progress)
        replay.finish(REASON)
        status = replay.store.collections.status()
        return RebuildResult(
            history.visits,
            sum(one.known for one in status),
            sum(one.fetched for one in status),
            sum(one.pending for one in status),
            warning=warning,
        )
    finally:
        replay.close()


async def _import_base(scratch: Path, contents: CheckpointContents, suffixes: str, advance: Advance) -> None:
    frontier = SqliteFrontier(scratch, Clock.from_environment(), suffixes)
    try:
        await load_checkpoint(frontier, contents, advance)
    finally:
        await frontier.close()


class HistoryReplay:
    """Replays the archive's events on a new frontier, one by one."""

    def __init__(
        self,
        replay: FrontierReplay,
        past: ReplayClock,
        survey: ArchiveSurvey,
        given: dict[str, Collection],
        since: float,
        deleted: dict[str, float],
    ) -> None:
        self._replay, self._past, self._survey, self._given, self._since = replay, past, survey, given, since
        self._admissions: dict[str, tuple[int, Admission]] = {}
        self._delivered = LinkCache()
        self._listing: ListingNote | None = None
        self._deleted = deleted
        self.visits = 0

    def apply(self, event: ArchiveEvent) -> None:
        self._past.moment[0] = event.at
        what = event.content
        if self._is_deleted(event):
            return
        if isinstance(what, CollectionNote):
            if what.collection not in self._given and what.revision > self._replay.revision(what.collection):
                self._open(config.decode_collection(bytes(what.config)), what.revision)
            known, _ = self._known(what.collection)
            self._replay.begin_run(known, what.run)
        elif isinstance(what, HostNote):
            self._apply_host_note(what, event.at)
        elif isinstance(what, ListingNote):
            self._listing = what
        elif isinstance(what, RebuiltNote):
            self._replay.lives += 1
        elif isinstance(what, VisitRecord):
            self._replay_visit(what, warc_reader.worker_of(event.file))

    def _is_deleted(self, event: ArchiveEvent) -> bool:
        """Whether the event belongs to a deleted collection, even if another collection has its name now."""
        what = event.content
        if isinstance(what, CollectionlessNote):
            return False
        at = what.outcome.at if isinstance(what, VisitRecord) else event.at
        return at <= self._deleted.get(what.collection, -1.0)

    def _known(self, name: str) -> tuple[LoadedCollection, Admission]:
        """A collection, opened at its first event; its rules are those of its last configuration so far."""
        catalogue = self._replay.store.collections
        if catalogue.find(name) is None or (name in self._given and name not in self._admissions):
            if name in self._given:
                self._open(self._given[name], 1)
            else:
                note = self._survey.configs[name]
                self._open(config.decode_collection(bytes(note.config)), note.revision)
        known = catalogue.by_name(name)
        revision, admission = self._admissions.get(name, (0, None))
        if admission is None or revision != known.row.revision:
            admission = Admission(known.config)
            self._admissions[name] = (known.row.revision, admission)
        return known, admission

    def _open(self, collection: Collection, revision: int) -> None:
        self._replay.open_collection(
            config.encode_collection(collection), revision, list(Admission(collection).admit_roots())
        )

    def _apply_host_note(self, note: HostNote, at: float) -> None:
        """Apply the host's robots.txt; the frontier that the rebuild began with may have a newer copy."""
        known, _ = self._known(note.collection)
        host, robots = host_id(note.host), None
        if note.status:
            robots = RobotsCopy(note.status, robots_digest(note.text), note.expires, note.text)
        if at >= self._since:
            self._replay.set_host_rules(known, host, note.host, robots, note.delay_s)
        self._discover(known, [discovered_url(url, note.depth, UrlRole.SITEMAP) for url in note.sitemaps])

    def _replay_visit(self, record: VisitRecord, worker: str) -> None:
        """Replay a visit in the original order: first its links, then its end."""
        listing, self._listing = self._listed(record), None
        known, admission = self._known(record.collection)
        outcome, url = record.outcome, discovered_url(record.url, record.depth, record.outcome.role, record.redirects)
        before = self._replay.last_known_visit(known, url.host, url.id)
        if before is not None and record.visit <= before.last and record.visit != OLDER_VERSION:
            return
        facts = (url.host, url.id, url.url, url.depth, url.redirects, record.visit)
        parent = before.parent if before is not None else b""
        visit = Visit(known.row.id, *facts, role=outcome.role, parent=parent)
        self._discover(known, list(discovered_urls(record, visit, listing, admission)))
        if not self._replay.replay_visit(known, url, record.visit, outcome, worker):
            return
        if listing is None and _was_listing(outcome) and outcome.payload != (before.payload if before else ""):
            self._replay.store.urls.refetch(known, url.host, url.id)
        self.visits += 1

    def _listed(self, record: VisitRecord) -> Listing | None:
        note = self._listing
        is_its = note is not None and (note.collection, note.url, note.visit) == (
            record.collection, record.url, record.visit)  # fmt: skip
        return note.listing if note is not None and is_its else None

    def _discover(self, known: LoadedCollection, offers: list[DiscoveredUrl]) -> None:
        new = self._delivered.filter_new(known.row.id, offers, known.run)
        self._replay.discover(known, new)
        self._delivered.remember(known.row.id, new, known.run)


def _was_listing(outcome: Outcome) -> bool:
    return outcome.role in LISTING_ROLES and outcome.status == 200


def _deliver_link_weights(data: DataDirectory, replay: FrontierReplay, progress: ProgressReporter) -> str:
    """Deliver the link counts of the graph; returns a warning if there are none."""
    if not graph_exists(data):
        return ""

    try:
        with progress("counting links", graph.mark_all_undelivered(data)) as advance:

            def deliver(collection: str, weights: list[UrlWeight]) -> None:
                with replay.transaction():
                    replay.store.update_weights(collection, weights)
                advance(len(weights))

            graph.catch_up(data, deliver)
    except DataError as error:
        return f"the link graph cannot count in-links now ({error})"
    return ""


def _record_rebuild(data: DataDirectory, result: RebuildResult) -> None:
    """Record the rebuild: a later rebuild needs the number of earlier ones."""
    now = Clock.from_environment().now()
    writer = WarcWriter(data.archive, "rebuild", now)
    writer.append_note(RebuiltNote(result.visits), now)
    writer.close()


def _put_in_place(frontier: Path, scratch: Path) -> Path | None:
    """Replace the old frontier by the new one and keep the old one aside. Its write-ahead log moves too: it would
    damage the new one."""
    with scratch.open("rb") as file:
        os.fsync(file.fileno())
    aside = next(
        path for n in range(1, 10_000) if not (path := frontier.with_name(f"{frontier.name}.old-{n}")).exists()
    )
    kept = frontier.exists()
    for suffix in ("-wal", "-shm", ""):
        part = frontier.with_name(frontier.name + suffix)
        if part.exists():
            part.rename(aside.with_name(aside.name + suffix))
    scratch.rename(frontier)
    sync_directory(frontier.parent)
    return aside if kept else None


def _remove(scratch: Path) -> None:
    for suffix in ("", "-wal", "-shm", ".lock"):
        scratch.with_name(scratch.name + suffix).unlink(missing_ok=True)
