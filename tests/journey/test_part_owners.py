"""Two machines with one archive own the parts of its index and its link graph, and take over from each other."""

import signal
from collections import defaultdict
from collections.abc import Callable

import psycopg
import pytest

from tarrafa.frontier.messages import UrlWeight
from tarrafa.graph.graph_writer import out_edges
from tarrafa.index import shards
from tarrafa.index.index_status import index_status
from tarrafa.index.shards import ShardLayout, read_layout
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.local_shard import LocalShard
from tarrafa.search.request import SearchRequest
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tarrafa.testweb.world.hosts import World
from tests.contract.postgres_process import WHY_NOT, programs
from tests.journey.cluster import Process, wait_for
from tests.journey.test_postgres import PostgresCluster, a_cluster, servers

__all__ = ["servers"]
pytestmark = [pytest.mark.skipif(programs() is None, reason=WHY_NOT), pytest.mark.long]
PARTS = 4


class SharedArchiveCluster:
    """Machines whose archive is one folder."""

    def __init__(self, cluster: PostgresCluster) -> None:
        self.cluster = cluster
        self.archive = cluster.folder / "archive"
        self.archive.mkdir()

    def data(self, name: str) -> DataDirectory:
        return DataDirectory(self.cluster.folder / name)

    def start(self, name: str) -> Process:
        data = self.data(name)
        if not data.archive.is_symlink():
            data.root.mkdir()
            data.archive.symlink_to(self.archive)
        return self.cluster.node(name, "--index-shards", f"owned/{PARTS}")

    def layout(self, name: str) -> ShardLayout:
        return read_layout(self.data(name))

    def owns(self, name: str, parts: int) -> bool:
        """Whether it has so many parts, all of them completely."""
        layout = self.layout(name)
        return layout.is_owned and len(layout.complete) == len(layout.here) == parts

    def graph_owner(self) -> tuple[str, int]:
        with psycopg.connect(self.cluster.dsns[0]) as connection:
            sql = "SELECT node, epoch FROM part_owner WHERE projection = 'graph'"
            row = connection.execute(sql).fetchone()
        if row is None:
            return "", 0
        paths = {name: self.data(name).root / "node" for name in ("one", "two")}
        names = {path.read_text().strip(): name for name, path in paths.items() if path.exists()}
        return names.get(row[0], ""), row[1]

    def waits_for_a_stopped_client(self) -> bool:
        """Whether the database holds the locks of a client that was stopped within a transaction. It does so until the
        client goes on, or is gone: its own limit of idle transactions does not count within a pipeline."""
        with psycopg.connect(self.cluster.dsns[0]) as connection:
            sql = """SELECT 1 FROM pg_stat_activity WHERE wait_event = 'ClientRead' AND now() - xact_start > '2 s'"""
            return connection.execute(sql).fetchone() is not None

    def stop_beyond_its_lease(self, process: Process, is_replaced: Callable[[], bool]) -> None:
        while not is_replaced():
            process.signal(signal.SIGSTOP)
            wait_for(lambda: is_replaced() or self.waits_for_a_stopped_client(), self.cluster.processes[0])
            if not is_replaced():
                process.signal(signal.SIGCONT)
                wait_for(lambda: not self.waits_for_a_stopped_client(), process)

    def in_links(self) -> dict[str, int]:
        """As the frontier has them."""
        with psycopg.connect(self.cluster.dsns[0]) as connection:
            return dict(connection.execute("SELECT url, in_links FROM url").fetchall())

    def true_in_links(self) -> dict[str, int]:
        """As the archive says: how many other pages link to a URL in their newest version."""
        newest: dict[str, tuple[int, set[str]]] = {}
        for record in self.cluster.records("one"):
            edges = out_edges(record)
            if edges is not None and record.visit > newest.get(record.url, (-1, set[str]()))[0]:
                newest[record.url] = record.visit, {edge.url for edge in edges}
        sources = defaultdict(set)
        for url, (_, targets) in newest.items():
            for target in targets - {url}:
                sources[target].add(url)
        return {url: len(sources[url]) for url in self.in_links()}

    def pages(self) -> set[str]:
        return {
            record.url
            for record in self.cluster.records("one")
            if record.page and record.outcome.kept and not record.page.robots.noindex
        }

    def indexed(self, *names: str) -> list[str]:
        """The URLs in all parts of these machines, each as often as it is there."""
        found: list[str] = []
        for name in names:
            for part in shards.parts(self.data(name)):
                result = Searcher([LocalShard(part)]).matching_pages("site:test")
                assert not result.is_cut
                found += result.urls
        return found


