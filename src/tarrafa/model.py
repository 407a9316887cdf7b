"""The data model that all rooms share: statuses, URL states, pages, links, visits, outcomes, archive records, search
hits.

Everything here is data that crosses a wire, a disk or the border between two rooms. Its few methods are functions of
that data, such as which links are followed and which statuses may be retried.

A host is the unit of politeness and of leasing: `scheme://host:port`, the port always written; its id is the signed
64-bit xxh3 of that text. A site is the registered domain. A URL's id is the 128-bit xxh3 of its canonical form
(`parse/url.py` and `parse/public_suffix.py` compute all of these).
"""

from enum import IntEnum
from typing import Literal, Self, get_args

import msgspec
from msgspec.structs import replace

from tarrafa.i18n import Message, joined, message

UrlId = bytes  # 16 bytes
HostId = int  # signed 64 bits, as SQLite and PostgreSQL store it


class Status(IntEnum):
    """The result of a visit, where HTTP has no code for it. HTTP's own codes are positive and are used as they are."""

    INVALID_RESPONSE = -1  # the response is no HTTP, or cannot be decoded
    TYPE_NOT_WANTED = -3  # cut at the header: the collection does not accept this MIME type
    TOO_LARGE = -4  # cut at the header or while reading: larger than size_max
    ROBOTS = -7  # excluded by robots.txt
    TOO_SLOW = -10  # a time limit passed
    SYSTEM_ERROR = -11  # mostly communication: refused, reset, unreachable
    NAME_UNKNOWN = -12  # the host's name does not resolve
    HOST_GIVEN_UP = -13  # not tried: its host failed too often in a row
    ADDRESS_REFUSED = -14  # the name resolves to an address that the address guard forbids
    TLS_ERROR = -15  # no secure connection under the configured policy
    REDIRECTS_EXCEEDED = -16  # a chain longer than redirects_max
    TRAP = -17  # not requested: its URL reveals an endless site
    HOST_FULL = -18  # its host, or the number of hosts of its site, has reached the collection's cap
    LANGUAGE_NOT_WANTED = -20  # fetched, but not in one of the collection's languages
    OUT_OF_SCOPE = -21  # was pending, but the collection no longer wants it
    COPY = -22  # fetched: same text as many other URLs of its host; a soft 404, a session in the URL, a calendar
    REPLACED = -23  # was kept, and was replaced by a more important page: the collection is full
    LANGUAGE_OUTSIDE = -24  # fetched outside the scope, because a kept page links to it: in no wanted language
    TAKEN_DOWN = -25  # not requested, or its response was discarded: the operators have taken it down
    NOT_STRUCTURED = -26  # fetched, but without structured data of the kind that the collection keeps
    NOT_FOUND_AGAIN = -27  # was kept by an earlier run, and the next complete run found no link to it
    HOSTILE = -30  # the page cost more than one page may
    NOT_SENT = -40  # our own side: never recorded, the visit is simply made later
    STARVED = -41  # our own side: a time limit passed while this machine was overloaded; tried again


STATUS_MEANING: dict[int, Message] = {
    Status.INVALID_RESPONSE: message("invalid response"),
    Status.TYPE_NOT_WANTED: message("type not wanted"),
    Status.TOO_LARGE: message("too large"),
    Status.ROBOTS: message("excluded by robots.txt"),
    Status.TOO_SLOW: message("too slow"),
    Status.SYSTEM_ERROR: message("communication error"),
    Status.NAME_UNKNOWN: message("name does not resolve"),
    Status.HOST_GIVEN_UP: message("host given up"),
    Status.ADDRESS_REFUSED: message("address refused"),
    Status.TLS_ERROR: message("TLS error"),
    Status.REDIRECTS_EXCEEDED: message("too many redirects"),
    Status.LANGUAGE_NOT_WANTED: message("language not wanted"),
    Status.LANGUAGE_OUTSIDE: message("outside the scope, in another language"),
    Status.OUT_OF_SCOPE: message("no longer in scope"),
    Status.TRAP: message("a trap"),
    Status.HOST_FULL: message("host or site is full"),
    Status.COPY: message("one more copy"),
    Status.REPLACED: message("replaced by a more important page"),
    Status.TAKEN_DOWN: message("taken down"),
    Status.NOT_STRUCTURED: message("no structured data"),
    Status.NOT_FOUND_AGAIN: message("not found again"),
    Status.HOSTILE: message("hostile page"),
    Status.STARVED: message("our own machine was too slow"),
}

