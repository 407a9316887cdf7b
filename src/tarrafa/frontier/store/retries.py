"""Retries: makes failed and refused URLs pending again, on request, or because the configuration has changed.

A host or the URLs of one status are retried on request; a changed scope, a greater depth, a lifted takedown or a new
start of a collection makes the URLs pending that it concerns.
Promises: a call on request changes at most as many rows as its limit; hosts become ready when their delay has passed
since their last response.
"""

from collections.abc import Callable, Iterable

from tarrafa.frontier.export_import.export_records import FrontierCursor
from tarrafa.frontier.messages import RetryBatch
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.database import ALL_ROWS, UrlKey
from tarrafa.frontier.store.lookup import StoreLookup
from tarrafa.frontier.store.urls import FrontierUrls, Queued
from tarrafa.model import HostId, Status, UrlState, can_be_retried

HOSTS_PER_SCAN = 200  # in one call, however few URLs they have
URLS_PER_RETRY = 20_000  # that one call reads
OF_STATUS = f"status = ? AND run = ? AND state IN ({UrlState.PENDING:d}, {UrlState.DROPPED:d}, {UrlState.FAILED:d})"
REFUSED_BY_SCOPE = (Status.TRAP, Status.HOST_FULL, Status.OUT_OF_SCOPE, Status.LANGUAGE_OUTSIDE, Status.TYPE_NOT_WANTED)


