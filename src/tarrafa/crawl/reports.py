"""What does the frontier hear of what happened on a worker's hosts?"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from tarrafa.crawl.host import Walk
from tarrafa.crawl.visit import Finished
from tarrafa.frontier.protocol import HostReport, Report
from tarrafa.model import HostId

MESSAGE_BYTES = 8 << 20
Told = tuple[Walk, HostReport]


def reports(finished: list[tuple[Walk, Finished]], leaving: list[Walk], learned: Iterable[Walk]) -> list[Told]:
    """One report per host that something happened on, as things stand now: the walks go on meanwhile."""
    visits: defaultdict[HostId, list[Report]] = defaultdict(list)
    touched = (*learned, *leaving, *(walk for walk, _ in finished))
    walks = {walk.lease.host: walk for walk in touched if not walk.released}  # else it is somebody's, maybe ours
    gone = {walk.lease.host for walk in leaving if not walk.released}
    for walk, done in finished:
        visits[walk.lease.host].append(Report(done.visit.id, done.visit.number, done.record.outcome))
    return [(walk, _report(walk, visits[host], keep=host not in gone)) for host, walk in walks.items()]


def _report(walk: Walk, visits: list[Report], *, keep: bool) -> HostReport:
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
        memory=walk.memory.news() if not keep or not walk.queue else None,
        trouble=walk.trouble,
        run=walk.lease.run,
    )


def parts(batch: list[Told]) -> Iterator[list[Told]]:
    """So many reports that a message stays small, robots.txt texts and all."""
    part: list[Told] = []
    size = 0
    for walk, report in batch:
        part.append((walk, report))
        size += 1000 * (1 + len(report.reports)) + len(report.robots.text if report.robots else b"")
        if size > MESSAGE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part
