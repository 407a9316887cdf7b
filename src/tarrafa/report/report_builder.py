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
from functools import partial
from math import inf

from msgspec.structs import replace

from tarrafa import __version__, config
from tarrafa.config import Collection
from tarrafa.config.sections import PolitenessConfig
from tarrafa.crawl.scope.collection_loader import public_suffixes_of
from tarrafa.crawl.worker.fetcher import user_agent
from tarrafa.errors import ConfigError
from tarrafa.frontier.address import Address
from tarrafa.frontier.collection_status import shown_state
from tarrafa.graph.dead_links_and_inlinks import GraphStatistics
from tarrafa.i18n import message
from tarrafa.index.index_state import PagesByFate
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
from tarrafa.report.faithfulness import requisite_summary
from tarrafa.report.frontier_facts import ReportFrontierFacts, read_frontier_facts
from tarrafa.report.schema import (
    REPORT_FORMAT,
    CollectionReport,
    DeadLink,
    DeadLinks,
    MachineStorage,
    MachineUsage,
    NamedCount,
    ResponseStatusCount,
    UrlCounts,
)
from tarrafa.report.tables import ReportTables, summarize_redirects
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
        raise ConfigError(message("the period ends before it begins: --until must be later than --since"))
    facts = asyncio.run(read_frontier_facts(data, name, address))
    agent = user_agent(facts.config) if facts.config is not None else PolitenessConfig().user_agent
    request = PartRequest(name, agent[:TEXT_CHARS_MAX], _not_negative(since), _not_negative(until), run)
    own, remote = _gather(data, request, others, progress)
    parts = {"": own, **remote.parts}
    report = _count(request, facts, parts)
    report = replace(
        report,
        since=since,
        until=until,
        machines=list(machines) if machines is not None else [MachineUsage("", local_measurements.this_machine(data))],
        search=local_measurements.search_times(data, name) if search and own.index else [],
        storage_by_machine=[MachineStorage(node, one.storage) for node, one in parts.items()] if remote.parts else [],
        missing=remote.missing,
    )
    report.notes.extend(_notes(report))
    return report if earlier is None else replace(report, comparison=compare_reports(earlier, report))


def _count(request: PartRequest, facts: ReportFrontierFacts, parts: dict[str, ReportPart]) -> CollectionReport:
    """The report of the parts; without the machines, their storage and search times."""
    whole, name, status = merge_parts(list(parts.values())), request.name, facts.status
    visits, graph = whole.visits, whole.graph
    _check(name, facts, visits, request.run)
    settings = facts.config or _archived_config(visits.config[1]) or Collection(name=name)
    site = public_suffixes_of(settings).site
    tables = ReportTables(visits, lambda key: site(key.partition("://")[2].rpartition(":")[0]))
    visits_elsewhere = _visits_elsewhere(facts, visits, request)
    several_graphs = sum(one.graph is not None for one in parts.values()) > 1
    responses, (types, types_distinct) = tables.responses(), tables.types()
    return CollectionReport(
        REPORT_FORMAT, name, facts.now, __version__, run=request.run,
        state=shown_state(status) if status is not None else "",
        reason=str(status.reason) if status is not None else "", order=settings.strategy.order, work=tables.work(),
        links=_links(facts, tables, None if several_graphs else graph, whole.index, request), responses=responses,
        unvisited=[] if request.is_limited else _unvisited(facts),
        not_kept=[] if request.is_limited else _not_kept(facts), types=types,
        types_distinct=types_distinct, servers=tables.servers(), sizes=tables.sizes(), depths=tables.depths(),
        languages=tables.languages(), domains=tables.domains(settings), charsets=tables.charsets(),
        reserved_uses=tables.reserved_uses(), software=tables.software(), robots=tables.robots(), dead=_dead(graph),
        redirects=summarize_redirects(visits, tables.documents),
        requisites=requisite_summary(visits, tables.documents), collectors=tables.collectors(),
        timeline=tables.timeline(), waits=tables.waits(), answers=tables.answers(),
        internal_links=tables.internal_links(), outgoing_links=tables.outgoing_links(),
        degrees=tables.degrees(graph.in_links if graph is not None else []),
        cycles=tables.cycles(settings.strategy.cycle) if settings.strategy.order == "breadth" else [],
        storage=whole.storage, shared_with=len({*facts.others, *visits.collections()} - {name}),
        freshness=facts.freshness, statements=whole.statements, visits_elsewhere=visits_elsewhere,
    )  # fmt: skip


def _not_negative(moment: float | None) -> float | None:
    return None if moment is None else max(moment, 0.0)


