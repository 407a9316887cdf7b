"""Commits finished visits in groups, a few times a second: archive record, then links, then the end of the visit.

One fsync and one message serve hundreds of visits. The order of durability is the one law: a visit's record is on the
disk, then its links are with the frontier, then the visit is finished at the frontier. Promises: what was recorded
after the lease was lost is never committed; a failure of a session ends the commits.
Knows nothing of fetching or parsing.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.lease_fence import LeaseHolder
from tarrafa.crawl.worker.link_cache import LinkCache
from tarrafa.crawl.worker.outcome import FinishedVisit
from tarrafa.crawl.worker.recorder import VisitRecorder
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.errors import LeaseLost
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import DiscoveredUrl, HostReport, NextVisits, VisitReport
from tarrafa.model import HostId

COMMIT_EVERY_S = 0.2
COMMIT_PAUSE_S = 0.03  # sooner when a session waits for it, but never without a pause
COMMIT_VISITS_MAX = 500  # or when so many visits wait
DISCOVERED_PER_CALL_MAX = 20_000
MESSAGE_BYTES_MAX = 8 << 20
SessionReport = tuple[HostSession, HostReport]


@dataclass(slots=True)
class PendingCommit:
    """What waits for the next commit."""

    finished: list[tuple[HostSession, FinishedVisit]] = field(default_factory=list)
    leaving: list[HostSession] = field(default_factory=list)
    learned: list[tuple[HostSession, list[DiscoveredUrl]]] = field(default_factory=list)  # new rules and sitemaps

    def __bool__(self) -> bool:
        return bool(self.finished or self.leaving or self.learned)

    def discovered(self) -> dict[tuple[int, int], list[DiscoveredUrl]]:
        """All links, by collection and run."""
        found: defaultdict[tuple[int, int], list[DiscoveredUrl]] = defaultdict(list)
        for session, some in [*self.learned, *((session, done.discovered) for session, done in self.finished)]:
            found[session.lease.collection, session.lease.run] += some
        return found

    def build_reports(self) -> list[SessionReport]:
        """One report per host that something happened on, as things stand now: the sessions go on meanwhile."""
        visits: defaultdict[HostId, list[VisitReport]] = defaultdict(list)
        touched: Iterable[HostSession] = (
            *(session for session, _ in self.learned),
            *self.leaving,
            *(session for session, _ in self.finished),
        )
        sessions = {session.lease.host: session for session in touched if not session.released}  # else not ours
        gone = {session.lease.host for session in self.leaving if not session.released}
        for session, done in self.finished:
            visits[session.lease.host].append(VisitReport(done.visit.id, done.visit.number, done.record.outcome))
        return [
            (session, session.build_report(visits[host], keep=host not in gone)) for host, session in sessions.items()
        ]


class Committer:
    """Takes what the host sessions have finished. `on_released` hears of sessions whose host is no longer ours,
    `on_reported` of every report that the frontier has taken."""

    def __init__(
        self,
        name: str,
        frontier: Frontier,
        lease: LeaseHolder,
        collections: WorkerCollections,
        recorder: VisitRecorder,
        link_cache: LinkCache,
        stats: WorkerStats,
        on_released: Callable[[HostSession], None],
        on_reported: Callable[[HostReport], None] = lambda report: None,
    ) -> None:
        self._name, self._frontier, self._lease, self._collections = name, frontier, lease, collections
        self._recorder, self._link_cache, self._stats = recorder, link_cache, stats
        self._on_released, self._on_reported = on_released, on_reported
        self._pending = PendingCommit()
        self._wake = asyncio.Event()
        self._closing = False
        self._failure: BaseException | None = None

    # -- what sessions hand over -------------------------------------------------------------------------------

    def record_visit(self, session: HostSession, done: FinishedVisit) -> None:
        if not self._lease.holds_lease():
            return  # its host may be with another worker, which makes this visit
        done = self._recorder.record_visit(session, done)
        self._stats.count_visit(done.record)
        self._pending.finished.append((session, done))
        if len(self._pending.finished) >= COMMIT_VISITS_MAX:
            self._wake.set()

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None:
        """Recorded if it is new: only so are sitemaps known if the frontier is lost."""
        unknown = self._link_cache.filter_new(session.lease.collection, sitemaps, session.lease.run)
        if session.robots.new_copy is not None or unknown:
            self._recorder.record_host(session, unknown)
        self._pending.learned.append((session, sitemaps))

    def archive_robots(self, request: FetchRequest, response: FetchResponse) -> None:
        if response.raw_head and self._lease.holds_lease():
            self._recorder.record_robots(request, response)

    def release_host(self, session: HostSession) -> None:
        if not session.released:  # else the host may be with another worker by now, even with us
            self._pending.leaving.append(session)

    def request_commit(self) -> None:
        self._wake.set()

    def session_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Commit nothing more: `run` raises the error."""
        self._failure = error
        self._wake.set()

    # -- the commits -------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Commit again and again until closed."""
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), COMMIT_EVERY_S)
            self._wake.clear()
            self._collections.reload_takedowns()
            if self._failure is not None:
                raise self._failure
            if self._pending:
                await self.commit()
                await asyncio.sleep(COMMIT_PAUSE_S)

    def close(self) -> None:
        """Let `run` end; a commit that is under way comes to its end."""
        self._closing = True
        self._wake.set()

    async def commit(self) -> None:
        """Durable record, then links, then the end of the visit; all of it only while we hold what we speak of."""
        if not self._lease.holds_lease():
            raise LeaseLost(f"worker {self._name} was stopped, or too slow, for longer than its lease")
        pending, self._pending = self._pending, PendingCommit()
        discovered, reports = pending.discovered(), pending.build_reports()
        await asyncio.to_thread(self._recorder.seal())
        if not self._lease.holds_lease():
            raise LeaseLost(f"worker {self._name} could not write for longer than its lease")
        await self._deliver(discovered)
        for part in split_into_messages(reports):
            answers = await self._frontier.finish(self._lease.worker, [report for _, report in part])
            for (session, report), answer in zip(part, answers, strict=True):
                self._continue(session, report, answer)

    def _continue(self, session: HostSession, report: HostReport, answer: NextVisits) -> None:
        if not session.released:
            session.continue_with(len(report.reports), answer)
            if session.released:
                self._on_released(session)
        self._on_reported(report)

    async def _deliver(self, discovered: dict[tuple[int, int], list[DiscoveredUrl]]) -> None:
        for (collection, run), some in discovered.items():
            new = self._link_cache.filter_new(collection, some, run)
            for start in range(0, len(new), DISCOVERED_PER_CALL_MAX):
                await self._frontier.discover(collection, new[start : start + DISCOVERED_PER_CALL_MAX])
            self._link_cache.remember(collection, new, run)


def split_into_messages(reports: list[SessionReport]) -> Iterator[list[SessionReport]]:
    """So many reports that a message stays small, robots.txt texts and all."""
    part: list[SessionReport] = []
    size = 0
    for session, report in reports:
        part.append((session, report))
        size += 1000 * (1 + len(report.reports)) + len(report.robots.text if report.robots else b"")
        if size > MESSAGE_BYTES_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part
