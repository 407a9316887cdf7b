"""Counters of a collection: URLs by state, visits, requests and more, in named buckets.

Promise: numbers are counted as things happen, never by scanning. The differences of a transaction are gathered in
memory and written once at its end; `value()` sees both.
"""

from collections import defaultdict

from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.model import UrlState

KNOWN, HOSTS, VISITS, REQUESTS = "known", "hosts", "visits", "requests"
BYTES = "bytes"  # of documents received
REVISITS, CHANGES, RATES = "revisits", "changes", "rates"  # of pages that are kept fresh
REVISITS_OUT = "again"  # those of them that are handed out
REVISITS_PAID = "paid"  # revisits that the budget was charged for
CHOSEN_WAITING, DISMISSED_WAITING, WAS_FULL = "chosen", "dismissed", "full"  # see page_replacement.py
REQUESTS_BEFORE = "requests before"  # this run began
# What happened, whatever is there now.
EVENTS = (VISITS, REQUESTS, BYTES, REQUESTS_BEFORE, REVISITS, CHANGES, REVISITS_PAID, WAS_FULL)
# Of what an earlier run left: pages kept that this one has not come across, others that wait while their page is
# still shown, and URLs that waited when it ended. See runs.py.
OLD_PAGES, SHOWN_PAGES, LEFT_OVER = "old", "shown", "left over"
EVENT_KINDS = ("status:", "type:")
SEQUENCE = "sequence of "  # and its number: how many were discovered, in the table of numbers
TABLE_SITES, SITES_CHOSEN, PASSED_OVER = "table", "sites chosen", "passed over"  # see breadth_sites.py


def state_bucket(state: int) -> str:
    return f"state:{int(state)}"


# Counters that decisions depend on.
HOT_COUNTERS = (
    *map(state_bucket, UrlState), REQUESTS, REQUESTS_BEFORE, REVISITS, RATES, REVISITS_PAID, REVISITS_OUT,
    CHOSEN_WAITING, DISMISSED_WAITING, WAS_FULL, TABLE_SITES, OLD_PAGES, SHOWN_PAGES, LEFT_OVER,
)  # fmt: skip
CounterKey = tuple[int, str]  # collection and bucket


class CounterTable:
    """The table of counters in a file of its own: all are read at once. Another body is in postgres/."""

    def __init__(self, db: FrontierDatabase) -> None:
        self.db = db

    def read_all(self) -> dict[CounterKey, int]:
        rows = self.db.rows("SELECT collection, bucket, value FROM counter")
        return {(collection, bucket): value for collection, bucket, value in rows}

    def read_one(self, collection: int, bucket: str) -> int:
        """A counter that `read_all` has not read."""
        return 0

    def read_prefix(self, collection: int, prefix: str) -> dict[CounterKey, int]:
        """The counters that begin so, as far as `read_all` has not read them."""
        return {}

    def add(self, rows: list[tuple[int, str, int]]) -> None:
        """Add differences: collection, bucket and difference of each."""
        self.db.many(
            "INSERT INTO counter VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value", rows
        )

    def delete(self, collection: int) -> None:
        self.db.run("DELETE FROM counter WHERE collection = ?", (collection,))


class Counters:
    """Numbers per collection, in buckets."""

    def __init__(self, table: CounterTable) -> None:
        self._table = table
        self._values = table.read_all()
        self._deltas: defaultdict[CounterKey, int] = defaultdict(int)

    def refresh(self) -> None:
        """Read the counters again."""
        self._values = self._table.read_all()

    def add(self, collection: int, bucket: str, delta: int = 1) -> None:
        self._deltas[collection, bucket] += delta

    def move(self, collection: int, before: int, after: int) -> None:
        if before != after:
            self._deltas[collection, state_bucket(before)] -= 1
            self._deltas[collection, state_bucket(after)] += 1

    def value(self, collection: int, bucket: str) -> int:
        key = (collection, bucket)
        if key not in self._values:
            self._values[key] = self._table.read_one(collection, bucket)
        return self._values[key] + self._deltas.get(key, 0)

    def has(self, collection: int, bucket: str) -> bool:
        """Whether anything was ever counted there."""
        return bool(self.value(collection, bucket))

    def with_prefix(self, collection: int, prefix: str) -> dict[str, int]:
        self._values |= self._table.read_prefix(collection, prefix)
        keys = {key for key in (*self._values, *self._deltas) if key[0] == collection and key[1].startswith(prefix)}
        return {key[1][len(prefix) :]: value for key in sorted(keys) if (value := self.value(*key))}

    def size(self, collection: int, prefix: str) -> int:
        """How many buckets begin so."""
        return len(self.with_prefix(collection, prefix))

    def flush(self) -> None:
        """Write this transaction's deltas; the transaction may still fail, see `on_commit` and `on_rollback`."""
        self._table.add([(*key, delta) for key, delta in sorted(self._deltas.items()) if delta])

    def snapshot(self) -> dict[CounterKey, int]:
        return dict(self._deltas)

    def restore_snapshot(self, snapshot: dict[CounterKey, int]) -> None:
        self._deltas = defaultdict(int, snapshot)

    def on_commit(self) -> None:
        for key, delta in self._deltas.items():
            self._values[key] = self._values.get(key, 0) + delta
        self._deltas.clear()

    def on_rollback(self) -> None:
        self._deltas.clear()

    def drop(self, collection: int) -> None:
        """Nothing is counted of it any more."""
        self._table.delete(collection)
        for numbers in (self._values, self._deltas):
            for key in [key for key in numbers if key[0] == collection]:
                del numbers[key]
