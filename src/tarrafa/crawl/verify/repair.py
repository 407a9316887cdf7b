"""Repair of a data directory: archive first, then the frontier, then the projections that disagree.

A page whose newest record is lost is fetched again: its URL is pending, and is requested whole. An older version cannot
be fetched again: it is noted as a known loss (`losses`). A visit that has a record and that the frontier does not know
is replayed. A projection with any finding is rebuilt, the others are left alone.
Promises: nothing is deleted. No crawl runs meanwhile (DATA/lock). Killed at any moment, it is simply run again.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tarrafa.archive import warc_reader
from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.segment_log.log_mirror import refuse_mirror
from tarrafa.archive.warc_reader import ArchiveEvent, ArchiveSurvey
from tarrafa.clock import Clock
from tarrafa.crawl.compaction.switch import finish_interrupted
from tarrafa.crawl.rebuild_frontier import HistoryReplay, ReplayClock
from tarrafa.crawl.rebuild_frontier import rebuild as rebuild_frontier
from tarrafa.crawl.rebuild_projection import PROJECTIONS, rebuild_projection
from tarrafa.crawl.verify.archive_repair import ArchiveRepair, RepairLog
from tarrafa.crawl.verify.expected import ExpectedContent
from tarrafa.crawl.verify.findings import Finding, VerifyReport
from tarrafa.crawl.verify.gaps_and_quarantine import ArchivePatches
from tarrafa.crawl.verify.losses import KnownLoss, note_losses
from tarrafa.crawl.verify.verification import ProgressReporter, Verification, silent
from tarrafa.errors import ConfigError
from tarrafa.frontier.replay import FrontierReplay
from tarrafa.model import OLDER_VERSION, UrlId
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory, try_lock
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.sqlite import rows

LOST_VISITS = ("visit-without-record", "response-missing")
BATCH = 500
REPLAYED_VISITS = (
    "SELECT file, start, at FROM visit JOIN replayed USING (id, collection) WHERE NOT deleted AND visit <> ?"
    " ORDER BY at"
)
REPLAYED_NUMBERS = (
    "SELECT url, collection, max(visit) FROM visit JOIN replayed USING (id, collection) WHERE NOT deleted"
    " GROUP BY collection, id"
)
ROUNDS_MAX = 10  # of repairs of the archive
VISITS_OF_URL = "SELECT number, at FROM visit WHERE host = ? AND collection = ? AND id = ? ORDER BY number DESC"
SAME_MOMENT_S = 0.001
REPLAYED = "its visits were replayed by `tarrafa verify --repair`; `tarrafa crawl FILE` goes on where it was"


@dataclass(frozen=True, slots=True)
class RepairResult:
    """What was done, what is left, and the verification afterwards."""

    done: list[str]
    left: list[str]
    report: VerifyReport


def repair(
    data: DataDirectory,
    replica: Path | None,
    progress: ProgressReporter = silent,
    print_line: Callable[[str], None] = lambda line: None,
) -> RepairResult:
    """Mend what can be mended."""
    data.check_version()
    refuse_mirror(data, "a repair")
    if replica is not None and not replica.is_dir():
        raise ConfigError(f"--from {replica}: is no folder")
    log, now = RepairLog(print_line), Clock.from_environment().now()
    with _locked(data):
        finish_interrupted(data)
        if pending := ArchivePatches(data).finish_pending():
            log.add(f"{pending} patches that were interrupted are complete")
        found = _mend_archive(data, replica, progress, log, now)
    with found:
        if not found.findings.counts:
            return RepairResult(log.done, log.left, found.report)
        if found.findings.has("frontier", "store-damaged"):
            _rebuild_frontier(data, progress, log)  # it takes the locks itself
        with _locked(data):
            _mend_frontier(data, found, log, now)
            _rebuild_projections(data, found, progress, log)
    with Verification(data, deep=True, progress=progress) as again:
        report = again.run()
    return RepairResult(log.done, log.left, report)


def _locked(data: DataDirectory) -> ExitStack:
    """The locks of supervisor and frontier."""
    stack = ExitStack()
    for lock in (data.try_lock(), try_lock(data.frontier.with_name(f"{data.frontier.name}.lock"))):
        if lock is None:
            stack.close()
            raise ConfigError(f"{data.root}: a crawl runs here; stop it first (without --repair it may run)")
        stack.enter_context(lock)
    return stack


def _mend_archive(
    data: DataDirectory, replica: Path | None, progress: ProgressReporter, log: RepairLog, now: float
) -> Verification:
    """Mend the archive until nothing more can be mended: right marks may uncover more. The last verification."""
    for rest in reversed(range(ROUNDS_MAX)):
        found = Verification(data, deep=True, progress=progress)
        try:
            found.run()
            log.left.clear()
            if not ArchiveRepair(data, replica, log, now).mend(found) or not rest:
                return found
        except BaseException:
            found.close()
            raise
        found.close()
    raise AssertionError("the last round returns")


def _rebuild_frontier(data: DataDirectory, progress: ProgressReporter, log: RepairLog) -> None:
    made = rebuild_frontier(data, [], None, progress, force=True)
    log.add(f"frontier: rebuilt from {made.visits:,} visits; the damaged one is kept as {made.aside}")


# -- the frontier ------------------------------------------------------------------------------------------------------


def _mend_frontier(data: DataDirectory, found: Verification, log: RepairLog, now: float) -> None:
    unknown, lost = list(found.findings.all("record-unknown")), list(found.findings.all(*LOST_VISITS))
    if not data.frontier.exists() or not (unknown or lost):
        return
    past = ReplayClock(0.0, 0.0)
    past.moment[0] = now
    replay = FrontierReplay(str(data.frontier), past, bundled_suffix_list(), is_live=True)
    try:
        if unknown:
            replayed = _replay_unknown(data, replay, past, found.expected, unknown)
            log.add(f"frontier: {replayed:,} visits were replayed from their records")
        past.moment[0] = now
        if lost:
            again = _fetch_again(replay, lost)
            note_losses(data, (KnownLoss(one.kind, one.collection, one.url, one.visit or 0, now) for one in lost))
            older = len(lost) - again
            log.add(f"frontier: {again:,} URLs whose newest record is lost are to be fetched again")
            if older:
                log.leave(f"{older:,} older or failed visits have no record; that is noted in DATA/quarantine")
    finally:
        replay.close()


def _fetch_again(replay: FrontierReplay, lost: Iterable[Finding]) -> int:
    """Make URLs pending whose newest record is lost, or the body that later visits refer to; their number."""
    again = set[tuple[str, UrlId]]()
    for one in lost:
        key, host = url_id(one.url), host_id(host_key(one.url))
        known = replay.store.collections.find(one.collection)
        if known is None or (one.collection, key) in again:
            continue
        with replay.transaction():
            place = (host, known.row.id, key)
            row = replay.store.db.find_url("state, archived", place)
            visits = replay.store.db.rows(VISITS_OF_URL, place)
            is_newest = bool(visits) and visits[0][0] == one.visit
            at = next((at for number, at in visits if number == one.visit), 0.0)
            if row is not None and (is_newest or abs(at - row[1]) < SAME_MOMENT_S):
                replay.store.urls.refetch(known, host, key)
                if replay.store.db.url("state", place) != row[:1]:
                    again.add((one.collection, key))
    return len(again)


def _replay_unknown(
    data: DataDirectory,
    replay: FrontierReplay,
    past: ReplayClock,
    expected: ExpectedContent,
    unknown: Iterable[Finding],
) -> int:
    """Replay the visits that the frontier does not know, in order of time; their number."""
    everything = _choose_replayed(expected, list(unknown))
    survey = warc_reader.survey_archive(data.archive) if everything else ArchiveSurvey()
    history = HistoryReplay(replay, past, survey, {}, 0.0, ArchiveDeletions(data.archive).latest())
    found = rows(expected.connection, REPLAYED_VISITS, (OLDER_VERSION,))
    for first in range(0, len(found), BATCH):
        with replay.transaction():
            for file, start, at in found[first : first + BATCH]:
                entry = warc_reader.read_entry(data.archive, expected.file_name(file), start)
                if entry is not None:
                    history.apply(ArchiveEvent(at, entry.file, entry.record))
            replay.free_hosts()
    with replay.transaction():  # a number that may have been given is never given again
        for url, name, visit in rows(expected.connection, REPLAYED_NUMBERS):
            known = replay.store.collections.by_name(name)
            place = (host_id(host_key(url)), known.row.id, url_id(url))
            replay.store.db.update_url(place, "visits = max(visits, ?)", visit)
        for name in everything:
            replay.store.collections.set_state(name, "paused", REPLAYED)
    return history.visits


def _choose_replayed(expected: ExpectedContent, unknown: list[Finding]) -> list[str]:
    """Note which pages are replayed; the collections of which all are."""
    run = expected.connection.execute
    run("CREATE TABLE replayed (id BLOB, collection TEXT, PRIMARY KEY (id, collection)) WITHOUT ROWID")
    for one in unknown:
        if one.url:
            run("INSERT OR IGNORE INTO replayed VALUES (?, ?)", (url_id(one.url), one.collection))
        else:
            sql = "INSERT OR IGNORE INTO replayed SELECT id, collection FROM visit WHERE collection = ? AND NOT deleted"
            run(sql, (one.collection,))
    return [one.collection for one in unknown if not one.url]


# -- projections -------------------------------------------------------------------------------------------------------


def _rebuild_projections(data: DataDirectory, found: Verification, progress: ProgressReporter, log: RepairLog) -> None:
    """Rebuild those with any finding."""
    wanted = {store for store, _ in found.findings.counts}
    size = sum(one.warc + one.meta for one in found.upto.values())
    for store in (one for one in PROJECTIONS if one in wanted):
        with progress(f"rebuilding {store}", size) as advance:
            rebuild_projection(data, store, advance)
        log.add(f"{store}: rebuilt")
