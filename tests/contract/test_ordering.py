"""In which order every body of the frontier hands URLs out: breadth, and what is favoured or penalised."""

from collections.abc import Iterable
from typing import Any

import pytest

from tarrafa.frontier.api import Frontier
from tarrafa.frontier.collection_status import finish_reason, is_exhausted
from tarrafa.frontier.export_import.export_records import FrontierCursor
from tarrafa.frontier.messages import DiscoveredUrl, Lease, SiteFacts, UrlFacts, UrlWeight
from tarrafa.model import Outcome, Status, UrlRole, Visit
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.process_identity import ProcessId, current_process
from tests.contract.frontier_bodies import FalseClock, FalseLeaseClock, a_collection, done, numbers, offer

NOW = 1_000_000.0


def breadth(**strategy: object) -> bytes:
    return a_collection(strategy={"order": "breadth", "cycle": 1} | strategy)


def page(external: int = 0) -> Outcome:
    """One that links to so many pages of other sites."""
    return Outcome(200, NOW, kept=True, type="text/html", external=external)


def mentioned(**counts: int) -> list[UrlWeight]:
    """So often, the front page of each `NAME.br`."""
    found = [(offer(f"http://{name}.br/"), count) for name, count in counts.items()]
    return [UrlWeight(one.host, one.id, count) for one, count in found]


async def opened(frontier: Frontier, content: bytes, *roots: str) -> int:
    row = await frontier.open_collection(content, [offer(url) for url in roots])
    return row.id


async def walk(frontier: Frontier, worker: int, *outcomes: Outcome | int) -> list[str]:
    """Visit one URL after the other, whoever is next; each has its outcome, the last one all that come after."""
    seen: list[str] = []
    held: tuple[Lease, list[Visit]] | None = None
    while True:
        if held is None or not held[1]:
            leases = await frontier.lease(worker, 1)
            if not leases:
                return seen
            held = (leases[0], list(leases[0].visits))
        assert len(held[1]) == 1, "one page at a time"
        outcome = outcomes[min(len(seen), len(outcomes) - 1)]
        seen.append(held[1][0].url)
        outcome = page(outcome) if isinstance(outcome, int) else outcome
        (answer,) = await frontier.finish(worker, [done(held[0], held[1], outcome)])
        held = (held[0], list(answer.visits))


async def about(frontier: Frontier, url: str) -> UrlFacts:
    facts = await frontier.look_up(host_id(host_key(url)), url_id(url))
    return facts.urls[0]


async def site_of(frontier: Frontier, url: str) -> SiteFacts:
    site = (await about(frontier, url)).site
    assert site is not None
    return site


async def stages(frontier: Frontier, *names: str) -> list[str]:
    return [(await site_of(frontier, f"http://{name}.br/")).stage for name in names]


async def a_worker(frontier: Frontier, name: str = "w") -> int:
    return (await frontier.join(name, current_process())).worker


@pytest.mark.one_server
async def test_the_most_mentioned_sites_are_chosen_first_and_equals_by_their_best_url(frontier):
    await opened(frontier, breadth(), *(f"http://{name}.br/" for name in ("a", "b", "c", "dd", "e")))
    await frontier.update_weights("c", mentioned(a=1, b=5, c=3, dd=0, e=0))
    worker = await a_worker(frontier)
    assert await walk(frontier, worker, 0) == [f"http://{name}.br/" for name in ("b", "c", "a", "e", "dd")]
    status = await numbers(frontier)
    assert (status.pending, status.passed_over, status.sites_chosen, status.table) == (0, 0, 5, 0)


async def test_mentions_are_those_of_all_urls_of_a_site_on_all_its_hosts(frontier):
    urls = ["http://a.br/x", "http://www.a.br/", "http://b.br/", "http://c.br/"]
    await opened(frontier, breadth(), *urls)
    weights = [UrlWeight(one.host, one.id, count) for one, count in zip(map(offer, urls), (2, 2, 3, 1), strict=True)]
    for _ in range(3):  # absolute values: telling them again changes nothing
        await frontier.update_weights("c", weights)
        await frontier.discover(1, [offer(url) for url in urls])
    site = await site_of(frontier, "http://www.a.br/")
    assert (site.name, site.mentions, site.best) == ("a.br", 4, "http://www.a.br/")
    assert (await walk(frontier, await a_worker(frontier), 0))[0] == "http://www.a.br/"
    await frontier.update_weights("c", [UrlWeight(weights[0].host, weights[0].id, 0)])
    site = await site_of(frontier, "http://a.br/x")
    assert site.mentions == 2, "links may also disappear"


