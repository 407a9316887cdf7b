"""What did a collection look like a moment ago, and an hour ago?

Promises: each second of the last quarter of an hour is in memory, each minute of all time in the ledger; a second that
nobody looked at is simply missing. A restart loses the seconds, not the minutes.
"""

from collections import deque
from collections.abc import Callable

from tarrafa.coordinate.ledger import CoordinatorStore, CollectionSample

SECONDS_KEPT = 900
MINUTE_S = 60
LONG_S = 6 * 3_600.0  # in a longer time seconds cannot be told apart
WINDOW_S = 10.0  # over which a rate is told


class CollectionTimeSeries:
    """Samples of all collections."""

    def __init__(self, ledger: CoordinatorStore) -> None:
        self._ledger = ledger
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
            self._ledger.put_sample(name, sample)

    def rate(self, name: str, at: float, value: int, of: Callable[[CollectionSample], int]) -> float:
        """How fast that number grew over the last seconds."""
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
        """By the second as far as that is known, else by the minute."""
        recent = self.recent(name)
        if recent and recent[0].at <= since:
            return [one for one in recent if since <= one.at <= until]
        edge = recent[0].at if recent else until + 1
        older = self._ledger.samples(name, since, until)
        if until - since > LONG_S:  # seconds would be lost between days
            return older + [one for one in recent[-1:] if not older or one.at > older[-1].at]
        return [one for one in older if one.at < edge] + [one for one in recent if one.at <= until]

    def forget(self, name: str) -> None:
        self._recent.pop(name, None)
        self._minutes.pop(name, None)
