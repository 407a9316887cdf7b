"""A WACZ package in a real browser: wabac.js, the engine of ReplayWeb.page, opens it from any file server."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tarrafa.captures import follower
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.export.archive_export import export_wacz
from tarrafa.export.selection import Selection
from tarrafa.server.replay.wabac_package import load_package
from tests.captures.archived_site import DAY_S, FIRST_AT, PAGE, SiteArchive, new_archive
from tests.export.test_warc_and_wacz import silent
from tests.server.replay.browser_site import (
    BACKGROUNDS,
    COLOURS,
    DEMO,
    SECOND_AT,
    WAIT_MS,
    Listener,
    browser,
    live_web,
    needs_browser_and_wabac,
    write_demo,
)
from tests.server.replay.test_replay_in_browser import PIXEL

__all__ = ["browser", "live_web"]
pytestmark = pytest.mark.skipif(bool(needs_browser_and_wabac()), reason=needs_browser_and_wabac())

PAGE_HTML = b"<!doctype html><title>opener</title>"
OPEN = """async (address) => {
  await navigator.serviceWorker.register("/sw.js", {scope: "/"});
  await navigator.serviceWorker.ready;
  if (!navigator.serviceWorker.controller)
    await new Promise((resolve) => navigator.serviceWorker.addEventListener("controllerchange", resolve));
  return await new Promise((resolve) => {
    navigator.serviceWorker.addEventListener("message", (event) => {
      if (["collAdded", "collProgress"].includes(event.data.msg_type) && (event.data.error || event.data.name))
        resolve(event.data.error || event.data.msg_type);
    });
    navigator.serviceWorker.controller.postMessage(
      {msg_type: "addColl", name: "wacz", skipExisting: false, file: {sourceUrl: address}});
  });
}"""


class RangeServer(BaseHTTPRequestHandler):
    """Serves the package by ranges, wabac.js, and a page that opens them."""

    protocol_version = "HTTP/1.1"

    def __init__(self, package: bytes, *arguments: Any) -> None:
        self.package = package
        super().__init__(*arguments)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        kinds = {"/sw.js": ("text/javascript", load_package().script), "/": ("text/html", PAGE_HTML)}
        kind, content = kinds.get(self.path.partition("?")[0], ("application/zip", self.package))
        status, size, wanted = 200, len(content), self.headers.get("Range", "")
        if wanted.startswith("bytes="):
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, size - int(last))
            end = min(size, int(last) + 1) if first and last else size
            content, status = content[start:end], 206
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(content)))
        if status == 206:
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        return None


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("wacz")
    data = new_archive(folder / "data")
    site = SiteArchive(data)
    write_demo(site)
    digest = site.visit(PAGE, FIRST_AT, b"<title>same</title><p>the same words</p>")
    site.visit(PAGE, FIRST_AT + DAY_S, b"<title>same</title><p>the same words</p>", of=(FIRST_AT, digest))
    site.visit(PAGE, FIRST_AT + 9 * DAY_S, status=304, of=(FIRST_AT, digest))
    site.visit(PAGE, FIRST_AT + 40 * DAY_S, b"<title>later</title><p>other words</p>")
    site.close()
    follower.catch_up(data)
    target = folder / "all.wacz"
    with target.open("wb") as output:
        export_wacz(data, Selection(), output, "All", silent)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(RangeServer, target.read_bytes()))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Any]:
    """A tab in which the package is open."""
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}/")
        assert page.evaluate(OPEN, f"{address}/all.wacz") == "collAdded"
        yield page


def replayed(page: Any, address: str, url: str, at: float) -> None:
    page.goto(f"{address}/")
    page.set_content(f'<iframe src="{address}/w/wacz/{timestamp_of(at)}mp_/{url}"></iframe>')


@pytest.mark.parametrize("number", [0, 1])
def test_a_page_is_shown_with_image_and_style_of_its_date(
    opened: Any, address: str, live_web: Listener, number: int
) -> None:
    replayed(opened, address, DEMO, (FIRST_AT, SECOND_AT)[number])
    frame = opened.frames[1]
    frame.get_by_text(f"Version {number}").first.wait_for(timeout=WAIT_MS)
    frame.wait_for_function("document.readyState === 'complete'", timeout=WAIT_MS)
    assert frame.evaluate("getComputedStyle(document.body).backgroundColor") == BACKGROUNDS[number]
    assert tuple(frame.evaluate(PIXEL)) == COLOURS[number]
    assert frame.evaluate("document.body.dataset.ran") == str(number)
    assert live_web.heard == []


@pytest.mark.parametrize("days", [0, 1, 9], ids=["response", "revisit", "304"])
def test_revisits_are_shown_with_the_body_that_they_refer_to(opened: Any, address: str, days: int) -> None:
    replayed(opened, address, PAGE, FIRST_AT + days * DAY_S)
    opened.frames[1].get_by_text("the same words").first.wait_for(timeout=WAIT_MS)
