"""Machines that share one archive: killed, stopped, erased with their disks, without their store or database."""

import os
import shutil
import signal
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tarrafa.archive.segment_log.log_mirror import LogMirror
from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.orphans import sweep_orphans
from tarrafa.archive.warc_reader import follow
from tarrafa.clock import boottime
from tarrafa.frontier.postgres.segment_manifest import PostgresManifest
from tarrafa.graph.graph_writer import out_edges
from tarrafa.model import VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.contract.postgres_process import WHY_NOT, Postgres, programs
from tests.journey.cluster import Process, wait_for
from tests.journey.crawl_journey import TYPES, assert_polite, pids_of, run_json, tarrafa
from tests.journey.test_postgres import LEASE_S, PostgresCluster, a_cluster
from tests.object_store_process import WHY_NOT as WHY_NO_STORE
from tests.object_store_process import SeaweedFs, program

pytestmark = [
    pytest.mark.skipif(programs() is None, reason=WHY_NOT),
    pytest.mark.skipif(program() is None, reason=WHY_NO_STORE),
]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Postgres, SeaweedFs]]:
    database, store = Postgres(), SeaweedFs()
    for name, value in store.environment.items():
        monkeypatch.setenv(name, value)
    yield database, store
    database.remove()
    store.remove()


class LogReader:
    """The log as a machine of its own sees it, brought by the product's mirror and read by the product's reader. Use it
    in a `with`."""

    def __init__(self, cluster: PostgresCluster) -> None:
        self.data = DataDirectory(cluster.folder / "reader")
        self.data.create()
        self.manifest = PostgresManifest(cluster.dsns[0])
        log = self.manifest.identity()
        assert log is not None
        self.log = log

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.manifest.close()

    def records(self) -> list[VisitRecord]:
        with LogMirror(self.data, self.manifest, self.log) as mirror:
            while mirror.pull():
                pass
        return [entry.record for entry in follow(self.data.archive, {})]

    def newest(self) -> dict[str, VisitRecord]:
        found: dict[str, VisitRecord] = {}
        for record in self.records():
            if record.url not in found or found[record.url].visit < record.visit:
                found[record.url] = record
        return found


def a_log_cluster(folder: Path, world: World, database: Postgres) -> PostgresCluster:
    cluster = a_cluster(folder, world, [database])
    cluster.settings["TARRAFA_STORE"] = f"s3://tests/{folder.name}"
    return cluster


def in_links_by_the_log(records: dict[str, VisitRecord]) -> dict[bytes, int]:
    """How many other pages link to each URL, by the newest visit of each page."""
    sources: defaultdict[bytes, set[str]] = defaultdict(set)
    for url, record in records.items():
        for edge in out_edges(record) or []:
            if edge.url != url:
                sources[url_id(edge.url)].add(url)
    return {target: len(found) for target, found in sources.items()}


def in_links_by_the_frontier(dsn: str) -> dict[bytes, int]:
    with psycopg.connect(dsn) as connection:
        return {bytes(key): count for key, count in connection.execute("SELECT id, in_links FROM url").fetchall()}


def assert_one_system(cluster: PostgresCluster, *names: str) -> None:
    """The log has what is there, each visit once; every machine has the log, and says the same."""
    with LogReader(cluster) as reader:
        _assert_one_system(cluster, reader, *names)


def _assert_one_system(cluster: PostgresCluster, reader: LogReader, *names: str) -> None:
    world = cluster.journey.world
    truth = expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True)
    records = reader.records()
    numbers = [(record.url, record.visit) for record in records]
    assert len(numbers) == len(set(numbers)), "a visit is archived once"
    newest = reader.newest()
    assert {url for url, record in newest.items() if record.outcome.kept} == truth.kept
    with psycopg.connect(cluster.dsns[0]) as connection:
        finished = connection.execute("SELECT u.url, v.number FROM visit v JOIN url u USING (host, collection, id)")
        assert set(finished.fetchall()) <= set(numbers), "what is finished is in the log"
    assert_polite(cluster.journey)
    counts, known = in_links_by_the_log(newest), in_links_by_the_frontier(cluster.dsns[0])
    assert {key: count for key, count in known.items() if count != counts.get(key, 0)} == {}
    log = [(path.name, path.read_bytes()) for path in sorted(reader.data.archive.glob("*log*.warc.gz"))]
    answers = []
    for name in names:
        data = cluster.folder / name
        assert [(path.name, path.read_bytes()) for path in sorted((data / "archive").glob("*log*.warc.gz"))] == log
        page, hits = run_json("page", world.root(1), "--data", data), run_json("search", "a", "--data", data)
        answers.append((page["in_total"], page["out_total"], len(page["history"]), hits["total"]))
        assert tarrafa("verify", "--data", data).returncode == 0
    assert len(set(answers)) == 1, answers
    assert_no_orphan_is_left(reader)


def assert_no_orphan_is_left(reader: LogReader) -> None:
    """When all workers are gone, a sweep leaves just the objects of the manifest."""
    store = ObjectStore(reader.log.store)
    sweep_orphans(store, reader.log, reader.manifest)
    segments = reader.manifest.segments(1, 100_000)
    assert len(list(store.names(reader.log.id))) == 2 * sum(not one.note for one in segments)


def wait_until_followed(cluster: PostgresCluster, process: Process, *names: str) -> None:
    """Until the followers of these machines have read the whole log."""
    from tarrafa.captures import follower as captures
    from tarrafa.graph import follower as graph
    from tarrafa.index import follower as index

    with LogReader(cluster) as reader:
        until = {reader.log.file: reader.manifest.lengths().visits_end}

    def followed(name: str) -> bool:
        data = DataDirectory(cluster.folder / name)
        return not (graph.behind(data, until) or index.behind(data, until) or captures.behind(data, until))

    for name in names:
        wait_for(lambda: followed(name), process)  # noqa: B023


