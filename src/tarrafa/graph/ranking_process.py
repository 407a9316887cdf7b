"""Ranking process: computes PageRank of all pages and the link sums of hosts and sites.

`python -m tarrafa.graph.ranking_process`: reads the graph once into arrays, computes the ranks of all nodes and the
sums of all hosts and sites, writes both, and ends. A process of its own, because it takes memory and a processor for
seconds: the follower that starts it continues, and readers use the former results until the new ones are complete.
Promises: killed at any moment it leaves the former results; the rank file, which names the state of the graph that it
was computed from, is written last, so that an interrupted ranking is repeated. One at a time (by a lock). Knows nothing
of schedules: see `ranking_schedule`.

Links between pages, and which hosts and sites link to which, are arrays of the whole graph. They are read in one
transaction and in pieces, so that memory is what the arrays take: 4 bytes a link that counts, 16 a node, 12 a pair of
linked hosts, and some hundreds a host. Where the arrays for PageRank would take more than `MEMORY_BYTES_MAX`, the links
lie in temporary files (`link_grid`), and memory is that bound, 8 bytes a node, and what hosts take. Node number k is
place k - 1. Numbers are never used again: those of deleted collections are empty places.

A link counts for ranks when it leads to another URL and is followed. Links that the author does not vouch for are
excluded (rel=nofollow, ugc, sponsored, or a page that says nofollow), and so is the target of a redirect chain that was
too long. Several links from one page to another are one. A redirect is a link like any other, the only one of its page:
it passes rank on. For the counts between hosts every pair of pages counts that has any link, vouched for or not; sites
are the sums of their hosts, without links inside a site.
"""

import os
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, islice, repeat
from pathlib import Path

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from tarrafa.clock import Clock, boottime
from tarrafa.errors import DataError, data_error_from_os
from tarrafa.graph import rank_file, sites
from tarrafa.graph.graph_writer import graph_file, open_reader
from tarrafa.graph.link_grid import LinkGrid
from tarrafa.graph.pagerank import IntArray, LinkMatrix, pagerank
from tarrafa.graph.pagerank_on_disk import pagerank_on_disk
from tarrafa.graph.rank_file import RankFile, RankFileHeader
from tarrafa.graph.sites import SiteRow
from tarrafa.i18n import message
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.url import host_key, host_name
from tarrafa.runtime.child_process import run_child
from tarrafa.runtime.data_dir import DataDirectory, sync_directory, try_lock
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.sqlite import rows

NICENESS = 10
FETCHED_STATUSES = frozenset({200, 304})
# a link is one integer here: 31 bits for each end, and one bit that says whether it counts for ranks
NODES_MAX = (1 << 31) - 2
LINKS_PER_READ = 1 << 17
MEMORY_BYTES_MAX = 1 << 30  # of the arrays for PageRank, or of the link grid
LINK_BYTES, NODE_BYTES = 4, 48  # in these arrays
NODES_SUMMED_AT_ONCE = 1 << 20
PAIRS_WAITING_MAX = 2_000_000
STATUS_BITS, STATUS_MAX = 16, 30_000
COUNT_MAX = (1 << 31) - 1

# In the order of the index, which covers the query. A pair's last row is one that counts for ranks, if any does.
LINKS_SQL = """
SELECT (dst << 32) | (src << 1) | (hops IS NOT NULL) FROM edges INDEXED BY edges_by_target ORDER BY dst, src, hops
"""
NODES_SQL = "SELECT node, collection, host, coalesce(status, 0) FROM nodes ORDER BY node"


# -- the graph as arrays -----------------------------------------------------------------------------------------------


class PairCounter:
    """Counts keys; its memory grows with the number of different keys."""

    def __init__(self) -> None:
        self._keys, self._counts = np.empty(0, np.int64), np.empty(0, np.int32)
        self._waiting: list[NDArray[np.int64]] = []
        self._waiting_keys = 0

    def add(self, keys: NDArray[np.int64]) -> None:
        self._waiting.append(keys)
        self._waiting_keys += len(keys)
        if self._waiting_keys >= max(PAIRS_WAITING_MAX, len(self._keys)):
            self._count()

    def totals(self) -> tuple[NDArray[np.int64], IntArray]:
        """The different keys, sorted, and the count of each."""
        self._count()
        return self._keys, self._counts

    def _count(self) -> None:
        ones = np.ones(self._waiting_keys, np.int32)
        keys = np.concatenate((self._keys, *self._waiting))
        self._waiting, self._waiting_keys = [], 0
        self._keys, self._counts = sum_by_key(keys, np.concatenate((self._counts, ones)))


