"""What does a planner need to know, and where does its answer go?

Some policies look at a whole collection: the index policy when a budget sets its price, and those that plan a day at
once. Whoever computes that (frontier/planner.py) reads and writes through these calls, each of them small, so that the
crawl goes on in between. Promise: a plan holds when it is complete, not before; until then the old one does.
"""

from tarrafa.clock import Clock
from tarrafa.frontier.protocol import PageFacts, PlannedVisit, ShelfFacts
from tarrafa.frontier.store.collections import Collections, Known, Tuning
from tarrafa.frontier.store.revisits import PLANNED, Revisits, read_history
from tarrafa.frontier.store.schema import Database
from tarrafa.model import HostId, UrlId
from tarrafa.revisit import belief

PRICE_EVERY_S = 600.0  # of the clock


class Planning:
    """The planner's view of one frontier."""

    def __init__(self, db: Database, collections: Collections, revisits: Revisits, clock: Clock) -> None:
        self._db, self._collections, self._revisits, self._clock = db, collections, revisits, clock

    def unplanned(self) -> list[int]:
        now = self._clock.now()
        return [known.row.id for known in self._collections.running() if _needs(known) and known.tuning.plan_end <= now]

    def pages(self, known: Known, host: HostId, url: UrlId, limit: int) -> list[PageFacts]:
        rows = self._db.rows(
            "SELECT page.host, page.id, delay_s, modified_right, modified_wrong, history FROM page"
            " CROSS JOIN host ON host.id = page.host CROSS JOIN url USING (host, collection, id)"
            " WHERE page.host >= ?1 AND (page.host > ?1 OR page.id > ?2) AND page.collection = ?3 AND url.role = 0"
            " ORDER BY page.host, page.collection, page.id LIMIT ?4",
            (host, url, known.row.id, limit),
        )
        least = float(known.config.politeness.delay)
        return [
            PageFacts(at, page, max(delay, least), belief.Record(right, wrong).is_believed, read_history(content))
            for at, page, delay, right, wrong, content in rows
        ]

    def shelves(self, known: Known, host: HostId, limit: int) -> list[ShelfFacts]:
        last = self._db.value(
            "SELECT max(host) FROM (SELECT DISTINCT host FROM shelf WHERE collection = ? AND host > ?"
            " ORDER BY host LIMIT ?)",
            (known.row.id, host, limit),
        )
        rows = self._db.rows(
            "SELECT shelf.host, delay_s, shelf, pages FROM shelf JOIN host ON host.id = shelf.host"
            " WHERE collection = ? AND shelf.host > ? AND shelf.host <= ? AND shelf >= 0 AND pages > 0",
            (known.row.id, host, last),
        )
        least = float(known.config.politeness.delay)
        return [ShelfFacts(at, max(delay, least), shelf, pages) for at, delay, shelf, pages in rows]

    def price(self, known: Known, price: float) -> None:
        self._collections.tune(known, Tuning(price, known.tuning.plan, self._clock.now() + PRICE_EVERY_S))

    def stir(self, known: Known, host: HostId, limit: int) -> HostId | None:
        rows = self._db.rows(
            "SELECT DISTINCT host FROM shelf WHERE collection = ? AND host > ? ORDER BY host LIMIT ?",
            (known.row.id, host, limit),
        )
        for (one,) in rows:
            self._revisits.look_again(known, one)
        return rows[-1][0] if rows else None

    def plan(self, known: Known, number: int, visits: list[PlannedVisit]) -> None:
        for visit in visits:
            self._revisits.put(visit.host, known.row.id, number, visit.at, visit.id)

    def begin_plan(self, known: Known, number: int, end: float) -> None:
        self._collections.tune(known, Tuning(known.tuning.price, number, end))

    def drop_plans(self, known: Known, limit: int) -> int:
        """Plans are numbered upwards; our own shelves are negative."""
        rows = self._db.rows(
            "SELECT host, shelf FROM shelf WHERE collection = ? AND shelf >= 0 AND shelf < ? LIMIT ?",
            (known.row.id, known.tuning.plan, limit),
        )
        for host, shelf in rows:
            key = (known.row.id, host, shelf)
            self._db.run("DELETE FROM due WHERE collection = ? AND host = ? AND shelf = ?", key)
            self._db.run("DELETE FROM shelf WHERE collection = ? AND host = ? AND shelf = ?", key)
        return len(rows)


def _needs(known: Known) -> bool:
    revisit = known.config.revisit
    return revisit.policy in PLANNED or (revisit.policy == "index" and revisit.rate is not None)
