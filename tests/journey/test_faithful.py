"""Faithful copies: what the pages of a site need is fetched once, archived, and shown when the site is gone."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.warc_reader import follow, read_events, survey_archive
from tarrafa.captures import follower
from tarrafa.crawl.render.browser import RenderUnavailable, check_browser
from tarrafa.model import REQUISITE_CAUSE, Status, UrlRole, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.journey.crawl_journey import TIMEOUT_S, kill_group, tarrafa
from tests.journey.faithful_web import (
    BODIES,
    CDN,
    FORBIDDEN,
    GONE,
    LARGE,
    OTHER,
    PAGES,
    REQUISITES,
    SITE,
    answer,
)
from tests.journey.script_web import VUE_PAGES
from tests.journey.script_web import answer as answer_of_applications
from tests.journey.scripted_web import ScriptedWeb, scripted_web
from tests.journey.test_runs import AGAIN
from tests.server.replay.browser_site import (
    WAIT_MS,
    ReplayedSite,
    browser,
    frame_of,
    live_web,
    needs_browser_and_wabac,
)
from tests.wait import block_until
from tests.warc_check import check_warc_file

__all__ = ["browser", "live_web"]
DELAY_S = 0.02
LIMITS = '[requisites]\nsize_max = "20 KB"\n'
LACKING = {GONE: 404, FORBIDDEN: Status.ROBOTS, LARGE: Status.TOO_LARGE}


def collection(folder: Path, web: ScriptedWeb, more: str = "", scope: str = "") -> Path:
    """The site's own host is in scope only."""
    file = web.collection(folder, [SITE], LIMITS + more, f'keep = "faithful"\n{scope}', DELAY_S)
    file.write_text(file.read_text().replace('hosts = ["*.test"]', 'hosts = ["site.test"]'))
    return file


def crawl(file: Path, folder: Path, *more: str) -> DataDirectory:
    done = tarrafa("crawl", file, "--data", folder / "data", *more)
    assert done.returncode == 0, done.stderr
    return DataDirectory(folder / "data")


