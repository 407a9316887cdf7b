"""How much the workers of a machine may take: fewer hosts where it is slow, none while it is offline."""

import asyncio
import shutil

import pytest

from tarrafa.crawl.worker import resource_limits
from tarrafa.crawl.worker.resource_limits import (
    LAG_JITTER_S,
    LAG_TICK_S,
    LATE_TICKS_MAX,
    OFFLINE_HOSTS,
    OFFLINE_PAUSE_S,
    RECOVERY_S,
    STARVED_PAUSE_S,
    UNLIMITED,
    LoopLag,
    NodeLimits,
    OverloadControl,
    ResourceLimits,
    ResourceShare,
    limits_path,
    write_limits,
)
from tarrafa.crawl.worker.stats import WorkerNotices
from tarrafa.runtime.data_dir import FREE_BYTES_MIN, DataDirectory

CONNECTIONS_MAX = 600


@pytest.fixture
def data(tmp_path):
    directory = DataDirectory(tmp_path / "d")
    directory.create()
    return directory


@pytest.mark.parametrize(
    ("rations", "most", "share", "hosts"),
    [
        (UNLIMITED, 500, 1.0, 500),
        (UNLIMITED, 500, 0.5, 250),
        (UNLIMITED, 1, 0.05, 1),
        (UNLIMITED, 1000, 1.0, CONNECTIONS_MAX),
        (ResourceLimits(workers=2, hosts_at_once=100), 500, 1.0, 50),
        (ResourceLimits(workers=3, hosts_at_once=100), 500, 1.0, 34),
        (ResourceLimits(workers=2, hosts_at_once=1), 500, 1.0, 1),
        (ResourceLimits(workers=2, hosts_at_once=1000), 50, 1.0, 50),
        (ResourceLimits(share=0.1), 500, 1.0, 50),
        (ResourceLimits(share=0.1), 500, 0.05, 25),
        (ResourceLimits(share=0.01), 5, 1.0, 1),
        (ResourceLimits(paused=True), 500, 1.0, 0),
    ],
)
def test_how_many_hosts_a_worker_visits_at_once(data, rations, most, share, hosts):
    write_limits(data, rations)
    assert ResourceShare(data, 2, CONNECTIONS_MAX).hosts_allowed(most, share) == hosts


def test_what_is_handed_out_is_seen_with_the_next_look_and_only_news_is_news(data):
    rationed = ResourceShare(data, 2, CONNECTIONS_MAX)
    assert (rationed.current, rationed.workers, rationed.bandwidth) == (UNLIMITED, 2, None)
    write_limits(data, ResourceLimits(workers=4, bandwidth=1_000))
    assert rationed.reload()
    assert (rationed.workers, rationed.bandwidth) == (4, 250.0)
    assert not rationed.reload()
    write_limits(data, UNLIMITED)
    assert rationed.reload()
    assert rationed.current == UNLIMITED
    assert not limits_path(data).exists(), "what an earlier supervisor ordered must not hold for a later one"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"paused": "no"}', b"\xff"])
def test_a_file_that_cannot_be_read_rations_nothing(data, content):
    limits_path(data).write_bytes(content)
    assert ResourceShare(data, 2, CONNECTIONS_MAX).current == UNLIMITED


@pytest.fixture
def now(monkeypatch):
    moment = [1_000.0]
    monkeypatch.setattr(resource_limits, "boottime", lambda: moment[0])
    return moment


def test_a_slow_machine_visits_half_of_the_hosts_and_more_again_later(now):
    notices = WorkerNotices("", str)
    control = OverloadControl([], lambda share: int(100 * share), notices)
    control.note_overload()
    control.note_overload()
    assert control.hosts_at_once() == 50, "not twice within a moment"
    assert "too busy; hosts visited at once: 50" in str(notices.text())
    now[0] += STARVED_PAUSE_S + 1
    control.note_overload()
    assert control.hosts_at_once() == 25
    control.recover()
    assert control.hosts_at_once() == 25, "not at once"
    shares = []
    while control.hosts_at_once() < 100:
        now[0] += RECOVERY_S + 1
        control.recover()
        shares.append(control.hosts_at_once())
    assert shares[:2] == [31, 39]
    assert notices.text() == ""


def test_a_place_is_wanted_by_others_when_there_is_no_room_or_an_address_is_held():
    control = OverloadControl([1, 2], lambda share: 3, WorkerNotices("", str))
    assert control.room() == 1
    assert not control.is_place_wanted(holds_address=False)
    assert control.is_place_wanted(holds_address=True)
    assert OverloadControl([1, 2], lambda share: 2, WorkerNotices("", str)).is_place_wanted(holds_address=False)


def test_many_different_hosts_out_of_reach_in_a_row_mean_offline(now):
    control = OverloadControl([], lambda share: 1, WorkerNotices("", str))
    for host in range(OFFLINE_HOSTS - 1):
        assert not control.note_reachability(host, False)
    assert not control.note_reachability(0, False), "the same host again"
    assert control.note_reachability(OFFLINE_HOSTS, False)
    assert control.is_pausing()
    now[0] += OFFLINE_PAUSE_S + 1
    assert not control.is_pausing(), "hosts are leased again"
    for host in range(OFFLINE_HOSTS):
        control.note_reachability(host, False)
    assert not control.note_reachability(1, True), "one that answers is enough"


@pytest.fixture
def free(monkeypatch):
    """What the disk has left, in parts of what no command works without."""
    left = [10.0]
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=int(left[0] * FREE_BYTES_MIN)))
    return left


def test_a_node_pauses_before_the_disk_is_full_and_goes_on_when_there_is_room_to_spare(data, free):
    lines, seen = list[str](), []
    limits = NodeLimits(data, UNLIMITED, lines.append)
    for left in (10.0, 2.1, 1.9, 0.1, 2.1, 2.9, 3.1, 2.1, 1.9):
        free[0], printed = left, len(lines)
        limits.refresh()
        seen.append((len(lines) > printed, bool(limits.trouble)))
    assert seen == [
        (False, False), (False, False), (True, True), (False, True), (False, True), (False, True), (True, False),
        (False, False), (True, True),
    ]  # fmt: skip
    assert "the disk is nearly full (60 MB left, 64 MB needed)" in str(limits.trouble)


# -- lag of the event loop, on a false clock ---------------------------------------------------------------------------


class FalseLoop:
    """Its clock moves when somebody sleeps, and further where it was told to be late."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.lag = LoopLag(lambda: self.now)

    def tick(self, late: float = 0.0) -> None:
        self.lag.expect_tick()
        self.now += LAG_TICK_S + late
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
        loop.tick(LAG_JITTER_S * 0.9)
    assert loop.lag.lag_s(0.0) == 0.0


def test_a_ring_that_is_overdue_counts_before_it_rings():
    """After a long block the transfer's time limit may be noticed before the bell is."""
    loop = FalseLoop()
    loop.lag.expect_tick()
    loop.now += 3.0
    assert loop.lag.lag_s(0.0) == pytest.approx(3.0 - LAG_TICK_S)


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

    monkeypatch.setattr("tarrafa.crawl.worker.resource_limits.asyncio.sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await loop.lag.run()
    assert slept == [LAG_TICK_S] * 4
    assert loop.lag.lag_s(0.0) == pytest.approx(0.4)
