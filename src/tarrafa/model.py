"""The data model that all rooms share: statuses, URL states, pages, links, visits, outcomes, archive records, search
hits.

Everything here is data that crosses a wire, a disk or a wall between two rooms. Nothing here does anything of its
own.

`Host` is the unit of politeness and of leasing: `scheme://host:port`, the port always written; its id is the signed
64-bit xxh3 of that text. `Site` is the registrable domain. A URL's id is the 128-bit xxh3 of its canonical form
(`parse/url.py` makes all of these).
"""

import re
from enum import IntEnum
from http import HTTPStatus
from typing import Self

import msgspec
from msgspec.structs import replace

from tarrafa.i18n import Message, message

UrlId = bytes  # 16 bytes
HostId = int  # signed 64 bits, as SQLite and PostgreSQL store it


class Status(IntEnum):
    """What became of a visit, where HTTP has no number for it. HTTP's own codes are positive and stand as they are."""

    INVALID_RESPONSE = -1  # what came back is no HTTP, or cannot be decoded
    TYPE_NOT_WANTED = -3  # cut at the header: the collection does not take this MIME type
    TOO_LARGE = -4  # cut at the header or while reading: larger than size_max
    ROBOTS = -7  # excluded by robots.txt
    TOO_SLOW = -10  # a time limit passed
    SYSTEM_ERROR = -11  # mostly communication: refused, reset, unreachable
    NAME_UNKNOWN = -12  # the host's name does not resolve
    HOST_GIVEN_UP = -13  # not tried: its host failed too often in a row
    ADDRESS_REFUSED = -14  # the name leads to an address that the guard forbids
    TLS_ERROR = -15  # no secure connection under the configured policy
    REDIRECTS_EXCEEDED = -16  # a chain longer than redirects_max
    TRAP = -17  # not requested: its URL says that there is no end to such pages
    HOST_FULL = -18  # its host, or the number of hosts of its site, has reached the collection's cap
    LANGUAGE_NOT_WANTED = -20  # fetched, but not in one of the collection's languages
    OUT_OF_SCOPE = -21  # waited, but the collection no longer wants it
    COPY = -22  # fetched: the same text as many other URLs of its host; a soft 404, a session in the URL, a calendar
    REPLACED = -23  # was kept, and gave its place to a more important page: the collection is full
    LANGUAGE_OUTSIDE = -24  # fetched though outside the scope, because a kept page links to it: in no wanted language
    TAKEN_DOWN = -25  # not requested, or what came was thrown away: those who run the engine have taken it down
    NOT_STRUCTURED = -26  # fetched, but without data of the kind that the collection keeps
    NOT_FOUND_AGAIN = -27  # was kept by an earlier run, and the next one, which looked everywhere, met no way to it
    HOSTILE = -30  # the page cost more than one page may
    NOT_SENT = -40  # our own side: never a record, the visit is simply made later
    STARVED = -41  # our own side: a time limit passed while this machine could not keep up; tried again


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

_trouble = re.compile(r"(robots\.txt: )?(-?\d+)\b ?(.*)", re.DOTALL).fullmatch


def host_trouble(trouble: str) -> Message | str:
    """What a worker notes of a host that it cannot visit: a status, then the words of the connection. The status in
    words; any other text stays as it is."""
    found = _trouble(trouble)
    if found is None or int(found[2]) not in STATUS_MEANING:
        return trouble
    where, status, error = found[1] or "", STATUS_MEANING[int(found[2])], found[3]
    form = "{where}{status} {error}" if error else "{where}{status}"
    return Message(form, {"where": where, "status": status, "error": error})


def status_name(status: int) -> Message | str:
    """What a status means: a message for our own codes, the phrase of HTTP for its codes, else nothing."""
    if status in STATUS_MEANING:
        return STATUS_MEANING[status]
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


