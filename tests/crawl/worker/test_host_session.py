"""A session with one host: its delay, and what becomes of a session whose collection is changed or paused."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.worker.collection_state import CollectionInForce
from tarrafa.crawl.worker.host_resolver import HostResolver
from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.outcome import DecodedBody, FinishedVisit
from tarrafa.crawl.worker.overload import OverloadControl
from tarrafa.crawl.worker.parser_process import ParseJobResult
from tarrafa.crawl.worker.robots_fetch import RobotsCache
from tarrafa.crawl.worker.stats import WorkerNotices
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, ResponseHead
from tarrafa.frontier.api import CachedRobots, DiscoveredUrl, Frontier, Lease
from tarrafa.model import HostId, Status, Visit
from tarrafa.parse.url import host_id, host_key, url_id

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
            await asyncio.sleep(0)  # where a sleeper is woken
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
    """Every visit is reported at once."""

    done: list[FinishedVisit] = field(default_factory=list)
    gone: list[HostSession] = field(default_factory=list)

    def record_visit(self, session: HostSession, done: FinishedVisit) -> None:
        session.visits.settle(1, [])
        self.done.append(done)

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None: ...

    def archive_robots(self, request: FetchRequest, response: FetchResponse) -> None: ...

    def request_commit(self) -> None: ...

    def release_host(self, session: HostSession) -> None:
        self.gone.append(session)


class NoParser:
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


class FakeLease:
    worker = 1

    def holds_lease(self) -> bool:
        return True


class Surroundings:
    """All that a session is given."""

    def __init__(
        self, rules_text: bytes = b"", took_s: float = 0.0, *, current: bool = True, clock: Clock | None = None
    ) -> None:
        self.clock = clock or FalseClock()
        self.fetcher, self.committer = FakeFetcher(self.clock, took_s), FakeCommitter()
        self.current = current
        self.rules_text = rules_text

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
            parser=NoParser(),
            committer=self.committer,
            resolver=HostResolver(no_claim),
            robots=RobotsCache(frontier, FakeLease()),
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
    robots = CachedRobots(200, b"digest", 1e12)
    lease = Lease(host_id(HOST), HOST, 1, 1, facts["next_at"], facts["ended_at"], facts["delay_s"], 0, robots, visits)
    return around.session(lease, collection)


def pages(count: int) -> list[str]:
    return [f"http://www.a.br/{number}" for number in range(count)]


def adopt(session: HostSession, collection: Collection) -> None:
    session.apply_configuration(in_force(collection))


def test_the_hosts_of_these_tests_are_named_as_the_crawl_names_them():
    assert host_key("http://www.a.br/x") == HOST


@pytest.mark.parametrize(
    ("delays", "name", "port", "expected"),
    [
        ({}, "www.usp.br", "", 2.0),
        ({"*.usp.br": 10}, "www.usp.br", "", 10.0),
        ({"*.usp.br": 10}, "usp.br", "", 2.0),
        ({"*.br": 5, "*.usp.br": 10}, "a.b.usp.br", "", 10.0),
        ({"*.usp.br": 10, "www.usp.br": 0.5}, "www.usp.br", "", 0.5),
        ({"*.a-long-name.usp.br:8080": 7, "x.a-long-name.usp.br": 3}, "x.a-long-name.usp.br", "8080", 3.0),
        ({"www.usp.br": 4, "www.usp.br:8080": 6}, "www.usp.br", "8080", 6.0),
        ({"www.usp.br:8080": 6}, "www.usp.br", "", 2.0),
        ({"*": 9}, "www.usp.br", "", 9.0),
        ({"*": 9, "*.br": 5}, "www.usp.br", "", 5.0),
        ({"*.SÃO.br": 8}, "www.xn--so-sia.br", "", 8.0),
        ({"127.0.0.1:8080": 3}, "127.0.0.1", "8080", 3.0),
    ],
)  # fmt: skip
def test_a_host_has_the_delay_of_the_most_exact_pattern_that_matches_it(delays, name, port, expected):
    assert a_collection(politeness={"delay": 2, "delays": delays}).delay_for(name, port) == expected


@settings(max_examples=200, deadline=None)
@given(
    own=st.one_of(st.none(), st.floats(0, 9)),
    delay=st.floats(0, 9),
    asked=st.one_of(st.none(), st.integers(0, 20)),
    factor=st.floats(0, 10),
    took=st.floats(0, 2),
    edited=st.one_of(st.none(), st.floats(0, 9)),
)
def test_a_host_is_never_asked_sooner_than_its_delay_its_robots_and_its_slowness_allow(
    own, delay, asked, factor, took, edited
):
    politeness = {"delay": delay, "delay_factor": factor, "delays": {} if own is None else {"*.a.br": own}}
    rules = f"User-agent: *\nCrawl-delay: {asked}\n".encode() if asked is not None else b""
    around = Surroundings(rules_text=rules, took_s=took)
    session = a_session(around, a_collection(politeness=politeness), pages(6))
    wanted = [delay if own is None else own]
    if edited is not None:

        def edit() -> None:
            wanted.append(edited)
            adopt(session, a_collection(politeness=politeness | {"delays": {"www.a.br": edited}}))

        around.meanwhile.append(edit)
    asyncio.run(session.run())
    for before, (_, at, _) in zip(around.fetcher.ended, around.asked[1:], strict=False):
        least = max(min(wanted), min(float(asked or 0), 300.0), min(factor * took, 300.0))
        assert at - before >= least - 1e-6
    assert session.pacing.delay_s >= max(wanted[-1], float(asked or 0))


def test_a_host_that_may_be_asked_more_often_than_others_is():
    around = Surroundings()
    asyncio.run(a_session(around, a_collection(politeness={"delay": 5, "delays": {"www.a.br": 0.5}}), pages(3)).run())
    assert [at - BEGAN for _, at, _ in around.asked] == [0.0, 0.5, 1.0]


def test_a_longer_delay_holds_for_who_waits_already():
    around = Surroundings()
    session = a_session(around, a_collection(politeness={"delay": 1}), pages(3))
    around.meanwhile.append(lambda: adopt(session, a_collection(politeness={"delay": 4})))
    asyncio.run(session.run())
    assert [at - BEGAN for _, at, _ in around.asked] == [0.0, 4.0, 8.0]


def test_an_excluded_url_in_hand_ends_without_a_request_even_while_we_wait_for_its_turn():
    around = Surroundings()
    session = a_session(around, a_collection(), [*pages(2), "http://www.a.br/private/1", "http://www.a.br/x"])
    excluding = a_collection(scope={"hosts": ["*.br"], "exclude": ["*/1", "*/private/*"]})
    around.meanwhile.append(lambda: adopt(session, excluding))
    asyncio.run(session.run())
    assert [url for url, _, _ in around.asked] == ["http://www.a.br/0", "http://www.a.br/x"]
    refused = [done.visit.url for done in around.committer.done if done.record.outcome.status == Status.OUT_OF_SCOPE]
    assert refused == ["http://www.a.br/1", "http://www.a.br/private/1"]


def test_the_next_request_has_the_new_name():
    around = Surroundings()
    session = a_session(around, a_collection(), pages(2))
    around.meanwhile.append(lambda: adopt(session, a_collection(politeness={"user_agent": "Rede/2"})))
    asyncio.run(session.run())
    assert [agent.partition("/")[0] for _, _, agent in around.asked] == ["Tarrafa", "Rede"]


def test_no_request_leaves_when_there_is_news_that_the_walk_has_not_heard_yet():
    around = Surroundings(current=False)
    asyncio.run(a_session(around, a_collection(), pages(2)).run())
    assert not around.asked
    assert len(around.committer.gone) == 1


def test_what_rests_makes_no_further_request_and_what_it_had_in_hand_goes_back():
    around = Surroundings()
    session = a_session(around, a_collection(), pages(5))
    around.meanwhile.append(session.leave)
    asyncio.run(session.run())
    assert [url for url, _, _ in around.asked] == pages(1)
    assert len(around.committer.done) == 1
    assert around.committer.gone == [session]


def test_a_walk_that_waits_for_its_delay_is_woken_to_leave():
    async def scene() -> None:
        around = Surroundings(clock=Clock.real())
        session = a_session(around, a_collection(), pages(1), next_at=around.clock.now() + 9.0)
        task = asyncio.create_task(session.run())
        while not session.requests.is_waiting:
            await asyncio.sleep(0)
        session.leave()
        async with asyncio.timeout(60):
            await task
        assert not around.asked
        assert around.committer.gone == [session]

    asyncio.run(scene())


@pytest.mark.parametrize("what", ["excluded", "paused"])
def test_what_changes_while_a_connection_is_made_counts_before_the_first_byte(what):
    around = Surroundings()
    session = a_session(around, a_collection(), pages(2))
    excluding = a_collection(scope={"hosts": ["*.br"], "exclude": ["*/0"]})
    around.fetcher.on_request.append(lambda request: session.leave() if what == "paused" else adopt(session, excluding))
    asyncio.run(session.run())
    assert not around.asked
    assert around.committer.gone == [session]


@pytest.mark.parametrize(
    "section",
    [
        {"network": {"connect_to": {"*.br": "127.0.0.1:2"}}},
        {"politeness": {"robots": "ignore"}},
        {"politeness": {"per_ip": False}},
    ],
)
def test_a_walk_ends_when_what_it_found_out_on_arrival_may_not_hold_any_more(section):
    around = Surroundings()
    session = a_session(around, a_collection(), pages(3))
    around.meanwhile.append(lambda: adopt(session, a_collection(**section)))
    asyncio.run(session.run())
    assert len(around.asked) == 1


def test_a_failing_host_rests_as_long_as_before_whatever_is_edited():
    around = Surroundings()
    session = a_session(around, a_collection(), pages(1))
    session.requests.back_off(0.0, "no answer")
    rests_until = session.pacing.next_at
    adopt(session, a_collection(politeness={"delay": 0}))
    assert session.pacing.next_at == rests_until > BEGAN + 59
