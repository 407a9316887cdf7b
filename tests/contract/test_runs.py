"""A collection that is visited again and again from its roots: what every body promises of it."""

import pytest
from msgspec.structs import replace

from tarrafa.errors import FrontierError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import HostCounts, Lease
from tarrafa.model import Outcome, Status, UrlRole, Visit
from tarrafa.parse.url import host_id, url_id
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import FalseClock, a_collection, done, numbers, offer, urls

ROOT, ABOUT, NEWS, OTHER = "http://a.br/", "http://a.br/about", "http://a.br/news", "http://b.br/"
PAGE = Outcome(200, 1_000_000.0, kept=True, type="text/html", content_id="0" * 32, etag='"1"', payload="sha1:A")
GONE = Outcome(404, 1_000_000.0)
SWEPT = Outcome(Status.NOT_FOUND_AGAIN, 1_000_000.0, requested=False)
TOO_SLOW = Outcome(Status.TOO_SLOW, 1_000_000.0)


async def leased(frontier: Frontier, worker: int) -> list[Lease]:
    """All that may be visited, however many hosts that takes."""
    FalseClock.shift[0] += 10.0
    return await frontier.lease(worker, 20)


async def visit_all(frontier: Frontier, worker: int, outcomes: dict[str, Outcome] | None = None) -> list[Visit]:
    """Visit until nothing is left; which visits that were. What is dismissed is dismissed."""
    visits: list[Visit] = []
    while leases := await leased(frontier, worker):
        for lease in leases:
            waiting = list(lease.visits)
            while waiting:
                visit = waiting.pop(0)
                visits.append(visit)
                outcome = SWEPT if visit.dismissed else (outcomes or {}).get(visit.url, PAGE)
                (answer,) = await frontier.finish(worker, [done(lease, [visit], outcome, next_at=0.0)])
                waiting += answer.visits
    return visits


async def first_run(frontier: Frontier, pages: list[str], **sections: dict[str, object]) -> tuple[int, int]:
    """A collection whose first run kept these pages; its number, and a worker's."""
    row = await frontier.open_collection(a_collection("c", **sections), [offer(ROOT)])
    await frontier.discover(row.id, [offer(url, 1) for url in pages])
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker)
    await frontier.set_state("c", "finished", "everything in reach was visited")
    return row.id, worker


async def sweep(frontier: Frontier, limit: int = 100) -> None:
    while await frontier.sweep("c", limit):
        pass


async def test_a_collection_that_is_not_to_start_is_ready_and_hands_nothing_out_until_somebody_starts_it(frontier):
    row = await frontier.open_collection(a_collection(), [offer(ROOT)], False)
    assert (row.state, str(row.reason), row.run) == ("ready", "created; not started yet", 1)
    worker = (await frontier.join("w", current_process())).worker
    assert await leased(frontier, worker) == []
    assert (await numbers(frontier)).started == 0.0
    await frontier.set_state("c", "waiting", "starts 2026-12-01 03:00")
    assert await leased(frontier, worker) == []
    await frontier.set_state("c", "running", "")
    assert urls(await leased(frontier, worker)) == [ROOT]
    status = await numbers(frontier)
    assert status.started >= status.created > 0


@pytest.mark.parametrize("state", ["paused", "running", "finished", "waiting", "ready"])
async def test_an_edit_that_is_not_to_start_keeps_the_state_and_takes_effect(frontier, state):
    row = await frontier.open_collection(a_collection(), [offer(ROOT)])
    await frontier.set_state("c", state, "for a reason")
    edited = await frontier.open_collection(a_collection(scope={"depth_max": 1}), [offer(ROOT), offer(OTHER)], False)
    assert (edited.state, edited.reason, edited.revision) == (state, "for a reason", row.revision + 1)
    status = await numbers(frontier)
    assert (status.known, status.revision, status.state) == (2, 2, state)


