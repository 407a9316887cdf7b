"""PageRank of a graph that is larger than memory: the sweeps of `pagerank`, over a link grid.

Promises: the ranks of `pagerank`, to a millionth: the same equations, the same order of Gauss-Seidel sweeps and the
same end. Memory is a few times that of one interval of nodes. The vectors of all nodes (12 bytes for each, and 4 for
the ranks) are mapped files, which the system may write out. Knows nothing of URLs or SQLite.

A sweep goes through the rows of the grid, from interval to interval. First an interval's nodes receive from all others,
which have new values if they come before; then from each other, in the order of targets, and each node gets its new
value as soon as it has received everything. So values are used as early as in one sweep over one array. Links to nodes
without outlinks are read once, at the end. Where kernels cannot be compiled, values within an interval are new all at
once, which takes more sweeps.

Cost of a sweep: 4 bytes of disk or page cache a link that leads to a node with outlinks, and 12 bytes a node read for
each interval of 2**bits nodes that the graph has, if memory does not hold the vectors: that grows with the square of
the nodes, so beyond some 10^9 of them a graph wants memory of 12 bytes a node.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tarrafa.graph.link_grid import WORD_BITS, LinkGrid, Words, mapped_array
from tarrafa.graph.pagerank import (
    DAMPING,
    SWEEPS_MAX,
    TOLERANCE,
    FloatArray,
    IntArray,
    PageRankResult,
    level_of,
    required,
    start_values,
)
from tarrafa.runtime.compiled_kernels import CompiledFunction, CompiledKernels, Kernel

KERNELS = {
    "gather": Kernel("gather", "uint32* int64 int64 int64 float64* float64*"),
    "settle": Kernel("settle", "uint32* int64 int64 int64 float64* float64* int64 int32* float64*"),
    "complete": Kernel("complete", "int64 int64 float64* float64* int32* float64*"),
}
kernels = CompiledKernels(__name__, KERNELS)


def pagerank_on_disk(
    grid: LinkGrid,
    folder: Path,
    blocks: IntArray,
    start: NDArray[np.float32] | None = None,
    *,
    tolerance: float = TOLERANCE,
    sweeps_max: int = SWEEPS_MAX,
    compiled: bool = True,
) -> PageRankResult:
    """The arguments of `pagerank`; `folder` is for the vectors. Arrays may be mapped files."""
    if not grid.nodes:
        return PageRankResult(np.empty(0, np.float32), 0, 0.0)
    gives = mapped_array(folder, grid.nodes, np.float64)  # what a node gives to each target
    _write_first_values(grid, blocks, start, gives)
    sweeper = _Sweeper(grid, gives, required(kernels) if compiled else None)
    change, sweeps = 0.0, 0
    while sweeps < sweeps_max:
        sweeps += 1
        change, total = sweeper.sweep()
        if change <= tolerance * total:
            break
    ranks = mapped_array(folder, grid.nodes, np.float32)
    scales = _scales(grid, blocks, gives)
    for number in range(grid.intervals):
        nodes = grid.interval(number)
        ranks[nodes] = sweeper.received(number) * scales[blocks[nodes]]
    return PageRankResult(ranks, sweeps, change)


def _write_first_values(grid: LinkGrid, blocks: IntArray, start: NDArray[np.float32] | None, gives: FloatArray) -> None:
    """The earlier ranks, at the level of the equations; only nodes with outlinks give."""
    count = int(blocks.max()) + 1
    sizes, sums, linking = np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
    for nodes in map(grid.interval, range(grid.intervals)):
        values = start_values(start, nodes.start, nodes.stop)
        sizes += np.bincount(blocks[nodes], minlength=count)
        sums += np.bincount(blocks[nodes], values, count)
        linking += np.bincount(blocks[nodes], np.where(grid.links_of[nodes] > 0, values, 0.0), count)
        gives[nodes] = values
    levels = level_of(sizes, sums, linking)
    for nodes in map(grid.interval, range(grid.intervals)):
        gives[nodes] *= levels[blocks[nodes]] * _shares(grid.links_of[nodes])


def _shares(links_of: IntArray) -> FloatArray:
    """The share of its value that a node gives to each target."""
    return np.divide(DAMPING, links_of, out=np.zeros(len(links_of)), where=links_of > 0)


def _scales(grid: LinkGrid, blocks: IntArray, gives: FloatArray) -> FloatArray:
    """The factor that gives each block the mean 1. The sum of its values is known before they are: each node has 1, and
    each link brings what its source gives.
    """
    count = int(blocks.max()) + 1
    sizes, sums = np.zeros(count), np.zeros(count)
    for nodes in map(grid.interval, range(grid.intervals)):
        sizes += np.bincount(blocks[nodes], minlength=count)
        sums += np.bincount(blocks[nodes], gives[nodes] * grid.links_of[nodes], count)
    return sizes / np.maximum(sizes + sums, 1.0)  # a block may have no nodes


class _Sweeper:
    """Goes through the grid, with kernels or with numpy."""

    def __init__(self, grid: LinkGrid, gives: FloatArray, functions: Mapping[str, CompiledFunction] | None) -> None:
        self._grid, self._gives, self._functions = grid, gives, functions
        self._values = np.empty(min(grid.nodes, 1 << grid.bits))
        self._linking = [
            number for number in range(grid.intervals) if grid.links_of[grid.interval(number)].any()
        ]  # a crawl has many nodes, found last, that were not visited

    def sweep(self) -> tuple[float, float]:
        """New values for all nodes with outlinks: the sum of changes, and that of values."""
        sums = np.zeros(2)
        for number in self._linking:
            nodes = self._grid.interval(number)
            if self._functions is None:
                _complete(self._gathered(number), self._gives[nodes], self._grid.links_of[nodes], sums)
            else:
                self._settle(self._functions, number, sums)
        return float(sums[0]), float(sums[1])

    def received(self, number: int) -> FloatArray:
        """The values of all nodes of an interval."""
        values = self._gathered(number)
        for segment, words in self._grid.row(number, linking=False):
            self._gather(segment.interval, words, segment.first, values)
        return values

    def _gathered(self, number: int) -> FloatArray:
        values = self._first(number)
        for segment, words in self._grid.row(number, linking=True):
            self._gather(segment.interval, words, segment.first, values)
        return values

    def _first(self, number: int) -> FloatArray:
        nodes = self._grid.interval(number)
        values = self._values[: nodes.stop - nodes.start]
        values.fill(1.0)
        return values

    def _gather(self, interval: int, words: Words, first: int, values: FloatArray) -> None:
        gives, bits = self._gives[self._grid.interval(interval)], self._grid.bits
        if self._functions is None:
            _gather(words, bits, first, gives, values)
        else:
            addresses = gives.ctypes.data, values.ctypes.data
            self._functions["gather"](words.ctypes.data, len(words), bits, first, *addresses)

    def _settle(self, functions: Mapping[str, CompiledFunction], number: int, sums: FloatArray) -> None:
        nodes, bits = self._grid.interval(number), self._grid.bits
        values, place = self._first(number), 0
        arrays = self._gives[nodes], values, self._grid.links_of[nodes], sums
        gives_at, values_at, links_of_at, sums_at = (array.ctypes.data for array in arrays)
        for segment, words in self._grid.row(number, linking=True):
            if segment.interval == number:
                link_words = words.ctypes.data, len(words), bits, segment.first
                place = functions["settle"](*link_words, gives_at, values_at, place, links_of_at, sums_at)
            else:
                self._gather(segment.interval, words, segment.first, values)
        functions["complete"](place, len(values), gives_at, values_at, links_of_at, sums_at)


def _gather(words: Words, bits: int, first: int, gives: FloatArray, values: FloatArray) -> None:
    distances = (words >> bits).astype(np.int64)
    targets = first + np.cumsum(distances)
    links = distances != (1 << WORD_BITS - bits) - 1
    sources = (words & ((1 << bits) - 1))[links]
    sums = np.bincount(targets[links] - first, gives[sources])
    values[first : first + len(sums)] += sums


def _complete(values: FloatArray, gives: FloatArray, links_of: IntArray, sums: FloatArray) -> None:
    new = values * _shares(links_of)
    sums += np.abs(new - gives).sum(), new.sum()
    gives[:] = new


# -- kernels -----------------------------------------------------------------------------------------------------------
#
# numba compiles these functions as they are. Arrays are those of one interval: `gives` of the sources', the others of
# the targets'. Words have the form of `link_grid`.


def gather(words: list[int], length: int, bits: int, first: int, gives: list[float], values: list[float]) -> int:
    """Add to the targets' values what sources in another interval give."""
    target, distance_max, mask = first, (1 << (WORD_BITS - bits)) - 1, (1 << bits) - 1
    for number in range(length):
        word = words[number]
        distance = word >> bits
        target += distance
        if distance != distance_max:
            values[target] += gives[word & mask]
    return target


def settle(
    words: list[int],
    length: int,
    bits: int,
    first: int,
    gives: list[float],
    values: list[float],
    place: int,
    links_of: list[int],
    sums: list[float],
) -> int:
    """The same within one interval, where the nodes before `place` have their new values: each node that the links have
    passed gets its own. The place of the next one.
    """
    target, distance_max, mask = first, (1 << (WORD_BITS - bits)) - 1, (1 << bits) - 1
    place, value = complete(place, first, gives, values, links_of, sums), 0.0
    for number in range(length):
        word = words[number]
        distance = word >> bits
        if distance > 0:
            values[target] += value
            value = 0.0
            target += distance
            place = complete(place, target, gives, values, links_of, sums)
        if distance != distance_max:
            value += gives[word & mask]
    values[target] += value
    return place


def complete(
    place: int, end: int, gives: list[float], values: list[float], links_of: list[int], sums: list[float]
) -> int:
    """What these nodes give from now on. To `sums` come the change and the value."""
    change, total = 0.0, 0.0
    for node in range(place, end):
        if links_of[node] > 0:
            new = values[node] * DAMPING / links_of[node]
            change += abs(new - gives[node])
            total += new
            gives[node] = new
    sums[0] += change
    sums[1] += total
    return end
