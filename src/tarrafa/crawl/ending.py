"""Is a collection over?

Nothing is out, and nothing more may or can go out; and what the link graph still has to say has been said. Of our own
archive that is known exactly. Where other machines crawl too, their followers may be a moment behind: there a
collection must have been over for a while, without any change.
"""

from collections.abc import Callable

from tarrafa.clock import boottime
from tarrafa.frontier.protocol import CollectionStatus, Frontier, Overview

SETTLE_S = 5.0  # followers of other machines tell their news every second


class Ending:
    """Declares collections finished. `settle_s` is for how long nothing must have happened."""

    def __init__(self, is_caught_up: Callable[[], bool], settle_s: float) -> None:
        self._is_caught_up, self._settle_s = is_caught_up, settle_s
        self._since: dict[str, tuple[float, tuple[int, int]]] = {}

    async def look(self, frontier: Frontier, overview: Overview) -> bool:
        """Finish what is over; whether anything was."""
        over = {one.name for one in overview.collections if one.state == "running" and self._is_settled(one)}
        if not over or not overview.whole or not self._is_caught_up():
            return False
        # Asked once more, now that the graph has told all it knows: a depth that fell may have opened something.
        again = await frontier.overview()
        for one in again.collections if again.whole else ():
            if one.name in over and one.state == "running" and is_exhausted(one):
                await frontier.control(one.name, "finished", finish_reason(one))
        return True

    def _is_settled(self, status: CollectionStatus) -> bool:
        if not is_exhausted(status):
            self._since.pop(status.name, None)
            return False
        state = (status.known, status.visits)
        since, before = self._since.setdefault(status.name, (boottime(), state))
        if before != state:
            self._since[status.name] = (boottime(), state)
            return not self._settle_s
        return boottime() - since >= self._settle_s


def is_exhausted(status: CollectionStatus) -> bool:
    """Nothing is out, and nothing more may or can go out."""
    if status.handed_out:
        return False
    if status.keeps_fresh:
        spent = status.requests_max is not None and status.requests >= status.requests_max
        return spent or not (status.pending or status.fetched)
    full = status.pages_max is not None and status.fetched >= status.pages_max
    spent = status.requests_max is not None and status.requests >= status.requests_max
    return full or spent or not status.pending


def finish_reason(status: CollectionStatus) -> str:
    if status.requests_max is not None and status.requests >= status.requests_max:
        return f"requests_max = {status.requests_max} was reached"
    if not status.pending and status.sites_chosen:
        return f"every site in reach was visited; {status.passed_over:,} of their URLs were passed over"
    if not status.pending:
        return "everything in reach was visited"
    if status.pages_max is not None and status.fetched >= status.pages_max:
        return f"pages_max = {status.pages_max} was reached"
    return f"requests_max = {status.requests_max} was reached"
