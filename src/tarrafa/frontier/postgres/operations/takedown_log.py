"""Log of takedowns on the first PostgreSQL server.

Promises: an action has one number; who asks for what comes after a number misses none, because numbers are given by
one at a time, who commits before the next one begins.
"""

import msgspec

from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE, TakedownBatch
from tarrafa.frontier.postgres.database_session import DatabaseSession, PostgresTransaction, in_transaction
from tarrafa.takedown import TakedownEntry, TakedownSet, in_force

TAKEDOWN_LOCK = 0x7A66_0005  # of the one who gives the next numbers

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(TakedownEntry).decode


class PostgresTakedownLog:
    """The list that all workers of this frontier share."""

    def __init__(self, session: DatabaseSession) -> None:
        self._session = session

    @in_transaction
    def record_takedowns(self, work: PostgresTransaction, entries: list[TakedownEntry]) -> None:
        work.cursor.execute(f"SELECT pg_advisory_xact_lock({TAKEDOWN_LOCK})")
        work.cursor.execute(
            "INSERT INTO takedown SELECT k.n + (SELECT coalesce(max(number), 0) FROM takedown), k.entry"
            " FROM unnest(%b::bytea[]) WITH ORDINALITY AS k(entry, n) ON CONFLICT DO NOTHING",
            [[_encode(entry) for entry in entries]],
        )

    def takedowns(self, after: int) -> TakedownBatch:
        with self._session.connection.direct() as connection:
            rows = connection.execute(
                "SELECT number, entry FROM takedown WHERE number > %s ORDER BY number LIMIT %s",
                (after, ENTRIES_PER_RESPONSE),
            ).fetchall()
        return TakedownBatch([_decode(entry) for _, entry in rows], rows[-1][0] if rows else after)

    @staticmethod
    def orders(work: PostgresTransaction) -> TakedownSet:
        """What is taken down, as far as this server has heard."""
        rows = work.cursor.execute("SELECT entry FROM takedown").fetchall()
        return TakedownSet(in_force(_decode(entry) for (entry,) in rows))
