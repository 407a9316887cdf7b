"""Carries out the schedules of collections: starts, repeats and stops runs as `schedule_decision` says.

Promises: a collection that fails does not keep the others from their schedules; a collection that a person acts on is
left alone until the next tick.
"""

import logging
from collections.abc import Callable

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator.collection_runs import CollectionRuns, LatestOverview
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.problems import CollectionProblems
from tarrafa.coordinator.monitoring.timeseries import CollectionSampler
from tarrafa.coordinator.schedule.schedule_decision import ScheduleDecision, decide, upcoming_times
from tarrafa.coordinator.states import ScheduleStatus
from tarrafa.errors import NotFound, TarrafaError, Unreachable
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionStatus, FrontierCollectionState, FrontierOverview
from tarrafa.i18n import Message, message

log = logging.getLogger(__name__)


class ScheduleExecutor:
    """Schedules of all collections."""

    def __init__(
        self,
        frontier: Callable[[], Frontier],
        clock: Clock,
        definitions: CollectionDefinitions,
        overview: LatestOverview,
        runs: CollectionRuns,
        sampler: CollectionSampler,
        problems: CollectionProblems,
    ) -> None:
        self._frontier, self._clock, self._definitions, self._overview = frontier, clock, definitions, overview
        self._runs, self._sampler, self._problems = runs, sampler, problems
        self._next_runs: dict[str, float | None] = {}

    async def tick(self, overview: FrontierOverview, now: float) -> None:
        """About once a second: adopt changed definitions, then sample each collection and apply its schedule."""
        if self._definitions.has_changes(overview):  # configurations are large: they are read when they change
            await self._definitions.adopt_changed(self._runs.lock, self._problems.record_failure)
        for status in overview.collections:
            try:
                await self._sampler.sample(status, now)
                lock = self._runs.lock(status.name)
                if not lock.locked():  # a person's action is not waited for: the next tick comes in a second
                    async with lock:
                        await self.apply(status.name, now)
            except Unreachable:
                raise
            except TarrafaError as error:
                self._problems.record_failure(status.name, error)

    async def apply(self, name: str, now: float) -> None:
        """Record runs that changed, check for problems, and do what the schedule decides. The caller has the lock."""
        status, settings = self._overview.status(name), self._definitions.cached(name)
        if status is None or settings is None:
            return
        if status.state == "running":
            await self._runs.finish_submission(name)
        self._runs.record_changes(status, now)
        self._problems.check(status, settings, now)
        history = self._runs.history(name, status.state)
        decision = decide(settings.schedule, history, now)
        self._next_runs[name] = None if history.is_held else decision.next
        await self._apply_decision(status, decision)

    async def _apply_decision(self, status: CollectionStatus, decision: ScheduleDecision) -> None:
        name, life, reason = status.name, self._runs.lifecycle(status.name), decision.reason
        if life is not None and decision.left_out is not None and decision.left_out_at != life.left_out:
            log.warning("%s: %s", name, decision.left_out)
            self._runs.update_lifecycle(name, left_out=decision.left_out_at)
        if decision.action == "start":
            await self._runs.start(name, reason, by_person=False)
        elif decision.action == "begin_run":
            await self._runs.begin_run(name, reason, by_person=False)
        elif decision.action == "stop":
            self._runs.notify("finished", name, reason, decision.at)
            await self._frontier().set_state(name, "stopped", reason)
            self._runs.update_lifecycle(name, held=False)
            self._runs.record_end(name, "stopped", reason, cut=True)
        elif status.state in ("ready", "waiting"):
            await self._set_waiting(status, reason, has_time=decision.next is not None)

    async def _set_waiting(self, status: CollectionStatus, reason: Message | str, *, has_time: bool) -> None:
        """A collection with a next run waits; one without is ready."""
        state = "waiting" if has_time else "ready"
        if (status.state, str(status.reason)) != (state, str(reason)):  # `in 15 days` changes once a day
            await self._frontier().set_state(status.name, state, reason)

    def next_run(self, name: str) -> float | None:
        """The time of the next run, as of the last tick."""
        return self._next_runs.get(name)

    async def upcoming_runs(self, name: str, count: int) -> list[float]:
        """The times of the next runs by the schedule."""
        schedule, status = (await self._definitions.in_force(name)).schedule, self._overview.status(name)
        if status is None:
            raise NotFound(message("no collection is named {name!r}", name=name[:80]))
        history = self._runs.history(name, status.state)
        return [] if history.is_held else upcoming_times(schedule, history, self._clock.now(), count)

    def schedule_status(self, standing: FrontierCollectionState, collection: Collection) -> ScheduleStatus:
        history = self._runs.history(standing.name, standing.state)
        if history.is_held:
            return ScheduleStatus.HELD
        is_planned = upcoming_times(collection.schedule, history, self._clock.now(), 1)
        return ScheduleStatus.PLANNED if is_planned else ScheduleStatus.UNPLANNED
