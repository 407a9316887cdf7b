"""What `tarrafa start`, `pause` and `stop` say to a frontier."""

import pytest
from msgspec.structs import replace

from tarrafa.cli.crawl import set_collection_state
from tarrafa.errors import FrontierError
from tarrafa.frontier.address import UnixSocket
from tarrafa.model import Status
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import a_collection, a_remote, numbers, offer
from tests.contract.test_runs import ABOUT, GONE, ROOT, first_run, visit_all


async def test_what_waits_is_started_and_what_is_finished_begins_again_from_its_roots(tmp_path):
    address = UnixSocket(str(tmp_path / "f.sock"))
    async with a_remote(tmp_path) as frontier:
        await frontier.open_collection(a_collection("waits"), [], False)
        await first_run(frontier, [ABOUT])
        with pytest.raises(FrontierError, match="c is finished already"):
            await set_collection_state(address, "c", "paused", "")
        for name in ("waits", "c"):
            await set_collection_state(address, name, "running", "by somebody", again=True)
        now = {one.name: (one.state, one.run, str(one.reason)) for one in (await frontier.overview()).collections}
        assert now == {"waits": ("running", 1, "by somebody"), "c": ("running", 2, "by somebody")}
        await set_collection_state(address, "c", "paused", "")
        await set_collection_state(address, "c", "running", "", again=True)
        assert (await numbers(frontier)).run == 2, "what rests goes on"


async def test_what_has_failed_is_not_called_finished(tmp_path):
    async with a_remote(tmp_path) as frontier:
        await frontier.open_collection(a_collection("c"), [offer(ROOT)])
        worker = (await frontier.join("w", current_process())).worker
        await visit_all(frontier, worker, {ROOT: replace(GONE, status=int(Status.ADDRESS_REFUSED))})
        await frontier.set_state("c", "finished", "no root could be fetched")
        with pytest.raises(FrontierError, match=r"c has failed already \(no root could be fetched\)"):
            await set_collection_state(UnixSocket(str(tmp_path / "f.sock")), "c", "paused", "")
