"""Request and response messages of the crawler API (strict JSON), its errors, and their conversion to the crawl's
types.

An unknown field, a wrong type or a value out of bounds is refused, and the error names the field. A crawler is known by
its name; a URL by itself or by its id (32 hex digits); a visit by its URL and number. Promises: pure.

CrawlerApiError: one sentence, and an HTTP status
├── MalformedCall     400   the call cannot be decoded, or a field is wrong
├── UnknownVisit      404   the visit was never assigned to the crawler
├── ConflictingCall   409   the call contradicts an earlier one
├── LostVisit         410   the visit is no longer the crawler's
└── TooManyCrawlers   503   no room for another crawler; retry later
"""

import re
from typing import Annotated

import msgspec
from msgspec import Meta

from tarrafa.crawl.relay.crawler_result import CrawlerResult
from tarrafa.crawl.relay.relay import HOSTS_MAX
from tarrafa.crawl.relay.remote_fetch import FetchTask
from tarrafa.crawl.worker.fetcher import user_agent
from tarrafa.errors import TarrafaError
from tarrafa.model import DATA_SYNTAXES, DataSyntax, Link, Status, UrlId, UrlRole
from tarrafa.parse import robots_meta_usage
from tarrafa.parse.link_extractor import LINKS_MAX
from tarrafa.parse.url import canonical, url_id

URL_CHARS_MAX = 16_384
TEXT_CHARS_MAX = 8 << 20
WORDS_MAX = 10_000  # characters of a title, an anchor, an error; what is kept of them is shorter
FIELDS_MAX = 1_000
GONE = 410
ERROR_CHARS_MAX = 200
ID = re.compile(r"[0-9a-f]{32}")

Name = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9._-]{0,39}\Z")]
UrlText = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)]
ShortText = Annotated[str, Meta(max_length=WORDS_MAX)]
HeaderValue = Annotated[str, Meta(pattern=r"\A[\x20-\x7e]*\Z", max_length=500)]
VisitNumber = Annotated[int, Meta(ge=0, le=1 << 31)]
Cursor = Annotated[int, Meta(ge=0, le=1 << 53)]
Seconds = Annotated[float, Meta(ge=0, le=1e7)]

# Statuses that a crawler may report where HTTP has no number. The others are set by Tarrafa only.
REPORTABLE_STATUSES = frozenset({
    Status.INVALID_RESPONSE, Status.TYPE_NOT_WANTED, Status.TOO_LARGE, Status.TOO_SLOW, Status.SYSTEM_ERROR,
    Status.ADDRESS_REFUSED, Status.TLS_ERROR, Status.HOSTILE, Status.NOT_SENT,
})  # fmt: skip


class _CrawlerRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawler: Name


class CrawlerWorkRequest(_CrawlerRequest, frozen=True):
    """Request work, on up to so many hosts at once. A crawler that `restarted` may have made its last requests a moment
    ago: the delay of its hosts begins again."""

    hosts: Annotated[int, Meta(ge=0, le=HOSTS_MAX)] = 1
    restarted: bool = False


class ReportedLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: UrlText  # as the page has it: relative or not
    anchor: ShortText = ""
    rel: ShortText = ""


class CrawlerLinksRequest(_CrawlerRequest, frozen=True, rename={"source": "from", "targets": "to"}):
    """Report links of a page. `base` and `charset` are the page's, if it has its own."""

    source: UrlText
    visit: VisitNumber
    targets: Annotated[list[ReportedLink], Meta(max_length=LINKS_MAX)]
    base: Annotated[str, Meta(max_length=URL_CHARS_MAX)] = ""
    charset: Annotated[str, Meta(max_length=100)] = ""


class CrawlerTypeRequest(_CrawlerRequest, frozen=True):
    """Report the result of a visit."""

    url: UrlText
    visit: VisitNumber
    status: Annotated[int, Meta(ge=-99, le=599)] | None = None
    gone: bool = False
    type: HeaderValue = ""
    length: Annotated[int, Meta(ge=0, le=1 << 50)] = 0
    elapsed_s: Seconds = 0.0
    address: Annotated[str, Meta(pattern=r"\A[0-9a-fA-F.:]*\Z", max_length=45)] = ""
    etag: HeaderValue = ""
    last_modified: HeaderValue = ""
    location: Annotated[str, Meta(max_length=URL_CHARS_MAX)] = ""
    retry_after_s: Seconds = 0.0
    error: ShortText = ""
    title: ShortText = ""
    text: Annotated[str, Meta(max_length=TEXT_CHARS_MAX)] = ""
    headings: Annotated[list[ShortText], Meta(max_length=FIELDS_MAX)] = []
    language: Annotated[str, Meta(max_length=35)] = ""
    robots: Annotated[str, Meta(max_length=4_096)] = ""  # as in <meta name=robots>: "noindex, nofollow"
    vocabularies: Annotated[list[ShortText], Meta(max_length=FIELDS_MAX)] = []
    syntaxes: Annotated[list[DataSyntax], Meta(max_length=len(DATA_SYNTAXES))] = []  # in which they are written
    canonical: Annotated[str, Meta(max_length=URL_CHARS_MAX)] = ""
    digest: ShortText = ""  # of the page's text, if that is not reported


class CrawlerChangesRequest(_CrawlerRequest, frozen=True):
    """Request the changed in-links of the crawler's URLs. `after` acknowledges the response with that cursor."""

    after: Cursor | None = None


class CrawlerLeaveRequest(_CrawlerRequest, frozen=True):
    """Leave; the crawler's hosts are free at once."""


