"""Facets of entity search: vocabularies, classes and properties with counts, active filters, conditions.

Promises: only names on crawled pages are offered, with counts, those on most pages first, a few at a time; every choice
is a plain link that keeps all the others, and each choice can be removed by itself. The facet that is probably next is
open. Knows nothing of HTML.
"""

from dataclasses import dataclass

from tarrafa.i18n import Translator, message
from tarrafa.parse.rdf.prefixes import shorten_iri, vocabulary_of
from tarrafa.server.entities.display import term_name
from tarrafa.server.entities.params import OPERATORS, EntityParams
from tarrafa.triples.entity_query import EntityCondition
from tarrafa.triples.entity_reader import CONDITIONS_MAX, EntityReader, TermCount, TermCounts

FACET_VALUES_SHOWN = 10  # of a facet, beside the results
FACET_VALUES_PER_PAGE = 100  # on a page of its own
COLLECTIONS_MAX = 50
FACET_TITLES = {
    "vocabularies": message("Vocabulary"),
    "classes": message("Class"),
    "properties": message("Property"),
}
FACET_KINDS = tuple(FACET_TITLES)
COMPARISON_NAMES = {
    "words": message("has the words"),
    "=": message("is"),
    "<": message("is less than, before"),
    "<=": message("is at most, until"),
    ">": message("is more than, after"),
    ">=": message("is at least, from"),
}


@dataclass(frozen=True, slots=True)
class FacetValue:
    """A name that can be chosen. `source` tells equal names apart; `this` is the link to choose it, `other` the one to
    exclude it."""

    label: str
    source: str
    iri: str
    counted: TermCount
    this: str
    other: str = ""
    chosen: bool = False


@dataclass(frozen=True, slots=True)
class Facet:
    """`whole` is the link to the whole list, if this is only its beginning."""

    kind: str
    title: str
    offers: list[FacetValue]
    total: int
    whole: str
    is_open: bool


@dataclass(frozen=True, slots=True)
class ActiveFilter:
    """A choice, and the link that removes it."""

    kind: str
    label: str
    title: str
    without: str


@dataclass(frozen=True, slots=True)
class ConditionRow:
    """A condition in the form."""

    label: str
    iri: str
    short: str
    condition: EntityCondition
    without: str


def facet_names(
    reader: EntityReader, kind: str, wanted: EntityParams, n: int, offset: int = 0, holding: str = ""
) -> TermCounts:
    """Vocabularies, classes of the chosen vocabulary, or properties of the chosen class."""
    if kind == "vocabularies":
        return reader.vocabularies(offset, n, holding)
    if kind == "classes":
        return reader.classes(wanted.vocabulary, offset, n, holding)
    whose = "" if wanted.of_class else wanted.vocabulary  # a class has properties of several vocabularies
    return reader.properties(wanted.of_class, whose, offset, n, holding)


def vocabulary_name(iri: str) -> str:
    """`schema` for https://schema.org/; without a known prefix, its address."""
    short = shorten_iri(iri)
    return short.removesuffix(":") if short != iri else iri.partition("://")[2].rstrip("/#") or iri


def facets(reader: EntityReader, wanted: EntityParams, _: Translator) -> list[Facet]:
    opened = {
        "vocabularies": not (wanted.vocabulary or wanted.of_class or wanted.not_class),
        "classes": not (wanted.of_class or wanted.not_class),
        "properties": bool(wanted.of_class or wanted.vocabulary) and not wanted.where,
    }
    found = []
    for kind in FACET_KINDS:
        counts = facet_names(reader, kind, wanted, FACET_VALUES_SHOWN)
        whole = wanted.address(more=[("list", kind)]) if counts.total > len(counts.names) else ""
        values = facet_values(kind, counts.names, wanted, _)
        found.append(Facet(kind, _.render(FACET_TITLES[kind]), values, counts.total, whole, opened[kind]))
    return found


def facet_values(kind: str, names: list[TermCount], wanted: EntityParams, _: Translator) -> list[FacetValue]:
    value = {"vocabularies": _vocabulary_value, "classes": _class_value, "properties": _property_value}[kind]
    return [value(one, wanted, _) for one in names]


def _vocabulary_value(one: TermCount, wanted: EntityParams, _: Translator) -> FacetValue:
    chosen = one.iri == wanted.vocabulary
    return FacetValue(vocabulary_name(one.iri), "", one.iri, one, wanted.address(vocabulary=one.iri), chosen=chosen)


def _class_value(one: TermCount, wanted: EntityParams, _: Translator) -> FacetValue:
    this = wanted.address(of_class=one.iri, not_class="" if one.iri == wanted.not_class else wanted.not_class)
    other = wanted.address(not_class=one.iri, of_class="" if one.iri == wanted.of_class else wanted.of_class)
    return FacetValue(term_name(one.iri, _), _source(one.iri), one.iri, one, this, other, one.iri == wanted.of_class)


def _property_value(one: TermCount, wanted: EntityParams, _: Translator) -> FacetValue:
    """Its link adds a condition that the property exists; words can then be typed into its field."""
    chosen = any(each.property == one.iri for each in wanted.where)
    room = len(wanted.where) + bool(wanted.q) < CONDITIONS_MAX
    this = wanted.address(where=(*wanted.where, EntityCondition(one.iri))) if room else wanted.address()
    return FacetValue(term_name(one.iri, _), _source(one.iri), one.iri, one, this, chosen=chosen)


def _source(iri: str) -> str:
    """The short name, which parameters accept; else the vocabulary's address."""
    short = shorten_iri(iri)
    return short if short != iri else vocabulary_name(vocabulary_of(iri))


def collection_choices(known: list[str], wanted: EntityParams) -> list[tuple[str, str, bool]]:
    """Name, link and whether it is chosen; empty if there is only one collection."""
    if len(known) < 2:
        return []
    return [(name, wanted.address(collection=name), name == wanted.collection) for name in known[:COLLECTIONS_MAX]]


def active_filters(wanted: EntityParams, _: Translator) -> list[ActiveFilter]:
    """All choices except the conditions, which can be edited."""
    found = []
    if wanted.q:
        found.append(ActiveFilter("words", f"“{wanted.q}”", "", wanted.address(q="")))
    if iri := wanted.vocabulary:
        found.append(ActiveFilter("vocabulary", vocabulary_name(iri), iri, wanted.address(vocabulary="")))
    if iri := wanted.of_class:
        found.append(ActiveFilter("class", term_name(iri, _), iri, wanted.address(of_class="")))
    if iri := wanted.not_class:
        label = _("not {name}", name=term_name(iri, _))
        found.append(ActiveFilter("not", label, iri, wanted.address(not_class="")))
    if wanted.collection:
        found.append(ActiveFilter("collection", wanted.collection, _("Collection"), wanted.address(collection="")))
    return found


def condition_rows(wanted: EntityParams, _: Translator) -> list[ConditionRow]:
    return [
        ConditionRow(
            term_name(one.property, _) if one.property else _("any property"),
            one.property,
            shorten_iri(one.property),
            one,
            wanted.address(where=wanted.without(place)),
        )
        for place, one in enumerate(wanted.where)
    ]


def comparison_choices(_: Translator) -> list[tuple[str, str]]:
    """The choices of the field between property and value."""
    return [(operator, _.render(COMPARISON_NAMES[operator])) for operator in OPERATORS]