def sum_by_key(keys: NDArray[np.int64], counts: IntArray) -> tuple[NDArray[np.int64], IntArray]:
    """Each key once, in order, with the sum of its counts."""
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    del order
    first = np.flatnonzero(np.concatenate(([True], keys[1:] != keys[:-1])))
    return keys[first], np.add.reduceat(counts, first, dtype=np.int32)


NO_LINKS = LinkMatrix(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


@dataclass(slots=True)
class GraphArrays:
    """The input of all computations. A *group* is one host of one collection, numbered in order of appearance; the last
    number belongs to no group and marks empty places.
    """

    incarnation: int
    turned: int
    edges: int  # all links, whether they count for ranks or not
    links: LinkMatrix | LinkGrid
    groups: IntArray  # of each node
    collections: "array[int]"  # of each group
    first_nodes: "array[int]"  # the number of a node of each group
    statuses: Counter[int] = field(default_factory=Counter)  # (group << STATUS_BITS) + status; 0: never visited
    pairs: PairCounter = field(default_factory=PairCounter)  # (group << 32) | group: pages that link there

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return self.statuses.total()

    def exist(self, places: NDArray[np.int64]) -> bool:
        if not len(places):
            return True
        within = places.min() >= 0 and places.max() < len(self.groups)
        return bool(within and self.groups[places].max() < len(self.first_nodes))


def read_graph(connection: apsw.Connection, folder: Path) -> GraphArrays:
    """The present graph. `folder` is for temporary files of large arrays."""
    with connection:
        counters = dict(rows(connection, "SELECT name, value FROM counters"))
        nodes = rows(connection, "SELECT coalesce(max(node), 0) FROM nodes")[0][0]
        if nodes > NODES_MAX:
            raise DataError(
                message(
                    "{folder}: {nodes} URLs are too many to be ranked ({limit} at most)",
                    folder=folder,
                    nodes=nodes,
                    limit=NODES_MAX,
                )
            )
        found = _read_nodes(connection, nodes, counters)
        _read_links(connection, found, folder)
    return found


def status_counts(found: GraphArrays) -> Iterator[tuple[int, int, int]]:
    """Group, status, and the number of its URLs with that status."""
    for key, count in found.statuses.items():
        group = (key + STATUS_MAX) >> STATUS_BITS
        yield group, key - (group << STATUS_BITS), count


def _read_nodes(connection: apsw.Connection, nodes: int, counters: dict[str, int]) -> GraphArrays:
    no_group = np.iinfo(np.int32).max
    groups, collections, first = array("i"), array("i"), array("i")
    numbers: defaultdict[int, dict[int, int]] = defaultdict(dict)
    statuses: Counter[int] = Counter()
    for node, collection, host, status in connection.execute(NODES_SQL):
        group = numbers[collection].setdefault(host, len(first))
        if group == len(first):
            first.append(node)
            collections.append(collection)
        if node > len(groups) + 1:
            groups.extend(repeat(no_group, node - len(groups) - 1))
        groups.append(group)
        statuses[(group << STATUS_BITS) + min(max(status, -STATUS_MAX), STATUS_MAX)] += 1
    return GraphArrays(
        counters["incarnation"], counters["turned"], counters["edges"], NO_LINKS,
        np.minimum(np.frombuffer(groups, np.int32), len(first)) if nodes else np.empty(0, np.int32),
        collections, first, statuses,
    )  # fmt: skip


def _read_links(connection: apsw.Connection, found: GraphArrays, folder: Path) -> None:
    groups, nodes = found.groups, len(found.groups)
    is_large = LINK_BYTES * found.edges + NODE_BYTES * nodes > MEMORY_BYTES_MAX
    links = LinkGrid(nodes, folder, MEMORY_BYTES_MAX) if is_large else _MatrixBuilder(nodes, found.edges)
    for packed in _pairs(connection):
        target, source = (packed >> 32) - 1, ((packed >> 1) & 0x7FFFFFFF) - 1
        if not (found.exist(source) and found.exist(target)):
            raise DataError(message("graph.sqlite: a link of a node that is not there; `tarrafa rebuild graph`"))
        here, there = groups[source].astype(np.int64), groups[target].astype(np.int64)
        apart = here != there
        found.pairs.add((here[apart] << 32) | there[apart])
        counts = ((packed & 1) == 1) & (source != target)
        links.add(source[counts], target[counts])
    found.links = links.finish()


class _MatrixBuilder:
    """Makes the arrays of links, each of which comes once, in the order of their targets."""

    def __init__(self, nodes: int, links_max: int) -> None:
        self._pointers, self._links_of = np.zeros(nodes + 1, np.int64), np.zeros(nodes, np.int32)
        self._sources, self._filled = np.empty(links_max, np.int32), 0

    def add(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        self._sources[self._filled : self._filled + len(sources)] = sources
        self._filled += len(sources)
        np.add.at(self._pointers, targets + 1, 1)
        np.add.at(self._links_of, sources, np.int32(1))  # of the array's own type: a plain 1 takes fifty times as long

    def finish(self) -> LinkMatrix:
        np.cumsum(self._pointers, out=self._pointers)
        return LinkMatrix(self._pointers, self._sources[: self._filled], self._links_of)


def _pairs(connection: apsw.Connection) -> Iterator[NDArray[np.int64]]:
    """All links in pieces, each pair of pages once and by its last row."""
    stream = chain.from_iterable(connection.execute(LINKS_SQL))
    held = np.empty(0, np.int64)
    while len(piece := np.fromiter(islice(stream, LINKS_PER_READ), np.int64)):
        piece = np.concatenate((held, piece))
        ends = np.flatnonzero((piece[1:] >> 1) != (piece[:-1] >> 1))
        yield piece[ends]
        held = piece[-1:]
    yield held


# -- hosts and sites ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NeighbourLists:
    """For each host or site its linked ones, as pairs of 32 bits (the number of the other, and that of linked pairs of
    pages), the most linked first."""

    _pointers: NDArray[np.int64]
    _pairs: NDArray[np.int32]

    def of(self, number: int) -> bytes:
        return self._pairs[self._pointers[number] : self._pointers[number + 1]].tobytes()


@dataclass(frozen=True, slots=True)
class HostGraph:
    outgoing: NeighbourLists
    incoming: NeighbourLists


def host_graph(keys: NDArray[np.int64], counts: IntArray, size: int) -> HostGraph:
    """`keys` are (from << 32) | to, each once and sorted."""
    return HostGraph(
        _lists(keys >> 32, keys & 0xFFFFFFFF, counts, size), _lists(keys & 0xFFFFFFFF, keys >> 32, counts, size)
    )


def _lists(owner: NDArray[np.int64], other: NDArray[np.int64], counts: IntArray, size: int) -> NeighbourLists:
    """The sort is stable, and the others of one owner are sorted already: so they stay in order at equal counts."""
    pointers = np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=size))))
    owner = (owner << 32) | (COUNT_MAX - counts)
    order = np.argsort(owner, kind="stable")
    del owner
    pairs = np.empty((len(order), 2), "<i4")
    pairs[:, 0], pairs[:, 1] = other[order], counts[order]
    return NeighbourLists(pointers, pairs)


