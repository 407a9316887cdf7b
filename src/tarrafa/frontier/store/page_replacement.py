"""Page replacement: a full collection replaces its least linked pages by better linked URLs.

A collection that is kept fresh and has a `pages_max` still learns about links when it is full. When a pending URL has
more in-links than the least linked kept page, that page gives up its place: it is handed out once more, not to be
requested but to be dismissed, so that the archive records it and every follower drops the page (its versions stay
archived). Then the best pending URL on a host that answers is chosen for the free place, and if it cannot be fetched,
the next best. So the size stays the same, except for the few pages in transit, and the mean number of in-links rises.
Once the collection is full, no other order takes pages in. Roots are never replaced: the person who wrote the
collection wants them.

Known weakness: in-links are the only measure of importance here, and the in-links of a page are known only when the
linking pages were visited.
"""

from typing import Any

from tarrafa.frontier.store.collections import NO_USAGE, LoadedCollection, StoreContext
from tarrafa.frontier.store.counters import Bucket
from tarrafa.frontier.store.database import UrlKey
from tarrafa.frontier.store.revisits import CHOSEN_SHELF, DISMISSED_SHELF, RevisitQueue
from tarrafa.model import HostId, UrlId, UrlRole, UrlState

AT_ONCE_MAX, AT_ONCE_SHARE = 16, 20  # pages in transit: no more than one in twenty
LOOKED_AT_MAX = 50  # of the best or the worst, to find one whose host answers
SOON_S = 60.0


