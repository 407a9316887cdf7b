"""Executes a day's visit plan through a fixed number of polite crawlers under a simulated clock.

Promises: no visit is early; two visits of one server are never closer than politeness allows, start to start; among the
servers that may be visited the one whose visit is most overdue goes first (ties: the smaller server number). A visit
that would start at the horizon or later is not made.
Knows nothing of rates or policies.

A server hands out its visits in the order in which they are due, so its next visit alone represents it. It waits in one
heap, by the earliest start of that visit, until that time comes, and then in another, by the time when the visit was
due, until a crawler is free. Every download takes equally long and starts never go back in time, so crawlers become
free in the order in which they started: a ring buffer is enough for them. Two heap moves per visit: 8.6 million visits
of 2,000 servers take two seconds.

Known weakness: one queue serves all crawlers, as if they shared memory. Crawlers that own their servers would wait a
little more.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from tarrafa.runtime.compiled_kernels import has_numba_cache
from tarrafa.simulate.workload import Floats, Numbers

NOT_MADE = np.inf
TOLERANCE_S = 1e-6  # of the check alone: seconds of a day are kept to some 1e-11 s

compiled = njit(cache=has_numba_cache(), nogil=True)


@dataclass(slots=True, frozen=True)
class PlanExecution:
    """The result of a plan."""

    starts_s: Floats  # of each visit, in the plan's order; infinite if it was not made
    made: int
    violations: int  # of politeness, counted from the starts; always 0


def execute_plan(
    offsets: Numbers, due_s: Floats, politeness_s: float, crawlers: int, download_s: float, horizon_s: float
) -> PlanExecution:
    """Execute a plan; the visits of server s are due_s[offsets[s]:offsets[s + 1]], ascending."""
    starts_s = np.full(len(due_s), NOT_MADE)
    made = _execute_plan(offsets, due_s, float(politeness_s), crawlers, float(download_s), float(horizon_s), starts_s)
    violations = count_violations(offsets, starts_s, politeness_s)
    assert violations == 0, f"visits less than {politeness_s} s after the one before: {violations}"
    return PlanExecution(starts_s, int(made), violations)


def count_violations(offsets: Numbers, starts_s: Floats, politeness_s: float) -> int:
    """How many visits started too soon after the previous one on the same server. Shares no code with the execution."""
    if len(starts_s) < 2:
        return 0
    with np.errstate(invalid="ignore"):  # two visits that were not made: inf - inf is no gap
        gaps_s = np.diff(starts_s)
    firsts = offsets[(offsets > 0) & (offsets < len(starts_s))]
    gaps_s[firsts - 1] = np.inf
    return int(np.count_nonzero(gaps_s < politeness_s - TOLERANCE_S))


@compiled
def _execute_plan(offsets, due_s, politeness_s, crawlers, download_s, horizon_s, starts_s):  # type: ignore[no-untyped-def]
    """Fills `starts_s`; returns how many visits were made."""
    n_servers = len(offsets) - 1
    wait_keys, wait_servers, waiting = np.empty(n_servers), np.empty(n_servers, np.int64), 0
    late_keys, late_servers, late = np.empty(n_servers), np.empty(n_servers, np.int64), 0
    for server in range(n_servers):
        if offsets[server] < offsets[server + 1]:
            waiting = _push(wait_keys, wait_servers, waiting, due_s[offsets[server]], server)
    following = offsets.copy()
    free_s, crawler, now_s, made = np.zeros(crawlers), 0, 0.0, 0
    while waiting > 0 or late > 0:
        now_s = max(now_s, free_s[crawler])
        if late == 0:
            now_s = max(now_s, wait_keys[0])
        if now_s >= horizon_s:
            break
        while waiting > 0 and wait_keys[0] <= now_s:
            server = wait_servers[0]
            waiting = _pop(wait_keys, wait_servers, waiting)
            late = _push(late_keys, late_servers, late, due_s[following[server]], server)
        server = late_servers[0]
        late = _pop(late_keys, late_servers, late)
        starts_s[following[server]] = now_s
        made += 1
        free_s[crawler] = now_s + download_s
        crawler = (crawler + 1) % crawlers
        following[server] += 1
        if following[server] < offsets[server + 1]:
            may_s = max(now_s + politeness_s, due_s[following[server]])
            waiting = _push(wait_keys, wait_servers, waiting, may_s, server)
    return made


@compiled
def _push(keys, servers, size, key, server):  # type: ignore[no-untyped-def]
    """Push onto a binary heap ordered by key, then server; returns its new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and servers[parent] < server):
            break
        keys[at], servers[at] = keys[parent], servers[parent]
        at = parent
    keys[at], servers[at] = key, server
    return size + 1


@compiled
def _pop(keys, servers, size):  # type: ignore[no-untyped-def]
    """Remove the first of the heap, which the caller has read; returns its new size."""
    size -= 1
    key, server = keys[size], servers[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            keys[other] < keys[child] or (keys[other] == keys[child] and servers[other] < servers[child])
        ):
            child = other
        if key < keys[child] or (key == keys[child] and server < servers[child]):
            break
        keys[at], servers[at] = keys[child], servers[child]
        at = child
    keys[at], servers[at] = key, server
    return size