def site_pairs(
    keys: NDArray[np.int64], counts: IntArray, site_of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], IntArray]:
    """The same pairs between the sites of the hosts."""
    pairs = (site_of[keys >> 32] << 32) | site_of[keys & 0xFFFFFFFF]
    apart = (pairs >> 32) != (pairs & 0xFFFFFFFF)
    return sum_by_key(pairs[apart], counts[apart])


# -- the ranking -------------------------------------------------------------------------------------------------------


class GroupNames(msgspec.Struct, frozen=True):
    """The names of the groups of the graph arrays: collection, host key, and the number of the site."""

    collections: list[str]
    keys: list[str]
    site_of: list[int]
    sites: list[tuple[str, str]]  # collection and name


def compute_rankings(data: DataDirectory) -> RankFileHeader | None:
    """Compute everything from the present graph. None: another process is computing."""
    lock = try_lock(data.graph / "survey.lock")
    if lock is None:
        return None
    with lock:
        return _compute_rankings(data)


def _compute_rankings(data: DataDirectory) -> RankFileHeader:
    begun, clock = boottime(), Clock.from_environment()
    with closing(open_reader(data)) as connection, graph_file(data).errors(connection):
        found = read_graph(connection, data.graph)
        names = _names(connection, found)
    counting = found.links.links
    values = _ranks(data, found, names)
    found.links = NO_LINKS  # frees memory for the rest
    _write_sites(data, found, names, values, clock.now())
    stated = RankFileHeader(found.incarnation, found.turned, found.nodes, counting, clock.now(), boottime() - begun)
    rank_file.write_ranks(data, stated, values.data)
    return stated


def _ranks(data: DataDirectory, found: GraphArrays, names: GroupNames) -> NDArray[np.float32]:
    """Start from the former ranks, if there are any of this incarnation of the graph."""
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names.collections))}
    # the last one: empty places
    block_of = np.array([*(numbers[name] for name in names.collections), len(numbers)], np.int32)
    before = RankFile.open(data, found.incarnation).values
    start = np.asarray(before, np.float32) if len(before) else None
    links, blocks = found.links, block_of[found.groups]
    if isinstance(links, LinkMatrix):
        return pagerank(links, blocks, start).ranks
    with closing(links):
        return pagerank_on_disk(links, data.graph, blocks, start).ranks


