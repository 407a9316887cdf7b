"""Limits of collections (pages_max, requests_max) on one PostgreSQL server: usage, shares and locks."""

from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction
from tarrafa.frontier.store.collections import LimitUsage

LIMIT_LOCK = 0x7A66_0003  # held while the last visits of a collection with a limit are handed out
NEAR_LIMIT = 100_000  # visits per worker: more than any one call hands out


class LimitCalls:
    """Usage of the limits on one server."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    def limit_usage(self) -> dict[int, LimitUsage]:
        return self._session.transact(lambda work: work.store.collections.limit_usage())

    def workers(self) -> int:
        return self._session.transact(lambda work: len(work.copy.rows("SELECT id FROM worker")))

    def share_limits(self, elsewhere: dict[int, LimitUsage]) -> None:
        """Take the usage of other servers, which counts towards the limits too."""
        self._session.collections.elsewhere = elsewhere

    def lock_limits(self) -> None:
        """Lock until `unlock_limits`, or until the connection ends."""
        with self._session.connection.direct() as connection:
            connection.execute(f"SELECT pg_advisory_lock({LIMIT_LOCK}, 0)")

    def unlock_limits(self) -> None:
        with self._session.connection.direct() as connection:
            connection.execute(f"SELECT pg_advisory_unlock({LIMIT_LOCK}, 0)")


def respect_limits(work: PostgresTransaction) -> None:
    """Near a collection's limit one transaction at a time hands out visits, and counts those of the others."""
    catalogue = work.store.collections
    workers = len(work.copy.rows("SELECT id FROM worker"))
    near = [known for known in catalogue.running() if catalogue.free_slots(known) < NEAR_LIMIT * workers]
    if near:
        for known in near:
            work.cursor.execute(f"SELECT pg_advisory_xact_lock({LIMIT_LOCK}, %b::int)", [known.row.id])
        work.counters.refresh()
