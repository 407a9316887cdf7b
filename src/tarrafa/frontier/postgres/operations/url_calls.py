"""URLs on one PostgreSQL server: discovery, weights, and retries by host or by status.

The store does the work (`store/urls.py`, `store/retries.py`); each call here names the rows that it needs. Items that
change nothing need no lock: known URLs and weights are filtered out before anything is locked, and most are known.
"""

from collections.abc import Sequence
from operator import attrgetter

from tarrafa.frontier.export_import.export_records import FrontierCursor
from tarrafa.frontier.messages import GRAPH, RANK_STEP, DiscoveredUrl, HostCounts, RetryBatch, UrlStatusFacts, UrlWeight
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.store.database import ALL_ROWS, SWEPT
from tarrafa.frontier.store.lookup import status_facts
from tarrafa.frontier.store.retries import HOSTS_PER_SCAN, OF_STATUS, next_cursor
from tarrafa.model import HostId, Status, UrlState, can_be_retried

URLS_PER_TRANSACTION = 4_000  # PostgreSQL ends a transaction that is idle for too long


def discover(session: DatabaseSession, collection: int, offers: list[DiscoveredUrl]) -> None:
    for start in range(0, len(offers), URLS_PER_TRANSACTION):
        _discover(session, collection, offers[start : start + URLS_PER_TRANSACTION])


def _discover(session: DatabaseSession, collection: int, offers: list[DiscoveredUrl]) -> None:
    news = _filter_new_urls(session, collection, offers)
    if not news:
        return
    first = session.reserve_sequence(len(news))

    def change(work: PostgresTransaction) -> None:
        if work.store.collections.is_deleted(collection):
            return
        known, number = work.collection(collection), collection
        work.collections.start_sequence(first)
        work.receive_hosts(((offer.host, offer.host_key) for offer in news), known)
        keys = [(offer.host, number, offer.id) for offer in news]
        work.db.prefetch("url", keys)
        work.prefetch_pages(known, keys)
        work.store.urls.discover(collection, news)

    session.transact(change)


@in_transaction
def update_weights(
    work: PostgresTransaction, collection: str, weights: list[UrlWeight], epoch: int = 0, *, is_first: bool = True
) -> bool:
    if not work.store.owners.accepts_epoch(GRAPH, 1, epoch, knows_owners=is_first):
        return False
    known = work.store.collections.find(collection)
    if known is None:
        return True
    news = _filter_new_weights(work, known.row.id, weights)
    if known.order.is_breadth:
        work.db.lock_sites((known.row.id, weight.host) for weight in news)
    work.db.lock_hosts(weight.host for weight in news)
    keys = [(weight.host, known.row.id, weight.id) for weight in news]
    work.db.prefetch("url", keys)
    work.prefetch_pages(known, keys)
    work.store.urls.update_weights(known, news)
    return True


@in_transaction
def retry_host(work: PostgresTransaction, host: HostId) -> None:
    work.db.lock_site_sessions([(number, host) for number in work.breadth_collections()], [host])
    for known in work.store.collections.all():
        work.db.prefetch_first("url", [(host, known.row.id)], ALL_ROWS)
    work.store.retries.retry_host(host)


@in_transaction
def urls_by_status(work: PostgresTransaction, name: str, status: int) -> UrlStatusFacts:
    known, now = work.store.collections.by_name(name), work.store.clock.now()
    return status_facts(known, status, now, lambda sql: work.cursor.execute(sql.encode()).fetchall())


@in_transaction
def retry_by_status(work: PostgresTransaction, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
    known, most = work.store.collections.by_name(name), max(1, limit)
    if not can_be_retried(status):
        return RetryBatch(0, None)
    position = (after.host, after.url)
    hosts, keys = work.find_urls(known, position, HOSTS_PER_SCAN, most, OF_STATUS, status, known.run)
    found = sorted({host for host, _, _ in keys})
    work.db.lock_site_sessions([(one, host) for one in work.breadth_collections() for host in found], found)
    work.db.prefetch("url", keys)
    work.db.prefetch("page", keys)
    return RetryBatch(work.store.retries.requeue(known, keys), next_cursor(keys, most, hosts))


@in_transaction
def host_counts(work: PostgresTransaction, name: str) -> HostCounts:
    return work.store.lookup.host_counts(name, lambda sql: work.cursor.execute(sql.encode()).fetchone() or (0, 0))


def _columns(items: Sequence[object], *fields: str) -> list[list[object]]:
    """One array per field, for `unnest`."""
    return [list(map(attrgetter(field), items)) for field in fields]


@in_transaction
def _filter_new_urls(work: PostgresTransaction, collection: int, offers: list[DiscoveredUrl]) -> list[DiscoveredUrl]:
    """Drop the URLs that are known at no greater depth, on hosts that this run has met: most of them."""
    rows = work.cursor.execute(
        "SELECT k.n FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::bigint[], %b::float8[])"
        " WITH ORDINALITY AS k(host, id, depth, redirects, role, announced, n)"
        " JOIN url u ON u.host = k.host AND u.collection = %b::bigint AND u.id = k.id"
        " JOIN work w ON w.host = u.host AND w.collection = u.collection"
        " JOIN collection c ON c.id = u.collection"
        " WHERE (u.depth, u.redirects) <= (k.depth, k.redirects) AND (k.role = u.role OR u.role IN (1, 2, 4))"
        " AND k.announced <= coalesce(u.announced, 0) AND u.shown != %b::bigint"
        " AND u.run >= c.run AND w.run >= c.run"
        " AND (u.state != %b::bigint OR u.status IS DISTINCT FROM %b::bigint)",
        [
            *_columns(offers, "host", "id", "depth", "redirects", "role"),
            [float(offer.announced) for offer in offers],
            collection,
            SWEPT,
            int(UrlState.DROPPED),
            int(Status.NOT_FOUND_AGAIN),
        ],
    ).fetchall()
    known = {number - 1 for (number,) in rows}
    return [offer for place, offer in enumerate(offers) if place not in known]


def _filter_new_weights(work: PostgresTransaction, collection: int, weights: list[UrlWeight]) -> list[UrlWeight]:
    """Keep in-links and depths that differ, and ranks that differ by much."""
    rows = work.cursor.execute(
        "SELECT k.n FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::float8[])"
        " WITH ORDINALITY AS k(host, id, in_links, depth, rank, n)"
        " JOIN url u ON u.host = k.host AND u.collection = %b::bigint AND u.id = k.id"
        " WHERE u.in_links != k.in_links OR k.depth >= 0 AND k.depth < u.depth OR k.rank > 0 AND"
        f" k.rank / coalesce(nullif(u.pagerank, 0), 1) NOT BETWEEN {1 / RANK_STEP} AND {RANK_STEP}",
        [*_columns(weights, "host", "id", "in_links", "depth", "rank"), collection],
    ).fetchall()
    return [weights[number - 1] for (number,) in rows]
