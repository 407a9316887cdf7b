"""What every body of the frontier promises about requisites: URLs that pages need to be shown."""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tarrafa.frontier.api import Frontier
from tarrafa.frontier.collection_status import is_exhausted
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.model import REQUISITE_CAUSE, Outcome, Status, UrlRole, Visit
from tarrafa.parse.url import host_id, url_id
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import FalseClock, a_collection, done, numbers, offer

ROOT, PAGE, STYLE, FAR = "http://a.br/", "http://a.br/page", "http://a.br/style.css", "http://b.br/picture.png"
DAY_S = 86_400.0
AnswerVisit = Callable[[Visit], Outcome]


def now() -> float:
    return 1_000_000.0 + FalseClock.shift[0]


def need(url: str, announced: float = 0.0) -> DiscoveredUrl:
    return replace(offer(url, 1), role=int(UrlRole.REQUISITE), announced=announced)


def needed_page(url: str, depth: int = 1) -> DiscoveredUrl:
    return replace(offer(url, depth), role=int(UrlRole.NEEDED_PAGE))


def found(visit: Visit) -> Outcome:
    """A page is kept, a requisite is archived."""
    kept, kind = visit.role == UrlRole.PAGE, "text/html" if visit.role == UrlRole.PAGE else "image/png"
    content_id = "a" * 32 if kept else ""
    return Outcome(
        200, now(), kept=kept, type=kind, content_id=content_id, etag='"1"', payload="sha1:A", role=visit.role
    )


def but(url: str, status: int) -> AnswerVisit:
    """The same, but one page ends with this status."""

    def answer(visit: Visit) -> Outcome:
        is_it = visit.url == url and visit.role == UrlRole.PAGE
        return Outcome(status, now(), role=visit.role, type="text/html") if is_it else found(visit)

    return answer


async def opened(frontier: Frontier, *offers: DiscoveredUrl, **sections: Any) -> tuple[int, int]:
    scope = {"hosts": ["a.br"], "keep": "faithful"} | sections.pop("scope", {})
    row = await frontier.open_collection(a_collection(scope=scope, **sections), [offer(ROOT)])
    await frontier.discover(row.id, list(offers))
    return row.id, (await frontier.join("w", current_process())).worker


async def visit_all(frontier: Frontier, worker: int, answer: AnswerVisit = found) -> list[tuple[str, int]]:
    """Make every visit that is handed out now: URL and role of each."""
    made = []
    for _ in range(50):
        FalseClock.shift[0] += 5.0
        leases = await frontier.lease(worker, 20)
        if not leases:
            break
        for lease in leases:
            waiting = list(lease.visits)
            while waiting:
                visit = waiting.pop(0)
                made.append((visit.url, visit.role))
                (answered,) = await frontier.finish(worker, [done(lease, [visit], answer(visit), next_at=0.0)])
                waiting += answered.visits
    return made


async def state_of(frontier: Frontier, url: str) -> tuple[str, str]:
    (facts,) = (await frontier.look_up(host_id(offer(url).host_key), url_id(url))).urls
    return facts.state, facts.role


async def test_requisites_are_visited_before_the_pages_of_their_host_and_are_no_pages(frontier):
    _, worker = await opened(frontier, offer(PAGE, 1), need(STYLE), need(FAR))
    made = await visit_all(frontier, worker)
    assert sorted(made) == sorted([(STYLE, 3), (ROOT, 0), (PAGE, 0), (FAR, 3)])
    assert [url for url, _ in made if url.startswith(ROOT)] == [STYLE, ROOT, PAGE]
    status = await numbers(frontier)
    assert (status.fetched, status.requisites, status.requisites_queue, status.requisites_archived) == (2, 2, 0, 2)
    assert status.unkept == {REQUISITE_CAUSE: 2}
    assert is_exhausted(status)


async def test_a_requisite_is_handed_out_once_however_many_pages_need_it(frontier):
    number, worker = await opened(frontier, need(STYLE))
    for _ in range(3):
        await frontier.discover(number, [need(STYLE)])
    assert (await visit_all(frontier, worker)).count((STYLE, 3)) == 1
    await frontier.discover(number, [need(STYLE)])
    assert await visit_all(frontier, worker) == []


async def test_a_collection_that_is_full_of_pages_still_fetches_what_they_need(frontier):
    number, worker = await opened(frontier, *(offer(f"{PAGE}{n}", 1) for n in range(9)), scope={"pages_max": 1})
    assert [role for _, role in await visit_all(frontier, worker)] == [0]
    assert is_exhausted(await numbers(frontier))
    await frontier.discover(number, [need(STYLE), need(FAR)])
    status = await numbers(frontier)
    assert status.requisites_queue == 2 and not is_exhausted(status)
    assert sorted(await visit_all(frontier, worker)) == sorted([(STYLE, 3), (FAR, 3)])
    status = await numbers(frontier)
    assert (status.fetched, status.requisites_archived) == (1, 2)
    assert is_exhausted(status)


