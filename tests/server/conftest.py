"""A running site over a small crawled Web, hostile pages included."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from html import unescape
from http.client import HTTPConnection, HTTPResponse
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from tarrafa.frontier.messages import CollectionStatus, FrontierOverview, RegisteredWorker
from tarrafa.graph import follower as graph
from tarrafa.graph.ranking_process import compute_rankings
from tarrafa.index import follower as index
from tarrafa.model import Link, PageDate, VisitRecord
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.app import SiteSettings, StatusSource
from tarrafa.server.http_server import serve
from tests.graph.archived_web import a_record, new_data, small_web, write
from tests.search.sample_pages import LONG, a_page

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>"
HOSTILE_URL = "http://evil.test/?%22%3E%3Cscript%3E"


class RunningSite:
    """The site in a thread of its own, and a client."""

    def __init__(
        self,
        data: DataDirectory,
        status: StatusSource | None = None,
        listening: socket.socket | None = None,
        **more: Any,
    ) -> None:

        self.address = ""
        self._ready = threading.Event()
        self._data, self._listening = data, listening
        self._settings = SiteSettings(status=status, **more)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        await serve(
            self._data, self._settings, port=0, stop=self._stop, on_ready=self._on_ready, listening=self._listening
        )

    def _on_ready(self, address: str) -> None:
        self.address = address
        self._ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)
        assert not self._thread.is_alive()

    def get(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> tuple[HTTPResponse, str]:
        connection = HTTPConnection(urlsplit(self.address).netloc, timeout=30)
        try:
            connection.request(method, path, headers=headers or {})
            response = connection.getresponse()
            return response, response.read().decode()
        finally:
            connection.close()


def links(text: str) -> list[str]:
    """Where a page leads."""
    return [unescape(href) for href in re.findall(r'href="([^"]*)"', text)]


def hostile_pages() -> list[VisitRecord]:
    links = [Link("http://evil.test/x", HOSTILE, 'x" onmouseover="alert(3)'), Link("http://h0.br.test/", "x")]
    return [
        a_record(HOSTILE_URL, links=links, title=f"zaragata {HOSTILE}", text=f"zaragata {HOSTILE} & mais"),
        a_record(
            "http://many.test/", links=[f"http://many.test/{n}" for n in range(120)], title="Muitos", text="muitos"
        ),
        *(a_record(f"http://many.test/{n}", links=["http://many.test/"], text=f"volta {n}") for n in range(120)),
    ]


def dated_pages() -> list[VisitRecord]:
    return [
        a_record("http://dated.test/a", text="um dia de maio", published=PageDate(1_242_518_400, "meta")),
        a_record("http://dated.test/b", text="um dia de julho", modified=PageDate(1_277_942_400, "meta")),
    ]


def same_pages() -> list[VisitRecord]:
    """One text at four addresses, one at two, one alone."""
    mirrored, twice = f"espelho {LONG}", f"espelho e moldura {LONG[::-1]}"
    return [
        *(a_page(f"http://m{n}.test/{'x' * n}", mirrored, "A água como espelho & mais") for n in range(4)),
        *(a_page(f"http://m{n}.test/moldura", twice, "A moldura") for n in range(2)),
        a_page("http://m0.test/s", f"espelho só {LONG[::2]}", "Um espelho sozinho"),
    ]


async def a_status() -> FrontierOverview:
    one = CollectionStatus("small", "running", "", 1234, 150, 20, 3, 7, 41.5)
    return FrontierOverview([one], [RegisteredWorker("w1", 4711, 12, 20.0)])


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> DataDirectory:
    data = new_data(tmp_path_factory.mktemp("serve") / "data")
    write(data, small_web(150))
    write(data, hostile_pages(), "w2")
    write(data, same_pages(), "w3")
    write(data, dated_pages(), "w4")
    graph.catch_up(data, lambda name, weights: None)
    compute_rankings(data)
    index.catch_up(data)
    return data


@pytest.fixture(scope="session")
def site(small: DataDirectory) -> Iterator[RunningSite]:
    with RunningSite(small, a_status) as running:
        yield running
