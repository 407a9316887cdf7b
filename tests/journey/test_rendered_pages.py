"""Pages made by scripts: real applications, attacks from inside a page, and the death of browser and worker."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from warcio.archiveiterator import ArchiveIterator

from tarrafa.archive.warc_reader import follow
from tarrafa.crawl.render.browser import Browser, RenderUnavailable, check_browser
from tarrafa.crawl.render.devtools import BrowserGone
from tarrafa.crawl.render.page_render import BrowserAnswer, PageRender
from tarrafa.model import Status, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tests.fetch.fake_name_server import a_name_server
from tests.journey.crawl_journey import kill_group, pids_of, run_json, tarrafa
from tests.journey.script_web import DOCSIFY_PAGES, ITEMS, VUE_PAGES, answer
from tests.journey.scripted_web import ScriptedResponse, ScriptedWeb, scripted_web
from tests.wait import block_until
from tests.warc_check import check_warc_file

DELAY_S = 0.1
ROOTS = ["http://vue.test/", "http://docs.test/"]
SCOPE = 'exclude = ["*?id=*"]'  # docsify links each heading
TIMER_S = 0.002


@pytest.fixture(scope="module", autouse=True)
def _browser() -> None:
    try:
        asyncio.run(check_browser("c"))
    except RenderUnavailable as error:
        pytest.skip(f"no browser can be held here: {error}")


def records_of(data: Path) -> list[VisitRecord]:
    return [entry.record for entry in follow(DataDirectory(data).archive, {})]


def crawl(folder: Path, web: ScriptedWeb, when: str, roots: list[str], more: str = "", scope: str = SCOPE) -> Path:
    """Crawl; the data directory."""
    file = web.collection(folder, roots, f'[render]\nwhen = "{when}"\n{more}', scope, DELAY_S)
    file.write_text(file.read_text().replace('["*.test"]', '["vue.test", "docs.test", "attack.test", "slow.test"]'))
    done = tarrafa("crawl", file, "--data", folder / "data", "--workers", "1")
    assert done.returncode == 0, done.stderr
    return folder / "data"


def test_static_crawl_finds_the_shells_only(tmp_path):
    with scripted_web(answer) as web:
        records = records_of(crawl(tmp_path, web, "never", ROOTS))
    assert {record.url for record in records} == set(ROOTS)
    assert not any(record.page.links for record in records if record.page)
    assert not any(record.rendered for record in records)


def test_auto_finds_every_page_of_real_applications_within_delay_and_robots(tmp_path):
    with scripted_web(answer) as web:
        data = crawl(tmp_path, web, "auto", ROOTS)
        asked, gaps = Counter(web.urls()), web.gaps()
        agents = {one.headers["User-Agent"].partition("/")[0] for one in web.asked}
    records = {record.url: record for record in records_of(data) if record.outcome.kept}
    assert set(records) == VUE_PAGES | DOCSIFY_PAGES
    pages = {url: record.page for url, record in records.items() if record.page is not None}
    for number in range(1, ITEMS + 1):
        page = pages[f"http://vue.test/item/{number}"]
        assert f"O mapa número {number} mostra o litoral" in page.text
        assert page.title == f"Acervo: Mapa {number}"
    assert "a malha, o fio e o chumbo" in pages["http://docs.test/guia"].text
    assert not any("JavaScript" in page.text for page in pages.values())  # what noscript says

    assert min(gaps.values()) >= DELAY_S - TIMER_S, gaps
    assert set(gaps) == {"vue.test", "docs.test", "cdn.test"}
    assert agents == {"Tarrafa"}
    assert not [url for url in asked if "/private/" in url or url.endswith((".css", ".ico"))]
    assert {url: count for url, count in asked.items() if count > 1} == {}  # what pages share is fetched once
    assert {record.outcome.etag for record in records.values()} == {None}  # a 304 of the shell would hide changes
    facts = records["http://vue.test/item/1"].rendered
    assert facts is not None
    refused = {one.url: one.status for one in facts.requests if one.status < 0}
    assert refused == {"http://vue.test/private/visits.json": Status.ROBOTS}

    check_archive(data, set(asked), set(records))
    told = run_json("explain", "http://docs.test/guia", "--data", data)["collections"][0]["rendered"]
    assert "the root of an application" in told["why"]
    assert ("http://docs.test/guia.md", 200) in {(one["url"], one["status"]) for one in told["requests"]}


def check_archive(data: Path, asked: set[str], kept: set[str]) -> None:
    """All that was asked for is there, and each page as its scripts made it refers to its response."""
    responses, made = dict[str, str](), dict[str, str]()
    for path in sorted((data / "archive").glob("*.warc.gz")):
        check_warc_file(path)
        if path.name.endswith(".meta.warc.gz"):
            continue
        with path.open("rb") as stream:
            for record in ArchiveIterator(stream):
                headers = record.rec_headers
                url = headers.get_header("WARC-Target-URI")
                if record.rec_type == "response":
                    responses[headers.get_header("WARC-Record-ID")] = url
                elif record.rec_type == "conversion":
                    assert headers.get_header("Content-Type") == "text/html; charset=utf-8"
                    made[url] = headers.get_header("WARC-Refers-To")
                    assert b"<html" in record.content_stream().read()
    assert asked <= set(responses.values())
    assert set(made) == kept
    assert all(responses[refers] == url for url, refers in made.items())


# -- attacks -----------------------------------------------------------------------------------------------------------

ATTACKS = {
    "ports": "for (const h of ['127.0.0.1', 'localhost', '[::1]', '0.0.0.0'])"
    "  fetch(`http://${h}:${TCP}/steal`, {mode: 'no-cors'}).then(() => say('REACHED'))",
    "metadata": "for (const u of ['http://169.254.169.254/latest/meta-data', 'http://metadata.example/',"
    "  `http://rebind.example:${TCP}/`]) fetch(u, {mode: 'no-cors'}).then(() => say('REACHED'))",
    "file": "fetch('file:///etc/passwd').then(r => r.text()).then(t => say('REACHED ' + t));"
    "const f = document.createElement('iframe'); f.src = 'file:///etc/passwd'; document.body.append(f);"
    "location = 'file:///etc/passwd'",
    "websocket": "new WebSocket(`ws://127.0.0.1:${TCP}/`).onopen = () => say('REACHED');"
    "new WebSocket(`ws://attack.test:${TCP}/`).onopen = () => say('REACHED')",
    "redirect": "fetch('/redirect').then(r => r.text()).then(t => say('REACHED ' + t))",
    "endless": "fetch('/endless').then(r => r.text()).then(t => say('REACHED'))",
    "alerts": "for (;;) { alert(1); confirm(2); prompt(3); }",
    "timers": "function fork() { for (let i = 0; i < 50; i++) setTimeout(fork, 0); say('x'); } fork()",
    "memory": "const held = []; function eat() { for (let i = 0; i < 8; i++) {"
    " const a = new Uint8Array(64 << 20); a.fill(i + 1); held.push(a); } setTimeout(eat, 0); } eat()",
    "serviceworker": "for (const n of [navigator, frame().navigator])"
    " n.serviceWorker.register('/sw.js').then(() => say('REACHED'))",
    "windows": "const u = `http://127.0.0.1:${TCP}/`; for (let i = 0; i < 20; i++) { open(u); frame().open(u); }"
    "const a = document.createElement('a'); a.href = u; a.target = '_blank'; a.click()",
    "forms": "const f = document.createElement('form'); f.method = 'post'; f.action = `http://127.0.0.1:${TCP}/`;"
    "document.body.append(f); f.target = '_blank'; f.submit(); f.target = ''; f.submit()",
    "webrtc": "for (const w of [window, frame()]) { const p = new w.RTCPeerConnection({iceServers:"
    " [{urls: `stun:127.0.0.1:${UDP}`}]}); p.createDataChannel('x');"
    " p.createOffer().then(o => p.setLocalDescription(o)) }",
    "hints": "for (const rel of ['preconnect', 'dns-prefetch', 'prefetch', 'preload', 'prerender', 'icon']) {"
    " const l = document.createElement('link'); l.rel = rel; l.as = 'fetch'; l.href = `http://127.0.0.1:${TCP}/${rel}`;"
    " document.head.append(l) } new Image().src = `http://127.0.0.1:${TCP}/`;"
    "navigator.sendBeacon(`http://127.0.0.1:${TCP}/`, 'secret')",
    "downloads": "const a = document.createElement('a'); a.download = 'x';"
    "a.href = URL.createObjectURL(new Blob([new Uint8Array(1 << 20)])); for (let i = 0; i < 50; i++) a.click()",
    "flood": "for (let i = 0; i < 5000; i++) fetch('/none/' + i).catch(() => 0)",
}
TIME_MAX_S, GRACE_S = 3.0, 4.0


def attack_page(name: str, tcp: int, udp: int) -> ScriptedResponse:
    helpers = (
        f"const TCP = {tcp}, UDP = {udp};"
        "const say = text => document.getElementById('app').append(text + ' ');"
        "const frame = () => document.body.appendChild(document.createElement('iframe')).contentWindow;"
    )
    body = f"<!DOCTYPE html><title>{name}</title><body><div id=app></div><script>{helpers}{ATTACKS[name]}</script>"
    return ScriptedResponse(body.encode(), headers={"Content-Type": "text/html"})


class Canary:
    """Listens on loopback, for TCP and UDP, and remembers who came."""

    def __init__(self) -> None:
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self.tcp, self.udp = self._tcp.getsockname()[1], self._udp.getsockname()[1]

    def visitors(self) -> int:
        """How many have come: connections wait to be accepted, datagrams to be read."""
        count = 0
        for one, take in ((self._tcp, self._tcp.accept), (self._udp, lambda: self._udp.recv(1))):
            one.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                while True:
                    take()
                    count += 1
        return count

    def close(self) -> None:
        self._tcp.close()
        self._udp.close()


@pytest.fixture
def canary() -> Iterator[Canary]:
    listening = Canary()
    yield listening
    with socket.create_connection(("127.0.0.1", listening.tcp)):  # it does notice visitors
        assert listening.visitors() == 1
    listening.close()


async def test_attacks_from_inside_a_page_reach_nothing_and_end_in_time(tmp_path, canary):
    def answer_attack(url: str, before: int) -> ScriptedResponse | None:
        path = url.split("/", 3)[3]
        if path == "":
            links = "".join(f'<a href="/{name}">{name}</a>' for name in ATTACKS)
            return ScriptedResponse(f"<p>{links}</p>".encode(), headers={"Content-Type": "text/html"})
        if path == "redirect" and before:  # the page first, then what it asks for
            return ScriptedResponse(code=302, headers={"Location": f"http://127.0.0.1:{canary.tcp}/"})
        if path == "endless" and before:
            return ScriptedResponse(b"x" * 65536, headers={"Content-Type": "text/plain"}, endless=True)
        return attack_page(path, canary.tcp, canary.udp) if path in ATTACKS else None

    names = {"metadata.example": ["169.254.169.254"], "rebind.example": ["127.0.0.1"]}
    async with a_name_server(names) as server:
        with scripted_web(answer_attack) as web:
            more = f"time_max = {TIME_MAX_S}"
            network = f'dns = ["127.0.0.1:{server.port}"]\nconnect_to'
            file = web.collection(tmp_path, ["http://attack.test/"], f'[render]\nwhen = "always"\n{more}', "", 0.01)
            file.write_text(file.read_text().replace("connect_to", network))
            done = await asyncio.to_thread(tarrafa, "crawl", file, "--data", tmp_path / "data", "--workers", "1")
            assert done.returncode == 0, done.stderr
            asked = web.urls()
    assert canary.visitors() == 0
    records = {record.url.rpartition("/")[2]: record for record in records_of(tmp_path / "data")}
    assert set(records) == {"", *ATTACKS}
    for name in ATTACKS:
        facts, page = records[name].rendered, records[name].page
        assert facts is not None, name
        assert facts.elapsed_s < TIME_MAX_S + GRACE_S, (name, facts.elapsed_s)
        assert facts.memory_bytes < 3 << 30, name
        assert records[name].outcome.kept and page is not None and "REACHED" not in page.text, name
    for name in ("alerts", "timers", "memory"):  # none of them comes to rest
        facts = records[name].rendered
        assert facts is not None and (facts.error or facts.cut), name
    assert {url.split("/")[2] for url in asked} == {"attack.test"}
    metadata = records["metadata"].rendered
    assert metadata is not None
    assert all(one.status < 0 for one in metadata.requests)
    assert len(metadata.requests) == 3
    assert sum("/none/" in url for url in asked) <= 200


async def refuse(asked: object) -> None:
    """Answers no request."""


@pytest.mark.parametrize("isolation", ["namespace", "proxy"])
async def test_browser_without_our_precautions_in_the_page_still_has_no_way_out(isolation, canary, monkeypatch):
    """The prelude, which takes WebRTC, windows and service workers from a page, is not what holds the browser."""
    monkeypatch.setattr("tarrafa.crawl.render.page_render.PRELUDE", "")
    browser = Browser()
    with contextlib.suppress(BrowserGone):
        await browser.start(isolation)
    try:
        script = "\n".join(
            f"try {{ {ATTACKS[name]} }} catch (e) {{ say(e) }}" for name in ("webrtc", "websocket", "hints")
        )
        monkeypatch.setitem(ATTACKS, "all", script.replace("const p", "var p"))
        page = attack_page("all", canary.tcp, canary.udp)
        document = BrowserAnswer(200, (("Content-Type", "text/html"),), page.body)
        found = await PageRender(browser, "http://attack.test/", document, refuse, "Tarrafa", 100_000).run(10.0)
        assert not found.error
        assert found.html
        user = psutil.Process(browser.process_id).children()[0].uids().real if isolation == "namespace" else 1
        assert user != 0
    finally:
        browser.kill()
    assert canary.visitors() == 0


async def test_browser_of_a_page_that_takes_too_much_memory_is_killed(monkeypatch):
    monkeypatch.setattr("tarrafa.crawl.render.page_render.MEMORY_BYTES_MAX", 400 << 20)
    browser = Browser()
    await browser.start()
    page = attack_page("memory", 1, 1)
    document = BrowserAnswer(200, (("Content-Type", "text/html"),), page.body)
    try:
        found = await PageRender(browser, "http://attack.test/", document, refuse, "Tarrafa", 100_000).run(60.0)
        assert str(found.error) == "it took more than 400 MB of memory"
        assert not browser.is_running
    finally:
        browser.kill()


# -- deaths ------------------------------------------------------------------------------------------------------------


async def test_browser_that_dies_while_a_page_waits_ends_the_page_at_once():
    browser = Browser()
    await browser.start()

    async def kill_and_wait(asked: object) -> None:
        assert browser.process_id is not None
        os.kill(browser.process_id, signal.SIGKILL)
        await asyncio.Event().wait()

    script = b"<!DOCTYPE html><title>x</title><div id=app></div><script src=/never.js></script>"
    document = BrowserAnswer(200, (("Content-Type", "text/html"),), script)
    try:
        found = await PageRender(browser, "http://a.test/", document, kill_and_wait, "Tarrafa", 100_000).run(60.0)
        assert str(found.error) == "the browser ended"
        assert found.elapsed_s < 30
    finally:
        browser.kill()


def chromium_below(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return [one for one in psutil.Process(pid).children(recursive=True) if "chrom" in one.name()]
    return []


def test_killed_worker_takes_its_browser_along_and_a_killed_browser_costs_one_rendering(tmp_path):
    slow = "<!DOCTYPE html><title>slow</title><body>Um texto curto<div id=app></div><script>for (;;);</script>"

    def answer_slowly(url: str, before: int) -> ScriptedResponse | None:
        is_page = url == "http://slow.test/"
        return ScriptedResponse(slow.encode(), headers={"Content-Type": "text/html"}) if is_page else None

    def launcher() -> int:
        """Of a browser that has a page."""
        for worker in pids_of(process.pid, "crawl.worker"):
            for pid in pids_of(worker, "browser_launcher"):
                with contextlib.suppress(psutil.Error):  # one has just ended
                    if any("--type=renderer" in " ".join(one.cmdline()) for one in chromium_below(pid)):
                        return pid
        return 0

    with scripted_web(answer_slowly) as web:
        file = web.collection(tmp_path, ["http://slow.test/"], '[render]\nwhen = "auto"\ntime_max = 60', "", 0.01)
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "crawl", str(file)]
        command += ["--data", str(tmp_path / "data"), "--workers", "1"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            block_until(launcher, "a page is rendered")
            family = chromium_below(launcher())
            assert family
            psutil.Process(launcher()).parent().kill()
            block_until(lambda: not any(_runs(one) for one in family), "the browser ends with its worker", 10)
            block_until(launcher, "another worker renders it")
            killed_at = time.monotonic()
            psutil.Process(launcher()).kill()
            _, said = process.communicate(timeout=60)
            assert process.returncode == 0, said
            assert time.monotonic() - killed_at < 40  # not its time_max
        finally:
            with contextlib.suppress(ProcessLookupError):
                kill_group(process)
    (record,) = records_of(tmp_path / "data")
    assert record.outcome.kept
    assert record.rendered is not None
    assert str(record.rendered.error) == "the browser ended"
    assert record.page is not None and "Um texto curto" in record.page.text


def _runs(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False
