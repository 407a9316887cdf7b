"""Throttling: a token bucket for bandwidth and a budget for the memory of response bodies.

Promises: in any stretch of time no more than `burst + rate x time` bytes pass a `Valve`, and one part; a `Basin`
never holds more than its maximum and what the bodies lack whose turn it was; there is always one body that may go on.
Pure: what time it is, is asked of a clock that is handed in. Knows nothing of HTTP or of pausing.
"""

from collections.abc import Callable, Collection, Sized
from typing import Generic, Protocol, TypeVar

from tarrafa.clock import boottime

BURST_S = 0.1  # so much time's worth passes at once, if nobody says otherwise
HANDOVER_S = 1.0  # a body that may go on, and does not, gives its turn to the next


class BandwidthLimiter:
    """A bucket of permissions that fills at `rate` bytes per second up to `burst`; shared by any number of transfers.

    What has arrived is taken even if it is more than the bucket holds. Until time has paid that debt the valve is
    shut: so a part may be larger than the bucket, and nothing has to be cut or given back.
    """

    __slots__ = ("_clock", "_filled_at", "_level", "burst", "rate")

    def __init__(self, rate: float | None, burst: float | None = None, clock: Callable[[], float] = boottime) -> None:
        self.rate, self._clock = rate, clock
        self.burst = (rate or 0.0) * BURST_S if burst is None else burst
        self._level = self.burst
        self._filled_at = clock()

    def set_rate(self, rate: float | None) -> None:
        """From now on so fast; None: it is open."""
        self._filled()
        self.rate, self.burst = rate, (rate or 0.0) * BURST_S
        self._level = min(self._level, self.burst)

    def wait_s(self) -> float:
        """How long it is shut for; 0: it is open."""
        if self.rate is None or self._filled() >= 0.0:
            return 0.0
        return -self._level / self.rate

    def take(self, size: int) -> None:
        """So many bytes have come in."""
        if self.rate is not None:
            self._level = self._filled() - size

    def _filled(self) -> float:
        now = self._clock()
        if self.rate is not None:
            self._level = min(self.burst, self._level + (now - self._filled_at) * self.rate)
        self._filled_at = now
        return self._level


class BodyHolder(Protocol):
    """Somebody whose body lies in the basin."""

    @property
    def body(self) -> Sized: ...


Someone = TypeVar("Someone", bound=BodyHolder)


class BodyMemory(Generic[Someone]):
    """The bytes of all bodies that are not complete yet.

    When it is full, one body goes on all the same, or nothing would ever be complete: of those that have more to
    bring, the one that has brought the most. It keeps its turn until it is complete or brings nothing for a while.
    """

    def __init__(self, most: int, clock: Callable[[], float] = boottime) -> None:
        self.most, self.held = most, 0
        self._clock = clock
        self._foremost: Someone | None = None
        self._moved_at = 0.0

    def has_room(self, someone: Someone, size: int, others: Collection[Someone]) -> bool:
        """May `someone` bring so many bytes more? `others` wait for the same."""
        if self.held + size <= self.most:
            return True
        now = self._clock()
        if self._foremost is None or (self._foremost is not someone and now - self._moved_at >= HANDOVER_S):
            self._foremost = max((someone, *others), key=lambda each: len(each.body))
            self._moved_at = now
        if self._foremost is not someone:
            return False
        self._moved_at = now
        return True

    def take(self, size: int) -> None:
        self.held += size

    def release(self, someone: Someone) -> None:
        """Its body is complete, or given up."""
        self.held -= len(someone.body)
        if self._foremost is someone:
            self._foremost = None
