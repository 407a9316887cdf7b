"""Crawlers elsewhere: the four conversations, and what may go wrong in each."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tarrafa.crawl.relay import remote_fetch
from tarrafa.graph.follower import rebuild
from tarrafa.model import Link, Status
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tests.contract.frontier_bodies import FalseClock, FalseLeaseClock
from tests.graph.archived_web import new_data
from tests.server.crawler_api_harness import TOKEN, CrawlerApiHarness, Json, asgi_request, crawler_api_harness
from tests.wait import wait_until

A, B, C = "http://a.test/", "http://b.test/", "http://c.test/"


@pytest.fixture
def data(tmp_path: Path) -> DataDirectory:
    return new_data(tmp_path / "data")


@pytest.fixture(autouse=True)
def every_call_is_heard(monkeypatch):
    """The lease's clock is false here: how long ago it was renewed cannot be told by a real one."""
    monkeypatch.setattr("tarrafa.crawl.relay.relay.RENEWAL", 0.0)


@pytest.fixture
async def api(data: DataDirectory) -> AsyncIterator[CrawlerApiHarness]:
    """The crawler API of a collection that knows one URL."""
    async with crawler_api_harness(data, A) as api:
        yield api


# -- give me work ----------------------------------------------------------------------------------------------------


async def test_a_crawler_gets_robots_txt_first_then_one_url_of_a_host_at_a_time_and_from_when_on(data):
    async with crawler_api_harness(
        data, A, f"{A}2", politeness={"contact": "https://bot.example/", "email": "bot@example.org"}
    ) as api:
        (first,) = await api.work()
        assert (first["url"], first["role"], first["visit"]) == (f"{A}robots.txt", "robots", 0)
        assert (first["wait_s"], first["connect_to"]) == (0.0, "127.0.0.1:9")
        assert await api.work() == [first], "asked again, it is told the same"
        told = await api.post_ok("type", url=first["url"], visit=0, status=200, text="User-agent: *\nCrawl-delay: 7")
        page = told["next"]
        assert (page["url"], page["role"], page["visit"], page["id"]) == (A, "page", 1, url_id(A).hex())
        assert (page["wait_s"], page["delay_s"]) == (7.0, 7.0), "robots.txt was a request, too"
        assert page["user_agent"] == "Tarrafa/0.1.0 (+https://bot.example/)"
        assert page["email"] == "bot@example.org"
        assert page["types"] == ["text/html", "application/xhtml+xml", "text/plain"]
        assert (page["size_max"], page["time_max_s"], page["collection"]) == (2_000_000, 600.0, "c")
        assert await api.work() == [page]
        FalseClock.shift[0] = 7.0
        told = await api.bring(page)
        assert (told["kept"], told["status"], told["next"]["url"]) == (True, 200, f"{A}2")


async def test_what_robots_txt_forbids_is_settled_without_the_crawler_hearing_of_it(data):
    async with crawler_api_harness(data, f"{A}no", f"{A}yes") as api:
        (page,) = await api.arrive(rules="User-agent: *\nDisallow: /no")
        assert page["url"] == f"{A}yes"
        await api.bring(page)
        assert await api.state(f"{A}no") == "excluded"
        record = next(record for record in api.archived() if record.url == f"{A}no")
        assert (record.outcome.status, record.worker) == (Status.ROBOTS, "")


async def test_a_crawler_that_was_restarted_gets_what_it_holds_again_after_a_delay(api: CrawlerApiHarness) -> None:
    (page,) = await api.arrive(rules="User-agent: *\nCrawl-delay: 7")
    FalseClock.shift[0] = 7.0
    assert (await api.work())[0]["wait_s"] == 0.0
    told = await api.post_ok("work", hosts=1, restarted=True)
    assert told["visits"] == [page | {"wait_s": 7.0}]


async def test_two_crawlers_never_hold_one_host(data):
    async with crawler_api_harness(data, *(f"http://h{n}.test/{m}" for n in range(6) for m in range(3))) as api:
        seen: dict[str, str] = {}
        for _ in range(3):
            for name in ("ana", "bia"):
                for one in await api.arrive(name, hosts=4):
                    assert seen.setdefault(one["host"], name) == name
        assert len(seen) == 6
        assert set(seen.values()) == {"ana", "bia"}


