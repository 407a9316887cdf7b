"""Collections of the frontier: configuration, state, limits, revisit tuning, status, and deletion.

Promises of a deletion: it is noted once, when no visit of the collection is handed out any more (the record of such a
visit would come after the note), before its first row is deleted and before its name is free. Each note has a greater
number than those before; numbers are assigned one at a time, each committed before the next, so a reader that asks for
the notes after a number misses none. Of two collections of one name the later deletion has the later time, whatever
clocks do. Killed at any moment, the deletion continues at the next call. No row of another collection is touched, hosts
with their robots.txt, delays and back-off included. A collection's number is never given again.
"""

import dataclasses
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import asdict, astuple, dataclass, field

import msgspec

from tarrafa import config
from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, FrontierError
from tarrafa.frontier.messages import (
    ENTRIES_PER_RESPONSE,
    CollectionRow,
    CollectionStatus,
    DeletedCollection,
    FrontierCollectionState,
)
from tarrafa.frontier.ordering import QueueOrder, order_of
from tarrafa.frontier.store.counters import (
    BYTES,
    CHANGES,
    CHOSEN_WAITING,
    EVENT_KINDS,
    EVENTS,
    HOSTS,
    KNOWN,
    LEFT_OVER,
    OLD_PAGES,
    PASSED_OVER,
    REQUESTS,
    REQUESTS_BEFORE,
    REVISITS,
    REVISITS_OUT,
    SEQUENCE,
    SHOWN_PAGES,
    SITES_CHOSEN,
    TABLE_SITES,
    VISITS,
    Counters,
    state_bucket,
)
from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.frontier.store.ready_queue import ReadyQueue
from tarrafa.frontier.transfer.host_export import CollectionExport
from tarrafa.i18n import Message, message
from tarrafa.model import HostId, UrlId, UrlState

STATES = ("ready", "waiting", "running", "paused", "stopped", "finished")
NOT_STARTED = message("created; not started yet")
DELETING = "deleting"  # some of what hangs below it is gone already: see `CollectionDeleter`
IMPORTING = "importing"  # some of its hosts may still be missing: nobody may visit the others yet
RATE_WINDOW_S = 10.0
VISITING, SWEEPING, SWEPT_OUT = 0, 1, 2  # phases of a run
MESSAGE_START = '{"text":'  # how a message stands in the column `reason`; what others gave as a reason is plain text
TICK_S = 1e-6
# After a number that nobody gave, because this frontier was made anew since, everything is told once more.
DELETIONS_AFTER_SQL = (
    "SELECT number, name, at FROM deleted WHERE number > ? OR (SELECT max(number) FROM deleted) < ?"
    " ORDER BY number LIMIT ?"
)
DELETING_REASON = "it is being deleted; `tarrafa delete` goes on if it was interrupted"
BELOW_HOSTS = {  # the tables below a host and a collection, and what else their keys are made of
    "pending": "rank, id", "due": "shelf, key, id", "page": "id", "visit": "id, number", "url": "id",
}  # fmt: skip
BELOW_COLLECTION = {"standing": "kept, in_links, host, id", "site": "name"}  # below a collection alone


def reason_to_text(reason: Message | str) -> str:
    return reason if isinstance(reason, str) else msgspec.json.encode(reason).decode()


def reason_from_text(text: str) -> Message | str:
    return msgspec.json.decode(text, type=Message) if text.startswith(MESSAGE_START) else text


