"""A supervisor follows and searches the parts that it owns, on a frontier of its own."""

import asyncio

import pytest

from tarrafa.clock import Clock
from tarrafa.crawl.supervisor.followers import NOT_OWNER, Followers
from tarrafa.crawl.supervisor.part_ownership import node_id
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.errors import ConfigError
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.index import follower, shards
from tarrafa.index.follower import behind
from tarrafa.index.shards import ShardLayout, parse_layout, read_layout, write_layout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tests.graph.archived_web import a_record, new_data, write
from tests.wait import wait_until

PAGES = [f"http://{name}.br/" for name in "abcdefgh"]
REQUEST = SearchRequest("lang:pt", n=50)


@pytest.fixture
def data(tmp_path):
    data = new_data(tmp_path / "data")
    write(data, [a_record(page, 1, 0, [PAGES[0]]) for page in PAGES])
    return data


def is_complete(data: DataDirectory) -> bool:
    layout = read_layout(data)
    return layout.is_owned and layout.complete == (1, 2, 3)


async def test_one_machine_owns_all_parts_until_it_does_not_follow_any_more(data, monkeypatch):
    monkeypatch.setenv("TARRAFA_LEASE_S", "2")
    await SqliteFrontier(data.frontier, Clock.real(), "br\n").close()
    async with Supervisor(data, 0, divided=parse_layout("owned/3", "test"), lasting=True) as supervisor:
        await wait_until(lambda: is_complete(data) and behind(data) == 0)
        assert Searcher.open(data).count_urls() == len(PAGES)
        epochs = [one.epoch for one in (await supervisor.frontier.claim_parts("other", "index", 3, [], [], 1)).parts]
        assert epochs == [], "another node gets nothing that is owned"
        await wait_until(lambda: len(read_layout(data).here) == 2)
        await supervisor.frontier.claim_parts("other", "index", 0, [], [], 1)
        await wait_until(lambda: is_complete(data))
        await supervisor.set_following(False)
        await wait_until(lambda: read_layout(data).here == ())
        assert shards.parts(data) == []
        await wait_until(lambda: not any(path.name.endswith("-of-3") for path in data.index.iterdir()))
        await supervisor.set_following(True)
        await wait_until(lambda: is_complete(data) and behind(data) == 0)
    followers = Followers(data, None)
    followers.prepare()
    assert followers.are_leased, "the option is remembered"
    assert followers.graph_epoch == NOT_OWNER
    assert len({node_id(data), node_id(data)}) == 1
    with pytest.raises(ConfigError, match=r"divided otherwise \(owned/3\); `tarrafa rebuild index --shards 4`"):
        async with Supervisor(data, 0, divided=parse_layout("4", "test")):
            pass


def test_replicas_are_added_and_left_out_without_a_rebuild(data):
    Followers(data, parse_layout("owned/3", "test")).prepare()
    write_layout(data, ShardLayout(3, (1, 2), is_owned=True))
    for part in shards.parts(data):
        follower.catch_up(part)
    Followers(data, parse_layout("owned/3x2", "test")).prepare()
    assert read_layout(data) == ShardLayout(3, (1, 2), is_owned=True, replicas=2)
    Followers(data, None).prepare()
    assert read_layout(data).replicas == 2, "the option is remembered"
    Followers(data, parse_layout("owned/3", "test")).prepare()
    assert read_layout(data) == ShardLayout(3, (1, 2), is_owned=True)
    with pytest.raises(ConfigError, match="divided otherwise"):
        Followers(data, parse_layout("owned/4x2", "test")).prepare()


async def test_a_search_names_the_parts_that_are_elsewhere_or_still_being_built(data):
    whole = Searcher.open(data).search
    write_layout(data, ShardLayout(3, (1, 2, 3), is_owned=True))
    await asyncio.to_thread(follower.catch_up, data)
    assert whole(REQUEST).total == len(PAGES)
    assert whole(REQUEST).shards == []
    write_layout(data, ShardLayout(3, (1, 2, 3), is_owned=True, building=(2,)))
    found = whole(REQUEST)
    assert found.total == len(PAGES), "what it has is found"
    assert [one.name for one in found.shards if one.trouble] == ["2/3"]
    write_layout(data, ShardLayout(3, (3,), is_owned=True))
    assert whole(REQUEST).total < len(PAGES)
    assert [one.name for one in whole(REQUEST).shards] == ["1,2/3"]
    write_layout(data, ShardLayout(3, (), is_owned=True))
    assert whole(REQUEST).total == 0
    assert [one.name for one in whole(REQUEST).shards] == ["1,2,3/3"]
