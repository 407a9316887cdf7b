"""Graph writer: the tables of the link graph; applies visits (edges, in-link counts, depths) and commits batches.

Promises: the graph after a batch equals its records applied one after the other: a newer visit replaces the outlinks of
a page exactly, one that is not newer changes nothing; in-link counts are exact; a lower depth is propagated along all
known edges. Data and cursor are committed together, so that a crash at any moment repeats work and never counts twice.
One process writes, any number read at the same time (WAL). Knows nothing of loops, processes or deliveries.

A URL of a collection is a *node* with a small number, counted upwards and never reused: edges of numbers take a quarter
of the space of edges of 128-bit ids, and are ready for arrays. A node whose newest visit was made by an external
crawler is owned by that crawler, and gets the next stamp whenever its in-links change: a client that has read up to a
stamp finds all later changes by it. Stamps of another `incarnation` (the graph was rebuilt) are invalid. `turned`
counts the links that came or went, the nodes that came, and their changes of status: results computed from the graph
are current while it is unchanged.
"""

from array import array
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple

import apsw
import msgspec

from tarrafa.archive.projection import STATE_SCHEMA, ProjectionState, lock_projection
from tarrafa.archive.warc_reader import ArchiveEntry, Cursor
from tarrafa.errors import NotReady
from tarrafa.frontier.messages import UrlWeight
from tarrafa.i18n import message
from tarrafa.model import GONE, REDIRECTS, CollectionNote, Status, UrlId, VisitRecord
from tarrafa.parse.url import canonical, host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile, rows

NODES_CACHED_MAX = 150_000
LOOKED_UP_AT_ONCE = 64  # records whose nodes are looked up together
LINKS_LOOKED_UP_MAX = 5_000  # of these records; the last one may have more
EDGES_PER_BATCH_MAX = 50_000  # a host of link lists must not fill the memory
RELAXED_MAX = 200_000  # edges followed per batch to propagate depths; the rest waits in `falling`
TITLE_CHARS_MAX = 300
DROPPED_AT_ONCE = 2_000  # nodes
REDIRECT = "redirect"
LEADS_NOWHERE = GONE | {Status.NOT_FOUND_AGAIN}
ANCHOR_CHARS_MAX = 300
REL_CHARS_MAX = 100
NODE_BYTES = 8  # of a node in a row of `undelivered`
UNDELIVERED_READ_MAX = 100  # rows
MARKED_AT_ONCE = 50_000  # nodes in one row
NO_DEPTH = 1 << 40  # not reached by a followed link; NULL in the file
NODE_COLUMNS = (
    f"node, ifnull(depth, {NO_DEPTH}), ifnull(depth_sent, {NO_DEPTH}), in_links, visit, told, owner, stamp, status"
)
EDGES_PER_PAGE_MAX = 20_000  # far above the limit of the parser
FORMAT = 6
# computed from the graph: see ranking_process.py and rank_file.py
DERIVED_FILES = ("ranks.f32", "ranks_sent.f32", "sites.sqlite")
CACHE_KIB = 64 << 10
LOG_PAGES = 8_000  # 32 MB of write-ahead log before it is copied into the file: most pages are written again and again
MAPPED_BYTES = 1 << 36  # that may be read without copying; takes no memory of its own

