"""Collections on one PostgreSQL server: opening, changes of configuration, states, runs and sweeps.

The store does the work (`store/sqlite_frontier.py`, `store/runs.py`); each call here names the rows that it needs. A
change of configuration goes through the hosts of the collection some hundreds at a time, in one transaction.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter

from tarrafa.config import Collection
from tarrafa.frontier.messages import CollectionRow, DiscoveredUrl, FrontierCollectionState
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.postgres.operations.deletion_calls import takedowns_in_force
from tarrafa.frontier.postgres.row_cache import Row
from tarrafa.frontier.store.collections import DELETING, LoadedCollection
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.frontier.store.runs import HOSTS_PER_SWEEP, OF_EARLIER, check_can_begin_run, roots_of
from tarrafa.i18n import Message
from tarrafa.model import HostId

HOSTS_PER_CHANGE = 500

ServerIdOf = Callable[[str], str]  # the server that keeps a host, by the host's key


def open_collection(
    session: DatabaseSession,
    config: bytes,
    roots: list[DiscoveredUrl],
    number: int | None = None,
    *,
    start: bool = True,
    is_over_elsewhere: bool = True,
) -> CollectionRow:
    """Open a collection. `is_over_elsewhere`: with several servers, a run is over when it is over on all of them."""
    session.reserve_sequence(len(roots))

    def change(work: PostgresTransaction) -> CollectionRow:
        finished = {known.row.id for known in work.store.collections.all() if known.row.state == "finished"}
        known, before = work.store.collections.open(config, number, start=start)
        if before is not None:
            work.store.begin_config_change(known, before)
            _change(work, known.row.id, before, start=start)
            if start and known.row.id in finished and is_over_elsewhere:
                _restart_breadth(work, known.row.id)
        known = work.collection(known.row.id)
        _seed(work, known, roots)
        return known.row

    return session.transact(change, alone=True)


def _seed(work: PostgresTransaction, known: LoadedCollection, roots: list[DiscoveredUrl]) -> None:
    work.receive_hosts(((root.host, root.host_key) for root in roots), known)
    work.store.urls.seed(known.row.id, roots)


def seed(session: DatabaseSession, collection: int, roots: list[DiscoveredUrl]) -> None:
    """Add more roots to an open collection."""
    session.reserve_sequence(len(roots))
    session.transact(lambda work: _seed(work, work.collection(collection), roots))


def _change(work: PostgresTransaction, number: int, before: Collection, *, start: bool) -> None:
    takedowns = takedowns_in_force(work)
    for hosts in _site_by_site(work, number):
        for table in ("url", "pending", "page", "due", "visit"):
            work.db.prefetch_first(table, [(host, number) for host in hosts], ALL_ROWS)
        work.db.prefetch_first("shelf", [(number, host) for host in hosts], ALL_ROWS)
        _prefetch_standing(work, number)
        work.acquire_walks(number)
        work.store.apply_config_change(work.collection(number), before, takedowns.covers, start=start)
    work.store.end_config_change(work.collection(number), before)
    work.flush()


def _restart_breadth(work: PostgresTransaction, number: int) -> None:
    if work.collection(number).order.is_breadth and work.store.urls.breadth.is_over(work.collection(number)):
        for _ in _site_by_site(work, number):
            work.acquire_walks(number)
            work.store.urls.breadth.restart(work.collection(number))


def _site_by_site(work: PostgresTransaction, number: int) -> Iterator[list[HostId]]:
    """A collection's hosts, whole sites together: memory holds some of them at a time, the transaction all."""
    rows = work.cursor.execute(
        "SELECT host.id, site FROM work JOIN host ON host.id = work.host WHERE collection = %b::bigint"
        " ORDER BY site, host.id",
        [number],
    ).fetchall()
    for hosts in _chunks(rows):
        work.flush()
        work.db.lock_hosts(hosts)
        sites = [site for (site,) in work.db.rows("SELECT DISTINCT site FROM host")]
        work.db.prefetch("site", [(number, site) for site in sites])
        yield hosts
    work.flush()


