"""GraphWriter: applies one visit to the link graph (edges, in-link counts, depths) and commits batches.

Promises: the graph after a batch equals its records applied one after the other: a newer visit replaces the outlinks of
a page exactly, one that is not newer changes nothing; in-link counts are exact; a lower depth is propagated along all
known edges. Data and cursor are committed together, so that a crash at any moment repeats work and never counts twice.
A node whose last visit was made by an external crawler is owned by that crawler, and gets a new stamp whenever its
in-links change. Knows nothing of loops, processes or deliveries.
"""

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import apsw
import msgspec

from tarrafa.archive.projection import ProjectionState
from tarrafa.archive.warc_reader import ArchiveEntry, Cursor
from tarrafa.frontier.messages import UrlWeight
from tarrafa.model import GONE, REDIRECTS, CollectionNote, Link, Status, UrlId, VisitRecord
from tarrafa.parse.url import canonical, host_id, host_key, url_id
from tarrafa.runtime.sqlite import rows

NODES_CACHED_MAX = 150_000
EDGES_PER_BATCH_MAX = 50_000  # a host of link lists must not fill the memory
RELAXED_MAX = 200_000  # edges followed per batch to propagate depths; the rest waits in `falling`
TITLE_CHARS_MAX = 300
DROPPED_AT_ONCE = 2_000  # nodes
REDIRECT = "redirect"
LEADS_NOWHERE = GONE | {Status.NOT_FOUND_AGAIN}
ANCHOR_CHARS_MAX = 300
REL_CHARS_MAX = 100
EDGES_PER_PAGE_MAX = 20_000  # far above the limit of the parser


class OutEdge(NamedTuple):
    """One outlink or redirect. `hops` is its increase of depth: 1 for a link, 0 for a redirect, None for one that is
    not followed (the page or the link says so, or the redirect chain was too long)."""

    url: str
    anchor: str
    rel: str
    hops: int | None


def out_edges(record: VisitRecord) -> list[OutEdge] | None:
    """The out-edges of this visit, or None: it saw none, and the known ones stay.

    A page that is gone (404, 410; the first time there may be grace), or that its collection has not found again, has
    no edges; any other failure is temporary, and changes nothing.
    """
    outcome, page = record.outcome, record.page
    edges: list[OutEdge] = []
    target = canonical(outcome.location, record.url) if outcome.location else None
    if target is not None:
        # not at the end of a redirect chain that was too long
        walked = outcome.status in REDIRECTS or outcome.status == 200
        edges.append(OutEdge(target, "", REDIRECT, 0 if walked else None))
    if page is not None:
        edges.extend(_edge(link, page.robots.nofollow) for link in page.links[:EDGES_PER_PAGE_MAX])
    elif target is None and (outcome.grace or outcome.status not in LEADS_NOWHERE):
        return None
    return edges


def _edge(link: Link, page_nofollow: bool) -> OutEdge:
    rel = link.rel[:REL_CHARS_MAX].lower() if link.rel else ""
    walked = not page_nofollow and link.is_followed
    return OutEdge(link.url, link.anchor[:ANCHOR_CHARS_MAX], rel, 1 if walked else None)


@dataclass(slots=True, eq=False)
class _NodeState:
    """The state of a node that is needed to change it. Depth None: not reached by a followed link."""

    number: int
    depth: int | None = None
    frontier_depth: int | None = None  # that the frontier knows
    in_links: int = 0
    visit: int = -1
    owner: int | None = None
    stamp: int | None = None
    status: int | None = None  # None: never visited


class _SuffixNetwork(msgspec.Struct):
    suffixes: tuple[str, ...] = ()


class _SuffixConfig(msgspec.Struct):
    """The part of a collection's configuration that defines its sites."""

    network: _SuffixNetwork = msgspec.field(default_factory=_SuffixNetwork)


def _lower(old: int | None, new: int) -> bool:
    return old is None or new < old


def _undelivered_depth(depth: int | None, frontier_depth: int | None) -> int:
    """A depth to deliver to the frontier; -1: nothing new."""
    return depth if depth is not None and _lower(frontier_depth, depth) else -1


