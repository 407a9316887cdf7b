"""Merges the report parts of several machines into one.

Pure: takes parts and returns one part. Promises: visits divided over machines add up to those of one archive: names are
numbered again, the newest visit of a URL counts wherever it was made, the newest robots.txt, Server header and
configuration are used, and a deletion recorded by one machine holds for all. Storage, indexed documents and statements
are sums; a page that two machines have indexed counts twice. Each link graph holds the links on its machine's own
pages, and which of its own URLs are dead. So dead URLs are a sum, and so are links with both ends on one machine; the
number of different URLs mentioned in all of them is unknown.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import add

import numpy as np
from numpy.typing import NDArray

from tarrafa.graph.link_statistics import GraphStatistics, LinkedUrl
from tarrafa.report.distributed.local_part import ReportPart
from tarrafa.report.schema import StoragePart
from tarrafa.report.visit_rows import (
    REDIRECTS_MAX,
    LatestRedirect,
    NameInterner,
    RobotsSummary,
    Rows,
    RowStore,
    ServerHeader,
    VisitRows,
    keep_latest,
    keep_newest,
)

ROWS_AT_ONCE = 1 << 16
HOSTS_MAX = 1 << 31
LISTED = 10


def merge_parts(portions: Sequence[ReportPart]) -> ReportPart:
    if len(portions) == 1:
        return portions[0]
    return ReportPart(
        _merge_visits([one.visits for one in portions]),
        _merge_storage([one.storage for one in portions]),
        _sum(one.indexed for one in portions),
        _sum(one.statements for one in portions),
        _merge_graphs([one.graph for one in portions if one.graph is not None]),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _merge_visits(parts: Sequence[VisitRows]) -> VisitRows:
    hosts, types, languages, charsets, collectors = (
        NameInterner(HOSTS_MAX),
        NameInterner(),
        NameInterner(),
        NameInterner(),
        NameInterner(),
    )
    software, rules, sitemaps = dict[int, ServerHeader](), dict[str, RobotsSummary](), set[str]()
    names, runs, deletions = dict[str, float](), dict[int, float](), dict[str, float]()
    deleted = max(part.deleted for part in parts)
    moved, whole = _merge_redirects(parts)
    with RowStore() as store:
        for part in parts:
            numbers = {
                "host": _renumber_names(hosts, part.hosts),
                "type": _renumber_names(types, part.types),
                "language": _renumber_names(languages, part.languages),
                "charset": _renumber_names(charsets, part.charsets),
                "collector": _renumber_names(collectors, part.collectors),
            }
            for begin in range(0, len(part.rows), ROWS_AT_ONCE):
                store.add_rows(_renumber_rows(part.rows[begin : begin + ROWS_AT_ONCE], numbers, deleted))
            for host, server in part.software.items():
                keep_newest(software, int(numbers["host"][host]), server)
            for key, rule in part.rules.items():
                keep_newest(rules, key, rule)
            sitemaps |= part.sitemaps
            for name, at in part.names.items():
                keep_latest(names, name, at)
            for run, at in part.runs.items():
                keep_latest(runs, run, at)
            for name, at in part.deletions.items():
                keep_latest(deletions, name, at)
        rows = store.all()
    return VisitRows(
        rows, hosts.names, types.names, languages.names, charsets.names, collectors.names, software, rules, sitemaps,
        moved, whole, max((part.config for part in parts), key=lambda config: config[0]),
        names, runs, deletions, deleted, sum(part.recorded for part in parts),
    )  # fmt: skip


def _renumber_names(table: NameInterner, names: list[str]) -> NDArray[np.int64]:
    return np.array([table.number(name) for name in names], np.int64)


def _renumber_rows(rows: Rows, numbers: dict[str, NDArray[np.int64]], deleted: float) -> Rows:
    own = np.array(rows[rows["at"] > deleted])
    if len(own):
        for column, number in numbers.items():
            own[column] = number[own[column]]
    return own


def _merge_redirects(parts: Sequence[VisitRows]) -> tuple[dict[int, LatestRedirect], bool]:
    """The newest redirect of each URL; and whether these are all."""
    found, whole = dict[int, LatestRedirect](), all(part.moved_whole for part in parts)
    for part in parts:
        for key, one in part.moved.items():
            before = found.get(key)
            if before is None and len(found) >= REDIRECTS_MAX:
                whole = False
            elif before is None or before.visit < one.visit:
                found[key] = one
    return found, whole


def _merge_storage(machines: Sequence[list[StoragePart]]) -> list[StoragePart]:
    kinds: dict[tuple[str, str], int] = {}
    for parts in machines:
        for part in parts:
            kinds[part.name, part.kind] = kinds.get((part.name, part.kind), 0) + part.bytes
    return [StoragePart(name, kind, size) for (name, kind), size in kinds.items()]


def _merge_graphs(graphs: Sequence[GraphStatistics]) -> GraphStatistics | None:
    if len(graphs) < 2:
        return graphs[0] if graphs else None
    spread: dict[int, int] = {}
    for graph in graphs:
        for links, pages in graph.in_links:
            spread[links] = spread.get(links, 0) + pages
    return GraphStatistics(
        max(graph.urls for graph in graphs), sum(graph.links for graph in graphs),
        sum(graph.links_followed for graph in graphs), sorted(spread.items()),
        sum(graph.dead_urls for graph in graphs), sum(graph.dead_links for graph in graphs),
        _most((one for graph in graphs for one in graph.most_wanted), add),
        _most((one for graph in graphs for one in graph.pages_worst), max),
    )  # fmt: skip


def _most(listed: Iterable[LinkedUrl], together: Callable[[int, int], int]) -> list[LinkedUrl]:
    """`together`: adds the links of a URL that two machines list."""
    found: dict[str, LinkedUrl] = {}
    for one in listed:
        before = found.get(one.url)
        found[one.url] = one if before is None else LinkedUrl(one.url, together(before.links, one.links), one.status)
    return sorted(found.values(), key=lambda one: (-one.links, one.url))[:LISTED]