class VisitMessage(msgspec.Struct, frozen=True):
    """A URL to fetch: no sooner than `wait_s` from now, and one at a time of each host."""

    url: str
    id: str
    visit: int
    role: str  # page, robots, sitemap, feed or requisite
    collection: str
    host: str
    wait_s: float
    delay_s: float
    user_agent: str
    email: str  # to be sent as From, if it is not empty
    etag: str | None
    last_modified: str | None
    connect_to: str | None  # address:port of the host, instead of DNS
    address: str | None  # of the host in DNS, checked to be public
    types: list[str]
    size_max: int
    time_max_s: float
    depth: int
    in_links: list[str]  # ids of URLs that link there
    in_links_total: int


class CrawlerWorkResponse(msgspec.Struct, frozen=True):
    """`lease_s`: how long requests may still be sent; each call renews it."""

    crawler: str
    lease_s: float
    visits: list[VisitMessage]
    ask_again_s: float = 0.0  # if there is nothing to do
    reason: str = ""  # and why
    running: bool = True  # whether any collection is running


class CrawlerLinksResponse(msgspec.Struct, frozen=True):
    """The number of known links of the page, and how many of those just reported are no URLs."""

    lease_s: float
    links: int
    unusable: int


class CrawlerTypeResponse(msgspec.Struct, frozen=True):
    """The visit is over. `status` is how it counts, `kept` whether the page is; `next` is the next visit on the host,
    None if the host was handed back. `finished` False: the visit had no result and is made again later."""

    lease_s: float
    status: int
    kept: bool
    finished: bool = True
    repeated: bool = False
    next: VisitMessage | None = None


class InlinkChange(msgspec.Struct, frozen=True):
    """The changed in-links of one URL."""

    collection: str
    id: str
    url: str
    in_links: list[str]  # ids of new ones
    gone: list[str]  # ids of removed ones
    in_links_total: int


class CrawlerChangesResponse(msgspec.Struct, frozen=True):
    """`cursor` is to be sent as `after`; until then the same response is sent again."""

    cursor: int
    changes: list[InlinkChange]
    more: bool = False


class CrawlerLeaveResponse(msgspec.Struct, frozen=True):
    left: bool


# -- errors -----------------------------------------------------------------------------------------------------------


class CrawlerApiError(TarrafaError):
    code = 400


class MalformedCall(CrawlerApiError):
    pass


class UnknownVisit(CrawlerApiError):
    code = 404


class ConflictingCall(CrawlerApiError):
    code = 409


class LostVisit(CrawlerApiError):
    code = 410


class TooManyCrawlers(CrawlerApiError):
    code = 503


# -- conversion -------------------------------------------------------------------------------------------------------


def worker_name(crawler: str) -> str:
    """The name of the crawler in the frontier, the archive and the graph."""
    return f"crawler.{crawler}"


def parse_url_id(text: str, where: str) -> UrlId:
    """The id of a URL that is given as URL or as id."""
    if ID.fullmatch(text):
        return bytes.fromhex(text)
    url = canonical(text)
    if url is None:
        raise MalformedCall(f"{where}: neither an http(s) URL nor an id of 32 hex digits: {text[:200]!r}")
    return url_id(url)


def reported_status(call: CrawlerTypeRequest) -> int:
    if call.gone == (call.status is not None):
        raise MalformedCall('status: give either the status of the response, or "gone": true')
    if call.status is None:
        return GONE
    if call.status >= 200 or call.status in REPORTABLE_STATUSES:
        return call.status
    allowed = ", ".join(str(int(code)) for code in sorted(REPORTABLE_STATUSES, reverse=True))
    raise MalformedCall(f"status: {call.status} is neither an HTTP status of 200 to 599 nor one of {allowed}")


def to_fetch_result(call: CrawlerTypeRequest, status: int, links: tuple[Link, ...]) -> CrawlerResult:
    """The reported result, with the links reported before."""
    fields = {
        "content-type": call.type,
        "etag": call.etag,
        "last-modified": call.last_modified,
        "location": call.location,
        "x-robots-tag": call.robots,  # `noai` is read there
        "retry-after": str(int(call.retry_after_s)) if call.retry_after_s else "",
    }
    return CrawlerResult(
        status,
        tuple((name, value) for name, value in fields.items() if value),
        call.length,
        call.elapsed_s,
        call.address,
        call.error[:ERROR_CHARS_MAX],
        call.text,
        call.title,
        tuple(call.headings),
        call.language,
        robots_meta_usage.combine_robots([robots_meta_usage.robots_from_meta("robots", call.robots)]),
        tuple(call.vocabularies),
        tuple(call.syntaxes),
        call.canonical,
        call.digest,
        links,
        worker_name(call.crawler),
    )


def to_visit_message(task: FetchTask, wait_s: float, in_links: list[UrlId], total: int) -> VisitMessage:
    """All that the crawler needs to fetch the URL politely."""
    collection, request, visit = task.session.collection, task.request, task.visit
    return VisitMessage(
        url=request.url,
        id=task.key[0].hex(),
        visit=task.key[1],
        role="robots" if visit is None else UrlRole(visit.role).name.lower(),
        collection=collection.name,
        host=task.session.lease.host_key,
        wait_s=round_to_ms(max(0.0, wait_s)),
        delay_s=float(task.session.pacing.delay_s),
        user_agent=user_agent(collection),
        email=collection.politeness.email,
        etag=visit.etag if visit is not None else None,
        last_modified=visit.last_modified if visit is not None else None,
        connect_to=request.connect_to,
        address=request.address,
        types=list(collection.scope.types) if visit is not None and visit.role == UrlRole.PAGE else [],
        size_max=int(request.size_max),
        time_max_s=float(request.time_max_s),
        depth=visit.depth if visit is not None else 0,
        in_links=[link.hex() for link in in_links],
        in_links_total=total,
    )


def round_to_ms(seconds: float) -> float:
    return round(seconds, 3)
