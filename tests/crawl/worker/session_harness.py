"""A host session with a false clock, a fetcher that answers 404, and a committer that reports at once."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import cast

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.collection_state import CollectionInForce
from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.outcome import FinishedVisit
from tarrafa.crawl.worker.parser_with_sandbox import DecodedBody, ParseJobResult
from tarrafa.crawl.worker.politeness import HostResolver
from tarrafa.crawl.worker.resource_limits import OverloadControl
from tarrafa.crawl.worker.robots_fetch import RobotsCache, robots_digest
from tarrafa.crawl.worker.stats import WorkerNotices
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, ResponseHead
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import DiscoveredUrl, Lease, RobotsCopy
from tarrafa.model import HostId, Status, Visit
from tarrafa.parse.url import host_id, url_id

HOST = "http://www.a.br:80"
BEGAN = 1_000.0


class FalseClock(Clock):
    """Nobody waits: whoever sleeps moves it. `meanwhile` is what happens while somebody sleeps."""

    def __init__(self) -> None:
        super().__init__(0.0, 0.0)
        self.moment: list[float]
        self.meanwhile: list[Callable[[], None]]
        object.__setattr__(self, "moment", [BEGAN])
        object.__setattr__(self, "meanwhile", [])

    __slots__ = ("meanwhile", "moment")

    def now(self) -> float:
        return self.moment[0]

    async def sleep_until(self, moment: float) -> None:
        if moment > self.now() and self.meanwhile:
            self.meanwhile.pop(0)()
            await asyncio.sleep(0)  # lets the loop run once, so that the sleeper can be woken
        self.moment[0] = max(self.moment[0], moment)


@dataclass
class FakeFetcher:
    """Answers every request after `took_s`, and writes down when it was made."""

    clock: Clock
    took_s: float = 0.0
    asked: list[tuple[str, float, str]] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    on_request: list[Callable[[FetchRequest], None]] = field(default_factory=list)

    async def fetch(self, request: FetchRequest, collection: Collection, visit: Visit | None) -> FetchResponse:
        for heard in self.on_request:
            heard(request)
        if not request.is_wanted():
            return FetchResponse(Status.NOT_SENT)
        self.asked.append((request.url, self.clock.now(), dict(request.headers)["User-Agent"]))
        if isinstance(self.clock, FalseClock):
            self.clock.moment[0] += self.took_s
        self.ended.append(self.clock.now())
        return FetchResponse(404, ResponseHead(404, ()), b"HTTP/1.1 404 Gone\r\n\r\n", elapsed_s=self.took_s)

    def hold_body(self, size: int) -> AbstractContextManager[None]:
        return nullcontext()


@dataclass
class FakeCommitter:
    """Every visit is reported at once, unless the frontier is silent."""

    is_silent: bool = False
    done: list[FinishedVisit] = field(default_factory=list)
    gone: list[HostSession] = field(default_factory=list)

    def record_visit(self, session: HostSession, done: FinishedVisit) -> None:
        self.done.append(done)
        if not self.is_silent:
            session.visits.settle(1, [])

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None: ...

    def archive_exchange(self, request: FetchRequest, response: FetchResponse) -> None: ...

    def request_commit(self) -> None: ...

    def return_host(self, session: HostSession) -> None:
        self.gone.append(session)


class NoParser:
    def __init__(self, *, parses_later: bool) -> None:
        self.parses_later = parses_later

    async def decode_and_parse(
        self, decode: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]:
        raise AssertionError("there is nothing to parse")


class NoFrontier:
    """Only robots.txt texts are asked for here."""

    def __init__(self, rules_text: bytes) -> None:
        self._rules_text = rules_text

    async def robots_text(self, digest: bytes) -> bytes:
        return self._rules_text


class FakeRegistration:
    worker = 1

    def is_valid(self) -> bool:
        return True


class Surroundings:
    """All that a session is given."""

    def __init__(
        self, rules_text: bytes = b"", took_s: float = 0.0, *, current: bool = True, clock: Clock | None = None
    ) -> None:
        self.clock = clock or FalseClock()
        self.fetcher, self.committer = FakeFetcher(self.clock, took_s), FakeCommitter()
        self.current = current
        self.rules_text, self.parses_later = rules_text, True

    @property
    def asked(self) -> list[tuple[str, float, str]]:
        return self.fetcher.asked

    @property
    def meanwhile(self) -> list[Callable[[], None]]:
        assert isinstance(self.clock, FalseClock)
        return self.clock.meanwhile

    def session(self, lease: Lease, collection: Collection) -> HostSession:
        frontier = cast("Frontier", NoFrontier(self.rules_text))
        return HostSession(
            lease,
            in_force(collection),
            clock=self.clock,
            fetcher=self.fetcher,
            parser=NoParser(parses_later=self.parses_later),
            committer=self.committer,
            resolver=HostResolver(no_claim),
            robots_cache=RobotsCache(frontier, FakeRegistration()),
            overload=OverloadControl([], lambda share: 1, WorkerNotices("", str)),
            is_current=lambda number, since: self.current,
        )


async def no_claim(host: HostId, address: str) -> float:
    raise AssertionError("the address is configured")


def in_force(collection: Collection) -> CollectionInForce:
    return CollectionInForce(1, collection, Admission(collection))


def a_collection(**sections: dict[str, object]) -> Collection:
    table: dict[str, object] = {
        "name": "c",
        "roots": ["http://www.a.br/"],
        "scope": {"hosts": ["*.br"]},
        "network": {"connect_to": {"*.br": "127.0.0.1:1"}},
    }
    return config.collection_from_table(table | sections, "test")


def a_session(around: Surroundings, collection: Collection, urls: list[str], **known: float) -> HostSession:
    visits = [Visit(1, host_id(HOST), url_id(url), url, 1, 0, 1) for url in urls]
    facts = {"next_at": 0.0, "ended_at": 0.0, "delay_s": 0.0} | known
    robots = RobotsCopy(200, robots_digest(around.rules_text), 1e12)
    lease = Lease(host_id(HOST), HOST, 1, 1, facts["next_at"], facts["ended_at"], facts["delay_s"], 0, robots, visits)
    return around.session(lease, collection)


def pages(count: int) -> list[str]:
    return [f"http://www.a.br/{number}" for number in range(count)]


def adopt(session: HostSession, collection: Collection) -> None:
    session.apply_configuration(in_force(collection))