class Retries:
    """Retries in one frontier."""

    def __init__(self, context: StoreContext, urls: FrontierUrls, lookup: StoreLookup) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._ready, self._clock = context.ready, context.clock
        self._urls, self._lookup = urls, lookup

    # -- on request -------------------------------------------------------------------------------------------

    def retry_host(self, host: HostId) -> None:
        """Forget the failures of a host; its failed URLs of the last run are pending again, in all collections."""
        if self._db.row("SELECT 1 FROM host WHERE id = ?", (host,)) is None:
            return
        self._reset_backoff(host)
        for known in self._collections.all():
            self._db.prefetch_first("url", [(host, known.row.id)], ALL_ROWS)
            rows = self._db.rows(
                "UPDATE url SET state = 0, attempts = 0, blamed = 0 WHERE host = ? AND collection = ? AND state = ?"
                " AND run = ? RETURNING host, collection, id",
                (host, known.row.id, int(UrlState.FAILED), known.run),
            )
            self._requeue(known, rows, UrlState.FAILED)

    def _reset_backoff(self, host: HostId) -> None:
        with self._ready.suspended(host):
            self._db.run(
                "UPDATE host SET failures = 0, trouble = '', next_at = min(next_at, max(?, ended_at + delay_s))"
                " WHERE id = ?",
                (self._clock.now(), host),
            )
        self._lookup.forget_host_counts()

    def _requeue(self, known: LoadedCollection, keys: Iterable[UrlKey], before: UrlState) -> Queued:
        """Queue URLs that had the state `before`, and have the state PENDING already."""
        queued = Queued()
        for key in keys:
            self._urls.requeue(known, key, before, queued)
        self._urls.add_pending(known.row.id, queued)
        return queued

    def retry_by_status(self, name: str, status: int, after: FrontierCursor, limit: int) -> RetryBatch:
        known = self._collections.by_name(name)
        if not can_be_retried(status):
            return RetryBatch(0, None)
        hosts = self._db.rows(
            "SELECT host FROM work WHERE collection = ? AND host >= ? ORDER BY host LIMIT ?",
            (known.row.id, after.host, HOSTS_PER_SCAN),
        )
        keys, most, left = list[UrlKey](), max(1, limit), URLS_PER_RETRY
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

    def requeue(self, known: LoadedCollection, keys: list[UrlKey]) -> int:
        """Make those of the URLs pending that were dropped or have failed; returns their number."""
        queued = Queued()
        for host in sorted({key[0] for key in keys}):
            self._reset_backoff(host)
        for key in keys:
            (state,) = self._db.url("state", key)
            is_over = state in (UrlState.DROPPED, UrlState.FAILED)
            if is_over and self._urls.revisits.find(key) is None:  # sitemaps and feeds are kept fresh, but DROPPED
                self._db.update_url(key, "state = 0, attempts = 0, blamed = 0, etag = NULL, last_modified = NULL")
                self._urls.requeue(known, key, state, queued)
        self._urls.add_pending(known.row.id, queued)
        return sum(queued.values())

    # -- after a change of the configuration; each call scans the collection ------------------------------------

    def reopen_depth(self, known: LoadedCollection) -> None:
        """The depth limit was raised: URLs that were too deep are pending."""
        limit = known.config.scope.depth_max
        rows = self._db.rows(
            "UPDATE url SET state = 0 WHERE collection = ? AND state = ? AND depth <= ? AND run = ?"
            " RETURNING host, collection, id",
            (known.row.id, int(UrlState.TOO_DEEP), 1 << 30 if limit is None else limit, known.run),
        )
        self._requeue(known, rows, UrlState.TOO_DEEP)

    def recheck_scope(self, known: LoadedCollection) -> None:
        """The scope was changed: URLs that it refused are pending, and are checked when their turn comes.

        A URL that was refused without a visit is no longer counted under its status; a visit stays counted.
        """
        number, keys = known.row.id, list[UrlKey]()
        for (host,) in self._db.rows("SELECT host FROM work WHERE collection = ? AND refused", (number,)):
            self._urls.admit_host(known, host)
        rows = self._db.rows(
            "SELECT host, id, status, coalesce(fetched, 0) FROM url WHERE collection = ? AND run = ? AND state = ?"
            " AND (status IN (?, ?, ?, ?) OR status = ? AND type IS NULL)",
            (number, known.run, int(UrlState.DROPPED), *map(int, REFUSED_BY_SCOPE)),
        )
        for host, url, status, visited in rows:
            if status == Status.HOST_FULL and self._urls.closed_status(known, host) == status:
                continue
            self._db.update_url((host, number, url), "state = 0")
            if not visited or (known.run > 1 and visited < known.run_progress.started):
                self._counters.add_refused(number, status, -1)
            keys.append((host, number, url))
        self._requeue(known, keys, UrlState.DROPPED)

    def retry_failed(self, known: LoadedCollection) -> None:
        """The collection is started again: failed URLs are pending, and their hosts' memory is forgotten."""
        if not self._counters.state(known.row.id, UrlState.FAILED):
            return
        rows = self._db.rows(
            "UPDATE url SET state = 0, attempts = 0, blamed = 0 WHERE collection = ? AND state = ? AND run = ?"
            " RETURNING host, collection, id",
            (known.row.id, int(UrlState.FAILED), known.run),
        )
        for host in dict.fromkeys(host for host, _, _ in rows):
            self._reset_backoff(host)
            self._db.run("UPDATE host SET memory = NULL WHERE id = ?", (host,))
        self._requeue(known, rows, UrlState.FAILED)

    def requeue_lifted_takedowns(self, known: LoadedCollection, is_taken_down: Callable[[str], bool]) -> None:
        """URLs that were taken down, and are no longer, are pending."""
        if not self._counters.value(known.row.id, f"status:{int(Status.TAKEN_DOWN)}"):
            return
        rows = self._db.rows(
            "SELECT url, host, collection, id FROM url WHERE collection = ? AND state = ? AND status = ? AND run = ?",
            (known.row.id, int(UrlState.DROPPED), int(Status.TAKEN_DOWN), known.run),
        )
        keys = [(host, number, url) for text, host, number, url in rows if not is_taken_down(text)]
        for key in keys:
            self._db.update_url(key, "state = 0")
        self._requeue(known, keys, UrlState.DROPPED)


def next_cursor(keys: list[UrlKey], most: int, hosts: list[HostId]) -> FrontierCursor | None:
    """Where the next call continues, after these keys were taken from these hosts."""
    if len(keys) >= most:
        return FrontierCursor(*keys[-1])
    if len(hosts) < HOSTS_PER_SCAN or hosts[-1] == (1 << 63) - 1:
        return None
    return FrontierCursor(hosts[-1] + 1)
