"""Workers of many nodes on PostgreSQL: killed, stopped, without their database for a while, joining late."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from tarrafa.clock import boottime
from tarrafa.frontier.address import OpenFrontier, PostgresServers, connect
from tarrafa.web.truth import expected
from tarrafa.web.world import World
from tests.contract.postgres import WHY_NOT, Postgres, programs
from tests.journey.cluster import Cluster, Process, wait_for
from tests.journey.crawling import TYPES, a_journey, assert_polite, pids_of, tarrafa

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
LEASE_S = 4.0
HASTE = '[fetch]\ntime_max = "4s"\n'  # hosts of a silent worker rest for so long
T = TypeVar("T")


@dataclass
class PostgresCluster(Cluster):
    """Nodes whose URL server is a database, or several."""

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
    truth = expected(cluster.journey.world, [cluster.journey.world.root(1)], types=TYPES, sitemaps=True)
    kept = cluster.kept(*names)
    assert truth.kept - set(kept) == set(), "nothing is lost"
    assert set(kept) - truth.kept == set()
    numbers = Counter((record.url, record.visit) for record in cluster.records(*names))
    assert max(numbers.values()) == 1, "a visit's number is never used twice"
    assert_polite(cluster.journey)  # by the servers' own log: never two at once on a host
    asked = Counter(entry.url for entry in cluster.journey.requests() if not entry.url.endswith("/robots.txt"))
    return sum(asked.values()) - len(asked)


def test_a_crawl_on_postgresql_ends_when_its_collection_does(tmp_path, servers):
    cluster = a_cluster(tmp_path, World(seed=3, hosts=6, pages=40), servers[:1])
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
            goal = len(expected(world, [world.root(1)], types=TYPES, sitemaps=True).kept)
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
            at_work = cluster.kept("d")
            for node in (a, b, c, d):
                assert node.stop() == 130, node.said()
                assert "Traceback" not in node.said(), node.said()
            assert at_work, "who joined late worked too"
            print(
                f"{count} servers: {goal:,} pages, {repeated} requests repeated, in {boottime() - began:.0f} s and more"
            )
        finally:
            cluster.end()