@pytest.mark.parametrize(
    ("links", "pages"),
    [((0,), 1), ((1,), 1), ((2, 3), 2), ((2, 4, 7), 3), ((9, 9, 9, 15), 4), ((1000,) * 9, 9), ((99, 0), 2)],
)
async def test_inside_a_site_the_walk_goes_on_while_2_to_the_i_links_lead_elsewhere(frontier, links, pages):
    await opened(frontier, breadth(), *(f"http://a.br/{'x' * n}" for n in range(20)))
    seen = await walk(frontier, await a_worker(frontier), *links, 0)
    assert seen == [f"http://a.br/{'x' * n}" for n in range(pages if links[-1] < 1000 else 10)]
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.passed_over) == (len(seen), 0, 20 - len(seen))
    assert is_exhausted(status)
    assert (
        str(finish_reason(status))
        == f"every site in reach was visited; {20 - len(seen)} of their URLs were passed over"
    )


async def test_a_worker_that_counts_no_links_sees_one_page_of_each_site(frontier):
    await opened(frontier, breadth(), "http://a.br/", "http://a.br/x", "http://b.br/")
    outcome = Outcome(200, NOW, kept=True)
    assert await walk(frontier, await a_worker(frontier), outcome) == ["http://a.br/", "http://b.br/"]


async def test_internal_links_are_taken_in_the_order_of_their_score_as_they_become_known(frontier):
    number = await opened(frontier, breadth(penalise=["*/login*"]), "http://a.br/")
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    links = ["http://a.br/login", "http://a.br/b/c/d", "http://a.br/long-name.html", "http://a.br/sitemap.xml"]
    found = [offer(url) for url in links]
    await frontier.discover(number, [*found[:3], DiscoveredUrl(*_with_role(found[3]))])
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits, page(1 << 20))])
    seen = []
    while answer.visits:
        seen += [visit.url for visit in answer.visits]
        (answer,) = await frontier.finish(worker, [done(lease, answer.visits, page(1 << 20))])
    assert seen == [links[2], links[1], links[0], links[3]]


def _with_role(found: DiscoveredUrl) -> tuple[Any, ...]:
    return (found.host, found.id, found.url, found.host_key, found.depth, 0, int(UrlRole.SITEMAP))


async def test_a_walk_goes_from_host_to_host_of_its_site_and_never_has_two_pages_out(frontier):
    urls = [
        "http://a.br/",
        "http://www.a.br/",
        "http://blog.a.br/",
        "http://a.br/very/deep/page",
        "http://b.br/x/y",
    ]
    await opened(frontier, breadth(cycle=5), *urls)
    one, two = await a_worker(frontier, "one"), await a_worker(frontier, "two")
    seen: list[str] = []
    for _ in range(20):
        leases = [(worker, lease) for worker in (one, two) for lease in await frontier.lease(worker, 9)]
        assert len([lease for _, lease in leases if "a.br" in lease.host_key]) <= 1
        for worker, lease in leases:
            seen += [visit.url for visit in lease.visits]
            await frontier.finish(worker, [done(lease, lease.visits, page(1 << 20), keep=False)])
    assert [url for url in seen if "a.br" in url] == urls[:4]


async def test_a_visit_that_brings_no_page_is_no_page_and_the_next_best_url_is_tried(frontier):
    urls = [f"http://a.br/{'x' * n}" for n in range(20)]
    await opened(frontier, breadth(), *urls)
    moved = Outcome(301, NOW, location="http://www.a.br/")
    gone, forbidden = Outcome(404, NOW), Outcome(Status.ROBOTS, NOW, requested=False)
    assert await walk(frontier, await a_worker(frontier), moved, gone, 2, forbidden, 3) == urls[:5]
    site = await site_of(frontier, "http://a.br/xxxxxx")
    assert (site.stage, site.walked, site.vain, site.links) == ("over", 2, 3, 3)


async def test_a_walk_without_pages_ends(frontier):
    await opened(frontier, breadth(), *(f"http://a.br/{n}" for n in range(20)), "http://b.br/far/down")
    seen = await walk(frontier, await a_worker(frontier), Outcome(404, NOW))
    assert (len(seen), seen[-1]) == (6, "http://b.br/far/down")