class GraphWriter:
    """The writing side. Nodes in use are kept in memory and written when the batch is committed."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.state = ProjectionState(connection)
        self._load()

    def _load(self) -> None:
        """Load the counters from the disk."""
        counters: dict[str, int] = dict(self._rows("SELECT name, value FROM counters"))
        last = self._rows("SELECT max(node) FROM nodes")[0][0] or 0
        # a deleted collection may have had higher numbers
        self._next_node: int = 1 + max(last, counters.get("numbered", 0))
        self._collections: dict[str, int] = dict(self._rows("SELECT name, collection FROM collections"))
        self._owners: dict[str, int] = dict(self._rows("SELECT name, owner FROM owners"))
        self.state.load()
        self._stamp, self.turned, self.incarnation = (counters[name] for name in ("stamp", "turned", "incarnation"))
        self._by_id: dict[tuple[int, UrlId], _NodeState] = {}
        self._by_number: dict[int, _NodeState] = {}
        self._new: list[tuple[int, UrlId, int, str, int]] = []
        self._changed: set[_NodeState] = set()
        self._visited: list[tuple[int, float, str | None, int | None, int | None, int]] = []
        self._dirty: set[int] = set()
        self._edges_added = self._edges_removed = 0
        self._falling: deque[_NodeState] = deque()
        self._relaxed = 0

    def commit(self, entries: Iterator[ArchiveEntry], records_max: int) -> int:
        """Apply a limited number of records and save the cursor, in one transaction; the number of records."""
        cursor: Cursor = {}
        records = 0
        try:
            with self._connection:
                self._resume_falling()
                for entry in entries:
                    self._apply(entry)
                    cursor[entry.file] = entry.end
                    records += 1
                    if records >= records_max or self._edges_added >= EDGES_PER_BATCH_MAX:
                        break
                self._flush()
                self.state.save_cursor(cursor)
        except BaseException:
            self._load()  # the state in memory was never written
            raise
        self.state.cursor |= cursor
        if len(self._by_number) > NODES_CACHED_MAX:
            self._load()
        return records

    def _rows(self, sql: str, bindings: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        return rows(self._connection, sql, bindings)

    def drop_collection(self, name: str, at: float) -> None:
        """Delete the nodes and edges of a collection that was deleted at that moment, some at a time. No edge leads
        from one collection to another. After a kill in between it is repeated.
        """
        number, last, gone = self._collections.get(name, 0), 0, True
        while gone:
            with self._connection:
                sql = "SELECT node FROM nodes WHERE node > ? AND collection = ? ORDER BY node LIMIT ?"
                nodes = [node for (node,) in self._rows(sql, (last, number, DROPPED_AT_ONCE))]
                gone, last = bool(nodes), nodes[-1] if nodes else last
                self._drop_nodes(nodes)
                if not gone:
                    self.state.note_dropped(name, at)
        self._load()

    def _drop_nodes(self, nodes: list[int]) -> None:
        many, edges = self._connection.executemany, 0
        for node in nodes:
            self._connection.execute("DELETE FROM edges WHERE src = ?", (node,))
            edges += self._connection.changes()
        for table in ("dirty", "falling", "nodes"):
            many(f"DELETE FROM {table} WHERE node = ?", ((node,) for node in nodes))  # noqa: S608
        many(
            "UPDATE counters SET value = value + ? WHERE name = ?",
            ((-edges, "edges"), (edges + len(nodes), "turned")),
        )
        self._connection.execute(
            "INSERT INTO counters VALUES ('numbered', ?) ON CONFLICT DO UPDATE SET value = max(value, excluded.value)",
            (self._next_node - 1,),
        )

    # -- one record ------------------------------------------------------------------------------------------------

    def _apply(self, entry: ArchiveEntry) -> None:
        record = entry.record
        if record.outcome.at <= self.state.dropped.get(record.collection, -1.0):
            return
        collection = self._collection(record.collection)
        node = self._node(collection, record.url)
        if record.visit <= node.visit:
            return
        known_before = node.visit >= 0
        node.visit = record.visit
        self._set_owner(node, record.worker)
        outcome, page = record.outcome, record.page
        self.turned += node.status != outcome.status
        node.status = outcome.status
        title = page.title[:TITLE_CHARS_MAX] if page is not None else None
        tells = page is not None and (entry.has_text or outcome.status == Status.NOT_STRUCTURED)  # its data explain it
        where = (self.state.file_number(entry.file), entry.start) if tells else (None, None)
        self._visited.append((outcome.status, outcome.at, title, *where, node.number))
        self._changed.add(node)
        if _lower(node.frontier_depth, record.depth):
            node.frontier_depth = record.depth
        self._reach(node, record.depth)
        edges = out_edges(record)
        if edges is not None:
            self._replace(collection, node, edges, record.depth, known_before)
        self._propagate_depths()

    def _replace(self, collection: int, node: _NodeState, edges: list[OutEdge], handed_depth: int, known: bool) -> None:
        """Replace the outlinks of a node, and update the in-links of their targets.

        The worker has already sent each target to the frontier, with the depth of the visit: the frontier knows that
        much (`frontier_depth`). Only a lower depth is news.
        """
        source = node.number
        ways: set[tuple[int, bool]] = set()
        if known:
            targets = self._rows("DELETE FROM edges WHERE src = ? RETURNING dst, hops IS NOT NULL", (source,))
            ways.update(targets)
            self._edges_removed += len(targets)
        old = {target for target, _ in ways}
        added, new, turned = [], set(), set()
        for place, edge in enumerate(edges):
            target = self._node(collection, edge.url)
            added.append((source, place, target.number, edge.anchor, edge.rel, edge.hops))
            new.add(target.number)
            turned.add((target.number, edge.hops is not None))
            if edge.hops is not None:
                if _lower(target.frontier_depth, handed_depth + edge.hops):
                    target.frontier_depth = handed_depth + edge.hops
                    self._changed.add(target)
                assert node.depth is not None, "a visited node was handed out with a depth"
                self._reach(target, node.depth + edge.hops)
        self._connection.executemany("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?)", added)
        self._edges_added += len(added)
        self.turned += len(ways ^ turned)
        self._count(old - new - {source}, -1)
        self._count(new - old - {source}, +1)

    def _count(self, targets: set[int], by: int) -> None:
        for number in targets:
            target = self._numbered(number)
            target.in_links += by
            self._changed.add(target)
            self._stamped(target)
        self._dirty |= targets

    # -- owners ----------------------------------------------------------------------------------------------------

    def _set_owner(self, node: _NodeState, name: str) -> None:
        """Set the external crawler that owns the node; an empty name: no owner."""
        owner = self._owners.get(name) if name else None
        if name and owner is None:
            owner = self._owners[name] = len(self._owners) + 1
            self._connection.execute("INSERT INTO owners VALUES (?, ?)", (owner, name))
        if owner != node.owner:
            node.owner, node.stamp = owner, None
            self._stamped(node)

    def _stamped(self, node: _NodeState) -> None:
        if node.owner is not None:
            self._stamp += 1
            node.stamp = self._stamp

    # -- depths ----------------------------------------------------------------------------------------------------

    def _reach(self, node: _NodeState, depth: int) -> None:
        """The node can be reached in `depth` hops."""
        if not _lower(node.depth, depth):
            return
        node.depth = depth
        self._changed.add(node)
        if _lower(node.frontier_depth, depth):
            self._dirty.add(node.number)
        if node.visit >= 0:
            self._falling.append(node)

    def _propagate_depths(self) -> None:
        """Propagate lower depths along the known edges. Depths only fall, so this ends even with loops.

        Known weakness: a depth never rises again when the path that gave it disappears; nor does it in the frontier.
        """
        sql = "SELECT dst, hops FROM edges WHERE src = ? AND hops IS NOT NULL"
        while self._falling and self._relaxed < RELAXED_MAX:
            node = self._falling.popleft()
            assert node.depth is not None
            for target, hops in self._rows(sql, (node.number,)):
                self._reach(self._numbered(target), node.depth + hops)
                self._relaxed += 1

    def _resume_falling(self) -> None:
        self._relaxed = 0
        waiting = self._rows("DELETE FROM falling RETURNING node")
        self._falling.extend(self._numbered(number) for (number,) in waiting)
        self._propagate_depths()

    # -- nodes -----------------------------------------------------------------------------------------------------

    def _collection(self, name: str) -> int:
        found = self._collections.get(name)
        if found is None:
            found = self._collections[name] = len(self._collections) + 1
            self._connection.execute("INSERT INTO collections (collection, name) VALUES (?, ?)", (found, name))
        return found

    def note_suffixes(self, note: CollectionNote) -> None:
        """Store the public suffixes of the collection for the visits that follow: they define its sites."""
        with suppress(msgspec.MsgspecError):
            suffixes = msgspec.json.decode(note.config, type=_SuffixConfig).network.suffixes
            self._connection.execute(
                "UPDATE collections SET suffixes = ? WHERE collection = ?",
                (msgspec.json.encode(suffixes).decode(), self._collection(note.collection)),
            )

    def _node(self, collection: int, url: str) -> _NodeState:
        key = (collection, url_id(url))
        node = self._by_id.get(key)
        if node is not None:
            return node
        sql = (
            "SELECT node, depth, told, in_links, visit, owner, stamp, status FROM nodes WHERE id = ? AND collection = ?"
        )
        found = self._rows(sql, (key[1], collection))
        if not found:
            node = _NodeState(self._next_node)
            self._next_node += 1
            self.turned += 1
            self._new.append((node.number, key[1], collection, url, host_id(host_key(url))))
        else:
            node = self._by_number.get(found[0][0]) or _NodeState(*found[0])
        self._by_id[key] = self._by_number[node.number] = node
        return node

    def _numbered(self, number: int) -> _NodeState:
        node = self._by_number.get(number)
        if node is None:
            sql = "SELECT node, depth, told, in_links, visit, owner, stamp, status FROM nodes WHERE node = ?"
            node = self._by_number[number] = _NodeState(*self._rows(sql, (number,))[0])
        return node

    def _flush(self) -> None:
        many = self._connection.executemany
        many("INSERT INTO nodes (node, id, collection, url, host) VALUES (?, ?, ?, ?, ?)", self._new)
        many(
            "UPDATE nodes SET depth = ?, told = ?, in_links = ?, visit = ?, owner = ?, stamp = ? WHERE node = ?",
            ((n.depth, n.frontier_depth, n.in_links, n.visit, n.owner, n.stamp, n.number) for n in self._changed),
        )
        many(
            "UPDATE nodes SET status = ?, visited_at = ?, title = coalesce(?, title), file = coalesce(?, file),"
            " place = coalesce(?, place) WHERE node = ?",
            self._visited,
        )
        many("INSERT OR IGNORE INTO dirty VALUES (?)", ((number,) for number in sorted(self._dirty)))
        many("INSERT OR IGNORE INTO falling VALUES (?)", ((node.number,) for node in self._falling))
        balance = self._edges_added - self._edges_removed
        self._connection.execute("UPDATE counters SET value = value + ? WHERE name = 'edges'", (balance,))
        many("UPDATE counters SET value = ? WHERE name = ?", ((self._stamp, "stamp"), (self.turned, "turned")))
        self._new, self._visited, self._edges_added, self._edges_removed = [], [], 0, 0
        self._changed, self._dirty = set(), set()
        self._falling.clear()

    # -- deliveries to the frontier --------------------------------------------------------------------------------

    def undelivered_weights(self, limit: int) -> list[tuple[str, int, UrlWeight]]:
        """A limited number of (collection, node, weight) that the frontier does not know yet, sorted as it keeps
        them.
        """
        return self.weights([node for (node,) in self._rows("SELECT node FROM dirty LIMIT ?", (limit,))])

    def weights(self, nodes: list[int]) -> list[tuple[str, int, UrlWeight]]:
        """The weights of these nodes to deliver."""
        found = self._rows(
            f"""SELECT c.name, n.node, n.host, n.id, n.in_links, n.depth, n.told, n.url
                FROM nodes n JOIN collections c USING (collection)
                WHERE n.node IN ({", ".join(map(str, nodes))}) ORDER BY c.collection, n.host, n.id"""  # noqa: S608
        )
        return [
            (name, node, UrlWeight(host, key, in_links, _undelivered_depth(depth, known), host_key(url)))
            for name, node, host, key, in_links, depth, known, url in found
        ]

    def mark_delivered(self, nodes: list[int]) -> None:
        """Mark these as known to the frontier."""
        with self._connection:
            many = self._connection.executemany
            many("DELETE FROM dirty WHERE node = ?", ((node,) for node in nodes))
            many(
                "UPDATE nodes SET told = depth WHERE node = ? AND coalesce(told > depth, 1)",
                ((node,) for node in nodes),
            )
        for number in nodes:
            node = self._by_number.get(number)
            if node is not None and node.depth is not None and _lower(node.frontier_depth, node.depth):
                node.frontier_depth = node.depth

    def has_falling_depths(self) -> bool:
        return bool(self._rows("SELECT EXISTS (SELECT 1 FROM falling)")[0][0])
