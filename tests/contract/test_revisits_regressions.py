"""What every body of the frontier promises about pages that are kept fresh, where it was once broken.

Each scene is the shortest one that shows its defect; the frontier was mended since.
"""

import subprocess
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import FIRST_HOST, HostReport, Lease, PlannedVisit, UrlWeight
from tarrafa.frontier.revisit_planner import fetch_revisit_pages, plan_collection
from tarrafa.index.index_state import IndexAction, index_action
from tarrafa.model import Outcome, Status, UrlRole, Visit, VisitRecord
from tarrafa.runtime.process_identity import ProcessId, current_process, start_ticks
from tests.contract.frontier_bodies import a_collection, done, numbers, offer
from tests.contract.test_revisits import DAY_S, advance, kept, now, opened, visit_all

EQUAL: dict[str, object] = {"weigh": "equal"}
REPLACED = str(int(Status.REPLACED))
PAGES, BETTER = [f"http://a.br/{n}" for n in range(4)], [f"http://b.br/{n}" for n in range(4)]


def room(pages_max: int, **more: object) -> dict[str, object]:
    return {"hosts": ["*"], "pages_max": pages_max} | more


def weights(urls: list[str], in_links: int) -> list[UrlWeight]:
    return [UrlWeight(offer(url).host, offer(url).id, in_links) for url in urls]


async def found(frontier: Frontier, number: int, urls: list[str], in_links: int) -> None:
    await frontier.discover(number, [offer(url) for url in urls])
    await frontier.update_weights("c", weights(urls, in_links))


async def full(frontier: Frontier) -> tuple[int, int]:
    """A collection that has no place left for the better URLs that wait; its number and the worker's."""
    number, worker = await opened(frontier, *PAGES, scope=room(4))
    await found(frontier, number, BETTER, 3)
    return number, worker


async def configure(frontier: Frontier, **sections: dict[str, object]) -> None:
    usual: dict[str, dict[str, object]] = {"revisit": EQUAL, "politeness": {"delay": 1}}
    await frontier.open_collection(a_collection("c", **(usual | sections)), [])


async def finish(
    frontier: Frontier, worker: int, lease: Lease, answer: Callable[[Visit], Outcome], rest_s: float = 0.0
) -> None:
    """Report on all that was leased, and hand the host back."""
    reports = [done(lease, [visit], answer(visit)).reports[0] for visit in lease.visits]
    home = done(lease, [], next_at=now() + rest_s, ended_at=now(), keep=False)
    await frontier.finish(worker, [replace(home, reports=reports)])


def listed(role: UrlRole) -> Outcome:
    return Outcome(200, now(), type="text/xml", role=int(role), payload="sha1:one")


def keeping(visit: Visit) -> Outcome:
    """Every page is there and as it was; whoever is dismissed goes."""
    return Outcome(Status.REPLACED, now(), requested=False) if visit.dismissed else kept()


# -- which page goes next -------------------------------------------------------------------------------------


async def test_an_exploring_visit_takes_an_announced_page_where_nothing_else_is_due(frontier):
    number, worker = await opened(frontier, "http://a.br/news")
    made = 0
    for turn in range(60):  # one decision in fifty explores
        advance(700 if turn < 3 else 3600)
        await frontier.discover(number, [replace(offer("http://a.br/news"), announced=now() - 60)])
        for lease in await frontier.lease(worker, 10):
            made += len(lease.visits)
            await finish(frontier, worker, lease, lambda visit: kept(str(int(now() / 100) % 10)))
    assert made > 50


@pytest.mark.one_server
async def test_hosts_with_pages_to_see_again_get_their_share_while_new_hosts_wait(frontier):
    old = [f"http://old{n}.br/" for n in range(10)]
    number, worker = await opened(frontier, *old, revisit={"share": 0.5, "weigh": "equal"})
    advance(700)
    seen = []
    for step in range(15):
        await frontier.discover(number, [offer(f"http://new{step}-{k}.br/") for k in range(2)])
        for lease in await frontier.lease(worker, 2):
            seen += [visit.url for visit in lease.visits]
            await finish(frontier, worker, lease, keeping)
    assert set(old) <= set(seen)


