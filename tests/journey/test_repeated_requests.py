"""How much is requested again after a kill, counted by the server; and the checker that counts it."""

import os
import random
import signal
import subprocess
import time

import pytest

from tarrafa.clock import boottime
from tarrafa.testweb.http.request_log import LoggedRequest
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import Journey, a_journey, pids_of, wait_until_kept
from tests.journey.repeated_requests import Kill, Load, RunQueue, broken_promises, describe_repeated, repeated_requests
from tests.wait import block_until

KILL = Kill(100.0, 100.1)
COMMIT_CYCLE_S = 0.6  # kills come at any moment of it: `wait_until_kept` returns just after a commit


def requested(path: str, *times: float) -> list[LoggedRequest]:
    """Requests that each took 0.01 s."""
    ends = [(at, at + 0.01) for at in times]
    return [LoggedRequest("a.test", path, 200, 1, at, end, end, at, end, end, "", 1, "") for at, end in ends]


def test_the_checker_allows_more_time_on_a_busy_machine():
    log = [one for n in range(9) for one in requested(f"/{n}", 99.05 + n / 20, 101.0)]
    repeated = repeated_requests(log, [KILL])
    assert [len(broken_promises(repeated, Load(now=busy))) for busy in (1.0, 1.5, 2.0)] == [7, 4, 0]


def test_the_checker_allows_a_late_parser_a_longer_window():
    repeated = repeated_requests([*requested("/1", 99.3, 101.0), *requested("/2", 100.0, 101.0)], [KILL])
    assert [len(broken_promises(repeated, Load(lately=busy))) for busy in (1.0, 1.5)] == [1, 0]


@pytest.mark.parametrize(
    ("log", "broken"),
    [
        ([], 0),
        (requested("/1", 50.0), 0),
        (requested("/1", 99.995, 101.0), 0),  # in flight
        (requested("/1", 99.7, 101.0), 0),  # just answered
        (requested("/1", 97.0, 101.0), 0),  # the last answer of its host
        (requested("/1", 50.0, 99.0), 1),  # there was no kill in between
        (requested("/1", 102.0, 103.0), 1),
        (requested("/1", 98.0, 101.0) + requested("/2", 98.4, 101.0), 0),  # the last two
        (requested("/1", 98.0, 101.0) + requested("/2", 98.2, 101.0) + requested("/3", 98.4, 101.0), 1),
        (requested("/1", 97.0, 101.0) + requested("/2", 98.0, 101.0), 1),  # the first one waited for its report
        (requested("/1", 99.8, 101.0) + requested("/2", 100.2, 101.0), 0),
        (requested("/1", 99.8, 101.0) + requested("/2", 100.2, 101.0) + requested("/3", 100.6, 101.0), 1),
        ([one for n in range(9) for one in requested(f"/{n}", 99.55 + n / 20, 101.0)], 0),
        ([one for n in range(9) for one in requested(f"/{n}", 99.05 + n / 20, 101.0)], 7),
    ],
)
def test_the_checker_finds_what_was_repeated_without_need(log, broken):
    assert len(broken_promises(repeated_requests(log, [KILL]))) == broken


def kill_one(journey: Journey, process: "subprocess.Popen[str]", victim: str, rng: random.Random) -> Kill:
    pid = rng.choice(pids_of(process.pid, victim)) if victim else process.pid
    at = boottime()
    os.kill(pid, signal.SIGKILL)
    if not victim:
        process.communicate()
    block_until(lambda: pid not in pids_of(process.pid, victim))
    return Kill(at, boottime())


@pytest.mark.long
@pytest.mark.parametrize("victim", ["worker.worker", "rpc.frontier_server", ""], ids=["worker", "frontier", "all"])
@pytest.mark.parametrize(("hosts", "delay_s"), [(20, 0.1), (200, 0.1), (200, 0.0)])
def test_a_kill_repeats_only_the_last_answers(tmp_path, victim, hosts, delay_s):
    seed = os.environ.get("TARRAFA_SEED") or str(random.randrange(10**6))
    journey, rng, kills = a_journey(tmp_path, World(seed=22, hosts=hosts, pages=30 * hosts)), random.Random(seed), []
    journey.delay_s, load = delay_s, Load()
    with journey.web, RunQueue() as queue:
        file = journey.write_collection()
        process = journey.start(file, "--workers", "2")
        for _ in range(3):
            wait_until_kept(journey, process, len(journey.kept()) + 5 * hosts)
            time.sleep(rng.uniform(0.0, COMMIT_CYCLE_S))
            load = Load(*map(max, load, queue.load()))
            kills.append(kill_one(journey, process, victim, rng))
            if not victim:
                process = journey.start(file, "--workers", "2")
        said = process.communicate(timeout=600)[1]
        assert process.returncode == 0, said
        repeated = repeated_requests(journey.requests(), kills)
        print(f"seed {seed}, {hosts} hosts, delay {delay_s}: {describe_repeated(repeated, len(kills), load)}")
        assert not broken_promises(repeated, load)
