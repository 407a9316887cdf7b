"""Backpressure: pauses transfers while bandwidth or memory is used up, and resumes them in order.

A part of a body for which a bandwidth limiter or the memory has no room is not taken: libcurl pauses that transfer, and
TCP makes the server wait. When there is room again the transfers resume in the order in which they began to wait.

libcurl may be told to resume only from outside its own callbacks, and may then hand over the kept data at once. So
everything is resumed from the event loop, and a transfer may be paused again before `pause` returns.
"""

import asyncio
from collections.abc import Callable

import pycurl

from tarrafa.clock import boottime
from tarrafa.fetch.throttling import BodyMemory
from tarrafa.fetch.transfer import Transfer

TURN_S = 0.01  # granularity of waiting: a fast limiter opens for many parts at once
LOOK_AGAIN_S = 0.05  # while the memory is full
WAIT_S_MAX = 1.0  # a limiter that is closed for long may be given a higher rate meanwhile


class Backpressure:
    """Pauses and resumes transfers. `failed` is called with a transfer that could not be resumed: it has ended."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        buffered_max: int,
        failed: Callable[[pycurl.Curl, int, str], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._loop, self._failed, self._clock = loop, failed, clock
        self._memory: BodyMemory[Transfer] = BodyMemory(buffered_max, clock)
        self._held: dict[Transfer, None] = {}  # in the order in which they began to wait
        self._timer: asyncio.TimerHandle | None = None

    @property
    def buffered(self) -> int:
        """Bytes of incomplete bodies in memory."""
        return self._memory.held

    def admit(self, transfer: Transfer, size: int) -> bool:
        """Whether a transfer may take `size` more bytes now. If not, it is paused and resumed later."""
        basin = self._memory
        if not transfer.limiters and basin.held + size <= basin.most:  # the usual case
            basin.held += size
            return True
        wait = self._wait_s(transfer, size)
        if wait > 0.0:
            transfer.waiting_bytes, transfer.held_since = size, self._clock()
            self._held[transfer] = None
            self._look_again_in(wait)
            return False
        for valve in transfer.limiters:
            valve.take(size)
        basin.take(size)
        return True

    def release(self, transfer: Transfer) -> None:
        """The transfer has ended: its bytes no longer count."""
        self._memory.release(transfer)
        if self._held:
            if transfer in self._held:
                self._unhold(transfer)
            self._look_again_in(0.0)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _wait_s(self, transfer: Transfer, size: int) -> float:
        if transfer.limiters:
            wait = max(valve.wait_s() for valve in transfer.limiters)
            if wait > 0.0:
                return wait
        return 0.0 if self._memory.has_room(transfer, size, self._held.keys()) else LOOK_AGAIN_S

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

    def _resume(self, transfer: Transfer) -> None:
        self._unhold(transfer)
        try:
            transfer.curl.pause(pycurl.PAUSE_CONT)
        except pycurl.error as error:  # the data handed over by libcurl cut the transfer
            code, message = (*error.args, "")[:2]
            self._failed(transfer.curl, code, message)

    def _unhold(self, transfer: Transfer) -> None:
        del self._held[transfer]
        transfer.held_s += self._clock() - transfer.held_since
        transfer.held_since = 0.0
