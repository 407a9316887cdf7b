"""Merges the report parts of several machines into one.

Pure: takes parts and returns one part. Promises: visits divided over machines add up to those of one archive: names are
numbered again, the newest visit of a URL counts wherever it was made, the newest robots.txt, Server header and
configuration are used, and a deletion recorded by one machine holds for all. Storage, indexed documents and statements
are sums; a page that two machines have indexed counts twice. Each link graph holds the links on its machine's own
pages, and which of its own URLs are dead. So dead URLs are a sum, and so are links with both ends on one machine; the
number of different URLs mentioned in all of them is unknown.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from operator import add

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from tarrafa.graph.dead_links_and_inlinks import GraphStatistics, LinkedUrl
from tarrafa.index.index_state import PagesByFate
from tarrafa.report.distributed.local_part import ReportPart
from tarrafa.report.schema import StoragePart
from tarrafa.report.visit_rows import NAME_TABLES, NEED_ROW, Rows, RowStore, VisitRows, keep_latest, keep_newest

ROWS_AT_ONCE = 1 << 16
LISTED = 10


def merge_parts(parts: Sequence[ReportPart]) -> ReportPart:
    if len(parts) == 1:
        return parts[0]
    return ReportPart(
        _merge_visits([part.visits for part in parts]),
        _merge_storage([part.storage for part in parts]),
        _merge_indexes([part.index for part in parts if part.index is not None]),
        _sum(part.statements for part in parts),
        _merge_graphs([part.graph for part in parts if part.graph is not None]),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _merge_indexes(parts: Sequence[PagesByFate]) -> PagesByFate | None:
    if not parts:
        return None
    counts = zip(*(astuple(part)[1:] for part in parts), strict=True)
    return PagesByFate(parts[0].collection, *map(sum, counts))


def _merge_visits(parts: Sequence[VisitRows]) -> VisitRows:
    merged = VisitRows(
        moved_whole=all(part.moved_whole for part in parts),
        config=max((part.config for part in parts), key=lambda config: config[0]),
        deleted=max(part.deleted for part in parts),
        recorded=sum(part.recorded for part in parts),
        needs_whole=all(part.needs_whole for part in parts),
    )
    interners = merged.interners()
    with RowStore() as store, RowStore() as requisites, RowStore(kind=NEED_ROW) as needs:
        for part in parts:
            numbers = {
                column: np.array([interners[column].number(name) for name in getattr(part, table)], np.int64)
                for column, table in NAME_TABLES.items()
            }
            for rows, kept in ((part.rows, store), (part.requisites, requisites)):
                for begin in range(0, len(rows), ROWS_AT_ONCE):
                    kept.add_rows(_renumber_rows(rows[begin : begin + ROWS_AT_ONCE], numbers, merged.deleted))
            for begin in range(0, len(part.needs), ROWS_AT_ONCE):
                needs.add_rows(np.array(part.needs[begin : begin + ROWS_AT_ONCE]))
            for host, server in part.software.items():
                keep_newest(merged.software, int(numbers["host"][host]), server)
            _merge_notes(merged, part)
        merged.rows, merged.requisites, merged.needs = store.all(), requisites.all(), needs.all()
    return merged


def _merge_notes(merged: VisitRows, part: VisitRows) -> None:
    for key, rule in part.rules.items():
        keep_newest(merged.rules, key, rule)
    merged.sitemaps |= part.sitemaps
    for url, redirect in part.moved.items():
        merged.add_redirect(url, redirect)
    for name, at in part.names.items():
        keep_latest(merged.names, name, at)
    for run, at in part.runs.items():
        keep_latest(merged.runs, run, at)
    for name, at in part.deletions.items():
        keep_latest(merged.deletions, name, at)


def _renumber_rows(rows: Rows, numbers: dict[str, NDArray[np.int64]], deleted: float) -> Rows:
    own = np.array(rows[rows["at"] > deleted])
    if len(own):
        for column, number in numbers.items():
            own[column] = number[own[column]]
    return own


def _merge_storage(machines: Sequence[list[StoragePart]]) -> list[StoragePart]:
    sizes: Counter[tuple[str, str]] = Counter()
    for part in chain.from_iterable(machines):
        sizes[part.name, part.kind] += part.bytes
    return [StoragePart(name, kind, size) for (name, kind), size in sizes.items()]


def _merge_graphs(graphs: Sequence[GraphStatistics]) -> GraphStatistics | None:
    if len(graphs) < 2:
        return graphs[0] if graphs else None
    spread: Counter[int] = Counter()
    for graph in graphs:
        for links, pages in graph.in_links:
            spread[links] += pages
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
