"""What every body of the frontier promises about pages that are kept fresh."""

import math
from typing import Any

import pytest
from msgspec.structs import replace

from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import UrlWeight
from tarrafa.frontier.revisit_planner import fetch_revisit_pages, plan_collection
from tarrafa.model import Outcome, Status, UrlRole
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import FalseClock, a_collection, done, numbers, offer, urls

DAY_S = 86_400.0
START = 1_000_000.0


def now() -> float:
    return START + FalseClock.shift[0]


def advance(seconds: float) -> None:
    FalseClock.shift[0] += seconds


def kept(text: str = "a", **more: Any) -> Outcome:
    return Outcome(200, now(), kept=True, type="text/html", content_id=text * 32, payload=f"sha1:{text}", **more)


async def opened(frontier: Frontier, *pages: str, **sections: Any) -> tuple[int, int]:
    """A collection whose pages were all fetched once; its number and the worker's."""
    settings: dict[str, Any] = {"revisit": {"weigh": "equal"}, "politeness": {"delay": 1}} | sections
    row = await frontier.open_collection(a_collection(**settings), [])
    await frontier.discover(row.id, [offer(page, 1) for page in pages])
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker, lambda visit: kept())
    return row.id, worker


async def visit_all(frontier: Frontier, worker: int, outcome: Any, rounds: int = 100) -> list[str]:
    """Make every visit that is handed out now; `outcome` says what comes of one."""
    made = []
    for _ in range(rounds):
        leases = await frontier.lease(worker, 100)
        if not leases:
            break
        for lease in leases:
            visits = lease.visits
            while visits:
                made += [visit.url for visit in visits]
                reports = [done(lease, [visit], outcome(visit), next_at=now(), ended_at=now()) for visit in visits]
                merged = replace(reports[0], reports=[one.reports[0] for one in reports])
                (answer,) = await frontier.finish(worker, [merged])
                visits = answer.visits
    return made


async def test_a_page_is_seen_again_when_it_is_worth_it_and_not_before(frontier):
    _, worker = await opened(frontier, "http://a.br/", "http://b.br/")
    assert await frontier.lease(worker, 10) == []
    advance(599)
    assert await frontier.lease(worker, 10) == []
    advance(2)  # interval_min is ten minutes
    assert sorted(await visit_all(frontier, worker, lambda visit: kept())) == ["http://a.br/", "http://b.br/"]
    assert await frontier.lease(worker, 10) == []
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.handed_out, status.revisits) == (2, 0, 0, 2)


@pytest.mark.parametrize("policy", ["index", "uniform", "proportional", "rateupdate"])
async def test_every_policy_comes_back_to_every_page(frontier, policy):
    pages = [f"http://a.br/{n}" for n in range(12)]
    _, worker = await opened(frontier, *pages, revisit={"policy": policy})
    seen = set()
    for _ in range(6):
        advance(DAY_S)
        seen |= set(await visit_all(frontier, worker, lambda visit: kept(), rounds=3))
    assert seen == set(pages)


async def test_a_page_that_changes_more_is_seen_more_often(frontier):
    pages = ["http://a.br/fast", "http://a.br/slow"]
    revisit = {"policy": "proportional", "interval_min": 60}
    _, worker = await opened(frontier, *pages, revisit=revisit)
    made = []
    for day in range(60):
        advance(DAY_S / 2)
        made += await visit_all(
            frontier,
            worker,
            lambda visit, day=day: kept(str(day) if "fast" in visit.url else "0"),
            rounds=1,
        )
    assert made.count("http://a.br/fast") > 2 * made.count("http://a.br/slow") > 0
    facts = await frontier.look_up(offer(pages[0]).host, offer(pages[0]).id)
    fresh = facts.urls[0].freshness
    assert fresh.history.changes > 10
    assert fresh.history.estimate * DAY_S > 0.5


