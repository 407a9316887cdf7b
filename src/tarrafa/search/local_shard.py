"""LocalShard: searches one tantivy index on this disk.

Promises: requests are answered from the newest commit; the snapshots of the last few responses are kept, so that their
hits can be shown after the next commit. `match_ranking` has the order of matches. Knows nothing of other shards, HTML
or HTTP.
"""

import contextlib
import random
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import numpy as np
from tantivy import Occur
from tantivy import Query as TantivyQuery

from tarrafa.errors import DataError, QueryError
from tarrafa.graph.reader import GraphReader, NodeStanding
from tarrafa.i18n import message
from tarrafa.index import schema
from tarrafa.index.document_fields import split_url_id
from tarrafa.index.index_state import is_applied, is_other_version, pages_by_fate
from tarrafa.index.part_snapshot import ahead_marker
from tarrafa.index.reader import IndexReader, IndexSnapshot
from tarrafa.index.text_analysis import has_unspaced
from tarrafa.model import UrlId
from tarrafa.parse.url import host_name, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.autocomplete import SAMPLED_PAGES, completions, continuations, following_words, merge_completions
from tarrafa.search.curation import Curation, CurationRules
from tarrafa.search.global_bm25 import (
    RecordingTermStatistics,
    RememberedReadings,
    TermStatistics,
)
from tarrafa.search.match_ranking import UNKNOWN_STANDING, MatchRanking, Now, WeighedMatches
from tarrafa.search.query_builder import (
    BuiltQuery,
    QueryBuilder,
    ScoreComponent,
    filter_query,
    urls_query,
)
from tarrafa.search.query_expansion import TERM_FREQUENCY_WEIGHT, feedback_terms
from tarrafa.search.query_parser import QueryGroup, parse, with_filters
from tarrafa.search.request import (
    BLOCK_MATCHES,
    URLS_MAX,
    Candidate,
    CandidateBlock,
    DocumentAddress,
    HitDetails,
    ScorePart,
    SearchRequest,
    ShardParts,
    ShardStatistics,
)
from tarrafa.search.snippet import SnippetSource, make_snippets, marked_terms, terms_of_texts
from tarrafa.search.spelling import similar_words
from tarrafa.search.vocabulary import WORDS_MAX, VocabularyCache
from tarrafa.takedown import NO_TAKEDOWNS, CurrentTakedowns, TakedownSet
from tarrafa.triples.ontology import CurrentSubclasses

LOCAL_SHARD_NAME = "here"
SNAPSHOTS_KEPT_MAX = 8
LINKING_MAX = 10_000  # results of `link:`
VOCABULARY_WAIT_S = 0.05  # for a vocabulary that is still being read
SPELLINGS_MAX = 4  # spellings of a word that is typed without accents
STANDINGS_AGE_MAX_S = 0.1  # in-links and ranks of the graph count after so long: to look for changes takes 40 us
DEFAULT_STANDING = (0, 1.0)  # in-links and rank of a page that the graph does not know
RESULTS_CHANGED = message("The results have changed in the meantime: please search again.")

QueryClause = tuple[Occur, TantivyQuery]
Kept = TypeVar("Kept")


class KeptSnapshots(Generic[Kept]):
    """The snapshots of the last responses, by number, so that their hits can be shown after the next commit."""

    def __init__(self, most: int) -> None:
        self._most, self._lock = most, threading.Lock()
        self._kept: OrderedDict[int, tuple[object, Kept]] = OrderedDict()
        # A number that no other process, earlier or parallel, comes near. (The clock's seconds do not suffice: commits
        # can outnumber seconds, and clocks are set back.)
        self._next = random.SystemRandom().getrandbits(52)

    def number(self, key: object, snapshot: Kept) -> int:
        """The number of the snapshot with this key; it is kept until enough newer ones have been requested."""
        with self._lock:
            for number in reversed(self._kept):
                if self._kept[number][0] == key:
                    self._kept.move_to_end(number)
                    return number
            self._next += 1
            self._kept[self._next] = (key, snapshot)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
            return self._next

    def get(self, number: int) -> Kept:
        with self._lock:
            kept = self._kept.get(number)
        if kept is None:
            raise QueryError(RESULTS_CHANGED)
        return kept[1]


class _SearchContext(NamedTuple):
    """The basis of one request: the newest commit, and the curation rules at that moment."""

    rules: CurationRules
    excluded: list[QueryClause]
    snapshot: IndexSnapshot


