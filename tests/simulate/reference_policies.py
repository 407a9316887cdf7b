"""The classic policies once more, slowly, in plain Python: what the fast ones must agree with."""

import heapq
import math
from collections.abc import Sequence

Plan = list[tuple[float, int]]  # of a server: when, which page


def execute_plan(
    due: Sequence[Sequence[float]], politeness: float, crawlers: int, download: float, horizon: float
) -> list[list[float]]:
    """Starts of each server's visits: at every moment ask everybody who may, and take who is most late."""
    free = [0.0] * crawlers
    starts: list[list[float]] = [[] for _ in due]
    may = [plan[0] if plan else math.inf for plan in due]
    now = 0.0
    while True:
        now = max(now, min(free))
        if min(may, default=math.inf) > now:
            now = min(may, default=math.inf)
        if now >= horizon:
            return starts
        _, server = min((due[s][len(starts[s])], s) for s in range(len(due)) if may[s] <= now)
        starts[server].append(now)
        free[free.index(min(free))] = now + download
        left = due[server][len(starts[server]) :]
        may[server] = max(now + politeness, left[0]) if left else math.inf


def staleness(y: float) -> float:
    return 1.0 - (1.0 - math.exp(-y)) / y


def allocate(
    rates: list[float], servers: list[int], cap: float, budget: int, horizon: float, weights: list[float]
) -> list[int]:
    """One visit at a time, to the page that it helps most, as long as its server may have more."""

    def gain(page: int, visits: int) -> float:
        y = rates[page] * horizon
        return weights[page] * (staleness(y / (visits + 1)) - staleness(y / (visits + 2)))

    visits = [0] * len(rates)
    taken = [0] * (max(servers) + 1)
    heap = [(-gain(page, 0), page) for page in range(len(rates))]
    heapq.heapify(heap)
    while heap and budget:
        _, page = heapq.heappop(heap)
        if taken[servers[page]] < cap:
            visits[page] += 1
            taken[servers[page]] += 1
            budget -= 1
            heapq.heappush(heap, (-gain(page, visits[page]), page))
    return visits


def own_times(visits: list[int], servers: list[int], n_servers: int, horizon: float) -> list[Plan]:
    """Of each server its visits (when, page), every page at its own ideal times."""
    plans: list[Plan] = [[] for _ in range(n_servers)]
    for page, count in enumerate(visits):
        plans[servers[page]] += [(j * horizon / (count + 1), page) for j in range(1, count + 1)]
    return [sorted(plan) for plan in plans]


def merged_times(visits: list[int], servers: list[int], n_servers: int, horizon: float) -> list[Plan]:
    plans = own_times(visits, servers, n_servers, horizon)
    return [[(i * horizon / (len(plan) + 1), page) for i, (_, page) in enumerate(plan, 1)] for plan in plans]


def mean_staleness(
    plans: list[Plan], starts: list[list[float]], rates: list[float], weights: list[float], horizon: float
) -> float:
    times: list[list[float]] = [[0.0] for _ in rates]
    for plan, begun in zip(plans, starts, strict=True):
        for (_, page), start in zip(plan, begun, strict=False):
            times[page].append(start)
    total = 0.0
    for page, visited in enumerate(times):
        ends = [*visited[1:], horizon]
        gaps = [end - begin for begin, end in zip(visited, ends, strict=True) if end > begin]
        total += weights[page] * sum(gap * staleness(rates[page] * gap) for gap in gaps)
    return total / sum(weights) / horizon
