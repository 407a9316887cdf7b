"""The HTTP request of a visit with its limits, and its response: decoded for the parser, complete for the archive.

Promises: pure; an answer that is too large or of a type that is not wanted is cut at its header, as far as the header
says so.
"""

from tarrafa import __version__
from tarrafa.archive.warc_writer import WarcExchange
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.worker.sandboxed_parser import DecodedBody, ParseJob
from tarrafa.fetch.content_encoding import DecodedBodyTooLarge, UndecodableBody
from tarrafa.fetch.http_message import (
    ACCEPT_ENCODING,
    FetchRequest,
    FetchResponse,
    ResponseHead,
    decode_body,
    header_lines,
    warc_truncation,
)
from tarrafa.i18n import message
from tarrafa.model import Status, UrlRole, Visit
from tarrafa.parse.page import sniff
from tarrafa.parse.sitemaps_feeds import SITEMAP_BYTES_MAX
from tarrafa.parse.url import DEFAULT_PORTS, split

ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"


def user_agent(collection: Collection) -> str:
    politeness = collection.politeness
    name = politeness.user_agent if "/" in politeness.user_agent else f"{politeness.user_agent}/{__version__}"
    return f"{name} (+{politeness.contact})" if politeness.contact else name


def build_request(url: str, collection: Collection, visit: Visit | None = None) -> FetchRequest:
    """The request for a page, or for robots.txt when there is no visit."""
    headers = [("User-Agent", user_agent(collection)), ("Accept", ACCEPT), ("Accept-Encoding", ACCEPT_ENCODING)]
    if visit is not None and visit.etag:
        headers.append(("If-None-Match", visit.etag))
    if visit is not None and visit.last_modified:
        headers.append(("If-Modified-Since", visit.last_modified))
    if collection.politeness.email:
        headers.append(("From", collection.politeness.email))
    fetch = collection.fetch
    role = visit.role if visit is not None else UrlRole.PAGE
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
    if role != UrlRole.SITEMAP:
        return int(collection.scope.size_max)
    fetch = collection.fetch
    rate = min(fetch.bandwidth or SITEMAP_BYTES_MAX, fetch.host_bandwidth or SITEMAP_BYTES_MAX)
    return max(collection.scope.size_max, int(min(SITEMAP_BYTES_MAX, rate * fetch.time_max / 2)))


def format_request(request: FetchRequest) -> bytes:
    """The request as libcurl sends it (tests/crawl compares them), without its secrets."""
    parts = split(request.url)
    host = parts.host if parts.port == DEFAULT_PORTS[parts.scheme] else f"{parts.host}:{parts.port}"
    first = [f"GET {parts.target} HTTP/1.1".encode(), f"Host: {host}".encode()]
    return b"\r\n".join([*first, *header_lines(request, shown=True)]) + b"\r\n\r\n"


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
        warc_truncation(response.status),
        payload,
        archived_payload=visit.payload if visit is not None else "",
        archived_at=visit.archived if visit is not None else 0.0,
    )


def decode_response(visit: Visit, response: FetchResponse, collection: Collection, admission: Admission) -> DecodedBody:
    """The document of a 200 response, with its content encodings decoded."""
    head = response.head
    try:
        body = decode_body(head, response.raw_body, size_limit(collection, visit.role))
    except UndecodableBody as error:
        return DecodedBody(None, Status.INVALID_RESPONSE, error.reason)
    except DecodedBodyTooLarge:
        return DecodedBody(None, Status.TOO_LARGE, message("unpacks to more than size_max"))
    kind = ""
    if visit.role == UrlRole.PAGE and not head.content_type:
        kind = next(filter(collection.wants_type, sniff(body)), "")
        if not kind:
            reason = message("no type is named, and it looks like none that is wanted")
            return DecodedBody(None, Status.TYPE_NOT_WANTED, reason)
    job = ParseJob(
        visit.role != UrlRole.PAGE,
        body,
        visit.url,
        head.get("content-type"),
        head.joined("x-robots-tag", "\n"),
        admission.identity,
        collection.politeness.user_agent.partition("/")[0],
    )
    return DecodedBody(job, type=kind)