# The phrases of RFC 9110; where HTTP knows more codes, those that crawlers meet.
HTTP_MEANING: dict[int, Message] = {
    200: message("OK"),
    201: message("Created"),
    202: message("Accepted"),
    203: message("Non-Authoritative Information"),
    204: message("No Content"),
    205: message("Reset Content"),
    206: message("Partial Content"),
    300: message("Multiple Choices"),
    301: message("Moved Permanently"),
    302: message("Found"),
    303: message("See Other"),
    304: message("Not Modified"),
    305: message("Use Proxy"),
    307: message("Temporary Redirect"),
    308: message("Permanent Redirect"),
    400: message("Bad Request"),
    401: message("Unauthorized"),
    402: message("Payment Required"),
    403: message("Forbidden"),
    404: message("Not Found"),
    405: message("Method Not Allowed"),
    406: message("Not Acceptable"),
    407: message("Proxy Authentication Required"),
    408: message("Request Timeout"),
    409: message("Conflict"),
    410: message("Gone"),
    411: message("Length Required"),
    412: message("Precondition Failed"),
    413: message("Content Too Large"),
    414: message("URI Too Long"),
    415: message("Unsupported Media Type"),
    416: message("Range Not Satisfiable"),
    417: message("Expectation Failed"),
    418: message("I'm a Teapot"),
    421: message("Misdirected Request"),
    422: message("Unprocessable Content"),
    423: message("Locked"),
    425: message("Too Early"),
    426: message("Upgrade Required"),
    428: message("Precondition Required"),
    429: message("Too Many Requests"),
    431: message("Request Header Fields Too Large"),
    451: message("Unavailable For Legal Reasons"),
    500: message("Internal Server Error"),
    501: message("Not Implemented"),
    502: message("Bad Gateway"),
    503: message("Service Unavailable"),
    504: message("Gateway Timeout"),
    505: message("HTTP Version Not Supported"),
    507: message("Insufficient Storage"),
    508: message("Loop Detected"),
    511: message("Network Authentication Required"),
}

COLLECTION_STATES = {
    "ready": message("ready"),
    "waiting": message("waiting"),
    "running": message("running"),
    "paused": message("paused"),
    "stopped": message("stopped"),
    "finished": message("finished"),
    "failed": message("failed"),  # for people: finished without a page
    "deleting": message("being deleted"),
    "importing": message("being imported"),
}


def collection_state(state: str) -> Message | str:
    """The name of a collection's state for people; the state itself if it has no name."""
    return COLLECTION_STATES.get(state, state)


def host_trouble(status: int, error: Message | str, subject: str = "") -> Message | str:
    """Why a host could not be visited. `subject`: what was requested of it, such as robots.txt."""
    meaning = status_name(status)
    shown = meaning if status < 0 else joined([part for part in (str(status), meaning) if part], " ")
    return joined([part for part in (subject, shown, error) if part], ": ")


def status_name(status: int) -> Message | str:
    """The meaning of a status: a message for our own codes and for those of HTTP, else empty."""
    return STATUS_MEANING.get(status, HTTP_MEANING.get(status, ""))


# The consequences of each status, in one place.
BUSY = frozenset({429, 503})  # "not now": the host gets a pause, and the failure counts against nobody
UNREACHED = frozenset({Status.TOO_SLOW, Status.SYSTEM_ERROR})  # the host may be in trouble, or we are
ATTEMPT_NOT_COUNTED = BUSY | {Status.STARVED}  # the attempt does not count for the URL
TRANSIENT = ATTEMPT_NOT_COUNTED | UNREACHED | {500, 502, 504}  # the URL is tried again
GIVEN_UP = TRANSIENT | {  # no usable response: FAILED in the end
    Status.INVALID_RESPONSE, Status.ADDRESS_REFUSED, Status.TLS_ERROR, Status.HOSTILE, Status.HOST_GIVEN_UP,
}  # fmt: skip
NO_REQUEST = frozenset({
    Status.ROBOTS, Status.ADDRESS_REFUSED, Status.OUT_OF_SCOPE, Status.TRAP, Status.HOST_FULL, Status.REPLACED,
    Status.NOT_FOUND_AGAIN,
})  # fmt: skip
GONE = frozenset({404, 410})
INCONCLUSIVE = TRANSIENT | {  # says nothing about the page: its kept version stays
    304, Status.INVALID_RESPONSE, Status.NAME_UNKNOWN, Status.HOST_GIVEN_UP, Status.ADDRESS_REFUSED, Status.TLS_ERROR,
}  # fmt: skip


