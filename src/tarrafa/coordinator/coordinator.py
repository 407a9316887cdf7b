"""The coordinator: holds people's actions on collections, their schedules, and the monitor.

Promises: the frontier decides on states and configurations; a collection that was started without the coordinator
(`tarrafa crawl FILE`) is adopted as it is.
"""

import time
from collections.abc import Callable

from tarrafa.clock import Clock
from tarrafa.coordinator.actions import CollectionActions
from tarrafa.coordinator.collection_runs import CollectionRuns, LatestOverview, NotifyFunction
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.monitor import Monitor
from tarrafa.coordinator.monitoring.problems import CollectionProblems, DeliveryProblems
from tarrafa.coordinator.monitoring.timeseries import CollectionSampler, CollectionTimeSeries
from tarrafa.coordinator.node.messages import NodeHeartbeat
from tarrafa.coordinator.node.node_registry import NodeRegistry
from tarrafa.coordinator.schedule.schedule_executor import ScheduleExecutor
from tarrafa.coordinator.store import CoordinatorStore
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import FrontierOverview

TICK_EVERY_S = 1.0


class Coordinator:
    """One per frontier. `frontier` raises `Unreachable` while the frontier is unreachable."""

    def __init__(
        self,
        store: CoordinatorStore,
        frontier: Callable[[], Frontier],
        clock: Clock,
        notify: NotifyFunction,
        own: str = "",
        delivery_problems: DeliveryProblems = lambda name, notify: [],
    ) -> None:
        self.store, self.frontier, self.clock = store, frontier, clock
        self.definitions = definitions = CollectionDefinitions(store, frontier, clock)
        self.nodes = NodeRegistry(store.connection, own, self._on_heartbeat)
        self.overview = overview = LatestOverview(frontier)
        runs = CollectionRuns(store, frontier, definitions, overview, clock, notify)
        timeseries = CollectionTimeSeries(store)
        problems = CollectionProblems(runs, timeseries, clock, delivery_problems)
        sampler = CollectionSampler(timeseries, definitions, frontier, clock)
        self.runs = runs
        self.schedule = ScheduleExecutor(frontier, clock, definitions, overview, runs, sampler, problems)
        self.monitor = Monitor(
            store, clock, definitions, self.nodes, overview, timeseries, runs, self.schedule, problems
        )
        self.actions = CollectionActions(store.data, frontier, clock, definitions, runs, self.schedule, self.monitor)
        self._ticked_at = 0.0

    def _on_heartbeat(self, beat: NodeHeartbeat) -> None:
        self.monitor.record_heartbeat(beat)

    async def tick(self, overview: FrontierOverview) -> None:
        """Record what the frontier reports; about once a second, apply the schedules."""
        now = self.clock.now()
        self.overview.record(overview)
        if now - self._ticked_at < TICK_EVERY_S * self.clock.scale:
            return
        self._ticked_at = now
        self.nodes.record_held_hosts(time.time(), overview.nodes)
        await self.monitor.searchable_pages.refresh(overview)
        await self.schedule.tick(overview, now)