SCHEMA = (
    STATE_SCHEMA
    + """
CREATE TABLE collections (
    collection INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    suffixes   TEXT NOT NULL DEFAULT '[]'      -- that its configuration adds to the list
);
CREATE TABLE nodes (
    node       INTEGER PRIMARY KEY,
    id         BLOB NOT NULL,
    collection INTEGER NOT NULL,
    url        TEXT NOT NULL,
    host       INTEGER NOT NULL,
    depth      INTEGER,                        -- NULL: reached by links that are not walked only
    depth_sent INTEGER,                        -- the depth that the frontier knows
    in_links   INTEGER NOT NULL DEFAULT 0,     -- distinct other URLs that link here
    visit      INTEGER NOT NULL DEFAULT -1,    -- the newest visit applied
    told       INTEGER NOT NULL DEFAULT -1,    -- the newest of them that told its links, such as no 304
    status     INTEGER,
    visited_at REAL,
    title      TEXT,
    owner      INTEGER,                        -- who made that visit; NULL: one of our own workers
    stamp      INTEGER,                        -- of an owned node: when its in-links or its owner changed last
    file       INTEGER,                        -- where the archive has its newest text, and from which byte on
    place      INTEGER
);
CREATE UNIQUE INDEX nodes_by_id ON nodes (id, collection);
CREATE TABLE edges (                           -- n: the link's place on its page
    src INTEGER, n INTEGER, dst INTEGER NOT NULL, anchor TEXT NOT NULL, rel TEXT NOT NULL, hops INTEGER,
    PRIMARY KEY (src, n)
) WITHOUT ROWID;
CREATE TABLE undelivered (                     -- nodes that the frontier does not know yet: 64 bits each
    number INTEGER PRIMARY KEY, collection INTEGER NOT NULL, nodes BLOB NOT NULL
);
CREATE TABLE falling (node INTEGER PRIMARY KEY); -- its depth fell, its targets do not know yet
CREATE TABLE counters (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE owners (owner INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE INDEX nodes_by_owner ON nodes (owner, stamp) WHERE owner IS NOT NULL;
-- With `hops` in the index, all that ranks are made of is read in one pass over it, in the order in which it is needed.
CREATE INDEX edges_by_target ON edges (dst, src, hops);
INSERT INTO counters VALUES ('edges', 0), ('stamp', 0), ('turned', 0), ('incarnation', abs(random() >> 1));
"""
)


# -- the file ----------------------------------------------------------------------------------------------------------


def path_of(data: DataDirectory) -> Path:
    return data.graph / "graph.sqlite"


def graph_file(data: DataDirectory) -> SqliteFile:
    return SqliteFile(path_of(data), FORMAT, message("`tarrafa rebuild graph` makes it again from the archive"))


def open_writer(data: DataDirectory) -> apsw.Connection:
    """The one connection that writes; the caller holds the lock. The cursor is in the same transaction as the data: a
    transaction that a power cut has lost is replayed.
    """
    connection = graph_file(data).open(SCHEMA, cache_kib=CACHE_KIB)
    connection.pragma("wal_autocheckpoint", LOG_PAGES)
    return connection


def open_reader(data: DataDirectory) -> apsw.Connection:
    if not graph_exists(data):
        raise NotReady(message("{path}: no link graph yet; `tarrafa crawl FILE` makes one", path=path_of(data)))
    connection = graph_file(data).open_readonly()
    connection.pragma("mmap_size", MAPPED_BYTES)
    return connection


def graph_exists(data: DataDirectory) -> bool:
    """Whether there is a graph: the follower may have created the file and not yet its tables."""
    return graph_file(data).found_format() > 0


def graph_is_current(data: DataDirectory) -> bool:
    """Whether there is a graph of the present format."""
    return graph_file(data).found_format() == FORMAT


def writer_lock(data: DataDirectory) -> IO[bytes]:
    """One writing process at a time; a second one would count every link twice."""
    return lock_projection(data.graph, "link graph")


def remove_graph(data: DataDirectory) -> None:
    """Delete the graph; it can be rebuilt from the archive. The caller holds the lock."""
    for name in DERIVED_FILES:
        (data.graph / name).unlink(missing_ok=True)
    graph_file(data).remove()


# -- visits ------------------------------------------------------------------------------------------------------------


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
        follows = not page.robots.nofollow
        edges += [
            OutEdge(
                link.url,
                link.anchor[:ANCHOR_CHARS_MAX],
                link.rel[:REL_CHARS_MAX].lower() if link.rel else "",
                1 if follows and (not link.rel or link.is_followed) else None,
            )
            for link in page.links[:EDGES_PER_PAGE_MAX]
        ]
    elif target is None and (outcome.grace or outcome.status not in LEADS_NOWHERE):
        return None
    return edges


@dataclass(slots=True, eq=False)
class _NodeState:
    """The state of a node that is needed to change it."""

    number: int
    depth: int = NO_DEPTH
    frontier_depth: int = NO_DEPTH  # that the frontier knows
    in_links: int = 0
    visit: int = -1
    told: int = -1
    owner: int | None = None
    stamp: int | None = None
    status: int | None = None  # None: never visited


class _SuffixNetwork(msgspec.Struct):
    suffixes: tuple[str, ...] = ()


class _SuffixConfig(msgspec.Struct):
    """The part of a collection's configuration that defines its sites."""

    network: _SuffixNetwork = msgspec.field(default_factory=_SuffixNetwork)


