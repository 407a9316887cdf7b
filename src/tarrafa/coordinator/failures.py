"""Visits of a collection by status, such as failed URLs: counts, hosts, samples, and retry.

Promises: if the frontier does not answer, the rest is shown with the reason; a retry answers within RETRY_S_MAX with
the number of URLs that wait again, and says whether there are more.
"""

import msgspec

from tarrafa.clock import boottime
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.monitoring.snapshot import CollectionSnapshot, VisitStatusCount
from tarrafa.errors import ConfigError, DataError, FrontierError, NotFound
from tarrafa.frontier.export_import.export_records import FrontierCursor
from tarrafa.frontier.messages import UrlStatusFacts
from tarrafa.i18n import Message, message
from tarrafa.model import GIVEN_UP, NO_REQUEST, REDIRECTS, TRANSIENT, can_be_retried, collection_state
from tarrafa.runtime.heartbeat import VisitSample

URLS_PER_CALL = 1_000
URLS_RETRIED_MAX = 100_000  # by one request
RETRY_S_MAX = 20.0


class FailureDetail(msgspec.Struct, frozen=True):
    """All visits of a collection with one status. `fate`: see `fate_of_status`. Without `facts`, the frontier did not
    answer, and `silence` says why. `seen`: samples of the workers."""

    collection: str
    state: str
    counted: VisitStatusCount
    fate: str
    can_be_retried: bool
    facts: UrlStatusFacts | None
    silence: Message | str
    seen: list[VisitSample]


class RetryResponse(msgspec.Struct, frozen=True):
    """Number of URLs that wait again. `more`: not all were reached; send the request again."""

    urls: int
    more: bool


class Failures:
    def __init__(self, coordinator: Coordinator) -> None:
        self._coordinator = coordinator

    async def describe(self, name: str, status: str) -> FailureDetail:
        one, counted = self._find(name, status)
        facts: UrlStatusFacts | None = None
        silence: Message | str = ""
        try:
            facts = await self._coordinator.frontier().urls_by_status(one.name, counted.status)
        except (DataError, FrontierError) as error:
            silence = error.message
        groups = self._coordinator.monitor.recent_visits.failures(one.name)
        seen = next((group.seen for group in groups if group.status == counted.status), [])
        fate, retried = fate_of_status(counted.status), can_be_retried(counted.status)
        return FailureDetail(one.name, one.state, counted, fate, retried, facts, silence, seen)

    async def retry(self, name: str, status: str, who: str) -> RetryResponse:
        """Let all URLs of that status wait again, at most URLS_RETRIED_MAX; a finished collection continues."""
        one, counted = self._find(name, status)
        if not can_be_retried(counted.status):
            raise ConfigError(message("{status}: a retry would change nothing", status=counted.status))
        if one.state in ("importing", "deleting"):
            raise ConfigError(
                message("{name} is {state}: no retry is possible now", name=name, state=collection_state(one.state))
            )
        place: FrontierCursor | None = FrontierCursor()
        urls, until = 0, boottime() + RETRY_S_MAX
        while place is not None and urls < URLS_RETRIED_MAX and boottime() < until:
            some = await self._coordinator.frontier().retry_by_status(one.name, counted.status, place, URLS_PER_CALL)
            urls, place = urls + some.urls, some.end
        if urls:
            await self._coordinator.actions.continue_if_finished(one.name, who)
        return RetryResponse(urls, more=place is not None)

    def _find(self, name: str, status: str) -> tuple[CollectionSnapshot, VisitStatusCount]:
        one = self._coordinator.monitor.current_snapshot().collection(name)
        for counted in one.statuses:
            if str(counted.status) == status:
                return one, counted
        raise NotFound(message("no visit of {name} ended with the status {status!r}", name=name, status=status[:20]))


def fate_of_status(status: int) -> str:
    """What becomes of a URL with that status: it is tried again, was never requested, failed, moved, is kept, or was
    answered without a page."""
    if status in TRANSIENT:
        return "again"
    if status in NO_REQUEST:
        return "unasked"
    if status in GIVEN_UP:
        return "failed"
    if status in REDIRECTS:
        return "moved"
    return "had" if 200 <= status < 300 or status == 304 else "answered"
