"""A façade over a real frontier with false clocks, spoken to in process: no sockets to clients, no waiting."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import Message

from tarrafa.archive.warc_reader import follow
from tarrafa.frontier.messages import CollectionRow, UrlFacts
from tarrafa.frontier.rpc import frontier_server
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.graph import follower as graph
from tarrafa.model import VisitRecord
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.app import create_app
from tarrafa.server.crawler_api.crawler_service import CrawlerService
from tarrafa.server.crawler_api.routes import create_crawler_api_app as create_crawlers_app
from tests.contract.frontier_bodies import SUFFIXES, FalseClock, FalseLeaseClock, a_collection, offer

TOKEN = b"a token of many letters"
NETWORK: dict[str, object] = {"connect_to": {"*.test": "127.0.0.1:9"}}
Json = dict[str, Any]


class FrozenClock(FalseClock):
    """Shows the same at any boot time: it agrees with the frontier's, which the test moves as well."""

    def at(self, boot_time: float) -> float:
        return self.now()


@dataclass
class AsgiResponse:
    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        found: Json = json.loads(self.body)
        return found


async def asgi_request(app: Any, method: str, path: str, body: bytes = b"", **headers: str) -> AsgiResponse:
    """One request, as an ASGI server would bring it."""
    head, _, query = path.partition("?")
    lines = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "path": head,
        "raw_path": head.encode("latin-1", "replace"), "query_string": query.encode("latin-1", "replace"),
        "root_path": "", "scheme": "http", "server": ("127.0.0.1", 8080), "client": ("127.0.0.1", 1),
        "headers": [(b"host", b"127.0.0.1:8080"), *lines],
    }  # fmt: skip
    parts, sent = [body], list[Message]()

    async def receive() -> Message:
        return {"type": "http.request", "body": parts.pop() if parts else b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    start, *rest = sent
    fields = {name.decode().lower(): value.decode() for name, value in start["headers"]}
    return AsgiResponse(start["status"], fields, b"".join(part.get("body", b"") for part in rest))


@dataclass
class CrawlerApiHarness:
    """Everything that a scene needs."""

    data: DataDirectory
    frontier: SqliteFrontier
    facade: CrawlerService
    row: CollectionRow
    server: asyncio.Server
    app: Any = None

    def __post_init__(self) -> None:
        self.app = create_app(self.data, crawlers=create_crawlers_app(self.facade, TOKEN))

    async def post(self, what: str, crawler: str = "ana", **said: Any) -> AsgiResponse:
        body = json.dumps({"crawler": crawler, **said}).encode()
        return await asgi_request(self.app, "POST", f"/crawl/v1/{what}", body, authorization=f"Bearer {TOKEN.decode()}")

    async def post_ok(self, what: str, crawler: str = "ana", **said: Any) -> Json:
        answer = await self.post(what, crawler, **said)
        assert answer.code == 200, answer.body
        return answer.json

    async def work(self, crawler: str = "ana", hosts: int = 1) -> list[Json]:
        visits: list[Json] = (await self.post_ok("work", crawler, hosts=hosts))["visits"]
        return visits

    async def arrive(self, crawler: str = "ana", rules: str = "", hosts: int = 1) -> list[Json]:
        """Take hosts, and bring their robots.txt."""
        for one in await self.work(crawler, hosts):
            if one["role"] == "robots":
                await self.post_ok("type", crawler, url=one["url"], visit=0, status=200, text=rules)
        return await self.work(crawler, hosts)

    async def links(self, visit: Json, *targets: Any, crawler: str = "ana", **more: Any) -> Json:
        told = [{"url": target} if isinstance(target, str) else target for target in targets]
        return await self.post_ok("links", crawler, **{"from": visit["url"]}, visit=visit["visit"], to=told, **more)

    async def bring(self, visit: Json, crawler: str = "ana", **said: Any) -> Json:
        """Tell what came of a visit: a page, unless something else is said."""
        said = said or {"status": 200, "type": "text/html", "title": "T", "text": f"text of {visit['url']}"}
        return await self.post_ok("type", crawler, url=visit["url"], visit=visit["visit"], **said)

    async def discover(self, *urls: str) -> None:
        await self.frontier.discover(self.row.id, [offer(url) for url in urls])

    async def facts(self, url: str) -> UrlFacts | None:
        found = await self.frontier.look_up(host_id(host_key(url)), url_id(url))
        return found.urls[0] if found.urls else None

    async def state(self, url: str) -> str:
        found = await self.facts(url)
        return found.state if found is not None else "unknown"

    def archived(self) -> list[VisitRecord]:
        return [entry.record for entry in follow(self.data.archive, {})]

    def follow_links(self) -> None:
        graph.catch_up(self.data, lambda collection, weights: None)

    async def lose_frontier(self) -> None:
        self.server.close()
        Path(self.data.socket).unlink()
        for relay in self.facade._relays.values():
            await relay._frontier.close()

    async def find_frontier(self) -> None:
        self.server = await frontier_server.serve_unix(self.frontier, self.data.socket)

    async def restart(self) -> None:
        """As if the process had been killed and started again: nobody says goodbye, only the kernel lets go."""
        await kill(self.facade)
        self.facade = CrawlerService(self.data, clock=FrozenClock(0, 0))
        await self.facade.__aenter__()
        self.__post_init__()


async def kill(facade: CrawlerService) -> None:
    for relay in facade._relays.values():
        for task in relay._background:  # first of all: nothing more is committed
            task.cancel()
        await relay._sessions.abandon()
        await asyncio.gather(*relay._background, return_exceptions=True)
        await relay._frontier.close()
    assert facade._sweeping is not None
    facade._sweeping.cancel()
    facade._open_store.close()


@asynccontextmanager
async def crawler_api_harness(
    data: DataDirectory, *urls: str, **sections: dict[str, object]
) -> AsyncIterator[CrawlerApiHarness]:
    """A frontier that runs a collection with these URLs, and a façade before it."""
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0
    frontier = SqliteFrontier(data.frontier, FalseClock(0, 0), SUFFIXES, lease_clock=FalseLeaseClock())
    server = await frontier_server.serve_unix(frontier, data.socket)
    described = {"network": NETWORK} | sections
    row = await frontier.open_collection(a_collection("c", **described))
    api = CrawlerApiHarness(data, frontier, CrawlerService(data, clock=FrozenClock(0, 0)), row, server)
    await api.facade.__aenter__()
    try:
        await api.discover(*urls)
        yield api
    finally:
        await api.facade.__aexit__()
        api.server.close()
        await frontier.close()
