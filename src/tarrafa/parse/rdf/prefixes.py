"""Vocabulary IRIs: well-known prefixes such as `schema:`, and one spelling for schema.org and Open Graph.

`schema:Event` stands for `https://schema.org/Event`.
Promises: a shortened IRI expands to the same IRI again. schema.org and Open Graph IRIs have one spelling, whatever
spelling the page uses (`http`, `www.`). These are not the prefixes that a page declares; `structured.rdfa` reads those.
Knows nothing of statements.
"""

import re

SCHEMA = "https://schema.org/"
OPEN_GRAPH = "http://ogp.me"
PREFIXES = {
    "schema": SCHEMA,
    "og": "http://ogp.me/ns#",
    "article": "http://ogp.me/ns/article#",
    "product": "http://ogp.me/ns/product#",
    "book": "http://ogp.me/ns/book#",
    "profile": "http://ogp.me/ns/profile#",
    "video": "http://ogp.me/ns/video#",
    "music": "http://ogp.me/ns/music#",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "dc": "http://purl.org/dc/terms/",
    "dcterms": "http://purl.org/dc/terms/",
    "dc11": "http://purl.org/dc/elements/1.1/",
    "dctype": "http://purl.org/dc/dcmitype/",
    "sioc": "http://rdfs.org/sioc/ns#",
    "skos": "http://www.w3.org/2004/02/skos/core#",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "v": "http://rdf.data-vocabulary.org/#",
    "ical": "http://www.w3.org/2002/12/cal/icaltzd#",
    "gr": "http://purl.org/goodrelations/v1#",
    "cc": "http://creativecommons.org/ns#",
    "dcat": "http://www.w3.org/ns/dcat#",
    "org": "http://www.w3.org/ns/org#",
    "prov": "http://www.w3.org/ns/prov#",
    "as": "https://www.w3.org/ns/activitystreams#",
    "void": "http://rdfs.org/ns/void#",
    "bibo": "http://purl.org/ontology/bibo/",
    "geo": "http://www.w3.org/2003/01/geo/wgs84_pos#",
    "rev": "http://purl.org/stuff/rev#",
    "ctag": "http://commontag.org/ns#",
    "wd": "http://www.wikidata.org/entity/",
    "dbo": "http://dbpedia.org/ontology/",
    "xhv": "http://www.w3.org/1999/xhtml/vocab#",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
    "owl": "http://www.w3.org/2002/07/owl#",
    "rdfa": "http://www.w3.org/ns/rdfa#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "tarrafa": "urn:tarrafa:",
}

# Properties such as fb:app_id; vocabularies of IRIs that pages give them.
_FACEBOOK = ("http://www.facebook.com/2008/", "https://www.facebook.com/2008/")
_SCHEMES = frozenset({"urn", "tag", "info", "did"})  # schemes of IRIs without slashes; none of them is a prefix

_SHORT = {vocabulary: prefix for prefix, vocabulary in reversed(PREFIXES.items())}
_local = re.compile(r"[\w.-]*").fullmatch
_other_spelling = re.compile(
    r"https?://(?:(?P<schema>(?:www\.)?schema\.org/)|(?:www\.)?(?:ogp\.me|opengraphprotocol\.org/schema)"
    r"(?P<graph>/ns#|/ns/[a-z]+#|/))",
    re.IGNORECASE,
).match

# Hardly any page declares these prefixes, and RDFa then takes `article:author` for an IRI.
_undeclared = re.compile(r"(article|book|music|product|profile|video):(?!/)").match


def expand_prefix(name: str) -> str | None:
    """The IRI of a short name, or the IRI itself; None if the prefix is unknown."""
    prefix, colon, local = name.partition(":")
    if colon and not local.startswith("//") and prefix.lower() not in _SCHEMES:
        vocabulary = PREFIXES.get(prefix.lower())
        return vocabulary + local if vocabulary is not None else None
    return normalize_iri(name) if colon else None


def shorten_iri(iri: str) -> str:
    """The short name of an IRI; the IRI itself if it has none."""
    vocabulary = vocabulary_of(iri)
    prefix = _SHORT.get(vocabulary)
    if prefix is None and iri.startswith(PREFIXES["tarrafa"]):
        prefix, vocabulary = "tarrafa", PREFIXES["tarrafa"]
    local = iri[len(vocabulary) :]
    return f"{prefix}:{local}" if prefix is not None and _local(local) else iri


def normalize_iri(iri: str) -> str:
    """The IRI in its normal spelling."""
    if iri.startswith(SCHEMA):
        return iri
    found = _other_spelling(iri)
    if found is None:
        undeclared = _undeclared(iri)
        return f"{OPEN_GRAPH}/ns/{undeclared[1]}#{iri[undeclared.end() :]}" if undeclared else iri
    vocabulary = (
        SCHEMA if found["schema"] else f"{OPEN_GRAPH}{found['graph'].lower() if found['graph'] != '/' else '/ns#'}"
    )
    return vocabulary + iri[found.end() :]


def is_open_graph(vocabulary: str) -> bool:
    """Whether a vocabulary, in its normal spelling, only describes how social networks show the page: Open Graph with
    its parts, and Facebook's own properties beside it."""
    return vocabulary.startswith((f"{OPEN_GRAPH}/", *_FACEBOOK))


def vocabulary_of(iri: str) -> str:
    """The vocabulary of a class or property: its IRI up to the last # or /."""
    return iri[: max(iri.rfind("#"), iri.rfind("/")) + 1]
