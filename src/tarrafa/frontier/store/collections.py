"""Which collections are there, what state are they in, and what are their numbers?

Numbers are counted as things happen, never by scanning. Deltas are gathered during a transaction and written once at
its end; `value()` sees both.
"""

from collections import defaultdict, deque
from dataclasses import astuple, dataclass, field

import msgspec

from tarrafa import config
from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, FrontierError
from tarrafa.frontier.order import Order, order_of
from tarrafa.frontier.protocol import CollectionRow, CollectionStatus
from tarrafa.frontier.store.schema import Database
from tarrafa.model import UrlState

STATES = ("running", "paused", "finished")
RATE_WINDOW_S = 10.0
KNOWN, HOSTS, VISITS, REQUESTS = "known", "hosts", "visits", "requests"
REVISITS, CHANGES, RATES = "revisits", "changes", "rates"  # of pages that are kept fresh
OUT_AGAIN = "again"  # those of them that are handed out
PAID = "paid"  # revisits that the budget was charged for
CHOSEN_WAITING, DISMISSED_WAITING, FULL = "chosen", "dismissed", "full"  # see exchange.py
TABLE, SITES_CHOSEN, PASSED_OVER = "table", "sites chosen", "passed over"  # see breadth.py


def state_bucket(state: int) -> str:
    return f"state:{int(state)}"


class Counters:
    """Numbers per collection, in buckets."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._values: dict[tuple[int, str], int] = {
            (collection, bucket): value
            for collection, bucket, value in db.rows("SELECT collection, bucket, value FROM counter")
        }
        self._deltas: defaultdict[tuple[int, str], int] = defaultdict(int)

    def add(self, collection: int, bucket: str, delta: int = 1) -> None:
        self._deltas[collection, bucket] += delta

    def move(self, collection: int, before: int, after: int) -> None:
        if before != after:
            self._deltas[collection, state_bucket(before)] -= 1
            self._deltas[collection, state_bucket(after)] += 1

    def value(self, collection: int, bucket: str) -> int:
        return self._values.get((collection, bucket), 0) + self._deltas.get((collection, bucket), 0)

    def with_prefix(self, collection: int, prefix: str) -> dict[str, int]:
        keys = {key for key in (*self._values, *self._deltas) if key[0] == collection and key[1].startswith(prefix)}
        return {key[1][len(prefix) :]: value for key in sorted(keys) if (value := self.value(*key))}

    def size(self, collection: int, prefix: str) -> int:
        """How many buckets begin so."""
        return len(self.with_prefix(collection, prefix))

    def flush(self) -> None:
        """Write this transaction's deltas; the transaction may still fail, see `settle` and `forget`."""
        self._db.many(
            "INSERT INTO counter VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET value = value + excluded.value",
            [(*key, delta) for key, delta in sorted(self._deltas.items()) if delta],
        )

    def snapshot(self) -> dict[tuple[int, str], int]:
        return dict(self._deltas)

    def restore(self, snapshot: dict[tuple[int, str], int]) -> None:
        self._deltas = defaultdict(int, snapshot)

    def settle(self) -> None:
        for key, delta in self._deltas.items():
            self._values[key] = self._values.get(key, 0) + delta
        self._deltas.clear()

    def forget(self) -> None:
        self._deltas.clear()


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the planner has found out for a collection's revisits."""

    price: float = 0.0  # see revisit/policy.py
    plan: int = 0  # the shelf on which its newest plan stands
    plan_end: float = 0.0  # when a new price or plan is wanted
    factor: float = 1.0  # what the price had to be multiplied by for the budget to be spent
    priced_at: float = 0.0  # when the price was set, and how many revisits had been made by then
    priced_revisits: int = 0


@dataclass(slots=True)
class Known:
    """A collection in memory."""

    row: CollectionRow
    config: config.Collection
    sequence: int
    tuning: Tuning = Tuning()
    order: Order = field(init=False)

    def __post_init__(self) -> None:
        self.order = order_of(self.config.strategy)