class _CountedRequest(NamedTuple):
    """The last request whose terms were counted, so that its second phase can reuse the query."""

    counts: ShardStatistics
    context: _SearchContext
    request: SearchRequest
    query: BuiltQuery


class LocalShard:
    """Stays open over many requests, in any number of threads, and sees each commit as it comes."""

    name = LOCAL_SHARD_NAME

    def __init__(
        self,
        data: DataDirectory,
        now: Now = time.time,
        patience_s: float = VOCABULARY_WAIT_S,
        words_max: int = WORDS_MAX,
    ) -> None:
        self._data, self._now, self._patience_s = data, now, patience_s
        self._vocabularies = VocabularyCache(words_max)
        self._index = IndexReader(data)
        self._graph: GraphReader | None = None
        self._ahead = ahead_marker(data)
        self._curation = Curation(data)
        self._withheld = ExclusionFilter(data)
        self._subclasses = CurrentSubclasses(data)
        self._snapshots = KeptSnapshots[IndexSnapshot](SNAPSHOTS_KEPT_MAX)
        self._readings: tuple[IndexSnapshot, RememberedReadings] | None = None
        self._thread = threading.local()

    def documents(self) -> int:
        return self._index.snapshot().documents

    def count_urls(self) -> int:
        documents = self.documents()
        return pages_by_fate(self._data)[1] if documents and not is_other_version(self._data) else documents

    def parts(self) -> ShardParts:
        return ShardParts()

    def statistics(self, request: SearchRequest) -> ShardStatistics:
        context = self._context()
        snapshot = context.snapshot
        counted = RecordingTermStatistics(snapshot, self._readings_of(snapshot))
        query = self._build_query(request, context, counted, counted)
        counted.counts[schema.LANGUAGE] = snapshot.languages
        counts = ShardStatistics(snapshot.documents, snapshot.written, snapshot.terms_total, counted.counts)
        self._thread.last = _CountedRequest(counts, context, request, query)
        return counts

    def _readings_of(self, snapshot: IndexSnapshot) -> RememberedReadings:
        known = self._readings
        if known is None or known[0] is not snapshot or known[1].is_full:
            known = self._readings = snapshot, RememberedReadings()
        return known[1]

    def top_matches(self, request: SearchRequest, overall: ShardStatistics, limit: int) -> CandidateBlock:
        ranking = self._ranking(request, overall)
        found = ranking.first(limit)
        return CandidateBlock(
            self._number_of(ranking.snapshot), found.total, found.candidates, found.whole, ranking.query.is_whole
        )

    def show(self, request: SearchRequest, moment: int, places: list[DocumentAddress]) -> list[HitDetails]:
        snapshot = self._snapshots.get(moment)
        terms, others = (
            marked_terms(_parsed_query(request).texts),
            terms_of_texts(extra.word for extra in request.extras),
        )
        shown = [snapshot.stored_document(place) for place in places]
        snippets = make_snippets([(_snippet_source(one), one.language) for one in shown], terms, others)
        return [
            HitDetails(
                one.url, one.title, snippet, one.date, one.language, one.type, host_name(one.url), one.declared,
                one.date_kind, one.full_title, one.alternates,
            )
            for one, snippet in zip(shown, snippets, strict=True)
        ]  # fmt: skip

    def explain_score(self, request: SearchRequest, overall: ShardStatistics, url: str) -> list[ScorePart]:
        return self._ranking(request, overall).explain(url)

    def find_urls(self, request: SearchRequest, ids: list[UrlId]) -> CandidateBlock:
        context = self._context()
        candidates = self._found(context, request, ids)
        return CandidateBlock(self._number_of(context.snapshot), len(candidates), candidates)

    def _found(self, context: _SearchContext, request: SearchRequest, ids: list[UrlId]) -> list[Candidate]:
        """The pages for `find_urls`; of a page in several collections, the newest."""
        parts = [(Occur.Must, urls_query(ids)), *context.excluded]
        if request.collection is not None:
            parts.append((Occur.Must, filter_query(schema.COLLECTION, request.collection)))
        matches = context.snapshot.top_matches(TantivyQuery.boolean_query(parts), URLS_MAX)
        keys, dates = matches.ids(), matches.field_values(schema.DATE)
        found = WeighedMatches(matches, keys, self._standings(keys, request.collection), np.zeros(len(keys)))
        candidates = found.candidates(list(range(len(keys))))
        newest = {candidates[at].id: candidates[at] for at in sorted(range(len(keys)), key=dates.__getitem__)}
        return [newest[key] for key in ids if key in newest]

    def matching_ids(self, request: SearchRequest, most: int, among: Sequence[UrlId] | None = None) -> set[UrlId]:
        """The URLs that match, up to a number, without an order; or those of some given ones that match."""
        context = self._context()
        query = self._build_query(request, context, context.snapshot, context.snapshot).matches
        parts = [(Occur.Must, TantivyQuery.const_score_query(query, 0.0)), *context.excluded]
        if among is not None:
            parts.append((Occur.Must, urls_query(among)))
        return set(context.snapshot.top_matches(TantivyQuery.boolean_query(parts), most).ids())

    def complete(self, beginning: str, before: str, limit: int) -> list[tuple[str, int]]:
        context = self._context()
        snapshot = context.snapshot
        vocabulary = self._vocabularies.newest(snapshot, self._patience_s)
        found = exclude(TantivyQuery.all_query(), context.excluded) if context.excluded else None
        if len(beginning) > 1 and has_unspaced(beginning):
            run = SearchRequest(f'{before} "{beginning}"', all_words=True)
            found = exclude(self._build_query(run, context, snapshot, snapshot).matches, context.excluded)
            sample = snapshot.top_matches(found, SAMPLED_PAGES, schema.STATIC).addresses()
            several = [continuations([snapshot.stored_document(place) for place in sample], beginning)]
            return merge_completions(beginning, several, limit)
        if not before.strip():
            return completions(snapshot, vocabulary, beginning, found, limit)
        query = self._build_query(SearchRequest(before, all_words=True), context, snapshot, snapshot)
        found = exclude(query.matches, context.excluded)
        sample = snapshot.top_matches(found, SAMPLED_PAGES, schema.STATIC).addresses()
        following = following_words([snapshot.stored_document(place) for place in sample], before, beginning)
        several = [following, completions(snapshot, vocabulary, beginning, found, limit)] if beginning else [following]
        return merge_completions(beginning, several, limit)

    def similar_words(self, word: str, limit: int) -> list[tuple[str, int, int]]:
        vocabulary = self._vocabularies.newest(self._index.snapshot(), self._patience_s)
        return similar_words(vocabulary, word, limit) if vocabulary is not None else []

    def expansion_terms(
        self, request: SearchRequest, overall: ShardStatistics, pages: int, limit: int
    ) -> list[tuple[str, float]]:
        if request.related:
            context = self._context()
            candidates = self._found(context, request, [url_id(request.related)])
        else:
            ranking = self._ranking(request, overall)
            candidates = _without_exact_copies(ranking.first(BLOCK_MATCHES).candidates)[:pages]
        often = 1.0 if request.related else TERM_FREQUENCY_WEIGHT
        snapshot = context.snapshot if request.related else ranking.snapshot
        return feedback_terms([snapshot.stored_document(one.place) for one in candidates], snapshot, limit, often)

    def _ranking(self, request: SearchRequest, overall: ShardStatistics) -> MatchRanking:
        context, query = self._query_in_context(request, overall)

        def components() -> list[ScoreComponent]:
            builder = self._query_builder(request, context, context.snapshot, overall)
            return builder.score_components(_parsed_query(request), request.natural, request.extras)

        return MatchRanking(
            context.snapshot, context.rules, query, request, overall, components, self._standings, self._now
        )

    def _number_of(self, snapshot: IndexSnapshot) -> int:
        return self._snapshots.number(id(snapshot), snapshot)

    def _context(self) -> _SearchContext:
        rules = self._curation.rules()
        excluded = self._withheld.clauses(rules.blocked)  # before the snapshot: see `ExclusionFilter`
        return _SearchContext(rules, excluded, self._index.snapshot())

    def _query_builder(
        self, request: SearchRequest, context: _SearchContext, local: TermStatistics, overall: TermStatistics
    ) -> QueryBuilder:
        linking = partial(self._linking, collection=request.collection)
        spellings = partial(context.snapshot.spellings, limit=SPELLINGS_MAX)
        return QueryBuilder(local, overall, linking, context.rules.synonyms, self._subclasses, spellings)

    def _query_in_context(self, request: SearchRequest, overall: ShardStatistics) -> tuple[_SearchContext, BuiltQuery]:
        """The tantivy query of a request without excluded pages, and its context; the ones of the statistics phase, if
        no other request was counted since.
        """
        last: _CountedRequest | None = getattr(self._thread, "last", None)
        if last is not None and last.counts is overall and last.request == request:
            context, query = last.context, last.query
        else:
            context = self._context()
            query = self._build_query(request, context, context.snapshot, overall)
        if not context.excluded:
            return context, query
        whole = exclude(query.whole, context.excluded) if query.whole is not None else None
        return context, query._replace(matches=exclude(query.matches, context.excluded), whole=whole)

    def _build_query(
        self, request: SearchRequest, context: _SearchContext, local: TermStatistics, overall: TermStatistics
    ) -> BuiltQuery:
        """Build the query; the statistics in `overall` are asked for every term that matters."""
        query = with_filters(_parsed_query(request), request.language, request.after, request.before)
        matching = self._query_builder(request, context, local, overall)
        related = bool(request.related)
        return matching.build(query, request.collection, request.natural, request.extras, related, request.loose)

    def _standings(self, ids: Sequence[UrlId], collection: str | None) -> list[NodeStanding]:
        """Present in-links and ranks from the graph; without a graph, no page has in-links. A graph that is behind the
        index is not asked."""
        if self._ahead.exists():
            return [UNKNOWN_STANDING] * len(ids)
        graph = self._open_graph()
        if graph is not None:
            try:
                return [one or DEFAULT_STANDING for one in graph.standings_in_order(ids, collection)]
            except DataError:
                self._graph = None
        return [DEFAULT_STANDING] * len(ids)

    def _linking(self, url: str, collection: str | None) -> list[UrlId]:
        graph = self._open_graph()
        return graph.linking_ids(url, collection, LINKING_MAX) if graph is not None else []

    def _open_graph(self) -> GraphReader | None:
        if self._graph is None:
            with contextlib.suppress(DataError):
                self._graph = GraphReader(self._data, STANDINGS_AGE_MAX_S)
        return self._graph


