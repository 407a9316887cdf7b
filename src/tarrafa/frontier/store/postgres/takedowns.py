"""Which actions of taking down and lifting has this database heard of, and in which order?

Promises: an action has one number; who asks for what comes after a number misses none, because numbers are given by
one at a time, who commits before the next one begins.
"""

import msgspec

from tarrafa.frontier.protocol import ENTRIES_PER_ANSWER, Withholding
from tarrafa.frontier.store.postgres.session import Session, Work
from tarrafa.takedown import Entry, Orders, in_force

TAKEDOWN_LOCK = 0x7A66_0005  # of the one who gives the next numbers

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Entry).decode


class Takedowns(Session):
    """The list that everybody who works for this frontier shares."""

    def withhold(self, entries: list[Entry]) -> None:
        def work(work: Work) -> None:
            work.cursor.execute(f"SELECT pg_advisory_xact_lock({TAKEDOWN_LOCK})")
            work.cursor.execute(
                "INSERT INTO takedown SELECT k.n + (SELECT coalesce(max(number), 0) FROM takedown), k.entry"
                " FROM unnest(%b::bytea[]) WITH ORDINALITY AS k(entry, n) ON CONFLICT DO NOTHING",
                [[_encode(entry) for entry in entries]],
            )

        self._call(work)

    def withheld(self, after: int) -> Withholding:
        with self._directly() as connection:
            rows = connection.execute(
                "SELECT number, entry FROM takedown WHERE number > %s ORDER BY number LIMIT %s",
                (after, ENTRIES_PER_ANSWER),
            ).fetchall()
        return Withholding([_decode(entry) for _, entry in rows], rows[-1][0] if rows else after)

    @staticmethod
    def _orders(work: Work) -> Orders:
        """What is taken down, as far as this server has heard."""
        rows = work.cursor.execute("SELECT entry FROM takedown").fetchall()
        return Orders(in_force(_decode(entry) for (entry,) in rows))