# What a status means for what comes next, in one place.
BUSY = frozenset({429, 503})  # "not now": the host rests, nobody is blamed
UNREACHED = frozenset({Status.TOO_SLOW, Status.SYSTEM_ERROR})  # the host may be in trouble, or we are
ATTEMPT_NOT_COUNTED = BUSY | {Status.STARVED}  # the URL has not had its try
TRANSIENT = ATTEMPT_NOT_COUNTED | UNREACHED | {500, 502, 504}  # the URL is tried again
GIVEN_UP = TRANSIENT | {  # no answer worth the name: FAILED in the end
    Status.INVALID_RESPONSE, Status.ADDRESS_REFUSED, Status.TLS_ERROR, Status.HOSTILE, Status.HOST_GIVEN_UP,
}  # fmt: skip
NO_REQUEST = frozenset({
    Status.ROBOTS, Status.ADDRESS_REFUSED, Status.OUT_OF_SCOPE, Status.TRAP, Status.HOST_FULL, Status.REPLACED,
    Status.NOT_FOUND_AGAIN,
})  # fmt: skip
GONE = frozenset({404, 410})
INCONCLUSIVE = TRANSIENT | {  # says nothing about the page: what is kept of it stays
    304, Status.INVALID_RESPONSE, Status.NAME_UNKNOWN, Status.HOST_GIVEN_UP, Status.ADDRESS_REFUSED, Status.TLS_ERROR,
}  # fmt: skip


def is_inconclusive(status: int) -> bool:
    return status in INCONCLUSIVE or status >= 500


def can_be_retried(status: int) -> bool:
    """Whether asking once more, because somebody wishes so, may bring another answer: not where the page was had, nor
    where we refused it ourselves for what it is."""
    kept = 200 <= status < 300 or status == 304
    return status in GIVEN_UP or not (kept or status in NO_REQUEST or status == Status.TAKEN_DOWN)


REDIRECTS = frozenset({301, 302, 303, 307, 308})
NOFOLLOW_RELS = frozenset({"nofollow", "ugc", "sponsored"})  # in a link's rel


class UrlState(IntEnum):
    """Where a URL stands in the frontier."""

    PENDING = 0  # waits for its turn
    HANDED_OUT = 1  # with a worker
    FETCHED = 2  # visited, answered, and kept
    DROPPED = 3  # visited and answered, not kept: redirect, 404, type, language...
    FAILED = 4  # given up after its retries
    EXCLUDED = 5  # robots.txt forbids it
    TOO_DEEP = 6  # known, but beyond depth_max
    ASIDE = 7  # waited when an earlier run ended, and waits for this one to come across it


class UrlRole(IntEnum):
    """What a URL is for."""

    PAGE = 0
    SITEMAP = 1  # lists pages and when they changed
    FEED = 2  # lists the newest pages


class Link(msgspec.Struct, frozen=True, array_like=True):
    """One way out of a page."""

    url: str
    anchor: str = ""
    rel: str = ""

    @property
    def is_followed(self) -> bool:
        """Its author does not vouch for some links; those are recorded, not walked."""
        return not self.rel or NOFOLLOW_RELS.isdisjoint(self.rel.lower().split())


