"""A synthetic Web in a thread of this process, and clients that share no code with it."""

import asyncio
import re
import threading
from collections import deque
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType

import ada_url
import uvloop
from protego import Protego

from tarrafa.clock import Clock
from tarrafa.testweb import WebServer, WebServerStats, World

MAIN = "127.0.0.1"


@dataclass
class Response:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0]

    def text(self) -> str:
        """Decoded as a browser would: byte order mark, header, meta."""
        if self.body.startswith(b"\xef\xbb\xbf"):
            return self.body[3:].decode("utf-8")
        announced = re.search(r"charset=([\w-]+)", self.headers.get("content-type", ""))
        declared = re.search(rb'<meta charset="([\w-]+)"', self.body[:1024])
        charset = announced[1] if announced else declared[1].decode() if declared else ""
        assert charset, "a page must say its charset somewhere"
        return self.body.decode(charset)


class WebInThread:
    """`with Serving(world) as web:` then `web.get(url)`."""

    def __init__(
        self,
        world: World,
        *,
        addresses: bool = False,
        log_path: Path | None = None,
        clock: Clock | None = None,
        latency_s: float = 0.0,
    ) -> None:
        self.world = world
        self.clock = clock or Clock.real()
        self._options = {"addresses": addresses, "log_path": log_path, "clock": self.clock, "latency_s": latency_s}
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._connections: dict[str, HTTPConnection] = {}
        self.stats: WebServerStats | None = None

    def __enter__(self) -> "WebInThread":
        self._thread.start()
        self.server = WebServer(self.world, MAIN, 0, **self._options)  # type: ignore[arg-type]
        asyncio.run_coroutine_threadsafe(self.server.start(), self._loop).result(20)
        self.port = self.server.port
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()
        self.stats = asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop).result(20)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(20)
        self._loop.close()

    def get(self, url: str, method: str = "GET", **headers: str) -> Response:
        """Names go to the server's own address, addresses where they say."""
        match = re.fullmatch(r"http://([^/:]+)(:\d+)?(/.*)", url)
        assert match, url
        name, port, path = match.groups()
        place = (name, int(port[1:])) if port and name[0].isdigit() else (MAIN, self.port)
        key = f"{place[0]}:{place[1]}"
        connection = self._connections.setdefault(key, HTTPConnection(*place, timeout=20))
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers={"Host": f"{name}{port or ''}", "User-Agent": "test/1.0"} | fields)
        answer = connection.getresponse()
        body = answer.read()
        return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, body)


class HtmlLinkReader(HTMLParser):
    """The links of a page, as a crawler needs them."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[str, str, str]] = []  # href, rel, anchor
        self.base = self.robots = self.canonical = self.title = ""
        self._open: list[str] | None = None
        self._in_title = False

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        if tag == "a" and "href" in values:
            self._open = [values["href"], values.get("rel", ""), ""]
        elif tag == "base":
            self.base = values["href"]
        elif tag == "meta" and values.get("name") == "robots":
            self.robots = values["content"]
        elif tag == "link" and values.get("rel") == "canonical":
            self.canonical = values["href"]
        self._in_title = tag == "title"

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open[2] += data
        if self._in_title:
            self.title += data

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._open is not None:
            self.links.append((self._open[0], self._open[1], self._open[2]))
            self._open = None
        self._in_title = False


def canonical(href: str, base: str) -> str:
    """WHATWG, then RFC 3986 section 6.2.2: escapes in upper case, none where none is needed."""
    url = ada_url.URL(href, base=base)
    url.hash = ""

    def tidy(match: re.Match[str]) -> str:
        letter = chr(int(match[1], 16))
        return letter if letter.isascii() and (letter.isalnum() or letter in "-._~") else match[0].upper()

    return re.sub(r"%([0-9A-Fa-f]{2})", tidy, url.href)


def read(response: Response) -> HtmlLinkReader:
    reader = HtmlLinkReader()
    reader.feed(response.text())
    return reader


@dataclass
class ReferenceCrawl:
    """What an independent, obedient, breadth-first crawler over a socket saw."""

    depths: dict[str, int] = field(default_factory=dict)
    answers: dict[str, Response] = field(default_factory=dict)


def reference_crawl(web: WebInThread, roots: list[str], depth_max: int | None = None) -> ReferenceCrawl:
    seen = ReferenceCrawl()
    robots: dict[str, Protego | None] = {}
    waiting = deque((root, 0) for root in roots)
    while waiting:
        url, depth = waiting.popleft()
        origin = re.match(r"http://[^/]+", url)
        assert origin, url
        if origin[0] not in robots:
            answer = web.get(origin[0] + "/robots.txt")
            found = answer.status == 200
            robots[origin[0]] = Protego.parse(answer.body.decode("utf-8-sig")) if found else None
        rules = robots[origin[0]]
        if url in seen.depths or (depth_max is not None and depth > depth_max):
            continue
        if rules is not None and not rules.can_fetch(url, "tarrafa"):
            continue
        seen.depths[url] = depth
        answer = seen.answers[url] = web.get(url)
        if 300 <= answer.status < 400:
            waiting.appendleft((canonical(answer.headers["location"], url), depth))
        elif answer.status == 200 and answer.type == "text/html":
            waiting.extend((link, depth + 1) for link in followed(answer, url))
    return seen


def followed(answer: Response, url: str) -> list[str]:
    page = read(answer)
    if "nofollow" in page.robots + answer.headers.get("x-robots-tag", ""):
        return []
    base = canonical(page.base, url) if page.base else url
    targets = (canonical(href, base) for href, rel, _ in page.links if "nofollow" not in rel.lower())
    return [target for target in targets if target.startswith("http://")]
