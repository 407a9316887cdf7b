"""Maps an archived visit to the fields of its tantivy document.

Promises: every text is bounded. Knows nothing of commits, cursors or the order of visits.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import log1p, log2
from struct import Struct
from typing import NamedTuple
from urllib.parse import unquote

import msgspec
import numpy as np
import numpy.typing as npt
import tantivy
from xxhash import xxh3_64_hexdigest, xxh3_64_intdigest

from tarrafa.i18n import LANGUAGES
from tarrafa.index import schema
from tarrafa.index.index_state import IndexedStanding
from tarrafa.index.text_analysis import (
    PageTerms,
    compose,
    fold,
    page_terms,
    page_vocabulary,
    primary_language,
    template_entries,
    words,
)
from tarrafa.model import DateKind, DeclaredEntity, Outcome, Page, UrlId, VisitRecord
from tarrafa.parse.date_formats import DATE_MIN
from tarrafa.parse.rdf.entity import collect_entities, searchable_kinds, summarize_entities
from tarrafa.parse.rdf.nquads import parse_nquads
from tarrafa.parse.url import host_name, url_id

TITLE_WORDS_MAX = 40  # a title of a thousand words would be the best hit for everything
HEADINGS_MAX = 50
HEADING_WORDS_MAX = 30
ANCHORS_MAX = 12
ANCHORS_ENOUGH = 8  # a page with so many is not indexed again because others have come
ANCHOR_WORDS_MAX = 15
TEXT_WORDS_MAX = 50_000
TEMPLATE_WORDS_MAX = 10_000
SHOWN_CHARS_MAX = 60_000
TITLE_CHARS_MAX = 300
DESCRIPTION_CHARS_MAX = 300
ALTERNATES_MAX = 8  # shown of a page in other languages
LISTING_CHARS_MIN = 100  # of lists of links, in a page that is a listing
LISTING_SHARE_MIN = 0.6  # the same as a share of lists and content
URL_CHARS_MAX = 2_000
ANSWERED_S_MAX = 60.0  # a Last-Modified so near before the answer is its time
LABELS_MAX = 12  # of a host's name, from the right
NEAR_WORDS_MIN = 100  # a shorter page has exact copies only: one word is a difference there, or "room 101" is lost


def document_key(collection: str, key: UrlId) -> str:
    return f"{collection}/{key.hex()}"


_halves = Struct(">qq")


def split_url_id(key: UrlId) -> tuple[int, int]:
    high, low = _halves.unpack(key)
    return high, low


def join_url_ids(high: Iterable[int], low: Iterable[int]) -> list[UrlId]:
    """The ids with these halves."""
    return list(map(_halves.pack, high, low))


class LinkStanding(NamedTuple):
    """Anchors, in-links and rank of a page, as known when it is indexed. `rank`: PageRank times the number of pages;
    a page that the graph does not know has the mean.
    """

    anchors: Sequence[str] = ()
    in_links: int = 0
    rank: float = 1.0


NO_STANDING = LinkStanding()


def indexed_standing(standing: LinkStanding) -> IndexedStanding:
    """What the index keeps of a standing, to compare with a later one. The order of anchors does not matter; a page
    with ANCHORS_ENOUGH of them has enough, and others are no reason to index it again.
    """
    has_enough = len(standing.anchors) >= ANCHORS_ENOUGH
    anchors = ENOUGH_ANCHORS_HASH if has_enough else _hash("\n".join(sorted(standing.anchors)))
    return IndexedStanding(standing.in_links, standing.rank, anchors)


FieldValue = str | int | float | bytes


class DocumentValues:
    """The values of a document, on their way to the process that writes it."""

    def __init__(self) -> None:
        self.values: list[tuple[str, FieldValue]] = []

    def add_text(self, field: str, value: FieldValue) -> None:
        self.values.append((field, value))

    add_integer = add_float = add_bytes = add_text


def document_from_values(values: Iterable[tuple[str, FieldValue]]) -> tantivy.Document:
    found = tantivy.Document()
    for field, value in values:
        if isinstance(value, str):
            found.add_text(field, value)
        elif isinstance(value, int):
            found.add_integer(field, value)
        elif isinstance(value, float):
            found.add_float(field, value)
        else:
            found.add_bytes(field, value)
    return found


class ShownDate(NamedTuple):
    """The date of a page in results, in seconds since 1970, and what it is."""

    at: float
    kind: DateKind


def fill_document(
    found: tantivy.Document | DocumentValues, record: VisitRecord, page: Page, site: str, standing: LinkStanding
) -> None:
    """Write a page into a tantivy document, or into `DocumentValues`; `site` is the registered domain of its host."""
    identity, host, language = url_id(record.url), host_name(record.url), primary_language(page.language)
    stated = collect_entities(parse_nquads(page.statements)) if page.statements else []
    for field, value in (
        (schema.KEY, document_key(record.collection, identity)),
        (schema.COLLECTION, record.collection),
        (schema.HOST, host),
        (schema.LANGUAGE, language),
        *((schema.SITE, name) for name in domains_of_host(host)),
        *((schema.TYPE, name) for name in type_names(record.outcome.type, record.url)),
        *((schema.KIND, name) for name in searchable_kinds(stated)),
    ):
        found.add_text(field, value)
    high, low = split_url_id(identity)
    date = shown_date(page, record.outcome)
    for field, number in (
        (schema.ID_HIGH, high),
        (schema.ID_LOW, low),
        (schema.URL_LENGTH, len(record.url)),
        (schema.DATE, int(date.at)),
        (schema.IN_LINKS, standing.in_links),
        (schema.SITE_ID, site_number(site)),
    ):
        found.add_integer(field, number)
    parts = text_parts(page)
    found.add_float(schema.STATIC, LISTING_STATIC if is_listing(parts) else 2 ** link_factor(standing.rank) - 2)
    for key in () if is_listing(parts) else _title_keys(page):  # the page of a tag is called as its tag
        found.add_text(schema.NAMED, key)
    title = page_terms(page.headline or page.title, page.language, TITLE_WORDS_MAX)
    _add_fingerprints(found, page, title.terms)
    if page.canonical and page.canonical != record.url:
        found.add_integer(schema.CANONICAL, split_url_id(url_id(page.canonical))[0])
    _add_terms(found, page, parts, title, standing.anchors)
    found.add_text(schema.URL, url_words(record.url))
    found.add_bytes(
        schema.SHOWN, msgspec.msgpack.encode(_shown(record, page, parts, language, date, summarize_entities(stated)))
    )


_OTHER, _CONTENT, _TEMPLATE, _LISTED = range(4)  # kinds of characters
_runs = re.compile(rb"\x00+|\x01+|\x02+|\x03+").finditer
_listed = bytes((_LISTED, _CONTENT)) + bytes(range(2, 256))  # of a list of links, what is not in the content


class TextParts(NamedTuple):
    """The text of a page in parts: every character other than white space is in exactly one of content, other lines and
    template, in its order. `own`: content and other lines, in the order of the page. `template`: lists of links outside
    the content, then lines that repeat over the pages of the host.
    """

    own: str
    content: str
    other: str = ""
    template: str = ""
    listed_chars: int = 0  # of lists of links that are neither content nor repeated


def text_parts(page: Page) -> TextParts:
    """Divide the text of a page; any spans will do, also those of a damaged record."""
    text, has_template = page.text, bool(page.template_spans or page.link_list_spans)
    if not has_template and (not page.content_spans or page.content_spans == ((0, len(text)),)):
        return TextParts(text, text) if page.content_spans else TextParts(text, "", text)
    kinds = bytearray(len(text))
    for start, end in page.content_spans:
        kinds[start:end] = b"\x01" * len(kinds[start:end])
    for start, end in page.link_list_spans:
        kinds[start:end] = kinds[start:end].translate(_listed)
    for start, end in page.template_spans:
        kinds[start:end] = b"\x02" * len(kinds[start:end])
    parts: dict[int, list[str]] = {_OTHER: [], _CONTENT: [], _LISTED: [], _TEMPLATE: []}
    own: list[str] = []
    for run in _runs(kinds):
        kind = run[0][0]
        if piece := text[run.start() : run.end()].strip():
            parts[kind].append(piece)
            if kind in (_OTHER, _CONTENT):
                own.append(piece)
    other, content, template = (
        "\n".join(several) for several in (parts[_OTHER], parts[_CONTENT], parts[_LISTED] + parts[_TEMPLATE])
    )
    return TextParts("\n".join(own) if has_template else text, content, other, template, kinds.count(_LISTED))


def is_listing(parts: TextParts) -> bool:
    """Whether a page is little but a list of links: a page of a tag, a category, an archive. The template of its site
    does not count.
    """
    listed = parts.listed_chars
    return listed >= LISTING_CHARS_MIN and listed > LISTING_SHARE_MIN * (listed + len(parts.content))


LINKS_SHARE = 0.1
# A page whose in-links or link factor have changed so many times is indexed again; until then search counts no more.
IN_LINKS_RATIO = 4.0
ANCHORS_IN_LINKS_RATIO = 2.0  # after so many times the in-links, its anchors are compared: new ones index it again, too
LINK_FACTOR_RATIO = 1.05
LISTING_FACTOR, LISTING_FACTOR_MAX = 0.7, 0.99  # of the score of a listing; the maximum with its links
LISTING_STATIC = -1.0  # in place of the link factor
# A new page counts with the mean rank, and most pages fall below it: that alone (1.07) does not index them again.
LOWER_LINK_FACTOR_RATIO = 1.1


def link_factor(rank: float) -> float:
    """The factor that links give to a page's score."""
    return 1 + LINKS_SHARE * log1p(max(rank, 0.0))


