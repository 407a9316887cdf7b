"""Which hosts and sites link to which, and how much is known of each? (Pure arrays.)

Promises: each pair of different hosts once, with the number of page pairs that are linked, those of the most links
first; sites are the sums of their hosts, without what stays inside. Memory follows the number of different pairs.
Knows nothing of files or names: hosts and sites are numbers here.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tarrafa.graph.arrays import summed

COUNT_MAX = (1 << 31) - 1
PAIR_BYTES = 8


@dataclass(frozen=True, slots=True)
class Lists:
    """For each number the others that it is linked with, as pairs of 32 bits (the other's number, how many links)."""

    _pointers: NDArray[np.int64]
    _pairs: NDArray[np.int32]

    def of(self, number: int) -> bytes:
        return self._pairs[self._pointers[number] : self._pointers[number + 1]].tobytes()


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    outgoing: Lists
    incoming: Lists


def neighbourhood(keys: NDArray[np.int64], counts: NDArray[np.int64], size: int) -> Neighbourhood:
    """`keys` are (from << 32) | to, each once."""
    source, target = keys >> 32, keys & 0xFFFFFFFF
    return Neighbourhood(_lists(source, target, counts, size), _lists(target, source, counts, size))


def _lists(owner: NDArray[np.int64], other: NDArray[np.int64], counts: NDArray[np.int64], size: int) -> Lists:
    order = np.lexsort((other, -counts, owner))
    pairs = np.empty((len(order), 2), "<i4")
    pairs[:, 0] = other[order]
    pairs[:, 1] = np.minimum(counts[order], COUNT_MAX)
    return Lists(np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=size)))), pairs)


def between_sites(
    keys: NDArray[np.int64], counts: NDArray[np.int64], site_of: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The same pairs, between the sites that hosts belong to."""
    source, target = site_of[keys >> 32], site_of[keys & 0xFFFFFFFF]
    apart = source != target
    return summed((source[apart] << 32) | target[apart], counts[apart])
