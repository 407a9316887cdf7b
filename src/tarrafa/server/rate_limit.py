"""Limits requests per client address with token buckets (429 with Retry-After).

Each address has a token bucket: it holds BURST_S seconds of the rate, each request takes its cost (REQUEST_COSTS), and
the rate refills it. Promises: an empty bucket is 429 with `Retry-After`, before any other work; however many addresses
send requests, BUCKETS_MAX are remembered, the latest ones, some 3 MB; a forgotten bucket was full again or belongs to a
flood from so many addresses that no bucket helps. Local requests are not counted unless configured; nor are programs
with the token (`exempt`), style, script, and health checks.
"""

import logging
import math
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic

from starlette.requests import HTTPConnection, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tarrafa.errors import ConfigError
from tarrafa.server.api.problem_details import refusal_response
from tarrafa.server.auth.request_origin import (
    FORWARDED_FOR,
    NO_PROXIES,
    TrustedProxies,
    client_address,
    is_local_request,
    peer_address,
)

RATE_PER_S = 10.0
RATE_PER_S_MAX = 1_000_000.0
BURST_S = 6.0
BUCKETS_MAX = 20_000
EXEMPT_PATHS = ("/static/", "/healthz", "/crawl/", "/shard/")  # the last two are for programs that know the token
REQUEST_COSTS = {"/sparql": 5.0, "/cdx": 5.0, "/suggest": 0.2, "/console/login": 2.0}  # per request; other paths: 1
log = logging.getLogger(__name__)
UNKNOWN_PROXY = (
    "X-Forwarded-For of %s is ignored, so all its requests count as one client; a proxy is named with --behind-proxy"
)
TOO_MANY_REQUESTS = "too many requests from your address: wait a moment"

_rate = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(?:/\s*(s|min))?").fullmatch


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Requests per second of an address. `local`: local requests are limited, too."""

    per_s: float = RATE_PER_S
    local: bool = False
    proxies: TrustedProxies = NO_PROXIES

    @classmethod
    def parse(cls, text: str, *, local: bool = False, proxies: TrustedProxies = NO_PROXIES) -> "RateLimit":
        """Parse `10/s` or `90/min`; 0 is no limit."""
        found = _rate(text.strip())
        if found is None or float(found[1]) > RATE_PER_S_MAX:
            raise ConfigError(f"--rate-limit: {text[:40]!r}: say 10/s or 90/min, or 0 for no limit")
        per_s = float(found[1]) / (60 if found[2] == "min" else 1)
        return cls(per_s, local, proxies)


class TokenBuckets:
    """One token bucket per name."""

    def __init__(self, per_s: float, now: Callable[[], float] = monotonic, most: int = BUCKETS_MAX) -> None:
        self._per_s, self._now, self._most = per_s, now, most
        self._size = max(per_s * BURST_S, *REQUEST_COSTS.values())
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()  # tokens left, and when

    def __len__(self) -> int:
        return len(self._left)

    def take(self, name: str, cost: float = 1.0) -> float:
        """Take `cost` tokens and return 0; if there are too few, the seconds until there are enough."""
        now = self._now()
        left, at = self._left.pop(name, (self._size, now))
        left = min(self._size, left + (now - at) * self._per_s)
        short = cost - left
        self._left[name] = (left if short > 0 else -short, now)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return max(0.0, short) / self._per_s


class RateLimitMiddleware:
    """Refuses requests above the limit, before any other work."""

    def __init__(
        self,
        app: ASGIApp,
        limit: RateLimit,
        exempt: Callable[[HTTPConnection], bool],
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._app, self._limit, self._exempt = app, limit, exempt
        self._buckets = TokenBuckets(limit.per_s, now) if limit.per_s > 0 else None
        self._warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wait_s = self._wait_s(scope)
        if not wait_s:
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        refused = refusal_response(request, 429, TOO_MANY_REQUESTS, {"Retry-After": str(math.ceil(wait_s))})
        await refused(scope, receive, send)

    def _wait_s(self, scope: Scope) -> float:
        if self._buckets is None or scope["type"] != "http" or scope["path"].startswith(EXEMPT_PATHS):
            return 0.0
        request = Request(scope)
        proxies = self._limit.proxies
        if not self._warned and FORWARDED_FOR in request.headers and peer_address(request) not in proxies:
            self._warned = True
            log.warning(UNKNOWN_PROXY, peer_address(request))
        if not self._limit.local and not proxies and is_local_request(request):
            return 0.0
        if self._exempt(request):
            return 0.0
        return self._buckets.take(client_address(request, proxies), REQUEST_COSTS.get(scope["path"], 1.0))
