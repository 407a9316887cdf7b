"""Bounded summary of an entity's properties and values for display.

Promises: a few properties with a few values each, in the order of the page, and how many more there are; texts of
bounded length; an IRI in short where it has a short name, and never so that its letters run the wrong way.
Knows nothing of HTML.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tarrafa.i18n import Translator, message
from tarrafa.parse.rdf.entity import vocabulary_of
from tarrafa.parse.rdf.nquads import RDF
from tarrafa.parse.rdf.prefixes import shorten_iri
from tarrafa.triples.entity_reader import EntityValue

IRI_CHARS_SHOWN = 100
INVISIBLE = frozenset({"Cf", "Cc", "Zs", "Zl", "Zp", "Cn", "Co"})


@dataclass(frozen=True, slots=True)
class PropertyValues:
    """A property with its values; `more`: so many are not shown."""

    iri: str
    values: list[EntityValue]
    more: int


@dataclass(frozen=True, slots=True)
class PropertySummary:
    properties: list[PropertyValues]
    more: int


def summarize_properties(
    properties: Sequence[EntityValue], label: str = "", properties_max: int = 60, values_max: int = 20
) -> PropertySummary:
    """The properties below an entity's name. Repetitions of the name, and its class, are left out."""
    found: dict[str, dict[EntityValue, None]] = {}
    for shown in properties:
        if shown.property != f"{RDF}type" and not (label and shown.text == label):
            found.setdefault(shown.property, {})[shown] = None
    all_of_them = [
        PropertyValues(name, list(values)[:values_max], max(0, len(values) - values_max))
        for name, values in found.items()
    ]
    return PropertySummary(all_of_them[:properties_max], max(0, len(all_of_them) - properties_max))


def truncate(text: str, chars_max: int) -> str:
    """On one line, and no longer than that."""
    line = " ".join(text[: 4 * chars_max].split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


def display_iri(iri: str) -> str:
    """In short, or as it is; signs that are not seen, or that turn the direction of others, as escapes."""
    seen = "".join(quote(sign) if unicodedata.category(sign) in INVISIBLE else sign for sign in shorten_iri(iri))
    return truncate(seen, IRI_CHARS_SHOWN)


TRANSLATED_TERMS = (
    message("Event"), message("Person"), message("Product"), message("Organization"), message("Offer"),
    message("Recipe"), message("Article"), message("News article"), message("Blog posting"), message("Book"),
    message("Movie"), message("Place"), message("Local business"), message("Job posting"), message("Review"),
    message("Video object"), message("Music recording"), message("Course"), message("start date"),
    message("end date"), message("location"), message("offers"), message("price"), message("price currency"),
    message("availability"), message("aggregate rating"), message("rating value"), message("author"),
    message("creator"), message("performer"), message("by artist"), message("director"), message("organizer"),
    message("publisher"), message("brand"), message("job title"), message("works for"), message("affiliation"),
    message("birth date"), message("death date"), message("address"), message("telephone"), message("total time"),
    message("cook time"), message("prep time"), message("recipe yield"), message("date published"),
    message("duration"), message("sku"), message("opening hours"), message("number of pages"), message("date"),
    message("issued"), message("name"), message("description"), message("image"), message("nationality"),
    message("founding date"), message("founder"), message("upload date"), message("title"), message("label"),
    message("headline"),
)  # fmt: skip
_terms = {term.text: term for term in TRANSLATED_TERMS}
_words_of_a_name = re.compile(r"[A-Z]*[^A-Z\s_.]+|[A-Z]+").findall


def term_name(name: str, _: Translator) -> str:
    own = name[len(vocabulary_of(name)) :].rpartition(":")[2]
    first, *others = _words_of_a_name(own) or [name]
    english = " ".join([first, *map(str.lower, others)])
    return _.render(_terms.get(english, english))
