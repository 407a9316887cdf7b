"""URLs that ended alike: what every body tells of them, and what lets them be tried again."""

from msgspec.structs import replace

from tarrafa.frontier.api import Frontier
from tarrafa.frontier.export_import.export_records import FrontierCursor
from tarrafa.frontier.messages import RetryBatch
from tarrafa.model import Outcome, Status, UrlRole
from tarrafa.parse.url import host_id, url_id
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import FalseClock, a_collection, done, numbers, offer, urls
from tests.contract.test_revisits import DAY_S, advance, now
from tests.contract.test_revisits import visit_all as keep_fresh
from tests.contract.test_runs import GONE, PAGE, TOO_SLOW, leased, visit_all

A, B, C = (f"http://{name}.br/" for name in "abc")
TOO_LARGE = Outcome(Status.TOO_LARGE, 1_000_000.0)
ROBOTS = Outcome(Status.ROBOTS, 1_000_000.0, requested=False)


async def visited(frontier: Frontier, outcomes: dict[str, Outcome]) -> int:
    """A collection whose URLs ended so; the number of its worker."""
    now = 1_000_000.0 + FalseClock.shift[0]
    await frontier.open_collection(a_collection(fetch={"retries": 0}), [offer(url) for url in outcomes])
    worker = (await frontier.join("w", current_process())).worker
    await visit_all(frontier, worker, {url: replace(one, at=now) for url, one in outcomes.items()})
    return worker


async def retried(frontier: Frontier, status: int, limit: int) -> tuple[int, int]:
    """How many wait again, and how many calls that took."""
    place: FrontierCursor | None = FrontierCursor()
    count, calls = 0, 0
    while place is not None:
        some = await frontier.retry_by_status("c", status, place, limit)
        place, count, calls = some.end, count + some.urls, calls + 1
    return count, calls


async def test_what_ended_alike_is_told_with_its_hosts_its_times_and_samples(frontier):
    slow = {f"{A}{page}": TOO_SLOW for page in range(12)} | {f"{B}{page}": TOO_SLOW for page in range(2)}
    worker = await visited(frontier, slow | {C: PAGE, f"{C}gone": GONE})
    begun = min(seen.at for seen in (await frontier.urls_by_status("c", Status.TOO_SLOW)).samples)
    FalseClock.shift[0] += 2 * 3_600.0
    await frontier.retry_host(host_id("http://b.br:80"), "http://b.br:80")
    later = replace(TOO_SLOW, at=1_000_000.0 + FalseClock.shift[0])
    await visit_all(frontier, worker, {f"{B}0": later, f"{B}1": later})
    facts = await frontier.urls_by_status("c", Status.TOO_SLOW)
    assert (facts.status, facts.looked, facts.whole) == (Status.TOO_SLOW, 16, True)
    assert (facts.urls, facts.hosts, facts.waiting, facts.failed) == (14, 2, 0, 14)
    assert (facts.first, facts.last, facts.lately) == (begun, later.at, (2, 14, 14))
    assert [(host.key, host.urls) for host in facts.most] == [("http://a.br:80", 12), ("http://b.br:80", 2)]
    assert len(facts.samples) == 10
    newest = facts.samples[0]
    assert (newest.url, newest.state, newest.at) == (f"{B}0", "failed", later.at)
    assert [(visit.number, visit.status, visit.at) for visit in newest.history] == [
        (2, Status.TOO_SLOW, later.at),
        (1, Status.TOO_SLOW, begun),
    ]
    gone = await frontier.urls_by_status("c", 404)
    assert (gone.urls, gone.failed, [one.url for one in gone.samples]) == (1, 0, [f"{C}gone"])
    assert (await frontier.urls_by_status("c", 500)).urls == 0


