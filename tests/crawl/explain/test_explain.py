"""What `explain` says of URLs and hosts while a crawl runs, and after it was killed."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tarrafa.cli.explain import print_explanation
from tarrafa.crawl.explain.explain import Explanation, explain, last_request
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import HostFacts, UrlWeight
from tarrafa.frontier.rpc import frontier_server
from tarrafa.model import Outcome, Status
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import FalseClock, FalseLeaseClock, a_collection, a_sqlite, offer
from tests.contract.test_revisits import advance, kept, now, opened, visit_all

HOME = "http://a.br/"


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DataDirectory]:
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0
    data = DataDirectory(tmp_path)
    data.create()
    yield data
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0


@asynccontextmanager
async def served(data: DataDirectory) -> AsyncIterator[Frontier]:
    async with a_sqlite(data.root) as frontier:
        server = await frontier_server.serve_unix(frontier, str(data.socket))
        yield frontier
        server.close()


async def told(data: DataDirectory, url: str = HOME) -> Explanation:
    return await explain(data, url, "c", now())


async def test_a_page_that_was_replaced_is_promised_no_visit(data):
    pages = [f"http://{'ab'[n % 2]}.br/{n}" for n in range(30)]
    async with served(data) as frontier:
        _, worker = await opened(frontier, *pages, scope={"hosts": ["*"], "pages_max": 10})
        weights = [UrlWeight(offer(page).host, offer(page).id, n) for n, page in enumerate(pages)]
        await frontier.update_weights("c", weights)
        for _ in range(12):
            advance(60)
            gone = Outcome(Status.REPLACED, now(), requested=False)
            await visit_all(frontier, worker, lambda visit, gone=gone: gone if visit.dismissed else kept(), rounds=4)
        found = [(await told(data, page)).collections[0] for page in pages]
    replaced = [one for one in found if one.status == Status.REPLACED]
    assert len(replaced) == 10
    for one in replaced:
        assert one.state == "pending"
        assert one.meaning == "replaced by a more important page"
        assert one.next_visit.startswith("when it has more in-links than the least linked page that is kept: the ")
        assert one.next_visit.endswith(
            f"(pages_max = 10), and it has {one.in_links} in-link{'s' * (one.in_links != 1)}"
        )


@pytest.mark.parametrize(
    ("ended_at", "told"), [(0.0, (None, None)), (99.0, (99.0, None)), (100.0, (100.0, None)), (101.0, (None, 101.0))]
)
def test_the_last_request_to_a_host_is_never_in_the_future(ended_at, told):
    host = HostFacts("http://a.br:80", "a.br", 0.0, ended_at, 1.0, 0, None, None, None, b"", 0, 0)
    assert last_request(host, 100.0) == told


async def test_a_silent_worker_leaves_no_request_in_the_future(data, capsys):
    async with served(data) as frontier:
        row = await frontier.open_collection(a_collection(fetch={"time_max": "40s"}))
        await frontier.discover(row.id, [offer(HOME)])
        silent = (await frontier.join("silent", current_process())).worker
        assert await frontier.lease(silent, 1)
        FalseLeaseClock.shift[0] = 31.0
        heir = (await frontier.join("heir", current_process())).worker
        assert await frontier.lease(heir, 1) == []
        explained = await told(data)
        before = explained.host
        print_explanation(explained)
        advance(41)
        after = (await told(data)).host
    assert before is not None
    assert (before.no_request_since, before.under_way_until) == ("", "1970-01-12T13:47:20Z")
    printed = capsys.readouterr().out
    assert "a request of a worker that fell silent may take until 1970-01-12T13:47:20Z; next visit allowed" in printed
    assert "on (a request of a worker that fell silent may take until then)" in printed
    assert "no request since" not in printed
    assert after is not None
    assert (after.no_request_since, after.under_way_until) == ("1970-01-12T13:47:20Z", "")


@pytest.mark.parametrize("state", ["running", "paused"])
async def test_after_a_kill_no_worker_has_a_url(data, state):
    async with served(data) as frontier:
        row = await frontier.open_collection(a_collection())
        await frontier.discover(row.id, [offer(HOME)])
        worker = (await frontier.join("w", current_process())).worker
        assert await frontier.lease(worker, 1)
        assert (await told(data)).collections[0].next_visit == "now: a worker has it"
        await frontier.set_state("c", state, "")
    Path(data.socket).unlink(missing_ok=True)
    found = await told(data)
    assert found.host is not None
    assert found.host.worker == ""
    assert found.collections[0].next_visit.startswith("when the collection runs again")


async def test_a_collection_that_ignores_robots_txt_does_not_say_that_it_was_not_fetched_yet(data):
    async with served(data) as frontier:
        row = await frontier.open_collection(a_collection(politeness={"robots": "ignore"}))
        await frontier.discover(row.id, [offer(HOME)])
        assert (await told(data)).collections[0].robots_ignored
