"""GraphReader: in-links, outlinks, anchors, depth and rank of a URL.

Promises: answers come from one consistent state while the follower writes; safe to use from several threads; a rebuilt
graph is opened automatically. A URL that several collections hold is one URL unless a collection is named; with more
than `COLLAPSED_MAX` in-links, the collection with the most of them is used. Every answer takes bounded time: lists are
paged, up to `OFFSET_MAX`. Knows nothing of the index or of ranking.
"""

import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, NamedTuple

import apsw
import msgspec

from tarrafa.archive.projection import read_cursor
from tarrafa.archive.warc_reader import Cursor
from tarrafa.errors import QueryError
from tarrafa.graph.graph_writer import graph_file, open_reader, path_of
from tarrafa.graph.rank_file import RankFile
from tarrafa.graph.rank_file import path_of as path_of_ranks
from tarrafa.graph.sites import LinkedSite
from tarrafa.i18n import message
from tarrafa.model import InAndOutLinks, LinkedPage, UrlId
from tarrafa.parse.url import canonical, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import CurrentTakedowns

NEIGHBOURS_MAX = 10_000  # per answer
OFFSET_MAX = 100_000  # some 80 ms of skipped rows
COLLAPSED_MAX = 20_000  # in-links that are compared one by one, to merge those that several collections have
ANCHORS_READ_MAX = 50
IDS_PER_QUERY = 500
KNOWN_MAX = 100_000  # cached standings: some 20 MB
JOINED_CHARS_MAX = 300  # of the anchors of several links between the same two pages


NodeStanding = tuple[int, float]  # in-links and rank


class NodeLinks(NamedTuple):
    """In-links and rank of a URL, and the anchor texts of links from other pages: different ones, the most frequent
    first (among the first ones known).
    """

    in_links: int
    rank: float
    anchors: list[str]


StandingCache = dict[UrlId, NodeStanding | None]


class GraphNode(msgspec.Struct, frozen=True):
    """A URL as one collection knows it. `visit` -1, `status` None: never visited. `depth` None: no followed link."""

    collection: str
    url: str
    depth: int | None
    in_links: int
    visit: int
    status: int | None
    visited_at: float | None
    title: str
    rank: float = 1.0


class InLinkChange(msgspec.Struct, frozen=True):
    """A URL whose in-links have changed, for its owner."""

    stamp: int
    collection: str
    id: UrlId
    url: str
    in_links: int


