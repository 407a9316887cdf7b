"""URLs on one PostgreSQL server: discovery, weights, and retries by host or by status.

The store does the work (store/urls.py, store/retries.py); each call here says which rows it needs.
"""

from tarrafa.frontier.messages import DiscoveredUrl, HostCounts, RetryBatch, UrlStatusFacts, UrlWeight
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction
from tarrafa.frontier.postgres.known_filter import filter_new_urls, filter_new_weights
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.frontier.store.retries import HOSTS_PER_SCAN, OF_STATUS, next_cursor, status_facts
from tarrafa.frontier.transfer.host_export import FrontierCursor
from tarrafa.model import HostId, can_be_retried

URLS_PER_TRANSACTION = 4_000  # a transaction in which we think for longer than a moment is taken from us
STATUS = OF_STATUS.replace("?", "%b::bigint")


class UrlCalls:
    """The URLs of one server."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    def discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        for start in range(0, len(offers), URLS_PER_TRANSACTION):
            self._discover(collection, offers[start : start + URLS_PER_TRANSACTION])

    def _discover(self, collection: int, offers: list[DiscoveredUrl]) -> None:
        news = self._session.transact(lambda work: filter_new_urls(work.cursor, collection, offers))
        if not news:
            return
        self._session.reserve_sequence(len(news))
        first = self._session.collections.reserved

        def work(work: PostgresTransaction) -> None:
            if work.store.collections.is_deleted(collection):
                return
            known, number = work.collection(collection), collection
            self._session.collections.reserved = first
            work.receive_hosts(((offer.host, offer.host_key) for offer in news), known)
            keys = [(offer.host, number, offer.id) for offer in news]
            work.copy.prefetch("url", keys)
            work.prefetch_pages(known, keys)
            work.store.urls.discover(collection, news)

        self._session.transact(work)

    def update_weights(self, collection: str, weights: list[UrlWeight]) -> None:
        def work(work: PostgresTransaction) -> None:
            known = work.store.collections.find(collection)
            if known is None:
                return
            news = filter_new_weights(work.cursor, known.row.id, weights)
            if known.order.is_breadth:
                work.copy.lock_sites((known.row.id, weight.host) for weight in news)
            work.copy.lock_hosts(weight.host for weight in news)
            keys = [(weight.host, known.row.id, weight.id) for weight in news]
            work.copy.prefetch("url", keys)
            work.prefetch_pages(known, keys)
            work.store.urls.update_weights(known, news)

        self._session.transact(work)

    def retry_host(self, host: HostId) -> None:
        def work(work: PostgresTransaction) -> None:
            work.copy.lock_walks([(number, host) for number in work.breadth_collections()], [host])
            for known in work.store.collections.all():
                work.copy.prefetch_first("url", [(host, known.row.id)], ALL_ROWS)
            work.store.host_retries.retry_host(host)

        self._session.transact(work)

    def urls_by_status(self, name: str, status: int) -> UrlStatusFacts:
        def work(work: PostgresTransaction) -> UrlStatusFacts:
            known, now = work.store.collections.by_name(name), work.store.clock.now()
            return status_facts(known, status, now, lambda sql: work.cursor.execute(sql.encode()).fetchall())

        return self._session.transact(work)

    def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        def work(work: PostgresTransaction) -> RetryBatch:
            known, most = work.store.collections.by_name(name), max(1, limit)
            if not can_be_retried(status):
                return RetryBatch(0, None)
            number = known.row.id
            hosts = work.fetch_host_ids(
                "SELECT host FROM work WHERE collection = %b::bigint AND host >= %b::bigint ORDER BY host"
                " LIMIT %b::bigint",
                number, after.host, HOSTS_PER_SCAN,
            )  # fmt: skip
            rows = work.cursor.execute(
                f"SELECT host, id FROM url WHERE host = ANY(%b::bigint[]) AND collection = %b::bigint AND {STATUS}"
                " AND (host, id) > (%b::bigint, %b::bytea) ORDER BY host, id LIMIT %b::bigint",
                [hosts, number, status, known.run, after.host, after.url, most],
            ).fetchall()
            keys = [(host, number, url) for host, url in rows]
            found = sorted({host for host, _, _ in keys})
            work.copy.lock_walks([(one, host) for one in work.breadth_collections() for host in found], found)
            work.copy.prefetch("url", keys)
            work.copy.prefetch("page", keys)
            return RetryBatch(work.store.status_retries.requeue(known, keys), next_cursor(keys, most, hosts))

        return self._session.transact(work)

    def host_counts(self, name: str) -> HostCounts:
        def work(work: PostgresTransaction) -> HostCounts:
            return work.store.host_retries.host_counts(
                name, lambda sql: work.cursor.execute(sql.encode()).fetchone() or (0, 0)
            )

        return self._session.transact(work)
