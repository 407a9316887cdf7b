"""Kernels of PageRank, compiled by numba: update values until they converge, and compute the final ones.

numba compiles these functions as they are. The caller gives arrays of one entry for each node, or for each node and one
more (`pointers`), and sources and linking nodes that are numbers of nodes.
"""

from tarrafa.runtime.compiled_kernels import Kernel

KERNELS = {
    "sweep": Kernel("sweep", "int64* int32* int32* int64 float64* float64* float64 int64 float64*"),
    "receive": Kernel("receive", "int64* int32* float64* float64* int64"),
}


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
