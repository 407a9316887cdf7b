"""Parses the body of a response (HTML, plain text, PDF, office document) into a `Page`: the public `parse`.

Promises: any bytes give a `Page`, and everything in it is bounded by a constant below. HTML, broken or not, is read as
browsers read it; XHTML is read as HTML; plain text has a text and no links; PDF, RTF and office documents
(`documents.document`) have both, or raise `UnreadableDocument`. For other types only the server's robots directives are
known.
Knows nothing of visits or collections. The worker that calls `parse` bounds the memory and time of a hostile page.
"""

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from turbohtml import Document, Element, Namespace
from turbohtml import parse as parse_html

from tarrafa.model import Page, UsageStatement
from tarrafa.parse import charset, fingerprint, language, robots_meta_usage
from tarrafa.parse.documents.document import (
    DOCUMENT_KINDS,
    OFFICE_TYPES,
    document_kind,
    read_document,
    replace_invalid_characters,
)
from tarrafa.parse.link_extractor import LinkExtractor, script_targets
from tarrafa.parse.main_content import PageParts, divide, lay_out
from tarrafa.parse.mime_types import HTML_TYPES, PLAIN_TYPES
from tarrafa.parse.page_dates import META_DATES, DatedPage, MetaDate, page_dates
from tarrafa.parse.page_title import STATED_META, StatedTitles, headline
from tarrafa.parse.requisites import document_requisites
from tarrafa.parse.structured.extraction import extract_from_tree
from tarrafa.parse.text_kernels import TEXT_LENGTH_MAX, normalize_lines
from tarrafa.parse.url import UrlIdentity, base_url_of, canonical, host_name

PARSER = "tarrafa-parse/7"  # stored in every record: raise it when the same bytes give a different page

BODY_BYTES_MAX = 16 << 20  # bytes beyond it are not read
TITLE_LENGTH_MAX = 512
DESCRIPTION_LENGTH_MAX = 512
HEADINGS_MAX = 64
HEADING_LENGTH_MAX = 256
HEAD_ELEMENTS_MAX = 10_000  # of elements other than anchors
REFRESH_LENGTH_MAX = 4_096
REFRESH_DIGITS_MAX = 9
ALTERNATES_MAX = 64
HREFLANG_LENGTH_MAX = 35  # BCP 47 §4.4.1
FEEDS_MAX = 8
SNIFFED_BYTES = 512
PERMALINK_MARKS = frozenset("¶§#🔗\uf0c1\u200b")  # of links from headings to themselves; U+F0C1 is an icon of a chain

FEED_TYPES = frozenset({"application/rss+xml", "application/atom+xml"})

_ANCHORS = ("a", "area")
_METADATA_ELEMENTS = ("title", "base", "meta", "link", "h1", "h2", "h3", "frame", "iframe")
_TEMPLATE_ELEMENTS = ("template",)  # browsers do not display it
# These may contain links, but no text for readers.
_TEXTLESS_ELEMENTS = ("noscript", "iframe", "svg", "select", "textarea", "datalist")

_word = re.compile(r"\w").search
_looks_like_html = re.compile(rb"\s*(?:<!--|<\?xml|<!doctype\s+html|<[a-z][a-z0-9]*[\s/>])", re.IGNORECASE).match
# HTML standard, "shared declarative refresh steps". (turbohtml's own meta_refresh raises on an invalid URL.)
_refresh = re.compile(
    r"""\s*([0-9]++|(?=\.))[0-9.]*+(?:\s*[;,]|\s)\s*(?:url\s*=\s*)?(?:"([^"]*)|'([^']*)|(.*))""",
    re.IGNORECASE | re.DOTALL,
).match

_PLAIN = UrlIdentity()


def parse(
    body: bytes,
    url: str,
    content_type: str,
    x_robots_tag: str = "",
    identity: UrlIdentity = _PLAIN,
    agent: str = robots_meta_usage.AGENT,
    *,
    careful: bool = False,
    requisites_max: int = 0,
) -> Page:
    """Parse the body of a response. `x_robots_tag` holds all such headers, one per line; `agent` is our robot's name.
    `careful`: raise `SandboxRequired` instead of passing the page to a library that it could crash. `requisites_max`:
    how many of its requisites are wanted.
    """
    kind = _kind(body, content_type)
    robots = robots_meta_usage.robots_from_header(x_robots_tag, agent) if x_robots_tag else frozenset()
    if kind in DOCUMENT_KINDS:
        return _parse_document(kind, body, url, robots, identity)
    body = body[:BODY_BYTES_MAX]
    if kind == "html":
        return _parse_html(body, url, content_type, robots, identity, agent, careful, requisites_max)
    if kind == "plain":
        return _parse_plain(body, url, content_type, robots)
    return Page(url=url, robots=robots_meta_usage.combine_robots([robots]), parser=PARSER)


