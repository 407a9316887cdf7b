"""Recent visits, failures and slow hosts of each collection, from the heartbeats of workers.

Each heartbeat of a worker has a few visits of its last second: the newest pages, failures, slow responses. The latest
of each kind and collection are kept, each URL once. A host is as slow as its slowest response of the last minutes.
"""

from collections import deque
from dataclasses import dataclass, field

import msgspec

from tarrafa.coordinator.node.messages import NodeHeartbeat
from tarrafa.parse.url import host_name
from tarrafa.runtime.heartbeat import VisitSample

NEWEST_KEPT, SAMPLES_KEPT, SLOW_SHOWN = 20, 3, 10
SLOW_KEPT_MAX, SLOW_FOR_S = 200, 300.0
COLLECTIONS_MAX, STATUSES_MAX = 1_000, 100


class SlowHost(msgspec.Struct, frozen=True):
    host: str
    elapsed_s: float
    at: float
    url: str


class FailureSamples(msgspec.Struct, frozen=True):
    status: int
    seen: list[VisitSample]  # the latest first


@dataclass(slots=True)
class _CollectionVisits:
    newest: deque[VisitSample] = field(default_factory=lambda: deque(maxlen=NEWEST_KEPT))
    failures: dict[int, deque[VisitSample]] = field(default_factory=dict)
    slow: dict[str, SlowHost] = field(default_factory=dict)


class RecentVisits:
    """Recent visits of all collections."""

    def __init__(self) -> None:
        self._kept: dict[str, _CollectionVisits] = {}

    def add_heartbeat(self, beat: NodeHeartbeat) -> None:
        for process in beat.processes:
            if process.pulse is None:
                continue
            for seen in process.pulse.newest:
                _put(self._of(seen.collection).newest, seen)
            for seen in process.pulse.failures:
                failures = self._of(seen.collection).failures
                if seen.status in failures or len(failures) < STATUSES_MAX:
                    _put(failures.setdefault(seen.status, deque(maxlen=SAMPLES_KEPT)), seen)
            for seen in process.pulse.slowest:
                self._add_slow(seen)

    def _of(self, name: str) -> _CollectionVisits:
        if name not in self._kept and len(self._kept) >= COLLECTIONS_MAX:
            self._kept.clear()
        return self._kept.setdefault(name, _CollectionVisits())

    def _add_slow(self, seen: VisitSample) -> None:
        slow, host = self._of(seen.collection).slow, host_name(seen.url)
        before = slow.get(host)
        if before is None or seen.elapsed_s >= before.elapsed_s or seen.at - before.at > SLOW_FOR_S:
            slow[host] = SlowHost(host, seen.elapsed_s, seen.at, seen.url)
        if len(slow) > SLOW_KEPT_MAX:
            del slow[min(slow.values(), key=lambda one: one.at).host]

    def newest(self, name: str) -> list[VisitSample]:
        """The latest first."""
        return sorted(self._of(name).newest, key=lambda one: -one.at)

    def failures(self, name: str) -> list[FailureSamples]:
        kept = self._of(name).failures
        return [FailureSamples(status, sorted(kept[status], key=lambda one: -one.at)) for status in sorted(kept)]

    def slowest(self, name: str, now: float) -> list[SlowHost]:
        recent = [one for one in self._of(name).slow.values() if now - one.at <= SLOW_FOR_S]
        return sorted(recent, key=lambda one: -one.elapsed_s)[:SLOW_SHOWN]

    def forget(self, name: str) -> None:
        self._kept.pop(name, None)


def _put(kept: deque[VisitSample], seen: VisitSample) -> None:
    for older in [one for one in kept if one.url == seen.url]:
        kept.remove(older)
    kept.append(seen)
