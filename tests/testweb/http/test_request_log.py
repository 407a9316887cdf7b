"""The log proves politeness, and impoliteness."""

import json
import math
from pathlib import Path

import msgspec
import pytest

from tarrafa.clock import Clock, boottime
from tarrafa.errors import DataError
from tarrafa.testweb import LoggedRequest, World, measure_politeness, read_log
from tarrafa.testweb.http.request_log import RequestLog
from tests.testweb.http.test_web_server import RawConnection
from tests.testweb.web_in_thread import WebInThread
from tests.wait import block_until

WORLD = World(hosts=16, pages=200)


def an_entry(start: float, end: float, host: str = "a", path: str = "/", sent: float | None = None) -> LoggedRequest:
    sent = end if sent is None else sent
    times = (start, sent, end, 10 * start, 10 * sent, 10 * end)
    return LoggedRequest(host, path, 200, 100, *times, "test/1.0", 1, "127.0.0.1")


def test_requests_in_turn_are_one_at_a_time_with_their_shortest_gap():
    treated = measure_politeness(
        [an_entry(5.0, 6.0, path="/b"), an_entry(1.0, 2.0), an_entry(2.5, 3.0), an_entry(9.0, 9.5)]
    )["a"]
    assert (treated.requests, treated.simultaneous_max) == (4, 1)
    assert treated.gap_s_min == 0.5
    assert treated.gap_clock_s_min == 5.0
    assert treated.per_url == {"http://a/": 3, "http://a/b": 1}


def test_an_overlap_is_counted_and_its_gap_is_negative():
    treated = measure_politeness([an_entry(1.0, 4.0), an_entry(2.0, 2.5), an_entry(2.2, 5.0), an_entry(9.0, 9.1, "b")])
    assert treated["a"].simultaneous_max == 3
    assert treated["a"].gap_s_min == pytest.approx(-2.0)
    assert (treated["b"].simultaneous_max, treated["b"].gap_s_min) == (1, math.inf)


def test_an_answer_that_ends_as_the_next_begins_is_no_overlap():
    assert measure_politeness([an_entry(1.0, 2.0), an_entry(2.0, 3.0)])["a"].simultaneous_max == 1


def test_the_gap_runs_from_what_the_client_can_have_seen_first():
    assert measure_politeness([an_entry(1.0, 2.0, sent=1.9), an_entry(2.9, 3.0)])["a"].gap_s_min == pytest.approx(1.0)


def test_hosts_that_share_an_address_can_be_taken_together():
    entries = [an_entry(1.0, 4.0, "127.1.0.8:8090"), an_entry(2.0, 3.0, "127.1.0.8:8091")]
    assert measure_politeness(entries)["127.1.0.8:8090"].simultaneous_max == 1
    assert measure_politeness(entries, by="address")["127.0.0.1"].simultaneous_max == 2


def test_every_request_is_logged_with_its_times(tmp_path):
    path = tmp_path / "log.jsonl"
    clock = Clock.scaled(1000.0, epoch=1.8e9)
    before = boottime()
    with WebInThread(WORLD, log_path=path, clock=clock) as web:
        root = WORLD.root(2)
        web.get(root)
        web.get(f"{root}nada", User_Agent="other/2.0")
        web.get(f"{root}__stats__")
        web.get(f"http://127.0.0.1:{web.port}/__log__/flush")
        entries = read_log(path)
        assert [(entry.url, entry.status, entry.agent) for entry in entries] == [
            (root, 200, "test/1.0"),
            (f"{root}nada", 404, "other/2.0"),
        ]
        web.get(f"{root}robots.txt")
    assert len(read_log(path)) == 3, "stopping writes the rest"
    for entry in entries:
        assert before < entry.start < entry.sent <= entry.end < boottime()
        assert entry.bytes > 100
        assert entry.clock_end - entry.clock_start == pytest.approx(1000 * (entry.end - entry.start), rel=1e-3)
        assert entry.clock_start == pytest.approx(1.8e9 + 1000 * (entry.start - clock.anchor), abs=0.1)
    assert web.stats is not None
    assert web.stats.requests == 3
    assert web.stats.bytes == sum(entry.bytes for entry in read_log(path))


def wait_until_under_way(web: WebInThread, count: int) -> None:
    def under_way() -> int:
        found: int = json.loads(web.get(f"http://127.0.0.1:{web.port}/__stats__").body)["under_way"]
        return found

    block_until(lambda: under_way() == count, f"{count} requests are under way")


def test_two_requests_at_once_are_seen_and_clients_that_leave_are_logged(tmp_path):
    path = tmp_path / "log.jsonl"
    with WebInThread(WORLD, log_path=path, latency_s=3600.0) as web:
        wires = [RawConnection(web.port) for _ in range(3)]
        for wire, name in zip(wires, ("h0001.br.test", "h0001.br.test", "h0002.pt.test"), strict=True):
            wire.send(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n")
        wait_until_under_way(web, 3)
    assert [entry.status for entry in read_log(path)] == [0, 0, 0], "nobody waited for the answer"
    treated = measure_politeness(read_log(path))
    assert treated["h0001.br.test"].simultaneous_max == 2
    assert treated["h0001.br.test"].gap_s_min < 0
    assert treated["h0002.pt.test"].simultaneous_max == 1


def test_answers_take_the_time_of_their_host(tmp_path):
    path = tmp_path / "log.jsonl"
    with WebInThread(WORLD, log_path=path, latency_s=0.02) as web:
        for no in (1, 2, 1):
            assert web.get(WORLD.root(no)).status == 200
    entries = read_log(path)
    for entry, no in zip(entries, (1, 2, 1), strict=True):
        assert entry.sent - entry.start >= 0.02 * WORLD.host(no).pace
    assert measure_politeness(entries)["h0001.br.test"].simultaneous_max == 1
    assert measure_politeness(entries)["h0001.br.test"].gap_s_min >= 0.02 * WORLD.host(2).pace


def test_a_torn_last_line_is_left_out(tmp_path):
    path = tmp_path / "log.jsonl"
    line = msgspec.json.encode(an_entry(1.0, 2.0)) + b"\n"
    path.write_bytes(line * 2 + line[:30])
    assert len(read_log(path)) == 2


def test_a_log_that_cannot_be_written_is_said_so():
    with pytest.raises(DataError, match="/nowhere/log: cannot write"):
        RequestLog(Path("/nowhere/log"))
