"""Which collections are there, what state are they in, and what are their numbers?

Numbers are counted as things happen, never by scanning. Deltas are gathered during a transaction and written once at
its end; `value()` sees both.
"""

from collections import defaultdict, deque
from dataclasses import asdict, astuple, dataclass, field

import msgspec

from tarrafa import config
from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, FrontierError
from tarrafa.frontier.images import CollectionImage
from tarrafa.frontier.order import Order, order_of
from tarrafa.frontier.protocol import CollectionRow, CollectionStatus
from tarrafa.frontier.store.schema import Database
from tarrafa.model import UrlState

STATES = ("running", "paused", "stopped", "finished")
IMPORTING = "importing"  # some of its hosts may still be missing: nobody may visit the others yet
RATE_WINDOW_S = 10.0
KNOWN, HOSTS, VISITS, REQUESTS = "known", "hosts", "visits", "requests"
REVISITS, CHANGES, RATES = "revisits", "changes", "rates"  # of pages that are kept fresh
OUT_AGAIN = "again"  # those of them that are handed out
PAID = "paid"  # revisits that the budget was charged for
CHOSEN_WAITING, DISMISSED_WAITING, FULL = "chosen", "dismissed", "full"  # see exchange.py
EVENTS = (VISITS, REQUESTS, REVISITS, CHANGES, PAID, FULL)  # what happened, whatever is there now
EVENT_KINDS = ("status:", "type:")
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

    def has(self, collection: int, bucket: str) -> bool:
        """Whether anything was ever counted there."""
        return bool(self.value(collection, bucket))

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
class Tokens:
    """How many revisits a collection may make: they come at its `rate`, and a few can be saved up."""

    at: float | None = None  # None: none was ever asked for, and all that can be saved up is there
    count: float = 0.0
    spent: int = 0  # since they were read from where others see them
    per_s: float = 0.0
    most: float = 0.0

    def left(self, per_s: float, most: float, now: float) -> int:
        """Asking changes nothing: at another rate, what was not spent came at that rate."""
        self.per_s, self.most = per_s, most
        return int(self._by(now))

    def spend(self, per_s: float, most: float, now: float) -> None:
        self.per_s, self.most = per_s, most
        self.at, self.count = now, self._by(now) - 1.0
        self.spent += 1

    def _by(self, now: float) -> float:
        return min(self.most, self.most if self.at is None else self.count + (now - self.at) * self.per_s)


@dataclass(frozen=True, slots=True)
class Tally:
    """How much of its limits a collection has used up."""

    pages: int = 0
    requests: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.pages + other.pages, self.requests + other.requests)


NOTHING = Tally()


@dataclass(slots=True)
class Known:
    """A collection in memory."""

    row: CollectionRow
    config: config.Collection
    sequence: int
    tuning: Tuning = Tuning()
    tokens: Tokens = field(default_factory=Tokens)
    order: Order = field(init=False)

    def __post_init__(self) -> None:
        self.order = order_of(self.config.strategy)

    @property
    def walks(self) -> int | None:
        """Its number, if its sites are walked through: what happens to one of their hosts then concerns the others."""
        return self.row.id if self.order.is_breadth else None