async def test_where_there_is_nothing_to_do_it_hears_why_and_when_to_ask_again(data):
    async with crawler_api_harness(data) as api:
        told = await api.post_ok("work")
        assert (told["visits"], told["running"], told["reason"]) == ([], True, "nothing may be visited now")
        assert told["ask_again_s"] > 0
        assert 24 < told["lease_s"] <= 25, "five seconds before the lease ends, no more requests"
        await api.frontier.set_state("c", "paused", "")
        told = await api.post_ok("work")
        assert (told["visits"], told["running"], told["reason"]) == ([], False, "no collection is running")
        assert (await api.post_ok("work", hosts=0))["visits"] == [], "only to say that it is alive"


async def test_in_links_come_with_the_visit_bounded_and_with_their_number(data, monkeypatch):
    monkeypatch.setattr("tarrafa.server.crawler_api.crawler_service.IN_LINKS_SHOWN", 2)

    async with crawler_api_harness(data, *(f"{A}{n}" for n in range(3))) as api:
        for _ in range(3):
            (page,) = await api.arrive()
            await api.links(page, f"{A}target")
            await api.bring(page)
        api.follow_links()
        (page,) = await api.arrive()
        assert page["url"] == f"{A}target"
        assert page["in_links"] == [url_id(f"{A}{n}").hex() for n in range(2)]
        assert page["in_links_total"] == 3


# -- here are new links; this URL is of that type --------------------------------------------------------------------


async def test_a_page_is_judged_archived_and_followed_as_if_our_own_worker_had_fetched_it(data):
    async with crawler_api_harness(data, A, scope={"hosts": ["*.test"]}) as api:
        (page,) = await api.arrive()
        told = await api.links(
            page,
            {"url": "two#there", "anchor": " Dois \n vezes "},
            {"url": "/nofollow", "rel": "NoFollow"},
            "https://elsewhere.org/",
            f"{A}file.zip",
            "mailto:x@y.z",
            page["url"],
            base=f"{A}deep/",
        )
        assert (told["links"], told["unusable"]) == (4, 1), "neither itself nor what is no page"
        assert await api.state(f"{A}deep/two") == "unknown", "not before the visit is over"
        said: Json = {"status": 200, "type": "Text/HTML; charset=utf-8", "title": "  Um\ntítulo ", "length": 321}
        said |= {"text": "a rede de pesca\x00 é lançada sobre a água", "etag": '"x"', "elapsed_s": 0.5}
        told = await api.bring(page, **said, headings=["Um", ""], language="pt-BR", robots="noindex")
        assert (told["kept"], told["repeated"], told["finished"]) == (True, False, True)
        states = {path: await api.state(f"{A}{path}") for path in ("", "deep/two", "nofollow", "file.zip")}
        assert states == {"": "fetched", "deep/two": "handed out", "nofollow": "unknown", "file.zip": "dropped"}
        assert await api.state("https://elsewhere.org/") == "unknown", "out of scope"
        (record,) = api.archived()
        assert (record.worker, record.collection, record.visit) == ("crawler.ana", "c", 1)
        assert (record.outcome.type, record.outcome.length, record.outcome.etag) == ("text/html", 321, '"x"')
        found = record.page
        assert found is not None
        assert (found.title, found.text, found.headings) == (
            "Um título",
            "a rede de pesca é lançada sobre a água",
            ("Um",),
        )
        assert (found.language, found.robots.noindex, found.parser) == ("pt", True, "crawler.ana")
        assert found.links[0] == Link(f"{A}deep/two", "Dois vezes")
        assert len(found.content_id) == 32
        facts = await api.facts(A)
        assert facts is not None
        assert facts.history[-1].worker == "crawler.ana"


async def test_usage_preferences_of_robots_txt_and_noai_are_kept_with_the_page(data):
    async with crawler_api_harness(data, A) as api:
        (page,) = await api.arrive(rules="User-agent: *\nContent-Signal: ai-train=no\n")
        await api.bring(page, status=200, type="text/html", text="a rede", robots="noai, nofollow")
        (record,) = api.archived()
        assert record.page is not None
        assert [(one.source, one.text) for one in record.page.usage] == [
            ("header", "noai"), ("robots.txt", "Content-Signal: ai-train=no"),
        ]  # fmt: skip


async def test_a_page_that_says_nofollow_leads_nowhere(api: CrawlerApiHarness) -> None:
    (page,) = await api.arrive()
    await api.links(page, f"{A}2")
    await api.bring(page, status=200, type="text/html", robots="NONE")
    assert await api.state(f"{A}2") == "unknown"


