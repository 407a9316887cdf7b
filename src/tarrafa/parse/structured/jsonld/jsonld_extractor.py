"""Extracts RDF statements from the JSON-LD scripts of a page, sanitized and bounded before pyoxigraph parses them.

pyoxigraph turns JSON-LD into RDF. This module finds and repairs the blocks, replaces the addresses of well-known
contexts by the contexts, and bounds everything before that parser sees it. The parser recurses (10,000 nested objects
end the process), keeps each object's content once for every level above it, and defines a scoped context anew wherever
it is in force.
Promises: nothing is ever fetched. A broken block costs nothing but itself and is counted. The statements of a page are
the same each time it is read. Unknown contexts are left out; statements made with absolute IRIs and other contexts
stay.
Knows nothing of HTTP. The caller passes the base URL (a `base` element counts, JSON-LD 1.1 section 7.2).
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from pyoxigraph import BlankNode, DefaultGraph, NamedNode, RdfFormat, Triple, parse
from pyoxigraph import Literal as RdfLiteral
from turbohtml import Document, Element

from tarrafa.parse.rdf.nquads import IRI_LENGTH_MAX, RDF_TYPE, StatementSet, iri, literal
from tarrafa.parse.structured.jsonld import known_contexts, plain_jsonld
from tarrafa.parse.structured.jsonld.json_repair import decode_lenient

# Of one page, all blocks together.
BLOCKS_MAX = 64
LENGTH_MAX = 1_000_000  # characters
WORK_MAX = 400_000  # keys and items, each multiplied by its depth
CONTEXTS_MAX = 4_000
TERMS_MAX = 20_000  # defined, those of well-known contexts included
SCOPED_WORK_MAX = 100_000  # terms of contexts inside contexts, times all places where they may be in force
# Of one block.
NESTING_MAX = 64  # levels
CONTEXT_NESTING_MAX = 8
CONTEXT_TERMS_MAX = 1_000  # defined by the page itself: each may build on the one before
CONTEXT_LENGTH_MAX = 65_536  # characters of their IRIs, all together

Scripts = Literal["each", "first", "together"]

_SCRIPTS = 'script[type*="ld+json" i]'
_MEDIA_TYPE = "application/ld+json"
_NO_DATA = ("http://www.w3.org/ns/json-ld#context", "http://www.w3.org/ns/json-ld#frame")
_MAY_HAVE_ALIASES = ("@id", "@type")
# Not "@graph": a list or a set where such a container is in force ends the process (pyoxigraph 0.5.13).
_CONTAINERS = ("@list", "@set", "@language", "@index", "@id", "@type")
_COLLECTIONS = frozenset({"@list", "@set"})
_TEXTS = frozenset({"@id", "@type", "@index", "@language"})  # valid if a short text, which it mostly is
_CHECKED = _TEXTS | {"@direction", "@reverse"}
_VALUE_KEYS = frozenset({"@context", "@value", "@type", "@language", "@direction", "@index"})
_words = re.compile(r'"([^"\\:\s]{1,64})(?=[":])').findall  # possible terms and prefixes
_schema_without_slash = re.compile(r"https?://(?:www\.)?schema\.org", re.IGNORECASE).fullmatch


class SandboxRequired(Exception):
    """The page is not at fault, but must be parsed in the sandbox: a library that it needs may crash the process."""


class _BlockRefused(ValueError):
    """The block is not read, or not to its end."""


def extract(
    document: Document,
    base: str,
    statements: StatementSet,
    *,
    scripts: Scripts = "each",
    target: str = "",
    careful: bool = False,
) -> int:
    """Add the statements of the blocks. Returns how many blocks could not be read.

    `scripts`: read each script as a document of its own, only the first one, or all as one document (the
    `extractAllScripts` option of the JSON-LD API, in which a `@graph` becomes a named graph). `target`: the id of the
    only script wanted; a missing one counts as unreadable. `careful`: raise `SandboxRequired` for a block that needs
    the parser.
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
    reader = JsonLdReader(base, statements, careful)
    blocks = reader.decode_blocks(texts[:BLOCKS_MAX])
    if scripts == "together":
        blocks = _join_blocks(blocks)
    return unread + sum(not reader.read_block(number, block) for number, block in enumerate(blocks))


