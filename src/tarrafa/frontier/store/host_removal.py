"""Removal of a host from the frontier: everything below it, and its share of every count.

Promises: a host that a worker holds is refused; removing a host twice is harmless. Its URLs are new if they are found
again.
"""

from tarrafa.errors import FrontierError
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.revisits import CHOSEN_SHELF, DISMISSED_SHELF, read_history
from tarrafa.frontier.store.urls import FrontierUrls
from tarrafa.model import HostId, UrlState

TABLES_BELOW_HOST = ("url", "visit", "pending", "page", "due", "work")

EARLIER = {  # counters of what earlier runs left: see runs.py
    Bucket.OLD_PAGES: f"run < ? AND state = {UrlState.FETCHED:d}",
    Bucket.LEFT_OVER: f"run < ? AND state = {UrlState.PENDING:d}",
    Bucket.SHOWN_PAGES: "shown > 0",
}


class HostRemoval:
    """Removes hosts from one store."""

    def __init__(self, context: StoreContext, urls: FrontierUrls) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._ready, self._urls = context.ready, urls

    def forget(self, host: HostId) -> None:
        """Remove a host that no worker holds, and its counts."""
        row = self._db.row("SELECT worker, site FROM host WHERE id = ?", (host,))
        if row is None:
            return
        if row[0] is not None:
            raise FrontierError("a host that is with a worker cannot be forgotten; wait until it comes back")
        for number, refused in self._db.rows("SELECT collection, refused FROM work WHERE host = ?", (host,)):
            self._forget_in_collection(self._collections.by_id(number), host)
            self._counters.add(number, Bucket.HOSTS, -1)
            self._db.run(
                "UPDATE site SET hosts = max(0, hosts - ?) WHERE collection = ? AND name = ?",
                (not refused, number, row[1]),
            )
            self._db.run("DELETE FROM shelf WHERE collection = ? AND host = ?", (number, host))
        self._ready.remove(host)
        for table in TABLES_BELOW_HOST:
            self._db.run(f"DELETE FROM {table} WHERE host = ?", (host,))  # noqa: S608 (names of our own)
        self._db.run("UPDATE address SET host = NULL WHERE host = ?", (host,))
        self._db.run("DELETE FROM host WHERE id = ?", (host,))

    def _forget_in_collection(self, known: LoadedCollection, host: HostId) -> None:
        number, key = known.row.id, (host, known.row.id)
        mentions = self._db.value("SELECT coalesce(sum(in_links), 0) FROM url WHERE host = ? AND collection = ?", key)
        self._urls.breadth.add_mentions(known, {host: -mentions})
        self._ready.remove(host)  # again: breadth adds it, for all collections, when a gate changes
        pending = self._db.run("DELETE FROM pending WHERE host = ? AND collection = ?", key)
        self._db.run("UPDATE work SET pending = 0 WHERE host = ? AND collection = ?", key)
        self._urls.breadth.urls_removed(known, host, pending)
        for state, status, role, count in self._db.rows(
            "SELECT state, status, role, count(*) FROM url WHERE host = ? AND collection = ? GROUP BY 1, 2, 3", key
        ):
            self._counters.count_unkept(number, state, status, role, -count)
            self._counters.add_state(number, state, role, -count)
            self._counters.add(number, Bucket.KNOWN, -count)
        self._count_earlier_runs(known, key)
        self._count_revisits(known, key)
        self._forget_replacements(known, key)

    def _count_earlier_runs(self, known: LoadedCollection, key: tuple[HostId, int]) -> None:
        for bucket, condition in EARLIER.items():
            count = self._db.value(
                f"SELECT count(*) FROM url WHERE host = ? AND collection = ? AND {condition}",  # noqa: S608
                (*key, *(known.run,) * condition.count("?")),
            )
            self._counters.add(known.row.id, bucket, -count)

    def _count_revisits(self, known: LoadedCollection, key: tuple[HostId, int]) -> None:
        number, host = known.row.id, key[0]
        chosen = self._db.value(
            "SELECT count(*) FROM due WHERE host = ? AND collection = ? AND shelf = ?", (*key, CHOSEN_SHELF)
        )
        self._counters.add(number, Bucket.CHOSEN_WAITING, -chosen)
        for shelf, history, role in self._db.rows(
            "SELECT shelf, history, role FROM page JOIN url USING (host, collection, id)"
            " WHERE page.host = ? AND page.collection = ?",
            key,
        ):
            self._urls.revisits.update_site_sums(known, host, role, read_history(history), None)
            self._counters.add(number, Bucket.DISMISSED_WAITING, -int(shelf == DISMISSED_SHELF))

    def _forget_replacements(self, known: LoadedCollection, key: tuple[HostId, int]) -> None:
        if known.config.replaces_pages:
            for url, in_links in self._db.rows("SELECT id, in_links FROM url WHERE host = ? AND collection = ?", key):
                for kept in (True, False):
                    self._urls.page_replacement.remove(known, kept, in_links, (*key, url))
