"""What people see: a snapshot of all collections and nodes, time series, recent visits and utilization.

Reads only; nothing here changes a collection.
"""

import time

from tarrafa.clock import Clock
from tarrafa.coordinator import states
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.latest_overview import LatestOverview
from tarrafa.coordinator.monitoring.problems import CollectionProblems
from tarrafa.coordinator.monitoring.recent_visits import RecentVisits
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
from tarrafa.coordinator.run_log import RunLog
from tarrafa.coordinator.schedule.schedule_executor import ScheduleExecutor
from tarrafa.coordinator.states import ScheduleStatus
from tarrafa.coordinator.store import CollectionSample, CoordinatorStore
from tarrafa.crawl.supervisor.completion import expected_pages, time_left_s
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import Message


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
        run_log: RunLog,
        schedule: ScheduleExecutor,
        problems: CollectionProblems,
    ) -> None:
        self.overview, self.timeseries = overview, timeseries
        self.recent_visits, self.utilization = RecentVisits(), UtilizationLog(store)
        self._clock, self._definitions, self._nodes = clock, definitions, nodes
        self._run_log, self._schedule, self._problems = run_log, schedule, problems

    def record_heartbeat(self, beat: NodeHeartbeat) -> None:
        self.recent_visits.add_heartbeat(beat)
        self.utilization.note(beat.node, beat.machine.cpu, self._clock.now())

    def forget(self, name: str) -> None:
        """A collection was deleted."""
        self.timeseries.forget(name)
        self.recent_visits.forget(name)

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
        if self._run_log.history(status.name, status.state).is_held:
            rest, next_run = ScheduleStatus.HELD, None
        return CollectionSnapshot(
            status.name, status.state, status.reason, states.allowed_actions(status.state, rest), status, sample,
            count_statuses(status.statuses), expected_pages(status), time_left_s(status, sample.pages_per_s),
            self._run_log.last_run(status.name), next_run, self._problems.of(status.name),
            standstill if status.state == "running" else None,
        )  # fmt: skip
