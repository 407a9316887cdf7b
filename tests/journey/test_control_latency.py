"""How soon does a crawl of many hosts, and of one large one, hear what people decide? By the server's own log."""

import asyncio
import os
import signal
import time
from itertools import pairwise

import pytest

from tarrafa import config
from tarrafa.clock import boottime
from tarrafa.crawl.scope.collection_loader import load_collection
from tarrafa.frontier.rpc.frontier_client import RemoteFrontier
from tarrafa.testweb.http.request_log import LoggedRequest
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import Journey, a_journey, kill_group, tarrafa, wait_until_kept

HEARD_S = 2.0  # how late the last request may be that is not wanted any more
WATCHED_S = 6.0


async def edited(journey: Journey, **scope: object) -> float:
    """The collection is configured otherwise from the moment on that this returns."""
    collection = load_collection(journey.write_collection(**scope))  # type: ignore[arg-type]
    frontier = await RemoteFrontier.connect(journey.data.socket)
    try:
        await frontier.open_collection(config.encode_collection(collection), [])
        return boottime()
    finally:
        await frontier.close()


async def paused(journey: Journey) -> float:
    frontier = await RemoteFrontier.connect(journey.data.socket)
    try:
        await frontier.set_state("journey", "paused", "by a test")
        return boottime()
    finally:
        await frontier.close()


def watched(journey: Journey) -> list[LoggedRequest]:
    """What was requested, when enough time has passed to see what must not be."""
    time.sleep(WATCHED_S)  # that nothing is requested in this time is what is tested
    return journey.requests()


@pytest.mark.long
@pytest.mark.alone
def test_a_pause_is_heard_on_two_hundred_hosts_within_two_seconds(tmp_path):
    journey = a_journey(tmp_path, World(seed=7, hosts=200, pages=8_000))
    journey.delay_s, where = 0.5, ("--data", journey.data.root)
    journey.roots = [journey.world.root(number) for number in range(1, 201)]
    with journey.web:
        process = journey.start(journey.write_collection())
        try:
            wait_until_kept(journey, process, 400)
            paused_at = asyncio.run(paused(journey))
            late = [one for one in watched(journey) if one.start > paused_at]
            print(f"\n{len(late)} requests after the pause, the last {max_s(late, paused_at):.2f} s after it")
            assert max_s(late, paused_at) <= HEARD_S
            kept = len(journey.kept())
            assert tarrafa("resume", "journey", *where).returncode == 0
            wait_until_kept(journey, process, kept + 50)
        finally:
            tarrafa("stop", "journey", *where)
            process.communicate(timeout=60)


@pytest.mark.long
@pytest.mark.alone
def test_an_exclusion_and_a_longer_delay_are_heard_on_a_large_host_within_two_seconds(tmp_path):
    journey = a_journey(tmp_path, World(seed=8, hosts=1, pages=6_000))
    journey.delay_s, where = 0.02, ("--data", journey.data.root)
    with journey.web:
        process = journey.start(journey.write_collection())
        try:
            wait_until_kept(journey, process, 100)
            journey.delay_s = 0.3
            edited_at = asyncio.run(edited(journey, scope='hosts = ["*.test"]\nexclude = ["*.test/*1*"]'))
            since = [one for one in watched(journey) if one.start > edited_at]
            unwanted = [one for one in since if "1" in one.url.partition("://")[2].partition("/")[2]]
            print(f"\nexcluded: {len(unwanted)} after the edit, the last {max_s(unwanted, edited_at):.2f} s after it")
            assert max_s(unwanted, edited_at) <= HEARD_S
            settled = sorted((one for one in since if one.start > edited_at + HEARD_S), key=lambda one: one.start)
            assert len(settled) >= 5
            gaps = [later.start - one.sent for one, later in pairwise(settled)]
            print(f"gaps from {min(gaps):.3f} s")
            assert min(gaps) >= journey.delay_s - 0.002
        finally:
            tarrafa("stop", "journey", *where)
            process.communicate(timeout=60)


def max_s(late: list[LoggedRequest], since: float) -> float:
    return max((one.start - since for one in late), default=0.0)


@pytest.mark.parametrize("command", ["pause", "resume", "stop", "start", "delete"])
def test_a_command_names_a_silent_frontier_within_seconds(silent_frontier, command):
    began = boottime()
    done = tarrafa(command, "journey", *(["--yes"] if command == "delete" else []), *silent_frontier)
    assert done.returncode == 2
    assert "did not answer within 5 s; nothing was changed" in done.stderr or "does not respond" in done.stderr
    assert boottime() - began < 30, "a time-out of 5 s, and the start of a process on a busy machine"


@pytest.fixture(scope="module")
def silent_frontier(tmp_path_factory):
    """A crawl whose processes are all stopped, so that none is started again; the options of a command for it."""
    journey = a_journey(tmp_path_factory.mktemp("silent"), World(seed=3, hosts=3, pages=400))
    journey.delay_s = 1.0
    with journey.web:
        process = journey.start(journey.write_collection())
        try:
            wait_until_kept(journey, process, 3)
            os.killpg(process.pid, signal.SIGSTOP)
            yield "--data", journey.data.root
        finally:
            kill_group(process)
