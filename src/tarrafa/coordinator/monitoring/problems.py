"""Problems of collections: actions that failed, notices that cannot be delivered, crawls that stall.

Promises: a failure is logged and notified once, until it is another one; a stall is notified once, until the crawl
moves again.
"""

import contextlib
import logging
from collections.abc import Callable

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.config.sections import NotifyConfig
from tarrafa.coordinator.collection_runs import CollectionRuns
from tarrafa.coordinator.monitoring.timeseries import CollectionTimeSeries
from tarrafa.coordinator.notify.notice_outbox import is_stalled, reason_stalled
from tarrafa.errors import TarrafaError
from tarrafa.frontier.messages import CollectionStatus
from tarrafa.i18n import Message

CHECK_EVERY_S = 10.0
log = logging.getLogger(__name__)

DeliveryProblems = Callable[[str, NotifyConfig], list[Message | str]]  # why notices do not arrive


class CollectionProblems:
    """Problems of all collections."""

    def __init__(
        self, runs: CollectionRuns, timeseries: CollectionTimeSeries, clock: Clock, delivery_problems: DeliveryProblems
    ) -> None:
        self._runs, self._timeseries, self._clock = runs, timeseries, clock
        self._delivery_problems = delivery_problems
        self._began = clock.now()
        self._found: dict[str, list[Message | str]] = {}
        self._checked: dict[str, float] = {}
        self._running_since: dict[str, float] = {}  # when it was first seen running, this time

    def of(self, name: str) -> list[Message | str]:
        return self._found.get(name, [])

    def record_failure(self, name: str, error: TarrafaError) -> None:
        if self._found.get(name) != [error.message]:
            log.error("%s: %s", name, error)
            self._found[name] = [error.message]
            with contextlib.suppress(TarrafaError):
                self._runs.notify("failed", name, error.message, str(error))

    def check(self, status: CollectionStatus, settings: Collection, now: float) -> None:
        """Look for undelivered notices and a stall, every CHECK_EVERY_S."""
        if now - self._checked.get(status.name, 0.0) < CHECK_EVERY_S * self._clock.scale:
            return
        self._checked[status.name] = now
        self._found[status.name] = self._delivery_problems(status.name, settings.notify)
        if status.state != "running":
            self._running_since.pop(status.name, None)
        elif status.pending or status.handed_out:
            self._check_stalled(status, float(settings.notify.stalled), now)

    def _check_stalled(self, status: CollectionStatus, limit_s: float, now: float) -> None:
        life, run = self._runs.lifecycle(status.name), self._runs.last(status.name)
        if life is None:
            return
        samples = [(one.at, one.visits) for one in self._timeseries.between(status.name, now - 2 * limit_s, now)]
        running_since = self._running_since.setdefault(status.name, now)
        since = max(life.acted or 0.0, self._began, run.began if run is not None else 0.0, running_since)
        if is_stalled(samples, now, limit_s, since):
            self._runs.notify("stalled", status.name, reason_stalled(limit_s), status.visits)