def is_inconclusive(status: int) -> bool:
    return status in INCONCLUSIVE or status >= 500


def can_be_retried(status: int) -> bool:
    """Whether a retry may give another result: not if the page was fetched or refused for what it is."""
    kept = 200 <= status < 300 or status == 304
    return status in GIVEN_UP or not (kept or status in NO_REQUEST or status == Status.TAKEN_DOWN)


REDIRECTS = frozenset({301, 302, 303, 307, 308})
ARCHIVED_REQUISITE = frozenset({200, 304})  # of a requisite: the archive has its bytes
# A URL that is not kept as a page, and whose bytes are not archived: if another page needs it, it is fetched as a
# requisite.
UNWANTED_PAGE = frozenset({
    200, Status.TYPE_NOT_WANTED, Status.TOO_LARGE, Status.OUT_OF_SCOPE, Status.TRAP, Status.HOST_FULL, Status.COPY,
    Status.LANGUAGE_NOT_WANTED, Status.LANGUAGE_OUTSIDE, Status.NOT_STRUCTURED, Status.REPLACED,
})  # fmt: skip
NOFOLLOW_RELS = frozenset({"nofollow", "ugc", "sponsored"})  # in a link's rel


class UrlState(IntEnum):
    """The state of a URL in the frontier."""

    PENDING = 0  # waits for its turn
    HANDED_OUT = 1  # to the worker that holds its host
    FETCHED = 2  # visited, with a response, and kept
    DROPPED = 3  # visited, with a response, not kept: redirect, 404, type, language...
    FAILED = 4  # given up after its retries
    EXCLUDED = 5  # robots.txt forbids it
    TOO_DEEP = 6  # known, but beyond depth_max
    ASIDE = 7  # was pending when an earlier run ended, and waits for this run to discover it


UNKEPT_STATES = frozenset({UrlState.DROPPED, UrlState.FAILED, UrlState.EXCLUDED})  # settled, and not kept


class UrlRole(IntEnum):
    """The purpose of a URL."""

    PAGE = 0
    SITEMAP = 1  # lists pages and when they changed
    FEED = 2  # lists the newest pages
    REQUISITE = 3  # what a page needs to be shown: an image, a style, a script, a frame...
    NEEDED_PAGE = 4  # in the frontier: waits for its visit as a page, and is a requisite if it is not kept as one


LISTING_ROLES = frozenset({UrlRole.SITEMAP, UrlRole.FEED})
REFRESH_CAUSE, LISTING_CAUSE, OLD_CAUSE, REQUISITE_CAUSE = "refresh", "listing", "old", "requisite"
UNKEPT_CAUSES = {
    REQUISITE_CAUSE: message("a requisite of pages, archived"),
    REFRESH_CAUSE: message("only sends its readers on (meta refresh)"),
    LISTING_CAUSE: message("a sitemap or feed"),
    OLD_CAUSE: message("settled by an older version, which did not count why"),
}


def unkept_cause(status: int | None, role: int) -> str:
    """Why a URL that is settled is not kept, as a key: its status, or what a response with status 200 is instead of a
    page."""
    if role == UrlRole.REQUISITE and status in ARCHIVED_REQUISITE:
        return REQUISITE_CAUSE
    if status != 200:
        return str(status or 0)
    return LISTING_CAUSE if role in LISTING_ROLES else REFRESH_CAUSE


def unkept_cause_name(cause: str) -> Message | str:
    """The name of a cause for people."""
    if cause in UNKEPT_CAUSES:
        return UNKEPT_CAUSES[cause]
    status = int(cause)
    return status_name(status) if status < 0 else joined([part for part in (cause, status_name(status)) if part], " ")


