"""Groups the RDF statements of a page into entities, and summarizes them for search results.

An entity is a subject of RDF statements, with its classes and properties. A summary is what a person wants to see of it
beside the title of the page, and what a search by entity kind asks for: an event's date and place, a product's price.
Promises: entities appear in the order in which the page first mentions them. A summary shows a few entities, those that
the page is about rather than their parts, each with its kind, its name and a few facts. Every text is bounded. Pure.
Knows nothing of where entities are stored or how a summary is displayed.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tarrafa.model import DeclaredEntity
from tarrafa.parse.rdf.nquads import RDF_TYPE, Statement, iri_of, literal_value
from tarrafa.parse.rdf.prefixes import OPEN_GRAPH, PREFIXES, expand_prefix, normalize_iri, shorten_iri, vocabulary_of

VOCABULARIES_MAX = 32
VOCABULARY_LENGTH_MAX = 256
SUMMARIES_MAX = 3
FACTS_MAX = 5
FACT_LENGTH_MAX = 120
NAME_LENGTH_MAX = 200
KINDS_MAX = 200  # kinds by which one page can be found

# Properties about the markup rather than about the entity: rel="next", "uses this vocabulary", lists.
_SYNTAX_VOCABULARIES = frozenset({
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/ns/rdfa#", "http://www.w3.org/1999/xhtml/vocab#",
    "http://www.w3.org/ns/md#",
})  # fmt: skip

_SHOWN_FIRST = """
schema:startDate schema:endDate schema:location schema:offers schema:price schema:priceCurrency schema:lowPrice
schema:availability schema:aggregateRating schema:ratingValue schema:reviewRating schema:author schema:byArtist
schema:director schema:performer schema:organizer schema:publisher schema:brand schema:hiringOrganization
schema:jobLocation schema:baseSalary schema:jobTitle schema:worksFor schema:affiliation schema:birthDate
schema:deathDate schema:nationality schema:address schema:telephone schema:openingHours schema:totalTime
schema:cookTime schema:prepTime schema:recipeYield schema:isbn schema:numberOfPages schema:datePublished
schema:uploadDate schema:duration schema:sku schema:founder schema:foundingDate schema:email
schema:streetAddress schema:addressLocality schema:validThrough
foaf:mbox foaf:homepage dc:creator dc:date dc:issued dc:publisher dc11:creator dc11:date dc11:publisher
ical:dtstart ical:dtend ical:location vcard:tel vcard:adr gr:hasPriceSpecification gr:hasCurrencyValue
og:type og:site_name article:published_time article:author product:price.amount
"""
_NAMES = """
schema:name schema:headline foaf:name rdfs:label dc:title dc11:title skos:prefLabel vcard:fn gr:name ical:summary
schema:legalName og:title v:name sioc:name foaf:nick schema:title schema:alternateName schema:text
"""
_WHEN = """
schema:startDate ical:dtstart schema:datePublished schema:uploadDate schema:dateCreated schema:datePosted
schema:birthDate schema:foundingDate schema:validFrom dc:date dc:issued dc:created dc11:date article:published_time
schema:dateModified schema:endDate
"""
# The properties that describe an entity which is itself the value of a fact (a place, an offer).
_SAYS = """
schema:name schema:headline schema:price schema:lowPrice schema:ratingValue schema:value schema:addressLocality
schema:streetAddress foaf:name rdfs:label vcard:fn gr:hasCurrencyValue
"""
_UNITS = """schema:priceCurrency schema:bestRating gr:hasCurrency"""


def _iris(names: str) -> tuple[str, ...]:
    return tuple(filter(None, map(expand_prefix, names.split())))


FACT_PROPERTIES, NAME_PROPERTIES, DATE_PROPERTIES, LABEL_PROPERTIES, UNIT_PROPERTIES = map(
    _iris, (_SHOWN_FIRST, _NAMES, _WHEN, _SAYS, _UNITS)
)
_RANK = {name: place for place, name in enumerate(FACT_PROPERTIES)}
_PAGE_FURNITURE_CLASSES = frozenset(
    _iris("""