def run_json(*arguments: str | Path) -> Any:
    """Asked in another process: in this one playwright has an event loop."""
    done = tarrafa(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def visits(data: DataDirectory) -> list[VisitRecord]:
    """All visits, those of requisites too."""
    events = read_events(data.archive, survey_archive(data.archive).starts)
    return [event.content for event in events if isinstance(event.content, VisitRecord)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> tuple[DataDirectory, ScriptedWeb]:
    """A faithful crawl of the site, which has gone since."""
    folder = tmp_path_factory.mktemp("faithful")
    with scripted_web(answer) as web:
        return crawl(collection(folder, web), folder, "--workers", "1"), web


def has_asked(web: ScriptedWeb, goal: int) -> bool:
    return len(set(web.urls())) >= goal


def test_everything_that_the_pages_need_is_asked_for_once_and_politely(copy):
    _, web = copy
    asked = Counter(web.urls())
    assert set(asked) == PAGES | REQUISITES
    assert set(asked.values()) == {1}
    assert min(web.gaps().values()) >= DELAY_S - 0.002
    assert {one.headers["Accept"] for one in web.asked if one.url.endswith(".png")} == {"*/*"}


def test_pages_and_requisites_are_told_apart(copy):
    data, _ = copy
    records = {record.url: record for record in visits(data)}
    assert {url for url, record in records.items() if record.outcome.kept} == PAGES
    assert {url for url, one in records.items() if one.outcome.role == UrlRole.REQUISITE} == REQUISITES | {FORBIDDEN}
    assert {entry.record.url for entry in follow(data.archive, {})} == PAGES  # what followers and programs see
    (status,) = run_json("status", "--data", data.root)["collections"]
    assert (status["state"], status["fetched"], status["unkept"][REQUISITE_CAUSE]) == ("finished", 3, 24)
    assert (status["requisites"], status["requisites_queue"]) == (len(REQUISITES) + 1, 0)
    assert run_json("search", "widget", "--data", data.root)["total"] == 0
    assert tarrafa("links", f"{SITE}style.css", "--data", data.root).returncode != 0  # the graph does not know it


def test_what_lacks_is_named_with_its_reason(copy):
    data, _ = copy
    statuses = {record.url: record.outcome.status for record in visits(data)}
    assert {url: status for url, status in statuses.items() if status not in (200, 302)} == LACKING
    explained = run_json("explain", SITE, "--data", data.root)["collections"][0]["requisites"]
    assert (explained["total"], explained["archived"]) == (20, 17)
    assert {one["url"] for one in explained["lacking"]} == set(LACKING)
    said = tarrafa("explain", SITE, "--data", data.root).stdout
    assert f"{FORBIDDEN}: excluded by robots.txt" in " ".join(said.split())
    verified = tarrafa("verify", "--deep", "--data", data.root)
    assert (verified.returncode, "nothing wrong" in verified.stdout) == (0, True), verified.stdout


def test_an_export_of_one_page_brings_what_it_needs_and_no_more(copy, tmp_path):
    """The style sheet of the second page imports another one, with a picture, and has a font of another host."""
    data, _ = copy
    exported = tmp_path / "second.warc.gz"
    done = tarrafa("export", "warc", exported, "--prefix", f"{SITE}second", "--data", data.root)
    assert done.returncode == 0, done.stderr
    with exported.open("rb") as stream:
        kinds = [(one.rec_type, one.rec_headers.get("WARC-Target-URI")) for one in ArchiveIterator(stream)]
    # The picture has a twin on another host: the one that was archived first has the body of both.
    pictures = [record.outcome for record in visits(data) if record.url == f"{SITE}picture.png"]
    bodies = {outcome.same_as for outcome in pictures if outcome.same_as}
    assert {url for kind, url in kinds if kind in ("response", "revisit")} == {
        *(f"{SITE}{name}" for name in ("second", "style.css", "imported.css", "imported.png", "picture.png")),
        f"{CDN}far.woff2",
        *bodies,
    }


def test_the_report_says_how_complete_the_copy_is(copy):
    data, _ = copy
    found = run_json("report", "c", "--data", data.root)["requisites"]
    assert (found["known"], found["archived"], found["redirects"], found["gone"]) == (len(REQUISITES) + 1, 24, 1, 1)
    assert {one["status"]: one["count"] for one in found["lacking"]} == {Status.ROBOTS: 1, Status.TOO_LARGE: 1}
    assert {one["name"] for one in found["lacking_hosts"]} == {"http://shy.test:80", "http://site.test:80"}
    assert (found["pages"], found["complete"]) == (3, 2)


def test_the_same_bytes_are_archived_once(copy):
    data, _ = copy
    twins = {
        record.url: record.outcome for record in visits(data) if record.url.endswith(("/picture.png", "/twin.png"))
    }
    (other,) = [outcome.same_as for outcome in twins.values() if outcome.same_as]
    bodies = list[str]()
    for path in sorted(data.archive.glob("*.warc.gz")):
        check_warc_file(path)
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_headers.get_header("WARC-Target-URI") in twins:
                    if record.rec_type == "revisit":
                        assert record.rec_headers.get_header("WARC-Refers-To-Target-URI") == other
                    elif record.rec_type == "response":
                        bodies.append(record.rec_headers.get_header("WARC-Target-URI"))
    assert bodies == [other]


@pytest.mark.skipif(bool(needs_browser_and_wabac()), reason=needs_browser_and_wabac())
def test_the_copy_is_whole_in_a_browser_when_the_site_is_gone(copy, browser, live_web):
    data, _ = copy
    follower.catch_up(data)
    at = {record.url: record.outcome.at for record in visits(data)}
    replayed = ReplayedSite(data)
    with replayed.running:
        page = browser.new_page()
        page.set_default_timeout(WAIT_MS)
        answers: dict[str, int] = {}
        page.on("response", lambda one: answers.setdefault(one.url.partition("_/")[2], one.status))
        page.goto(replayed.copy(SITE, at[SITE]))
        frame = frame_of(page, "First page")
        frame.wait_for_function("document.body.dataset.ran === 'all of it'")
        widths = dict(frame.evaluate("[...document.images].map(one => [one.id, one.naturalWidth])"))
        assert {name for name, width in widths.items() if not width} == {"gone", "forbidden", "inline"}
        assert style(frame, "h1", "color") == "rgb(1, 2, 3)"
        assert style(frame, "h1", "marginLeft") == "7px"
        assert style(frame, "#box", "borderTopColor") == "rgb(4, 5, 6)"
        widget = next(one for one in page.frames if one.url.endswith(f"{OTHER}widget"))
        assert style(widget, "#words", "color") == "rgb(7, 8, 9)"
        assert widget.evaluate("document.getElementById('inner').naturalWidth") > 0
        framed = next(one for one in page.frames if one.url.endswith("framed.html"))
        assert framed.evaluate("document.images[0].naturalWidth") > 0
        page.close()
    shown = {url: status for url, status in answers.items() if url.startswith("http")}
    assert {url for url, status in shown.items() if status >= 400} == {GONE, FORBIDDEN, LARGE}
    wanted = {
        f"{SITE}imported.css",
        f"{SITE}part.js",
        f"{CDN}far.woff2",
        f"{SITE}moved-here.png",
        f"{SITE}imported.png",
    }
    assert wanted <= set(shown)
    assert live_web.heard == []


def style(frame: Any, selector: str, name: str) -> str:
    return str(frame.evaluate(f"getComputedStyle(document.querySelector('{selector}')).{name}"))


def test_a_crawl_that_is_killed_again_and_again_loses_and_doubles_nothing(tmp_path):
    kills = (4, 9, 15, 22)
    with scripted_web(answer) as web:
        file = collection(tmp_path, web)
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file)]
        for goal in kills:
            process = subprocess.Popen(
                [*command, "--data", str(tmp_path / "data")], stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            block_until(partial(has_asked, web, goal), f"{goal} requests")
            kill_group(process)
        data = crawl(file, tmp_path)
        asked = Counter(web.urls())
    assert set(asked) == PAGES | REQUISITES
    assert max(asked.values()) <= 1 + len(kills)
    recorded = Counter((record.url, record.visit) for record in visits(data))
    assert set(recorded.values()) == {1}
    archived = {record.url for record in visits(data) if record.outcome.payload}
    assert archived == set(BODIES) - {LARGE}
    (status,) = run_json("status", "--data", data.root)["collections"]
    assert (status["fetched"], status["unkept"][REQUISITE_CAUSE], status["requisites_queue"]) == (3, 24, 0)
    verified = tarrafa("verify", "--data", data.root)
    assert "nothing wrong" in verified.stdout, verified.stdout


def test_a_lost_frontier_is_rebuilt_with_its_requisites(tmp_path):
    with scripted_web(answer) as web:
        file = collection(tmp_path, web)
        data = crawl(file, tmp_path)
        asked = len(web.urls())
        before = {record.url for record in visits(data)}
        data.frontier.unlink()
        done = tarrafa("rebuild", "frontier", "--data", data.root)
        assert done.returncode == 0, done.stderr
        crawl(file, tmp_path)
        again = web.urls()[asked:]
    assert again == []
    assert {record.url for record in visits(data)} == before
    (status,) = run_json("status", "--data", data.root)["collections"]
    assert (status["fetched"], status["unkept"][REQUISITE_CAUSE], status["requisites"]) == (3, 24, len(REQUISITES) + 1)


def test_the_next_run_archives_what_has_not_changed_as_references(tmp_path):
    with scripted_web(answer) as web:
        data = crawl(collection(tmp_path, web), tmp_path, "--workers", "1")
        first = Counter(web.urls())
        command = [sys.executable, "-c", AGAIN, str(data.root), "begin"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        second = Counter(web.urls()) - first
    assert second == dict.fromkeys(PAGES | REQUISITES, 1)
    kinds, refers = Counter[str](), set[str]()
    for path in sorted(data.archive.glob("*.warc.gz")):
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_headers.get_header("WARC-Target-URI") == f"{SITE}style.css":
                    kinds[record.rec_type] += 1
                    refers.add(record.rec_headers.get_header("WARC-Refers-To-Target-URI"))
    assert (kinds["response"], kinds["revisit"]) == (1, 1)
    assert refers == {None, f"{SITE}style.css"}


def test_without_the_setting_no_requisite_is_asked_for(tmp_path):
    with scripted_web(answer) as web:
        file = collection(tmp_path, web)
        file.write_text(file.read_text().replace('keep = "faithful"', ""))
        data = crawl(file, tmp_path)
    assert set(web.urls()) == PAGES
    assert not any(record.requisites for record in visits(data))


@pytest.mark.skipif(bool(needs_browser_and_wabac()), reason=needs_browser_and_wabac())
def test_with_rendering_what_the_browser_asked_for_is_archived(tmp_path, browser, live_web):
    try:
        with ThreadPoolExecutor(1) as other:  # this thread has the event loop of playwright
            other.submit(asyncio.run, check_browser("c")).result()
    except RenderUnavailable as error:
        pytest.skip(f"no browser can be held here: {error}")
    with scripted_web(answer_of_applications) as web:
        file = web.collection(tmp_path, ["http://vue.test/"], '[render]\nwhen = "auto"\n', 'keep = "faithful"', DELAY_S)
        file.write_text(file.read_text().replace('["*.test"]', '["vue.test"]'))
        data = crawl(file, tmp_path, "--workers", "1")
        asked = Counter(web.urls())
    records = {record.url: record for record in visits(data)}
    assert {url for url, record in records.items() if record.outcome.kept} == VUE_PAGES
    needed = {url for url, one in records.items() if one.outcome.role == UrlRole.REQUISITE}
    assert {url.rpartition(".")[2] for url in needed} >= {"css"}
    assert set(asked.values()) == {1}, asked
    assert not any("?" in url or url.endswith("catalogue.json") for url in needed)  # the browser has got it
    follower.catch_up(data)
    replayed = ReplayedSite(data)
    with replayed.running:
        page = browser.new_page()
        page.set_default_timeout(WAIT_MS)
        page.goto(replayed.copy("http://vue.test/", records["http://vue.test/"].outcome.at))
        frame = frame_of(page, "Mapa 1")
        assert frame.evaluate("[...document.styleSheets].some(one => one.cssRules.length > 0)")
        page.close()
    assert live_web.heard == []