@pytest.mark.parametrize(
    ("said", "status", "state"),
    [
        ({"status": 404}, 404, "dropped"),
        ({"gone": True}, 410, "dropped"),
        ({"status": 200, "type": "image/png"}, Status.TYPE_NOT_WANTED, "dropped"),
        ({"status": 200, "type": "text/html", "length": 3_000_000}, Status.TOO_LARGE, "dropped"),
        ({"status": 200, "type": "text/html", "digest": "abc"}, 200, "fetched"),
        ({"status": 301, "location": "/elsewhere"}, 301, "dropped"),
        ({"status": -1, "error": "no HTTP"}, Status.INVALID_RESPONSE, "failed"),
        ({"status": -30}, Status.HOSTILE, "failed"),
        ({"status": 503, "retry_after_s": 9}, 503, "pending"),
        ({"status": -11}, Status.SYSTEM_ERROR, "pending"),
        ({"status": 500}, 500, "handed out"),
    ],
)
async def test_whatever_comes_of_a_visit_counts_as_it_would_for_our_own_worker(
    api: CrawlerApiHarness, said: Json, status: int, state: str
) -> None:
    (page,) = await api.arrive()
    told = await api.bring(page, **said)
    assert (told["status"], told["finished"], told["kept"]) == (status, True, status == 200)
    assert await api.state(A) == state
    (record,) = api.archived()
    assert (record.outcome.status, record.worker) == (status, "crawler.ana")
    assert await api.state(f"{A}elsewhere") == ("handed out" if status == 301 else "unknown")


async def test_what_the_crawler_did_not_ask_for_goes_back_and_is_made_later(api: CrawlerApiHarness) -> None:
    (page,) = await api.arrive()
    told = await api.bring(page, status=-40)
    assert (told["finished"], told["next"]) == (False, None)
    assert await api.state(A) == "pending"
    assert api.archived() == []
    FalseClock.shift[0] = 5.0
    (again,) = await api.work()
    assert (again["url"], again["visit"]) == (A, 2)


async def test_a_busy_host_is_left_alone_as_long_as_it_asks_for(api: CrawlerApiHarness) -> None:
    (page,) = await api.arrive()
    assert (await api.bring(page, status=503, retry_after_s=500))["next"] is None
    assert await api.work() == []
    FalseClock.shift[0] = 499.0
    assert await api.work() == []
    FalseClock.shift[0] = 502.0
    (again,) = await api.work()
    assert (again["url"], again["visit"]) == (A, 2)


async def test_a_page_seen_again_comes_with_its_validators(data):
    async with crawler_api_harness(data, A, revisit={"policy": "uniform", "interval_min": 1_000}) as api:
        (page,) = await api.arrive()
        assert (page["etag"], page["last_modified"]) == (None, None)
        date = "Mon, 16 Nov 2026 05:46:02 GMT"
        await api.bring(page, status=200, type="text/html", digest="1", etag='W/"7"', last_modified=date)
        FalseClock.shift[0] = 2_000.0
        (again,) = await api.work()
        assert (again["visit"], again["etag"], again["last_modified"]) == (2, 'W/"7"', date)
        await api.bring(again, status=304)
        facts = await api.facts(A)
        assert facts is not None
        assert [(past.status, past.changed) for past in facts.history] == [(200, None), (304, False)]


async def test_sitemaps_are_brought_as_they_are_and_read_here(api: CrawlerApiHarness) -> None:
    (listing,) = await api.arrive(rules=f"Sitemap: {A}sitemap.xml")
    assert (listing["role"], listing["url"]) == ("page", A)
    listing = (await api.bring(listing))["next"]
    assert (listing["role"], listing["types"]) == ("sitemap", [])
    text = f"<urlset><url><loc>{A}listed</loc></url></urlset>"
    told = await api.bring(listing, status=200, type="application/xml", text=text)
    assert (told["kept"], told["next"]["url"]) == (False, f"{A}listed")
    assert {record.outcome.payload for record in api.archived()} == {""}, "no bytes were archived"


async def test_rules_that_live_on_another_host_are_fetched_there_under_a_loan(api: CrawlerApiHarness) -> None:
    (first,) = await api.work()
    told = await api.post_ok("type", url=first["url"], visit=0, status=301, location=f"{B}robots.txt")
    there = told["next"]
    assert (there["url"], there["role"], there["visit"]) == (f"{B}robots.txt", "robots", 0)
    assert await api.work("bia") == [], "both hosts are taken"
    told = await api.post_ok("type", url=there["url"], visit=0, status=200, text="User-agent: *\nDisallow: /")
    assert told["next"] is None
    assert await api.state(A) == "excluded"


