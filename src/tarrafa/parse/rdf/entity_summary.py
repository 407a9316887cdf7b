"""Summarizes the entities of a page for search results: kind, name, date and a few facts.

A summary is what a person wants to see of a page's data beside its title, and what a search by entity kind asks for: an
event's date and place, a product's price, a recipe's time.
Promises: a few entities, those that the page is about rather than their parts, each with its kind, its name and a few
facts. Every text is bounded. Pure.
Knows nothing of indexes or of how a summary is displayed.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import islice

from tarrafa.model import DeclaredEntity
from tarrafa.parse.rdf.entity import OPEN_GRAPH, PageEntity, vocabularies, vocabulary_of
from tarrafa.parse.rdf.nquads import iri_of, literal_value
from tarrafa.parse.rdf.prefixes import PREFIXES, expand_prefix, shorten_iri

SUMMARIES_MAX = 3
FACTS_MAX = 5
FACT_LENGTH_MAX = 120
NAME_LENGTH_MAX = 200
KINDS_MAX = 200  # kinds by which one page can be found

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


def entity_name(thing: PageEntity) -> str:
    """The name of an entity; empty if the page states none."""
    return _text(thing.first(*NAME_PROPERTIES), NAME_LENGTH_MAX)


def entity_day(thing: PageEntity) -> str:
    """The day of an entity: `2026-01-31`. A month or a year counts as its first day."""
    for name in DATE_PROPERTIES:
        for found, term in thing.properties:
            said = literal_value(term) if found == name else None
            if said is not None and (match := _date(said.text)):
                year, month, day = match.groups("01")
                return f"{year}-{month}-{day}"
    return ""


def summarize_entities(things: Sequence[PageEntity]) -> tuple[DeclaredEntity, ...]:
    """The main entities that the page declares."""
    known = {thing.subject: thing for thing in things}
    parts = {term for thing in things for _, term in thing.properties if term in known and term != thing.subject}
    classed = [thing for thing in things if thing.classes and not _is_secondary(thing)]
    chosen = [thing for thing in classed if thing.subject not in parts] or classed
    return tuple(_summarize(thing, known) for thing in chosen[:SUMMARIES_MAX]) or _open_graph_summary(things)


def searchable_kinds(things: Sequence[PageEntity]) -> list[str]:
    """The kinds by which a search may find the page, in lower case: each vocabulary, each class by its IRI and by its
    bare name (`:event`), and both with the day of such an entity (`:event@2026-01-31`). The Open Graph type of the page
    counts as a class.
    """
    found: dict[str, None] = {}
    for thing in things:
        day = entity_day(thing)
        shared = _og_type(thing)
        for name in (*thing.classes, f"{OPEN_GRAPH}/ns#{shared}") if shared else thing.classes:
            for kind in (name, f":{name[len(vocabulary_of(name)) :]}"):
                found[kind.lower()] = None
                if day:
                    found[f"{kind.lower()}@{day}"] = None
        if len(found) > KINDS_MAX:
            break
    return [*islice(found, KINDS_MAX), *(vocabulary.lower() for vocabulary in vocabularies(things))]


def _is_secondary(thing: PageEntity) -> bool:
    return all(name in _PAGE_FURNITURE_CLASSES for name in thing.classes)


def _summarize(thing: PageEntity, known: dict[str, PageEntity]) -> DeclaredEntity:
    facts = sorted(thing.properties, key=lambda pair: _RANK.get(pair[0], len(_RANK)))
    told: dict[str, str] = {}
    for name, term in facts:
        if name in NAME_PROPERTIES or name not in _RANK or len(told) >= FACTS_MAX:
            continue
        text = _readable_value(term, known)
        if text and shorten_iri(name) not in told:
            told[shorten_iri(name)] = text
    return DeclaredEntity(shorten_iri(thing.classes[0]), entity_name(thing), tuple(told.items()))


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
    said = literal_value(term)
    text = said.text if said is not None else _last_part(iri_of(term))
    return " ".join(text[: 4 * length_max].split())[:length_max].rstrip()


def _last_part(iri: str) -> str:
    """`https://schema.org/InStock` gives `InStock`; any other IRI stays whole."""
    vocabulary = next((one for one in PREFIXES.values() if iri.startswith(one)), "")
    return iri[len(vocabulary) :]


def _open_graph_summary(things: Iterable[PageEntity]) -> tuple[DeclaredEntity, ...]:
    """The summary of a page that has only Open Graph data."""
    for thing in things:
        if shared := _og_type(thing):
            return (DeclaredEntity(f"og:{shared}", entity_name(thing)),)
    return ()


def _og_type(thing: PageEntity) -> str:
    """The og:type of a page; empty if it is no usable kind or tells nothing."""
    said = literal_value(thing.first(_OG_TYPE))
    text = said.text.strip() if said is not None else ""
    return text if len(text) <= FACT_LENGTH_MAX and _is_name(text) and text not in ("website", "article") else ""
