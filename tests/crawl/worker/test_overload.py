"""Overload control: fewer hosts on a slow machine, none while it is offline."""

import pytest

from tarrafa.crawl.worker import resource_limits
from tarrafa.crawl.worker.resource_limits import (
    OFFLINE_HOSTS,
    OFFLINE_PAUSE_S,
    RECOVERY_S,
    STARVED_PAUSE_S,
    OverloadControl,
)
from tarrafa.crawl.worker.stats import WorkerNotices


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
    assert "too busy: visiting 50 hosts" in notices.text()
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
