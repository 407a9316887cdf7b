"""Calls of the revisit planner on one PostgreSQL server.

The store does the work (`store/revisits.py`); each call here names the rows that it needs.
"""

from tarrafa.frontier.messages import PlannedVisit, RevisitPage, RevisitShelf
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.model import HostId, UrlId

PLANS_PER_CALL = 20
PLAN_LOCK = 0x7A66_0004  # held by the process that plans


class PlannerCalls:
    """Reads and writes of the planner on one server."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session
        self._locked_at_loss: int | None = None  # see `may_plan`

    def may_plan(self) -> bool:
        """Whether this process is the one that plans; it is until its connection is lost."""
        connection = self._session.connection
        with connection.direct() as direct:
            if self._locked_at_loss != connection.losses:
                row = direct.execute(f"SELECT pg_try_advisory_lock({PLAN_LOCK})").fetchone()
                self._locked_at_loss = connection.losses if row is not None and row[0] else None
        return self._locked_at_loss is not None

    @in_transaction
    def revisit_pages(
        self, work: PostgresTransaction, collection: int, host: HostId, url: UrlId, limit: int
    ) -> list[RevisitPage]:
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
        return work.store.planning.revisit_pages(collection, host, url, limit)

    @in_transaction
    def revisit_shelves(
        self, work: PostgresTransaction, collection: int, host: HostId, limit: int
    ) -> list[RevisitShelf]:
        hosts = self._shelf_hosts(work, collection, host, limit)
        work.copy.prefetch_first("shelf", [(collection, one) for one in hosts], ALL_ROWS)
        work.copy.prefetch("host", [(one,) for one in hosts])
        return work.store.planning.revisit_shelves(collection, host, limit)

    @staticmethod
    def _shelf_hosts(work: PostgresTransaction, collection: int, host: HostId, limit: int) -> list[HostId]:
        return work.fetch_host_ids(
            "SELECT DISTINCT host FROM shelf WHERE collection = %b::bigint AND host > %b::bigint ORDER BY host"
            " LIMIT %b::bigint",
            collection, host, limit,
        )  # fmt: skip

    @in_transaction
    def recompute_due(self, work: PostgresTransaction, collection: int, host: HostId, limit: int) -> HostId | None:
        hosts, known = self._shelf_hosts(work, collection, host, limit), work.collection(collection)
        work.copy.lock_hosts(hosts)
        work.store.urls.revisits.prefetch_shelves(known, hosts)
        return work.store.planning.recompute_due(collection, host, limit)

    @in_transaction
    def add_planned_visits(
        self, work: PostgresTransaction, collection: int, number: int, visits: list[PlannedVisit]
    ) -> None:
        work.copy.lock_hosts(visit.host for visit in visits)
        ours = [visit for visit in visits if work.copy.is_locked(visit.host)]  # the rest belongs to other servers
        work.copy.prefetch("due", [(visit.host, collection, number, visit.at, visit.id) for visit in ours])
        work.copy.prefetch("shelf", [(collection, visit.host, number) for visit in ours])
        work.store.planning.add_planned_visits(collection, number, ours)

    @in_transaction
    def drop_old_plans(self, work: PostgresTransaction, collection: int, limit: int) -> int:
        known, most = work.collection(collection), min(limit, PLANS_PER_CALL)
        rows = work.cursor.execute(
            "SELECT host, shelf FROM shelf WHERE collection = %b::bigint AND shelf >= 0 AND shelf < %b::bigint"
            " LIMIT %b::bigint",
            [collection, known.tuning.plan, most],
        ).fetchall()
        work.copy.lock_hosts(host for host, _ in rows)
        work.copy.prefetch("shelf", [(collection, host, shelf) for host, shelf in rows])
        work.copy.prefetch_first("due", [(host, collection, shelf) for host, shelf in rows], ALL_ROWS)
        return work.store.planning.drop_old_plans(collection, most)
