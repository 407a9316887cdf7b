"""Scheduler of the event-driven simulator: chooses the next server and document within the visit budget.

Promises: the choice that `policy.choose_shelf` would make from all documents of all servers that may be visited, found
by looking only at the heads of shelves; never more revisits than the budget.
Knows nothing of events, nor of what a visit finds.

On one shelf the smallest key is the best at any time. So each server keeps its documents in a heap per shelf. While
several servers wait for a crawler (or for the budget) their heads are also in one common heap per shelf: a decision
compares one head per shelf, not one per server and shelf. Servers that have left are removed when they reach the top.

Known weakness: an exploring visit explores the server that the others' urgencies chose, not the whole Web.
"""

import heapq
import math
from collections.abc import Iterator

from tarrafa.revisit.policy import PageHistory, RevisitPolicy, choose_shelf

BUCKET_S, BUCKET_MIN = 3600.0, 2.0  # this much of the budget may be saved for later, as in the live frontier
WHOLE_TOKEN = 1.0 - 1e-9  # a token, up to rounding


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


class BudgetBucket:
    """The budget as a token bucket: tokens arrive evenly, a visit takes one, few are kept."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(BUCKET_MIN, per_s * BUCKET_S)
        self._tokens = 0.0
        self._at_s = 0.0

    def next_s(self, now_s: float) -> float:
        """The time of the next token: now, if there is one."""
        if self._per_s == math.inf:
            return now_s
        self._tokens = min(self._most, self._tokens + (now_s - self._at_s) * self._per_s)
        self._at_s = now_s
        return now_s if self._tokens >= WHOLE_TOKEN else now_s + (1.0 - self._tokens) / self._per_s

    def take(self) -> None:
        self._tokens -= 1.0
