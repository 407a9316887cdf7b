"""A site with a replay, over an archive of a page with image and style, of pages with gaps, and of hostile pages; and a
browser, to which the archived hosts are a server that counts who comes."""

import contextlib
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tarrafa.captures import follower
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.errors import DataError
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.http_server import bind
from tarrafa.server.replay.replay_site import ReplaySite
from tarrafa.server.replay.wabac_package import load_package
from tests.captures.archived_site import DAY_S, FIRST_AT, SiteArchive, new_archive
from tests.server.conftest import RunningSite

CHROMIUM = Path("/usr/bin/chromium")
WAIT_MS = 20_000
CSS, PNG, HTML = (f"Content-Type: {kind}" for kind in ("text/css", "image/png", "text/html; charset=utf-8"))
JS = "Content-Type: text/javascript"
DEMO, OTHER, GONE, SHY, DOWN = (f"http://demo.test/{name}" for name in ("", "other", "gone", "shy", "down"))
PARTS = "http://demo.test/parts"
AT = timestamp_of(FIRST_AT)
SECOND_AT = FIRST_AT + 40 * DAY_S
COLOURS = ((255, 0, 0), (0, 0, 255))  # of the image at the two dates
BACKGROUNDS = ("rgb(255, 255, 224)", "rgb(144, 238, 144)")


def drawing(colour: tuple[int, int, int], size: int = 24) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)
    rows = zlib.compress((b"\0" + bytes(colour) * size) * size)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def write_demo(site: SiteArchive) -> None:
    """A page with an image, a style with an import, and a script, at two dates; all others once."""
    for number, at in enumerate((FIRST_AT, SECOND_AT)):
        page = (
            f'<!doctype html><title>version {number}</title><link rel="stylesheet" href="/style.css">'
            f'<h1>Version {number}</h1><img id="picture" src="picture.png"><a id="other" href="/other">Other</a> '
            f'<a id="blank" href="/other" target="_blank">Other, in a window of its own</a> '
            f'<a id="gone" href="/gone">Gone</a><script src="/script.js"></script>'
        )
        site.visit(DEMO, at, page.encode())
        background = f"body {{ background: {BACKGROUNDS[number]} }}"
        parts = (
            ("style.css", b'@import "colours.css"; h1 { color: navy }', CSS),
            ("colours.css", background.encode(), CSS),
            ("picture.png", drawing(COLOURS[number]), PNG),
            ("script.js", b'document.body.dataset.ran = "%d"' % number, JS),
        )
        for name, body, header in parts:
            site.visit(f"{DEMO}{name}", at + 60, body, header=header, has_page=False)
    site.visit(OTHER, FIRST_AT, b'<title>other</title><p>The other page</p><a id="back" href="/">Back</a>')
    site.visit(f"{DEMO}moved", FIRST_AT, status=301, header="Location: /other")
    site.visit(f"{DEMO}error", FIRST_AT, b"<p>The server's own words</p>", status=404)
    site.visit(SHY, FIRST_AT, b"<p>shy words</p>", noarchive=True)
    site.visit(DOWN, FIRST_AT, b"<p>words that were taken down</p>")
    site.visit(f"{DEMO}down.png", FIRST_AT, drawing((0, 255, 0)), header=PNG, has_page=False)
    page_of_parts = (
        f'<title>parts</title><h1>Parts</h1><img id="down" src="{DEMO}down.png"><img id="gone" src="{DEMO}gone.png">'
        f'<img id="picture" src="{DEMO}picture.png"><iframe id="shy" src="{SHY}"></iframe>'
        f'<iframe id="framed" src="{OTHER}"></iframe>'
    )
    site.visit(PARTS, FIRST_AT, page_of_parts.encode())


class Listener:
    """A port that counts who comes: TCP connections, or datagrams."""

    def __init__(self, kind: int = socket.SOCK_STREAM, port: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, kind)
        self._socket.bind(("127.0.0.1", port))
        if kind == socket.SOCK_STREAM:
            self._socket.listen(50)
        self.port, self.heard, self._kind = self._socket.getsockname()[1], list[bytes](), kind
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                if self._kind == socket.SOCK_DGRAM:
                    self.heard.append(self._socket.recv(2_000))
                    continue
                connection, _ = self._socket.accept()
                self.heard.append(b"a connection")
                connection.settimeout(5)
                with connection, contextlib.suppress(OSError):
                    connection.recv(2_000)
                    connection.sendall(
                        b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\n\r\n"
                    )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._thread.join(10)


class ReplayedSite:
    """A running site with a replay, and the addresses under which a browser sees both."""

    def __init__(self, data: DataDirectory) -> None:
        self.data = data
        listening = bind(port=0)
        self.port = listening.getsockname()[1]
        self.replay = ReplaySite.parse(f"http://replay.tarrafa.localhost:{self.port}")
        self.address = f"http://tarrafa.localhost:{self.port}"
        self.running = RunningSite(data, listening=listening, replay=self.replay)

    def copy(self, url: str, at: float, **more: str) -> str:
        parameters = {"url": url, "at": timestamp_of(at), "hl": "en"} | more
        return f"{self.address}/copy?" + "&".join(f"{name}={value}" for name, value in parameters.items())


def archive(root: Path) -> tuple[DataDirectory, SiteArchive]:
    data = new_archive(root / "data")
    return data, SiteArchive(data)


@contextlib.contextmanager
def served(data: DataDirectory, site: SiteArchive) -> Iterator[ReplayedSite]:
    site.close()
    follower.catch_up(data)
    replayed = ReplayedSite(data)
    with replayed.running:
        yield replayed


def needs_browser_and_wabac() -> str:
    """Why a test cannot run; empty: it can."""
    if not CHROMIUM.exists():
        return f"no {CHROMIUM}: install Debian's chromium"
    try:
        load_package()
    except DataError as error:
        return str(error)
    return ""


def frame_of(page: Any, text: str) -> Any:
    """The frame with an archived page, when its text is there."""
    page.frame_locator("iframe.archived").get_by_text(text).first.wait_for(timeout=WAIT_MS)
    frame = next(one for one in page.frames if one.parent_frame == page.main_frame)
    frame.wait_for_function("document.readyState === 'complete'", timeout=WAIT_MS)
    return frame


@pytest.fixture(scope="module")
def live_web() -> Iterator[Listener]:
    """The server of all archived hosts, as far as the browser knows."""
    with Listener() as listener:
        yield listener


@pytest.fixture(scope="module")
def browser(live_web: Listener) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        rules = f"MAP *.test 127.0.0.1:{live_web.port}"
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
        arguments.append(f"--host-resolver-rules={rules}")
        running = driver.chromium.launch(executable_path=str(CHROMIUM), args=arguments, timeout=WAIT_MS)
        yield running
        running.close()