async def test_requisites_that_are_handed_out_take_no_place_of_a_page(frontier):
    _, worker = await opened(frontier, *(need(f"{FAR}{n}") for n in range(5)), scope={"pages_max": 1})
    leases = await frontier.lease(worker, 20)
    assert sorted({visit.role for lease in leases for visit in lease.visits}) == [0, 3]


async def test_the_limits_of_requests_hold_for_requisites(frontier):
    _, worker = await opened(frontier, *(need(f"{STYLE}{n}") for n in range(9)), scope={"requests_max": 4})
    assert len(await visit_all(frontier, worker)) == 4
    assert is_exhausted(await numbers(frontier))


async def test_depth_and_pages_of_a_host_do_not_limit_requisites(frontier):
    scope = {"depth_max": 0, "host_pages_max": 1}
    number, worker = await opened(frontier, need(STYLE), scope=scope)
    assert await visit_all(frontier, worker) == [(STYLE, 3), (ROOT, 0)]
    await frontier.discover(number, [need(f"{STYLE}2"), offer(PAGE, 1)])
    assert await visit_all(frontier, worker) == [(f"{STYLE}2", 3)]
    assert (await state_of(frontier, PAGE))[0] == "too deep"


async def test_a_needed_page_is_visited_once_as_a_page(frontier):
    _, worker = await opened(frontier, needed_page(PAGE))
    assert sorted(await visit_all(frontier, worker)) == [(ROOT, 0), (PAGE, 0)]
    assert await state_of(frontier, PAGE) == ("fetched", "page")
    assert (await numbers(frontier)).requisites == 0


async def test_a_needed_page_that_is_not_kept_is_visited_as_a_requisite(frontier):
    _, worker = await opened(frontier, needed_page(PAGE))
    made = await visit_all(frontier, worker, but(PAGE, Status.LANGUAGE_NOT_WANTED))
    assert made == [(ROOT, 0), (PAGE, 0), (PAGE, 3)]
    assert await state_of(frontier, PAGE) == ("dropped", "requisite")
    assert (await numbers(frontier)).unkept == {REQUISITE_CAUSE: 1}


async def test_a_needed_page_that_is_missing_is_not_asked_for_again(frontier):
    _, worker = await opened(frontier, needed_page(PAGE))
    assert (await visit_all(frontier, worker, but(PAGE, 404))).count((PAGE, 0)) == 1
    assert await state_of(frontier, PAGE) == ("dropped", "page")


async def test_a_needed_page_that_is_too_deep_is_a_requisite(frontier):
    _, worker = await opened(frontier, needed_page(PAGE), scope={"depth_max": 0})
    assert await visit_all(frontier, worker) == [(PAGE, 3), (ROOT, 0)]


async def test_a_page_that_was_refused_is_fetched_when_another_page_needs_it(frontier):
    refused = replace(offer(FAR, 1), status=int(Status.TYPE_NOT_WANTED))
    number, worker = await opened(frontier, refused, offer(PAGE, 2), scope={"depth_max": 1})
    assert await visit_all(frontier, worker) == [(ROOT, 0)]
    await frontier.discover(number, [need(FAR), need(PAGE)])
    assert sorted(await visit_all(frontier, worker)) == [(PAGE, 3), (FAR, 3)]
    assert (await numbers(frontier)).unkept == {REQUISITE_CAUSE: 2}


async def test_a_page_in_the_queue_stays_a_page_when_another_page_needs_it(frontier):
    number, worker = await opened(frontier, offer(PAGE, 1))
    await frontier.discover(number, [need(PAGE)])
    made = await visit_all(frontier, worker, but(PAGE, Status.TYPE_NOT_WANTED))
    assert made == [(ROOT, 0), (PAGE, 0), (PAGE, 3)]


async def test_a_link_makes_a_page_of_a_requisite_in_the_queue(frontier):
    number, worker = await opened(frontier, need(PAGE))
    await frontier.discover(number, [offer(PAGE, 2)])
    assert sorted(await visit_all(frontier, worker)) == [(ROOT, 0), (PAGE, 0)]
    (facts,) = (await frontier.look_up(host_id("http://a.br:80"), url_id(PAGE))).urls
    assert (facts.state, facts.role, facts.depth) == ("fetched", "page", 2)
    assert (await numbers(frontier)).requisites == 0


async def test_a_link_to_a_requisite_that_was_fetched_makes_a_page_of_it_if_its_type_is_wanted(frontier):
    framed = "http://a.br/framed"
    number, worker = await opened(frontier, need(framed), need(STYLE))

    def answer(visit: Visit) -> Outcome:
        return replace(found(visit), type="text/html" if visit.url == framed else "text/css")

    assert len(await visit_all(frontier, worker, answer)) == 3
    await frontier.discover(number, [offer(framed, 1), offer(STYLE, 1)])
    assert await visit_all(frontier, worker, answer) == [(framed, 0)]
    status = await numbers(frontier)
    assert (status.fetched, status.requisites, status.unkept) == (2, 1, {REQUISITE_CAUSE: 1})


