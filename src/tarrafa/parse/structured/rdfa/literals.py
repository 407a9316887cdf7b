"""Builds the literals of RDFa properties: plain, language-tagged, typed, HTML times, XML literals.

Implements step 11 of RDFa Core 1.1 section 7.5 where it makes a literal, and the times of HTML+RDFa 1.1.
Promises: nested literals do not make an element be read again and again, and the text read from one page has a maximum.
An XML literal is well-formed apart from its namespaces, whatever the tree holds. No recursion.
Knows nothing of subjects and predicates.
"""

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from turbohtml import CData, Comment, Element, Namespace, Node, ProcessingInstruction, Text

from tarrafa.parse.rdf.nquads import LITERAL_LENGTH_MAX, RDF, STATEMENTS_LENGTH_MAX, XSD, literal
from tarrafa.parse.structured.rdfa.initial_context import HostLanguageRules

if TYPE_CHECKING:
    from tarrafa.parse.structured.rdfa.processor import LocalValues

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

_NAMESPACES = {
    Namespace.HTML: "http://www.w3.org/1999/xhtml",
    Namespace.SVG: "http://www.w3.org/2000/svg",
    Namespace.MATHML: "http://www.w3.org/1998/Math/MathML",
}
_name = re.compile(r"(?:([^\W\d][\w.\-\u00b7]*):)?[^\W\d][\w.\-\u00b7]*").fullmatch


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
        """The text of an element as a term; of `time`, its time. `nested` counts the enclosing literals."""
        if nested >= NESTED_MAX:
            return None
        text = element.text
        if self._html5 and element.tag == "time" and (kind := _time_type(text)):
            return literal(text, datatype=kind)
        return self.plain(text, language)

    def literal(self, place: "LocalValues", content: str | None, datatype: str | None) -> str | None:
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

    def _markup(self, place: "LocalValues", datatype: str | None) -> str | None:
        as_xml = datatype == XML_LITERAL
        element = place.element
        text = serialize_content(element, place.scope.declared, LITERAL_LENGTH_MAX) if as_xml else element.inner_html
        self.room -= min(len(text), LITERAL_LENGTH_MAX)
        return literal(text, datatype=(datatype or "")[1:-1])


def _time_type(text: str) -> str:
    if len(text) > TIME_LENGTH_MAX:
        return ""
    return next((name for name, fits in _TIMES if fits(text)), "")


def serialize_content(element: Element, declared: Mapping[str, str], length_max: int) -> str:
    """The content of the element as an XML literal, cut soon after `length_max` characters. `declared` are the prefixes
    in force, with that of xmlns under the empty name if the page was read as XML; they stand on each outermost element.
    Elements with names that XML does not allow are left out; their content stays.
    """
    around = {"": _NAMESPACES[Namespace.HTML], **declared}
    as_xml = "" in declared
    written: list[str] = []
    length = 0
    open_: list[tuple[Iterator[Node], str, Namespace | None]] = [(iter(element), "", None)]
    while open_ and length <= length_max:
        children, end, parent = open_[-1]
        node = next(children, None)
        if node is None:
            open_.pop()
            text = end
        elif isinstance(node, Element):
            text, end = _tags(node, parent, around, as_xml=as_xml)
            open_.append((iter(node), end, node.namespace))
        else:
            text = _leaf(node)
        written.append(text)
        length += len(text)
    return "".join(written)


def _tags(element: Element, parent: Namespace | None, around: Mapping[str, str], *, as_xml: bool) -> tuple[str, str]:
    """The start and end tag; both empty if XML allows no such name. An element without a parent is an outermost one."""
    if not _fits(element.tag, around, as_xml=as_xml):
        return "", ""
    own: dict[str, str] = {}
    for name, value in element_attributes(element).items():
        declares = name == "xmlns" or name.startswith("xmlns:")
        if as_xml or (not declares and _fits(name, around, as_xml=False)):
            own[name] = value if isinstance(value, str) else " ".join(value or ())
    if parent is None:
        for prefix in sorted(around):
            own.setdefault(f"xmlns:{prefix}" if prefix else "xmlns", around[prefix])
    if element.namespace is not (parent or Namespace.HTML) and not as_xml:
        own["xmlns"] = _NAMESPACES[element.namespace]
    written = "".join(f' {name}="{escape(value)}"' for name, value in own.items())
    return f"<{element.tag}{written}>", f"</{element.tag}>"


def element_attributes(element: Element) -> dict[str, str | list[str] | None]:
    """All attributes; none if a name holds a lone surrogate, which the tree accepts but does not return."""
    try:
        return element.attrs.copy()
    except UnicodeDecodeError:
        return {}


def _fits(name: str, around: Mapping[str, str], *, as_xml: bool) -> bool:
    found = _name(name)
    return found is not None and (as_xml or not found[1] or found[1] == "xml" or found[1] in around)


def _leaf(node: Node) -> str:
    if isinstance(node, Text | CData):
        return escape(node.data, quote=False)
    if isinstance(node, Comment):
        return "" if "--" in node.data or node.data.endswith("-") else f"<!--{node.data}-->"
    if isinstance(node, ProcessingInstruction):
        return "" if "?>" in node.data or not _name(node.target) else f"<?{node.target} {node.data}?>"
    return ""