class Link(msgspec.Struct, frozen=True, array_like=True):
    """One link of a page."""

    url: str
    anchor: str = ""
    rel: str = ""

    @property
    def is_followed(self) -> bool:
        """Whether the link is followed. Links marked nofollow by their author are recorded, not followed."""
        return not self.rel or NOFOLLOW_RELS.isdisjoint(self.rel.lower().split())


class RobotsMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """The directives of the page itself (meta robots) or of its server (X-Robots-Tag)."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


DataSyntax = Literal["rdfa", "microdata", "jsonld"]
DATA_SYNTAXES: tuple[DataSyntax, ...] = get_args(DataSyntax)


class SyntaxUse(msgspec.Struct, frozen=True, array_like=True):
    """A syntax of structured data that a page uses, with the vocabularies that the page uses in it."""

    syntax: DataSyntax
    vocabularies: tuple[str, ...]


class PageDate(msgspec.Struct, frozen=True, array_like=True):
    """A date that a page states. `source`: json-ld, microdata (or RDFa), meta, time, url or byline."""

    at: int  # seconds since 1970; of a date without a time, the first second of that day in UTC
    source: str
    has_time: bool = False


UsageSource = Literal["robots.txt", "header", "page"]


class UsageStatement(msgspec.Struct, frozen=True, array_like=True):
    """What a publisher says about the use of a page, as written; `reserved` and `granted` name uses (see
    `parse/robots_meta_usage`). A licence or policy names neither."""

    source: UsageSource
    text: str
    reserved: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """The parsed content of a response."""

    url: str
    title: str = ""
    text: str = ""
    headings: tuple[str, ...] = ()
    links: tuple[Link, ...] = ()
    language: str = ""
    charset: str = ""
    canonical: str = ""
    robots: RobotsMeta = RobotsMeta()
    content_id: str = ""
    simhash: int = 0
    wording: int = 0  # hash of its letters, digits aside; only of a page that was just parsed
    vocabularies: tuple[str, ...] = ()
    syntaxes: tuple[SyntaxUse, ...] = ()
    statements: str = ""  # of its RDFa, JSON-LD and microdata, as N-Quads
    unread: int = 0  # invalid JSON-LD blocks
    cut_statements: bool = False  # it has more statements than are kept of one page
    cut_text: bool = False  # its text is longer than is kept of one page
    refresh: str = ""  # target of a meta refresh
    refresh_s: float = 0.0  # its delay
    alternates: tuple[tuple[str, str], ...] = ()  # hreflang and URL of the same page in other languages
    feeds: tuple[str, ...] = ()  # RSS and Atom that the page announces
    published: PageDate | None = None
    modified: PageDate | None = None
    parser: str = ""
    content_spans: tuple[tuple[int, int], ...] = ()  # where the main content is in `text`
    template_spans: tuple[tuple[int, int], ...] = ()  # lines of `text` that repeat over the pages of the host
    link_list_spans: tuple[tuple[int, int], ...] = ()  # lines of `text` that are mostly links
    headline: str = ""  # the title without the name of the site; empty: the same as `title`
    description: str = ""  # what the page says of itself in `meta`
    usage: tuple[UsageStatement, ...] = ()  # what its publisher says about its use, from all sources
    code_spans: tuple[tuple[int, int], ...] = ()  # lines of `text` that are mostly code. Not archived
    language_chars: int = 0  # of text that showed the language; 0: it is the declared one, or its site's. Not archived
    requisites: tuple[str, ...] = ()  # URLs that it needs to be shown, if they are wanted. Archived with the visit

    @property
    def content(self) -> str:
        """The main content: lines of `text`. All of it for plain text and documents; empty where no content is known,
        or the text is not at hand."""
        return "\n".join(self.text[start:end] for start, end in self.content_spans) if self.text else ""


class ListingEntry(msgspec.Struct, frozen=True, array_like=True):
    """One entry of a sitemap or feed. `changed` is the time of change that its author claims, 0 if none."""

    url: str
    changed: float = 0.0


class Listing(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a sitemap or a feed: pages, and further sitemaps (of an index)."""

    entries: tuple[ListingEntry, ...] = ()
    sitemaps: tuple[ListingEntry, ...] = ()
    kind: str = ""  # "sitemap", "sitemapindex", "text", "rss", "atom"; empty: none of these
    cut: bool = False  # more entries than one file may list, or the end was missing