@dataclass(frozen=True, slots=True)
class RevisitTuning:
    """What the planner has found out for a collection's revisits."""

    price: float = 0.0  # see revisit/policy.py
    plan: int = 0  # the shelf on which its newest plan stands
    plan_end: float = 0.0  # when a new price or plan is wanted
    factor: float = 1.0  # what the price had to be multiplied by for the budget to be spent
    priced_at: float = 0.0  # when the price was set, and how many revisits had been made by then
    priced_revisits: int = 0


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Where the run of a collection stands: see runs.py."""

    started: float = 0.0
    phase: int = 0  # VISITING, SWEEPING or SWEPT
    host: HostId | None = None  # how far the sweep has come
    url: UrlId | None = None


@dataclass(slots=True)
class TokenBucket:
    """How many revisits a collection may make: they come at its `rate`, and a few can be saved up."""

    at: float | None = None  # None: none was ever asked for
    count: float = 2.0
    spent: int = 0  # since they were read from where others see them
    per_s: float = 0.0
    most: float = 0.0

    def available(self, per_s: float, most: float, now: float) -> int:
        """Asking spends nothing: at another rate, what was not spent came at that rate."""
        self.per_s, self.most = per_s, most
        self.at = now if self.at is None else self.at
        return int(self._count_at(now))

    def spend(self, per_s: float, most: float, now: float) -> None:
        self.per_s, self.most = per_s, most
        self.at, self.count = now, self._count_at(now) - 1.0
        self.spent += 1

    def _count_at(self, now: float) -> float:
        return min(self.most, self.count + (now - (now if self.at is None else self.at)) * self.per_s)


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How much of its limits a collection has used up."""

    pages: int = 0
    requests: int = 0

    def __add__(self, other: "LimitUsage") -> "LimitUsage":
        return LimitUsage(self.pages + other.pages, self.requests + other.requests)


NO_USAGE = LimitUsage()


@dataclass(slots=True)
class LoadedCollection:
    """A collection in memory."""

    row: CollectionRow
    config: config.Collection
    sequence: int
    tuning: RevisitTuning = RevisitTuning()
    tokens: TokenBucket = field(default_factory=TokenBucket)
    run_progress: RunProgress = RunProgress()
    created: float = 0.0
    order: QueueOrder = field(init=False)

    def __post_init__(self) -> None:
        self.order = order_of(self.config.strategy)

    @property
    def run(self) -> int:
        return self.row.run

    @property
    def is_swept(self) -> bool:
        """Whether what is to be taken out is on its way."""
        return self.has_runs and self.run_progress.phase != VISITING

    @property
    def has_runs(self) -> bool:
        return not (self.config.keeps_fresh or self.order.is_breadth)

    @property
    def breadth_id(self) -> int | None:
        """Its number, if its sites are walked through: what happens to one of their hosts then concerns the others."""
        return self.row.id if self.order.is_breadth else None

    def is_given_up(self, failures: int) -> bool:
        """Whether a host that failed so many times in a row is not tried again."""
        return failures >= max(1, self.config.fetch.host_failures_max)