def link_factors(ranks: Sequence[float]) -> npt.NDArray[np.float64]:
    """The same for many pages."""
    return 1 + LINKS_SHARE * np.log1p(np.maximum(ranks, 0.0))


def indexed_factor(static: float) -> float:
    """The factor by which tantivy has multiplied a score: it takes a negative value for 0."""
    return log2(2 + max(static, 0.0))


def factor_gains(ranks: Sequence[float], static: Sequence[float]) -> npt.NDArray[np.float64]:
    """For many pages, how many times the indexed factor the present one is, by their links and as listings."""
    factors, indexed = link_factors(ranks), np.array(static)
    listings = indexed < 0
    if listings.any():
        indexed = np.maximum(indexed, 0.0)
        factors[listings] = np.minimum(LISTING_FACTOR * factors[listings], LISTING_FACTOR_MAX)
    gains: npt.NDArray[np.float64] = np.minimum(factors / np.log2(indexed + 2.0), LINK_FACTOR_RATIO)
    return gains


def site_number(name: str) -> int:
    """The hash of a site's name."""
    return _hash(name)


def url_words(url: str) -> str:
    """The words of a URL, unescaped, folded, joined by spaces."""
    return _folded_words(unquote(url)[:URL_CHARS_MAX])


def _folded_words(text: str) -> str:
    return " ".join(filter(None, map(fold, words(text))))


