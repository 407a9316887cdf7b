"""A hostile archived page in a real browser: it runs nothing, loads nothing, and leads nowhere by itself."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tarrafa.captures import follower
from tarrafa.captures.timestamps import timestamp_of
from tests.captures.archived_site import FIRST_AT, SiteArchive, new_archive
from tests.server.conftest import RunningSite

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = Path("/usr/bin/chromium")
WAIT_MS = 60_000
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"no {CHROMIUM}: install Debian's chromium")

EVIL, SCRIPT, DRAWING = (f"http://evil.test/{name}" for name in ("", "x.js", "x.svg"))
AT = timestamp_of(FIRST_AT)
ATTACK = (
    "document.title='owned'; document.cookie='stolen=1'; fetch('/search.json?q=attack');"
    f"navigator.serviceWorker && navigator.serviceWorker.register('/web/{AT}id_/{SCRIPT}'); location='/healthz'"
)
PAGE = f"""<html><head><title>quiet</title><meta http-equiv="refresh" content="0;url=/healthz">
<base href="/console/"><link rel="stylesheet" href="/static/style.css"><script src="/web/{AT}id_/{SCRIPT}"></script>
<script>{ATTACK}</script></head><body onload="{ATTACK}"><img src="/static/logo.svg" onerror="{ATTACK}">
<iframe src="/healthz"></iframe><object data="/web/{AT}id_/{DRAWING}"></object>
<form action="/suggest-site" method="post"><button id="send">send</button></form></body></html>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningSite]:
    data = new_archive(tmp_path_factory.mktemp("hostile") / "data")
    archive = SiteArchive(data)
    archive.visit(EVIL, FIRST_AT, PAGE.encode())
    archive.visit(SCRIPT, FIRST_AT, ATTACK.encode(), header="Content-Type: text/javascript", has_page=False)
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" onload="{ATTACK}"><script>{ATTACK}</script></svg>'
    archive.visit(DRAWING, FIRST_AT, drawing.encode(), header="Content-Type: image/svg+xml", has_page=False)
    archive.close()
    follower.catch_up(data)
    with RunningSite(data) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        running = driver.chromium.launch(executable_path=str(CHROMIUM), args=arguments, timeout=WAIT_MS)
        yield running
        running.close()


@pytest.mark.parametrize("url", [EVIL, DRAWING, SCRIPT])
def test_an_archived_page_runs_nothing_and_asks_for_nothing(site: RunningSite, browser: Any, url: str) -> None:
    context = browser.new_context(base_url=site.address)
    context.add_cookies([{"name": "session", "value": "secret", "url": site.address}])
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    requested: list[str] = []
    answered: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    page.on("response", lambda response: answered.append(response.url))
    address = f"{site.address.rstrip('/')}/web/{AT}id_/{url}"
    page.goto(address, wait_until="load")
    page.wait_for_timeout(500)  # for what would come of itself
    assert answered == [address]
    assert page.url == address and page.title() != "owned"
    assert {cookie["name"] for cookie in context.cookies()} == {"session"}
    if url == EVIL:
        page.locator("#send").click(no_wait_after=True)
        page.wait_for_timeout(300)
        assert page.url == address and answered == [address]
    context.close()


def test_a_page_of_ours_cannot_use_an_archived_script_or_frame_an_archived_page(
    site: RunningSite, browser: Any
) -> None:
    context = browser.new_context(base_url=site.address)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    page.goto(f"{site.address.rstrip('/')}/help?hl=en")
    title = page.title()
    for kind, name in (("script", SCRIPT), ("iframe", EVIL)):
        page.evaluate(
            "([kind, src]) => new Promise(done => { const part = document.createElement(kind); part.src = src;"
            " part.onload = part.onerror = done; setTimeout(done, 1000); document.body.append(part); })",
            [kind, f"/web/{AT}id_/{name}"],
        )
    assert page.title() == title and page.url.endswith("/help?hl=en")
    assert {cookie["name"] for cookie in context.cookies()} <= {"hl"}
    context.close()
