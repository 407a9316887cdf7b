"""Counters of a collection: URLs by state, visits, requests and more, in named buckets.

Promise: numbers are counted as things happen, never by scanning. The differences of a transaction are gathered in
memory and written once at its end; `value()` sees both.
"""

import math
from collections import defaultdict

from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.model import UNKEPT_STATES, UrlRole, UrlState, unkept_cause


class Bucket:
    """Names of the buckets."""

    KNOWN, HOSTS, VISITS, REQUESTS = "known", "hosts", "visits", "requests"
    BYTES = "bytes"  # of documents received
    REQUESTS_BEFORE = "requests before"  # this run began
    VISITS_BEFORE = "visits before"
    ENDED = "ended"  # when the collection last stopped running, in seconds
    # Pages that are kept fresh: visits to them, changes found, their change rates, visits handed out now.
    REVISITS, CHANGES, RATES, REVISITS_OUT = "revisits", "changes", "rates", "again"
    # Of those whose visits tell something about their rates: how many, and sums of the logarithms of the rates.
    RATED_PAGES, LOG_RATES, LOG_RATE_SQUARES = "rated pages", "log rates", "log rate squares"
    CHOSEN_WAITING, DISMISSED_WAITING, WAS_FULL = "chosen", "dismissed", "full"  # see page_replacement.py
    # What an earlier run left (runs.py): kept pages that this run has not found, pending URLs whose page is still
    # shown, and URLs that were pending when it ended.
    OLD_PAGES, SHOWN_PAGES, LEFT_OVER = "old", "shown", "left over"
    TABLE_SITES, SITES_CHOSEN, PASSED_OVER = "table", "sites chosen", "passed over"  # see breadth_sites.py

    @staticmethod
    def state(state: int) -> str:
        return f"state:{int(state)}"

    @staticmethod
    def requisites(state: int) -> str:
        """Of the URLs in a state, those that are requisites."""
        return f"requisites:{int(state)}"

    REQUISITES_PENDING = "requisites:0"


# Buckets that count events, and beginnings of their names; the other buckets count what is there now.
EVENTS = (
    Bucket.VISITS, Bucket.REQUESTS, Bucket.BYTES, Bucket.REQUESTS_BEFORE, Bucket.VISITS_BEFORE, Bucket.REVISITS,
    Bucket.CHANGES, Bucket.WAS_FULL, Bucket.ENDED,
)  # fmt: skip
UNKEPT = "unkept:"  # URLs that are settled and not kept, by cause (`unkept_cause`): what is there now
# REFUSED: of STATUS, those without a visit. CALIBRATION: revisits by rate, see `add_calibration`.
STATUS, REFUSED, TYPE, CALIBRATION = EVENT_KINDS = ("status:", "refused:", "type:", "calibration:")
# Counters that decisions depend on.
HOT_COUNTERS = (
    *map(Bucket.state, UrlState), *map(Bucket.requisites, (UrlState.PENDING, UrlState.HANDED_OUT)), Bucket.REQUESTS,
    Bucket.REQUESTS_BEFORE, Bucket.REVISITS, Bucket.RATES, Bucket.RATED_PAGES, Bucket.LOG_RATES,
    Bucket.LOG_RATE_SQUARES,
    Bucket.REVISITS_OUT, Bucket.CHOSEN_WAITING, Bucket.DISMISSED_WAITING, Bucket.WAS_FULL,
    Bucket.TABLE_SITES, Bucket.OLD_PAGES, Bucket.SHOWN_PAGES, Bucket.LEFT_OVER,
)  # fmt: skip
CALIBRATION_POWER_MIN, CALIBRATION_POWER_MAX = -4, 5  # of changes a day: once in 27 years to twice a second
REQUISITE = int(UrlRole.REQUISITE)
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

    def add_calibration(self, collection: int, per_day: float, expected: float, changed: bool) -> None:
        """Count a revisit of a page that is believed to change so often: whether it had changed, and how probable that
        was believed to be. By the power of ten of the rate."""
        power = max(CALIBRATION_POWER_MIN, min(CALIBRATION_POWER_MAX, math.floor(math.log10(max(per_day, 1e-30)))))
        for name, value in (("visits", 1), ("changed", int(changed)), ("expected", round(1000 * expected))):
            self.add(collection, f"{CALIBRATION}{power}:{name}", value)

    def add_refused(self, collection: int, status: int, delta: int = 1) -> None:
        """Count a URL that gets its status without a visit; or that it is pending after all."""
        self.add(collection, f"{STATUS}{int(status)}", delta)
        if delta > 0 or self.value(collection, f"{REFUSED}{int(status)}"):  # an older frontier did not count it there
            self.add(collection, f"{REFUSED}{int(status)}", delta)

    def move(self, collection: int, before: int, after: int, role: int = UrlRole.PAGE) -> None:
        """Count a URL that goes from one state to another."""
        if before != after:
            self._deltas[collection, Bucket.state(before)] -= 1
            self._deltas[collection, Bucket.state(after)] += 1
            if role == REQUISITE:
                self._deltas[collection, Bucket.requisites(before)] -= 1
                self._deltas[collection, Bucket.requisites(after)] += 1

    def add_state(self, collection: int, state: int, role: int, delta: int) -> None:
        """Count URLs that are in a state from now on, or no longer."""
        self._deltas[collection, Bucket.state(state)] += delta
        if role == UrlRole.REQUISITE:
            self._deltas[collection, Bucket.requisites(state)] += delta

    def count_role(self, collection: int, state: int, before: int, after: int) -> None:
        """Count a URL in this state that gets another role."""
        delta = (after == UrlRole.REQUISITE) - (before == UrlRole.REQUISITE)
        if delta:
            self._deltas[collection, Bucket.requisites(state)] += delta

    def count_unkept(self, collection: int, state: int, status: int | None, role: int, delta: int) -> None:
        """Count a URL that gets or leaves a state in which it is settled and not kept; other states do not matter."""
        if state not in UNKEPT_STATES:
            return
        bucket = f"{UNKEPT}{unkept_cause(status, role)}"
        if delta > 0 or self.value(collection, bucket) > 0:  # an older frontier did not count it
            self.add(collection, bucket, delta)

    def reset(self, collection: int, *buckets: str) -> None:
        for bucket in buckets:
            self.add(collection, bucket, -self.value(collection, bucket))

    def value(self, collection: int, bucket: str) -> int:
        key = (collection, bucket)
        if key not in self._values:
            self._values[key] = self._table.read_one(collection, bucket)
        return self._values[key] + self._deltas.get(key, 0)

    def state(self, collection: int, state: int) -> int:
        """The number of URLs in a state."""
        return self.value(collection, Bucket.state(state))

    def requisites(self, collection: int, state: int) -> int:
        """The number of requisites in a state."""
        return self.value(collection, Bucket.requisites(state))

    def has(self, collection: int, bucket: str) -> bool:
        """Whether anything was ever counted there."""
        return bool(self.value(collection, bucket))

    def with_prefix(self, collection: int, prefix: str) -> dict[str, int]:
        self._values |= self._table.read_prefix(collection, prefix)
        keys = {key for key in (*self._values, *self._deltas) if key[0] == collection and key[1].startswith(prefix)}
        return {key[1][len(prefix) :]: value for key in sorted(keys) if (value := self.value(*key))}

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
        """Delete the counters of a collection."""
        self._table.delete(collection)
        for numbers in (self._values, self._deltas):
            for key in [key for key in numbers if key[0] == collection]:
                del numbers[key]