# "3.2. ", "Chapter 5 - ", "Apêndice A. ", "第 1 章 " at the beginning of a title. A letter alone needs a sign after it.
_numbered = re.compile(
    r"(?:(?:chapter|section|part|appendix|annex|cap[íi]tulo|se[çc][ãa]o|secci[óo]n|parte|ap[êeé]ndice|anexo|chapitre|partie"
    r"|annexe|kapitel|abschnitt|teil|anhang|capitolo|appendice|глава|раздел|приложение|附录|附錄|付録)\s+[0-9a-z][0-9.]*"
    r"|第\s*[0-9一二三四五六七八九十]+\s*[章節节部編编]|[0-9]+(?:[.-][0-9]+)*|[a-z](?:\.[0-9]+)+|[a-z](?=[.:)]))"
    r"(?:[.:)．：]|\s)[\s–—-]*",
    re.IGNORECASE,
).match


def _title_keys(page: Page) -> dict[str, None]:
    """What a page is called: its title, with and without the name of its site, and its first heading."""
    found = dict.fromkeys((page.headline, page.title, *page.headings[:1]))
    plain = (title[number.end() :] for title in found if (number := _numbered(title)))
    return dict.fromkeys(filter(None, map(title_key, (*found, *plain))))


def title_key(text: str) -> str:
    """A whole title, or a query for it, whatever its case, accents and signs; empty if it has no words."""
    folded = _folded_words(text)
    return xxh3_64_hexdigest(folded.encode()) if folded else ""


