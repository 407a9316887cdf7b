"""Visits of a collection by status, such as failed URLs: counts, hosts, samples, and retry.

All visits with one status: how many, what becomes of such a URL, where they are and since when, and samples with what
was said. Promises: what the frontier does not tell is left out, and why is said; whoever has them tried again hears
how many wait, and whether there are more, within RETRY_S_MAX.
"""

from collections.abc import Callable

import msgspec

from tarrafa.clock import boottime
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.monitoring.collection_view import current_snapshot, find_collection
from tarrafa.coordinator.monitoring.snapshot import CollectionSnapshot, VisitStatusCount
from tarrafa.errors import ConfigError, DataError, FrontierError, NotFound
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import UrlStatusFacts
from tarrafa.frontier.transfer.host_export import FrontierCursor
from tarrafa.i18n import message
from tarrafa.model import GIVEN_UP, NO_REQUEST, REDIRECTS, TRANSIENT, can_be_retried
from tarrafa.runtime.heartbeat import VisitSample

URLS_PER_CALL = 1_000
URLS_RETRIED_MAX = 100_000  # by one wish
RETRY_S_MAX = 20.0


class FailureDetail(msgspec.Struct, frozen=True):
    """All visits of a collection that ended alike. `fate`: what becomes of such a URL: again, unasked, failed, moved,
    had or answered. No `facts`: the frontier was silent, and `silence` says why. `seen`: samples of the workers."""

    collection: str
    state: str
    counted: VisitStatusCount
    fate: str
    can_be_retried: bool
    facts: UrlStatusFacts | None
    silence: str
    seen: list[VisitSample]


class RetryResponse(msgspec.Struct, frozen=True):
    """How many URLs wait again. `more`: not all were reached; ask once more."""

    urls: int
    more: bool


class Failures:
    """All collections, by status. `frontier` gives it when it is there."""

    def __init__(self, coordinator: Coordinator, frontier: Callable[[], Frontier]) -> None:
        self._coordinator, self._frontier = coordinator, frontier

    async def describe(self, name: str, status: str) -> FailureDetail:
        one, counted = self._find(name, status)
        facts, silence = None, ""
        try:
            facts = await self._frontier().urls_by_status(one.name, counted.status)
        except (DataError, FrontierError) as error:
            silence = str(error)
        groups = self._coordinator.monitor.recent_visits.failures(one.name)
        seen = next((group.seen for group in groups if group.status == counted.status), [])
        retried = can_be_retried(counted.status)
        return FailureDetail(
            one.name, one.state, counted, fate_of_status(counted.status), retried, facts, silence, seen
        )

    async def retry(self, name: str, status: str, who: str) -> RetryResponse:
        """All of them wait again, as far as one wish reaches; a collection that had finished goes on."""
        one, counted = self._find(name, status)
        if not can_be_retried(counted.status):
            raise ConfigError(
                message(
                    "{status}: asking once more would change nothing, so these are not tried again",
                    status=counted.status,
                )
            )
        if one.state in ("importing", "deleting"):
            raise ConfigError(
                message("{name} is {state}: nothing of it can be tried again now", name=name, state=one.state)
            )
        place: FrontierCursor | None = FrontierCursor()
        urls, until = 0, boottime() + RETRY_S_MAX
        while place is not None and urls < URLS_RETRIED_MAX and boottime() < until:
            some = await self._frontier().retry_by_status(one.name, counted.status, place, URLS_PER_CALL)
            urls, place = urls + some.urls, some.end
        if urls:
            await self._coordinator.actions.continue_if_finished(one.name, who)
        return RetryResponse(urls, more=place is not None)

    def _find(self, name: str, status: str) -> tuple[CollectionSnapshot, VisitStatusCount]:
        one = find_collection(current_snapshot(self._coordinator), name)
        for counted in one.statuses:
            if str(counted.status) == status:
                return one, counted
        raise NotFound(message("no visit of {name} ended with the status {status!r}", name=name, status=status[:20]))


def fate_of_status(status: int) -> str:
    """What becomes of such a URL."""
    if status in TRANSIENT:
        return "again"
    if status in NO_REQUEST:
        return "unasked"
    if status in GIVEN_UP:
        return "failed"
    if status in REDIRECTS:
        return "moved"
    return "had" if 200 <= status < 300 or status == 304 else "answered"
