"""How does a collection go?

Host by host, some rows at a time, the row that names the host's work last; then what hangs below no host; its own row
at the very end, and with it its name. Promises: killed at any moment, whoever calls again goes on; nothing that another
collection has is touched, hosts with their robots.txt, delays and back-off included; its number is never given again.
Nothing is deleted while a visit is out: its record would come after whoever says that the collection is no more. That
is said (deletions.py) before the first row goes.
"""

from tarrafa.errors import FrontierError
from tarrafa.frontier.store.collections import DELETING, KNOWN, Collections, Counters, LoadedCollection, state_bucket
from tarrafa.frontier.store.deletions import CollectionDeletionLog
from tarrafa.frontier.store.ready import ReadyQueue
from tarrafa.frontier.store.schema import FrontierDatabase
from tarrafa.model import HostId, UrlState

DELETING_REASON = "it is being deleted; `tarrafa delete` goes on if it was interrupted"
BELOW_HOSTS = {  # the tables below a host and a collection, and what else their keys are made of
    "pending": "rank, id", "due": "shelf, key, id", "page": "id", "visit": "id, number", "url": "id",
}  # fmt: skip
BELOW_COLLECTION = {"standing": "kept, in_links, host, id", "site": "name"}  # below a collection alone


class CollectionDeleter:
    """What takes a collection out of one frontier."""

    def __init__(
        self, db: FrontierDatabase, counters: Counters, collections: Collections, ready: ReadyQueue, deletions: CollectionDeletionLog
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
