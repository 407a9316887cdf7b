"""Decides when a collection is finished (nothing is left to visit, followers have caught up), and estimates its end.

A collection is exhausted when no visit is handed out and no further visit may or can be handed out. It is finished
when, in addition, everything archived of it until then has reached the followers, and the link graph has delivered its
weights to the frontier. For our own archive that is known exactly (`FollowerCatchUp`), whatever other collections do:
what is archived later is not waited for, so one collection can finish while another one runs, for days or for ever.
Where other machines crawl too, their followers may be a moment behind: there a collection must have been exhausted for
SETTLE_S without any change.

A run that is not the first, and has looked everywhere, is swept before it is finished: pages that it has not found
again are removed (`frontier/store/runs.py`). A run that a limit has ended has not looked everywhere, and removes
nothing.

Expected pages and time left (ETA) follow from the current counts, as if nothing more were discovered.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from tarrafa.clock import boottime
from tarrafa.crawl.supervisor.followers import CaughtUp
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import Message, joined, message, messages
from tarrafa.model import GIVEN_UP, Status, status_name

SETTLE_S = 5.0  # followers of other machines deliver their weights every second
SWEPT_AT_ONCE, SWEEPS_AT_ONCE = 2_000, 10  # pages per call, and calls per check
ROOT_FAILURES = GIVEN_UP | {Status.NAME_UNKNOWN, Status.ROBOTS, Status.REDIRECTS_EXCEEDED}


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


def is_exhausted(status: CollectionStatus) -> bool:
    """Whether no visit is handed out, and no further visit may or can be handed out."""
    if status.handed_out:
        return False
    if status.keeps_fresh:
        return _is_request_limit_reached(status) or not (status.pending or status.fetched)
    return _is_page_limit_reached(status) or _is_request_limit_reached(status) or not status.pending


def _is_page_limit_reached(status: CollectionStatus) -> bool:
    """Whether this run has fetched its maximum of pages; pages of earlier runs do not count."""
    return status.pages_max is not None and status.kept_by_run >= status.pages_max


def _is_request_limit_reached(status: CollectionStatus) -> bool:
    return status.requests_max is not None and status.requests - status.requests_before >= status.requests_max


def has_failed(status: CollectionStatus) -> bool:
    """Whether a finished collection has failed: its last run has visited everything that it knew, and got no page.
    Pages that the collection does not want (by type, language, data) are answers, too."""
    if status.state != "finished" or status.pending or status.fetched > status.earlier:
        return False
    return (status.earlier > 0 and not status.keeps_fresh) or _are_all_failures(status)


def shown_state(status: CollectionStatus) -> str:
    """The state for people."""
    return "failed" if has_failed(status) else status.state


def _are_all_failures(status: CollectionStatus) -> bool:
    """Whether no visit was answered with a page: the roots failed, and what they redirect to."""
    codes = [int(code) for code in status.statuses]
    return bool(codes) and all(code in ROOT_FAILURES or code >= 300 for code in codes)


def finish_reason(status: CollectionStatus) -> Message:
    if has_failed(replace(status, state="finished")):
        counts = sorted(status.statuses.items(), key=lambda item: -item[1])
        shown = [Message("{code} {meaning}", {"code": code, "meaning": status_name(int(code))}) for code, _ in counts]
        return message("no root could be fetched: {statuses}", statuses=joined(shown, ", "))
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


def expected_pages(status: CollectionStatus) -> int:
    """Number of pages that this run will have kept if nothing more is discovered."""
    visited, kept = max(1, status.visits), status.kept_by_run
    total = kept + round(status.queue * status.fetched / visited)
    return min(total, status.pages_max) if status.pages_max is not None else total


def time_left_s(status: CollectionStatus, pages_per_s: float) -> float | None:
    """Seconds until the end at that speed, 0 when the end is near; None: the end is unknown, or there is none."""
    if status.keeps_fresh:
        return None
    left = expected_pages(status) - status.kept_by_run
    if left <= 0 and not (status.pending or status.handed_out):
        return 0.0
    return max(0, left) / pages_per_s if pages_per_s > 0 else None
