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

from tarrafa.clock import Clock
from tarrafa.frontier.store.collections import NO_USAGE, Collections, LoadedCollection
from tarrafa.frontier.store.counters import (
    CHOSEN_WAITING,
    DISMISSED_WAITING,
    REVISITS_OUT,
    WAS_FULL,
    Counters,
    state_bucket,
)
from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.frontier.store.revisits import CHOSEN_SHELF, DISMISSED_SHELF, RevisitQueue
from tarrafa.model import HostId, UrlId, UrlRole, UrlState

AT_ONCE_MAX, AT_ONCE_SHARE = 16, 20  # pages on their way out or in: no more than one in twenty
LOOKED_AT_MAX = 50  # of the best and of the worst, for one whose host answers
SOON_S = 60.0


class PageReplacement:
    """The `standing` rows of one frontier: who waits and who is kept, by in-links."""

    def __init__(
        self, db: FrontierDatabase, counters: Counters, collections: Collections, revisits: RevisitQueue, clock: Clock
    ) -> None:
        self._db, self._counters, self._collections = db, counters, collections
        self._revisits, self._clock = revisits, clock

    def add(self, known: LoadedCollection, kept: bool, in_links: int, host: HostId, url: UrlId) -> None:
        """Add a page; a sitemap is no rival of pages, and a root is never replaced."""
        if known.config.replaces_pages:
            self._db.prefetch("standing", [(known.row.id, int(kept), in_links, host, url)])
            self._db.run(
                "INSERT OR IGNORE INTO standing SELECT collection, ?, ?, host, id FROM url"
                " WHERE host = ? AND collection = ? AND id = ? AND role = ? AND (depth > 0 OR NOT ?)",
                (kept, in_links, host, known.row.id, url, int(UrlRole.PAGE), kept),
            )

    def remove(self, known: LoadedCollection, kept: bool, in_links: int, host: HostId, url: UrlId) -> None:
        if known.config.replaces_pages:
            self._db.prefetch("standing", [(known.row.id, int(kept), in_links, host, url)])
            self._db.run(
                "DELETE FROM standing WHERE collection = ? AND kept = ? AND in_links = ? AND host = ? AND id = ?",
                (known.row.id, kept, in_links, host, url),
            )

    def depth_changed(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        """A page may have become a root, or may be a root no longer."""
        if not known.config.replaces_pages:
            return
        key = (host, known.row.id, url)
        self._db.prefetch("page", [key])
        depth, in_links, shelf = self._db.required_row(
            "SELECT depth, in_links, shelf FROM url LEFT JOIN page USING (host, collection, id)"
            " WHERE url.host = ? AND url.collection = ? AND url.id = ?",
            key,
        )
        if not depth:
            self.remove(known, True, in_links, host, url)
        elif shelf not in (None, DISMISSED_SHELF):
            self.add(known, True, in_links, host, url)

    def set_in_links(self, known: LoadedCollection, before: int, after: int, host: HostId, url: UrlId) -> None:
        """Its in-links changed, whichever side it stands on."""
        if known.config.replaces_pages:
            self._db.prefetch("standing", [(known.row.id, kept, before, host, url) for kept in (0, 1)])
            self._db.run(
                "UPDATE standing SET in_links = ? WHERE collection = ? AND kept IN (0, 1) AND in_links = ? AND host = ?"
                " AND id = ?",
                (after, known.row.id, before, host, url),
            )

    def is_full(self, known: LoadedCollection) -> bool:
        """Whether it has been, since its limit was set."""
        number, most = known.row.id, known.config.scope.pages_max
        if not known.config.replaces_pages or most is None:
            return False
        if not self._counters.value(number, WAS_FULL):
            value = self._counters.value
            kept = value(number, state_bucket(UrlState.FETCHED)) + value(number, REVISITS_OUT)
            if kept + self._collections.elsewhere.get(number, NO_USAGE).pages >= most:
                self._counters.add(number, WAS_FULL)
        return bool(self._counters.value(number, WAS_FULL))

    def next_candidate(self, known: LoadedCollection) -> tuple[HostId, UrlId, int] | None:
        """The most linked URL that waits where somebody answers, if a place is free for it."""
        if not self._collections.free_slots(known) or self._under_way(known) >= self._replacements_max(known):
            return None
        return self._best(known)

    def reserve_place(self, known: LoadedCollection, host: HostId, url: UrlId) -> None:
        """Reserve the place for it."""
        self._counters.add(known.row.id, CHOSEN_WAITING)
        self._revisits.add(host, known.row.id, CHOSEN_SHELF, 0.0, url)
        self._revisits.update_due(known, host)

    def dismiss_worst(self, known: LoadedCollection) -> None:
        """Send away the worst pages that are kept, if better ones wait."""
        number = known.row.id
        while not self._collections.free_slots(known) and self._under_way(known) < self._replacements_max(known):
            better = self._best(known, offset=self._counters.value(number, DISMISSED_WAITING))
            worst = self._worst(known)
            if better is None or worst is None or better[2] <= worst[2]:
                return
            host, url, in_links = worst
            self.remove(known, True, in_links, host, url)
            self._revisits.move_to_shelf(known, (host, number, url), DISMISSED_SHELF, 0.0)
            self._counters.add(number, DISMISSED_WAITING)

    def _under_way(self, known: LoadedCollection) -> int:
        number = known.row.id
        return self._counters.value(number, DISMISSED_WAITING) + self._counters.value(number, CHOSEN_WAITING)

    @staticmethod
    def _replacements_max(known: LoadedCollection) -> int:
        return max(1, min(AT_ONCE_MAX, (known.config.scope.pages_max or 0) // AT_ONCE_SHARE))

    def _best(self, known: LoadedCollection, offset: int = 0) -> tuple[HostId, UrlId, int] | None:
        self._db.prefetch_first("standing", [(known.row.id, 0)], LOOKED_AT_MAX + offset, last=True)
        rows = self._db.rows(
            "SELECT host, id, in_links FROM standing WHERE collection = ? AND kept = 0"
            " ORDER BY in_links DESC, host DESC, id DESC LIMIT ? OFFSET ?",
            (known.row.id, LOOKED_AT_MAX, offset),
        )
        return next(((host, url, links) for host, url, links in rows if self._is_reachable(known, host)), None)

    def _worst(self, known: LoadedCollection) -> tuple[Any, ...] | None:
        """Not one that somebody is looking at just now."""
        self._db.prefetch_first("standing", [(known.row.id, 1)], LOOKED_AT_MAX)
        rows = self._db.rows(
            "SELECT host, id, in_links FROM standing WHERE collection = ? AND kept = 1"
            " ORDER BY in_links, host, id LIMIT ?",
            (known.row.id, LOOKED_AT_MAX),
        )
        self._db.prefetch("url", [(host, known.row.id, url) for host, url, _ in rows])
        return next((row for row in rows if self._is_fetched(known, row) and self._is_reachable(known, row[0])), None)

    def _is_fetched(self, known: LoadedCollection, row: tuple[Any, ...]) -> bool:
        state, depth = self._db.required_row(
            "SELECT state, depth FROM url WHERE host = ? AND collection = ? AND id = ?", (row[0], known.row.id, row[1])
        )
        return bool(state == UrlState.FETCHED and depth > 0)

    def _is_reachable(self, known: LoadedCollection, host: HostId) -> bool:
        """It is not in trouble, not full, its turn comes soon, and it can be changed now."""
        if not self._db.acquire_hosts([host], known.breadth_id):
            return False
        row = self._db.row(
            "SELECT failures, next_at, refused, visited FROM host JOIN work ON work.host = host.id"
            " WHERE host.id = ? AND collection = ? AND worker IS NOT 0",  # which is being moved elsewhere
            (host, known.row.id),
        )
        if row is None or row[0] or row[2] or row[3] >= known.config.scope.host_pages_max:
            return False
        return bool(row[1] <= self._clock.now() + SOON_S + known.config.politeness.delay_max)

    def begin_rebuilding(self, known: LoadedCollection) -> None:
        self._counters.add(known.row.id, WAS_FULL, -self._counters.value(known.row.id, WAS_FULL))

    def rebuild(self, known: LoadedCollection) -> None:
        """The collection begins to exchange, or its limit changed, or it no longer does."""
        number = known.row.id
        self._db.run("DELETE FROM standing WHERE collection = ?", (number,))
        if known.config.replaces_pages:
            self._db.run(
                "INSERT INTO standing SELECT collection, state > 0, in_links, host, id FROM url"
                " WHERE collection = ? AND role = 0 AND (state = 0 OR depth > 0 AND (state = 2 OR state = 1 AND EXISTS"
                " (SELECT 1 FROM page"
                " WHERE page.host = url.host AND page.collection = url.collection AND page.id = url.id)))",
                (number,),
            )
