"""A real console over a real frontier with one collection that was crawled: what `tarrafa node` serves, in a thread."""

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tarrafa import credentials
from tarrafa.clock import Clock
from tarrafa.coordinator.audit import AuditLog, as_json
from tarrafa.coordinator.node.coordinator_node import CoordinatorNode
from tarrafa.coordinator.suggestions import Suggestions
from tarrafa.crawl.supervisor.frontier_link import LocalFrontierLink
from tarrafa.frontier.messages import FrontierOverview
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token
from tarrafa.server.app import SiteSettings
from tarrafa.server.auth.authentication import Authenticator
from tarrafa.server.console.console import Console
from tarrafa.server.coordinator_site import add_coordinator_routes
from tarrafa.server.http_server import serve
from tarrafa.server.internal.node_endpoint import create_node_app as create_joined_app
from tests.journey.scripted_web import ScriptedResponse, ScriptedWeb, links, scripted_web
from tests.server.console.example_console import ADMIN, TOKEN, VIEWER, ConsoleClient
from tests.wait import block_until

READY_S = 60
NAME, NODE = "small", "here"
PAGES = {
    "http://www.site.test/": links("/a", "/b", "/gone"),
    "http://www.site.test/a": links("/", "/b"),
    "http://www.site.test/b": links("/a"),
}


def answer(url: str, _: int) -> ScriptedResponse | None:
    said = PAGES.get(url)
    return None if said is None else ScriptedResponse(said.body + url.encode(), headers=said.headers)


def a_table(web: ScriptedWeb, name: str = NAME, root: str = "http://www.site.test/", **more: Any) -> dict[str, Any]:
    """A collection of that Web, for programs."""
    return {
        "name": name,
        "roots": [root],
        "politeness": {"delay": 0.01},
        "fetch": {"sitemaps": False, "feeds": False},
        "network": {"connect_to": {"*.test": f"127.0.0.1:{web.port}"}},
        **more,
    }