def _prefetch_standing(work: PostgresTransaction, number: int) -> None:
    """Read the whole table, because no prefix of its key fits; this happens rarely."""
    urls = work.db.rows("SELECT host, id, in_links FROM url WHERE collection = ?", (number,))
    work.db.prefetch("standing", [(number, kept, links, host, url) for host, url, links in urls for kept in (0, 1)])


def collection_states(session: DatabaseSession) -> list[FrontierCollectionState]:
    """Read every second by every process, so without the cost of a transaction's start."""
    return [
        FrontierCollectionState(*row)
        for row in session.connection.read("SELECT id, state, revision, name FROM collection ORDER BY id")
    ]


def sync_collections(session: DatabaseSession, rows: list[CollectionRow], server_id_of: ServerIdOf) -> None:
    """Make the collections equal to those of the first of several servers."""
    mine = {row.id: row for row in session.transact(lambda work: work.store.collections.rows())}
    for row in rows:
        here = mine.get(row.id)
        if here == row or (here is None and row.state == DELETING):
            continue
        if here is None or here.config != row.config:  # this server missed the change
            starts = row.state == "running"
            here = open_collection(session, row.config, [], row.id, start=starts, is_over_elsewhere=False)
        if here.run < row.run:
            begin_run(session, row.name, row.reason, server_id_of, row.run)

        def change(work: PostgresTransaction, row: CollectionRow = row) -> None:
            work.store.collections.set_revision(work.collection(row.id), row.revision)
            work.store.collections.write_state(work.collection(row.id), row.state, row.reason)

        session.transact(change)


@in_transaction
def is_over(work: PostgresTransaction, name: str) -> bool:
    """Whether a run has nothing left to do on this server."""
    known = work.store.collections.find(name)
    return known is None or work.store.urls.breadth.is_over(known)


def _chunks(rows: list[Row]) -> Iterator[list[HostId]]:
    """Some hundreds of hosts at a time; those of one site stay together."""
    chunk: list[HostId] = []
    for _, of_site in groupby(rows, key=itemgetter(1)):
        chunk += [host for host, _ in of_site]
        if len(chunk) >= HOSTS_PER_CHANGE:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


# -- runs -------------------------------------------------------------------------------------------------------------


def begin_run(
    session: DatabaseSession,
    name: str,
    reason: Message | str,
    server_id_of: ServerIdOf | None = None,
    run: int | None = None,
) -> CollectionRow:
    """Begin the next run; with a number: that run, which the first of several servers has begun. A server has the
    roots of its own hosts."""
    session.reserve_sequence(session.transact(lambda work: len(work.store.collections.by_name(name).config.roots)))

    def change(work: PostgresTransaction) -> CollectionRow:
        known = work.store.collections.by_name(name)
        if run is None:
            check_can_begin_run(known)
        elif known.run >= run:
            return known.row
        roots = [root for root in roots_of(known) if server_id_of is None or server_id_of(root.host_key) == session.id]
        work.receive_hosts(((root.host, root.host_key) for root in roots), known)
        work.store.runs.begin(known, reason, run or known.run + 1, roots)
        return known.row

    return session.transact(change, alone=True)


@in_transaction
def sweep(work: PostgresTransaction, name: str, limit: int) -> bool:
    known, runs, most = work.store.collections.by_name(name), work.store.runs, max(1, limit)
    if not runs.needs_sweep(known):
        return False
    position, number = runs.sweep_position(known), known.row.id
    hosts, keys = work.find_urls(known, position, HOSTS_PER_SWEEP, most, OF_EARLIER, number, known.run)
    work.db.lock_hosts(host for host, _, _ in keys)
    work.db.prefetch("url", keys)
    runs.dismiss(known, keys)
    return runs.advance(known, keys[-1] if len(keys) >= most else None, hosts)
