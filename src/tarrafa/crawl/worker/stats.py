"""Statistics of a worker and its heartbeat: counters, notices, and the newest, failed and slowest visits.

Counters run from the start of the worker. Samples are a few visits of the last second: the newest, the failed, the
slowest.
Promises: a visit is counted in about a microsecond.
Knows nothing of where the figures are shown.
"""

import os
from collections import deque
from collections.abc import Callable
from heapq import heappush, heapreplace
from itertools import count

from tarrafa.clock import boottime
from tarrafa.i18n import Message, joined
from tarrafa.model import VisitRecord
from tarrafa.runtime.heartbeat import (
    PROCESS_HEARTBEAT_EVERY_S,
    URL_CHARS_MAX,
    VISIT_SAMPLES_MAX,
    ProcessHeartbeat,
    VisitSample,
    printable_reason,
    printable_text,
)


class WorkerStats:
    """Counts each visit; `take_recent` gives the samples since the last time."""

    def __init__(self) -> None:
        self.visits = self.pages = self.bytes = 0
        self._newest: deque[VisitRecord] = deque(maxlen=VISIT_SAMPLES_MAX)
        self._failures: deque[VisitRecord] = deque(maxlen=VISIT_SAMPLES_MAX)
        self._slowest: list[tuple[float, int, VisitRecord]] = []
        self._order = count()

    def count_bytes(self, size: int) -> None:
        self.bytes += size

    def count_visit(self, record: VisitRecord) -> None:
        outcome = record.outcome
        self.visits += 1
        if outcome.kept:
            self.pages += 1
            self._newest.append(record)
        elif outcome.requested and (outcome.status < 0 or outcome.status >= 400):
            self._failures.append(record)
        if len(self._slowest) < VISIT_SAMPLES_MAX:
            heappush(self._slowest, (outcome.elapsed_s, next(self._order), record))
        elif outcome.elapsed_s > self._slowest[0][0]:
            heapreplace(self._slowest, (outcome.elapsed_s, next(self._order), record))

    def take_recent(self) -> tuple[tuple[VisitSample, ...], tuple[VisitSample, ...], tuple[VisitSample, ...]]:
        """The newest, failed and slowest visits since the last call."""
        slowest = [record for _, _, record in sorted(self._slowest, reverse=True)]
        samples = tuple(tuple(map(_sample, some)) for some in (self._newest, self._failures, slowest))
        self._newest.clear()
        self._failures.clear()
        self._slowest.clear()
        return samples[0], samples[1], samples[2]


class WorkerNotices:
    """The worker's notices for people. `paused` returns why it is paused; empty: it is not."""

    def __init__(
        self, clock: Message | str, link_cache: Callable[[], Message | str], paused: Callable[[], Message | str] = str
    ) -> None:
        self._clock, self._link_cache, self._paused = clock, link_cache, paused
        self._busy: Message | str = ""

    def set_busy(self, why: Message | str) -> None:
        self._busy = why

    def text(self) -> Message | str:
        return joined([one for one in (self._paused(), self._clock, self._busy, self._link_cache()) if one])


class WorkerHeartbeat:
    """Makes the worker's heartbeats. `lag_s`: by how much its event loop was late since a boot time."""

    def __init__(self, name: str, stats: WorkerStats, notices: WorkerNotices, lag_s: Callable[[float], float]) -> None:
        self._name, self._stats, self._notices, self._lag_s = name, stats, notices, lag_s

    def make(self, hosts: int, hosts_max: int, connections: int) -> ProcessHeartbeat:
        newest, failures, slowest = self._stats.take_recent()
        return ProcessHeartbeat(
            self._name,
            os.getpid(),
            self._stats.visits,
            self._stats.pages,
            self._stats.bytes,
            hosts=hosts,
            hosts_max=hosts_max,
            connections=connections,
            lag_s=self._lag_s(boottime() - PROCESS_HEARTBEAT_EVERY_S),
            note=self._notices.text(),
            newest=newest,
            failures=failures,
            slowest=slowest,
        )


def _sample(record: VisitRecord) -> VisitSample:
    outcome = record.outcome
    return VisitSample(
        outcome.at,
        printable_text(record.collection),
        printable_text(record.url, URL_CHARS_MAX),
        outcome.status,
        outcome.length,
        max(0.0, outcome.elapsed_s),
        printable_reason(outcome.error),
    )