async def test_a_page_that_fails_is_tried_ever_less_often(frontier):
    _, worker = await opened(frontier, "http://a.br/")
    made = []
    for _ in range(3 * 24):
        advance(3600)
        made += await visit_all(frontier, worker, lambda visit: Outcome(500, now()), rounds=1)
    assert 6 <= len(made) <= 7  # after 1, 2, 4, 8, 16 and 32 hours
    assert (await numbers(frontier)).fetched == 1


async def test_pages_that_fail_are_tried_within_the_rate(frontier):
    pages = [f"http://h{n}.br/" for n in range(24)]
    _, worker = await opened(frontier, *pages, revisit={"policy": "uniform", "rate": 12, "interval_min": 60})
    made = []
    for _ in range(6 * 24):
        advance(3600)
        made += await visit_all(frontier, worker, lambda visit: Outcome(500, now()), rounds=3)
    assert 4 * 12 <= len(made) <= 6 * 12 + 2


@pytest.mark.parametrize("status", [501, 507, 520, 525, 530, int(Status.NAME_UNKNOWN)])
async def test_what_search_takes_for_weather_the_frontier_does_too(frontier, status):
    _, worker = await opened(frontier, "http://a.br/")
    advance(700)
    assert await visit_all(frontier, worker, lambda visit: Outcome(status, now())) == ["http://a.br/"]
    assert (await numbers(frontier)).fetched == 1
    assert index_action(VisitRecord("c", "http://a.br/", 2, 0, Outcome(status, now()))) is IndexAction.NOTHING
    advance(DAY_S)
    assert await visit_all(frontier, worker, keeping, rounds=1) == ["http://a.br/"]


async def test_a_page_whose_weight_is_that_of_a_sitemap_can_still_change_it(frontier):
    await opened(frontier, "http://a.br/", revisit={"weigh": "links"})
    for in_links in (255, 1_000_000):  # the root of 256 is the weight of a sitemap
        await frontier.update_weights("c", weights(["http://a.br/"], in_links))
    facts = await frontier.look_up(offer("http://a.br/").host, offer("http://a.br/").id)
    assert facts.urls[0].freshness.history.weight > 900


async def test_a_page_that_left_comes_back_whole(frontier):
    row = await frontier.open_collection(a_collection(revisit=EQUAL))
    await frontier.discover(row.id, [offer("http://a.br/x", 1)])
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker, lambda visit: kept(etag='"1"', last_modified="Mon, 12 Jan 1970 13:46:40 GMT"))
    await configure(frontier, scope={"hosts": ["*"], "exclude": ["*/x"]})
    advance(700)
    await visit_all(frontier, worker, lambda visit: Outcome(Status.OUT_OF_SCOPE, now(), requested=False))
    await configure(frontier)
    advance(5)
    (lease,) = await frontier.lease(worker, 1)
    (visit,) = lease.visits
    assert (visit.etag, visit.last_modified, visit.content_id) == (None, None, None)


@pytest.mark.one_server
async def test_the_rate_holds_for_one_who_crawls_an_hour_a_day(open_frontier):
    made = []

    async with open_frontier() as frontier:
        pages = [f"http://h{n}.br/" for n in range(10)]
        _, worker = await opened(frontier, *pages, revisit={"policy": "uniform", "rate": 20})
        await frontier.leave(worker)
    for _ in range(6):
        advance(DAY_S - 3600)
        async with open_frontier() as frontier:
            worker = (await frontier.join("w", current_process())).worker
            for _ in range(12):
                advance(300)
                made.extend(await visit_all(frontier, worker, keeping, rounds=2))
            await frontier.leave(worker)
    assert 12 <= len(made) <= 20  # what an hour is worth, and two at once at each start