async def test_robots_txt_that_cannot_be_had_forbids_everything_for_now(api: CrawlerApiHarness) -> None:
    (first,) = await api.work()
    told = await api.post_ok("type", url=first["url"], visit=0, status=500)
    assert told["next"] is None
    assert await api.work() == []
    FalseClock.shift[0] = 100.0
    (again,) = await api.work()
    assert again["role"] == "robots"
    told = await api.post_ok("type", url=again["url"], visit=0, status=404)
    assert (told["repeated"], told["next"]["url"]) == (False, A)


# -- repeating, forgetting, falling silent ---------------------------------------------------------------------------


async def test_any_call_may_be_repeated(api: CrawlerApiHarness) -> None:
    (first,) = await api.work()
    for again in (False, True):
        told = await api.post_ok("type", url=first["url"], visit=0, status=404)
        assert (told["repeated"], told["next"]["url"]) == (again, A)
    page = told["next"]
    for _ in range(2):
        assert (await api.links(page, f"{A}2", f"{A}3"))["links"] == 2
    assert (await api.links(page, f"{A}3", f"{A}4"))["links"] == 3
    told = await api.bring(page)
    for said in ({"status": 200, "type": "text/html"}, {"gone": True}):
        heard = await api.bring(page, **said)
        assert heard == told | {"repeated": True, "lease_s": heard["lease_s"]}, "the first word counts"
    answer = await api.post("links", **{"from": A}, visit=1, to=[])
    assert (answer.code, "is over" in answer.json["error"]) == (410, True)
    assert len(api.archived()) == 1
    assert len(api.archived()[0].page.links) == 3  # type: ignore[union-attr]


async def test_the_same_report_twice_at_once_is_one(api: CrawlerApiHarness) -> None:
    await api.arrive()
    said: Json = {"url": A, "visit": 1, "status": 200, "type": "text/html", "digest": "x"}
    answers = await asyncio.gather(*(api.post("type", **said) for _ in range(5)))
    assert [answer.code for answer in answers] == [200] * 5
    assert {answer.json["status"] for answer in answers} == {200}
    assert len(api.archived()) == 1


STEPS = ("work", "robots", "page", "links", "type", "changes")


@pytest.mark.parametrize("killed_after", STEPS)
async def test_killed_after_any_step_nothing_that_was_acknowledged_is_lost(
    api: CrawlerApiHarness, killed_after: str
) -> None:
    async def step(name: str) -> None:
        if name == killed_after:
            await api.restart()

    (first,) = await api.work()
    await step("work")
    await api.post_ok("type", url=first["url"], visit=0, status=404)
    await step("robots")
    (page,) = await api.arrive(rules="")
    assert (page["url"], page["visit"]) == (A, 1), "no number is used up"
    await step("page")
    await api.links(page, f"{A}2", B)
    await step("links")
    told = await api.bring(page)
    assert (told["kept"], told["repeated"]) == (True, False)
    await step("type")
    assert (await api.bring(page))["repeated"]
    (page,) = await api.arrive()
    assert (page["url"], page["visit"]) == (f"{A}2", 1)
    await api.links(page, A)
    await api.bring(page)
    api.follow_links()
    told = await api.post_ok("changes")
    await step("changes")
    assert await api.post_ok("changes") == told
    news = {one["url"]: one["in_links"] for one in told["changes"]}
    assert news == {A: ids(f"{A}2"), f"{A}2": ids(A)}
    assert [record.url for record in api.archived() if record.outcome.kept] == [A, f"{A}2"]
    assert await api.state(B) in ("pending", "handed out")


async def test_who_was_silent_for_longer_than_a_lease_has_lost_its_hosts_and_hears_so(api: CrawlerApiHarness) -> None:
    (page,) = await api.arrive()
    await api.links(page, f"{A}2")
    FalseLeaseClock.shift[0] = 31.0
    for what, said in (("links", {"from": A, "to": []}), ("type", {"url": A, "gone": True})):
        answer = await api.post(what, visit=1, **said)
        assert answer.code == 410
        assert "no longer with crawler 'ana'" in answer.json["error"]
    assert api.archived() == []
    assert await api.work("bia") == [], "it may still be waiting for an answer there"
    FalseClock.shift[0] = 700.0
    (again,) = await api.work("bia")
    assert (again["url"], again["visit"]) == (A, 2)
    assert (await api.post("type", "bia", url=A, visit=1, gone=True)).code == 404, "that one was never its own"


