"""Extracts RDF statements from microdata (itemscope, itemprop).

Follows the W3C's "Microdata to RDF" (2014), with values of elements as in HTML and, for `content` on any element, as in
the W3C's Microdata. Only elements with `itemprop` and `itemscope`, those that an `itemref` names and their ancestors
are visited, each once.
Promises: no recursion, and bounds on items, references and nesting in any combination. The statements are those of the
top-level items (an item that is a property of another item is reached through it), each item once.
Knows nothing of JSON-LD and RDFa.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from turbohtml import Document, Element

from tarrafa.parse.rdf.nquads import IRI_LENGTH_MAX, RDF, RDF_TYPE, XSD, StatementSet, iri, literal
from tarrafa.parse.structured.iri_resolution import BaseIri

ELEMENTS_MAX = 50_000  # with itemprop or itemscope
STEPS_MAX = 200_000  # elements visited in all items, including repeated visits through itemref
NAMES_MAX = 64  # in one itemprop or itemtype
REFERENCES_MAX = 4_096  # in one itemref
TEXTS_NESTED_MAX = 16  # nested texts; deeper elements have no value

# A vocabulary's prefix, and its properties that also imply another one: additionalType is a type.
Registry = Mapping[str, Mapping[str, str]]
_SCHEMA_PROPERTIES = {"additionalType": f"{RDF}type"}
REGISTRY: Registry = {
    f"{scheme}://{host}/": _SCHEMA_PROPERTIES
    for scheme in ("http", "https")
    for host in ("schema.org", "www.schema.org")
}

_ITEMS = "[itemscope]"
_PROPERTIES = "[itemprop],[itemprop-reverse],[itemscope]"
_URL_ATTRIBUTE = {
    "a": "href", "area": "href", "link": "href", "audio": "src", "embed": "src", "iframe": "src", "img": "src",
    "source": "src", "track": "src", "video": "src", "object": "data",
}  # fmt: skip
_VALUE_ATTRIBUTE = {"data": "value", "meter": "value", "time": "datetime"}

_line_breaks = re.compile(r"[\t\r\n]")
_absolute = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:").match
_integer = re.compile(r"[+-]?[0-9]{1,64}").fullmatch
_double = re.compile(r"[+-]?(?:[0-9]{1,64}(?:\.[0-9]{0,64})?|\.[0-9]{1,64})(?:[eE][+-]?[0-9]{1,8})?").fullmatch
_DATE = r"-?[0-9]{4,9}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?P<seconds>:[0-5][0-9](?:\.[0-9]{1,9})?)?(?P<zone>Z|[+-][0-9]{2}:?[0-9]{2})?"
_moments = [
    (re.compile(pattern).fullmatch, f"{XSD}{kind}")
    for kind, pattern in {
        "dateTime": rf"{_DATE}[T ]{_TIME}",
        "date": _DATE,
        "time": _TIME,
        "gYearMonth": r"-?[0-9]{4,9}-(?:0[1-9]|1[0-2])",
        "gYear": r"-?[0-9]{4,9}",
        "gMonthDay": r"--(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])",
        "duration": r"-?P(?=[0-9T])(?:[0-9]{1,9}Y)?(?:[0-9]{1,9}M)?(?:[0-9]{1,9}D)?"
        r"(?:T(?=[0-9])(?:[0-9]{1,9}H)?(?:[0-9]{1,9}M)?(?:[0-9]{1,9}(?:\.[0-9]{1,9})?S)?)?",
    }.items()
]


_PropertyNames = tuple[list[str], list[str]]  # the properties of an element, forward and reverse


class _ElementContext(NamedTuple):
    """The ancestors that matter for an element, itself included."""

    holder: Element | None  # the nearest item, or the nearest element that an itemref names
    language: str
    texts: int  # nested elements whose text is a value


class _MicrodataItem(NamedTuple):
    """An item whose statements are still to be added, and the vocabulary of its properties unless it has its own."""

    element: Element
    subject: str
    vocabulary: str


def extract(document: Document, base: str, statements: StatementSet, registry: Registry = REGISTRY) -> None:
    """Add the statements of the page's items."""
    items = document.select(_ITEMS)
    if items:
        _MicrodataReader(document, items, base, statements, registry).read()