async def test_a_link_found_while_the_requisite_is_being_visited_leads_to_a_page(frontier):
    number, worker = await opened(frontier, need(PAGE))
    (lease,) = await frontier.lease(worker, 1)
    assert [visit.url for visit in lease.visits if visit.role == UrlRole.REQUISITE] == [PAGE]
    await frontier.discover(number, [offer(PAGE, 1)])
    waiting, made = list(lease.visits), []
    while waiting:
        visit = waiting.pop(0)
        made.append((visit.url, visit.role))
        (answered,) = await frontier.finish(worker, [done(lease, [visit], found(visit), next_at=0.0)])
        waiting += answered.visits
    assert made == [(PAGE, 3), (ROOT, 0), (PAGE, 0)]
    assert await state_of(frontier, PAGE) == ("fetched", "page")


async def test_the_visits_of_a_killed_worker_are_made_again(frontier):
    _, worker = await opened(frontier, need(STYLE), needed_page(PAGE))
    assert await frontier.lease(worker, 5)
    assert (await numbers(frontier)).requisites_queue == 1
    await frontier.release_process(current_process())
    assert (await numbers(frontier)).requisites_queue == 1
    worker = (await frontier.join("again", current_process())).worker
    assert sorted(await visit_all(frontier, worker)) == sorted([(STYLE, 3), (ROOT, 0), (PAGE, 0)])


async def test_a_requisite_that_fails_is_tried_again_and_given_up(frontier):
    _, worker = await opened(frontier, need(STYLE), fetch={"retries": 2})
    made = await visit_all(frontier, worker, lambda visit: replace(found(visit), status=500, payload="", kept=False))
    assert made.count((STYLE, 3)) == 3
    assert await state_of(frontier, STYLE) == ("failed", "requisite")
    status = await numbers(frontier)
    assert (status.requisites, status.requisites_queue, status.requisites_archived) == (1, 0, 0)


async def test_a_requisite_is_asked_for_again_when_its_page_has_changed_and_it_is_old(frontier):
    number, worker = await opened(frontier, need(STYLE), revisit={"policy": "uniform", "rate": 1e-6})
    await visit_all(frontier, worker)
    FalseClock.shift[0] += 30 * DAY_S
    assert (STYLE, 3) not in await visit_all(frontier, worker)  # it is never due by itself
    await frontier.discover(number, [need(STYLE)])
    assert (STYLE, 3) not in await visit_all(frontier, worker)  # another page needs it, too
    await frontier.discover(number, [need(STYLE, announced=now())])
    (lease,) = [one for one in await frontier.lease(worker, 5) if STYLE in {visit.url for visit in one.visits}]
    (visit,) = [visit for visit in lease.visits if visit.url == STYLE]
    assert (visit.etag, visit.payload) == ('"1"', "sha1:A")
    unchanged = Outcome(304, now(), role=visit.role)
    await frontier.finish(worker, [done(lease, [visit], unchanged, next_at=0.0, keep=False)])
    FalseClock.shift[0] += DAY_S / 2
    await frontier.discover(number, [need(STYLE, announced=now())])
    assert (STYLE, 3) not in await visit_all(frontier, worker)
    assert (await numbers(frontier)).requisites_archived == 1


async def test_each_run_fetches_the_requisites_that_it_finds(frontier):
    number, worker = await opened(frontier, need(STYLE), need(FAR), needed_page(PAGE))
    await visit_all(frontier, worker)
    await frontier.set_state("c", "finished", "")
    await frontier.begin_run("c", "again")
    await frontier.discover(number, [need(STYLE), needed_page(PAGE)])
    assert sorted(await visit_all(frontier, worker)) == sorted([(STYLE, 3), (ROOT, 0), (PAGE, 0)])
    while await frontier.sweep("c", 100):
        pass
    assert await visit_all(frontier, worker) == []
    status = await numbers(frontier)
    assert (status.fetched, status.requisites, status.requisites_archived) == (2, 2, 2)


async def test_a_reference_to_another_body_is_not_taken_for_a_body(frontier):
    number, worker = await opened(frontier, need(STYLE))
    await visit_all(frontier, worker, lambda visit: replace(found(visit), same_as=FAR if visit.url == STYLE else ""))
    await frontier.discover(number, [need(STYLE, announced=now() + 2 * DAY_S)])
    FalseClock.shift[0] += 10
    (lease,) = await frontier.lease(worker, 5)
    (visit,) = lease.visits
    assert (visit.payload, visit.archived, visit.etag) == ("", 0.0, None)
