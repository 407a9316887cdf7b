"""Runs, sweeps and deletions of collections on one PostgreSQL server.

The store does the work (`store/runs.py`, `store/collections.py`); each call here names the rows that it needs.
Rows to delete, or to sweep, are selected by the database itself.
"""

from collections.abc import Callable

from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE, CollectionRow, DeletedCollection
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.store.collections import BELOW_COLLECTION, BELOW_HOSTS, DELETING, DELETIONS_AFTER_SQL
from tarrafa.frontier.store.runs import HOSTS_PER_SWEEP, OF_EARLIER, check_can_begin_run, roots_of
from tarrafa.i18n import Message

HOSTS_PER_DELETION = 100
EARLIER = OF_EARLIER.replace("?", "%b::bigint")


class RunCalls:
    """Runs of collections, and their end. `keeps` says whether a host belongs to this server."""

    def __init__(self, session: DatabaseSession, keeps: Callable[[str], bool]) -> None:
        self._session, self._keeps = session, keeps

    def begin_run(self, name: str, reason: Message | str) -> CollectionRow:
        return self._begin_run(name, reason, None)

    def join_run(self, row: CollectionRow) -> None:
        """Begin a run that the first of several servers has begun."""
        self._begin_run(row.name, row.reason, row.run)

    def _begin_run(self, name: str, reason: Message | str, run: int | None) -> CollectionRow:
        self._session.reserve_sequence(
            self._session.transact(lambda work: len(work.store.collections.by_name(name).config.roots))
        )

        def work(work: PostgresTransaction) -> CollectionRow:
            known = work.store.collections.by_name(name)
            if run is None:
                check_can_begin_run(known)
            elif known.run >= run:
                return known.row
            roots = [root for root in roots_of(known) if self._keeps(root.host_key)]
            work.receive_hosts(((root.host, root.host_key) for root in roots), known)
            work.store.runs.begin(known, reason, run or known.run + 1, roots)
            return known.row

        return self._session.transact(work, alone=True)

    @in_transaction
    def sweep(self, work: PostgresTransaction, name: str, limit: int) -> bool:
        known, runs, most = work.store.collections.by_name(name), work.store.runs, max(1, limit)
        if not runs.needs_sweep(known):
            return False
        first, after = runs.sweep_position(known)
        hosts = work.fetch_host_ids(
            "SELECT host FROM work WHERE collection = %b::bigint AND host >= %b::bigint ORDER BY host"
            " LIMIT %b::bigint",
            known.row.id, first, HOSTS_PER_SWEEP,
        )  # fmt: skip
        rows = work.cursor.execute(
            f"SELECT host, id FROM url WHERE host = ANY(%b::bigint[]) AND {EARLIER}"
            " AND (host, id) > (%b::bigint, %b::bytea) ORDER BY host, id LIMIT %b::bigint",
            [hosts, known.row.id, known.run, first, after, most],
        ).fetchall()
        keys = [(host, known.row.id, url) for host, url in rows]
        work.copy.lock_hosts(host for host, _, _ in keys)
        work.copy.prefetch("url", keys)
        runs.dismiss(known, keys)
        return runs.advance(known, keys[-1] if len(keys) >= most else None, hosts)

    # -- deleting -------------------------------------------------------------------------------------------------

    def has_no_visits_out(self, name: str, *, is_first: bool = True) -> bool:
        """Whether no visit of it is handed out. Checked twice, the second time alone, so that a transaction that is
        just handing out is waited for. A server that is not the first may not know the collection's state yet."""

        def work(work: PostgresTransaction) -> bool:
            known = work.store.collections.by_name(name) if is_first else work.store.collections.find(name)
            if known is None or not (is_first or known.row.state == DELETING):
                return known is None
            return work.store.deleter.has_no_visits_out(known)

        return self._session.transact(work) and self._session.transact(work, alone=True)

    def record_deletion(self, name: str) -> bool:
        """Note the deletion on the first of several servers, when no server has a visit of it handed out."""
        return self._session.transact(
            lambda work: work.store.deleter.record_deletion(work.store.collections.by_name(name))
        )

    def deletions(self, after: int) -> list[DeletedCollection]:
        with self._session.connection.direct() as connection:
            sql = DELETIONS_AFTER_SQL.replace("?", "%s").encode()
            rows = connection.execute(sql, (after, after, ENTRIES_PER_RESPONSE)).fetchall()
        return [DeletedCollection(*row) for row in rows]

    def delete_collection(self, name: str, limit: int, *, is_first: bool = True) -> bool:
        """True: there are more rows. On a server that is not the first, the collection may be deleted already."""

        def some(work: PostgresTransaction) -> bool | None:
            known = work.store.collections.by_name(name) if is_first else work.store.collections.find(name)
            if known is None:
                return False
            if not work.store.deleter.begin(known) or limit < 1:
                return True
            if is_first:
                work.store.deletion_log.record(known)
            return self._delete_some(work, known.row.id, limit)

        def rest(work: PostgresTransaction) -> bool:
            known = work.store.collections.by_name(name)
            work.cursor.execute("DELETE FROM token WHERE collection = %b::bigint", [known.row.id])
            work.store.collections.delete(known)
            return False

        more = self._session.transact(some)
        return self._session.transact(rest, alone=True) if more is None else more

    def _delete_some(self, work: PostgresTransaction, number: int, limit: int) -> bool | None:
        """Delete some rows; None: no rows are left below the collection."""
        hosts = work.fetch_host_ids(
            "SELECT host FROM work WHERE collection = %b::bigint ORDER BY host LIMIT %b::bigint",
            number, HOSTS_PER_DELETION,
        )  # fmt: skip
        work.cursor.execute("SELECT id FROM host WHERE id = ANY(%b::bigint[]) ORDER BY id FOR UPDATE", [hosts])
        left = limit
        for table in BELOW_HOSTS if hosts else ():
            left -= self._delete_rows(work, table, "host = ANY(%b::bigint[]) AND collection = %b::bigint",
                                      [hosts, number], left)  # fmt: skip
            if left <= 0:
                return True
        for table in ("shelf", "ready", "work") if hosts else ():
            work.cursor.execute(
                f"DELETE FROM {table} WHERE collection = %b::bigint AND host = ANY(%b::bigint[])", [number, hosts]
            )
        if hosts:
            return True
        for table in BELOW_COLLECTION:
            left -= self._delete_rows(work, table, "collection = %b::bigint", [number], left)
        return True if left <= 0 else None

    @staticmethod
    def _delete_rows(work: PostgresTransaction, table: str, condition: str, values: list[object], limit: int) -> int:
        return work.cursor.execute(
            f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT %b::bigint))",
            [*values, max(0, limit)],
        ).rowcount
