"""Builds a report from the archive, frontier, graph and index of this machine and of other nodes.

One pass over the archive, a few queries to frontier, graph, index and triple store, and the sizes of the files; in
parallel, the same from the nodes of other machines. Promises: nothing is changed; a missing source (a graph, an index,
a frontier, a node) is left out, and `notes` holds the name of a sentence about it. The crawl may continue meanwhile:
each source is read as it is at its moment.
"""

import asyncio
import contextlib
import threading
from collections.abc import Sequence
from functools import lru_cache
from math import inf

from tarrafa import __version__, config
from tarrafa.config import Collection
from tarrafa.config.sections import PolitenessConfig
from tarrafa.crawl.worker.http_exchange import user_agent
from tarrafa.errors import ConfigError
from tarrafa.fetch.suffix_list import bundled_suffix_list
from tarrafa.frontier.address import Address
from tarrafa.graph.link_statistics import GraphStatistics
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.report import local_measurements
from tarrafa.report.comparison import compare_reports
from tarrafa.report.distributed.local_part import (
    PartRequest,
    Progress,
    RemoteParts,
    ReportPart,
    RequestRemoteParts,
    gather_local_part,
)
from tarrafa.report.distributed.part_merge import merge_parts
from tarrafa.report.frontier_facts import ReportFrontierFacts, read_frontier_facts
from tarrafa.report.redirect_summary import summarize_redirects
from tarrafa.report.schema import (
    REPORT_FORMAT,
    CollectionReport,
    DeadLink,
    DeadLinks,
    MachineStorage,
    MachineUsage,
    ResponseStatusCount,
    UrlCounts,
)
from tarrafa.report.tables import ReportTables
from tarrafa.report.visit_rows import VisitRows
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import TEXT_CHARS_MAX

NO_FRONTIER, NO_GRAPH, NO_INDEX, NO_BUSY = "no_frontier", "no_graph", "no_index", "no_busy"
GRAPH_IS_NOW, SHARED, CUT_REDIRECTS = "graph_is_now", "shared", "cut_redirects"
WITHOUT, ELSEWHERE, SEVERAL = "without", "elsewhere", "several"


def build_report(
    data: DataDirectory,
    name: str,
    *,
    since: float | None = None,
    until: float | None = None,
    run: int | None = None,
    machines: Sequence[MachineUsage] | None = None,
    earlier: CollectionReport | None = None,
    address: Address | None = None,
    others: RequestRemoteParts | None = None,
    search: bool = True,
    progress: Progress = lambda done, total: None,
) -> CollectionReport:
    """The report of a collection, of one run or a period. `machines`: as sampled during the crawl; else this one.
    `others` requests the parts of other machines.

    Blocks while the archives are read; not to be called on an event loop.
    """
    data.check_version()
    if since is not None and until is not None and until <= since:
        raise ConfigError("the period ends before it begins: --until must be later than --since")
    known = asyncio.run(read_frontier_facts(data, name, address))
    agent = user_agent(known.config) if known.config is not None else PolitenessConfig().user_agent
    asked = PartRequest(name, agent[:TEXT_CHARS_MAX], _not_negative(since), _not_negative(until), run)
    own, elsewhere = _gather(data, asked, others, progress)
    portions = {"": own, **elsewhere.portions}
    by_machine = [MachineStorage(node, one.storage) for node, one in portions.items()] if len(portions) > 1 else []
    several_graphs = sum(one.graph is not None for one in portions.values()) > 1
    whole = merge_parts(list(portions.values()))
    visits, graph = whole.visits, whole.graph
    _check(name, known, visits, run)
    settings = known.config or _archived_config(visits.config[1]) or Collection(name=name)
    site = _suffixes(tuple(settings.network.suffixes)).site
    counting = ReportTables(visits, lambda key: site(key.partition("://")[2].rpartition(":")[0]))
    astray = _visits_elsewhere(known, visits, asked)
    responses, (types, distinct) = counting.responses(), counting.types()
    status = known.status
    report = CollectionReport(
        REPORT_FORMAT,
        name,
        known.now,
        __version__,
        since,
        until,
        run,
        status.state if status is not None else "",
        str(status.reason) if status is not None else "",
        settings.strategy.order,
        list(machines) if machines is not None else [MachineUsage("", local_measurements.this_machine(data))],
        counting.work(),
        _links(known, counting, None if several_graphs else graph, whole.indexed),
        responses,
        [] if asked.is_limited or astray else _unvisited(known, responses),
        types,
        distinct,
        counting.servers(),
        counting.sizes(),
        counting.depths(),
        counting.languages(),
        counting.domains(settings),
        counting.charsets(),
        counting.software(),
        counting.robots(),
        _dead(graph),
        summarize_redirects(visits, counting.documents),
        counting.collectors(),
        counting.timeline(),
        counting.waits(),
        counting.answers(),
        counting.internal_links(),
        counting.outgoing_links(),
        counting.degrees(graph.in_links if graph is not None else []),
        counting.cycles(settings.strategy.cycle) if settings.strategy.order == "breadth" else [],
        whole.storage,
        len({*known.others, *visits.collections()} - {name}),
        local_measurements.search_times(data, name) if search and own.indexed else [],
        known.freshness,
        whole.statements,
        storage_by_machine=by_machine,
        missing=elsewhere.missing,
        visits_elsewhere=astray,
    )
    report.notes.extend(_notes(report))
    return report if earlier is None else _compared(report, earlier)


