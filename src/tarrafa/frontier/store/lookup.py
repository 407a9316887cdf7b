"""Lookups for people: one URL with its host, the hosts of a collection by state, and its URLs by status.

Reads only. URLs have no index by status, so they are found by scanning the collection, host by host.
Promises: no scan reads more than URLS_SCANNED_MAX rows; hosts are counted at most every few seconds, and up to a bound;
the SQLite and the PostgreSQL frontier use the same statements.
"""

from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from tarrafa.frontier.messages import (
    HostCollectionCounts,
    HostCounts,
    HostFacts,
    HostUrlCount,
    PastVisit,
    UrlFacts,
    UrlLookup,
    UrlSample,
    UrlStatusFacts,
)
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import ALL_ROWS, UrlKey
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.i18n import from_text
from tarrafa.model import HostId, UrlId, UrlRole, UrlState

HISTORY_MAX = 100  # the newest visits
QUEUE_POSITION_MAX = 10_000
HOSTS_COUNTED_MAX = 200_000
COUNTED_EVERY_S = 10.0
URLS_SCANNED_MAX = 200_000
HOSTS_SHOWN, SAMPLES_SHOWN, VISITS_SHOWN = 20, 10, 5
HOUR_S, DAY_S, WEEK_S = 3_600.0, 86_400.0, 604_800.0
FetchRow = Callable[[str], tuple[Any, ...]]
FetchRows = Callable[[str], list[tuple[Any, ...]]]

