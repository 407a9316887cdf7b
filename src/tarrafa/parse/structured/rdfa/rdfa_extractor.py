"""Extracts RDF statements from RDFa 1.1 in HTML, XHTML and XML.

Reads the parsed tree of the page; `processor` holds the processing rules.
Promises: any tree gives statements and no exception; a page without RDFa costs next to nothing.
Knows nothing of JSON-LD or microdata, nor of how statements are used.

Only elements that can state something, and their ancestors, are visited: most elements of a page have no RDFa, and
`select` finds the others at a small part of the cost of visiting every element in Python. A @rel without a resource (an
incomplete triple) may be completed by any descendant that names one. Only then must the descendants be visited too, and
reading starts again.
"""

from functools import cache
from itertools import islice

from turbohtml import Doctype, Document, Element

from tarrafa.parse.rdf.nquads import StatementSet
from tarrafa.parse.structured.rdfa.initial_context import HTML, XHTML1, XHTML5, XML, HostLanguage, HostLanguageRules
from tarrafa.parse.structured.rdfa.processor import IncompleteTripleError, RdfaProcessor

PROLOGUE_MAX = 16  # comments and the like before the doctype

# Every HTML element that could state something, and a few more.
HTML_CANDIDATES = "[property],[typeof],[vocab],[rev],[rel]:is({})".format(
    ",".join(['[rel*=":"]', *(f'[rel*="{term}" i]' for term in HTML.terms)])
)
_STATING = '[property],[typeof],[vocab],[rel*=":"],[rev*=":"]'
_ANY_LINK = "[property],[typeof],[vocab],[rel],[rev]"
_COMPLETING = f"{_ANY_LINK},[about],[resource],[href],[src]"


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
