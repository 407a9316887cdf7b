"""What is read of the frontier where no frontier server answers: its file, and the state of its collections."""

from pathlib import Path

import pytest

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.explain.explain import explain
from tarrafa.crawl.explain.frontier_lookup import FRONTIER_STARTS, fetch_overview, open_frontier_lookup
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import HeartbeatListener
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tests.graph.archived_web import new_data

ROOT = "http://a.example/"
INTERRUPTED = "interrupted; `tarrafa crawl FILE` goes on where it was"


@pytest.fixture
async def data(tmp_path: Path) -> DataDirectory:
    """A data directory whose supervisor died while a collection ran."""
    data = new_data(tmp_path / "d")
    frontier = SqliteFrontier(data.frontier, Clock.real(), bundled_suffix_list())
    await submit_collection(frontier, Collection(name="c", roots=(ROOT,)))
    await frontier.close()
    return data


async def test_a_collection_whose_supervisor_died_is_paused_wherever_it_is_shown(data):
    (status,) = (await fetch_overview(data)).collections
    async with open_frontier_lookup(data) as lookup:
        (row,) = await lookup.collections()
    assert (status.state, str(status.reason)) == (row.state, str(row.reason)) == ("paused", INTERRUPTED)
    (explained,) = (await explain(data, ROOT, None, 0.0)).collections
    assert explained.next_visit == f"when the collection runs again (it is paused: {INTERRUPTED})"


async def test_it_still_runs_while_a_supervisor_starts_the_frontier_server_again(data):
    listener = HeartbeatListener(data, lambda heartbeat: None)
    overview = await fetch_overview(data)
    explained = await explain(data, ROOT, None, 0.0)
    listener.close()
    assert [one.state for one in overview.collections] == ["running"]
    assert (overview.notes, explained.notice) == ([FRONTIER_STARTS], FRONTIER_STARTS)