async def test_an_edit_gives_what_failed_no_other_chance_but_a_start_does(frontier):
    row = await frontier.open_collection(a_collection(fetch={"retries": 0}), [offer(ROOT)])
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker, {ROOT: Outcome(500, 1_000_000.0)})
    await frontier.open_collection(row.config, [], False)
    assert (await numbers(frontier)).failed == 1
    await frontier.open_collection(row.config, [])
    assert (await numbers(frontier)).failed == 0


async def test_a_run_begins_from_the_roots_and_goes_where_it_is_led(frontier):
    number, worker = await first_run(frontier, [ABOUT, NEWS, OTHER])
    row = await frontier.begin_run("c", "weekly")
    assert (row.run, row.state, row.reason) == (2, "running", "weekly")
    status = await numbers(frontier)
    assert (status.run, status.known, status.fetched, status.pending, status.earlier) == (2, 4, 4, 1, 4)
    (lease,) = await leased(frontier, worker)
    assert urls([lease]) == [ROOT]
    assert lease.run == 2
    assert lease.visits[0].number == 2
    assert lease.visits[0].etag is None
    assert lease.visits[0].payload == "sha1:A"
    await frontier.discover(number, [offer(ABOUT, 1)])
    await frontier.finish(worker, [done(lease, lease.visits, PAGE, keep=False)])
    assert [visit.url for visit in await visit_all(frontier, worker)] == [ABOUT]
    status = await numbers(frontier)
    assert (status.fetched, status.earlier, status.pending, status.visits, status.to_sweep) == (4, 2, 0, 6, True)


async def test_what_a_run_has_not_found_is_handed_out_to_be_dismissed(frontier):
    number, worker = await first_run(frontier, [ABOUT, NEWS, OTHER])
    await frontier.begin_run("c", "")
    await frontier.discover(number, [offer(ABOUT, 1)])
    await visit_all(frontier, worker)
    assert await frontier.sweep("c", 1)
    assert (await numbers(frontier)).sweeping
    await sweep(frontier, 1)
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.earlier, status.to_sweep) == (4, 2, 2, False)
    visits = await visit_all(frontier, worker)
    assert sorted((visit.url, visit.dismissed) for visit in visits) == [(NEWS, True), (OTHER, True)]
    status = await numbers(frontier)
    assert (status.fetched, status.dropped, status.pending, status.earlier) == (2, 2, 0, 0)
    assert status.statuses["-27"] == 2
    assert status.requests == 6  # nobody was asked for them


async def test_what_is_dismissed_while_a_worker_dies_is_dismissed_by_the_next_one(frontier):
    _, worker = await first_run(frontier, [ABOUT, NEWS])
    await frontier.begin_run("c", "")
    await visit_all(frontier, worker)
    await sweep(frontier)
    (lease,) = await leased(frontier, worker)
    assert [visit.dismissed for visit in lease.visits] == [True, True]
    (held,) = await frontier.held_leases(worker)
    assert {visit.id: visit for visit in held.visits} == {visit.id: visit for visit in lease.visits}
    await frontier.leave(worker)
    other = (await frontier.join("other", current_process())).worker
    assert [visit.dismissed for visit in await visit_all(frontier, other)] == [True, True]
    assert (await numbers(frontier)).fetched == 1


@pytest.mark.parametrize("when", ["waiting", "out", "over"])
async def test_a_page_that_is_found_while_it_is_dismissed_is_visited_after_all(frontier, when):
    number, worker = await first_run(frontier, [ABOUT])
    await frontier.begin_run("c", "")
    await visit_all(frontier, worker)
    await sweep(frontier)
    if when == "waiting":
        await frontier.discover(number, [offer(ABOUT, 3)])
    else:
        (lease,) = await leased(frontier, worker)
        if when == "out":
            await frontier.discover(number, [offer(ABOUT, 3)])
        await frontier.finish(worker, [done(lease, lease.visits, SWEPT, keep=False)])
        if when == "over":
            await frontier.discover(number, [offer(ABOUT, 3)])
    visits = await visit_all(frontier, worker)
    assert [(visit.url, visit.dismissed, visit.depth) for visit in visits] == [(ABOUT, False, 3)]
    status = await numbers(frontier)
    assert (status.fetched, status.earlier, status.pending) == (2, 0, 0)