def test_two_machines_have_one_archive_and_say_the_same(tmp_path, engines):
    cluster = a_log_cluster(tmp_path, World(seed=3, hosts=8, pages=80), engines[0])
    with cluster.journey.web:
        try:
            node = cluster.node("a")
            wait_for((tmp_path / "a" / "archive" / "log.json").exists, node)
            del cluster.settings["TARRAFA_STORE"]  # the others find it at the frontier
            crawl = cluster.crawl("b", cluster.journey.write_collection())
            wait_for(lambda: crawl.popen.poll() is not None, crawl)
            assert crawl.popen.returncode == 0, crawl.said()
            wait_until_followed(cluster, node, "a")
            assert node.stop() == 130, node.said()
            assert_one_system(cluster, "a", "b")
            refused = tarrafa("compact", "--data", tmp_path / "a")
            assert refused.returncode == 2 and "--frontier is missing" in refused.stderr
            refused = tarrafa("rebuild", "parse", "--data", tmp_path / "a")
            assert refused.returncode == 2 and "mirrors the log" in refused.stderr
        finally:
            cluster.end()


def test_what_is_taken_down_or_deleted_on_one_machine_is_gone_on_all(tmp_path, engines):
    """Also on one that was off meanwhile, and from the store, when it is erased."""
    cluster = a_log_cluster(tmp_path, World(seed=3, hosts=8, pages=80), engines[0])
    with cluster.journey.web:
        try:
            a = cluster.node("a")
            wait_for((tmp_path / "a" / "archive" / "log.json").exists, a)
            b = cluster.node("b")
            collection = cluster.journey.write_collection()
            crawl = cluster.crawl("c", collection)
            wait_for(lambda: crawl.popen.poll() is not None, crawl)
            wait_until_followed(cluster, a, "a", "b")
            assert b.stop() == 130, b.said()
            (tmp_path / "c" / "archive.toml").write_text('erase_wait = "0 s"\n')
            url = cluster.journey.world.root(1)
            where = ("--frontier", cluster.dsns[0], "--data", tmp_path / "c")
            done = tarrafa("takedown", "erase", url, "--reason", "court order 12", "--confirm", url, *where)
            assert done.returncode == 0, done.stderr
            wait_for(lambda: found_by_url(tmp_path / "a", url) == 0, a)
            erased = tarrafa("compact", *where)
            assert f"{url}: erased" in erased.stdout, erased.stderr
            b = cluster.node("b")
            wait_for(lambda: found_by_url(tmp_path / "b", url) == 0, b)
            with LogReader(cluster) as reader:
                gone = [record for record in reader.records() if record.url == url]
                assert gone and all(record.removed == "erased" for record in gone)
            assert tarrafa("delete", "journey", "--yes", *where).returncode == 0
            for name, node in (("a", a), ("b", b)):
                wait_for(lambda: run_json("search", "a", "--data", tmp_path / name)["total"] == 0, node)  # noqa: B023
            for node in (a, b):
                assert node.stop() == 130, node.said()
                assert "Traceback" not in node.said(), node.said()
            for name in "ab":
                assert tarrafa("verify", "--data", tmp_path / name).returncode == 0
        finally:
            cluster.end()


def found_by_url(root: Path, url: str) -> int:
    return sum(hit["url"] == url for hit in run_json("search", "a", "--data", root)["hits"])


def test_machines_burn_and_stand_still_and_nothing_is_lost(tmp_path, engines):
    database, store = engines
    world = World(seed=8, hosts=60, pages=400)
    cluster = a_log_cluster(tmp_path, world, database)
    cluster.journey.delay_s = 1.0  # hosts with many pages are still being visited when the store is away
    with cluster.journey.web:
        try:
            a, b, c = (cluster.node(name) for name in "abc")
            wait_for((tmp_path / "a" / "archive" / "log.json").exists, a)
            cluster.submit(cluster.journey.write_collection())
            goal = len(expected_requests(world, [world.root(1)], types=TYPES, sitemaps=True).kept)
            cluster.wait_until_visited(goal // 8, a)
            (victim,) = pids_of(a.pid, "--name a-1")
            os.kill(victim, signal.SIGKILL)
            cluster.wait_until_visited(goal // 4, a)
            b.kill()  # it burns, with its disk
            shutil.rmtree(tmp_path / "b")
            c.signal(signal.SIGSTOP)
            began = boottime()
            store.kill()
            wait_for(lambda: "waiting" in log_of(tmp_path / "a", "a-1"), a)
            store.start()
            cluster.wait_until_visited(goal // 2, a)
            wait_for(lambda: boottime() - began > 2 * LEASE_S, a)
            c.signal(signal.SIGCONT)
            database.stop("immediate")
            database.start()
            d = cluster.node("d")
            cluster.wait_until_exhausted(d)
            wait_until_followed(cluster, d, "a", "c", "d")
            wait_for(lambda: cluster.status().state == "finished", d)
            for node in (a, c, d):
                assert node.stop() == 130, node.said()
                assert "Traceback" not in node.said(), node.said()
            assert_one_system(cluster, "a", "c", "d")
        finally:
            cluster.end()


def log_of(root: Path, child: str) -> str:
    return (root / "run" / "log" / f"{child}.log").read_text(errors="replace")