def _holds_data(script: Element) -> bool:
    kind, _, parameters = (script.attr("type") or "").partition(";")
    return kind.strip().lower() == _MEDIA_TYPE and not any(profile in parameters for profile in _NO_DATA)


def _join_blocks(blocks: Iterable[object]) -> Iterator[object]:
    """All blocks as one document. One block that is not JSON invalidates them all, as in the JSON-LD API."""
    nodes: list[object] = []
    for block in blocks:
        if block is None:
            yield None
            return
        nodes += block if isinstance(block, list) else [block]
    yield nodes


class JsonLdReader:
    """Reads the blocks of one page, within limits that they share."""

    def __init__(self, base: str, statements: StatementSet, careful: bool = False) -> None:
        written = iri(base)
        self._base = written[1:-1] if written else None
        self._statements, self._careful = statements, careful
        self._length = LENGTH_MAX
        self._bounds = _JsonLdBudget()

    def decode_blocks(self, texts: Iterable[str]) -> Iterator[object]:
        """Decode the blocks; None for a block that is not JSON or too large."""
        for text in texts:
            self._length -= len(text)
            try:
                yield decode_lenient(text) if self._length >= 0 else None
            except ValueError:
                yield None

    def read_block(self, number: int, block: object) -> bool:
        """Add the statements of a block. Returns whether it could be read."""
        if not isinstance(block, dict | list):
            return False
        triples = plain_jsonld.extract_plain_block(block, self._base)
        if triples is None:
            if self._careful:
                raise SandboxRequired("a block of JSON-LD that is not plain")
            return self.parse_block(number, block)
        self._add(number, triples)
        return True

    def parse_block(self, number: int, block: dict[str, Any] | list[Any]) -> bool:
        """Like `read_block`, with pyoxigraph's parser, which knows all of JSON-LD."""
        before = len(self._statements)
        try:
            prepared = _BlockSanitizer(block, self._bounds)
            prepared.sanitize()
            self._convert(number, _encoded(block), guessed=prepared.lacks_context)
        except (_BlockRefused, SyntaxError, ValueError, RecursionError):
            return False
        return len(self._statements) > before or not prepared.lacks_context or self._statements.is_full

    def _add(self, number: int, triples: plain_jsonld.PlainTriples) -> None:
        blank, add = self._statements.blank_node, self._statements.add
        for subject, predicate, value in triples:
            add(
                subject if isinstance(subject, str) else blank(("jsonld", number, subject)),
                predicate,
                value if isinstance(value, str) else blank(("jsonld", number, value)),
            )

    def _convert(self, number: int, block: bytes, *, guessed: bool) -> None:
        """Parse and add a block. `guessed`: a context is missing, so a bare class would become a URL of the site."""
        statements = self._statements
        beside = f"{(self._base or '').rpartition('/')[0]}/" if guessed else "\0"
        names: dict[str, str | None] = {}

        def term(node: NamedNode | BlankNode | RdfLiteral | Triple) -> str | None:
            if isinstance(node, NamedNode):
                name = node.value
                if name not in names:
                    names[name] = iri(name)
                return names[name]
            if isinstance(node, BlankNode):
                return statements.blank_node(("jsonld", number, node.value))
            if isinstance(node, RdfLiteral):
                return literal(node.value, node.language or "", node.datatype.value)
            return None

        # Leniently: characters that may not stand in an IRI are escaped when the term is written, instead of dropping
        # it.
        for quad in parse(block, RdfFormat.JSON_LD, base_iri=self._base, lenient=True):
            subject, predicate, value = term(quad.subject), term(quad.predicate), term(quad.object)
            graph = quad.graph_name
            group = "" if isinstance(graph, DefaultGraph) else term(graph)
            if predicate == RDF_TYPE and value and value.startswith(f"<{beside}"):
                continue
            if subject and predicate and value and group is not None:
                statements.add(subject, predicate, value, group)
                if statements.is_cut:
                    return


def _encoded(block: object) -> bytes:
    try:
        return msgspec.json.encode(block)
    except UnicodeEncodeError:  # lone surrogates
        return json.dumps(block, ensure_ascii=False).encode("utf-8", "replace")


