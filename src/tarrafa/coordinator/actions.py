"""What people do with collections: create, edit, start, pause, resume, stop, again, retry and delete.

Console, API and command line all call these actions. Promises: an action is checked against the state of the
collection, carried out by the frontier, and recorded with who, when and why; of two actions on one collection the
second begins when the first has ended.
"""

import asyncio
import shutil
from collections.abc import Callable

from tarrafa import credentials
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator import states
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitor import Monitor
from tarrafa.coordinator.run_control import RunControl
from tarrafa.coordinator.run_log import RunLog
from tarrafa.coordinator.schedule.schedule_executor import ScheduleExecutor
from tarrafa.coordinator.states import ScheduleStatus
from tarrafa.crawl.supervisor.completion import is_exhausted
from tarrafa.crawl.supervisor.propagation import delete_collection
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.errors import ConfigError, EditConflict
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import FrontierCollectionState
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory


class CollectionActions:
    """Actions on all collections."""

    def __init__(
        self,
        data: DataDirectory,
        frontier: Callable[[], Frontier],
        clock: Clock,
        definitions: CollectionDefinitions,
        run_log: RunLog,
        run_control: RunControl,
        schedule: ScheduleExecutor,
        monitor: Monitor,
    ) -> None:
        self._data, self._frontier, self._clock, self._definitions = data, frontier, clock, definitions
        self._run_log, self._run_control, self._schedule, self._monitor = run_log, run_control, schedule, monitor
        self._overview = monitor.overview

    async def create(self, collection: Collection, who: str, *, start: bool) -> None:
        """Create a collection. Without `start` it waits for its date, or for a person to start it."""
        name = collection.name
        async with self._run_control.lock(name):
            if any(one.name == name for one in await self._frontier().collection_states()):
                raise ConfigError(
                    message("name: there is a collection {name!r} already; choose another name", name=name)
                )
            now = self._clock.now()
            await self._clear_history(name)  # of a deleted collection of that name
            self._run_log.create_lifecycle(name, who, now)
            await self._definitions.add_version(collection, who)
            await self._run_control.submit_roots(collection)
            if start:
                await self._run_control.start(name, states.reason_by_person(who, now), by_person=True)
            await self._overview.refresh()
            await self._schedule.apply(name, now)  # a collection with a date waits for it from the beginning
            await self._overview.refresh()

    async def edit(self, name: str, collection: Collection, who: str, revision: int | None = None) -> None:
        """Replace the configuration. The state stays, unless the collection was finished and now has more to visit:
        then it continues. `revision`: the one that was edited; `EditConflict` if there is a newer one, because the
        edit would undo the changes of others."""
        await self.amend(name, lambda before: collection, who, revision)

    async def amend(
        self, name: str, change: Callable[[Collection], Collection], who: str, revision: int | None = None
    ) -> Collection:
        """Change the configuration in force at that moment: of two changes at once, neither undoes the other."""
        async with self._run_control.lock(name):
            standing = await self._definitions.standing(name)
            if revision is not None and standing.revision != revision:
                raise EditConflict(
                    message(
                        "{name} was changed by somebody else meanwhile; look at its versions, and edit it anew",
                        name=name,
                    )
                )
            before = await self._definitions.in_force_at(standing, adopt=True)
            collection = await asyncio.to_thread(change, before)
            if collection.name != name:
                raise ConfigError(message("name: {name!r} cannot be changed; copy the collection instead", name=name))
            await self._definitions.add_version(collection, who)
            await self._run_control.submit_roots(collection, before)
            if before.schedule != collection.schedule:
                self._run_log.update_lifecycle(name, scheduled=self._clock.now())
            await self._overview.refresh()
            await self._continue_if_more(name, states.reason_edited(states.reason_by_person(who, self._clock.now())))
            return collection

    async def act(self, name: str, action: str, who: str) -> None:
        """start, pause, resume, stop, again, retry or delete."""
        if action == "delete":
            await self._delete(name)
            return
        async with self._run_control.lock(name):
            standing = await self._definitions.standing(name)
            collection = await self._definitions.in_force_at(standing, adopt=True)
            rest = self._schedule.schedule_status(standing, collection)
            states.check_action(name, action, standing.state, rest)
            reason = states.reason_by_person(who, self._clock.now())
            if action == "resume" and rest is ScheduleStatus.HELD:
                await self._resume_schedule(name, reason)
            elif action in ("start", "resume"):
                await self._run_control.start(name, reason, by_person=True)
            elif action == "again":
                await self._run_control.begin_run(name, reason, by_person=True)
            elif action == "retry":
                await submit_collection(self._frontier(), collection)
                await self._frontier().set_state(name, "running", reason)
            elif action == "pause":
                await self._pause(standing, rest, reason)
            else:
                await self._stop(name, reason)
            await self._overview.refresh()

    async def _pause(self, standing: FrontierCollectionState, rest: ScheduleStatus, reason: Message) -> None:
        if rest is ScheduleStatus.PLANNED and standing.state != "running":
            reason = states.reason_schedule_paused(reason)
        # The lifecycle first: it tells a paused schedule from a paused run, should the process be killed in between.
        self._run_log.update_lifecycle(standing.name, held=True, acted=self._clock.now())
        await self._frontier().set_state(standing.name, "paused", reason)

    async def _stop(self, name: str, reason: Message) -> None:
        now = self._clock.now()
        await self._frontier().set_state(name, "stopped", reason)
        self._run_log.update_lifecycle(name, held=True, acted=now)
        self._run_log.record_end(name, "stopped", reason)

    async def _resume_schedule(self, name: str, reason: Message) -> None:
        """Resume a schedule that was paused between two runs: the state before the pause is restored."""
        last, now = self._run_log.last_run(name), self._clock.now()
        if last is None:
            await self._frontier().set_state(name, "ready", reason)
        else:
            await self._frontier().set_state(name, last.state, last.reason)
        self._run_log.update_lifecycle(name, held=False, acted=now)
        await self._overview.refresh()
        await self._continue_if_more(name, reason)  # it may have been edited meanwhile
        await self._schedule.apply(name, now)

    async def _continue_if_more(self, name: str, reason: Message | str) -> None:
        """Continue a finished collection that has more to visit, by a higher limit or a wider scope."""
        status = self._overview.status(name)
        if status is not None and status.state == "finished" and not is_exhausted(status):
            await self._run_control.start(name, reason, by_person=True)
            await self._overview.refresh()

    async def continue_all_with_more(self, who: str) -> None:
        """Continue every finished collection that has more to visit."""
        await self._overview.refresh()
        for one in self._overview.collections:
            if one.state == "finished" and not is_exhausted(one):
                await self.continue_if_finished(one.name, who)

    async def continue_if_finished(self, name: str, who: str) -> None:
        """Continue a collection if it is finished: some of its URLs wait again."""
        async with self._run_control.lock(name):
            standing = await self._definitions.standing(name)
            if standing.state == "finished":
                await self._definitions.in_force_at(standing, adopt=True)
                await self._run_control.start(name, states.reason_by_person(who, self._clock.now()), by_person=True)
            await self._overview.refresh()

    async def _delete(self, name: str) -> None:
        """Delete a collection from the frontier, from search and from here; the archive stays. It may take long; once
        it has begun no other action is possible."""
        async with self._run_control.lock(name):
            states.check_action(name, "delete", (await self._definitions.standing(name)).state)
            await self._frontier().delete_collection(name, 0)
            credentials.write(self._data, name, [])
        await delete_collection(self._frontier(), self._data, name)
        await self._clear_history(name)
        await self._overview.refresh()

    async def _clear_history(self, name: str) -> None:
        """The next collection of that name inherits neither history nor credentials."""
        await self._definitions.delete(name)
        credentials.write(self._data, name, [])
        shutil.rmtree(self._data.reports / name, ignore_errors=True)
        self._monitor.forget(name)
