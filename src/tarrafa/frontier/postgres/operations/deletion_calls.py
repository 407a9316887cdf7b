"""Deleted collections, forgotten hosts and takedowns on one PostgreSQL server.

The store does the work (`store/collections.py`, `store/host_removal.py`); each call here names the rows that it needs.
Rows to delete are selected by the database itself. Takedowns are logged on the first server.
Promises: each entry of the takedown log has one number; a reader that asks for the entries after a number misses none,
because one process at a time assigns numbers, and commits before the next one begins.
"""

import msgspec

from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE, DeletedCollection, TakedownBatch
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.frontier.postgres.note_segments import is_name_free
from tarrafa.frontier.store.collections import BELOW_COLLECTION, BELOW_HOSTS, DELETING, DELETIONS_AFTER_SQL
from tarrafa.frontier.store.database import ALL_ROWS
from tarrafa.model import HostId
from tarrafa.takedown import TakedownEntry, TakedownSet, in_force

HOSTS_PER_DELETION = 100
TAKEDOWN_LOCK = 0x7A66_0006  # held while numbers are assigned

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TakedownEntry).decode


def has_no_visits_out(session: DatabaseSession, name: str, *, is_first: bool = True) -> bool:
    """Whether no visit of it is handed out. Checked twice, the second time alone, so that a transaction that is
    just handing out is waited for. A server that is not the first may not know the collection's state yet."""

    def change(work: PostgresTransaction) -> bool:
        known = work.store.collections.by_name(name) if is_first else work.store.collections.find(name)
        if known is None or not (is_first or known.row.state == DELETING):
            return known is None
        return work.store.deleter.has_no_visits_out(known)

    return session.transact(change) and session.transact(change, alone=True)


def record_deletion(session: DatabaseSession, name: str) -> bool:
    """Note the deletion on the first of several servers, when no server has a visit of it handed out. With a segment
    log, it is a note there; False: until a collection of that name could not be taken for the deleted one."""

    def change(work: PostgresTransaction) -> bool:
        if not work.store.deleter.record_deletion(work.store.collections.by_name(name)):
            return False
        clock = work.store.time()
        work.append_log_notes(clock.scale)
        return is_name_free(work.cursor.connection, name, clock.now, clock.scale)

    return session.transact(change)


@in_transaction
def import_deletions(work: PostgresTransaction, moments: dict[str, float]) -> None:
    work.store.deletion_log.import_deletions(moments)
    work.append_log_notes()


def deletions(session: DatabaseSession, after: int) -> list[DeletedCollection]:
    with session.connection.direct() as connection:
        sql = DELETIONS_AFTER_SQL.replace("?", "%s").encode()
        rows = connection.execute(sql, (after, after, ENTRIES_PER_RESPONSE)).fetchall()
    return [DeletedCollection(*row) for row in rows]


def delete_collection(session: DatabaseSession, name: str, limit: int, *, is_first: bool = True) -> bool:
    """True: there are more rows. On a server that is not the first, the collection may be deleted already."""

    def some(work: PostgresTransaction) -> bool | None:
        known = work.store.collections.by_name(name) if is_first else work.store.collections.find(name)
        if known is None:
            return False
        if not work.store.deleter.begin(known) or limit < 1:
            return True
        if is_first:
            work.store.deletion_log.record(known)
            work.append_log_notes(work.store.time().scale)
        return _delete_some(work, known.row.id, limit)

    def rest(work: PostgresTransaction) -> bool:
        known = work.store.collections.by_name(name)
        work.cursor.execute("DELETE FROM token WHERE collection = %b::bigint", [known.row.id])
        work.store.collections.delete(known)
        return False

    more = session.transact(some)
    return session.transact(rest, alone=True) if more is None else more


def _delete_some(work: PostgresTransaction, number: int, limit: int) -> bool | None:
    """Delete some rows; None: no rows are left below the collection."""
    hosts = work.fetch_host_ids(
        "SELECT host FROM work WHERE collection = %b::bigint ORDER BY host LIMIT %b::bigint",
        number,
        HOSTS_PER_DELETION,
    )
    left = limit
    if not hosts:
        for table in BELOW_COLLECTION:
            left -= _delete_rows(work, table, "collection = %b::bigint", [number], left)
        return True if left <= 0 else None
    work.cursor.execute("SELECT id FROM host WHERE id = ANY(%b::bigint[]) ORDER BY id FOR UPDATE", [hosts])
    of_hosts = "collection = %b::bigint AND host = ANY(%b::bigint[])"
    for table in BELOW_HOSTS:
        left -= _delete_rows(work, table, of_hosts, [number, hosts], left)
        if left <= 0:
            return True
    for table in ("shelf", "ready", "work"):
        work.cursor.execute(f"DELETE FROM {table} WHERE {of_hosts}", [number, hosts])
    return True


def _delete_rows(work: PostgresTransaction, table: str, condition: str, values: list[object], limit: int) -> int:
    return work.cursor.execute(
        f"DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM {table} WHERE {condition} LIMIT %b::bigint))",
        [*values, max(0, limit)],
    ).rowcount


# -- takedowns --------------------------------------------------------------------------------------------------------


@in_transaction
def record_takedowns(work: PostgresTransaction, entries: list[TakedownEntry]) -> None:
    work.cursor.execute(f"SELECT pg_advisory_xact_lock({TAKEDOWN_LOCK})")
    work.cursor.execute(
        "INSERT INTO takedown SELECT k.n + (SELECT coalesce(max(number), 0) FROM takedown), k.entry"
        " FROM unnest(%b::bytea[]) WITH ORDINALITY AS k(entry, n) ON CONFLICT DO NOTHING",
        [[_encode(entry) for entry in entries]],
    )
    work.append_log_notes()


def takedowns(session: DatabaseSession, after: int) -> TakedownBatch:
    with session.connection.direct() as connection:
        rows = connection.execute(
            "SELECT number, entry FROM takedown WHERE number > %s ORDER BY number LIMIT %s",
            (after, ENTRIES_PER_RESPONSE),
        ).fetchall()
    return TakedownBatch([_decode(entry) for _, entry in rows], rows[-1][0] if rows else after)


def takedowns_in_force(work: PostgresTransaction) -> TakedownSet:
    """The takedowns that this server knows."""
    rows = work.cursor.execute("SELECT entry FROM takedown").fetchall()
    return TakedownSet(in_force(_decode(entry) for (entry,) in rows))


@in_transaction
def forget_host(work: PostgresTransaction, host: HostId) -> None:
    db = work.db
    db.lock_site_sessions(((number, host) for number in work.breadth_collections()), [host])
    for table in ("url", "visit", "pending", "page", "due"):
        db.prefetch_first(table, [(host,)], ALL_ROWS)
    db.prefetch_first("shelf", db.rows("SELECT collection, host FROM work"), ALL_ROWS)
    db.prefetch("site", db.rows("SELECT collection, site FROM work JOIN host ON host.id = work.host"))
    work.store.removal.forget(host)