class Collections:
    """The collections of one frontier."""

    def __init__(self, db: Database, counters: Counters, clock: Clock) -> None:
        self._db, self._counters, self._clock = db, counters, clock
        self._by_id: dict[int, Known] = {}
        self._rates: defaultdict[int, deque[tuple[float, int]]] = defaultdict(deque)
        self.reload()

    def reload(self) -> None:
        """What the tables say; also after a transaction failed."""
        self._by_id.clear()
        rows = self._db.rows(
            "SELECT id, name, state, reason, config, revision, sequence,"
            " price, plan, plan_end, factor, priced_at, priced_revisits FROM collection ORDER BY id"
        )
        for fields in rows:
            row = CollectionRow(*fields[:6])
            self._by_id[row.id] = Known(row, config.decode(row.config), fields[6], Tuning(*fields[7:]))

    def tune(self, known: Known, tuning: Tuning) -> None:
        """The planner has new numbers."""
        self._db.run(
            "UPDATE collection SET price = ?, plan = ?, plan_end = ?, factor = ?, priced_at = ?, priced_revisits = ?"
            " WHERE id = ?",
            (*astuple(tuning), known.row.id),
        )
        known.tuning = tuning

    def open(self, content: bytes) -> tuple[Known, config.Collection | None]:
        """Create or take up anew; also the configuration that it had before."""
        wanted = config.decode(content)
        known = self.find(wanted.name)
        if known is None:
            now = self._clock.now()
            self._db.run(
                "INSERT INTO collection (name, state, reason, config, created) VALUES (?, 'running', '', ?, ?)",
                (wanted.name, content, now),
            )
            number, revision, before = self._db.connection.last_insert_rowid(), 1, None
        else:
            number, before = known.row.id, known.config
            revision = known.row.revision + (content != known.row.config)
            if before.identity != wanted.identity:
                raise ConfigError(
                    f"{wanted.name}: [identity] is fixed when a collection is created "
                    f"(fold_case = {before.identity.fold_case}, strip_slash = {before.identity.strip_slash}); "
                    "use another name"
                )
            self._db.run(
                "UPDATE collection SET state = 'running', reason = '', config = ?, revision = ? WHERE id = ?",
                (content, revision, number),
            )
        sequence = known.sequence if known else 0
        row = CollectionRow(number, wanted.name, "running", "", content, revision)
        self._by_id[number] = Known(row, wanted, sequence, known.tuning if known else Tuning())
        return self._by_id[number], before

    def control(self, name: str, state: str, reason: str) -> None:
        if state not in STATES:
            raise FrontierError(f"no such state: {state!r} (allowed: {', '.join(STATES)})")
        known = self.named(name)
        self._db.run("UPDATE collection SET state = ?, reason = ? WHERE id = ?", (state, reason, known.row.id))
        known.row = msgspec.structs.replace(known.row, state=state, reason=reason)

    def find(self, name: str) -> Known | None:
        return next((known for known in self._by_id.values() if known.row.name == name), None)

    def named(self, name: str) -> Known:
        known = self.find(name)
        if known is not None:
            return known
        names = ", ".join(known.row.name for known in self._by_id.values()) or "none"
        raise FrontierError(f"no collection is named {name!r} (there are: {names})")

    def by_id(self, number: int) -> Known:
        try:
            return self._by_id[number]
        except KeyError:
            raise FrontierError(f"no collection has the number {number}") from None

    def all(self) -> list[Known]:
        return list(self._by_id.values())

    def running(self) -> list[Known]:
        return [known for known in self._by_id.values() if known.row.state == "running"]

    def number(self, known: Known, count: int) -> int:
        """The first of so many new numbers in the order of discovery."""
        known.sequence += count
        return known.sequence - count

    def flush(self) -> None:
        self._db.many(
            "UPDATE collection SET sequence = ? WHERE id = ? AND sequence != ?",
            [(known.sequence, number, known.sequence) for number, known in self._by_id.items()],
        )

    def slots(self, known: Known) -> int:
        """How many more new URLs may be out at once without passing the collection's limits."""
        number, scope = known.row.id, known.config.scope
        free = self.requests_left(known)
        if scope.pages_max is not None:
            kept = self._counters.value(number, state_bucket(UrlState.FETCHED))
            out = self._counters.value(number, state_bucket(UrlState.HANDED_OUT))
            free = min(free, scope.pages_max - kept - out - self._counters.value(number, CHOSEN_WAITING))
        return max(0, free)

    def requests_left(self, known: Known) -> int:
        """How many more visits of any kind may be out at once."""
        number, most = known.row.id, known.config.scope.requests_max
        if most is None:
            return 1 << 30
        out = self._counters.value(number, state_bucket(UrlState.HANDED_OUT))
        return max(0, most - self._counters.value(number, REQUESTS) - out)

    def rows(self) -> list[CollectionRow]:
        return [known.row for known in self._by_id.values()]

    def status(self) -> list[CollectionStatus]:
        return [self._status(known) for known in self._by_id.values()]

    def _status(self, known: Known) -> CollectionStatus:
        number = known.row.id

        def state(which: UrlState) -> int:
            return self._counters.value(number, state_bucket(which))

        again, revisits = self._counters.value(number, OUT_AGAIN), self._counters.value(number, REVISITS)
        passed_over = self._counters.value(number, PASSED_OVER)
        fetched = state(UrlState.FETCHED) + again  # a page is no less kept while somebody looks at it again
        return CollectionStatus(
            name=known.row.name,
            state=known.row.state,
            reason=known.row.reason,
            known=self._counters.value(number, KNOWN),
            fetched=fetched,
            pending=state(UrlState.PENDING) - passed_over,
            failed=state(UrlState.FAILED),
            hosts=self._counters.value(number, HOSTS),
            pages_per_s=round(self._rate(number, fetched + revisits), 2),
            handed_out=state(UrlState.HANDED_OUT) - again,
            dropped=state(UrlState.DROPPED),
            excluded=state(UrlState.EXCLUDED),
            too_deep=state(UrlState.TOO_DEEP),
            visits=self._counters.value(number, VISITS),
            requests=self._counters.value(number, REQUESTS),
            pages_max=known.config.scope.pages_max,
            requests_max=known.config.scope.requests_max,
            keeps_fresh=known.config.keeps_fresh,
            revisits=revisits,
            changes=self._counters.value(number, CHANGES),
            statuses=self._counters.with_prefix(number, "status:"),
            types=self._counters.with_prefix(number, "type:"),
            passed_over=passed_over,
            table=self._counters.value(number, TABLE),
            sites_chosen=self._counters.value(number, SITES_CHOSEN),
        )

    def _rate(self, number: int, kept: int) -> float:
        """Pages kept, and seen again, per second over the last seconds, from the times at which somebody asked."""
        window, now = self._rates[number], boottime()
        window.append((now, kept))
        while len(window) > 2 and window[1][0] < now - RATE_WINDOW_S:
            window.popleft()
        elapsed = now - window[0][0]
        return (kept - window[0][1]) / elapsed if elapsed > 0.2 else 0.0