@pytest.fixture
def cluster(tmp_path, servers):
    made = SharedArchiveCluster(a_cluster(tmp_path, World(seed=5, hosts=10, pages=400), servers[:1]))
    with made.cluster.journey.web:
        try:
            yield made
        finally:
            made.cluster.end()


def test_a_lost_machine_is_replaced_by_the_other_and_no_page_is_missing(cluster):
    one, two = cluster.start("one"), cluster.start("two")
    cluster.cluster.submit(cluster.cluster.journey.write_collection())
    cluster.cluster.wait_until_exhausted(one)
    wait_for(lambda: cluster.owns("one", 2) and cluster.owns("two", 2), one)
    wanted = cluster.pages()
    wait_for(lambda: sorted(cluster.indexed("one", "two")) == sorted(wanted), one)
    wait_for(lambda: cluster.in_links() == cluster.true_in_links(), one)
    both = Searcher([open_local_shard(cluster.data(name)) for name in ("one", "two")])
    request = SearchRequest("pescador rede", n=50)
    whole = both.search(request)
    assert [report.trouble for report in whole.shards] == ["", ""]
    alone = Searcher.open(cluster.data("two")).search(request)
    missing = ",".join(map(str, cluster.layout("one").here))
    assert [(report.name, str(report.trouble)) for report in alone.shards] == [
        (f"{missing}/4", "being built, or on no machine that answers")
    ]
    assert 0 < alone.total < whole.total

    one.kill()
    wait_for(lambda: cluster.owns("two", 4), two)
    wait_for(lambda: sorted(cluster.indexed("two")) == sorted(wanted), two)
    wait_for(lambda: cluster.graph_owner()[0] == "two", two)
    taken_over = Searcher.open(cluster.data("two")).search(request)
    assert (taken_over.total, taken_over.shards) == (whole.total, [])
    status = index_status(cluster.data("two"))
    assert status is not None
    assert status.shards == "owned 1,2,3,4/4"

    one = cluster.start("one")  # with parts that are no longer its own
    wait_for(lambda: cluster.owns("one", 2) and cluster.owns("two", 2), one)
    wait_for(lambda: sorted(cluster.indexed("one", "two")) == sorted(wanted), one)
    assert two.stop() == 130, two.said()
    assert one.stop() == 130, one.said()
    for process in (one, two):
        assert "Traceback" not in process.said()


def test_the_weights_of_a_machine_that_was_stopped_beyond_its_lease_are_refused(cluster):
    processes = {name: cluster.start(name) for name in ("one", "two")}
    one = processes["one"]
    cluster.cluster.submit(cluster.cluster.journey.write_collection())
    wait_for(lambda: cluster.graph_owner()[0], one)
    cluster.cluster.wait_until_visited(30, one)
    old, epoch = cluster.graph_owner()
    (new,) = processes.keys() - {old}
    cluster.stop_beyond_its_lease(processes[old], lambda: cluster.graph_owner()[0] == new)
    processes[old].signal(signal.SIGCONT)
    root = cluster.cluster.journey.world.root(1)
    weights = [UrlWeight(host_id(host_key(root)), url_id(root), 777, host_key=host_key(root))]
    assert not cluster.cluster.ask(lambda frontier: frontier.update_weights("journey", weights, epoch))
    cluster.cluster.wait_until_exhausted(processes[new])
    wait_for(lambda: cluster.in_links() == cluster.true_in_links(), processes[new])
    assert max(cluster.in_links().values()) > 1
    wait_for(lambda: cluster.owns("one", 2) and cluster.owns("two", 2), one)
    assert cluster.graph_owner()[0] == new
    assert cluster.in_links() == cluster.true_in_links()
    for process in processes.values():
        assert process.stop() == 130, process.said()
        assert "Traceback" not in process.said()
