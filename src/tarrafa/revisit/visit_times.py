"""Spreads each server's planned visits over the horizon (MERGE slots, or each page's ideal times).

Promises: a schedule by server, in order of time, ties in order of page. `own_times` keeps each page's ideal times,
evenly spaced over the horizon; `merge` keeps their order, but spaces a server's visits evenly, so that none must wait.
Knows nothing of why a page gets its visits (`allocation`), nor of the queue that executes the schedule.

The ideal time of the j-th of x visits is (j * T) / (x + 1), with that one division: 1/2 and 2/4 of the horizon are then
the same float, and the tie goes to the lower page.
"""

from dataclasses import dataclass

import numpy as np
from numba import get_num_threads, prange
from numpy.typing import ArrayLike, NDArray

from tarrafa.revisit.allocation import Integers, compiled, compiled_parallel
from tarrafa.revisit.optimal_frequency import Floats

Pages = NDArray[np.int32]

RANKED_VISITS_MAX = (
    128  # up to this many visits of a page, the order of all ideal times is tabled: some 5,000 distinct ones
)


@dataclass(slots=True)
class VisitSchedule:
    """Visits of server s: `page[start[s]:start[s+1]]`, at `due`, ascending."""

    start: Integers
    page: Pages
    due: Floats


@dataclass(slots=True)
class TimeRanks:
    """The order of all ideal times of pages with up to `tallest` visits.

    Visit j of x has rank `rank[x * (x - 1) / 2 + j - 1]` and the time `time[rank]`; equal times share a rank.
    """

    tallest: int
    rank: Pages
    time: Floats


def rank_times(tallest: int, horizon: float) -> TimeRanks:
    visits = np.repeat(np.arange(1, tallest + 1), np.arange(1, tallest + 1))
    number = np.arange(1, len(visits) + 1) - visits * (visits - 1) // 2
    time, rank = np.unique((number * horizon) / (visits + 1), return_inverse=True)
    return TimeRanks(tallest, rank.astype(np.int32), time)


def ideal_times(visits: ArrayLike, horizon: float) -> tuple[Pages, Floats]:
    """Every visit's page and ideal time, page by page."""
    visits, horizon = _checked(visits, horizon)
    page = np.repeat(np.arange(len(visits), dtype=np.int32), visits)
    number = np.arange(1, len(page) + 1) - np.repeat(np.cumsum(visits) - visits, visits)
    return page, (number * horizon) / (visits[page] + 1)


def merge(visits: ArrayLike, servers: ArrayLike, n_servers: int, horizon: float) -> VisitSchedule:
    """The i-th visit of a server's n, in the order of the ideal times, at i * T / (n + 1)."""
    return _schedule(visits, servers, n_servers, horizon, merged=True)


def own_times(visits: ArrayLike, servers: ArrayLike, n_servers: int, horizon: float) -> VisitSchedule:
    """Each visit at its page's ideal time."""
    return _schedule(visits, servers, n_servers, horizon, merged=False)


