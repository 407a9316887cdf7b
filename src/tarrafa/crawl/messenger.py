"""How does a walk fetch, whose requests are made by somebody else?

The walk is as any other; its kit lays each request out as an `Errand`, with the time from which it may be made, and
waits for what somebody brings. A page comes already read; robots.txt, sitemaps and feeds come as they are.
Knows nothing of frontiers, nor of who brings what.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tarrafa.clock import Clock
from tarrafa.crawl.brought import Brought, page_of, response_of
from tarrafa.crawl.host import Walk
from tarrafa.crawl.reading import Reading
from tarrafa.crawl.visit import Body
from tarrafa.fetch.http import Request, Response
from tarrafa.model import HostId, Outcome, Role, Status, UrlId, Visit
from tarrafa.parse.url import url_id

if TYPE_CHECKING:
    from tarrafa.crawl.relay import Relay

Key = tuple[UrlId, int]  # of a visit; number 0 is the host's robots.txt


@dataclass(frozen=True, slots=True)
class Unhurried(Clock):
    """Does not wait: whoever makes the request is told from when on it may be made."""

    inner: Clock = field(default_factory=Clock.real)
    moments: list[float] = field(default_factory=lambda: [0.0])

    @classmethod
    def of(cls, clock: Clock) -> "Unhurried":
        return cls(clock.epoch, clock.anchor, clock.scale, clock)

    def now(self) -> float:
        return self.inner.now()

    async def sleep_until(self, moment: float) -> None:
        self.moments[0] = moment


@dataclass
class RelayWalk(Walk):
    """A walk that knows which visit it is making, and which robots.txt its rules are from."""

    visit: Visit | None = None
    rules_key: Key | None = None

    async def _make(self, visit: Visit) -> bool:
        self.visit = visit
        return await super()._make(visit)


@dataclass(slots=True, eq=False)
class Errand:
    """Something to be fetched, now or at the time that it names. Without a visit it is the host's robots.txt."""

    walk: RelayWalk
    request: Request
    visit: Visit | None
    not_before: float
    answer: "asyncio.Future[Brought]"

    @property
    def host(self) -> HostId:
        return self.walk.lease.host

    @property
    def key(self) -> Key:
        return (url_id(self.request.url), 0) if self.visit is None else (self.visit.id, self.visit.number)

    @property
    def is_open(self) -> bool:
        return not self.answer.done()


@dataclass(frozen=True, slots=True)
class Settled:
    """A visit that is over. `finished` False: nothing came of it, and it is made again later."""

    host: HostId
    outcome: Outcome
    finished: bool = True


class Messenger:
    """The kit of one walk: what it wants fetched and read goes to the crawler, everything else is its relay's."""

    def __init__(self, relay: "Relay") -> None:
        self._relay = relay
        self._clock = Unhurried.of(relay.clock)
        self.clock: Clock = self._clock
        self.walk: RelayWalk | None = None
        self.brought: Brought | None = None  # the last
        self.find, self.rules, self.robots_text = relay.find, relay.rules, relay.robots_text
        self.borrow, self.give_back, self.holding = relay.borrow, relay.give_back, relay.holding
        self.finished, self.archive_robots, self.learned = relay.finished, relay.archive_robots, relay.learned
        self.starved, self.hungry, self.leaving = relay.starved, relay.hungry, relay.leaving
        self.is_crowded, self.is_offline, self.is_current = relay.is_crowded, relay.is_offline, relay.is_current

    async def fetch(self, request: Request, collection: int) -> Response:
        assert self.walk is not None
        visit = self.walk.visit
        self.brought = await self._relay.ask(self.walk, request, self._clock.moments[0])
        if self.brought is None:
            return Response(Status.NOT_SENT)
        return response_of(self.brought, request, is_page=visit is not None and visit.role == Role.PAGE)

    async def understand(self, make: Callable[[], Body], *, heavy: bool) -> tuple[Body, Reading | None]:
        """A page was read by the crawler; a sitemap or feed is read here."""
        body = make()
        if body.job is None:
            return body, None
        if body.job.is_listing:
            return await self._relay.understand(lambda: body, heavy=heavy)
        assert self.walk is not None
        assert self.walk.visit is not None
        assert self.brought is not None
        return body, Reading(page=page_of(self.brought, self.walk.visit, self.walk.admission.identity))
