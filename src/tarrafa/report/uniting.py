"""What do several machines hold together?

Pure: portions in, one portion out. Promises: visits divided over machines add up to what they would be in one archive:
names are numbered anew, the newest word on a URL counts wherever it was heard, the newest robots.txt, Server header and
configuration hold, and a deletion that one machine noted holds for all. Storage, indexed documents and statements are
sums; a page that two machines have indexed counts twice.
Each link graph knows the links on its machine's own pages, and which of its own URLs are dead. So dead URLs are a sum,
and so are links as far as both ends are on one machine; how many different URLs all of them mention, nobody can tell.
"""

from collections.abc import Callable, Iterable, Sequence
from operator import add

import numpy as np
from numpy.typing import NDArray

from tarrafa.graph.figures import GraphFigures, LinkedTo
from tarrafa.report.portion import Portion
from tarrafa.report.shapes import Part
from tarrafa.report.visits import REDIRECTS_MAX, Moved, Names, Rows, Rules, Server, Store, Visits, latest, newest

ROWS_AT_ONCE = 1 << 16
HOSTS_MAX = 1 << 31
LISTED = 10


def unite(portions: Sequence[Portion]) -> Portion:
    if len(portions) == 1:
        return portions[0]
    return Portion(
        _visits([one.visits for one in portions]),
        _storage([one.storage for one in portions]),
        _sum(one.indexed for one in portions),
        _sum(one.statements for one in portions),
        _graphs([one.graph for one in portions if one.graph is not None]),
    )


def _sum(counts: Iterable[int | None]) -> int | None:
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _visits(parts: Sequence[Visits]) -> Visits:
    hosts, types, languages, charsets, collectors = Names(HOSTS_MAX), Names(), Names(), Names(), Names()
    software, rules, sitemaps = dict[int, Server](), dict[str, Rules](), set[str]()
    names, runs, deletions = dict[str, float](), dict[int, float](), dict[str, float]()
    deleted = max(part.deleted for part in parts)
    moved, whole = _moved(parts)
    with Store() as store:
        for part in parts:
            numbers = {
                "host": _renumbered(hosts, part.hosts), "type": _renumbered(types, part.types),
                "language": _renumbered(languages, part.languages), "charset": _renumbered(charsets, part.charsets),
                "collector": _renumbered(collectors, part.collectors),
            }  # fmt: skip
            for begin in range(0, len(part.rows), ROWS_AT_ONCE):
                store.take(_numbered_anew(part.rows[begin : begin + ROWS_AT_ONCE], numbers, deleted))
            for host, server in part.software.items():
                newest(software, int(numbers["host"][host]), server)
            for key, rule in part.rules.items():
                newest(rules, key, rule)
            sitemaps |= part.sitemaps
            for name, at in part.names.items():
                latest(names, name, at)
            for run, at in part.runs.items():
                latest(runs, run, at)
            for name, at in part.deletions.items():
                latest(deletions, name, at)
        rows = store.all()
    return Visits(
        rows, hosts.names, types.names, languages.names, charsets.names, collectors.names, software, rules, sitemaps,
        moved, whole, max((part.config for part in parts), key=lambda config: config[0]),
        names, runs, deletions, deleted, sum(part.recorded for part in parts),
    )  # fmt: skip


def _renumbered(table: Names, names: list[str]) -> NDArray[np.int64]:
    return np.array([table.number(name) for name in names], np.int64)


def _numbered_anew(rows: Rows, numbers: dict[str, NDArray[np.int64]], deleted: float) -> Rows:
    own = np.array(rows[rows["at"] > deleted])
    if len(own):
        for column, number in numbers.items():
            own[column] = number[own[column]]
    return own


def _moved(parts: Sequence[Visits]) -> tuple[dict[int, Moved], bool]:
    """The newest redirect of each URL; and whether these are all."""
    found, whole = dict[int, Moved](), all(part.moved_whole for part in parts)
    for part in parts:
        for key, one in part.moved.items():
            before = found.get(key)
            if before is None and len(found) >= REDIRECTS_MAX:
                whole = False
            elif before is None or before.visit < one.visit:
                found[key] = one
    return found, whole


def _storage(machines: Sequence[list[Part]]) -> list[Part]:
    kinds: dict[tuple[str, str], int] = {}
    for parts in machines:
        for part in parts:
            kinds[part.name, part.kind] = kinds.get((part.name, part.kind), 0) + part.bytes
    return [Part(name, kind, size) for (name, kind), size in kinds.items()]


def _graphs(graphs: Sequence[GraphFigures]) -> GraphFigures | None:
    if len(graphs) < 2:
        return graphs[0] if graphs else None
    spread: dict[int, int] = {}
    for graph in graphs:
        for links, pages in graph.in_links:
            spread[links] = spread.get(links, 0) + pages
    return GraphFigures(
        max(graph.urls for graph in graphs), sum(graph.links for graph in graphs),
        sum(graph.links_followed for graph in graphs), sorted(spread.items()),
        sum(graph.dead_urls for graph in graphs), sum(graph.dead_links for graph in graphs),
        _most((one for graph in graphs for one in graph.most_wanted), add),
        _most((one for graph in graphs for one in graph.pages_worst), max),
    )  # fmt: skip


def _most(listed: Iterable[LinkedTo], together: Callable[[int, int], int]) -> list[LinkedTo]:
    """`together`: how many links a URL has that two machines name."""
    found: dict[str, LinkedTo] = {}
    for one in listed:
        before = found.get(one.url)
        found[one.url] = one if before is None else LinkedTo(one.url, together(before.links, one.links), one.status)
    return sorted(found.values(), key=lambda one: (-one.links, one.url))[:LISTED]
