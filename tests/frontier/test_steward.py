"""Where several supervisors serve one frontier, one of them plans."""

import asyncio

import pytest

from tarrafa.clock import Clock
from tarrafa.errors import Unreachable
from tarrafa.frontier import planner
from tarrafa.frontier.address import UnixSocket
from tarrafa.frontier.planner import PlannerLauncher


class Shared:
    """A frontier that several stewards ask; it notes who looked for work."""

    def __init__(self) -> None:
        self.holder: str | None = None
        self.looked: list[str] = []
        self.away = 2  # so many questions fail at first


class Door:
    """One supervisor's way to it."""

    def __init__(self, shared: Shared, name: str) -> None:
        self._shared, self._name = shared, name

    async def may_plan(self) -> bool:
        if self._shared.away:
            self._shared.away -= 1
            raise Unreachable("away")
        self._shared.holder = self._shared.holder or self._name
        return self._shared.holder == self._name

    async def collections_to_plan(self) -> list[int]:
        self._shared.looked.append(self._name)
        return []


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(planner, "LOOK_EVERY_S", 0.001)


def steward(door: Door) -> PlannerLauncher:
    return PlannerLauncher(door, UnixSocket("nowhere"), Clock.real())  # type: ignore[arg-type]


def test_one_steward_of_several_plans_and_an_absent_frontier_is_asked_again(quick):
    async def scene() -> None:
        shared = Shared()
        tasks = [asyncio.create_task(steward(Door(shared, name)).run()) for name in ("one", "two", "three")]
        while len(shared.looked) < 10:
            await asyncio.sleep(0)
        assert set(shared.looked) == {shared.holder}
        shared.holder, shared.looked = "two", []
        while len(shared.looked) < 10:
            await asyncio.sleep(0)
        assert set(shared.looked[1:]) == {"two"}
        for task in tasks:
            task.cancel()

    asyncio.run(scene())
