"""Session with one leased host: robots.txt first, then its visits one by one, with crawl delay and back-off.

One walk per leased host: robots.txt first, then its visits one by one, each no sooner than the delay after the end of
the one before. Promises: never two requests at once; nothing that robots.txt forbids; a host that fails or asks for
peace is handed back with the time from which it may be visited again, and costs nothing while it waits. A walk whose
collection is changed goes on by the new configuration; one whose collection rests makes no further request.
"""

import asyncio
import random
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from msgspec.structs import replace

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.scope.traps import TrapMemory
from tarrafa.crawl.worker.outcome import (
    DecodedBody,
    FinishedVisit,
    build_request,
    conclude,
    decode_response,
    refuse_visit,
    user_agent,
)
from tarrafa.crawl.worker.parser_process import ParseJobResult
from tarrafa.crawl.worker.robots_fetch import fetch_robots
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.fetch.robots import RobotsTxt
from tarrafa.frontier.api import VISITS_PER_LEASE, CachedRobots, DiscoveredUrl, HostLoan, HostReport, Lease
from tarrafa.model import BUSY, UNREACHED, HostId, Status, UrlRole, Visit
from tarrafa.parse.url import host_name, name_and_port

BACKOFF_MAX_S = 86_400.0
WAIT_HERE_MAX_S = 10.0  # a longer pause is spent without holding the host
WANTED_MAX = 1_024
HEAVY_BYTES = 4 << 20  # such documents are unpacked and read a few at a time
TURN_VISITS, TURN_S = 50, 300.0  # then others may have the host's place, and robots.txt is looked at anew


class WorkerServices(Protocol):
    """What a walk needs of its worker."""

    clock: Clock

    async def fetch(self, request: FetchRequest, collection: int) -> FetchResponse: ...

    async def resolve_host(
        self, name: str, host: HostId, collection: Collection, beside: str | None = None
    ) -> "ResolvedHost": ...

    async def robots_rules(self, copy: CachedRobots) -> RobotsTxt: ...

    async def robots_text(self, digest: bytes) -> bytes: ...

    async def borrow_host(self, collection: int, host: HostId, key: str) -> HostLoan: ...

    async def return_host(self, report: HostReport) -> None: ...

    async def parse_body(
        self, make: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]: ...

    def hold_body(self, size: int) -> AbstractContextManager[None]: ...

    def record_visit(self, walk: "HostSession", done: FinishedVisit) -> None: ...

    def archive_robots(self, request: FetchRequest, response: FetchResponse) -> None: ...

    def record_host(self, walk: "HostSession", offers: list[DiscoveredUrl]) -> None: ...

    def note_overload(self) -> None: ...

    def request_commit(self) -> None: ...

    def is_crowded(self, walk: "HostSession") -> bool: ...

    def note_reachability(self, host: HostId, reached: bool) -> bool: ...

    def is_current(self, walk: "HostSession") -> bool: ...

    def release_host(self, walk: "HostSession") -> None: ...


@dataclass(frozen=True, slots=True)
class ResolvedHost:
    """Where a host is: an address to connect to; or a reason why not, and from when on one may ask again."""

    connect_to: str | None = None
    address: str | None = None
    proxy: str | None = None
    error: int = 0
    free_at: float = 0.0
    why: str = ""
    unsure: bool = False  # nobody could be asked where it is: perhaps it is us who are cut off

    @property
    def is_known(self) -> bool:
        return bool(self.connect_to or self.address or self.proxy)

    def apply_to(self, request: FetchRequest) -> None:
        request.connect_to, request.address, request.proxy = self.connect_to, self.address, self.proxy


