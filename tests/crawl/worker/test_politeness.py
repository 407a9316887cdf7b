"""Pacing of one host: delay, pause after slow responses, back-off."""

import pytest

from tarrafa.crawl.worker.politeness import BACKOFF_MAX_S, HostPacing
from tarrafa.frontier.messages import Lease
from tarrafa.parse.url import host_id
from tests.crawl.worker.session_harness import HOST, a_collection

NOW = 1_000.0


def a_pacing(next_at: float = 0.0, ended_at: float = 0.0, delay_s: float = 0.0, **politeness: object) -> HostPacing:
    lease = Lease(host_id(HOST), HOST, 1, 1, next_at, ended_at, delay_s, 0, None, [])
    return HostPacing.from_lease(lease, a_collection(politeness=politeness))


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ({"next_at": 50.0}, 50.0),
        ({"ended_at": 40.0}, 42.0),
        ({"ended_at": 40.0, "delay_s": 30.0}, 70.0),
        ({"next_at": 90.0, "ended_at": 40.0, "delay_s": 30.0}, 90.0),
    ],
)
def test_a_lease_says_from_when_on_a_host_may_be_contacted(known, expected):
    assert a_pacing(delay=2, **known).next_at == expected


@pytest.mark.parametrize(("asked_s", "expected"), [(None, 2.0), (1.0, 2.0), (7.0, 7.0), (500.0, 60.0)])
def test_robots_txt_may_ask_for_a_longer_delay_up_to_a_maximum(asked_s, expected):
    pacing = a_pacing(delay=2, delay_max=60)
    pacing.set_delay(asked_s)
    assert pacing.delay_s == expected


@pytest.mark.parametrize(("took_s", "pause_s"), [(0.1, 2.0), (3.0, 15.0), (100.0, 60.0)])
def test_a_slow_response_makes_the_pause_longer_up_to_a_maximum(took_s, pause_s):
    pacing = a_pacing(delay=2, delay_factor=5, delay_max=60)
    pacing.set_delay(None)
    pacing.begin_request()
    pacing.end_request(NOW, took_s)
    assert (pacing.ended_at, pacing.next_at) == (NOW, NOW + pause_s)


def test_a_shorter_delay_brings_the_next_request_forward_but_not_before_the_lease_allows():
    pacing = a_pacing(next_at=NOW + 3, delay=10)
    pacing.set_delay(None)
    pacing.end_request(NOW, 0.0)
    assert pacing.next_at == NOW + 10
    pacing.configure(a_collection(politeness={"delay": 1}), HOST)
    assert pacing.next_at == NOW + 10, "the current pause stays until it is restarted"
    pacing.set_delay(None)
    pacing.restart_pause(free_at=0.0)
    assert pacing.next_at == NOW + 3


def test_a_request_to_another_host_counts_and_never_shortens_the_pause():
    pacing = a_pacing(delay=2)
    pacing.set_delay(None)
    pacing.postpone(NOW + 9)
    pacing.end_foreign_request(NOW)
    assert (pacing.ended_at, pacing.next_at) == (NOW, NOW + 9)


def test_back_off_doubles_up_to_a_day_and_begins_anew_after_a_success():
    pacing = a_pacing(backoff=60)
    rests = []
    for _ in range(14):
        before = pacing.next_at = 0.0
        pacing.back_off(NOW, 0.0, "no answer", jitter=1.0)
        rests.append(pacing.next_at - NOW - before)
    assert rests[:4] == [60.0, 120.0, 240.0, 480.0]
    assert rests[-1] == BACKOFF_MAX_S
    assert (pacing.failures, pacing.trouble) == (14, "no answer")
    pacing.note_success()
    assert (pacing.failures, pacing.trouble) == (0, "")


@pytest.mark.parametrize(("retry_after_s", "rest_s"), [(10.0, 60.0), (600.0, 600.0), (1e9, BACKOFF_MAX_S)])
def test_retry_after_is_honoured_if_it_is_longer_than_the_back_off(retry_after_s, rest_s):
    pacing = a_pacing(backoff=60)
    pacing.back_off(NOW, retry_after_s, "503", jitter=1.0)
    assert pacing.next_at == NOW + rest_s