def _snippet_source(shown: schema.StoredDocument) -> SnippetSource:
    return SnippetSource(shown.text, shown.content_chars, shown.own_chars, shown.description)


def _parsed_query(request: SearchRequest) -> QueryGroup:
    """The parsed query; an empty one, if a page is requested instead of words."""
    if request.related and not request.text.strip():
        return QueryGroup()
    return parse(request.text, request.all_words)


def _without_exact_copies(candidates: list[Candidate]) -> list[Candidate]:
    found: dict[object, Candidate] = {}
    for one in candidates:
        found.setdefault(one.id if one.content is None else one.content, one)
    return list(found.values())


# -- what is excluded --------------------------------------------------------------------------------------------------


class ExclusionFilter:
    """The clauses that keep taken-down pages and blocked sites out of every search, for any number of threads.

    From the next request on, no such page is found, counted, or treated as a copy: the exclusion is a part of the query
    itself, so totals and pages of results are right. The clauses must be read before the snapshot is taken: pages that
    the index has deleted already need no clause.

    A clause costs 2.3 us for each site, host or URL in it, with every search (60,000 documents; one `MustNot` for each
    instead of a set: 130 us). Takedowns are listed only for the seconds until the index follows.
    """

    def __init__(self, data: DataDirectory) -> None:
        self._data, self._taken_down = data, CurrentTakedowns(data)
        self._made: tuple[TakedownSet, frozenset[str], list[QueryClause]] | None = None

    def clauses(self, blocked: frozenset[str]) -> list[QueryClause]:
        """The clauses that every query on a later snapshot must exclude, with these blocked sites."""
        orders = self._taken_down.now()
        if orders and is_applied(self._data, orders):
            orders = NO_TAKEDOWNS
        made = self._made
        if made is None or made[0] is not orders or made[1] is not blocked:
            made = self._made = (orders, blocked, exclusion_clauses(orders, blocked))
        return made[2]


def exclude(query: TantivyQuery, clauses: list[QueryClause]) -> TantivyQuery:
    """The query without the pages that must not be shown."""
    return TantivyQuery.boolean_query([(Occur.Must, query), *clauses]) if clauses else query


def exclusion_clauses(orders: TakedownSet, blocked: frozenset[str]) -> list[QueryClause]:
    """Clauses for takedowns and blocked sites. Half an id is enough: the odds of a collision are 1 to 10**19."""
    hosts = [name for host in orders.hosts for name in (host, f"{host}.")]
    terms = (
        (schema.SITE, sorted(orders.sites | blocked)),
        (schema.HOST, sorted(hosts)),
        (schema.ID_HIGH, sorted({split_url_id(key)[0] for key in orders.urls})),
    )
    return [
        (Occur.MustNot, TantivyQuery.term_set_query(schema.SCHEMA, field, values)) for field, values in terms if values
    ]