class _Visit(NamedTuple):
    """A record, the number of its collection (0: it was deleted), and the URL ids of its page and of its out-edges."""

    entry: ArchiveEntry
    collection: int
    id: UrlId
    edges: list[OutEdge] | None
    targets: list[UrlId]


RankOf = Callable[[int], float]


class WeightBatch(NamedTuple):
    """Weights of one collection for the frontier, with their nodes. `read`: the rows of `undelivered` that they came
    from, with the nodes of each that are left."""

    collection: str
    nodes: list[int]
    weights: list[UrlWeight]
    read: list[tuple[bytes, int]]


def mark_nodes_undelivered(connection: apsw.Connection) -> int:
    """Mark all nodes as undelivered, each once; their number."""
    connection.execute("DELETE FROM undelivered")
    marked = 0
    for (collection,) in rows(connection, "SELECT collection FROM collections"):
        last, sql = 0, "SELECT node FROM nodes WHERE node > ? AND collection = ? ORDER BY node LIMIT ?"
        while nodes := array("q", (node for (node,) in connection.execute(sql, (last, collection, MARKED_AT_ONCE)))):
            connection.execute(
                "INSERT INTO undelivered (collection, nodes) VALUES (?, ?)", (collection, nodes.tobytes())
            )
            last, marked = nodes[-1], marked + len(nodes)
    return marked


