"""Lateness of the event loop, on a false clock; and what it means for a transfer."""

import asyncio

import pytest

from tarrafa.clock import boottime
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.fetch.loop_lag import JITTER_S, LATE_TICKS_MAX, TICK_S, LoopLag
from tarrafa.model import Status
from tests.fetch.raw_server import a_server


class FalseLoop:
    """Its clock moves when somebody sleeps, and further where it was told to be late."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.lag = LoopLag(lambda: self.now)

    def tick(self, late: float = 0.0) -> None:
        self.lag.expect_tick()
        self.now += TICK_S + late
        self.lag.tick()


def test_lateness_adds_up_since_a_moment():
    loop = FalseLoop()
    loop.tick(0.5)
    middle = loop.now
    loop.tick(0.25)
    loop.tick()
    assert loop.lag.lag_s(0.0) == pytest.approx(0.75)
    assert loop.lag.lag_s(middle) == pytest.approx(0.25)
    assert loop.lag.lag_s(loop.now) == 0.0


def test_the_jitter_of_every_timer_does_not_add_up():
    loop = FalseLoop()
    for _ in range(6_000):
        loop.tick(JITTER_S * 0.9)
    assert loop.lag.lag_s(0.0) == 0.0


def test_a_ring_that_is_overdue_counts_before_it_rings():
    """After a long block the transfer's time limit may be noticed before the bell is."""
    loop = FalseLoop()
    loop.lag.expect_tick()
    loop.now += 3.0
    assert loop.lag.lag_s(0.0) == pytest.approx(3.0 - TICK_S)


def test_what_was_late_before_a_transfer_began_is_not_its_lateness():
    loop = FalseLoop()
    loop.tick(10.0)
    assert loop.lag.lag_s(loop.now - 2.0) == pytest.approx(2.0)


def test_nobody_who_does_not_run_is_late():
    assert LoopLag(lambda: 5.0).lag_s(0.0) == 0.0


def test_only_so_much_is_remembered():
    loop = FalseLoop()
    for _ in range(LATE_TICKS_MAX + 10):
        loop.tick(1.0)
    assert loop.lag.lag_s(0.0) == pytest.approx(LATE_TICKS_MAX)


async def test_the_task_rings_once_a_tick(monkeypatch):
    loop = FalseLoop()
    slept = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        loop.now += seconds + (0.4 if len(slept) == 2 else 0.0)
        if len(slept) == 4:
            raise asyncio.CancelledError

    monkeypatch.setattr("tarrafa.fetch.loop_lag.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await loop.lag.run()
    assert slept == [TICK_S] * 4
    assert loop.lag.lag_s(0.0) == pytest.approx(0.4)


async def slow_fetch(late: float) -> FetchResponse:
    """A transfer that runs into a time limit, on a machine that was late for that part of the time meanwhile."""

    async def silence(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)  # a server that stalls is what is tested

    async with a_server(silence) as server:
        client = HttpClient(10, lag=lambda since: late * (boottime() - since))
        response = await client.fetch(FetchRequest("http://a.test/", [], server.place, time_max_s=0.3))
        client.close()
        return response


@pytest.mark.parametrize(("late", "status"), [(0.0, Status.TOO_SLOW), (0.1, Status.TOO_SLOW), (0.7, Status.STARVED)])
async def test_a_host_is_not_blamed_for_the_time_that_we_were_late(late, status):
    assert (await slow_fetch(late)).status == status
