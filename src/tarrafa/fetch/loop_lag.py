"""Measures the lag of the event loop, to tell a slow host from an overloaded machine.

A busy machine reads late what arrived long ago, and would blame the host for its own delay. `LoopLag` sets a timer ten
times a second and records how late each tick came: a loop that was late for its own timer was late for transfers, too.
Knows nothing of transfers.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from tarrafa.clock import boottime

TICK_S = 0.1
JITTER_S = 0.05  # every timer is a little late; that is harmless and must not add up
LATE_TICKS_MAX = 10_000


class LoopLag:
    """The lag of this process's event loop. `run` is a task of that loop; `lag_s` may be called at any time."""

    def __init__(self, clock: Callable[[], float] = boottime) -> None:
        self._clock = clock
        self._late: deque[tuple[float, float]] = deque(maxlen=LATE_TICKS_MAX)  # time of the tick, its lag
        self._due = float("inf")

    async def run(self) -> None:
        """Tick until cancelled."""
        while True:
            self.expect_tick()
            await asyncio.sleep(TICK_S)
            self.tick()

    def expect_tick(self) -> None:
        """Schedule the next tick."""
        self._due = self._clock() + TICK_S

    def tick(self) -> None:
        """Record the tick that was due."""
        late = self._clock() - self._due
        if late > JITTER_S:
            self._late.append((self._clock(), late))
        self._due = float("inf")

    def lag_s(self, since: float) -> float:
        """Seconds by which the loop was late after the boot time `since`; an overdue tick counts as well."""
        total = 0.0
        for rang_at, late in reversed(self._late):
            if rang_at <= since:
                break
            total += min(late, rang_at - since)
        now = self._clock()
        overdue = min(now - self._due, now - since)
        return total + overdue if overdue > JITTER_S else total
