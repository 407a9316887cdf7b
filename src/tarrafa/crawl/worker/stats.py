"""Statistics of a worker: counters, and its newest, failed and slowest visits for the heartbeat.

Counts from its start on, and of the last second a few visits worth showing: the newest, those that failed, the
slowest. It is asked at every visit, so it costs about a microsecond. Knows nothing of where that is shown.
"""

from collections import deque
from heapq import heappush, heapreplace
from itertools import count

from tarrafa.model import VisitRecord
from tarrafa.runtime.heartbeat import URL_CHARS_MAX, VISIT_SAMPLES_MAX, VisitSample, printable_text


class WorkerStats:
    """`note` for each visit; `tell` what is new since the last time."""

    def __init__(self) -> None:
        self.visits = self.pages = self.bytes = 0
        self._newest: deque[VisitRecord] = deque(maxlen=VISIT_SAMPLES_MAX)
        self._failures: deque[VisitRecord] = deque(maxlen=VISIT_SAMPLES_MAX)
        self._slowest: list[tuple[float, int, VisitRecord]] = []
        self._order = count()

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
        """The newest, the failures and the slowest since it was asked last."""
        slowest = [record for _, _, record in sorted(self._slowest, reverse=True)]
        told = tuple(tuple(map(_seen, some)) for some in (self._newest, self._failures, slowest))
        self._newest.clear()
        self._failures.clear()
        self._slowest.clear()
        return told[0], told[1], told[2]


def _seen(record: VisitRecord) -> VisitSample:
    outcome = record.outcome
    return VisitSample(
        outcome.at,
        printable_text(record.collection),
        printable_text(record.url, URL_CHARS_MAX),
        outcome.status,
        outcome.length,
        max(0.0, outcome.elapsed_s),
        printable_text(outcome.error),
    )
