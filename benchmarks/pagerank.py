"""How long does PageRank of a graph on disk take, how much memory and disk, and is it the one of the arrays?

    python benchmarks/pagerank.py [--links 10000000] [--memory-mb 1024] [--limit-mb 4096] [--folder DIR]

A synthetic graph of a fifteenth as many nodes, half of them with outlinks: out-links and popularity by power laws, half
of the links to nodes with near numbers. It is made in pieces that are never held together. `--memory-mb` is what the
link grid may take; `--limit-mb` limits the address space of the process, mapped files included (RLIMIT_AS). Up to
20 million links the ranks are compared with those of `pagerank`, which holds all links in arrays.
"""

import argparse
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tarrafa.graph.link_grid import LinkGrid
from tarrafa.graph.pagerank import LinkMatrix, pagerank
from tarrafa.graph.pagerank_on_disk import pagerank_on_disk

LINKS_PER_NODE = 15
SOURCES_AT_ONCE = 100_000
NEAR = 10_000
COMPARED_LINKS_MAX = 20_000_000
DIFFERENCE_MAX = 1e-6

Integers = NDArray[np.int64]


def links_between(nodes: int, links: int) -> Iterator[tuple[Integers, Integers]]:
    visited = max(1, nodes // 2)
    for first in range(0, visited, SOURCES_AT_ONCE):
        rng, count = np.random.default_rng([1, first]), min(SOURCES_AT_ONCE, visited - first)
        shape = np.minimum(rng.pareto(1.5, count) + 0.1, 200.0)
        degrees = np.maximum(1, shape * (links * count / visited) / shape.sum()).astype(np.int64)
        sources = np.repeat(np.arange(first, first + count), degrees)
        chances = rng.random(len(sources))
        near = sources + ((chances * 4 - 1) * NEAR).astype(np.int64)  # of the lower half
        far = (nodes * (chances * 2 - 1) ** 3).astype(np.int64)  # of the upper one
        yield sources, np.clip(np.where(chances < 0.5, near, far), 0, nodes - 1)


class Memory:
    """The most that this process had, in MB: anonymous, and with mapped files."""

    def __init__(self) -> None:
        self.anonymous, self.total = 0.0, 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(0.05):
            self._look()

    def _look(self) -> None:
        lines = Path("/proc/self/status").read_text().splitlines()
        found = {key: int(value.split()[0]) / 1024 for key, _, value in (line.partition(":") for line in lines)
                 if key in ("RssAnon", "VmHWM")}  # fmt: skip
        self.anonymous, self.total = max(self.anonymous, found["RssAnon"]), found["VmHWM"]

    def most(self) -> str:
        self._look()
        return f"{self.anonymous:,.0f} MB anonymous at most, {self.total:,.0f} MB with mapped files"

    def close(self) -> None:
        self._ended.set()
        self._thread.join()


class Phase:
    """Prints what a part of the run has taken."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._began, self._cpu = time.monotonic(), time.process_time()

    def __exit__(self, *_: object) -> None:
        took, cpu = time.monotonic() - self._began, time.process_time() - self._cpu
        print(f"  {self._name:28} {took:8.1f} s {cpu:8.1f} CPU-s", flush=True)


def in_arrays(nodes: int, links: int) -> NDArray[np.float32]:
    pairs = np.concatenate([targets << 32 | sources for sources, targets in links_between(nodes, links)])
    pairs = np.unique(pairs)
    targets, sources = pairs >> 32, (pairs & 0xFFFFFFFF).astype(np.int32)
    targets, sources = targets[targets != sources], sources[targets != sources]
    pointers = np.concatenate(([0], np.cumsum(np.bincount(targets, minlength=nodes))))
    matrix = LinkMatrix(pointers, sources, np.bincount(sources, minlength=nodes).astype(np.int32))
    with Phase("PageRank in arrays"):
        found = pagerank(matrix, np.zeros(nodes, np.int32))
    print(f"    {found.sweeps} sweeps")
    return found.ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--links", type=int, default=10_000_000)
    parser.add_argument("--memory-mb", type=int, default=1024)
    parser.add_argument("--limit-mb", type=int, default=4096)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (options.limit_mb << 20, options.limit_mb << 20))
    nodes, memory, same = options.links // LINKS_PER_NODE, Memory(), True
    began, cpu = time.monotonic(), time.process_time()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder, blocks = Path(name), np.broadcast_to(np.int32(0), nodes)
        grid = LinkGrid(nodes, folder, options.memory_mb << 20)
        with Phase("sorted and spooled"):
            making_s, links = 0.0, links_between(nodes, options.links)
            while True:
                since = time.process_time()
                piece = next(links, None)
                making_s += time.process_time() - since
                if piece is None:
                    break
                grid.add(*piece)
        print(f"    of it {making_s:.1f} CPU-s to make the links")
        with Phase("merged and encoded"):
            grid.finish()
        print(f"    {nodes:,} nodes, {grid.links:,} links, {grid.intervals} intervals of 2**{grid.bits} nodes")
        most, then = grid.disk_bytes_max / 1e9, grid.disk_bytes / 1e9
        print(f"    disk: {most:.2f} GB at most, then {then:.2f}, and 16 bytes a node")
        with Phase("PageRank on disk"):
            found = pagerank_on_disk(grid, folder, blocks)
        grid.close()
        print(f"    {found.sweeps} sweeps, mean {float(np.mean(found.ranks, dtype=float)):.7f}, {memory.most()}")
    print(f"  all of it {time.monotonic() - began:.0f} s, {time.process_time() - cpu:.0f} CPU-s")
    memory.close()
    if options.links <= COMPARED_LINKS_MAX:
        difference = float(np.max(np.abs(found.ranks / in_arrays(nodes, options.links) - 1)))
        same = difference <= DIFFERENCE_MAX
        print(f"    largest difference {difference:.1e}")
    print("ok" if same else f"above {DIFFERENCE_MAX:g}")
    sys.exit(0 if same else 1)


if __name__ == "__main__":
    main()
