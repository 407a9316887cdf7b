"""Here is a question: give me ten hits.

Promises: the newest commit of the index answers; the same question on the same commit gives the same hits in the same
order, page after page, and no hit twice. A URL that several collections hold is one hit. What cannot be asked is one
`QueryError`; no index yet is one `DataError`.
Knows nothing of HTML, JSON or terminals.

Ranking: the text score of the best BLOCK documents is multiplied by 1 + 0.1 ln(1 + in-links), fresh from the graph, and
the block sorted anew; so is the next block, for those who page that far. Known weakness: a page of rank 101 by its
words cannot enter the first block, however many link to it.
"""

from collections.abc import Iterator
from math import log
from time import perf_counter

from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, QueryError
from tarrafa.graph.reader import GraphReader
from tarrafa.index.reader import IndexReader, Match, Snapshot
from tarrafa.model import Hit, SearchResult, UrlId
from tarrafa.search.matching import matching, wanted
from tarrafa.search.query import parse
from tarrafa.search.snippet import Pieces, marked, snippet

BLOCK = 100
HITS_MAX = 100  # per answer
DEPTH_MAX = 1_000
LINKS_SHARE = 0.1


def static_factor(in_links: int) -> float:
    return 1 + LINKS_SHARE * log(1 + in_links)


class Searcher:
    """Stays open over many questions, in any number of threads, and sees each commit as it comes."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._index = IndexReader(data)
        self._graph: GraphReader | None = None

    def search(
        self, text: str, n: int = 10, offset: int = 0, collection: str | None = None, all_words: bool = False
    ) -> SearchResult:
        """The hits from `offset` on, at most `n`."""
        started = perf_counter()
        query = parse(text, all_words)
        _check_depth(n, offset)
        snapshot = self._index.snapshot()
        depth = -(-(offset + n) // BLOCK) * BLOCK
        matches, total = snapshot.best(matching(query, snapshot, collection), depth)
        in_links = self._in_links([match.id for match in matches], collection)
        ranked = list(_ranked(matches, in_links))
        if total <= depth:
            total = len(ranked)  # exact: all are here, each URL once
        terms = wanted(query)
        hits = [
            _hit(snapshot, match, score, in_links.get(match.id, 0), terms)
            for score, match in ranked[offset : offset + n]
        ]
        return SearchResult(text, total, round(perf_counter() - started, 6), hits)

    @property
    def documents(self) -> int:
        """How many documents can be found now."""
        return self._index.snapshot().documents

    def _in_links(self, ids: list[UrlId], collection: str | None) -> dict[UrlId, int]:
        """Fresh from the graph; without one, nobody links to anybody."""
        try:
            if self._graph is None:
                self._graph = GraphReader(self._data)
            return self._graph.in_links(ids, collection)
        except DataError:
            self._graph = None
            return {}


def _check_depth(n: int, offset: int) -> None:
    if n < 1 or offset < 0:
        raise QueryError("Results are counted from 0 on, and at least one must be asked for.")
    if n > HITS_MAX:
        raise QueryError(f"At most {HITS_MAX} results are shown at once; ask for the next ones with an offset.")
    if offset + n > DEPTH_MAX:
        raise QueryError(f"Only the first {DEPTH_MAX:,} results can be shown; make the search narrower.")


def _ranked(matches: list[Match], in_links: dict[UrlId, int]) -> Iterator[tuple[float, Match]]:
    """Each URL once, block by block, the best first; ids break ties, so that the order never depends on segments."""
    seen: set[UrlId] = set()
    for start in range(0, len(matches), BLOCK):
        block = [(m.score * static_factor(in_links.get(m.id, 0)), m) for m in matches[start : start + BLOCK]]
        for score, match in sorted(block, key=lambda pair: (-pair[0], pair[1].id)):
            if match.id not in seen:
                seen.add(match.id)
                yield score, match


def _hit(snapshot: Snapshot, match: Match, score: float, in_links: int, terms: frozenset[str]) -> Hit:
    shown = snapshot.shown(match.address)
    lines = snippet(shown.text, terms, shown.language)
    return Hit(shown.url, shown.title, lines, round(score, 4), in_links, shown.updated, shown.language)


class Marker:
    """Marks a query's words in titles and snippets."""

    def __init__(self, text: str) -> None:
        self._wanted = wanted(parse(text))

    def __call__(self, text: str, language: str) -> Pieces:
        return marked(text, self._wanted, language)


def search(
    data: DataDirectory,
    query: str,
    n: int = 10,
    offset: int = 0,
    collection: str | None = None,
    all_words: bool = False,
) -> SearchResult:
    """One question, for those who have only one."""
    return Searcher(data).search(query, n, offset, collection, all_words)
