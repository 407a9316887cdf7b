"""Named graphs of pages in Oxigraph: their names, quads, metadata and replacement.

A page is a named graph under its URL, which holds exactly the statements of the page; named graphs inside the page are
not kept apart. Promises: classes and properties have one spelling; a blank node is named after its page, always the
same, and no two pages share one; writing a page twice equals writing it once, and nothing of its former version is
left. The default graph holds for each page when it was fetched, its collections, and when it was changed, if known.
Statements inferred from a page are in a graph of their own beside it. Knows nothing of visits.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store, parse
from xxhash import xxh3_128_hexdigest

from tarrafa.model import UrlId
from tarrafa.parse.rdf.nquads import RDF_TYPE, XSD, Statement, iri_of, parse_nquads
from tarrafa.parse.rdf.prefixes import normalize_iri
from tarrafa.triples.page_versions import StoredVersion

TARRAFA_NAMESPACE = "urn:tarrafa:"
_SAID_BY_US = (
    f"<{TARRAFA_NAMESPACE}"  # fetch time and collections of a page: no page may state these, of itself or of others
)
FETCHED, COLLECTION, CHANGED = (
    NamedNode(f"{TARRAFA_NAMESPACE}{name}") for name in ("fetched", "collection", "changed")
)
INFERRED_PREFIX = f"{TARRAFA_NAMESPACE}inferred:"  # followed by the page's own name
RULES_GRAPH = NamedNode(f"{TARRAFA_NAMESPACE}rules")
DATE_TIME = NamedNode(f"{XSD}dateTime")
DEFAULT_GRAPH = DefaultGraph()
_unfit = re.compile(r"[^A-Za-z0-9\-._~:/?@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")


def graph_of(url: str, key: UrlId) -> NamedNode:
    """The name of a page's graph: its URL. The few URLs that are no IRI ([, |, { unescaped) are escaped and, as the
    result may be another page's URL, end in a fragment, which no page's URL does.
    """
    with suppress(ValueError):
        return NamedNode(url)
    host = url.find("/", url.find("//") + 2)
    with suppress(ValueError):
        return NamedNode(f"{url[:host]}{_unfit.sub(_percent, url[host:])}#{key.hex()}")
    return NamedNode(f"{TARRAFA_NAMESPACE}page:{key.hex()}")


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def inferred_graph_of(graph: NamedNode) -> NamedNode:
    """The name of the graph of inferred statements. The brackets of an IPv6 address are allowed in no other part of an
    IRI.
    """
    return NamedNode(f"{INFERRED_PREFIX}{graph.value.replace('[', '%5B').replace(']', '%5D')}")


def statements_of(text: str, key: UrlId) -> list[Statement]:
    """The statements of a page in the form of the store, each once."""
    node = _renaming(key)
    spelled: dict[str, str] = {}

    def spell(term: str) -> str:
        known = spelled.get(term)
        if known is None:
            known = spelled[term] = f"<{normalize_iri(iri_of(term))}>"
        return known

    found: dict[Statement, None] = {}
    for subject, predicate, term, _ in parse_nquads(text):
        if predicate.startswith(_SAID_BY_US):
            continue
        is_class = predicate == RDF_TYPE and term.startswith("<")
        found[Statement(node(subject), spell(predicate), spell(term) if is_class else node(term))] = None
    return list(found)


def _renaming(key: UrlId) -> Callable[[str], str]:
    """Names blank nodes after their page. Oxigraph keeps names of 32 hexadecimal digits as a number."""
    named: dict[str, str] = {}

    def rename(term: str) -> str:
        if not term.startswith("_:"):
            return term
        known = named.get(term)
        if known is None:
            known = named[term] = f"_:b{xxh3_128_hexdigest(key + term.encode('utf-8', 'replace'))[1:]}"
        return known

    return rename


def quads_of(statements: Iterable[Statement], graph: NamedNode) -> list[Quad]:
    """The statements as quads of a graph; invalid ones (an archive may hold anything) are left out."""
    lines = [f"{one.subject} {one.predicate} {one.object} {graph} .\n" for one in statements]
    try:
        return list(parse("".join(lines).encode("utf-8", "replace"), RdfFormat.N_QUADS))
    except (SyntaxError, ValueError):
        return [quad for line in lines for quad in _one(line)]


def _one(line: str) -> Iterator[Quad]:
    try:
        yield from list(parse(line.encode("utf-8", "replace"), RdfFormat.N_QUADS))
    except (SyntaxError, ValueError):
        return


def page_metadata_quads(graph: NamedNode, versions: Sequence[StoredVersion]) -> list[Quad]:
    """The metadata of a page, from its versions in the collections."""
    latest = versions[0]
    found = [Quad(graph, FETCHED, _moment(latest.at), DEFAULT_GRAPH)]
    found += [Quad(graph, COLLECTION, Literal(one.collection), DEFAULT_GRAPH) for one in versions]
    if latest.changed is not None:
        found.append(Quad(graph, CHANGED, _moment(latest.changed), DEFAULT_GRAPH))
    return found


def _moment(at: float) -> Literal:
    return Literal(datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), datatype=DATE_TIME)


def remove_page_graph(store: Store, graph: NamedNode) -> None:
    """Remove everything about a page. Its graph goes last: where it is missing, nothing else is left, and most crawled
    pages have none.
    """
    if not store.contains_named_graph(graph):
        return
    for quad in list(store.quads_for_pattern(graph, None, None, DEFAULT_GRAPH)):
        store.remove(quad)
    store.remove_graph(inferred_graph_of(graph))
    store.remove_graph(graph)


def write_page_graph(store: Store, graph: NamedNode, wanted: Iterable[Quad]) -> None:
    """Replace the content of a page. The present content is read from the store, not remembered: after a kill the store
    may be ahead of all other state.
    """
    fresh = set(wanted)
    names = {quad.graph_name for quad in fresh}
    if graph not in names:  # none of its statements is valid
        remove_page_graph(store, graph)
        return
    there = set(store.quads_for_pattern(graph, None, None, DEFAULT_GRAPH))
    for name in (graph, inferred_graph_of(graph)):
        there.update(store.quads_for_pattern(None, None, None, name))
    missing, stale = fresh - there, there - fresh
    if len(stale) > len(there) // 4:  # one call is faster than removing them one by one
        remove_page_graph(store, graph)
        missing = fresh
    else:
        for quad in stale:
            store.remove(quad)
    if inferred_graph_of(graph) not in names:
        store.remove_graph(inferred_graph_of(graph))  # an empty graph would still be listed
    if missing:
        store.extend(missing)
