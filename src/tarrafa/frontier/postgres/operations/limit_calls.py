"""Limits of collections (pages_max, requests_max) on one PostgreSQL server: usage, shares and locks."""

from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction
from tarrafa.frontier.store.collections import LimitUsage

LIMIT_LOCK = 0x7A66_0003  # held by who hands out the last visits of a collection with a limit
NEAR_LIMIT = 100_000  # visits per worker: more than any one call hands out


class LimitCalls:
    """What one server has used of the limits."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    def limit_usage(self) -> dict[int, LimitUsage]:
        return self._session.transact(lambda work: work.store.collections.limit_usage())

    def workers(self) -> int:
        return self._session.transact(lambda work: len(work.copy.rows("SELECT id FROM worker")))

    def share_limits(self, elsewhere: dict[int, LimitUsage]) -> None:
        """What other servers have of the collections counts towards their limits too."""
        self._session.collections.elsewhere = elsewhere

    def lock_limits(self) -> None:
        """Held until it is given back, or until we are gone."""
        with self._session.connection.direct() as connection:
            connection.execute(f"SELECT pg_advisory_lock({LIMIT_LOCK}, 0)")

    def unlock_limits(self) -> None:
        with self._session.connection.direct() as connection:
            connection.execute(f"SELECT pg_advisory_unlock({LIMIT_LOCK}, 0)")


def respect_limits(work: PostgresTransaction) -> None:
    """Near a collection's limit visits are handed out by one at a time, who counts what the others have."""
    catalogue = work.store.collections
    workers = len(work.copy.rows("SELECT id FROM worker"))
    near = [known for known in catalogue.running() if catalogue.free_slots(known) < NEAR_LIMIT * workers]
    if near:
        for known in near:
            work.cursor.execute(f"SELECT pg_advisory_xact_lock({LIMIT_LOCK}, %b::int)", [known.row.id])
        work.counters.refresh()