async def test_what_a_304_says_is_that_nothing_changed(frontier):
    number, worker = await opened(frontier, "http://a.br/")
    advance(DAY_S)
    await visit_all(frontier, worker, lambda visit: Outcome(304, now()))
    (page,) = await fetch_revisit_pages(frontier, number)
    assert (page.history.visits, page.history.changes, page.history.last) == (2, 0, now())
    assert (await numbers(frontier)).fetched == 1


async def test_dates_are_used_once_they_proved_right(frontier):
    number, worker = await opened(frontier, "http://a.br/", revisit={"policy": "uniform", "weigh": "equal"})
    for day in range(4):
        advance(DAY_S)
        stamp = "Mon, 12 Jan 1970 13:46:40 GMT" if day == 0 else _http_date(now() - 3600)
        outcome = kept(str(day), last_modified=stamp)
        await visit_all(frontier, worker, lambda visit, outcome=outcome: outcome, rounds=1)
    (page,) = await fetch_revisit_pages(frontier, number)
    assert page.dates_believed
    facts = await frontier.look_up(offer("http://a.br/").host, offer("http://a.br/").id)
    assert facts.urls[0].freshness.dates_believed


def _http_date(moment: float) -> str:
    from email.utils import formatdate

    return formatdate(moment, usegmt=True)


async def test_a_page_that_is_gone_gets_one_grace_visit_and_then_leaves(frontier):
    number, worker = await opened(frontier, "http://a.br/", "http://a.br/x", revisit={"grace": "2h"})
    gone = {"http://a.br/x": Outcome(404, now())}
    advance(700)
    leases = await frontier.lease(worker, 10)
    visits = [visit for lease in leases for visit in lease.visits]
    assert {visit.gone for visit in visits} == {0}
    await frontier.finish(
        worker,
        [
            replace(
                done(leases[0], [], next_at=now()),
                reports=[done(leases[0], [visit], gone.get(visit.url, kept())).reports[0] for visit in visits],
                keep=False,
            )
        ],
    )
    assert (await numbers(frontier)).fetched == 2
    advance(3600)
    made = await visit_all(frontier, worker, lambda visit: kept())
    assert "http://a.br/x" not in made
    advance(3601)
    handed = []

    def answer(visit):
        handed.append((visit.url, visit.gone))
        return Outcome(410, now()) if visit.url.endswith("x") else kept()

    await visit_all(frontier, worker, answer)
    assert ("http://a.br/x", 1) in handed
    status = await numbers(frontier)
    assert (status.fetched, status.dropped) == (1, 1)
    assert [page.history.visits > 1 for page in await fetch_revisit_pages(frontier, number)] == [True]
    for _ in range(5):
        advance(DAY_S)
        assert "http://a.br/x" not in await visit_all(frontier, worker, lambda visit: kept(), rounds=2)


async def test_a_page_that_comes_back_at_its_grace_visit_stays(frontier):
    _, worker = await opened(frontier, "http://a.br/", revisit={"grace": "1h"})
    answers = [Outcome(404, now()), kept()]
    for answer in answers:
        advance(DAY_S)
        await visit_all(frontier, worker, lambda visit, answer=answer: replace(answer, at=now()), rounds=1)
    facts = await frontier.look_up(offer("http://a.br/").host, offer("http://a.br/").id)
    assert (facts.urls[0].state, facts.urls[0].freshness.gone) == ("fetched", 0)


async def test_a_page_in_trouble_stays_kept_and_is_tried_again_later(frontier):
    _, worker = await opened(frontier, "http://a.br/")
    for status in (500, Status.TOO_SLOW, 503, Status.INVALID_RESPONSE):
        advance(2 * DAY_S)
        made = await visit_all(frontier, worker, lambda visit, status=status: Outcome(status, now()), rounds=1)
        assert made == ["http://a.br/"]
        assert (await numbers(frontier)).fetched == 1
        assert await frontier.lease(worker, 10) == []


