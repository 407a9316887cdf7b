"""Time series of collections: samples by the second in memory and by the minute on disk.

Samples are taken once a second from the frontier's overview; host counts and freshness cost more and are read less
often. Freshness is estimated from a few hundred pages, from random places on: the mean of exp(-rate x age), with the
change rate of each page (`revisit`).
Promises: the last quarter of an hour is in memory by the second, all time in the store by the minute. A restart loses
the seconds, not the minutes.
"""

from collections import deque
from collections.abc import Callable
from random import Random

from tarrafa.clock import Clock
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.store import CollectionSample, CoordinatorStore
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import FIRST_HOST, CollectionStatus, HostCounts
from tarrafa.model import HostId

SECONDS_KEPT = 900
MINUTE_S = 60
LONG_S = 6 * 3_600.0  # in a longer time, samples by the second cannot be told apart
WINDOW_S = 10.0  # for the mean of a rate
COUNT_HOSTS_EVERY_S = 10.0
FRESHNESS_EVERY_S = 30.0
FRESHNESS_STARTS, FRESHNESS_PAGES = 5, 100


class CollectionTimeSeries:
    """Samples of all collections."""

    def __init__(self, store: CoordinatorStore) -> None:
        self._store = store
        self._recent: dict[str, deque[CollectionSample]] = {}
        self._minutes: dict[str, int] = {}

    def add(self, name: str, sample: CollectionSample) -> None:
        recent = self._recent.setdefault(name, deque(maxlen=SECONDS_KEPT))
        if recent and sample.at <= recent[-1].at:
            return
        recent.append(sample)
        minute = int(sample.at // MINUTE_S)
        if self._minutes.get(name) != minute:
            self._minutes[name] = minute
            self._store.put_sample(name, sample)

    def rate(self, name: str, at: float, value: int, of: Callable[[CollectionSample], int]) -> float:
        """Growth of a number per second, over the last WINDOW_S."""
        recent = self._recent.get(name, ())
        before = next((one for one in recent if one.at >= at - WINDOW_S), None)
        if before is None or at - before.at <= 0:
            return 0.0
        return max(0.0, (value - of(before)) / (at - before.at))

    def recent(self, name: str) -> list[CollectionSample]:
        return list(self._recent.get(name, ()))

    def last(self, name: str) -> CollectionSample | None:
        recent = self._recent.get(name)
        return recent[-1] if recent else None

    def between(self, name: str, since: float, until: float) -> list[CollectionSample]:
        """By the second as far as they are in memory, else by the minute."""
        recent = self.recent(name)
        if recent and recent[0].at <= since:
            return [one for one in recent if since <= one.at <= until]
        edge = recent[0].at if recent else until + 1
        older = self._store.samples(name, since, until)
        if until - since > LONG_S:  # seconds are too fine
            return older + [one for one in recent[-1:] if not older or one.at > older[-1].at]
        return [one for one in older if one.at < edge] + [one for one in recent if one.at <= until]

    def forget(self, name: str) -> None:
        self._recent.pop(name, None)
        self._minutes.pop(name, None)


class CollectionSampler:
    """Samples all collections."""

    def __init__(
        self,
        timeseries: CollectionTimeSeries,
        definitions: CollectionDefinitions,
        frontier: Callable[[], Frontier],
        clock: Clock,
    ) -> None:
        self._timeseries, self._definitions, self._frontier, self._clock = timeseries, definitions, frontier, clock
        self._counts: dict[str, tuple[float, HostCounts]] = {}
        self._freshness: dict[str, tuple[float, float | None]] = {}
        self._rng = Random()

    async def sample(self, status: CollectionStatus, now: float) -> None:
        """Add a sample, unless nothing has changed."""
        counts, name, last = await self._hosts(status, now), status.name, self._timeseries.last(status.name)
        if last is not None and status.state != "running" and last.is_idle and last.visits == status.visits:
            return
        is_running = status.state == "running"
        bytes_per_s = self._timeseries.rate(name, now, status.bytes, lambda one: one.bytes) if is_running else 0.0
        self._timeseries.add(name, CollectionSample(
            now, status.fetched, status.known, status.queue, status.failed, status.visits,
            status.revisits, status.bytes,
            pages_per_s=status.pages_per_s, bytes_per_s=round(bytes_per_s, 1),
            fresh=await self._fresh(status, now),
            active=counts.active, waiting=counts.waiting, backed_off=counts.backed_off,
        ))  # fmt: skip

    async def _fresh(self, status: CollectionStatus, now: float) -> float | None:
        """Freshness, for a collection that is kept fresh; else None."""
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


async def estimate_freshness(frontier: Frontier, collection: int, now: float, rng: Random) -> float | None:
    """The estimated share of kept pages that have not changed since their last visit; None: there are no pages."""
    sum_, count = 0.0, 0
    for _ in range(FRESHNESS_STARTS):
        host: HostId = rng.randrange(FIRST_HOST, -FIRST_HOST)
        pages = await frontier.revisit_pages(collection, host, b"", FRESHNESS_PAGES)
        if len(pages) < FRESHNESS_PAGES:  # continue at the first host
            pages += await frontier.revisit_pages(collection, FIRST_HOST, b"", FRESHNESS_PAGES - len(pages))
        for page in pages:
            history = page.history
            if history.announced <= history.last:  # else a sitemap or feed has announced a change
                sum_ += history.fresh_probability(now)
            count += 1
    return sum_ / count if count else None