async def test_every_call_renews_the_lease(api: CrawlerApiHarness) -> None:
    (page,) = await api.arrive()
    for what in ("work", "changes", "links", "work"):
        FalseLeaseClock.shift[0] += 20.0
        said: Json = {"from": A, "visit": 1, "to": []} if what == "links" else {}
        await api.post_ok(what, **said)
    assert (await api.bring(page))["kept"]


async def test_who_leaves_hands_everything_back_at_once(api: CrawlerApiHarness) -> None:
    await api.arrive()
    assert (await api.post_ok("leave"))["left"]
    assert not (await api.post_ok("leave"))["left"]
    FalseClock.shift[0] = 2.0
    (again,) = await api.work("bia")
    assert (again["url"], again["visit"]) == (A, 2)
    assert [node.name for node in (await api.frontier.overview()).nodes] == ["crawler.bia"]


async def test_a_visit_that_nobody_brings_back_goes_back_after_its_time_limit(
    api: CrawlerApiHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    (page,) = await api.arrive()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", lambda real=loop.time: real() + page["time_max_s"] + remote_fetch.GRACE_S)

    async def is_pending() -> bool:
        return await api.state(A) == "pending"

    await wait_until(is_pending)
    assert (await api.post("type", url=A, visit=1, status=404)).code == 410
    assert page["visit"] == 1


async def test_names_that_are_still_taken_are_refused_in_words(api: CrawlerApiHarness) -> None:
    await api.work()
    api.facade._open_store.set_worker("ana", None)  # killed after joining and before writing it down
    await api.restart()
    answer = await api.post("work")
    assert answer.code == 503
    assert "'crawler.ana' is at work already" in answer.json["error"]
    assert "ask again in half a minute" in answer.json["error"]
    FalseLeaseClock.shift[0] = 31.0
    assert (await api.post("work")).code == 200


async def test_without_a_frontier_everybody_hears_503_in_words_and_in_links_are_still_told(
    api: CrawlerApiHarness,
) -> None:
    await api.arrive()
    await api.lose_frontier()
    told: list[tuple[str, Json]] = [("type", {"url": A, "visit": 1, "gone": True}), ("work", {})]
    for what, said in told:
        answer = await api.post(what, **said)
        assert (answer.code, answer.headers["retry-after"]) == (503, "5")
        assert "frontier server" in answer.json["error"]
        assert "`tarrafa crawl FILE` starts one" in answer.json["error"]
    assert (await api.post_ok("changes"))["changes"] == []


async def test_a_frontier_that_was_restarted_is_found_again_and_nobody_notices(api: CrawlerApiHarness) -> None:
    (page,) = await api.arrive()
    await api.links(page, f"{A}2")
    await api.lose_frontier()
    await api.find_frontier()
    assert (await api.bring(page))["next"]["url"] == f"{A}2"


# -- what changed in the in-links of what is mine --------------------------------------------------------------------


async def visit_all(api: CrawlerApiHarness, crawler: str = "ana", leads: dict[str, list[str]] | None = None) -> None:
    """Visit everything that waits; each page leads where `leads` says."""
    while visits := await api.arrive(crawler, hosts=5):
        for one in visits:
            await api.links(one, *(leads or {}).get(one["url"], []), crawler=crawler)
            await api.bring(one, crawler)
        FalseClock.shift[0] += 2.0


def told(answer: dict[str, Any]) -> dict[str, tuple[list[str], list[str]]]:
    return {one["url"]: (one["in_links"], one["gone"]) for one in answer["changes"]}


def ids(*urls: str) -> list[str]:
    return [url_id(url).hex() for url in urls]


async def test_each_in_link_of_what_is_mine_is_told_once_and_again_until_it_is_acknowledged(data):
    async with crawler_api_harness(data, A, B, C) as api:
        await visit_all(api, leads={A: [B], B: [A], C: [A, f"{C}mine"], f"{C}mine": []})
        api.follow_links()
        first = await api.post_ok("changes")
        assert told(first) == {A: (ids(B, C), []), B: (ids(A), []), f"{C}mine": (ids(C), [])}
        assert (first["cursor"], first["more"]) == (1, False)
        assert await api.post_ok("changes") == first, "not acknowledged"
        assert await api.post_ok("changes", after=0) == first
        answer = await api.post("changes", after=7)
        assert answer.code == 409
        assert "0 or 1" in answer.json["error"]
        second = await api.post_ok("changes", after=1)
        assert (second["changes"], second["cursor"]) == ([], 1)
        assert await api.post_ok("changes", after=1) == second
        await api.discover("http://d.test/")
        await visit_all(api, "bia", {"http://d.test/": [A]})
        api.follow_links()
        third = await api.post_ok("changes", after=1)
        assert told(third) == {A: (ids("http://d.test/"), [])}
        assert await api.post_ok("changes", after=1) == third, "its answer was lost"
        assert (await api.post_ok("changes", after=2))["changes"] == []
        assert told(await api.post_ok("changes", "bia")) == {}


async def test_what_came_with_the_work_is_not_told_again_and_what_is_another_crawlers_not_at_all(
    api: CrawlerApiHarness,
) -> None:
    await visit_all(api, leads={A: [B], B: []})
    assert await api.state(B) == "fetched"
    api.follow_links()
    await api.post_ok("changes")
    await api.post_ok("changes", after=1)
    await api.discover(C)
    (page,) = await api.arrive("bia")
    await api.links(page, f"{C}2", A, crawler="bia")
    await api.bring(page, "bia")
    api.follow_links()
    (page,) = await api.arrive("bia")
    assert (page["url"], page["in_links"]) == (f"{C}2", ids(C))
    await api.bring(page, "bia")
    api.follow_links()
    assert (await api.post_ok("changes", "bia"))["changes"] == []
    assert told(await api.post_ok("changes", after=1)) == {A: (ids(C), [])}


async def test_links_that_vanish_are_told_and_a_graph_made_again_tells_nothing_twice(data):
    async with crawler_api_harness(data, A, revisit={"policy": "uniform", "interval_min": 1_000}) as api:
        await visit_all(api, leads={A: [B, C], B: [], C: []})
        api.follow_links()
        first = await api.post_ok("changes")
        assert told(first) == {B: (ids(A), []), C: (ids(A), [])}
        await api.post_ok("changes", after=1)
        rebuild(api.data)
        assert (await api.post_ok("changes", after=1))["changes"] == []
        FalseClock.shift[0] += 2_000.0
        while visits := await api.arrive(hosts=5):
            for one in visits:
                await api.links(one, *([B] if one["url"] == A else []))
                await api.bring(one)
        api.follow_links()
        rebuild(api.data)
        assert told(await api.post_ok("changes", after=1)) == {C: ([], ids(A))}


async def test_long_news_come_in_pieces(api: CrawlerApiHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarrafa.server.crawler_api.inlink_changes.IDS_PER_RESPONSE", 3)

    pages = [f"{A}{n}" for n in range(8)]
    await visit_all(api, leads={A: pages, **{page: [] for page in pages}})
    api.follow_links()
    seen: list[str] = []
    cursor, more = 0, True
    while more:
        answer = await api.post_ok("changes", after=cursor)
        seen += [one["url"] for one in answer["changes"]]
        cursor, more = answer["cursor"], answer["more"]
    assert seen == pages
    assert (await api.post_ok("changes", after=cursor))["changes"] == []


# -- who may ask, and how ----------------------------------------------------------------------------------------------


async def test_nobody_gets_an_answer_without_the_token(data):
    async with crawler_api_harness(data) as api:
        right = TOKEN.decode()
        for given in ("", "Bearer", "Bearer ", "Bearer wrong", f"Basic {right}", f"Bearer {right}x", "Bearer \xff\x00"):
            headers = {"authorization": given} if given else {}
            for path in ("work", "changes?crawler=ana", "nowhere"):
                answer = await asgi_request(api.app, "POST", f"/crawl/v1/{path}", b'{"crawler": "ana"}', **headers)
                assert (answer.code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert TOKEN not in answer.body
                assert answer.headers["content-type"] == "application/json"
        answer = await asgi_request(api.app, "GET", "/crawl/v1/changes?crawler=ana", authorization=f"bEaReR {right}")
        assert answer.json == {"cursor": 0, "changes": [], "more": False}
        assert (await api.frontier.overview()).nodes == []