async def test_what_no_longer_belongs_leaves_at_once(frontier):
    _, worker = await opened(frontier, "http://a.br/1", "http://a.br/2", "http://a.br/3")
    answers = {"1": Outcome(301, 0, location="http://a.br/new"), "2": Outcome(Status.ROBOTS, 0), "3": None}
    advance(700)

    def answer(visit):
        found = answers[visit.url[-1]]
        return kept() if found is None else replace(found, at=now())

    await visit_all(frontier, worker, answer)
    status = await numbers(frontier)
    assert (status.fetched, status.dropped, status.excluded) == (1, 1, 1)
    advance(DAY_S)
    assert set(await visit_all(frontier, worker, lambda visit: kept())) == {"http://a.br/3"}


async def test_a_killed_workers_revisits_are_not_lost(frontier):
    pages = [f"http://a.br/{n}" for n in range(5)]
    _, worker = await opened(frontier, *pages)
    advance(700)
    leases = await frontier.lease(worker, 10)
    assert len(urls(leases)) == 5
    assert (await numbers(frontier)).fetched == 5  # a page is no less kept while somebody looks at it
    await frontier.leave(worker)
    status = await numbers(frontier)
    assert (status.fetched, status.handed_out, status.pending) == (5, 0, 0)
    advance(60)
    other = (await frontier.join("other", current_process())).worker
    assert sorted(await visit_all(frontier, other, lambda visit: kept())) == pages


async def test_what_was_learned_survives_a_restart(open_frontier):
    async with open_frontier() as frontier:
        _, worker = await opened(frontier, "http://a.br/", "http://a.br/2")
        advance(DAY_S)
        await visit_all(frontier, worker, lambda visit: kept("b"), rounds=1)
        await frontier.leave(worker)
    async with open_frontier() as frontier:
        (row,) = await frontier.collections()
        assert [page.history.changes for page in await fetch_revisit_pages(frontier, row.id)] == [1, 1]
        worker = (await frontier.join("w", current_process())).worker
        assert await frontier.lease(worker, 10) == []
        advance(DAY_S)
        assert len(await visit_all(frontier, worker, lambda visit: kept("b"), rounds=1)) == 2


async def test_new_urls_and_old_pages_share_the_slots(frontier):
    old = [f"http://a.br/old{n}" for n in range(40)]
    number, worker = await opened(frontier, *old, revisit={"share": 0.25, "weigh": "equal"})
    advance(700)
    await frontier.discover(number, [offer(f"http://a.br/new{n}") for n in range(40)])
    taken = []
    for _ in range(5):
        (lease,) = await frontier.lease(worker, 1)
        taken += [visit.url for visit in lease.visits]
        await frontier.finish(worker, [done(lease, lease.visits, kept(), next_at=now(), ended_at=now(), keep=False)])
    assert len(taken) == 40
    assert sum("old" in url for url in taken) == 10
    rest = await visit_all(frontier, worker, lambda visit: kept())
    assert len(set(rest + taken)) == 80


async def test_revisits_are_not_counted_against_the_page_limit_of_a_host(frontier):
    scope = {"hosts": ["*"], "host_pages_max": 3}
    _, worker = await opened(frontier, "http://a.br/1", "http://a.br/2", scope=scope)
    for _ in range(5):
        advance(DAY_S)
        assert len(await visit_all(frontier, worker, lambda visit: kept(), rounds=1)) == 2


async def test_pages_are_weighed_by_their_ranks_where_the_collection_says_so(frontier):
    def told(rank: float) -> UrlWeight:
        return UrlWeight(offer("http://a.br/").host, offer("http://a.br/").id, 8, rank=rank)

    async def weight() -> float:
        (facts,) = (await frontier.look_up(told(1).host, told(1).id)).urls
        assert facts.freshness is not None
        return float(facts.freshness.history.weight)

    await opened(frontier, "http://a.br/", revisit={"weigh": "rank"})
    assert await weight() == 1
    for rank, expected in ((16.0, 4.0), (20.0, 4.0), (25.0, 4.0), (36.0, 6.0), (0.04, 0.2)):
        await frontier.update_weights("c", [told(rank)])
        assert await weight() == pytest.approx(expected), rank
    for weigh, expected in (("links", 3.0), ("equal", 1.0), ("rank", 0.2)):
        await frontier.open_collection(a_collection(revisit={"weigh": weigh}), [])
        assert await weight() == pytest.approx(expected)


