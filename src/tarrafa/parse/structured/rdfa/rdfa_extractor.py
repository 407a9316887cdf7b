"""Extracts RDF statements from RDFa 1.1 in HTML, XHTML and XML.

Reads the parsed tree of the page; `processor` holds the processing rules.
Promises: any tree gives statements and no exception; a page without RDFa costs next to nothing.
Knows nothing of JSON-LD or microdata, nor of how statements are used.

Only elements that can state something, and their ancestors, are visited: most elements of a page have no RDFa, and
`select` finds the others at a small part of the cost of visiting every element in Python. A @rel without a resource (an
incomplete triple) may be completed by any descendant that names one. Only then must the descendants be visited too, and
reading starts again.
"""

from collections.abc import Iterable
from functools import cache, lru_cache
from itertools import islice

from turbohtml import Doctype, Document, Element

from tarrafa.parse.rdf.nquads import StatementSet, iri, literal
from tarrafa.parse.structured.iri_resolution import BaseIri
from tarrafa.parse.structured.rdfa.curie import CurieScope, TermCache
from tarrafa.parse.structured.rdfa.initial_context import (
    HTML,
    PREFIXES,
    XHTML1,
    XHTML5,
    XML,
    HostLanguage,
    HostLanguageRules,
)
from tarrafa.parse.structured.rdfa.literals import element_attributes
from tarrafa.parse.structured.rdfa.processor import RELEVANT, IncompleteTripleError, RdfaProcessor

METAS_MAX = 64
CONTENT_LENGTH_MAX = 2_048
NAMES_LENGTH_MAX = 128  # of one @property
NAMES_CACHED_MAX = 4_096
PROLOGUE_MAX = 16  # comments and the like before the doctype

# Every HTML element that could state something, and a few more.
HTML_CANDIDATES = "[property],[typeof],[vocab],[rev],[rel]:is({})".format(
    ",".join(['[rel*=":"]', *(f'[rel*="{term}" i]' for term in HTML.terms)])
)
_STATING = '[property],[typeof],[vocab],[rel*=":"],[rev*=":"]'
_ANY_LINK = "[property],[typeof],[vocab],[rel],[rev]"
_COMPLETING = f"{_ANY_LINK},[about],[resource],[href],[src]"
_META_ATTRIBUTES = frozenset({"property", "content", "name", "id", "class"})


def extract(
    document: Document, base: str, statements: StatementSet, host: HostLanguage = "html", location: str = ""
) -> None:
    """Add the statements of the document to `statements`. `base` is the IRI of its base element, or else its URL.
    `location` is its URL whatever its base: relative prefixes, which are not allowed, are resolved against it.
    """
    rules = _rules(document, host)
    found = document.select(_stating_selector(tuple(rules.terms), role=rules.role))
    if not found:
        return
    role = ",[role]" if rules.role else ""
    if under := _links_under_vocab(document):
        under.update(found)
        found = [element for element in document.select(_ANY_LINK + role) if element in under]
    steps = RdfaProcessor(base, location or base, statements, rules)
    try:
        steps.process(found)
    except IncompleteTripleError:
        steps = RdfaProcessor(base, location or base, statements, rules, allow_incomplete=True)
        steps.process(document.select(_COMPLETING + role))
    steps.emit_statements()


@cache
def _stating_selector(terms: tuple[str, ...], *, role: bool) -> str:
    """The selector of elements that state something, as long as no @vocab gives a meaning to all words of @rel."""
    words = (f',[rel*="{term}" i],[rev*="{term}" i]' for term in terms)
    return _STATING + "".join(words) + (",[role]" if role else "")


def _links_under_vocab(document: Document) -> set[Element]:
    """The links below a @vocab, whose every @rel word is a term, and the elements with that @vocab."""
    found: set[Element] = set()
    for element in document.select("[vocab]"):
        if element not in found:  # nested ones are in the set already
            found.add(element)
            found.update(element.select("[vocab],[rel],[rev]"))
    return found


def _rules(document: Document, host: HostLanguage) -> HostLanguageRules:
    if host == "html":
        return HTML
    if host == "xml":
        return XML
    root = document.root
    if root is not None and (root.attr("version") or "").startswith("XHTML"):
        return XHTML1
    for node in islice(document.children, PROLOGUE_MAX):
        if isinstance(node, Doctype):
            return XHTML1 if "XHTML" in (node.public_id or "") else XHTML5
    return XHTML5


# -- meta elements -----------------------------------------------------------------------------------------------------


def state_meta_properties(found: list[Element], base: str, statements: StatementSet) -> bool:
    """Add the statements of the meta elements of an HTML page, such as Open Graph; False if they need the processor.

    Most pages with RDFa have nothing else: a few `<meta property="og:title" content="…">` in the head. Their subject is
    the page and their value is a text, so that the processing rules come to one statement each. (A test compares the
    two ways.)
    """
    head, subject = found[0].parent, iri(BaseIri(base).whole)
    language = _language_in(head) if isinstance(head, Element) and head.tag == "head" else None
    if len(found) > METAS_MAX or subject is None or language is None:
        return False
    stated: list[tuple[str, str]] = []
    for element in found:
        own = element_attributes(element)
        names, content = own.get("property"), own.get("content")
        if element.tag != "meta" or element.parent != head or not _META_ATTRIBUTES.issuperset(own):
            return False
        if not (isinstance(names, str) and isinstance(content, str) and len(names) <= NAMES_LENGTH_MAX):
            return False
        value = literal(content, language) if len(content) <= CONTENT_LENGTH_MAX and "_:" not in names else None
        if value is None:
            return False
        stated += [(predicate, value) for predicate in _predicates(names)]
    for predicate, value in stated:
        statements.add(subject, predicate, value)
    return True


def _language_in(head: Element) -> str | None:
    """The language in the head; None if html or head declare more than that."""
    root = head.parent
    if not isinstance(root, Element) or type(root.parent) is not Document or _declares(element_attributes(head)):
        return None
    own = element_attributes(root)
    if _declares(own.keys() - {*HTML.languages}):
        return None
    return next((root.attr(name) or "" for name in HTML.languages if name in own), "").strip()


def _declares(names: Iterable[str]) -> bool:
    """Whether one of these attributes of html or head changes the meaning of what is below."""
    return any(name in RELEVANT or name.startswith("xmlns") for name in names)


@lru_cache(NAMES_CACHED_MAX)
def _predicates(names: str) -> tuple[str, ...]:
    """The predicates of a @property where no prefix and no vocabulary is declared."""
    nowhere = BaseIri("")
    return tuple(CurieScope(TermCache(StatementSet(), nowhere), nowhere, HTML.terms, PREFIXES, {}).predicates(names))
