"""PageWriter replaces the statements of a page, its named graph, in Oxigraph; names and metadata of these graphs.

A page is a named graph under its URL, which holds exactly the statements of the page; named graphs inside the page are
not kept apart. Promises: classes and properties have one spelling; a blank node is named after its page, always the
same, and no two pages share one; writing a page twice equals writing it once, and nothing of its former version is
left. The default graph holds for each page when it was fetched, its collections, the uses that its publisher
reserves, and when it was changed, if known.
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
from tarrafa.archive.warc_reader import ArchiveEntry
from tarrafa.model import Outcome, Page, UrlId
from tarrafa.parse.date_formats import parse_date
from tarrafa.parse.rdf.nquads import RDF_TYPE, XSD, Statement, iri_of, parse_nquads
from tarrafa.parse.rdf.prefixes import normalize_iri
from tarrafa.parse.robots_meta_usage import reserved_uses
from tarrafa.runtime.sqlite import rows
from tarrafa.triples import usage_counts
from tarrafa.triples.entity_index import EntityIndex, StatedPage
from tarrafa.triples.ontology import EMPTY_ONTOLOGY, Ontology

TARRAFA_NAMESPACE = "urn:tarrafa:"
_SAID_BY_US = (
    f"<{TARRAFA_NAMESPACE}"  # fetch time and collections of a page: no page may state these, of itself or of others
)
FETCHED, COLLECTION, CHANGED, RESERVES = (
    NamedNode(f"{TARRAFA_NAMESPACE}{name}") for name in ("fetched", "collection", "changed", "reserves")
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


def page_versions(state: ProjectionState, keys: Iterable[UrlId]) -> dict[UrlId, list[StoredVersion]]:
    """The versions of pages in the collections, the one fetched last first; ties have a fixed order."""
    found: dict[UrlId, list[StoredVersion]] = {key: [] for key in keys}
    if found:
        stored = rows(
            state.connection,
            "SELECT id, collection, at, changed, file, start FROM carray(?) one CROSS JOIN visits ON id = one.value"
            " WHERE file IS NOT NULL ORDER BY at DESC, collection",
            (apsw.carray(tuple(sorted(found))),),
        )
        for key, name, at, changed, file, start in stored:
            found[key].append(StoredVersion(name, at, changed, state.file_name(file), start))
    return found


def newest_visits(state: ProjectionState, keys: set[UrlId]) -> dict[tuple[UrlId, str], int]:
    """The numbers of the newest visits that were applied, by URL and collection."""
    if not keys:
        return {}
    sql = "SELECT id, collection, visit FROM carray(?) one CROSS JOIN visits ON id = one.value"
    found = rows(state.connection, sql, (apsw.carray(tuple(sorted(keys))),))
    return {(key, name): visit for key, name, visit in found}


RecordedVisit = tuple[UrlId, str, int, int | None, int | None, float | None, float | None]  # a row of `visits`


def recorded_visit(state: ProjectionState, entry: ArchiveEntry, key: UrlId, is_there: bool) -> RecordedVisit:
    """The row of a visit; `is_there`: it found a page."""
    record, outcome = entry.record, entry.record.outcome
    if not is_there:
        return key, record.collection, record.visit, None, None, None, None
    file = state.file_number(entry.file)
    return key, record.collection, record.visit, file, entry.start, outcome.at, changed_at(outcome)


def record_visits(state: ProjectionState, visits: Iterable[RecordedVisit]) -> None:
    """Record newest visits."""
    state.connection.executemany("INSERT OR REPLACE INTO visits VALUES (?, ?, ?, ?, ?, ?, ?)", visits)


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


def page_metadata_quads(
    graph: NamedNode, versions: Sequence[StoredVersion], reserved: Iterable[str] = ()
) -> list[Quad]:
    """The metadata of a page, from its versions in the collections, and the uses that its publisher reserves."""
    latest = versions[0]
    found = [Quad(graph, FETCHED, _moment(latest.at), DEFAULT_GRAPH)]
    found += [Quad(graph, COLLECTION, Literal(one.collection), DEFAULT_GRAPH) for one in versions]
    found += [Quad(graph, RESERVES, Literal(use), DEFAULT_GRAPH) for use in reserved]
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


class StatedContent(NamedTuple):
    """The statements of a page as N-Quads, and the uses that its publisher reserves."""

    text: str = ""
    reserved: tuple[str, ...] = ()

    @classmethod
    def of(cls, page: Page | None) -> "StatedContent":
        return cls(page.statements, tuple(sorted(reserved_uses(page)))) if page is not None else cls()


class ChangedPage(NamedTuple):
    """A page to write: its versions in the collections, the one that counts first, and the statements of that one."""

    key: UrlId
    url: str
    versions: Sequence[StoredVersion]
    content: StatedContent


class _WrittenPage(NamedTuple):
    """A page whose statements are in the store, and not yet in SQLite."""

    changed: ChangedPage
    known: StoredPage | None
    statements: list[Statement]
    inferred: list[Statement]
    digest: bytes


class PageWriter:
    """Writes pages: the store first and the SQLite file afterwards, in a transaction of its own, so that a kill in
    between only repeats work: the page is written again when its record is read again.

    `store_may_be_ahead`: the store may have pages that SQLite does not know, after a kill. Otherwise the store is not
    asked for such pages.
    """

    def __init__(self, store: Store, connection: apsw.Connection) -> None:
        self._store, self._connection = store, connection
        self._entities = EntityIndex(connection)
        self._next_page: int = 1 + rows(connection, "SELECT ifnull(max(page), 0) FROM pages")[0][0]
        self.ontology: Ontology = EMPTY_ONTOLOGY
        self.generation = 0  # of the ontology: one that returns gets a new number, so that a kill leaves no doubt
        self.store_may_be_ahead = any(True for _ in store.named_graphs())

    def write(self, pages: Sequence[ChangedPage]) -> int:
        """Replace the content of different pages; how many of them have statements, or had."""
        known = self._rows([page.key for page in pages])
        written, gone = self._write_store(pages, known)
        same = [one for one in written if one.known is not None and one.known.digest == one.digest]
        self._connection.executemany(
            "UPDATE pages SET at = ?, ontology = ? WHERE id = ?",
            [(one.changed.versions[0].at, self.generation, one.changed.key) for one in same],
        )
        other = [one for one in written if one.known is None or one.known.digest != one.digest]
        self._write_rows([*gone, *(one.known for one in other if one.known is not None)], other)
        return len(written) + len(gone)

    def _write_store(
        self, pages: Sequence[ChangedPage], known: dict[UrlId, StoredPage]
    ) -> tuple[list[_WrittenPage], list[StoredPage]]:
        """Write the store; the pages with statements, and the rows of pages that have none any more."""
        written, gone, new = list[_WrittenPage](), list[StoredPage](), list[Quad]()
        for page in pages:
            row = known.get(page.key)
            may_be_there = row is not None or self.store_may_be_ahead
            text, reserved = page.content
            statements = statements_of(text, page.key) if page.versions and text else []
            if not statements:
                if may_be_there:
                    remove_page_graph(self._store, graph_of(page.url, page.key))
                gone += [row] if row is not None else []
                continue
            graph, inferred = graph_of(page.url, page.key), self.ontology.infer(statements)
            quads = quads_of(statements, graph)
            if inferred:
                quads += quads_of(inferred, inferred_graph_of(graph))
            if may_be_there:
                write_page_graph(self._store, graph, [*quads, *page_metadata_quads(graph, page.versions, reserved)])
            elif quads:
                new += [*quads, *page_metadata_quads(graph, page.versions, reserved)]
            lines = "\n".join(map(" ".join, (*statements, (), *inferred)))
            digest = xxh3_128_digest(lines.encode("utf-8", "surrogatepass"))
            written.append(_WrittenPage(page, row, statements, inferred, digest))
        if new:
            self._store.extend(new)
        return written, gone

    def _write_rows(self, removed: Sequence[StoredPage], written: Sequence[_WrittenPage]) -> None:
        many = self._connection.executemany
        many("DELETE FROM pages WHERE page = ?", [(row.page,) for row in removed])
        added = []
        for one in written:
            number = one.known.page if one.known is not None else self._next_page
            self._next_page += one.known is None
            added.append(StatedPage(number, one.statements, one.inferred))
        shares = self._entities.replace([(row.page, usage_counts.decode(row.share)) for row in removed], added)
        many(
            "INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (page.page, one.changed.key, one.changed.url, one.changed.versions[0].at, len(one.statements),
                 len(one.inferred), one.digest, self.generation, usage_counts.encode(share))
                for page, one, share in zip(added, written, shares, strict=True)
            ],
        )  # fmt: skip

    def _rows(self, keys: Sequence[UrlId]) -> dict[UrlId, StoredPage]:
        if not keys:
            return {}
        found = rows(
            self._connection,
            "SELECT id, page, digest, share FROM carray(?) one CROSS JOIN pages ON id = one.value",
            (apsw.carray(tuple(sorted(keys))),),
        )
        return {key: StoredPage(*row) for key, *row in found}

    def pages_after(self, page: int, limit: int) -> list[tuple[int, UrlId, str]]:
        """Pages with statements, in the order of their numbers."""
        sql = "SELECT page, id, url FROM pages WHERE page > ? ORDER BY page LIMIT ?"
        return rows(self._connection, sql, (page, limit))

    def urls(self, keys: Sequence[UrlId]) -> dict[UrlId, str]:
        """Those of these pages that have statements."""
        sql = "SELECT id, url FROM carray(?) one CROSS JOIN pages ON id = one.value"
        return dict(rows(self._connection, sql, (apsw.carray(tuple(keys)),))) if keys else {}

    def outdated(self, limit: int) -> list[tuple[UrlId, str]]:
        """Some pages that were written under another ontology."""
        sql = "SELECT id, url FROM pages WHERE ontology < ? LIMIT ?"
        return rows(self._connection, sql, (self.generation, limit))
