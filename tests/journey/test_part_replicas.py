"""Owners of parts are killed while people search: with replicas no search fails, without them the part is named until
another machine has it again, from its snapshot."""

import signal
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import pytest

from tarrafa.clock import boottime
from tarrafa.index.index_status import index_status
from tarrafa.index.shards import read_layout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.testweb.world.hosts import World
from tests.contract.postgres_process import WHY_NOT, Postgres, programs
from tests.journey.cluster import Process, wait_for
from tests.journey.test_postgres import PostgresCluster
from tests.journey.test_segment_log import a_log_cluster, engines, log_of
from tests.object_store_process import WHY_NOT as WHY_NO_STORE
from tests.object_store_process import SeaweedFs, program

__all__ = ["engines"]
pytestmark = [
    pytest.mark.skipif(programs() is None, reason=WHY_NOT),
    pytest.mark.skipif(program() is None, reason=WHY_NO_STORE),
    pytest.mark.long,
]
PARTS, QUERIES, THREADS = 4, 2_000, 4
TEXTS = ("pescador", "rede OR mar", "site:test", "a o", "casa", "lang:pt")


@dataclass
class Answer:
    """What people see of a search: the number of pages, the first ones, and which shards are missing, and why."""

    total: int
    urls: list[str]
    missing: dict[str, str]


@dataclass
class Machine:
    """A worker, and the search server of its data directory."""

    name: str
    worker: Process
    server: Process
    url: str

    def kill(self) -> None:
        self.worker.kill()
        self.server.kill()


@dataclass
class SearchedCluster:
    """Machines that own parts, and a search page in front of them."""

    cluster: PostgresCluster
    layout: str
    machines: list[Machine] = field(default_factory=list)
    page: str = ""

    def data(self, name: str) -> DataDirectory:
        return DataDirectory(self.cluster.folder / name)

    def _serve(self, name: str, *more: str | Path) -> tuple[Process, str]:
        where = ("--data", self.cluster.folder / name, "--port", "0", "--rate-limit", "0")
        process = self.cluster.start(f"{name}-page", "serve", *where, *more)
        wait_for(lambda: "search page: " in process.said(), process)
        return process, process.said().partition("search page: ")[2].split()[0].rstrip("/")

    def start(self, name: str) -> Machine:
        worker = self.cluster.node(name, "--index-shards", self.layout)
        wait_for((self.cluster.folder / name / "archive" / "log.json").exists, worker)
        server, url = self._serve(name, "--as-shard")
        self.machines.append(Machine(name, worker, server, url))
        return self.machines[-1]

    def open_page(self) -> None:
        shards = [word for machine in self.machines for word in ("--shard", machine.url)]
        _, self.page = self._serve("front", *shards)

    def owns(self, name: str, parts: int) -> bool:
        """Whether it has so many parts, all of them completely."""
        layout = read_layout(self.data(name))
        return layout.is_owned and len(layout.complete) == len(layout.here) == parts

    def is_settled(self, name: str) -> bool:
        """Whether its index has everything, with the present links."""
        status = index_status(self.data(name))
        return status is not None and status.settled and not status.behind_bytes

    def ask(self, text: str) -> Answer:
        query = urlencode({"q": text, "n": 50, "copies": 1})  # so that totals are exact
        with urllib.request.urlopen(f"{self.page}/search.json?{query}", timeout=30) as response:
            found = msgspec.json.decode(response.read())
        missing = {one["name"]: one["trouble"] for one in found["shards"] if one["trouble"]}
        return Answer(found["total"], [hit["url"] for hit in found["hits"]], missing)

    def crawl(self) -> None:
        """A whole crawl, followed to its end by all machines."""
        worker = self.machines[0].worker
        self.cluster.submit(self.cluster.journey.write_collection())
        self.cluster.wait_until_exhausted(worker)
        wait_for(lambda: self.cluster.status().state == "finished", worker)


@pytest.fixture
def cluster(tmp_path: Path, engines: tuple[Postgres, SeaweedFs]) -> Iterator[PostgresCluster]:
    made = a_log_cluster(tmp_path, World(seed=5, hosts=10, pages=120), engines[0])
    with made.journey.web:
        try:
            yield made
        finally:
            made.end()


