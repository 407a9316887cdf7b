"""PageRank as a linear system, solved by Gauss-Seidel sweeps over arrays.

Promises: pure arrays; the ranks of each block (a collection: no link leaves it) have the mean 1, so that ranks of
blocks of any size compare: N times PageRank. The same links give the same ranks to about a millionth, from any start; a
near start saves sweeps. It ends after `sweeps_max` sweeps whatever the links are. Knows nothing of URLs, files or
SQLite.

PageRank is the stationary distribution of a random surfer who follows a random link with probability 0.85 and
otherwise, or where there is no link, jumps to a random page of the block. Since both jumps go to the same pages, the
mass that pages without links lose need not be tracked: the solution of

    x[i] = 1 + 0.85 * (sum of x[j] / links_of[j] over the j that link to i)

has the right proportions, and is only to be scaled (Del Corso, Gulli, Romani 2005). This has two advantages. Pages
without outlinks, in a crawl most of the known pages, pass no rank on: they are computed once, at the end. And new
values are used at once (Gauss-Seidel), which halves the number of sweeps. Nodes are numbered as they were found and
links mostly lead to later ones, so a sweep propagates changes far.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarrafa.runtime.compiled_kernels import CompiledFunction, CompiledKernels, Kernel, KernelsUnavailable

DAMPING = 0.85
TOLERANCE = 1e-9  # of the sum of all values, from one sweep to the next: the error of a single value is below 1e-5
SWEEPS_MAX = 200
COMPILED_LINKS_MIN = 1_000_000  # links; smaller graphs use numpy, which is done before the kernels are compiled

KERNELS = {
    "sweep": Kernel("sweep", "int64* int32* int32* int64 float64* float64* float64 int64 float64*"),
    "receive": Kernel("receive", "int64* int32* float64* float64* int64"),
}
kernels = CompiledKernels(__name__, KERNELS)

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The pages that link to node i are sources[pointers[i]:pointers[i + 1]], each once; links_of counts the
    outlinks.
    """

    pointers: NDArray[np.int64]
    sources: IntArray
    links_of: IntArray

    @property
    def nodes(self) -> int:
        return len(self.links_of)

    @property
    def links(self) -> int:
        return len(self.sources)


@dataclass(frozen=True, slots=True)
class PageRankResult:
    """The ranks, the number of sweeps, and the change in the last one."""

    ranks: NDArray[np.float32]
    sweeps: int
    change: float


def pagerank(
    links: LinkMatrix,
    blocks: IntArray,
    start: NDArray[np.float32] | None = None,
    *,
    tolerance: float = TOLERANCE,
    sweeps_max: int = SWEEPS_MAX,
    compiled: bool | None = None,
) -> PageRankResult:
    """`blocks` is the block of each node; `start` are earlier ranks, of any number of nodes."""
    if not links.nodes:
        return PageRankResult(np.empty(0, np.float32), 0, 0.0)
    gives = np.zeros(links.nodes)
    np.divide(DAMPING, links.links_of, out=gives, where=links.links_of > 0)
    share = gives.copy()  # share of its value that a node gives to each target
    gives *= _first_values(links, blocks, start)
    if compiled is None:
        compiled = len(links.sources) >= COMPILED_LINKS_MIN
    functions = required(kernels) if compiled else None
    if functions is not None:
        values, sweeps, change = _sweep_compiled(functions, links, share, gives, tolerance, sweeps_max)
    else:
        values, sweeps, change = _sweep_numpy(links, share, gives, tolerance, sweeps_max)
    sizes = np.bincount(blocks)
    sums = np.bincount(blocks, weights=values)
    scales = np.divide(sizes, sums, out=np.ones_like(sums), where=sums > 0)
    values *= scales[blocks]
    return PageRankResult(values.astype(np.float32), sweeps, change)


def _first_values(links: LinkMatrix, blocks: IntArray, start: NDArray[np.float32] | None) -> FloatArray:
    """The earlier ranks, scaled to the level that the equations give a block with this many linking pages."""
    values = start_values(start, 0, links.nodes)
    sums = np.bincount(blocks, weights=values)
    linking = np.bincount(blocks, weights=np.where(links.links_of > 0, values, 0.0))
    values *= level_of(np.bincount(blocks), sums, linking)[blocks]
    return values


