"""The run log: records runs and lifecycles of collections in the store, and notifies of runs that start and end.

Promises: a run that starts or ends without the coordinator (`tarrafa crawl`, or nothing is left to visit) is recorded
as well; the end of a run is notified before it is recorded, so that a kill in between does not swallow the notice.
Knows nothing of what starts a run, and changes nothing in the frontier.
"""

from collections.abc import Callable

from msgspec.structs import replace

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator.definitions.versions import CollectionDefinitions
from tarrafa.coordinator.monitoring.latest_overview import LatestOverview
from tarrafa.coordinator.schedule.run_scheduler import RunHistory
from tarrafa.coordinator.store import CollectionLifecycle, CollectionRun, CoordinatorStore
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.i18n import Message

ENDED_STATES = frozenset({"finished", "stopped"})

# Event, collection, reason, its numbers, and the occasion: what distinguishes two events of one kind.
NotifyFunction = Callable[[str, Collection, Message | str, CollectionStatus | None, object], None]


class RunLog:
    """Runs and lifecycles of all collections."""

    def __init__(
        self,
        store: CoordinatorStore,
        definitions: CollectionDefinitions,
        overview: LatestOverview,
        clock: Clock,
        notify: NotifyFunction,
    ) -> None:
        self._store, self._definitions, self._overview = store, definitions, overview
        self._clock, self._notify = clock, notify

    # -- lifecycles

    def lifecycle(self, name: str) -> CollectionLifecycle | None:
        return self._store.lifecycle(name)

    def create_lifecycle(self, name: str, creator: str, now: float) -> None:
        self._store.put_lifecycle(name, CollectionLifecycle(created=now, creator=creator, scheduled=now))

    def update_lifecycle(self, name: str, **changes: object) -> None:
        life = self._store.lifecycle(name) or CollectionLifecycle(created=self._clock.now())
        self._store.put_lifecycle(name, replace(life, **changes))

    # -- runs

    def last_run(self, name: str) -> CollectionRun | None:
        return self._store.last_run(name)

    def runs(self, name: str) -> list[CollectionRun]:
        """The newest first; a run that is not over has the numbers of the latest overview."""
        known, status = self._store.runs(name), self._overview.status(name)
        return [run if run.ended is not None or status is None else _with_counts(run, status) for run in known]

    def history(self, name: str, state: str) -> RunHistory:
        """What the scheduler needs to know of a collection in that state."""
        status, last = self._overview.status(name), self._store.last_run(name)
        life = self._store.lifecycle(name) or CollectionLifecycle(
            created=status.created if status is not None else self._clock.now()
        )
        return RunHistory(
            state=state, created=life.created, changed=life.scheduled, by_person=life.held, acted=life.acted,
            began=last.began if last else None, ended=last.ended if last else None, cut=bool(last and last.cut),
        )  # fmt: skip

    def record_start(self, name: str, reason: Message | str, *, by_person: bool) -> None:
        """The first run starts, or the last run continues."""
        self._record_running(name, reason, by_person=by_person)
        last = self._store.last_run(name)
        if last is None:
            self._store.put_run(name, CollectionRun(1, self._clock.now()))
        elif last.ended is not None:
            self._store.put_run(name, replace(last, ended=None, state="running", reason="", cut=False))

    def record_new_run(self, name: str, number: int, reason: Message | str, *, by_person: bool) -> None:
        self._record_running(name, reason, by_person=by_person)
        self._store.put_run(name, CollectionRun(number, self._clock.now()))

    def _record_running(self, name: str, reason: Message | str, *, by_person: bool) -> None:
        if by_person:
            self.update_lifecycle(name, held=False, acted=self._clock.now())
        else:
            self.update_lifecycle(name, held=False)
        self.notify("started", name, reason, self._clock.now())

    def record_end(self, name: str, state: str, reason: Message | str, *, cut: bool = False) -> None:
        last, status = self._store.last_run(name), self._overview.status(name)
        if last is None or last.ended is not None:
            return
        ended = replace(last, ended=self._clock.now(), state=state, reason=reason, cut=cut)
        self._store.put_run(name, ended if status is None else _with_counts(ended, status))

    def record_changes(self, status: CollectionStatus, now: float) -> None:
        """Record a run that started or ended without the coordinator."""
        last = self._store.last_run(status.name)
        is_open = last is not None and last.ended is None
        if status.state == "running" and not is_open:
            number = max(status.run, last.number if last is not None else 1)
            is_same = last is not None and last.number == number
            again = replace(last, ended=None, state="running", reason="") if last is not None and is_same else None
            self._store.put_run(status.name, again or CollectionRun(number, now))
        elif status.state in ENDED_STATES and last is not None and last.ended is None:
            if status.state == "finished":  # before the end is recorded; the outbox sends one occasion once
                self.notify("finished", status.name, status.reason, (last.began, status.visits))
            self.record_end(status.name, status.state, status.reason)
        elif status.state in ENDED_STATES and last is None:  # crawled before there was a coordinator
            began = status.started or status.created
            self._store.put_run(status.name, CollectionRun(status.run, began, now, status.state, status.reason))

    def notify(self, event: str, name: str, reason: Message | str, occasion: object) -> None:
        """Send a notice to the addresses in the collection's configuration."""
        settings = self._definitions.cached(name)
        if settings is not None:
            self._notify(event, settings, reason, self._overview.status(name), occasion)


def _with_counts(run: CollectionRun, status: CollectionStatus) -> CollectionRun:
    """A run with the numbers that the frontier has counted since it began."""
    return replace(
        run, pages=status.fetched - status.earlier, known=status.known, visits=status.visits,
        requests=status.requests - status.requests_before, failed=status.failed,
    )  # fmt: skip
