"""CPU utilization of nodes by the minute, and over the runs of a collection.

Each beat says how busy its machine is. The store keeps sum, count and most of every minute for each node, so that a
report, also one that is made beside the coordinator or after it, can tell of the time of a collection's runs and of
nobody else's. Promises: at most KEEP_EVERY_S seconds are lost with the process; a minute in which nobody coordinated
is simply missing, and whoever asks hears that.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import apsw
import msgspec

from tarrafa.coordinator.store import CollectionRun, CoordinatorStore, store_file, store_path
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import open_sqlite_readonly

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
    """The nodes that were heard in a time, and how busy each was. `whole`: no minute is missing, so whoever is not
    named here was not there."""

    nodes: dict[str, CpuUsage]
    whole: bool


class UtilizationLog:
    """Of all nodes, as whoever coordinates hears of it."""

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
        """While the collection was crawled, up to this very moment."""
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
    """The same for whoever does not coordinate. None: nobody does, or whoever asks may not know."""
    path = store_path(data)
    if not path.exists():
        return None
    try:
        connection = open_sqlite_readonly(path)
        try:
            return _usage_during_runs(connection, name, now, run, since, until)
        finally:
            connection.close()
    except (apsw.SQLError, apsw.CantOpenError):  # an older version's, or not for our eyes
        return None
    except apsw.Error as error:
        raise store_file(path).errors().translate(error) from None


def _usage_during_runs(
    connection: apsw.Connection, name: str, now: float, run: int | None, since: float | None, until: float | None
) -> UsageDuringRuns | None:
    """None: of that run, or of any, nothing is known."""
    rows = connection.execute("SELECT content FROM run WHERE name = ? ORDER BY number", (name,))
    runs = [msgspec.json.decode(bytes(content), type=CollectionRun) for (content,) in rows]
    stretches = _minutes(_periods(runs, now, run, since, until))
    found, seen, this_minute = dict[str, CpuUsage](), set[int](), int(now // MINUTE_S)
    for stretch in stretches:
        told = connection.execute(
            "SELECT node, minute, sum, count, most FROM busy WHERE minute BETWEEN ? AND ?", stretch
        )
        for node, minute, total, count, most in told:
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
    """The minutes that they touch, each once: the first and the last of each stretch."""
    found: list[tuple[int, int]] = []
    for began, ended in sorted(periods):
        first, last = int(began // MINUTE_S), int(ended // MINUTE_S)
        if found:
            first = max(first, found[-1][1] + 1)
        if first <= last:
            found.append((first, last))
    return found
