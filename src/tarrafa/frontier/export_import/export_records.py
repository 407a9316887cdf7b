"""Export records of the frontier: hosts with URLs, visits and robots.txt, and collections, with checked bounds.

A *host export* is a host taken out of one frontier so that another can import it: its row, its robots.txt, and for each
collection the state of its URLs, every remembered visit, and the estimates of pages kept fresh. A large host comes in
parts. Derived rows (queues, shelves, counters of what is pending) are made again by the importer. Leases are not
exported: visits that were handed out are pending again, and their numbers are never given a second time.

Promises: everything from a file or a wire is within the bounds named here before it is used.
Knows nothing of tables and files.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from tarrafa.errors import DataError
from tarrafa.i18n import Message
from tarrafa.model import HostId, UrlId, UrlRole, UrlState
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.revisit.change_rate import GAPS_MAX
from tarrafa.revisit.policy import PageHistory

URLS_MAX = 5_000  # in one batch
BYTES_MAX = 8 << 20  # of one batch, roughly: with its last host it may be a few times as much
HISTORY_MAX = 1_000  # visits of a URL; a frontier stores a tenth of that

Count = Annotated[int, Meta(ge=0, lt=1 << 62)]
Number = Annotated[int, Meta(ge=-(1 << 62), lt=1 << 62)]
Moment = Annotated[float, Meta(ge=-1e15, le=1e15)]  # so it is finite
Amount = Annotated[float, Meta(ge=-1e300, le=1e300)]
Words = Annotated[str, Meta(max_length=1 << 16)]
Key = Annotated[bytes, Meta(min_length=16, max_length=16)]


class VisitExport(msgspec.Struct, frozen=True, array_like=True):
    """A past visit; the fields are columns of `visit`."""

    number: Count
    at: Moment
    status: Number
    length: Count
    changed: Annotated[int, Meta(ge=0, le=1)] | None
    worker: Words


class PageExport(msgspec.Struct, frozen=True, array_like=True):
    """A page that is kept fresh: its shelf, its place there, and its history."""

    shelf: Number
    key: Moment
    gone: Count
    history: PageHistory


class UrlExport(msgspec.Struct, frozen=True, array_like=True):
    """A URL in one collection. Except `history` and `page` the fields are columns of `url`."""

    id: Key
    url: Annotated[str, Meta(max_length=1 << 14)]
    depth: Count
    redirects: Count
    state: Count
    sequence: Number
    visits: Count
    attempts: Count
    in_links: Count
    status: Number | None
    type: Words | None
    discovered: Moment
    fetched: Moment | None
    content_id: Words | None
    etag: Words | None
    last_modified: Words | None
    role: Count
    announced: Moment | None
    parent: Annotated[bytes, Meta(max_length=64)] | None
    blamed: Count
    payload: Words
    archived: Moment
    history: Annotated[list[VisitExport], Meta(max_length=HISTORY_MAX)] = []
    page: PageExport | None = None
    pagerank: Annotated[float, Meta(ge=0, le=1e12)] = 0.0
    run: Count = 1
    shown: Annotated[int, Meta(ge=0, le=2)] = 0


class HostCollectionExport(msgspec.Struct, frozen=True, array_like=True):
    """One collection on a host. `site_hosts` is how many hosts of its site the collection visits."""

    collection: Words
    visited: Count
    refused: Annotated[int, Meta(ge=0, le=1)]
    site_hosts: Count
    urls: Annotated[list[UrlExport], Meta(max_length=URLS_MAX)]
    run: Count = 1  # that `visited` counts


class RobotsExport(msgspec.Struct, frozen=True, array_like=True):
    status: Number
    digest: Annotated[bytes, Meta(max_length=64)]
    expires: Moment
    text: Annotated[bytes, Meta(max_length=1 << 20)]


class HostRowExport(msgspec.Struct, frozen=True, array_like=True):
    """The host itself. Up to `announced_wrong` the fields are columns of `host`."""

    next_at: Moment
    ended_at: Moment
    delay_s: Annotated[float, Meta(ge=0, le=1e12)]
    failures: Count
    memory: Annotated[bytes, Meta(max_length=1 << 18)] | None
    trouble: Words
    modified_right: Count
    modified_wrong: Count
    announced_right: Count
    announced_wrong: Count
    robots: RobotsExport | None = None


class HostExport(msgspec.Struct, frozen=True, array_like=True):
    """A host, or one part of it: the first has its `row`."""

    id: HostId
    key: Annotated[str, Meta(max_length=1 << 10)]
    site: Annotated[str, Meta(max_length=1 << 10)]
    row: HostRowExport | None
    shares: list[HostCollectionExport]

    @property
    def urls(self) -> int:
        return sum(len(share.urls) for share in self.shares)


class FrontierCursor(msgspec.Struct, frozen=True, array_like=True):
    """A position in the order of all URLs: after this URL of this collection (by its number) on this host."""

    host: HostId = -(1 << 63)
    collection: int = 0
    url: UrlId = b""


class ExportBatch(msgspec.Struct, frozen=True, array_like=True):
    """Some hosts, and the cursor to continue from; None: there are no more."""

    images: list[HostExport]
    end: FrontierCursor | None


class CollectionExport(msgspec.Struct, frozen=True):
    """A collection without its hosts. `counters` are those of events only. Workers know the collection by its `number`:
    links that it has not delivered yet contain it."""

    name: Words
    state: Words
    reason: Message | Words
    config: bytes
    revision: Count
    created: Moment
    sequence: Number
    price: Amount = 0.0
    plan: Count = 0
    plan_end: Moment = 0.0
    counters: dict[Words, Number] = {}
    run: Count = 1
    started: Moment = 0.0
    number: Annotated[int, Meta(ge=0, lt=1 << 30)] = 0


class ExportCatalogue(msgspec.Struct, frozen=True):
    """Everything that is not below a host. `suffixes` is the public suffix list that defines the sites; `deleted` has
    the times of deleted collections."""

    collections: list[CollectionExport]
    suffixes: str
    deleted: dict[Words, Moment] = {}


def check_host_export(image: HostExport) -> None:
    """Check what the types cannot: ids fit their URLs, URLs fit their host, values fit each other."""
    if not image.key.startswith(("http://", "https://")):
        raise DataError(f"{image.key[:200]!r} is no host")
    if host_id(image.key) != image.id:
        raise DataError(f"an image of {image.key!r} has the id of another host")
    if not image.site:
        raise DataError(f"an image of {image.key!r} has no site")
    for share in image.shares:
        for url in share.urls:
            if why := _find_defect(image, url):
                raise DataError(f"an image of {image.key!r}: {url.url[:200]!r}: {why}")


STATES = frozenset(map(int, UrlState)) - {int(UrlState.HANDED_OUT)}
ROLES = frozenset(map(int, UrlRole))


def _find_defect(image: HostExport, url: UrlExport) -> str:
    if url_id(url.url) != url.id:
        return "has the id of another URL"
    if "/" not in url.url[8:] or host_key(url.url) != image.key:
        return "is on another host"
    if url.state not in STATES or url.role not in ROLES or (url.shown and url.state != UrlState.PENDING):
        return f"no URL has state {url.state} and role {url.role}, shown or not ({url.shown})"
    if any(visit.number > url.visits for visit in url.history):
        return "has more visits than were handed out"
    page = url.page.history if url.page is not None else None
    if page is not None and not _is_sane(page):
        return f"has impossible estimates: {page}"
    return ""


def _is_sane(page: PageHistory) -> bool:
    moments = (page.first, page.last, page.rated, page.announced, page.birth)
    amounts = (page.alpha, page.beta, page.weight, page.rate)
    seen = (page.quiet, page.dated, *page.gaps[::2])
    return (
        all(abs(at) <= 1e15 for at in moments)
        and all(0.0 < amount <= 1e300 for amount in amounts)
        and all(0 <= number <= 1e15 for number in seen)
        and len(page.gaps) in range(0, 2 * GAPS_MAX + 1, 2)
        and all(page.gaps[::2])
        and all(abs(log) <= 1e3 * count for count, log in zip(page.gaps[::2], page.gaps[1::2], strict=True))
    )


def estimate_bytes(image: HostExport) -> int:
    size = 500
    if image.row is not None:
        robots = image.row.robots
        size += len(image.row.memory or b"") + (len(robots.text) if robots is not None else 0)
    for share in image.shares:
        size += sum(250 + len(url.url) + 40 * len(url.history) for url in share.urls)
    return size
