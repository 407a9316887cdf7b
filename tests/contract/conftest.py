"""Every scene is played on every body."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tarrafa.frontier.protocol import Frontier
from tests.contract.bodies import BODIES, FalseClock, FalseLeaseClock


@pytest.fixture(params=BODIES)
def play(request, tmp_path):
    """Run a scene on a fresh frontier; called again, it opens the same file anew."""
    if request.param == "two postgres" and request.node.get_closest_marker("one_server"):
        pytest.skip("of several servers each chooses among its own hosts")
    FalseClock.shift[0] = FalseLeaseClock.shift[0] = 0.0

    def run(scene: Callable[[Frontier], Awaitable[None]]) -> None:
        async def whole() -> None:
            async with BODIES[request.param](tmp_path) as frontier:
                await scene(frontier)

        asyncio.run(whole())

    return run
