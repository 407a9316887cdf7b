"""A session with one host: its delay, and what becomes of a session whose collection is changed or paused."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.relay.remote_fetch import RemoteParser
from tarrafa.crawl.worker import host_session
from tarrafa.crawl.worker.politeness import HostResolver, ResolvedHost
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.frontier.messages import Lease, NextVisits
from tarrafa.model import HostId, Status, Visit
from tarrafa.parse.url import host_id, host_key, url_id
from tests.crawl.worker.session_harness import (
    BEGAN,
    HOST,
    Surroundings,
    a_collection,
    a_session,
    adopt,
    no_claim,
    pages,
)
from tests.wait import wait_until


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


async def test_a_host_that_may_be_asked_more_often_than_others_is():
    around = Surroundings()
    await a_session(around, a_collection(politeness={"delay": 5, "delays": {"www.a.br": 0.5}}), pages(3)).run()
    assert [at - BEGAN for _, at, _ in around.asked] == [0.0, 0.5, 1.0]


async def test_a_longer_delay_holds_for_who_waits_already():
    around = Surroundings()
    session = a_session(around, a_collection(politeness={"delay": 1}), pages(3))
    around.meanwhile.append(lambda: adopt(session, a_collection(politeness={"delay": 4})))
    await session.run()
    assert [at - BEGAN for _, at, _ in around.asked] == [0.0, 4.0, 8.0]


async def test_an_excluded_url_in_hand_ends_without_a_request_even_while_we_wait_for_its_turn():
    around = Surroundings()
    session = a_session(around, a_collection(), [*pages(2), "http://www.a.br/private/1", "http://www.a.br/x"])
    excluding = a_collection(scope={"hosts": ["*.br"], "exclude": ["*/1", "*/private/*"]})
    around.meanwhile.append(lambda: adopt(session, excluding))
    await session.run()
    assert [url for url, _, _ in around.asked] == ["http://www.a.br/0", "http://www.a.br/x"]
    refused = [done.visit.url for done in around.committer.done if done.record.outcome.status == Status.OUT_OF_SCOPE]
    assert refused == ["http://www.a.br/1", "http://www.a.br/private/1"]


async def test_the_next_request_has_the_new_name():
    around = Surroundings()
    session = a_session(around, a_collection(), pages(2))
    around.meanwhile.append(lambda: adopt(session, a_collection(politeness={"user_agent": "Rede/2"})))
    await session.run()
    assert [agent.partition("/")[0] for _, _, agent in around.asked] == ["Tarrafa", "Rede"]


async def test_no_request_leaves_when_there_is_news_that_the_walk_has_not_heard_yet():
    around = Surroundings(current=False)
    await a_session(around, a_collection(), pages(2)).run()
    assert not around.asked
    assert len(around.committer.gone) == 1


async def test_what_rests_makes_no_further_request_and_what_it_had_in_hand_goes_back():
    around = Surroundings()
    session = a_session(around, a_collection(), pages(5))
    around.meanwhile.append(session.stop)
    await session.run()
    assert [url for url, _, _ in around.asked] == pages(1)
    assert len(around.committer.done) == 1
    assert around.committer.gone == [session]


async def test_a_walk_that_waits_for_its_delay_is_woken_to_stop():
    around = Surroundings(clock=Clock.real())
    session = a_session(around, a_collection(), pages(1), next_at=around.clock.now() + 9.0)
    task = asyncio.create_task(session.run())
    await wait_until(lambda: session.polite_fetcher.is_waiting)
    session.stop()
    async with asyncio.timeout(60):
        await task
    assert not around.asked
    assert around.committer.gone == [session]


@pytest.mark.parametrize("what", ["excluded", "paused"])
async def test_what_changes_while_a_connection_is_made_counts_before_the_first_byte(what):
    around = Surroundings()
    session = a_session(around, a_collection(), pages(2))
    excluding = a_collection(scope={"hosts": ["*.br"], "exclude": ["*/0"]})
    around.fetcher.on_request.append(lambda request: session.stop() if what == "paused" else adopt(session, excluding))
    await session.run()
    assert not around.asked
    assert around.committer.gone == [session]


@pytest.mark.parametrize(
    "section",
    [
        {"network": {"allow_private": True}},
        {"politeness": {"robots": "ignore"}},
        {"politeness": {"per_ip": False}},
    ],
)
async def test_a_walk_ends_when_what_it_found_out_on_arrival_may_not_hold_any_more(section):
    around = Surroundings()
    session = a_session(around, a_collection(), pages(3))
    around.meanwhile.append(lambda: adopt(session, a_collection(**section)))
    await session.run()
    assert len(around.asked) == 1


def test_a_failing_host_rests_as_long_as_before_whatever_is_edited():
    around = Surroundings()
    session = a_session(around, a_collection(), pages(1))
    session.polite_fetcher.back_off(0.0, "no answer")
    rests_until = session.pacing.next_at
    adopt(session, a_collection(politeness={"delay": 0}))
    assert session.pacing.next_at == rests_until > BEGAN + 59


class NoSuchName(HostResolver):
    async def resolve(self, name: str, host: HostId, collection: Collection, beside: str | None = None) -> ResolvedHost:
        return ResolvedHost(error=Status.NAME_UNKNOWN, why="it does not resolve", unsure=name == "unsure.br")


@pytest.mark.parametrize(
    ("name", "before", "after"), [("gone.br", 0, 1), ("gone.br", 1, 6), ("unsure.br", 1, 2), ("unsure.br", 5, 6)]
)
async def test_a_name_that_does_not_exist_is_looked_up_once_more_and_then_given_up(name, before, after):
    around, collection = Surroundings(), a_collection(network={})
    key = f"http://{name}:80"
    visit = Visit(1, host_id(key), url_id(f"http://{name}/"), f"http://{name}/", 1, 0, 1)
    session = around.session(Lease(host_id(key), key, 1, 1, 0.0, 0.0, 0.0, before, None, [visit]), collection)
    session._resolver = NoSuchName(no_claim)
    await session.run()
    assert session.build_report([], keep=False).failures == after


def test_robots_txt_is_fetched_again_when_the_frontier_does_not_have_its_text():
    """The server that keeps the text is away: an empty text would allow everything."""
    around = Surroundings(b"User-agent: *\nDisallow: /")
    session = a_session(around, a_collection(), pages(2))
    around.rules_text = b""
    session = around.session(session.lease, a_collection())
    asyncio.run(session.run())
    assert [url for url, _, _ in around.asked] == ["http://www.a.br/robots.txt", *pages(2)], "and now it is not there"


@pytest.mark.parametrize(("delay", "recorded"), [(0, [0, 0, 1, 2]), (1, [0, 1, 2, 3])])
async def test_the_next_request_does_not_wait_for_the_parser_unless_there_is_a_delay(delay, recorded):
    around, before = Surroundings(), list[int]()  # how many visits were recorded when each request was made
    around.fetcher.on_request.append(lambda request: before.append(len(around.committer.done)))
    await a_session(around, a_collection(politeness={"delay": delay, "delay_factor": 0}), pages(4)).run()
    assert before == recorded
    assert [done.visit.url for done in around.committer.done] == pages(4)
    assert len(around.committer.gone) == 1


async def test_an_external_crawler_gets_no_request_before_its_last_result_was_taken():
    around, before = Surroundings(), list[int]()
    around.fetcher.on_request.append(lambda request: before.append(len(around.committer.done)))
    around.parses_later = RemoteParser.parses_later
    await a_session(around, a_collection(politeness={"delay": 0}), pages(3)).run()
    assert before == [0, 1, 2]


async def test_a_session_that_is_cancelled_ends_its_request_before_it_returns_the_host(monkeypatch):
    around, events, asked = Surroundings(), list[str](), asyncio.Event()
    answer = around.fetcher.fetch

    async def fetch(request: FetchRequest, collection: Collection, visit: Visit | None) -> FetchResponse:
        if len(around.asked) < 2:
            return await answer(request, collection, visit)
        asked.set()
        try:
            return await asyncio.Future()
        finally:
            events.append("request ended")

    monkeypatch.setattr(around.fetcher, "fetch", fetch)
    monkeypatch.setattr(around.committer, "return_host", lambda session: events.append("host returned"))
    session = a_session(around, a_collection(politeness={"delay": 0}), pages(4))
    task = asyncio.create_task(session.run())
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert events == ["request ended", "host returned"]
    assert len(around.committer.done) == 2


@pytest.mark.parametrize(
    ("delay", "made"),
    [(10, 1), (1, 1), (0.2, 3), (0.12, 5)],  # until the first of them has waited for half a second
)
@pytest.mark.parametrize("goes_on", [True, False])
async def test_no_request_is_sent_while_a_visit_waits_too_long_for_its_report(monkeypatch, delay, made, goes_on):
    around = Surroundings()
    monkeypatch.setattr(host_session, "boottime", around.clock.now)
    around.committer.is_silent = True
    session = a_session(around, a_collection(politeness={"delay": delay, "robots": "ignore"}), pages(12))
    running = asyncio.create_task(session.run())
    await wait_until(lambda: len(around.committer.done) >= made)
    for _ in range(10):  # rounds of the event loop: nobody waits for a clock here
        await asyncio.sleep(0)
    assert (len(around.asked), len(around.committer.done)) == (made, made)
    around.committer.is_silent = False
    if goes_on:
        session.continue_with(made, NextVisits(True, []))
    else:
        session.stop()
    await running
    assert len(around.asked) == (12 if goes_on else made)
    assert session.visits.unreported == (0 if goes_on else made)
