"""What do the JSON-LD blocks of a page state?

pyoxigraph turns JSON-LD into RDF; here the blocks are found and mended, well-known contexts are put in place of their
addresses, and everything is bounded before that parser sees it: it recurses (10,000 nested objects end the process),
keeps each object's content once for every level above it, and defines a scoped context anew wherever it is in force.
Promises: nothing is ever fetched, a broken block costs nothing but itself and is counted, the statements of a page
are the same each time it is read. Contexts that nobody here knows are left out: what absolute IRIs and other contexts
say stays.
Knows nothing of HTTP; the base URL is the caller's business (a `base` element counts, JSON-LD 1.1 section 7.2).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import msgspec
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, RdfFormat, Triple, parse
from pyoxigraph import Literal as RdfLiteral
from turbohtml import Document, Element

from tarrafa.parse import contexts
from tarrafa.parse.broken_json import decode
from tarrafa.parse.statements import IRI_LENGTH_MAX, Statements, iri, literal

# Of one page, all blocks together.
BLOCKS_MAX = 64
LENGTH_MAX = 1_000_000  # characters
WORK_MAX = 400_000  # keys and items, each times its depth
CONTEXTS_MAX = 1_000
TERMS_MAX = 20_000  # defined, those of well-known contexts included
SCOPED_WORK_MAX = 100_000  # terms of contexts inside contexts, times everything that they may be in force for
# Of one block.
NESTING_MAX = 64  # levels
CONTEXT_NESTING_MAX = 8
CONTEXT_TERMS_MAX = 1_000  # that the page defines itself: each may build on the one before
CONTEXT_LENGTH_MAX = 65_536  # characters of their IRIs, all together

Scripts = Literal["each", "first", "together"]

_SCRIPTS = 'script[type*="ld+json" i]'
_MEDIA_TYPE = "application/ld+json"
_NO_DATA = ("http://www.w3.org/ns/json-ld#context", "http://www.w3.org/ns/json-ld#frame")
_ALIASES = {"id": "@id", "type": "@type"}  # of the well-known contexts
_VALUE_KEYS = frozenset({"@value", "@type", "@language", "@direction", "@index"})
_words = re.compile(r'"([^"\\:\s]{1,64})(?=[":])').findall  # what may be a term or a prefix
_schema_without_slash = re.compile(r"https?://(?:www\.)?schema\.org", re.IGNORECASE).fullmatch


class _Unreadable(ValueError):
    """This block is not read, or not to its end."""


def read(document: Document, base: str, statements: Statements, *, scripts: Scripts = "each", target: str = "") -> int:
    """Add what the blocks state; how many could not be read.

    `scripts`: each of them as a document of its own; only the first; or all as one document (the `extractAllScripts`
    of the JSON-LD API, in which a `@graph` becomes a graph with a name). `target`: the id of the only one wanted; where
    there is no such script, that is one that could not be read.
    """
    found = document.select(_SCRIPTS)
    if target:
        found = [script for script in found if script.attr("id") == target]
        if not found:
            return 1
    elif not found:
        return 0
    wanted = [script for script in found if _holds_data(script)]
    texts = [text for script in (wanted[:1] if scripts == "first" else wanted) if (text := script.text.strip())]
    unread = max(0, len(texts) - BLOCKS_MAX) + (1 if target and not wanted else 0)
    reader = _Reader(base, statements)
    blocks = reader.decoded(texts[:BLOCKS_MAX])
    if scripts == "together":
        blocks = _joined(blocks)
    return unread + sum(not reader.read(number, *block) for number, block in enumerate(blocks))


def _holds_data(script: Element) -> bool:
    kind, _, parameters = (script.attr("type") or "").partition(";")
    return kind.strip().lower() == _MEDIA_TYPE and not any(profile in parameters for profile in _NO_DATA)


def _joined(blocks: Iterable[tuple[str, object]]) -> Iterator[tuple[str, object]]:
    """All as one; one that is no JSON spoils them all, as the JSON-LD API has it."""
    texts: list[str] = []
    nodes: list[object] = []
    for text, block in blocks:
        if block is None:
            yield text, None
            return
        texts.append(text)
        nodes += block if isinstance(block, list) else [block]
    if texts:
        yield "\n".join(texts), nodes


class _Reader:
    """Reads the blocks of one page, within bounds that they share."""

    def __init__(self, base: str, statements: Statements) -> None:
        written = iri(base)
        self._base = written[1:-1] if written else None
        self._statements = statements
        self._length = LENGTH_MAX
        self._bounds = _Bounds()

    def decoded(self, texts: Iterable[str]) -> Iterator[tuple[str, object]]:
        """The blocks with their text, in which terms are looked for; None: no JSON, or too much of it."""
        for text in texts:
            self._length -= len(text)
            if self._length < 0:
                yield text, None
                continue
            try:
                yield text, decode(text)
            except ValueError:
                yield text, None

    def read(self, number: int, text: str, block: object) -> bool:
        """Add what a block states; was it read?"""
        if not isinstance(block, dict | list):
            return False
        before = len(self._statements)
        try:
            prepared = _Preparation(text, self._bounds)
            prepared.settle(block)
            self._convert(number, _encoded(block))
        except (_Unreadable, SyntaxError, ValueError, RecursionError):
            return False
        return len(self._statements) > before or not prepared.lacks_context or self._statements.full

    def _convert(self, number: int, block: bytes) -> None:
        statements = self._statements
        terms: dict[str, str | None] = {}

        def written(name: str) -> str | None:
            if name not in terms:
                terms[name] = iri(name)
            return terms[name]

        def term(node: NamedNode | BlankNode | RdfLiteral | Triple) -> str | None:
            if isinstance(node, NamedNode):
                return written(node.value)
            if isinstance(node, BlankNode):
                return statements.blank(("jsonld", number, node.value))
            if isinstance(node, RdfLiteral):
                return literal(node.value, node.language or "", node.datatype.value)
            return None

        # Leniently: what may not stand in an IRI is escaped when the term is written, instead of being dropped.
        for quad in parse(block, RdfFormat.JSON_LD, base_iri=self._base, lenient=True):
            subject, predicate, value = term(quad.subject), term(quad.predicate), term(quad.object)
            graph = "" if isinstance(quad.graph_name, DefaultGraph) else term(quad.graph_name)
            if subject and predicate and value and graph is not None:
                statements.add(subject, predicate, value, graph)
                if statements.full:
                    return


def _encoded(block: object) -> bytes:
    try:
        return msgspec.json.encode(block)
    except UnicodeEncodeError:  # halves of characters
        return json.dumps(block, ensure_ascii=False).encode("utf-8", "replace")


class _Bounds:
    """What the blocks of a page may still cost."""

    def __init__(self) -> None:
        self.work = WORK_MAX
        self.contexts = CONTEXTS_MAX
        self.terms = TERMS_MAX
        self.scoped_work = SCOPED_WORK_MAX

    def check(self) -> None:
        if min(self.work, self.contexts, self.terms, self.scoped_work) < 0:
            raise _Unreadable("too much")


class _Preparation:
    """Makes one block fit for the parser: contexts in place, nothing that would have it refuse the whole."""

    def __init__(self, text: str, bounds: _Bounds) -> None:
        self.lacks_context = False
        self._text = text
        self._names: frozenset[str] | None = None
        self._bounds = bounds
        self._aliased = False
        self._own_terms = CONTEXT_TERMS_MAX
        self._own_length = CONTEXT_LENGTH_MAX
        self._scoped_terms = 0

    def settle(self, block: dict[str, Any] | list[Any]) -> None:
        """Walk the block and change it in place."""
        bounds = self._bounds
        items = 0
        # With each node: the address of the one context that is in force there, if it is one and has an address.
        pending: list[tuple[Any, int, str]] = [(block, 1, "")]
        while pending:
            node, depth, inherited = pending.pop()
            items += len(node)
            bounds.work -= (len(node) + 1) * depth
            if depth > NESTING_MAX or bounds.work < 0:
                raise _Unreadable("nested too deep, or too large")
            values: Iterable[Any] = node
            if type(node) is dict:
                if "@context" in node:
                    inherited = self._settle_context(node, inherited)
                self._mend(node)
                values = (value for key, value in node.items() if key != "@context")
            pending.extend((value, depth + 1, inherited) for value in values if type(value) in (dict, list))
        bounds.scoped_work -= self._scoped_terms * items
        bounds.check()

    def _settle_context(self, node: dict[str, Any], inherited: str) -> str:
        """Put what is known in place of addresses; what is in force below."""
        context = node["@context"]
        if isinstance(context, str) and context == inherited:
            del node["@context"]
            return inherited
        node["@context"] = self._settled(context, 0, scoped=False)
        return context if isinstance(context, str) else ""

    def _settled(self, context: object, depth: int, *, scoped: bool) -> Any:
        bounds = self._bounds
        bounds.contexts -= 1
        bounds.check()
        if depth > CONTEXT_NESTING_MAX:
            raise _Unreadable("contexts nested too deep")
        if isinstance(context, str):
            return self._known(context)
        if isinstance(context, list):
            return [self._settled(part, depth + 1, scoped=scoped) for part in context]
        if isinstance(context, dict):
            return self._definitions(context, depth, scoped=scoped)
        return None if context is None else {}

    def _known(self, address: str) -> contexts.Definitions:
        context = contexts.known(address)
        if context is None:
            self.lacks_context = True
            return {}
        if self._names is None:
            self._names = frozenset(_words(self._text))
        found = context.only(self._names)
        self._aliased = self._aliased or not _ALIASES.keys().isdisjoint(found)
        self._bounds.terms -= len(found)
        return found

    def _definitions(self, context: dict[str, Any], depth: int, *, scoped: bool) -> contexts.Definitions:
        """A context that the page brings with it, without what would be an error of the whole block."""
        found: contexts.Definitions = {}
        self._bounds.terms -= len(context)
        self._own_terms -= len(context)
        if scoped:
            self._scoped_terms += len(context)
        for term, meaning in context.items():
            if term.startswith("@"):
                if (check := _KEYWORDS.get(term)) and check(meaning):
                    found[term] = f"{meaning}/" if term == "@vocab" and _lacks_slash(meaning) else meaning
            elif term and (meaning is None or isinstance(meaning, str | dict)):
                found[term] = meaning
            self._own_length -= len(term) + (len(meaning) if isinstance(meaning, str) else 0)
            if isinstance(meaning, dict):
                self._own_length -= sum(len(value) for value in meaning.values() if isinstance(value, str))
                if "@context" in meaning:
                    meaning["@context"] = self._settled(meaning["@context"], depth + 1, scoped=True)
        if self._own_terms < 0 or self._own_length < 0:
            raise _Unreadable("too many terms")
        return found

    def _mend(self, node: dict[str, Any]) -> None:
        """Drop what has the parser refuse the whole block: an identifier that is a number, a type that is an object."""
        if self._aliased:
            for alias, keyword in _ALIASES.items():
                if alias in node and (keyword in node or not _fits(keyword, node[alias])):
                    del node[alias]
        if "@id" in node and not _fits("@id", node["@id"]):
            del node["@id"]
        if "@value" in node:
            _mend_value(node)
        elif "@type" in node and not _fits("@type", node["@type"]):
            kinds = node.pop("@type")
            if isinstance(kinds, list):
                node["@type"] = [kind for kind in kinds if isinstance(kind, str)]
        if "@reverse" in node and not isinstance(node["@reverse"], dict):
            del node["@reverse"]


def _fits(keyword: str, value: object) -> bool:
    if isinstance(value, str):
        return True
    return keyword == "@type" and isinstance(value, list) and all(isinstance(kind, str) for kind in value)


def _mend_value(node: dict[str, Any]) -> None:
    kind = node.get("@type")
    if isinstance(node["@value"], dict | list) and kind != "@json":
        node["@value"] = None
    if kind is not None and not isinstance(kind, str):
        del node["@type"]
    language = node.get("@language")
    if language is not None and (not isinstance(language, str) or kind or not isinstance(node["@value"], str)):
        del node["@language"]
    if not node.keys() <= _VALUE_KEYS:
        for key in node.keys() - _VALUE_KEYS:
            del node[key]


def _text_or_null(value: object) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= IRI_LENGTH_MAX)


def _truth(value: object) -> bool:
    return isinstance(value, bool)


def _lacks_slash(vocabulary: object) -> bool:
    return isinstance(vocabulary, str) and _schema_without_slash(vocabulary) is not None


# The keywords of a context, and what fits them. `@import` would have something fetched.
_KEYWORDS: dict[str, Callable[[object], bool]] = {
    "@vocab": _text_or_null,
    "@base": _text_or_null,
    "@language": _text_or_null,
    "@direction": _text_or_null,
    "@propagate": _truth,
    "@protected": _truth,
    "@version": lambda value: value == 1.1,
    "@type": lambda value: isinstance(value, dict),
}
