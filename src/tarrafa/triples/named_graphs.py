"""Named graphs of pages: their names, quads and metadata in Oxigraph, and the PageWriter that replaces them.

A page is a named graph under its URL, which holds exactly the statements of the page; named graphs inside the page are
not kept apart. Promises: classes and properties have one spelling; a blank node is named after its page, always the
same, and no two pages share one; writing a page twice equals writing it once, and nothing of its former version is
left. The default graph holds for each page when it was fetched, its collections, and when it was changed, if known.
Statements inferred from a page are in a graph of their own beside it. A page without statements has no graph. Where
several collections have a URL, the version fetched last is used. Knows nothing of cursors: the follower selects the
changed pages.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import apsw
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Store, parse
from xxhash import xxh3_128_digest, xxh3_128_hexdigest

from tarrafa.archive.projection import ProjectionState
from tarrafa.model import Outcome, UrlId
from tarrafa.parse.dates import parse_date
from tarrafa.parse.rdf.nquads import RDF_TYPE, XSD, Statement, iri_of, parse_nquads
from tarrafa.parse.rdf.prefixes import normalize_iri
from tarrafa.runtime.sqlite import rows
from tarrafa.triples import usage_counts
from tarrafa.triples.entity_index import EntityIndex
from tarrafa.triples.ontology import EMPTY_ONTOLOGY, Ontology

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


class StoredVersion(NamedTuple):
    """A page as one visit found it, and the position of its archive record."""

    collection: str
    at: float
    changed: float | None
    file: str
    start: int


def page_versions(state: ProjectionState, key: UrlId) -> list[StoredVersion]:
    """The versions of a page in the collections, the one fetched last first; ties have a fixed order."""
    found = rows(
        state.connection,
        "SELECT collection, at, changed, file, start FROM visits WHERE id = ? AND file IS NOT NULL"
        " ORDER BY at DESC, collection",
        (key,),
    )
    return [StoredVersion(name, at, changed, state.file_name(file), start) for name, at, changed, file, start in found]


def changed_at(outcome: Outcome) -> float | None:
    """When the page was changed, by its server; None, if it gives no date or an impossible one."""
    stated = parse_date(outcome.last_modified) if outcome.last_modified else 0.0
    return stated if 0 < stated <= outcome.at else None


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


class StoredPage(NamedTuple):
    """A page with statements, as stored in SQLite."""

    page: int
    digest: bytes
    share: bytes


class PageWriter:
    """Writes pages: the store first and the SQLite file afterwards, in a transaction of its own, so that a kill in
    between only repeats work: the page is written again when its record is read again.
    """

    def __init__(self, store: Store, connection: apsw.Connection) -> None:
        self._store, self._connection = store, connection
        self._entities = EntityIndex(connection)
        self.ontology: Ontology = EMPTY_ONTOLOGY
        self.generation = 0  # of the ontology: one that returns gets a new number, so that a kill leaves no doubt

    def write(self, key: UrlId, url: str, versions: Sequence[StoredVersion], text: str) -> bool:
        """Replace the content of a page; `versions`: its versions in the collections, the one that counts first.
        Whether it has statements, or had.
        """
        statements = statements_of(text, key) if versions else []
        graph, known = graph_of(url, key), self._row(key)
        if not statements:
            remove_page_graph(self._store, graph)
            if known is not None:
                self._remove(known)
            return known is not None
        inferred = self.ontology.infer(statements)
        quads = [*quads_of(statements, graph), *quads_of(inferred, inferred_graph_of(graph))]
        write_page_graph(self._store, graph, [*quads, *page_metadata_quads(graph, versions)])
        lines = "\n".join(map(" ".join, (*statements, (), *inferred)))
        digest = xxh3_128_digest(lines.encode("utf-8", "surrogatepass"))
        run, at = self._connection.execute, versions[0].at
        if known is not None and known.digest == digest:
            run("UPDATE pages SET at = ?, ontology = ? WHERE page = ?", (at, self.generation, known.page))
            return True
        if known is not None:
            self._remove(known)
        number = known.page if known is not None else None
        row = (number, key, url, at, len(statements), len(inferred), digest, self.generation, b"")
        run("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        page = self._connection.last_insert_rowid()
        share = self._entities.add_page(page, statements, inferred)
        run("UPDATE pages SET share = ? WHERE page = ?", (usage_counts.encode(share), page))
        return True

    def _remove(self, row: StoredPage) -> None:
        self._entities.remove_page(row.page, usage_counts.decode(row.share))
        self._connection.execute("DELETE FROM pages WHERE page = ?", (row.page,))

    def _row(self, key: UrlId) -> StoredPage | None:
        found = rows(self._connection, "SELECT page, digest, share FROM pages WHERE id = ?", (key,))
        return StoredPage(*found[0]) if found else None

    def pages_after(self, page: int, limit: int) -> list[tuple[int, UrlId, str]]:
        """Pages with statements, in the order of their numbers."""
        sql = "SELECT page, id, url FROM pages WHERE page > ? ORDER BY page LIMIT ?"
        return rows(self._connection, sql, (page, limit))

    def urls(self, keys: Sequence[UrlId]) -> dict[UrlId, str]:
        """Those of these pages that have statements."""
        found = [rows(self._connection, "SELECT id, url FROM pages WHERE id = ?", (key,)) for key in keys]
        return dict(one for some in found for one in some)

    def outdated(self, limit: int) -> list[tuple[UrlId, str]]:
        """Some pages that were written under another ontology."""
        sql = "SELECT id, url FROM pages WHERE ontology < ? LIMIT ?"
        return rows(self._connection, sql, (self.generation, limit))
