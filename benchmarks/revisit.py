"""How long does a day's plan take: who is visited how often (`allocate`), and when (`merge`)?

The portable workload: a million pages on 2,000 servers, 8.64 million visits in 24 hours, one in 15 seconds per server,
with servers all alike (theta 0) or of Zipf's sizes (theta 1), and with a hundred different rates only, which makes
for ties by the hundred thousand. Beside it, in the same run, the peer: the literal greedy (a heap, compiled as well)
and one numpy sort of all visits; it must give the same plan. Then ten times the pages, for time and memory.

    python benchmarks/revisit.py [--runs 7] [--pages 1000000] [--large 10000000]
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarrafa.revisit.allocation import allocate, literal_greedy
from tarrafa.revisit.visit_times import VisitSchedule, ideal_times, merge
from tarrafa.simulate.workload import make_workload

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

HORIZON_S = 86_400.0
CAP = 86400 // 15
PAGES_PER_SERVER = 500
VISITS_PER_PAGE = 8.64
GROUPS = [(0.0, None), (1.0, None), (1.0, 0.0), (1.0, 1.0), (1.0, 2.0)]


@dataclass
class Problem:
    rates: Floats
    servers: Integers
    n_servers: int
    budget: int

    def allocate(self) -> Integers:
        caps = np.full(self.n_servers, CAP)
        return allocate(self.rates, self.servers, caps, self.budget, HORIZON_S)

    def allocate_literally(self) -> Integers:
        caps = np.full(self.n_servers, CAP)
        return literal_greedy(self.rates, self.servers, caps, self.budget, HORIZON_S)

    def merge(self, visits: Integers) -> VisitSchedule:
        return merge(visits, self.servers, self.n_servers, HORIZON_S)

    def merge_by_sorting(self, visits: Integers) -> NDArray[np.int32]:
        page, due = ideal_times(visits, HORIZON_S)
        return page[np.lexsort((page, due, self.servers[page]))]

    def plan(self) -> VisitSchedule:
        return self.merge(self.allocate())


def problem_of(pages: int, theta: float, rates_theta: float | None) -> Problem:
    web = make_workload(pages, pages // PAGES_PER_SERVER, theta, rates_theta)
    return Problem(web.rates_per_s, web.servers, web.n_servers, int(pages * VISITS_PER_PAGE))


@dataclass
class Timing:
    wall_s: list[float]
    cpu_s: list[float]

    def __str__(self) -> str:
        return f"{min(self.wall_s):6.3f} {statistics.median(self.wall_s):6.3f} {min(self.cpu_s):6.3f}"


def measure(runs: int, work: Callable[[], Any]) -> tuple[Timing, Any]:
    timing = Timing([], [])
    result = None
    for _ in range(runs):
        result = None
        wall, cpu = time.perf_counter(), time.process_time()
        result = work()
        timing.wall_s.append(time.perf_counter() - wall)
        timing.cpu_s.append(time.process_time() - cpu)
    return timing, result


def compare(pages: int, runs: int) -> None:
    heading = f"{pages:,} pages, seconds: best, median, CPU".ljust(40)
    print(f"{heading}{'allocate':^22}{'merge':^22}{'both':^22}{'peer':>7}{'faster':>8}")
    for theta, rates_theta in GROUPS:
        problem = problem_of(pages, theta, rates_theta)

        problem.plan()
        allocating, visits = measure(runs, problem.allocate)
        merging, schedule = measure(runs, partial(problem.merge, visits))
        both, _ = measure(runs, problem.plan)
        literal, expected = measure(1, problem.allocate_literally)
        sorting, order = measure(1, partial(problem.merge_by_sorting, visits))
        assert (visits == expected).all() and (schedule.page == order).all(), "the peer has another plan"
        peer_s = literal.wall_s[0] + sorting.wall_s[0]
        rates = "" if rates_theta is None else f", rates theta {rates_theta:g}"
        name = f"theta {theta:g}{rates}, {visits.sum():,} visits".ljust(40)
        print(
            f"{name}{allocating!s:^22}{merging!s:^22}{both!s:^22}{peer_s:7.2f}{peer_s / min(both.wall_s):7.0f}x",
            flush=True,
        )


def one_large(pages: int) -> None:
    problem = problem_of(pages, 1.0, None)
    problem_of(100_000, 1.0, None).plan()  # compiles
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    allocating, visits = measure(1, problem.allocate)
    middle = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    merging, schedule = measure(1, partial(problem.merge, visits))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{pages:,} pages, {len(schedule.page):,} visits, theta 1: allocate {allocating.wall_s[0]:.2f} s, ", end="")
    print(f"merge {merging.wall_s[0]:.2f} s; peak memory {before / 2**20:.2f} GB with the workload, ", end="")
    print(f"{middle / 2**20:.2f} after allocate, {after / 2**20:.2f} after merge (the schedule is 12 bytes a visit)")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--large", type=int, default=10_000_000, help="0: leave it out")
    parser.add_argument("--only-large", action="store_true", help="in this process, so that its peak memory is its own")
    options = parser.parse_args()
    if options.only_large:
        one_large(options.large)
        return
    compare(options.pages, options.runs)
    if options.large:
        command = [sys.executable, __file__, "--only-large", "--large", str(options.large)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
