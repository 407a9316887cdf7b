"""Choice of sites and locks of walks in the `breadth` order on one PostgreSQL server.

As store/breadth.py has it; here is what happens around it: which walks the calls of everyday life concern, and who
chooses the sites that come next.
"""

from tarrafa.frontier.postgres.database_session import TABLE_LOCK, DatabaseSession, PostgresTransaction
from tarrafa.frontier.postgres.working_copy import Row
from tarrafa.model import HostId


class BreadthOperations(DatabaseSession):
    """Walks through sites."""

    def is_over(self, name: str) -> bool:
        """Whether a run has nothing left to do here."""

        def work(work: PostgresTransaction) -> bool:
            known = work.store.collections.find(name)
            return known is None or work.store.urls.breadth.is_over(known)

        return self._transact(work)

    def _choose_sites(self, number: int) -> None:
        """By one at a time: who had to wait finds it done."""

        def work(work: PostgresTransaction) -> None:
            work.cursor.execute(f"SELECT pg_advisory_xact_lock({TABLE_LOCK}, %b::int)", [number])
            self._counters.refresh()
            known = work.collection(number)
            if work.store.visits.needs_sites(known):
                work.store.urls.breadth.choose_sites(known)

        self._transact(work)

    @staticmethod
    def _lock_walks(work: PostgresTransaction, hosts: list[HostId]) -> None:
        """Hosts that come back, and the walks that their visits belong to."""
        walked, pairs = work.breadth_collections(), list[Row]()
        if walked:
            pairs = work.cursor.execute(
                "SELECT DISTINCT collection, host FROM handed WHERE host = ANY(%b::bigint[])"
                " AND collection = ANY(%b::bigint[])",
                [hosts, walked],
            ).fetchall()
        work.copy.lock_walks(((number, host) for number, host in pairs), hosts)

    @staticmethod
    def _acquire_walks(work: PostgresTransaction, number: int) -> None:
        """Of all sites that are at hand."""
        if work.collection(number).order.is_breadth:
            work.copy.acquire_walks(number, [site for (site,) in work.copy.rows("SELECT DISTINCT site FROM host")])