def _not_negative(moment: float | None) -> float | None:
    return None if moment is None else max(moment, 0.0)


@lru_cache(maxsize=4)
def _suffixes(extra: tuple[str, ...]) -> PublicSuffixes:
    return PublicSuffixes(bundled_suffix_list(), extra)


def _compared(report: CollectionReport, earlier: CollectionReport) -> CollectionReport:
    from msgspec.structs import replace

    return replace(report, comparison=compare_reports(earlier, report))


def _gather(
    data: DataDirectory, asked: PartRequest, others: RequestRemoteParts | None, progress: Progress
) -> tuple[ReportPart, RemoteParts]:
    """The part of this machine and, in parallel, those of others."""
    if others is None:
        return gather_local_part(data, asked, progress), RemoteParts()
    read = _BothProgress(progress)
    asking = others(asked, lambda done, total: read.tell(1, done, total))
    try:
        return gather_local_part(data, asked, lambda done, total: read.tell(0, done, total)), asking.wait()
    finally:
        asking.stop()


class _BothProgress:
    """The joint progress of both."""

    def __init__(self, progress: Progress) -> None:
        self._progress, self._lock = progress, threading.Lock()
        self._parts = [(0, 0), (0, 0)]  # here, elsewhere

    def tell(self, which: int, done: int, total: int) -> None:
        with self._lock:
            self._parts[which] = (done, total)
            self._progress(sum(part[0] for part in self._parts), sum(part[1] for part in self._parts))


def _check(name: str, known: ReportFrontierFacts, visits: VisitRows, run: int | None) -> None:
    if known.status is None and name not in visits.collections():
        others = ", ".join(sorted({*known.others, *visits.collections()})) or "none"
        raise ConfigError(f"no collection is named {name!r} (there are: {others})")
    if run is not None and run not in visits.runs_made():
        runs = ", ".join(map(str, sorted(visits.runs_made()))) or "none"
        raise ConfigError(f"{name}: there is no run {run} with visits (there are: {runs})")


def _archived_config(content: bytes) -> Collection | None:
    """The configuration as stored in the archive."""
    with contextlib.suppress(ConfigError):
        return config.decode_collection(content) if content else None
    return None


def _links(
    known: ReportFrontierFacts, counting: ReportTables, graph: GraphStatistics | None, indexed: int | None
) -> UrlCounts:
    status = known.status
    found = UrlCounts(
        graph.urls if graph is not None else None, None, counting.accessed(), len(counting.documents), indexed
    )
    if status is None:
        return found
    return UrlCounts(
        found.mentioned, status.known, found.accessed, found.kept, indexed, status.pending + status.handed_out,
        status.failed, status.excluded, status.too_deep, status.passed_over,
    )  # fmt: skip


def _visits_elsewhere(known: ReportFrontierFacts, visits: VisitRows, asked: PartRequest) -> int:
    """A lower bound of the visits that the frontier knows of and that are in no archive that was read. The frontier is
    asked first, and a visit is archived before it is finished.
    """
    if known.status is None or (asked.is_limited and visits.deleted > -inf):
        return 0  # unknown
    read = visits.recorded if visits.deleted == -inf else len(visits.rows)
    return max(0, known.status.visits - read)


def _unvisited(known: ReportFrontierFacts, responses: list[ResponseStatusCount]) -> list[ResponseStatusCount]:
    """URLs that the frontier has settled without a record in the archive. The frontier is asked first, so a visit made
    meanwhile does not count here.
    """
    statuses = {int(code): count for code, count in (known.status.statuses if known.status is not None else {}).items()}
    visited = {one.status: one.count for one in responses}
    more = {code: count - visited.get(code, 0) for code, count in statuses.items()}
    total = sum(count for count in more.values() if count > 0) or 1
    return [ResponseStatusCount(code, count, count / total) for code, count in sorted(more.items()) if count > 0]


def _dead(graph: GraphStatistics | None) -> DeadLinks | None:
    if graph is None:
        return None
    return DeadLinks(
        graph.dead_urls,
        graph.dead_links,
        graph.dead_links / graph.links_followed if graph.links_followed else 0.0,
        [DeadLink(one.url, one.links, one.status) for one in graph.most_wanted],
        [DeadLink(one.url, one.links) for one in graph.pages_worst],
    )


def _notes(report: CollectionReport) -> list[str]:
    limited = (report.since, report.until, report.run) != (None, None, None)
    told = (
        (NO_FRONTIER, report.links.discovered is None), (WITHOUT, bool(report.missing)),
        (ELSEWHERE, report.visits_elsewhere > 0), (SEVERAL, bool(report.storage_by_machine)),
        (NO_GRAPH, report.dead is None), (NO_INDEX, report.links.indexed is None),
        (NO_BUSY, all(one.busy is None for one in report.machines)), (GRAPH_IS_NOW, limited),
        (SHARED, report.shared_with > 0), (CUT_REDIRECTS, not report.redirects.whole),
    )  # fmt: skip
    return [name for name, holds in told if holds]
