"""Decides when a collection is finished: nothing is left to visit, and all followers have caught up with the archive.

Nothing is out, and nothing more may or can go out; and what the link graph still has to say of it has been said. Of
our own archive that is known exactly (`passing`), whatever else runs. Where other machines crawl too, their followers
may be a moment behind: there a collection must have been over for a while, without any change.

A run that is not the first, and has looked everywhere, is swept before it is over: what it has not found is taken out
(`frontier/store/runs.py`). One that a limit has ended has not looked everywhere, and takes nothing out.

Has all that was archived of a collection until now reached everybody who follows?

Others may go on: what is archived later is not waited for. So one collection can be over while another one runs, for
days or for ever.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tarrafa.archive.warc_reader import visit_lengths
from tarrafa.clock import boottime
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.graph import follower as graph
from tarrafa.i18n import Message, message, messages
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import status as triples

SETTLE_S = 5.0  # followers of other machines tell their news every second
SWEPT_AT_ONCE, SWEEPS_AT_ONCE = 2_000, 10  # pages per call, and calls per look


CaughtUp = Callable[[], bool]  # whether all that was archived until some moment has reached those who follow; blocks


@dataclass(frozen=True, slots=True)
class _ExhaustedCollection:
    """Since when a collection has nothing more to do, and what was counted then."""

    since: float
    counted: tuple[int, int]
    has_passed: CaughtUp


class CompletionCheck:
    """Declares collections finished. `passing` is asked when one has nothing more to do, with its name; `settle_s` is
    for how long nothing must have happened then."""

    def __init__(self, passing: Callable[[str], CaughtUp], settle_s: float) -> None:
        self._passing, self._settle_s = passing, settle_s
        self._exhausted: dict[str, _ExhaustedCollection] = {}

    async def finish_exhausted(self, frontier: Frontier, overview: FrontierOverview) -> bool:
        """Finish what is over; whether anything was."""
        for one in overview.collections:
            if one.state == "running" and one.sweeping:
                await _sweep(frontier, one.name)
        over = {one.name for one in overview.collections if one.state == "running" and await self._is_settled(one)}
        if not over or not overview.whole:
            return False
        # Asked once more, now that the graph has told all it knows: a depth that fell may have opened something.
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


def is_exhausted(status: CollectionStatus) -> bool:
    """Nothing is out, and nothing more may or can go out."""
    if status.handed_out:
        return False
    if status.keeps_fresh:
        return _is_request_limit_reached(status) or not (status.pending or status.fetched)
    return _is_page_limit_reached(status) or _is_request_limit_reached(status) or not status.pending


def _is_page_limit_reached(status: CollectionStatus) -> bool:
    """Pages of this run are what counts."""
    return status.pages_max is not None and status.fetched - status.earlier >= status.pages_max


def _is_request_limit_reached(status: CollectionStatus) -> bool:
    return status.requests_max is not None and status.requests - status.requests_before >= status.requests_max


def finish_reason(status: CollectionStatus) -> Message:
    if not _is_request_limit_reached(status) and not status.pending:
        if not status.sites_chosen:
            return message("everything in reach was visited")
        return messages(
            "every site in reach was visited; {count} of their URLs was passed over",
            "every site in reach was visited; {count} of their URLs were passed over",
            status.passed_over,
        )
    by_pages = not _is_request_limit_reached(status) and _is_page_limit_reached(status)
    name, limit = ("pages_max", status.pages_max) if by_pages else ("requests_max", status.requests_max)
    return message("{name} = {limit} was reached", name=name, limit=str(limit))


class FollowerCatchUp:
    """What the archive holds at this moment, on its way into graph, frontier, index and triple store."""

    def __init__(self, data: DataDirectory, collection: str) -> None:
        self._data, self._collection = data, collection
        self._until = visit_lengths(data.archive)
        self._commits: list[int] | None = None  # those of the triple store that hold it all: to be published

    def is_complete(self) -> bool:
        if graph.behind(self._data, self._until, self._collection) or index.behind(self._data, self._until):
            return False
        if self._commits is None:
            found = triples.commits(self._data, self._until)
            if found is None:
                return False
            self._commits = found
        return triples.are_published(self._data, self._commits)
