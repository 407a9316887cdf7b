"""When is a collection over, and who says so?"""

import pytest
from msgspec.structs import replace

from tarrafa.crawl.supervisor import completion
from tarrafa.crawl.supervisor.completion import CompletionCheck
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tests.contract.frontier_bodies import FalseClock, FalseLeaseClock, a_collection, a_sqlite, numbers, offer
from tests.contract.test_runs import ABOUT, NEWS, first_run, visit_all


def over(visits: int, pending: int = 0) -> FrontierOverview:
    status = CollectionStatus("c", "running", "", visits, visits, pending, 0, 1, 0.0, visits=visits)
    return FrontierOverview([status], [])


@pytest.fixture
def now(monkeypatch):
    """A clock that the test moves."""
    moment = [0.0]
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0
    monkeypatch.setattr(completion, "boottime", lambda: moment[0])
    return moment


async def test_where_others_crawl_too_nothing_must_have_happened_for_a_while(tmp_path, now):
    async with a_sqlite(tmp_path) as frontier:
        await frontier.open_collection(a_collection(), [])
        end = CompletionCheck(lambda name: lambda: True, settle_s=5.0)
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
            assert not await end.finish_exhausted(frontier, seen), moment
        now[0] = 14.7
        assert await end.finish_exhausted(frontier, over(8))
        assert ((await numbers(frontier)).state, str((await numbers(frontier)).reason)) == (
            "finished", "everything in reach was visited",
        )  # fmt: skip


async def test_alone_it_is_over_when_the_followers_are_done(tmp_path, now):
    async with a_sqlite(tmp_path) as frontier:
        await frontier.open_collection(a_collection(), [])
        behind = [True]
        end = CompletionCheck(lambda name: lambda: not behind[0], settle_s=0.0)
        assert not await end.finish_exhausted(frontier, over(6, pending=1))
        assert not end.is_waiting(over(6, pending=1))
        assert not end.are_all_waiting(over(6, pending=1))
        assert not await end.finish_exhausted(frontier, over(7))
        assert not await end.finish_exhausted(frontier, over(8))
        assert end.is_waiting(over(8))
        assert end.are_all_waiting(over(8))
        two = replace(over(8), collections=[*over(8).collections, replace(over(8).collections[0], name="other")])
        assert end.is_waiting(two)
        assert not end.are_all_waiting(two), "another one goes on"
        behind[0] = False
        assert await end.finish_exhausted(frontier, over(9))
        assert (await numbers(frontier)).state == "finished"
        assert not end.is_waiting(await frontier.overview())
        assert not end.are_all_waiting(await frontier.overview()), "none is running"


async def test_a_later_run_that_has_looked_everywhere_is_swept_before_it_is_over(tmp_path, now):
    async with a_sqlite(tmp_path) as frontier:
        _, worker = await first_run(frontier, [ABOUT])
        await frontier.begin_run("c", "")
        await visit_all(frontier, worker)
        end = CompletionCheck(lambda name: lambda: True, settle_s=0.0)
        assert await end.finish_exhausted(frontier, await frontier.overview())
        status = await numbers(frontier)
        assert (status.state, status.to_sweep, status.pending) == ("running", False, 1)
        assert not await end.finish_exhausted(frontier, await frontier.overview())
        assert [visit.dismissed for visit in await visit_all(frontier, worker)] == [True]
        assert await end.finish_exhausted(frontier, await frontier.overview())
        status = await numbers(frontier)
        assert (status.state, status.fetched) == ("finished", 1)


async def test_a_run_that_a_limit_has_ended_takes_nothing_out(tmp_path, now):
    async with a_sqlite(tmp_path) as frontier:
        number, worker = await first_run(frontier, [ABOUT, NEWS], scope={"hosts": ["*"], "pages_max": 2})
        await frontier.begin_run("c", "")
        await frontier.discover(number, [offer(f"http://a.br/{n}", 1) for n in range(3)])
        await visit_all(frontier, worker)
        end = CompletionCheck(lambda name: lambda: True, settle_s=0.0)
        assert await end.finish_exhausted(frontier, await frontier.overview())
        status = await numbers(frontier)
        assert (status.state, str(status.reason), status.to_sweep) == (
            "finished",
            "pages_max = 2 was reached",
            True,
        )
        assert status.fetched - status.earlier == 2