async def test_a_page_that_was_only_out_of_reach_stays_as_it_was(frontier):
    number, worker = await first_run(frontier, [ABOUT], fetch={"retries": 1})
    await frontier.begin_run("c", "")
    await frontier.discover(number, [offer(ABOUT, 1)])
    visits = await visit_all(frontier, worker, {ABOUT: Outcome(500, 1_000_000.0)})
    assert [visit.url for visit in visits].count(ABOUT) == 2
    status = await numbers(frontier)
    assert (status.fetched, status.failed, status.earlier) == (2, 0, 0)
    await sweep(frontier)
    assert await visit_all(frontier, worker) == []


async def test_a_host_that_is_given_up_keeps_its_pages_and_is_not_swept(frontier):
    number, worker = await first_run(frontier, [OTHER, f"{OTHER}1", f"{OTHER}2"], fetch={"host_failures_max": 1})
    await frontier.begin_run("c", "")
    await frontier.discover(number, [offer(OTHER, 1), offer(f"{OTHER}1", 1)])
    for lease in await leased(frontier, worker):
        fails = lease.host_key.startswith("http://b.br")
        how = {"failures": 2, "next_at": 9e9} if fails else {}
        visits = lease.visits[:1] if fails else lease.visits
        outcome = TOO_SLOW if fails else PAGE
        await frontier.finish(worker, [done(lease, visits, outcome, keep=False, **how)])
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.failed) == (4, 0, 0)
    await sweep(frontier)
    assert await visit_all(frontier, worker) == []
    status = await numbers(frontier)
    assert (status.fetched, status.earlier, status.to_sweep) == (4, 1, False)


