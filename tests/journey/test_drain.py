"""A node is ready, is drained, and holds nothing any more: other nodes need not wait for its leases."""

import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import pytest

from tarrafa.testweb.world.hosts import World
from tests.contract.postgres_process import WHY_NOT, a_server, programs
from tests.journey.cluster import Process, wait_for
from tests.journey.crawl_journey import tarrafa
from tests.journey.test_postgres import PostgresCluster, a_cluster
from tests.ports import reserved_port

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)


def get(port: int, path: str) -> tuple[int, str]:
    """Status and body; 0: nothing answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def parts_of_index(cluster: PostgresCluster) -> int:
    with psycopg.connect(cluster.dsns[0]) as connection:
        row = connection.execute("SELECT count(*) FROM part_owner WHERE projection = 'index' AND node <> ''").fetchone()
    assert row is not None
    return int(row[0])


def coordinator(cluster: PostgresCluster, health: int, data: Path) -> Process:
    return cluster.start(
        "n", "node", "--frontier", cluster.dsns[0], "--data", data, "--name", "n", "--port", "0", "--workers", "1",
        "--store", f"file://{cluster.folder}/store", "--index-shards", "owned/4", "--health", f"127.0.0.1:{health}",
        "--scrub", "off",
    )  # fmt: skip


def test_a_node_that_is_drained_gives_back_what_it_holds(tmp_path):
    cluster = a_cluster(tmp_path, World(seed=3, hosts=4, pages=20), [a_server()])
    data = tmp_path / "n"
    with cluster.journey.web, reserved_port() as health:
        try:
            refused = tarrafa("node", "drain", "--data", tmp_path)
            assert refused.returncode == 2
            node = coordinator(cluster, health, data)
            wait_for(lambda: get(health, "/healthz") == (200, "ok\n"), node)
            wait_for(lambda: get(health, "/readyz") == (200, "ready\n"), node)
            wait_for(lambda: parts_of_index(cluster) == 4, node)
            drained = tarrafa("node", "drain", "--data", data)
            assert drained.returncode == 0 and "drained" in drained.stdout, drained.stderr
            assert node.popen.wait(10) == 130, node.said()
            assert "Traceback" not in node.said(), node.said()
            assert parts_of_index(cluster) == 0
            assert get(health, "/readyz") == (0, "")
            again = tarrafa("node", "drain", "--data", data)
            assert again.returncode == 2 and "no node runs here" in again.stderr
            node = coordinator(cluster, health, data)
            wait_for(lambda: get(health, "/readyz") == (200, "ready\n"), node)
            assert node.stop() == 130, node.said()
            assert parts_of_index(cluster) == 4, "a node that only ends may start again"
        finally:
            cluster.end()
