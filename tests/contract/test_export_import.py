"""What every body promises of images: whatever hangs below a host comes out, and comes in elsewhere as it was."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import msgspec
import pytest

from tarrafa.errors import FrontierError, TarrafaError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.export_import.export_records import (
    ExportCatalogue,
    FrontierCursor,
    HostCollectionExport,
    HostExport,
    UrlExport,
)
from tarrafa.frontier.messages import DiscoveredUrl, PastVisit, RobotsCopy
from tarrafa.frontier.rpc.codec_and_handshake import METHODS
from tarrafa.model import Outcome, Status, UrlRole, Visit
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import BODIES, FalseClock, FalseLeaseClock, a_collection, done, numbers, offer, urls


@pytest.fixture(params=BODIES)
def frontier_in(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[str], AbstractAsyncContextManager[Frontier]]:
    """Opens a frontier in a folder of its own: one is exported from, another of the same body is imported into."""
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0

    def open_in(folder: str) -> AbstractAsyncContextManager[Frontier]:
        (tmp_path / folder).mkdir()
        return BODIES[request.param](tmp_path / folder)

    return open_in


async def everything(frontier: Frontier, limit: int = 3) -> list[HostExport]:
    """As it would cross a wire, in small parts."""
    images: list[HostExport] = []
    place: FrontierCursor | None = FrontierCursor()
    while place is not None:
        album = await frontier.export_hosts(place, limit)
        assert sum(image.urls for image in album.images) <= limit
        images += album.images
        place = album.end
    return msgspec.msgpack.decode(msgspec.msgpack.encode(images), type=list[HostExport])


async def take_in(frontier: Frontier, catalogue: ExportCatalogue, images: list[HostExport]) -> None:
    for collection in catalogue.collections:
        await frontier.import_collection(collection)
    for image in images:
        await frontier.import_hosts([image])
    for collection in catalogue.collections:
        await frontier.set_state(collection.name, "paused", "")
        await frontier.set_state(collection.name, "running", "")


async def a_worker(frontier: Frontier, name: str = "w") -> int:
    return (await frontier.join(name, current_process())).worker


ROBOTS = RobotsCopy(200, b"d" * 16, 2_000_000.0, b"User-agent: *\nDisallow: /x\n")


async def test_all_that_is_known_of_urls_and_hosts_comes_in_as_it_went_out(frontier_in):
    pages = [f"http://a.br/{n}" for n in range(8)] + ["https://b.com.br/"]

    async with frontier_in("source") as frontier:
        await frontier.open_collection(a_collection(), [offer(url) for url in pages])
        number = (await frontier.collections())[0].id
        deep = msgspec.structs.replace(offer("http://a.br/deep", 7, 2), announced=9.5, parent=b"p" * 8)
        await frontier.discover(number, [deep])
        worker = await a_worker(frontier)
        for lease in await frontier.lease(worker, 2):
            kept = Outcome(200, 1_000_000.0, kept=True, type="text/html", length=7, content_id="aa", etag='"e"',
                           last_modified="then", payload="sha1:X")  # fmt: skip
            told = {"robots_copy": ROBOTS, "memory": b"m", "trouble": "slow", "next_at": 1_000_050.0, "delay_s": 5.0}
            reports = [done(lease, lease.visits[:1], kept), done(lease, lease.visits[1:2], Outcome(404, 1_000_001.0))]
            await frontier.finish(worker, [msgspec.structs.replace(one, **told) for one in reports])
        await frontier.leave(worker)
        facts = [await frontier.look_up(offer(url).host, offer(url).id) for url in [*pages, "http://a.br/deep"]]
        catalogue, images = await frontier.export_catalogue(), await everything(frontier)
        status = await numbers(frontier)
    async with frontier_in("target") as frontier:
        await take_in(frontier, catalogue, images)
        for before, url in zip(facts, [*pages, "http://a.br/deep"], strict=True):
            assert await frontier.look_up(offer(url).host, offer(url).id) == before
        assert await numbers(frontier) == status
        assert await frontier.robots_text(ROBOTS.digest) == ROBOTS.text
        assert (await frontier.export_catalogue()).collections[0].counters == catalogue.collections[0].counters
        FalseClock.shift[0] = 100.0
        (lease,) = await frontier.lease(await a_worker(frontier), 1)
        assert (lease.memory, lease.delay_s, lease.robots_copy.digest) == (b"m", 5.0, ROBOTS.digest)


async def test_what_was_handed_out_waits_again_and_its_number_is_never_given_twice(frontier_in):
    async with frontier_in("source") as frontier:
        await frontier.open_collection(a_collection(), [offer("http://a.br/")])
        worker = await a_worker(frontier)
        (lease,) = await frontier.lease(worker, 1)
        assert [visit.number for visit in lease.visits] == [1]
        given = await frontier.export_catalogue(), await everything(frontier)
    async with frontier_in("target") as frontier:
        await take_in(frontier, *given)
        assert (await numbers(frontier)).pending == 1
        assert (await numbers(frontier)).handed_out == 0
        worker = await a_worker(frontier)
        assert await frontier.lease(worker, 1) == [], "its last request may have gone out a moment ago"
        FalseClock.shift[0] = 10.0
        (lease,) = await frontier.lease(worker, 1)
        assert [visit.number for visit in lease.visits] == [2]


async def test_taking_in_the_same_images_again_changes_nothing_even_after_life_went_on(frontier_in):
    async with frontier_in("source") as frontier:
        roots = [offer(f"http://{host}.br/{n}") for host in "ab" for n in range(5)]
        await frontier.open_collection(a_collection(revisit={"policy": "index"}), roots)
        catalogue, images = await frontier.export_catalogue(), await everything(frontier)
    async with frontier_in("target") as frontier:
        await take_in(frontier, catalogue, images)
        worker = await a_worker(frontier)
        (one, two) = await frontier.lease(worker, 2)
        await frontier.finish(worker, [done(one, one.visits[:2], keep=False)])
        before = await numbers(frontier), await everything(frontier)
        await frontier.import_hosts(images)
        assert (await numbers(frontier), await everything(frontier)) == before
        (answer,) = await frontier.finish(worker, [done(two, two.visits)])
        assert not answer.is_leased
        assert (await numbers(frontier)).fetched == 7


async def test_a_large_host_comes_in_parts_and_goes_in_as_one(frontier):
    many = [offer(f"http://a.br/{n}") for n in range(40)]
    await frontier.open_collection(a_collection("c"), many)
    await frontier.open_collection(a_collection("d"), many[:10])
    images = await everything(frontier, limit=7)
    assert len(images) == 8
    assert [image.row is not None for image in images] == [True] + [False] * 7
    assert {image.key for image in images} == {"http://a.br:80"}
    found = [(share.collection, url.url) for image in images for share in image.shares for url in share.urls]
    assert len(found) == len(set(found)) == 50


async def test_a_host_that_was_only_asked_for_its_robots_txt_is_part_of_it_too(frontier_in):
    async with frontier_in("source") as frontier:
        row = await frontier.open_collection(a_collection(), [offer("http://a.br/")])
        worker, other = await a_worker(frontier), offer("http://www.a.br/")
        loan = await frontier.borrow_host(worker, row.id, other.host, other.host_key)
        assert loan.granted
        lent = msgspec.structs.replace(offer("http://www.a.br/"))
        report = done(lease_of(lent, row.id), [], keep=False, robots_copy=ROBOTS, delay_s=3.0)
        await frontier.finish(worker, [report])
        given = await frontier.export_catalogue(), await everything(frontier, limit=1)
    async with frontier_in("target") as frontier:
        assert len(given[1]) == 2
        await take_in(frontier, *given)
        facts = await frontier.look_up(offer("http://www.a.br/").host, b"\0" * 16)
        assert facts.host is not None
        assert (facts.host.robots, facts.host.delay_s) == (ROBOTS.text, 3.0)


def lease_of(found: DiscoveredUrl, collection: int) -> Visit:
    """Enough of a lease to report on."""
    return Visit(collection, found.host, found.id, found.url, 0, 0, 1)


async def test_two_collections_and_their_shared_host_come_together_elsewhere(frontier_in):
    """Each exported by itself: the second import finds the host there already."""

    async with frontier_in("source") as frontier:
        for name in "cd":
            await frontier.open_collection(a_collection(name), [offer("http://a.br/"), offer(f"http://a.br/{name}")])
        images = await everything(frontier, limit=100)
        catalogue = await frontier.export_catalogue()
    async with frontier_in("target") as frontier:
        for collection in catalogue.collections:
            only = msgspec.structs.replace(catalogue, collections=[collection])
            mine = [
                msgspec.structs.replace(
                    image, shares=[share for share in image.shares if share.collection == collection.name]
                )
                for image in images
            ]
            await take_in(frontier, only, mine)
        assert [one.pending for one in (await frontier.overview()).collections] == [2, 2]
        worker = await a_worker(frontier)
        (lease,) = await frontier.lease(worker, 5)
        await frontier.finish(worker, [done(lease, lease.visits, keep=False)])
        (lease,) = await frontier.lease(worker, 5)
        assert urls([lease]) == ["http://a.br/", f"http://a.br/{'cd'[lease.collection - 1]}"]


async def test_a_collection_that_is_here_already_is_refused_and_a_half_imported_one_is_left_alone(frontier_in):
    async with frontier_in("source") as frontier:
        await frontier.open_collection(a_collection(), [offer("http://a.br/")])
        given = await frontier.export_catalogue(), await everything(frontier)
    async with frontier_in("target") as frontier:
        (image,) = given[0].collections
        mine = msgspec.structs.replace(image, reason="import of file 1")
        await frontier.import_collection(mine)
        await frontier.import_hosts(given[1])
        assert [one.state for one in await frontier.collections()] == ["importing"]
        assert await frontier.lease(await a_worker(frontier), 5) == [], "nobody visits it before it is whole"
        with pytest.raises(TarrafaError, match="not wholly imported"):
            await frontier.open_collection(a_collection(), [])
        with pytest.raises(TarrafaError, match="not wholly imported"):
            await frontier.set_state("c", "running", "")
        await frontier.import_collection(mine)  # the same import goes on
        with pytest.raises(FrontierError, match="here already"):
            await frontier.import_collection(msgspec.structs.replace(image, reason="import of file 2"))
        await frontier.set_state("c", "paused", "imported")
        with pytest.raises(FrontierError, match="here already"):
            await frontier.import_collection(mine)
        await frontier.open_collection(a_collection(), [])
        assert urls(await frontier.lease(1, 5)) == ["http://a.br/"]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    ("harm", "told"),
    [
        ({"id": b"x" * 16}, "id of another URL"),
        ({"url": "http://b.br/"}, "id of another URL"),
        ({"state": 1}, "no URL has state 1"),
        ({"role": 9}, "no URL has state 0 and role 9"),
    ],
)
async def test_an_image_that_cannot_be_true_is_refused_and_changes_nothing(tmp_path, body, harm, told):
    async with BODIES[body](tmp_path) as frontier:
        await frontier.open_collection(a_collection(), [offer("http://a.br/"), offer("http://a.br/b")])
        (image,) = await everything(frontier, 10)
        before = await everything(frontier), await numbers(frontier)
        (share,) = image.shares
        bad = [msgspec.structs.replace(share.urls[0], **harm), *share.urls[1:]]
        with pytest.raises(TarrafaError, match=told):
            await frontier.import_hosts([msgspec.structs.replace(image, shares=[replaced(share, bad)])])
        assert (await everything(frontier), await numbers(frontier)) == before


def replaced(share: HostCollectionExport, found: list[UrlExport]) -> HostCollectionExport:
    return msgspec.structs.replace(share, urls=found)


@pytest.mark.parametrize(
    "nonsense",
    [
        [["http", "x", "y", None, []]],
        [[1, "http://a.br:80", "a.br", [float("nan"), 0.0, 0.0, 0, None, "", 0, 0, 0, 0], []]],
        [[1, "http://a.br:80", "a.br", None, [["c", -1, 0, 0, []]]]],
        [[1, "x" * 5000, "a.br", None, []]],
    ],
)
def test_what_is_no_image_does_not_even_reach_the_frontier(nonsense):
    with pytest.raises(msgspec.MsgspecError):
        METHODS["import_hosts"].arguments.decode(msgspec.msgpack.encode([nonsense]))


async def test_a_page_kept_fresh_keeps_its_history_and_its_place(frontier_in):
    async with frontier_in("source") as frontier:
        config = a_collection(revisit={"policy": "proportional", "grace": "2h"})
        await frontier.open_collection(config, [offer(f"http://a.br/{n}") for n in range(3)])
        worker = await a_worker(frontier)
        for turn in range(3):
            for lease in await frontier.lease(worker, 1):
                seen = [Outcome(200, FalseClock(0, 0).now(), kept=True, content_id=f"{turn}{n}") for n in range(3)]
                for visit, outcome in zip(lease.visits, seen, strict=False):
                    gone = visit.url.endswith("2") and turn == 1
                    told = Outcome(404, outcome.at, grace=True) if gone else outcome
                    await frontier.finish(worker, [done(lease, [visit], told, next_at=told.at)])
                await frontier.finish(worker, [done(lease, [], keep=False, next_at=0.0)])
            FalseClock.shift[0] += 90_000.0
        facts = [await frontier.look_up(offer(f"http://a.br/{n}").host, offer(f"http://a.br/{n}").id) for n in range(3)]
        await frontier.leave(worker)
        given = await frontier.export_catalogue(), await everything(frontier), facts
    async with frontier_in("target") as frontier:
        await take_in(frontier, *given[:2])
        for n, before in enumerate(given[2]):
            found = await frontier.look_up(offer(f"http://a.br/{n}").host, offer(f"http://a.br/{n}").id)
            assert found.urls[0].freshness is not None
            assert found.urls == before.urls
        FalseClock.shift[0] += 1_000_000.0
        (lease,) = await frontier.lease(await a_worker(frontier), 1)
        assert len(lease.visits) == 3
        assert all(visit.content_id is not None for visit in lease.visits)


async def test_a_host_that_was_moved_away_is_forgotten_with_all_its_numbers(frontier):
    config = a_collection(revisit={"policy": "index"}, scope={"hosts": ["*"], "pages_max": 5})
    pages = [offer(f"http://{host}.br/{n}") for host in "ab" for n in range(4)]
    row = await frontier.open_collection(config, pages[:4])
    alone = await numbers(frontier), await everything(frontier)
    listing = msgspec.structs.replace(offer("http://b.br/s.xml"), role=int(UrlRole.SITEMAP))
    await frontier.discover(row.id, [*pages[4:], listing])
    worker = await a_worker(frontier)
    moved = offer("http://b.br/").host
    for lease in await frontier.lease(worker, 5):
        if lease.host == moved:
            with pytest.raises(FrontierError, match="with a worker"):
                await frontier.forget_host(moved)
            await frontier.finish(worker, [done(lease, lease.visits[:2], next_at=0.0)])
    await frontier.leave(worker)
    await frontier.forget_host(moved)
    await frontier.forget_host(moved)
    now = await numbers(frontier)
    assert (now.known, now.pending, now.fetched, now.hosts) == (4, 4, 0, 1)
    assert (await frontier.look_up(moved, pages[4].id)).host is None
    assert [image.key for image in await everything(frontier)] == [image.key for image in alone[1]]
    FalseClock.shift[0] = 50.0
    assert {lease.host for lease in await frontier.lease(await a_worker(frontier), 9)} == {pages[0].host}


async def test_a_frontier_whose_collection_is_not_here_is_refused(frontier):
    await frontier.open_collection(a_collection("c"), [offer("http://a.br/")])
    (image,) = await everything(frontier)
    (share,) = image.shares
    foreign = msgspec.structs.replace(share, collection="nobody")
    with pytest.raises(FrontierError, match="no collection is named 'nobody'"):
        await frontier.import_hosts([msgspec.structs.replace(image, shares=[foreign])])


async def test_the_history_of_a_url_is_told_as_it_was(frontier_in):
    async with frontier_in("source") as frontier:
        await frontier.open_collection(a_collection(fetch={"retries": 2}), [offer("http://a.br/")])
        worker = await a_worker(frontier, "ana")
        for status in (500, Status.TOO_SLOW):
            (lease,) = await frontier.lease(worker, 1)
            await frontier.finish(worker, [done(lease, lease.visits, Outcome(status, 1_000_000.0), keep=False)])
        await frontier.leave(worker)
        given = await frontier.export_catalogue(), await everything(frontier)
    async with frontier_in("target") as frontier:
        await take_in(frontier, *given)
        (known,) = (await frontier.look_up(offer("http://a.br/").host, offer("http://a.br/").id)).urls
        assert known.attempts == 2
        assert known.history == [
            PastVisit(1, 1_000_000.0, 500, 0, None, "ana"), PastVisit(2, 1_000_000.0, Status.TOO_SLOW, 0, None, "ana"),
        ]  # fmt: skip


async def test_a_run_comes_in_where_it_stood_with_what_it_had_not_found_yet(frontier_in):
    pages = [f"http://{host}.br/{n}" for host in "ab" for n in range(4)]

    async with frontier_in("source") as frontier:
        row = await frontier.open_collection(a_collection(), [offer("http://a.br/")])
        await frontier.discover(row.id, [offer(url, 1) for url in pages])
        worker = await a_worker(frontier)
        while leases := await frontier.lease(worker, 10):
            for lease in leases:
                await frontier.finish(worker, [done(lease, lease.visits[:3], keep=False)])
            if (await numbers(frontier)).fetched > 5:
                break
        await frontier.set_state("c", "stopped", "")
        await frontier.begin_run("c", "")
        await frontier.discover(row.id, [offer(pages[0], 1), offer(pages[-1], 1)])
        assert await frontier.sweep("c", 1)
        before, catalogue, images = (
            await numbers(frontier),
            await frontier.export_catalogue(),
            await everything(frontier),
        )
    async with frontier_in("target") as frontier:
        await take_in(frontier, catalogue, images)
        status = await numbers(frontier)
        for name in ("run", "started", "known", "fetched", "pending", "earlier", "aside", "requests_before"):
            assert getattr(status, name) == getattr(before, name), name
        assert before.earlier
        assert before.aside
        worker = await a_worker(frontier, "other")
        dismissed = 0
        FalseClock.shift[0] += 100.0
        while leases := await frontier.lease(worker, 10):
            dismissed += sum(visit.dismissed for lease in leases for visit in lease.visits)
            await frontier.finish(worker, [done(lease, lease.visits, keep=False) for lease in leases])
            FalseClock.shift[0] += 100.0
        assert dismissed >= 1
        assert (await numbers(frontier)).pending == 0
        for image in images:
            await frontier.forget_host(image.id)
        emptied = await numbers(frontier)
        assert (emptied.known, emptied.fetched, emptied.pending, emptied.earlier, emptied.aside) == (0, 0, 0, 0, 0)
