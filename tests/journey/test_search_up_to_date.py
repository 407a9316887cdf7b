"""A page that changes, goes, hides or is taken down is right in search within seconds of its visit, kill or no kill."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tarrafa.archive.warc_reader import follow
from tarrafa.clock import CLOCK_VARIABLE, Clock, boottime
from tarrafa.errors import DataError
from tarrafa.model import Status, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import parse_target, read_entries, record_action
from tests.journey.crawl_journey import kill_group, tarrafa
from tests.journey.scripted_web import ScriptedResponse, links, scripted_web
from tests.search.sample_pages import Asker

ROOT = "http://a.test/"
CHANGES, GOES, HIDES, SECRET = (f"{ROOT}{name}" for name in ("changes", "goes", "hides", "secret"))
SECONDS = 20.0  # within which search must be right; a commit takes three at most, but the machine may be busy
PATIENCE_S = 240.0  # for what the crawl does when its time comes
SCALE = 20_000  # a day in four seconds
REVISIT = '[revisit]\npolicy = "uniform"\ninterval_min = 0\ngrace = "1h"\n[fetch]\nsitemaps = false'


def page(words: str, head: str = "") -> ScriptedResponse:
    html = f"<html><head><title>{words}</title>{head}</head><body><p>{words}</p></body></html>"
    return ScriptedResponse(html.encode(), headers={"Content-Type": "text/html; charset=utf-8"})


class FastCrawl:
    """A crawl on a clock that runs fast, and what search says of its pages."""

    def __init__(self, folder: Path, file: Path, scale: float = SCALE) -> None:
        self.data, self._file = DataDirectory(folder / "data"), file
        self.clock = Clock.scaled(scale)
        self._environment = os.environ | {CLOCK_VARIABLE: self.clock.to_environment()}
        self._searcher = Asker(self.data)

    def start(self) -> "subprocess.Popen[str]":
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(self._file)]
        command += ["--data", str(self.data.root), "--workers", "1"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, start_new_session=True, env=self._environment
        )
        return self.process

    def found(self, word: str) -> list[str]:
        try:
            return [hit.url for hit in self._searcher.search(word).hits]
        except DataError:
            return []

    def wait(self, is_so: Callable[[], object], within_s: float) -> float:
        """How long it took; the crawl must not end meanwhile."""
        began = boottime()
        while not is_so():
            try:
                self.process.wait(0.02)
            except subprocess.TimeoutExpired:
                assert boottime() - began < within_s, f"not within {within_s:g} s"
                continue
            raise AssertionError(f"the crawl ended with {self.process.returncode}: {self.process.communicate()[1]}")
        return boottime() - began

    def records(self, url: str, is_it: Callable[[VisitRecord], bool]) -> list[VisitRecord]:
        return [
            entry.record for entry in follow(self.data.archive, {}) if entry.record.url == url and is_it(entry.record)
        ]


def test_what_changes_goes_hides_or_is_taken_down_is_right_in_search_within_seconds_of_its_visit(tmp_path):
    pages = {
        ROOT: ScriptedResponse("".join(f'<a href="{url}">x</a>' for url in (CHANGES, GOES, HIDES, SECRET)).encode()),
        CHANGES: page("velha rede"),
        GOES: page("rede passageira"),
        HIDES: page("rede aberta"),
        SECRET: page("rede secreta"),
    }
    pages[ROOT].headers["Content-Type"] = "text/html"
    with scripted_web(lambda url, _: pages.get(url)) as web:
        crawl = FastCrawl(tmp_path, web.collection(tmp_path, [ROOT], more=REVISIT))
        crawl.start()
        crawl.wait(lambda: len(crawl.found("rede")) == 4, PATIENCE_S)

        done = tarrafa("takedown", "add", SECRET, "--reason", "a court order", "--data", crawl.data.root)
        assert (done.returncode, done.stdout) == (0, f"{SECRET}: taken down\n"), done.stderr
        assert SECRET not in crawl.found("rede"), "from the next search on"
        kill_group(crawl.process)  # whoever had it in hand
        before = len(web.times(SECRET))
        assert crawl.found("secreta") == []
        pages |= {CHANGES: page("nova rede"), HIDES: page("rede aberta", '<meta name="robots" content="noindex">')}
        del pages[GOES]

        crawl.start()
        crawl.wait(
            lambda: crawl.records(CHANGES, lambda one: one.page is not None and "nova" in one.page.title), PATIENCE_S
        )
        crawl.wait(lambda: crawl.found("nova") == [CHANGES] and not crawl.found("velha"), SECONDS)
        crawl.wait(
            lambda: crawl.records(HIDES, lambda one: one.page is not None and one.page.robots.noindex), PATIENCE_S
        )
        crawl.wait(lambda: not crawl.found("aberta"), SECONDS)
        crawl.wait(lambda: crawl.records(GOES, lambda one: one.outcome.status == 404), PATIENCE_S)
        assert crawl.records(GOES, lambda one: one.outcome.grace), "it may be back in a moment"
        crawl.wait(
            lambda: crawl.records(GOES, lambda one: one.outcome.status == 404 and not one.outcome.grace), PATIENCE_S
        )
        crawl.wait(lambda: not crawl.found("passageira"), SECONDS)

        crawl.wait(lambda: crawl.records(SECRET, lambda one: one.outcome.status == Status.TAKEN_DOWN), PATIENCE_S)
        assert len(web.times(SECRET)) == before, "it was not asked for again"
        assert crawl.found("rede") == [CHANGES]
        record_action(crawl.data, "lift", parse_target(SECRET), "rui", "", crawl.clock.now())
        crawl.wait(lambda: crawl.found("secreta") == [SECRET], SECONDS)
        kill_group(crawl.process)
    log = [(entry.action, entry.name, entry.reason) for entry in read_entries(crawl.data)]
    assert log == [("add", SECRET, "a court order"), ("lift", SECRET, "")]


@pytest.mark.long
def test_thousands_that_wait_are_settled_without_a_request_and_wait_again_when_they_are_lifted(tmp_path):
    many = [f"http://b.test/{number}" for number in range(3000)]
    with scripted_web(lambda url, _: links(*many) if url == ROOT else links() if url in many else None) as web:
        file = web.collection(tmp_path, [ROOT], scope='size_max = "5 MB"')
        crawl = FastCrawl(tmp_path, file, scale=1.0)
        crawl.start()
        crawl.wait(lambda: len(web.urls()) > 20, PATIENCE_S)
        kill_group(crawl.process)
        where = ("--data", crawl.data.root)
        assert tarrafa("takedown", "add", "site:b.test", *where).returncode == 0
        asked = len(web.asked)
        assert tarrafa("crawl", file, *where, "--quiet").returncode == 0
        assert len(web.asked) == asked, "not even its robots.txt"
        (told,) = json.loads(tarrafa("status", *where, "--json").stdout)["collections"]
        assert (told["pending"], told["statuses"]["-25"] + told["statuses"]["200"]) == (0, 3001)
        assert tarrafa("takedown", "lift", "site:b.test", *where).returncode == 0
        assert "collection is started again" in tarrafa("explain", many[-1], *where).stdout
        crawl.start()
        crawl.wait(lambda: many[-1] in web.urls(), 4 * PATIENCE_S)
        kill_group(crawl.process)