class Visit(msgspec.Struct, frozen=True, array_like=True):
    """A URL that is handed out to be fetched now. `number` is never used twice for one URL of one collection."""

    collection: int
    host: HostId
    id: UrlId
    url: str
    depth: int
    redirects: int
    number: int
    attempts: int = 0
    etag: str | None = None
    last_modified: str | None = None
    content_id: str | None = None
    role: int = UrlRole.PAGE
    parent: bytes = b""  # of the page that linked here, if on the same host: the first half of its content id
    payload: str = ""  # digest of the body as last archived
    archived: float = 0.0  # when that was
    gone: int = -1  # of a page that is kept fresh: how often in a row it was gone
    dismissed: bool = False  # do not request it: its place is needed, or this run found no link to it
    announced: float = 0.0  # time of its last change according to a sitemap or feed


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a visit."""

    status: int
    at: float
    kept: bool = False
    type: str = ""
    length: int = 0
    elapsed_s: float = 0.0
    content_id: str = ""
    etag: str | None = None
    last_modified: str | None = None
    location: str = ""
    address: str = ""
    retry_after_s: float = 0.0
    error: Message | str = ""
    tls: Message | str = ""  # why the certificate does not verify, if the collection accepts it all the same
    role: int = UrlRole.PAGE
    requested: bool = True  # False: decided without a request to the host
    payload: str = ""  # digest of the body, if it was archived
    external: int = 0  # distinct URLs on it that lead to other sites; counted if the order of discovery needs it
    grace: bool = False  # it is gone, but was there the last time: it is requested once more before it is dropped
    server: str = ""  # the server software, from its Server header
    announced: float = 0.0  # time of its last change according to a sitemap or feed
    changed: bool = False  # the previous version that was kept had another content
    same_since: float = 0.0  # an earlier visit got the same body: the first of them
    same_as: str = ""  # another URL, of a requisite with the same bytes: they are archived there


class BrowserRequest(msgspec.Struct, frozen=True, array_like=True):
    """What a page's scripts asked for, and what they got: a status, or why they got nothing."""

    url: str
    kind: str
    status: int
    bytes: int = 0
    why: Message | str = ""


class RenderFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a page was rendered, and why. With an `error` it was kept as it was fetched."""

    why: Message | str
    elapsed_s: float = 0.0
    fetched_chars: int = 0  # of text in the page as it was fetched
    requests: tuple[BrowserRequest, ...] = ()  # the first of them
    requests_total: int = 0
    moved_to: tuple[str, ...] = ()  # where scripts wanted to go
    cut: str = ""  # "time": taken before it was quiet; "length": cut at size_max
    error: Message | str = ""
    memory_bytes: int = 0  # of the browser, at the most


OLDER_VERSION = 0  # number of an imported capture that is older than a known visit: it changes nothing but the archive


class VisitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The archive's record of one visit for its followers: the `metadata` record; `page.text` and `page.statements`
    come from its `conversion` records.
    """

    collection: str
    url: str
    visit: int
    depth: int
    outcome: Outcome
    redirects: int = 0
    page: Page | None = None
    rendered: RenderFacts | None = None  # a page that scripts have made
    removed: Literal["", "retention", "erased"] = ""  # why the archive does not have its response any more
    requisites: tuple[str, ...] = ()  # URLs that a kept page, or a requisite, needs to be shown (keep = "faithful")
    worker: str = ""  # the external crawler that made the visit, which is told of its links; empty for our own workers


class CollectionNote(msgspec.Struct, frozen=True, tag="collection"):
    """The configuration of a collection for the visits that follow; `config` is the frontier's JSON."""

    collection: str
    revision: int
    config: msgspec.Raw
    run: int = 1  # the run of the visits that follow


