"""Calls of the revisit planner on one PostgreSQL server.

As store/planning.py has it; here is what each of these calls must have at hand.
"""

from tarrafa.frontier.api import PlannedVisit, RevisitPage, RevisitShelf
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction
from tarrafa.frontier.store.schema import ALL_ROWS
from tarrafa.model import HostId, UrlId

PLANS_PER_CALL = 20


class PlannerOperations(DatabaseSession):
    """The planner's calls."""

    def collections_to_plan(self) -> list[int]:
        return self._transact(lambda work: work.store.planning.collections_to_plan())

    def revisit_pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[RevisitPage]:
        def work(work: PostgresTransaction) -> list[RevisitPage]:
            rows = work.cursor.execute(
                "SELECT page.host, page.id FROM page JOIN url USING (host, collection, id)"
                " WHERE page.collection = %b::bigint AND (page.host, page.id) > (%b::bigint, %b::bytea) AND role = 0"
                " ORDER BY page.host, page.id LIMIT %b::bigint",
                [collection, host, url, ALL_ROWS if limit < 0 else limit],
            ).fetchall()
            keys = [(one, collection, page) for one, page in rows]
            for table in ("page", "url"):
                work.copy.prefetch(table, keys)
            work.copy.prefetch("host", [(one,) for one, _ in rows])
            return work.store.planning.revisit_pages(work.collection(collection), host, url, limit)

        return self._transact(work)

    def revisit_shelves(self, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
        def work(work: PostgresTransaction) -> list[RevisitShelf]:
            hosts = self._shelf_hosts(work, collection, host, limit)
            work.copy.prefetch_first("shelf", [(collection, one) for one in hosts], ALL_ROWS)
            work.copy.prefetch("host", [(one,) for one in hosts])
            return work.store.planning.revisit_shelves(work.collection(collection), host, limit)

        return self._transact(work)

    @staticmethod
    def _shelf_hosts(work: PostgresTransaction, collection: int, host: HostId, limit: int) -> list[HostId]:
        return work.fetch_host_ids(
            "SELECT DISTINCT host FROM shelf WHERE collection = %b::bigint AND host > %b::bigint ORDER BY host"
            " LIMIT %b::bigint",
            collection, host, limit,
        )  # fmt: skip

    def set_price(self, collection: int, price: float) -> None:
        self._transact(lambda work: work.store.planning.set_price(work.collection(collection), price))

    def recompute_due(self, collection: int, host: HostId, limit: int) -> HostId | None:
        def work(work: PostgresTransaction) -> HostId | None:
            hosts, known = self._shelf_hosts(work, collection, host, limit), work.collection(collection)
            work.copy.lock_hosts(hosts)
            work.store.urls.revisits.prefetch_shelves(known, hosts)
            return work.store.planning.recompute_due(known, host, limit)

        return self._transact(work)

    def add_planned_visits(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        def work(work: PostgresTransaction) -> None:
            work.copy.lock_hosts(visit.host for visit in visits)
            ours = [visit for visit in visits if work.copy.is_locked(visit.host)]  # others are another server's
            work.copy.prefetch("due", [(visit.host, collection, number, visit.at, visit.id) for visit in ours])
            work.copy.prefetch("shelf", [(collection, visit.host, number) for visit in ours])
            work.store.planning.add_planned_visits(work.collection(collection), number, ours)

        self._transact(work)

    def activate_plan(self, collection: int, number: int, end: float) -> None:
        self._transact(lambda work: work.store.planning.activate_plan(work.collection(collection), number, end))

    def drop_old_plans(self, collection: int, limit: int) -> int:
        def work(work: PostgresTransaction) -> int:
            known, most = work.collection(collection), min(limit, PLANS_PER_CALL)
            rows = work.cursor.execute(
                "SELECT host, shelf FROM shelf WHERE collection = %b::bigint AND shelf >= 0 AND shelf < %b::bigint"
                " LIMIT %b::bigint",
                [collection, known.tuning.plan, most],
            ).fetchall()
            work.copy.lock_hosts(host for host, _ in rows)
            work.copy.prefetch("shelf", [(collection, host, shelf) for host, shelf in rows])
            work.copy.prefetch_first("due", [(host, collection, shelf) for host, shelf in rows], ALL_ROWS)
            return work.store.planning.drop_old_plans(known, most)

        return self._transact(work)
