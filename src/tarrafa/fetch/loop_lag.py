"""Measures the lag of the event loop, to tell a slow host from an overloaded machine.

A busy machine notices late what has arrived long ago, and takes its own lateness for the host's. `LoopLag` rings ten
times a second and remembers how late each ring came: what the event loop could not do for itself, it could not do for
a transfer either.
Knows nothing of transfers.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from tarrafa.clock import boottime

TICK_S = 0.1
JITTER_S = 0.05  # every timer is a little late; that hurts nobody and must not add up
LATE_TICKS_MAX = 10_000


class LoopLag:
    """How late this process's event loop is. `run` is a task of that loop; `lateness` may be asked at any time."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._late: deque[tuple[float, float]] = deque(maxlen=LATE_TICKS_MAX)  # when it rang, how late that was
        self._due = float("inf")

    async def run(self) -> None:
        """Ring until cancelled."""
        while True:
            self.expect_tick()
            await asyncio.sleep(TICK_S)
            self.tick()

    def expect_tick(self) -> None:
        """The next ring is due in a tick's time."""
        self._due = self._clock() + TICK_S

    def tick(self) -> None:
        """The bell that was due has rung."""
        late = self._clock() - self._due
        if late > JITTER_S:
            self._late.append((self._clock(), late))
        self._due = float("inf")

    def lag_s(self, since: float) -> float:
        """Seconds by which the loop was late after the boot time `since`; the ring that is overdue counts as well."""
        total = 0.0
        for rang_at, late in reversed(self._late):
            if rang_at <= since:
                break
            total += min(late, rang_at - since)
        now = self._clock()
        overdue = min(now - self._due, now - since)
        return total + overdue if overdue > JITTER_S else total