async def test_a_site_in_trouble_keeps_nobody_waiting_and_is_walked_when_it_answers(frontier):
    await opened(frontier, breadth(), "http://a.br/", "http://b.br/x")
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    trouble = Outcome(Status.SYSTEM_ERROR, NOW)
    assert [visit.url for visit in lease.visits] == ["http://a.br/"]
    await frontier.finish(worker, [done(lease, lease.visits, trouble, keep=False, failures=1, next_at=NOW + 60)])
    assert await walk(frontier, worker, 0) == ["http://b.br/x"]
    assert not is_exhausted(await numbers(frontier)), "it is to be tried again"
    FalseClock.shift[0] = 60.0
    assert await walk(frontier, worker, 0) == ["http://a.br/"]
    assert is_exhausted(await numbers(frontier))


async def test_when_the_best_host_is_given_up_the_walk_goes_on_at_another_of_the_site_or_ends(frontier):
    content = a_collection(strategy={"order": "breadth", "cycle": 1}, fetch={"host_failures_max": 0, "retries": 0})
    await opened(frontier, content, "http://a.br/", "http://a.br/x", "http://www.a.br/deep/down", "http://b.br/z/z")
    worker = await a_worker(frontier)
    trouble = Outcome(Status.SYSTEM_ERROR, NOW)
    for url in ("http://a.br/", "http://www.a.br/deep/down", "http://b.br/z/z"):
        (lease,) = await frontier.lease(worker, 1)
        assert [visit.url for visit in lease.visits] == [url]
        await frontier.finish(worker, [done(lease, lease.visits, trouble, keep=False, failures=1)])
    status = await numbers(frontier)
    assert (status.pending, status.passed_over, status.failed) == (0, 0, 4)


async def test_a_chosen_site_stays_chosen_whatever_is_said_of_it_and_over_a_restart(open_frontier):
    async with open_frontier() as frontier:
        number = await opened(frontier, breadth(), "http://a.br/")
        assert await walk(frontier, await a_worker(frontier), 0) == ["http://a.br/"]
        await frontier.discover(number, [offer("http://a.br/new", 1), offer("http://www.a.br/", 1)])
        await frontier.update_weights("c", mentioned(a=1000))
        await frontier.set_state("c", "paused", "")
    async with open_frontier() as frontier:
        await opened(frontier, breadth(), "http://a.br/")
        assert await walk(frontier, await a_worker(frontier, "v"), 0) == []
        assert await stages(frontier, "a") == ["over"]
        status = await numbers(frontier)
        assert (status.known, status.pending, status.passed_over) == (3, 0, 2), "known, and not forgotten"


async def test_what_a_dead_worker_held_waits_again_and_the_walk_goes_on_from_there(open_frontier):
    ghost = ProcessId(current_process().boot, 999_999_999, 1)

    async with open_frontier() as frontier:
        await opened(frontier, breadth(), "http://a.br/", "http://a.br/x", "http://b.br/y/y")
        worker = await a_worker(frontier, "first")
        (lease,) = await frontier.lease(worker, 1)
        (answer,) = await frontier.finish(worker, [done(lease, lease.visits, page(2))])
        assert [visit.url for visit in answer.visits] == ["http://a.br/x"]
        FalseLeaseClock.shift[0] = 31.0
        await frontier.join("ghost", ghost)
    async with open_frontier() as frontier:
        FalseClock.shift[0] = 10_000.0
        assert await walk(frontier, await a_worker(frontier), 0) == ["http://a.br/x", "http://b.br/y/y"]
        site = await site_of(frontier, "http://a.br/")
        assert site.walked == 2


async def test_a_collection_that_had_nothing_left_begins_another_run_when_it_is_started_again(frontier):
    await opened(frontier, breadth(), "http://a.br/", "http://a.br/x", "http://b.br/", "http://b.br/y")
    worker = await a_worker(frontier)
    assert await walk(frontier, worker, 0) == ["http://a.br/", "http://b.br/"]
    await frontier.set_state("c", "finished", "")
    await opened(frontier, breadth(), "http://a.br/", "http://b.br/")
    assert await walk(frontier, worker, 0) == ["http://a.br/x", "http://b.br/y"]
    await frontier.set_state("c", "finished", "")
    await opened(frontier, breadth(), "http://a.br/", "http://b.br/")
    assert await walk(frontier, worker, 0) == []