class RobotsMeta(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the page itself (meta robots) or its server (X-Robots-Tag) asks of us."""

    noindex: bool = False
    nofollow: bool = False
    noarchive: bool = False


class Page(msgspec.Struct, frozen=True, omit_defaults=True):
    """What parsing made of the bytes."""

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
    vocabularies: tuple[str, ...] = ()
    statements: str = ""  # of its RDFa, JSON-LD and microdata, as N-Quads
    unread: int = 0  # blocks of JSON-LD that are none
    refresh: str = ""  # where a meta refresh leads
    refresh_s: float = 0.0  # and after how long
    alternates: tuple[tuple[str, str], ...] = ()  # hreflang and URL of the same page in other languages
    feeds: tuple[str, ...] = ()  # RSS and Atom that the page announces
    parser: str = ""


class ListingEntry(msgspec.Struct, frozen=True, array_like=True):
    """One entry of a sitemap or feed. `changed` is when its author says that it last changed, 0 if he does not."""

    url: str
    changed: float = 0.0


class Listing(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a sitemap or a feed lists: pages, and further sitemaps (of an index)."""

    entries: tuple[ListingEntry, ...] = ()
    sitemaps: tuple[ListingEntry, ...] = ()
    kind: str = ""  # "sitemap", "sitemapindex", "text", "rss", "atom"; empty: none of these
    cut: bool = False  # there was more than one file may list, or its end was missing


class Visit(msgspec.Struct, frozen=True, array_like=True):
    """A URL handed out to be fetched now. `number` is never used twice for one URL of one collection."""

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
    parent: bytes = b""  # of the page that led here, if on the same host: the first half of its content id
    payload: str = ""  # digest of the body as last archived
    archived: float = 0.0  # and when that was
    gone: int = -1  # of a page that is kept fresh: how often in a row it was not there
    dismissed: bool = False  # do not ask for it: its place is wanted, or this run met no way to it


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a visit."""

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
    error: str = ""
    tls: str = ""  # why the certificate would not do, where the collection accepts it all the same
    role: int = UrlRole.PAGE
    requested: bool = True  # False: it was settled without asking the host
    payload: str = ""  # digest of the body, where it was archived
    external: int = 0  # distinct URLs on it that lead to other sites; counted where the order of discovery asks for it
    grace: bool = False  # it is gone, but was there the last time: it is asked for once more before it is dropped
    server: str = ""  # the software that answered, as it calls itself


class VisitRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the archive tells its followers about one visit: the `metadata` record; `page.text` and `page.statements`
    come from its `conversion` records."""

    collection: str
    url: str
    visit: int
    depth: int
    outcome: Outcome
    redirects: int = 0
    page: Page | None = None
    worker: str = ""  # who made the visit, where that is a crawler elsewhere, who wants to hear of its links


class CollectionNote(msgspec.Struct, frozen=True, tag="collection"):
    """How a collection was configured when the visits that follow were made; `config` is the frontier's JSON."""

    collection: str
    revision: int
    config: msgspec.Raw
    run: int = 1  # to which the visits that follow belong


class HostNote(msgspec.Struct, frozen=True, tag="host", omit_defaults=True):
    """What a host's robots.txt said, and which sitemaps it led to. `status` 0: it is as it was noted before."""

    collection: str
    host: str  # scheme://host:port
    depth: int  # that the sitemaps were offered with
    delay_s: float
    sitemaps: tuple[str, ...] = ()
    status: int = 0
    expires: float = 0.0
    text: bytes = b""


class ListingNote(msgspec.Struct, frozen=True, tag="listing"):
    """What a sitemap or feed listed; it stands just before the record of its visit."""

    collection: str
    url: str
    visit: int
    listing: Listing


class RebuiltNote(msgspec.Struct, frozen=True, tag="rebuilt"):
    """From here on the visits are those of a frontier that was made again from so many visits archived before."""

    visits: int


class DeletedNote(msgspec.Struct, frozen=True, tag="deleted"):
    """A collection was deleted: what was visited for it until `at` is nobody's any more. One of the same name that
    comes later is another. `told` is when it was by the frontier, which may be a little earlier: see `note_down`."""

    collection: str
    at: float
    told: float = 0.0


Note = CollectionNote | HostNote | ListingNote | RebuiltNote | DeletedNote


class DeclaredEntity(msgspec.Struct, frozen=True, omit_defaults=True):
    """A thing that a page declares, in short. `kind` and the names of facts are short names of IRIs: schema:Event."""

    kind: str
    name: str = ""
    facts: tuple[tuple[str, str], ...] = ()


class Hit(msgspec.Struct, frozen=True):
    """One answer to a search."""

    url: str
    title: str
    snippet: str
    score: float
    in_links: int
    updated: str
    language: str
    copies: int = 0  # pages that say the same, for which this one stands
    type: str = ""  # MIME
    site: str = ""  # the name of its host
    pinned: bool = False  # put here by those who run the engine
    declared: tuple[DeclaredEntity, ...] = ()  # what the page's structured data says, in short


class ShardReport(msgspec.Struct, frozen=True):
    """Whether a part of the index answered; `trouble` says why not."""

    name: str
    trouble: Message | str = ""


class SearchResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a search, as `search --json` and `/search.json` give it."""

    query: str
    total: int
    time_s: float
    hits: list[Hit]
    suggestion: str | None  # other words that find something, or more
    shards: list[ShardReport]  # who was asked, where there is more than one
    ignored: list[str] = []  # words that stand nearly everywhere and were not asked for
    expanded: list[str] = []  # words that were added, because somebody asked for it or nothing was found without
    instead: str = ""  # nothing was found, and so another "spelling" was tried, or "some" of the words for all of them

    def in_english(self) -> Self:
        """As programs read it: why shards did not answer, in English."""
        if not any(one.trouble for one in self.shards):
            return self
        return replace(self, shards=[ShardReport(one.name, str(one.trouble)) for one in self.shards])


class LinkedPage(msgspec.Struct, frozen=True):
    """The other end of a link."""

    url: str
    anchor: str
    rel: str = ""


class InAndOutLinks(msgspec.Struct, frozen=True, rename={"incoming": "in", "outgoing": "out"}):
    """Who links to a URL and whom it links to, as `links --json` gives it."""

    url: str
    incoming: list[LinkedPage]
    outgoing: list[LinkedPage]
    in_total: int = 0
    out_total: int = 0
    rank: float = 1.0  # of the URL: N times PageRank, with the mean 1
