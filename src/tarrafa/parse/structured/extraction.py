"""Extracts the structured data of a page (RDFa, JSON-LD, microdata) as N-Quads: the public `extract`.

Promises: RDFa, JSON-LD and microdata give one set of statements. Any bytes give valid N-Quads, bounded (see
`parse.rdf.nquads`), and the same bytes give the same statements. Nothing is ever fetched. The three syntaxes never
share a blank node. XHTML is read as XML where it is well-formed; everything else is read as HTML.
Knows nothing of links, text or visits.
"""

import re
from functools import lru_cache
from html import escape
from html.entities import html5
from itertools import islice
from typing import NamedTuple

from turbohtml import Document, HTMLParseError, parse_xml
from turbohtml import parse as parse_html

from tarrafa.model import DATA_SYNTAXES, DataSyntax, SyntaxUse
from tarrafa.parse import charset
from tarrafa.parse.mime_types import XHTML_TYPES
from tarrafa.parse.rdf.entity import VOCABULARIES_MAX, vocabularies
from tarrafa.parse.rdf.nquads import StatementSet, iri_of
from tarrafa.parse.rdf.prefixes import normalize_iri
from tarrafa.parse.structured import microdata
from tarrafa.parse.structured.iri_resolution import BaseIri
from tarrafa.parse.structured.jsonld import jsonld_extractor
from tarrafa.parse.structured.rdfa import rdfa_extractor
from tarrafa.parse.structured.rdfa.initial_context import HostLanguage

BODY_BYTES_MAX = 16 << 20  # bytes beyond it are not read
NAMES_CACHED_MAX = 2_048  # of properties and classes

# One selector costs half of two. Most pages have no such element.
_CANDIDATES = f":is([itemscope],{rdfa_extractor.HTML_CANDIDATES})"

_entity = re.compile(r"&([A-Za-z][A-Za-z0-9]*;)")
_CDATA, _CDATA_END = "<![CDATA[", "]]>"
_XML_NAMES = frozenset({"amp;", "lt;", "gt;", "quot;", "apos;"})


class StructuredData(NamedTuple):
    """The statements of a page, their vocabularies, altogether and in each syntax, the number of unreadable JSON-LD
    blocks, whether statements are left out, and where in `statements` those of JSON-LD
    begin."""

    statements: str = ""
    vocabularies: tuple[str, ...] = ()
    syntaxes: tuple[SyntaxUse, ...] = ()
    unread: int = 0
    is_cut: bool = False
    jsonld_from: int = 0


NO_STRUCTURED_DATA = StructuredData()


def extract(body: bytes, url: str, content_type: str, *, only: DataSyntax | None = None) -> str:
    """The statements of a page, as N-Quads; `only` restricts them to one syntax. A URL whose fragment names a block of
    JSON-LD selects that block; with JSON-LD `only`, a fragment that names no block gives nothing (JSON-LD 1.1 §7.3).
    """
    markup, _ = charset.decode(body[:BODY_BYTES_MAX], content_type, "")
    document = parse_xhtml(markup) if is_xhtml(content_type) else None
    host: HostLanguage = "html" if document is None else "xhtml"
    if document is None:
        document = parse_html(markup, positions=False)
    element = document.select_one("base[href]")
    base = (element.attr("href") or "") if element is not None else ""
    url, _, fragment = url.partition("#")
    named = only == "jsonld" or any(script.attr("id") == fragment for script in document.select("script[id]"))
    return _extract_statements(document, url, base, host, only, target=fragment if named else "").statements


def extract_from_tree(
    document: Document, markup: str, url: str, base: str, content_type: str, *, careful: bool = False
) -> StructuredData:
    """Like `extract`, for a page that is already parsed, with the other facts that a crawl needs. `base` is the href of
    the base element, if there is one. `careful`: raise `SandboxRequired` for a block that needs the JSON-LD parser,
    which may end the process.
    """
    tree = parse_xhtml(markup) if is_xhtml(content_type) else None
    host: HostLanguage = "html" if tree is None else "xhtml"
    return _extract_statements(tree or document, url, base, host, careful=careful)


def _extract_statements(
    document: Document,
    url: str,
    base: str,
    host: HostLanguage,
    only: DataSyntax | None = None,
    *,
    target: str = "",
    careful: bool = False,
) -> StructuredData:
    statements, unread, jsonld_from, uses = StatementSet(), 0, 0, list[SyntaxUse]()
    seen_from = BaseIri(url).resolve(base.strip()) if base else url
    is_stated = host == "html" and not only and _state_if_simple(document, seen_from, statements)
    for syntax in (only,) if only else DATA_SYNTAXES:
        if syntax == "rdfa":
            if not is_stated:
                rdfa_extractor.extract(document, seen_from, statements, host, location=url)
        elif syntax == "microdata":
            if not is_stated:
                microdata.extract(document, seen_from, statements)
        else:
            jsonld_from = statements.length
            unread = jsonld_extractor.extract(document, seen_from, statements, target=target, careful=careful)
        if used := vocabularies(map(_name_of, statements.take_names())):
            uses.append(SyntaxUse(syntax, used))
    if not len(statements):
        return StructuredData(unread=unread) if unread else NO_STRUCTURED_DATA
    everywhere = dict.fromkeys(name for use in uses for name in use.vocabularies)
    found = tuple(islice(everywhere, VOCABULARIES_MAX))
    return StructuredData(statements.to_nquads(), found, tuple(uses), unread, statements.is_cut, jsonld_from)


def _state_if_simple(document: Document, base: str, statements: StatementSet) -> bool:
    """Add the RDFa of an HTML page if it has none, or only meta elements, and no microdata. False: nothing is added."""
    found = document.select(_CANDIDATES)
    return not found or rdfa_extractor.state_meta_properties(found, base, statements)


@lru_cache(NAMES_CACHED_MAX)
def _name_of(term: str) -> str:
    return normalize_iri(iri_of(term))


def is_xhtml(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() in XHTML_TYPES


def parse_xhtml(markup: str) -> Document | None:
    """The document read as XML; None if it is not well-formed: browsers show an error, we read it as HTML. HTML's named
    characters are known without a DTD. Other declarations of a doctype are ignored, so no entity can expand.
    """
    markup = _without_cdata(markup.removeprefix("\ufeff"))
    if "&" in markup:
        markup = _entity.sub(_numbered, markup)
    try:
        return parse_xml(markup)
    except (HTMLParseError, ValueError):
        return None


def _without_cdata(markup: str) -> str:
    """The markup with CDATA sections as text. (A regular expression would be quadratic in unclosed sections.)"""
    parts: list[str] = []
    place = 0
    while (start := markup.find(_CDATA, place)) >= 0 and (end := markup.find(_CDATA_END, start)) >= 0:
        parts += markup[place:start], escape(markup[start + len(_CDATA) : end], quote=False)
        place = end + len(_CDATA_END)
    return "".join((*parts, markup[place:])) if parts else markup


def _numbered(found: re.Match[str]) -> str:
    characters = html5.get(found[1])
    if characters is None or found[1] in _XML_NAMES:
        return found[0]
    return "".join(f"&#{ord(character)};" for character in characters)
