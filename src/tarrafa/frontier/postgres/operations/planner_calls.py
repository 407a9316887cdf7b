"""Calls of the revisit planner on one PostgreSQL server.

The store does the work (`store/revisit_plans.py`); each call here names the rows that it needs.
"""

from tarrafa.frontier.messages import PlannedVisit, RevisitPage, RevisitShelf
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.model import HostId, UrlId

PLANS_PER_CALL = 20
PLAN_LOCK = 0x7A66_0004  # held by the process that plans


def may_plan(session: DatabaseSession) -> bool:
    """Whether this process is the one that plans; it is until its connection is lost."""
    return session.connection.try_lock(PLAN_LOCK)


@in_transaction
def revisit_pages(
    work: PostgresTransaction, collection: int, host: HostId, url: UrlId, limit: int
) -> list[RevisitPage]:
    rows = work.cursor.execute(
        "SELECT page.host, page.id FROM page JOIN url USING (host, collection, id)"
        " WHERE page.collection = %b::bigint AND (page.host, page.id) > (%b::bigint, %b::bytea) AND role = 0"
        " ORDER BY page.host, page.id LIMIT %b::bigint",
        [collection, host, url, ALL_ROWS if limit < 0 else limit],
    ).fetchall()
    keys = [(one, collection, page) for one, page in rows]
    for table in ("page", "url"):
        work.db.prefetch(table, keys)
    work.db.prefetch("host", [(one,) for one, _ in rows])
    return work.store.planning.revisit_pages(collection, host, url, limit)


@in_transaction
def revisit_shelves(work: PostgresTransaction, collection: int, host: HostId, limit: int) -> list[RevisitShelf]:
    hosts = _shelf_hosts(work, collection, host, limit)
    work.db.prefetch_first("shelf", [(collection, one) for one in hosts], ALL_ROWS)
    work.db.prefetch("host", [(one,) for one in hosts])
    return work.store.planning.revisit_shelves(collection, host, limit)


def _shelf_hosts(work: PostgresTransaction, collection: int, host: HostId, limit: int) -> list[HostId]:
    return work.fetch_host_ids(
        "SELECT DISTINCT host FROM shelf WHERE collection = %b::bigint AND host > %b::bigint ORDER BY host"
        " LIMIT %b::bigint",
        collection, host, limit,
    )  # fmt: skip


@in_transaction
def recompute_due(work: PostgresTransaction, collection: int, host: HostId, limit: int) -> HostId | None:
    hosts, known = _shelf_hosts(work, collection, host, limit), work.collection(collection)
    work.db.lock_hosts(hosts)
    work.store.urls.revisits.prefetch_shelves(known, hosts)
    return work.store.planning.recompute_due(collection, host, limit)


@in_transaction
def add_planned_visits(work: PostgresTransaction, collection: int, number: int, visits: list[PlannedVisit]) -> None:
    work.db.lock_hosts(visit.host for visit in visits)
    ours = [visit for visit in visits if work.db.is_locked(visit.host)]  # the rest belongs to other servers
    work.db.prefetch("due", [(visit.host, collection, number, visit.at, visit.id) for visit in ours])
    work.db.prefetch("shelf", [(collection, visit.host, number) for visit in ours])
    work.store.planning.add_planned_visits(collection, number, ours)


@in_transaction
def drop_old_plans(work: PostgresTransaction, collection: int, limit: int) -> int:
    known, most = work.collection(collection), min(limit, PLANS_PER_CALL)
    rows = work.cursor.execute(
        "SELECT host, shelf FROM shelf WHERE collection = %b::bigint AND shelf >= 0 AND shelf < %b::bigint"
        " LIMIT %b::bigint",
        [collection, known.tuning.plan, most],
    ).fetchall()
    work.db.lock_hosts(host for host, _ in rows)
    work.db.prefetch("shelf", [(collection, host, shelf) for host, shelf in rows])
    work.db.prefetch_first("due", [(host, collection, shelf) for host, shelf in rows], ALL_ROWS)
    return work.store.planning.drop_old_plans(collection, most)