class HostNote(msgspec.Struct, frozen=True, tag="host", omit_defaults=True):
    """The robots.txt of a host, and the sitemaps that it announces. `status` 0: unchanged since the previous note."""

    collection: str
    host: str  # scheme://host:port
    depth: int  # depth of the sitemaps
    delay_s: float
    sitemaps: tuple[str, ...] = ()
    status: int = 0
    expires: float = 0.0
    text: bytes = b""


class ListingNote(msgspec.Struct, frozen=True, tag="listing"):
    """The entries of a sitemap or feed; the note precedes the record of its visit."""

    collection: str
    url: str
    visit: int
    listing: Listing


class RebuiltNote(msgspec.Struct, frozen=True, tag="rebuilt"):
    """From here on the visits are those of a frontier that was rebuilt from `visits` archived visits."""

    visits: int


class DeletedNote(msgspec.Struct, frozen=True, tag="deleted"):
    """A collection was deleted: its visits until `at` no longer belong to any collection. A later collection of the
    same name is another one. `frontier_time` is the same by the frontier's clock, which may be a little earlier: see
    `archive.deletion_log.record_deletions`.
    """

    collection: str
    at: float
    frontier_time: float = msgspec.field(default=0.0, name="told")


class TakedownNote(msgspec.Struct, frozen=True, tag="takedown"):
    """A line of the takedown log (`takedown.TakedownEntry`), in a segment log: every machine adds it to its own."""

    entry: msgspec.Raw


Note = CollectionNote | HostNote | ListingNote | RebuiltNote | DeletedNote | TakedownNote
CollectionlessNote = RebuiltNote | TakedownNote


class DeclaredEntity(msgspec.Struct, frozen=True, omit_defaults=True):
    """Summary of an entity of a page. `kind` and names of facts are short names of IRIs: schema:Event."""

    kind: str
    name: str = ""
    facts: tuple[tuple[str, str], ...] = ()


DateKind = Literal["published", "changed", "seen"]


class Hit(msgspec.Struct, frozen=True):
    """One search result."""

    url: str
    title: str
    snippet: str
    score: float
    in_links: int
    updated: str  # the date of the page; `date_kind` says which
    language: str
    copies: int = 0  # pages with the same text, which this one represents
    type: str = ""  # MIME
    site: str = ""  # its host name
    pinned: bool = False  # placed here by the operators
    declared: tuple[DeclaredEntity, ...] = ()  # summary of the page's structured data
    date_kind: DateKind = "seen"  # what `updated` is
    # Language and URL of the same page in other languages, if they are indexed.
    alternates: tuple[tuple[str, str], ...] | msgspec.UnsetType = msgspec.UNSET
    full_title: str | msgspec.UnsetType = msgspec.UNSET  # the whole title, where `title` is a part of it


class ShardReport(msgspec.Struct, frozen=True):
    """Whether a shard of the index answered; `trouble` tells why not."""

    name: str
    trouble: Message | str = ""


class SearchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The response to a search, as in `search --json` and `/search.json`."""

    query: str
    total: int  # pages that hold all words; where there are none, that hold some
    time_s: float
    hits: list[Hit]
    suggestion: str | None  # other words that give results, or more of them
    shards: list[ShardReport]  # the shards that were asked, if there is more than one
    ignored: list[str] = []  # words that occur nearly everywhere and were ignored
    expanded: list[str] = []  # words that were added, on request or because nothing was found without them
    instead: str = ""  # no page holds all words: another "spelling" was tried, or "some" of the words instead of all
    others: int = 0  # pages that hold some of the words, after or among those that hold all

    def in_english(self) -> Self:
        """The form for programs: the reasons of missing shards are in English."""
        if not any(one.trouble for one in self.shards):
            return self
        return replace(self, shards=[ShardReport(one.name, str(one.trouble)) for one in self.shards])


class LinkedPage(msgspec.Struct, frozen=True):
    """The page at the other end of a link."""

    url: str
    anchor: str
    rel: str = ""


class InAndOutLinks(msgspec.Struct, frozen=True, rename={"incoming": "in", "outgoing": "out"}):
    """The pages that link to a URL and the pages that it links to, as in `links --json`."""

    url: str
    incoming: list[LinkedPage]
    outgoing: list[LinkedPage]
    in_total: int = 0
    out_total: int = 0
    rank: float = 1.0  # of the URL: N times PageRank, with the mean 1
