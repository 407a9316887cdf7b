"""Turns the response to a visit into its outcome, its archive record and the URLs it discovers.

The input is a visit, its response and the result of the parser. The output is the outcome, the archive record, and the
discovered URLs.
Promises: pure; the worker waits, parses and writes.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from msgspec.structs import replace

from tarrafa import __version__
from tarrafa.archive.warc_writer import WarcExchange, payload_digest
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.scope.traps import TrapMemory
from tarrafa.crawl.worker.parser import DecodedBody, ParseJob, ParseJobResult
from tarrafa.fetch.content_encoding import DecodedBodyTooLarge, UndecodableBody
from tarrafa.fetch.http_message import (
    ACCEPT_ENCODING,
    FetchRequest,
    FetchResponse,
    ResponseHead,
    decode_body,
    header_lines,
    retry_after_s,
    warc_truncation,
)
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.model import BUSY, GONE, REDIRECTS, Listing, Outcome, Page, Status, UrlRole, Visit, VisitRecord
from tarrafa.parse.page import sniff
from tarrafa.parse.sitemaps_feeds import SITEMAP_BYTES_MAX
from tarrafa.parse.url import DEFAULT_PORTS, split

ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"
SERVER_CHARS_MAX = 100  # of the Server header
REFRESH_S_MAX = 5.0  # a page that refreshes sooner is a redirect


@dataclass(slots=True)
class FinishedVisit:
    """A visit that is over: its archive record, its report, and its discovered URLs."""

    visit: Visit
    record: VisitRecord
    exchange: WarcExchange | None = None
    discovered: list[DiscoveredUrl] = field(default_factory=list)
    listing: Listing | None = None  # recorded as a note: no other record has its entries


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
    request: FetchRequest, response: FetchResponse, at: float, payload: str = "", same_as: float = 0.0
) -> WarcExchange:
    return WarcExchange(
        request.url,
        at,
        format_request(request),
        response.raw_head + response.raw_body,
        len(response.raw_head),
        response.address,
        warc_truncation(response.status),
        payload,
        same_as,
    )


def refuse_visit(
    visit: Visit, name: str, status: int, at: float, error: str = "", *, requested: bool = False
) -> FinishedVisit:
    """Finish a visit that had no request, or no usable response."""
    outcome = Outcome(status, at, error=error[:200], role=visit.role, requested=requested)
    return FinishedVisit(visit, VisitRecord(name, visit.url, visit.number, visit.depth, outcome, visit.redirects))


def decode_response(visit: Visit, response: FetchResponse, collection: Collection, admission: Admission) -> DecodedBody:
    """The document of a 200 response, with its content encodings decoded."""
    head = response.head
    try:
        body = decode_body(head, response.raw_body, size_limit(collection, visit.role))
    except UndecodableBody as error:
        return DecodedBody(None, Status.INVALID_RESPONSE, str(error))
    except DecodedBodyTooLarge:
        return DecodedBody(None, Status.TOO_LARGE, "unpacks to more than size_max")
    kind = ""
    if visit.role == UrlRole.PAGE and not head.content_type:
        kind = next(filter(collection.wants_type, sniff(body)), "")
        if not kind:
            return DecodedBody(None, Status.TYPE_NOT_WANTED, "no type is named, and it looks like none that is wanted")
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


def conclude(
    visit: Visit,
    request: FetchRequest,
    response: FetchResponse,
    collection: Collection,
    admission: Admission,
    at: float,
    body: DecodedBody | None = None,
    reading: ParseJobResult | None = None,
    memory: TrapMemory | None = None,
) -> FinishedVisit:
    """Conclude a visit. `at` is when the response was complete; `reading` is the result of `body.job`, if there was
    one."""
    status, error = (body.status, body.error) if body is not None else (response.status, response.error)
    page = None
    if reading is not None:
        page, status, error = _classify_page(visit, reading, collection, admission, memory)
    location = _redirect_target(visit, response, admission, status, page)
    if location and visit.redirects >= collection.fetch.redirects_max:
        status = Status.REDIRECTS_EXCEEDED
    kept = status == 200 and page is not None and not location
    listing = reading.listing if reading is not None else None
    whole = kept or (listing is not None and status == 200)
    payload = payload_digest(response.raw_body) if whole else ""
    followed = (
        page is not None and not _is_copy(page, visit, status) and (kept or not admission.is_outside_hosts(visit.url))
    )
    outcome = Outcome(
        status,
        at,
        kept=kept,
        type=response.head.content_type or (body.type if body is not None else ""),
        length=len(response.raw_body),
        elapsed_s=round(response.elapsed_s, 4),
        content_id=page.content_id if page else "",
        etag=response.head.get("etag")[:500] or None,
        last_modified=response.head.get("last-modified")[:100] or None,
        location=location,
        address=response.address,
        retry_after_s=retry_after_s(response.head, at) if status in BUSY else 0.0,
        error=error,
        tls=response.tls,
        role=visit.role,
        payload=payload,
        external=admission.count_external_links(page, visit) if page is not None and followed else 0,
        grace=status in GONE and visit.gone == 0,
        server=_server_software(response.head),
    )
    if page is not None and not kept:  # its links and status are kept, its text is not
        page = replace(page, text="", statements="")
    record = VisitRecord(collection.name, visit.url, visit.number, visit.depth, outcome, visit.redirects, page)
    exchange = _exchange_to_archive(visit, request, response, outcome, whole=whole)
    discovered = list(discovered_urls(record, visit, listing, admission))
    is_new_listing = listing is not None and exchange is not None and not exchange.same_as
    return FinishedVisit(visit, record, exchange, discovered, listing if is_new_listing else None)


def _exchange_to_archive(
    visit: Visit, request: FetchRequest, response: FetchResponse, outcome: Outcome, *, whole: bool
) -> WarcExchange | None:
    """The bytes to archive: of kept pages, of redirects, and of pages unchanged since they were archived."""
    if whole:
        same_as = visit.archived if outcome.payload == visit.payload else 0.0
        return build_exchange(request, response, outcome.at, outcome.payload, same_as)
    if outcome.status in REDIRECTS:
        return build_exchange(request, response, outcome.at)
    if outcome.status == 304 and visit.archived and visit.payload:  # else an external crawler fetched it: no bytes
        return build_exchange(request, response, outcome.at, visit.payload, visit.archived)
    return None


def discovered_urls(
    record: VisitRecord, visit: Visit, listing: Listing | None, admission: Admission
) -> Iterator[DiscoveredUrl]:
    """The URLs that a visit leads to, from its record and from the entries of its listing, if there is one."""
    page, outcome = record.page, record.outcome
    if outcome.location and outcome.status != Status.REDIRECTS_EXCEEDED:
        target = admission.admit_redirect(outcome.location, visit)
        if target is not None:
            yield target
    beyond = admission.is_outside_hosts(visit.url) and not outcome.kept
    if page is not None and not beyond and not _is_copy(page, visit, outcome.status):
        yield from admission.admit_links(page, visit, outcome.location, kept=outcome.kept)
    if listing is not None:
        yield from admission.admit_listing(listing, visit)


def _classify_page(
    visit: Visit, reading: ParseJobResult, collection: Collection, admission: Admission, memory: TrapMemory | None
) -> tuple[Page | None, int, str]:
    """Decide whether the collection keeps a page, and with which status. Beyond its hosts only the language decides."""
    page, languages = reading.page, collection.scope.languages
    if reading.refusal:
        return None, Status.HOSTILE if reading.hostile else Status.INVALID_RESPONSE, reading.refusal
    if reading.listing is not None and not reading.listing.kind:
        return None, Status.INVALID_RESPONSE, "neither a sitemap nor a feed"
    if page is None:
        return None, 200, ""
    if languages and page.language not in languages:
        return (
            page,
            Status.LANGUAGE_OUTSIDE if admission.is_outside_hosts(visit.url) else Status.LANGUAGE_NOT_WANTED,
            "",
        )
    if memory is not None and (copy := memory.check_page(page, visit)):
        return page, copy, ""
    return page, 200 if admission.wants_data_of(page) else Status.NOT_STRUCTURED, ""


def _is_copy(page: Page, visit: Visit, status: int) -> bool:
    """Whether it is one more copy, or has the text of the page that linked to it: it leads nowhere new."""
    return status == Status.COPY or (bool(visit.parent) and bytes.fromhex(page.content_id[:16]) == visit.parent)


def _redirect_target(
    visit: Visit, response: FetchResponse, admission: Admission, status: int, page: Page | None
) -> str:
    """Target of a redirect, or of a page that refreshes at once; empty: none."""
    if page is not None and page.refresh and page.refresh_s < REFRESH_S_MAX and status == 200:
        return page.refresh
    return _location(visit, response, admission) if status in REDIRECTS else ""


def _location(visit: Visit, response: FetchResponse, admission: Admission) -> str:
    """Target of a redirect; servers write raw UTF-8 there, which HTTP libraries show as Latin-1."""
    text = response.head.get("location")
    with contextlib.suppress(UnicodeEncodeError, UnicodeDecodeError):
        text = text.encode("latin-1").decode("utf-8")
    return admission.identity.canonicalize(text, visit.url) or "" if text else ""


def _server_software(head: ResponseHead) -> str:
    """The Server header as one printable line."""
    return "".join(filter(str.isprintable, head.get("server")[:SERVER_CHARS_MAX])).strip()
