"""The latest overview of the frontier: the state and the numbers of every collection, as last received.

Promises: when the frontier is silent the latest overview stays, and `trouble` says for how long.
"""

from collections.abc import Callable

from tarrafa.clock import boottime
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview

FRONTIER_SILENT_AFTER_S = 4.0


class LatestOverview:
    """`current` is None until the frontier has answered once."""

    def __init__(self, frontier: Callable[[], Frontier]) -> None:
        self._frontier = frontier
        self.current: FrontierOverview | None = None
        self._received = boottime()

    def record(self, overview: FrontierOverview) -> None:
        self.current, self._received = overview, boottime()

    async def refresh(self) -> None:
        """Ask the frontier. Every action ends with it, so that its result is seen at once."""
        self.record(await self._frontier().overview())

    @property
    def collections(self) -> list[CollectionStatus]:
        return self.current.collections if self.current is not None else []

    def status(self, name: str) -> CollectionStatus | None:
        return next((one for one in self.collections if one.name == name), None)

    @property
    def trouble(self) -> str:
        """Why there are no newer numbers; empty while the frontier answers."""
        silent_s = boottime() - self._received
        return f"no answer for {silent_s:.0f} s" if silent_s > FRONTIER_SILENT_AFTER_S else ""
