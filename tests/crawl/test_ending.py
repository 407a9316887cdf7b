"""When is a collection over, and who says so?"""

import asyncio

import pytest

from tarrafa.crawl import ending
from tarrafa.crawl.ending import Ending
from tarrafa.frontier.protocol import CollectionStatus, Overview
from tests.contract.bodies import a_collection, a_sqlite, numbers


def over(visits: int, pending: int = 0) -> Overview:
    status = CollectionStatus("c", "running", "", visits, visits, pending, 0, 1, 0.0, visits=visits)
    return Overview([status], [])


@pytest.fixture
def now(monkeypatch):
    """A clock that the test moves."""
    moment = [0.0]
    monkeypatch.setattr(ending, "boottime", lambda: moment[0])
    return moment


def test_where_others_crawl_too_nothing_must_have_happened_for_a_while(tmp_path, now):
    async def scene() -> None:
        async with a_sqlite(tmp_path) as frontier:
            await frontier.open_collection(a_collection(), [])
            end = Ending(lambda: True, settle_s=5.0)
            for moment, seen in (
                (0.0, over(7)),
                (4.9, over(7)),
                (4.95, over(8)),  # another machine brought something home
                (9.0, over(8)),
                (9.5, over(8, pending=1)),  # a depth fell
                (9.6, over(8)),
                (14.5, over(8)),
            ):
                now[0] = moment
                assert not await end.look(frontier, seen), moment
            now[0] = 14.7
            assert await end.look(frontier, over(8))
            assert ((await numbers(frontier)).state, (await numbers(frontier)).reason) == (
                "finished", "everything in reach was visited",
            )  # fmt: skip

    asyncio.run(scene())


def test_alone_it_is_over_when_the_followers_are_done(tmp_path, now):
    async def scene() -> None:
        async with a_sqlite(tmp_path) as frontier:
            await frontier.open_collection(a_collection(), [])
            behind = [True]
            end = Ending(lambda: not behind[0], settle_s=0.0)
            assert not await end.look(frontier, over(7))
            assert not await end.look(frontier, over(8))
            behind[0] = False
            assert await end.look(frontier, over(9))
            assert (await numbers(frontier)).state == "finished"

    asyncio.run(scene())
