"""Builds the reports of a commit, one for each host, and splits them into messages for the frontier."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.outcome import FinishedVisit
from tarrafa.frontier.messages import HostReport, VisitReport
from tarrafa.model import HostId

MESSAGE_BYTES_MAX = 8 << 20
SessionReport = tuple[HostSession, HostReport]


def build_host_reports(
    finished: list[tuple[HostSession, FinishedVisit]], leaving: list[HostSession], learned: Iterable[HostSession]
) -> list[SessionReport]:
    """One report per host that something happened on, as things stand now: the walks go on meanwhile."""
    visits: defaultdict[HostId, list[VisitReport]] = defaultdict(list)
    touched = (*learned, *leaving, *(walk for walk, _ in finished))
    walks = {walk.lease.host: walk for walk in touched if not walk.released}  # else it is somebody's, maybe ours
    gone = {walk.lease.host for walk in leaving if not walk.released}
    for walk, done in finished:
        visits[walk.lease.host].append(VisitReport(done.visit.id, done.visit.number, done.record.outcome))
    return [(walk, _build_host_report(walk, visits[host], keep=host not in gone)) for host, walk in walks.items()]


def _build_host_report(walk: HostSession, visits: list[VisitReport], *, keep: bool) -> HostReport:
    robots, walk.new_robots = walk.new_robots, None
    return HostReport(
        walk.lease.host,
        walk.lease.collection,
        visits,
        walk.next_at,
        walk.ended_at,
        walk.delay_s,
        keep=keep,
        wanted=walk.wanted,
        failures=walk.failures,
        robots=robots,
        memory=walk.trap_memory.encode_if_changed() if not keep or not walk.queue else None,
        trouble=walk.trouble,
        run=walk.lease.run,
    )


def split_into_messages(batch: list[SessionReport]) -> Iterator[list[SessionReport]]:
    """So many reports that a message stays small, robots.txt texts and all."""
    part: list[SessionReport] = []
    size = 0
    for walk, report in batch:
        part.append((walk, report))
        size += 1000 * (1 + len(report.reports)) + len(report.robots.text if report.robots else b"")
        if size > MESSAGE_BYTES_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part
