"""Decides when a collection is finished: nothing is left to visit, and followers have caught up.

A collection is exhausted when no visit is handed out and no further visit may or can be handed out. It is finished
when, in addition, everything archived of it until then has reached the followers, and the link graph has delivered its
weights to the frontier. For our own archive that is known exactly (`FollowerCatchUp`), whatever other collections do:
what is archived later is not waited for, so one collection can finish while another one runs, for days or for ever.
Where other machines crawl too, their followers may be a moment behind: there a collection must have been exhausted for
SETTLE_S without any change.

A run that is not the first, and has looked everywhere, is swept before it is finished: pages that it has not found
again are removed (`frontier/store/runs.py`). A run that a limit has ended has not looked everywhere, and removes
nothing.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tarrafa.clock import boottime
from tarrafa.crawl.supervisor.followers import CaughtUp
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.collection_status import finish_reason, is_exhausted
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview

SETTLE_S = 5.0  # followers of other machines deliver their weights every second
SWEPT_AT_ONCE, SWEEPS_AT_ONCE = 2_000, 10  # pages per call, and calls per check


@dataclass(frozen=True, slots=True)
class _ExhaustedCollection:
    """Since when a collection is exhausted, and its counts at that time."""

    since: float
    counted: tuple[int, int]
    has_passed: CaughtUp


class CompletionCheck:
    """Declares collections finished. `passing` is called with the name of an exhausted collection, and returns its
    check of the followers; `settle_s` is how long nothing must have changed."""

    def __init__(self, passing: Callable[[str], CaughtUp], settle_s: float) -> None:
        self._passing, self._settle_s = passing, settle_s
        self._exhausted: dict[str, _ExhaustedCollection] = {}

    def is_waiting(self, overview: FrontierOverview) -> bool:
        """Whether an exhausted collection is not finished yet."""
        return any(one.state == "running" and one.name in self._exhausted for one in overview.collections)

    def are_all_waiting(self, overview: FrontierOverview) -> bool:
        """Whether all running collections are exhausted: no records will come until they are finished."""
        running = [one.name for one in overview.collections if one.state == "running"]
        return bool(running) and all(name in self._exhausted for name in running)

    async def finish_exhausted(self, frontier: Frontier, overview: FrontierOverview) -> bool:
        """Finish the collections that are exhausted and settled; returns whether there were any."""
        for one in overview.collections:
            if one.state == "running" and one.sweeping:
                await _sweep(frontier, one.name)
        over = {one.name for one in overview.collections if one.state == "running" and await self._is_settled(one)}
        if not over or not overview.whole:
            return False
        # Ask again, now that the graph has delivered everything: a smaller depth may have admitted more URLs.
        again = await frontier.overview()
        for one in again.collections if again.whole else ():
            if one.name in over and one.state == "running" and is_exhausted(one):
                if one.to_sweep and not one.pending:
                    await _sweep(frontier, one.name)
                else:
                    await frontier.set_state(one.name, "finished", finish_reason(one))
        return True

    async def _is_settled(self, status: CollectionStatus) -> bool:
        name, counted = status.name, (status.known, status.visits)
        if not is_exhausted(status):
            self._exhausted.pop(name, None)
            return False
        known = self._exhausted.get(name)
        if known is None or known.counted != counted:
            known = self._exhausted[name] = _ExhaustedCollection(
                boottime(), counted, await asyncio.to_thread(self._passing, name)
            )
        return boottime() - known.since >= self._settle_s and await asyncio.to_thread(known.has_passed)


async def _sweep(frontier: Frontier, name: str) -> None:
    for _ in range(SWEEPS_AT_ONCE):
        if not await frontier.sweep(name, SWEPT_AT_ONCE):
            return