def _names(connection: apsw.Connection, found: GraphArrays) -> GroupNames:
    collections = {number: (name, suffixes) for number, name, suffixes in rows(
        connection, "SELECT collection, name, suffixes FROM collections"
    )}  # fmt: skip
    keys, site_of, numbers = [], [], dict[tuple[str, str], int]()
    for collection, node in zip(found.collections, found.first_nodes, strict=True):
        name, suffixes = collections[collection]
        url = rows(connection, "SELECT url FROM nodes WHERE node = ?", (node,))[0][0]
        keys.append(host_key(url))
        site_of.append(numbers.setdefault((name, _suffixes(suffixes).site(host_name(url))), len(numbers)))
    return GroupNames([collections[number][0] for number in found.collections], keys, site_of, list(numbers))


@lru_cache(maxsize=16)
def _suffixes(added: str) -> PublicSuffixes:
    return PublicSuffixes(bundled_suffix_list(), msgspec.json.decode(added, type=tuple[str, ...]))


def _write_sites(
    data: DataDirectory, found: GraphArrays, names: GroupNames, values: NDArray[np.float32], now: float
) -> None:
    keys, counts = found.pairs.totals()
    site_of = np.array(names.site_of, np.int64)
    hosts = host_graph(keys, counts, len(names.keys))
    among = host_graph(*site_pairs(keys, counts, site_of), len(names.sites))
    weights = np.zeros(len(names.keys) + 1)  # the last one: empty places
    for first in range(0, len(values), NODES_SUMMED_AT_ONCE):
        nodes = slice(first, first + NODES_SUMMED_AT_ONCE)
        weights += np.bincount(found.groups[nodes], values[nodes], len(weights))
    weights = weights[:-1]
    path = sites.path_of(data)
    new = path.with_name(path.name + ".new")
    try:
        rows_of = _site_rows(found, names, among, weights), _host_rows(found, names, hosts, weights)
        sites.write_sites(new, now, found.nodes, found.edges, *rows_of)
        _sync(new)
        new.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise data_error_from_os(error, path) from None
    finally:
        with suppress(OSError):
            new.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _host_rows(
    found: GraphArrays, names: GroupNames, among: HostGraph, weights: NDArray[np.float64]
) -> Iterator[SiteRow]:
    statuses = _statuses(found, range(len(names.keys)))
    for group, (collection, key) in enumerate(zip(names.collections, names.keys, strict=True)):
        name = key.partition("://")[2].rpartition(":")[0]
        figures = _figures(statuses[group], float(weights[group]))
        lists = among.incoming.of(group), among.outgoing.of(group)
        yield SiteRow(collection, name, *figures, *lists, key=key, site=names.site_of[group])


def _site_rows(
    found: GraphArrays, names: GroupNames, among: HostGraph, weights: NDArray[np.float64]
) -> Iterator[SiteRow]:
    statuses, site_of = _statuses(found, names.site_of), np.array(names.site_of, np.int64)
    sums, hosts = np.bincount(site_of, weights=weights), np.bincount(site_of)
    for number, (collection, name) in enumerate(names.sites):
        figures = _figures(statuses[number], float(sums[number]))
        lists = among.incoming.of(number), among.outgoing.of(number)
        yield SiteRow(collection, name, *figures, *lists, hosts=int(hosts[number]))


def _statuses(found: GraphArrays, number_of: Sequence[int]) -> dict[int, Counter[int]]:
    """The numbers of URLs by status, for each host or site; `number_of`: its number for each group."""
    statuses: defaultdict[int, Counter[int]] = defaultdict(Counter)
    for group, status, count in status_counts(found):
        statuses[number_of[group]][status] += count
    return statuses


def _figures(statuses: Counter[int], rank: float) -> tuple[int, int, int, float, dict[int, int]]:
    """URLs known, visited, fetched successfully; their rank; the statuses of those visited."""
    seen = {status: count for status, count in statuses.items() if status}
    fetched = sum(count for status, count in seen.items() if status in FETCHED_STATUSES)
    return statuses.total(), sum(seen.values()), fetched, rank, seen


def main(data: DataDirectory) -> None:
    """Started by `RankingScheduler`."""
    os.nice(NICENESS)
    compute_rankings(data)


if __name__ == "__main__":
    run_child(main)
