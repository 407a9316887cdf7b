"""What does a planner ask of one database?

As store/planning.py has it; here is what each of these calls must have at hand.
"""

from tarrafa.frontier.protocol import (
    PageFacts,
    PlannedVisit,
    ShelfFacts,
)
from tarrafa.frontier.store.postgres.parting import Parting
from tarrafa.frontier.store.postgres.session import Work
from tarrafa.frontier.store.schema import ALL
from tarrafa.model import HostId, UrlId

PLANS_PER_CALL = 20


class Plans(Parting):
    """The planner's calls."""

    def unplanned(self) -> list[int]:
        return self._call(lambda work: work.store.planning.unplanned())

    def pages(self, collection: int, host: HostId, url: UrlId, limit: int) -> list[PageFacts]:
        def work(work: Work) -> list[PageFacts]:
            rows = work.cursor.execute(
                "SELECT page.host, page.id FROM page JOIN url USING (host, collection, id)"
                " WHERE page.collection = %b::bigint AND (page.host, page.id) > (%b::bigint, %b::bytea) AND role = 0"
                " ORDER BY page.host, page.id LIMIT %b::bigint",
                [collection, host, url, ALL if limit < 0 else limit],
            ).fetchall()
            keys = [(one, collection, page) for one, page in rows]
            for table in ("page", "url"):
                work.copy.need(table, keys)
            work.copy.need("host", [(one,) for one, _ in rows])
            return work.store.planning.pages(work.known(collection), host, url, limit)

        return self._call(work)

    def shelves(self, collection: int, host: HostId, limit: int) -> list[ShelfFacts]:
        def work(work: Work) -> list[ShelfFacts]:
            hosts = self._shelved(work, collection, host, limit)
            work.copy.need_first("shelf", [(collection, one) for one in hosts], ALL)
            work.copy.need("host", [(one,) for one in hosts])
            return work.store.planning.shelves(work.known(collection), host, limit)

        return self._call(work)

    @staticmethod
    def _shelved(work: Work, collection: int, host: HostId, limit: int) -> list[HostId]:
        return work.hosts_after(
            "SELECT DISTINCT host FROM shelf WHERE collection = %b::bigint AND host > %b::bigint ORDER BY host"
            " LIMIT %b::bigint",
            collection, host, limit,
        )  # fmt: skip

    def price(self, collection: int, price: float) -> None:
        self._call(lambda work: work.store.planning.price(work.known(collection), price))

    def stir(self, collection: int, host: HostId, limit: int) -> HostId | None:
        def work(work: Work) -> HostId | None:
            hosts, known = self._shelved(work, collection, host, limit), work.known(collection)
            work.copy.lock_hosts(hosts)
            work.store.urls.revisits.prepare(known, hosts)
            return work.store.planning.stir(known, host, limit)

        return self._call(work)

    def plan(self, collection: int, number: int, visits: list[PlannedVisit]) -> None:
        def work(work: Work) -> None:
            work.copy.lock_hosts(visit.host for visit in visits)
            here = [visit for visit in visits if work.copy.is_locked(visit.host)]  # others are another server's
            shut = self._shut_hosts(work, (visit.host for visit in here))
            if late := [visit for visit in here if visit.host in shut]:
                self._park(work, "plan", collection, (collection, number, late), 0)
            ours = [visit for visit in here if visit.host not in shut]
            work.copy.need("due", [(visit.host, collection, number, visit.at, visit.id) for visit in ours])
            work.copy.need("shelf", [(collection, visit.host, number) for visit in ours])
            work.store.planning.plan(work.known(collection), number, ours)

        self._call(work)

    def begin_plan(self, collection: int, number: int, end: float) -> None:
        self._call(lambda work: work.store.planning.begin_plan(work.known(collection), number, end))

    def drop_plans(self, collection: int, limit: int) -> int:
        def work(work: Work) -> int:
            known, most = work.known(collection), min(limit, PLANS_PER_CALL)
            rows = work.cursor.execute(
                "SELECT host, shelf FROM shelf WHERE collection = %b::bigint AND shelf >= 0 AND shelf < %b::bigint"
                " LIMIT %b::bigint",
                [collection, known.tuning.plan, most],
            ).fetchall()
            work.copy.lock_hosts(host for host, _ in rows)
            work.copy.need("shelf", [(collection, host, shelf) for host, shelf in rows])
            work.copy.need_first("due", [(host, collection, shelf) for host, shelf in rows], ALL)
            return work.store.planning.drop_plans(known, most)

        return self._call(work)
