"""Adjacency arrays of the whole link graph: links between pages for PageRank, and which hosts and sites link to which.

Promises: read in one transaction and in pieces, so that memory is what the arrays take: 4 bytes a link that counts, 16
a node, 12 a pair of linked hosts, and some hundreds a host. (Above `LINKS_IN_MEMORY` the links lie in a file that the
system may write out and read again: they are only ever read from their beginning to their end.) Node number k is place
k - 1. Numbers are never used again: those of deleted collections are empty places. Knows nothing of ranks.

A link counts for ranks when it leads to another URL and is followed. Links that the author does not vouch for are
excluded (rel=nofollow, ugc, sponsored, or a page that says nofollow), and so is the target of a redirect chain that was
too long. Several links from one page to another are one. A redirect is a link like any other, the only one of its page:
it passes rank on. For the counts between hosts every pair of pages counts that has any link, vouched for or not; sites
are the sums of their hosts, without links inside a site.
"""

import tempfile
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, islice, repeat
from pathlib import Path

import apsw
import numpy as np
from numpy.typing import NDArray

from tarrafa.errors import DataError
from tarrafa.graph.pagerank import IntArray, LinkMatrix
from tarrafa.i18n import message
from tarrafa.runtime.sqlite import rows

# a link is one integer here: 31 bits for each end, and one bit that says whether it counts for ranks
NODES_MAX = (1 << 31) - 2
LINKS_PER_READ = 1 << 17
LINKS_IN_MEMORY = 100_000_000
PAIRS_WAITING_MAX = 2_000_000
STATUS_BITS, STATUS_MAX = 16, 30_000
COUNT_MAX = (1 << 31) - 1

# In the order of the index, which covers the query. A pair's last row is one that counts for ranks, if any does.
LINKS_SQL = """
SELECT (dst << 32) | (src << 1) | (hops IS NOT NULL) FROM edges INDEXED BY edges_by_target ORDER BY dst, src, hops
"""
NODES_SQL = "SELECT node, collection, host, coalesce(status, 0) FROM nodes ORDER BY node"


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
    links: LinkMatrix
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
    sources, filled = _allocate_links(found.edges, folder), 0
    pointers, links_of = np.zeros(nodes + 1, np.int64), np.zeros(nodes, np.int32)
    for packed in _pairs(connection):
        target, source = (packed >> 32) - 1, ((packed >> 1) & 0x7FFFFFFF) - 1
        if not (found.exist(source) and found.exist(target)):
            raise DataError(message("graph.sqlite: a link of a node that is not there; `tarrafa rebuild graph`"))
        here, there = groups[source].astype(np.int64), groups[target].astype(np.int64)
        apart = here != there
        found.pairs.add((here[apart] << 32) | there[apart])
        counts = ((packed & 1) == 1) & (source != target)
        target, source = target[counts], source[counts]
        sources[filled : filled + len(source)] = source
        filled += len(source)
        np.add.at(pointers, target + 1, 1)
        np.add.at(links_of, source, np.int32(1))  # of the array's own type: a plain 1 takes fifty times as long
    np.cumsum(pointers, out=pointers)
    found.links = LinkMatrix(pointers, sources[:filled], links_of)


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


def _allocate_links(links: int, folder: Path) -> IntArray:
    if links <= LINKS_IN_MEMORY:
        return np.empty(links, np.int32)
    with tempfile.TemporaryFile(dir=folder) as file:  # without a name: the system removes it with its last mapping
        file.truncate(4 * links)
        return np.memmap(file, np.int32, "r+", shape=(links,))


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
