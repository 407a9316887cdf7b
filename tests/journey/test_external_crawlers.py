"""The crawler of the guide, docs/crawler.py, as somebody would run it: it knows HTTP and nothing of Tarrafa."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarrafa.errors import ConfigError
from tarrafa.graph.reader import GraphReader
from tarrafa.parse.url import url_id
from tarrafa.testweb.oracle import expected_requests
from tarrafa.testweb.world.hosts import World
from tests.graph.archived_web import new_data
from tests.journey.crawl_journey import TYPES, Journey, a_journey, assert_exact, assert_polite
from tests.wait import block_until

GUIDE = Path(__file__).parents[2] / "docs" / "crawler.py"
TOKEN = "a token of many letters"
ENVIRONMENT = os.environ | {"TARRAFA_TOKEN": TOKEN}
PATIENCE_S = 120.0


class CrawlerApiProcess:
    """`tarrafa serve --crawlers` in a process of its own, at one port however often it is started."""

    def __init__(self, journey: Journey, children: "list[subprocess.Popen[str]]") -> None:
        self._journey, self.address, self._children = journey, "http://127.0.0.1:0/", children
        self.start()

    def start(self) -> None:
        port = self.address.rstrip("/").rpartition(":")[2]
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "serve", "--crawlers", "--port", port]
        self.process = subprocess.Popen(
            [*command, "--data", str(self._journey.data.root)], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
        )
        self._children.append(self.process)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[2]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(number)
        self.process.communicate(timeout=30)

    def ask(self, what: str, **said: object) -> dict[str, object]:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        asked = urllib.request.Request(f"{self.address}crawl/v1/{what}", json.dumps(said).encode(), headers)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            found: dict[str, object] = json.load(answer)
            return found

    def crawler(self, name: str) -> "subprocess.Popen[str]":
        """The crawler of the guide."""
        command = [sys.executable, str(GUIDE), self.address, name]
        self._children.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT))
        return self._children[-1]


@pytest.fixture
def children() -> Iterator[list["subprocess.Popen[str]"]]:
    """Processes that end with the test, whatever comes of it."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        if process.poll() is None:
            process.kill()
            process.communicate()


def begin(journey: Journey) -> "subprocess.Popen[str]":
    """A frontier and its followers, and not one worker."""
    crawl = journey.start(journey.write_collection(), "--workers", "0")
    block_until(lambda: Path(journey.data.socket).exists() or crawl.poll() is not None)
    assert crawl.poll() is None, crawl.communicate()
    return crawl


def test_the_crawler_of_the_guide_finds_exactly_what_is_there_and_is_polite(tmp_path, children):
    journey = a_journey(tmp_path, World(seed=5, hosts=4, pages=24), latency_s=0.0)
    with journey.web:
        crawl = begin(journey)
        children.append(crawl)
        server = CrawlerApiProcess(journey, children)
        crawler = server.crawler("ana")
        _, said = crawl.communicate(timeout=PATIENCE_S)
        assert crawl.returncode == 0, said
        crawler.communicate(timeout=30)
        server.stop()
        assert_exact(journey, expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True))
        assert max(Counter(entry.url for entry in journey.requests()).values()) == 1
        assert_polite(journey)
        records = [record for record in journey.records() if record.outcome.kept]
        assert {record.worker for record in records} == {"crawler.ana"}
        assert all(record.page is not None and record.page.title for record in records)


@pytest.mark.long
def test_crawlers_and_the_door_are_killed_again_and_again_and_nothing_is_lost(tmp_path, children):
    journey = a_journey(tmp_path, World(seed=6, hosts=12, pages=240), latency_s=0.01)
    chance, kills = random.Random(7), 0
    with journey.web:
        crawl = begin(journey)
        children.append(crawl)
        server = CrawlerApiProcess(journey, children)
        crawlers = {name: server.crawler(name) for name in ("ana", "bia")}
        while crawl.poll() is None:
            time.sleep(chance.uniform(0.3, 1.5))  # a kill at a random moment is what is tested
            if chance.random() < 0.5:
                server.stop(signal.SIGKILL)
                server.start()
            else:
                crawlers[chance.choice(list(crawlers))].kill()
            kills += 1
            for name, crawler in crawlers.items():
                if crawler.poll() is not None:
                    crawler.communicate()
                    crawlers[name] = server.crawler(name)
        _, said = crawl.communicate(timeout=30)
        assert crawl.returncode == 0, said
        for crawler in crawlers.values():
            crawler.communicate(timeout=60)
        truth = expected_requests(journey.world, [journey.world.root(1)], types=TYPES, sitemaps=True)
        assert_exact(journey, truth)
        assert_polite(journey)
        repeated = sum(count - 1 for count in Counter(entry.url for entry in journey.requests()).values())
        assert repeated <= 2 * kills, "each holds one visit that it is making"
        sys.stdout.write(f"{len(truth.kept)} pages, {kills} kills, {repeated} requests repeated\n")
        told = {name: all_told(server, name) for name in crawlers}
        server.stop()
        assert_told_once(journey, told)


def all_told(server: CrawlerApiProcess, name: str) -> Counter[tuple[str, str]]:
    """Every in-link that the crawler is told of, until there is nothing more."""
    told: Counter[tuple[str, str]] = Counter()
    cursor: object = None
    while True:
        answer = server.ask("changes", crawler=name, **({} if cursor is None else {"after": cursor}))
        changes = answer["changes"]
        assert isinstance(changes, list)
        for one in changes:
            told.update((one["url"], link) for link in one["in_links"])
        if not changes:
            return told
        cursor = answer["cursor"]


def assert_told_once(journey: Journey, told: dict[str, Counter[tuple[str, str]]]) -> None:
    """What came with the work aside, each in-link of a URL was told once, to the crawler that visited it."""
    reader = GraphReader(journey.data)
    mine = {record.url: record.worker for record in journey.records() if record.worker}
    for name, links in told.items():
        assert set(links.values()) == {1}
        for url, link in links:
            assert mine[url] == f"crawler.{name}"
            assert link in {one.hex() for one in reader.in_link_ids(url_id(url), "journey", 10_000)[0]}


def test_without_a_token_nobody_is_let_in_to_begin_with(tmp_path, monkeypatch):
    from tarrafa.cli.serve import serve

    data = new_data(tmp_path / "data").root
    monkeypatch.delenv("TARRAFA_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="--crawlers needs a token: --token-file FILE, or TARRAFA_TOKEN"):
        serve(data, crawlers=True)
    (tmp_path / "token").write_text("short\n")
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigError, match="a token is one line of 16 to"):
        serve(data, crawlers=True, token_file=tmp_path / "token")
    with pytest.raises(ConfigError, match="only with --crawlers"):
        serve(data, token_file=tmp_path / "token")


def test_two_processes_do_not_serve_the_crawlers_of_one_directory(tmp_path):
    from tarrafa.errors import Locked
    from tarrafa.server.crawler_api.crawler_store import CrawlerStore

    data = new_data(tmp_path / "data")
    first = CrawlerStore(data.crawlers)
    with pytest.raises(Locked, match="another process serves crawlers here already"):
        CrawlerStore(data.crawlers)
    first.close()
    CrawlerStore(data.crawlers).close()