def _schedule(
    visits: ArrayLike, servers: ArrayLike, n_servers: int, horizon: float, merged: bool, short: int = RANKED_VISITS_MAX
) -> VisitSchedule:
    visits, horizon = _checked(visits, horizon)
    servers = np.ascontiguousarray(servers)
    if servers.shape != visits.shape:
        raise ValueError(f"servers and visits must have one entry per page, got {len(servers)} and {len(visits)}")
    if len(servers) and not 0 <= servers.min() <= servers.max() < n_servers:
        raise ValueError(f"servers must be 0 to {n_servers - 1}, got {servers.min()} to {servers.max()}")
    servers = servers.astype(np.int32)
    first, start = np.zeros((2, n_servers + 1), np.int64)
    order = _group_by_server(visits, servers, first, start)
    ranks = rank_times(min(short, int(visits.max(initial=0))), horizon)
    work = first + start
    parts = get_num_threads()
    bounds = np.searchsorted(work, work[-1] * np.arange(parts + 1) // parts)
    bounds[0], bounds[-1] = 0, n_servers
    page, due = np.empty(start[-1], np.int32), np.empty(start[-1])
    _schedule_servers(
        visits, order, first, start, bounds, ranks.tallest, ranks.rank, ranks.time, horizon, merged, page, due
    )
    return VisitSchedule(start, page, due)


def _checked(visits: ArrayLike, horizon: float) -> tuple[Integers, float]:
    visits = np.ascontiguousarray(visits)
    if visits.size and (visits.dtype.kind not in "iu" or visits.min() < 0):
        raise ValueError("visits must be whole numbers, 0 or more")
    if not 0.0 < horizon < np.inf:
        raise ValueError(f"horizon must be positive and finite, got {horizon}")
    return visits.astype(np.int64, copy=False), float(horizon)


@compiled
def _group_by_server(visits: Integers, servers: Pages, first: Integers, start: Integers) -> Pages:
    """The visited pages, by server; fills in where each server's pages and visits begin."""
    for page in range(len(visits)):
        if visits[page] > 0:
            first[servers[page] + 1] += 1
            start[servers[page] + 1] += visits[page]
    for server in range(1, len(first)):
        first[server] += first[server - 1]
        start[server] += start[server - 1]
    place = first.copy()
    order = np.empty(first[-1], np.int32)
    for page in range(len(visits)):
        if visits[page] > 0:
            order[place[servers[page]]] = page
            place[servers[page]] += 1
    return order


# Two ways to sort a server's visits by time, both in linear time and both stable over pages taken in their order.
#
# Pages with equally many visits share their times, so where visits are few there are few distinct times (those of up to
# 11 visits: 45), and their ranks are counted, not compared. Weakness: a bin for each rank, used or not; a server with
# fewer visits than bins goes the other way.
#
# Otherwise a bucket per visit: the visits of a page are evenly spaced, so no period gets much more than its share
# except by ties, which are in order already; an insertion sort orders the buckets.
@compiled
def _sort_by_rank(visits: Integers, order: Pages, rank: Pages, time: Floats, page: Pages, due: Floats) -> None:
    bins = np.zeros(len(time) + 1, np.int64)
    alike = np.zeros(RANKED_VISITS_MAX + 1, np.int64)
    for k in range(len(order)):
        alike[visits[order[k]]] += 1
    for many in range(1, len(alike)):
        if alike[many] > 0:
            row = many * (many - 1) // 2
            for j in range(many):
                bins[rank[row + j] + 1] += alike[many]
    for k in range(1, len(bins)):
        bins[k] += bins[k - 1]
    for k in range(len(order)):
        many = visits[order[k]]
        row = many * (many - 1) // 2
        for j in range(many):
            of = rank[row + j]
            page[bins[of]] = order[k]
            due[bins[of]] = time[of]
            bins[of] += 1


@compiled
def _sort_by_bucket(visits: Integers, order: Pages, horizon: float, page: Pages, due: Floats) -> None:
    total = len(page)
    buckets = np.zeros(total + 2, np.int64)
    for k in range(len(order)):
        many = visits[order[k]]
        for j in range(1, many + 1):
            buckets[int(j / (many + 1) * total) + 1] += 1
    for k in range(1, len(buckets)):
        buckets[k] += buckets[k - 1]
    for k in range(len(order)):
        many = visits[order[k]]
        for j in range(1, many + 1):
            place = buckets[int(j / (many + 1) * total)]
            buckets[int(j / (many + 1) * total)] += 1
            page[place] = order[k]
            due[place] = (j * horizon) / (many + 1)
    for k in range(1, total):
        time, of = due[k], page[k]
        place = k
        while place > 0 and due[place - 1] > time:
            due[place], page[place] = due[place - 1], page[place - 1]
            place -= 1
        due[place], page[place] = time, of


@compiled_parallel
def _schedule_servers(
    visits: Integers, order: Pages, first: Integers, start: Integers, bounds: Integers,
    tallest: int, rank: Pages, time: Floats, horizon: float, merged: bool, page: Pages, due: Floats,
) -> None:  # fmt: skip
    for part in prange(len(bounds) - 1):
        for server in range(bounds[part], bounds[part + 1]):
            pages = order[first[server] : first[server + 1]]
            of, when = page[start[server] : start[server + 1]], due[start[server] : start[server + 1]]
            most = 0
            for k in range(len(pages)):
                most = max(most, visits[pages[k]])
            if most <= tallest and len(time) <= len(of):
                _sort_by_rank(visits, pages, rank, time, of, when)
            else:
                _sort_by_bucket(visits, pages, horizon, of, when)
            if merged:
                for k in range(len(when)):
                    when[k] = ((k + 1) * horizon) / (len(when) + 1)
