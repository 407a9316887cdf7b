"""Named graphs of pages in Oxigraph: their names, quads, metadata and replacement.

A page is a named graph under its URL, which holds what the page states, and no more; groups that the page itself
makes are not kept apart. Promises: classes and properties have one spelling; a blank node is named after its page,
always the same, and no two pages share one; writing a page twice leaves what writing it once does, and of the page
that was there before nothing is left. In the default graph stands of each page when it was fetched, which collections
have it, and when it was changed, if that is known. What is inferred from a page stands beside it, in a graph of its
own. Knows nothing of visits.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store, parse
from xxhash import xxh3_128_hexdigest

from tarrafa.model import UrlId
from tarrafa.parse.rdf.entity import normalize_iri
from tarrafa.parse.rdf.nquads import RDF_TYPE, XSD, Statement, iri_of, parse_nquads
from tarrafa.triples.page_versions import StoredVersion

TARRAFA_NAMESPACE = "urn:tarrafa:"
_SAID_BY_US = (
    f"<{TARRAFA_NAMESPACE}"  # when a page was fetched, and for whom: no page can say that of itself or of others
)
FETCHED, COLLECTION, CHANGED = (
    NamedNode(f"{TARRAFA_NAMESPACE}{name}") for name in ("fetched", "collection", "changed")
)
INFERRED_PREFIX = f"{TARRAFA_NAMESPACE}inferred:"  # and the page's own name
RULES_GRAPH = NamedNode(f"{TARRAFA_NAMESPACE}rules")
DATE_TIME = NamedNode(f"{XSD}dateTime")
DEFAULT_GRAPH = DefaultGraph()
_unfit = re.compile(r"[^A-Za-z0-9\-._~:/?@!$&'()*+,;=%]|%(?![0-9A-Fa-f]{2})")


def graph_of(url: str, key: UrlId) -> NamedNode:
    """The name of a page's graph: its URL. The few that are no IRI ([, |, { as they stand) are escaped, and as that may
    be another page's URL, end in what no page's does: a fragment."""
    with suppress(ValueError):
        return NamedNode(url)
    host = url.find("/", url.find("//") + 2)
    with suppress(ValueError):
        return NamedNode(f"{url[:host]}{_unfit.sub(_percent, url[host:])}#{key.hex()}")
    return NamedNode(f"{TARRAFA_NAMESPACE}page:{key.hex()}")


def _percent(found: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in found[0].encode("utf-8", "replace"))


def inferred_graph_of(graph: NamedNode) -> NamedNode:
    """The name of the graph beside. The brackets of an IPv6 address may stand in no other part of an IRI."""
    return NamedNode(f"{INFERRED_PREFIX}{graph.value.replace('[', '%5B').replace(']', '%5D')}")


def statements_of(text: str, key: UrlId) -> list[Statement]:
    """What a page states, as the store has it; each statement once."""
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
    """Names blank nodes after their page. Oxigraph keeps those that are 32 hexadecimal digits as a number."""
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
    """The statements in a graph; what is none after all (an archive may hold anything) is left out."""
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
    """What is known of a page itself, from what the collections have of it."""
    latest = versions[0]
    found = [Quad(graph, FETCHED, _moment(latest.at), DEFAULT_GRAPH)]
    found += [Quad(graph, COLLECTION, Literal(one.collection), DEFAULT_GRAPH) for one in versions]
    if latest.changed is not None:
        found.append(Quad(graph, CHANGED, _moment(latest.changed), DEFAULT_GRAPH))
    return found


def _moment(at: float) -> Literal:
    return Literal(datetime.fromtimestamp(int(at), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), datatype=DATE_TIME)


def remove_page_graph(store: Store, graph: NamedNode) -> None:
    """Take away all that there is of a page. Its graph goes last: where that is not, nothing else is, and most pages
    that a crawl meets have none."""
    if not store.contains_named_graph(graph):
        return
    for quad in list(store.quads_for_pattern(graph, None, None, DEFAULT_GRAPH)):
        store.remove(quad)
    store.remove_graph(inferred_graph_of(graph))
    store.remove_graph(graph)


def write_page_graph(store: Store, graph: NamedNode, wanted: Iterable[Quad]) -> None:
    """The page is exactly this from now on. What the store holds is looked at, not remembered: after a kill it may be
    ahead of everybody's memory."""
    fresh = set(wanted)
    names = {quad.graph_name for quad in fresh}
    if graph not in names:  # nothing that it states is a statement after all
        remove_page_graph(store, graph)
        return
    there = set(store.quads_for_pattern(graph, None, None, DEFAULT_GRAPH))
    for name in (graph, inferred_graph_of(graph)):
        there.update(store.quads_for_pattern(None, None, None, name))
    missing, stale = fresh - there, there - fresh
    if len(stale) > len(there) // 4:  # at once, rather than one by one
        remove_page_graph(store, graph)
        missing = fresh
    else:
        for quad in stale:
            store.remove(quad)
    if inferred_graph_of(graph) not in names:
        store.remove_graph(inferred_graph_of(graph))  # empty as it is by now, it would still be listed
    if missing:
        store.extend(missing)
