"""The injected `Clock`: the only source of time, real or scaled, and the boot time that leases use.

Within a process the clock never jumps: it is anchored once and then runs with CLOCK_BOOTTIME, which counts suspended
time too and which cannot be set. A scaled clock runs faster than the real one, so that a test covers thirty days in a
minute; the Web, delays and due dates share it, while leases, time-outs and fencing always use `boottime()`, because the
machine they protect against is real.
"""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

CLOCK_VARIABLE = "TARRAFA_CLOCK"


def boottime() -> float:
    """Seconds since this machine booted, suspended time included: the clock of leases."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def boot_id() -> str:
    """Identifies this boot of this machine: a lease given under another one is certainly over."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return "unknown"


@dataclass(frozen=True, slots=True)
class Clock:
    """`now()` is epoch + scale x (boot time elapsed since the anchor)."""

    epoch: float
    anchor: float
    scale: float = 1.0

    @classmethod
    def real(cls) -> "Clock":
        return cls(time.time(), boottime())

    @classmethod
    def scaled(cls, scale: float, epoch: float | None = None) -> "Clock":
        return cls(time.time() if epoch is None else epoch, boottime(), scale)

    @classmethod
    def from_environment(cls) -> "Clock":
        """The clock that the parent process passed on, or the real one."""
        text = os.environ.get(CLOCK_VARIABLE)
        if not text:
            return cls.real()
        epoch, anchor, scale = (float(part) for part in text.split(":"))
        return cls(epoch, anchor, scale)

    def to_environment(self) -> str:
        return f"{self.epoch!r}:{self.anchor!r}:{self.scale!r}"

    def now(self) -> float:
        return self.at(boottime())

    def at(self, boot_time: float) -> float:
        """The clock's time at a boot time of this machine."""
        return self.epoch + self.scale * (boot_time - self.anchor)

    async def sleep_until(self, moment: float) -> None:
        """Return when the clock shows `moment` or later; never sooner, whatever the loop's timer says."""
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110 (time is the event)
            await asyncio.sleep(left / self.scale)
