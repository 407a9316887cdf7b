"""Revisit planner: a process that computes the price or plan of revisits of one collection, and its launcher.

`PlannerLauncher` runs beside the frontier server (with PostgreSQL: beside every supervisor, and one of them may plan)
and starts a planner whenever a collection waits for one. `python -m tarrafa.frontier.revisit_planner` is the planner:
one collection, then it ends. It uses the frontier API like any other client, in small calls, and computes in a process
of its own: planning never blocks the crawl, however large the collection.

The index policy with a budget needs a price: the price at which the visits worth it add up to the budget, apart from
hosts that their delay limits. It follows from the classes of pages alone, whatever their number. The planning policies
get their plan: the number of visits to each page within the horizon, and their times.
"""

import asyncio
import contextlib
import os
import sys
from array import array
from collections.abc import Awaitable, Callable

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.errors import FrontierError, Unreachable
from tarrafa.frontier.address import Address, address_from_supervisor, child_environment, connect
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import FIRST_HOST, CollectionRow, PlannedVisit, RevisitPage, RevisitShelf
from tarrafa.model import HostId
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.policy import class_of
from tarrafa.runtime.child_process import child_command, run_child
from tarrafa.runtime.compiled_kernels import use_own_numba_cache

LOOK_EVERY_S = 1.0
PLAN_S_MAX = 3600.0
REST_S = 5.0  # between two plans of one collection at least, however fast the clock runs
PAUSE_MIN_S = 1e-3  # between two visits of a host
PAGES_PER_CALL, HOSTS_PER_CALL, VISITS_PER_CALL = 5_000, 500, 2_000


