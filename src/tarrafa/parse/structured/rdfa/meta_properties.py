"""States the properties of meta elements, such as Open Graph, without the RDFa processor.

Most pages with RDFa have nothing else: a few `<meta property="og:title" content="…">` in the head. Their subject is the
page and their value is a text, so that the processing rules come to one statement each.
Promises: states what the processor would state, or returns False and states nothing (a test compares the two).
Knows nothing of any other element.
"""

from collections.abc import Iterable
from functools import lru_cache

from turbohtml import Document, Element

from tarrafa.parse.rdf.nquads import StatementSet, iri, literal
from tarrafa.parse.structured.iri_resolution import BaseIri
from tarrafa.parse.structured.rdfa.curie import CurieScope, TermCache
from tarrafa.parse.structured.rdfa.initial_context import HTML, PREFIXES
from tarrafa.parse.structured.rdfa.literals import element_attributes
from tarrafa.parse.structured.rdfa.processor import RELEVANT

METAS_MAX = 64
CONTENT_LENGTH_MAX = 2_048
NAMES_LENGTH_MAX = 128  # of one @property
NAMES_CACHED_MAX = 4_096

_META_ATTRIBUTES = frozenset({"property", "content", "name", "id", "class"})


def state_meta_properties(found: list[Element], base: str, statements: StatementSet) -> bool:
    """Add the statements of the meta elements of an HTML page; False if they need the processor."""
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