@dataclass(slots=True)
class _JsonLdBudget:
    """The remaining budget of the blocks of a page."""

    work: int = WORK_MAX
    contexts: int = CONTEXTS_MAX
    terms: int = TERMS_MAX
    scoped_work: int = SCOPED_WORK_MAX

    def check(self) -> None:
        if min(self.work, self.contexts, self.terms, self.scoped_work) < 0:
            raise _BlockRefused("too much")


class _BlockSanitizer:
    """Prepares one block: inserts contexts, and removes what would make the parser refuse the block."""

    def __init__(self, block: dict[str, Any] | list[Any], bounds: _JsonLdBudget) -> None:
        self.lacks_context = False
        self._block = block
        self._names: frozenset[str] | None = None
        self._bounds = bounds
        self._aliases: dict[str, str] = {}
        self._own_terms = CONTEXT_TERMS_MAX
        self._own_length = CONTEXT_LENGTH_MAX
        self._scoped_terms = 0

    def sanitize(self) -> None:
        """Visit every node of the block and change it in place."""
        bounds = self._bounds
        items = 0
        # With each node: the address of the context in force there, if there is exactly one and it has an address.
        pending: list[tuple[Any, int, str]] = [(self._block, 1, "")]
        while pending:
            node, depth, inherited = pending.pop()
            items += len(node)
            bounds.work -= (len(node) + 1) * depth
            if depth > NESTING_MAX or bounds.work < 0:
                raise _BlockRefused("nested too deep, or too large")
            depth += 1
            if type(node) is list:
                pending += [(value, depth, inherited) for value in node if type(value) in (dict, list)]
                continue
            if "@context" in node:
                inherited = self._sanitize_context_of(node, inherited)
            suspicious = False
            for key, value in node.items():
                kind = type(value)
                if (kind is dict or kind is list) and key != "@context":
                    pending.append((value, depth, inherited))
                if key in _TEXTS:
                    suspicious = suspicious or kind is not str or len(value) > IRI_LENGTH_MAX
                elif key[:1] == "@" or key in self._aliases or len(key) > IRI_LENGTH_MAX:
                    suspicious = True
            if suspicious:
                self._repair_node(node)
        bounds.scoped_work -= self._scoped_terms * items
        bounds.check()

    def _sanitize_context_of(self, node: dict[str, Any], inherited: str) -> str:
        """Replace addresses by known contexts. Returns the context in force below this node."""
        context = node["@context"]
        if isinstance(context, str) and context == inherited:
            del node["@context"]
            return inherited
        node["@context"] = self._sanitize_context(context, 0, scoped=False)
        return context if isinstance(context, str) else ""

    def _sanitize_context(self, context: object, depth: int, *, scoped: bool) -> Any:
        bounds = self._bounds
        bounds.contexts -= 1
        bounds.check()
        if depth > CONTEXT_NESTING_MAX:
            raise _BlockRefused("contexts nested too deep")
        if isinstance(context, str):
            return self._known(context)
        if isinstance(context, list):
            return [self._sanitize_context(part, depth + 1, scoped=scoped) for part in context]
        if isinstance(context, dict):
            return self._definitions(context, depth, scoped=scoped)
        return None if context is None else {}

    def _known(self, address: str) -> known_contexts.Definitions:
        context = known_contexts.known_context(address)
        if context is None:
            self.lacks_context = True
            return {}
        if self._names is None:
            self._names = frozenset(_words(_encoded(self._block).decode()))
        found = context.restricted_to(self._names)
        self._aliases |= {term: meaning for term, meaning in found.items() if meaning in _MAY_HAVE_ALIASES}
        self._bounds.terms -= len(found)
        return found

    def _definitions(self, context: dict[str, Any], depth: int, *, scoped: bool) -> known_contexts.Definitions:
        """The page's own context, without definitions that would be an error of the whole block."""
        found: known_contexts.Definitions = {}
        self._bounds.terms -= len(context)
        self._own_terms -= len(context)
        if scoped:
            self._scoped_terms += len(context)
        for term, meaning in context.items():
            self._count(term, meaning)
            if term.startswith("@"):
                if (check := _KEYWORDS.get(term)) and check(meaning):
                    found[term] = f"{meaning}/" if term == "@vocab" and _lacks_slash(meaning) else meaning
            elif term and (meaning is None or isinstance(meaning, str | dict)):
                if self.lacks_context and "@vocab" not in context and not _stands_alone(term, meaning):
                    continue
                found[term] = self._definition(meaning, depth) if isinstance(meaning, dict) else meaning
                keyword = meaning.get("@id") if isinstance(meaning, dict) else meaning
                if keyword in _MAY_HAVE_ALIASES:
                    self._aliases[term] = keyword
        return found

    def _definition(self, meaning: dict[str, Any], depth: int) -> known_contexts.Definitions:
        found: known_contexts.Definitions = {
            key: value for key, value in meaning.items() if isinstance(value, str | bool | None)
        }
        container = found.pop("@container", None) or meaning.get("@container")
        if kinds := [
            kind for kind in _CONTAINERS if kind == container or (isinstance(container, list) and kind in container)
        ]:
            found["@container"] = kinds
        if "@context" in meaning:
            found["@context"] = self._sanitize_context(meaning["@context"], depth + 1, scoped=True)
        return found

    def _count(self, term: str, meaning: object) -> None:
        values = meaning.values() if isinstance(meaning, dict) else (meaning,)
        self._own_length -= len(term) + sum(len(value) for value in values if isinstance(value, str))
        if self._own_terms < 0 or self._own_length < 0:
            raise _BlockRefused("too many terms")

    def _repair_node(self, node: dict[str, Any]) -> None:
        """Drop values for which the parser refuses the whole block, such as an identifier that is a number."""
        for key in [key for key in node if len(key) > IRI_LENGTH_MAX]:
            del node[key]
        for alias, keyword in self._aliases.items():
            if alias in node and (keyword in node or not _fits(keyword, node[alias])):
                del node[alias]
        for keyword in _CHECKED & node.keys():
            if _fits(keyword, node[keyword]):
                continue
            unfit = node.pop(keyword)
            if keyword == "@type" and isinstance(unfit, list):
                node["@type"] = [kind for kind in unfit if isinstance(kind, str)]
        if "@value" in node:
            _repair_value(node)
        elif len(node) > 1:
            for keyword in _COLLECTIONS & node.keys():
                _keep(node, frozenset({keyword, "@index", "@context"}))


