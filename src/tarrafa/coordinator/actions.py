"""Actions of people on collections (create, edit, start, pause, resume, stop, again, retry, delete) and on hosts.

Console, API and command line all call these actions. Promises: an action is checked against the state of the
collection, carried out by the frontier, and recorded with who, when and why; of two actions on one collection the
second begins when the first has ended. To block or slow down a host is an edit of a collection: it has a version and
can be undone.
"""

import asyncio
import shutil
from collections.abc import Callable
from typing import Literal, get_args

from msgspec.structs import replace

from tarrafa import credentials
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.config.formats import Seconds, parse_duration
from tarrafa.coordinator import states
from tarrafa.coordinator.audit import LINES_PER_PAGE_MAX, AuditLine, AuditLog
from tarrafa.coordinator.collection_runs import CollectionRuns
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.monitor import Monitor
from tarrafa.coordinator.schedule.schedule_executor import ScheduleExecutor
from tarrafa.coordinator.states import ScheduleStatus
from tarrafa.crawl.scope.collection_loader import parse_root
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import delete_collection
from tarrafa.errors import ConfigError, EditConflict
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.collection_status import is_exhausted, shown_state
from tarrafa.frontier.messages import FrontierCollectionState
from tarrafa.i18n import Message, message
from tarrafa.parse.url import UrlIdentity, host_id, host_key, host_name
from tarrafa.runtime.data_dir import DataDirectory

HostAction = Literal["retry", "block", "slow", "forget"]
HOST_ACTIONS: tuple[HostAction, ...] = get_args(HostAction)
URL_CHARS_MAX = 8_192
DEFAULT_DELAY = "10 s"
DELAY_CHARS_MAX = 40


class CollectionActions:
    """Actions on all collections and hosts. `frontier` raises `Unreachable` while the frontier is unreachable."""

    def __init__(
        self,
        data: DataDirectory,
        frontier: Callable[[], Frontier],
        clock: Clock,
        definitions: CollectionDefinitions,
        runs: CollectionRuns,
        schedule: ScheduleExecutor,
        monitor: Monitor,
    ) -> None:
        self._data, self._frontier, self._clock, self._definitions = data, frontier, clock, definitions
        self._runs, self._schedule, self._monitor = runs, schedule, monitor
        self._overview = monitor.overview

    async def create(self, collection: Collection, who: str, *, start: bool) -> None:
        """Create a collection. Without `start` it waits for its date, or for a person to start it."""
        name = collection.name
        async with self._runs.lock(name):
            if any(one.name == name for one in await self._frontier().collection_states()):
                raise ConfigError(
                    message("name: there is a collection {name!r} already; choose another name", name=name)
                )
            now = self._clock.now()
            await self._clear_history(name)  # of a deleted collection of that name
            self._runs.create_lifecycle(name, who, now)
            await self._definitions.add_version(collection, who)
            await self._runs.submit_roots(collection)
            if start:
                await self._runs.start(name, self._by(who), by_person=True)
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
        async with self._runs.lock(name):
            standing = await self._definitions.standing(name)
            if revision is not None and standing.revision != revision:
                raise EditConflict(
                    message(
                        "{name} was changed by another user meanwhile; look at its versions, and edit it again",
                        name=name,
                    )
                )
            before = await self._definitions.in_force_at(standing, adopt=True)
            collection = await asyncio.to_thread(change, before)
            if collection.name != name:
                raise ConfigError(message("name: {name!r} cannot be changed; copy the collection instead", name=name))
            await self._definitions.add_version(collection, who)
            await self._runs.submit_roots(collection, before)
            if before.schedule != collection.schedule:
                self._runs.update_lifecycle(name, scheduled=self._clock.now())
            await self._overview.refresh()
            await self._continue_if_more(name, states.reason_edited(self._by(who)))
            return collection

    async def act(self, name: str, action: str, who: str) -> None:
        """start, pause, resume, stop, again, retry or delete."""
        if action == "delete":
            await self._delete(name)
            return
        async with self._runs.lock(name):
            standing = await self._definitions.standing(name)
            collection = await self._definitions.in_force_at(standing, adopt=True)
            schedule = self._schedule.schedule_status(standing, collection)
            status = self._overview.status(name)
            shown = shown_state(status) if status is not None and status.state == standing.state else ""
            states.check_action(name, action, standing.state, schedule, shown)
            reason = self._by(who)
            if action == "resume" and schedule is ScheduleStatus.HELD:
                await self._resume_schedule(name, reason)
            elif action in ("start", "resume"):
                await self._runs.start(name, reason, by_person=True)
            elif action == "again":
                await self._runs.begin_run(name, reason, by_person=True)
            elif action == "retry":
                await submit_collection(self._frontier(), collection)
                await self._frontier().set_state(name, "running", reason)
            elif action == "pause":
                await self._pause(standing, schedule, reason)
            else:
                await self._stop(name, reason)
            await self._overview.refresh()

    async def _pause(self, standing: FrontierCollectionState, schedule: ScheduleStatus, reason: Message) -> None:
        if schedule is ScheduleStatus.PLANNED and standing.state != "running":
            reason = states.reason_schedule_paused(reason)
        # The lifecycle first: it distinguishes a paused schedule from a paused run if the process is killed in between.
        self._runs.update_lifecycle(standing.name, held=True, acted=self._clock.now())
        await self._frontier().set_state(standing.name, "paused", reason)

    async def _stop(self, name: str, reason: Message) -> None:
        now = self._clock.now()
        await self._frontier().set_state(name, "stopped", reason)
        self._runs.update_lifecycle(name, held=True, acted=now)
        self._runs.record_end(name, "stopped", reason)

    async def _resume_schedule(self, name: str, reason: Message) -> None:
        """Resume a schedule that was paused between two runs: the state before the pause is restored."""
        last, now = self._runs.last(name), self._clock.now()
        if last is None:
            await self._frontier().set_state(name, "ready", reason)
        else:
            await self._frontier().set_state(name, "finished" if last.state == "failed" else last.state, last.reason)
        self._runs.update_lifecycle(name, held=False, acted=now)
        await self._overview.refresh()
        await self._continue_if_more(name, reason)  # it may have been edited meanwhile
        await self._schedule.apply(name, now)

    async def _continue_if_more(self, name: str, reason: Message | str) -> None:
        """Continue a finished collection that has more to visit, by a higher limit or a wider scope."""
        status = self._overview.status(name)
        if status is not None and status.state == "finished" and not is_exhausted(status):
            await self._runs.start(name, reason, by_person=True)
            await self._overview.refresh()

    async def _continue_all_with_more(self, who: str) -> None:
        """Continue every finished collection that has more to visit."""
        await self._overview.refresh()
        for one in self._overview.collections:
            if one.state == "finished" and not is_exhausted(one):
                await self.continue_if_finished(one.name, who)

    async def continue_if_finished(self, name: str, who: str) -> None:
        """Continue a collection if it is finished: some of its URLs wait again."""
        async with self._runs.lock(name):
            standing = await self._definitions.standing(name)
            if standing.state == "finished":
                await self._definitions.in_force_at(standing, adopt=True)
                await self._runs.start(name, self._by(who), by_person=True)
            await self._overview.refresh()

    async def _delete(self, name: str) -> None:
        """Delete a collection from the frontier, from search and from here; the archive stays. It may take long; once
        it has begun no other action is possible."""
        async with self._runs.lock(name):
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

    def _by(self, who: str) -> Message:
        return states.reason_by_person(who, self._clock.now())

    async def act_on_host(self, url: str, action: HostAction, who: str, collection: str = "", delay: str = "") -> None:
        """`url` is canonical. `block` and `slow` edit `collection`; `delay` is a duration."""
        key = host_key(url)
        if action == "retry":
            await self._frontier().retry_host(host_id(key), key)
            await self._continue_all_with_more(who)
        elif action == "forget":
            await self._frontier().forget_host(host_id(key))
        elif action == "block":
            await self.amend(collection, lambda before: with_host_blocked(before, url), who)
        else:
            await self.amend(collection, lambda before: with_host_slowed(before, host_name(url), delay), who)