@pytest.mark.one_server
async def test_a_run_that_was_cut_short_by_a_limit_is_not_over(frontier):
    def content(most: int) -> bytes:
        strategy = {"order": "breadth", "cycle": 1}
        return a_collection(strategy=strategy, scope={"hosts": ["*"], "pages_max": most})

    roots = ["http://a.br/", "http://a.br/x", "http://bb.br/"]
    await opened(frontier, content(1), *roots)
    worker = await a_worker(frontier)
    assert await walk(frontier, worker, 0) == ["http://a.br/"]
    await frontier.set_state("c", "finished", "")
    await opened(frontier, content(9), *roots)
    assert await walk(frontier, worker, 0) == ["http://bb.br/"]


async def test_a_new_root_on_a_site_that_was_walked_waits_for_the_next_run(frontier):
    await opened(frontier, breadth(), "http://a.br/")
    worker = await a_worker(frontier)
    assert await walk(frontier, worker, 0) == ["http://a.br/"]
    await opened(frontier, breadth(), "http://a.br/", "http://a.br/x")
    assert await walk(frontier, worker, 0) == []
    await frontier.set_state("c", "finished", "")
    await opened(frontier, breadth(), "http://a.br/", "http://a.br/x")
    assert await walk(frontier, worker, 0) == ["http://a.br/x"]


@pytest.mark.one_server
async def test_the_table_has_a_maximum_and_the_least_mentioned_give_way(frontier):
    names = [f"s{n}" for n in range(6)]
    await opened(frontier, breadth(table_max=2, cycle=1), "http://a.br/", *(f"http://{n}.br/" for n in names))
    await frontier.update_weights("c", mentioned(a=99, s0=1, s1=2, s2=3))
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    assert [visit.url for visit in lease.visits] == ["http://a.br/"]
    assert await stages(frontier, *names) == ["heard", "listed", "listed", "heard", "heard", "heard"]
    assert (await numbers(frontier)).table == 2
    await frontier.update_weights("c", mentioned(s4=50, s5=40))
    assert await stages(frontier, *names) == ["heard", "listed", "listed", "heard", "heard", "heard"]
    await frontier.finish(worker, [done(lease, lease.visits, page())])
    seen = await walk(frontier, worker, 0)
    assert seen == [f"http://s{n}.br/" for n in (4, 5, 2, 1, 0, 3)], "nobody is left out for good"


@pytest.mark.one_server
async def test_many_give_way_at_once_to_those_that_are_mentioned_more_often(frontier):
    await opened(frontier, breadth(table_max=4), "http://a.br/", *(f"http://s{n}.br/" for n in range(9)))
    await frontier.update_weights("c", mentioned(a=99, s0=4, s1=3, s2=2, s3=1))
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    assert await stages(frontier, *(f"s{n}" for n in range(5))) == ["listed"] * 4 + ["heard"]
    await frontier.update_weights("c", mentioned(s4=50, s5=40, s6=30, s7=20, s8=4))
    await frontier.finish(worker, [done(lease, lease.visits, page())])
    (lease,) = await frontier.lease(worker, 1)
    assert _urls([lease]) == ["http://s4.br/"]
    names, listed = [f"s{n}" for n in range(9)], {"s0", "s5", "s6", "s7"}
    expected = ["listed" if name in listed else "chosen" if name == "s4" else "heard" for name in names]
    assert await stages(frontier, *names) == expected
    assert (await numbers(frontier)).table == 4


@pytest.mark.one_server
async def test_a_smaller_maximum_holds_at_once(frontier):
    await opened(frontier, breadth(), *(f"http://s{n}.br/" for n in range(9)))
    worker = await a_worker(frontier)
    await frontier.lease(worker, 1)
    assert (await numbers(frontier)).table == 8
    await frontier.open_collection(breadth(table_max=3))
    assert (await numbers(frontier)).table == 3


@pytest.mark.one_server
@pytest.mark.parametrize(("cycle", "expected"), [(1, 1), (4, 4), (100, 12)])
async def test_a_cycle_takes_so_many_sites_and_the_next_begins_when_half_are_done(frontier, cycle, expected):
    await opened(frontier, breadth(cycle=cycle), *(f"http://s{n}.br/" for n in range(12)))
    worker = await a_worker(frontier)
    leases = await frontier.lease(worker, 100)
    assert len(leases) == expected
    assert await frontier.lease(worker, 100) == []
    out = leases
    while len(out) * 2 >= cycle and out:
        assert await frontier.lease(worker, 100) == []
        await frontier.finish(worker, [done(out[0], out[0].visits, page())])
        out = out[1:]
    assert len(await frontier.lease(worker, 100)) == min(cycle, 12 - expected)


