"""Every test of the contract runs on every body of the frontier."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tarrafa.frontier.api import Frontier
from tests.contract.frontier_bodies import BODIES, FalseClock, FalseLeaseClock
from tests.contract.postgres_process import WHY_NOT, programs

# These tests ask a database thousands of questions: on PostgreSQL they run with the long tests.
LENGTHY = (
    "test_the_price_spends_the_budget", "test_a_plan_", "test_no_more_revisits_are_made", "test_pages_that_fail_are",
    "test_an_exploring_visit", "test_a_page_that_somebody_looks_at", "test_a_full_collection", "test_the_rate_holds",
    "test_the_plan_of_a_killed", "test_who_is_out_while", "test_a_page_that_gave_up", "test_where_the_chosen",
)  # fmt: skip


def pytest_collection_modifyitems(items):
    for item in items:
        body = item.callspec.params.get("open_frontier", "") if hasattr(item, "callspec") else ""
        module = item.module.__name__.rpartition(".")[2]
        lengthy = item.name.startswith(LENGTHY) or module != "test_frontier"
        if (
            body == "two postgres"
            or (body == "postgres" and lengthy)
            or (body == "tcp" and ("revisits" in module or "runs" in module))
        ):
            item.add_marker(pytest.mark.long)


@pytest.fixture(params=BODIES)
def open_frontier(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Callable[[], AbstractAsyncContextManager[Frontier]]:
    """Opens an empty frontier of each body; called again, it opens the same frontier anew."""
    if "postgres" in request.param and programs() is None:
        pytest.skip(WHY_NOT)
    if request.param == "two postgres" and request.node.get_closest_marker("one_server"):
        pytest.skip("of several servers each chooses among its own hosts and sites")
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0
    return lambda: BODIES[request.param](tmp_path)


@pytest.fixture
async def frontier(open_frontier: Callable[[], AbstractAsyncContextManager[Frontier]]) -> AsyncIterator[Frontier]:
    async with open_frontier() as frontier:
        yield frontier
