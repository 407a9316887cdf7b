"""A collection is visited again from its roots: real processes on a Web that has changed meanwhile."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import apsw
import pytest
from fastwarc.warc import ArchiveIterator, WarcRecordType

from tarrafa.archive.warc_reader import follow
from tarrafa.model import Status, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.journey.crawl_journey import TIMEOUT_S, kill_group, pids_of, tarrafa
from tests.journey.scripted_web import ScriptedResponse, ScriptedWeb, scripted_web

pytestmark = pytest.mark.long
HOSTS, PAGES = 5, 24
ROOT = "http://h0.test/0"
AGAIN = """
import asyncio, sys
from pathlib import Path
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.runtime.data_dir import DataDirectory

async def main():
    async with Supervisor(DataDirectory(Path(sys.argv[1])), 2) as supervisor:
        if sys.argv[2] == "begin":
            await supervisor.frontier.begin_run("c", "once more")
        async for _ in supervisor.overviews():
            pass

asyncio.run(main())
"""


@dataclass
class Tree:
    """Each host is a tree of pages: 0 leads to 1 and 2, 1 to 3 and 4. The first page of all leads to every host."""

    run: int = 1
    vanished: set[str] = field(default_factory=set)  # in the second run: they answer, but nobody leads there
    changed: set[str] = field(default_factory=set)
    gone: set[str] = field(default_factory=set)
    troubled: set[str] = field(default_factory=set)

    @staticmethod
    def all() -> set[str]:
        return {f"http://h{host}.test/{page}" for host in range(HOSTS) for page in range(PAGES)}

    def found(self) -> set[str]:
        """What the second run can reach."""
        reached, waiting = set[str](), [ROOT]
        while waiting:
            url = waiting.pop()
            if url not in reached:
                reached.add(url)
                waiting += [] if url in self.gone | self.troubled else self.leads(url)
        return reached

    def leads(self, url: str) -> list[str]:
        host, page = url.rpartition("/")[0], int(url.rpartition("/")[2])
        targets = [f"{host}/{place}" for place in (2 * page + 1, 2 * page + 2) if place < PAGES]
        targets += [f"http://h{other}.test/0" for other in range(1, HOSTS)] if url == ROOT else []
        return [target for target in targets if self.run == 1 or target not in self.vanished]

    def answer(self, url: str, _: int) -> ScriptedResponse | None:
        if url not in self.all():
            return None
        if self.run == 2 and url in self.gone:
            return ScriptedResponse(code=404)
        if self.run == 2 and url in self.troubled:
            return ScriptedResponse(code=500)
        news = " com novidades" if self.run == 2 and url in self.changed else ""
        links = "".join(f'<a href="{target}">{target}</a>' for target in self.leads(url))
        name = url.replace("http://", "").replace(".test/", "p")
        body = f"<html><title>pagina {name}</title><p>uma arvore de paginas {name}{news}</p>{links}</html>"
        return ScriptedResponse(body.encode(), headers={"Content-Type": "text/html", "ETag": f'"{hash(body)}"'})


@dataclass
class RunJourney:
    tree: Tree
    web: ScriptedWeb
    folder: Path

    @property
    def data(self) -> DataDirectory:
        return DataDirectory(self.folder / "data")

    def crawl(self) -> None:
        file = self.web.collection(self.folder, [ROOT], more="[fetch]\nretries = 1", delay_s=0.1)
        done = tarrafa("crawl", file, "--data", self.data.root)
        assert done.returncode == 0, done.stderr

    def start(self, how: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", AGAIN, str(self.data.root), how]
        return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def end(self, process: "subprocess.Popen[str]") -> None:
        _, said = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0, said

    def begin_second_run(self) -> None:
        self.web.asked.clear()
        self.tree.run = 2

    def records(self) -> list[VisitRecord]:
        return [entry.record for entry in follow(self.data.archive, {})]

    def newest(self) -> dict[str, VisitRecord]:
        found: dict[str, VisitRecord] = {}
        for record in self.records():
            if record.url not in found or record.visit > found[record.url].visit:
                found[record.url] = record
        return found

    def total(self) -> int:
        said = tarrafa("search", "arvore", "--data", self.data.root, "--json")
        return int(json.loads(said.stdout)["total"])

    def books(self, question: str) -> list[tuple[object, ...]]:
        db = apsw.Connection(str(self.data.frontier), flags=apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(5_000)
        try:
            return db.execute(question).fetchall()
        finally:
            db.close()


@pytest.fixture
def journey(tmp_path: Path) -> Iterator[RunJourney]:
    tree = Tree(
        vanished={"http://h1.test/1", "http://h2.test/2", "http://h3.test/0"},
        changed={"http://h0.test/3", "http://h1.test/2"},
        gone={"http://h4.test/11"},
        troubled={"http://h4.test/12"},
    )
    with scripted_web(tree.answer) as web:
        yield RunJourney(tree, web, tmp_path)


def revisits(data: DataDirectory) -> Counter[str]:
    counted: Counter[str] = Counter()
    for path in data.archive.glob("*.warc.gz"):
        if not path.name.endswith(".meta.warc.gz"):
            with path.open("rb") as file:
                for record in ArchiveIterator(file, parse_http=False, record_types=WarcRecordType.revisit):
                    counted[record.headers["WARC-Target-URI"]] += 1
    return counted


def test_the_second_run_visits_all_again_and_takes_out_of_search_what_it_no_longer_finds(journey):
    tree = journey.tree
    journey.crawl()
    assert journey.total() == HOSTS * PAGES
    journey.begin_second_run()
    journey.end(journey.start("begin"))

    found = tree.found()
    unfound = tree.all() - found
    assert len(unfound) > PAGES
    asked = Counter(journey.web.urls())
    assert set(asked) == found
    assert {url: count for url, count in asked.items() if count > 1} == dict.fromkeys(tree.troubled, 2)

    newest = journey.newest()
    assert {url for url, record in newest.items() if record.outcome.status == Status.NOT_FOUND_AGAIN} == unfound
    assert {url for url, record in newest.items() if record.outcome.kept} == found - tree.gone - tree.troubled
    same = revisits(journey.data)
    leads_elsewhere = {url for url in found if any(target in tree.vanished for target in Tree().leads(url))}
    assert set(same) == found - tree.changed - tree.gone - tree.troubled - leads_elsewhere

    assert journey.total() == len(found - tree.gone)
    ((state, run, phase),) = journey.books("SELECT state, run, phase FROM collection")
    assert (state, run, phase) == ("finished", 2, 2)
    status = json.loads(tarrafa("status", "--data", journey.data.root, "--json").stdout)["collections"][0]
    assert (status["known"], status["fetched"], status["pending"]) == (HOSTS * PAGES, len(found - tree.gone), 0)

    versions = [record for record in journey.records() if record.url == "http://h3.test/5" and record.outcome.kept]
    assert len(versions) == 1, "what was seen of it stays archived"
    linked = json.loads(tarrafa("links", "http://h3.test/3", "--data", journey.data.root, "--json").stdout)
    assert linked["in"] == linked["out"] == [], "a page that nobody leads to leads nowhere"
    explained = tarrafa("explain", "http://h3.test/5", "--data", journey.data.root)
    assert "finds a way to it again" in explained.stdout

    kept = journey.books("SELECT url, state, visits, run FROM url WHERE state = 2 ORDER BY url")
    made = tarrafa("rebuild", "frontier", "--force", "--data", journey.data.root)
    assert made.returncode == 0, made.stderr
    assert journey.books("SELECT run FROM collection") == [(2,)]
    again = journey.books("SELECT url, state, visits, run FROM url WHERE state = 2 ORDER BY url")
    assert [(url, run) for url, _, _, run in again] == [(url, run) for url, _, _, run in kept]


def test_a_run_that_is_killed_with_everything_goes_on_and_loses_nothing(journey):
    tree = journey.tree
    journey.crawl()
    journey.begin_second_run()
    process = journey.start("begin")
    _wait(process, lambda: len(journey.web.urls()) > 25)
    for pid in pids_of(process.pid, "tarrafa.crawl.worker.worker"):
        os.kill(pid, signal.SIGKILL)
        break
    _wait(process, lambda: len(journey.web.urls()) > 40)
    kill_group(process)
    process = journey.start("go on")
    _wait(process, lambda: journey.books("SELECT phase FROM collection")[0][0] != 0)
    kill_group(process)
    journey.end(journey.start("go on"))

    found = tree.found()
    newest, asked = journey.newest(), Counter(journey.web.urls())
    assert set(asked) == found
    assert {url for url, record in newest.items() if record.outcome.status == Status.NOT_FOUND_AGAIN} == (
        tree.all() - found
    )
    assert journey.total() == len(found - tree.gone)
    assert sum(asked.values()) - len(found) <= 2 * 8 * HOSTS  # at most what was in flight, each time
    assert journey.books("SELECT state, run FROM collection") == [("finished", 2)]
    assert journey.books("SELECT count(*) FROM url WHERE state IN (0, 1) OR shown > 0") == [(0,)]


def test_a_collection_that_is_deleted_is_gone_from_everywhere_and_its_name_begins_anew(journey):
    journey.crawl()
    done = tarrafa("delete", "c", "--data", journey.data.root, "--yes")
    assert done.returncode == 0, done.stderr
    assert "c: deleted" in done.stdout
    assert journey.total() == 0
    assert json.loads(tarrafa("status", "--data", journey.data.root, "--json").stdout)["collections"] == []
    missing = tarrafa("delete", "c", "--data", journey.data.root, "--yes")
    assert missing.returncode == 2
    assert "no collection is named 'c'" in missing.stderr
    journey.begin_second_run()
    journey.crawl()
    kept = journey.tree.found() - journey.tree.gone - journey.tree.troubled
    assert journey.total() == len(kept)
    for what in ("index", "graph"):
        assert tarrafa("rebuild", what, "--data", journey.data.root).returncode == 0
    assert journey.total() == len(kept)


def _wait(process: "subprocess.Popen[str]", is_so: Callable[[], bool]) -> None:
    while not is_so():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.005)
            raise AssertionError(f"it ended with {process.returncode}: {process.communicate()[1]}")