class CoordinatorSite:
    """The site, and how it is talked to."""

    def __init__(self, data: DataDirectory, web: ScriptedWeb) -> None:
        self.data, self.web, self.told = data, web, list[str]()
        clock = Clock.real()
        self.entry = Authenticator(
            data,
            clock.now,
            Token(TOKEN.encode()),
            audit=AuditLog(data, clock.now, lambda line: self.told.append(as_json(line))),
        )
        self.console, self.address, self._clock = Console(self.entry), "", clock
        self.home: CoordinatorNode | None = None
        self._states: dict[str, str] = {}
        self._visits: dict[str, int] = {}
        self._news, self._ready = threading.Condition(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live()))
        self._trouble: BaseException | None = None

    async def _live(self) -> None:
        try:
            self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
            token, say = Token(TOKEN.encode()), self.told.append
            keeper = LocalFrontierLink(self.data, self._clock, ("127.0.0.1", 0), token, say, patient=True)
            async with CoordinatorNode(self.data, NODE, 1, self._clock, say, keeper) as home:
                self.home = home
                add_coordinator_routes(self.console, home, token)
                settings = SiteSettings(
                    status=home.overview,
                    console=self.console,
                    address=home.frontier_address,
                    nodes=create_joined_app(home.coordinator.nodes, token, home.make_join_response, time.time),
                )
                serving = asyncio.create_task(
                    serve(self.data, settings, port=0, stop=self._stop, on_ready=self._on_ready)
                )
                working = asyncio.create_task(self._work(home))
                stopped = asyncio.create_task(self._stop.wait())
                await asyncio.wait({serving, working, stopped}, return_when=asyncio.FIRST_COMPLETED)
                self._stop.set()
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working
                await serving
        except BaseException as error:
            self._trouble = error
            self._ready.set()
            raise

    async def _work(self, home: CoordinatorNode) -> None:
        async for overview in home.overviews():
            self._on_overview(overview)

    def _on_ready(self, address: str) -> None:
        self.address = address
        self._ready.set()

    def _on_overview(self, overview: FrontierOverview) -> None:
        assert self.home is not None
        runs = self.home.coordinator.store.runs
        with self._news:  # what the coordinator has noted counts, a moment after it has happened
            self._states = {
                one.name: one.state
                for one in overview.collections
                if one.state != "finished" or all(run.ended is not None for run in runs(one.name))
            }
            self._visits = {one.name: one.visits for one in overview.collections}
            self._news.notify_all()

    def __enter__(self) -> "CoordinatorSite":
        self._thread.start()
        assert self._ready.wait(READY_S)
        assert self._trouble is None, self._trouble
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(READY_S)
        assert not self._thread.is_alive()

    def wait_for(self, name: str, *states: str) -> None:
        with self._news:
            assert self._news.wait_for(lambda: self._states.get(name) in states, READY_S), (name, self._states)

    def wait_for_visits(self, name: str, count: int) -> None:
        """Until so many were made, and it has finished."""

        def is_so() -> bool:
            return self._visits.get(name, 0) >= count and self._states.get(name) == "finished"

        with self._news:
            assert self._news.wait_for(is_so, READY_S), (name, self._visits, self._states)

    def on_loop(self, do: Callable[[], Any]) -> Any:
        """Where the coordinator lives."""

        async def done() -> Any:
            return do()

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result(READY_S)

    # -- talking to it

    def client(self, **headers: str) -> ConsoleClient:
        return ConsoleClient(self.address, {name.replace("_", "-"): value for name, value in headers.items()})

    def program(self) -> ConsoleClient:
        return self.client(Authorization=f"Bearer {TOKEN}")

    def signed_in(self, who: tuple[str, str]) -> ConsoleClient:
        client = self.client()
        assert client.sign_in(*who).code == 303
        return client

    def csrf(self, client: ConsoleClient) -> str:
        """What this one's forms bring along."""
        return client.get("/console").text.partition('name="csrf" value="')[2].partition('"')[0]

    def state(self) -> dict[str, Any]:
        """All that somebody could have changed, as it is when nothing goes on by itself any more."""

        def read() -> dict[str, Any]:
            assert self.home is not None
            coordinator = self.home.coordinator
            overview = coordinator.overview.current or FrontierOverview([], [])
            names = [one.name for one in overview.collections]
            return {
                "states": {one.name: (one.state, one.revision, one.run) for one in overview.collections},
                "versions": {name: len(coordinator.store.versions(name)) for name in names},
                "lives": {name: coordinator.store.lifecycle(name) for name in names},
                "runs": {name: coordinator.store.runs(name) for name in names},
                "orders": {node.node.name: node.node.orders for node in coordinator.monitor.snapshot().nodes},
                "accounts": self.entry.accounts.all_accounts(),
                "suggestions": Suggestions(self.data).list_waiting(),
                "secrets": {name: credentials.list_redacted(self.data, name) for name in names},
            }

        found: dict[str, Any] = {}

        def nothing_runs() -> bool:
            found.update(self.on_loop(read))
            moving = [name for name, (state, *_) in found["states"].items() if state == "running"]
            return not moving and all(run.ended is not None for runs in found["runs"].values() for run in runs)

        block_until(nothing_runs)
        return found


def contents(folder: Path, ending: str = "") -> dict[Path, bytes]:
    """What every file below holds whose name ends so. Those who follow are at work: what is gone by now is left out."""
    found: dict[Path, bytes] = {}
    for place, _, names in os.walk(folder):
        for path in (Path(place, name) for name in names if name.endswith(ending)):
            with contextlib.suppress(FileNotFoundError):
                found |= {path: path.read_bytes()} if path.is_file() else {}
    return found


@contextmanager
def coordinator_site(folder: Path) -> Iterator[CoordinatorSite]:
    """With an admin, a viewer, a token, and one small collection that is finished."""
    data = DataDirectory(folder / "d")
    data.create()
    with scripted_web(answer) as web, CoordinatorSite(data, web) as site:
        site.entry.accounts.add(ADMIN[0], "admin", ADMIN[1], 0.0)
        site.entry.accounts.add(VIEWER[0], "viewer", VIEWER[1], 0.0)
        made = site.program().send("POST", "/api/v1/collections", {"table": a_table(web), "start": True})
        assert made.code == 201, made.text
        site.wait_for(NAME, "finished")
        yield site
