"""The runs of collections: starts them at the frontier, records them in the store, and notifies of start and end.

People's actions and the schedule both start runs here. Promises: one action at a time on a collection; a run that
starts or ends without the coordinator (`tarrafa crawl`, or nothing is left to visit) is recorded as well; the end of a
run is notified before it is recorded, so that a kill in between loses no notice; roots whose submission was interrupted
are submitted again before the collection runs on.
"""

import asyncio
from collections.abc import Callable
from weakref import WeakValueDictionary

from msgspec.structs import replace

from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.schedule.schedule_decision import RunHistory
from tarrafa.coordinator.store import CollectionLifecycle, CollectionRun, CoordinatorStore
from tarrafa.crawl.supervisor.supervisor import submit_collection
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.collection_status import shown_state
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import Message

ENDED_STATES = frozenset({"finished", "stopped"})
FRONTIER_SILENT_AFTER_S = 4.0

# Event, collection, reason, its numbers, and the occasion: what distinguishes two events of one kind.
NotifyFunction = Callable[[str, Collection, Message | str, CollectionStatus | None, object], None]


class LatestOverview:
    """The frontier's latest overview: state and numbers of every collection. It stays while the frontier is
    unreachable. `current` is None until the frontier has answered once."""

    def __init__(self, frontier: Callable[[], Frontier]) -> None:
        self._frontier = frontier
        self.current: FrontierOverview | None = None
        self._received = boottime()

    def record(self, overview: FrontierOverview) -> None:
        self.current, self._received = overview, boottime()

    async def refresh(self) -> None:
        """Ask the frontier. Every action ends with it, so that its result is seen at once."""
        self.record(await self._frontier().overview())

    @property
    def collections(self) -> list[CollectionStatus]:
        return self.current.collections if self.current is not None else []

    def status(self, name: str) -> CollectionStatus | None:
        return next((one for one in self.collections if one.name == name), None)

    @property
    def trouble(self) -> str:
        """Why there are no newer numbers; empty while the frontier answers."""
        silent_s = boottime() - self._received
        return f"no answer for {silent_s:.0f} s" if silent_s > FRONTIER_SILENT_AFTER_S else ""