def _gather(
    data: DataDirectory, request: PartRequest, others: RequestRemoteParts | None, progress: Progress
) -> tuple[ReportPart, RemoteParts]:
    """The part of this machine and, in parallel, those of others."""
    if others is None:
        return gather_local_part(data, request, progress), RemoteParts()
    bytes_read, lock = {"here": (0, 0), "elsewhere": (0, 0)}, threading.Lock()

    def add_progress(where: str, done: int, total: int) -> None:
        with lock:
            bytes_read[where] = (done, total)
            progress(sum(done for done, _ in bytes_read.values()), sum(total for _, total in bytes_read.values()))

    pending = others(request, partial(add_progress, "elsewhere"))
    try:
        return gather_local_part(data, request, partial(add_progress, "here")), pending.wait()
    finally:
        pending.stop()


def _check(name: str, facts: ReportFrontierFacts, visits: VisitRows, run: int | None) -> None:
    if facts.status is None and name not in visits.collections():
        others = ", ".join(sorted({*facts.others, *visits.collections()})) or "none"
        raise ConfigError(message("no collection is named {name!r} (there are: {others})", name=name, others=others))
    if run is not None and run not in visits.runs_made():
        runs = ", ".join(map(str, sorted(visits.runs_made()))) or "none"
        raise ConfigError(
            message("{name}: there is no run {run} with visits (there are: {runs})", name=name, run=str(run), runs=runs)
        )


def _archived_config(content: bytes) -> Collection | None:
    """The configuration as stored in the archive."""
    with contextlib.suppress(ConfigError):
        return config.decode_collection(content) if content else None
    return None


def _links(
    facts: ReportFrontierFacts,
    tables: ReportTables,
    graph: GraphStatistics | None,
    index: PagesByFate | None,
    request: PartRequest,
) -> UrlCounts:
    kept, status = len(tables.documents), facts.status
    cut, cut_text = tables.cut()
    mentioned = graph.urls if graph is not None else None
    found = UrlCounts(mentioned, None, tables.accessed(), kept, cut=cut, cut_text=cut_text)
    if index is not None:
        found = replace(found, indexed=index.indexed)
    if index is not None and not request.is_limited:  # else the index has more than this report is about
        missing = kept - index.indexed - index.noindex - index.taken_down
        found = replace(
            found,
            noindex=index.noindex,
            taken_down=index.taken_down,
            waiting=max(0, missing),
            no_longer_kept=max(0, -missing),
        )
    if status is None:
        return found
    return replace(
        found, discovered=status.known, pending=status.queue, failed=status.failed, dropped=status.dropped,
        excluded=status.excluded, too_deep=status.too_deep, passed_over=status.passed_over, aside=status.aside,
    )  # fmt: skip


def _visits_elsewhere(facts: ReportFrontierFacts, visits: VisitRows, request: PartRequest) -> int:
    """A lower bound of the visits that the frontier knows of and that are in no archive that was read. The frontier is
    asked first, and a visit is archived before it is finished.
    """
    if facts.status is None or (request.is_limited and visits.deleted > -inf):
        return 0  # unknown
    read = visits.recorded if visits.deleted == -inf else len(visits.rows)
    return max(0, facts.status.visits - read)


def _unvisited(facts: ReportFrontierFacts) -> list[ResponseStatusCount]:
    """URLs that the frontier has refused without a visit."""
    refused = facts.status.refused if facts.status is not None else {}
    counts, total = sorted((int(code), count) for code, count in refused.items()), sum(refused.values())
    return [ResponseStatusCount(code, count, count / total) for code, count in counts]


def _not_kept(facts: ReportFrontierFacts) -> list[NamedCount]:
    """URLs that are settled and not kept, by cause."""
    causes = facts.status.unkept_by_cause() if facts.status is not None else []
    total = sum(count for _, count in causes)
    return [NamedCount(cause, count, count / total) for cause, count in causes]


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
    notes = (
        (NO_FRONTIER, report.links.discovered is None), (WITHOUT, bool(report.missing)),
        (ELSEWHERE, report.visits_elsewhere > 0), (SEVERAL, bool(report.storage_by_machine)),
        (NO_GRAPH, report.dead is None), (NO_INDEX, report.links.indexed is None),
        (NO_BUSY, all(one.busy is None for one in report.machines)), (GRAPH_IS_NOW, limited),
        (SHARED, report.shared_with > 0), (CUT_REDIRECTS, not report.redirects.whole),
    )  # fmt: skip
    return [name for name, holds in notes if holds]