class _MicrodataReader:
    """Reads the items of one page."""

    def __init__(
        self, document: Document, items: list[Element], base: str, statements: StatementSet, registry: Registry
    ) -> None:
        self._base = BaseIri(base if len(base) <= IRI_LENGTH_MAX else "")
        self._statements = statements
        self._registry = registry
        self._items = frozenset(items)
        self._elements = document.select(_PROPERTIES)[:ELEMENTS_MAX]
        self._named = self._find_named(document)
        self._holders = frozenset(self._named.values())
        self._places: dict[Element, _ElementContext] = {}
        self._held: dict[Element, list[Element]] = {}
        self._subjects: dict[Element, str] = {}
        self._values: dict[Element, str | None] = {}
        self._names: dict[Element, _PropertyNames] = {}  # cached: attributes may be long, and many itemrefs read them
        self._predicates: dict[tuple[str, str], str | None] = {}
        self._waiting: deque[_MicrodataItem] = deque()
        self._steps = STEPS_MAX

    def read(self) -> None:
        """Read the top-level items first, in document order; nested items follow as they are found."""
        self._assign_to_holders()
        for element in self._elements:
            if element in self._items and element.attr("itemprop") is None:
                self._subject(element, "")
                while self._waiting:
                    self._state_item(self._waiting.popleft())
                    if self._steps < 0 or self._statements.is_cut:
                        return

    def _find_named(self, document: Document) -> dict[str, Element]:
        """The elements that itemrefs name, the first of each id."""
        wanted = {name for element in self._elements for name in _words(element.attr("itemref"), REFERENCES_MAX)}
        found: dict[str, Element] = {}
        if wanted:
            for element in document.select("[id]"):
                name = element.attr("id") or ""
                if name in wanted:
                    found.setdefault(name, element)
        return found

    def _assign_to_holders(self) -> None:
        """Record with each item, and with each element that an itemref names, the nearest properties below it."""
        for element in dict.fromkeys((*self._elements, *self._named.values())):
            parent = element.parent
            above = self._context_of(parent) if isinstance(parent, Element) else None
            if above and above.holder is not None:
                self._held.setdefault(above.holder, []).append(element)

    def _context_of(self, element: Element) -> _ElementContext:
        """The context of an element, computed from its ancestors. An ancestor that was visited is not visited again."""
        places = self._places
        path: list[Element] = []
        at: object = element
        while isinstance(at, Element) and at not in places:
            path.append(at)
            at = at.parent
        place = places[at] if isinstance(at, Element) else _ElementContext(None, "", 0)
        for node in reversed(path):
            language = node.attr("lang")
            item = node in self._items
            text = not item and node.attr("itemprop") is not None
            place = _ElementContext(
                node if item or node in self._holders else place.holder,
                place.language if language is None else language,
                place.texts + text,
            )
            places[node] = place
        return place

    def _subject(self, element: Element, vocabulary: str) -> str:
        """The term for an item. An item that is new is queued."""
        known = self._subjects.get(element)
        if known is None:
            named = element.attr("itemid")
            known = iri(self._resolved(named)) if named else None
            known = known or self._statements.blank_node(("microdata", len(self._subjects)))
            self._subjects[element] = known
            self._waiting.append(_MicrodataItem(element, known, vocabulary))
        return known

    def _state_item(self, item: _MicrodataItem) -> None:
        add = self._statements.add
        types = [name for name in _words(item.element.attr("itemtype"), NAMES_MAX) if _absolute(name)]
        for name in types:
            if written := iri(name):
                add(item.subject, RDF_TYPE, written)
        vocabulary = self._vocabulary(types[0]) if types else item.vocabulary
        for element in self._properties(item.element):
            value = self._value(element, vocabulary)
            if value is not None:
                self._state_property(item.subject, element, value, vocabulary)

    def _state_property(self, subject: str, element: Element, value: str, vocabulary: str) -> None:
        add = self._statements.add
        names, reverse = self._names[element]
        self._steps -= len(names) + len(reverse)
        more = self._registry.get(vocabulary, {})
        is_text = value.startswith('"')
        for name in names:
            if predicate := self._predicate(name, vocabulary):
                add(subject, predicate, value)
                if name in more and not is_text:
                    add(subject, f"<{more[name]}>", value)
        for name in () if is_text else reverse:
            if predicate := self._predicate(name, vocabulary):
                add(value, predicate, subject)

    def _properties(self, item: Element) -> Iterator[Element]:
        """The elements that are properties of an item: below it and below the elements that its itemref names."""
        pending = [self._named[name] for name in _words(item.attr("itemref"), REFERENCES_MAX) if name in self._named]
        pending.reverse()
        pending += reversed(self._held.get(item, []))
        met = {item}
        while pending and self._steps >= 0:
            element = pending.pop()
            self._steps -= 1
            if element in met:
                continue
            met.add(element)
            if element not in self._items and element in self._held:
                pending += reversed(self._held[element])
            names = self._names.get(element)
            if names is None:
                reverse = element.attr("itemprop-reverse")
                names = _words(element.attr("itemprop"), NAMES_MAX), _words(reverse, NAMES_MAX)
                self._names[element] = names
            if names[0] or names[1]:
                yield element

    def _vocabulary(self, item_type: str) -> str:
        for prefix in self._registry:
            if item_type.startswith(prefix):
                return prefix
        if "#" in item_type:
            return item_type[: item_type.index("#") + 1]
        path = item_type.rfind("/", item_type.find("//") + 2)
        return item_type[: path + 1] if path >= 0 else f"{item_type}#"

    def _predicate(self, name: str, vocabulary: str) -> str | None:
        key = vocabulary, name
        if key not in self._predicates:
            self._predicates[key] = self._written_predicate(name, vocabulary)
        return self._predicates[key]

    def _written_predicate(self, name: str, vocabulary: str) -> str | None:
        if _absolute(name):
            return iri(name)
        if vocabulary:
            return iri(f"{vocabulary}{name}")
        return iri(f"{self._base.whole}#{name.replace('#', '%23')}")

    def _value(self, element: Element, vocabulary: str) -> str | None:
        if element in self._items:
            return self._subject(element, vocabulary)
        if element not in self._values:
            self._values[element] = self._read_value(element)
        return self._values[element]

    def _read_value(self, element: Element) -> str | None:
        tag = element.tag
        attribute = _URL_ATTRIBUTE.get(tag)
        if attribute and (address := element.attr(attribute)) is not None:
            return iri(self._resolved(address))
        place = self._context_of(element)
        text = element.attr(_VALUE_ATTRIBUTE[tag]) if tag in _VALUE_ATTRIBUTE else None
        if text is None:
            text = element.attr("content")
        if text is None:
            if tag == "meta" or attribute or place.texts > TEXTS_NESTED_MAX:
                return None
            text = element.text
        typed = None
        if tag in _VALUE_ATTRIBUTE:
            typed = _typed_time(text.strip()) if tag == "time" else _typed_number(text.strip())
        return literal(typed[0], datatype=typed[1]) if typed else literal(text, place.language)

    def _resolved(self, reference: str) -> str:
        return self._base.resolve(_line_breaks.sub("", reference.strip()))


def _words(attribute: str | None, most: int) -> list[str]:
    if not attribute:
        return []
    words = attribute.split(None, most)
    if len(words) > 1:
        words = list(dict.fromkeys(words[:most]))
    return words if len(attribute) <= IRI_LENGTH_MAX else [word for word in words if len(word) <= IRI_LENGTH_MAX]


def _typed_number(text: str) -> tuple[str, str] | None:
    kind = "integer" if _integer(text) else "double" if _double(text) else ""
    return (text, f"{XSD}{kind}") if kind else None


def _typed_time(text: str) -> tuple[str, str] | None:
    """A date or time with the datatype of its form, spelt as XML Schema requires, which is stricter than HTML."""
    for matches, kind in _moments:
        if found := matches(text):
            parts = found.groupdict()
            zone = parts.get("zone") or ""
            clock = text.removesuffix(zone).replace(" ", "T") + (
                ":00" if "seconds" in parts and not parts["seconds"] else ""
            )
            return f"{clock}{zone if ':' in zone or len(zone) < 5 else f'{zone[:3]}:{zone[3:]}'}", kind
    return None
