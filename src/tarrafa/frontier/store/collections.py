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
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from tarrafa import config
from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, FrontierError
from tarrafa.frontier.export_import.export_records import CollectionExport
from tarrafa.frontier.messages import (
    ENTRIES_PER_RESPONSE,
    CollectionRow,
    CollectionStatus,
    DeletedCollection,
    FrontierCollectionState,
)
from tarrafa.frontier.ordering import QueueOrder, order_of
from tarrafa.frontier.store.counters import CALIBRATION, EVENT_KINDS, EVENTS, UNKEPT, Bucket, Counters
from tarrafa.frontier.store.database import FrontierDatabase
from tarrafa.i18n import Message, from_text, message, to_text
from tarrafa.model import OLD_CAUSE, UNKEPT_STATES, HostId, UrlId, UrlState
from tarrafa.revisit.budget import TokenBucket

if TYPE_CHECKING:
    from tarrafa.frontier.store.leases import ReadyQueue

STATES = ("ready", "waiting", "running", "paused", "stopped", "finished")
SEQUENCE = "sequence of "  # with the number of a collection: its discovered URLs, in the table `number`
NOT_STARTED = message("created; not started yet")
DELETING = "deleting"  # some of its rows are deleted already: see `CollectionDeleter`
IMPORTING = "importing"  # some of its hosts may still be missing: the others are not visited yet
RATE_WINDOW_S = 10.0
VISITING, SWEEPING, SWEPT_OUT = 0, 1, 2  # phases of a run
TICK_S = 1e-6
# After a number that was never assigned, because this frontier was made anew since, all notes are returned again.
DELETIONS_AFTER_SQL = (
    "SELECT number, name, at FROM deleted WHERE number > ? OR (SELECT max(number) FROM deleted) < ?"
    " ORDER BY number LIMIT ?"
)
DELETING_REASON = message("it is being deleted; `tarrafa delete` goes on if it was interrupted")
BELOW_HOSTS = {  # the tables below a host and a collection, and the rest of their keys
    "pending": "rank, id", "due": "shelf, key, id", "page": "id", "visit": "id, number", "url": "id",
}  # fmt: skip
BELOW_COLLECTION = {"standing": "kept, in_links, host, id", "site": "name"}  # below a collection alone


