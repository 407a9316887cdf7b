"""Crawls of a Web in trouble: what is the host's fault, what is the URL's, what is nobody's."""

from pathlib import Path
from typing import Any

import pytest

from tests.journey.crawl_journey import run_json, tarrafa
from tests.journey.scripted_web import ScriptedResponse, links, scripted_web

ROOT = "http://a.test/"
PAGES = [f"{ROOT}{n}" for n in range(30)]


def crawl(file: Path, folder: Path) -> dict[str, Any]:
    done = tarrafa("crawl", file, "--data", folder / "data", "--quiet")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = run_json("status", "--data", folder / "data")["collections"][0]
    return found


def test_one_url_that_always_fails_costs_only_itself(tmp_path):
    def answer(url: str, _: int) -> ScriptedResponse | None:
        if url == f"{ROOT}bad":
            return ScriptedResponse(reset=True)
        return links(f"{ROOT}bad", *PAGES) if url == ROOT else links() if url in PAGES else None

    with scripted_web(answer) as web:
        status = crawl(web.collection(tmp_path, [ROOT]), tmp_path)
    assert (status["fetched"], status["failed"], status["pending"]) == (31, 1, 0)
    assert status["statuses"]["-11"] == 3, "one try and two retries"


def test_a_host_that_is_busy_is_left_alone_for_as_long_as_it_asks_and_then_crawled_whole(tmp_path):
    def answer(url: str, n: int) -> ScriptedResponse | None:
        if url == PAGES[0] and n < 2:
            return ScriptedResponse(code=429, headers={"Retry-After": "2", "ETag": '"of the error"'})
        return links(*PAGES) if url == ROOT else links() if url in PAGES else None

    with scripted_web(answer) as web:
        status = crawl(web.collection(tmp_path, [ROOT]), tmp_path)
        first, second, third = web.times(PAGES[0])
    assert (status["fetched"], status["failed"]) == (31, 0)
    assert second - first >= 2
    assert third - second >= 2
    assert not [one for one in web.asked if "If-None-Match" in one.headers], "an error's validators mean nothing"


@pytest.mark.long
def test_what_an_outage_cost_is_made_good_by_running_again(tmp_path):
    down = True

    def answer(url: str, _: int) -> ScriptedResponse | None:
        if down and url != ROOT and "robots" not in url:
            return ScriptedResponse(reset=True)
        return links(*PAGES) if url == ROOT else links() if url in PAGES else None

    with scripted_web(answer) as web:
        file = web.collection(tmp_path, [ROOT], more="[fetch]\nhost_failures_max = 1\nretries = 0")
        status = crawl(file, tmp_path)
        assert (status["fetched"], status["failed"], status["pending"]) == (1, 30, 0)
        down = False
        status = crawl(file, tmp_path)
        assert (status["fetched"], status["failed"], status["pending"]) == (31, 0, 0)


def test_odd_bytes_in_settings_and_headers_stop_nothing(tmp_path):
    def answer(url: str, n: int) -> ScriptedResponse | None:
        if url == PAGES[0] and n == 0:
            return ScriptedResponse(code=500, headers={"ETag": '"caf\xe9"', "X-Odd": "\xff\xfe"})
        return links(*PAGES[:3]) if url == ROOT else links() if url in PAGES else None

    with scripted_web(answer) as web:
        contact = 'contact = "Universidade de São Paulo, bot@usp.br"'
        status = crawl(web.collection(tmp_path, [ROOT], more=contact), tmp_path)
    assert (status["fetched"], status["failed"]) == (4, 0)


def test_a_scope_that_was_narrowed_holds_for_what_waits_already(tmp_path):
    def answer(url: str, _: int) -> ScriptedResponse | None:
        if url == ROOT:
            return links(*PAGES[:5], "http://b.test/")
        return links() if url in PAGES or url == "http://b.test/" else None

    with scripted_web(answer) as web:
        crawl(web.collection(tmp_path, [ROOT], scope="requests_max = 1"), tmp_path)
        before = len(web.urls())
        status = crawl(web.collection(tmp_path, [ROOT], scope='exclude = ["*/3", "http://b.*"]'), tmp_path)
        later = web.urls()[before:]
    assert f"{ROOT}3" not in later
    assert "http://b.test/" not in later
    assert status["statuses"]["-21"] == 2


@pytest.mark.long
def test_a_root_added_later_lowers_the_depth_of_what_it_leads_to(tmp_path):
    def answer(url: str, _: int) -> ScriptedResponse | None:
        leads = {ROOT: [f"{ROOT}a"], f"{ROOT}a": [f"{ROOT}a1"], f"{ROOT}a1": []}
        return links(*leads[url]) if url in leads else None

    with scripted_web(answer) as web:
        assert crawl(web.collection(tmp_path, [ROOT], scope="depth_max = 1"), tmp_path)["too_deep"] == 1
        status = crawl(web.collection(tmp_path, [ROOT, f"{ROOT}a"], scope="depth_max = 1"), tmp_path)
    assert (status["too_deep"], status["fetched"]) == (0, 3)


def test_a_host_without_end_does_not_keep_the_others_waiting(tmp_path):
    def answer(url: str, _: int) -> ScriptedResponse | None:
        if url.startswith("http://calendar.test/"):
            day = int(url.rpartition("/")[2] or 0)
            return links(*(f"http://calendar.test/{day + step}" for step in range(1, 12)))
        return links() if url == ROOT else None

    with scripted_web(answer) as web:
        more = "[fetch]\nhosts_at_once = 1\n"
        file = web.collection(tmp_path, ["http://calendar.test/", ROOT], more=more, scope="pages_max = 400")
        done = tarrafa("crawl", file, "--data", tmp_path / "data", "--quiet", "--workers", "1")
        assert done.returncode == 0, done.stderr
        assert ROOT in web.urls()


def test_a_crawl_whose_roots_are_all_refused_has_failed_and_says_why(tmp_path):
    file, data = tmp_path / "c.toml", tmp_path / "data"
    file.write_text('name = "c"\nroots = ["http://127.0.0.1:9/", "http://localhost/"]\n')
    done = tarrafa("crawl", file, "--data", data)
    assert done.returncode == 1
    assert "c: failed (no root could be fetched: -14 address refused)" in done.stderr
    assert "http://127.0.0.1:9/: -14 address refused" in done.stderr
    assert "http://localhost/: -14 address refused" in done.stderr
    assert "c has failed: no root could be fetched" in tarrafa("status", "--data", data).stdout
    assert tarrafa("report", "c", "--format", "md", "--out", tmp_path / "report", "--data", data).returncode == 0
    assert "The collection is failed." in next((tmp_path / "report").glob("*.md")).read_text()
