"""What `tarrafa start`, `pause` and `stop` say to a frontier."""

import pytest

from tarrafa.cli.crawl import set_collection_state
from tarrafa.errors import FrontierError
from tarrafa.frontier.address import UnixSocket
from tests.contract.frontier_bodies import a_collection, a_remote, numbers
from tests.contract.test_runs import ABOUT, first_run


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