def last_forgotten(audit: AuditLog, url: str) -> AuditLine | None:
    """The latest audit line that says who forgot the host of this URL. Blocks on the disk."""
    lines = audit.read(n=LINES_PER_PAGE_MAX, subject=host_key(url)).lines
    return next((line for line in lines if line.detail == "forget" and not line.refused), None)


def parse_url_or_host(typed: str) -> str:
    """The canonical URL of a typed URL or host name."""
    url = parse_root(typed.strip()[:URL_CHARS_MAX], UrlIdentity())
    if url is None:
        raise ConfigError(message("not an http(s) URL or a host name: {typed!r}", typed=typed[:200]))
    return url


def with_host_blocked(collection: Collection, url: str) -> Collection:
    """The collection without this host, neither by http nor by https."""
    authority = url.split("/")[2]
    pattern = f"http*://{authority}/*"
    exclude = (*collection.scope.exclude, *([pattern] if pattern not in collection.scope.exclude else []))
    return replace(collection, scope=replace(collection.scope, exclude=exclude))


def with_host_slowed(collection: Collection, name: str, delay: str) -> Collection:
    """The collection with at least this delay between two requests to the host."""
    try:
        seconds = parse_duration(delay.strip()[:DELAY_CHARS_MAX] or DEFAULT_DELAY)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    politeness = collection.politeness
    if not 0 <= seconds <= politeness.delay_max:
        most = f"{politeness.delay_max:g} s (its delay_max)"
        raise ConfigError(
            message(
                "{name}: the delay must be 0 to {most}, got {seconds} s",
                name=collection.name,
                most=most,
                seconds=f"{seconds:g}",
            )
        )
    delays = {**politeness.delays, name: Seconds(seconds)}
    return replace(collection, politeness=replace(politeness, delays=delays))
