"""Creates, edits, starts, stops and monitors collections, and follows their schedules.

People act through here, whichever door they come by: console, API or command line; so does the schedule. Every action
is checked against the collection's state, carried out by the frontier, and noted with who, when and why. What the
frontier says of states and configurations counts: a collection that came by another way (`tarrafa crawl FILE`) is
taken up as it is.
"""

import asyncio
import contextlib
import logging
import shutil
import time
from collections.abc import Callable
from weakref import WeakValueDictionary

from msgspec.structs import replace

from tarrafa import credentials
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection, NotifyConfig
from tarrafa.coordinator import states
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.recent_visits import RecentVisits
from tarrafa.coordinator.monitoring.snapshot import (
    CollectionSnapshot,
    SystemSnapshot,
    cluster_totals,
    count_statuses,
    node_snapshot,
    standstill_reason,
)
from tarrafa.coordinator.monitoring.timeseries import CollectionSampler, CollectionTimeSeries
from tarrafa.coordinator.monitoring.utilization import UtilizationLog
from tarrafa.coordinator.node.messages import NodeHeartbeat
from tarrafa.coordinator.node.node_registry import NodeRegistry
from tarrafa.coordinator.notify.notice_outbox import is_stalled, reason_stalled
from tarrafa.coordinator.schedule.run_scheduler import RunHistory, ScheduleDecision, decide, upcoming_times
from tarrafa.coordinator.states import ScheduleStatus
from tarrafa.coordinator.store import CollectionLifecycle, CollectionRun, CollectionSample, CoordinatorStore
from tarrafa.crawl.eta import expected_pages, time_left_s
from tarrafa.crawl.supervisor.completion import is_exhausted
from tarrafa.crawl.supervisor.delete_collection import delete_collection
from tarrafa.crawl.supervisor.submission import submit_collection
from tarrafa.errors import ConfigError, EditConflict, NotFound, TarrafaError, Unreachable
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionStatus, FrontierCollectionState, FrontierOverview
from tarrafa.i18n import Message, message

TICK_EVERY_S = 1.0
STALL_CHECK_EVERY_S = 10.0  # whether it stalls
FRONTIER_SILENT_AFTER_S = 4.0
ENDED_STATES = frozenset({"finished", "stopped"})
log = logging.getLogger(__name__)

NotifyProblems = Callable[[str, NotifyConfig], list[str]]  # what keeps those from hearing of a collection who want to
# event, collection, what is to be said, and what tells two happenings of a kind apart
NotifyFunction = Callable[[str, Collection, Message | str, CollectionStatus | None, object], None]


