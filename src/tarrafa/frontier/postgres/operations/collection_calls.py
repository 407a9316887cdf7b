"""Collections on one PostgreSQL server: opening, changes of configuration, states.

The store does the work (store/frontier_store.py); each call here says which rows it needs. A change of configuration
goes through the hosts of the collection some hundreds at a time, in one transaction.
"""

from collections.abc import Iterator

from tarrafa.config import Collection
from tarrafa.frontier.messages import CollectionRow, DiscoveredUrl, FrontierCollectionState
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.postgres.operations.run_calls import RunCalls
from tarrafa.frontier.postgres.operations.takedown_log import PostgresTakedownLog
from tarrafa.frontier.postgres.working_copy import Row
from tarrafa.frontier.store.collections import DELETING, LoadedCollection
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.model import HostId

HOSTS_PER_CHANGE = 500


class CollectionCalls:
    """The collections of one server."""

    def __init__(self, session: DatabaseSession, runs: RunCalls, takedowns: PostgresTakedownLog) -> None:
        self._session, self._runs, self._takedowns = session, runs, takedowns

    def open_collection(
        self,
        config: bytes,
        roots: list[DiscoveredUrl],
        number: int | None = None,
        *,
        start: bool = True,
        is_over_elsewhere: bool = True,
    ) -> CollectionRow:
        """Elsewhere: where there are several servers, a run is over when it is on all of them."""
        self._session.reserve_sequence(len(roots))

        def work(work: PostgresTransaction) -> CollectionRow:
            finished = {known.row.id for known in work.store.collections.all() if known.row.state == "finished"}
            known, before = work.store.collections.open(config, number, start=start)
            if before is not None:
                work.store.is_taken_down = self._takedowns.orders(work).covers
                work.store.begin_config_change(known, before)
                self._change(work, known.row.id, before, start=start)
                if start and known.row.id in finished and is_over_elsewhere:
                    self._restart_breadth(work, known.row.id)
            known = work.collection(known.row.id)
            self._seed(work, known, roots)
            return known.row

        return self._session.transact(work, alone=True)

    def _seed(self, work: PostgresTransaction, known: LoadedCollection, roots: list[DiscoveredUrl]) -> None:
        work.receive_hosts(((root.host, root.host_key) for root in roots), known)
        work.store.urls.seed(known.row.id, roots)

    def seed(self, collection: int, roots: list[DiscoveredUrl]) -> None:
        """More roots of a collection that was opened."""
        self._session.reserve_sequence(len(roots))
        self._session.transact(lambda work: self._seed(work, work.collection(collection), roots))

    def _change(self, work: PostgresTransaction, number: int, before: Collection, *, start: bool) -> None:
        for hosts in self._site_by_site(work, number):
            for table in ("url", "pending", "page", "due", "visit"):
                work.copy.prefetch_first(table, [(host, number) for host in hosts], ALL_ROWS)
            work.copy.prefetch_first("shelf", [(number, host) for host in hosts], ALL_ROWS)
            self._prefetch_standing(work, number)
            work.acquire_walks(number)
            work.store.apply_config_change(work.collection(number), before, start=start)
        work.store.end_config_change(work.collection(number), before)
        work.flush()

    def _restart_breadth(self, work: PostgresTransaction, number: int) -> None:
        if work.collection(number).order.is_breadth and work.store.urls.breadth.is_over(work.collection(number)):
            for _ in self._site_by_site(work, number):
                work.acquire_walks(number)
                work.store.urls.breadth.restart(work.collection(number))

    def _site_by_site(self, work: PostgresTransaction, number: int) -> Iterator[list[HostId]]:
        """A collection's hosts, whole sites together: memory holds some of them only, but the transaction all."""
        rows = work.cursor.execute(
            "SELECT host.id, site FROM work JOIN host ON host.id = work.host WHERE collection = %b::bigint"
            " ORDER BY site, host.id",
            [number],
        ).fetchall()
        for hosts in _chunks(rows):
            work.flush()
            work.copy.lock_hosts(hosts)
            sites = [site for (site,) in work.copy.rows("SELECT DISTINCT site FROM host")]
            work.copy.prefetch("site", [(number, site) for site in sites])
            yield hosts
        work.flush()

    @staticmethod
    def _prefetch_standing(work: PostgresTransaction, number: int) -> None:
        """By no prefix of its key: read as a whole, the few times that this happens."""
        urls = work.copy.rows("SELECT host, id, in_links FROM url WHERE collection = ?", (number,))
        work.copy.prefetch(
            "standing", [(number, kept, links, host, url) for host, url, links in urls for kept in (0, 1)]
        )

    def collection_states(self) -> list[FrontierCollectionState]:
        """Asked every second by everybody: without what a transaction needs to begin."""
        return [
            FrontierCollectionState(*row)
            for row in self._session.connection.read("SELECT id, state, revision, name FROM collection ORDER BY id")
        ]

    def sync_collections(self, rows: list[CollectionRow]) -> None:
        """The collections are as the first of several servers has them."""
        mine = {row.id: row for row in self._session.transact(lambda work: work.store.collections.rows())}
        for row in rows:
            here = mine.get(row.id)
            if here == row or (here is None and row.state == DELETING):
                continue
            if here is None or here.config != row.config:  # nobody asked us then
                starts = row.state == "running"
                here = self.open_collection(row.config, [], row.id, start=starts, is_over_elsewhere=False)
            if here.run < row.run:
                self._runs.join_run(row)

            def work(work: PostgresTransaction, row: CollectionRow = row) -> None:
                work.store.collections.set_revision(work.collection(row.id), row.revision)
                work.store.collections.write_state(work.collection(row.id), row.state, row.reason)

            self._session.transact(work)

    @in_transaction
    def is_over(self, work: PostgresTransaction, name: str) -> bool:
        """Whether a run has nothing left to do here."""
        known = work.store.collections.find(name)
        return known is None or work.store.urls.breadth.is_over(known)


def _chunks(rows: list[Row]) -> Iterator[list[HostId]]:
    """Some hundreds of hosts at a time; those of one site stay together."""
    chunk: list[HostId] = []
    before = None
    for host, site in rows:
        if len(chunk) >= HOSTS_PER_CHANGE and site != before:
            yield chunk
            chunk = []
        chunk.append(host)
        before = site
    if chunk:
        yield chunk
