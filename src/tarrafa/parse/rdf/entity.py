"""Groups RDF statements by subject into entities with classes and properties, and normalizes vocabulary IRIs.

An entity is a subject of RDF statements, with its classes and properties.
Promises: entities appear in the order in which the page first mentions them. schema.org and Open Graph IRIs have one
spelling, whatever spelling the page uses (`http`, `www.`), in classes, properties and vocabularies. Pure: statements
in, entities out.
Knows nothing of where entities are stored.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tarrafa.parse.rdf.nquads import RDF_TYPE, Statement, iri_of

VOCABULARIES_MAX = 32
VOCABULARY_LENGTH_MAX = 256

SCHEMA = "https://schema.org/"
OPEN_GRAPH = "http://ogp.me"
# Properties about the markup rather than about the entity: rel="next", "uses this vocabulary", lists.
_SYNTAX_VOCABULARIES = frozenset({
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/ns/rdfa#", "http://www.w3.org/1999/xhtml/vocab#",
    "http://www.w3.org/ns/md#",
})  # fmt: skip

_other_spelling = re.compile(
    r"https?://(?:(?P<schema>(?:www\.)?schema\.org/)|(?:www\.)?(?:ogp\.me|opengraphprotocol\.org/schema)"
    r"(?P<graph>/ns#|/ns/[a-z]+#|/))",
    re.IGNORECASE,
).match

# Hardly any page declares these prefixes, and RDFa then takes `article:author` for an IRI.
_undeclared = re.compile(r"(article|book|music|product|profile|video):(?!/)").match


@dataclass(slots=True)
class PageEntity:
    """The statements of one page about one entity. Classes and properties are IRIs; values are N-Quads terms."""

    subject: str
    classes: list[str] = field(default_factory=list)
    properties: list[tuple[str, str]] = field(default_factory=list)

    def first(self, *properties: str) -> str:
        """The first value of the first of these properties that has a value; empty if none has."""
        for wanted in properties:
            for name, term in self.properties:
                if name == wanted:
                    return term
        return ""


def collect_entities(statements: Iterable[Statement]) -> list[PageEntity]:
    """The entities of a page."""
    found: dict[str, PageEntity] = {}
    for statement in statements:
        thing = found.get(statement.subject)
        if thing is None:
            thing = found[statement.subject] = PageEntity(statement.subject)
        if statement.predicate == RDF_TYPE and statement.object.startswith("<"):
            thing.classes.append(normalize_iri(iri_of(statement.object)))
        else:
            thing.properties.append((normalize_iri(iri_of(statement.predicate)), statement.object))
    return list(found.values())


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


def vocabulary_of(iri: str) -> str:
    """The vocabulary of a class or property: its IRI up to the last # or /."""
    return iri[: max(iri.rfind("#"), iri.rfind("/")) + 1]


def vocabularies(of: Iterable[PageEntity]) -> tuple[str, ...]:
    """The vocabularies of these entities, in order of appearance."""
    found: dict[str, None] = {}
    for thing in of:
        for name in (*thing.classes, *(name for name, _ in thing.properties)):
            vocabulary = vocabulary_of(name)
            if vocabulary and vocabulary not in _SYNTAX_VOCABULARIES and len(vocabulary) <= VOCABULARY_LENGTH_MAX:
                found[vocabulary] = None
                if len(found) >= VOCABULARIES_MAX:
                    return tuple(found)
    return tuple(found)
