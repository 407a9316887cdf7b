"""Fetch tasks of a relay: hands each request to the external crawler and waits for its result.

The walk is as any other; its kit lays each request out as an `Errand`, with the time from which it may be made, and
waits for what somebody brings. A page comes already read; robots.txt, sitemaps and feeds come as they are.
Knows nothing of frontiers, nor of who brings what.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tarrafa.clock import Clock
from tarrafa.crawl.relay.crawler_result import CrawlerResult, to_page, to_response
from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.outcome import DecodedBody
from tarrafa.crawl.worker.parser_process import ParseJobResult
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.model import HostId, Outcome, Status, UrlId, UrlRole, Visit
from tarrafa.parse.url import url_id

if TYPE_CHECKING:
    from tarrafa.crawl.relay.relay import Relay

VisitKey = tuple[UrlId, int]  # of a visit; number 0 is the host's robots.txt


@dataclass(frozen=True, slots=True)
class DeferredClock(Clock):
    """Does not wait: whoever makes the request is told from when on it may be made."""

    inner: Clock = field(default_factory=Clock.real)
    moments: list[float] = field(default_factory=lambda: [0.0])

    @classmethod
    def of(cls, clock: Clock) -> "DeferredClock":
        return cls(clock.epoch, clock.anchor, clock.scale, clock)

    def now(self) -> float:
        return self.inner.now()

    async def sleep_until(self, moment: float) -> None:
        self.moments[0] = moment


@dataclass
class RelaySession(HostSession):
    """A walk that knows which visit it is making, and which robots.txt its rules are from."""

    visit: Visit | None = None
    robots_key: VisitKey | None = None

    async def _visit_when_due(self, visit: Visit) -> bool:
        self.visit = visit
        return await super()._visit_when_due(visit)


@dataclass(slots=True, eq=False)
class FetchTask:
    """Something to be fetched, now or at the time that it names. Without a visit it is the host's robots.txt."""

    session: RelaySession
    request: FetchRequest
    visit: Visit | None
    not_before: float
    result: "asyncio.Future[CrawlerResult]"

    @property
    def host(self) -> HostId:
        return self.session.lease.host

    @property
    def key(self) -> VisitKey:
        return (url_id(self.request.url), 0) if self.visit is None else (self.visit.id, self.visit.number)

    @property
    def is_open(self) -> bool:
        return not self.result.done()


@dataclass(frozen=True, slots=True)
class SettledVisit:
    """A visit that is over. `finished` False: nothing came of it, and it is made again later."""

    host: HostId
    outcome: Outcome
    finished: bool = True


class RemoteFetchServices:
    """The kit of one walk: what it wants fetched and read goes to the crawler, everything else is its relay's."""

    def __init__(self, relay: "Relay") -> None:
        self._relay = relay
        self._clock = DeferredClock.of(relay.clock)
        self.clock: Clock = self._clock
        self.session: RelaySession | None = None
        self.last_result: CrawlerResult | None = None  # the last
        self.resolve_host, self.robots_rules, self.robots_text = (
            relay.resolve_host,
            relay.robots_rules,
            relay.robots_text,
        )
        self.borrow_host, self.return_host, self.hold_body = relay.borrow_host, relay.return_host, relay.hold_body
        self.record_visit, self.archive_robots, self.record_host = (
            relay.record_visit,
            relay.archive_robots,
            relay.record_host,
        )
        self.note_overload, self.request_commit, self.release_host = (
            relay.note_overload,
            relay.request_commit,
            relay.release_host,
        )
        self.is_crowded, self.note_reachability, self.is_current = (
            relay.is_crowded,
            relay.note_reachability,
            relay.is_current,
        )

    async def fetch(self, request: FetchRequest, collection: int) -> FetchResponse:
        assert self.session is not None
        visit = self.session.visit
        self.last_result = await self._relay.fetch_remotely(self.session, request, self._clock.moments[0])
        if self.last_result is None:
            return FetchResponse(Status.NOT_SENT)
        return to_response(self.last_result, request, is_page=visit is not None and visit.role == UrlRole.PAGE)

    async def parse_body(
        self, make: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]:
        """A page was read by the crawler; a sitemap or feed is read here."""
        body = make()
        if body.job is None:
            return body, None
        if body.job.is_listing:
            return await self._relay.parse_body(lambda: body, heavy=heavy)
        assert self.session is not None
        assert self.session.visit is not None
        assert self.last_result is not None
        return body, ParseJobResult(page=to_page(self.last_result, self.session.visit, self.session.admission.identity))
