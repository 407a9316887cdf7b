"""Search results as CSV, RSS and Atom, and the OpenSearch description.

Formats: CSV (RFC 4180), RSS 2.0, Atom (RFC 4287), OpenSearch 1.1. Promises: whatever pages say, the XML is well-formed
(characters that XML 1.0 cannot hold are left out), text is never markup, also where readers take it for HTML, and no
cell of a table is a formula. Knows nothing of HTTP.
"""

import csv as tables
import html
import io
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from xml.etree.ElementTree import Element, SubElement, register_namespace, tostring

from tarrafa.i18n import Translator
from tarrafa.model import SearchResult
from tarrafa.server.security_headers import safe_href

CSV_TYPE = "text/csv; charset=utf-8; header=present"
RSS_TYPE = "application/rss+xml"
ATOM_TYPE = "application/atom+xml"
OPENSEARCH_TYPE = "application/opensearchdescription+xml"
SUGGESTIONS_TYPE = "application/x-suggestions+json"

ATOM = "http://www.w3.org/2005/Atom"
OPENSEARCH = "http://a9.com/-/spec/opensearch/1.1/"
CSV_COLUMNS = (
    "rank",
    "url",
    "title",
    "snippet",
    "score",
    "in_links",
    "updated",
    "date_kind",
    "language",
    "type",
    "site",
    "copies",
)
FORMULA_SIGNS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")  # they begin a formula (OWASP, CSV injection)
_unfit = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]").sub  # XML 1.0, section 2.2

register_namespace("atom", ATOM)
register_namespace("opensearch", OPENSEARCH)


@dataclass(frozen=True, slots=True)
class SearchFeed:
    """A result as a feed. `page` is its address for people, `own` that of the feed."""

    result: SearchResult
    offset: int
    title: str
    page: str
    own: str
    now: float


def to_csv(result: SearchResult, offset: int) -> str:
    written = io.StringIO()
    writer = tables.writer(written)
    writer.writerow(CSV_COLUMNS)
    for rank, hit in enumerate(result.hits, offset + 1):
        row = [rank, *(getattr(hit, name) for name in CSV_COLUMNS[1:])]
        writer.writerow([_safe_csv_cell(value) if isinstance(value, str) else value for value in row])
    return written.getvalue()


def _safe_csv_cell(text: str) -> str:
    """Text that a spreadsheet takes for text: an apostrophe before what would be a formula, no control characters."""
    plain = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    return f"'{plain}" if plain.startswith(FORMULA_SIGNS) else plain


def to_rss(feed: SearchFeed) -> bytes:
    root = Element("rss", version="2.0")
    channel = SubElement(root, "channel")
    add_element(channel, "title", feed.title)
    add_element(channel, "link", feed.page)
    add_element(channel, "description", feed.title)
    add_element(channel, "lastBuildDate", _rfc822(_newest_date(feed)))
    SubElement(channel, f"{{{ATOM}}}link", rel="self", type=RSS_TYPE, href=_xml_safe(feed.own))
    _add_opensearch_counts(channel, feed)
    for hit in feed.result.hits:
        item = SubElement(channel, "item")
        add_element(item, "title", hit.title or hit.url)
        add_element(item, "link", safe_href(hit.url))
        add_element(item, "guid", hit.url).set("isPermaLink", "true")
        add_element(item, "pubDate", _rfc822(hit.updated))
        add_element(item, "description", html.escape(hit.snippet))  # readers take it for HTML
    return xml_document(root)


def to_atom(feed: SearchFeed) -> bytes:
    root = Element("feed", xmlns=ATOM)  # unqualified names below it are in its namespace
    add_element(root, "title", feed.title)
    add_element(root, "id", feed.own)
    add_element(root, "updated", _newest_date(feed))
    author = SubElement(root, "author")
    add_element(author, "name", "Tarrafa")
    SubElement(root, "link", rel="self", type=ATOM_TYPE, href=_xml_safe(feed.own))
    SubElement(root, "link", rel="alternate", type="text/html", href=_xml_safe(feed.page))
    _add_opensearch_counts(root, feed)
    for hit in feed.result.hits:
        entry = SubElement(root, "entry")
        add_element(entry, "title", hit.title or hit.url).set("type", "text")
        SubElement(entry, "link", rel="alternate", href=_xml_safe(safe_href(hit.url)))
        add_element(entry, "id", hit.url)
        add_element(entry, "updated", hit.updated or _newest_date(feed))
        if hit.date_kind == "published":
            add_element(entry, "published", hit.updated)
        add_element(entry, "summary", hit.snippet).set("type", "text")
    return xml_document(root)


def opensearch_description(base: str, _: Translator) -> bytes:
    """The description with which a browser adds this search."""
    root = Element("OpenSearchDescription", xmlns=OPENSEARCH)
    for name, text in (
        ("ShortName", "Tarrafa"), ("Description", _("Search the pages that were crawled")), ("InputEncoding", "UTF-8"),
        ("OutputEncoding", "UTF-8"), ("Language", _.code), ("AdultContent", "false"), ("SyndicationRight", "open"),
    ):  # fmt: skip
        add_element(root, name, text)
    add_element(root, "Image", f"{base}/static/logo.svg").set("type", "image/svg+xml")
    for kind, template in (
        ("text/html", "/?q={searchTerms}&page={startPage?}"),
        (RSS_TYPE, "/search.rss?q={searchTerms}&n={count?}"),
        (ATOM_TYPE, "/search.atom?q={searchTerms}&n={count?}"),
        ("application/json", "/search.json?q={searchTerms}&n={count?}"),
        (SUGGESTIONS_TYPE, "/suggest?q={searchTerms}"),
    ):
        SubElement(root, "Url", type=kind, template=_xml_safe(base + template))
    SubElement(root, "Url", type=OPENSEARCH_TYPE, template=_xml_safe(f"{base}/opensearch.xml"), rel="self")
    return xml_document(root)


def _add_opensearch_counts(parent: Element, feed: SearchFeed) -> None:
    for name, value in (
        ("totalResults", feed.result.total), ("startIndex", feed.offset + 1), ("itemsPerPage", len(feed.result.hits)),
    ):  # fmt: skip
        add_element(parent, f"{{{OPENSEARCH}}}{name}", str(value))


def add_element(parent: Element, name: str, text: str) -> Element:
    """A child with a text, whatever characters that has."""
    child = SubElement(parent, name)
    child.text = _xml_safe(text)
    return child


def _xml_safe(text: str) -> str:
    return _unfit("", text)


def xml_document(root: Element) -> bytes:
    written: bytes = tostring(root, "utf-8", xml_declaration=True)
    return written


def _newest_date(feed: SearchFeed) -> str:
    """The date of the newest hit; now, if there is none."""
    now = datetime.fromtimestamp(feed.now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return max((hit.updated for hit in feed.result.hits if hit.updated), default=now)


def _rfc822(moment: str) -> str:
    """`2026-09-22T21:13:20Z` as RSS writes it."""
    try:
        return format_datetime(datetime.fromisoformat(moment).astimezone(UTC), usegmt=True)
    except ValueError:
        return ""
