"""A crawl grows from one PostgreSQL server to three: stop, export, import into the longer list, go on."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace

from tarrafa.cli.rebuild_export_import import export_frontier
from tarrafa.errors import ConfigError
from tarrafa.frontier.address import OpenFrontier, PostgresServers
from tarrafa.frontier.export_import.checkpoint_file import iterate_hosts
from tarrafa.frontier.export_import.export_records import CollectionExport, HostExport
from tarrafa.frontier.messages import CollectionStatus, UrlWeight
from tarrafa.frontier.postgres.operations import outbox_calls
from tarrafa.frontier.postgres.sharding.postgres_shard import PostgresServer
from tarrafa.model import UrlState
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.takedown import TakedownEntry
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.contract.frontier_bodies import a_collection, offer
from tests.contract.postgres_process import WHY_NOT, Postgres, programs
from tests.journey.cluster import wait_for
from tests.journey.crawl_journey import TYPES, tarrafa
from tests.journey.test_postgres import PostgresCluster, a_cluster, assert_exact

pytestmark = pytest.mark.skipif(programs() is None, reason=WHY_NOT)
TAKEN_DOWN = TakedownEntry(
    datetime(2026, 1, 2, tzinfo=UTC), "add", "url", "http://somewhere.br/secret", "ana", "asked for"
)


@pytest.fixture
def servers():
    made = [Postgres(), Postgres(), Postgres()]
    yield made
    for server in made:
        server.remove()


@dataclass(frozen=True)
class Books:
    """All that a frontier knows, wherever it keeps it."""

    hosts: dict[str, HostExport]
    collections: dict[str, CollectionExport]
    counted: dict[str, CollectionStatus]
    deleted: dict[str, float]
    taken_down: list[TakedownEntry]

    @property
    def urls(self) -> dict[tuple[str, str], Any]:
        return {
            (share.collection, url.url): url
            for host in self.hosts.values()
            for share in host.shares
            for url in share.urls
        }


async def books_of(frontier: OpenFrontier) -> Books:
    """States and reasons aside: what is imported is paused. So is what is counted by the second."""
    catalogue, overview = await frontier.export_catalogue(), await frontier.overview()
    return Books(
        {image.key: image async for image in iterate_hosts(frontier)},
        {one.name: replace(one, state="", reason="", sequence=0) for one in catalogue.collections},
        {one.name: replace(one, state="", reason="", pages_per_s=0.0) for one in overview.collections},
        {one.collection: one.at for one in await frontier.deletions(0)},
        (await frontier.takedowns(0)).entries,
    )


def named(dsns: Sequence[str]) -> list[str]:
    return [word for dsn in dsns for word in ("--frontier", dsn)]


def hosts_on(dsn: str) -> int:
    with psycopg.connect(dsn) as connection:
        return int((connection.execute("SELECT count(*) FROM host").fetchone() or (0,))[0])


def live_a_little(cluster: PostgresCluster) -> str:
    """What a small crawl of a sound Web does not bring about; a URL that nobody has asked for yet."""

    async def life(frontier: OpenFrontier) -> str:
        await frontier.record_takedowns([TAKEN_DOWN])
        await frontier.open_collection(a_collection("twice"), [offer("http://a.br/"), offer("http://b.br/")])
        await frontier.set_state("twice", "finished", "")
        await frontier.begin_run("twice", "")
        shares = [(host, share) async for host in iterate_hosts(frontier) for share in host.shares]
        found = [(host, url) for host, share in shares if share.collection == "journey" for url in share.urls]
        host, waiting = next((host, url) for host, url in found if url.state == UrlState.PENDING)
        await frontier.update_weights("journey", [UrlWeight(host.id, waiting.id, 77, 1, host.key, 0.5)])
        return waiting.url

    url = cluster.ask(life)
    with psycopg.connect(cluster.dsns[0]) as connection:
        connection.execute("UPDATE url SET attempts = 2 WHERE url = %s", (url,))
        connection.execute("UPDATE host SET failures = 1, trouble = 'slow' WHERE key = 'http://a.br:80'")
    return url


def test_one_server_becomes_three_and_nothing_that_was_known_is_lost(tmp_path, servers):
    cluster = a_cluster(tmp_path, World(seed=4, hosts=8, pages=60), servers[:1])
    cluster.journey.delay_s = 0.1  # it must not be over before it is stopped
    dsns, backup = [server.database("grown") for server in servers], tmp_path / "grow.tf"
    data = DataDirectory(tmp_path / "one")
    goal = len(
        expected_requests(cluster.journey.world, [cluster.journey.world.root(1)], types=TYPES, sitemaps=True).kept
    )
    export = ("export", "frontier", backup, *named(cluster.dsns), "--data", data.root)
    with cluster.journey.web:
        try:
            cluster.ask(lambda frontier: frontier.open_collection(a_collection("gone"), [], start=False))
            said = tarrafa("delete", "gone", "--yes", *named(cluster.dsns), "--data", tmp_path / "aside")
            assert said.returncode == 0, said.stderr
            file = cluster.journey.write_collection()
            crawl = cluster.crawl("one", file)
            cluster.wait_until_visited(goal // 3, crawl)
            with pytest.raises(ConfigError, match=r"workers take part here \(one-1\): stop them first"):
                address = PostgresServers(tuple(cluster.dsns))
                asyncio.run(export_frontier(data, backup, None, "tarrafa", force=False, address=address))
            assert not backup.exists()
            crawl.stop()
            retried = live_a_little(cluster)
            number = cluster.ask(books_of).collections["journey"].number
            late = f"{cluster.journey.world.root(1)}found-while-a-server-was-away"
            with contextlib.closing(PostgresServer(cluster.dsns[0], bundled_suffix_list())) as server:
                outbox_calls.put(server, "a server that was away", number, [offer(late, 1)])
            said = tarrafa(*export)
            assert said.returncode == 0, said.stderr
            before = cluster.ask(books_of)
            assert ("journey", late) in before.urls, "links that waited are delivered before"
            said = tarrafa("import", "frontier", backup, *named(dsns), "--data", data.root)
            assert said.returncode == 0, said.stderr
            cluster.dsns = dsns
            after = cluster.ask(books_of)
            assert after.urls == before.urls, "every URL and every visit that is remembered"
            assert after == before, "hosts, robots.txt, delays, runs, counters, deletions, takedowns"
            assert (before.urls["journey", retried].attempts, before.urls["journey", retried].in_links) == (2, 77)
            assert (before.collections["twice"].run, number, list(before.deleted)) == (2, 2, ["gone"])
            assert min(map(hosts_on, dsns)) > 0
            crawl = cluster.crawl("one", file)
            wait_for(lambda: crawl.popen.poll() is not None, crawl)
            assert crawl.popen.returncode == 0, crawl.said()
            assert_exact(cluster, "one")
            known = cluster.ask(books_of)
            assert before.urls.keys() <= known.urls.keys()
        finally:
            cluster.end()
