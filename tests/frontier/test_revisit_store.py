"""What the store and the steward of revisits promise, where only they can tell."""

import asyncio

import pytest

from tarrafa.data import DataDirectory
from tarrafa.frontier import planner
from tarrafa.frontier.planner import PlannerLauncher
from tarrafa.frontier.store.visits import HISTORY_MAX
from tests.contract.bodies import FalseClock, a_sqlite
from tests.contract.test_revisits import advance, kept, opened, visit_all


def test_the_visits_of_a_page_are_remembered_one_by_one_up_to_a_maximum(tmp_path):
    async def scene() -> None:
        async with a_sqlite(tmp_path) as frontier:
            _, worker = await opened(frontier, "http://a.br/")
            made = 1
            for turn in range(HISTORY_MAX + 20):
                advance(90_000)
                made += len(await visit_all(frontier, worker, lambda visit, turn=turn: kept("ab"[turn % 2]), rounds=1))
            assert made > HISTORY_MAX
            db = frontier._store.db  # type: ignore[attr-defined]
            assert db.row("SELECT count(*), max(number) FROM visit") == (HISTORY_MAX, made)

    FalseClock.shift[0] = 0.0
    asyncio.run(scene())


class Unplanned:
    """A frontier of which one collection always waits for a plan."""

    async def collections_to_plan(self) -> list[int]:
        return [1]


@pytest.mark.parametrize("error", [BlockingIOError(11, "no room for a process"), TimeoutError()])
def test_the_steward_survives_a_planner_that_cannot_be_started_or_never_ends(tmp_path, monkeypatch, error):
    async def scene() -> None:
        tries, again = 0, asyncio.Event()

        async def fail(self: PlannerLauncher, number: int) -> None:
            nonlocal tries
            tries += 1
            if tries == 3:
                again.set()
            raise error

        monkeypatch.setattr(PlannerLauncher, "_plan", fail)
        monkeypatch.setattr(planner, "LOOK_EVERY_S", 0.0)
        monkeypatch.setattr(planner, "REST_S", 0.0)
        steward = asyncio.create_task(PlannerLauncher(Unplanned(), DataDirectory(tmp_path), FalseClock(0, 0)).run())  # type: ignore[arg-type]
        waiting = asyncio.create_task(again.wait())
        await asyncio.wait({steward, waiting}, return_when=asyncio.FIRST_COMPLETED)
        assert not steward.done()
        steward.cancel()

    asyncio.run(scene())
