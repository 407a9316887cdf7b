"""Defines a hostile host, its registry, and what a robust crawler must report of it.

Promises: a corner is a host (or a family of hosts) of its own, served only by a world with `corners=True` and linked
to by no ordinary host: who wants it names it as a root. It answers by writing raw bytes, so it can break any rule it
likes; what it does is the same every time, and it says beforehand how a crawler that cannot be hurt ends (`Expects`).
Knows nothing of the rest of the world, nor of any crawler.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import msgspec

from tarrafa.clock import Clock
from tarrafa.testweb.http.web_response import PLAIN, WebRequest, WebResponse, typed

SUFFIX = ".corner.test"
TLS_SUFFIX = ".tls.test"  # these speak TLS, at a port of their own
IPV6_SUFFIX = ".six.test"  # these are at an IPv6 address
SUFFIXES = ("corner.test", "tls.test", "six.test")  # public ones: each corner below is a site of its own
ALLOW_ALL = b"User-agent: *\nDisallow:\n"


def _nothing() -> None:
    pass


async def _at_once() -> None:
    pass


@dataclass(slots=True)
class HostileExchange:
    """One request to a corner, and the means to answer it. Time passes only through `sleep`, so that a test need not
    wait for it; whoever writes without end must `send`, which waits until the client has taken it."""

    request: WebRequest
    clock: Clock
    write: Callable[[bytes], None]
    close: Callable[[], None]
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    status: int = 0  # for the log
    abort: Callable[[], None] = field(default=_nothing)  # the connection is reset
    drain: Callable[[], Awaitable[object]] = field(default=_at_once)
    request_counts: Counter[str] = field(default_factory=Counter)  # of the whole server

    def reply(self, answer: WebResponse) -> None:
        """An ordinary answer."""
        self.status = answer.status
        self.write(answer.encode(self.clock.now(), self.request.keep_alive, self.request.method != "HEAD"))

    def send_raw(self, status: int, data: bytes) -> None:
        """Any bytes at all, and the connection ends; `status` is for the log."""
        self.status = status
        self.write(data)
        self.close()

    async def send(self, data: bytes) -> None:
        self.write(data)
        await self.drain()

    def count_request(self) -> int:
        """How often this URL has been asked for, this time included."""
        key = self.request.authority.lower() + self.request.target
        self.request_counts[key] += 1
        return self.request_counts[key]


HostileHandler = Callable[[HostileExchange], Awaitable[None]]


class CrawlExpectation(msgspec.Struct, frozen=True):
    """What a crawler that cannot be hurt reports, with default settings, of the types html, xhtml and plain, with
    `redirects_max` 5, `retries` 1, `host_failures_max` 3, `host_pages_max` 300 and `site_hosts_max` 20."""

    statuses: dict[str, tuple[int, ...]]  # canonical URL -> any one of these is right (HTTP's own or model.Status)
    kept: frozenset[str] = frozenset()  # must be kept; all others of the corner may not, unless `may_keep` says so
    requests_max: int = 20  # on all hosts of the corner together
    never: tuple[str, ...] = ()  # URL prefixes that must never be requested
    may_keep: tuple[str, ...] = ()  # URL prefixes

    def may_be_kept(self, url: str) -> bool:
        return url in self.kept or url.startswith(self.may_keep)


class HostileHost(msgspec.Struct, frozen=True):
    name: str  # of the host; `*.wild.test` is a family: all hosts below wild.test
    about: str  # one sentence
    handler: HostileHandler
    roots: tuple[str, ...]  # where a crawl begins
    expects: CrawlExpectation

    @property
    def origin(self) -> str:
        return origin(self.name)


HOSTILE_HOSTS: dict[str, HostileHost] = {}


def origin(name: str) -> str:
    return f"{'https' if name.endswith(TLS_SUFFIX) else 'http'}://{name}"


def full_name(name: str) -> str:
    return name if "." in name else name + SUFFIX


def register_host(
    name: str,
    about: str,
    expects: CrawlExpectation,
    *,
    roots: tuple[str, ...] | None = None,
    robots: bytes | None = ALLOW_ALL,
) -> Callable[[HostileHandler], HostileHandler]:
    """Register what answers for a host. A `name` without a dot is below corner.test. `robots` is served for it, unless
    it is None: then /robots.txt is the handler's business too."""
    name = full_name(name)

    def register(handler: HostileHandler) -> HostileHandler:
        async def with_robots(exchange: HostileExchange) -> None:
            if robots is not None and exchange.request.target == "/robots.txt":
                exchange.reply(typed(200, PLAIN, robots))
            else:
                await handler(exchange)

        assert name not in HOSTILE_HOSTS, name
        HOSTILE_HOSTS[name] = HostileHost(
            name, about, with_robots, (f"{origin(name)}/",) if roots is None else roots, expects
        )
        return handler

    return register


def hostile_host_of(host: str) -> HostileHost | None:
    """Who answers for a host: the corner of that name, else the family that it belongs to."""
    name = host.lower()
    found = HOSTILE_HOSTS.get(name)
    while found is None and "." in name:
        name = name.partition(".")[2]
        found = HOSTILE_HOSTS.get(f"*.{name}")
    return found


def hostile_roots() -> list[str]:
    """Where a crawl of all corners begins."""
    return [root for corner in HOSTILE_HOSTS.values() for root in corner.roots]
