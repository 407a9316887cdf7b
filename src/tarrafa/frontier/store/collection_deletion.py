"""Deletion of collections: deletes rows host by host and keeps the log of deleted collections.

A row per name, with the last one of that name: no more is needed to tell pages that are nobody's from those of its
namesake. Promises: it is noted once, when nothing of it is out any more and before its name is free; each note has a
number that is greater than those before, given by one at a time, who commits before the next one begins; so who asks
for what comes after a number misses none. Of two of one name the later one's moment is later, whatever clocks do.

How does a collection go?

Host by host, some rows at a time, the row that names the host's work last; then what hangs below no host; its own row
at the very end, and with it its name. Promises: killed at any moment, whoever calls again goes on; nothing that
another collection has is touched, hosts with their robots.txt, delays and back-off included; its number is never
given again. Nothing is deleted while a visit is out: its record would come after whoever says that the collection is
no more. That is said (deletions.py) before the first row goes.
"""

from tarrafa.clock import Clock
from tarrafa.errors import FrontierError
from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE, DeletedCollection
from tarrafa.frontier.store.collections import DELETING, Collections, LoadedCollection
from tarrafa.frontier.store.counters import KNOWN, Counters, state_bucket
from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.model import HostId, UrlState

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

    def deletions(self, after: int) -> list[DeletedCollection]:
        return [
            DeletedCollection(*row) for row in self._db.rows(DELETIONS_AFTER_SQL, (after, after, ENTRIES_PER_RESPONSE))
        ]

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


DELETING_REASON = "it is being deleted; `tarrafa delete` goes on if it was interrupted"
BELOW_HOSTS = {  # the tables below a host and a collection, and what else their keys are made of
    "pending": "rank, id", "due": "shelf, key, id", "page": "id", "visit": "id, number", "url": "id",
}  # fmt: skip
BELOW_COLLECTION = {"standing": "kept, in_links, host, id", "site": "name"}  # below a collection alone


class CollectionDeleter:
    """What takes a collection out of one frontier."""

    def __init__(
        self,
        db: FrontierDatabase,
        counters: Counters,
        collections: Collections,
        ready: ReadyQueue,
        deletions: CollectionDeletionLog,
    ) -> None:
        self._db, self._counters, self._collections, self._ready = db, counters, collections, ready
        self._deletions = deletions

    def begin(self, known: LoadedCollection) -> bool:
        """It can only be deleted from now on. Whether that may begin: nothing of it is out any more."""
        name, state = known.row.name, known.row.state
        if state == "running":
            raise FrontierError(f"{name}: runs; stop it before it is deleted (`tarrafa stop {name}`)")
        if state != DELETING:
            self._collections.write_state(known, DELETING, DELETING_REASON)
        return self.has_no_visits_out(known)

    def has_no_visits_out(self, known: LoadedCollection) -> bool:
        """Nothing of it is out, nor will ever be."""
        if known.row.state != DELETING:
            raise FrontierError(f"{known.row.name}: is not being deleted")
        return not self._counters.value(known.row.id, state_bucket(UrlState.HANDED_OUT))

    def record_deletion(self, known: LoadedCollection) -> bool:
        """Everybody may hear of it. False: something of it is out."""
        if self.has_no_visits_out(known):
            self._deletions.record(known)
            return True
        return False

    def delete(self, known: LoadedCollection, limit: int) -> bool:
        """So many rows; True: there is more."""
        if not self.begin(known) or limit < 1:
            return True
        self._deletions.record(known)
        number, left = known.row.id, limit
        while left > 0:
            host = self._db.value("SELECT min(host) FROM work WHERE collection = ?", (number,))
            if host is None:
                break
            left = self._delete_host_rows(number, host, left)
        for table, key in BELOW_COLLECTION.items():
            left -= self._delete_rows(table, key, "collection = ?", (number,), left)
        if left <= 0:
            return True
        self._collections.delete(known)
        return False

    def _delete_host_rows(self, number: int, host: HostId, left: int) -> int:
        """Some of what a host has; how many more rows may go."""
        for table, key in BELOW_HOSTS.items():
            gone = self._delete_rows(table, key, "host = ? AND collection = ?", (host, number), left)
            self._counters.add(number, KNOWN, -gone if table == "url" else 0)
            left -= gone
            if left <= 0:
                return 0
        self._ready.remove(host)
        self._db.run("DELETE FROM shelf WHERE collection = ? AND host = ?", (number, host))
        self._db.run("DELETE FROM work WHERE host = ? AND collection = ?", (host, number))
        if self._db.value("SELECT worker FROM host WHERE id = ?", (host,)) is None:
            self._ready.add(host)
        return left - 1

    def _delete_rows(self, table: str, key: str, condition: str, values: tuple[int, ...], limit: int) -> int:
        if limit <= 0:
            return 0
        where = f"({key}) IN (SELECT {key} FROM {table} WHERE {condition} LIMIT ?)"  # noqa: S608 (names of our own)
        return self._db.run(f"DELETE FROM {table} WHERE {condition} AND {where}", (*values, *values, limit))  # noqa: S608
