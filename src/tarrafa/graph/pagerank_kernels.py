"""Compiled inner loops (numba) of PageRank.

Separate from `pagerank`, because numba takes a second to load and its cache on the disk depends on one file only. This
module imports no other module of Tarrafa.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

compiled = njit(cache=True, nogil=True)


@compiled
def sweep(
    pointers: NDArray[np.int64],
    sources: NDArray[np.int32],
    share: NDArray[np.float64],
    linking: NDArray[np.int32],
    gives: NDArray[np.float64],
    tolerance: float,
    sweeps_max: int,
) -> tuple[int, float]:
    """Update the values of the linking nodes until they converge; the number of sweeps, and the change in the last one.

    One thread, in the order of the nodes: the result is the same every time.
    """
    sweeps, change = 0, 0.0
    while sweeps < sweeps_max:
        change, total = 0.0, 0.0
        for node in linking:
            value = 1.0
            for place in range(pointers[node], pointers[node + 1]):
                value += gives[sources[place]]
            new = value * share[node]
            change += abs(new - gives[node])
            total += new
            gives[node] = new
        sweeps += 1
        if change <= tolerance * total:
            break
    return sweeps, change


@compiled
def receive(pointers: NDArray[np.int64], sources: NDArray[np.int32], gives: NDArray[np.float64]) -> NDArray[np.float64]:
    """The final value of each node."""
    values = np.ones(len(gives))
    for node in range(len(gives)):
        for place in range(pointers[node], pointers[node + 1]):
            values[node] += gives[sources[place]]
    return values