# Both frontiers run these statements. Only numbers are put into them.
ACTIVE_HOSTS_SQL = "SELECT count(DISTINCT host) FROM handed WHERE collection = {number}"
READY_HOSTS_SQL = (  # a host with new URLs and with revisits has two rows in `ready`
    "SELECT count(*), coalesce(sum(CASE WHEN rests THEN 1 ELSE 0 END), 0) FROM (SELECT DISTINCT r.host,"
    " h.failures > 0 AND h.next_at > {now} AS rests FROM (SELECT host FROM ready WHERE collection = {number}"
    " LIMIT {most}) r JOIN host h ON h.id = r.host) k"
)
SCANNED_URLS_SQL = (  # `so`: the URL ended with that status, in the last run
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


class StoreLookup:
    """Lookups in one frontier."""

    def __init__(self, context: StoreContext, urls: FrontierUrls) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._clock, self._urls = context.clock, urls
        self._host_counts: dict[int, tuple[float, HostCounts]] = {}

    def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        db = self._db
        db.prefetch("host", [(host,)])
        db.prefetch_first("work", [(host,)], ALL_ROWS)
        digests = db.rows("SELECT robots_digest FROM host WHERE id = ? AND robots_digest IS NOT NULL", (host,))
        db.prefetch("robots", digests)
        db.prefetch("url", [(host, known.row.id, url) for known in self._collections.all()])
        row = db.row(
            "SELECT key, site, next_at, ended_at, delay_s, failures,"
            " (SELECT name FROM worker WHERE worker.id = host.worker), robots_status, robots_expires,"
            " coalesce((SELECT text FROM robots WHERE digest = robots_digest), x''),"
            " (SELECT coalesce(sum(pending), 0) FROM work WHERE work.host = host.id),"
            " (SELECT coalesce(sum(visited), 0) FROM work WHERE work.host = host.id), trouble FROM host WHERE id = ?",
            (host,),
        )
        rows = db.rows(
            "SELECT c.id, c.name, url, u.state, role, depth, redirects, in_links, status, type, discovered, fetched,"
            " attempts, announced, content_id, pagerank FROM url u JOIN collection c ON c.id = u.collection"
            " WHERE host = ? AND collection IN (SELECT id FROM collection) AND u.id = ? ORDER BY c.id",
            (host, url),
        )
        urls = [self._url_facts((host, one[0], url), *one[1:]) for one in rows]
        if row is None:
            return UrlLookup(None, urls)
        facts = HostFacts(*row)
        trouble, met_by = from_text(row[-1]), self._collection_counts(host)
        return UrlLookup(replace(facts, trouble=trouble, met_by=met_by), urls)

    def _collection_counts(self, host: HostId) -> list[HostCollectionCounts]:
        rows = self._db.rows(
            "SELECT name, pending, visited FROM work JOIN collection ON collection.id = work.collection"
            " WHERE host = ? ORDER BY collection.id",
            (host,),
        )
        return [HostCollectionCounts(*row) for row in rows]

    def _url_facts(self, key: UrlKey, name: str, url: str, state: int, role: int, *rest: Any) -> UrlFacts:
        known = self._collections.by_id(key[1])
        *facts, pagerank = rest
        self._db.prefetch_first("visit", [key], ALL_ROWS)
        history = self._db.rows(
            "SELECT number, at, status, length, changed, worker FROM visit WHERE host = ? AND collection = ? AND id = ?"
            " ORDER BY number DESC LIMIT ?",
            (*key, HISTORY_MAX),
        )
        return replace(
            UrlFacts(name, url, _state_name(state), _role_name(role), *facts),
            place=self._queue_position(key) if state == UrlState.PENDING else None,
            waits_for_place=state == UrlState.PENDING and self._urls.page_replacement.is_without_place(known, key),
            history=[_past_visit(visit) for visit in reversed(history)],
            freshness=self._urls.revisits.freshness(known, key),
            site=self._urls.breadth.site_facts(known, key[0]),
            rank=pagerank,
        )

    def _queue_position(self, key: UrlKey) -> int | None:
        host, number, url = key
        self._db.prefetch_first("pending", [(host, number)], QUEUE_POSITION_MAX)
        pending = self._db.rows(
            "SELECT id FROM pending WHERE host = ? AND collection = ? ORDER BY rank, id LIMIT ?",
            (host, number, QUEUE_POSITION_MAX),
        )
        return next((place for place, (one,) in enumerate(pending) if one == url), None)

    def host_counts(self, name: str, fetch: FetchRow | None = None) -> HostCounts:
        """Hosts of a collection by state. `fetch` runs a statement where not all rows are at hand."""
        known, now = self._collections.by_name(name), self._clock.now()
        at, counts = self._host_counts.get(known.row.id, (0.0, None))
        if counts is None or abs(now - at) >= COUNTED_EVERY_S * self._clock.scale:
            fetch = fetch or self._db.required_row
            words: dict[str, Any] = {"number": known.row.id, "now": repr(now), "most": HOSTS_COUNTED_MAX}
            active = int(fetch(ACTIVE_HOSTS_SQL.format(**words))[0])
            ready, resting = map(int, fetch(READY_HOSTS_SQL.format(**words)))
            idle = max(0, self._counters.value(known.row.id, Bucket.HOSTS) - active - ready)
            counts = HostCounts(active, ready - resting, resting, idle, counted=ready < HOSTS_COUNTED_MAX)
            self._host_counts[known.row.id] = (now, counts)
        return counts

    def forget_host_counts(self) -> None:
        self._host_counts.clear()


def status_facts(known: LoadedCollection, status: int, now: float, fetch: FetchRows) -> UrlStatusFacts:
    """The URLs that ended with this status."""
    words: dict[str, Any] = {
        "number": known.row.id, "run": known.run, "status": int(status), "most": URLS_SCANNED_MAX,
        "hour": repr(now - HOUR_S), "day": repr(now - DAY_S), "week": repr(now - WEEK_S),
        "pending": int(UrlState.PENDING), "handed_out": int(UrlState.HANDED_OUT), "failed": int(UrlState.FAILED),
        "hosts_shown": HOSTS_SHOWN, "samples_shown": SAMPLES_SHOWN,
    }  # fmt: skip
    words["looked"] = SCANNED_URLS_SQL.format(**words)
    looked, urls, hosts, waiting, failed, first, last, hour, day, week = fetch(STATUS_SUMS_SQL.format(**words))[0]
    return UrlStatusFacts(
        status, int(looked), int(looked) < URLS_SCANNED_MAX, int(urls), int(hosts), int(waiting), int(failed),
        first, last, (int(hour), int(day), int(week)),
        [_host_count(*row) for row in fetch(TOP_HOSTS_SQL.format(**words))] if urls else [],
        list(_samples(fetch(NEWEST_URLS_SQL.format(**words)))) if urls else [],
    )  # fmt: skip


def _host_count(key: str, urls: int, failures: int, next_at: float, trouble: str) -> HostUrlCount:
    return HostUrlCount(key, urls, failures, next_at, from_text(trouble))


def _samples(rows: list[tuple[Any, ...]]) -> Iterable[UrlSample]:
    for (url, state, at), visits in groupby(rows, key=lambda row: row[:3]):
        history = [_past_visit(row[3:]) for row in visits if row[3] is not None]
        yield UrlSample(url, _state_name(state), at, history[:VISITS_SHOWN])


def _past_visit(row: tuple[Any, ...]) -> PastVisit:
    number, at, status, length, changed, worker = row
    return PastVisit(number, at, status, length, None if changed is None else bool(changed), worker)


def _role_name(role: int) -> str:
    return UrlRole.PAGE.name.lower() if role == UrlRole.NEEDED_PAGE else UrlRole(role).name.lower()


def _state_name(state: int) -> str:
    return UrlState(state).name.lower().replace("_", " ")
