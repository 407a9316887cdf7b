"""Which hosts rest, and what lets one of them be tried again?

Counts the hosts of a collection by how they stand, from the rows of those that have work, and of no URL; no more often
than every few seconds, and no further than a bound.
"""

from collections.abc import Callable
from typing import Any

from tarrafa.clock import Clock
from tarrafa.frontier.protocol import HostCounts
from tarrafa.frontier.store.collections import HOSTS, Collections, Counters, LoadedCollection
from tarrafa.frontier.store.ready import ReadyQueue
from tarrafa.frontier.store.schema import ALL_ROWS, FrontierDatabase
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.model import HostId, UrlState

HOSTS_COUNTED_MAX = 200_000
COUNTED_EVERY_S = 10.0
FetchRow = Callable[[str], tuple[Any, ...]]
# Both bodies ask so; a host with new URLs and with pages to see again stands twice among the ready ones.
ACTIVE_HOSTS_SQL = "SELECT count(DISTINCT host) FROM handed WHERE collection = {number}"
READY_HOSTS_SQL = (  # numbers are put in, nothing else
    "SELECT count(*), coalesce(sum(CASE WHEN rests THEN 1 ELSE 0 END), 0) FROM (SELECT DISTINCT r.host,"
    " h.failures > 0 AND h.next_at > {now} AS rests FROM (SELECT host FROM ready WHERE collection = {number}"
    " LIMIT {most}) r JOIN host h ON h.id = r.host) k"
)


class HostRetries:
    """The hosts of one frontier, as people ask for them."""

    def __init__(
        self, db: FrontierDatabase, counters: Counters, collections: Collections, urls: FrontierUrls, ready: ReadyQueue, clock: Clock
    ) -> None:
        self._db, self._counters, self._collections, self._urls = db, counters, collections, urls
        self._ready, self._clock = ready, clock
        self._counted: dict[int, tuple[float, HostCounts]] = {}

    def host_counts(self, name: str, ask: FetchRow | None = None) -> HostCounts:
        """How the hosts of a collection stand. `ask`: where not all rows are at hand, somebody who has them."""
        known, now = self._collections.by_name(name), self._clock.now()
        at, counts = self._counted.get(known.row.id, (0.0, None))
        if counts is None or abs(now - at) >= COUNTED_EVERY_S * self._clock.scale:
            words: dict[str, Any] = {"number": known.row.id, "now": repr(now), "most": HOSTS_COUNTED_MAX}
            active = int((ask or self._db.required_row)(ACTIVE_HOSTS_SQL.format(**words))[0])
            ready, resting = map(int, (ask or self._db.required_row)(READY_HOSTS_SQL.format(**words)))
            counts = self._sum(known, active, ready, resting)
            self._counted[known.row.id] = (now, counts)
        return counts

    def _sum(self, known: LoadedCollection, active: int, ready: int, resting: int) -> HostCounts:
        hosts = self._counters.value(known.row.id, HOSTS)
        idle = max(0, hosts - active - ready)
        return HostCounts(active, ready - resting, resting, idle, counted=ready < HOSTS_COUNTED_MAX)

    def retry_host(self, host: HostId) -> None:
        """Its failures are forgotten; what failed of it waits again, wherever it was found by the run that is the last
        one."""
        if self._db.row("SELECT 1 FROM host WHERE id = ?", (host,)) is None:
            return
        self.reset_backoff(host)
        for known in self._collections.all():
            self._requeue_failed(known, host)

    def reset_backoff(self, host: HostId) -> None:
        """It may be visited again; never before its delay has passed since its last answer."""
        self._ready.remove(host)
        worker = self._db.value(
            "UPDATE host SET failures = 0, trouble = '', next_at = min(next_at, max(?, ended_at + delay_s))"
            " WHERE id = ? RETURNING worker",
            (self._clock.now(), host),
        )
        if worker is None:
            self._ready.add(host)
        self._counted.clear()

    def _requeue_failed(self, known: LoadedCollection, host: HostId) -> None:
        number, waiting = known.row.id, dict[HostId, int]()
        self._db.prefetch_first("url", [(host, number)], ALL_ROWS)
        rows = self._db.rows(
            "UPDATE url SET state = 0, attempts = 0, blamed = 0 WHERE host = ? AND collection = ? AND state = ?"
            " AND run = ? RETURNING id",
            (host, number, int(UrlState.FAILED), known.run),
        )
        for (url,) in rows:
            self._urls.requeue(known, host, url, UrlState.FAILED, waiting)
        self._urls.add_pending(number, waiting)
