"""How many visits a host session asks for: as many as its host takes in a second."""

from collections import deque

import pytest

from tarrafa.crawl.worker import host_session
from tarrafa.crawl.worker.host_session import VISITS_IN_HAND_MAX, VisitQueue
from tarrafa.frontier.messages import VISITS_OF_NEW_LEASE


@pytest.mark.parametrize(
    ("made", "seconds", "wanted"),
    [
        (0, 0.2, VISITS_OF_NEW_LEASE),
        (1, 1.0, VISITS_OF_NEW_LEASE),
        (8, 0.125, 64),
        (100, 0.2, VISITS_IN_HAND_MAX),
        (4, 0.25, 16),
    ],
)
def test_the_pace_of_the_host_decides_how_many_visits_are_asked_for(monkeypatch, made, seconds, wanted):
    now = [100.0]
    monkeypatch.setattr(host_session, "boottime", lambda: now[0])
    queue = VisitQueue(deque())
    queue.taken, now[0] = made, now[0] + seconds
    assert queue.wanted_by_pace() == wanted


def test_each_report_counts_from_the_one_before(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(host_session, "boottime", lambda: now[0])
    queue = VisitQueue(deque())
    queue.taken, now[0] = 50, 100.5
    assert queue.wanted_by_pace() == 100
    queue.taken, now[0] = 55, 101.0
    assert queue.wanted_by_pace() == 10
