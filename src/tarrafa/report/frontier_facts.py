"""What the frontier knows of a collection, for a report: numbers, configuration, change rates and freshness.

The counts and the configuration of the collection; and for the pages that are kept fresh, how often they change and how
many copies are probably up to date (as `crawl/explain/freshness.py` computes it for one page), some thousands at a
time. Promises: asks the process that owns the frontier; while none runs, reads its file. A missing frontier is no
error: the report then uses the archive alone.
"""

import asyncio
from array import array
from dataclasses import dataclass, field

import numpy as np

from tarrafa import config
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.errors import DataError, TarrafaError, Unreachable
from tarrafa.frontier.address import Address, connect_reader
from tarrafa.frontier.messages import FIRST_HOST, CollectionRow, CollectionStatus, RevisitPage
from tarrafa.frontier.store.sqlite_frontier import for_each_revisit_page, read_collections, read_overview
from tarrafa.i18n import message
from tarrafa.report.schema import CalibrationPoint, FreshnessSummary
from tarrafa.report.tables import distribution
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.runtime.data_dir import DataDirectory

PAGES_PER_CALL = 5_000
CALIBRATION_VISITS_MIN = 30
CHANGES_LEAST = 1 / 1024  # a day: once in three years


@dataclass(slots=True)
class FreshnessAccumulator:
    """Sums the estimates of pages."""

    now: float
    rates: "array[float]" = field(default_factory=lambda: array("f"))
    fresh: float = 0.0
    visits: int = 0
    changes: int = 0

    def add_pages(self, pages: list[RevisitPage]) -> None:
        for page in pages:
            history, belief = page.history, page.history.belief
            self.rates.append(belief.median * DAY_S)
            self.visits += history.visits
            self.changes += history.changes
            self.fresh += belief.fresh_probability(self.now - history.last)

    def summary(self, status: CollectionStatus) -> FreshnessSummary | None:
        if not self.rates:
            return None
        rates = np.frombuffer(self.rates, np.float32).astype(np.float64)
        share = self.fresh / len(rates)
        return FreshnessSummary(
            len(rates), self.visits, self.changes, share, distribution(rates, 2.0, CHANGES_LEAST),
            calibration_points(status.calibration),
        )  # fmt: skip


def calibration_points(counted: dict[str, int]) -> list[CalibrationPoint]:
    """The revisits by rate, from the counters of the frontier; few visits tell nothing."""
    points = []
    for power in sorted({int(name.partition(":")[0]) for name in counted}):
        visits, changed, expected = (counted.get(f"{power}:{name}", 0) for name in ("visits", "changed", "expected"))
        if visits >= CALIBRATION_VISITS_MIN:
            points.append(CalibrationPoint(10.0**power, visits, expected / 1000 / visits, changed / visits))
    return points


@dataclass(frozen=True, slots=True)
class ReportFrontierFacts:
    """The facts of the frontier. `trouble`: why there are none; `others`: the other collections."""

    now: float
    status: CollectionStatus | None = None
    config: Collection | None = None
    freshness: FreshnessSummary | None = None
    others: tuple[str, ...] = ()
    trouble: str = ""


async def read_frontier_facts(data: DataDirectory, name: str, address: Address | None = None) -> ReportFrontierFacts:
    """The facts, from the server; where no local server runs, or it does not answer, from the file."""
    now = Clock.from_environment().now()
    try:
        try:
            return await _read_from_server(data, name, address)
        except Unreachable:
            if address is not None:
                raise
            return await asyncio.to_thread(_read_from_file, data, name, now)
    except TarrafaError as error:
        return ReportFrontierFacts(now, trouble=str(error))


async def _read_from_server(data: DataDirectory, name: str, address: Address | None) -> ReportFrontierFacts:
    frontier = await connect_reader(data, address)
    try:
        now = (await frontier.time()).now
        statuses, rows = (await frontier.overview()).collections, await frontier.collections()
        found = _facts_of(name, now, statuses, rows)
        if found.status is None or not found.status.keeps_fresh:
            return found
        number = next(row.id for row in rows if row.name == name)
        accumulator, host, url = FreshnessAccumulator(now), FIRST_HOST, b""
        while some := await frontier.revisit_pages(number, host, url, PAGES_PER_CALL):
            accumulator.add_pages(some)
            host, url = some[-1].host, some[-1].id
        return ReportFrontierFacts(now, found.status, found.config, accumulator.summary(found.status), found.others)
    finally:
        await frontier.close()


def _read_from_file(data: DataDirectory, name: str, now: float) -> ReportFrontierFacts:
    if not data.frontier.exists():
        raise DataError(message("{path}: is not there", path=data.frontier))
    statuses = read_overview(data.frontier).collections
    found = _facts_of(name, now, statuses, read_collections(data.frontier))
    if found.status is None or not found.status.keeps_fresh:
        return found
    accumulator = FreshnessAccumulator(now)
    for_each_revisit_page(data.frontier, name, accumulator.add_pages)
    return ReportFrontierFacts(now, found.status, found.config, accumulator.summary(found.status), found.others)


def _facts_of(
    name: str, now: float, statuses: list[CollectionStatus], rows: list[CollectionRow]
) -> ReportFrontierFacts:
    status = next((one for one in statuses if one.name == name), None)
    row = next((one for one in rows if one.name == name), None)
    others = tuple(one.name for one in rows if one.name != name)
    return ReportFrontierFacts(
        now, status, config.decode_collection(row.config) if row is not None else None, None, others
    )