class GraphReader:
    """Reads beside the follower. Raises `DataError` when there is no graph yet. `standings_age_s`: how old cached
    standings may be.
    """

    def __init__(self, data: DataDirectory, standings_age_s: float = 0.0) -> None:
        self._data, self._standings_age_s = data, standings_age_s
        self._taken_down = CurrentTakedowns(data)
        self._path, self._path_of_ranks = path_of(data), path_of_ranks(data)
        self._local = threading.local()
        self._remembered: tuple[tuple[object, ...], StandingCache] = ((None,), {})
        self._unchanged_until = 0.0
        self._connection()

    def nodes(self, url: str, collection: str | None = None) -> list[GraphNode]:
        """The URL as each collection knows it, the latest visited first; empty if it is unknown. A URL that is taken
        down is refused.
        """
        self._taken_down.raise_if_taken_down(url)
        found = self._rows(
            """SELECT c.name, n.url, n.depth, n.in_links, n.visit, n.status, n.visited_at, coalesce(n.title, ''), n.node
               FROM nodes n JOIN collections c USING (collection)
               WHERE n.id = ? AND (? IS NULL OR c.name = ?)
               ORDER BY n.visited_at DESC NULLS LAST, n.collection""",
            (_id(url), collection, collection),
        )
        table = self._ranked()
        return [GraphNode(*(*row, table.rank_of(node))) for *row, node in found]

    def collections(self) -> list[str]:
        """The names of the collections that have crawled something."""
        return [name for (name,) in self._rows("SELECT name FROM collections ORDER BY name")]

    def node(self, url: str, collection: str | None = None) -> GraphNode | None:
        """The URL as the collection that visited it last knows it."""
        return next(iter(self.nodes(url, collection)), None)

    def neighbours(self, url: str, collection: str | None = None, limit: int = 100, offset: int = 0) -> InAndOutLinks:
        """In-links and outlinks at once. Each linked URL appears once; the anchors of several links to it are
        joined.
        """
        incoming, in_total = self.incoming(url, collection, limit, offset)
        outgoing, out_total = self.outgoing(url, collection, limit, offset)
        rank = max((node.rank for node in self.nodes(url, collection)), default=1.0)
        return InAndOutLinks(canonical(url) or url, incoming, outgoing, in_total, out_total, rank)

    def incoming(
        self, url: str, collection: str | None = None, limit: int = 100, offset: int = 0
    ) -> tuple[list[LinkedPage], int]:
        """The in-links in order of discovery, and their number. A page's link to itself does not count. Taken-down
        pages are counted, and not shown.
        """
        self._taken_down.raise_if_taken_down(url)
        numbers, key = self._linked_numbers(url, collection), _id(url)
        limit, offset = _checked(limit, offset)
        if len(numbers) == 1:
            (target,) = numbers
            sources = self._rows(
                "SELECT DISTINCT src FROM edges WHERE dst = ? AND src <> ?1 ORDER BY src LIMIT ? OFFSET ?",
                (target, limit, offset),
            )
            total = self._rows("SELECT in_links FROM nodes WHERE node = ?", (target,))[0][0]
        else:  # the same URL may link from several collections
            others = f"FROM edges e JOIN nodes n ON n.node = e.src WHERE e.dst IN ({_list(numbers)}) AND n.id <> ?"
            sources = self._rows(
                f"SELECT min(e.src) {others} GROUP BY n.id ORDER BY 1 LIMIT ? OFFSET ?",
                (key or b"", limit, offset),
            )
            total = self._rows(f"SELECT count(DISTINCT n.id) {others}", (key or b"",))[0][0]
        found = self._rows(
            f"""SELECT n.url, e.anchor, e.rel FROM edges e JOIN nodes n ON n.node = e.src
                WHERE e.dst IN ({_list(numbers)}) AND e.src IN ({_list(s for (s,) in sources)})
                ORDER BY e.src, e.n""",  # noqa: S608
        )
        return self._shown(found), total

    def outgoing(
        self, url: str, collection: str | None = None, limit: int = 100, offset: int = 0
    ) -> tuple[list[LinkedPage], int]:
        """The outlinks in page order, and the number of URLs that are not taken down."""
        self._taken_down.raise_if_taken_down(url)
        found = self._rows(
            f"""SELECT n.url, e.anchor, e.rel FROM edges e JOIN nodes n ON n.node = e.dst
                WHERE e.src IN ({_list(self._numbers(url, collection))}) ORDER BY e.src, e.n""",  # noqa: S608
        )
        joined, (limit, offset) = self._shown(found), _checked(limit, offset)
        return joined[offset : offset + limit], len(joined)

    def outgoing_hosts(
        self, url: str, collection: str | None = None, limit: int = 100, offset: int = 0
    ) -> tuple[list[LinkedSite], int]:
        """The hosts of the outlinks, its own host included, with the number of URLs there that are not taken down; the
        largest first.
        """
        self._taken_down.raise_if_taken_down(url)
        found = self._rows(
            f"""SELECT DISTINCT n.url FROM edges e JOIN nodes n ON n.node = e.dst
                WHERE e.src IN ({_list(self._numbers(url, collection))})""",  # noqa: S608
        )
        orders = self._taken_down.now()
        hosts = Counter(host_key(other) for (other,) in found if not orders.covers(other))
        counted = sorted(hosts.items(), key=lambda one: (-one[1], one[0]))
        limit, offset = _checked(limit, offset)
        return [LinkedSite(*one) for one in counted[offset : offset + limit]], len(counted)

    def archive_position(self, url: str, collection: str | None = None) -> tuple[str, int] | None:
        """The archive file and the offset of the URL's newest text, or of a newer visit that found no wanted data."""
        found = self._rows(
            """SELECT f.name, n.place FROM nodes n JOIN collections c USING (collection) JOIN files f USING (file)
               WHERE n.id = ? AND (? IS NULL OR c.name = ?) ORDER BY n.visited_at DESC, n.collection LIMIT 1""",
            (_id(url), collection, collection),
        )
        return found[0] if found else None

    def _shown(self, found: list[tuple[str, str, str]]) -> list[LinkedPage]:
        orders = self._taken_down.now()
        return _joined([row for row in found if not orders.covers(row[0])] if orders else found)

    def standings(self, ids: Sequence[UrlId], collection: str | None = None) -> dict[UrlId, NodeStanding]:
        """For each known URL: the number of other URLs that link to it, and N times PageRank, with the mean 1 over its
        collection (of the last ranking: a new URL has the mean). Of several collections, the highest values.
        """
        found = zip(ids, self.standings_in_order(ids, collection), strict=True)
        return {key: standing for key, standing in found if standing is not None}

    def standings_in_order(self, ids: Sequence[UrlId], collection: str | None = None) -> list[NodeStanding | None]:
        """The same as a list, one for each id; None: an unknown URL."""
        known = self._known(collection)
        try:
            return list(map(known.__getitem__, ids))
        except KeyError:
            unknown = [key for key in ids if key not in known]
        known.update(dict.fromkeys(unknown))
        known.update(self._look_up(unknown, collection))
        return list(map(known.__getitem__, ids))

    def _known(self, collection: str | None) -> StandingCache:
        """The cached standings since links or ranks last changed, at most `standings_age_s` ago. Most searches need
        the same few pages: a look-up costs 4 us, and to see whether anything has changed 40 us.
        """
        now = monotonic()
        (*_, of), known = self._remembered
        if now < self._unchanged_until and of == collection and len(known) <= KNOWN_MAX:
            return known
        self._ranked()
        turned = self._rows("SELECT value FROM counters WHERE name = 'turned'")
        moment = (self._local.ranked, turned, collection)
        at, known = self._remembered
        if at != moment or len(known) > KNOWN_MAX:
            known = {}
            self._remembered = moment, known
        self._unchanged_until = now + self._standings_age_s
        return known

    def _look_up(self, ids: Sequence[UrlId], collection: str | None) -> dict[UrlId, NodeStanding]:
        """In one query whose text is always the same: SQLite prepares it once."""
        known: dict[UrlId, NodeStanding] = {}
        rank_of = self._ranked().rank_of
        found = self._rows(
            """SELECT n.id, n.in_links, n.node FROM carray(?) c CROSS JOIN nodes n ON n.id = c.value
               WHERE ?2 IS NULL OR n.collection = (SELECT collection FROM collections WHERE name = ?2)""",
            (apsw.carray(tuple(ids)), collection),
        )
        for key, in_links, node in found:
            before = known.get(key)
            one = in_links, rank_of(node)
            known[key] = one if before is None else (max(one[0], before[0]), max(one[1], before[1]))
        return known

    def linking_ids(self, url: str, collection: str | None, limit: int) -> list[UrlId]:
        """The ids of other URLs that link to one, up to a limit."""
        numbers = _list(self._numbers(url, collection))
        found = self._rows(
            f"""SELECT DISTINCT n.id FROM edges e JOIN nodes n ON n.node = e.src
                WHERE e.dst IN ({numbers}) AND e.src NOT IN ({numbers}) LIMIT ?""",  # noqa: S608
            (limit,),
        )
        return [key for (key,) in found]

    def in_link_ids(self, key: UrlId, collection: str, limit: int) -> tuple[list[UrlId], int]:
        """The ids of URLs that link to one, up to a limit, in order of discovery, and their total number."""
        found = self._rows(
            "SELECT node, in_links FROM nodes WHERE id = ? AND collection ="
            " (SELECT collection FROM collections WHERE name = ?)",
            (key, collection),
        )
        if not found:
            return [], 0
        ids = self._rows(
            """SELECT n.id FROM (SELECT DISTINCT src FROM edges WHERE dst = ?1 AND src <> ?1 ORDER BY src LIMIT ?2) e
               JOIN nodes n ON n.node = e.src ORDER BY e.src""",
            (found[0][0], limit),
        )
        return [one for (one,) in ids], found[0][1]

    def incarnation(self) -> int:
        """Identifies this build of the graph: stamps of another one are invalid."""
        number: int = self._rows("SELECT value FROM counters WHERE name = 'incarnation'")[0][0]
        return number

    def version(self) -> tuple[str, str]:
        """Identifies the present links and ranks: it differs as soon as some have come, gone or changed."""
        found = dict(self._rows("SELECT name, value FROM counters WHERE name IN ('incarnation', 'turned')"))
        stated = self._ranked().stated
        ranked = stated.turned if stated is not None else 0
        return f"{found.get('incarnation', 0)}-{found.get('turned', 0)}", str(ranked)

    def in_link_changes(self, owner: str, after: int, limit: int) -> list[InLinkChange]:
        """The changes in the in-links of an owner's URLs since a stamp, the oldest first."""
        found = self._rows(
            """SELECT n.stamp, c.name, n.id, n.url, n.in_links FROM nodes n JOIN collections c USING (collection)
               WHERE n.owner = (SELECT owner FROM owners WHERE name = ?) AND n.stamp > ? ORDER BY n.stamp LIMIT ?""",
            (owner, after, limit),
        )
        return [InLinkChange(*row) for row in found]

    def links_of(self, ids: Sequence[UrlId], collection: str) -> dict[UrlId, NodeLinks]:
        """The links of each known URL, up to IDS_PER_QUERY of them. In one transaction: alone, a look-up costs five
        times as much.
        """
        assert len(ids) <= IDS_PER_QUERY, "more URLs than one query takes"
        connection, rank_of = self._connection(), self._ranked().rank_of
        sql = f"""SELECT id, in_links, node FROM nodes WHERE id IN ({", ".join("?" * len(ids))})
                  AND collection = (SELECT collection FROM collections WHERE name = ?)"""  # noqa: S608 (marks)
        links: dict[UrlId, NodeLinks] = {}
        with self._local.errors, connection:
            for key, in_links, node in rows(connection, sql, (*ids, collection)):
                links[key] = NodeLinks(in_links, rank_of(node), _anchors(connection, node) if in_links else [])
        return links

    def cursor(self) -> Cursor:
        """How far the follower has applied the archive."""
        connection = self._connection()
        with self._local.errors:
            return read_cursor(connection)

    def _ranked(self) -> RankFile:
        """The newest ranks, if they are of this graph."""
        self._connection()
        identity = (self._local.file, *file_fingerprint(self._path_of_ranks))
        if getattr(self._local, "ranked", None) != identity:
            self._local.ranks = RankFile.open(self._data, self.incarnation())
            self._local.ranked = identity
        ranks: RankFile = self._local.ranks
        return ranks

    def _numbers(self, url: str, collection: str | None) -> list[int]:
        found = self._rows(
            "SELECT n.node FROM nodes n JOIN collections c USING (collection)"
            " WHERE n.id = ? AND (? IS NULL OR c.name = ?) ORDER BY n.node",
            (_id(url), collection, collection),
        )
        return [number for (number,) in found]

    def _linked_numbers(self, url: str, collection: str | None) -> list[int]:
        """The nodes whose in-links are collapsed into one list."""
        numbers = self._numbers(url, collection)
        if len(numbers) < 2:
            return numbers
        counts = self._rows(
            f"SELECT in_links, node FROM nodes WHERE node IN ({_list(numbers)}) ORDER BY 1 DESC, 2",  # noqa: S608
        )
        return numbers if sum(count for count, _ in counts) <= COLLAPSED_MAX else [counts[0][1]]

    def _rows(self, sql: str, bindings: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        connection = self._connection()
        with self._local.errors:
            return rows(connection, sql, bindings)

    def _connection(self) -> apsw.Connection:
        """This thread's own connection; opened again when the graph was rebuilt."""
        try:
            file = self._path.stat().st_ino
        except OSError:
            file = -1
        if getattr(self._local, "file", None) != file:
            self._local.connection = open_reader(self._data)
            self._local.errors = graph_file(self._data).errors(self._local.connection)
            self._local.file = file
        connection: apsw.Connection = self._local.connection
        return connection


def _anchors(connection: apsw.Connection, node: int) -> list[str]:
    sql = "SELECT anchor FROM edges WHERE dst = ?1 AND src <> ?1 LIMIT ?2"
    counted = Counter(text for (anchor,) in rows(connection, sql, (node, ANCHORS_READ_MAX)) if (text := anchor.strip()))
    return [text for text, _ in sorted(counted.items(), key=lambda item: (-item[1], item[0]))]


def _id(url: str) -> UrlId | None:
    found = canonical(url)
    return None if found is None else url_id(found)


def _checked(limit: int, offset: int) -> tuple[int, int]:
    if offset > OFFSET_MAX:
        raise QueryError(message("Only the first {most} links can be paged through.", most=OFFSET_MAX))
    return max(0, min(limit, NEIGHBOURS_MAX)), max(0, offset)


def _list(numbers: Iterable[int]) -> str:
    return ", ".join(str(int(number)) for number in numbers)


def _joined(rows: list[tuple[str, str, str]]) -> list[LinkedPage]:
    """One entry per linked URL: its non-empty anchors and its rels, each once and in order."""
    anchors: dict[str, dict[str, None]] = {}
    rels: dict[str, dict[str, None]] = {}
    for url, anchor, rel in rows:
        anchors.setdefault(url, {}).update({anchor: None} if anchor else {})
        rels.setdefault(url, {}).update(dict.fromkeys(rel.split()))
    return [
        LinkedPage(url, " · ".join(texts)[:JOINED_CHARS_MAX], " ".join(rels[url])) for url, texts in anchors.items()
    ]
