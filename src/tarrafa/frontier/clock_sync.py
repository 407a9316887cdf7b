"""Clock synchronization: a worker measures its skew and follows the frontier's clock.

The frontier's: every moment that it tells or is told (when a host may be visited again, when an answer ended) is on
its clock. A worker on a machine whose clock is wrong would hammer hosts or wait for ever. So it asks for the time
before it begins, several times, believes the answer that came back soonest, and from then on counts with its own boot
time, which nobody can set. Leases do not depend on any of this: they are told in seconds from the question on.

What is left is half of the shortest round trip, and how much two machines' quartz differ: `apart_s` watches that.
"""

from dataclasses import dataclass

from tarrafa.clock import Clock, boottime
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import ClockReading

SAMPLES = 3
SKEW_NOTICE_S = 2.0  # worth a word to the operator
CLOCK_SKEW_S_MAX = 1.0  # more than this, and a worker begins anew with the frontier's clock


@dataclass(frozen=True, slots=True)
class ClockAgreement:
    """The clock to use, and by how much our own was ahead of the frontier's (real seconds; behind: negative)."""

    clock: Clock
    ahead_s: float

    def notice(self) -> str:
        """For people; empty where there is nothing to say."""
        if abs(self.ahead_s) < SKEW_NOTICE_S:
            return ""
        way = "ahead of" if self.ahead_s > 0 else "behind"
        return f"this machine's clock is {abs(self.ahead_s):,.0f} s {way} the frontier's, which counts; set it right"


def resume_clock(own: Clock, last_seen: float) -> ClockAgreement:
    """The clock of a frontier that is opened again: it never goes back, or all hosts would wait until it had caught up.

    Whoever set this machine's clock back is told; from then on the frontier's dates are that much ahead of it.
    """
    behind_s = (last_seen - own.now()) / own.scale
    if behind_s <= 0:
        return ClockAgreement(own, 0.0)
    return ClockAgreement(Clock(last_seen, boottime(), own.scale), -behind_s)


async def sync_clock(frontier: Frontier, own: Clock) -> ClockAgreement:
    """Our own clock where it shows what the frontier's does (on one machine they are the same), else a copy of that."""
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
    """By how many real seconds at least the clock is ahead of the frontier's; 0 if the question's way explains it."""
    early, late = clock.at(asked), clock.at(answered)
    if early <= instant.now <= late:
        return 0.0
    return (early - instant.now if instant.now < early else late - instant.now) / instant.scale