class Searching:
    """People who search: each query is another one, so that nothing is answered from a cache."""

    def __init__(self, searched: SearchedCluster, expected: dict[str, Answer]) -> None:
        self._searched, self._expected = searched, expected
        self._numbers, self._lock = iter(range(QUERIES)), threading.Lock()
        self.done, self.failures = 0, list[str]()
        self._threads = [threading.Thread(target=self._run) for _ in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        while True:
            with self._lock:
                number = next(self._numbers, None)
            if number is None:
                return
            text = TEXTS[number % len(TEXTS)]
            try:
                found = self._searched.ask(f"{text} -zzz{number}")
                failure = _difference(self._expected[text], found)
            except OSError as error:
                failure = f"{error}"
            with self._lock:
                self.done += 1
                if failure:
                    self.failures.append(f"{number} {text}: {failure}")

    def join(self) -> None:
        for thread in self._threads:
            thread.join()


def _difference(expected: Answer, found: Answer) -> str:
    if (expected.total, expected.missing) != (found.total, found.missing):
        return f"{found.total} instead of {expected.total} pages, without {found.missing}"
    return "a page twice" if len(set(found.urls)) < len(found.urls) else ""


def test_with_replicas_no_search_fails_while_owners_are_killed(cluster):
    searched = SearchedCluster(cluster, f"owned/{PARTS}x2")
    a, b, c = (searched.start(name) for name in "abc")
    searched.crawl()
    wait_for(lambda: sum(searched.owns(name, 3) for name in "abc") == 2, a.worker)
    wait_for(lambda: all(searched.owns(name, len(read_layout(searched.data(name)).here)) for name in "abc"), a.worker)
    assert sorted(len(read_layout(searched.data(name)).here) for name in "abc") == [2, 3, 3]
    wait_for(lambda: all(searched.is_settled(name) for name in "abc"), a.worker)
    searched.open_page()
    expected = {text: searched.ask(f"{text} -zzz") for text in TEXTS}

    assert all(answer.missing == {} for answer in expected.values())
    assert expected["site:test"].total > 50

    searching = Searching(searched, expected)
    wait_for(lambda: searching.done > QUERIES // 4, a.worker)
    b.kill()
    searching.join()
    assert searching.failures == []
    wait_for(lambda: searched.owns("a", PARTS) and searched.owns("c", PARTS), a.worker)  # each part is on two again
    c.server.signal(signal.SIGSTOP)  # one that hangs costs time, and no answer
    assert _difference(expected["site:test"], searched.ask("site:test -yyy")) == ""
    for machine in (a, c):
        assert machine.worker.stop() == 130, machine.worker.said()
        assert "Traceback" not in machine.worker.said()


def test_without_replicas_the_parts_are_named_and_come_back_from_their_snapshots(cluster):
    searched = SearchedCluster(cluster, f"owned/{PARTS}")
    a, b = (searched.start(name) for name in "ab")
    searched.crawl()
    wait_for(lambda: searched.owns("a", 2) and searched.owns("b", 2), a.worker)
    searched.open_page()
    whole = searched.ask("site:test")
    assert whole.missing == {}
    lost = read_layout(searched.data("b")).here
    for number in lost:
        wait_for(lambda: "snapshot: " in log_of(searched.data("b").root, f"index-{number}-of-{PARTS}"), a.worker)  # noqa: B023
    b.kill()
    killed_at = boottime()
    found = searched.ask("site:test -zzz1")
    assert found.missing[f"{','.join(map(str, lost))}/{PARTS}"] == "being built, or on no machine that answers"
    assert b.url in found.missing
    assert 0 < found.total < whole.total
    numbers = iter(range(2, 10_000))
    wait_for(lambda: _difference(whole, searched.ask(f"site:test -zzz{next(numbers)}")) == "", a.worker)
    print(f"back after {boottime() - killed_at:.1f} s")
    for number in lost:
        assert "begins with a snapshot" in log_of(searched.data("a").root, f"index-{number}-of-{PARTS}")
    assert a.worker.stop() == 130, a.worker.said()
