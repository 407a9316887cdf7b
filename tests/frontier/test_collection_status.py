"""What the counts of a collection mean, and which state may follow which."""

import pytest
from msgspec.structs import replace

from tarrafa.errors import FrontierError
from tarrafa.frontier.collection_status import finish_reason, has_failed, set_collection_state
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.model import Status
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import a_collection, a_sqlite, numbers, offer
from tests.contract.test_runs import ABOUT, GONE, ROOT, first_run, visit_all


async def test_what_waits_is_started_and_what_is_finished_begins_again_from_its_roots(tmp_path):
    async with a_sqlite(tmp_path) as frontier:
        await frontier.open_collection(a_collection("waits"), [], False)
        await first_run(frontier, [ABOUT])
        with pytest.raises(FrontierError, match="c is finished already"):
            await set_collection_state(frontier, "c", "paused", "")
        for name in ("waits", "c"):
            await set_collection_state(frontier, name, "running", "by somebody", again=True)
        now = {one.name: (one.state, one.run, str(one.reason)) for one in (await frontier.overview()).collections}
        assert now == {"waits": ("running", 1, "by somebody"), "c": ("running", 2, "by somebody")}
        await set_collection_state(frontier, "c", "paused", "")
        await set_collection_state(frontier, "c", "running", "", again=True)
        assert (await numbers(frontier)).run == 2, "what rests goes on"


async def test_what_has_failed_is_not_called_finished(tmp_path):
    async with a_sqlite(tmp_path) as frontier:
        await frontier.open_collection(a_collection("c"), [offer(ROOT)])
        worker = (await frontier.join("w", current_process())).worker
        await visit_all(frontier, worker, {ROOT: replace(GONE, status=int(Status.ADDRESS_REFUSED))})
        await frontier.set_state("c", "finished", "no root could be fetched")
        with pytest.raises(FrontierError, match=r"c has failed already \(no root could be fetched\)"):
            await set_collection_state(frontier, "c", "paused", "")


@pytest.mark.parametrize(
    ("fetched", "numbers", "failed"),
    [
        (0, {"statuses": {"-14": 2}}, True),  # addresses refused
        (0, {"statuses": {"-13": 1, "404": 1, "-7": 1}}, True),
        (0, {"statuses": {"301": 1, "-12": 1}}, True),  # a redirect to a name that does not exist
        (0, {}, False),  # nothing was visited
        (0, {"statuses": {"-14": 1, "-26": 1}}, False),  # a page without the wanted data is an answer
        (3, {"statuses": {"200": 3, "-14": 2}}, False),
        (3, {"statuses": {"200": 3, "-13": 1}, "run": 2, "earlier": 3}, True),  # a later run found nothing again
        (3, {"statuses": {"200": 5, "-13": 1}, "run": 2, "earlier": 1}, False),
        (3, {"statuses": {"200": 3}, "keeps_fresh": True, "earlier": 3}, False),
    ],
)
def test_a_run_whose_roots_all_failed_has_failed(fetched, numbers, failed):
    status = CollectionStatus("c", "finished", "", 5, fetched, 0, 0, 1, 0.0, **numbers)
    assert has_failed(status) == failed
    assert str(finish_reason(status)).startswith("no root could be fetched: ") == failed
    assert not has_failed(CollectionStatus("c", "running", "", 5, fetched, 0, 0, 1, 0.0, **numbers))