schema:WebPage schema:WebSite schema:BreadcrumbList schema:ListItem schema:ImageObject schema:SearchAction
schema:EntryPoint schema:ReadAction schema:SiteNavigationElement schema:WPHeader schema:WPFooter schema:CollectionPage
""")
)  # types that some systems give to every page
_OG_TYPE = f"{OPEN_GRAPH}/ns#type"
_is_name = re.compile(r"[\w.-]+").fullmatch
_date = re.compile(r"\s*(\d{4})(?:-(\d\d))?(?:-(\d\d))?", re.ASCII).match


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
        entity = found.get(statement.subject)
        if entity is None:
            entity = found[statement.subject] = PageEntity(statement.subject)
        if statement.predicate == RDF_TYPE and statement.object.startswith("<"):
            entity.classes.append(normalize_iri(iri_of(statement.object)))
        else:
            entity.properties.append((normalize_iri(iri_of(statement.predicate)), statement.object))
    return list(found.values())


def vocabularies(names: Iterable[str]) -> tuple[str, ...]:
    """The vocabularies of these classes and properties, in order of appearance."""
    found: dict[str, None] = {}
    for name in names:
        vocabulary = vocabulary_of(name)
        if vocabulary and vocabulary not in _SYNTAX_VOCABULARIES and len(vocabulary) <= VOCABULARY_LENGTH_MAX:
            found[vocabulary] = None
            if len(found) >= VOCABULARIES_MAX:
                break
    return tuple(found)


def entity_name(entity: PageEntity) -> str:
    """The name of an entity; empty if the page states none."""
    return _text(entity.first(*NAME_PROPERTIES), NAME_LENGTH_MAX)


def entity_day(entity: PageEntity) -> str:
    """The day of an entity: `2026-01-31`. A month or a year counts as its first day."""
    for name in DATE_PROPERTIES:
        for found, term in entity.properties:
            value = literal_value(term) if found == name else None
            if value is not None and (match := _date(value.text)):
                year, month, day = match.groups("01")
                return f"{year}-{month}-{day}"
    return ""


def summarize_entities(entities: Sequence[PageEntity]) -> tuple[DeclaredEntity, ...]:
    """The main entities that the page declares."""
    known = {entity.subject: entity for entity in entities}
    parts = {term for entity in entities for _, term in entity.properties if term in known and term != entity.subject}
    classed = [entity for entity in entities if not _PAGE_FURNITURE_CLASSES.issuperset(entity.classes)]
    chosen = [entity for entity in classed if entity.subject not in parts] or classed
    return tuple(_summarize(entity, known) for entity in chosen[:SUMMARIES_MAX]) or _open_graph_summary(entities)


def searchable_kinds(entities: Sequence[PageEntity]) -> list[str]:
    """The kinds by which a search may find the page, in lower case: each vocabulary, each class by its IRI and by its
    bare name (`:event`), and both with the day of such an entity (`:event@2026-01-31`). The Open Graph type of the page
    counts as a class.
    """
    found: dict[str, None] = {}
    for entity in entities:
        day = entity_day(entity)
        shared = _og_type(entity)
        for name in (*entity.classes, f"{OPEN_GRAPH}/ns#{shared}") if shared else entity.classes:
            for kind in (name, f":{name[len(vocabulary_of(name)) :]}"):
                found[kind.lower()] = None
                if day:
                    found[f"{kind.lower()}@{day}"] = None
        if len(found) > KINDS_MAX:
            break
    names = (name for entity in entities for name in (*entity.classes, *(name for name, _ in entity.properties)))
    return [*islice(found, KINDS_MAX), *(vocabulary.lower() for vocabulary in vocabularies(names))]


def _summarize(entity: PageEntity, known: dict[str, PageEntity]) -> DeclaredEntity:
    facts = sorted(entity.properties, key=lambda pair: _RANK.get(pair[0], len(_RANK)))
    shown: dict[str, str] = {}
    for name, term in facts:
        if name in NAME_PROPERTIES or name not in _RANK or len(shown) >= FACTS_MAX:
            continue
        text = _readable_value(term, known)
        if text and shorten_iri(name) not in shown:
            shown[shorten_iri(name)] = text
    return DeclaredEntity(shorten_iri(entity.classes[0]), entity_name(entity), tuple(shown.items()))


def _readable_value(term: str, known: dict[str, PageEntity]) -> str:
    """A value as a person reads it. For an entity: its name, or its price with the unit."""
    part = known.get(term)
    if part is None:
        return _text(term, FACT_LENGTH_MAX)
    text, unit = (
        _text(part.first(*LABEL_PROPERTIES), FACT_LENGTH_MAX),
        _text(part.first(*UNIT_PROPERTIES), FACT_LENGTH_MAX),
    )
    if not text and (deeper := next((known[one] for _, one in part.properties if one in known), None)):
        text = _text(deeper.first(*LABEL_PROPERTIES), FACT_LENGTH_MAX)
    return f"{text} {unit}".strip() if text else ""


def _text(term: str, length_max: int) -> str:
    value = literal_value(term)
    if value is not None:
        text = value.text
    else:  # `https://schema.org/InStock` gives `InStock`; an IRI of another vocabulary stays whole
        text = iri_of(term)
        text = text[len(next(filter(text.startswith, PREFIXES.values()), "")) :]
    return " ".join(text[: 4 * length_max].split())[:length_max].rstrip()


def _open_graph_summary(entities: Iterable[PageEntity]) -> tuple[DeclaredEntity, ...]:
    """The summary of a page that has only Open Graph data."""
    for entity in entities:
        if shared := _og_type(entity):
            return (DeclaredEntity(f"og:{shared}", entity_name(entity)),)
    return ()


def _og_type(entity: PageEntity) -> str:
    """The og:type of a page; empty if it is no usable kind or tells nothing."""
    value = literal_value(entity.first(_OG_TYPE))
    text = value.text.strip() if value is not None else ""
    return text if len(text) <= FACT_LENGTH_MAX and _is_name(text) and text not in ("website", "article") else ""
