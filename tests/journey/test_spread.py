"""A second server is added to a crawl that runs on one, and whoever moves the sites is killed on the way."""

import json
import os
import subprocess

import psycopg
import pytest

from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.world import World
from tests.contract.postgres_process import WHY_NOT, Postgres, programs
from tests.journey.cluster import Process, wait_for
from tests.journey.crawl_journey import TYPES, tarrafa
from tests.journey.test_postgres import PostgresCluster, a_cluster, assert_exact

pytestmark = [pytest.mark.skipif(programs() is None, reason=WHY_NOT), pytest.mark.long]


@pytest.fixture
def servers():
    made = [Postgres(), Postgres()]
    yield made
    for server in made:
        server.remove()


def servers_named(dsns: list[str]) -> list[str]:
    return [word for dsn in dsns for word in ("--frontier", dsn)]


def spread(dsns: list[str], *more: str) -> "subprocess.CompletedProcess[str]":
    return tarrafa("frontier", "spread", *servers_named(dsns), *more)


def known(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT count(*) FROM url").fetchone()
        assert row is not None
        return int(row[0])


def passages(dsn: str) -> set[int]:
    with psycopg.connect(dsn) as connection:
        return {int(state) for (state,) in connection.execute("SELECT DISTINCT state FROM moving").fetchall()}


def goal_of(cluster: PostgresCluster) -> int:
    world = cluster.journey.world
    return len(expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True).kept)


def test_a_server_is_added_to_a_crawl_and_its_workers_find_it_by_themselves(tmp_path, servers):
    dsns = [server.database("frontier") for server in servers]
    cluster = a_cluster(tmp_path, World(seed=4, hosts=8, pages=60), servers[:1])
    with cluster.journey.web:
        try:
            crawl = cluster.crawl("one", cluster.journey.write_collection())
            cluster.wait_until_visited(goal_of(cluster) // 4, crawl)
            moved = spread(dsns, "--json")
            assert json.loads(moved.stdout)["finished"], moved.stderr
            wait_for(lambda: crawl.popen.poll() is not None, crawl)
            assert crawl.popen.returncode == 0, crawl.said()
            assert_exact(cluster, "one")
            assert min(known(dsn) for dsn in dsns) > 0
        finally:
            cluster.end()


def test_four_workers_crawl_on_while_the_mover_is_killed_and_goes_on(tmp_path, servers):
    size = int(os.environ.get("TARRAFA_HOSTS") or 240)
    dsns = [server.database("frontier") for server in servers]
    cluster = a_cluster(tmp_path, World(seed=5, hosts=size, pages=12 * size), servers[:1])
    cluster.settings = {}  # leases of the usual length: nobody who crawls is to lose one
    with cluster.journey.web:
        try:
            nodes = [cluster.node(name, "--workers", "2") for name in ("a", "b")]
            cluster.submit(cluster.journey.write_collection())
            goal = goal_of(cluster)
            cluster.wait_until_visited(goal // 6, nodes[0])
            mover = cluster.start("mover", "frontier", "spread", *servers_named(dsns))
            kill_when_moving(mover, dsns)
            killed_with = known(dsns[0])
            cluster.wait_until_visited(goal // 3, nodes[0])
            again = spread(dsns)
            assert again.returncode == 0, again.stderr
            assert known(dsns[0]) > 0
            assert known(dsns[1]) > 0
            cluster.wait_until_exhausted(nodes[0])
            repeated = assert_exact(cluster, "a", "b")
            assert repeated == 0, "nobody who crawls was killed"
            for node in nodes:
                assert node.stop() == 130, node.said()
                assert "Traceback" not in node.said(), node.said()
            print(f"{goal:,} pages; {killed_with:,} URLs known when the mover was killed; {again.stdout}")
        finally:
            cluster.end()


def kill_when_moving(mover: Process, dsns: list[str]) -> None:
    """As soon as sites are frozen, or further."""
    wait_for(lambda: passages(dsns[0]), mover)
    mover.kill()
