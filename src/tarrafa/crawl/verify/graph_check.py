"""Check of the link graph: each visited page has the newest visit of its record, and exactly the links of the newest
record that tells them (a 304 or a timeout does not).
"""

from collections.abc import Iterator
from contextlib import closing
from itertools import groupby

import apsw

from tarrafa.crawl.verify.archive_check import edges_digest
from tarrafa.crawl.verify.expected import GRAPH_BIT
from tarrafa.crawl.verify.findings import Finding
from tarrafa.crawl.verify.store_comparison import Comparison, Row, Suspect, damage_of, merged, read_in_steps
from tarrafa.graph.graph_writer import graph_file
from tarrafa.model import UrlId
from tarrafa.runtime.sqlite import rows

NODES_AT_ONCE = 50_000
STORED_NODES = (
    "SELECT n.id, n.collection, n.node, n.visit, n.status, n.url FROM nodes n"
    " WHERE (n.id, n.collection) > (?, ?) ORDER BY n.id, n.collection LIMIT ?"
)
EXPECTED_NODES = (
    "SELECT id, collection, max(visit), status, url FROM visit WHERE applied & ? GROUP BY id, collection"
    " ORDER BY id, collection"
)
EXPECTED_EDGES = (
    "SELECT edges FROM visit WHERE id = ? AND collection = ? AND visit <= ? AND applied & ?"
    " AND edges IS NOT NULL ORDER BY visit DESC LIMIT 1"
)
EDGES = (
    "SELECT nodes.id, edges.anchor, edges.rel, edges.hops FROM edges LEFT JOIN nodes ON nodes.node = edges.dst"
    " WHERE edges.src = ? ORDER BY edges.n"
)
WRONG_IN_LINKS = (
    "SELECT n.url, c.name, n.in_links, (SELECT count(DISTINCT src) FROM edges WHERE dst = n.node AND src <> n.node) AS"
    " counted FROM nodes n JOIN collections c USING (collection) WHERE n.node > ? AND n.node <= ?"
    " AND n.in_links <> counted"
)


class GraphCheck:
    """The check of one link graph."""

    def __init__(self, shared: Comparison, dropped: dict[str, float]) -> None:
        self._shared, self._dropped, self._file = shared, dropped, graph_file(shared.data)
        self._names: dict[int, str] = {}

    def _finding(self, kind: str, name: str, url: str, visit: int | None = None, detail: str = "") -> Finding:
        path = str(self._file.path.relative_to(self._shared.data.root))
        return Finding(kind, "graph", path, collection=name, url=url, visit=visit, detail=detail)

    def compare_counts(self) -> None:
        if damage := damage_of(self._file):
            self._shared.findings.add(self._finding("store-damaged", "", "", detail=damage))
            return
        with self._file.reading() as connection:
            sql = "SELECT (SELECT value FROM counters WHERE name = 'edges'), count(*) FROM edges"
            stated, counted = rows(connection, sql)[0]
        if stated != counted:
            detail = f"{stated:,} edges instead of {counted:,}"
            self._shared.findings.add(self._finding("counts-differ", "", "", detail=detail))

    def compare_nodes(self) -> None:
        """Compare the nodes with the newest records of their pages."""
        with self._file.reading() as connection:
            self._names = dict(rows(connection, "SELECT collection, name FROM collections"))
        with closing(self._file.open_readonly()) as connection, self._file.errors(connection):
            for expected, stored in merged(self._expected(), self._stored(), lambda group: group[0]):
                key = expected[0] if expected is not None else stored[0] if stored is not None else b""
                wanted, there = expected[1] if expected else {}, stored[1] if stored else {}
                for name in wanted.keys() | there.keys():
                    if not self._shared.is_unsettled(name, self._dropped):
                        self._compare_node(connection, key, wanted.get(name), there.get(name))

    def _expected(self) -> Iterator[tuple[UrlId, dict[str, Row]]]:
        found = self._shared.expected.connection.execute(EXPECTED_NODES, (GRAPH_BIT,))
        for key, group in groupby(found, key=lambda row: row[0]):
            yield key, {row[1]: row for row in group}

    def _stored(self) -> Iterator[tuple[UrlId, dict[str, Row]]]:
        found = read_in_steps(self._file, STORED_NODES, (b"", 0), lambda row: (row[0], row[1]))
        for key, group in groupby(found, key=lambda row: row[0]):
            yield key, {self._names.get(row[1], ""): row for row in group}

    def _compare_node(self, connection: apsw.Connection, key: UrlId, expected: Row | None, stored: Row | None) -> None:
        add = self._shared.findings.add
        if stored is None:
            if expected is not None:
                add(self._finding("page-missing", expected[1], expected[4], expected[2]))
            return
        name, node, visit, status, url = self._names.get(stored[1], ""), *stored[2:]
        newest = expected[2] if expected is not None else -1
        if visit > newest:
            finding = self._finding("page-extra", name, url, visit, f"its newest record is visit {newest}")
            if not self._shared.expected.has_visit(key, name, visit):
                self._shared.suspect(Suspect(key, name, visit, finding))
        elif expected is not None and visit < newest:
            add(self._finding("page-differs", name, url, newest, f"it has visit {visit}"))
        elif expected is not None and status != expected[3]:
            add(self._finding("page-differs", name, url, visit, f"its status is {status}, not {expected[3]}"))
        elif expected is not None:
            self._compare_edges(connection, key, node, expected)

    def _compare_edges(self, connection: apsw.Connection, key: UrlId, node: int, expected: Row) -> None:
        _, name, visit, _, url = expected
        found = self._shared.expected.connection.execute(EXPECTED_EDGES, (key, name, visit, GRAPH_BIT)).fetchone()
        with connection:  # node and edges of one moment
            if rows(connection, "SELECT visit FROM nodes WHERE node = ?", (node,)) != [(visit,)]:
                return
            edges = rows(connection, EDGES, (node,))
        wanted = found[0] if found is not None else edges_digest([])
        if edges_digest(edges) != wanted:
            finding = self._finding("edges-differ", name, url, visit, f"{len(edges)} links are stored")
            self._shared.findings.add(finding)

    def compare_in_links(self) -> None:
        with closing(self._file.open_readonly()) as connection, self._file.errors(connection):
            last = rows(connection, "SELECT coalesce(max(node), 0) FROM nodes")[0][0]
            for first in range(0, last, NODES_AT_ONCE):
                for url, name, stated, counted in rows(connection, WRONG_IN_LINKS, (first, first + NODES_AT_ONCE)):
                    detail = f"{stated} instead of {counted}"
                    self._shared.findings.add(self._finding("in-links-differ", name, url, detail=detail))
