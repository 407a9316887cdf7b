"""Rows of the tables that an archive is exported to: pages, visits, links, hosts and entities.

The fields of a struct are the columns of its table. Promises: what is taken down is in no row, as page, as source or as
target of a link; a page that asks not to be shown from an archive has its row, without its text. A text is cut at
nothing: it is as long as the archive has it. Knows nothing of files.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from tarrafa.archive.warc_reader import ArchiveEntry
from tarrafa.model import HostNote, Link, Page, PageDate, VisitRecord
from tarrafa.parse.public_suffix import PublicSuffixes
from tarrafa.parse.rdf.entity import PageEntity, collect_entities, entity_name
from tarrafa.parse.rdf.nquads import iri_of, literal_value, parse_nquads
from tarrafa.parse.robots_meta_usage import Use, reserved_uses
from tarrafa.parse.url import host_key, split


class PageRow(msgspec.Struct, frozen=True):
    """A version of a page. `words`: of its text; `content`: its main content, where it is known."""

    url: str
    collection: str
    host: str
    site: str
    visited_at: datetime
    depth: int
    title: str
    headline: str
    description: str
    language: str
    charset: str
    type: str
    canonical: str
    published: datetime | None
    modified: datetime | None
    noindex: bool
    nofollow: bool
    noarchive: bool
    reserves: list[str]
    vocabularies: list[str]
    content_id: str
    words: int
    links: int
    text: str | None
    content: str | None


class VisitRow(msgspec.Struct, frozen=True):
    """A visit, also one that failed. A `status` below 0 is one of our own (docs/crawling.md)."""

    url: str
    collection: str
    host: str
    site: str
    visited_at: datetime
    visit: int
    status: int
    kept: bool
    requested: bool
    type: str
    bytes: int
    elapsed_s: float
    depth: int
    location: str
    error: str
    server: str
    address: str
    tls: str
    changed: bool
    digest: str


class LinkRow(msgspec.Struct, frozen=True):
    """A link of a version of a page, in the order of the page."""

    src: str
    dst: str
    collection: str
    visited_at: datetime
    src_host: str
    src_site: str
    dst_host: str
    dst_site: str
    anchor: str
    rel: str


class HostRow(msgspec.Struct, frozen=True):
    """What one part of the archive has of a host: add the numbers up. `robots_status`: of its last robots.txt there."""

    origin: str
    host: str
    site: str
    scheme: str
    collection: str
    first_at: datetime
    last_at: datetime
    visits: int
    kept: int
    errors: int
    bytes: int
    server: str
    address: str
    robots_status: int | None
    crawl_delay_s: float | None
    sitemaps: int


class EntityProperty(msgspec.Struct, frozen=True):
    """A statement about an entity. `value`: a text, or the IRI of another entity."""

    name: str
    value: str


class EntityRow(msgspec.Struct, frozen=True):
    """An entity that a page describes by RDFa, JSON-LD or microdata."""

    url: str
    collection: str
    host: str
    site: str
    visited_at: datetime
    entity: str
    name: str
    types: list[str]
    properties: list[EntityProperty]


TableRow = PageRow | VisitRow | LinkRow | HostRow | EntityRow
TABLES: dict[str, type[TableRow]] = {
    "pages": PageRow,
    "visits": VisitRow,
    "links": LinkRow,
    "hosts": HostRow,
    "entities": EntityRow,
}
IsHidden = Callable[[str], bool]  # whether a URL is taken down


@dataclass(frozen=True, slots=True)
class TableContents:
    """What the tables hold. `use`: pages that reserve it are in neither `pages` nor `entities`; `with_text`: the texts
    of pages."""

    use: Use | None = None
    with_text: bool = True


@dataclass(slots=True)
class _HostCounts:
    """The sums of a host in one part of the archive."""

    first_at: float
    last_at: float
    visits: int = 0
    kept: int = 0
    errors: int = 0
    bytes: int = 0
    server: str = ""
    address: str = ""


@dataclass(slots=True)
class RowMaker:
    """Makes the rows of one part of the archive: those of each visit at once, those of hosts at the end."""

    suffixes: PublicSuffixes
    is_hidden: IsHidden
    contents: TableContents
    reserved: int = 0  # pages that were left out
    _hosts: dict[tuple[str, str], _HostCounts] = field(default_factory=dict)
    _robots: dict[tuple[str, str], HostNote] = field(default_factory=dict)
    _places: dict[str, tuple[str, str]] = field(default_factory=dict)  # host and site by origin

    def rows(self, entry: ArchiveEntry) -> Iterator[tuple[str, TableRow]]:
        """The rows of a visit, each with its table."""
        record = entry.record
        if self.is_hidden(record.url):
            return
        host, site = self._place(record.url)
        at = moment(record.outcome.at)
        self._count(record)
        yield "visits", _visit_row(record, host, site, at)
        page = record.page
        if page is None or not record.outcome.kept:
            return
        for link in page.links:
            if not self.is_hidden(link.url):
                yield "links", self._link_row(record, link, host, site, at)
        if self.contents.use is not None and self.contents.use in reserved_uses(page):
            self.reserved += 1
            return
        if record.removed:  # the archive has its text no more
            return
        yield "pages", self._page_row(record, page, host, site, at)
        for entity in collect_entities(parse_nquads(page.statements)) if page.statements else ():
            yield "entities", _entity_row(record, entity, host, site, at)

    def note(self, note: HostNote) -> None:
        """Take in a robots.txt."""
        before = self._robots.get((note.host, note.collection))
        if note.status or before is None:  # status 0: unchanged
            self._robots[note.host, note.collection] = note

    def host_rows(self) -> Iterator[HostRow]:
        """The rows of all hosts that were visited."""
        for (origin, collection), found in self._hosts.items():
            host, site = self._places[origin]
            note = self._robots.get((origin, collection))
            status = note.status if note is not None and note.status else None
            yield HostRow(
                origin, host, site, origin.partition(":")[0], collection, moment(found.first_at), moment(found.last_at),
                found.visits, found.kept, found.errors, found.bytes, found.server, found.address, status,
                note.delay_s if note is not None else None, len(note.sitemaps) if note is not None else 0,
            )  # fmt: skip

    def _place(self, url: str) -> tuple[str, str]:
        """Host and site of a URL."""
        origin = host_key(url)
        found = self._places.get(origin)
        if found is None:
            name = split(url).host
            found = self._places[origin] = (name, self.suffixes.site(name))
        return found

    def _count(self, record: VisitRecord) -> None:
        outcome, key = record.outcome, (host_key(record.url), record.collection)
        found = self._hosts.get(key)
        if found is None:
            found = self._hosts[key] = _HostCounts(outcome.at, outcome.at)
        found.first_at, found.last_at = min(found.first_at, outcome.at), max(found.last_at, outcome.at)
        found.visits += 1
        found.kept += outcome.kept
        found.errors += outcome.status >= 400 or (outcome.status < 0 and outcome.requested)
        found.bytes += outcome.length
        found.server, found.address = outcome.server or found.server, outcome.address or found.address

    def _link_row(self, record: VisitRecord, link: Link, host: str, site: str, at: datetime) -> LinkRow:
        dst_host, dst_site = self._place(link.url)
        return LinkRow(
            record.url, link.url, record.collection, at, host, site, dst_host, dst_site, link.anchor, link.rel
        )

    def _page_row(self, record: VisitRecord, page: Page, host: str, site: str, at: datetime) -> PageRow:
        is_shown = self.contents.with_text and not page.robots.noarchive
        return PageRow(
            record.url, record.collection, host, site, at, record.depth, page.title, page.headline or page.title,
            page.description, page.language, page.charset, record.outcome.type, page.canonical,
            _stated(page.published), _stated(page.modified), page.robots.noindex, page.robots.nofollow,
            page.robots.noarchive, sorted(reserved_uses(page)), list(page.vocabularies), page.content_id,
            len(page.text.split()), len(page.links), page.text if is_shown else None,
            page.content if is_shown else None,
        )  # fmt: skip


def _visit_row(record: VisitRecord, host: str, site: str, at: datetime) -> VisitRow:
    outcome = record.outcome
    return VisitRow(
        record.url, record.collection, host, site, at, record.visit, outcome.status, outcome.kept, outcome.requested,
        outcome.type, outcome.length, outcome.elapsed_s, record.depth, outcome.location, str(outcome.error),
        outcome.server, outcome.address, str(outcome.tls), outcome.changed, outcome.payload,
    )  # fmt: skip


def _entity_row(record: VisitRecord, entity: PageEntity, host: str, site: str, at: datetime) -> EntityRow:
    properties = [EntityProperty(name, _value(term)) for name, term in entity.properties]
    subject = iri_of(entity.subject) or entity.subject
    return EntityRow(
        record.url, record.collection, host, site, at, subject, entity_name(entity), entity.classes, properties
    )


def _value(term: str) -> str:
    literal = literal_value(term)
    return literal.text if literal is not None else iri_of(term) or term


def moment(at: float) -> datetime:
    """A time in UTC, without a zone: as tables have it."""
    return datetime.fromtimestamp(at, UTC).replace(tzinfo=None)


def _stated(date: PageDate | None) -> datetime | None:
    """A date that a page states; a page may state any number."""
    try:
        return moment(date.at) if date is not None else None
    except (ValueError, OverflowError, OSError):
        return None
