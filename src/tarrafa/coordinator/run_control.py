"""Starts runs at the frontier and records them, for people's actions and for the schedule alike.

Promises: one action at a time on a collection; roots whose submission was interrupted are submitted again before the
collection runs on.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

from tarrafa.config import Collection
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.run_log import RunLog
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.frontier.api import Frontier
from tarrafa.i18n import Message


class RunControl:
    """Runs of all collections. `frontier` raises `Unreachable` while the frontier is unreachable."""

    def __init__(self, frontier: Callable[[], Frontier], definitions: CollectionDefinitions, run_log: RunLog) -> None:
        self._frontier, self._definitions, self._run_log = frontier, definitions, run_log
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: str) -> asyncio.Lock:
        """One action at a time on a collection: each begins with the result of the one before. Actions on other
        collections do not wait: a million roots take minutes."""
        return self._locks.setdefault(name, asyncio.Lock())

    async def submit_roots(self, collection: Collection, before: Collection | None = None) -> None:
        """Submit a configuration, and the roots that `before` did not have. The lifecycle says `sowing` meanwhile: if
        the process is killed, all roots are submitted again before the collection runs."""
        name = collection.name
        life = self._run_log.lifecycle(name)
        is_sown = before is not None and not (life is not None and life.sowing)
        self._run_log.update_lifecycle(name, sowing=True)
        sown = await asyncio.to_thread(lambda: before.root_set) if before is not None and is_sown else frozenset[str]()
        row = await submit_collection(self._frontier(), collection, start=False, sown=sown)
        self._definitions.cache(row, collection)
        self._run_log.update_lifecycle(name, sowing=False)

    async def finish_submission(self, name: str) -> None:
        """Submit the roots again if a kill interrupted their submission."""
        life = self._run_log.lifecycle(name)
        if life is not None and life.sowing:
            await self.submit_roots(await self._definitions.in_force(name))

    async def start(self, name: str, reason: Message | str, *, by_person: bool) -> None:
        """Start the first run, or continue the last one."""
        await self.finish_submission(name)
        await self._frontier().set_state(name, "running", reason)
        self._run_log.record_start(name, reason, by_person=by_person)

    async def begin_run(self, name: str, reason: Message | str, *, by_person: bool) -> None:
        """Begin a new run: visit everything again, from the roots."""
        row = await self._frontier().begin_run(name, reason)
        self._run_log.record_new_run(name, row.run, reason, by_person=by_person)
