"""Which collections were deleted, and when?

A row per name, with the last one of that name: no more is needed to tell pages that are nobody's from those of its
namesake. Promises: it is noted once, when nothing of it is out any more and before its name is free; each note has a
number that is greater than those before, given by one at a time, who commits before the next one begins; so who asks
for what comes after a number misses none. Of two of one name the later one's moment is later, whatever clocks do.
"""

from tarrafa.clock import Clock
from tarrafa.frontier.protocol import ENTRIES_PER_RESPONSE, DeletedCollection
from tarrafa.frontier.store.collections import Collections, LoadedCollection
from tarrafa.frontier.store.schema import FrontierDatabase

TICK_S = 1e-6
# After a number that nobody gave, because this frontier was made anew since, everything is told once more.
DELETIONS_AFTER_SQL = (
    "SELECT number, name, at FROM deleted WHERE number > ? OR (SELECT max(number) FROM deleted) < ?"
    " ORDER BY number LIMIT ?"
)


class CollectionDeletionLog:
    """Those that one frontier knows of; of several servers the first one keeps them."""

    def __init__(self, db: FrontierDatabase, collections: Collections, clock: Clock) -> None:
        self._db, self._collections, self._clock = db, collections, clock

    def record(self, known: LoadedCollection) -> None:
        """It is no more, as of now; noted before, as of then."""
        name, number = known.row.name, known.row.id
        before, at = self._last(name)
        if before != number:
            self._write(name, number, max(self._clock.now(), at + TICK_S))

    def import_deletions(self, moments: dict[str, float]) -> None:
        """Those that were deleted elsewhere, or before this frontier was made anew; but for one that was here then."""
        for name, at in sorted(moments.items(), key=lambda one: one[1]):
            known = self._collections.find(name)
            if at > self._last(name)[1] and (known is None or known.created >= at):
                self._write(name, 0, at)

    def after(self, number: int) -> list[DeletedCollection]:
        return [DeletedCollection(*row) for row in self._db.rows(DELETIONS_AFTER_SQL, (number, number, ENTRIES_PER_RESPONSE))]

    def _last(self, name: str) -> tuple[int, float]:
        """The number of the last collection that had the name and was deleted, and when; -1 and 0: there is none."""
        self._db.prefetch("deleted", [(name,)])
        row = self._db.row("SELECT collection, at FROM deleted WHERE name = ?", (name,))
        return (-1, 0.0) if row is None else (int(row[0]), float(row[1]))

    def _write(self, name: str, collection: int, at: float) -> None:
        self._db.prefetch("number", [("deletions",)])
        number = 1 + int(self._db.value("SELECT value FROM number WHERE name = 'deletions'") or 0)
        self._db.run(
            "INSERT INTO number VALUES ('deletions', ?1) ON CONFLICT (name) DO UPDATE SET value = ?1", (number,)
        )
        self._db.run(
            "INSERT INTO deleted VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE"
            " SET collection = excluded.collection, number = excluded.number, at = excluded.at",
            (name, collection, number, at),
        )