@dataclass(slots=True)
class HostSession:
    """One leased host."""

    lease: Lease
    collection: Collection
    admission: Admission
    services: WorkerServices
    queue: deque[Visit] = field(default_factory=deque)
    next_at: float = 0.0
    ended_at: float = 0.0  # the last answer's end
    delay_s: float = 0.0
    took_s: float = 0.0  # the last request
    failures: int = 0
    trouble: str = ""
    new_robots: CachedRobots | None = None  # to be reported
    unreported: int = 0
    visited: int = 0
    wanted: int = VISITS_PER_LEASE
    began_at: float = 0.0
    left: bool = False  # hand the host back
    released: bool = False  # it is no longer ours
    rules: RobotsTxt | None = None
    trap_memory: TrapMemory = field(default_factory=TrapMemory)
    resolved: ResolvedHost = field(default_factory=ResolvedHost)
    visits_arrived: asyncio.Event = field(default_factory=asyncio.Event)
    sleeper: "asyncio.Task[None] | None" = None  # ourselves, while we wait for the host's next time

    def __post_init__(self) -> None:
        self.queue.extend(self.lease.visits)
        self.trap_memory = TrapMemory(self.lease.memory, self.collection.scope, self.lease.collection)
        self.failures, self.ended_at, self.delay_s = self.lease.failures, self.lease.ended_at, self.lease.delay_s
        self.next_at = max(self.lease.next_at, self.ended_at + max(self._configured_s(), self.delay_s))
        self.began_at = self.services.clock.now()

    def apply_configuration(self, collection: Collection, admission: Admission) -> None:
        """The collection is configured otherwise from now on. What was found out on arrival may not hold any more: then
        the walk ends, and its host is leased again."""
        before, self.collection, self.admission = self.collection, collection, admission
        old, new = before.politeness, collection.politeness
        if before.network != collection.network or (old.robots, old.per_ip) != (new.robots, new.per_ip):
            self.leave()
        self.trap_memory.set_limits(collection.scope)
        if self.left:  # whoever comes next looks at the delays; until when a failing host rests is decided
            return
        self.delay_s = self._own_delay_s() if self.resolved.is_known else max(self.delay_s, self._configured_s())
        self.next_at = max(self.lease.next_at, self.resolved.free_at, self.ended_at + self._pause_s())

    def leave(self) -> None:
        """Make no further request; what is under way may end."""
        self.left = True
        self.visits_arrived.set()
        if self.sleeper is not None:
            self.sleeper.cancel()

    def attach_send_check(self, request: FetchRequest) -> None:
        """It is asked for by what holds now. While its connection is made, that may change."""
        described = self.collection
        request.is_wanted = lambda: not self.left and self.collection is described and self.services.is_current(self)

    async def run(self) -> None:
        """Until there is nothing more to visit, or a reason to leave."""
        try:
            while self._settle_without_request() and not self.queue and not self._is_turn_over():
                self._grow_batch()
                await self._wait_for_visits()
            if self.queue and await self._resolve_and_read_robots():
                while await self._next_visit():
                    pass
        finally:
            self.left = True
            self.services.release_host(self)

    def _settle_without_request(self) -> bool:
        """What gives up its place, was not found again or is taken down need not be asked for, so its host need not
        answer. Whether there was any."""
        found = [(visit, status) for visit in self.queue if (status := self._dismissal_status(visit))]
        for visit, status in found:
            self.queue.remove(visit)
            self.unreported += 1
            self.services.record_visit(
                self, refuse_visit(visit, self.collection.name, status, self.services.clock.now())
            )
        return bool(found)

    def _dismissal_status(self, visit: Visit) -> int:
        if visit.dismissed:  # for a better page, or because its run has found no way to it
            return Status.REPLACED if self.collection.keeps_fresh else Status.NOT_FOUND_AGAIN
        return Status.TAKEN_DOWN if self.admission.is_taken_down(visit.url) else 0

    async def _wait_for_visits(self) -> None:
        """Return when there is something to visit, or when nothing more will come."""
        while not self.queue and self.unreported and not self.left:
            self.visits_arrived.clear()
            self.services.request_commit()
            await self.visits_arrived.wait()

    def _grow_batch(self) -> None:
        """Refusals cost no time: thousands of them should not go by eights."""
        self.wanted = min(2 * self.wanted, WANTED_MAX)

    async def _resolve_and_read_robots(self) -> bool:
        """Find the host and its rules."""
        self.resolved = await self.services.resolve_host(
            host_name(f"{self.lease.host_key}/"), self.lease.host, self.collection
        )
        if self.resolved.error == Status.ADDRESS_REFUSED:
            return True  # to say so of every URL
        if self.resolved.error:
            if not (self.resolved.unsure and self.services.note_reachability(self.lease.host, False)):
                self._back_off(0.0, self.resolved.why)
            return False
        if self.resolved.free_at:  # its address is busy with another host
            self.next_at = max(self.next_at, self.resolved.free_at)
            return False
        if self.collection.politeness.robots == "ignore":
            self.delay_s = self._own_delay_s()
            return True
        copy = self.lease.robots
        if copy is None or copy.expires <= self.services.clock.now():
            copy = await fetch_robots(self)
            if copy is None:
                return False
        self.rules = await self.services.robots_rules(copy)
        self.delay_s = self._own_delay_s()
        self.next_at = max(self.next_at, self.ended_at + self.delay_s)  # robots.txt was a request too
        depth = min((visit.depth for visit in self.queue), default=0)
        sitemaps: list[DiscoveredUrl] = []
        if any(self._is_ours(visit) for visit in self.queue):  # else the host is only here for a sitemap, or one page
            sitemaps = list(self.admission.admit_sitemaps(self.rules.sitemaps, self.lease.host_key, depth))
        if self.new_robots is not None or sitemaps:
            self.services.record_host(self, sitemaps)  # at once: if we are killed, the next one must know the delay
        return True

    def _configured_s(self) -> float:
        return self.collection.delay_for(*name_and_port(f"{self.lease.host_key}/"))

    def _own_delay_s(self) -> float:
        """What is configured for the host, or what it asks for, if that is more and not beyond all measure."""
        asked = self.rules.crawl_delay(user_agent(self.collection)) if self.rules is not None else None
        return float(max(self._configured_s(), min(asked or 0.0, self.collection.politeness.delay_max)))

    def _pause_s(self) -> float:
        """After the last answer."""
        politeness = self.collection.politeness
        pause = max(self.delay_s, politeness.delay_factor * self.took_s)
        return min(pause, max(self.delay_s, politeness.delay_max))

    def _is_ours(self, visit: Visit) -> bool:
        return visit.role == UrlRole.PAGE and not self.admission.is_outside_hosts(visit.url)

    def robots_unavailable(self, why: str, unreached: bool, retry_after_s: float) -> None:
        """robots.txt cannot be had: the host is left alone, unless it is us who are cut off."""
        if not self.services.note_reachability(self.lease.host, not unreached):
            self._back_off(retry_after_s, why)

    async def _next_visit(self) -> bool:
        """One visit; False when the walk is over."""
        await self._wait_for_visits()
        if self.left or not self.queue or self._is_turn_over():
            return False
        visit = self.queue.popleft()
        self.unreported += 1
        self.visited += 1
        if reason := self._refusal_status(visit):
            self.services.record_visit(
                self, refuse_visit(visit, self.collection.name, reason, self.services.clock.now())
            )
            if not self.queue:
                self._grow_batch()
            return True
        self.wanted = VISITS_PER_LEASE
        return await self._visit_when_due(visit)

    async def _visit_when_due(self, visit: Visit) -> bool:
        """A visit with a request, when its time has come; False when the walk is over."""
        described = self.collection
        if not await self._wait_for_delay():
            self.unreported -= 1
            return False
        if self.collection is not described and (reason := self._refusal_status(visit)):  # since we waited
            self.services.record_visit(
                self, refuse_visit(visit, self.collection.name, reason, self.services.clock.now())
            )
            return True
        return await self._fetch_visit(visit)

    async def _fetch_visit(self, visit: Visit) -> bool:
        """Request and answer; False when the walk is over."""
        request = build_request(visit.url, self.collection, visit)
        response = await self._send(request)
        if response is None:  # nothing was sent: the visit goes back with the host
            self.unreported -= 1
            return False
        unreached = response.status in UNREACHED
        if self.services.note_reachability(self.lease.host, not unreached):  # it is not the host: the visit goes back
            self.unreported -= 1
            return False
        with self.services.hold_body(len(response.raw_body)):
            done = await self._parse_and_conclude(visit, request, response)
        if self.admission.is_taken_down(visit.url):  # while it was on its way: nothing of it is kept
            done = refuse_visit(visit, self.collection.name, Status.TAKEN_DOWN, self.ended_at, requested=True)
        self.services.record_visit(self, done)
        if response.status == Status.STARVED:
            self.services.note_overload()
            return True
        if unreached or response.status in BUSY:
            why = f"{int(response.status)} {response.error}"  # read by `model.host_trouble`
            self._back_off(done.record.outcome.retry_after_s, why)
            return False
        self.failures, self.trouble = 0, ""
        return True

    async def _parse_and_conclude(self, visit: Visit, request: FetchRequest, response: FetchResponse) -> FinishedVisit:
        """Whatever a page does to us, it is one page."""
        at = self.ended_at
        try:
            body = reading = None
            if response.status == 200:
                heavy = visit.role == UrlRole.SITEMAP or len(response.raw_body) > HEAVY_BYTES
                body, reading = await self.services.parse_body(
                    lambda: decode_response(visit, response, self.collection, self.admission), heavy=heavy
                )
                if reading is not None and reading.hostile:
                    self.trap_memory.count_hostile_page()
                if self._is_a_page(reading, response):  # that somebody announced as a sitemap or feed
                    visit = replace(visit, role=int(UrlRole.PAGE))
                    body, reading = await self.services.parse_body(
                        lambda: decode_response(visit, response, self.collection, self.admission), heavy=heavy
                    )
            done = conclude(
                visit, request, response, self.collection, self.admission, at, body, reading, self.trap_memory
            )
        except Exception as error:
            traceback.print_exc()
            why = f"{type(error).__name__}: {error}"
            done = refuse_visit(visit, self.collection.name, Status.HOSTILE, at, why, requested=True)
        return done

    def _is_a_page(self, reading: ParseJobResult | None, response: FetchResponse) -> bool:
        listing = reading.listing if reading is not None else None
        kind = response.head.content_type
        return listing is not None and not listing.kind and bool(kind) and self.collection.wants_type(kind)

    def _is_turn_over(self) -> bool:
        """It had its turn, and somebody else wants the place; or it has been here for so long that rules may be old."""
        long = (self.services.clock.now() - self.began_at) / self.services.clock.scale > TURN_S
        return long or (self.visited >= TURN_VISITS and self.services.is_crowded(self))

    def _refusal_status(self, visit: Visit) -> int:
        """Why no request may be made for this visit; 0 if it may."""
        if unasked := self._dismissal_status(visit) or self.resolved.error:
            return unasked
        limit = self.collection.scope.depth_max
        if visit.depth and visit.role == UrlRole.PAGE:
            if not self.admission.may_fetch(visit.url) or (limit is not None and visit.depth > limit):
                return Status.OUT_OF_SCOPE
            if refusal := self.admission.refusal_status(visit.url):
                return refusal
        if self.rules is not None and not self.rules.allows(user_agent(self.collection), visit.url):
            return Status.ROBOTS
        if self.trap_memory.is_hostile:
            return Status.HOSTILE
        return Status.TRAP if visit.content_id is None and self.trap_memory.is_barren(visit.url) else 0

    async def request(self, request: FetchRequest, *, patient: bool = False) -> FetchResponse | None:
        """Wait for the host's next time, then fetch; None when the pause is too long to be spent here."""
        return await self._send(request) if await self._wait_for_delay(patient=patient) else None

    async def _wait_for_delay(self, *, patient: bool = False) -> bool:
        """Until the host's next time, which may be put off meanwhile; False: it is not now."""
        clock, moment = self.services.clock, 0.0
        while moment < self.next_at and not self.left:
            moment = self.next_at
            if (moment - clock.now()) / clock.scale > WAIT_HERE_MAX_S and not patient:
                return False
            await self._sleep_until(moment)
        return not self.left

    async def _sleep_until(self, moment: float) -> None:
        """Or until there is no reason to stay."""
        self.sleeper = asyncio.current_task()
        try:
            await self.services.clock.sleep_until(moment)
        except asyncio.CancelledError:
            if not self.left:
                raise
            assert self.sleeper is not None
            self.sleeper.uncancel()
        finally:
            self.sleeper = None

    async def _send(self, request: FetchRequest) -> FetchResponse | None:
        """None: it did not leave."""
        clock, self.took_s = self.services.clock, 0.0
        self.resolved.apply_to(request)
        self.attach_send_check(request)
        try:
            response = await self.services.fetch(request, self.lease.collection)
            self.took_s = (response.elapsed_s - response.held_s) * clock.scale  # our own limits are not its slowness
        finally:  # also when we are cut off in the middle
            self.ended_at = clock.now()
            self.next_at = self.ended_at + self._pause_s()
        return response if response.status != Status.NOT_SENT else None

    def _back_off(self, retry_after_s: float, why: str) -> None:
        """Leave the host alone: 60 s, doubling to a day, with jitter; longer if it asks for that."""
        self.failures, self.trouble = self.failures + 1, why.strip()
        backoff = self.collection.politeness.backoff * 2 ** min(self.failures - 1, 20) * random.uniform(1.0, 1.25)
        wait = min(BACKOFF_MAX_S, max(backoff, retry_after_s))
        self.next_at = max(self.next_at, self.services.clock.now() + wait)
        self.left = True
