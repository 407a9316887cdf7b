"""A coordinator with a real frontier, on a clock that the test moves."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.definitions import draft as drafts
from tarrafa.coordinator.store import CoordinatorStore
from tarrafa.frontier.collection_status import finish_reason, is_exhausted
from tarrafa.frontier.messages import CollectionStatus, HostReport, VisitReport
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier
from tarrafa.i18n import Message
from tarrafa.model import Outcome
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process_identity import current_process
from tests.contract.frontier_bodies import SUFFIXES, FalseLeaseClock

START = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
HOUR = 3_600.0


def a_collection(name: str = "news", **sections: dict[str, Any]) -> Collection:
    draft = drafts.draft_from_table({"name": name, "roots": ["http://a.br/", "http://b.br/"], **sections})
    assert draft.collection is not None, draft.complaints
    return draft.collection


class MovedClock(Clock):
    """Shows what the test says."""

    moment: ClassVar[list[float]] = [START]

    def now(self) -> float:
        return self.moment[0]


class CoordinatorHarness:
    """A coordinator with its frontier; `look` lets one tick of the clock pass."""

    def __init__(self, frontier: SqliteFrontier, ledger: CoordinatorStore, clock: MovedClock) -> None:
        self.frontier, self.ledger, self.clock = frontier, ledger, clock
        self.told: list[tuple[str, str, str]] = []
        self.begin()

    def begin(self) -> None:
        """It was away, and is back."""

        def tell(event: str, collection: Collection, told: Message | str, status: object, occasion: object) -> None:
            self.told.append((event, collection.name, str(told)))

        self.coordinator = Coordinator(self.ledger, lambda: self.frontier, self.clock, tell, "home")

    async def look(self, at: float | None = None) -> dict[str, CollectionStatus]:
        if at is not None:
            self.clock.moment[0] = at
        self.clock.moment[0] += 1.0
        await self.coordinator.tick(await self.frontier.overview())
        return {one.name: one for one in (await self.frontier.overview()).collections}

    async def state(self, name: str = "news") -> tuple[str, str]:
        found = (await self.look())[name]
        return found.state, str(found.reason)


@asynccontextmanager
async def coordinator_harness(path: Path) -> AsyncIterator[CoordinatorHarness]:
    data = DataDirectory(path / "d")
    data.create()
    clock = MovedClock(0, 0)
    clock.moment[0] = START
    frontier = SqliteFrontier(data.frontier, clock, SUFFIXES, lease_clock=FalseLeaseClock())
    ledger = CoordinatorStore(data)
    try:
        yield CoordinatorHarness(frontier, ledger, clock)
    finally:
        ledger.close()
        await frontier.close()


async def visit(harness: CoordinatorHarness, most: int, status: int = 200) -> list[str]:
    """Some of what waits is visited; with status 200 each of these is a page; their URLs."""
    worker, found = (await harness.frontier.join("w", current_process())).worker, list[str]()
    for lease in await harness.frontier.lease(worker, most):
        one = lease.visits[0]
        found.append(one.url)
        report = VisitReport(
            one.id,
            one.number,
            Outcome(status, harness.clock.now(), kept=status == 200, type="text/html", content_id="c"),
        )
        await harness.frontier.finish(
            worker, [HostReport(lease.host, lease.collection, [report], 0.0, 0.0, 0.0, keep=False)]
        )
    await harness.frontier.leave(worker)
    return found


async def is_over(harness: CoordinatorHarness) -> bool:
    """Whether whoever ends collections would do so now; then he has."""
    (one,) = (await harness.frontier.overview()).collections
    if is_exhausted(one):
        await harness.frontier.set_state(one.name, "finished", finish_reason(one))
    return is_exhausted(one)
