"""What does a search cost when 1 to 16 machines own the parts of an index?

    python -m benchmarks.fan_out [--documents 20000] [--parts 16] [--queries 300]

The same index in 16 parts is served by 1, 2, 4, 8 and 16 processes, each as `tarrafa serve --as-shard` of a machine
that owns its share of the parts; then each part by two of them. Each search goes to all of them over HTTP. Printed: the
time of a search (p50, p99), and processor time a search of the asking process and of all machines together. All run on
this machine, so times with more machines than processors are those of an overloaded one; processor time is what counts.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.crawl import current_commit, describe_machine
from benchmarks.shards import archive, questions, served
from tarrafa.graph import follower as graph
from tarrafa.index import shards
from tarrafa.index.parallel_rebuild import rebuild_in_parallel
from tarrafa.index.shards import ShardLayout, write_layout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher

OWNERS = (1, 2, 4, 8, 16)
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def owners(data: DataDirectory, folder: Path, of: int, count: int, replicas: int) -> list[DataDirectory]:
    """Data directories that share archive, graph and parts, each with its share of them."""
    found = []
    for number in range(count):
        owner = DataDirectory(folder / f"{count}x{replicas}-{number}")
        owner.create()
        for name in ("archive", "graph"):
            (owner.root / name).rmdir()
            (owner.root / name).symlink_to(data.root / name)
        here = sorted(
            {part for part in range(1, of + 1) for copy in range(replicas) if (part + copy) % count == number}
        )
        for part in here:
            name = f"{part}-of-{of}"
            (owner.root / "index" / name).symlink_to(data.root / "index" / name)
        write_layout(owner, ShardLayout(of, tuple(here), is_owned=True, replicas=replicas))
        found.append(owner)
    return found


def children_cpu_s() -> float:
    """Of all processes that this one has started and that live, with theirs."""
    own = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return sum(_cpu_s(pid) for pid in own)


def _cpu_s(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / TICKS_PER_S


def measure(searcher: Searcher, asked: Sequence[SearchRequest]) -> tuple[list[list[str]], list[float], float, float]:
    """The hits, how long each search took in ms, and the CPU-ms of a search here and there."""
    for question in asked:
        searcher.search(question)
    hits, times = [], []
    before, there = time.process_time(), children_cpu_s()
    for question in asked:
        began = time.perf_counter()
        result = searcher.search(question)
        times.append((time.perf_counter() - began) * 1e3)
        assert not any(shard.trouble for shard in result.shards), result.shards
        hits.append([hit.url for hit in result.hits])
    here, there = time.process_time() - before, children_cpu_s() - there
    return hits, times, here / len(asked) * 1e3, there / len(asked) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=20_000)
    parser.add_argument("--parts", type=int, default=16)
    parser.add_argument("--queries", type=int, default=300)
    options = parser.parse_args()
    print(f"{time.strftime('%Y-%m-%d %H:%M')}, commit {current_commit()}, {describe_machine()}")
    with tempfile.TemporaryDirectory(prefix="tarrafa-fan-out-") as name:
        folder = Path(name)
        data = DataDirectory(folder / "data")
        data.create()
        archive(data, options.documents)
        graph.catch_up(data, lambda name, weights: None)
        shards.set_layout(data, shards.parse_layout(str(options.parts), "--parts"))
        rebuild_in_parallel(data, len(os.sched_getaffinity(0)))
        asked = questions(options.documents, options.queries)
        print(f"{options.documents:,} documents in {options.parts} parts, {len(asked)} questions")
        print("| machines | a part is on | p50 ms | p99 ms | CPU-ms of the asking process | of all machines |")
        print("|---|---|---|---|---|---|")
        first: list[list[str]] | None = None
        for replicas in (1, 2):
            for count in (one for one in OWNERS if replicas <= one <= options.parts):
                with ExitStack() as stack:
                    several = owners(data, folder, options.parts, count, replicas)
                    asking = Searcher([stack.enter_context(served(one)) for one in several])
                    hits, times, here_ms, there_ms = measure(asking, asked)
                first = first or hits
                assert [set(one) for one in hits] == [set(one) for one in first], "the same hits from all"
                p50, p99 = np.percentile(times, [50, 99])
                print(f"| {count} | {replicas} | {p50:.1f} | {p99:.1f} | {here_ms:.1f} | {there_ms:.1f} |", flush=True)


if __name__ == "__main__":
    main()