class PlannerLauncher:
    """Starts planners where they are needed, one at a time.

    Where several launchers serve one frontier, it has a coroutine `may_plan`, which allows one of them to plan for as
    long as that one lives: each asks before it plans.
    """

    def __init__(self, frontier: Frontier, address: Address, clock: Clock) -> None:
        self._frontier, self._address, self._clock = frontier, address, clock
        self._may_plan: Callable[[], Awaitable[bool]] | None = getattr(frontier, "may_plan", None)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            with contextlib.suppress(Unreachable):  # tried again
                if self._may_plan is None or await self._may_plan():
                    await self._plan_waiting_collections()

    async def _plan_waiting_collections(self) -> None:
        for number in await self._frontier.collections_to_plan():
            try:
                await self._run_planner(number)
            except (OSError, TimeoutError) as error:  # no process can be started now, or it never ends
                sys.stderr.write(f"the planner of collection {number} failed: {error!r}\n")
            await asyncio.sleep(REST_S)

    async def _run_planner(self, number: int) -> None:
        """Run one planner. Its output goes into the frontier server's log; a failure is tried again."""
        process = await asyncio.create_subprocess_exec(
            *child_command("tarrafa.frontier.revisit_planner", collection=number),
            env=os.environ | child_environment(self._address, self._clock),
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            async with asyncio.timeout(PLAN_S_MAX):
                await process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()


async def plan_collection(frontier: Frontier, row: CollectionRow, now: float) -> None:
    """Compute the price or the plan that the collection's policy needs."""
    collection = config.decode_collection(row.config)
    if collection.revisit.policy == "index":
        await compute_price(frontier, row.id, collection)
    else:
        await compute_plan(frontier, row.id, collection, now)


async def compute_price(frontier: Frontier, number: int, collection: Collection) -> None:
    """Compute the price at which the visits worth it add up to the collection's rate."""
    rate, price = collection.revisit.rate, 0.0
    if rate is not None:
        classes = await ClassArrays.fetch(frontier, number)
        price = classes.price(rate / DAY_S) if classes.pages else 0.0
    await frontier.set_price(number, price)
    await _recompute_due(frontier, number)


class ClassArrays:
    """The classes of pages on each host, in flat arrays: 40 bytes for each class on a host, whatever its pages."""

    def __init__(self) -> None:
        self.rates, self.weights, self.pages, self.pauses = array("d"), array("d"), array("d"), array("d")
        self.hosts = array("q")  # numbered from 0
        self._numbers: dict[HostId, int] = {}
        self._classes: dict[int, tuple[float, float]] = {}

    @classmethod
    async def fetch(cls, frontier: Frontier, number: int) -> "ClassArrays":
        arrays, host = cls(), FIRST_HOST
        while some := await frontier.revisit_shelves(number, host, HOSTS_PER_CALL):
            for shelf in some:
                arrays.add(shelf)
            host = some[-1].host
        return arrays

    def add(self, shelf: RevisitShelf) -> None:
        host = self._numbers.setdefault(shelf.host, len(self.pauses))
        if host == len(self.pauses):
            self.pauses.append(max(shelf.delay_s, PAUSE_MIN_S))
        found = self._classes.get(shelf.shelf)
        if found is None:
            found = self._classes[shelf.shelf] = class_of(shelf.shelf)
        self.rates.append(found[0])
        self.weights.append(found[1])
        self.hosts.append(host)
        self.pages.append(shelf.pages)

    def price(self, per_s: float) -> float:
        import numpy as np

        from tarrafa.revisit import optimal_frequency

        rates, weights, pages, pauses = (
            np.frombuffer(numbers) for numbers in (self.rates, self.weights, self.pages, self.pauses)
        )
        hosts = np.frombuffer(self.hosts, np.int64)
        return float(optimal_frequency.solve(rates, weights, hosts, 1.0 / pauses, per_s, counts=pages).price)


async def _recompute_due(frontier: Frontier, number: int) -> None:
    host: HostId | None = FIRST_HOST
    while host is not None:
        host = await frontier.recompute_due(number, host, HOSTS_PER_CALL)


async def fetch_revisit_pages(frontier: Frontier, number: int) -> list[RevisitPage]:
    """All pages of a collection that are kept fresh."""
    pages: list[RevisitPage] = []
    host, url = FIRST_HOST, b""
    while some := await frontier.revisit_pages(number, host, url, PAGES_PER_CALL):
        pages += some
        host, url = some[-1].host, some[-1].id
    return pages


async def compute_plan(frontier: Frontier, number: int, collection: Collection, now: float) -> None:
    revisit = collection.revisit
    pages = await fetch_revisit_pages(frontier, number)
    name = int(now)
    visits = _planned_visits(pages, collection, now) if pages else []
    for start in range(0, len(visits), VISITS_PER_CALL):
        await frontier.add_planned_visits(number, name, visits[start : start + VISITS_PER_CALL])
    await frontier.activate_plan(number, name, now)  # it ends at once: if this process dies, another one plans
    await _recompute_due(frontier, number)
    while await frontier.drop_old_plans(number, HOSTS_PER_CALL):
        pass
    await frontier.activate_plan(number, name, now + revisit.horizon)


def _planned_visits(pages: list[RevisitPage], collection: Collection, now: float) -> list[PlannedVisit]:
    """The visits of psp, mp2 and m-wolf: see revisit/allocation.py and revisit/visit_times.py."""
    import numpy as np

    from tarrafa.revisit.allocation import allocate, page_visits_max
    from tarrafa.revisit.visit_times import merge, own_times

    revisit = collection.revisit
    page_max = page_visits_max(float(revisit.horizon), float(revisit.interval_min))
    hosts = {host: place for place, host in enumerate(dict.fromkeys(page.host for page in pages))}
    servers = np.array([hosts[page.host] for page in pages])
    delays = np.zeros(len(hosts))
    for page in pages:
        delays[hosts[page.host]] = page.delay_s
    caps = np.minimum(revisit.horizon / np.maximum(delays, 1e-3), page_max * np.bincount(servers)).astype(np.int64)
    budget = int(caps.sum() if revisit.rate is None else min(caps.sum(), revisit.rate * revisit.horizon / DAY_S))
    counts = allocate(
        np.array([page.history.estimate for page in pages]),
        servers,
        None if revisit.policy == "m-wolf" else caps,
        budget,
        float(revisit.horizon),
        np.array([page.history.weight for page in pages]),
        page_max,
    )
    arrange = merge if revisit.policy == "psp" else own_times
    schedule = arrange(counts, servers, len(hosts), float(revisit.horizon))
    return [
        PlannedVisit(pages[page].host, pages[page].id, now + due)
        for page, due in zip(schedule.page.tolist(), schedule.due.tolist(), strict=True)
    ]


async def _plan(number: int) -> None:
    clock = Clock.from_environment()
    frontier = await connect(address_from_supervisor(), clock)
    try:
        row = next((row for row in await frontier.collections() if row.id == number), None)
        if row is None:
            raise FrontierError(f"no collection has the number {number}")
        await plan_collection(frontier, row, clock.now())
    finally:
        await frontier.close()


def main(collection: int) -> None:
    """Started by a `PlannerLauncher`."""
    use_own_numba_cache()
    asyncio.run(_plan(collection))


if __name__ == "__main__":
    run_child(main)
