"""Workers of many nodes on PostgreSQL: killed, stopped, without their database for a while, joining late."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest

from tarrafa.clock import boottime
from tarrafa.frontier.address import OpenFrontier, PostgresServers, connect
from tarrafa.frontier.collection_status import is_exhausted
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.contract.postgres_process import WHY_NOT, Postgres, programs
from tests.journey.cluster import Cluster, Process, wait_for
from tests.journey.crawl_journey import TYPES, a_journey, assert_polite, pids_of, tarrafa

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
LEASE_S = 4.0
HASTE = '[fetch]\ntime_max = "4s"\n'  # hosts of a silent worker rest for so long
T = TypeVar("T")


@dataclass
class PostgresCluster(Cluster):
    """Nodes whose frontier server is a database, or several."""

    dsns: list[str] = field(default_factory=list)

    def _where(self, name: str) -> list[str | Path]:
        addresses = [word for dsn in self.dsns for word in ("--frontier", dsn)]
        return [*addresses, "--data", self.folder / name]

    def node(self, name: str, *more: str, **settings: str) -> Process:
        count = () if "--workers" in more else ("--workers", "1")
        return self.start(name, "worker", *self._where(name), "--name", name, *count, *more, **settings)

    def crawl(self, name: str, file: Path, *more: str) -> Process:
        return self.start(name, "crawl", file, *self._where(name), "--name", name, "--workers", "1", *more)

    def ask(self, question: Callable[[OpenFrontier], Awaitable[T]]) -> T:
        async def asked() -> T:
            frontier = await connect(PostgresServers(tuple(self.dsns)))
            try:
                return await question(frontier)
            finally:
                await frontier.close()

        return asyncio.run(asked())


@pytest.fixture
def servers():
    made = [Postgres(), Postgres()]
    yield made
    for server in made:
        server.remove()


def a_cluster(folder: Path, world: World, servers: list[Postgres]) -> PostgresCluster:
    journey = a_journey(folder, world)
    journey.sections = HASTE
    dsns = [server.database("frontier") for server in servers]
    return PostgresCluster(journey, {"TARRAFA_LEASE_S": str(LEASE_S)}, dsns=dsns)


def assert_exact(cluster: Cluster, *names: str) -> int:
    """Together the nodes have what is there; how many requests were made more than once."""
    truth = expected_requests(cluster.journey.world, [cluster.journey.world.root(1)], types=TYPES, sitemaps=True)
    kept = cluster.kept(*names)
    assert truth.kept - set(kept) == set(), "nothing is lost"
    assert set(kept) - truth.kept == set()
    numbers = Counter((record.url, record.visit) for record in cluster.records(*names))
    assert max(numbers.values()) == 1, "a visit's number is never used twice"
    assert_polite(cluster.journey)  # by the servers' own log: never two at once on a host
    asked = Counter(entry.url for entry in cluster.journey.requests() if not entry.url.endswith("/robots.txt"))
    return sum(asked.values()) - len(asked)


def assert_nothing_repeated_but_what_was_in_flight(cluster: PostgresCluster) -> None:
    """By the books: no visit that somebody had reported was made again."""
    twice = """SELECT u.url, count(*) FROM visit v JOIN url u USING (host, collection, id)
               WHERE v.status BETWEEN 200 AND 499 GROUP BY u.url HAVING count(*) > 1"""
    for dsn in cluster.dsns:
        with psycopg.connect(dsn) as connection:
            assert connection.execute("SELECT count(*) > 0 FROM visit").fetchone() == (True,)
            assert connection.execute(twice).fetchall() == []


def test_a_crawl_on_postgresql_ends_when_its_collection_does(tmp_path, servers):
    cluster = a_cluster(tmp_path, World(seed=3, hosts=6, pages=40), servers[:1])
    cluster.settings, cluster.journey.sections = {}, ""  # nobody is silent here: all limits are the usual ones
    with cluster.journey.web:
        try:
            crawl = cluster.crawl("one", cluster.journey.write_collection())
            wait_for(lambda: crawl.popen.poll() is not None, crawl)
            assert crawl.popen.returncode == 0, crawl.said()
            assert_exact(cluster, "one")
            where = ("--frontier", cluster.dsns[0])
            assert "finished" in tarrafa("status", *where).stdout
            assert "last status 200" in tarrafa("explain", cluster.journey.world.root(1), *where).stdout
        finally:
            cluster.end()


def test_collection_that_only_workers_serve_is_finished_and_its_speed_is_shown(tmp_path, servers):
    cluster = a_cluster(tmp_path, World(seed=3, hosts=6, pages=120), servers[:1])
    cluster.journey.delay_s = 0.2
    with cluster.journey.web:
        try:
            node = cluster.node("a")
            cluster.submit(cluster.journey.write_collection())
            cluster.wait_until_visited(20, node)

            def pages_per_s() -> float:
                shown = json.loads(tarrafa("status", "--json", "--frontier", cluster.dsns[0]).stdout)
                return float(shown["collections"][0]["pages_per_s"])

            wait_for(lambda: pages_per_s() > 0, node)
            wait_for(lambda: cluster.status().state == "finished", node)
            assert_exact(cluster, "a")
        finally:
            cluster.end()


@pytest.mark.long
@pytest.mark.parametrize("count", [1, 2])
def test_eight_workers_on_postgresql_lose_nothing_whatever_happens(tmp_path, servers, count):
    size = int(os.environ.get("TARRAFA_HOSTS") or (2_000 if count == 1 else 400))
    world = World(seed=8, hosts=size, pages=3 * size)
    cluster = a_cluster(tmp_path, world, servers[:count])
    with cluster.journey.web:
        try:
            nodes = {name: cluster.node(name, "--workers", "2") for name in ("a", "b", "c")}
            cluster.submit(cluster.journey.write_collection())
            goal = len(expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True).kept)
            a, b, c = nodes.values()
            cluster.wait_until_visited(goal // 8, a)
            (victim,) = pids_of(a.pid, "--name a-1")
            os.kill(victim, signal.SIGKILL)
            cluster.wait_until_visited(goal * 2 // 8, a)
            b.kill()  # a whole machine; it comes back under its name
            b = cluster.node("b", "--workers", "2")
            cluster.wait_until_visited(goal * 3 // 8, a)
            c.signal(signal.SIGSTOP)
            began = boottime()
            cluster.wait_until_visited(goal * 4 // 8, a)
            servers[0].stop("immediate")
            servers[0].start()
            cluster.wait_until_visited(goal * 5 // 8, a)
            wait_for(lambda: boottime() - began > 2 * LEASE_S, a)
            c.signal(signal.SIGCONT)
            d = cluster.node("d", "--workers", "2")  # joins late
            cluster.wait_until_exhausted(d)
            repeated = assert_exact(cluster, "a", "b", "c", "d")
            assert_nothing_repeated_but_what_was_in_flight(cluster)
            at_work = cluster.kept("d")
            for node in (a, b, c, d):
                assert node.stop() == 130, node.said()
                assert "Traceback" not in node.said(), node.said()
            assert at_work, "who joined late worked too"
            print(f"servers: {count}; {goal:,} pages, {repeated} requests repeated")
        finally:
            cluster.end()


def visits_on(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT count(*) FROM visit").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.long
@pytest.mark.parametrize("way", ["stop", "hang"])
@pytest.mark.parametrize("from_the_start", [False, True])
def test_outages_of_the_second_server_of_any_length_delay_its_hosts_only(tmp_path, servers, way, from_the_start):
    """Shorter and longer than the lease of 30 s; also before a worker's first renewal."""
    world, second = World(seed=8, hosts=300, pages=2_000), servers[1]
    cluster = a_cluster(tmp_path, world, servers)
    cluster.settings, cluster.journey.sections, cluster.journey.delay_s = {}, "", 0.5
    with cluster.journey.web:
        try:
            node = cluster.node("a", "--workers", "2")
            cluster.submit(cluster.journey.write_collection())
            goal = len(expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True).kept)
            if not from_the_start:
                cluster.wait_until_visited(goal // 10, node)
            for outage_s in (8,) if from_the_start else (1, 8, 12, 17, 45):
                (second.hang if way == "hang" else lambda: second.stop("immediate"))()
                began = boottime()
                wait_for(lambda: boottime() - began > outage_s, node)  # noqa: B023
                (second.go_on if way == "hang" else second.start)()
                before, began = visits_on(cluster.dsns[1]), boottime()
                wait_for(lambda: visits_on(cluster.dsns[1]) > before or is_exhausted(cluster.status()), node)  # noqa: B023
                print(f"{way} for {outage_s} s: its hosts are visited again after {boottime() - began:.1f} s")
            cluster.wait_until_exhausted(node)
            print(f"{goal:,} pages, {assert_exact(cluster, 'a')} requests repeated")
            assert_nothing_repeated_but_what_was_in_flight(cluster)
            assert node.stop() == 130, node.said()
            assert "Traceback" not in node.said(), node.said()
        finally:
            cluster.end()


# -- three machines -------------------------------------------------------------------------------------------

MARK = os.getpid()
NET, BRIDGE = f"10.232.{MARK % 250}", f"trb{MARK}"


# The synthetic Web listens on loopback only: this carries the bridge's connections there.
FORWARD = """
import asyncio, sys

async def carry(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()

async def connected(reader, writer):
    there = await asyncio.open_connection("127.0.0.1", int(sys.argv[2]))
    await asyncio.gather(carry(reader, there[1]), carry(there[0], writer), return_exceptions=True)

async def main():
    server = await asyncio.start_server(connected, sys.argv[1], 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def machines():
    """Three network namespaces on one bridge, each with its cable."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("only root can make network namespaces (and `ip` is needed)")
    made = {f"tr{MARK}n{number}": f"tr{MARK}c{number}" for number in (1, 2, 3)}
    try:
        ip("link", "add", BRIDGE, "type", "bridge")
        ip("addr", "add", f"{NET}.1/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        for number, (space, cable) in enumerate(made.items(), 2):
            ip("netns", "add", space)
            ip("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", cable, "master", BRIDGE, "up")
            ip("-n", space, "addr", "add", f"{NET}.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")
        yield made
    except subprocess.CalledProcessError as error:
        pytest.skip(f"this machine does not let us make network namespaces: {error.stderr!r}")
    finally:
        for space in made:
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
        subprocess.run(["ip", "link", "del", BRIDGE], capture_output=True)


@pytest.mark.long
def test_a_machine_that_is_cut_off_for_longer_than_its_lease_loses_and_harms_nothing(tmp_path, machines):
    server = Postgres(listen=f"{NET}.1")
    world = World(seed=9, hosts=600, pages=2_400)
    cluster = a_cluster(tmp_path, world, [server])
    forward = subprocess.Popen(
        [sys.executable, "-c", FORWARD, f"{NET}.1", str(cluster.journey.web.port)], stdout=subprocess.PIPE, text=True
    )
    assert forward.stdout is not None
    cluster.journey.network = f'connect_to = {{"*.test" = "{NET}.1:{forward.stdout.readline().strip()}"}}'
    spaces, cables = list(machines), list(machines.values())
    cluster.machines = dict(zip("abc", spaces, strict=True))
    with cluster.journey.web:
        try:
            a, b, c = (cluster.node(name, "--workers", "2") for name in "abc")
            cluster.submit(cluster.journey.write_collection())
            goal = len(expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True).kept)
            cluster.wait_until_visited(goal // 5, a)
            ip("link", "set", cables[2], "down")
            began = boottime()
            wait_for(lambda: boottime() - began > 3 * LEASE_S, a)
            ip("link", "set", cables[2], "up")
            cluster.wait_until_exhausted(a)
            repeated = assert_exact(cluster, "a", "b", "c")
            assert_nothing_repeated_but_what_was_in_flight(cluster)
            for node in (a, b, c):
                assert node.stop() == 130, node.said()
                assert "Traceback" not in node.said(), node.said()
            print(f"three machines, one cut off for {3 * LEASE_S:.0f} s: {goal:,} pages, {repeated} requests repeated")
        finally:
            cluster.end()
            forward.kill()
            forward.communicate()
            server.remove()
