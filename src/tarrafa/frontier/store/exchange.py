"""A full collection knows a better page than its worst: what then?

A collection that is kept fresh and has a `pages_max` goes on learning about links when it is full. When a URL that
waits has more in-links than the least linked page that is kept, the page gives up its place: it is handed out once
more, not to be asked for but to be dismissed, so that the archive says so and everybody who follows it drops the page
(its versions stay archived). When that is done, the best URL that waits is chosen for the free place. So the size stays
the same and the mean number of in-links rises.

Weakness: in-links are all that counts as importance here, and a page's in-links are known only when those who link to
it were visited.
"""

from tarrafa.frontier.store.collections import CHOSEN_WAITING, DISMISSED_WAITING, Counters, Known
from tarrafa.frontier.store.revisits import CHOSEN, DISMISSED, Revisits
from tarrafa.frontier.store.schema import Database
from tarrafa.model import HostId, UrlId

AT_ONCE_MAX = 16  # pages on their way out


class Exchange:
    """The `standing` rows of one frontier: who waits and who is kept, by in-links."""

    def __init__(self, db: Database, counters: Counters, revisits: Revisits) -> None:
        self._db, self._counters, self._revisits = db, counters, revisits

    def enter(self, known: Known, kept: bool, in_links: int, host: HostId, url: UrlId) -> None:
        if known.config.exchanges:
            self._db.run(
                "INSERT OR IGNORE INTO standing VALUES (?, ?, ?, ?, ?)", (known.row.id, kept, in_links, host, url)
            )

    def leave(self, known: Known, kept: bool, in_links: int, host: HostId, url: UrlId) -> None:
        if known.config.exchanges:
            self._db.run(
                "DELETE FROM standing WHERE collection = ? AND kept = ? AND in_links = ? AND host = ? AND id = ?",
                (known.row.id, kept, in_links, host, url),
            )

    def weigh(self, known: Known, before: int, after: int, host: HostId, url: UrlId) -> None:
        """Its in-links changed, whichever side it stands on."""
        if known.config.exchanges:
            self._db.run(
                "UPDATE standing SET in_links = ? WHERE collection = ? AND kept IN (0, 1) AND in_links = ? AND host = ?"
                " AND id = ?",
                (after, known.row.id, before, host, url),
            )

    def dismiss(self, known: Known) -> None:
        """Send away the worst pages that are kept, one for each better one that waits."""
        number = known.row.id
        leaving = self._counters.value(number, DISMISSED_WAITING)
        while leaving < AT_ONCE_MAX:
            better = self._db.value(
                "SELECT in_links FROM standing WHERE collection = ? AND kept = 0 ORDER BY in_links DESC"
                " LIMIT 1 OFFSET ?",
                (number, leaving),
            )
            worst = self._db.row(
                "SELECT in_links, host, id FROM standing WHERE collection = ? AND kept = 1 ORDER BY in_links LIMIT 1",
                (number,),
            )
            if better is None or worst is None or better <= worst[0]:
                return
            self.leave(known, True, *worst)
            self._revisits.move(known, (worst[1], number, worst[2]), DISMISSED, 0.0)
            self._counters.add(number, DISMISSED_WAITING)
            leaving += 1

    def best(self, known: Known) -> tuple[HostId, UrlId] | None:
        """The most linked URL that waits."""
        row = self._db.row(
            "SELECT host, id FROM standing WHERE collection = ? AND kept = 0 ORDER BY in_links DESC, host, id LIMIT 1",
            (known.row.id,),
        )
        return None if row is None else (row[0], row[1])

    def choose(self, known: Known, host: HostId, url: UrlId) -> None:
        """Reserve the place that became free."""
        self._counters.add(known.row.id, CHOSEN_WAITING)
        self._revisits.put(host, known.row.id, CHOSEN, 0.0, url)
        self._revisits.look_again(known, host)

    def rebuild(self, known: Known) -> None:
        """The collection begins to exchange, or no longer does. Scans it, once per such change."""
        number = known.row.id
        self._db.run("DELETE FROM standing WHERE collection = ?", (number,))
        if known.config.exchanges:
            self._db.run(
                "INSERT INTO standing SELECT collection, state = 2, in_links, host, id FROM url"
                " WHERE collection = ? AND state IN (0, 2) AND role = 0",
                (number,),
            )
