"""What every body of the frontier promises about what is taken down."""

from datetime import UTC, datetime

from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE
from tarrafa.model import Outcome, Status
from tarrafa.runtime.process_identity import current_process
from tarrafa.takedown import TakedownEntry
from tests.contract.frontier_bodies import a_collection, done, numbers, offer, urls


def an_entry(number: int, action: str = "add", name: str = "") -> TakedownEntry:
    at = datetime.fromtimestamp(1_790_000_000 + number, UTC)
    return TakedownEntry(
        at, "lift" if action == "lift" else "add", "site", name or f"s{number}.br", "ana", "warum nicht"
    )


async def heard(frontier: Frontier, after: int = 0) -> tuple[list[TakedownEntry], int]:
    found: list[TakedownEntry] = []
    while (told := await frontier.takedowns(after)).entries:
        found, after = found + told.entries, told.end
    return found, after


async def test_everybody_hears_of_every_action_once_and_in_one_order(open_frontier):
    async with open_frontier() as frontier:
        assert await heard(frontier) == ([], 0)
        news = [an_entry(number) for number in range(5)]
        await frontier.record_takedowns(news[:2])
        await frontier.record_takedowns([news[1], news[2], news[0]])
        found, end = await heard(frontier)
        assert found == news[:3]
        await frontier.record_takedowns([news[4], news[3]])
        assert (await heard(frontier, end))[0] == [news[4], news[3]]
        assert (await heard(frontier))[0] == [*news[:3], news[4], news[3]]
    async with open_frontier() as frontier:
        assert len((await heard(frontier))[0]) == 5


async def test_a_long_list_comes_in_parts(frontier):
    news = [an_entry(number) for number in range(ENTRIES_PER_RESPONSE + 10)]
    await frontier.record_takedowns(news)
    assert len((await frontier.takedowns(0)).entries) == ENTRIES_PER_RESPONSE
    assert (await heard(frontier))[0] == news


async def test_what_was_lifted_waits_again_when_the_collection_is_started_anew(frontier):
    row = await frontier.open_collection(a_collection())
    pages = [offer(f"http://{name}.br/{number}") for name in "ab" for number in range(3)]
    await frontier.discover(row.id, pages)
    terms = await frontier.join("w", current_process())
    await frontier.record_takedowns([an_entry(1, name="a.br"), an_entry(2, name="b.br")])
    refused = Outcome(Status.TAKEN_DOWN, 1_000_000.0, requested=False)
    for lease in await frontier.lease(terms.worker, 10):
        await frontier.finish(terms.worker, [done(lease, lease.visits, refused, keep=False)])
    status = await numbers(frontier)
    assert (status.pending, status.dropped, status.requests) == (0, 6, 0)
    assert status.statuses == {str(int(Status.TAKEN_DOWN)): 6}
    await frontier.open_collection(a_collection())
    assert (await numbers(frontier)).pending == 0, "it is still taken down"
    await frontier.record_takedowns([an_entry(3, "lift", name="b.br")])
    await frontier.open_collection(a_collection())
    status = await numbers(frontier)
    assert (status.pending, status.dropped) == (3, 3)
    assert urls(await frontier.lease(terms.worker, 10)) == [f"http://b.br/{number}" for number in range(3)]
