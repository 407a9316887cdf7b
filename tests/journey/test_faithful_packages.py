"""Faithful copies of documentation sites from npm: a browser that replays them lacks nothing that it had of the living
site; and pywb serves their requisites byte for byte."""

import mimetypes
import subprocess
import tarfile
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tarrafa.archive.warc_reader import read_events, survey_archive
from tarrafa.captures import follower
from tarrafa.captures.reader import CapturesReader, KeyRange
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.model import UrlRole, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.captures.archive_tools import pywb_running
from tests.journey.crawl_journey import tarrafa
from tests.journey.faithful_web import BODIES, SITE
from tests.journey.faithful_web import answer as answer_of_site
from tests.journey.scripted_web import ScriptedResponse, scripted_web
from tests.server.replay.browser_site import (
    CHROMIUM,
    WAIT_MS,
    ReplayedSite,
    browser,
    live_web,
    needs_browser_and_wabac,
)

__all__ = ["browser", "live_web"]
pytestmark = pytest.mark.long  # half a minute each, and a package from npm
PACKAGES = {"rot-js@2.2.1": "package/doc/index.html"}  # made by TypeDoc; and where its first page is
PAGES_MAX, PAGES_SEEN = 60, 10
INSTALL_S_MAX = 120
HOST = "http://docs.test/"


def unpacked(package: str, folder: Path) -> Path:
    """The files of a package, or the test is skipped."""
    try:
        command = ["npm", "pack", package, "--silent", "--pack-destination", str(folder)]
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_S_MAX, cwd=folder)
    except (subprocess.SubprocessError, OSError) as error:
        pytest.skip(f"{package} cannot be had here: {error}")
    (archive,) = folder.glob("*.tgz")
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    return folder


def visits(data: DataDirectory) -> list[VisitRecord]:
    events = read_events(data.archive, survey_archive(data.archive).starts)
    return [event.content for event in events if isinstance(event.content, VisitRecord)]


def loaded(page: Any, address: str, marker: str) -> set[str]:
    """The URLs of the site that a page loads with success."""
    found: set[str] = set()

    def note(response: Any) -> None:
        _, _, url = response.url.rpartition(marker)
        if response.status in (200, 304) and url.startswith("http://"):
            found.add(url)

    page.on("response", note)
    page.goto(address)
    page.wait_for_load_state("networkidle", timeout=WAIT_MS)
    page.remove_listener("response", note)
    return found


@pytest.mark.skipif(bool(needs_browser_and_wabac()), reason=needs_browser_and_wabac())
@pytest.mark.parametrize("package", PACKAGES)
def test_a_replayed_site_lacks_nothing_that_it_had(package, tmp_path, browser, live_web):
    root = unpacked(package, tmp_path)

    def answer(url: str, before: int) -> ScriptedResponse | None:
        path = root / url.removeprefix(HOST).partition("?")[0]
        if not path.is_file() or root not in path.resolve().parents:
            return None
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        return ScriptedResponse(path.read_bytes(), headers={"Content-Type": kind})

    with scripted_web(answer) as web:
        file = web.collection(
            tmp_path,
            [HOST + PACKAGES[package]],
            scope=f'keep = "faithful"\npages_max = {PAGES_MAX}',
            delay_s=0,
        )
        done = tarrafa("crawl", file, "--data", tmp_path / "data")
        assert done.returncode == 0, done.stderr
        asked = Counter(web.urls())
        data = DataDirectory(tmp_path / "data")
        records = visits(data)
        kept = {one.url: one.outcome.at for one in records if one.outcome.kept}
        needed = {one.url for one in records if one.outcome.role == UrlRole.REQUISITE and one.outcome.status == 200}
        assert set(asked.values()) == {1}, [url for url, count in asked.items() if count > 1]
        assert len(kept) > 5 and len(needed) > 5
        seen = sorted(kept)[:: max(1, len(kept) // PAGES_SEEN)]
        rules = f"--host-resolver-rules=MAP *.test 127.0.0.1:{web.port}"
        alive = browser.browser_type.launch(
            executable_path=str(CHROMIUM), args=["--no-sandbox", "--disable-gpu", rules], timeout=WAIT_MS
        )
        page = alive.new_page()
        live = {url: loaded(page, url, "\0") for url in seen}
        alive.close()
    follower.catch_up(data)
    replayed = ReplayedSite(data)
    with replayed.running:
        page = browser.new_page()
        for url in seen:
            shown = loaded(page, replayed.copy(url, kept[url]), "_/")
            lacking = {one for one in live[url] - shown if not one.endswith("/favicon.ico")}
            assert not lacking, (url, lacking)
        page.close()
    assert sum(map(len, live.values())) > 3 * len(seen)
    assert live_web.heard == []


def test_pywb_serves_requisites_byte_for_byte(tmp_path):
    with scripted_web(answer_of_site) as web:
        file = web.collection(tmp_path, [SITE], scope='keep = "faithful"')
        done = tarrafa("crawl", file, "--data", tmp_path / "data", "--workers", "1")
        assert done.returncode == 0, done.stderr
    data = DataDirectory(tmp_path / "data")
    follower.catch_up(data)
    index = tmp_path / "export.cdxj"
    index.write_text("".join(f"{one.cdxj()}\n" for one in CapturesReader(data).scan(KeyRange(), rows_max=None)))
    archived = {one.url: one.outcome for one in visits(data) if one.outcome.payload}
    assert any(outcome.same_as for outcome in archived.values())
    with pywb_running(tmp_path / "pywb", index, data.archive) as base:
        for url, outcome in archived.items():
            with urllib.request.urlopen(f"{base}/{timestamp_of(outcome.at)}id_/{url}", timeout=30) as response:
                assert response.read() == BODIES[url][0], url
    assert len(archived) > 20
