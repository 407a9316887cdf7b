"""Defines a hostile host, its registry, and what a robust crawler must report of it.

Promises: a hostile host is a host (or a family of hosts) of its own. It is served only by a world with `hostile=True`,
and no ordinary host links to it: a crawl names it as a root. It responds with raw bytes, so it can break any rule. Its
behaviour is the same every time, and its `CrawlExpectation` states what a robust crawler reports.
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
TLS_SUFFIX = ".tls.test"  # served over TLS, at a port of their own
IPV6_SUFFIX = ".six.test"  # served at an IPv6 address
SUFFIXES = ("corner.test", "tls.test", "six.test")  # public suffixes: each hostile host below is a site of its own
ALLOW_ALL = b"User-agent: *\nDisallow:\n"


def _nothing() -> None:
    pass


async def _at_once() -> None:
    pass


@dataclass(slots=True)
class HostileExchange:
    """One request to a hostile host, and the means to respond. Time passes only through `sleep`, so that a test need
    not wait. A handler that writes without end must use `send`, which waits until the client has taken the bytes.
    """

    request: WebRequest
    clock: Clock
    write: Callable[[bytes], None]
    close: Callable[[], None]
    sleep: Callable[[float], Awaitable[None]] = field(default=asyncio.sleep)
    status: int = 0  # for the log
    abort: Callable[[], None] = field(default=_nothing)  # resets the connection
    drain: Callable[[], Awaitable[object]] = field(default=_at_once)
    request_counts: Counter[str] = field(default_factory=Counter)  # of the whole server

    def reply(self, answer: WebResponse) -> None:
        """Send an ordinary response."""
        self.status = answer.status
        self.write(answer.encode(self.clock.now(), self.request.keep_alive, self.request.method != "HEAD"))

    def send_raw(self, status: int, data: bytes) -> None:
        """Send any bytes and close the connection; `status` is for the log."""
        self.status = status
        self.write(data)
        self.close()

    async def send(self, data: bytes) -> None:
        self.write(data)
        await self.drain()

    def count_request(self) -> int:
        """How often this URL has been requested, including this request."""
        key = self.request.authority.lower() + self.request.target
        self.request_counts[key] += 1
        return self.request_counts[key]


HostileHandler = Callable[[HostileExchange], Awaitable[None]]


class CrawlExpectation(msgspec.Struct, frozen=True):
    """What a robust crawler reports with default settings: the types html, xhtml and plain, `redirects_max` 5,
    `retries` 1, `host_failures_max` 3, `host_pages_max` 300 and `site_hosts_max` 20.
    """

    statuses: dict[str, tuple[int, ...]]  # canonical URL: the valid statuses (of HTTP or model.Status)
    kept: frozenset[str] = frozenset()  # must be kept; other URLs of the host must not, unless in `may_keep`
    requests_max: int = 20  # on all hosts of the family together
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
    """Register the handler of a host. A `name` without a dot is below corner.test. `robots` is served as its
    robots.txt; with None the handler also serves /robots.txt.
    """
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
    """The hostile host of that name, else the family that the name belongs to."""
    name = host.lower()
    found = HOSTILE_HOSTS.get(name)
    while found is None and "." in name:
        name = name.partition(".")[2]
        found = HOSTILE_HOSTS.get(f"*.{name}")
    return found


def hostile_roots() -> list[str]:
    """The roots of a crawl of all hostile hosts."""
    return [root for host in HOSTILE_HOSTS.values() for root in host.roots]