class CollectionRuns:
    """Runs and lifecycles of all collections. `frontier` raises `Unreachable` while the frontier is unreachable."""

    def __init__(
        self,
        store: CoordinatorStore,
        frontier: Callable[[], Frontier],
        definitions: CollectionDefinitions,
        overview: LatestOverview,
        clock: Clock,
        notify: NotifyFunction,
    ) -> None:
        self._store, self._frontier, self._definitions = store, frontier, definitions
        self._overview, self._clock, self._notify = overview, clock, notify
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, name: str) -> asyncio.Lock:
        """One action at a time on a collection: each begins with the result of the one before. Actions on other
        collections do not wait: a million roots take minutes."""
        return self._locks.setdefault(name, asyncio.Lock())

    # -- start and end

    async def submit_roots(self, collection: Collection, before: Collection | None = None) -> None:
        """Submit a configuration, and the roots that `before` did not have. The lifecycle says `sowing` meanwhile: if
        the process is killed, all roots are submitted again before the collection runs."""
        name, life = collection.name, self.lifecycle(collection.name)
        is_sown = before is not None and not (life is not None and life.sowing)
        self.update_lifecycle(name, sowing=True)
        sown = await asyncio.to_thread(lambda: before.root_set) if before is not None and is_sown else frozenset[str]()
        row = await submit_collection(self._frontier(), collection, start=False, sown=sown)
        self._definitions.cache(row, collection)
        self.update_lifecycle(name, sowing=False)

    async def finish_submission(self, name: str) -> None:
        """Submit the roots again if a kill interrupted their submission."""
        life = self.lifecycle(name)
        if life is not None and life.sowing:
            await self.submit_roots(await self._definitions.in_force(name))

    async def start(self, name: str, reason: Message | str, *, by_person: bool) -> None:
        """Start the first run, or continue the last one."""
        await self.finish_submission(name)
        await self._frontier().set_state(name, "running", reason)
        self._record_running(name, reason, by_person=by_person)
        last = self.last(name)
        if last is None:
            self._store.put_run(name, CollectionRun(1, self._clock.now()))
        elif last.ended is not None:
            self._store.put_run(name, replace(last, ended=None, state="running", reason="", cut=False))

    async def begin_run(self, name: str, reason: Message | str, *, by_person: bool) -> None:
        """Begin a new run: visit everything again, from the roots."""
        row = await self._frontier().begin_run(name, reason)
        self._record_running(name, reason, by_person=by_person)
        self._store.put_run(name, CollectionRun(row.run, self._clock.now()))

    def _record_running(self, name: str, reason: Message | str, *, by_person: bool) -> None:
        now = self._clock.now()
        if by_person:
            self.update_lifecycle(name, held=False, acted=now)
        else:
            self.update_lifecycle(name, held=False)
        self.notify("started", name, reason, now)

    def record_end(self, name: str, state: str, reason: Message | str, *, cut: bool = False) -> None:
        last, status = self.last(name), self._overview.status(name)
        if last is None or last.ended is not None:
            return
        now = self._clock.now()
        is_same = status is not None and shown_state(status) == state
        at = status.ended if status is not None and is_same and status.ended > last.began else now
        ended = replace(last, ended=min(at, now), state=state, reason=reason, cut=cut)
        self._store.put_run(name, ended if status is None else _with_counts(ended, status))

    def record_changes(self, status: CollectionStatus, now: float) -> None:
        """Record a run that started or ended without the coordinator."""
        last = self.last(status.name)
        is_open = last is not None and last.ended is None
        if status.state == "running" and not is_open:
            number = max(status.run, last.number if last is not None else 1)
            is_same = last is not None and last.number == number
            again = replace(last, ended=None, state="running", reason="") if last is not None and is_same else None
            self._store.put_run(status.name, again or CollectionRun(number, now))
        elif status.state in ENDED_STATES and last is not None and last.ended is None:
            if status.state == "finished":  # before the end is recorded; the outbox sends one occasion once
                self.notify(shown_state(status), status.name, status.reason, (last.began, status.visits))
            self.record_end(status.name, shown_state(status), status.reason)
        elif status.state in ENDED_STATES and last is None:  # crawled before there was a coordinator
            began, ended = status.started or status.created, status.ended or now
            run = CollectionRun(status.run, began, ended, shown_state(status), status.reason)
            self._store.put_run(status.name, _with_counts(run, status))

    def notify(self, event: str, name: str, reason: Message | str, occasion: object) -> None:
        """Send a notice to the addresses in the collection's configuration."""
        settings = self._definitions.cached(name)
        if settings is not None:
            self._notify(event, settings, reason, self._overview.status(name), occasion)

    # -- what is recorded

    def lifecycle(self, name: str) -> CollectionLifecycle | None:
        return self._store.lifecycle(name)

    def create_lifecycle(self, name: str, creator: str, now: float) -> None:
        self._store.put_lifecycle(name, CollectionLifecycle(created=now, creator=creator, scheduled=now))

    def update_lifecycle(self, name: str, **changes: object) -> None:
        life = self.lifecycle(name) or CollectionLifecycle(created=self._clock.now())
        self._store.put_lifecycle(name, replace(life, **changes))

    def last(self, name: str) -> CollectionRun | None:
        return self._store.last_run(name)

    def all_of(self, name: str) -> list[CollectionRun]:
        """The newest first; an open run has the numbers of the latest overview."""
        known, status = self._store.runs(name), self._overview.status(name)
        return [run if run.ended is not None or status is None else _with_counts(run, status) for run in known]

    def history(self, name: str, state: str) -> RunHistory:
        """The input of the scheduler, for a collection in that state."""
        status, last = self._overview.status(name), self.last(name)
        life = self.lifecycle(name) or CollectionLifecycle(
            created=status.created if status is not None else self._clock.now()
        )
        return RunHistory(
            state=state, created=life.created, changed=life.scheduled, by_person=life.held, acted=life.acted,
            began=last.began if last else None, ended=last.ended if last else None, cut=bool(last and last.cut),
        )  # fmt: skip


def _with_counts(run: CollectionRun, status: CollectionStatus) -> CollectionRun:
    """The run with the frontier's numbers since its start."""
    return replace(
        run, pages=status.kept_by_run, known=status.known, failed=status.failed,
        visits=status.visits - status.visits_before, requests=status.requests - status.requests_before,
    )  # fmt: skip
