"""How entities are displayed: names of classes and properties, bounded summaries of values, safe IRIs.

Promises: a summary has a few properties with a few values each, in the order of the page, and the number of the others;
texts have bounded length; an IRI is short where it has a short name, and no character of it is invisible or turns the
direction of others. Knows nothing of HTML.
"""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tarrafa.i18n import Translator
from tarrafa.i18n import message as _
from tarrafa.parse.rdf.nquads import RDF
from tarrafa.parse.rdf.prefixes import shorten_iri, vocabulary_of
from tarrafa.triples.entity_reader import EntityValue

IRI_CHARS_SHOWN = 100
INVISIBLE = frozenset({"Cf", "Cc", "Zs", "Zl", "Zp", "Cn", "Co"})
TRANSLATED_TERMS = (  # the most frequent ones; others are shown in English
    _("Event"), _("Person"), _("Product"), _("Organization"), _("Offer"), _("Recipe"), _("Article"), _("News article"),
    _("Blog posting"), _("Book"), _("Movie"), _("Place"), _("Local business"), _("Job posting"), _("Review"),
    _("Video object"), _("Music recording"), _("Course"), _("start date"), _("end date"), _("location"), _("offers"),
    _("price"), _("price currency"), _("availability"), _("aggregate rating"), _("rating value"), _("author"),
    _("creator"), _("performer"), _("by artist"), _("director"), _("organizer"), _("publisher"), _("brand"),
    _("job title"), _("works for"), _("affiliation"), _("birth date"), _("death date"), _("address"), _("telephone"),
    _("total time"), _("cook time"), _("prep time"), _("recipe yield"), _("date published"), _("duration"), _("sku"),
    _("opening hours"), _("number of pages"), _("date"), _("issued"), _("name"), _("description"), _("image"),
    _("nationality"), _("founding date"), _("founder"), _("upload date"), _("title"), _("label"), _("headline"),
)  # fmt: skip
_terms = {term.text: term for term in TRANSLATED_TERMS}
_words_of_a_name = re.compile(r"[A-Z]*[^A-Z\s_.]+|[A-Z]+").findall


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
    summaries = [
        PropertyValues(name, list(values)[:values_max], max(0, len(values) - values_max))
        for name, values in found.items()
    ]
    return PropertySummary(summaries[:properties_max], max(0, len(summaries) - properties_max))


def truncate(text: str, chars_max: int) -> str:
    """The text on one line of at most so many characters."""
    line = " ".join(text[: 4 * chars_max].split())
    return line if len(line) <= chars_max else line[: chars_max - 1].rstrip() + "…"


def display_iri(iri: str) -> str:
    """The IRI, in short if it can be; characters that are invisible or turn the direction are escaped."""
    seen = "".join(quote(sign) if unicodedata.category(sign) in INVISIBLE else sign for sign in shorten_iri(iri))
    return truncate(seen, IRI_CHARS_SHOWN)


def term_name(iri: str, translator: Translator) -> str:
    """The name of a class or property: `start date` for `schema:startDate`."""
    own = iri[len(vocabulary_of(iri)) :].rpartition(":")[2]
    first, *others = _words_of_a_name(own) or [iri]
    english = " ".join([first, *map(str.lower, others)])
    return translator.render(_terms.get(english, english))