async def test_depth_limits_and_host_caps_hold_in_breadth_too(frontier):
    scope = {"hosts": ["*"], "depth_max": 1, "host_pages_max": 2, "site_hosts_max": 2}
    number = await opened(frontier, a_collection(scope=scope, strategy={"order": "breadth", "cycle": 1}))
    links = [("http://a.br/", 2), ("http://a.br/one", 1), ("http://a.br/two2", 1), ("http://a.br/three", 1)]
    links += [("http://www.a.br/somewhere", 1), ("http://w3.a.br/", 1), ("http://b.br/deep/down/here", 1)]
    for url, depth in links:
        await frontier.discover(number, [offer(url, depth)])
    seen = await walk(frontier, await a_worker(frontier), 1 << 20)
    assert seen == [links[place][0] for place in (1, 2, 4, 6)]
    status = await numbers(frontier)
    assert (status.too_deep, status.dropped, status.pending, status.passed_over) == (1, 2, 0, 0)


async def test_a_collection_changes_to_breadth_and_its_visited_sites_count_as_walked(frontier):
    await opened(frontier, a_collection(), "http://a.br/0", "http://a.br/1")
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    await frontier.finish(worker, [done(lease, lease.visits[:1], keep=False)])
    links = ["http://b.br/x", "http://b.br/", "http://c.br/", "http://www.c.br/"]
    await frontier.discover(1, [offer(url, 1) for url in links])
    await frontier.update_weights("c", mentioned(a=9, c=3))
    await frontier.open_collection(breadth())
    status = await numbers(frontier)
    assert (status.pending, status.passed_over) == (4, 1)
    assert await walk(frontier, worker, 0) == ["http://c.br/", "http://b.br/"]


async def test_a_collection_changes_from_breadth_and_nothing_is_passed_over_any_more(frontier):
    await opened(frontier, breadth(), "http://a.br/", "http://a.br/x", "http://b.br/", "http://b.br/y")
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    await frontier.finish(worker, [done(lease, lease.visits, page(), keep=False)])
    await frontier.open_collection(a_collection(strategy={"order": "lifo"}))
    status = await numbers(frontier)
    assert (status.pending, status.passed_over, status.table) == (3, 0, 0)
    leases = await frontier.lease(worker, 9)
    assert sorted(_urls(leases)) == ["http://a.br/x", "http://b.br/", "http://b.br/y"]


def _urls(leases: Iterable[Lease]) -> list[str]:
    return [visit.url for lease in leases for visit in lease.visits]


async def test_other_weights_order_a_breadth_anew(frontier):
    urls = ["http://a.br/aaaaaaaaaaaaaaaaaaaa", "http://a.br/b/c", "http://a.br/x/login"]
    await opened(frontier, breadth(), *urls)
    assert (await site_of(frontier, urls[0])).best == urls[1]
    await frontier.open_collection(breadth(weights={"block": 50}))
    assert (await site_of(frontier, urls[0])).best == urls[0]
    await frontier.open_collection(breadth(weights={"block": 50}, penalise=["*aaa*", "*login"]))
    assert (await site_of(frontier, urls[0])).best == urls[1]


async def test_pages_of_walked_sites_are_seen_again_as_in_every_order(frontier):
    content = a_collection(strategy={"order": "breadth"}, revisit={"policy": "uniform", "interval_min": "1h"})
    await opened(frontier, content, "http://a.br/", "http://a.br/x")
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    kept = Outcome(200, NOW, kept=True, content_id="1" * 16)
    await frontier.finish(worker, [done(lease, lease.visits, kept)])
    assert await frontier.lease(worker, 1) == []
    FalseClock.shift[0] = 4000.0
    (again,) = await frontier.lease(worker, 1)
    assert _urls([again]) == ["http://a.br/"]
    again_kept = Outcome(200, NOW + 4000, kept=True, content_id="2" * 16, external=1 << 20)
    await frontier.finish(worker, [done(again, again.visits, again_kept, next_at=NOW + 4001)])
    status = await numbers(frontier)
    assert (status.revisits, status.passed_over, await stages(frontier, "a")) == (1, 1, ["over"])


