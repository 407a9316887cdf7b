"""Request and response messages of the crawler API (strict JSON).

JSON objects, strict: a field that is not known, a wrong type or a value out of bounds is refused, and the complaint
names the field. A crawler is known by its name; a URL by itself or by its id (32 hex digits); a visit by its URL and
number.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from tarrafa.crawl.relay.relay import HOSTS_MAX
from tarrafa.model import Status
from tarrafa.parse.link_extractor import LINKS_MAX

URL_CHARS_MAX = 16_384
TEXT_CHARS_MAX = 8 << 20
WORDS_MAX = 10_000  # characters of a title, an anchor, a complaint; what is kept of them is shorter
FIELDS_MAX = 1_000

Name = Annotated[str, Meta(pattern=r"\A[a-z0-9][a-z0-9._-]{0,39}\Z")]
UrlText = Annotated[str, Meta(min_length=1, max_length=URL_CHARS_MAX)]
ShortText = Annotated[str, Meta(max_length=WORDS_MAX)]
HeaderValue = Annotated[str, Meta(pattern=r"\A[\x20-\x7e]*\Z", max_length=500)]
VisitNumber = Annotated[int, Meta(ge=0, le=1 << 31)]
Cursor = Annotated[int, Meta(ge=0, le=1 << 53)]
Seconds = Annotated[float, Meta(ge=0, le=1e7)]

# What a crawler may say where HTTP has no number for it. The other codes are for us to give.
REPORTABLE_STATUSES = frozenset({
    Status.INVALID_RESPONSE, Status.TYPE_NOT_WANTED, Status.TOO_LARGE, Status.TOO_SLOW, Status.SYSTEM_ERROR,
    Status.ADDRESS_REFUSED, Status.TLS_ERROR, Status.HOSTILE, Status.NOT_SENT,
})  # fmt: skip


class _CrawlerRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    crawler: Name


class CrawlerWorkRequest(_CrawlerRequest, frozen=True):
    """*Give me work*, on up to so many hosts at once. Whoever `restarted` has forgotten whether it asked for what it
    holds just now: its hosts get their delay."""

    hosts: Annotated[int, Meta(ge=0, le=HOSTS_MAX)] = 1
    restarted: bool = False


class ReportedLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    url: UrlText  # as the page has it: relative or not
    anchor: ShortText = ""
    rel: ShortText = ""


class CrawlerLinksRequest(_CrawlerRequest, frozen=True, rename={"source": "from", "targets": "to"}):
    """*Here are new links and who points to them.* `base` and `charset` are the page's, where it has its own."""

    source: UrlText
    visit: VisitNumber
    targets: Annotated[list[ReportedLink], Meta(max_length=LINKS_MAX)]
    base: Annotated[str, Meta(max_length=URL_CHARS_MAX)] = ""
    charset: Annotated[str, Meta(max_length=100)] = ""


class CrawlerTypeRequest(_CrawlerRequest, frozen=True):
    """*This URL is of that type*: what came of a visit."""

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
    canonical: Annotated[str, Meta(max_length=URL_CHARS_MAX)] = ""
    digest: ShortText = ""  # of the page's text, where that is not told


class CrawlerChangesRequest(_CrawlerRequest, frozen=True):
    """*What changed in the in-links of what is mine?* `after` acknowledges the answer that had that cursor."""

    after: Cursor | None = None


class CrawlerLeaveRequest(_CrawlerRequest, frozen=True):
    """*I am leaving.*"""


class VisitMessage(msgspec.Struct, frozen=True):
    """Something to fetch: no sooner than `wait_s` from now, and one at a time of each host."""

    url: str
    id: str
    visit: int
    role: str  # page, robots, sitemap or feed
    collection: str
    host: str
    wait_s: float
    delay_s: float
    user_agent: str
    email: str  # to be sent as From, where it is not empty
    etag: str | None
    last_modified: str | None
    connect_to: str | None  # address:port that the host is reached at, whatever its name says
    address: str | None  # that its name leads to, and that was found to be on the public Internet
    types: list[str]
    size_max: int
    time_max_s: float
    depth: int
    in_links: list[str]  # ids of URLs that link there
    in_links_total: int


class CrawlerWorkResponse(msgspec.Struct, frozen=True):
    """`lease_s` is for how long requests may still be sent; each call begins it anew."""

    crawler: str
    lease_s: float
    visits: list[VisitMessage]
    ask_again_s: float = 0.0  # where there is nothing to do
    reason: str = ""  # and why
    running: bool = True  # whether any collection is


class CrawlerLinksResponse(msgspec.Struct, frozen=True):
    """How many links the page is now known to have, and how many of those just told lead nowhere."""

    lease_s: float
    links: int
    unusable: int


class CrawlerTypeResponse(msgspec.Struct, frozen=True):
    """The visit is over. `status` is how it counts, `kept` whether the page is; `next` is what comes next on the host,
    none if it was handed back. `finished` False: nothing came of it, and it is made again later."""

    lease_s: float
    status: int
    kept: bool
    finished: bool = True
    repeated: bool = False
    next: VisitMessage | None = None


class InlinkChange(msgspec.Struct, frozen=True):
    """What is new about who links to a URL."""

    collection: str
    id: str
    url: str
    in_links: list[str]  # ids of those that link there now and did not
    gone: list[str]  # of those that did, and do not now
    in_links_total: int


class CrawlerChangesResponse(msgspec.Struct, frozen=True):
    """`cursor` is to be given back as `after`; until then the same answer is given again."""

    cursor: int
    changes: list[InlinkChange]
    more: bool = False


class CrawlerLeaveResponse(msgspec.Struct, frozen=True):
    left: bool