@dataclass(frozen=True, slots=True)
class RevisitTuning:
    """What the planner has computed for a collection's revisits."""

    price: float = 0.0  # see revisit/policy.py
    plan: int = 0  # the shelf of its newest plan
    plan_end: float = 0.0  # when a new price or plan is needed


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far the run of a collection is: see runs.py."""

    started: float = 0.0
    phase: int = 0  # VISITING, SWEEPING or SWEPT_OUT
    host: HostId | None = None  # how far the sweep is
    url: UrlId | None = None


@dataclass(frozen=True, slots=True)
class LimitUsage:
    """How much of its limits a collection has used."""

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
        """Whether the sweep has begun: pages may be pending to be dismissed."""
        return self.has_runs and self.run_progress.phase != VISITING

    @property
    def has_runs(self) -> bool:
        return not (self.config.keeps_fresh or self.order.is_breadth)

    @property
    def watches_in_links(self) -> bool:
        """Whether more than a URL's own row depends on its in-links."""
        config = self.config
        return config.keeps_fresh or config.replaces_pages or config.strategy.order in ("backlinks", "breadth")

    @property
    def breadth_id(self) -> int | None:
        """Its number, if its order is breadth: a change of one host then concerns the other hosts of its site."""
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
        self.elsewhere: dict[int, LimitUsage] = {}  # of the same collections, on other servers
        self.reload()

    def reload(self) -> None:
        """Read the collections from the tables, also after a failed transaction."""
        before, self._by_id = self._by_id, {}
        rows = self._db.rows(
            "SELECT id, collection.name, state, reason, config, revision, max(sequence, coalesce(number.value, 0)),"
            " price, plan, plan_end, run, started, phase, swept_host, swept_url, created"
            " FROM collection LEFT JOIN number ON number.name = ? || id ORDER BY id",
            (SEQUENCE,),
        )
        for fields in rows:
            number, name, state, reason, content, revision = fields[:6]
            row = CollectionRow(number, name, state, from_text(reason), content, revision, fields[10])
            old = before.get(number)
            same = old is not None and old.row.config == row.config
            self._by_id[row.id] = LoadedCollection(
                row,
                old.config if old is not None and same else self._decode(row.config),
                fields[6],
                RevisitTuning(*fields[7:10]),
                old.tokens if old is not None else TokenBucket(),
                RunProgress(*fields[11:15]),
                fields[15],
            )

    def set_tuning(self, known: LoadedCollection, tuning: RevisitTuning) -> None:
        self._db.run(
            "UPDATE collection SET price = ?, plan = ?, plan_end = ? WHERE id = ?", (*astuple(tuning), known.row.id)
        )
        known.tuning = tuning

    def open(
        self, content: bytes, number: int | None = None, *, start: bool = True
    ) -> tuple[LoadedCollection, config.Collection | None]:
        """Create a collection (under this number), or apply its new configuration; also returns the configuration that
        it had before. Without `start`, an existing collection keeps its state."""
        same = next((one for one in self._by_id.values() if one.row.config == content), None)
        wanted = self._decode(content) if same is None else same.config
        former = self.find(wanted.name)
        if former is None:
            known = self._create(wanted, content, number, start)
        else:
            known = self._reconfigure(former, wanted, content, start)
        self._by_id[known.row.id] = known
        return known, None if former is None else former.config

    def _create(self, wanted: config.Collection, content: bytes, number: int | None, start: bool) -> LoadedCollection:
        number, now = self._next_number() if number is None else number, self._clock.now()
        state, reason, started = ("running", "", now) if start else ("ready", NOT_STARTED, 0.0)
        self._db.run(
            "INSERT INTO collection (id, name, state, reason, config, created, started) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, wanted.name, state, to_text(reason), content, now, started),
        )
        row = CollectionRow(number, wanted.name, state, reason, content)
        return LoadedCollection(row, wanted, 0, run_progress=RunProgress(started), created=now)

    def _reconfigure(
        self, known: LoadedCollection, wanted: config.Collection, content: bytes, start: bool
    ) -> LoadedCollection:
        _check_usable(known)
        fixed, row = known.config.identity, known.row
        if fixed != wanted.identity:
            raise ConfigError(
                message(
                    "{name}: [identity] is fixed when a collection is created (fold_case = {fold_case},"
                    " strip_slash = {strip_slash}); use another name",
                    name=wanted.name,
                    fold_case=str(fixed.fold_case),
                    strip_slash=str(fixed.strip_slash),
                )
            )
        state, reason = ("running", "") if start else (row.state, row.reason)
        started = known.run_progress.started or (self._clock.now() if start else 0.0)
        revision = row.revision + (content != row.config)
        self._db.run(
            "UPDATE collection SET state = ?, reason = ?, config = ?, revision = ?, started = ? WHERE id = ?",
            (state, to_text(reason), content, revision, started, row.id),
        )
        row = msgspec.structs.replace(row, state=state, reason=reason, config=content, revision=revision)
        progress = dataclasses.replace(known.run_progress, started=started)
        return dataclasses.replace(known, row=row, config=wanted, run_progress=progress)

    def _next_number(self) -> int:
        """A number that no collection ever had, deleted ones included: workers know collections by it."""
        self._db.prefetch("number", [("collections",)])
        last = self._db.value("SELECT value FROM number WHERE name = 'collections'") or 0
        return 1 + max(int(last), int(self._db.value("SELECT coalesce(max(id), 0) FROM collection")))

    def is_deleted(self, number: int) -> bool:
        """Whether this is the number of a deleted collection."""
        if number in self._by_id:
            return False
        self._db.prefetch("number", [("collections",)])
        return 0 < number <= int(self._db.value("SELECT value FROM number WHERE name = 'collections'") or 0)

    def delete(self, known: LoadedCollection) -> None:
        """Delete a collection's own row, when nothing else of it is left."""
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
            raise FrontierError(
                message("no such state: {state!r} (allowed: {states})", state=str(state), states=str(", ".join(STATES)))
            )
        known = self.by_name(name)
        if state == "running" or known.row.state == DELETING:
            _check_usable(known)
        self.write_state(known, state, reason)

    def write_state(self, known: LoadedCollection, state: str, reason: Message | str) -> None:
        """Set the state. A collection that runs for the first time has started now; one that runs no more has ended."""
        if known.row.state == "running" != state:
            number = known.row.id
            ended = int(self._clock.now()) - self._counters.value(number, Bucket.ENDED)
            self._counters.add(number, Bucket.ENDED, ended)
        started = known.run_progress.started or (self._clock.now() if state == "running" else 0.0)
        self._db.run(
            "UPDATE collection SET state = ?, reason = ?, started = ? WHERE id = ?",
            (state, to_text(reason), started, known.row.id),
        )
        known.row = msgspec.structs.replace(known.row, state=state, reason=reason)
        known.run_progress = dataclasses.replace(known.run_progress, started=started)

    def begin_run(self, known: LoadedCollection, run: int) -> None:
        """Begin a run; its counts begin here."""
        number, value = known.row.id, self._counters.value
        known.run_progress = RunProgress(self._clock.now())
        known.row = msgspec.structs.replace(known.row, run=run)
        self._db.run(
            "UPDATE collection SET run = ?, started = ?, phase = 0, swept_host = NULL, swept_url = NULL WHERE id = ?",
            (run, known.run_progress.started, number),
        )
        for bucket, now in (
            (Bucket.OLD_PAGES, self._counters.state(number, UrlState.FETCHED)),
            (Bucket.LEFT_OVER, self._counters.state(number, UrlState.PENDING)),
            (Bucket.REQUESTS_BEFORE, value(number, Bucket.REQUESTS)),
            (Bucket.VISITS_BEFORE, value(number, Bucket.VISITS)),
        ):
            self._counters.add(number, bucket, now - value(number, bucket))

    def set_sweep_position(self, known: LoadedCollection, progress: RunProgress) -> None:
        known.run_progress = progress
        self._db.run(
            "UPDATE collection SET phase = ?, swept_host = ?, swept_url = ? WHERE id = ?",
            (progress.phase, progress.host, progress.url, known.row.id),
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
        """Create a collection of another frontier. It is `importing` until `set_state` says that all its hosts are
        imported; its reason tells one import from another."""
        known = self.find(image.name)
        if known is not None:
            if known.row.state != IMPORTING or known.row.reason != image.reason:
                raise FrontierError(
                    message("a collection named {name!r} is here already; nothing was changed", name=image.name)
                )
            return known.row
        if self._decode(image.config).name != image.name:
            raise FrontierError(
                message("the collection {name!r} has the configuration of another one", name=image.name)
            )
        if number is None:  # the same as in the other frontier, unless it is in use here
            number = max(self._next_number(), image.number)
        self._db.run(
            "INSERT INTO collection (id, name, state, reason, config, revision, created, price, plan,"
            " plan_end, run, started) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, image.name, IMPORTING, to_text(image.reason), image.config, image.revision, image.created,
             image.price, image.plan, image.plan_end, image.run, image.started or image.created),
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
        raise FrontierError(
            message("no collection is named {name!r} (there are: {names})", name=name, names=str(names))
        )

    def by_id(self, number: int) -> LoadedCollection:
        try:
            return self._by_id[number]
        except KeyError:
            raise FrontierError(message("no collection has the number {number}", number=str(number))) from None

    def all(self) -> list[LoadedCollection]:
        return list(self._by_id.values())

    def running(self) -> list[LoadedCollection]:
        return [known for known in self._by_id.values() if known.row.state == "running"]

    def reserve_sequence(self, known: LoadedCollection, count: int) -> int:
        """Reserve numbers in the order of discovery; returns the first."""
        known.sequence += count
        return known.sequence - count

    def flush(self) -> None:
        """Write the sequence numbers at each commit; not into the collections' own rows, which may have 60 MB."""
        self._db.many(
            "INSERT INTO number VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            " WHERE value != excluded.value",
            [(f"{SEQUENCE}{number}", known.sequence) for number, known in self._by_id.items()],
        )

    def free_slots(self, known: LoadedCollection) -> int:
        """How many more new URLs may be handed out without passing the collection's limits."""
        number, most, free = known.row.id, known.config.scope.pages_max, self.requests_left(known)
        if most is not None:
            free = min(free, most - self._pages_used(number) - self.elsewhere.get(number, NO_USAGE).pages)
        return max(0, free)

    def requests_left(self, known: LoadedCollection) -> int:
        """How many more visits of any kind may be handed out."""
        number, most = known.row.id, known.config.scope.requests_max
        if most is None:
            return 1 << 30
        return max(0, most - self._requests_used(number) - self.elsewhere.get(number, NO_USAGE).requests)

    def _pages_used(self, number: int) -> int:
        """Pages kept in this run, and URLs that may become pages."""
        out = self._counters.state(number, UrlState.HANDED_OUT) + self._counters.value(number, Bucket.CHOSEN_WAITING)
        return self._kept_now(number) + out - self._counters.requisites(number, UrlState.HANDED_OUT)

    def _requests_used(self, number: int) -> int:
        made = self._counters.value(number, Bucket.REQUESTS) - self._counters.value(number, Bucket.REQUESTS_BEFORE)
        return made + self._counters.state(number, UrlState.HANDED_OUT)

    def _kept_now(self, number: int) -> int:
        return self._counters.state(number, UrlState.FETCHED) - self._counters.value(number, Bucket.OLD_PAGES)

    def limit_usage(self) -> dict[int, LimitUsage]:
        return {number: LimitUsage(self._pages_used(number), self._requests_used(number)) for number in self._by_id}

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
        value, state = partial(self._counters.value, number), partial(self._counters.state, number)
        revisits_out, passed_over, left_over = map(value, (Bucket.REVISITS_OUT, Bucket.PASSED_OVER, Bucket.LEFT_OVER))
        shown, revisits = value(Bucket.SHOWN_PAGES), value(Bucket.REVISITS)
        # While a collection is kept fresh, it does not wait for its revisits to be over.
        out_uncounted = revisits_out if known.config.keeps_fresh else 0
        rate = self._rate(number, self._kept_now(number) + revisits_out + revisits)
        return CollectionStatus(
            name=known.row.name,
            state=known.row.state,
            reason=known.row.reason,
            known=value(Bucket.KNOWN),
            fetched=state(UrlState.FETCHED) + revisits_out + shown,  # a page stays kept while it is revisited
            pending=state(UrlState.PENDING) - passed_over - left_over,
            failed=state(UrlState.FAILED),
            hosts=value(Bucket.HOSTS),
            pages_per_s=round(rate, 2) if known.row.state == "running" else 0.0,
            handed_out=state(UrlState.HANDED_OUT) - out_uncounted,
            dropped=state(UrlState.DROPPED),
            excluded=state(UrlState.EXCLUDED),
            too_deep=state(UrlState.TOO_DEEP),
            visits=value(Bucket.VISITS),
            requests=value(Bucket.REQUESTS),
            bytes=value(Bucket.BYTES),
            pages_max=known.config.scope.pages_max,
            requests_max=known.config.scope.requests_max,
            keeps_fresh=known.config.keeps_fresh,
            revisits=revisits,
            changes=value(Bucket.CHANGES),
            statuses=self._counters.with_prefix(number, "status:"),
            refused=self._counters.with_prefix(number, "refused:"),
            types=self._counters.with_prefix(number, "type:"),
            unkept=self._unkept(number),
            calibration=self._counters.with_prefix(number, CALIBRATION),
            passed_over=passed_over,
            table=value(Bucket.TABLE_SITES),
            sites_chosen=value(Bucket.SITES_CHOSEN),
            run=known.run,
            started=known.run_progress.started,
            created=known.created,
            revision=known.row.revision,
            earlier=shown + value(Bucket.OLD_PAGES),
            requests_before=value(Bucket.REQUESTS_BEFORE),
            visits_before=value(Bucket.VISITS_BEFORE),
            ended=float(value(Bucket.ENDED)),
            aside=state(UrlState.ASIDE) + left_over,
            again=shown + revisits_out - out_uncounted,
            requisites=sum(self._counters.with_prefix(number, "requisites:").values()),
            requisites_queue=sum(
                self._counters.requisites(number, one) for one in (UrlState.PENDING, UrlState.HANDED_OUT)
            ),
            to_sweep=known.has_runs and known.run > 1 and known.run_progress.phase != SWEPT_OUT,
            sweeping=known.has_runs and known.run_progress.phase == SWEEPING,
        )

    def _unkept(self, number: int) -> dict[str, int]:
        """Settled URLs that are not kept, by cause."""
        counted = self._counters.with_prefix(number, UNKEPT)
        of_older = sum(self._counters.state(number, state) for state in UNKEPT_STATES) - sum(counted.values())
        return counted | {OLD_CAUSE: of_older} if of_older else counted

    def _rate(self, number: int, kept: int) -> float:
        """Pages kept and revisited per second over the last seconds, from the times of the calls."""
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
        raise FrontierError(
            message("{name}: is being deleted; run the same `tarrafa delete` command again", name=known.row.name)
        )
    if known.row.state == IMPORTING:
        raise FrontierError(
            message(
                "{name}: was not wholly imported; run the same `tarrafa import frontier` command again",
                name=known.row.name,
            )
        )


@dataclass(frozen=True, slots=True)
class StoreContext:
    """What the parts of the store share."""

    db: FrontierDatabase
    counters: Counters
    collections: Collections
    ready: "ReadyQueue"
    clock: Clock


class CollectionDeletionLog:
    """Log of deleted collections: one row per name, for the last one of that name. That suffices to tell its pages from
    those of its namesake. Of several servers the first one keeps the log."""

    def __init__(self, context: StoreContext) -> None:
        self._db, self._collections, self._clock = context.db, context.collections, context.clock

    def record(self, known: LoadedCollection) -> None:
        """Note that a collection is deleted as of now, unless that is noted already."""
        name, number = known.row.name, known.row.id
        before, at = self._last(name)
        if before != number:
            self._write(name, number, max(self._clock.now(), at + TICK_S))

    def import_deletions(self, moments: dict[str, float]) -> None:
        """Note deletions of another frontier, or from before this frontier was made anew; not of a collection that
        exists here and existed then."""
        for name, at in sorted(moments.items(), key=lambda one: one[1]):
            known = self._collections.find(name)
            if at > self._last(name)[1] and (known is None or known.created >= at):
                self._write(name, 0, at)

    def deletions(self, after: int) -> list[DeletedCollection]:
        rows = self._db.rows(DELETIONS_AFTER_SQL, (after, after, ENTRIES_PER_RESPONSE))
        return [DeletedCollection(*row) for row in rows]

    def _last(self, name: str) -> tuple[int, float]:
        """Number and time of the last deleted collection of this name; -1 and 0: there is none."""
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

    def __init__(self, context: StoreContext, log: CollectionDeletionLog) -> None:
        self._db, self._counters, self._collections = context.db, context.counters, context.collections
        self._ready, self._log = context.ready, log

    def begin(self, known: LoadedCollection) -> bool:
        """From now on the collection can only be deleted. Returns whether the deletion may begin."""
        name, state = known.row.name, known.row.state
        if state == "running":
            raise FrontierError(
                message("{name}: runs; stop it before it is deleted (`tarrafa stop {name}`)", name=name)
            )
        if state != DELETING:
            self._collections.write_state(known, DELETING, DELETING_REASON)
        return self.has_no_visits_out(known)

    def has_no_visits_out(self, known: LoadedCollection) -> bool:
        """Whether no visit of it is handed out; none will be any more."""
        if known.row.state != DELETING:
            raise FrontierError(message("{name}: is not being deleted", name=known.row.name))
        return not self._counters.state(known.row.id, UrlState.HANDED_OUT)

    def record_deletion(self, known: LoadedCollection) -> bool:
        """False: a visit of it is handed out."""
        if self.has_no_visits_out(known):
            self._log.record(known)
            return True
        return False

    def delete(self, known: LoadedCollection, limit: int) -> bool:
        """Delete about `limit` rows; True: there are more."""
        if not self.begin(known) or limit < 1:
            return True
        self._log.record(known)
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
        """Delete some rows of a host; returns how many more rows may be deleted."""
        for table, key in BELOW_HOSTS.items():
            gone = self._delete_rows(table, key, "host = ? AND collection = ?", (host, number), left)
            self._counters.add(number, Bucket.KNOWN, -gone if table == "url" else 0)
            left -= gone
            if left <= 0:
                return 0
        with self._ready.suspended(host):
            self._db.run("DELETE FROM shelf WHERE collection = ? AND host = ?", (number, host))
            self._db.run("DELETE FROM work WHERE host = ? AND collection = ?", (host, number))
        return left - 1

    def _delete_rows(self, table: str, key: str, condition: str, values: tuple[int, ...], limit: int) -> int:
        if limit <= 0:
            return 0
        where = f"({key}) IN (SELECT {key} FROM {table} WHERE {condition} LIMIT ?)"  # noqa: S608 (names of our own)
        return self._db.run(f"DELETE FROM {table} WHERE {condition} AND {where}", (*values, *values, limit))  # noqa: S608