def _kind(body: bytes, content_type: str) -> str:
    """The kind of parser to use. Only a missing type is sniffed (and application/octet-stream, for documents): a type
    that the server names is believed, as browsers mostly do.
    """
    declared = content_type.partition(";")[0].strip().lower()
    if declared in HTML_TYPES:
        return "html"
    if declared in PLAIN_TYPES:
        return "plain"
    if kind := document_kind(declared, body):
        return kind
    if declared:
        return "other"
    head = body[:SNIFFED_BYTES]
    if _looks_like_html(head.removeprefix(b"\xef\xbb\xbf")):
        return "html"
    return "other" if b"\x00" in head else "plain"


def sniff(body: bytes) -> tuple[str, ...]:
    """The MIME types that a body without a declared type may have; empty if it is of no type that is parsed here."""
    types = {"html": ("text/html",), "plain": ("text/plain",), "pdf": ("application/pdf",), "rtf": ("application/rtf",)}
    return (types | {"office": tuple(sorted(OFFICE_TYPES))}).get(_kind(body, ""), ())


@dataclass(slots=True)
class _PageElements:
    """The facts that elements other than anchors state about the page."""

    title: str = ""
    base: str = ""
    language: str = ""
    canonical: str = ""
    headings: list[str] = field(default_factory=list)
    robots: list[frozenset[str]] = field(default_factory=list)  # directives
    links: list[tuple[str, str, str, str]] = field(default_factory=list)  # href, rel, type, hreflang of link elements
    frames: list[str] = field(default_factory=list)  # and other targets without an anchor
    refresh: str = ""
    refresh_s: float = 0.0
    feeds: list[str] = field(default_factory=list)
    dates: list[MetaDate] = field(default_factory=list)
    usage: list[UsageStatement] = field(default_factory=list)
    h1: str = ""
    stated: dict[str, str] = field(default_factory=dict)  # og:title, og:site_name, og:description, description


def _parse_html(
    body: bytes,
    url: str,
    content_type: str,
    robots: frozenset[str],
    identity: UrlIdentity,
    agent: str,
    careful: bool,
    requisites_max: int,
) -> Page:
    own = canonical(url) or ""
    markup, encoding = charset.decode(body, content_type, _top_level(own))
    document = parse_html(markup, positions=False)
    requisites = document_requisites(document, own or url, encoding, requisites_max) if requisites_max else ()
    _remove_elements(document, _TEMPLATE_ELEMENTS)
    facts = _read_elements(document, agent)
    if any(not PERMALINK_MARKS.isdisjoint((one[0], one[-1])) for one in facts.headings) and _remove_permalinks(
        document
    ):
        facts = _read_elements(document, agent)
    facts.title = facts.title or _first_heading(document, facts)
    base = base_url_of((canonical(facts.base, url) if facts.base else None) or url)
    links = LinkExtractor(identity.fold(own) if own else url, base, encoding, identity)
    refresh = (links.resolve(facts.refresh) or "") if facts.refresh else ""
    alternates = _add_links(links, document, facts, refresh)
    stated = extract_from_tree(document, markup, own or url, facts.base, content_type, careful=careful)
    text = _read_text(document, markup, facts)
    for target in script_targets(document, markup, text.text):
        links.add(target, "", "")
    dates = page_dates(
        DatedPage(
            document,
            own,
            stated,
            facts.dates,
            facts.title,
            facts.headings,
            text.text,
            text.language,
            facts.language,
            text.parts.code_spans,
        )
    )
    description = facts.stated.get("description") or facts.stated.get("og:description") or ""
    return Page(
        url=url,
        title=facts.title,
        text=text.text,
        content_spans=text.parts.content_spans,
        link_list_spans=text.parts.link_list_spans,
        code_spans=text.parts.code_spans,
        headline=headline(facts.title, StatedTitles.of(facts.stated, facts.h1, facts.headings)),
        description=_single_line(description, DESCRIPTION_LENGTH_MAX),
        headings=tuple(facts.headings),
        links=links.all(),
        language=text.language,
        language_chars=text.language_chars,
        charset=encoding,
        canonical=(links.resolve(facts.canonical) or "") if facts.canonical else "",
        robots=robots_meta_usage.combine_robots([robots, *facts.robots]),
        content_id=text.prints.content_id,
        simhash=text.prints.simhash,
        wording=text.prints.wording,
        vocabularies=stated.vocabularies,
        syntaxes=stated.syntaxes,
        statements=stated.statements,
        unread=stated.unread,
        cut_statements=stated.is_cut,
        cut_text=text.is_cut,
        refresh=refresh,
        refresh_s=facts.refresh_s if refresh else 0.0,
        alternates=alternates,
        feeds=tuple(islice(dict.fromkeys(filter(None, map(links.resolve, facts.feeds))), FEEDS_MAX)),
        published=dates.published,
        modified=dates.modified,
        usage=robots_meta_usage.combine_usage(facts.usage) if facts.usage else (),
        parser=PARSER,
        requisites=requisites,
    )