_extension = re.compile(r"\.([a-z0-9]{1,8})$").search


def type_names(mime: str, url: str) -> list[str]:
    """The values of `filetype:` for a page: its MIME type, the usual extensions of that type, and the URL's own
    extension.
    """
    mime = mime.partition(";")[0].strip().lower()
    names = [mime, *_EXTENSIONS.get(mime, ())]
    own = _extension(url.partition("?")[0].rpartition("/")[2].lower())
    return list(dict.fromkeys(filter(None, [*names, own[1] if own else ""])))


_EXTENSIONS = {
    "text/html": ("html", "htm"),
    "application/xhtml+xml": ("xhtml", "html"),
    "text/plain": ("txt",),
    "application/pdf": ("pdf",),
    "application/rtf": ("rtf",),
    "text/rtf": ("rtf",),
    "application/msword": ("doc",),
    "application/vnd.ms-excel": ("xls",),
    "application/vnd.ms-powerpoint": ("ppt",),
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ("docx",),
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ("xlsx",),
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ("pptx",),
    "application/vnd.oasis.opendocument.text": ("odt",),
    "application/vnd.oasis.opendocument.spreadsheet": ("ods",),
    "application/vnd.oasis.opendocument.presentation": ("odp",),
    "application/xml": ("xml",),
    "text/xml": ("xml",),
    "application/json": ("json",),
    "text/csv": ("csv",),
    "text/markdown": ("md",),
}


def _add_fingerprints(found: tantivy.Document | DocumentValues, page: Page, title: str) -> None:
    """Add the fields that identify copies. Half a content id is enough: the odds that any two of a thousand million
    pages share it by chance are 1 to 40, and it would show only where both match the same query.
    """
    found.add_integer(schema.HEADLINE, _hash(title))
    if page.content_id:
        found.add_integer(schema.CONTENT, content_number(page.content_id))
        if page.simhash and len(page.text.split(None, NEAR_WORDS_MIN)) >= NEAR_WORDS_MIN:
            found.add_integer(schema.SIMHASH, signed_64(page.simhash))


def content_number(content_id: str) -> int:
    """The first 64 bits of a content id, as the index holds them."""
    return signed_64(int(content_id[:16], 16))


def signed_64(bits: int) -> int:
    """64 bits as tantivy takes them: of unsigned fields it deletes nothing by term."""
    return bits - (1 << 64) if bits >> 63 else bits


def _hash(text: str) -> int:
    return signed_64(xxh3_64_intdigest(text.encode()))


ENOUGH_ANCHORS_HASH = _hash("\n")  # in the place of the hash of ANCHORS_ENOUGH anchors or more


def _add_terms(
    found: tantivy.Document | DocumentValues, page: Page, parts: TextParts, title: PageTerms, anchors: Sequence[str]
) -> None:
    """Add each text as a value of its own, repeated for its weight: tantivy leaves a gap between two values, so that a
    phrase never matches across them and still matches inside each.
    """
    language = page.language
    affix = page_terms(_affix(page), language, TITLE_WORDS_MAX)
    for own in (title.terms, affix.terms):
        if own:
            found.add_text(schema.TITLE, own)
    weighted: Iterable[tuple[PageTerms, int]] = (
        (title, schema.TITLE_WEIGHT),
        *(
            (page_terms(text, language, HEADING_WORDS_MAX), schema.HEADING_WEIGHT)
            for text in page.headings[:HEADINGS_MAX]
        ),
        *((page_terms(text, language, ANCHOR_WORDS_MAX), schema.ANCHOR_WEIGHT) for text in anchors[:ANCHORS_MAX]),
        (page_terms(parts.own, language, TEXT_WORDS_MAX), 1),
    )
    length = 0
    for (terms, pairs, count), times in weighted:
        for _ in range(times if count else 0):
            found.add_text(schema.ALL, terms)
            if pairs:
                found.add_text(schema.PAIRS, pairs)
        length += times * count
    found.add_integer(schema.LENGTH, length)
    own_words = page_vocabulary(page.headline or page.title, parts.own, language, TEXT_WORDS_MAX)
    found.add_text(schema.WORDS, own_words)
    if affix.terms or parts.template:
        _add_template(found, page, parts.template, affix.terms, own_words)


