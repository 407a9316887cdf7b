"""Clock synchronization: a worker measures its skew and follows the frontier's clock.

Every time that crosses the frontier API (when a host may be visited again, when a response ended) is on the frontier's
clock. A worker with a wrong clock would hammer hosts or wait for ever. So it asks for the time before it begins,
several times, uses the answer that came back soonest, and from then on counts with its own boot time, which cannot be
set. Leases do not depend on any of this: they are given in seconds from the sending of the request on.

The remaining error is half of the shortest round trip, and the drift between the clocks of two machines: `clock_skew_s`
watches it.
"""

from dataclasses import dataclass

from tarrafa.clock import Clock, boottime
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import ClockReading
from tarrafa.i18n import Message, message

SAMPLES = 3
SKEW_NOTICE_S = 2.0  # reported to the operator
CLOCK_SKEW_S_MAX = 1.0  # beyond this a worker begins anew with the frontier's clock


@dataclass(frozen=True, slots=True)
class ClockAgreement:
    """The clock to use, and by how much our own was ahead of the frontier's (real seconds; behind: negative)."""

    clock: Clock
    ahead_s: float

    def notice(self) -> Message | str:
        """For people; empty if the clocks agree."""
        if abs(self.ahead_s) < SKEW_NOTICE_S:
            return ""
        seconds = round(abs(self.ahead_s))
        if self.ahead_s > 0:
            return message(
                "this machine's clock is {seconds} s ahead of the frontier's, which counts; set it right",
                seconds=seconds,
            )
        return message(
            "this machine's clock is {seconds} s behind the frontier's, which counts; set it right, or, if the"
            " frontier's is wrong, stop it and run `tarrafa frontier reset-clock` beside its file",
            seconds=seconds,
        )


def resume_clock(own: Clock, last_seen: float) -> ClockAgreement:
    """The clock of a frontier that is opened again: it never goes back, or all hosts would wait until it had caught up.

    If this machine's clock was set back, a notice says so; from then on the frontier's times are ahead of it by that
    much, until a person resets them (store/clock_reset.py).
    """
    behind_s = (last_seen - own.now()) / own.scale
    if behind_s <= 0:
        return ClockAgreement(own, 0.0)
    return ClockAgreement(Clock(last_seen, boottime(), own.scale), -behind_s)


async def sync_clock(frontier: Frontier, own: Clock) -> ClockAgreement:
    """Our own clock if it agrees with the frontier's (on one machine they are the same), else a copy of the
    frontier's."""
    best: tuple[float, float, ClockReading] | None = None
    ahead_s = 0.0
    for _ in range(SAMPLES):
        asked = boottime()
        instant = await frontier.time()
        answered = boottime()
        if best is None or answered - asked < best[1] - best[0]:
            best = (asked, answered, instant)
        ahead_s = max(ahead_s, clock_skew_s(own, instant, asked, answered), key=abs)
    assert best is not None
    asked, answered, instant = best
    if ahead_s == 0.0 and instant.scale == own.scale:
        return ClockAgreement(own, 0.0)
    return ClockAgreement(Clock(instant.now, (asked + answered) / 2, instant.scale), ahead_s)


def clock_skew_s(clock: Clock, instant: ClockReading, asked: float, answered: float) -> float:
    """By how many real seconds at least the clock is ahead of the frontier's; 0 if the round trip explains the
    difference."""
    early, late = clock.at(asked), clock.at(answered)
    if early <= instant.now <= late:
        return 0.0
    return (early - instant.now if instant.now < early else late - instant.now) / instant.scale