class GraphWriter:
    """The writing side. Nodes in use are kept in memory and written when the batch is committed."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self.state = ProjectionState(connection)
        self._delivers = True
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
        self._by_id: defaultdict[int, dict[UrlId, _NodeState]] = defaultdict(dict)
        self._by_number: dict[int, _NodeState] = {}
        self._new: list[tuple[_NodeState, UrlId, int, str]] = []
        self._changed: set[_NodeState] = set()
        self._visited: list[tuple[int, float, str | None, int | None, int | None, int]] = []
        self._owners_changed: set[_NodeState] = set()  # owner or stamp
        self._undelivered: defaultdict[int, set[int]] = defaultdict(set)  # nodes of each collection
        self._edges_added = self._edges_removed = 0
        self._falling: deque[tuple[_NodeState, int]] = deque()  # with their collections
        self._relaxed = 0

    def advance(self, cursor: Cursor) -> None:
        """Move the cursor beyond the last record, over records that concern no page."""
        if any(self.state.cursor.get(file, 0) < end for file, end in cursor.items()):
            with self._connection:
                self.state.save_cursor(cursor)
            self.state.cursor |= cursor

    def commit(self, entries: Iterator[ArchiveEntry], records_max: int) -> int:
        """Apply a limited number of records and save the cursor, in one transaction; the number of records."""
        cursor: Cursor = {}
        records = 0
        try:
            with self._connection:
                self._resume_falling()
                while records < records_max and self._edges_added < EDGES_PER_BATCH_MAX:
                    visits = self._next_visits(entries, min(LOOKED_UP_AT_ONCE, records_max - records))
                    for visit in visits:
                        self._apply(visit)
                        cursor[visit.entry.file] = visit.entry.end
                    if not visits:
                        break
                    records += len(visits)
                self._flush()
                self.state.save_cursor(cursor)
        except BaseException:
            self._load()  # the state in memory was never written
            raise
        self.state.cursor |= cursor
        if len(self._by_number) > NODES_CACHED_MAX:
            self._load()
        return records

    def _next_visits(self, entries: Iterator[ArchiveEntry], limit: int) -> list[_Visit]:
        """The next records, with all nodes that they name in memory, as far as these are known."""
        visits: list[_Visit] = []
        wanted: defaultdict[int, set[UrlId]] = defaultdict(set)
        links = 0
        links_max = min(LINKS_LOOKED_UP_MAX, EDGES_PER_BATCH_MAX - self._edges_added)
        while len(visits) < limit and links < links_max and (entry := next(entries, None)) is not None:
            record, edges = entry.record, out_edges(entry.record)
            is_dropped = record.outcome.at <= self.state.dropped.get(record.collection, -1.0)
            collection = 0 if is_dropped else self._collection(record.collection)
            visit = _Visit(entry, collection, url_id(record.url), edges, [url_id(edge.url) for edge in edges or ()])
            visits.append(visit)
            links += len(visit.targets)
            wanted[collection].add(visit.id)
            wanted[collection].update(visit.targets)
        for collection, ids in wanted.items():
            self._look_up(collection, ids)
        return visits

    def _look_up(self, collection: int, ids: set[UrlId]) -> None:
        """Load those of the nodes that are known and not in memory. Most are new: this costs 0.5 us for each of these,
        and a query for each would cost 2.
        """
        known = self._by_id[collection]
        missing = tuple(sorted(ids - known.keys()))
        if missing:
            found = self._rows(
                f"SELECT id, {NODE_COLUMNS} FROM carray(?) one CROSS JOIN nodes"  # noqa: S608
                " ON id = one.value AND collection = ?",
                (apsw.carray(missing), collection),
            )
            for key, *values in found:
                node = self._by_number.get(values[0]) or _NodeState(*values)
                known[key] = self._by_number[node.number] = node

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
                    self._connection.execute("DELETE FROM undelivered WHERE collection = ?", (number,))
                    self.state.note_dropped(name, at)
        self._load()

    def _drop_nodes(self, nodes: list[int]) -> None:
        many, edges = self._connection.executemany, 0
        for node in nodes:
            self._connection.execute("DELETE FROM edges WHERE src = ?", (node,))
            edges += self._connection.changes()
        for table in ("falling", "nodes"):
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

    def _apply(self, visit: _Visit) -> None:
        entry, collection, key, edges, targets = visit
        """A visit that is older than the newest one, in a file that is read later, still tells the links of its page if
        the newer ones did not."""
        record = entry.record
        if not collection:
            return
        node = self._node(collection, key, record.url)
        is_newest, tells_links = record.visit > node.visit, edges is not None and record.visit > node.told
        if not is_newest and not tells_links:
            return
        outcome, page = record.outcome, record.page
        if is_newest:
            if node.visit < 0 and node.in_links > (not record.redirects):
                # Weights that came before the URL itself were ignored. A linked URL began with one in-link there, the
                # target of a redirect with none.
                self._undelivered[collection].add(node.number)
            node.visit = record.visit
            self._set_owner(node, record.worker)
            self.turned += node.status != outcome.status
            node.status = outcome.status
        title = page.title[:TITLE_CHARS_MAX] if page is not None else None
        tells = page is not None and (entry.has_text or outcome.status == Status.NOT_STRUCTURED)  # its data explain it
        where = (self.state.file_number(entry.file), entry.start) if tells else (None, None)
        seen = (outcome.status, outcome.at) if is_newest else (None, None)
        self._visited.append((*seen, title, *where, node.number))
        self._changed.add(node)
        node.frontier_depth = min(node.frontier_depth, record.depth)
        if edges is None or not tells_links:
            self._reach(node, record.depth, collection)
        else:
            node.depth, known_before, node.told = min(node.depth, record.depth), node.told >= 0, record.visit
            self._replace(collection, node, list(zip(targets, edges, strict=True)), record.depth, known_before)
        self._propagate_depths()

    def _replace(
        self, collection: int, node: _NodeState, edges: list[tuple[UrlId, OutEdge]], handed_depth: int, known: bool
    ) -> None:
        """Replace the outlinks of a node, and update the in-links of their targets.

        The worker has already sent each target to the frontier, with the depth of the visit: the frontier knows that
        much (`frontier_depth`). Only a lower depth is news.
        """
        source = node.number
        ways: set[tuple[int, bool]] = set()
        if known:
            removed = self._rows("DELETE FROM edges WHERE src = ? RETURNING dst, hops IS NOT NULL", (source,))
            ways.update(removed)
            self._edges_removed += len(removed)
        old = {target for target, _ in ways}
        added: list[tuple[int, int, int, str, str, int | None]] = []
        new: dict[int, _NodeState] = {}
        turned: set[tuple[int, bool]] = set()
        nodes = self._by_id[collection]
        for place, (key, (url, anchor, rel, hops)) in enumerate(edges):
            target = nodes.get(key) or self._node(collection, key, url)
            number = target.number
            added.append((source, place, number, anchor, rel, hops))
            new[number] = target
            turned.add((number, hops is not None))
            if hops is not None:
                if handed_depth + hops < target.frontier_depth:
                    target.frontier_depth = handed_depth + hops
                    self._changed.add(target)
                if node.depth + hops < target.depth:
                    self._reach(target, node.depth + hops, collection)
        self._connection.executemany("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?)", added)
        self._edges_added += len(added)
        self.turned += len(ways ^ turned)
        self._count([self._numbered(number) for number in old - new.keys() - {source}], -1, collection)
        self._count([target for number, target in new.items() if number not in old and number != source], 1, collection)

    def _count(self, targets: list[_NodeState], by: int, collection: int) -> None:
        for target in targets:
            target.in_links += by
            if target.owner is not None:
                self._stamped(target)
        self._changed.update(targets)
        self._undelivered[collection].update([target.number for target in targets])

    # -- owners ----------------------------------------------------------------------------------------------------

    def _set_owner(self, node: _NodeState, name: str) -> None:
        """Set the external crawler that owns the node; an empty name: no owner."""
        owner = self._owners.get(name) if name else None
        if name and owner is None:
            owner = self._owners[name] = len(self._owners) + 1
            self._connection.execute("INSERT INTO owners VALUES (?, ?)", (owner, name))
        if owner != node.owner:
            node.owner, node.stamp = owner, None
            self._owners_changed.add(node)
            self._stamped(node)

    def _stamped(self, node: _NodeState) -> None:
        if node.owner is not None:
            self._stamp += 1
            node.stamp = self._stamp
            self._owners_changed.add(node)

    # -- depths ----------------------------------------------------------------------------------------------------

    def _reach(self, node: _NodeState, depth: int, collection: int) -> None:
        """The node can be reached in `depth` hops."""
        if depth >= node.depth:
            return
        node.depth = depth
        self._changed.add(node)
        if depth < node.frontier_depth:
            self._undelivered[collection].add(node.number)
        if node.visit >= 0:
            self._falling.append((node, collection))

    def _propagate_depths(self) -> None:
        """Propagate lower depths along the known edges. Depths only fall, so this ends even with loops.

        Known weakness: a depth never rises again when the path that gave it disappears; nor does it in the frontier.
        """
        sql = "SELECT dst, hops FROM edges WHERE src = ? AND hops IS NOT NULL"
        while self._falling and self._relaxed < RELAXED_MAX:
            node, collection = self._falling.popleft()
            for target, hops in self._rows(sql, (node.number,)):
                self._reach(self._numbered(target), node.depth + hops, collection)
                self._relaxed += 1

    def _resume_falling(self) -> None:
        self._relaxed = 0
        sql = "DELETE FROM falling RETURNING node, (SELECT collection FROM nodes WHERE nodes.node = falling.node)"
        self._falling.extend((self._numbered(number), collection) for number, collection in self._rows(sql))
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

    def _node(self, collection: int, key: UrlId, url: str) -> _NodeState:
        """A node that was looked up, or a new one."""
        node = self._by_id[collection].get(key)
        if node is None:
            node = self._by_id[collection][key] = self._by_number[self._next_node] = _NodeState(self._next_node)
            self._next_node += 1
            self.turned += 1
            self._new.append((node, key, collection, url))
        return node

    def _numbered(self, number: int) -> _NodeState:
        node = self._by_number.get(number)
        if node is None:
            sql = f"SELECT {NODE_COLUMNS} FROM nodes WHERE node = ?"  # noqa: S608
            node = self._by_number[number] = _NodeState(*self._rows(sql, (number,))[0])
        return node

    def _flush(self) -> None:
        many = self._connection.executemany
        self._flush_nodes()
        many(
            "UPDATE nodes SET status = coalesce(?, status), visited_at = coalesce(?, visited_at),"
            " title = coalesce(?, title), file = coalesce(?, file), place = coalesce(?, place) WHERE node = ?",
            self._visited,
        )
        many(
            "INSERT INTO undelivered (collection, nodes) VALUES (?, ?)",
            [(number, array("q", sorted(nodes)).tobytes()) for number, nodes in self._undelivered.items() if nodes]
            if self._delivers
            else [],
        )
        many("INSERT OR IGNORE INTO falling VALUES (?)", ((node.number,) for node, _ in self._falling))
        balance = self._edges_added - self._edges_removed
        self._connection.execute("UPDATE counters SET value = value + ? WHERE name = 'edges'", (balance,))
        many("UPDATE counters SET value = ? WHERE name = ?", ((self._stamp, "stamp"), (self.turned, "turned")))
        self._new, self._visited, self._edges_added, self._edges_removed = [], [], 0, 0
        self._changed, self._owners_changed = set(), set()
        self._undelivered.clear()
        self._falling.clear()

    def _flush_nodes(self) -> None:
        """Write new nodes, with what is known of them by now, and the changes of known ones."""
        self._connection.executemany(
            "INSERT INTO nodes"  # noqa: S608
            " (node, id, collection, url, host, depth, depth_sent, in_links, visit, told, owner, stamp)"
            f" VALUES (?, ?, ?, ?, ?, nullif(?, {NO_DEPTH}), nullif(?, {NO_DEPTH}), ?, ?, ?, ?, ?)",
            (
                (n.number, key, collection, url, host_id(host_key(url)), n.depth, n.frontier_depth, n.in_links, n.visit,
                 n.told, n.owner, n.stamp)
                for n, key, collection, url in self._new
            ),
        )  # fmt: skip
        first_new = self._new[0][0].number if self._new else self._next_node
        changed = sorted((n for n in self._changed if n.number < first_new), key=lambda n: n.number)
        self._connection.executemany(
            f"UPDATE nodes SET depth = nullif(?, {NO_DEPTH}), depth_sent = nullif(?, {NO_DEPTH}), in_links = ?,"  # noqa: S608
            " visit = ?, told = ? WHERE node = ?",
            ((n.depth, n.frontier_depth, n.in_links, n.visit, n.told, n.number) for n in changed),
        )
        self._connection.executemany(  # apart from the others: they are in an index
            "UPDATE nodes SET owner = ?, stamp = ? WHERE node = ?",
            ((n.owner, n.stamp, n.number) for n in self._owners_changed),
        )

    # -- deliveries to the frontier --------------------------------------------------------------------------------

    def stop_delivering(self) -> None:
        """Forget what is undelivered, and note nothing more: who delivers next begins with everything."""
        self._delivers = False
        with self._connection:
            self._connection.execute("DELETE FROM undelivered")

    def next_weights(self, limit: int, rank_of: RankOf) -> WeightBatch | None:
        """A limited number of weights that the frontier does not know yet, of one collection; None: it knows all."""
        nodes, read, first = array("q"), list[tuple[bytes, int]](), None
        rows_sql = "SELECT number, collection, nodes FROM undelivered ORDER BY number LIMIT ?"
        for number, collection, packed in self._rows(rows_sql, (UNDELIVERED_READ_MAX,)):
            first = first or collection
            room = NODE_BYTES * limit - len(nodes) * NODE_BYTES
            if collection != first or not room:
                break
            nodes.frombytes(packed[:room])
            read.append((packed[room:], number))
        if not read:
            return None
        found = self.weights(nodes, rank_of)
        return found[0]._replace(read=read) if found else WeightBatch("", [], [], read)

    def weights(self, nodes: Iterable[int], rank_of: RankOf) -> list[WeightBatch]:
        """The weights of these nodes to deliver, by collection."""
        found = self._rows(
            """SELECT c.name, n.node, n.host, n.id, n.in_links,
               CASE WHEN depth < ifnull(depth_sent, depth + 1) THEN depth ELSE -1 END, n.url
               FROM carray(?) one CROSS JOIN nodes n ON n.node = one.value
               JOIN collections c USING (collection)""",
            (apsw.carray(array("q", sorted(set(nodes)))),),
        )
        batches: dict[str, WeightBatch] = {}
        for name, node, host, key, in_links, depth, url in found:
            batch = batches.get(name) or batches.setdefault(name, WeightBatch(name, [], [], []))
            batch.nodes.append(node)
            batch.weights.append(UrlWeight(host, key, in_links, depth, host_key(url), rank_of(node)))
        return list(batches.values())

    def mark_delivered(self, batch: WeightBatch) -> None:
        """Mark these as known to the frontier."""
        deeper = [node for node, weight in zip(batch.nodes, batch.weights, strict=True) if weight.depth >= 0]
        with self._connection:
            many = self._connection.executemany
            many("DELETE FROM undelivered WHERE number = ?", ((number,) for rest, number in batch.read if not rest))
            many("UPDATE undelivered SET nodes = ? WHERE number = ?", [one for one in batch.read if one[0]])
            many("UPDATE nodes SET depth_sent = depth WHERE node = ?", ((node,) for node in deeper))
        for number in deeper:
            node = self._by_number.get(number)
            if node is not None:
                node.frontier_depth = node.depth

    def has_falling_depths(self) -> bool:
        return bool(self._rows("SELECT EXISTS (SELECT 1 FROM falling)")[0][0])
