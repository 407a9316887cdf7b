"""Collections of a worker: configuration, state and takedowns, as last received from the frontier.

The states (paused, changed) come from a thread or from the event loop, and are checked before each request is sent. A
state that was read before a session began is not applied to that session: its host may have been leased because the
state changed.
Promises: before a collection is used for the first time, deletions of its namesakes are in the archive.
"""

import asyncio
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import DeletionSync
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import FrontierCollectionState, Lease
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns


class CollectionStates:
    """The newest states. One thread writes, another reads; values that belong together are replaced at once."""

    def __init__(self) -> None:
        self._newest: tuple[float, dict[int, FrontierCollectionState]] = (0.0, {})

    def update(self, states: list[FrontierCollectionState], asked_at: float) -> None:
        self._newest = (asked_at, {one.id: one for one in states})

    def is_suspended(self, collection: int, since: float) -> bool:
        """Whether the collection is paused, stopped or deleted."""
        read_at, states = self._newest
        state = states.get(collection)
        return read_at > since and (state is None or state.state != "running")

    def has_newer_revision(self, collection: int, revision: int) -> bool:
        state = self._newest[1].get(collection)
        return state is not None and state.revision > revision

    def any_revision_differs(self, known: Mapping[int, int]) -> bool:
        """Whether any known collection has another revision."""
        return any(known.get(number, one.revision) != one.revision for number, one in self._newest[1].items())


@dataclass(frozen=True, slots=True)
class CollectionInForce:
    revision: int
    collection: Collection
    admission: Admission


class WorkerCollections:
    """The collections that a worker knows, by number."""

    def __init__(self, data: DataDirectory, clock: Clock, frontier: Frontier) -> None:
        self._clock, self._frontier, self._deletion_sync = clock, frontier, DeletionSync(data, clock)
        self._takedown_log = CurrentTakedowns(data)
        self._takedowns = self._takedown_log.now()
        self._in_force: dict[int, CollectionInForce] = {}
        self.states = CollectionStates()
        self._loop, self._received = asyncio.get_running_loop(), asyncio.Event()

    def __getitem__(self, number: int) -> CollectionInForce:
        return self._in_force[number]

    def has_config_of(self, lease: Lease) -> bool:
        """Whether the configuration under which the lease was granted is known."""
        known = self._in_force.get(lease.collection)
        return known is not None and known.revision >= lease.revision

    def hosts_wanted(self, default: int) -> int:
        """The largest `hosts_at_once` of the collections."""
        return max((one.collection.fetch.hosts_at_once for one in self._in_force.values()), default=default)

    def is_current(self, number: int, since: float) -> bool:
        """Whether nothing newer is known of a collection than a session that began at `since` uses."""
        return not (
            self.states.is_suspended(number, since)
            or self.states.has_newer_revision(number, self._in_force[number].revision)
        )

    def is_outdated(self) -> bool:
        """Whether the states name a revision that was not read yet."""
        return self.states.any_revision_differs({number: one.revision for number, one in self._in_force.items()})

    def receive_states(self, states: list[FrontierCollectionState], asked_at: float) -> None:
        """Take the states as of `asked_at`. May be called from another thread."""
        self.states.update(states, asked_at)
        with contextlib.suppress(RuntimeError):  # the event loop has ended already
            self._loop.call_soon_threadsafe(self._received.set)

    async def wait_for_states(self) -> None:
        """Wait for states that arrive after the last wait."""
        await self._received.wait()
        self._received.clear()

    async def poll_states(self) -> None:
        """Ask for the states, where no thread does."""
        asked_at = self._clock.now()
        self.states.update(await self._frontier.collection_states(), asked_at)

    def reload_takedowns(self) -> None:
        self._takedowns = self._takedown_log.now()

    async def refresh(self) -> set[int]:
        """Read the configurations that have changed; returns the numbers of their collections."""
        changed: set[int] = set()
        states = await self._frontier.collection_states()
        if any(state.id not in self._in_force for state in states):
            await self._deletion_sync.sync_once(self._frontier)
        for state in states:
            known = self._in_force.get(state.id)
            if known is not None and known.revision == state.revision:
                continue
            row = await self._frontier.collection(state.name)
            if row is not None and row.id == state.id:  # else it is another collection of that name: next time
                collection = await asyncio.to_thread(config.decode_collection, row.config)
                admission = Admission(collection, lambda: self._takedowns)
                self._in_force[row.id] = CollectionInForce(row.revision, collection, admission)
                changed.add(row.id)
        return changed