async def test_a_full_collection_turns_to_keeping_fresh(frontier):
    scope = {"hosts": ["*"], "pages_max": 3}
    pages = [f"http://a.br/{n}" for n in range(10)]
    _, worker = await opened(frontier, *pages, scope=scope)
    status = await numbers(frontier)
    assert (status.fetched, status.pending) == (3, 7)
    advance(700)
    made = await visit_all(frontier, worker, lambda visit: kept())
    assert len(made) == len(set(made)) == 3
    assert (await numbers(frontier)).pending == 7


async def test_a_full_collection_gives_up_its_least_important_pages_for_better_ones(frontier):
    scope = {"hosts": ["*"], "pages_max": 10}
    pages = [f"http://{'ab'[n % 2]}.br/{n}" for n in range(30)]
    number, worker = await opened(frontier, *pages, scope=scope)
    links = {page: n for n, page in enumerate(pages)}
    await frontier.update_weights("c", [UrlWeight(offer(page).host, offer(page).id, links[page]) for page in pages])

    async def importance() -> tuple[int, float]:
        ids = {offer(page).id: links[page] for page in pages}
        found = [ids[page.id] for page in await fetch_revisit_pages(frontier, number)]
        return len(found), sum(found) / len(found)

    size, mean = await importance()
    assert size == 10
    dismissed = []

    def answer(visit):
        if visit.dismissed:
            dismissed.append(visit.url)
            return Outcome(Status.REPLACED, now(), requested=False)
        return kept()

    for _ in range(12):
        advance(60)
        await visit_all(frontier, worker, answer, rounds=4)
        status = await numbers(frontier)
        assert status.fetched + status.handed_out <= 10
        size, now_mean = await importance()
        assert now_mean >= mean
        mean = now_mean
    assert (size, mean) == (10, sum(range(20, 30)) / 10)
    assert len(dismissed) == 10
    assert (await numbers(frontier)).statuses[str(int(Status.REPLACED))] == 10
    facts = [(await frontier.look_up(offer(page).host, offer(page).id)).urls[0] for page in pages]
    assert [page.url for page in facts if page.waits_for_place] == pages[:20], "replaced, or never chosen"


async def test_a_full_collection_never_gives_up_its_roots(frontier):
    roots, pages = ["http://a.br/", "http://b.br/later"], [f"http://{'ab'[n % 2]}.br/{n}" for n in range(20)]
    number, worker = await opened(frontier, *pages[:8], roots[1], scope={"hosts": ["*"], "pages_max": 10})
    await frontier.seed(number, [offer(root) for root in roots])
    await visit_all(frontier, worker, lambda visit: kept())
    await frontier.discover(number, [offer(page, 1) for page in pages])
    await frontier.update_weights("c", [UrlWeight(offer(page).host, offer(page).id, 3) for page in pages])
    for _ in range(12):
        advance(60)
        await visit_all(
            frontier,
            worker,
            lambda visit: Outcome(Status.REPLACED, now(), requested=False) if visit.dismissed else kept(),
            rounds=4,
        )
    held = {page.id for page in await fetch_revisit_pages(frontier, number)}
    assert {offer(root).id for root in roots} <= held
    assert len(held) == 10


async def test_no_more_revisits_are_made_than_the_rate_allows(frontier):
    pages = [f"http://h{n}.br/" for n in range(200)]
    revisit = {"policy": "uniform", "rate": 48, "interval_min": 0}
    _, worker = await opened(frontier, *pages, revisit=revisit)
    advance(200 / 48 * DAY_S)  # all were seen just now, and are due one after the other
    made = []
    for _ in range(5 * 48):
        advance(1800)
        made += await visit_all(frontier, worker, lambda visit: kept(), rounds=1)
    assert 0.95 * 240 <= len(made) <= 240 + 2
    assert len(set(made)) == 200


