"""Politeness towards one host: its address, crawl delay, pause after a slow response, back-off after failures.

`HostResolver` finds the address to connect to, and claims it. `HostPacing` computes the time from which the host may be
contacted again, from times that it is given. `PoliteFetcher` waits for that time and sends.
Promises: never two requests to the host at once; no request sooner than its delay after the end of the previous one; no
request when the session is over or the collection has changed since the request was built. A host that fails or sends
Retry-After gets a time from which it may be visited again. An address that is forbidden to a collection is never
returned; with `per_ip`, an address that another host holds is not returned before it is free.
Knows nothing of pages, links or the archive.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.config.formats import parse_name_server
from tarrafa.config.sections import PolitenessConfig
from tarrafa.fetch.dns import DnsResolver
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.frontier.messages import Lease
from tarrafa.i18n import Message
from tarrafa.model import HostId, Status, Visit
from tarrafa.parse.url import name_and_port

BACKOFF_MAX_S = 86_400.0
BACKOFF_JITTER_MAX = 1.25
WAIT_HERE_MAX_S = 10.0  # a longer pause is spent without holding the host
ClaimAddress = Callable[[HostId, str], Awaitable[float]]  # 0: the address is ours; else the time from which it may be


@dataclass(frozen=True, slots=True)
class ResolvedHost:
    """The address to connect to; or the reason why there is none, and the time from which to ask again."""

    connect_to: str | None = None
    address: str | None = None
    proxy: str | None = None
    error: int = 0
    free_at: float = 0.0
    why: Message | str = ""
    unsure: bool = False  # no name server answered: perhaps this machine is offline

    @property
    def is_known(self) -> bool:
        return bool(self.connect_to or self.address or self.proxy)

    def apply_to(self, request: FetchRequest) -> None:
        request.connect_to, request.address, request.proxy = self.connect_to, self.address, self.proxy


class HostResolver:
    """Resolves hosts. Collections with the same name servers share one cache."""

    def __init__(self, claim: ClaimAddress) -> None:
        self._claim = claim
        self._resolvers: dict[tuple[str, ...], DnsResolver] = {}

    async def resolve(self, name: str, host: HostId, collection: Collection, beside: str | None = None) -> ResolvedHost:
        """Resolve and claim. `beside` is an address that the caller holds for another host: it needs no claim."""
        target = collection.connect_target(name)
        if target is not None:
            return ResolvedHost(connect_to=target)
        if collection.network.proxy:
            return ResolvedHost(proxy=collection.network.proxy)
        answer = await self._resolver(collection).resolve(name, collection.network.allow_private)
        if answer.address is None:
            status = Status.ADDRESS_REFUSED if answer.refused else Status.NAME_UNKNOWN
            return ResolvedHost(error=status, why=answer.error, unsure=answer.unsure)
        if collection.politeness.per_ip and answer.address != beside:
            free_at = await self._claim(host, answer.address)
            if free_at:
                return ResolvedHost(free_at=free_at)
        return ResolvedHost(address=answer.address)

    def _resolver(self, collection: Collection) -> DnsResolver:
        servers = tuple(filter(None, map(parse_name_server, collection.network.dns)))
        if servers not in self._resolvers:
            self._resolvers[servers] = DnsResolver(list(servers) or None)
        return self._resolvers[servers]

    async def close(self) -> None:
        for resolver in self._resolvers.values():
            await resolver.close()


@dataclass(slots=True)
class HostPacing:
    """When one host may be contacted again. Pure: `now` is an argument."""

    politeness: PolitenessConfig  # of the collection
    configured_s: float  # the delay that the collection sets for this host
    not_before: float  # from the lease; a change of the delay never moves a request before it
    ended_at: float  # end of the last response
    delay_s: float  # configured, or asked for by robots.txt
    next_at: float
    failures: int = 0  # in a row
    took_s: float = 0.0  # the last request
    trouble: Message | str = ""  # why the host is left alone

    @classmethod
    def from_lease(cls, lease: Lease, collection: Collection) -> "HostPacing":
        configured_s = configured_delay_s(collection, lease.host_key)
        next_at = max(lease.next_at, lease.ended_at + max(configured_s, lease.delay_s))
        return cls(
            collection.politeness, configured_s, lease.next_at, lease.ended_at, lease.delay_s, next_at, lease.failures
        )

    def set_delay(self, asked_s: float | None) -> None:
        """The configured delay, or a longer one that robots.txt asks for, cut to `delay_max`."""
        self.delay_s = float(max(self.configured_s, min(asked_s or 0.0, self.politeness.delay_max)))

    def raise_delay(self) -> None:
        """At least the configured delay: what robots.txt asks for is not known yet."""
        self.delay_s = max(self.delay_s, self.configured_s)

    def pause_s(self) -> float:
        pause_s = max(self.delay_s, self.politeness.delay_factor * self.took_s)
        return min(pause_s, max(self.delay_s, self.politeness.delay_max))

    def configure(self, collection: Collection, host_key: str) -> None:
        """Use a new configuration from now on. The current pause stays as it is."""
        self.politeness, self.configured_s = collection.politeness, configured_delay_s(collection, host_key)

    def restart_pause(self, free_at: float) -> None:
        """Compute the current pause anew, also if that makes it shorter."""
        self.next_at = max(self.not_before, free_at, self.ended_at + self.pause_s())

    def postpone(self, moment: float) -> None:
        self.next_at = max(self.next_at, moment)

    def begin_request(self) -> None:
        self.took_s = 0.0

    def end_request(self, now: float, took_s: float) -> None:
        self.took_s, self.ended_at = took_s, now
        self.next_at = now + self.pause_s()

    def end_foreign_request(self, now: float) -> None:
        """A request to another host, perhaps on the same address, has ended."""
        self.ended_at = now
        self.postpone(now + self.delay_s)

    def note_success(self) -> None:
        self.failures, self.trouble = 0, ""

    def back_off(self, now: float, asked_s: float, why: Message | str, jitter: float, failures_min: int = 1) -> None:
        """Leave the host alone for `backoff_s`. It counts as at least `failures_min` failures in a row."""
        self.failures, self.trouble = max(self.failures + 1, failures_min), why
        self.postpone(now + backoff_s(self.politeness, self.failures, asked_s, jitter))


def backoff_s(politeness: PolitenessConfig, failures: int, asked_s: float, jitter: float) -> float:
    """The pause after so many failures in a row: it doubles, or is what the host asks for, and is a day at most."""
    doubled_s = float(politeness.backoff * 2 ** min(failures - 1, 20) * jitter)
    return min(BACKOFF_MAX_S, max(doubled_s, asked_s))


def random_jitter() -> float:
    return random.uniform(1.0, BACKOFF_JITTER_MAX)


def configured_delay_s(collection: Collection, host_key: str) -> float:
    return collection.delay_for(*name_and_port(f"{host_key}/"))


class RequestFetcher(Protocol):
    """Makes a request: the HTTP client of this process, or an external crawler."""

    async def fetch(self, request: FetchRequest, collection: Collection, visit: Visit | None) -> FetchResponse:
        """`visit` is None for robots.txt."""

    def hold_body(self, size: int) -> AbstractContextManager[None]:
        """Count a body that waits to be parsed, until the context ends."""


class PoliteFetcher:
    """Fetches from one host, by the configuration in force, until the session stops."""

    def __init__(
        self,
        host_key: str,
        collection: Collection,
        pacing: HostPacing,
        clock: Clock,
        fetcher: RequestFetcher,
        is_current: Callable[[], bool],
    ) -> None:
        self._host_key, self.collection, self.pacing, self.clock = host_key, collection, pacing, clock
        self._fetcher, self._is_current = fetcher, is_current
        self.hold_body = fetcher.hold_body
        self.resolved = ResolvedHost()
        self.is_stopped = False  # no further request is made
        self._sleeper: asyncio.Task[None] | None = None  # the session's task, while it waits for the delay

    def connect_to(self, resolved: ResolvedHost) -> None:
        """Send all further requests to this address."""
        self.resolved = resolved

    def configure(self, collection: Collection) -> None:
        self.collection = collection
        self.pacing.configure(collection, self._host_key)

    def stop(self) -> None:
        """Make no further request; a running request may end."""
        self.is_stopped = True
        if self._sleeper is not None:
            self._sleeper.cancel()

    def back_off(self, asked_s: float, why: Message | str, failures_min: int = 1) -> None:
        self.pacing.back_off(self.clock.now(), asked_s, why, random_jitter(), failures_min)
        self.is_stopped = True

    def attach_send_check(self, request: FetchRequest) -> None:
        """Check before sending that the configuration is still current: it may change while the connection is made."""
        built_by = self.collection
        request.is_wanted = lambda: not self.is_stopped and self.collection is built_by and self._is_current()

    async def request(self, request: FetchRequest, *, patient: bool = False) -> FetchResponse | None:
        """Wait for the delay, then fetch; None when the pause is too long to be spent here."""
        return await self.send(request) if await self.wait_for_delay(patient=patient) else None

    async def wait_for_delay(self, *, patient: bool = False) -> bool:
        """Wait until the host may be contacted; that time may move meanwhile. False: not now."""
        moment = 0.0
        while moment < self.pacing.next_at and not self.is_stopped:
            moment = self.pacing.next_at
            if (moment - self.clock.now()) / self.clock.scale > WAIT_HERE_MAX_S and not patient:
                return False
            await self._sleep_until(moment)
        return not self.is_stopped

    @property
    def is_due(self) -> bool:
        """Whether the host may be contacted now."""
        return self.pacing.next_at <= self.clock.now()

    @property
    def is_waiting(self) -> bool:
        """Whether the session waits for the delay."""
        return self._sleeper is not None

    async def _sleep_until(self, moment: float) -> None:
        """Sleep until the moment, or until the session stops."""
        self._sleeper = asyncio.current_task()
        try:
            await self.clock.sleep_until(moment)
        except asyncio.CancelledError:
            if not self.is_stopped:
                raise
            assert self._sleeper is not None
            self._sleeper.uncancel()
        finally:
            self._sleeper = None

    async def send(self, request: FetchRequest, visit: Visit | None = None) -> FetchResponse | None:
        """Send at once; None: the request was not sent."""
        self.resolved.apply_to(request)
        self.attach_send_check(request)
        self.pacing.begin_request()
        took_s = 0.0
        try:
            response = await self._fetcher.fetch(request, self.collection, visit)
            took_s = (response.elapsed_s - response.held_s) * self.clock.scale  # without the wait for our own limits
        finally:  # also when the fetch is cancelled in the middle
            self.pacing.end_request(self.clock.now(), took_s)
        return response if response.status != Status.NOT_SENT else None

    async def send_to_other_host(self, request: FetchRequest, resolved: ResolvedHost, moment: float) -> FetchResponse:
        """Send one request to a borrowed host. It may be on the address of this host: both delays hold."""
        await self.clock.sleep_until(max(moment, self.pacing.next_at))
        if self.is_stopped:
            return FetchResponse(Status.NOT_SENT)
        self.attach_send_check(request)
        resolved.apply_to(request)
        try:
            return await self._fetcher.fetch(request, self.collection, None)
        finally:
            self.pacing.end_foreign_request(self.clock.now())
