"""Scheduler of the event-driven simulator: chooses the next server and document.

Promises: the choice that `policy.choose_shelf` would make from all documents of all servers that may be visited, found
by looking only at the heads of shelves.
Knows nothing of events, nor of what a visit finds.

On one shelf the smallest key is the best at any time. So each server keeps its documents in a heap per shelf. While
several servers wait for a crawler (or for the budget) their heads are also in one common heap per shelf: a decision
compares one head per shelf, not one per server and shelf. Servers that have left are removed when they reach the top.

Known weakness: an exploring visit explores the server that the others' urgencies chose, not the whole Web.
"""

import heapq
import math
from collections.abc import Callable, Iterator

from tarrafa.revisit.policy import PageHistory, RevisitPolicy, choose_shelf

AHEAD_SERVERS = 20  # as many are tried for a visit ahead of its time, as in the live frontier


class CachedPolicy:
    """A policy that caches when shelves are due. Every policy's due time depends on the key alone; `IndexPolicy`
    inverts a function to find it, once here instead of once per head and decision.
    """

    def __init__(self, policy: RevisitPolicy) -> None:
        self.behind = policy
        self._offsets: dict[int, float] = {}

    def place(self, page: PageHistory) -> tuple[int, float]:
        return self.behind.place(page)

    def urgency(self, shelf: int, key: float, now: float) -> float:
        return self.behind.urgency(shelf, key, now)

    def explore_from(self, shelf: int, key: float) -> float:
        return self.behind.explore_from(shelf, key)

    def due(self, shelf: int, key: float) -> float:
        offset = self._offsets.get(shelf)
        if offset is None:
            offset = self._offsets[shelf] = self.behind.due(shelf, 0.0)
        return key + offset


class ServerShelves:
    """The visited documents of one server."""

    def __init__(self) -> None:
        self._heaps: dict[int, list[tuple[float, int]]] = {}

    def put(self, shelf: int, key: float, document: int) -> None:
        heapq.heappush(self._heaps.setdefault(shelf, []), (key, document))

    def take(self, shelf: int) -> int:
        """Remove and return the document at the head."""
        heap = self._heaps[shelf]
        document = heapq.heappop(heap)[1]
        if not heap:
            del self._heaps[shelf]
        return document

    def clear(self) -> None:
        self._heaps.clear()

    def heads(self) -> Iterator[tuple[int, float]]:
        return ((shelf, heap[0][0]) for shelf, heap in self._heaps.items())

    def due(self, policy: RevisitPolicy) -> float:
        """The time from which a head is worth a visit."""
        soonest_s, due = math.inf, policy.due
        for shelf, heap in self._heaps.items():
            soonest_s = min(soonest_s, due(shelf, heap[0][0]))
        return soonest_s


class WaitingServers:
    """Servers that may be visited now and wait for a crawler."""

    def __init__(self, shelves: list[ServerShelves]) -> None:
        self._shelves = shelves
        self._stamps = [0] * len(shelves)
        self._waiting: dict[int, None] = {}
        self._arrived: list[tuple[int, int]] = []  # not yet on the common shelves: mostly that is not needed
        self._common: dict[int, list[tuple[float, int, int]]] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, server: int) -> None:
        self._waiting[server] = None
        self._arrived.append((server, self._stamps[server]))

    def leave(self, server: int) -> None:
        self._waiting.pop(server, None)
        self._stamps[server] += 1
        if not self._waiting:
            self._arrived.clear()
            self._common.clear()

    def best(self, policy: RevisitPolicy, now_s: float) -> int | None:
        """The server with the most urgent document, if any is due; a single waiting server always has one."""
        if len(self._waiting) == 1:
            (server,) = self._waiting
            return server
        for server, stamp in self._arrived:
            if self._stamps[server] == stamp:
                for shelf, key in self._shelves[server].heads():
                    heapq.heappush(self._common.setdefault(shelf, []), (key, server, stamp))
        self._arrived.clear()
        shelf_chosen = choose_shelf(policy, self._heads(), now_s)
        return None if shelf_chosen is None else self._common[shelf_chosen][0][1]

    def _heads(self) -> Iterator[tuple[int, float]]:
        for shelf in list(self._common):
            heap = self._common[shelf]
            while heap and self._stamps[heap[0][1]] != heap[0][2]:
                heapq.heappop(heap)
            if heap:
                yield shelf, heap[0][0]
            else:
                del self._common[shelf]


class SleepingServers:
    """Servers without a due document, by the time when they have one."""

    def __init__(self, servers: int) -> None:
        self._wake_s = [math.nan] * servers  # as of the newest entry
        self._heap: list[tuple[float, int]] = []

    def put(self, server: int, wake_s: float) -> None:
        self._wake_s[server] = wake_s
        if wake_s < math.inf:
            heapq.heappush(self._heap, (wake_s, server))
        if len(self._heap) > 4 * len(self._wake_s) + AHEAD_SERVERS:
            self._heap = [(at_s, one) for one, at_s in enumerate(self._wake_s) if at_s < math.inf]
            heapq.heapify(self._heap)

    def first(self, may_visit: Callable[[int], bool]) -> int | None:
        """The first of the next few servers that may be visited already."""
        seen: list[tuple[float, int]] = []
        found: int | None = None
        while self._heap and found is None and len(seen) < AHEAD_SERVERS:
            entry = heapq.heappop(self._heap)
            if self._wake_s[entry[1]] == entry[0]:  # otherwise a later entry replaced this one
                seen.append(entry)
                found = entry[1] if may_visit(entry[1]) else None
        for entry in seen:
            heapq.heappush(self._heap, entry)
        return found
