"""Throttling: a token bucket for bandwidth and a budget for the memory of response bodies.

Promises: in any period no more than `burst + rate x time` bytes, and one part, pass a `BandwidthLimiter`. A
`BodyMemory` never holds more than its maximum plus the rest of the bodies whose turn it was; there is always one body
that may continue. Pure: the clock is passed in.
Knows nothing of HTTP or of pausing.
"""

from collections.abc import Callable, Collection, Sized
from typing import Generic, Protocol, TypeVar

from tarrafa.clock import boottime

BURST_S = 0.1  # this much time's worth of bytes passes at once by default
HANDOVER_S = 1.0  # a body that may continue but receives nothing gives its turn to the next


class BandwidthLimiter:
    """A token bucket that fills at `rate` bytes per second up to `burst`; shared by any number of transfers.

    Arrived bytes are taken even if they are more than the bucket holds. The limiter is then closed until time has paid
    that debt: so a part may be larger than the bucket, and nothing has to be cut or given back.
    """

    __slots__ = ("_clock", "_filled_at", "_level", "burst", "rate")

    def __init__(self, rate: float | None, burst: float | None = None, clock: Callable[[], float] = boottime) -> None:
        self.rate, self._clock = rate, clock
        self.burst = (rate or 0.0) * BURST_S if burst is None else burst
        self._level = self.burst
        self._filled_at = clock()

    def set_rate(self, rate: float | None) -> None:
        """Change the rate from now on; None: no limit."""
        self._filled()
        self.rate, self.burst = rate, (rate or 0.0) * BURST_S
        self._level = min(self._level, self.burst)

    def wait_s(self) -> float:
        """Seconds until the limiter opens; 0: it is open."""
        if self.rate is None or self._filled() >= 0.0:
            return 0.0
        return -self._level / self.rate

    def take(self, size: int) -> None:
        """Count bytes that have arrived."""
        if self.rate is not None:
            self._level = self._filled() - size

    def _filled(self) -> float:
        now = self._clock()
        if self.rate is not None:
            self._level = min(self.burst, self._level + (now - self._filled_at) * self.rate)
        self._filled_at = now
        return self._level


class BodyHolder(Protocol):
    """An object with a body in memory, such as a transfer."""

    @property
    def body(self) -> Sized: ...


Someone = TypeVar("Someone", bound=BodyHolder)


class BodyMemory(Generic[Someone]):
    """The bytes of all bodies that are not complete yet.

    When the memory is full, one body continues all the same, or nothing would ever be complete: of those that have more
    to receive, the largest one. It keeps its turn until it is complete or receives nothing for a while.
    """

    def __init__(self, most: int, clock: Callable[[], float] = boottime) -> None:
        self.most, self.held = most, 0
        self._clock = clock
        self._foremost: Someone | None = None
        self._moved_at = 0.0

    def has_room(self, someone: Someone, size: int, others: Collection[Someone]) -> bool:
        """Whether `someone` may receive `size` more bytes. `others` wait for the same."""
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
        """The body is complete, or given up."""
        self.held -= len(someone.body)
        if self._foremost is someone:
            self._foremost = None
