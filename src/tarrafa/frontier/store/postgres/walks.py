"""What does the order of breadth ask of one database?

As store/breadth.py has it; here is what happens around it: which walks the calls of everyday life concern, and who
chooses the sites that come next.
"""

from tarrafa.frontier.store.postgres.copy import Row
from tarrafa.frontier.store.postgres.session import TABLE_LOCK, Session, Work
from tarrafa.model import HostId


class Walks(Session):
    """Walks through sites."""

    def is_over(self, name: str) -> bool:
        """Whether a run has nothing left to do here."""

        def work(work: Work) -> bool:
            known = work.store.catalogue.find(name)
            return known is None or work.store.urls.breadth.is_over(known)

        return self._call(work)

    def _choose_sites(self, number: int) -> None:
        """By one at a time: who had to wait finds it done."""

        def work(work: Work) -> None:
            work.cursor.execute(f"SELECT pg_advisory_xact_lock({TABLE_LOCK}, %b::int)", [number])
            self._counters.refresh()
            known = work.known(number)
            if work.store.visits.wants_sites(known):
                work.store.urls.breadth.cycle(known)

        self._call(work)

    @staticmethod
    def _lock_walks(work: Work, hosts: list[HostId]) -> None:
        """Hosts that come back, and the walks that their visits belong to."""
        walked, pairs = work.walked(), list[Row]()
        if walked:
            pairs = work.cursor.execute(
                "SELECT DISTINCT collection, host FROM handed WHERE host = ANY(%b::bigint[])"
                " AND collection = ANY(%b::bigint[])",
                [hosts, walked],
            ).fetchall()
        work.copy.lock_walks(((number, host) for number, host in pairs), hosts)

    @staticmethod
    def _need_walks(work: Work, number: int) -> None:
        """Of all sites that are at hand."""
        if work.known(number).order.is_breadth:
            work.copy.need_walks(number, [site for (site,) in work.copy.rows("SELECT DISTINCT site FROM host")])
