"""The network between a machine and its frontier server is cut: both ends notice, and little is requested twice."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tarrafa.clock import boottime
from tarrafa.frontier.messages import LEASE_S
from tarrafa.frontier.rpc.codec_and_handshake import KEEPALIVE_EVERY_S, KEEPALIVE_IDLE_S, KEEPALIVE_PROBES
from tarrafa.testweb.world.hosts import World
from tests.journey.cluster import Cluster, wait_for
from tests.journey.crawl_journey import a_journey
from tests.journey.repeated_requests import (
    Kill,
    RunQueue,
    broken_promises,
    describe_repeated,
    repeated_requests,
)

SPACE, HERE, THERE = f"tarrafa-{os.getpid()}", f"tr{os.getpid()}a", f"tr{os.getpid()}b"
NET = f"10.231.{os.getpid() % 250}"
HASTE = '[fetch]\ntime_max = "2s"\n'  # hosts of a silent worker rest for so long
NOTICED_S = KEEPALIVE_IDLE_S + KEEPALIVE_EVERY_S * KEEPALIVE_PROBES
SERVER = """
import asyncio, sys
from pathlib import Path
from tarrafa.frontier.rpc.frontier_server import RpcSession, serve_tcp
from tarrafa.runtime.token import Token
from tests.contract.frontier_bodies import a_sqlite

async def main():
    ended = asyncio.Event()
    run = RpcSession.run
    async def watched(session, reader):
        await run(session, reader)
        ended.set()
    RpcSession.run = watched
    async with a_sqlite(Path(sys.argv[1])) as frontier:
        server = await serve_tcp(frontier, sys.argv[2], 0, Token(b"known to both ends only"))
        print(server.sockets[0].getsockname()[1], flush=True)
        await ended.wait()
        print("noticed", flush=True)

asyncio.run(main())
"""
CLIENT = """
import asyncio, sys
from tarrafa.errors import Unreachable
from tarrafa.frontier.rpc.frontier_client import RemoteFrontier
from tarrafa.runtime.token import Token

async def main():
    frontier = await RemoteFrontier.connect_tcp(sys.argv[1], int(sys.argv[2]), Token(b"known to both ends only"))
    await frontier.collections()
    print("connected", flush=True)
    sys.stdin.readline()
    try:
        await frontier.collections()
    except Unreachable as error:
        print("noticed", error, flush=True)

asyncio.run(main())
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def another_machine():
    """A network namespace with one cable to us."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root can make a network namespace (and `ip` is needed)")
    try:
        ip("netns", "add", SPACE)
        ip("link", "add", HERE, "type", "veth", "peer", "name", THERE, "netns", SPACE)
        ip("addr", "add", f"{NET}.1/24", "dev", HERE)
        ip("link", "set", HERE, "up")
        ip("-n", SPACE, "addr", "add", f"{NET}.2/24", "dev", THERE)
        ip("-n", SPACE, "link", "set", THERE, "up")
    except subprocess.CalledProcessError as error:
        subprocess.run(["ip", "netns", "del", SPACE], capture_output=True)
        pytest.skip(f"this machine does not let us make a network namespace: {error.stderr!r}")
    yield SPACE
    subprocess.run(["ip", "link", "del", HERE], capture_output=True)
    subprocess.run(["ip", "netns", "del", SPACE], capture_output=True)


@pytest.mark.long
def test_who_is_cut_off_notices_and_so_does_the_frontier_server(tmp_path, another_machine):
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(tmp_path), f"{NET}.1"],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    client = None
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        client = subprocess.Popen(
            ["ip", "netns", "exec", another_machine, sys.executable, "-c", CLIENT, f"{NET}.1", port],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert client.stdout is not None
        assert client.stdin is not None
        assert client.stdout.readline() == "connected\n"
        ip("link", "set", HERE, "down")
        began = boottime()
        client.stdin.write("ask\n")  # a question is under way, without an answer
        client.stdin.flush()
        assert client.stdout.readline().startswith("noticed the frontier server went away")
        assert server.stdout.readline() == "noticed\n"
        assert boottime() - began < 2 * NOTICED_S, "not the minutes that TCP takes by itself"
    finally:
        for process in (client, server):
            if process is not None:
                process.kill()
                process.communicate()


@pytest.mark.long
@pytest.mark.parametrize("cut_s", [5.0, LEASE_S + 10.0], ids=["short", "longer-than-the-lease"])
@pytest.mark.parametrize(("hosts", "delay_s"), [(20, 1.0), (20, 0.1), (200, 0.1)])
def test_a_cut_repeats_only_the_last_answers(tmp_path, another_machine, hosts, delay_s, cut_s):
    """A short one nothing at all: the connection outlives it. A worker cannot know of a cut before it has a visit to
    report: each host gets its next request, and no other once that has waited half a second for its report."""
    journey = a_journey(tmp_path, World(seed=22, hosts=hosts, pages=25 * hosts))
    journey.delay_s, journey.sections, cut_at = delay_s, HASTE, 0.0
    cluster = Cluster(journey, host=f"{NET}.2", machines={"server": another_machine})
    with journey.web, RunQueue() as queue:
        try:
            cluster.serve()
            cluster.submit(journey.write_collection())
            node = cluster.node("one", "--workers", "2")
            cluster.wait_until_visited(5 * hosts, node)
            load = queue.load()
            cut_at = boottime()
            ip("link", "set", HERE, "down")
            wait_for(lambda: boottime() - cut_at > cut_s, node)
            ip("link", "set", HERE, "up")
            cluster.wait_until_exhausted(node)
        finally:
            cluster.end()
        repeated = repeated_requests(journey.requests(), [Kill(cut_at, cut_at + LEASE_S)])
        print(f"{hosts} hosts, delay {delay_s}, cut for {cut_s:.0f} s: {describe_repeated(repeated, 1, load)}")
        assert not broken_promises(repeated, load)
        assert not repeated or cut_s > LEASE_S
