"""What the frontier believes of pages that are kept fresh, asked while nothing runs and while somebody owns it."""

from math import exp

import pytest

from tarrafa.clock import Clock
from tarrafa.frontier.rpc.frontier_server import serve_unix
from tarrafa.report import frontier_facts
from tarrafa.report.frontier_facts import read_frontier_facts
from tarrafa.runtime.data_dir import DataDirectory
from tests.contract.frontier_bodies import FalseClock, a_sqlite
from tests.contract.test_revisits import DAY_S, advance, kept, now, opened, visit_all

PAGES = [f"http://h{n}.br/" for n in range(7)]


@pytest.mark.parametrize("owned", [False, True])
async def test_change_rates_and_freshness_are_those_of_the_pages(tmp_path, monkeypatch, owned):
    monkeypatch.setattr(frontier_facts, "PAGES_PER_CALL", 2)
    monkeypatch.setattr("tarrafa.frontier.store.sqlite_frontier.PAGES_PER_READ", 2)
    data = DataDirectory(tmp_path / "d")
    data.create()
    FalseClock.shift[0] = 0.0
    async with a_sqlite(data.root) as frontier:
        number, worker = await opened(frontier, *PAGES)
        advance(2 * DAY_S)
        await visit_all(frontier, worker, lambda visit: kept("b" if "h0" in visit.url else "a"), rounds=1)
        pages = await frontier.revisit_pages(number, -(1 << 63), b"", 100)
        fresh = [exp(-page.history.estimate * (now() - page.history.last)) for page in pages]
        if owned:
            server = await serve_unix(frontier, data.socket)
            known = await read_frontier_facts(data, "c")
            server.close()
    if not owned:
        monkeypatch.setattr(Clock, "from_environment", lambda: FalseClock(0, 0))
        known = await read_frontier_facts(data, "c")
    assert known.trouble == ""
    assert known.status is not None
    assert known.config is not None
    found = known.freshness
    assert found is not None
    assert (found.pages, found.visits, found.visits_changed) == (7, 14, 1)
    assert found.fresh == pytest.approx(sum(fresh) / 7)
    assert found.changes_per_day.count == 7
    assert found.changes_per_day.most > found.changes_per_day.median > 0


async def test_a_frontier_that_is_not_there_is_no_error(tmp_path):
    data = DataDirectory(tmp_path / "d")
    data.create()
    known = await read_frontier_facts(data, "c")
    assert known.status is None
    assert "is not there" in known.trouble