def _stands_alone(term: str, meaning: str | dict[str, Any] | None) -> bool:
    """Whether a definition is valid without the context that it builds upon."""
    named = meaning.get("@id", meaning.get("@reverse", term)) if isinstance(meaning, dict) else meaning
    return not isinstance(named, str) or ":" in named or named.startswith("@")


def _fits(keyword: str, value: object) -> bool:
    match keyword:
        case "@type":
            return isinstance(value, str) or (isinstance(value, list) and all(isinstance(kind, str) for kind in value))
        case "@reverse":
            return isinstance(value, dict)
        case "@direction":
            return value in ("ltr", "rtl")
        case _:  # repeated with each statement about the node: it must not be long
            return isinstance(value, str) and len(value) <= IRI_LENGTH_MAX


def _keep(node: dict[str, Any], keys: frozenset[str]) -> None:
    for key in node.keys() - keys:
        del node[key]


def _repair_value(node: dict[str, Any]) -> None:
    kind = node.get("@type")
    if isinstance(node["@value"], dict | list) and kind != "@json":
        node["@value"] = None
    if kind is not None and not isinstance(kind, str):
        del node["@type"]
        kind = None
    if "@language" in node and (kind or not isinstance(node["@value"], str)):
        del node["@language"]
    _keep(node, _VALUE_KEYS)


def _text_or_null(value: object) -> bool:
    return value is None or (isinstance(value, str) and len(value) <= IRI_LENGTH_MAX)


def _truth(value: object) -> bool:
    return isinstance(value, bool)


def _lacks_slash(vocabulary: object) -> bool:
    return isinstance(vocabulary, str) and _schema_without_slash(vocabulary) is not None


# The keywords of a context, and the values that they accept. `@import` would cause a fetch.
_KEYWORDS: dict[str, Callable[[object], bool]] = {
    "@vocab": _text_or_null,
    "@base": _text_or_null,
    "@language": _text_or_null,
    "@direction": _text_or_null,
    "@propagate": _truth,
    "@protected": _truth,
    "@version": lambda value: value == 1.1,
    "@type": lambda value: value in ({"@container": "@set"}, {"@container": "@set", "@protected": True}),
}