class Collections:
    """The collections of one frontier."""

    def __init__(self, db: Database, counters: Counters, clock: Clock) -> None:
        self._db, self._counters, self._clock = db, counters, clock
        self._by_id: dict[int, Known] = {}
        self._rates: defaultdict[int, deque[tuple[float, int]]] = defaultdict(deque)
        self.elsewhere: dict[int, Tally] = {}  # what other servers have of these collections
        self.reload()

    def reload(self) -> None:
        """What the tables say; also after a transaction failed."""
        before, self._by_id = self._by_id, {}
        rows = self._db.rows(
            "SELECT id, name, state, reason, config, revision, sequence,"
            " price, plan, plan_end, factor, priced_at, priced_revisits FROM collection ORDER BY id"
        )
        for fields in rows:
            row, old = CollectionRow(*fields[:6]), before.get(fields[0])
            same = old is not None and old.row.config == row.config
            self._by_id[row.id] = Known(
                row,
                old.config if old is not None and same else self._decode(row.config),
                fields[6],
                Tuning(*fields[7:]),
                old.tokens if old is not None else Tokens(),
            )

    def _decode(self, content: bytes) -> config.Collection:
        return config.decode(content)

    def tune(self, known: Known, tuning: Tuning) -> None:
        """The planner has new numbers."""
        self._db.run(
            "UPDATE collection SET price = ?, plan = ?, plan_end = ?, factor = ?, priced_at = ?, priced_revisits = ?"
            " WHERE id = ?",
            (*astuple(tuning), known.row.id),
        )
        known.tuning = tuning

    def open(self, content: bytes, number: int | None = None) -> tuple[Known, config.Collection | None]:
        """Create (under this number) or take up anew; also the configuration that it had before."""
        wanted = self._decode(content)
        known = self.find(wanted.name)
        if known is None:
            now = self._clock.now()
            self._db.run(
                "INSERT INTO collection (id, name, state, reason, config, created) VALUES (?, ?, 'running', '', ?, ?)",
                (number, wanted.name, content, now),
            )
            number, revision, before = int(self._db.value("SELECT max(id) FROM collection")), 1, None
        else:
            _check_whole(known)
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
        self._by_id[number] = Known(
            row, wanted, sequence, known.tuning if known else Tuning(), known.tokens if known else Tokens()
        )
        return self._by_id[number], before

    def control(self, name: str, state: str, reason: str) -> None:
        if state not in STATES:
            raise FrontierError(f"no such state: {state!r} (allowed: {', '.join(STATES)})")
        known = self.named(name)
        if state == "running":
            _check_whole(known)
        self._db.run("UPDATE collection SET state = ?, reason = ? WHERE id = ?", (state, reason, known.row.id))
        known.row = msgspec.structs.replace(known.row, state=state, reason=reason)

    def set_revision(self, known: Known, revision: int) -> None:
        self._db.run("UPDATE collection SET revision = ? WHERE id = ?", (revision, known.row.id))
        known.row = msgspec.structs.replace(known.row, revision=revision)

    def images(self) -> list[CollectionImage]:
        """All collections without their hosts."""
        created = dict(self._db.rows("SELECT id, created FROM collection"))
        images = []
        for number, known in self._by_id.items():
            row = known.row
            facts = (row.name, row.state, row.reason, row.config, row.revision, created[number], known.sequence)
            images.append(CollectionImage(*facts, counters=self._events(number), **asdict(known.tuning)))
        return images

    def _events(self, number: int) -> dict[str, int]:
        counted = {bucket: self._counters.value(number, bucket) for bucket in EVENTS}
        for kind in EVENT_KINDS:
            counted |= {f"{kind}{name}": count for name, count in self._counters.with_prefix(number, kind).items()}
        return {bucket: count for bucket, count in counted.items() if count}

    def restore(self, image: CollectionImage, number: int | None = None) -> Known:
        """Make room for one that comes from elsewhere. It is `importing` until somebody says that its hosts are all
        here; what stands there as its reason tells one import from another."""
        known = self.find(image.name)
        if known is not None:
            if known.row.state != IMPORTING or known.row.reason != image.reason:
                raise FrontierError(f"a collection named {image.name!r} is here already; nothing was changed")
            return known
        if self._decode(image.config).name != image.name:
            raise FrontierError(f"the collection {image.name!r} has the configuration of another one")
        self._db.run(
            "INSERT INTO collection (id, name, state, reason, config, revision, created, sequence, price, plan,"
            " plan_end, factor, priced_at, priced_revisits) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, image.name, IMPORTING, image.reason, image.config, image.revision, image.created, image.sequence,
             image.price, image.plan, image.plan_end, image.factor, image.priced_at, image.priced_revisits),
        )  # fmt: skip
        number = int(self._db.value("SELECT max(id) FROM collection"))
        for bucket, count in image.counters.items():
            if bucket in EVENTS or bucket.startswith(EVENT_KINDS):
                self._counters.add(number, bucket, count)
        self.flush()
        self.reload()
        return self.by_id(number)

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
            taken = kept + out + self._counters.value(number, CHOSEN_WAITING)
            free = min(free, scope.pages_max - taken - self.elsewhere.get(number, NOTHING).pages)
        return max(0, free)

    def requests_left(self, known: Known) -> int:
        """How many more visits of any kind may be out at once."""
        number, most = known.row.id, known.config.scope.requests_max
        if most is None:
            return 1 << 30
        out = self._counters.value(number, state_bucket(UrlState.HANDED_OUT))
        elsewhere = self.elsewhere.get(number, NOTHING).requests
        return max(0, most - self._counters.value(number, REQUESTS) - out - elsewhere)

    def tally(self) -> dict[int, "Tally"]:
        """What counts towards the collections' limits."""
        value = self._counters.value
        return {
            number: Tally(
                value(number, state_bucket(UrlState.FETCHED)) + value(number, state_bucket(UrlState.HANDED_OUT))
                + value(number, CHOSEN_WAITING),
                value(number, REQUESTS) + value(number, state_bucket(UrlState.HANDED_OUT)),
            )
            for number in self._by_id
        }  # fmt: skip

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


def _check_whole(known: Known) -> None:
    if known.row.state == IMPORTING:
        raise FrontierError(
            f"{known.row.name}: was not wholly imported; run the same `tarrafa import frontier` command again"
        )
