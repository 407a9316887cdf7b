"""Fetcher of a worker: the HTTP client with credentials, bandwidth limits and back-pressure.

Promises: a request carries the credentials that its host may see, and no response shows them; a collection and this
machine stay within their bandwidth; when too many bytes wait to be parsed, nothing more is fetched.
Knows nothing of delays, robots.txt or visits.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from tarrafa.config import Collection
from tarrafa.crawl.worker.request_credentials import RequestCredentials, redact_response
from tarrafa.crawl.worker.resource_limits import ResourceShare
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.fetch.throttling import BandwidthLimiter
from tarrafa.model import Visit

UNPARSED_BYTES_MAX = 128 << 20


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
        """Count a body that waits to be parsed, until the context ends."""
        self._unparsed_bytes += size
        try:
            yield
        finally:
            self._unparsed_bytes -= size
            self._body_parsed.set()

    def apply_limits(self) -> None:
        """Go by the machine's bandwidth as it is limited now."""
        self._machine_limiter.set_rate(self._limits.bandwidth)

    @property
    def transfers_running(self) -> int:
        return self._client.transfers_running

    def _limiter(self, collection: Collection) -> BandwidthLimiter | None:
        """Lets in no more than this worker's part of the collection's bandwidth."""
        if collection.fetch.bandwidth is None:
            return None
        rate = collection.fetch.bandwidth / self._limits.workers
        limiter = self._limiters.get(collection.name)
        if limiter is None or limiter.rate != rate:
            limiter = self._limiters[collection.name] = BandwidthLimiter(rate)
        return limiter
