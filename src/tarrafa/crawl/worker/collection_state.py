"""Collections of a worker: configuration, state and take-downs, as last heard from the frontier.

The states are told by a thread or by the loop and checked before each request leaves. A state heard before a session
began says nothing about it: its host may have been leased because the state changed.
Promises: before a collection is used for the first time, deletions of its namesakes are in the archive.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.supervisor.propagation import DeletionSync
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import FrontierCollectionState, Lease
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns


class CollectionStates:
    """Written by one thread, read by another; what is read together is replaced at once."""

    def __init__(self) -> None:
        self._heard: tuple[float, dict[int, FrontierCollectionState]] = (0.0, {})

    def update(self, states: list[FrontierCollectionState], asked_at: float) -> None:
        self._heard = (asked_at, {one.id: one for one in states})

    def is_suspended(self, collection: int, since: float) -> bool:
        """It is paused, stopped, or not there any more."""
        heard_at, states = self._heard
        state = states.get(collection)
        return heard_at > since and (state is None or state.state != "running")

    def has_newer_revision(self, collection: int, revision: int) -> bool:
        """It is configured otherwise by now."""
        state = self._heard[1].get(collection)
        return state is not None and state.revision > revision

    def any_revision_differs(self, known: Mapping[int, int]) -> bool:
        """Whether one of those that are known has another revision."""
        return any(known.get(number, one.revision) != one.revision for number, one in self._heard[1].items())


@dataclass(frozen=True, slots=True)
class CollectionInForce:
    """A collection as it is configured now."""

    revision: int
    collection: Collection
    admission: Admission


class WorkerCollections:
    """The collections that a worker has heard of, by their numbers."""

    def __init__(self, data: DataDirectory, clock: Clock, frontier: Frontier) -> None:
        self._clock, self._frontier, self._deletion_sync = clock, frontier, DeletionSync(data, clock)
        self._takedown_log = CurrentTakedowns(data)
        self._takedowns = self._takedown_log.now()
        self._in_force: dict[int, CollectionInForce] = {}
        self.states = CollectionStates()
        self._loop, self._heard = asyncio.get_running_loop(), asyncio.Event()

    def __getitem__(self, number: int) -> CollectionInForce:
        return self._in_force[number]

    def has_config_of(self, lease: Lease) -> bool:
        """Whether the configuration that the lease was given by is known."""
        known = self._in_force.get(lease.collection)
        return known is not None and known.revision >= lease.revision

    def hosts_at_once(self, default: int) -> int:
        """The most that one of them allows."""
        return max((one.collection.fetch.hosts_at_once for one in self._in_force.values()), default=default)

    def is_current(self, number: int, since: float) -> bool:
        """Nothing newer is known than what a session goes by that began then."""
        return not (
            self.states.is_suspended(number, since)
            or self.states.has_newer_revision(number, self._in_force[number].revision)
        )

    def is_outdated(self) -> bool:
        """Whether the states speak of a revision that was not read yet."""
        return self.states.any_revision_differs({number: one.revision for number, one in self._in_force.items()})

    def hear(self, states: list[FrontierCollectionState], asked_at: float) -> None:
        """The states as of then. May be called from another thread."""
        self.states.update(states, asked_at)
        with contextlib.suppress(RuntimeError):  # the loop has ended already
            self._loop.call_soon_threadsafe(self._heard.set)

    async def wait_for_states(self) -> None:
        """Until states are heard that were not waited for yet."""
        await self._heard.wait()
        self._heard.clear()

    async def poll_states(self) -> None:
        """Ask for the states, where no thread does."""
        asked_at = self._clock.now()
        self.states.update(await self._frontier.collection_states(), asked_at)

    def reload_takedowns(self) -> None:
        self._takedowns = self._takedown_log.now()

    async def refresh(self) -> set[int]:
        """Read what is configured otherwise by now: its numbers."""
        changed: set[int] = set()
        states = await self._frontier.collection_states()
        if any(state.id not in self._in_force for state in states):
            await self._deletion_sync.sync_once(self._frontier)
        for state in states:
            known = self._in_force.get(state.id)
            if known is not None and known.revision == state.revision:
                continue
            row = await self._frontier.collection(state.name)
            if row is not None and row.id == state.id:  # else it is another one of that name: next time
                collection = await asyncio.to_thread(config.decode_collection, row.config)
                admission = Admission(collection, lambda url: self._takedowns.covers(url))  # noqa: PLW0108 (they change)
                self._in_force[row.id] = CollectionInForce(row.revision, collection, admission)
                changed.add(row.id)
        return changed
