"""Where several supervisors serve one frontier, one of them plans.

What the store and the steward of revisits promise, where only they can tell.
"""

import asyncio

import pytest

from tarrafa.clock import Clock
from tarrafa.errors import Unreachable
from tarrafa.frontier import revisit_planner
from tarrafa.frontier.address import UnixSocket
from tarrafa.frontier.revisit_planner import PlannerLauncher
from tarrafa.frontier.store.dispatch import HISTORY_MAX
from tarrafa.runtime.data_dir import DataDirectory
from tests.contract.frontier_bodies import FalseClock, a_sqlite
from tests.contract.test_revisits import advance, kept, opened, visit_all
from tests.wait import wait_until


class FakePlannedFrontier:
    """A frontier that several stewards ask; it notes who looked for work."""

    def __init__(self) -> None:
        self.holder: str | None = None
        self.looked: list[str] = []
        self.away = 2  # so many questions fail at first


class FakeConnection:
    """One supervisor's way to it."""

    def __init__(self, frontier: FakePlannedFrontier, name: str) -> None:
        self._frontier, self._name = frontier, name

    async def may_plan(self) -> bool:
        if self._frontier.away:
            self._frontier.away -= 1
            raise Unreachable("away")
        self._frontier.holder = self._frontier.holder or self._name
        return self._frontier.holder == self._name

    async def collections_to_plan(self) -> list[int]:
        self._frontier.looked.append(self._name)
        return []


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(revisit_planner, "LOOK_EVERY_S", 0.001)


def launcher(connection: FakeConnection) -> PlannerLauncher:
    return PlannerLauncher(connection, UnixSocket("nowhere"), Clock.real())  # type: ignore[arg-type]


async def test_one_steward_of_several_plans_and_an_absent_frontier_is_asked_again(quick):
    frontier = FakePlannedFrontier()
    tasks = [asyncio.create_task(launcher(FakeConnection(frontier, name)).run()) for name in ("one", "two", "three")]
    await wait_until(lambda: len(frontier.looked) >= 10)
    assert set(frontier.looked) == {frontier.holder}
    frontier.holder, frontier.looked = "two", []
    await wait_until(lambda: len(frontier.looked) >= 10)
    assert set(frontier.looked[1:]) == {"two"}
    for task in tasks:
        task.cancel()


async def test_the_visits_of_a_page_are_remembered_one_by_one_up_to_a_maximum(tmp_path):
    FalseClock.shift[0] = 0.0
    async with a_sqlite(tmp_path) as frontier:
        _, worker = await opened(frontier, "http://a.br/")
        made = 1
        for turn in range(HISTORY_MAX + 20):
            advance(90_000)
            made += len(await visit_all(frontier, worker, lambda visit, turn=turn: kept("ab"[turn % 2]), rounds=1))
        assert made > HISTORY_MAX
        db = frontier._store.db  # type: ignore[attr-defined]
        assert db.row("SELECT count(*), max(number) FROM visit") == (HISTORY_MAX, made)


class Unplanned:
    """A frontier of which one collection always waits for a plan."""

    async def collections_to_plan(self) -> list[int]:
        return [1]


@pytest.mark.parametrize("error", [BlockingIOError(11, "no room for a process"), TimeoutError()])
async def test_the_steward_survives_a_planner_that_cannot_be_started_or_never_ends(tmp_path, monkeypatch, error):
    tries, again = 0, asyncio.Event()

    async def fail(self: PlannerLauncher, number: int) -> None:
        nonlocal tries
        tries += 1
        if tries == 3:
            again.set()
        raise error

    monkeypatch.setattr(PlannerLauncher, "_run_planner", fail)
    monkeypatch.setattr(revisit_planner, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(revisit_planner, "REST_S", 0.0)
    launcher = asyncio.create_task(PlannerLauncher(Unplanned(), DataDirectory(tmp_path), FalseClock(0, 0)).run())  # type: ignore[arg-type]
    waiting = asyncio.create_task(again.wait())
    await asyncio.wait({launcher, waiting}, return_when=asyncio.FIRST_COMPLETED)
    assert not launcher.done()
    launcher.cancel()
