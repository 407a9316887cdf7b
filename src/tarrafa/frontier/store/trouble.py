"""Which hosts rest, and what lets one of them be tried again?

Counts the hosts of a collection by how they stand, from the rows of those that have work, and of no URL; no more often
than every few seconds, and no further than a bound.
"""

from collections.abc import Callable
from typing import Any

from tarrafa.clock import Clock
from tarrafa.frontier.protocol import HostCounts
from tarrafa.frontier.store.collections import HOSTS, Collections, Counters, Known
from tarrafa.frontier.store.ready import Ready
from tarrafa.frontier.store.schema import ALL, Database
from tarrafa.frontier.store.urls import Urls
from tarrafa.model import HostId, UrlState

HOSTS_COUNTED_MAX = 200_000
COUNTED_EVERY_S = 10.0
Ask = Callable[[str], tuple[Any, ...]]
# Both bodies ask so; a host with new URLs and with pages to see again stands twice among the ready ones.
ACTIVE = "SELECT count(DISTINCT host) FROM handed WHERE collection = {number}"
RESTING = (  # numbers are put in, nothing else
    "SELECT count(*), coalesce(sum(CASE WHEN rests THEN 1 ELSE 0 END), 0) FROM (SELECT DISTINCT r.host,"
    " h.failures > 0 AND h.next_at > {now} AS rests FROM (SELECT host FROM ready WHERE collection = {number}"
    " LIMIT {most}) r JOIN host h ON h.id = r.host) k"
)


class Trouble:
    """The hosts of one frontier, as people ask for them."""

    def __init__(
        self, db: Database, counters: Counters, collections: Collections, urls: Urls, ready: Ready, clock: Clock
    ) -> None:
        self._db, self._counters, self._collections, self._urls = db, counters, collections, urls
        self._ready, self._clock = ready, clock
        self._counted: dict[int, tuple[float, HostCounts]] = {}

    def counts(self, name: str, ask: Ask | None = None) -> HostCounts:
        """How the hosts of a collection stand. `ask`: where not all rows are at hand, somebody who has them."""
        known, now = self._collections.named(name), self._clock.now()
        at, counts = self._counted.get(known.row.id, (0.0, None))
        if counts is None or abs(now - at) >= COUNTED_EVERY_S * self._clock.scale:
            words: dict[str, Any] = {"number": known.row.id, "now": repr(now), "most": HOSTS_COUNTED_MAX}
            active = int((ask or self._db.must)(ACTIVE.format(**words))[0])
            ready, resting = map(int, (ask or self._db.must)(RESTING.format(**words)))
            counts = self._sum(known, active, ready, resting)
            self._counted[known.row.id] = (now, counts)
        return counts

    def _sum(self, known: Known, active: int, ready: int, resting: int) -> HostCounts:
        hosts = self._counters.value(known.row.id, HOSTS)
        idle = max(0, hosts - active - ready)
        return HostCounts(active, ready - resting, resting, idle, counted=ready < HOSTS_COUNTED_MAX)

    def retry(self, host: HostId) -> None:
        """Its failures are forgotten; what failed of it waits again, wherever it was found by the run that is the last
        one."""
        if self._db.row("SELECT 1 FROM host WHERE id = ?", (host,)) is None:
            return
        self.forgive(host)
        for known in self._collections.all():
            self._try_again(known, host)

    def forgive(self, host: HostId) -> None:
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

    def _try_again(self, known: Known, host: HostId) -> None:
        number, waiting = known.row.id, dict[HostId, int]()
        self._db.need_first("url", [(host, number)], ALL)
        rows = self._db.rows(
            "UPDATE url SET state = 0, attempts = 0, blamed = 0 WHERE host = ? AND collection = ? AND state = ?"
            " AND run = ? RETURNING id",
            (host, number, int(UrlState.FAILED), known.run),
        )
        for (url,) in rows:
            self._urls.requeue(known, host, url, UrlState.FAILED, waiting)
        self._urls.add_waiting(number, waiting)
