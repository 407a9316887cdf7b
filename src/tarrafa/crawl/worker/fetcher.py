"""Fetcher of a worker: the HTTP client with credentials, bandwidth limits and back-pressure.

Every request passes here: pages, robots.txt and sitemaps. A redirect to another host is a request of its own.
Promises: a request carries the credentials that its host may see, and no response shows them; secret ones are sent only
over TLS to a server with a valid certificate, or to this machine. A collection and this machine stay within their
bandwidth; when too many bytes wait to be parsed, nothing more is fetched.
Knows nothing of delays, robots.txt or visits.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from ipaddress import ip_address

from tarrafa.config import Collection
from tarrafa.crawl.worker.resource_limits import ResourceShare
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.credentials import Credential, CredentialCache, mask_response_head
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, parse_head
from tarrafa.fetch.throttling import BandwidthLimiter
from tarrafa.model import Visit
from tarrafa.parse.url import name_and_port
from tarrafa.runtime.data_dir import DataDirectory

ADDRESSES_CACHED_MAX = 1_024
UNPARSED_BYTES_MAX = 128 << 20


class RequestCredentials:
    def __init__(self, data: DataDirectory) -> None:
        self._ring = CredentialCache(data)

    def attach(self, request: FetchRequest, collection: str) -> list[Credential]:
        """Add the credentials that the host may see to a request; returns them."""
        is_tls = request.url.startswith("https:")
        private = is_tls or _is_loopback(request.connect_to)
        shown = self._ring.for_collection(collection).for_host(*name_and_port(request.url), private=private)
        request.secret_headers = tuple(secret.header_line() for secret in shown)
        if is_tls and any(not secret.insecure for secret in shown):
            request.tls = "strict"
        return shown


@lru_cache(ADDRESSES_CACHED_MAX)
def _is_loopback(connect_to: str | None) -> bool:
    """Whether a host is reached at this machine."""
    if connect_to is None:
        return False
    return ip_address(connect_to.rpartition(":")[0].removeprefix("[").removesuffix("]")).is_loopback


def redact_response(response: FetchResponse, shown: Sequence[Credential]) -> FetchResponse:
    """A response with the credentials redacted, as it may be parsed and archived."""
    if not shown or not response.raw_head:
        return response
    head = mask_response_head(response.raw_head, shown)
    return replace(response, raw_head=head, head=parse_head(head) or response.head)


class Fetcher:
    """Fetches for all host sessions of a worker."""

    def __init__(
        self, client: HttpClient, credentials: RequestCredentials, limits: ResourceShare, stats: WorkerStats
    ) -> None:
        self._client, self._credentials, self._limits, self._stats = client, credentials, limits, stats
        self._limiters: dict[str, BandwidthLimiter] = {}  # by the collection's name
        self._machine_limiter = BandwidthLimiter(None)
        self._unparsed_bytes = 0
        self._body_parsed = asyncio.Event()

    async def fetch(self, request: FetchRequest, collection: Collection, visit: Visit | None = None) -> FetchResponse:
        request.limiter, request.machine_limiter = self._limiter(collection), self._machine_limiter
        shown = self._credentials.attach(request, collection.name)
        while self._unparsed_bytes > UNPARSED_BYTES_MAX:
            self._body_parsed.clear()
            await self._body_parsed.wait()
        response = redact_response(await self._client.fetch(request), shown)
        self._stats.count_bytes(len(response.raw_head) + len(response.raw_body))
        return response

    @contextmanager
    def hold_body(self, size: int) -> Iterator[None]:
        self._unparsed_bytes += size
        try:
            yield
        finally:
            self._unparsed_bytes -= size
            self._body_parsed.set()

    def apply_limits(self) -> None:
        """Apply the machine's present bandwidth limit."""
        self._machine_limiter.set_rate(self._limits.bandwidth)

    @property
    def transfers_running(self) -> int:
        return self._client.transfers_running

    def _limiter(self, collection: Collection) -> BandwidthLimiter | None:
        """Limiter of this worker's part of the collection's bandwidth."""
        if collection.fetch.bandwidth is None:
            return None
        rate = collection.fetch.bandwidth / self._limits.workers
        limiter = self._limiters.get(collection.name)
        if limiter is None or limiter.rate != rate:
            limiter = self._limiters[collection.name] = BandwidthLimiter(rate)
        return limiter
