"""Host graph: which hosts and sites link to which, as arrays.

Promises: each pair of different hosts once, with the number of linked pairs of pages, the highest number first; sites
are the sums of their hosts, without links inside a site. Memory grows with the number of different pairs. Knows nothing
of files or names: hosts and sites are numbers here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tarrafa.graph.adjacency import sum_by_key
from tarrafa.graph.pagerank import IntArray

COUNT_MAX = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class NeighbourLists:
    """For each number its linked numbers, as pairs of 32 bits (the other number, the number of links)."""

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
