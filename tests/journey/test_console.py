"""A person with a browser runs a crawl: describes it, is told what is wrong, starts it, watches it, pauses, edits,
resumes, stops, reads the report; a worker is killed before his eyes, and the crawl goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarrafa.testweb.http.web_process import start_process
from tarrafa.testweb.world.hosts import World
from tests.server.test_search_in_browser import CHROMIUM, DESK, PHONE, browser, fits, follow, picture, violations  # noqa: F401

pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")

WAIT_MS = 60_000
WRONG = {  # field -> what is typed, and what is said there
    "name": ("Bad Name", "must begin with a-z or 0-9"),
    "roots": ("nonsense::", "not an http(s) URL or a host name"),
    "scope.hosts": ("a b", "is no pattern such as"),
    "scope.depth_max": ("-1", "must be 0 or more"),
    "scope.pages_max": ("many", "whole number"),
    "scope.size_max": ("huge", "not a size"),
    "scope.types": ("html", "is no MIME type"),
    "politeness.delay": ("soon", "not a duration"),
    "politeness.delays": ("*.br = 1 fortnight", "not a duration"),
    "politeness.user_agent": ("two words", "must begin with one word"),
    "fetch.retries": ("-2", "must be 0 or more"),
    "strategy.cycle": ("0", "must be 1 or more"),
    "revisit.share": ("2", "at most 1"),
    "schedule.start": ("tomorrow", "not a date"),
    "schedule.every": ("sometimes", "is no period such as"),
    "schedule.timezone": ("Mars/Olympus", "is no time zone"),
    "notify.webhook": ("ftp://a.br/", "must be an http or https address"),
    "notify.email": ("nobody", "is no address such as"),
    "network.connect_to": ("*.test = nowhere", "is no address:port"),
}


class Node:
    """`tarrafa node` in a process of its own."""

    def __init__(self, data: Path) -> None:
        line = [
            sys.executable,
            "-c",
            "from tarrafa.cli import main; main()",
            "node",
            "--data",
            str(data),
            "--port",
            "0",
            "--name",
            "home",
        ]
        self.process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        for text in self.process.stderr:
            if found := re.search(r"search page: (\S+)/", text):
                self.address = found[1]
                break
        else:
            raise AssertionError("the node did not begin")

    def json(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.address}{path}", timeout=60) as answer:
            return json.load(answer)

    def end(self) -> None:
        self.process.terminate()
        assert self.process.stderr is not None
        self.process.stderr.close()
        self.process.wait(60)


@pytest.fixture(scope="module")
def node(tmp_path_factory: Any) -> Iterator[Node]:
    running = Node(tmp_path_factory.mktemp("n") / "d")
    yield running
    running.end()


@pytest.fixture
def page(node: Node, browser: Any) -> Iterator[Any]:  # noqa: F811
    context = browser.new_context(base_url=node.address, viewport=DESK)
    opened = context.new_page()
    opened.set_default_timeout(WAIT_MS)
    opened.said = []
    opened.on("console", lambda message: opened.said.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: opened.said.append(str(error)))
    yield opened
    context.close()


def field(page: Any, name: str) -> Any:
    return page.locator(f'[name="{name}"]')


def unfold(page: Any) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")


def act(page: Any, name: str) -> None:
    """Every button of the console sends a form, and another page comes."""
    follow(page, page.get_by_role("button", name=name, exact=True))


def state(page: Any, name: str) -> None:
    page.locator("#numbers .state", has_text=re.compile(f"^{name}$")).wait_for()


def pages_kept(page: Any) -> int:
    shown = page.locator("#numbers .tiles dd").first.evaluate("(one) => one.firstChild.textContent")
    return int(shown.replace(",", ""))


def grows(page: Any, more: int) -> None:
    """Wait until the number on the page, which nobody reloads, is larger."""
    wanted = pages_kept(page) + more
    page.wait_for_function(
        "(wanted) => Number(document.querySelector('#numbers .tiles dd').firstChild.data.replace(/,/g, '')) >= wanted",
        arg=wanted,
    )


def test_a_crawl_is_described_watched_changed_and_reported(node: Node, page: Any) -> None:
    with start_process(World(3, hosts=12, pages=2_500)) as web:
        _is_told_what_is_wrong(page)
        _describes(page, web.connect_to)
        _watches(page)
        _sees_a_worker_die_and_the_crawl_go_on(page, node)
        _pauses_edits_and_resumes(page)
        _stops_and_looks_back(page)
        _reads_the_report(page, node)
        _looks_up_a_page_and_what_ended_like_it(page)
        assert [text for text in page.said if "400" not in text] == []
        _looks_right(page, node)


def _is_told_what_is_wrong(page: Any) -> None:
    page.goto("/console")
    follow(page, page.get_by_role("link", name="New collection"))
    unfold(page)
    for name, (typed, _) in WRONG.items():
        field(page, name).fill(typed)
    act(page, "Create and start")
    page.locator(".banner").wait_for()
    for name, (typed, said) in WRONG.items():
        described = field(page, name).get_attribute("aria-describedby").split()
        assert field(page, name).get_attribute("aria-invalid") == "true", name
        assert said in page.locator(f"#{described[-1]}").inner_text(), name
        assert field(page, name).input_value() == typed, "nothing typed is lost"
    assert f"{len(WRONG)} things are wrong" in page.locator(".banner").inner_text()
    picture(page, "console-wrong")


def _describes(page: Any, connect_to: str) -> None:
    unfold(page)
    for name in WRONG:
        field(page, name).fill("")
    right = {
        "name": "news", "roots": "http://h0001.br.test/", "scope.hosts": "*.test", "politeness.delay": "250 ms",
        "network.connect_to": f"*.test = {connect_to}", "network.suffixes": "br.test\npt.test\ncom.test",
    }  # fmt: skip
    for name, typed in right.items():
        field(page, name).fill(typed)
    act(page, "Create and start")
    page.wait_for_url("**/console/c/news")


def _watches(page: Any) -> None:
    state(page, "running")
    grows(page, 30)
    assert page.locator(".uplot canvas").count() == 4
    picture(page, "console-running")


def _sees_a_worker_die_and_the_crawl_go_on(page: Any, node: Node) -> None:
    worker = next(one for one in node.json("/console/nodes.json")["nodes"][0]["processes"] if _is_worker(one))
    page.goto("/console/nodes")  # it is red for some seconds only: not a moment of them is spent on coming here
    os.kill(worker["process"]["pid"], signal.SIGKILL)
    red = page.locator("tr.red", has_text=worker["process"]["name"])
    red.wait_for()
    red.get_by_text("signal 9").wait_for()
    picture(page, "console-killed")
    page.goto("/console/c/news")
    grows(page, 30)


def _pauses_edits_and_resumes(page: Any) -> None:
    act(page, "Pause")
    state(page, "paused")
    assert "by local at" in page.locator("#numbers").inner_text()
    follow(page, page.get_by_role("link", name="Edit", exact=True))
    field(page, "scope.exclude").fill("*/noticias/*")
    act(page, "Save")
    page.wait_for_url("**/console/c/news")
    state(page, "paused")
    act(page, "Resume")
    state(page, "running")
    grows(page, 20)


def _stops_and_looks_back(page: Any) -> None:
    act(page, "Stop")
    state(page, "stopped")
    follow(page, page.get_by_role("link", name="Versions"))
    assert "+ */noticias/*" in page.locator("main").inner_text()
    page.goto("/console/c/news/dry-run")
    page.locator("#urls").fill("http://h0001.br.test/noticias/x\nhttp://h0001.br.test/y\nhttp://example.org/")
    act(page, "Judge them")
    assert page.locator("tbody .in, tbody .out").all_inner_texts() == ["out", "in", "out"]


def _reads_the_report(page: Any, node: Node) -> None:
    kept = node.json("/console/c/news.json")["collection"]["status"]["fetched"]  # the last are still on their way home
    page.goto("/console/c/news/report")
    act(page, "Make a report now")
    page.locator("article.study h1").wait_for()
    assert node.json("/console/c/news/report.json")["work"]["documents"] >= kept
    picture(page, "console-report")


def _looks_up_a_page_and_what_ended_like_it(page: Any) -> None:
    page.goto("/console/look?url=http://h0001.br.test/")
    assert "http://h0001.br.test:80" in page.locator("main").inner_text()
    page.get_by_role("link", name="200 OK").first.click()
    page.wait_for_url("**/console/c/news/status/200")
    assert "The server gave the page." in page.locator("main").inner_text()
    assert page.get_by_role("button", name="Try all of them again now").count() == 0, "they were had"
    page.get_by_role("link", name="http://h0001.br.test:80", exact=True).click()
    page.wait_for_url("**/console/look?url=http%3A%2F%2Fh0001.br.test%3A80%2F")


def _is_worker(one: Any) -> bool:
    return bool(one["process"]["role"] == "worker")


PAGES = (
    "/console", "/console/new", "/console/c/news", "/console/c/news/edit", "/console/c/news/versions",
    "/console/c/news/dry-run", "/console/c/news/status/200", "/console/c/news/report", "/console/c/news/delete",
    "/console/c/news/secrets", "/console/suggestions", "/console/nodes",
    "/console/nodes/home", "/console/look?url=http://h0001.br.test/", "/console/audit", "/api",
)  # fmt: skip


def _looks_right(page: Any, node: Node) -> None:
    """Every page, on a phone and in the dark, as assistive technology sees it; and without a script, to be read."""
    for scheme, size in (("light", DESK), ("dark", PHONE)):
        context = page.context.browser.new_context(base_url=node.address, viewport=size, color_scheme=scheme)
        other = context.new_page()
        other.set_default_timeout(WAIT_MS)
        for path in PAGES:
            other.goto(f"{path}{'&' if '?' in path else '?'}hl={'pt' if scheme == 'dark' else 'en'}")
            assert fits(other), (path, scheme)
            assert other.locator("header.top").bounding_box()["height"] < 160, (path, scheme)
            assert violations(other) == [], (path, scheme)
            picture(other, f"console-{scheme}-{path.strip('/').split('?')[0].replace('/', '-')}")
        context.close()
    plain = page.context.browser.new_context(base_url=node.address, java_script_enabled=False).new_page()
    plain.goto("/console/c/news")
    assert "200 OK" in plain.locator("#seen").inner_text()
    plain.context.close()
