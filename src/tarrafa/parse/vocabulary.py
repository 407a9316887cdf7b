"""In which vocabularies does this page speak to machines?

Promises: the IRIs of the vocabularies that its RDFa, microdata and JSON-LD use, in order of appearance, schema.org
under one spelling. It is a cheap look, so that a crawl can keep only structured pages: prefixes are taken from the
whole page, not from where they are in force, and statements are not extracted.
Knows nothing of links or text.
"""

import re
from itertools import islice

import msgspec
from turbohtml import Document

VOCABULARIES_MAX = 32
IRI_LENGTH_MAX = 256
ELEMENTS_MAX = 512  # looked at for attributes of RDFa and microdata
TERMS_MAX = 64  # of one attribute
PREFIXES_MAX = 256  # likewise
JSON_BLOCKS_MAX = 16
JSON_LENGTH_MAX = 262_144  # characters of one block
JSON_CONTEXTS_MAX = 64  # entries of one @context, of whatever depth

SCHEMA = "https://schema.org/"

# The prefixes of https://www.w3.org/2011/rdfa-context/rdfa-1.1 that pages use.
PREFIXES = {
    "as": "https://www.w3.org/ns/activitystreams#",
    "cc": "http://creativecommons.org/ns#",
    "ctag": "http://commontag.org/ns#",
    "dc": "http://purl.org/dc/terms/",
    "dc11": "http://purl.org/dc/elements/1.1/",
    "dcat": "http://www.w3.org/ns/dcat#",
    "dcterms": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "gr": "http://purl.org/goodrelations/v1#",
    "ical": "http://www.w3.org/2002/12/cal/icaltzd#",
    "og": "http://ogp.me/ns#",
    "org": "http://www.w3.org/ns/org#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "prov": "http://www.w3.org/ns/prov#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "rev": "http://purl.org/stuff/rev#",
    "schema": SCHEMA,
    "sioc": "http://rdfs.org/sioc/ns#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "v": "http://rdf.data-vocabulary.org/#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "void": "http://rdfs.org/ns/void#",
}

_STRUCTURED = "[property],[typeof],[vocab],[itemtype],[prefix]"
_JSON_LD = 'script[type="application/ld+json" i]'

_iri = re.compile(r"https?://[^\s<>\"{}|\\^`]+").fullmatch
_schema = re.compile(r"https?://(?:www\.)?schema\.org(?:/.*)?", re.IGNORECASE | re.DOTALL).fullmatch
_prefix_pairs = re.compile(r"(?<![^\s:])([^\s:]+):\s+(\S+)").finditer  # from the start of a name, or it is quadratic


def vocabularies(document: Document) -> tuple[str, ...]:
    """The vocabularies of the page."""
    found: dict[str, None] = {}
    prefixes = dict(PREFIXES)
    for element in document.select(_STRUCTURED)[:ELEMENTS_MAX]:
        if declared := element.attr("prefix"):
            for pair in islice(_prefix_pairs(declared), PREFIXES_MAX):
                prefixes[pair[1].lower()] = pair[2]
        _note(found, element.attr("vocab"))
        for terms in (element.attr("typeof"), element.attr("property")):
            for term in (terms or "").split(maxsplit=TERMS_MAX)[:TERMS_MAX]:
                _note(found, _term_vocabulary(term, prefixes))
        for item_type in (element.attr("itemtype") or "").split(maxsplit=TERMS_MAX)[:TERMS_MAX]:
            _note(found, _namespace(item_type))
    for script in document.select(_JSON_LD)[:JSON_BLOCKS_MAX]:
        for iri in _json_vocabularies(script.text):
            _note(found, iri)
    return tuple(found)


def _note(found: dict[str, None], iri: str | None) -> None:
    if iri and len(iri) <= IRI_LENGTH_MAX and len(found) < VOCABULARIES_MAX and _iri(iri):
        found[SCHEMA if _schema(iri) else iri] = None


def _term_vocabulary(term: str, prefixes: dict[str, str]) -> str:
    """`og:title` is of http://ogp.me/ns#, a full IRI of what stands before its last part; a bare term says nothing."""
    prefix, colon, rest = term.partition(":")
    if not colon:
        return ""
    return _namespace(term) if rest.startswith("//") else prefixes.get(prefix.lower(), "")


def _namespace(iri: str) -> str:
    """An IRI up to its last # or /, as in the W3C's Microdata to RDF."""
    cut = max(iri.rfind("#"), iri.rfind("/"))
    return iri[: cut + 1]


def _json_vocabularies(text: str) -> list[str]:
    """The contexts of a JSON-LD block, and the vocabularies that its types are spelt out in."""
    if len(text) > JSON_LENGTH_MAX:
        return []
    try:
        block = msgspec.json.decode(text.strip())
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return []
    found: list[str] = []
    for node in (block if isinstance(block, list) else [block])[:JSON_CONTEXTS_MAX]:
        if isinstance(node, dict):
            found += _context_iris(node.get("@context"))
            types = node.get("@type")
            for kind in types if isinstance(types, list) else [types]:
                if isinstance(kind, str) and "://" in kind:
                    found.append(_namespace(kind))
    return found


def _context_iris(context: object) -> list[str]:
    found: list[str] = []
    pending = [context]
    for _ in range(JSON_CONTEXTS_MAX):
        if not pending:
            break
        entry = pending.pop(0)
        if isinstance(entry, str):
            found.append(entry)
        elif isinstance(entry, list):
            pending += entry[:JSON_CONTEXTS_MAX]
        elif isinstance(entry, dict):
            pending.append(entry.get("@vocab"))
    return found
