"""Fetcher of a worker: builds the request of a visit, sends it with credentials and limits, and decodes the response.

Every request passes here: pages, robots.txt and sitemaps. A redirect to another host is a request of its own.
Promises: a request carries the credentials that its host may see, and no response shows them; secret ones are sent only
over TLS to a server with a valid certificate, or to this machine. A collection and this machine stay within their
bandwidth; when too many bytes wait to be parsed, nothing more is fetched. An answer that is too large or of a type that
is not wanted is cut at its header, as far as the header says so.
Knows nothing of delays or robots.txt.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache

from tarrafa import __version__
from tarrafa.archive.warc_writer import WarcExchange
from tarrafa.config import Collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.parser_with_sandbox import DecodedBody, ParseJob
from tarrafa.crawl.worker.resource_limits import ResourceShare
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.credentials import Credential, CredentialCache, mask_response_head
from tarrafa.fetch.content_encoding import DecodedBodyTooLarge, UndecodableBody, decode_body
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import (
    FetchRequest,
    FetchResponse,
    ResponseHead,
    header_lines,
    parse_head,
)
from tarrafa.fetch.transfer_limits import BandwidthLimiter
from tarrafa.i18n import message
from tarrafa.model import Status, UrlRole, Visit
from tarrafa.parse.url import authority_of, name_and_port, split
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.listen_address import is_loopback_address

ADDRESSES_CACHED_MAX = 1_024
UNPARSED_BYTES_MAX = 128 << 20
# The WARC-Truncated reason for an incomplete body.
WARC_TRUNCATION: dict[int, str] = {Status.TOO_LARGE: "length", Status.TOO_SLOW: "time", Status.STARVED: "time"}
ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"


# -- the request -------------------------------------------------------------------------------------------------------


def user_agent(collection: Collection) -> str:
    politeness = collection.politeness
    name = politeness.user_agent if "/" in politeness.user_agent else f"{politeness.user_agent}/{__version__}"
    return f"{name} (+{politeness.contact})" if politeness.contact else name


def build_request(url: str, collection: Collection, visit: Visit | None = None) -> FetchRequest:
    """The request for a page, or for robots.txt when there is no visit."""
    encodings = ", ".join(collection.fetch.encodings) or "identity"
    headers = [("User-Agent", user_agent(collection)), ("Accept", ACCEPT), ("Accept-Encoding", encodings)]
    if visit is not None and visit.etag:
        headers.append(("If-None-Match", visit.etag))
    if visit is not None and visit.last_modified:
        headers.append(("If-Modified-Since", visit.last_modified))
    if collection.politeness.email:
        headers.append(("From", collection.politeness.email))
    fetch = collection.fetch
    role = visit.role if visit is not None else UrlRole.PAGE
    if role == UrlRole.REQUISITE:
        headers[1] = ("Accept", "*/*")
    size_max = size_limit(collection, role)

    def verdict(head: ResponseHead) -> int:
        if head.code == 200:
            kind = head.content_type
            if role == UrlRole.PAGE and kind and not collection.wants_type(kind):
                return Status.TYPE_NOT_WANTED
            length = head.get("content-length")
            if length.isascii() and length.isdigit() and int(length[:18]) > size_max:
                return Status.TOO_LARGE
        return 0

    return FetchRequest(
        url,
        headers,
        size_max=size_max,
        time_max_s=fetch.time_max,
        connect_timeout_s=fetch.connect_timeout,
        stall_timeout_s=fetch.stall_timeout,
        tls=collection.network.tls,
        ca_file=collection.network.ca_file,
        host_bandwidth=fetch.host_bandwidth,
        check_head=verdict if visit is not None else lambda head: 0,
    )


def size_limit(collection: Collection, role: int) -> int:
    """Largest body. A sitemap may be larger than a page, as far as our own bandwidth can fetch it in time."""
    if role == UrlRole.REQUISITE:
        return int(collection.requisites.size_max)
    if role != UrlRole.SITEMAP:
        return int(collection.scope.size_max)
    from tarrafa.parse.sitemaps_feeds import SITEMAP_BYTES_MAX  # loaded late: see `parser_with_sandbox`

    fetch = collection.fetch
    rate = min(fetch.bandwidth or SITEMAP_BYTES_MAX, fetch.host_bandwidth or SITEMAP_BYTES_MAX)
    return max(collection.scope.size_max, int(min(SITEMAP_BYTES_MAX, rate * fetch.time_max / 2)))


# -- sending it --------------------------------------------------------------------------------------------------------


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
    return is_loopback_address(connect_to.rpartition(":")[0].removeprefix("[").removesuffix("]"))


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
        shown = self._credentials.attach(request, collection.name) if request.has_credentials else []
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


# -- the response: decoded for the parser, complete for the archive ----------------------------------------------------


def decode_response(visit: Visit, response: FetchResponse, collection: Collection, admission: Admission) -> DecodedBody:
    """The document of a 200 response, with its content encodings decoded."""
    head = response.head
    if visit.role == UrlRole.REQUISITE:
        from tarrafa.parse.requisites import requisite_kind

        if not requisite_kind(visit.url, head.get("content-type")):
            return DecodedBody()  # an image, a font: there is nothing to parse
    try:
        body = decode_body(head, response.raw_body, size_limit(collection, visit.role))
    except UndecodableBody as error:
        return DecodedBody(None, Status.INVALID_RESPONSE, error.reason)
    except DecodedBodyTooLarge:
        return DecodedBody(None, Status.TOO_LARGE, message("unpacks to more than size_max"))
    kind = ""
    if visit.role == UrlRole.PAGE and not head.content_type:
        from tarrafa.parse.page import sniff  # loaded late: see `parser_with_sandbox`

        kind = next(filter(collection.wants_type, sniff(body)), "")
        if not kind:
            reason = message("no type is named, and it looks like none that is wanted")
            return DecodedBody(None, Status.TYPE_NOT_WANTED, reason)
    job = ParseJob(
        visit.role,
        body,
        visit.url,
        head.get("content-type"),
        head.joined("x-robots-tag", "\n"),
        admission.identity,
        collection.politeness.user_agent.partition("/")[0],
        collection.requisites.page_max if collection.is_faithful else 0,
    )
    return DecodedBody(job, type=kind)


def build_exchange(
    request: FetchRequest, response: FetchResponse, at: float, payload: str = "", visit: Visit | None = None
) -> WarcExchange:
    """The bytes to archive. `visit` names the copy that the archive has already."""
    return WarcExchange(
        request.url,
        at,
        format_request(request),
        response.raw_head + response.raw_body,
        len(response.raw_head),
        response.address,
        WARC_TRUNCATION.get(response.status, ""),
        payload,
        archived_payload=visit.payload if visit is not None else "",
        archived_at=visit.archived if visit is not None else 0.0,
    )


def format_request(request: FetchRequest) -> bytes:
    """The request as libcurl sends it (tests/crawl compares them), without its secrets."""
    first = [f"GET {split(request.url).target} HTTP/1.1".encode(), f"Host: {authority_of(request.url)}".encode()]
    return b"\r\n".join([*first, *header_lines(request, shown=True)]) + b"\r\n\r\n"