@pytest.mark.one_server
@pytest.mark.parametrize("age_s", [0, 3600])
async def test_with_its_first_rate_a_collection_of_any_age_may_make_two_revisits_and_not_those_of_an_hour(
    frontier, age_s
):
    """Tokens come since the first question about them, not since the collection was created."""
    pages = [f"http://h{n}.br/" for n in range(4)]
    _, worker = await opened(frontier, *pages, revisit={"policy": "never"})
    advance(age_s)
    one_a_minute = {"rate": 24 * 60, "weigh": "equal", "interval_min": 0}
    await frontier.open_collection(a_collection(revisit=one_a_minute, politeness={"delay": 1}))
    made = []
    for _ in range(4):
        made.append(len(await visit_all(frontier, worker, lambda visit: kept())))
        advance(60)
    assert made == [2, 1, 1, 1]


async def test_what_a_pause_saved_is_spent_at_twice_the_rate_and_never_at_once(frontier):
    pages = [f"http://h{n}.br/" for n in range(200)]
    _, worker = await opened(frontier, *pages, revisit={"policy": "uniform", "rate": DAY_S, "interval_min": 0})
    advance(3600)  # all of them are due, at one a second
    assert 2 <= len(await visit_all(frontier, worker, lambda visit: kept())) <= 4
    made = []
    for _ in range(20):
        advance(0.5)
        made += await visit_all(frontier, worker, lambda visit: kept())
    assert 18 <= len(made) <= 22


async def test_pages_that_are_due_together_are_visited_ahead_so_that_the_budget_is_spent(frontier):
    """One class of pages, first visited at one moment: with a price alone nothing is due for days, then all is."""
    pages = [f"http://h{n}.br/" for n in range(48)]
    _, worker = await opened(frontier, *pages, revisit={"rate": 24, "weigh": "equal", "interval_min": 60})
    (row,) = await frontier.collections()
    await plan_collection(frontier, row, now())
    made = []
    for _ in range(4 * 24):
        advance(1800)
        made.append(len(await visit_all(frontier, worker, lambda visit: kept(), rounds=1)))
    assert 46 <= sum(made) <= 48 + 2
    assert max(made) <= 4


async def test_the_price_spends_the_budget_where_it_buys_most(frontier):
    pages = [f"http://h{n}.br/" for n in range(60)]
    revisit = {"rate": 60, "weigh": "equal", "interval_min": 60}
    number, worker = await opened(frontier, *pages, revisit=revisit)
    (row,) = await frontier.collections()
    changing = {page: n % 3 for n, page in enumerate(pages)}  # never, every day, at every visit
    ticks = [0]

    def answer(visit):
        ticks[0] += 1
        kind = changing[visit.url]
        return kept(str(int(now() / DAY_S)) if kind == 1 else str(ticks[0]) if kind == 2 else "0")

    counts = dict.fromkeys(range(3), 0)
    for half in range(48 * 12):
        advance(1800)
        if half % 12 == 0:
            assert await frontier.collections_to_plan() == [number]
            await plan_collection(frontier, row, now())
            assert await frontier.collections_to_plan() == []
        for url in await visit_all(frontier, worker, answer, rounds=1):
            counts[changing[url]] += 1
    total = sum(counts.values())
    assert 0.98 * 720 <= total <= 720 + 5
    assert counts[1] > counts[0]


@pytest.mark.parametrize("policy", ["psp", "mp2", "m-wolf"])
async def test_a_plan_is_followed(frontier, policy):
    pages = [f"http://{'ab'[n % 2]}.br/{n}" for n in range(10)]
    revisit = {"policy": policy, "rate": 40, "weigh": "equal"}
    number, worker = await opened(frontier, *pages, revisit=revisit)
    (row,) = await frontier.collections()
    advance(3600)
    assert await frontier.lease(worker, 10) == []  # nothing was planned yet
    for day in range(3):
        assert await frontier.collections_to_plan() == [number]
        await plan_collection(frontier, row, now())
        made = []
        for _ in range(24 * 4):
            advance(900)
            made += await visit_all(frontier, worker, lambda visit, day=day: kept(str(day)), rounds=1)
        assert 38 <= len(made) <= 40
        assert set(made) == set(pages)


