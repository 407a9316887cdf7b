"""Builds the literals of RDFa properties: plain, language-tagged, typed, HTML times, XML literals.

Implements step 11 of RDFa Core 1.1 section 7.5 where it makes a literal (plain, with a language, with a datatype, XML)
and the times of HTML+RDFa 1.1.
Promises: nested literals do not make an element be read again and again, and the text read from one page has a maximum.
Knows nothing of subjects and predicates.
"""

import re
from collections.abc import Mapping

from turbohtml import Element

from tarrafa.parse.rdf.nquads import LITERAL_LENGTH_MAX, RDF, STATEMENTS_LENGTH_MAX, XSD, literal
from tarrafa.parse.structured.rdfa.evaluation_context import LocalValues
from tarrafa.parse.structured.rdfa.initial_context import HostLanguageRules
from tarrafa.parse.structured.rdfa.xml_literal import serialize_content

NESTED_MAX = 16  # nested elements whose text is a literal; deeper ones are read by their @content only

XML_LITERAL = f"<{RDF}XMLLiteral>"
HTML_LITERAL = f"<{RDF}HTML>"

_date, _zone = r"-?\d{4,}-\d\d-\d\d", r"(?:Z|[+-]\d\d:\d\d)?"
_clock = r"\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
_duration = r"-?P(?=[\dT])(?:\d+Y)?(?:\d+M)?(?:\d+D)?(?:T(?=\d)(?:\d+H)?(?:\d+M)?(?:\d+(?:\.\d+)?S)?)?"
# HTML+RDFa 1.1 §3.1: the first pattern that fits.
_TIMES = tuple(
    (f"{XSD}{name}", re.compile(pattern, re.ASCII).fullmatch)
    for name, pattern in (
        ("duration", _duration),
        ("dateTime", f"{_date}T{_clock}{_zone}"),
        ("date", f"{_date}{_zone}"),
        ("time", f"{_clock}{_zone}"),
        ("gYearMonth", rf"-?\d{{4,}}-\d\d{_zone}"),
        ("gYear", rf"-?\d{{4,}}{_zone}"),
    )
)
TIME_LENGTH_MAX = 128


class LiteralBuilder:
    """Builds the literals of one page."""

    __slots__ = ("_html5", "room")

    def __init__(self, rules: HostLanguageRules) -> None:
        self._html5 = rules.html5
        self.room = STATEMENTS_LENGTH_MAX  # characters that may still be read

    def content(self, element: Element, own: Mapping[str, str]) -> str | None:
        """The value of an attribute: @content, or in HTML @datetime, or the @value of a `data` element."""
        written = own.get("content")
        if written is None and self._html5:
            written = own.get("datetime")
            if written is None and "value" in own and element.tag == "data":
                return own["value"]
        return written

    def plain(self, text: str, language: str) -> str | None:
        """A text of the page as a term."""
        self.room -= min(len(text), LITERAL_LENGTH_MAX)
        return literal(text, language)

    def text(self, element: Element, language: str, nested: int) -> str | None:
        """The text of an element as a term; for a `time` element, its time. `nested` is the number of enclosing
        literals.
        """
        if nested >= NESTED_MAX:
            return None
        text = element.text
        if self._html5 and element.tag == "time" and (kind := _time_type(text)):
            return literal(text, datatype=kind)
        return self.plain(text, language)

    def literal(self, place: LocalValues, content: str | None, datatype: str | None) -> str | None:
        """The value as a term, from an attribute or from the element. `datatype` is an IRI as a term."""
        if content is None:
            if place.outer.literals >= NESTED_MAX:
                return None
            if datatype in (XML_LITERAL, HTML_LITERAL):
                return self._markup(place, datatype)
            content = place.element.text
        if datatype is None and self._is_time(place.element, place.own):
            kind = _time_type(content)
        else:
            kind = datatype[1:-1] if datatype and datatype[0] == "<" else ""
        if not kind:
            return self.plain(content, place.language)
        self.room -= min(len(content), LITERAL_LENGTH_MAX)
        return literal(content, datatype=kind)

    def _is_time(self, element: Element, own: Mapping[str, str]) -> bool:
        if not self._html5 or "datatype" in own or "content" in own:
            return False
        return "datetime" in own or element.tag == "time"

    def _markup(self, place: LocalValues, datatype: str | None) -> str | None:
        as_xml = datatype == XML_LITERAL
        element = place.element
        text = serialize_content(element, place.scope.declared, LITERAL_LENGTH_MAX) if as_xml else element.inner_html
        self.room -= min(len(text), LITERAL_LENGTH_MAX)
        return literal(text, datatype=(datatype or "")[1:-1])


def _time_type(text: str) -> str:
    if len(text) > TIME_LENGTH_MAX:
        return ""
    return next((name for name, fits in _TIMES if fits(text)), "")