def _add_links(
    links: LinkExtractor, document: Document, facts: _PageElements, refresh: str
) -> tuple[tuple[str, str], ...]:
    """Add the links of all elements; the page in other languages, with their tags."""
    if refresh:
        links.add(refresh, "", "")
    anchors = document.iter_elements(_ANCHORS) if document.find("area") is not None else document.find_all("a")
    links.add_anchors(anchors, may_nest=document.select_one("a a, area a") is not None)
    alternates: dict[tuple[str, str], None] = {}
    for href, rel, type_, hreflang in facts.links:
        target = links.add_link_element(href, rel, type_)
        if hreflang and target is not None and len(alternates) < ALTERNATES_MAX:
            alternates[hreflang, target] = None
    for src in facts.frames:
        links.add(src, "", "")
    return tuple(alternates)


class _PageText(NamedTuple):
    """The text of a page, and what it shows by itself."""

    text: str
    is_cut: bool
    parts: PageParts
    prints: fingerprint.Fingerprints
    language: str
    language_chars: int


def _first_heading(document: Document, facts: _PageElements) -> str:
    """What a page without a title is called. Pages of manuals begin with "NAME", and with the name below it."""
    heading = facts.h1 or next(iter(facts.headings), "")
    element = document.find("h1") if heading.casefold() == "name" else None
    following = next((one for one in element.next_siblings if isinstance(one, Element)), None) if element else None
    return _single_line(following.to_text(), TITLE_LENGTH_MAX) if following is not None else heading


def _read_text(document: Document, markup: str, facts: _PageElements) -> _PageText:
    _remove_elements(document, _TEXTLESS_ELEMENTS)
    laid_out = lay_out(document, markup)
    text, is_cut = normalize_lines(laid_out.text)
    parts = divide(laid_out, text)
    prints = fingerprint.page_fingerprints(facts.title, text, parts.content_spans)
    detection = language.detected(sample := parts.sample or text or facts.title)
    spoken = detection.code or language.normalize_tag(facts.language) or language.likely(sample)
    return _PageText(text, is_cut, parts, prints, spoken, detection.chars)


def _parse_plain(body: bytes, url: str, content_type: str, robots: frozenset[str]) -> Page:
    raw, encoding = charset.decode(body, content_type, _top_level(canonical(url) or ""))
    text, cut_text = normalize_lines(raw[: 2 * TEXT_LENGTH_MAX + 1].replace("\x00", "").replace("\r", "\n"))
    prints, detection = fingerprint.compute_fingerprints(text), language.detected(text)
    return Page(
        url=url,
        title=text.partition("\n")[0][:TITLE_LENGTH_MAX].rstrip(),
        text=text,
        content_spans=((0, len(text)),) if text else (),
        language=detection.code,
        language_chars=detection.chars,
        charset=encoding,
        cut_text=cut_text,
        robots=robots_meta_usage.combine_robots([robots]),
        content_id=prints.content_id,
        simhash=prints.simhash,
        wording=prints.wording,
        parser=PARSER,
    )


def _parse_document(kind: str, body: bytes, url: str, robots: frozenset[str], identity: UrlIdentity) -> Page:
    extracted = read_document(kind, body, 2 * TEXT_LENGTH_MAX + 1)
    own = canonical(url) or ""
    links = LinkExtractor(identity.fold(own) if own else url, base_url_of(url), charset.UTF_8, identity)
    for href, anchor in extracted.hrefs.items():
        links.add(href, anchor, "")
    text, cut_text = normalize_lines(replace_invalid_characters("\n".join(extracted.lines)))
    title = extracted.best_title()[:TITLE_LENGTH_MAX].rstrip() or text.partition("\n")[0][:TITLE_LENGTH_MAX].rstrip()
    prints, detection = fingerprint.compute_fingerprints(f"{title}\n{text}"), language.detected(text or title)
    return Page(
        url=url,
        title=title,
        text=text,
        content_spans=((0, len(text)),) if text else (),
        headings=tuple(extracted.headings),
        links=links.all(),
        language=detection.code or language.normalize_tag(extracted.language),
        language_chars=detection.chars,
        cut_text=cut_text,
        robots=robots_meta_usage.combine_robots([robots]),
        content_id=prints.content_id,
        simhash=prints.simhash,
        wording=prints.wording,
        parser=PARSER,
    )


