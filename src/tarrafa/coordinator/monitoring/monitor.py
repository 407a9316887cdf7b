"""The monitor: the snapshot of all collections and nodes, time series, recent visits, utilization, version history.

Reads only; nothing here changes a collection.
"""

import asyncio
import time

import msgspec

from tarrafa.clock import Clock
from tarrafa.coordinator import states
from tarrafa.coordinator.collection_runs import CollectionRuns, LatestOverview
from tarrafa.coordinator.definitions import draft
from tarrafa.coordinator.definitions.draft import FieldChange
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.problems import CollectionProblems
from tarrafa.coordinator.monitoring.recent_visits import FailureSamples, RecentVisits, SlowHost
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
from tarrafa.crawl.supervisor.completion import expected_pages, time_left_s
from tarrafa.errors import Unreachable
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import Message
from tarrafa.runtime.heartbeat import VisitSample

VERSIONS_MAX = 200


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
            raise Unreachable("the frontier has not answered yet")
        return self.snapshot()

    def snapshot(self) -> SystemSnapshot:
        overview, now = self.overview.current or FrontierOverview([], []), time.time()
        rest_s = max((float(one.fetch.time_max) for one in self._definitions.all()), default=0.0)
        nodes = [node_snapshot(node, now) for node in self._nodes.states(now, overview.nodes, rest_s)]
        standstill = standstill_reason(nodes, overview.nodes)
        collections = [self._collection_snapshot(status, standstill) for status in overview.collections]
        return SystemSnapshot(
            self._clock.now(), self.overview.trouble, overview.notes, collections, nodes, cluster_totals(nodes)
        )

    def _collection_snapshot(self, status: CollectionStatus, standstill: Message | None) -> CollectionSnapshot:
        sample = self.timeseries.last(status.name) or CollectionSample(self._clock.now())
        next_run = self._schedule.next_run(status.name)
        rest = ScheduleStatus.UNPLANNED if next_run is None else ScheduleStatus.PLANNED
        if self._runs.history(status.name, status.state).is_held:
            rest, next_run = ScheduleStatus.HELD, None
        return CollectionSnapshot(
            status.name, status.state, status.reason, states.allowed_actions(status.state, rest), status, sample,
            count_statuses(status.statuses), expected_pages(status), time_left_s(status, sample.pages_per_s),
            self._runs.last(status.name), next_run, self._problems.of(status.name),
            standstill if status.state == "running" else None,
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
                changes = [] if before is None or after is None else draft.changed_fields(before, after)
                found.append(VersionChanges(version.number, version.at, version.who, changes))
                after = before
            return found

        return await asyncio.to_thread(compare)
