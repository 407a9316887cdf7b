"""Revisit plans: stores the price or plan that the planner has computed, and reads what it needs for that.

Promises: a plan holds when it is complete, not before; until then the old one does. The calls of
`frontier/revisit_planner.py` are small: the crawl continues in between.
"""

from dataclasses import replace

from tarrafa.frontier.messages import PlannedVisit, RevisitPage, RevisitShelf
from tarrafa.frontier.store.collections import LoadedCollection, StoreContext
from tarrafa.frontier.store.revisits import PLANNED, RevisitQueue, read_history
from tarrafa.model import HostId, UrlId
from tarrafa.revisit import date_trust

PRICE_EVERY_S = 600.0  # of the clock


class RevisitPlans:
    """The price and plan rows of one frontier. Some policies look at a whole collection: the index policy when a budget
    sets its price, and those that plan a day at once."""

    def __init__(self, context: StoreContext, revisits: RevisitQueue) -> None:
        self._db, self._collections, self._clock = context.db, context.collections, context.clock
        self._revisits = revisits

    def collections_to_plan(self) -> list[int]:
        now = self._clock.now()
        return [
            known.row.id for known in self._collections.running() if _needs_plan(known) and known.tuning.plan_end <= now
        ]

    def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        known = self._collections.by_id(collection)
        columns = (
            "SELECT page.host, page.id, delay_s, modified_right, modified_wrong, history FROM page"
            " CROSS JOIN host ON host.id = page.host CROSS JOIN url USING (host, collection, id)"
        )
        number, rest = known.row.id, -1 if limit < 0 else limit
        rows = self._db.rows(
            f"{columns} WHERE page.host = ? AND page.collection = ? AND page.id > ? AND url.role = 0"
            " ORDER BY page.id LIMIT ?",
            (host, number, url, rest),
        )
        if limit < 0 or len(rows) < limit:
            rows += self._db.rows(
                f"{columns} WHERE page.host > ? AND page.collection = ? AND url.role = 0"
                " ORDER BY page.host, page.id LIMIT ?",
                (host, number, rest if limit < 0 else limit - len(rows)),
            )
        least = float(known.config.politeness.delay)
        return [
            RevisitPage(
                at, page, max(delay, least), date_trust.DateTrust(right, wrong).is_trusted, read_history(content)
            )
            for at, page, delay, right, wrong, content in rows
        ]

    def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        known = self._collections.by_id(collection)
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
        return [RevisitShelf(at, max(delay, least), shelf, pages) for at, delay, shelf, pages in rows]

    def set_price(self, collection: int, price: float) -> None:
        """Set the price that follows from the classes of pages. It holds until the next one is computed."""
        known = self._collections.by_id(collection)
        if known.config.revisit.policy == "index":  # otherwise the policy has changed meanwhile
            end = self._clock.now() + PRICE_EVERY_S
            self._collections.set_tuning(known, replace(known.tuning, price=price, plan_end=end))

    def recompute_due(self, collection: int, host: HostId, limit: int) -> HostId | None:
        known = self._collections.by_id(collection)
        rows = self._db.rows(
            "SELECT DISTINCT host FROM shelf WHERE collection = ? AND host > ? ORDER BY host LIMIT ?",
            (known.row.id, host, limit),
        )
        for (one,) in rows:
            self._revisits.update_due(known, one)
        return rows[-1][0] if rows else None

    def add_planned_visits(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        known = self._collections.by_id(collection)
        for visit in visits if known.config.revisit.policy in PLANNED else ():
            self._revisits.add((visit.host, known.row.id, visit.id), number, visit.at)

    def activate_plan(self, collection: int, number: int, end: float) -> None:
        known = self._collections.by_id(collection)
        if known.config.revisit.policy in PLANNED:
            self._collections.set_tuning(known, replace(known.tuning, plan=number, plan_end=end))

    def drop_old_plans(self, collection: int, limit: int) -> int:
        """Plans have rising numbers; our own shelves have negative ones."""
        known = self._collections.by_id(collection)
        rows = self._db.rows(
            "SELECT host, shelf FROM shelf WHERE collection = ? AND shelf >= 0 AND shelf < ? LIMIT ?",
            (known.row.id, known.tuning.plan, limit),
        )
        for host, shelf in rows:
            key = (known.row.id, host, shelf)
            self._db.run("DELETE FROM due WHERE collection = ? AND host = ? AND shelf = ?", key)
            self._db.run("DELETE FROM shelf WHERE collection = ? AND host = ? AND shelf = ?", key)
        return len(rows)


def _needs_plan(known: LoadedCollection) -> bool:
    revisit = known.config.revisit
    return revisit.policy in PLANNED or (revisit.policy == "index" and revisit.rate is not None)
