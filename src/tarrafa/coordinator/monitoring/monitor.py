"""The monitor: the snapshot of all collections and nodes, time series, recent visits, utilization, version history.

Reads only; nothing here changes a collection.
"""

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator import states
from tarrafa.coordinator.collection_runs import CollectionRuns, LatestOverview
from tarrafa.coordinator.definitions.version_diff import FieldChange, changed_fields
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.problems import CollectionProblems
from tarrafa.coordinator.monitoring.snapshot import (
    CollectionSnapshot,
    SystemSnapshot,
    cluster_totals,
    count_statuses,
    node_snapshot,
    standstill_reason,
)
from tarrafa.coordinator.monitoring.timeseries import CollectionTimeSeries
from tarrafa.coordinator.monitoring.utilization import UtilizationLog
from tarrafa.coordinator.node.messages import NodeHeartbeat
from tarrafa.coordinator.node.node_registry import NodeRegistry
from tarrafa.coordinator.schedule.schedule_executor import ScheduleExecutor
from tarrafa.coordinator.states import ScheduleStatus
from tarrafa.coordinator.store import CollectionRun, CollectionSample, CoordinatorStore
from tarrafa.errors import DataError, Unreachable
from tarrafa.frontier.collection_status import expected_pages, has_failed, time_left_s
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import Message, message
from tarrafa.index.index_status import IndexStatus, KeptPages, count_kept_pages, index_status
from tarrafa.parse.url import host_name
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import VisitSample

VERSIONS_MAX = 200
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
    """Recent visits of all collections, from the heartbeats of workers: each has a few visits of its last second. The
    latest of each kind are kept, each URL once. A host is as slow as its slowest response of the last minutes."""

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


def request_s_max(collections: Iterable[CollectionStatus], definitions: Iterable[Collection]) -> float:
    """How long a request under way can take: by the limits of collections that run or have visits handed out."""
    active = {one.name for one in collections if one.state == "running" or one.handed_out}
    return max((float(one.fetch.time_max) for one in definitions if one.name in active), default=0.0)


def _put(kept: deque[VisitSample], seen: VisitSample) -> None:
    for older in [one for one in kept if one.url == seen.url]:
        kept.remove(older)
    kept.append(seen)


class SearchablePages:
    """Which pages of each collection this machine's index has, as of the last refresh."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._index: IndexStatus | None = None
        self._elsewhere: dict[str, int] = {}  # pages in archives of other machines, when this index last had read all

    async def refresh(self, overview: FrontierOverview) -> None:
        """Read the index; the overview is older, so that all its pages are archived by now."""
        with contextlib.suppress(DataError):  # it is being rebuilt, or of another version
            self._index = await asyncio.to_thread(index_status, self._data)
        if self._index is not None and not self._index.behind_bytes:
            found = [count_kept_pages(one.name, one.fetched, self._index) for one in overview.collections]
            self._elsewhere = {one.collection: one.elsewhere for one in found}

    def of(self, name: str, kept: int) -> KeptPages | None:
        if self._index is None:
            return None
        return count_kept_pages(name, kept, self._index, self._elsewhere.get(name, 0))


class CollectionDetail(msgspec.Struct, frozen=True):
    """A collection with what its workers see: the newest pages, failures with samples, slow hosts."""

    collection: CollectionSnapshot
    newest: list[VisitSample]
    failures: list[FailureSamples]
    slowest: list[SlowHost]
    runs: list[CollectionRun]


class VersionChanges(msgspec.Struct, frozen=True):
    """A version of a definition, by what it changed. The first version changed nothing."""

    number: int
    at: float
    who: str
    changes: list[FieldChange]


class Monitor:
    """All collections and nodes."""

    def __init__(
        self,
        store: CoordinatorStore,
        clock: Clock,
        definitions: CollectionDefinitions,
        nodes: NodeRegistry,
        overview: LatestOverview,
        timeseries: CollectionTimeSeries,
        runs: CollectionRuns,
        schedule: ScheduleExecutor,
        problems: CollectionProblems,
    ) -> None:
        self.overview, self.timeseries = overview, timeseries
        self.recent_visits, self.utilization = RecentVisits(), UtilizationLog(store)
        self.searchable_pages = SearchablePages(store.data)
        self._clock, self._definitions, self._nodes = clock, definitions, nodes
        self._store, self._runs, self._schedule, self._problems = store, runs, schedule, problems

    def record_heartbeat(self, beat: NodeHeartbeat) -> None:
        self.recent_visits.add_heartbeat(beat)
        self.utilization.note(beat.node, beat.machine.cpu, self._clock.now())

    def forget(self, name: str) -> None:
        """A collection was deleted."""
        self.timeseries.forget(name)
        self.recent_visits.forget(name)

    def current_snapshot(self) -> SystemSnapshot:
        """The snapshot; `Unreachable` if the frontier has never answered."""
        if self.overview.current is None:
            raise Unreachable(message("the frontier has not answered yet"))
        return self.snapshot()

    def snapshot(self) -> SystemSnapshot:
        overview, now = self.overview.current or FrontierOverview([], []), time.time()
        fetch_s_max = request_s_max(overview.collections, self._definitions.all())
        nodes = [node_snapshot(node, now) for node in self._nodes.states(now, overview.nodes, fetch_s_max)]
        standstill = standstill_reason(nodes, overview.nodes)
        collections = [self._collection_snapshot(status, standstill) for status in overview.collections]
        return SystemSnapshot(
            self._clock.now(), self.overview.trouble, overview.notes, collections, nodes, cluster_totals(nodes)
        )

    def _collection_snapshot(self, status: CollectionStatus, standstill: Message | None) -> CollectionSnapshot:
        sample = self.timeseries.last(status.name) or CollectionSample(self._clock.now())
        next_run = self._schedule.next_run(status.name)
        schedule = ScheduleStatus.UNPLANNED if next_run is None else ScheduleStatus.PLANNED
        if self._runs.history(status.name, status.state).is_held:
            schedule, next_run = ScheduleStatus.HELD, None
        return CollectionSnapshot(
            status.name, status.state, status.reason, states.allowed_actions(status.state, schedule), status, sample,
            count_statuses(status.statuses, status.refused), expected_pages(status),
            time_left_s(status, sample.pages_per_s), self._runs.last(status.name), next_run,
            self._problems.of(status.name), standstill if status.state == "running" else None, has_failed(status),
            self.searchable_pages.of(status.name, status.fetched),
        )  # fmt: skip

    def detail(self, one: CollectionSnapshot) -> CollectionDetail:
        recent, name = self.recent_visits, one.name
        slowest = recent.slowest(name, self._clock.now())
        return CollectionDetail(one, recent.newest(name), recent.failures(name), slowest, self._runs.all_of(name))

    async def version_changes(self, name: str) -> list[VersionChanges]:
        """The versions of a definition, the newest first; at most VERSIONS_MAX."""
        await self._definitions.standing(name)
        kept = self._store.versions(name, VERSIONS_MAX + 1)

        def compare() -> list[VersionChanges]:
            read = self._definitions.long_lists.reader()
            found, after = list[VersionChanges](), read(bytes(kept[0].config)) if kept else None
            for version, earlier in zip(kept[:VERSIONS_MAX], [*kept[1:], None], strict=False):
                before = None if earlier is None else read(bytes(earlier.config))
                changes = [] if before is None or after is None else changed_fields(before, after)
                found.append(VersionChanges(version.number, version.at, version.who, changes))
                after = before
            return found

        return await asyncio.to_thread(compare)
