"""What every body of the frontier promises about collections that were deleted."""

import pytest

from tarrafa.errors import FrontierError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import DeletedCollection
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import FalseClock, FalseLeaseClock, a_collection, done, offer
from tests.contract.test_runs import ABOUT, NEWS, OTHER, ROOT, leased

PAGES = [ROOT, ABOUT, NEWS, OTHER]


async def create(frontier: Frontier, *names: str) -> None:
    for name in names:
        await frontier.open_collection(a_collection(name), [offer(url) for url in PAGES], start=False)


async def delete(frontier: Frontier, name: str) -> None:
    assert await frontier.delete_collection(name, 0)
    assert await frontier.record_deletion(name)
    while await frontier.delete_collection(name, 3):
        pass


def told(found: list[DeletedCollection]) -> list[tuple[str, float]]:
    return [(one.collection, one.at) for one in found]


async def test_everybody_hears_of_every_deletion_in_one_order_and_of_the_last_one_of_each_name(open_frontier):
    async with open_frontier() as frontier:
        assert await frontier.deletions(0) == []
        await create(frontier, "a", "b", "c")
        await delete(frontier, "b")
        FalseClock.shift[0] = 10.0
        await delete(frontier, "a")
        first, second = await frontier.deletions(0)
        assert told([first, second]) == [("b", 1_000_000.0), ("a", 1_000_010.0)]
        assert await frontier.deletions(first.number) == [second]
        assert await frontier.deletions(second.number) == []
        await create(frontier, "b")
        assert await frontier.deletions(0) == [first, second], "the name's next owner changes nothing"
        await delete(frontier, "b")
        (third,) = await frontier.deletions(second.number)
        assert told([third]) == [("b", 1_000_010.0)]
        assert await frontier.deletions(0) == [second, third]
        FalseClock.shift[0] = 5.0  # somebody set it back
        await create(frontier, "b")
        await delete(frontier, "b")
        (last,) = await frontier.deletions(third.number)
        assert last.at > third.at
    async with open_frontier() as frontier:
        found = await frontier.deletions(0)
        assert [one.collection for one in found] == ["a", "b"]
        assert await frontier.deletions(found[-1].number + 1) == found, "nobody gave that number: it was another one"
        assert [row.name for row in await frontier.collections()] == ["c"]


async def test_it_is_noted_once_and_before_the_name_is_free(open_frontier):
    async with open_frontier() as frontier:
        await create(frontier, "c")
        await frontier.delete_collection("c", 0)
        assert await frontier.deletions(0) == []
        assert await frontier.record_deletion("c")
        FalseClock.shift[0] = 50.0
    async with open_frontier() as frontier:  # the process that deleted the collection was killed
        noted = await frontier.deletions(0)
        assert told(noted) == [("c", 1_000_000.0)]
        assert [row.name for row in await frontier.collections()] == ["c"]
        await delete(frontier, "c")
        assert await frontier.deletions(0) == noted
        with pytest.raises(FrontierError, match="no collection is named 'c'"):
            await frontier.record_deletion("c")


async def test_whoever_deletes_without_a_word_is_heard_of_all_the_same(frontier):
    await create(frontier, "c")
    while await frontier.delete_collection("c", 2):
        pass
    assert told(await frontier.deletions(0)) == [("c", 1_000_000.0)]


async def test_nothing_is_noted_of_what_is_kept_or_while_a_visit_is_out(frontier):
    await frontier.open_collection(a_collection(), [offer(ROOT)])
    worker = (await frontier.join("w", current_process())).worker
    (lease,) = await leased(frontier, worker)
    await frontier.set_state("c", "stopped", "")
    with pytest.raises(FrontierError, match="is not being deleted"):
        await frontier.record_deletion("c")
    await frontier.delete_collection("c", 0)
    assert not await frontier.record_deletion("c")
    assert await frontier.deletions(0) == []
    FalseClock.shift[0] += 7.0
    await frontier.finish(worker, [done(lease, lease.visits, keep=False)])
    assert await frontier.record_deletion("c")
    assert told(await frontier.deletions(0)) == [("c", FalseClock(0, 0).now())]


async def test_visits_of_a_machine_that_is_gone_are_waited_for_until_its_lease_is_over(frontier):
    await frontier.open_collection(a_collection(), [offer(ROOT)])
    worker = (await frontier.join("w", current_process())).worker
    await leased(frontier, worker)
    await frontier.set_state("c", "stopped", "")
    await frontier.delete_collection("c", 0)
    assert not await frontier.record_deletion("c")
    FalseLeaseClock.shift[0] += 100.0
    assert await frontier.record_deletion("c")


async def test_what_another_frontier_knew_is_taken_over_but_for_what_is_here_and_was_then(frontier):
    await create(frontier, "here", "gone")
    await delete(frontier, "gone")
    moments = {"here": 1_000_500.0, "away": 999_000.0, "gone": 900_000.0}
    for _ in range(2):
        await frontier.import_deletions(moments)
        assert told(await frontier.deletions(0)) == [("gone", 1_000_000.0), ("away", 999_000.0)]
    await frontier.import_deletions({"here": 999_999.0})
    assert told(await frontier.deletions(0))[-1] == ("here", 999_999.0), "an earlier one of that name"
    assert (await frontier.export_catalogue()).deleted == dict(told(await frontier.deletions(0)))