class Collections:
    """The collections of one frontier."""

    def __init__(
        self,
        db: FrontierDatabase,
        counters: Counters,
        clock: Clock,
        decode: Callable[[bytes], config.Collection] = config.decode_collection,
    ) -> None:
        self._db, self._counters, self._clock, self._decode = db, counters, clock, decode
        self._by_id: dict[int, LoadedCollection] = {}
        self._rates: defaultdict[int, deque[tuple[float, int]]] = defaultdict(deque)
        self.elsewhere: dict[int, LimitUsage] = {}  # what other servers have of these collections
        self.reload()

    def reload(self) -> None:
        """What the tables say; also after a transaction failed."""
        before, self._by_id = self._by_id, {}
        rows = self._db.rows(
            "SELECT id, collection.name, state, reason, config, revision, max(sequence, coalesce(number.value, 0)),"
            " price, plan, plan_end, factor, priced_at, priced_revisits, run, started, phase, swept_host, swept_url,"
            " created FROM collection LEFT JOIN number ON number.name = ? || id ORDER BY id",
            (SEQUENCE,),
        )
        for fields in rows:
            number, name, state, reason, content, revision = fields[:6]
            row = CollectionRow(number, name, state, reason_from_text(reason), content, revision, fields[13])
            old = before.get(number)
            same = old is not None and old.row.config == row.config
            self._by_id[row.id] = LoadedCollection(
                row,
                old.config if old is not None and same else self._decode(row.config),
                fields[6],
                RevisitTuning(*fields[7:13]),
                old.tokens if old is not None else TokenBucket(),
                RunProgress(*fields[14:18]),
                fields[18],
            )

    def set_tuning(self, known: LoadedCollection, tuning: RevisitTuning) -> None:
        """The planner has new numbers."""
        self._db.run(
            "UPDATE collection SET price = ?, plan = ?, plan_end = ?, factor = ?, priced_at = ?, priced_revisits = ?"
            " WHERE id = ?",
            (*astuple(tuning), known.row.id),
        )
        known.tuning = tuning

    def open(
        self, content: bytes, number: int | None = None, *, start: bool = True
    ) -> tuple[LoadedCollection, config.Collection | None]:
        """Create (under this number) or take up anew; also the configuration that it had before. Not to `start` it
        leaves one that is there as it stands."""
        same = next((one for one in self._by_id.values() if one.row.config == content), None)
        wanted = self._decode(content) if same is None else same.config
        known = self.find(wanted.name)
        reason: Message | str = "" if start else NOT_STARTED
        state, now = "running" if start else "ready", self._clock.now()
        if known is None:
            number = self._next_number() if number is None else number
            self._db.run(
                "INSERT INTO collection (id, name, state, reason, config, created, started)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (number, wanted.name, state, reason_to_text(reason), content, now, now if start else 0.0),
            )
            revision, before, run, round_, created = 1, None, 1, RunProgress(now if start else 0.0), now
        else:
            _check_usable(known)
            number, before, run, round_, created = (
                known.row.id,
                known.config,
                known.run,
                known.run_progress,
                known.created,
            )
            if not start:
                state, reason = known.row.state, known.row.reason
            round_ = dataclasses.replace(round_, started=round_.started or (now if start else 0.0))
            revision = known.row.revision + (content != known.row.config)
            if before.identity != wanted.identity:
                raise ConfigError(
                    f"{wanted.name}: [identity] is fixed when a collection is created "
                    f"(fold_case = {before.identity.fold_case}, strip_slash = {before.identity.strip_slash}); "
                    "use another name"
                )
            self._db.run(
                "UPDATE collection SET state = ?, reason = ?, config = ?, revision = ?, started = ? WHERE id = ?",
                (state, reason_to_text(reason), content, revision, round_.started, number),
            )
        sequence = known.sequence if known else 0
        row = CollectionRow(number, wanted.name, state, reason, content, revision, run)
        more = (known.tuning, known.tokens) if known else (RevisitTuning(), TokenBucket())
        self._by_id[number] = LoadedCollection(row, wanted, sequence, *more, round_, created)
        return self._by_id[number], before

    def _next_number(self) -> int:
        """One that no collection had before, not even one that was deleted: workers remember collections by it."""
        self._db.prefetch("number", [("collections",)])
        last = self._db.value("SELECT value FROM number WHERE name = 'collections'") or 0
        return 1 + max(int(last), int(self._db.value("SELECT coalesce(max(id), 0) FROM collection")))

    def is_deleted(self, number: int) -> bool:
        """Whether a collection had this number once."""
        if number in self._by_id:
            return False
        self._db.prefetch("number", [("collections",)])
        return 0 < number <= int(self._db.value("SELECT value FROM number WHERE name = 'collections'") or 0)

    def delete(self, known: LoadedCollection) -> None:
        """Its own row, which is all that is left of it."""
        number = known.row.id
        self._db.prefetch("number", [("collections",)])
        self._db.run(
            "INSERT INTO number VALUES ('collections', ?) ON CONFLICT (name) DO UPDATE SET value = max(value, ?)",
            (number, number),
        )
        self._counters.drop(number)
        self._db.run("DELETE FROM collection WHERE id = ?", (number,))
        self._db.run("DELETE FROM number WHERE name = ?", (f"{SEQUENCE}{number}",))
        del self._by_id[number]

    def set_state(self, name: str, state: str, reason: Message | str) -> None:
        if state not in STATES:
            raise FrontierError(f"no such state: {state!r} (allowed: {', '.join(STATES)})")
        known = self.by_name(name)
        if state == "running" or known.row.state == DELETING:
            _check_usable(known)
        self.write_state(known, state, reason)

    def write_state(self, known: LoadedCollection, state: str, reason: Message | str) -> None:
        """Into a state. Who runs for the first time has started."""
        started = known.run_progress.started or (self._clock.now() if state == "running" else 0.0)
        self._db.run(
            "UPDATE collection SET state = ?, reason = ?, started = ? WHERE id = ?",
            (state, reason_to_text(reason), started, known.row.id),
        )
        known.row = msgspec.structs.replace(known.row, state=state, reason=reason)
        known.run_progress = dataclasses.replace(known.run_progress, started=started)

    def begin_run(self, known: LoadedCollection, run: int) -> None:
        """What is counted of a run is counted from here on."""
        number, value = known.row.id, self._counters.value
        known.run_progress = RunProgress(self._clock.now())
        known.row = msgspec.structs.replace(known.row, run=run)
        self._db.run(
            "UPDATE collection SET run = ?, started = ?, phase = 0, swept_host = NULL, swept_url = NULL WHERE id = ?",
            (run, known.run_progress.started, number),
        )
        for bucket, now in (
            (OLD_PAGES, value(number, state_bucket(UrlState.FETCHED))),
            (LEFT_OVER, value(number, state_bucket(UrlState.PENDING))),
            (REQUESTS_BEFORE, value(number, REQUESTS)),
        ):
            self._counters.add(number, bucket, now - value(number, bucket))

    def set_sweep_position(self, known: LoadedCollection, round_: RunProgress) -> None:
        """How far it has come."""
        known.run_progress = round_
        self._db.run(
            "UPDATE collection SET phase = ?, swept_host = ?, swept_url = ? WHERE id = ?",
            (round_.phase, round_.host, round_.url, known.row.id),
        )

    def set_revision(self, known: LoadedCollection, revision: int) -> None:
        self._db.run("UPDATE collection SET revision = ? WHERE id = ?", (revision, known.row.id))
        known.row = msgspec.structs.replace(known.row, revision=revision)

    def export_collections(self) -> list[CollectionExport]:
        """All collections without their hosts."""
        images = []
        for number, known in self._by_id.items():
            row = known.row
            facts = (row.name, row.state, row.reason, row.config, row.revision, known.created, known.sequence)
            more = {"run": row.run, "started": known.run_progress.started, "number": number, **asdict(known.tuning)}
            images.append(CollectionExport(*facts, counters=self._events(number), **more))
        return images

    def _events(self, number: int) -> dict[str, int]:
        counted = {bucket: self._counters.value(number, bucket) for bucket in EVENTS}
        for kind in EVENT_KINDS:
            counted |= {f"{kind}{name}": count for name, count in self._counters.with_prefix(number, kind).items()}
        return {bucket: count for bucket, count in counted.items() if count}

    def import_collection(self, image: CollectionExport, number: int | None = None) -> CollectionRow:
        """Make room for one that comes from elsewhere. It is `importing` until somebody says that its hosts are all
        here; what stands there as its reason tells one import from another."""
        known = self.find(image.name)
        if known is not None:
            if known.row.state != IMPORTING or known.row.reason != image.reason:
                raise FrontierError(f"a collection named {image.name!r} is here already; nothing was changed")
            return known.row
        if self._decode(image.config).name != image.name:
            raise FrontierError(f"the collection {image.name!r} has the configuration of another one")
        if number is None:  # the same as before, unless that was given to another one here
            number = max(self._next_number(), image.number)
        self._db.run(
            "INSERT INTO collection (id, name, state, reason, config, revision, created, price, plan,"
            " plan_end, factor, priced_at, priced_revisits, run, started)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, image.name, IMPORTING, reason_to_text(image.reason), image.config, image.revision, image.created,
             image.price, image.plan, image.plan_end, image.factor, image.priced_at, image.priced_revisits, image.run,
             image.started or image.created),
        )  # fmt: skip
        for bucket, count in image.counters.items():
            if bucket in EVENTS or bucket.startswith(EVENT_KINDS):
                self._counters.add(number, bucket, count)
        self.flush()
        self.reload()
        known = self.by_id(number)
        known.sequence = image.sequence
        return known.row

    def find(self, name: str) -> LoadedCollection | None:
        return next((known for known in self._by_id.values() if known.row.name == name), None)

    def by_name(self, name: str) -> LoadedCollection:
        known = self.find(name)
        if known is not None:
            return known
        names = ", ".join(known.row.name for known in self._by_id.values()) or "none"
        raise FrontierError(f"no collection is named {name!r} (there are: {names})")

    def by_id(self, number: int) -> LoadedCollection:
        try:
            return self._by_id[number]
        except KeyError:
            raise FrontierError(f"no collection has the number {number}") from None

    def all(self) -> list[LoadedCollection]:
        return list(self._by_id.values())

    def running(self) -> list[LoadedCollection]:
        return [known for known in self._by_id.values() if known.row.state == "running"]

    def reserve_sequence(self, known: LoadedCollection, count: int) -> int:
        """The first of so many new numbers in the order of discovery."""
        known.sequence += count
        return known.sequence - count

    def flush(self) -> None:
        """Not into the collections' own rows: with its configuration one may be 60 MB, and this is with each commit."""
        self._db.many(
            "INSERT INTO number VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            " WHERE value != excluded.value",
            [(f"{SEQUENCE}{number}", known.sequence) for number, known in self._by_id.items()],
        )

    def free_slots(self, known: LoadedCollection) -> int:
        """How many more new URLs may be out at once without passing the collection's limits."""
        number, scope = known.row.id, known.config.scope
        free = self.requests_left(known)
        if scope.pages_max is not None:
            kept = self._kept_now(number)
            out = self._counters.value(number, state_bucket(UrlState.HANDED_OUT))
            taken = kept + out + self._counters.value(number, CHOSEN_WAITING)
            free = min(free, scope.pages_max - taken - self.elsewhere.get(number, NO_USAGE).pages)
        return max(0, free)

    def requests_left(self, known: LoadedCollection) -> int:
        """How many more visits of any kind may be out at once."""
        number, most = known.row.id, known.config.scope.requests_max
        if most is None:
            return 1 << 30
        out = self._counters.value(number, state_bucket(UrlState.HANDED_OUT))
        elsewhere = self.elsewhere.get(number, NO_USAGE).requests
        return max(0, most - self._requested_now(number) - out - elsewhere)

    def _kept_now(self, number: int) -> int:
        """Pages of this run."""
        return self._counters.value(number, state_bucket(UrlState.FETCHED)) - self._counters.value(number, OLD_PAGES)

    def _requested_now(self, number: int) -> int:
        return self._counters.value(number, REQUESTS) - self._counters.value(number, REQUESTS_BEFORE)

    def limit_usage(self) -> dict[int, "LimitUsage"]:
        """What counts towards the collections' limits."""
        value = self._counters.value
        return {
            number: LimitUsage(
                self._kept_now(number) + value(number, state_bucket(UrlState.HANDED_OUT))
                + value(number, CHOSEN_WAITING),
                self._requested_now(number) + value(number, state_bucket(UrlState.HANDED_OUT)),
            )
            for number in self._by_id
        }  # fmt: skip

    def rows(self) -> list[CollectionRow]:
        return [known.row for known in self._by_id.values()]

    def row(self, name: str) -> CollectionRow | None:
        known = self.find(name)
        return None if known is None else known.row

    def collection_states(self) -> list[FrontierCollectionState]:
        return [FrontierCollectionState(row.id, row.state, row.revision, row.name) for row in self.rows()]

    def status(self) -> list[CollectionStatus]:
        return [self._status(known) for known in self._by_id.values()]

    def _status(self, known: LoadedCollection) -> CollectionStatus:
        number = known.row.id

        def state(which: UrlState) -> int:
            return self._counters.value(number, state_bucket(which))

        again, revisits = self._counters.value(number, REVISITS_OUT), self._counters.value(number, REVISITS)
        passed_over = self._counters.value(number, PASSED_OVER)
        shown, old = self._counters.value(number, SHOWN_PAGES), self._counters.value(number, OLD_PAGES)
        left_over = self._counters.value(number, LEFT_OVER)
        fetched = state(UrlState.FETCHED) + again + shown  # no less kept while somebody looks at it again
        old_out = again if known.config.keeps_fresh else 0  # else nothing is over before they are home
        return CollectionStatus(
            name=known.row.name,
            state=known.row.state,
            reason=known.row.reason,
            known=self._counters.value(number, KNOWN),
            fetched=fetched,
            pending=state(UrlState.PENDING) - passed_over - left_over,
            failed=state(UrlState.FAILED),
            hosts=self._counters.value(number, HOSTS),
            pages_per_s=round(self._rate(number, self._kept_now(number) + again + revisits), 2),
            handed_out=state(UrlState.HANDED_OUT) - old_out,
            dropped=state(UrlState.DROPPED),
            excluded=state(UrlState.EXCLUDED),
            too_deep=state(UrlState.TOO_DEEP),
            visits=self._counters.value(number, VISITS),
            requests=self._counters.value(number, REQUESTS),
            bytes=self._counters.value(number, BYTES),
            pages_max=known.config.scope.pages_max,
            requests_max=known.config.scope.requests_max,
            keeps_fresh=known.config.keeps_fresh,
            revisits=revisits,
            changes=self._counters.value(number, CHANGES),
            statuses=self._counters.with_prefix(number, "status:"),
            types=self._counters.with_prefix(number, "type:"),
            passed_over=passed_over,
            table=self._counters.value(number, TABLE_SITES),
            sites_chosen=self._counters.value(number, SITES_CHOSEN),
            run=known.run,
            started=known.run_progress.started,
            created=known.created,
            revision=known.row.revision,
            earlier=shown + old,
            requests_before=self._counters.value(number, REQUESTS_BEFORE),
            aside=state(UrlState.ASIDE) + left_over,
            to_sweep=known.has_runs and known.run > 1 and known.run_progress.phase != SWEPT_OUT,
            sweeping=known.has_runs and known.run_progress.phase == SWEEPING,
        )

    def _rate(self, number: int, kept: int) -> float:
        """Pages kept, and seen again, per second over the last seconds, from the times at which somebody asked."""
        window, now = self._rates[number], boottime()
        if window and kept < window[-1][1]:  # another run
            window.clear()
        window.append((now, kept))
        while len(window) > 2 and window[1][0] < now - RATE_WINDOW_S:
            window.popleft()
        elapsed = now - window[0][0]
        return (kept - window[0][1]) / elapsed if elapsed > 0.2 else 0.0


def _check_usable(known: LoadedCollection) -> None:
    if known.row.state == DELETING:
        raise FrontierError(f"{known.row.name}: is being deleted; run the same `tarrafa delete` command again")
    if known.row.state == IMPORTING:
        raise FrontierError(
            f"{known.row.name}: was not wholly imported; run the same `tarrafa import frontier` command again"
        )


class CollectionDeletionLog:
    """Log of deleted collections: one row per name, for the last one of that name. That suffices to tell its pages from
    those of its namesake. Of several servers the first one keeps the log."""

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


class CollectionDeleter:
    """Deletes a collection host by host, some rows at a time, the row of the host's work last; then the rows below no
    host; the collection's own row, and with it its name, at the very end."""

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
