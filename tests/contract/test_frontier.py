"""What every body of the frontier promises: the same suite on SQLite and over the socket."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import apsw
import msgspec
import pytest
from msgspec.structs import replace

from tarrafa.errors import ConfigError, DataError, FrontierError, LeaseLost, TarrafaError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import (
    ClockReading,
    DiscoveredUrl,
    FrontierCollectionState,
    HostReport,
    NextVisits,
    PastVisit,
    RobotsCopy,
    UrlWeight,
)
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.model import Outcome, Status, UrlRole
from tarrafa.parse.url import host_id
from tarrafa.runtime.process_identity import ProcessId, current_process, start_ticks
from tests.contract.frontier_bodies import (
    SUFFIXES,
    FalseClock,
    FalseLeaseClock,
    a_collection,
    done,
    numbers,
    offer,
    urls,
)


async def test_a_discovered_url_is_handed_out_once_and_its_end_is_counted(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/"), offer("http://b.br/")])
    await frontier.discover(row.id, [offer("http://a.br/")])
    terms = await frontier.join("w", current_process())
    leases = await frontier.lease(terms.worker, 10)
    assert urls(leases) == ["http://a.br/", "http://b.br/"]
    assert await frontier.lease(terms.worker, 10) == []
    answers = await frontier.finish(terms.worker, [done(lease, lease.visits) for lease in leases])
    assert answers == [NextVisits(False, []), NextVisits(False, [])]
    status = await numbers(frontier)
    assert (status.known, status.fetched, status.pending, status.handed_out) == (2, 2, 0, 0)
    assert (status.hosts, status.visits, status.statuses, status.types) == (2, 2, {"200": 2}, {"text/html": 2})


async def test_a_host_is_with_one_worker_at_a_time(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(30)])
    one, two = await frontier.join("one", current_process()), await frontier.join("two", current_process())
    (lease,) = await frontier.lease(one.worker, 10)
    assert await frontier.lease(two.worker, 10) == []
    (answer,) = await frontier.finish(two.worker, [done(lease, lease.visits)])
    assert answer == NextVisits(False, [])
    assert (await numbers(frontier)).fetched == 0


async def test_who_has_forgotten_what_it_holds_is_told_so_and_gives_back_what_it_only_borrowed(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://{name}.br/{n}") for name in "ab" for n in range(2)])
    one, two = await frontier.join("one", current_process()), await frontier.join("two", current_process())
    leases = await frontier.lease(one.worker, 1) + await frontier.lease(two.worker, 1)
    (held,) = await frontier.held_leases(one.worker)
    assert sorted(held.visits, key=lambda visit: visit.url) == leases[0].visits
    assert replace(held, visits=leases[0].visits) == leases[0]
    await frontier.finish(one.worker, [done(leases[0], leases[0].visits[:1], ended_at=1_000_003.0)])
    (again,) = await frontier.held_leases(one.worker)
    assert (again.visits, again.ended_at) == (leases[0].visits[1:], 1_000_003.0)
    assert (await frontier.borrow_host(one.worker, row.id, host_id("http://c.br:80"), "http://c.br:80")).granted
    assert len(await frontier.held_leases(one.worker)) == 1
    assert (await frontier.borrow_host(two.worker, row.id, host_id("http://c.br:80"), "http://c.br:80")).granted
    FalseLeaseClock.shift[0] = 31.0
    with pytest.raises(LeaseLost):
        await frontier.held_leases(one.worker)


async def test_hosts_are_shared_out_fairly(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://h{n}.br/") for n in range(40)])
    one, two = await frontier.join("one", current_process()), await frontier.join("two", current_process())
    assert len(await frontier.lease(one.worker, 500)) == 20
    assert len(await frontier.lease(two.worker, 500)) == 20


async def test_a_host_is_not_leased_before_its_next_time(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(2)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 10)
    await frontier.finish(worker, [done(lease, lease.visits[:1], next_at=1_000_007.0, keep=False)])
    assert await frontier.lease(worker, 10) == []
    FalseClock.shift[0] = 6.9
    assert await frontier.lease(worker, 10) == []
    FalseClock.shift[0] = 7.0
    (again,) = await frontier.lease(worker, 10)
    assert again.next_at == 1_000_007.0
    assert [visit.id for visit in again.visits] == [lease.visits[1].id]


async def test_what_a_holder_hands_back_unvisited_waits_again_under_a_new_number(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/")])
    worker = (await frontier.join("w", current_process())).worker
    (first,) = await frontier.lease(worker, 1)
    await frontier.finish(worker, [done(first, [], keep=False)])
    (second,) = await frontier.lease(worker, 1)
    assert first.visits[0].number == 1
    assert second.visits[0].number == 2


async def test_finish_brings_the_next_visits_and_is_idempotent(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(12)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    assert len(lease.visits) == 8
    report = done(lease, lease.visits[:3])
    (answer,) = await frontier.finish(worker, [report])
    assert answer.is_leased
    assert len(answer.visits) == 3
    (again,) = await frontier.finish(worker, [report])
    assert again == NextVisits(True, [])
    assert (await numbers(frontier)).fetched == 3


async def test_everything_survives_closing_and_a_dead_worker_gives_its_hosts_back(open_frontier):
    ghost = ProcessId(current_process().boot, os.getpid(), 1)

    async with open_frontier() as frontier:
        row = await frontier.open_collection(a_collection())
        await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(3)])
        worker = (await frontier.join("ghost", current_process())).worker
        (lease,) = await frontier.lease(worker, 1)
        await frontier.finish(worker, [done(lease, lease.visits[:1])])
        await frontier.leave(worker)
        await frontier.join("ghost", ghost)
    async with open_frontier() as frontier:
        status = await numbers(frontier)
        assert (status.known, status.fetched, status.pending, status.handed_out) == (3, 1, 2, 0)
        worker = (await frontier.join("w", current_process())).worker
        FalseClock.shift[0] = 1.0
        (lease,) = await frontier.lease(worker, 1)
        assert [visit.number for visit in lease.visits] == [2, 2]


async def test_a_killed_worker_is_noticed_at_once_and_its_host_rests_for_its_delay(frontier):
    row = await frontier.open_collection(a_collection(politeness={"delay": "5s"}))
    await frontier.discover(row.id, [offer("http://a.br/")])
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])  # to be killed
    theirs = ProcessId(current_process().boot, child.pid, start_ticks(child.pid) or 0)
    victim = (await frontier.join("victim", theirs)).worker
    assert len(await frontier.lease(victim, 1)) == 1
    child.kill()
    child.wait()
    worker = (await frontier.join("w", current_process())).worker
    assert await frontier.lease(worker, 1) == []
    FalseClock.shift[0] = 5.0
    assert len(await frontier.lease(worker, 1)) == 1
    with pytest.raises(LeaseLost):
        await frontier.renew(victim, "")


async def test_who_is_buried_gives_everything_back_and_nobody_else_does(frontier):
    """By somebody who saw it die: to a frontier on another machine it would only be silent."""

    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/"), offer("http://b.br/")])
    far = [ProcessId("another boot", pid, 77) for pid in (1, 2)]
    one = (await frontier.join("one", far[0])).worker
    two = (await frontier.join("two", far[1])).worker
    assert len(await frontier.lease(one, 1)) == len(await frontier.lease(two, 1)) == 1
    await frontier.release_process(ProcessId("another boot", 1, 78))  # a later process with the same number
    await frontier.release_process(ProcessId("yet another boot", 1, 77))
    await frontier.renew(one, "")
    await frontier.release_process(far[0])
    with pytest.raises(LeaseLost):
        await frontier.renew(one, "")
    await frontier.renew(two, "")
    heir = (await frontier.join("one", current_process())).worker
    FalseClock.shift[0] = 1.1  # its delay is kept: the last request may have gone out just now
    assert len(await frontier.lease(heir, 2)) == 1


async def test_the_frontier_tells_what_time_it_is_there(frontier):
    FalseClock.shift[0] = 5.0
    assert await frontier.time() == ClockReading(1_000_005.0, 1.0)


async def test_a_worker_that_does_not_renew_loses_its_hosts_and_can_report_nothing(frontier, monkeypatch):
    monkeypatch.setattr("tarrafa.frontier.store.leases.LEASE_S", -1.0)

    row = await frontier.open_collection(a_collection(fetch={"time_max": "40s"}))
    await frontier.discover(row.id, [offer("http://a.br/")])
    silent = (await frontier.join("silent", current_process())).worker
    with pytest.raises(LeaseLost):
        await frontier.lease(silent, 1)
    monkeypatch.setattr("tarrafa.frontier.store.leases.LEASE_S", 30.0)
    silent = (await frontier.join("silent", current_process())).worker
    (lease,) = await frontier.lease(silent, 1)
    FalseLeaseClock.shift[0] = 31.0
    with pytest.raises(LeaseLost):
        await frontier.finish(silent, [done(lease, lease.visits)])
    heir = (await frontier.join("heir", current_process())).worker
    FalseClock.shift[0] = 39.0
    assert await frontier.lease(heir, 1) == [], "the silent one may still be waiting for an answer"
    FalseClock.shift[0] = 41.0
    assert len(await frontier.lease(heir, 1)) == 1


async def test_hosts_of_a_silent_worker_rest_only_for_the_collection_that_visits_them(frontier, monkeypatch):
    """Another collection, finished or not, may have a time limit of minutes."""
    monkeypatch.setattr("tarrafa.frontier.store.leases.LEASE_S", 30.0)
    await frontier.open_collection(a_collection("patient", fetch={"time_max": "10min"}))
    row = await frontier.open_collection(a_collection(fetch={"time_max": "40s"}))
    await frontier.discover(row.id, [offer("http://a.br/")])
    silent = (await frontier.join("silent", current_process())).worker
    assert len(await frontier.lease(silent, 1)) == 1
    FalseLeaseClock.shift[0] = 31.0
    heir = (await frontier.join("heir", current_process())).worker
    assert await frontier.lease(heir, 1) == []
    FalseClock.shift[0] = 41.0
    assert len(await frontier.lease(heir, 1)) == 1


async def test_depth_is_the_smallest_and_reopens_what_it_cut(frontier):
    row = await frontier.open_collection(a_collection(scope={"hosts": ["*"], "depth_max": 2}))
    await frontier.discover(row.id, [offer("http://a.br/x", 3), offer("http://a.br/y", 2)])
    status = await numbers(frontier)
    assert (status.known, status.pending, status.too_deep) == (2, 1, 1)
    await frontier.discover(row.id, [offer("http://a.br/x", 4)])
    assert (await numbers(frontier)).too_deep == 1
    await frontier.discover(row.id, [offer("http://a.br/x", 1)])
    status = await numbers(frontier)
    assert (status.pending, status.too_deep) == (2, 0)
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    assert {visit.url: visit.depth for visit in lease.visits} == {"http://a.br/x": 1, "http://a.br/y": 2}


async def test_a_depth_that_fell_in_the_graph_reopens_too_and_unknown_urls_are_ignored(frontier):
    row = await frontier.open_collection(a_collection(scope={"hosts": ["*"], "depth_max": 2}))
    deep, elsewhere = offer("http://a.br/x", 3), offer("http://z.com/")
    await frontier.discover(row.id, [deep])
    await frontier.update_weights(
        "c", [UrlWeight(deep.host, deep.id, 5, 2), UrlWeight(elsewhere.host, elsewhere.id, 9, 0)]
    )
    await frontier.update_weights("unheard-of", [UrlWeight(deep.host, deep.id, 5, 0)])
    status = await numbers(frontier)
    assert (status.known, status.pending, status.too_deep) == (1, 1, 0)


async def test_a_rank_is_written_down_when_it_differs_by_more_than_a_quarter_and_makes_sense(frontier):
    row = await frontier.open_collection(a_collection())
    one = offer("http://a.br/x")
    await frontier.discover(row.id, [one])
    for told, known in (
        (0.0, 0.0),
        (1.2, 0.0),  # near the mean, which is what nobody's rank is taken for
        (3.0, 3.0),
        (3.5, 3.0),
        (2.5, 3.0),
        (3.8, 3.8),
        (0.0, 3.8),
        (0.3, 0.3),
        (float("inf"), 0.3),
        (float("nan"), 0.3),
        (-1.0, 0.3),
    ):
        await frontier.update_weights("c", [UrlWeight(one.host, one.id, 0, rank=told)])
        (facts,) = (await frontier.look_up(one.host, one.id)).urls
        assert facts.rank == known, told


@pytest.mark.parametrize(("order", "first"), [("fifo", 1), ("backlinks", 0), ("breadth", 0)])
async def test_a_linked_url_begins_with_one_in_link_where_nothing_else_depends_on_it(frontier, order, first):
    row = await frontier.open_collection(a_collection(strategy={"order": order}))
    linked, listed = offer("http://a.br/linked", 1), offer("http://a.br/listed", 1)
    await frontier.discover(row.id, [replace(linked, is_linked=True), listed])
    for told, known in ((None, first), (1, 1), (3, 3), (0, 0)):
        if told is not None:
            await frontier.update_weights("c", [UrlWeight(linked.host, linked.id, told)])
        (facts,) = (await frontier.look_up(linked.host, linked.id)).urls
        assert facts.in_links == known
    await frontier.discover(row.id, [replace(linked, is_linked=True)])  # a known URL: only the link graph counts
    (facts,) = (await frontier.look_up(linked.host, linked.id)).urls
    assert facts.in_links == 0
    (facts,) = (await frontier.look_up(listed.host, listed.id)).urls
    assert facts.in_links == 0


async def test_raising_the_depth_limit_reopens_what_it_cut(frontier):
    row = await frontier.open_collection(a_collection(scope={"hosts": ["*"], "depth_max": 0}))
    await frontier.discover(row.id, [offer("http://a.br/x", 1), offer("http://a.br/y", 2)])
    await frontier.open_collection(a_collection(scope={"hosts": ["*"], "depth_max": 1}))
    status = await numbers(frontier)
    assert (status.pending, status.too_deep) == (1, 1)


@pytest.mark.parametrize(
    ("order", "expected"),
    [("fifo", [0, 1, 2, 3]), ("lifo", [3, 2, 1, 0]), ("backlinks", [2, 1, 0, 3])],
)
async def test_orders_of_discovery(frontier, order, expected):
    row = await frontier.open_collection(a_collection(strategy={"order": order}))
    offers = [offer(f"http://a.br/{n}") for n in range(4)]
    for one in offers:
        await frontier.discover(row.id, [one])
    await frontier.update_weights(
        "c", [UrlWeight(offers[n].host, offers[n].id, count) for n, count in ((1, 3), (2, 7))]
    )
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    assert [int(visit.url[-1]) for visit in lease.visits] == expected


async def test_changing_the_order_reorders_what_waits(frontier):
    row = await frontier.open_collection(a_collection())
    for n in range(4):
        await frontier.discover(row.id, [offer(f"http://a.br/{n}")])
    await frontier.open_collection(a_collection(strategy={"order": "lifo"}))
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    assert [int(visit.url[-1]) for visit in lease.visits] == [3, 2, 1, 0]


async def test_pages_max_is_never_passed(frontier):
    row = await frontier.open_collection(a_collection(scope={"hosts": ["*"], "pages_max": 5}))
    await frontier.discover(row.id, [offer(f"http://h{n % 4}.br/{n}") for n in range(40)])
    worker = (await frontier.join("w", current_process())).worker
    while leases := await frontier.lease(worker, 10):
        for lease in leases:
            visits = lease.visits
            while visits:
                status = await numbers(frontier)
                assert status.fetched + status.handed_out <= 5
                outcome = Outcome(404, 1_000_000.0) if visits[0].url.endswith(("3", "5", "6")) else None
                (answer,) = await frontier.finish(worker, [done(lease, visits, outcome, wanted=2)])
                visits = answer.visits
    assert (await numbers(frontier)).fetched == 5


async def test_one_bad_url_does_not_stand_in_the_way_of_the_others(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(30)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    bad = lease.visits[0]
    await frontier.finish(worker, [done(lease, [bad], Outcome(Status.SYSTEM_ERROR, 0.0), keep=False, failures=1)])
    (lease,) = await frontier.lease(worker, 1)
    assert bad.url not in [visit.url for visit in lease.visits], "it goes last"


async def test_a_host_that_is_busy_is_not_blamed_and_its_url_keeps_all_its_tries(frontier):
    row = await frontier.open_collection(a_collection(fetch={"retries": 0}))
    await frontier.discover(row.id, [offer("http://a.br/")])
    worker = (await frontier.join("w", current_process())).worker
    for _ in range(5):
        (lease,) = await frontier.lease(worker, 1)
        await frontier.finish(worker, [done(lease, lease.visits, Outcome(429, 0.0), keep=False)])
    status = await numbers(frontier)
    assert (status.pending, status.failed, lease.visits[0].attempts) == (1, 0, 0)


async def test_only_a_kept_page_leaves_its_validators(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/")])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    error = Outcome(503, 0.0, etag='"of-the-error"', last_modified="yesterday")
    await frontier.finish(worker, [done(lease, lease.visits, error, keep=False)])
    (lease,) = await frontier.lease(worker, 1)
    assert (lease.visits[0].etag, lease.visits[0].last_modified) == (None, None)


async def test_a_root_that_was_visited_as_something_deeper_is_visited_again(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/x", 3)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    kept = Outcome(200, 1_000_000.0, kept=True, etag='"1"', last_modified="yesterday")
    await frontier.finish(worker, [done(lease, lease.visits, kept)])
    for expected in (1, 0):  # only once
        await frontier.open_collection(a_collection(), [offer("http://a.br/x")])
        leases = await frontier.lease(worker, 1)
        assert len(leases) == expected
        for lease in leases:
            assert [(visit.depth, visit.number, visit.etag) for visit in lease.visits] == [(0, 2, None)]
            await frontier.finish(worker, [done(lease, lease.visits)])


async def test_a_collection_is_never_running_without_its_roots(frontier):
    opening = frontier.open_collection(a_collection(), [offer("http://a.br/")])
    _, overview = await asyncio.gather(opening, frontier.overview())
    assert all(one.pending for one in overview.collections)


async def test_a_collection_that_waits_for_a_host_gets_it_though_the_holder_still_has_visits(frontier):
    one = await frontier.open_collection(a_collection("one"))
    two = await frontier.open_collection(a_collection("two"))
    await frontier.discover(one.id, [offer(f"http://a.br/{n}") for n in range(100)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    await frontier.discover(two.id, [offer("http://a.br/")])
    for number, visit in enumerate(lease.visits):
        (answer,) = await frontier.finish(worker, [done(lease, [visit])])
        assert answer == NextVisits(number < 7, []), "it brings home what it has, and no more"
    seen = {found.collection for _ in range(2) for found in await frontier.lease(worker, 1)}
    assert len(seen) == 1


async def test_requests_max_counts_requests_only(frontier):
    row = await frontier.open_collection(a_collection(scope={"hosts": ["*"], "requests_max": 3}))
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(20)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits, Outcome(Status.ROBOTS, 0.0))])
    assert len(answer.visits) == 3, "what robots.txt forbids is no request"
    (answer,) = await frontier.finish(worker, [done(lease, answer.visits)])
    assert answer == NextVisits(False, [])


async def test_fifo_is_the_order_of_discovery_within_a_batch_too(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(8)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    assert [int(visit.url[-1]) for visit in lease.visits] == list(range(8))


async def test_types_that_servers_invent_are_counted_within_bounds(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(300)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    visits, number = lease.visits, 0
    while visits:
        (answer,) = await frontier.finish(
            worker, [done(lease, visits, Outcome(200, 0.0, kept=True, type=f"x/{number}"))]
        )
        visits, number = answer.visits, number + 8
        number += 1
    assert len((await numbers(frontier)).types) <= 201


async def test_the_weather_is_tried_again_and_then_given_up(frontier):
    row = await frontier.open_collection(a_collection(fetch={"retries": 1}))
    await frontier.discover(row.id, [offer("http://a.br/")])
    worker = (await frontier.join("w", current_process())).worker
    slow = Outcome(Status.TOO_SLOW, 1_000_000.0)
    (lease,) = await frontier.lease(worker, 1)
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits, slow)])
    assert [visit.attempts for visit in answer.visits] == [1]
    (answer,) = await frontier.finish(worker, [done(lease, answer.visits, slow)])
    assert answer == NextVisits(False, [])
    status = await numbers(frontier)
    assert (status.failed, status.pending, status.visits) == (1, 0, 2)


async def test_a_host_that_only_fails_is_given_up_with_all_that_waits_on_it(frontier):
    settings = a_collection(fetch={"host_failures_max": 2})
    row = await frontier.open_collection(settings)
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(20)])
    worker = (await frontier.join("w", current_process())).worker
    for failures, later in ((1, 1_000_000.0), (2, 1_000_060.0)):
        (lease,) = await frontier.lease(worker, 1)
        await frontier.finish(worker, [done(lease, [], keep=False, failures=failures, next_at=later)])
    status = await numbers(frontier)
    assert (status.pending, status.failed, status.handed_out) == (0, 20, 0)
    await frontier.discover(row.id, [offer("http://a.br/new")])
    assert (await numbers(frontier)).failed == 21, "links to it do not keep the crawl alive"
    assert await frontier.lease(worker, 1) == []
    await frontier.open_collection(settings)
    status = await numbers(frontier)
    assert (status.pending, status.failed) == (21, 0), "started again, it gets another chance"
    assert await frontier.lease(worker, 1) == [], "its crawl delay has not passed since its last response"
    FalseClock.shift[0] = 1.0
    (lease,) = await frontier.lease(worker, 1)
    assert (len(lease.visits), lease.failures) == (8, 0)


async def test_robots_are_kept_with_the_host_for_all_collections(frontier):
    first = await frontier.open_collection(a_collection("one"))
    second = await frontier.open_collection(a_collection("two"))
    await frontier.discover(first.id, [offer("http://a.br/")])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    assert lease.robots_copy is None
    text = b"User-agent: *\nDisallow: /x\n"
    await frontier.finish(
        worker, [done(lease, lease.visits, robots_copy=RobotsCopy(200, b"digest", 1_086_400.0, text))]
    )
    await frontier.discover(second.id, [offer("http://a.br/")])
    (lease,) = await frontier.lease(worker, 1)
    assert (lease.robots_copy, lease.collection) == (RobotsCopy(200, b"digest", 1_086_400.0), second.id)
    assert await frontier.robots_text(b"digest") == text
    assert await frontier.robots_text(b"unknown") == b""


async def test_two_collections_fetch_the_same_url_separately_but_never_share_the_host_at_once(frontier):
    for name in ("one", "two"):
        row = await frontier.open_collection(a_collection(name))
        await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(10)])
    worker = (await frontier.join("w", current_process())).worker
    seen = set()
    for _ in range(10):
        leases = await frontier.lease(worker, 10)
        assert len(leases) <= 1
        for lease in leases:
            visits = lease.visits
            while visits:
                seen |= {(visit.collection, visit.url) for visit in visits}
                (answer,) = await frontier.finish(worker, [done(lease, visits)])
                visits = answer.visits
    assert len(seen) == 20


async def test_a_paused_collection_hands_nothing_out_and_goes_on_when_resumed(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer(f"http://a.br/{n}") for n in range(10)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await frontier.lease(worker, 1)
    await frontier.set_state("c", "paused", "by you")
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits[:2])])
    assert answer == NextVisits(True, []), "what it holds it may bring home"
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits[2:])])
    assert answer == NextVisits(False, [])
    assert await frontier.lease(worker, 1) == []
    await frontier.set_state("c", "running", "")
    (lease,) = await frontier.lease(worker, 1)
    assert len(lease.visits) == 2


async def test_identity_is_fixed_at_creation(frontier):
    await frontier.open_collection(a_collection())
    with pytest.raises(ConfigError, match="fixed when a collection is created"):
        await frontier.open_collection(a_collection(identity={"fold_case": True}))


async def test_a_call_that_fails_changes_nothing_and_says_why(frontier):
    with pytest.raises(FrontierError, match="no collection is named"):
        await frontier.set_state("nobody", "paused", "")
    with pytest.raises(FrontierError, match="no collection has the number"):
        await frontier.discover(77, [offer("http://a.br/")])
    row = await frontier.open_collection(a_collection())
    with pytest.raises(FrontierError, match="no such state"):
        await frontier.set_state("c", "dancing", "")
    jobs = [frontier.discover(number, [offer(f"http://a.br/{number}")]) for number in (row.id, 99, row.id)]
    results = await asyncio.gather(*jobs, return_exceptions=True)
    assert [isinstance(result, TarrafaError) for result in results] == [False, True, False]
    assert (await numbers(frontier)).known == 1


async def test_an_address_is_with_one_host_at_a_time_and_rests_between_two(frontier):
    row = await frontier.open_collection(a_collection(politeness={"delay": "2s"}))
    await frontier.discover(row.id, [offer(f"http://{name}.br/") for name in ("one", "two")])
    worker = (await frontier.join("w", current_process())).worker
    one, two = await frontier.lease(worker, 10)
    assert await frontier.claim_address(worker, one.host, "192.0.2.1") == 0
    assert await frontier.claim_address(worker, one.host, "192.0.2.1") == 0, "it has it already"
    assert await frontier.claim_address(worker, two.host, "192.0.2.2") == 0, "another address is free"
    assert await frontier.claim_address(worker, two.host, "192.0.2.1") == 1_000_020.0
    await frontier.finish(worker, [done(one, one.visits, delay_s=2.0)])
    assert await frontier.claim_address(worker, two.host, "192.0.2.1") == 1_000_002.0, "it was just visited"
    FalseClock.shift[0] = 2.0
    assert await frontier.claim_address(worker, two.host, "192.0.2.1") == 0


async def test_an_address_cannot_be_claimed_for_a_host_that_is_not_held(frontier):
    row = await frontier.open_collection(a_collection())
    await frontier.discover(row.id, [offer("http://a.br/")])
    one, two = await frontier.join("one", current_process()), await frontier.join("two", current_process())
    (lease,) = await frontier.lease(one.worker, 1)
    with pytest.raises(LeaseLost):
        await frontier.claim_address(two.worker, lease.host, "192.0.2.1")


async def a_worker(frontier: Frontier, **sections: Any) -> tuple[int, int]:
    """A collection and a worker."""
    row = await frontier.open_collection(a_collection(**sections), [])
    return row.id, (await frontier.join("w", current_process())).worker


def refusal(url: str, status: int) -> DiscoveredUrl:
    return msgspec.structs.replace(offer(url, 1), status=status)


async def test_what_is_refused_by_its_looks_is_known_and_counted_and_never_handed_out(frontier):
    number, worker = await a_worker(frontier)
    await frontier.discover(number, [offer("http://a.br/"), refusal("http://a.br/x.zip", Status.TYPE_NOT_WANTED)])
    await frontier.discover(number, [refusal("http://a.br/x.zip", Status.TYPE_NOT_WANTED)])
    assert urls(await frontier.lease(worker, 10)) == ["http://a.br/"]
    status = await numbers(frontier)
    assert (status.known, status.dropped, status.statuses, status.requests) == (2, 1, {"-3": 1}, 0)


async def test_a_changed_scope_has_what_was_refused_unseen_judged_again(frontier):
    number, worker = await a_worker(frontier)
    await frontier.discover(number, [refusal("http://a.br/x.zip", Status.TYPE_NOT_WANTED)])
    await frontier.open_collection(a_collection(scope={"hosts": ["*"], "types": ["application/zip"]}), [])
    (lease,) = await frontier.lease(worker, 10)
    assert [visit.url for visit in lease.visits] == ["http://a.br/x.zip"]
    assert (await numbers(frontier)).statuses == {}


async def test_a_visit_that_ended_by_the_scope_stays_counted_when_the_scope_is_changed(frontier):
    number, worker = await a_worker(frontier)
    await frontier.discover(number, [offer("http://a.br/"), refusal("http://a.br/x.zip", Status.TYPE_NOT_WANTED)])
    (lease,) = await frontier.lease(worker, 10)
    out = Outcome(Status.OUT_OF_SCOPE, 1_000_000.0, requested=False)
    await frontier.finish(worker, [done(lease, lease.visits, out)])
    status = await numbers(frontier)
    assert (status.visits, status.statuses) == (1, {"-21": 1, "-3": 1})
    await frontier.open_collection(a_collection(scope={"hosts": ["*"], "exclude": ["*/b"]}), [])
    status = await numbers(frontier)
    assert (status.visits, status.pending, status.statuses) == (1, 2, {"-21": 1})


async def test_a_host_gives_no_more_visits_than_its_cap_and_the_rest_is_said_to_be_too_much(frontier):
    number, worker = await a_worker(frontier, scope={"hosts": ["*"], "host_pages_max": 3})
    await frontier.discover(number, [offer(f"http://a.br/{n}") for n in range(10)])
    (lease,) = await frontier.lease(worker, 10)
    assert len(lease.visits) == 3
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits)])
    assert not answer.visits
    await frontier.discover(number, [offer("http://a.br/late")])
    status = await numbers(frontier)
    assert (status.pending, status.fetched, status.statuses) == (0, 3, {"200": 3, "-18": 8})
    await frontier.open_collection(a_collection(scope={"hosts": ["*"], "host_pages_max": 5}), [])
    FalseClock.shift[0] += 10
    (lease,) = await frontier.lease(worker, 10)
    assert len(lease.visits) == 2, "raised, the cap lets more through"


async def test_a_site_has_no_more_hosts_than_its_cap(frontier):
    number, worker = await a_worker(frontier, scope={"hosts": ["*"], "site_hosts_max": 2})
    await frontier.discover(number, [offer(f"http://h{n}.a.br/") for n in range(5)] + [offer("http://b.br/")])
    assert len(await frontier.lease(worker, 10)) == 3
    assert (await numbers(frontier)).statuses == {"-18": 3}
    await frontier.open_collection(a_collection(scope={"hosts": ["*"], "site_hosts_max": 4}), [])
    assert len(await frontier.lease(worker, 10)) == 2


async def test_what_a_walk_remembers_of_a_host_is_given_to_the_next_one(frontier):
    number, worker = await a_worker(frontier)
    await frontier.discover(number, [offer(f"http://a.br/{n}") for n in range(20)])
    (lease,) = await frontier.lease(worker, 1)
    assert lease.memory == b""
    await frontier.finish(worker, [done(lease, lease.visits[:1], keep=False, memory=b"sleepy")])
    FalseClock.shift[0] += 10
    (lease,) = await frontier.lease(worker, 1)
    assert lease.memory == b"sleepy"
    await frontier.finish(worker, [done(lease, lease.visits[:1], keep=False)])
    FalseClock.shift[0] += 10
    assert (await frontier.lease(worker, 1))[0].memory == b"sleepy"


async def test_a_host_may_be_borrowed_for_an_errand_by_one_worker_at_a_time_and_never_before_its_time(frontier):
    number, worker = await a_worker(frontier)
    other = (await frontier.join("other", current_process())).worker
    key = "https://elsewhere.com:443"
    host = host_id(key)
    loan = await frontier.borrow_host(worker, number, host, key)
    assert (loan.granted, loan.robots_copy) == (True, None)
    refused = await frontier.borrow_host(other, number, host, key)
    assert not refused.granted
    assert refused.free_at > 1_000_000.0
    robots = RobotsCopy(200, b"d" * 16, 2_000_000.0, b"User-agent: *")
    report = HostReport(host, number, [], 1_000_030.0, 1_000_000.0, 1.0, keep=False, robots_copy=robots)
    assert await frontier.finish(worker, [report]) == [NextVisits(False, [])]
    again = await frontier.borrow_host(other, number, host, key)
    assert (again.granted, again.free_at) == (False, 1_000_030.0), "its delay holds"
    assert again.robots_copy is not None
    assert (again.robots_copy.status, await frontier.robots_text(again.robots_copy.digest)) == (200, b"User-agent: *")
    FalseClock.shift[0] = 31.0
    assert (await frontier.borrow_host(other, number, host, key)).granted
    await frontier.discover(number, [offer("https://elsewhere.com/")])
    assert await frontier.lease(worker, 5) == [], "and while it is lent nobody else has it"


async def test_a_url_can_be_looked_up_with_its_history(frontier):
    number, worker = await a_worker(frontier)
    first, second = offer("http://a.br/", 0), offer("http://a.br/two", 1)
    await frontier.discover(number, [first, second, msgspec.structs.replace(second, announced=900_000.0)])
    (lease,) = await frontier.lease(worker, 1)
    assert [visit.announced for visit in lease.visits] == [0.0, 900_000.0]
    outcome = Outcome(200, 1_000_000.0, kept=True, type="text/html", length=77, content_id="aa")
    await frontier.finish(worker, [done(lease, lease.visits[:1], outcome, keep=False)])
    facts = await frontier.look_up(first.host, first.id)
    assert facts.host is not None
    assert (facts.host.key, facts.host.site, facts.host.waiting, facts.host.visited) == (
        "http://a.br:80", "a.br", 1, 1)  # fmt: skip
    (known,) = facts.urls
    assert (known.collection, known.state, known.depth, known.status) == ("c", "fetched", 0, 200)
    assert known.history == [PastVisit(1, 1_000_000.0, 200, 77, None, "w")]
    (waits,) = (await frontier.look_up(second.host, second.id)).urls
    assert (waits.state, waits.place, waits.announced) == ("pending", 0, 900_000.0)
    nothing = await frontier.look_up(host_id("http://z.br:80"), b"\0" * 16)
    assert (nothing.host, nothing.urls) == (None, [])


async def test_a_time_limit_that_passed_because_of_us_is_no_try_of_the_url(frontier):
    number, worker = await a_worker(frontier, fetch={"retries": 0})
    await frontier.discover(number, [offer("http://a.br/")])
    for _ in range(3):
        FalseClock.shift[0] += 10
        (lease,) = await frontier.lease(worker, 1)
        starved = Outcome(Status.STARVED, 1_000_000.0)
        await frontier.finish(worker, [done(lease, lease.visits, starved, keep=False)])
    assert (await numbers(frontier)).pending == 1


async def test_who_is_too_slow_again_and_again_is_told_so_whatever_the_number_of_the_visit(frontier):
    number, worker = await a_worker(frontier, fetch={"retries": 0})
    await frontier.discover(number, [offer("http://a.br/")])
    for _ in range(15):  # numbers are given, and nobody asks
        (lease,) = await frontier.lease(worker, 1)
        await frontier.finish(worker, [done(lease, [], keep=False)])
    tries = 0
    while leases := await frontier.lease(worker, 1):
        starved = Outcome(Status.STARVED, 1_000_000.0)
        await frontier.finish(worker, [done(leases[0], leases[0].visits, starved, keep=False)])
        tries += 1
    assert tries == 11
    assert (await numbers(frontier)).failed == 1


async def test_a_worker_has_something_to_say_about_itself(frontier):
    _, worker = await a_worker(frontier)
    await frontier.renew(worker, "take fewer hosts at once")
    assert [node.note for node in (await frontier.overview()).nodes] == ["take fewer hosts at once"]


def test_a_file_of_an_older_schema_is_refused_untouched_with_the_command_that_makes_it_again(tmp_path):
    """Only for the body on a file."""
    path = tmp_path / "frontier.sqlite"
    old = apsw.Connection(str(path))
    old.execute("CREATE TABLE collection (id INTEGER PRIMARY KEY, name TEXT); PRAGMA user_version = 5")
    old.close()
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"older Tarrafa \(schema 5.*nothing was changed.*`tarrafa rebuild frontier`"):
        SqliteFrontier(path, FalseClock(0, 0), SUFFIXES)
    assert path.read_bytes() == before


async def test_a_page_that_did_not_change_stays_kept(frontier):
    number, worker = await a_worker(frontier)
    root = offer("http://a.br/", 1)
    await frontier.discover(number, [root])
    (lease,) = await frontier.lease(worker, 1)
    first = Outcome(200, 1_000_000.0, kept=True, type="text/html", content_id="aa", etag='"1"')
    await frontier.finish(worker, [done(lease, lease.visits, first, keep=False)])
    await frontier.open_collection(a_collection(), [offer("http://a.br/")])  # a root now: visited again
    FalseClock.shift[0] += 10
    (lease,) = await frontier.lease(worker, 1)
    await frontier.finish(worker, [done(lease, lease.visits, Outcome(304, 1_000_010.0), keep=False)])
    assert (await numbers(frontier)).fetched == 1
    (known,) = (await frontier.look_up(root.host, root.id)).urls
    assert [(visit.status, visit.changed) for visit in known.history] == [(200, None), (304, False)]


async def test_one_url_that_is_always_busy_does_not_stand_before_the_others(frontier):
    number, worker = await a_worker(frontier)
    await frontier.discover(number, [offer(f"http://a.br/{n}") for n in range(3)])
    (lease,) = await frontier.lease(worker, 1)
    busy = lease.visits[0]
    await frontier.finish(worker, [done(lease, [busy], Outcome(503, 0.0), keep=False)])
    FalseClock.shift[0] += 10
    (lease,) = await frontier.lease(worker, 1)
    assert [visit.url for visit in lease.visits][-1] == busy.url


async def test_a_sitemap_that_was_turned_away_as_a_page_waits_again_as_what_it_is(frontier):
    number, worker = await a_worker(frontier)
    plain = offer("http://a.br/map.xml", 1)
    await frontier.discover(number, [plain])
    (lease,) = await frontier.lease(worker, 1)
    away = Outcome(Status.TYPE_NOT_WANTED, 0.0, type="application/xml")
    await frontier.finish(worker, [done(lease, lease.visits, away, keep=False)])
    await frontier.discover(number, [msgspec.structs.replace(plain, role=UrlRole.SITEMAP)])
    FalseClock.shift[0] += 10
    (lease,) = await frontier.lease(worker, 1)
    assert lease.visits[0].role == UrlRole.SITEMAP


async def test_what_was_settled_without_a_request_counts_as_none(frontier):
    number, worker = await a_worker(frontier, scope={"hosts": ["*"], "host_pages_max": 2})
    await frontier.discover(number, [offer(f"http://a.br/{n}") for n in range(4)])
    (lease,) = await frontier.lease(worker, 1)
    assert len(lease.visits) == 2
    unasked = Outcome(Status.HOSTILE, 0.0, requested=False)
    (answer,) = await frontier.finish(worker, [done(lease, lease.visits, unasked)])
    assert len(answer.visits) == 2, "the cap is for requests"
    assert (await numbers(frontier)).requests == 0


async def test_every_root_is_visited_however_many_hosts_its_site_has(frontier):
    roots = [offer(f"http://h{n}.a.br/") for n in range(4)]
    content = a_collection(scope={"hosts": ["*"], "site_hosts_max": 1})
    await frontier.open_collection(content, roots)
    worker = (await frontier.join("w", current_process())).worker
    assert len(await frontier.lease(worker, 10)) == 4


async def test_a_borrowed_host_goes_back_with_its_delay_and_loses_nothing_that_waits(frontier):
    number, worker = await a_worker(frontier, fetch={"host_failures_max": 0})
    await frontier.discover(number, [offer("http://a.br/")])
    (lease,) = await frontier.lease(worker, 1)
    await frontier.finish(worker, [done(lease, [], keep=False, failures=0)])
    FalseClock.shift[0] += 10
    loan = await frontier.borrow_host(worker, number, lease.host, lease.host_key)
    assert loan.granted
    report = HostReport(lease.host, number, [], 1_000_020.0, 1_000_010.0, 5.0, keep=False, failures=loan.failures)
    await frontier.finish(worker, [report])
    assert (await numbers(frontier)).pending == 1


async def test_who_asks_every_second_hears_of_edits_and_pauses_without_the_configurations(frontier):
    assert await frontier.collection_states() == []
    row = await frontier.open_collection(a_collection(), [offer("http://a.br/")])
    assert await frontier.collection_states() == [FrontierCollectionState(row.id, "running", row.revision, "c")]
    await frontier.set_state("c", "paused", "by a test")
    assert await frontier.collection_states() == [FrontierCollectionState(row.id, "paused", row.revision, "c")]
    await frontier.set_state("c", "running", "")
    edited = await frontier.open_collection(a_collection(politeness={"delay": 7}), [])
    assert edited.revision > row.revision
    other = await frontier.open_collection(a_collection("d"), [])
    told = [
        FrontierCollectionState(row.id, "running", edited.revision, "c"),
        FrontierCollectionState(other.id, "running", other.revision, "d"),
    ]
    assert await frontier.collection_states() == told
    rows = await frontier.collections()
    assert [(one.id, one.revision) for one in rows] == [(one.id, one.revision) for one in told]
    assert [await frontier.collection(one.name) for one in told] == rows
    assert await frontier.collection("e") is None


async def test_more_roots_of_a_collection_need_not_bring_its_configuration_along(frontier):
    row = await frontier.open_collection(a_collection(), [offer("http://a.br/")])
    await frontier.discover(row.id, [offer("http://b.br/x", depth=1), offer("http://b.br/y", depth=2)])
    await frontier.seed(row.id, [offer("http://b.br/x"), offer("http://c.br/")])
    await frontier.seed(row.id, [offer("http://c.br/")])
    assert (await frontier.collections())[0] == row
    worker = (await frontier.join("w", current_process())).worker
    visits = [visit for lease in await frontier.lease(worker, 10) for visit in lease.visits]
    depths = {visit.url: visit.depth for visit in visits}
    assert depths == {"http://a.br/": 0, "http://b.br/x": 0, "http://b.br/y": 2, "http://c.br/": 0}
    assert (await numbers(frontier)).known == 4
    with pytest.raises(FrontierError, match="no collection has the number 77"):
        await frontier.seed(77, [offer("http://d.br/")])


async def test_a_lease_has_the_delay_of_its_host(frontier):
    politeness = {"delay": 3, "delays": {"*.usp.br": 10, "quick.br": 0.5}}
    roots = [offer(url) for url in ("http://www.usp.br/", "http://quick.br/", "http://a.br/")]
    await frontier.open_collection(a_collection(politeness=politeness), roots)
    terms = await frontier.join("w", current_process())
    leases = await frontier.lease(terms.worker, 10)
    assert {lease.host_key: lease.delay_s for lease in leases} == {
        "http://www.usp.br:80": 10.0, "http://quick.br:80": 0.5, "http://a.br:80": 3.0,
    }  # fmt: skip


async def test_a_name_is_one_living_workers(frontier):
    await frontier.join("w", current_process())
    parent = os.getppid()
    with pytest.raises(FrontierError, match="named 'w' is at work already"):
        await frontier.join("w", ProcessId(current_process().boot, parent, start_ticks(parent) or 0))
    again = await frontier.join("w", current_process())  # it did not hear the answer
    assert [node.name for node in (await frontier.overview()).nodes] == ["w"]
    await frontier.renew(again.worker, "")
    FalseLeaseClock.shift[0] = 31.0
    await frontier.join("w", current_process())


@pytest.mark.parametrize(("boot", "alive"), [("the last boot", False), ("another machine's", True)])
async def test_after_a_boot_local_workers_are_dead_and_others_have_one_more_lease(tmp_path, boot, alive):
    class Before(FalseLeaseClock):
        era = "the last boot"

    FalseLeaseClock.shift[0] = 0.0
    path, process = tmp_path / "frontier.sqlite", ProcessId(boot, 7, 7)
    frontier = SqliteFrontier(path, FalseClock(0, 0), SUFFIXES, lease_clock=Before())
    worker = (await frontier.join("w", process)).worker
    await frontier.close()
    frontier = SqliteFrontier(path, FalseClock(0, 0), SUFFIXES, lease_clock=FalseLeaseClock())
    assert len((await frontier.overview()).nodes) == alive
    FalseLeaseClock.shift[0] = 31.0
    assert (await frontier.overview()).nodes == []
    with pytest.raises(LeaseLost):
        await frontier.renew(worker, "")
    await frontier.close()
