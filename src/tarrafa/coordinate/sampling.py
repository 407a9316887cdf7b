"""What does a collection look like at this moment, as its curves show it?

Taken once a second from what the frontier says of it; what costs more than a glance (how its hosts stand, how fresh its
pages are) is looked at now and then.
"""

from collections.abc import Callable
from random import Random

from tarrafa.clock import Clock
from tarrafa.coordinate.curves import CollectionTimeSeries
from tarrafa.coordinate.definitions import CollectionDefinitions
from tarrafa.coordinate.guessing import estimate_freshness
from tarrafa.coordinate.ledger import CollectionSample
from tarrafa.frontier.protocol import CollectionStatus, Frontier, HostCounts

COUNT_HOSTS_EVERY_S = 10.0
FRESHNESS_EVERY_S = 30.0  # how fresh it is


class CollectionSampler:
    """Of all collections."""

    def __init__(
        self, curves: CollectionTimeSeries, definitions: CollectionDefinitions, frontier: Callable[[], Frontier], clock: Clock
    ) -> None:
        self._curves, self._definitions, self._frontier, self._clock = curves, definitions, frontier, clock
        self._counts: dict[str, tuple[float, HostCounts]] = {}
        self._freshness: dict[str, tuple[float, float | None]] = {}
        self._rng = Random()

    async def sample(self, status: CollectionStatus, now: float) -> None:
        """One sample, where there is anything new."""
        counts, name, last = await self._hosts(status, now), status.name, self._curves.last(status.name)
        if last is not None and status.state != "running" and last.is_idle and last.visits == status.visits:
            return  # nor has it changed
        self._curves.add(name, CollectionSample(
            now, status.fetched, status.known, status.pending + status.handed_out, status.failed, status.visits,
            status.revisits, status.bytes,
            pages_per_s=status.pages_per_s if status.state == "running" else 0.0,
            bytes_per_s=round(self._curves.rate(name, now, status.bytes, lambda one: one.bytes), 1),
            fresh=await self._fresh(status, now),
            active=counts.active, waiting=counts.waiting, backed_off=counts.backed_off,
        ))  # fmt: skip

    async def _fresh(self, status: CollectionStatus, now: float) -> float | None:
        """Looked at now and then, where pages are kept fresh."""
        at, fresh = self._freshness.get(status.name, (0.0, None))
        number = self._definitions.frontier_id(status.name)
        if status.keeps_fresh and number is not None and now - at > FRESHNESS_EVERY_S * self._clock.scale:
            fresh = await estimate_freshness(self._frontier(), number, now, self._rng)
            self._freshness[status.name] = (now, fresh)
        return fresh

    async def _hosts(self, status: CollectionStatus, now: float) -> HostCounts:
        if status.state != "running":
            return HostCounts()
        at, counts = self._counts.get(status.name, (0.0, HostCounts()))
        if now - at > COUNT_HOSTS_EVERY_S * self._clock.scale:
            counts = await self._frontier().host_counts(status.name)
            self._counts[status.name] = (now, counts)
        return counts