def start_values(start: NDArray[np.float32] | None, first: int, end: int) -> FloatArray:
    """The earlier ranks of these nodes, as far as they make sense."""
    values = np.ones(end - first)
    if start is not None:
        known = start[first:end].astype(np.float64)
        sane = np.isfinite(known) & (known > 0) & (known < 1e12)  # a file may hold anything
        values[: len(known)][sane] = known[sane]
    return values


def level_of(sizes: NDArray[Any], sums: NDArray[Any], linking: NDArray[Any]) -> FloatArray:
    """The factor for the values of each block, by their sum and by that of its nodes with outlinks. Summed over a block
    the equations say: sum = size + DAMPING * (the values of pages with outlinks).
    """
    levels = np.ones(len(sums))
    np.divide(sizes, sums - DAMPING * linking, out=levels, where=sums > 0)
    return levels


def _sweep_numpy(
    links: LinkMatrix, share: FloatArray, gives: FloatArray, tolerance: float, sweeps_max: int
) -> tuple[FloatArray, int, float]:
    """Small graphs: all values at once. It takes more sweeps, and no loading."""
    change, sweeps = 0.0, 0
    while sweeps < sweeps_max:
        sweeps += 1
        new = share * _received(links, gives)
        change, total = float(np.abs(new - gives).sum()), float(new.sum())
        gives = new
        if change <= tolerance * total:
            break
    return _received(links, gives), sweeps, change


def _received(links: LinkMatrix, gives: FloatArray) -> FloatArray:
    sums = np.concatenate(([0.0], np.cumsum(gives[links.sources])))
    return 1.0 + sums[links.pointers[1:]] - sums[links.pointers[:-1]]


def required(kernels: CompiledKernels) -> Mapping[str, CompiledFunction] | None:
    """Compiled kernels, compiled in the foreground if need be: ranking has a process of its own. None: impossible."""
    with suppress(KernelsUnavailable):
        kernels.require()
    return kernels.get()


def _sweep_compiled(
    functions: Mapping[str, CompiledFunction],
    links: LinkMatrix,
    share: FloatArray,
    gives: FloatArray,
    tolerance: float,
    sweeps_max: int,
) -> tuple[FloatArray, int, float]:
    linking, change, values = np.flatnonzero(links.links_of).astype(np.int32), np.zeros(1), np.ones(links.nodes)
    # The kernels take addresses: arrays of these types, without gaps.
    graph = np.ascontiguousarray(links.pointers, np.int64), np.ascontiguousarray(links.sources, np.int32)
    pointers, sources = (array.ctypes.data for array in graph)
    nodes = linking.ctypes.data, len(linking), share.ctypes.data, gives.ctypes.data
    sweeps = functions["sweep"](pointers, sources, *nodes, tolerance, sweeps_max, change.ctypes.data)
    functions["receive"](pointers, sources, gives.ctypes.data, values.ctypes.data, len(values))
    return values, sweeps, float(change[0])


# -- kernels -----------------------------------------------------------------------------------------------------------
#
# numba compiles these functions as they are. The caller gives arrays of one entry for each node, or for each node and
# one more (`pointers`), and sources and linking nodes that are numbers of nodes.


def sweep(
    pointers: list[int],
    sources: list[int],
    linking: list[int],
    linking_nodes: int,
    share: list[float],
    gives: list[float],
    tolerance: float,
    sweeps_max: int,
    changes: list[float],
) -> int:
    """Update the values of the linking nodes until they converge; the number of sweeps. changes[0] receives the change
    in the last one. One thread, in the order of the nodes: the result is the same every time.
    """
    sweeps = 0
    while sweeps < sweeps_max:
        change, total = 0.0, 0.0
        for number in range(linking_nodes):
            node = linking[number]
            value = 1.0
            for place in range(pointers[node], pointers[node + 1]):
                value += gives[sources[place]]
            new = value * share[node]
            change += abs(new - gives[node])
            total += new
            gives[node] = new
        sweeps += 1
        changes[0] = change
        if change <= tolerance * total:
            break
    return sweeps


def receive(pointers: list[int], sources: list[int], gives: list[float], values: list[float], nodes: int) -> int:
    """Add to each node's value what it receives."""
    for node in range(nodes):
        for place in range(pointers[node], pointers[node + 1]):
            values[node] += gives[sources[place]]
    return nodes
