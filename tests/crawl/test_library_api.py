"""`pages()` left by its caller: while it waits for a page, and beside a crawl of another process; and its filter."""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tarrafa.crawl import pages
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.testweb.world.hosts import World
from tests.journey.crawl_journey import Journey, a_journey, pids_of
from tests.journey.scripted_web import ScriptedResponse, links, scripted_web
from tests.wait import wait_until


@pytest.fixture
def journey(tmp_path: Path) -> Iterator[Journey]:
    made = a_journey(tmp_path, World(seed=4, hosts=3, pages=300))
    made.delay_s = 0.5
    with made.web:
        yield made


def children(journey: Journey) -> list[int]:
    return pids_of(os.getpid(), str(journey.data.root))


async def test_a_caller_that_is_cancelled_while_it_waits_stops_the_crawl_cleanly(journey):
    """Cancelled, as by a time-out: the crawl is told by an event, and returns its hosts."""

    async def read() -> None:
        async for _ in pages(journey.write_collection(), journey.data.root):
            await asyncio.Event().wait()

    reading = asyncio.create_task(read())
    await wait_until(lambda: journey.kept().total() > 0, "the first page")
    assert children(journey)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    await wait_until(lambda: not children(journey), "no process is left")
    overview = await journey.overview()
    assert [(one.state, one.handed_out) for one in overview.collections] == [("paused", 0)]

    def is_lock_free() -> bool:
        lock = journey.data.try_lock()
        if lock is not None:
            lock.close()
        return lock is not None

    # The event loop closes the generator that was abandoned, and with it the supervisor, a moment later.
    await wait_until(is_lock_free, "the lock is free")


async def test_a_reader_that_says_what_its_pages_are_for_gets_none_that_reserve_that_use(tmp_path):
    def answer(url: str, _: int) -> ScriptedResponse | None:
        name = url.partition("a.test/")[2]
        if name == "robots.txt":
            return ScriptedResponse(
                b"User-agent: *\nContent-Usage: /own/ train-ai=n", headers={"Content-Type": "text/plain"}
            )
        return links("http://a.test/own/1", "http://a.test/own/2", "http://a.test/free") if not name else links(url)

    with scripted_web(answer) as web:
        left_out, got = list[str](), list[str]()
        collection = web.collection(tmp_path, ["http://a.test/"])
        reading = pages(
            collection, tmp_path / "data", workers=1, use="ai-train", on_reserved=lambda page: left_out.append(page.url)
        )
        async for page in reading:
            got.append(page.url)
    assert sorted(got) == ["http://a.test/", "http://a.test/free"]
    assert sorted(left_out) == ["http://a.test/own/1", "http://a.test/own/2"]


async def test_a_caller_that_leaves_a_crawl_of_another_process_does_not_stop_it(journey):
    async with Supervisor(journey.data, 1) as supervisor:
        async with contextlib.aclosing(pages(journey.write_collection(), journey.data.root)) as stream:
            first = await anext(stream)
        assert first.url in journey.kept()
        overview = await supervisor.frontier.overview()
        assert [one.state for one in overview.collections] == ["running"]
        before = journey.kept().total()
        await wait_until(lambda: journey.kept().total() > before, "it goes on")
