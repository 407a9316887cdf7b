"""What does one answer mean?

From a visit and the response to it: the outcome, the record for the archive, and where it leads. Pure; the worker
does the waiting and the writing.
"""

import contextlib
from dataclasses import dataclass, field

import msgspec

from tarrafa import __version__
from tarrafa.archive.writer import Exchange
from tarrafa.config import Collection
from tarrafa.crawl.collection import Admission
from tarrafa.errors import TarrafaError
from tarrafa.fetch.http import (
    Head,
    Request,
    Response,
    TooLarge,
    Undecodable,
    decode_body,
    header_lines,
    retry_after,
    truncation,
)
from tarrafa.frontier.protocol import Offer
from tarrafa.model import REDIRECTS, Outcome, Page, Record, Status, Visit
from tarrafa.parse.page import parse
from tarrafa.parse.url import DEFAULT_PORTS, split

ACCEPT = "text/html,application/xhtml+xml,text/plain;q=0.9,*/*;q=0.5"
ACCEPT_ENCODING = "gzip, deflate"


@dataclass(slots=True)
class Finished:
    """A visit that is over: what to archive, what to report, what to offer."""

    visit: Visit
    record: Record
    exchange: Exchange | None = None
    offers: list[Offer] = field(default_factory=list)


def user_agent(collection: Collection) -> str:
    politeness = collection.politeness
    name = politeness.user_agent if "/" in politeness.user_agent else f"{politeness.user_agent}/{__version__}"
    return f"{name} (+{politeness.contact})" if politeness.contact else name


def request_for(url: str, collection: Collection, visit: Visit | None = None) -> Request:
    """The request for a page, or for robots.txt when there is no visit."""
    headers = [("User-Agent", user_agent(collection)), ("Accept", ACCEPT), ("Accept-Encoding", ACCEPT_ENCODING)]
    if visit is not None and visit.etag:
        headers.append(("If-None-Match", visit.etag))
    if visit is not None and visit.last_modified:
        headers.append(("If-Modified-Since", visit.last_modified))
    fetch, scope = collection.fetch, collection.scope

    def verdict(head: Head) -> int:
        if head.code == 200:
            kind = head.content_type
            if kind and not collection.wants_type(kind):
                return Status.TYPE_NOT_WANTED
            length = head.get("content-length")
            if length.isascii() and length.isdigit() and int(length[:18]) > scope.size_max:
                return Status.TOO_LARGE
        return 0

    return Request(
        url,
        headers,
        size_max=scope.size_max,
        time_max_s=fetch.time_max,
        connect_timeout_s=fetch.connect_timeout,
        stall_timeout_s=fetch.stall_timeout,
        verdict=verdict if visit is not None else lambda head: 0,
    )


def request_bytes(request: Request) -> bytes:
    """The request as libcurl sends it (tests/fetch compares them)."""
    parts = split(request.url)
    host = parts.host if parts.port == DEFAULT_PORTS[parts.scheme] else f"{parts.host}:{parts.port}"
    first = [f"GET {parts.target} HTTP/1.1".encode(), f"Host: {host}".encode()]
    return b"\r\n".join([*first, *header_lines(request)]) + b"\r\n\r\n"


def exchange_of(request: Request, response: Response, at: float) -> Exchange:
    return Exchange(
        request.url,
        at,
        request_bytes(request),
        response.raw_head + response.raw_body,
        len(response.raw_head),
        response.address,
        truncation(response.status),
    )


def refused(visit: Visit, name: str, status: int, at: float, error: str = "") -> Finished:
    """A visit that was never a request, or that nothing could be made of."""
    outcome = Outcome(status, at, error=error[:200])
    return Finished(visit, Record(name, visit.url, visit.number, visit.depth, outcome, visit.redirects))


def conclude(
    visit: Visit, request: Request, response: Response, collection: Collection, admission: Admission, at: float
) -> Finished:
    """`at` is when the answer was complete."""
    page, status, error = None, response.status, response.error
    if status == 200:
        page, status, error = _parsed(visit, response, collection, admission)
    location = _location(visit, response, admission) if status in REDIRECTS else ""
    if location and visit.redirects >= collection.fetch.redirects_max:
        status = Status.REDIRECTS_EXCEEDED
    kept = status == 200 and page is not None and (collection.scope.keep == "all" or bool(page.vocabularies))
    outcome = Outcome(
        status,
        at,
        kept=kept,
        type=response.head.content_type,
        length=len(response.raw_body),
        elapsed_s=round(response.elapsed_s, 4),
        content_id=page.content_id if page else "",
        etag=response.head.get("etag")[:500] or None,
        last_modified=response.head.get("last-modified")[:100] or None,
        location=location,
        address=response.address,
        retry_after_s=retry_after(response.head, at) if status in {429, 503} else 0.0,
        error=error,
    )
    if page is not None and not kept:  # its links and status stay known, its text does not
        page = msgspec.structs.replace(page, text="")
    record = Record(collection.name, visit.url, visit.number, visit.depth, outcome, visit.redirects, page)
    finished = Finished(visit, record)
    if kept or status in REDIRECTS:
        finished.exchange = exchange_of(request, response, at)
    if page is not None:
        finished.offers.extend(admission.links_of(page, visit.depth))
    if location and status in REDIRECTS:
        target = admission.offer(location, visit.depth, visit.redirects + 1)
        if target is not None:
            finished.offers.append(target)
    return finished


def _parsed(
    visit: Visit, response: Response, collection: Collection, admission: Admission
) -> tuple[Page | None, int, str]:
    """The page behind a 200, or why there is none."""
    head = response.head
    try:
        body = decode_body(head, response.raw_body, collection.scope.size_max)
        page = parse(
            body,
            visit.url,
            head.get("content-type"),
            head.joined("x-robots-tag", "\n"),
            identity=admission.identity,
            agent=collection.politeness.user_agent.partition("/")[0],
        )
    except Undecodable as error:
        return None, Status.INVALID_RESPONSE, str(error)
    except TooLarge:
        return None, Status.TOO_LARGE, "unpacks to more than size_max"
    except (MemoryError, RecursionError, TarrafaError) as error:
        return None, Status.HOSTILE, f"the parser gave up: {type(error).__name__}"
    languages = collection.scope.languages
    if languages and page.language not in languages:
        return page, Status.LANGUAGE_NOT_WANTED, ""
    return page, 200, ""


def _location(visit: Visit, response: Response, admission: Admission) -> str:
    """Where a redirect leads; servers write raw UTF-8 there, which HTTP libraries show as Latin-1."""
    text = response.head.get("location")
    with contextlib.suppress(UnicodeEncodeError, UnicodeDecodeError):
        text = text.encode("latin-1").decode("utf-8")
    return admission.identity.of(text, visit.url) or "" if text else ""