@pytest.mark.one_server
async def test_a_gate_that_is_closed_keeps_no_other_collection_from_the_host(frontier):
    strategy = {"order": "breadth", "cycle": 1}
    await frontier.open_collection(
        a_collection("b", strategy=strategy), [offer("http://z.br/"), offer("http://a.br/x")]
    )
    worker = await a_worker(frontier)
    (chosen,) = await frontier.lease(worker, 1)
    assert _urls([chosen]) == ["http://z.br/"]
    await frontier.open_collection(a_collection("c"), [offer(f"http://a.br/{n}") for n in range(20)])
    (lease,) = await frontier.lease(worker, 1)
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits)])
    assert len(answer.visits) == 8, "nobody else may visit it now"


async def test_a_host_that_moves_away_leaves_the_walk_to_the_others_of_its_site(frontier):
    urls = ["http://a.br/", "http://a.br/x", "http://www.a.br/x/y", "http://b.br/deep/down"]
    await opened(frontier, breadth(), *urls)
    await frontier.update_weights("c", mentioned(a=9))
    worker = await a_worker(frontier)
    (lease,) = await frontier.lease(worker, 1)
    await frontier.finish(worker, [done(lease, lease.visits, page(2), keep=False, next_at=NOW + 60)])
    assert (await site_of(frontier, urls[2])).best == urls[1]
    album = await frontier.export_hosts(FrontierCursor(), 100)
    await frontier.forget_host(lease.host)
    site = await site_of(frontier, urls[2])
    assert (site.stage, site.mentions, site.best) == ("chosen", 0, urls[2])
    assert await walk(frontier, worker, 0) == urls[2:]
    await frontier.import_hosts(album.images)
    site = await site_of(frontier, urls[2])
    assert (site.stage, site.mentions) == ("over", 9), "it comes back, and the site stays walked"
    status = await numbers(frontier)
    assert (status.known, status.pending, status.passed_over) == (4, 0, 1)


async def test_what_turns_out_to_be_a_feed_is_not_the_best_url_of_its_site(frontier):
    number = await opened(frontier, breadth(), "http://a.br/f", "http://a.br/page")
    assert (await site_of(frontier, "http://a.br/f")).best == "http://a.br/f"
    await frontier.discover(number, [DiscoveredUrl(*_with_role(offer("http://a.br/f")))])
    assert (await site_of(frontier, "http://a.br/f")).best == "http://a.br/page"
    assert await walk(frontier, await a_worker(frontier), 99) == ["http://a.br/page", "http://a.br/f"]


async def test_favoured_hosts_go_first_and_nobody_starves(frontier):
    content = a_collection(strategy={"favour": ["*.pt"]})
    others, favoured = [f"http://h{n}.br/" for n in range(20)], [f"http://h{n}.pt/" for n in range(20)]
    await opened(frontier, content, *others, *favoured)
    worker = await a_worker(frontier)
    seen = [url for _ in range(20) for url in _urls(await frontier.lease(worker, 1))]
    assert sum(url.endswith(".pt/") for url in seen) == 16
    many = _urls(await frontier.lease(worker, 10))
    assert sum(url.endswith(".pt/") for url in many) == 4, "as many as there are"


@pytest.mark.one_server
async def test_what_is_favoured_may_change(frontier):
    await opened(frontier, a_collection(), *(f"http://h{n}.br/" for n in range(9)), "http://x.pt/")
    worker = await a_worker(frontier)
    assert "http://x.pt/" in _urls(await frontier.lease(worker, 10))
    await frontier.leave(worker)
    for favour in ("*.pt", "h7.br"):
        await frontier.open_collection(a_collection(strategy={"favour": [favour]}))
        worker = await a_worker(frontier)
        FalseClock.shift[0] += 10.0
        (first,) = _urls(await frontier.lease(worker, 1))
        assert first == {"*.pt": "http://x.pt/", "h7.br": "http://h7.br/"}[favour]
        await frontier.leave(worker)


async def test_penalised_urls_go_last_in_every_order(frontier):
    content = a_collection(strategy={"order": "fifo", "penalise": ["*/login*"]})
    urls = ["http://a.br/login", "http://a.br/1", "http://a.br/x/login?y", "http://a.br/2"]
    await opened(frontier, content, *urls)
    (lease,) = await frontier.lease(await a_worker(frontier), 1)
    assert _urls([lease]) == [urls[1], urls[3], urls[0], urls[2]]