def _add_template(
    found: tantivy.Document | DocumentValues, page: Page, template: str, affix_terms: str, own_words: str
) -> None:
    """Add what the page shares with others or only lists, and the words that it has there alone."""
    for terms in (affix_terms, page_terms(template, page.language, TEMPLATE_WORDS_MAX).terms):
        if terms:
            found.add_text(schema.TEMPLATE, terms)
    entries = page_vocabulary(_affix(page), template, page.language, TEMPLATE_WORDS_MAX)
    if marked := template_entries(entries, own_words):
        found.add_text(schema.WORDS, marked)


def _affix(page: Page) -> str:
    """What the title says beside the headline: the name of the site."""
    return page.title.replace(page.headline, " ", 1) if page.headline and page.headline != page.title else ""


def _shown(
    record: VisitRecord,
    page: Page,
    parts: TextParts,
    language: str,
    date: ShownDate,
    declares: tuple[DeclaredEntity, ...],
) -> schema.StoredDocument:
    shown, whole = (" ".join(text.split())[:TITLE_CHARS_MAX] for text in (page.headline or page.title, page.title))
    content, other, template = map(compose, (parts.content, parts.other, parts.template))
    own = "\n".join(filter(None, (content, other)))[:SHOWN_CHARS_MAX]
    text = "\n".join(filter(None, (own, template)))[:SHOWN_CHARS_MAX]
    return schema.StoredDocument(
        record.url,
        shown,
        text,
        language,
        datetime.fromtimestamp(int(date.at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        record.collection,
        record.outcome.type.partition(";")[0].strip().lower(),
        tuple(one for one in declares if tells_facts(one, whole)),
        date.kind,
        min(len(content), SHOWN_CHARS_MAX),
        len(own),
        whole if whole != shown else "",
        " ".join(compose(page.description).split())[:DESCRIPTION_CHARS_MAX],
        _shown_alternates(record.url, page.alternates),
    )


def tells_facts(declared: DeclaredEntity, title: str) -> bool:
    """Whether an entity tells more than the result shows anyway: facts, or a name that the title does not hold. The
    name in Open Graph data is that of the page.
    """
    is_named = bool(declared.name) and " ".join(declared.name.split()).casefold() not in title.casefold()
    return bool(declared.facts) or (is_named and not declared.kind.startswith("og:"))


def _shown_alternates(url: str, alternates: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The page in other languages, those of the interface first."""
    others = {
        code: other
        for code, other in alternates
        if other != url and code != "x-default" and other.startswith(("http://", "https://"))
    }
    first = sorted(others.items(), key=lambda one: primary_language(one[0]) not in LANGUAGES)  # stable
    return tuple(first[:ALTERNATES_MAX])


def shown_date(page: Page, outcome: Outcome) -> ShownDate:
    """When the page was published, else last changed, by what it states itself; by a sitemap or feed; by its server; or
    as seen by us; else when it was seen first as it is.
    """
    if page.published is not None:
        return ShownDate(page.published.at, "published")
    if page.modified is not None:
        return ShownDate(page.modified.at, "changed")
    if DATE_MIN <= outcome.announced <= outcome.at:
        return ShownDate(outcome.announced, "changed")
    if said := _last_modified(outcome):
        return ShownDate(said, "changed")
    return ShownDate(outcome.same_since or outcome.at, "changed" if outcome.changed else "seen")


def _last_modified(outcome: Outcome) -> float:
    """The date of the last change by the page's server; 0 if there is none, or an impossible one, or only the time of
    the answer: many programs state that of every page.
    """
    try:
        said = parsedate_to_datetime(outcome.last_modified or "")
        at = (said.replace(tzinfo=UTC) if said.tzinfo is None else said).timestamp()
    except (ValueError, OverflowError):
        return 0.0
    return at if DATE_MIN <= at <= outcome.at - ANSWERED_S_MAX else 0.0


def domains_of_host(host: str) -> list[str]:
    """The host's name and every domain above it: www.ufmg.br, ufmg.br, br. An IP address stands alone."""
    if host.startswith("[") or host.replace(".", "").isdigit():
        return [host]
    labels = host.rstrip(".").split(".")
    return [".".join(labels[start:]) for start in range(max(0, len(labels) - LABELS_MAX), len(labels))]
