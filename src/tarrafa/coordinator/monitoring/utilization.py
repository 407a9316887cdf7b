"""CPU utilization of nodes by the minute, and over the runs of a collection.

Each heartbeat has the CPU use of its machine. The store keeps sum, count and maximum of every minute for each node, so
that a report can show the use during the runs of one collection, also without the coordinator. Promises: at most
KEEP_EVERY_S seconds are lost with the process; minutes without a coordinator are missing, and the result says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import apsw
import msgspec

from tarrafa.coordinator.store import CollectionRun, CoordinatorStore, read_store
from tarrafa.runtime.data_dir import DataDirectory

MINUTE_S = 60
KEEP_EVERY_S = 10.0
TABLE = """
CREATE TABLE IF NOT EXISTS busy (
    node TEXT NOT NULL, minute INTEGER NOT NULL, sum REAL NOT NULL, count INTEGER NOT NULL, most REAL NOT NULL,
    PRIMARY KEY (node, minute)
) WITHOUT ROWID;
"""
UPSERT = """
INSERT INTO busy VALUES (?, ?, ?, ?, ?) ON CONFLICT (node, minute) DO UPDATE
SET sum = sum + excluded.sum, count = count + excluded.count, most = max(most, excluded.most)
"""


@dataclass(slots=True)
class CpuUsage:
    sum: float = 0.0
    count: int = 0
    most: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.sum / self.count if self.count else None

    def add(self, sum: float, count: int, most: float) -> None:
        self.sum, self.count, self.most = self.sum + sum, self.count + count, max(self.most, most)


class UsageDuringRuns(NamedTuple):
    """CPU use of each node that was alive. `whole`: no minute is missing, so the other nodes were not there."""

    nodes: dict[str, CpuUsage]
    whole: bool


class UtilizationLog:
    def __init__(self, store: CoordinatorStore) -> None:
        self._store = store
        store.connection.execute(TABLE)
        self._minutes: dict[str, tuple[int, CpuUsage]] = {}
        self._kept: dict[str, float] = {}

    def note(self, node: str, cpu: float, at: float) -> None:
        minute = int(at // MINUTE_S)
        before, used = self._minutes.get(node, (minute, CpuUsage()))
        if before != minute:
            self._keep(node, at)
            used = CpuUsage()
        used.add(cpu, 1, cpu)
        self._minutes[node] = (minute, used)
        if not 0 <= at - self._kept.get(node, -KEEP_EVERY_S) < KEEP_EVERY_S:
            self._keep(node, at)

    def during_runs(
        self, name: str, now: float, run: int | None = None, since: float | None = None, until: float | None = None
    ) -> UsageDuringRuns | None:
        """CPU use while the collection was crawled, up to now."""
        for node in self._minutes:
            self._keep(node, now)
        return _usage_during_runs(self._store.connection, name, now, run, since, until)

    def _keep(self, node: str, at: float) -> None:
        minute, used = self._minutes[node]
        self._kept[node] = at
        if used.count:
            self._store.execute(UPSERT, (node, minute, used.sum, used.count, used.most))
            self._minutes[node] = (minute, CpuUsage())


def read_usage_during_runs(
    data: DataDirectory,
    name: str,
    now: float,
    run: int | None = None,
    since: float | None = None,
    until: float | None = None,
) -> UsageDuringRuns | None:
    """The same from another process than the coordinator's. None: see `read_store`."""
    return read_store(data, lambda connection: _usage_during_runs(connection, name, now, run, since, until))


def _usage_during_runs(
    connection: apsw.Connection, name: str, now: float, run: int | None, since: float | None, until: float | None
) -> UsageDuringRuns | None:
    """None: there is no such run."""
    rows = connection.execute("SELECT content FROM run WHERE name = ? ORDER BY number", (name,))
    runs = [msgspec.json.decode(bytes(content), type=CollectionRun) for (content,) in rows]
    stretches = _minutes(_periods(runs, now, run, since, until))
    found, seen, this_minute = dict[str, CpuUsage](), set[int](), int(now // MINUTE_S)
    for stretch in stretches:
        rows = connection.execute(
            "SELECT node, minute, sum, count, most FROM busy WHERE minute BETWEEN ? AND ?", stretch
        )
        for node, minute, total, count, most in rows:
            found.setdefault(str(node), CpuUsage()).add(float(str(total)), int(str(count)), float(str(most)))
            seen.add(int(str(minute)))
    minutes = {minute for first, last in stretches for minute in range(first, last + 1)}
    return UsageDuringRuns(found, minutes <= seen | {this_minute}) if minutes else None


def _periods(
    runs: Iterable[CollectionRun], now: float, run: int | None, since: float | None, until: float | None
) -> list[tuple[float, float]]:
    wanted = [
        (max(one.began, since or 0.0), min(now if one.ended is None else one.ended, now if until is None else until))
        for one in runs
        if run in (None, one.number)
    ]
    return [(began, ended) for began, ended in wanted if began <= ended]


def _minutes(periods: list[tuple[float, float]]) -> list[tuple[int, int]]:
    """The minutes that the periods touch, each once, as pairs of first and last minute."""
    found: list[tuple[int, int]] = []
    for began, ended in sorted(periods):
        first, last = int(began // MINUTE_S), int(ended // MINUTE_S)
        if found:
            first = max(first, found[-1][1] + 1)
        if first <= last:
            found.append((first, last))
    return found
