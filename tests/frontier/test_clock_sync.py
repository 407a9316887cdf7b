"""Two machines, two clocks: the frontier's counts."""

import asyncio
from dataclasses import dataclass, field

import pytest

from tarrafa.clock import Clock, boottime
from tarrafa.frontier.clock_sync import clock_skew_s, resume_clock, sync_clock
from tarrafa.frontier.messages import ClockReading


@dataclass
class DistantFrontier:
    """A frontier whose clock is another one, and whose answers take their time on the way back."""

    clock: Clock
    ways_s: list[float] = field(default_factory=list)

    async def time(self) -> ClockReading:
        instant = ClockReading(self.clock.now(), self.clock.scale)
        await asyncio.sleep(self.ways_s.pop(0) if self.ways_s else 0.0)  # the slow way back is what is tested
        return instant


def apart(one: Clock, other: Clock) -> float:
    """At the same moment: two looks at two clocks may be far from each other."""
    moment = boottime()
    return abs(one.at(moment) - other.at(moment))


@pytest.mark.parametrize("hour", [3600.0, -3600.0, 86_400.0 * 400])
async def test_whoever_is_an_hour_off_takes_the_frontiers_time(hour):
    there = Clock.real()
    own = Clock(there.epoch + hour, there.anchor)
    agreed = await sync_clock(DistantFrontier(there), own)  # type: ignore[arg-type]
    assert apart(agreed.clock, there) < 0.05
    assert agreed.ahead_s == pytest.approx(hour, abs=0.05)
    way = "ahead of" if hour > 0 else "behind"
    assert f"this machine's clock is {abs(hour):,.0f} s {way} the frontier's" in str(agreed.notice())


def test_a_frontier_that_is_opened_again_never_goes_back():
    own = Clock.real()
    assert resume_clock(own, 0.0).clock is own
    assert resume_clock(own, own.now() - 5.0).clock is own
    later = own.now() + 3600.0
    going = resume_clock(own, later)
    assert later <= going.clock.now() < later + 5.0
    assert "this machine's clock is 3,600 s behind the frontier's, which counts; set it right" in str(going.notice())


async def test_a_clock_that_is_right_is_kept_to_the_microsecond():
    own = Clock.scaled(500.0)
    agreed = await sync_clock(DistantFrontier(own, [0.02, 0.0, 0.01]), own)  # type: ignore[arg-type]
    assert agreed.clock is own
    assert agreed.notice() == ""


async def test_a_scaled_frontier_is_followed_at_its_pace():
    there = Clock.scaled(100.0, epoch=5_000.0)
    agreed = await sync_clock(DistantFrontier(there), Clock.real())  # type: ignore[arg-type]
    assert agreed.clock.scale == 100.0
    assert apart(agreed.clock, there) < 0.05 * 100


async def test_the_answer_that_came_back_soonest_is_believed():
    there = Clock.real()
    own = Clock(there.epoch + 10.0, there.anchor)
    agreed = await sync_clock(DistantFrontier(there, [0.3, 0.0, 0.3]), own)  # type: ignore[arg-type]
    assert apart(agreed.clock, there) < 0.05


def test_only_what_the_way_does_not_explain_counts_as_apart():
    clock, asked = Clock(1000.0, 0.0, 2.0), boottime()
    shows = clock.at(asked)
    assert clock_skew_s(clock, ClockReading(shows, 2.0), asked, asked + 1) == 0.0
    assert clock_skew_s(clock, ClockReading(shows + 2.0, 2.0), asked, asked + 1) == 0.0
    assert clock_skew_s(clock, ClockReading(shows + 6.0, 2.0), asked, asked + 1) == pytest.approx(-2.0), "we are behind"
    assert clock_skew_s(clock, ClockReading(shows - 6.0, 2.0), asked, asked + 1) == pytest.approx(3.0), "we are ahead"