# -- another policy -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["leaves", "is killed"])
async def test_what_was_planned_comes_home_to_another_policy(frontier, end):
    with subprocess.Popen(["sleep", "600"]) as child:
        try:
            _, worker = await opened(frontier, *PAGES, revisit={"policy": "psp", "weigh": "equal"})
            (row,) = await frontier.collections()
            await plan_collection(frontier, row, now())
            for _ in range(3):
                advance(3600)
                await visit_all(frontier, worker, keeping, rounds=1)
            await frontier.leave(worker)
            theirs = ProcessId(current_process().boot, child.pid, start_ticks(child.pid) or 0)
            worker = (await frontier.join("theirs", theirs)).worker
            advance(3600)
            assert await frontier.lease(worker, 10)
            await configure(frontier)
            if end == "leaves":
                await frontier.leave(worker)
            child.kill()
            child.wait()
            assert (await numbers(frontier)).fetched == 4
            worker = (await frontier.join("other", current_process())).worker
            advance(DAY_S)
            assert sorted(await visit_all(frontier, worker, keeping)) == PAGES
        finally:
            child.kill()


async def test_a_planner_that_is_late_harms_no_other_policy(frontier):
    number, worker = await opened(frontier, *PAGES, revisit={"policy": "psp", "weigh": "equal"})
    visits = [PlannedVisit(offer(page).host, offer(page).id, now() + 60) for page in PAGES]
    await frontier.add_planned_visits(number, int(now()), visits[:2])
    await configure(frontier)
    await frontier.add_planned_visits(number, int(now()), visits[2:])
    await frontier.activate_plan(number, int(now()), now() + DAY_S)
    advance(DAY_S)
    assert sorted(await visit_all(frontier, worker, keeping)) == PAGES


async def test_who_is_out_while_the_policy_changes_is_seen_again_under_the_new_one(frontier):
    revisit = {"policy": "proportional", "weigh": "equal"}
    number, worker = await opened(frontier, "http://a.br/", revisit=revisit)
    advance(DAY_S + 1)
    assert await frontier.lease(worker, 1)
    await configure(frontier, revisit={"policy": "index", "rate": 1000, "weigh": "equal"})
    await frontier.leave(worker)
    worker = (await frontier.join("w", current_process())).worker
    await frontier.set_price(number, 100.0)
    await frontier.recompute_due(number, FIRST_HOST, 10)
    made = []
    for _ in range(30):
        advance(DAY_S)
        made += await visit_all(frontier, worker, keeping, rounds=1)
    assert len(made) > 10


@pytest.mark.parametrize("when", ["before", "after"])
async def test_who_is_out_while_its_collection_ceases_to_be_kept_fresh_is_no_less_kept(frontier, when):
    """It comes home unseen, before or after the collection is kept fresh once more."""

    number, worker = await opened(frontier, "http://a.br/")
    advance(DAY_S)
    assert await frontier.lease(worker, 10)
    await configure(frontier, revisit={"policy": "never"})
    status = await numbers(frontier)
    assert (status.fetched, status.handed_out, status.pending) == (1, 1, 0)
    if when == "before":
        await frontier.leave(worker)
    await configure(frontier)
    if when == "after":
        await frontier.leave(worker)
    status = await numbers(frontier)
    assert (status.fetched, status.handed_out, status.pending) == (1, 0, 0)
    assert [page.history.visits for page in await fetch_revisit_pages(frontier, number)] == [1]
    advance(60)
    other = (await frontier.join("other", current_process())).worker
    await visit_all(frontier, other, lambda visit: Outcome(Status.ROBOTS, now()), rounds=1)
    (facts,) = (await frontier.look_up(offer("http://a.br/").host, offer("http://a.br/").id)).urls
    assert (facts.state, facts.content_id) == ("excluded", None)


