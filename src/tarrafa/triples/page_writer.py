"""PageWriter: writes the statements of a page into Oxigraph and its entities into SQLite.

Promises: the content of a page, in the store, in the counts and in the entity index, is that of the visit that counts;
a page without statements has no graph. The store is written first and the SQLite file afterwards, in a transaction of
its own, so that a kill in between only repeats work: the page is written again when its record is read again. Knows
nothing of cursors: the follower selects the changed pages.
"""

from collections.abc import Sequence
from typing import NamedTuple

import apsw
from pyoxigraph import Store
from xxhash import xxh3_128_digest

from tarrafa.model import UrlId
from tarrafa.parse.rdf.nquads import Statement
from tarrafa.runtime.sqlite import rows
from tarrafa.triples import named_graphs, usage_counts
from tarrafa.triples.entity_index import EntityIndex
from tarrafa.triples.ontology import EMPTY_ONTOLOGY, Ontology
from tarrafa.triples.page_versions import StoredVersion


class StoredPage(NamedTuple):
    """A page with statements, as stored in SQLite."""

    page: int
    url: str
    digest: bytes
    share: bytes


class PageWriter:
    """The writing side."""

    def __init__(self, store: Store, connection: apsw.Connection) -> None:
        self._store, self._connection = store, connection
        self._things = EntityIndex(connection)
        self.ontology: Ontology = EMPTY_ONTOLOGY
        self.generation = 0  # of the ontology: one that returns gets a new number, so that a kill leaves no doubt

    def write(self, key: UrlId, url: str, versions: Sequence[StoredVersion], text: str) -> bool:
        """Replace the content of a page; `versions`: its versions in the collections, the one that counts first.
        Whether it has statements, or had.
        """
        statements = named_graphs.statements_of(text, key) if versions else []
        graph = named_graphs.graph_of(url, key)
        known = self._row(key)
        if not statements:
            named_graphs.remove_page_graph(self._store, graph)
            if known is not None:
                self._remove(known)
            return known is not None
        inferred = self.ontology.infer(statements)
        quads = named_graphs.quads_of(statements, graph)
        quads += named_graphs.quads_of(inferred, named_graphs.inferred_graph_of(graph))
        named_graphs.write_page_graph(self._store, graph, [*quads, *named_graphs.page_metadata_quads(graph, versions)])
        self._note(known, key, url, versions[0].at, statements, inferred)
        return True

    def _note(
        self,
        known: StoredPage | None,
        key: UrlId,
        url: str,
        at: float,
        statements: list[Statement],
        inferred: list[Statement],
    ) -> None:
        lines = "\n".join(map(" ".join, (*statements, (), *inferred)))
        digest = xxh3_128_digest(lines.encode("utf-8", "surrogatepass"))
        run = self._connection.execute
        if known is not None and known.digest == digest:
            run("UPDATE pages SET at = ?, ontology = ? WHERE page = ?", (at, self.generation, known.page))
            return
        if known is not None:
            self._remove(known)
        number = known.page if known is not None else None
        run("INSERT INTO pages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (number, key, url, at, len(statements), len(inferred), digest, self.generation, b""))  # fmt: skip
        page = self._connection.last_insert_rowid()
        share = self._things.add_page(page, statements, inferred)
        run("UPDATE pages SET share = ? WHERE page = ?", (usage_counts.encode(share), page))

    def _remove(self, row: StoredPage) -> None:
        self._things.remove_page(row.page, usage_counts.decode(row.share))
        self._connection.execute("DELETE FROM pages WHERE page = ?", (row.page,))

    def _row(self, key: UrlId) -> StoredPage | None:
        found = rows(self._connection, "SELECT page, url, digest, share FROM pages WHERE id = ?", (key,))
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