async def test_what_waited_when_a_run_was_cut_short_waits_to_be_found_again(frontier):
    row = await frontier.open_collection(a_collection(), [offer(ROOT)])
    await frontier.discover(row.id, [offer(f"{ROOT}{n}", 1) for n in range(20)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await leased(frontier, worker)
    await frontier.finish(worker, [done(lease, lease.visits, keep=False)])
    await frontier.set_state("c", "stopped", "deadline")
    await frontier.begin_run("c", "")
    status = await numbers(frontier)
    assert (status.known, status.fetched, status.pending, status.aside) == (21, 8, 1, 12 + 1)
    await frontier.discover(row.id, [offer(f"{ROOT}19", 4)])
    assert sorted((visit.url, visit.depth) for visit in await visit_all(frontier, worker)) == [
        (ROOT, 0), (f"{ROOT}19", 4)]  # fmt: skip
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.handed_out, status.earlier) == (9, 0, 0, 7)
    assert status.aside == 12


async def test_visits_that_are_out_when_the_next_run_begins_count_for_the_earlier_one(frontier):
    row = await frontier.open_collection(a_collection(), [offer(ROOT), offer(ABOUT), offer(NEWS)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await leased(frontier, worker)
    await frontier.set_state("c", "stopped", "")
    await frontier.begin_run("c", "")
    about = next(visit for visit in lease.visits if visit.url == ABOUT)
    (answer,) = await frontier.finish(worker, [done(lease, [about], PAGE, run=lease.run)])
    assert answer.is_leased
    assert answer.visits == []
    await frontier.leave(worker)
    status = await numbers(frontier)
    assert status.handed_out == 0
    worker = (await frontier.join("other", current_process())).worker
    assert sorted(visit.url for visit in await visit_all(frontier, worker)) == [ROOT]
    assert row.run == 1


async def test_limits_are_those_of_each_run(frontier):
    limits = {"hosts": ["*"], "pages_max": 2, "requests_max": 3}
    number, worker = await first_run(frontier, [ABOUT, NEWS], scope=limits)
    status = await numbers(frontier)
    assert (status.fetched, status.requests, status.pending) == (2, 2, 1)
    await frontier.begin_run("c", "")
    await frontier.discover(number, [offer(url, 1) for url in (ABOUT, NEWS, OTHER)])
    visits = await visit_all(frontier, worker, {ROOT: GONE})
    assert len(visits) == 3
    status = await numbers(frontier)
    assert (status.requests - status.requests_before, status.fetched - status.earlier) == (3, 2)


async def test_depths_of_earlier_runs_do_not_count(frontier):
    number, worker = await first_run(frontier, [ABOUT, NEWS], scope={"hosts": ["*"], "depth_max": 2})
    await frontier.begin_run("c", "")
    await frontier.discover(number, [offer(ABOUT, 2), offer(NEWS, 9), offer(OTHER, 3)])
    visits = {visit.url: visit.depth for visit in await visit_all(frontier, worker)}
    assert visits == {ROOT: 0, ABOUT: 2, NEWS: 9}  # whoever has it says that it is too deep by now
    assert (await numbers(frontier)).too_deep == 1


async def test_a_sitemap_is_read_again_in_each_run(frontier):
    row = await frontier.open_collection(a_collection(), [offer(ROOT)])
    listing = replace(offer("http://a.br/sitemap.xml"), role=int(UrlRole.SITEMAP))
    await frontier.discover(row.id, [listing])
    worker = (await frontier.join("w", current_process())).worker
    read = Outcome(200, 1_000_000.0, etag='"s"', payload="sha1:S", role=int(UrlRole.SITEMAP))
    await visit_all(frontier, worker, {listing.url: read})
    await frontier.set_state("c", "finished", "")
    await frontier.begin_run("c", "")
    await frontier.discover(row.id, [listing])
    visits = {visit.url: visit for visit in await visit_all(frontier, worker, {listing.url: read})}
    assert visits[listing.url].etag is None
    assert visits[listing.url].role == UrlRole.SITEMAP


@pytest.mark.parametrize(
    ("sections", "state", "why"),
    [
        ({}, "running", "is under way"),
        ({"revisit": {"policy": "index"}}, "stopped", "has no runs"),
        ({"strategy": {"order": "breadth"}}, "stopped", "order = \"breadth\" has no runs"),
    ],
)  # fmt: skip
async def test_a_run_that_cannot_begin_is_refused_with_its_reason(frontier, sections, state, why):
    await frontier.open_collection(a_collection(**sections), [offer(ROOT)])
    await frontier.set_state("c", state, "")
    with pytest.raises(FrontierError, match=why):
        await frontier.begin_run("c", "")
    assert (await numbers(frontier)).run == 1


async def test_a_collection_that_is_kept_fresh_from_now_on_has_everything_that_its_runs_had(frontier):
    number, worker = await first_run(frontier, [ABOUT, NEWS])
    await frontier.begin_run("c", "")
    await frontier.discover(number, [offer(OTHER, 1)])
    await frontier.set_state("c", "stopped", "")
    await frontier.begin_run("c", "")  # the other page was left over
    await visit_all(frontier, worker)
    assert (await numbers(frontier)).aside == 1
    await frontier.open_collection(a_collection(revisit={"policy": "index"}))
    status = await numbers(frontier)
    assert (status.fetched, status.pending, status.aside, status.earlier) == (3, 1, 0, 0)


async def test_a_frontier_that_is_opened_again_goes_on_with_its_run_and_its_sweep(open_frontier):
    async with open_frontier() as frontier:
        _, worker = await first_run(frontier, [ABOUT, NEWS])
        await frontier.begin_run("c", "")
        await visit_all(frontier, worker)
        assert await frontier.sweep("c", 1)
    async with open_frontier() as frontier:
        status = await numbers(frontier)
        assert (status.run, status.sweeping, status.pending) == (2, True, 1)
        await sweep(frontier)
        worker = (await frontier.join("later", current_process())).worker
        assert len(await visit_all(frontier, worker)) == 2
        assert (await numbers(frontier)).fetched == 1


async def test_a_collection_is_deleted_little_by_little_and_its_name_is_free_then(frontier):
    number, worker = await first_run(frontier, [ABOUT, NEWS, OTHER])
    other = await frontier.open_collection(a_collection("d"), [offer(ROOT)])
    await visit_all(frontier, worker)
    assert await frontier.delete_collection("c", 0)
    assert (await numbers(frontier)).state == "deleting"
    with pytest.raises(FrontierError, match="being deleted"):
        await frontier.set_state("c", "running", "")
    with pytest.raises(FrontierError, match="being deleted"):
        await frontier.open_collection(a_collection(), [offer(ROOT)])
    calls = 1
    while await frontier.delete_collection("c", 2):
        calls += 1
    assert calls > 3
    assert [row.name for row in await frontier.collections()] == ["d"]
    facts = await frontier.look_up(host_id("http://a.br:80"), url_id(ROOT))
    assert [one.collection for one in facts.urls] == ["d"]
    assert facts.host is not None
    fresh = await frontier.open_collection(a_collection(), [offer(ROOT)])
    assert fresh.id not in (number, other.id)
    status = await numbers(frontier)
    assert (status.known, status.visits, status.statuses, status.hosts, status.run) == (1, 0, {}, 1, 1)
    assert [visit.number for visit in await visit_all(frontier, worker)] == [1]


async def test_nothing_is_deleted_while_it_runs_or_while_a_visit_is_out(frontier):
    row = await frontier.open_collection(a_collection(), [offer(ROOT)])
    with pytest.raises(FrontierError, match="runs; stop it"):
        await frontier.delete_collection("c", 10)
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await leased(frontier, worker)
    await frontier.set_state("c", "stopped", "")
    assert await frontier.delete_collection("c", 1000)
    assert (await numbers(frontier)).known == 1
    await frontier.finish(worker, [done(lease, lease.visits, keep=False)])
    while await frontier.delete_collection("c", 1000):
        pass
    assert await frontier.collections() == []
    await frontier.discover(row.id, [offer(OTHER)])  # by somebody who was away for long
    assert (await frontier.overview()).collections == []


async def test_a_host_that_is_retried_may_be_visited_as_soon_as_politeness_allows(frontier):
    await frontier.open_collection(a_collection(fetch={"retries": 0}), [offer(ROOT), offer(ABOUT)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await leased(frontier, worker)
    ended = FalseClock.shift[0] + 1_000_000.0
    report = done(lease, lease.visits, TOO_SLOW, keep=False, failures=1, next_at=ended + 9_000.0, ended_at=ended,
                  delay_s=5.0, trouble="too slow")  # fmt: skip
    await frontier.finish(worker, [report])
    assert (await frontier.host_counts("c")).backed_off == 0  # it has no work left
    await frontier.retry_host(lease.host, lease.host_key)
    facts = (await frontier.look_up(lease.host, url_id(ROOT))).host
    assert facts is not None
    assert (facts.failures, facts.trouble, facts.next_at, facts.waiting) == (0, "", ended + 5.0, 2)
    assert await frontier.lease(worker, 10) == []
    FalseClock.shift[0] += 5.0
    assert urls(await frontier.lease(worker, 10)) == [ROOT, ABOUT]
    await frontier.retry_host(host_id("http://nobody.br:80"), "http://nobody.br:80")


async def test_hosts_are_counted_by_how_they_stand(frontier):
    pages = [f"http://h{n}.br/{page}" for n in range(4) for page in range(2)]
    await frontier.open_collection(a_collection(), [offer(url) for url in pages])
    assert await frontier.host_counts("c") == HostCounts(0, 4, 0, 0)
    worker = (await frontier.join("w", current_process())).worker
    FalseClock.shift[0] += 20.0
    first, second, third = await frontier.lease(worker, 3)
    later = 1_000_000.0 + FalseClock.shift[0] + 100.0
    await frontier.finish(worker, [
        done(first, first.visits, keep=False),
        done(second, second.visits[:1], TOO_SLOW, keep=False, failures=1, next_at=later),
    ])  # fmt: skip
    FalseClock.shift[0] += 20.0
    counts = await frontier.host_counts("c")
    assert (counts.active, counts.waiting, counts.backed_off, counts.idle, counts.counted) == (1, 1, 1, 1, True)
    assert third.visits