async def test_who_is_found_by_a_run_while_it_is_out_from_when_it_was_kept_fresh_is_no_less_kept(frontier):
    number, worker = await opened(frontier, "http://a.br/", "http://a.br/2")
    advance(DAY_S)
    assert await frontier.lease(worker, 10)
    await configure(frontier, revisit={"policy": "never"})
    await frontier.set_state("c", "stopped", "")
    await frontier.begin_run("c", "")
    await frontier.discover(number, [offer("http://a.br/")])
    await frontier.leave(worker)
    status = await numbers(frontier)
    assert (status.fetched, status.earlier, status.handed_out, status.pending) == (2, 2, 0, 1)


async def test_a_sitemap_in_trouble_survives_a_change_of_policy(frontier):
    row = await frontier.open_collection(a_collection(revisit=EQUAL))
    await frontier.discover(row.id, [replace(offer("http://a.br/sitemap.xml"), role=int(UrlRole.SITEMAP))])
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker, lambda visit: listed(UrlRole.SITEMAP))
    advance(700)
    await visit_all(frontier, worker, lambda visit: Outcome(502, now(), role=int(UrlRole.SITEMAP)))
    await configure(frontier, revisit={"weigh": "equal", "interval_min": 700})
    advance(DAY_S)
    made = await visit_all(frontier, worker, lambda visit: listed(UrlRole.SITEMAP), rounds=1)
    assert made == ["http://a.br/sitemap.xml"]


# -- plans ----------------------------------------------------------------------------------------------------


async def test_a_plan_waits_for_the_grace_of_a_page_that_is_gone(frontier):
    revisit = {"policy": "psp", "rate": 24, "weigh": "equal", "grace": "24h"}
    _, worker = await opened(frontier, "http://a.br/x", revisit=revisit)
    (row,) = await frontier.collections()
    await plan_collection(frontier, row, now())
    made = []
    for _ in range(22):
        advance(3600)
        made += await visit_all(frontier, worker, lambda visit: Outcome(404, now()), rounds=1)
    status = await numbers(frontier)
    assert (len(made), status.fetched, status.dropped) == (1, 1, 0)
    advance(DAY_S)
    await visit_all(frontier, worker, lambda visit: Outcome(404, now()), rounds=1)
    assert (await numbers(frontier)).dropped == 1


async def test_a_plan_leaves_sitemaps_to_be_read_every_day(frontier):
    row = await frontier.open_collection(a_collection(revisit={"policy": "psp", "weigh": "equal"}))
    listing = replace(offer("http://a.br/sitemap.xml"), role=int(UrlRole.SITEMAP))
    await frontier.discover(row.id, [listing, offer("http://a.br/")])
    worker = (await frontier.join("w", current_process())).worker

    def answer(visit: Visit) -> Outcome:
        return listed(UrlRole.SITEMAP) if visit.role else kept()

    await visit_all(frontier, worker, answer)
    made = []
    for _ in range(5):
        await plan_collection(frontier, row, now())
        for _ in range(12):
            advance(7201)
            made += await visit_all(frontier, worker, answer, rounds=1)
    assert 4 <= made.count("http://a.br/sitemap.xml") <= 5


class Killed(Exception):
    pass