def _read_elements(document: Document, agent: str) -> _PageElements:
    facts = _PageElements()
    root = document.root
    if root is not None:
        facts.language = root.attr("lang") or root.attr("xml:lang") or ""
    for element in islice(document.iter_elements(_METADATA_ELEMENTS), HEAD_ELEMENTS_MAX):
        tag = element.tag
        if tag == "meta":
            _read_meta(element, facts, agent)
        elif tag == "link":
            _read_link(element, facts)
        elif tag == "title":
            if not facts.title and element.namespace is Namespace.HTML:
                facts.title = _single_line(element.text, TITLE_LENGTH_MAX)
        elif tag == "base":
            facts.base = facts.base or element.attr("href") or ""
        elif tag in ("frame", "iframe"):
            facts.frames.append(element.attr("src") or "")
        elif len(facts.headings) < HEADINGS_MAX and (heading := _single_line(element.to_text(), HEADING_LENGTH_MAX)):
            facts.headings.append(heading)
            facts.h1 = facts.h1 or (heading if tag == "h1" else "")
    return facts


def _read_meta(element: Element, facts: _PageElements, agent: str) -> None:
    name = element.attr("name")
    key = (name or element.attr("property") or element.attr("itemprop") or "").lower()
    if key in META_DATES and (element.attr("itemprop") is None or element.closest("[itemscope]") is None):
        facts.dates.append((key, element.attr("content") or ""))
    elif key in STATED_META:
        facts.stated.setdefault(key, _single_line(element.attr("content") or "", TITLE_LENGTH_MAX))
    if name is not None:
        if robots := robots_meta_usage.robots_from_meta(name, element.attr("content") or "", agent):
            facts.robots.append(robots)
            if len(facts.usage) < robots_meta_usage.STATEMENTS_MAX:
                facts.usage += robots_meta_usage.usage_from_directives("page", robots)
        elif key.startswith("tdm-") and (
            said := robots_meta_usage.from_tdm("page", key, element.attr("content") or "")
        ):
            facts.usage.append(said)
        return
    pragma = (element.attr("http-equiv") or "").lower()
    if pragma == "refresh":
        target, delay_s = _refresh_target(element.attr("content") or "")
        if element.closest("noscript") is not None:  # browsers that run scripts stay on the page
            facts.frames.append(target)
        elif not facts.refresh:
            facts.refresh, facts.refresh_s = target, delay_s
    elif pragma == "content-language" and not facts.language:
        facts.language = element.attr("content") or ""


def _read_link(element: Element, facts: _PageElements) -> None:
    href = element.attr("href")
    if href is None:
        return
    rel = element.attr("rel") or ""
    tokens = rel.lower().split()
    if "canonical" in tokens:
        facts.canonical = facts.canonical or href
        return
    type_ = element.attr("type") or ""
    if "license" in tokens and type_.strip().lower() == robots_meta_usage.RSL_TYPE:
        facts.usage.append(robots_meta_usage.from_licence("page", href))
    hreflang = ""
    if "alternate" in tokens and "stylesheet" not in tokens:
        if type_ and type_.partition(";")[0].strip().lower() in FEED_TYPES:
            facts.feeds.append(href)
            return
        hreflang = (element.attr("hreflang") or "").strip().lower()
    facts.links.append((href, rel, type_, hreflang if len(hreflang) <= HREFLANG_LENGTH_MAX else ""))


def _refresh_target(content: str) -> tuple[str, float]:
    """The target and delay of a meta refresh; an empty target if it only reloads the same page."""
    found = _refresh(content[:REFRESH_LENGTH_MAX])
    if not found:
        return "", 0.0
    return (found[2] or found[3] or found[4] or "").strip(), float(found[1][:REFRESH_DIGITS_MAX] or 0)


def _remove_elements(document: Document, tags: tuple[str, ...]) -> None:
    """Remove elements. `find_all` has an index of the tags; `iter_elements` would visit every element."""
    for element in [element for tag in tags for element in document.find_all(tag)]:
        element.decompose()


def _remove_permalinks(document: Document) -> bool:
    """Remove the links to a place on the page whose text is only a sign; whether there were any. Generators of
    documentation put one into each heading.
    """
    links = [link for link in document.find_all("a") if (link.attr("href") or "").startswith("#")]
    found = [link for link in links if 0 < len(text := link.text.strip()) <= 2 and not _word(text)]
    for link in found:
        link.decompose()
    return bool(found)


def _top_level(url: str) -> str:
    return host_name(url).rpartition(".")[2] if url else ""


def _single_line(text: str, length_max: int) -> str:
    return " ".join(text[: 4 * length_max].split())[:length_max].rstrip()