class PageReplacement:
    """The `standing` rows of one frontier: pending URLs and kept pages, by in-links."""

    def __init__(self, context: StoreContext, revisits: RevisitQueue) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._clock, self._revisits = context.clock, revisits

    def add(self, known: LoadedCollection, kept: bool, in_links: int, key: UrlKey) -> None:
        """Add a page. Sitemaps and feeds do not compete with pages, and a kept root is never replaced."""
        if known.config.replaces_pages:
            host, number, url = key
            self._db.prefetch("standing", [(number, int(kept), in_links, host, url)])
            self._db.run(
                "INSERT OR IGNORE INTO standing SELECT collection, ?, ?, host, id FROM url"
                " WHERE host = ? AND collection = ? AND id = ? AND role IN (?, ?) AND (depth > 0 OR NOT ?)",
                (kept, in_links, *key, int(UrlRole.PAGE), int(UrlRole.NEEDED_PAGE), kept),
            )

    def remove(self, known: LoadedCollection, kept: bool, in_links: int, key: UrlKey) -> None:
        if known.config.replaces_pages:
            host, number, url = key
            self._db.prefetch("standing", [(number, int(kept), in_links, host, url)])
            self._db.run(
                "DELETE FROM standing WHERE collection = ? AND kept = ? AND in_links = ? AND host = ? AND id = ?",
                (number, kept, in_links, host, url),
            )

    def depth_changed(self, known: LoadedCollection, key: UrlKey) -> None:
        """A page may have become a root, or may be a root no longer."""
        if known.config.replaces_pages:
            page = self._revisits.find(key)
            depth, in_links = self._db.url("depth, in_links", key)
            if not depth:
                self.remove(known, True, in_links, key)
            elif page is not None and page.shelf != DISMISSED_SHELF:
                self.add(known, True, in_links, key)

    def set_in_links(self, known: LoadedCollection, before: int, after: int, key: UrlKey) -> None:
        """Move a URL whose in-links have changed, whether it is pending or kept."""
        if known.config.replaces_pages:
            host, number, url = key
            self._db.prefetch("standing", [(number, kept, before, host, url) for kept in (0, 1)])
            self._db.run(
                "UPDATE standing SET in_links = ? WHERE collection = ? AND kept IN (0, 1) AND in_links = ? AND host = ?"
                " AND id = ?",
                (after, number, before, host, url),
            )

    def is_full(self, known: LoadedCollection) -> bool:
        """Whether the collection has been full since its limit was set."""
        number, most = known.row.id, known.config.scope.pages_max
        if not known.config.replaces_pages or most is None:
            return False
        if not self._counters.value(number, Bucket.WAS_FULL):
            kept = self._counters.state(number, UrlState.FETCHED) + self._counters.value(number, Bucket.REVISITS_OUT)
            if kept + self._collections.elsewhere.get(number, NO_USAGE).pages >= most:
                self._counters.add(number, Bucket.WAS_FULL)
        return bool(self._counters.value(number, Bucket.WAS_FULL))

    def is_without_place(self, known: LoadedCollection, key: UrlKey) -> bool:
        """Whether a pending URL waits until it is chosen, because the collection is full. Changes nothing."""
        if not (known.config.replaces_pages and self._counters.value(known.row.id, Bucket.WAS_FULL)):
            return False
        host, number, url = key
        self._db.prefetch("due", [(host, number, CHOSEN_SHELF, 0.0, url)])
        chosen = "SELECT 1 FROM due WHERE host = ? AND collection = ? AND shelf = ? AND key = 0 AND id = ?"
        return self._db.row(chosen, (host, number, CHOSEN_SHELF, url)) is None

    def next_candidate(self, known: LoadedCollection) -> tuple[HostId, UrlId, int] | None:
        """The most linked pending URL on a host that answers, if a place is free for it."""
        if not self._collections.free_slots(known) or self._is_busy(known):
            return None
        return self._best(known)

    def reserve_place(self, known: LoadedCollection, key: UrlKey) -> None:
        """Reserve the free place for a chosen URL."""
        self._counters.add(known.row.id, Bucket.CHOSEN_WAITING)
        self._revisits.add(key, CHOSEN_SHELF, 0.0)
        self._revisits.update_due(known, key[0])

    def dismiss_worst(self, known: LoadedCollection) -> None:
        """Dismiss the worst kept pages, if better URLs are pending."""
        number = known.row.id
        while not self._collections.free_slots(known) and not self._is_busy(known):
            better = self._best(known, offset=self._counters.value(number, Bucket.DISMISSED_WAITING))
            worst = self._worst(known)
            if better is None or worst is None or better[2] <= worst[2]:
                return
            host, url, in_links = worst
            key = (host, number, url)
            self.remove(known, True, in_links, key)
            self._revisits.move_to_shelf(known, key, DISMISSED_SHELF, 0.0)
            self._counters.add(number, Bucket.DISMISSED_WAITING)

    def _is_busy(self, known: LoadedCollection) -> bool:
        """Whether as many pages as allowed are being replaced."""
        value, number = self._counters.value, known.row.id
        most = max(1, min(AT_ONCE_MAX, (known.config.scope.pages_max or 0) // AT_ONCE_SHARE))
        return value(number, Bucket.DISMISSED_WAITING) + value(number, Bucket.CHOSEN_WAITING) >= most

    def _best(self, known: LoadedCollection, offset: int = 0) -> tuple[HostId, UrlId, int] | None:
        self._db.prefetch_first("standing", [(known.row.id, 0)], LOOKED_AT_MAX + offset, last=True)
        rows = self._db.rows(
            "SELECT host, id, in_links FROM standing WHERE collection = ? AND kept = 0"
            " ORDER BY in_links DESC, host DESC, id DESC LIMIT ? OFFSET ?",
            (known.row.id, LOOKED_AT_MAX, offset),
        )
        return next(((host, url, links) for host, url, links in rows if self._is_reachable(known, host)), None)

    def _worst(self, known: LoadedCollection) -> tuple[Any, ...] | None:
        """The least linked kept page that is not handed out now."""
        number = known.row.id
        self._db.prefetch_first("standing", [(number, 1)], LOOKED_AT_MAX)
        rows = self._db.rows(
            "SELECT host, id, in_links FROM standing WHERE collection = ? AND kept = 1"
            " ORDER BY in_links, host, id LIMIT ?",
            (number, LOOKED_AT_MAX),
        )
        self._db.prefetch("url", [(host, number, url) for host, url, _ in rows])
        for host, url, in_links in rows:
            state, depth = self._db.url("state, depth", (host, number, url))
            if state == UrlState.FETCHED and depth > 0 and self._is_reachable(known, host):
                return host, url, in_links
        return None

    def _is_reachable(self, known: LoadedCollection, host: HostId) -> bool:
        """Whether the host has no failures, is not full, may be visited soon, and can be changed now."""
        if not self._db.acquire_hosts([host], known.breadth_id):
            return False
        row = self._db.row(
            "SELECT failures, next_at, refused, visited FROM host JOIN work ON work.host = host.id"
            " WHERE host.id = ? AND collection = ?",
            (host, known.row.id),
        )
        if row is None or row[0] or row[2] or row[3] >= known.config.scope.host_pages_max:
            return False
        return bool(row[1] <= self._clock.now() + SOON_S + known.config.politeness.delay_max)

    def begin_rebuilding(self, known: LoadedCollection) -> None:
        self._counters.reset(known.row.id, Bucket.WAS_FULL)

    def rebuild(self, known: LoadedCollection) -> None:
        """The collection begins or ceases to replace pages, or its limit has changed. Scans its URLs."""
        number = known.row.id
        self._db.run("DELETE FROM standing WHERE collection = ?", (number,))
        if known.config.replaces_pages:
            self._db.run(
                "INSERT INTO standing SELECT collection, state > 0, in_links, host, id FROM url"
                " WHERE collection = ? AND role IN (0, 4) AND (state = 0 OR depth > 0 AND (state = 2 OR state = 1"
                " AND EXISTS (SELECT 1 FROM page"
                " WHERE page.host = url.host AND page.collection = url.collection AND page.id = url.id)))",
                (number,),
            )