class Dying:
    """A frontier whose planner is killed between its plan and the hosts hearing of it."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier

    def __getattr__(self, name: str) -> Any:
        return getattr(self._frontier, name)

    async def recompute_due(self, *_: object) -> None:
        raise Killed


async def test_the_plan_of_a_killed_planner_is_made_again(frontier):
    pages = [f"http://h{n}.br/" for n in range(10)]
    number, worker = await opened(frontier, *pages, revisit={"policy": "psp", "rate": 50, "weigh": "equal"})
    (row,) = await frontier.collections()
    with suppress(Killed):
        await plan_collection(cast(Frontier, Dying(frontier)), row, now())
    assert await frontier.collections_to_plan() == [number]
    advance(60)
    await plan_collection(frontier, row, now())
    assert await frontier.collections_to_plan() == []
    made = []
    for _ in range(24):
        advance(3600)
        made += await visit_all(frontier, worker, keeping, rounds=6)
    assert 45 <= len(made) <= 50


# -- a full collection ----------------------------------------------------------------------------------------


async def test_nothing_is_given_up_for_what_cannot_be_had(frontier):
    pages, down = [f"http://g{n}.br/" for n in range(20)], [f"http://down.br/{n}" for n in range(30)]
    number, worker = await opened(frontier, *pages, scope=room(20))
    await frontier.discover(number, [offer(url) for url in down])
    host = offer(down[0]).host
    await frontier.borrow_host(worker, number, host, "http://down.br:80")
    rest = HostReport(host, number, [], now() + DAY_S, now(), 1.0, keep=False, failures=3)
    await frontier.finish(worker, [rest])
    await frontier.update_weights("c", weights(down, 5))
    for _ in range(3):
        advance(5)
        await visit_all(frontier, worker, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.statuses.get(REPLACED)) == (20, 30, None)


async def test_a_page_that_somebody_looks_at_is_not_given_up(frontier):
    better = [f"http://b.br/{n}" for n in range(12)]
    number, worker = await opened(frontier, *PAGES, scope=room(4))
    await frontier.discover(number, [offer(url) for url in better])
    for turn in range(5):
        advance(700)
        leases = await frontier.lease(worker, 10)
        await frontier.update_weights("c", weights(better[2 * turn :][:2], turn + 1))
        assert not any(visit.dismissed for lease in await frontier.lease(worker, 10) for visit in lease.visits)
        for lease in leases:
            await finish(frontier, worker, lease, keeping)
        await visit_all(frontier, worker, keeping)
        assert (await numbers(frontier)).fetched <= 4


async def test_a_collection_that_may_ask_for_no_more_gives_up_nothing(frontier):
    number, worker = await opened(frontier, *PAGES, scope=room(1000, requests_max=4))
    await found(frontier, number, BETTER, 3)
    assert await frontier.lease(worker, 10) == []
    await configure(frontier, scope=room(1000, requests_max=1000))
    advance(5)
    await visit_all(frontier, worker, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.statuses.get(REPLACED)) == (8, None)


async def test_a_collection_is_not_full_while_its_last_places_are_only_being_tried(frontier):
    pages, bad, good = ([f"http://{kind}{n}.br/" for n in range(5)] for kind in "abc")
    number, worker = await opened(frontier, *pages, scope=room(10))
    await frontier.discover(number, [offer(url) for url in bad])
    out = await frontier.lease(worker, 10)
    assert len(out) == 5
    await found(frontier, number, good, 3)
    await visit_all(frontier, worker, keeping)
    for lease in out:
        await finish(frontier, worker, lease, lambda visit: Outcome(404, now()))
    await visit_all(frontier, worker, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.statuses.get(REPLACED)) == (10, None)


async def test_a_url_that_was_chosen_is_not_lost_when_the_configuration_changes(frontier):
    _, worker = await full(frontier)
    (lease,) = await frontier.lease(worker, 10)  # one page is dismissed
    await finish(frontier, worker, lease, keeping, rest_s=DAY_S)
    (chosen,) = await frontier.lease(worker, 10)
    assert [visit.url in BETTER for visit in chosen.visits] == [True]
    await frontier.leave(worker)
    worker = (await frontier.join("w", current_process())).worker
    await frontier.lease(worker, 10)  # it is chosen once more, and its host rests
    await configure(frontier, scope=room(40), revisit={"policy": "uniform"})
    advance(2 * DAY_S)
    await visit_all(frontier, worker, keeping, rounds=3)
    status = await numbers(frontier)
    assert (status.fetched, status.pending) == (8, 0)


async def test_a_page_that_gave_up_its_place_comes_back_when_there_is_room(frontier):
    _, worker = await full(frontier)
    for _ in range(10):
        advance(5)
        await visit_all(frontier, worker, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.statuses[REPLACED]) == (4, 4, 4)
    await configure(frontier, scope=room(1000))
    advance(5)
    await visit_all(frontier, worker, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.pending) == (8, 0)


async def test_nothing_is_given_up_any_more_when_the_limit_is_taken_away(frontier):
    _, worker = await full(frontier)
    (lease,) = await frontier.lease(worker, 10)
    assert [visit.dismissed for visit in lease.visits] == [True]
    await frontier.leave(worker)
    worker = (await frontier.join("w", current_process())).worker
    await configure(frontier)
    for _ in range(2):
        advance(700)
        await visit_all(frontier, worker, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.statuses.get(REPLACED)) == (8, None)


async def test_no_page_is_given_up_for_a_feed(frontier):
    number, worker = await opened(frontier, *PAGES, scope=room(4))
    feeds = [replace(offer(f"http://b.br/feed{n}"), role=int(UrlRole.FEED)) for n in range(4)]
    await frontier.discover(number, feeds)
    await frontier.update_weights("c", [UrlWeight(feed.host, feed.id, 3) for feed in feeds])

    def answer(visit: Visit) -> Outcome:
        return listed(UrlRole.FEED) if visit.role else keeping(visit)

    for _ in range(3):
        advance(5)
        await visit_all(frontier, worker, answer)
    status = await numbers(frontier)
    assert (status.fetched, status.statuses.get(REPLACED)) == (4, None)


@pytest.mark.one_server
async def test_where_the_chosen_ones_fail_the_best_that_can_be_had_is_kept(frontier):
    pages, junk, broken = ([f"http://{kind}{n}.br/" for n in range(6)] for kind in "ajb")
    number, worker = await opened(frontier, *pages, scope=room(6))
    await frontier.update_weights("c", weights(pages, 2))
    await frontier.discover(number, [offer(url) for url in junk])
    await found(frontier, number, broken, 3)
    made = []
    for _ in range(20):
        advance(5)
        made += await visit_all(
            frontier, worker, lambda visit: Outcome(404, now()) if visit.url in broken else keeping(visit)
        )
    assert not set(made) & set(junk)
    ids = {page.id for page in await fetch_revisit_pages(frontier, number)}
    assert ids == {offer(page).id for page in pages}


async def test_a_full_collection_hardly_shrinks_while_a_slow_host_gives_the_better_pages(frontier):
    pages, better = [f"http://g{n}.br/" for n in range(60)], [f"http://slow.br/{n}" for n in range(60)]
    number, worker = await opened(frontier, *pages, scope=room(60))
    await found(frontier, number, better, 3)
    sizes = []
    for _ in range(40):
        for lease in await frontier.lease(worker, 100):
            slow = "slow" in lease.host_key
            made = replace(lease, visits=lease.visits[:1]) if slow else lease
            await finish(frontier, worker, made, keeping, rest_s=float(slow))
        advance(1)
        sizes.append((await numbers(frontier)).fetched)
    assert min(sizes) >= 57  # one in twenty is on its way
    assert (await numbers(frontier)).statuses[REPLACED] > 10


# -- pages that somebody calls a feed -------------------------------------------------------------------------


async def test_a_page_that_was_announced_as_a_feed_is_kept_and_counted_as_a_page(frontier):
    row = await frontier.open_collection(a_collection(revisit=EQUAL, scope=room(2)))
    feeds = [replace(offer(f"http://a.br/{n}"), role=int(UrlRole.FEED)) for n in range(5)]
    await frontier.discover(row.id, feeds)
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.dropped) == (2, 0)
    assert len(await fetch_revisit_pages(frontier, row.id)) == 2


async def test_a_kept_page_that_is_called_a_feed_while_it_is_out_stays_a_page(frontier):
    number, worker = await opened(frontier, "http://a.br/1", "http://a.br/2")
    advance(700)
    (lease,) = await frontier.lease(worker, 1)
    await frontier.discover(number, [replace(offer("http://a.br/1"), role=int(UrlRole.FEED))])
    await finish(frontier, worker, lease, keeping)
    status = await numbers(frontier)
    assert (status.fetched, status.dropped, len(await fetch_revisit_pages(frontier, number))) == (2, 0, 2)
