"""Extracts the statements of plain JSON-LD blocks without the JSON-LD parser: the fast path.

Nearly all blocks of the Web name one well-known context and use terms, types, absolute IRIs, texts and numbers. One
pass extracts them in less than half the time.
Promises: exactly the statements that the parser gives (a property test in tests/parse/structured/test_jsonld.py checks
it), or None at the first feature that is not plain, without side effects.
Knows nothing of pages and scripts.
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import count
from typing import Any

from tarrafa.parse.rdf.nquads import IRI_LENGTH_MAX, RDF_TYPE, XSD, iri, literal
from tarrafa.parse.structured.jsonld import known_contexts

PlainTerm = str | int  # in N-Quads notation; a number stands for a blank node
PlainTriples = list[tuple[PlainTerm, str, PlainTerm]]

NESTING_MAX = 64  # levels
ITEMS_MAX = 20_000

_INTEGER_MAX = 2**53  # beyond this, a float loses digits of the written number
_PLAIN_DEFINITION_KEYS = {"@id", "@type"}  # the keys of a definition without containers
_ADDRESS = ("http://", "https://")
_origin = re.compile(r"https?://[^/?#]+").match


class _NotPlain(Exception):
    """The block is not plain: the parser reads it."""


def extract_plain_block(block: dict[str, Any] | list[Any], base: str | None) -> PlainTriples | None:
    """The statements of a plain block; None if the block is not plain."""
    triples: PlainTriples = []
    blanks = count()
    try:
        if isinstance(block, dict):
            _PlainBlock(block, base, triples, blanks).extract(_roots(block))
        else:
            for part in block:  # here a @graph is a named graph: not plain
                _PlainBlock(part, base, triples, blanks).extract([part])
    except _NotPlain:
        return None
    return triples


def _roots(block: dict[str, Any]) -> list[dict[str, Any]]:
    """The block itself, or the nodes of the @graph that makes up all of it."""
    if "@graph" not in block:
        return [block]
    graph = block["@graph"]
    roots = graph if isinstance(graph, list) else [graph]
    if block.keys() != {"@context", "@graph"} or not all(type(node) is dict for node in roots):
        raise _NotPlain
    return roots


class _PlainBlock:
    """One object with the context that applies to all of it."""

    def __init__(self, part: object, base: str | None, triples: PlainTriples, blanks: Iterator[int]) -> None:
        address = part.get("@context") if isinstance(part, dict) else None
        context = known_contexts.known_context(address) if isinstance(address, str) else None
        if context is None:
            raise _NotPlain
        self._address = address
        self._vocabulary, self._terms = context
        self._base = base
        self._triples = triples
        self._written: dict[str, str | None] = {}
        self._blanks = blanks

    def extract(self, roots: list[dict[str, Any]]) -> None:
        pending: list[tuple[dict[str, Any], PlainTerm, int]] = [(node, self._subject(node), 1) for node in roots]
        items = 0
        while pending:
            node, subject, depth = pending.pop()
            items += len(node)
            if depth > NESTING_MAX or items > ITEMS_MAX:
                raise _NotPlain
            for key, value in node.items():
                if key[:1] == "@":
                    self._keyword(subject, key, value)
                elif value is not None:
                    self._property(subject, key, value, pending, depth + 1)

    def _subject(self, node: dict[str, Any]) -> PlainTerm:
        if not node or (len(node) == 1 and "@context" in node):
            raise _NotPlain
        if "@id" in node:
            named = self._address_of(node["@id"])
            if named is None:
                raise _NotPlain
            return named
        return next(self._blanks)

    def _keyword(self, subject: PlainTerm, key: str, value: object) -> None:
        if key == "@type":
            for kind in value if isinstance(value, list) else (value,):
                if not isinstance(kind, str) or not kind or kind[0] == "@" or isinstance(self._terms.get(kind), str):
                    raise _NotPlain
                name = kind if kind.startswith(_ADDRESS) else self._vocabulary + kind
                if ":" in kind and name is not kind:
                    raise _NotPlain
                if written := self._iri(name):
                    self._triples.append((subject, RDF_TYPE, written))
        elif (key != "@context" or value != self._address) and key != "@id":
            raise _NotPlain

    def _property(self, subject: PlainTerm, key: str, value: object, pending: list[Any], depth: int) -> None:
        definition = self._terms.get(key) or {"@id": self._vocabulary + key, "@type": ""}
        if isinstance(definition, str) or definition.keys() != _PLAIN_DEFINITION_KEYS:
            raise _NotPlain
        if not 0 < len(key) <= IRI_LENGTH_MAX or ":" in key or (isinstance(value, list) and len(value) > ITEMS_MAX):
            raise _NotPlain
        kind = definition["@type"]
        predicate = self._iri(definition["@id"])
        for one in value if isinstance(value, list) else (value,):
            if isinstance(one, dict):
                term: PlainTerm | None = self._subject(one)
                pending.append((one, term, depth))
            else:
                term = self._value(one, kind)
            if term is not None and predicate:
                self._triples.append((subject, predicate, term))

    def _value(self, value: object, kind: str) -> PlainTerm | None:
        if isinstance(value, str):
            if kind == "@id":
                return self._address_of(value)
            return literal(value, datatype=kind)
        if value is None:
            return None
        if kind not in ("", "@id"):
            raise _NotPlain
        if isinstance(value, bool):
            return literal("true" if value else "false", datatype=f"{XSD}boolean")
        if isinstance(value, int | float) and abs(value) < _INTEGER_MAX:
            return _number(value)
        raise _NotPlain

    def _address_of(self, reference: object) -> str | None:
        """An address as a term; None if no spelling makes it a valid IRI."""
        if not isinstance(reference, str) or len(reference) > IRI_LENGTH_MAX:
            raise _NotPlain
        if reference.startswith(_ADDRESS):
            return self._iri(reference)
        if ":" in reference or not self._base or reference[:1] not in ("", "#", "/") or "/." in reference:
            raise _NotPlain
        if reference[:1] != "/":
            return self._iri(self._base.partition("#")[0] + reference)
        origin = _origin(self._base)
        if reference[:2] == "//" or origin is None:
            raise _NotPlain
        return self._iri(origin[0] + reference)

    def _iri(self, name: str) -> str | None:
        if name not in self._written:
            self._written[name] = iri(name)
        return self._written[name]


def _number(value: float) -> str | None:
    if value == int(value):
        return literal(str(int(value)), datatype=f"{XSD}integer")
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    first, *rest = map(str, digits)
    text = f"{'-' if sign else ''}{first}.{''.join(rest) or '0'}E{exponent + len(rest)}"
    return literal(text, datatype=f"{XSD}double")