class Coordinator:
    """One per frontier. `frontier` gives it when it is there, and raises `Unreachable` when it is not."""

    def __init__(
        self,
        ledger: CoordinatorStore,
        frontier: Callable[[], Frontier],
        clock: Clock,
        tell: NotifyFunction,
        own: str = "",
        troubles: NotifyProblems = lambda name, notify: [],
    ) -> None:
        self.ledger, self.curves, self.sightings = ledger, CollectionTimeSeries(ledger), RecentVisits()
        self.nodes, self.definitions = (
            NodeRegistry(ledger.connection, own, self._on_heartbeat),
            CollectionDefinitions(ledger, frontier, clock),
        )
        self._frontier, self._clock, self._tell, self._troubles = frontier, clock, tell, troubles
        self._notes: dict[str, list[str]] = {}
        self.use = UtilizationLog(ledger)
        self.overview: FrontierOverview | None = None  # as last heard
        self._heard, self._awake = boottime(), clock.now()
        self._next: dict[str, float | None] = {}
        self._sampling = CollectionSampler(self.curves, self.definitions, frontier, clock)
        self._minded: dict[str, float] = {}
        self._running: dict[str, float] = {}  # since when
        self._looked = 0.0
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def _action_lock(self, name: str) -> asyncio.Lock:
        """One action at a time with a collection: each begins with what the one before has left. Of another one nobody
        need wait: a million roots take minutes."""
        return self._locks.setdefault(name, asyncio.Lock())

    # -- what people do ----------------------------------------------------------------------------------------------

    async def create(self, collection: Collection, who: str, *, start: bool) -> None:
        """A new collection. Without `start` it waits for its date, or for somebody to start it."""
        async with self._action_lock(collection.name):
            if any(one.name == collection.name for one in await self._frontier().collection_states()):
                raise ConfigError(
                    message("name: there is a collection {name!r} already; choose another name", name=collection.name)
                )
            now = self._clock.now()
            await self._clear_history(collection.name)  # what one left behind that was deleted
            self.ledger.put_lifecycle(collection.name, CollectionLifecycle(created=now, creator=who, scheduled=now))
            await self.definitions.add_version(collection, who)
            await self._submit_roots(collection)
            if start:
                await self._start_running(collection.name, states.reason_by_person(who, now), by_person=True)
            await self.refresh_overview()
            await self._apply_schedule(collection.name, now)  # one that has a date waits for it from the beginning
            await self.refresh_overview()

    async def edit(self, name: str, collection: Collection, who: str, revision: int | None = None) -> None:
        """Another configuration, from now on. Its state stays what it is, unless it was finished and now there is more
        to visit: then it goes on. `revision`: the one that was edited; when there is a newer one, it is refused,
        because it would undo what others changed."""
        await self.amend(name, lambda before: collection, who, revision)

    async def amend(
        self, name: str, change: Callable[[Collection], Collection], who: str, revision: int | None = None
    ) -> Collection:
        """The same, made of what is in force at that moment: of two who amend at once, neither undoes the other's."""
        async with self._action_lock(name):
            standing = await self.definitions.standing(name)
            if revision is not None and standing.revision != revision:
                raise EditConflict(
                    message(
                        "{name} was changed by somebody else meanwhile; look at its versions, and edit it anew",
                        name=name,
                    )
                )
            before = await self.definitions.in_force_at(standing, adopt=True)
            collection = await asyncio.to_thread(change, before)
            if collection.name != name:
                raise ConfigError(message("name: {name!r} cannot be changed; copy the collection instead", name=name))
            await self.definitions.add_version(collection, who)
            await self._submit_roots(collection, before)
            if before.schedule != collection.schedule:
                self._update_lifecycle(name, scheduled=self._clock.now())
            await self.refresh_overview()
            await self._continue_if_more(name, states.reason_edited(states.reason_by_person(who, self._clock.now())))
            return collection

    async def act(self, name: str, action: str, who: str) -> None:
        """start, pause, resume, stop, again, retry or delete."""
        if action == "delete":
            await self._delete(name)
            return
        async with self._action_lock(name):
            standing = await self.definitions.standing(name)
            collection = await self.definitions.in_force_at(standing, adopt=True)
            now, rest = self._clock.now(), self._schedule_status(standing, collection)
            states.check_action(name, action, standing.state, rest)
            told = states.reason_by_person(who, now)
            if action == "resume" and rest is ScheduleStatus.HELD:
                await self._resume_schedule(name, who)
            elif action in ("start", "resume"):
                await self._start_running(name, told, by_person=True)
            elif action == "again":
                await self._begin_new_run(name, told, by_person=True)
            elif action == "retry":
                await submit_collection(self._frontier(), collection)
                await self._frontier().set_state(name, "running", told)
            elif action == "pause":
                told = (
                    states.reason_schedule_paused(told)
                    if rest is ScheduleStatus.PLANNED and standing.state != "running"
                    else told
                )
                # First what tells a schedule that rests from a run that was paused, should we be killed in between.
                self._update_lifecycle(name, held=True, acted=now)
                await self._frontier().set_state(name, "paused", told)
            else:
                await self._frontier().set_state(name, "stopped", told)
                self._update_lifecycle(name, held=True, acted=now)
                self._end_run(name, "stopped", told)
            await self.refresh_overview()

    def _schedule_status(self, standing: FrontierCollectionState, collection: Collection) -> ScheduleStatus:
        """How it stands with its schedule at this moment."""
        now, history = self._clock.now(), self._run_history(standing.name, standing.state)
        if history.is_held:
            return ScheduleStatus.HELD
        return (
            ScheduleStatus.PLANNED if upcoming_times(collection.schedule, history, now, 1) else ScheduleStatus.UNPLANNED
        )

    async def _resume_schedule(self, name: str, who: str) -> None:
        """Its schedule goes on: it is as it was before somebody paused it between two runs."""
        last, now = self.ledger.last_run(name), self._clock.now()
        if last is None:
            await self._frontier().set_state(name, "ready", states.reason_by_person(who, now))
        else:
            await self._frontier().set_state(name, last.state, last.reason)
        self._update_lifecycle(name, held=False, acted=now)
        await self.refresh_overview()
        await self._continue_if_more(name, states.reason_by_person(who, now))  # somebody may have edited it meanwhile
        await self._apply_schedule(name, now)

    async def _continue_if_more(self, name: str, told: Message | str) -> None:
        """By a limit that was raised, or a scope that takes in more, what was finished is not."""
        status = self.status(name)
        if status is not None and status.state == "finished" and not is_exhausted(status):
            await self._start_running(name, told, by_person=True)
            await self.refresh_overview()

    async def continue_all_with_more(self, who: str) -> None:
        """The same, when it may concern any collection."""
        await self.refresh_overview()
        for one in self.overview.collections if self.overview is not None else []:
            if one.state == "finished" and not is_exhausted(one):
                await self.continue_if_finished(one.name, who)

    async def continue_if_finished(self, name: str, who: str) -> None:
        """Something of it waits again: if its run had come to its end, it goes on."""
        async with self._action_lock(name):
            standing = await self.definitions.standing(name)
            if standing.state == "finished":
                await self.definitions.in_force_at(standing, adopt=True)
                await self._start_running(name, states.reason_by_person(who, self._clock.now()), by_person=True)
            await self.refresh_overview()

    async def _delete(self, name: str) -> None:
        """For ever: from the frontier, from search, and from here; what is archived stays. It may take long; once it
        has begun nothing else can be done with the collection."""
        async with self._action_lock(name):
            states.check_action(name, "delete", (await self.definitions.standing(name)).state)
            await self._frontier().delete_collection(name, 0)
            credentials.write(self.ledger.data, name, [])
        await delete_collection(self._frontier(), self.ledger.data, name)
        await self._clear_history(name)
        await self.refresh_overview()

    async def _clear_history(self, name: str) -> None:
        """A name that is free is nobody's: neither history nor secrets pass to the next one who has it."""
        data = self.ledger.data
        await self.definitions.delete(name)
        credentials.write(data, name, [])
        shutil.rmtree(data.reports / name, ignore_errors=True)
        for memory in (self.curves, self.sightings):
            memory.forget(name)

    # -- what it takes -----------------------------------------------------------------------------------------------

    async def refresh_overview(self) -> None:
        """Whoever did something looks at what came of it."""
        self.overview, self._heard = await self._frontier().overview(), boottime()

    async def _submit_roots(self, collection: Collection, before: Collection | None = None) -> None:
        """The frontier hears of it, and of the roots that it was not given `before`. Should we be killed while it does,
        there is a note that says so, and it is done again before it runs."""
        name = collection.name
        life = self.ledger.lifecycle(name)
        is_sown = before is not None and not (life is not None and life.sowing)
        self._update_lifecycle(name, sowing=True)
        sown = await asyncio.to_thread(lambda: before.root_set) if before is not None and is_sown else frozenset[str]()
        row = await submit_collection(self._frontier(), collection, start=False, sown=sown)
        self.definitions.cache(row, collection)
        self._update_lifecycle(name, sowing=False)

    async def _start_running(self, name: str, told: Message | str, *, by_person: bool) -> None:
        """Let it run: the first time, or on from where it was."""
        life = self.ledger.lifecycle(name)
        if life is not None and life.sowing:
            await self._submit_roots(await self.definitions.in_force(name))
        await self._frontier().set_state(name, "running", told)
        self._record_start(name, told, by_person=by_person)
        last = self.ledger.last_run(name)
        if last is None:
            self.ledger.put_run(name, CollectionRun(1, self._clock.now()))
        elif last.ended is not None:
            self.ledger.put_run(name, replace(last, ended=None, state="running", reason="", cut=False))

    async def _begin_new_run(self, name: str, told: Message | str, *, by_person: bool) -> None:
        """Everything once more, from the roots."""
        row = await self._frontier().begin_run(name, told)
        self._record_start(name, told, by_person=by_person)
        self.ledger.put_run(name, CollectionRun(row.run, self._clock.now()))

    def _record_start(self, name: str, told: Message | str, *, by_person: bool) -> None:
        if by_person:
            self._update_lifecycle(name, held=False, acted=self._clock.now())
        else:
            self._update_lifecycle(name, held=False)
        self._notify("started", name, told, self._clock.now())

    def _notify(self, event: str, name: str, told: Message | str, occasion: object) -> None:
        """To those who want to hear of it."""
        settings = self.definitions.cached(name)
        if settings is not None:
            self._tell(event, settings, told, self.status(name), occasion)

    def _update_lifecycle(self, name: str, **changes: object) -> None:
        life = self.ledger.lifecycle(name) or CollectionLifecycle(created=self._clock.now())
        self.ledger.put_lifecycle(name, replace(life, **changes))

    def _end_run(self, name: str, state: str, told: Message | str, *, cut: bool = False) -> None:
        last, status = self.ledger.last_run(name), self.status(name)
        if last is None or last.ended is not None:
            return
        ended = replace(last, ended=self._clock.now(), state=state, reason=told, cut=cut)
        self.ledger.put_run(name, ended if status is None else _with_counts(ended, status))

    def runs(self, name: str) -> list[CollectionRun]:
        """Its runs, the newest first; of one that is not over, what there is so far."""
        known, status = self.ledger.runs(name), self.status(name)
        return [run if run.ended is not None or status is None else _with_counts(run, status) for run in known]

    async def config_in_force(self, name: str) -> Collection:
        """What is in force of one that must be there."""
        return await self.definitions.in_force(name)

    async def upcoming_runs(self, name: str, count: int) -> list[float]:
        """When its next runs begin, as far as its schedule says."""
        schedule, status = (await self.config_in_force(name)).schedule, self.status(name)
        if status is None:
            raise NotFound(message("no collection is named {name!r}", name=name[:80]))
        history = self._run_history(name, status.state)
        return [] if history.is_held else upcoming_times(schedule, history, self._clock.now(), count)

    def now(self) -> float:
        return self._clock.now()

    def status(self, name: str) -> CollectionStatus | None:
        found = self.overview.collections if self.overview is not None else []
        return next((one for one in found if one.name == name), None)

    # -- what happens by itself --------------------------------------------------------------------------------------

    async def tick(self, overview: FrontierOverview) -> None:
        """Told what the frontier says. About once a second: what has happened, and what is due?"""
        now = self._clock.now()
        self.overview, self._heard = overview, boottime()
        if now - self._looked < TICK_EVERY_S * self._clock.scale:
            return
        self._looked = now
        self.nodes.record_held_hosts(time.time(), overview.nodes)
        await self._adopt_changed_definitions(overview)
        for status in overview.collections:
            try:
                await self._sampling.sample(status, now)
                acting = self._action_lock(status.name)
                if not acting.locked():  # else whoever acts is not waited for: the next look comes in a second
                    async with acting:
                        await self._apply_schedule(status.name, now)
            except Unreachable:
                raise
            except TarrafaError as error:  # one that cannot go on must not keep the others from it
                self._record_failure(status.name, error)

    def _record_failure(self, name: str, error: TarrafaError) -> None:
        """Shown, and told once."""
        if self._notes.get(name) != [str(error)]:
            log.error("%s: %s", name, error)
            self._notes[name] = [str(error)]
            with contextlib.suppress(TarrafaError):
                self._notify("failed", name, error.message, str(error))

    @property
    def trouble(self) -> str:
        """Why there are no newer numbers: what was seen last stays, and people are told."""
        unheard_s = boottime() - self._heard
        return f"no answer for {unheard_s:.0f} s" if unheard_s > FRONTIER_SILENT_AFTER_S else ""

    async def _adopt_changed_definitions(self, overview: FrontierOverview) -> None:
        """Configurations are large: they are asked for when there are others."""
        if self.definitions.has_changes(overview):
            await self.definitions.adopt_changed(self._action_lock, self._record_failure)

    async def _apply_schedule(self, name: str, now: float) -> None:
        """What its state means for its runs, and what its schedule wants."""
        status, settings = self.status(name), self.definitions.cached(name)
        if status is None or settings is None:
            return
        life = self.ledger.lifecycle(name)
        if status.state == "running" and life is not None and life.sowing:  # whoever handed its roots over was killed
            await self._submit_roots(await self.definitions.in_force(name))
        self._record_run_changes(status, now)
        self._check_stalled(status, settings, now)
        history = self._run_history(name, status.state)
        decision = decide(settings.schedule, history, now)
        self._next[name] = None if history.is_held else decision.next
        await self._apply_decision(status, decision)

    def _record_run_changes(self, status: CollectionStatus, now: float) -> None:
        """Runs begin and end by other hands, too: by `tarrafa crawl`, or because nothing is left to visit."""
        last = self.ledger.last_run(status.name)
        is_open = last is not None and last.ended is None
        if status.state == "running" and not is_open:
            number = max(status.run, last.number if last is not None else 1)
            is_same = last is not None and last.number == number
            again = replace(last, ended=None, state="running", reason="") if last is not None and is_same else None
            self.ledger.put_run(status.name, again or CollectionRun(number, now))
        elif status.state in ENDED_STATES and last is not None and last.ended is None:
            told = status.reason
            if status.state == "finished":  # first: it is told once, whoever is killed in between
                self._notify("finished", status.name, told, (last.began, status.visits))
            self._end_run(status.name, status.state, told)
        elif status.state in ENDED_STATES and last is None:  # it was crawled before anybody coordinated
            began = status.started or status.created
            self.ledger.put_run(status.name, CollectionRun(status.run, began, now, status.state, status.reason))

    def _check_stalled(self, status: CollectionStatus, settings: Collection, now: float) -> None:
        """Told once, until it moves again."""
        life = self.ledger.lifecycle(status.name)
        if now - self._minded.get(status.name, 0.0) < STALL_CHECK_EVERY_S * self._clock.scale:
            return
        self._minded[status.name] = now
        self._notes[status.name] = self._troubles(status.name, settings.notify)
        if status.state != "running":
            self._running.pop(status.name, None)
        if status.state != "running" or not (status.pending or status.handed_out) or life is None:
            return
        limit_s = float(settings.notify.stalled)
        samples = [(one.at, one.visits) for one in self.curves.between(status.name, now - 2 * limit_s, now)]
        run = self.ledger.last_run(status.name)
        since = max(
            life.acted or 0.0, self._awake, run.began if run is not None else 0.0, self._running_since(status, now)
        )
        if is_stalled(samples, now, limit_s, since):
            self._notify("stalled", status.name, reason_stalled(limit_s), status.visits)

    def _running_since(self, status: CollectionStatus, now: float) -> float:
        """When it was first seen running, this time."""
        return self._running.setdefault(status.name, now)

    def _run_history(self, name: str, state: str) -> RunHistory:
        status, last = self.status(name), self.ledger.last_run(name)
        life = self.ledger.lifecycle(name) or CollectionLifecycle(
            created=status.created if status is not None else self._clock.now()
        )
        return RunHistory(
            state=state, created=life.created, changed=life.scheduled, by_person=life.held, acted=life.acted,
            began=last.began if last else None, ended=last.ended if last else None, cut=bool(last and last.cut),
        )  # fmt: skip

    async def _apply_decision(self, status: CollectionStatus, decision: ScheduleDecision) -> None:
        name, life = status.name, self.ledger.lifecycle(status.name)
        told = decision.reason
        if life is not None and decision.left_out is not None and decision.left_out_at != life.left_out:
            log.warning("%s: %s", name, decision.left_out)
            self._update_lifecycle(name, left_out=decision.left_out_at)
        if decision.action == "start":
            await self._start_running(name, told, by_person=False)
        elif decision.action == "begin_run":
            await self._begin_new_run(name, told, by_person=False)
        elif decision.action == "stop":
            self._notify("finished", name, told, decision.at)
            await self._frontier().set_state(name, "stopped", told)
            self._update_lifecycle(name, held=False)
            self._end_run(name, "stopped", told, cut=True)
        elif status.state in ("ready", "waiting"):
            await self._set_waiting(status, told, has_time=decision.next is not None)

    async def _set_waiting(self, status: CollectionStatus, told: Message | str, *, has_time: bool) -> None:
        """One that has a date waits; one that has none is ready."""
        state = "waiting" if has_time else "ready"
        if (status.state, str(status.reason)) != (state, str(told)):  # `in 15 days` changes once a day
            await self._frontier().set_state(status.name, state, told)

    # -- what people see ---------------------------------------------------------------------------------------------

    def _on_heartbeat(self, beat: NodeHeartbeat) -> None:
        self.sightings.add_heartbeat(beat)
        self.use.note(beat.node, beat.machine.cpu, self._clock.now())

    def snapshot(self) -> SystemSnapshot:
        overview, now = self.overview or FrontierOverview([], []), time.time()
        rest_s = max((float(one.fetch.time_max) for one in self.definitions.all()), default=0.0)
        nodes = [node_snapshot(node, now) for node in self.nodes.states(now, overview.nodes, rest_s)]
        standstill = standstill_reason(nodes, overview.nodes)
        collections = [self._collection_snapshot(status, standstill) for status in overview.collections]
        return SystemSnapshot(
            self._clock.now(), self.trouble, overview.notes, collections, nodes, cluster_totals(nodes)
        )

    def _collection_snapshot(self, status: CollectionStatus, standstill: Message | None) -> CollectionSnapshot:
        sample = self.curves.last(status.name) or CollectionSample(self._clock.now())
        is_held, following = self._run_history(status.name, status.state).is_held, self._next.get(status.name)
        rest = (
            ScheduleStatus.HELD
            if is_held
            else ScheduleStatus.UNPLANNED
            if following is None
            else ScheduleStatus.PLANNED
        )
        return CollectionSnapshot(
            status.name, status.state, status.reason, states.allowed_actions(status.state, rest), status, sample,
            count_statuses(status.statuses), expected_pages(status), time_left_s(status, sample.pages_per_s),
            self.ledger.last_run(status.name), None if is_held else following, self._notes.get(status.name, []),
            standstill if status.state == "running" else None,
        )  # fmt: skip


def _with_counts(run: CollectionRun, status: CollectionStatus) -> CollectionRun:
    """A run with what the frontier has counted of it."""
    return replace(
        run, pages=status.fetched - status.earlier, known=status.known, visits=status.visits,
        requests=status.requests - status.requests_before, failed=status.failed,
    )  # fmt: skip