async def test_urls_that_ended_alike_wait_again_some_at_a_time_and_no_others(frontier):
    slow = {f"{host}{page}": TOO_SLOW for host in (A, B) for page in range(5)}
    worker = await visited(frontier, slow | {C: PAGE, f"{C}gone": GONE, f"{C}large": TOO_LARGE})
    before = await numbers(frontier)
    count, calls = await retried(frontier, Status.TOO_SLOW, 3)
    assert count == 10
    assert calls >= 2
    after = await numbers(frontier)
    assert (before.failed, before.pending, after.failed, after.pending) == (10, 0, 0, 10)
    assert await retried(frontier, Status.TOO_SLOW, 100) == (0, 1)
    assert sorted(visit.url for visit in await visit_all(frontier, worker)) == sorted(slow)
    assert (await frontier.urls_by_status("c", Status.TOO_SLOW)).urls == 0
    assert await retried(frontier, Status.TOO_LARGE, 100) == (1, 1)  # whose limit somebody raised, say
    assert [visit.url for visit in await visit_all(frontier, worker)] == [f"{C}large"]
    assert (await numbers(frontier)).fetched == 12


async def test_a_page_that_is_asked_for_once_more_is_fetched_whole(frontier):
    worker = await visited(frontier, {A: replace(GONE, payload="sha1:A", etag='"1"', content_id="0" * 32)})
    assert await retried(frontier, 404, 100) == (1, 1)
    (again,) = await visit_all(frontier, worker)
    assert (again.etag, again.last_modified) == (None, None)


async def test_the_hosts_of_what_is_tried_again_rest_no_longer_than_politeness_asks(frontier):
    await frontier.open_collection(a_collection(fetch={"retries": 0}), [offer(A), offer(f"{A}x")])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await leased(frontier, worker)
    ended = FalseClock.shift[0] + 1_000_000.0
    report = done(lease, lease.visits[:1], TOO_SLOW, keep=False, failures=1, next_at=ended + 9_000.0,
                  ended_at=ended, delay_s=5.0, trouble="too slow")  # fmt: skip
    await frontier.finish(worker, [report])
    assert await retried(frontier, Status.TOO_SLOW, 100) == (1, 1)
    facts = (await frontier.look_up(lease.host, url_id(A))).host
    assert facts is not None
    assert (facts.failures, facts.trouble, facts.next_at, facts.waiting) == (0, "", ended + 5.0, 2)
    assert await frontier.lease(worker, 10) == []
    FalseClock.shift[0] += 5.0
    assert sorted(urls(await frontier.lease(worker, 10))) == [A, f"{A}x"]


async def test_what_is_kept_or_was_refused_for_what_it_is_is_left_alone(frontier):
    await visited(frontier, {A: PAGE, f"{A}private": ROBOTS})
    for one in (200, Status.ROBOTS, Status.TAKEN_DOWN):
        assert await frontier.retry_by_status("c", one, FrontierCursor(), 100) == RetryBatch(0, None)
    status = await numbers(frontier)
    assert (status.pending, status.fetched, status.excluded) == (0, 1, 1)


async def test_a_sitemap_that_is_read_every_day_keeps_its_own_time(frontier):
    row = await frontier.open_collection(a_collection(revisit={"weigh": "equal"}))
    await frontier.discover(row.id, [replace(offer(f"{A}sitemap.xml"), role=int(UrlRole.SITEMAP))])
    worker = (await frontier.join("w", current_process())).worker
    await keep_fresh(frontier, worker, lambda visit: Outcome(200, now(), type="text/xml", role=int(UrlRole.SITEMAP)))
    advance(DAY_S)
    await keep_fresh(frontier, worker, lambda visit: Outcome(502, now(), role=int(UrlRole.SITEMAP)), rounds=1)
    assert (await frontier.urls_by_status("c", 502)).urls == 1
    assert await frontier.retry_by_status("c", 502, FrontierCursor(), 100) == RetryBatch(0, None)
    facts = await frontier.look_up(host_id("http://a.br:80"), url_id(f"{A}sitemap.xml"))
    assert facts.urls[0].freshness is not None
    assert (await numbers(frontier)).pending == 0
