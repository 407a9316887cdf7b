"""Names of classes and properties of structured data, as people read them.

The English name is the IRI's own name with its words apart: `schema:startDate` is `start date`. The most frequent
ones are translated.
"""

import re

from tarrafa.i18n import Translator, message
from tarrafa.parse.rdf.prefixes import vocabulary_of

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
