"""Here is a question: give me ten hits.

Promises: the newest commit of the index answers; the same question on the same commit gives the same hits in the same
order, page after page, no hit twice and none lost. A URL that several collections hold is one hit, and so are pages
that say the same (`copies`), unless all are asked for. What cannot be asked is one `QueryError`; no index yet is one
`DataError`.
Knows nothing of HTML, JSON or terminals.

Ranking: the text score of the best BLOCK documents is multiplied by 1 + 0.1 ln(1 + in-links), fresh from the graph, and
the block sorted anew; so is the next block, for those who page that far, or when copies made one hit of many. Known
weakness: a page of rank 101 by its words cannot enter the first block, however many link to it.

`total` counts the pages that match, less those that were found to be copies on the way to the hits asked for. It is
exact as soon as all matches have been looked at (up to BLOCK of them: at once), and too high by the copies further down
before. Where LOOKED_MAX matches do not make enough hits, it is the number of those that they make: no others can be
shown. `copies` likewise counts what was met on the way.
"""

from math import log
from operator import itemgetter
from time import perf_counter

from tantivy import Query as Said

from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, QueryError
from tarrafa.graph.reader import GraphReader
from tarrafa.index import schema
from tarrafa.index.reader import IndexReader, Match, Snapshot
from tarrafa.model import Hit, SearchResult, UrlId
from tarrafa.parse.url import canonical, url_id
from tarrafa.search.copies import Group, Groups, Ranked
from tarrafa.search.curation import Curation
from tarrafa.search.matching import matching, of_page, saying, wanted
from tarrafa.search.query import parse
from tarrafa.search.snippet import Pieces, marked, snippet
from tarrafa.search.withheld import Withheld, less

BLOCK = 100
HITS_MAX = 100  # per answer
DEPTH_MAX = 1_000
LOOKED_MAX = 2_000  # matches, however few hits they make: 40 ms
LINKS_SHARE = 0.1


def static_factor(in_links: int) -> float:
    return 1 + LINKS_SHARE * log(1 + in_links)


class Searcher:
    """Stays open over many questions, in any number of threads, and sees each commit as it comes."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._index = IndexReader(data)
        self._withheld = Withheld(data, Curation(data))
        self._graph: GraphReader | None = None

    def search(
        self,
        text: str,
        n: int = 10,
        offset: int = 0,
        collection: str | None = None,
        all_words: bool = False,
        copies: bool = False,
        like: str = "",
    ) -> SearchResult:
        """The hits from `offset` on, at most `n`. With `copies`, each copy is a hit of its own; with `like`, a URL, so
        are that page and its copies, and nothing else."""
        started = perf_counter()
        query = parse(text, all_words)
        _check_depth(n, offset)
        withheld = self._withheld.clauses()  # before the snapshot: see there
        snapshot = self._index.snapshot()
        groups = Groups(apart=copies and not like)
        said = less(matching(query, snapshot, collection), withheld)
        total = self._look(groups, snapshot, said, collection, LOOKED_MAX if like else offset + n)
        found = groups.all
        if like:
            found = [[one] for one in groups.holding(url_id(canonical(like) or like))]
            total = len(found)
        terms = wanted(query)
        hits = [_hit(snapshot, group, terms) for group in found[offset : offset + n]]
        return SearchResult(text, total, round(perf_counter() - started, 6), hits)

    @property
    def documents(self) -> int:
        """How many documents can be found now."""
        return self._index.snapshot().documents

    def _look(self, groups: Groups, snapshot: Snapshot, said: Said, collection: str | None, enough: int) -> int:
        """Block by block, until there are enough groups or nothing is left to look at; the total."""
        at, limit = 0, -(-enough // BLOCK) * BLOCK
        while True:
            matches, total = snapshot.best(said, limit, at)
            in_links = self._in_links([match.id for match in matches], collection)
            for start in range(0, len(matches), BLOCK):
                groups.add(_ranked(matches[start : start + BLOCK], in_links))
                if len(groups.all) >= enough:
                    return total - groups.looked + len(groups.all)
            at += limit
            if at >= min(total, LOOKED_MAX):
                return len(groups.all)
            limit = min(at, LOOKED_MAX - at)

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


def _ranked(block: list[Match], in_links: dict[UrlId, int]) -> list[Ranked]:
    """A block, the best first; ids break ties, so that the order never depends on segments."""
    counts = [in_links.get(match.id, 0) for match in block]
    scores = [match.score * static_factor(count) for match, count in zip(block, counts, strict=True)]
    ranked = list(map(Ranked._make, zip(scores, counts, block, strict=True)))
    ranked.sort(key=lambda one: one.match.id)
    ranked.sort(key=itemgetter(0), reverse=True)  # stable: two sorts by one key each take half the time of one by two
    return ranked


def _hit(snapshot: Snapshot, group: Group, terms: frozenset[str]) -> Hit:
    score, in_links, match = group[0]
    shown = snapshot.shown(match.address)
    lines = snippet(shown.text, terms, shown.language)
    facts = round(score, 4), in_links, shown.updated, shown.language, len(group) - 1
    return Hit(shown.url, shown.title, lines, *facts)


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
    copies: bool = False,
) -> SearchResult:
    """One question, for those who have only one."""
    return Searcher(data).search(query, n, offset, collection, all_words, copies)


def copies_of(data: DataDirectory, url: str, collection: str | None, limit: int = 10) -> list[str]:
    """The URLs whose page is an exact copy of this URL's page, the shortest first; none where nothing is indexed."""
    if not schema.exists(data):
        return []
    withheld = Withheld(data, Curation(data)).clauses()
    snapshot, identity = IndexReader(data).snapshot(), url_id(canonical(url) or url)
    own, _ = snapshot.best(less(of_page(identity, collection), withheld), BLOCK)
    contents = {match.content for match in own if match.id == identity and match.content is not None}
    same, _ = snapshot.best(less(saying(contents, collection), withheld), LOOKED_MAX)
    others = {match.id: match for match in same if match.id != identity}
    first = sorted(others.values(), key=lambda match: (match.url_length or 0, match.id))[: max(limit, 0)]
    return [snapshot.shown(match.address).url for match in first]