async def test_another_policy_takes_over_what_was_learned(frontier):
    number, worker = await opened(frontier, "http://a.br/", revisit={"policy": "uniform", "weigh": "equal"})
    advance(DAY_S)
    await visit_all(frontier, worker, lambda visit: kept("b"), rounds=1)
    await frontier.open_collection(a_collection(revisit={"policy": "proportional"}))
    (page,) = await fetch_revisit_pages(frontier, number)
    assert (page.history.visits, page.history.changes) == (2, 1)
    advance(DAY_S + 1)
    assert await visit_all(frontier, worker, lambda visit: kept("b"), rounds=1) == ["http://a.br/"]


async def test_a_collection_that_was_not_kept_fresh_learns_from_its_visits_when_it_is(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/"), offer("http://a.br/2")])
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker, lambda visit: kept())
    assert await fetch_revisit_pages(frontier, row.id) == []
    advance(DAY_S)
    assert await frontier.lease(worker, 10) == []
    await frontier.open_collection(a_collection(revisit={}))
    assert [page.history.first for page in await fetch_revisit_pages(frontier, row.id)] == [START, START]
    assert len(await visit_all(frontier, worker, lambda visit: kept(), rounds=1)) == 2
    await frontier.open_collection(a_collection(revisit={"policy": "never"}))
    assert await fetch_revisit_pages(frontier, row.id) == []
    advance(10 * DAY_S)
    assert await frontier.lease(worker, 10) == []
    assert (await numbers(frontier)).fetched == 2


async def test_an_announced_change_is_a_reason_to_go_where_such_dates_are_believed(frontier):
    pages = [f"http://a.br/{n}" for n in range(6)]
    number, worker = await opened(frontier, *pages, revisit={"rate": 1e6, "weigh": "equal"})
    await frontier.set_price(number, math.inf)  # nothing is worth a visit by itself
    await frontier.recompute_due(number, -(1 << 63), 100)
    for day in range(3):
        advance(DAY_S)
        await frontier.discover(number, [replace(offer(page), announced=now() - DAY_S / 2) for page in pages[:3]])
        if day == 0:
            assert await frontier.lease(worker, 10) == []
            await frontier.set_price(number, 0.0)
            await frontier.recompute_due(number, -(1 << 63), 100)
            await visit_all(frontier, worker, lambda visit: kept("b" if visit.url in pages[:3] else "a"), rounds=1)
            await frontier.set_price(number, 2.5e4)
            await frontier.recompute_due(number, -(1 << 63), 100)
        else:
            made = await visit_all(frontier, worker, lambda visit, day=day: kept(str(day)), rounds=1)
            assert sorted(made)[:3] == pages[:3]


async def test_sitemaps_are_read_again(frontier):
    row = await frontier.open_collection(a_collection(revisit={"weigh": "equal"}))
    listing = replace(offer("http://a.br/sitemap.xml"), role=int(UrlRole.SITEMAP))
    await frontier.discover(row.id, [listing])
    worker = (await frontier.join("w", current_process())).worker
    listed = Outcome(200, now(), type="text/xml", role=int(UrlRole.SITEMAP), payload="sha1:one", etag='"1"')
    await visit_all(frontier, worker, lambda visit: listed)
    status = await numbers(frontier)
    assert (status.fetched, status.dropped) == (0, 1)
    advance(700)
    (lease,) = await frontier.lease(worker, 1)
    (visit,) = lease.visits
    assert (visit.role, visit.etag, visit.payload) == (UrlRole.SITEMAP, '"1"', "sha1:one")
    await frontier.leave(worker)
    assert (await numbers(frontier)).dropped == 1
    assert await fetch_revisit_pages(frontier, row.id) == []  # it is no page
