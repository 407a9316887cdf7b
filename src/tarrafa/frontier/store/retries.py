"""Retries: counts hosts in back-off and URLs by status, and lets hosts or URLs be tried again.

Counts the hosts of a collection by how they stand, from the rows of those that have work, and of no URL; no more
often than every few seconds, and no further than a bound.

Which URLs of a collection ended alike, and what lets them be tried again?

Nobody keeps URLs by their status: they are found by looking through the collection, host by host. Promises: no look
goes further than URLS_LOOKED_MAX rows, and a call that changes something changes so many as it is told to; both
bodies ask by the same sentences.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from tarrafa.clock import Clock
from tarrafa.frontier.messages import HostCounts, HostUrlCount, PastVisit, RetryBatch, UrlSample, UrlStatusFacts
from tarrafa.frontier.store.collections import Collections, LoadedCollection
from tarrafa.frontier.store.counters import HOSTS, Counters
from tarrafa.frontier.store.database import ALL_ROWS, FrontierDatabase
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.frontier.transfer.host_export import FrontierCursor
from tarrafa.model import HostId, UrlId, UrlState, can_be_retried

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
        self,
        db: FrontierDatabase,
        counters: Counters,
        collections: Collections,
        urls: FrontierUrls,
        ready: ReadyQueue,
        clock: Clock,
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


URLS_SCANNED_MAX = 200_000
HOSTS_SHOWN, SAMPLES_SHOWN, VISITS_SHOWN = 20, 10, 5
HOSTS_PER_SCAN = 200  # in one call, however little they have
URLS_PER_RETRY = 20_000  # that one call looks at
HOUR_S, DAY_S, WEEK_S = 3_600.0, 86_400.0, 604_800.0
Key = tuple[HostId, int, UrlId]
FetchRows = Callable[[str], list[tuple[Any, ...]]]

# Numbers are put in, nothing else. `so`: it ended with that status, in the last run.
SCANNED_URLS_SQL = (
    "(SELECT u.host, u.id, u.url, u.state, coalesce(u.fetched, u.discovered) AS at,"
    " CASE WHEN u.status = {status} AND u.run = {run} THEN 1 ELSE 0 END AS so FROM work w CROSS JOIN url u"
    " WHERE w.collection = {number} AND u.host = w.host AND u.collection = {number} ORDER BY w.host LIMIT {most}) k"
)
STATUS_SUMS_SQL = (
    "SELECT count(*), coalesce(sum(so), 0), count(DISTINCT CASE WHEN so = 1 THEN host END),"
    " coalesce(sum(CASE WHEN state IN ({pending}, {handed_out}) THEN so ELSE 0 END), 0),"
    " coalesce(sum(CASE WHEN state = {failed} THEN so ELSE 0 END), 0),"
    " min(CASE WHEN so = 1 THEN at END), max(CASE WHEN so = 1 THEN at END),"
    " coalesce(sum(CASE WHEN at > {hour} THEN so ELSE 0 END), 0),"
    " coalesce(sum(CASE WHEN at > {day} THEN so ELSE 0 END), 0),"
    " coalesce(sum(CASE WHEN at > {week} THEN so ELSE 0 END), 0) FROM {looked}"
)
TOP_HOSTS_SQL = (
    "SELECT h.key, m.urls, h.failures, h.next_at, h.trouble FROM (SELECT host, count(*) AS urls FROM {looked}"
    " WHERE so = 1 GROUP BY host ORDER BY 2 DESC, 1 LIMIT {hosts_shown}) m"
    " JOIN host h ON h.id = m.host ORDER BY m.urls DESC, h.key"
)
NEWEST_URLS_SQL = (
    "SELECT s.url, s.state, s.at, v.number, v.at, v.status, v.length, v.changed, v.worker FROM (SELECT host, id, url,"
    " state, at FROM {looked} WHERE so = 1 ORDER BY at DESC, url LIMIT {samples_shown}) s LEFT JOIN visit v"
    " ON v.host = s.host AND v.collection = {number} AND v.id = s.id ORDER BY s.at DESC, s.url, v.number DESC"
)
OF_STATUS = f"status = ? AND run = ? AND state IN ({UrlState.PENDING:d}, {UrlState.DROPPED:d}, {UrlState.FAILED:d})"


def status_facts(known: LoadedCollection, status: int, now: float, ask: FetchRows) -> UrlStatusFacts:
    """What ended with this status."""
    words: dict[str, Any] = {
        "number": known.row.id, "run": known.run, "status": int(status), "most": URLS_SCANNED_MAX,
        "hour": repr(now - HOUR_S), "day": repr(now - DAY_S), "week": repr(now - WEEK_S),
        "pending": int(UrlState.PENDING), "handed_out": int(UrlState.HANDED_OUT), "failed": int(UrlState.FAILED),
        "hosts_shown": HOSTS_SHOWN, "samples_shown": SAMPLES_SHOWN,
    }  # fmt: skip
    words["looked"] = SCANNED_URLS_SQL.format(**words)
    looked, urls, hosts, waiting, failed, first, last, hour, day, week = ask(STATUS_SUMS_SQL.format(**words))[0]
    return UrlStatusFacts(
        status, int(looked), int(looked) < URLS_SCANNED_MAX, int(urls), int(hosts), int(waiting), int(failed),
        first, last, (int(hour), int(day), int(week)),
        [HostUrlCount(*row) for row in ask(TOP_HOSTS_SQL.format(**words))] if urls else [],
        list(_samples(ask(NEWEST_URLS_SQL.format(**words)))) if urls else [],
    )  # fmt: skip


def _samples(rows: list[tuple[Any, ...]]) -> Iterable[UrlSample]:
    for (url, state, at), visits in groupby(rows, key=lambda row: row[:3]):
        history = [
            PastVisit(number, visited, status, length, None if changed is None else bool(changed), worker)
            for number, visited, status, length, changed, worker in (row[3:] for row in visits)
            if number is not None
        ]
        yield UrlSample(url, UrlState(state).name.lower().replace("_", " "), at, history[:VISITS_SHOWN])


class StatusRetries:
    """The URLs of one frontier, by how they ended."""

    def __init__(
        self, db: FrontierDatabase, collections: Collections, urls: FrontierUrls, host_retries: HostRetries
    ) -> None:
        self._db, self._collections, self._urls, self._host_retries = db, collections, urls, host_retries

    def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        """Some of those behind a place."""
        known = self._collections.by_name(name)
        if not can_be_retried(status):
            return RetryBatch(0, None)
        hosts = self._db.rows(
            "SELECT host FROM work WHERE collection = ? AND host >= ? ORDER BY host LIMIT ?",
            (known.row.id, after.host, HOSTS_PER_SCAN),
        )
        keys, most, left = list[Key](), max(1, limit), URLS_PER_RETRY
        for (host,) in hosts:
            behind = after.url if host == after.host else b""
            looked = self._db.rows(
                f"SELECT id, ({OF_STATUS}) FROM url WHERE host = ? AND collection = ? AND id > ? ORDER BY id LIMIT ?",  # noqa: S608
                (status, known.run, host, known.row.id, behind, left),
            )
            left -= len(looked)
            keys += [(host, known.row.id, url) for url, is_so in looked if is_so]
            if len(keys) >= most:
                keys = keys[:most]
                break
            if not left:
                return RetryBatch(self.requeue(known, keys), FrontierCursor(host, known.row.id, looked[-1][0]))
        return RetryBatch(self.requeue(known, keys), next_cursor(keys, most, [host for (host,) in hosts]))

    def requeue(self, known: LoadedCollection, keys: list[Key]) -> int:
        """These wait again, as far as they do not; how many that were."""
        waiting = dict[HostId, int]()
        for host in sorted({key[0] for key in keys}):
            self._host_retries.reset_backoff(host)
        for key in keys:
            state = self._db.value("SELECT state FROM url WHERE host = ? AND collection = ? AND id = ?", key)
            is_over = state in (UrlState.DROPPED, UrlState.FAILED)
            if not is_over or self._urls.revisits.find(key) is not None:  # else a sitemap that is read every day
                continue
            self._db.run(
                "UPDATE url SET state = 0, attempts = 0, blamed = 0, etag = NULL, last_modified = NULL"
                " WHERE host = ? AND collection = ? AND id = ?",
                key,
            )
            self._urls.requeue(known, key[0], key[2], state, waiting)
        self._urls.add_pending(known.row.id, waiting)
        return sum(waiting.values())


def next_cursor(keys: list[Key], most: int, hosts: list[HostId]) -> FrontierCursor | None:
    """Where to go on, after these were taken of these hosts."""
    if len(keys) >= most:
        return FrontierCursor(*keys[-1])
    if len(hosts) < HOSTS_PER_SCAN or hosts[-1] == (1 << 63) - 1:
        return None
    return FrontierCursor(hosts[-1] + 1)
