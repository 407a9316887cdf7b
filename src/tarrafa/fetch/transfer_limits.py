"""Limits of transfers: a token bucket for bandwidth, a budget for the memory of bodies, and backpressure on transfers.

A part of a body for which a bandwidth limiter or the memory has no room is not taken: libcurl pauses that transfer, and
TCP makes the server wait. When there is room again the transfers resume in the order in which they began to wait.
Promises: in any period no more than `burst + rate x time` bytes, and one part, pass a `BandwidthLimiter`. A
`BodyMemory` never holds more than its maximum plus the rest of the bodies whose turn it was; there is always one body
that may continue.
"""

import asyncio
from collections.abc import Callable, Collection, Sized
from typing import TYPE_CHECKING, Protocol

import pycurl

from tarrafa.clock import boottime

if TYPE_CHECKING:
    from tarrafa.fetch.http_client import Transfer

BURST_S = 0.1  # this much time's worth of bytes passes at once by default
HANDOVER_S = 1.0  # a body that may continue but receives nothing gives its turn to the next
TURN_S = 0.01  # granularity of waiting: a fast limiter opens for many parts at once
LOOK_AGAIN_S = 0.05  # while the memory is full
WAIT_S_MAX = 1.0  # a limiter that is closed for long may be given a higher rate meanwhile


class BandwidthLimiter:
    """A token bucket that fills at `rate` bytes per second up to `burst`; shared by any number of transfers.

    Arrived bytes are taken even if they are more than the bucket holds. The limiter is then closed until time has paid
    that debt: so a part may be larger than the bucket, and nothing has to be cut or given back.
    """

    __slots__ = ("_burst", "_clock", "_filled_at", "_level", "rate")

    def __init__(self, rate: float | None, burst: float | None = None, clock: Callable[[], float] = boottime) -> None:
        self.rate, self._clock = rate, clock
        self._level = self._burst = (rate or 0.0) * BURST_S if burst is None else burst
        self._filled_at = clock()

    def set_rate(self, rate: float | None) -> None:
        """Change the rate from now on; None: no limit."""
        self._filled()
        self.rate, self._burst = rate, (rate or 0.0) * BURST_S
        self._level = min(self._level, self._burst)

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
            self._level = min(self._burst, self._level + (now - self._filled_at) * self.rate)
        self._filled_at = now
        return self._level


class BodyHolder(Protocol):
    """An object with a body in memory: a transfer."""

    @property
    def body(self) -> Sized: ...


class BodyMemory:
    """The bytes of all bodies that are not complete yet.

    When the memory is full, one body continues all the same, or nothing would ever be complete: of those that have more
    to receive, the largest one. It keeps its turn until it is complete or receives nothing for a while.
    """

    def __init__(self, bytes_max: int, clock: Callable[[], float] = boottime) -> None:
        self.bytes_max, self.held = bytes_max, 0
        self._clock = clock
        self._continuing: BodyHolder | None = None
        self._moved_at = 0.0

    def has_room(self, holder: BodyHolder, size: int, others: Collection[BodyHolder]) -> bool:
        """Whether `holder` may receive `size` more bytes. `others` wait for the same."""
        if self.held + size <= self.bytes_max:
            return True
        now = self._clock()
        if self._continuing is None or (self._continuing is not holder and now - self._moved_at >= HANDOVER_S):
            self._continuing = max((holder, *others), key=lambda each: len(each.body))
            self._moved_at = now
        if self._continuing is not holder:
            return False
        self._moved_at = now
        return True

    def take(self, size: int) -> None:
        self.held += size

    def release(self, holder: BodyHolder) -> None:
        """The body is complete, or given up."""
        self.held -= len(holder.body)
        if self._continuing is holder:
            self._continuing = None


class Backpressure:
    """Pauses and resumes transfers. `failed` is called with a transfer that could not be resumed: it has ended.

    libcurl may be told to resume only from outside its own callbacks, and may then hand over the kept data at once. So
    everything is resumed from the event loop, and a transfer may be paused again before `pause` returns.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, bytes_max: int, failed: Callable[[pycurl.Curl, int, str], None]
    ) -> None:
        self._loop, self._failed = loop, failed
        self.memory = BodyMemory(bytes_max)
        self._held: dict[Transfer, None] = {}  # in the order in which they began to wait
        self._timer: asyncio.TimerHandle | None = None

    def admit(self, transfer: "Transfer", size: int) -> bool:
        """Whether a transfer may take `size` more bytes now. If not, it is paused and resumed later."""
        memory = self.memory
        if not transfer.limiters and memory.held + size <= memory.bytes_max:  # the usual case
            memory.held += size
            return True
        wait = self._wait_s(transfer, size)
        if wait > 0.0:
            transfer.waiting_bytes, transfer.held_since = size, boottime()
            self._held[transfer] = None
            self._look_again_in(wait)
            return False
        for limiter in transfer.limiters:
            limiter.take(size)
        memory.take(size)
        return True

    def release(self, transfer: "Transfer") -> None:
        """The transfer has ended: its bytes no longer count."""
        self.memory.release(transfer)
        if self._held:
            if transfer in self._held:
                self._unhold(transfer)
            self._look_again_in(0.0)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait_s(self, transfer: "Transfer", size: int) -> float:
        wait = max((limiter.wait_s() for limiter in transfer.limiters), default=0.0)
        if wait > 0.0:
            return wait
        return 0.0 if self.memory.has_room(transfer, size, self._held.keys()) else LOOK_AGAIN_S

    def _look_again_in(self, wait_s: float) -> None:
        when = self._loop.time() + max(min(wait_s, WAIT_S_MAX), TURN_S)
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._resume_waiting)

    def _resume_waiting(self) -> None:
        self._timer = None
        for transfer in list(self._held):
            if transfer not in self._held:  # the end of another transfer can end this one
                continue
            wait = self._wait_s(transfer, transfer.waiting_bytes)
            if wait > 0.0:
                self._look_again_in(wait)
            else:
                self._resume(transfer)

    def _resume(self, transfer: "Transfer") -> None:
        self._unhold(transfer)
        try:
            transfer.curl.pause(pycurl.PAUSE_CONT)
        except pycurl.error as error:  # the data handed over by libcurl cut the transfer
            code, why = (*error.args, "")[:2]
            self._failed(transfer.curl, code, why)

    def _unhold(self, transfer: "Transfer") -> None:
        del self._held[transfer]
        transfer.held_s += boottime() - transfer.held_since
        transfer.held_since = 0.0
