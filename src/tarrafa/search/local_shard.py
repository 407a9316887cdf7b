"""LocalShard: searches one tantivy index on this disk and scores its matches.

Promises: requests are answered from the newest commit; the snapshots of the last few responses are kept, so that their
hits can be shown after the next commit. Matches come in the order of their scores, and fewer matches are the beginning
of more. Knows nothing of other shards, HTML or HTTP.

The score of a match is its text score times its *present* link factor. tantivy knows the factor at indexing time, and
returns the best matches by that one. The present factor counts as at most LINK_FACTOR_RATIO times the indexed one (the
follower indexes a page again when its factor has changed so much), so a match that tantivy has not returned scores at
most that ratio times the last one returned. Matches above that bound are in their final order; if they are too few,
more are read (`_ranked`), up to RERANKED_MAX. Known weakness: where that many matches have nearly the same score
(`lang:pt`), the order is that of the first RERANKED_MAX by indexed score.
"""

import contextlib
import random
import threading
import time
from bisect import bisect_left, bisect_right
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from math import exp2
from operator import neg
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from tantivy import Occur
from tantivy import Query as TantivyQuery

from tarrafa.errors import DataError, QueryError
from tarrafa.graph.reader import GraphReader, NodeStanding
from tarrafa.i18n import message
from tarrafa.index import schema
from tarrafa.index.document_fields import (
    IN_LINKS_RATIO,
    LINK_FACTOR_RATIO,
    factor_gains,
    indexed_factor,
    link_factor,
)
from tarrafa.index.index_state import is_other_version, pages_by_fate
from tarrafa.index.reader import URL_ID, IndexMatches, IndexReader, IndexSnapshot
from tarrafa.index.text_analysis import has_unspaced
from tarrafa.model import UrlId
from tarrafa.parse.url import host_name, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search.autocomplete import SAMPLED_PAGES, completions, continuations, following_words, merge_completions
from tarrafa.search.curation import Curation, CurationRules
from tarrafa.search.exclusion_filter import ExclusionFilter, QueryClause, exclude
from tarrafa.search.global_bm25 import (
    MeanLengths,
    RecordingTermStatistics,
    RememberedReadings,
    TermStatistics,
    global_score,
)
from tarrafa.search.query_builder import (
    BuiltQuery,
    QueryBuilder,
    SignedForm,
    best_ids_query,
    filter_query,
    page_query,
    signed_pattern,
    urls_query,
)
from tarrafa.search.query_expansion import TERM_FREQUENCY_WEIGHT, feedback_terms
from tarrafa.search.query_parser import QueryGroup, parse, with_filters
from tarrafa.search.request import (
    BLOCK_MATCHES,
    MATCHES_MAX,
    URLS_MAX,
    Candidate,
    CandidateBlock,
    DocumentAddress,
    HitDetails,
    ScorePart,
    SearchRequest,
    ShardStatistics,
    Sort,
)
from tarrafa.search.snippet import SnippetSource, make_snippet, marked_terms, terms_of_texts
from tarrafa.search.spelling import similar_words
from tarrafa.search.vocabulary import WORDS_MAX, VocabularyCache
from tarrafa.triples.ontology import CurrentSubclasses

LOCAL_SHARD_NAME = "here"
SNAPSHOTS_KEPT_MAX = 8
READ_SHARE = 6  # matches read at first for each one wanted; what is enough for how many queries: decision 0116
WEIGHED_LOSS = 0.95  # of its score that a match may lose by its present links, if the first ones weighed are to suffice
RERANKED_MAX = 2 * MATCHES_MAX  # matches of one shard whose present scores are computed
RERANKED_TIMES = 3  # how many times as many matches are read when the first ones do not suffice
LINKING_MAX = 10_000  # results of `link:`
VOCABULARY_WAIT_S = 0.05  # for a vocabulary that is still being read
WHOLE_GAIN = 1.4  # times the score, for a page that holds all words: decision 0281
SPELLINGS_MAX = 4  # spellings of a word that is typed without accents
PARTIAL_DISTANCE = 1e15  # by which pages with some of the words come later, in another order than that of relevance
RECENT_SHARE = 0.2  # gain of a page of today where new pages are preferred
RECENT_HALF_S = 90 * 86_400.0  # half-life of that gain
LATE_PAIR_MATCHES = 30  # matches of a shard that gain from costly pairs and words with signs (`BuiltQuery`)
RENORMALIZED_MATCHES = 30  # matches of a shard that are rescored by the mean length of all shards: 1 ms
STANDINGS_AGE_MAX_S = 0.1  # in-links and ranks of the graph count after so long: to look for changes takes 40 us
WEIGHED_FIELDS = (URL_ID, schema.STATIC)
COPIED_FIELDS = (  # into candidates
    schema.CONTENT, schema.SIMHASH, schema.HEADLINE, schema.URL_LENGTH, schema.SITE_ID, schema.CANONICAL
)  # fmt: skip
DEFAULT_STANDING = (0, 1.0)  # in-links and rank of a page that the graph does not know
RESULTS_CHANGED = message("The results have changed in the meantime: please search again.")
SORT_FIELDS = {Sort.DATE: schema.DATE, Sort.LINKS: schema.IN_LINKS}

Now = Callable[[], float]
FloatArray = npt.NDArray[np.float64]
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
        context, query = self._query_in_context(request, overall)
        found = self._ranked(context, query, request, limit, overall)
        return CandidateBlock(
            self._number_of(context.snapshot), found.total, found.candidates, found.whole, query.is_whole
        )

    def show(self, request: SearchRequest, moment: int, places: list[DocumentAddress]) -> list[HitDetails]:
        snapshot = self._snapshots.get(moment)
        terms, others = (
            marked_terms(_parsed_query(request).texts),
            terms_of_texts(extra.word for extra in request.extras),
        )
        shown = [snapshot.stored_document(place) for place in places]
        return [
            HitDetails(
                one.url, one.title, make_snippet(_snippet_source(one), terms, one.language, others), one.date,
                one.language, one.type, host_name(one.url), one.declared, one.date_kind, one.full_title, one.alternates,
            )
            for one in shown
        ]  # fmt: skip

    def explain_score(self, request: SearchRequest, overall: ShardStatistics, url: str) -> list[ScorePart]:
        context, query = self._query_in_context(request, overall)
        key, snapshot = url_id(url), context.snapshot
        page = TantivyQuery.const_score_query(page_query(key, request.collection), 0.0)
        matches = snapshot.top_matches(
            TantivyQuery.boolean_query([(Occur.Must, query.matches), (Occur.Must, page)]), URLS_MAX, schema.STATIC
        )
        ids = matches.ids()
        if key not in ids:
            return []
        at = ids.index(key)
        place = matches.addresses()[at]
        length, date, static = (matches.field_values(name)[at] for name in (schema.LENGTH, schema.DATE, schema.STATIC))
        matching = self._query_builder(request, context, snapshot, overall)
        leaves = matching.score_components(_parsed_query(request), request.natural, request.extras)
        best, raised = [place], False
        if query.late or query.signed or query.whole is not None:
            first = snapshot.top_matches(query.matches, LATE_PAIR_MATCHES, schema.STATIC)
            if query.whole is not None:
                several = snapshot.top_matches(query.whole, RERANKED_MAX, schema.STATIC)
                raised, first = place in several.addresses(), _with_whole(first, several)[0]
            best = first.first(LATE_PAIR_MATCHES).addresses()
            leaves = [leaf for leaf in leaves if place in best or not leaf.is_late]
        stretch = _means(snapshot, overall).penalty_ratio(length)
        parts = [
            ScorePart(leaf.kind, leaf.what, global_score(snapshot.score_of(leaf.query, place), leaf.most, stretch))
            for leaf in leaves
        ]
        if place in best and query.signed:
            parts += [ScorePart("form", form.word, gain) for form, gain in _signed_gains(snapshot, query, place)]
        if raised:
            parts = [ScorePart(part.kind, part.what, part.value * WHOLE_GAIN) for part in parts]
        _, rank = self._standings([key], request.collection)[0]
        factor, of_links = indexed_factor(static) * float(factor_gains([rank], [static])[0]), link_factor(rank)
        if static < 0:
            factors = [ScorePart("links", "", of_links), ScorePart("listing", "", factor / of_links)]
        else:
            factors = [ScorePart("links", "", factor)]
        if request.recent:
            factors.append(ScorePart("recent", "", self._recency(date)))
        lowered = self._lowered(context, [key])
        factors += [ScorePart("curated", "", factor) for factor in lowered.values()]
        return [part for part in parts if part.value > 0] + factors

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
        found = _WeighedMatches(matches, keys, self._standings(keys, request.collection), np.zeros(len(keys)))
        candidates = found.candidates(list(range(len(keys))))
        newest = {candidates[at].id: candidates[at] for at in sorted(range(len(keys)), key=dates.__getitem__)}
        return [newest[key] for key in ids if key in newest]

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
            context, query = self._query_in_context(request, overall)
            candidates = self._first(context, query, request, overall)[:pages]
        often, snapshot = 1.0 if request.related else TERM_FREQUENCY_WEIGHT, context.snapshot
        return feedback_terms([snapshot.stored_document(one.place) for one in candidates], snapshot, limit, often)

    def _first(
        self, context: _SearchContext, query: BuiltQuery, request: SearchRequest, overall: ShardStatistics
    ) -> list[Candidate]:
        """The best candidates, without exact copies."""
        found: dict[object, Candidate] = {}
        for one in self._ranked(context, query, request, BLOCK_MATCHES, overall).candidates:
            found.setdefault(one.id if one.content is None else one.content, one)
        return list(found.values())

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

    def _renormalized(
        self,
        matches: IndexMatches,
        raised: set[DocumentAddress],
        context: _SearchContext,
        request: SearchRequest,
        overall: ShardStatistics,
    ) -> IndexMatches:
        """The matches rescored by the mean text length of all shards, best first; matches below RENORMALIZED_MATCHES
        stay as they are.
        """
        snapshot = context.snapshot
        means = _means(snapshot, overall)
        if means.are_close or not matches:
            return matches
        first = matches.first(RENORMALIZED_MATCHES)
        matching = self._query_builder(request, context, snapshot, overall)
        these = best_ids_query(first.field_values(schema.ID_HIGH))
        places, stretches = first.addresses(), map(means.penalty_ratio, first.field_values(schema.LENGTH))
        stretched, gained = dict(zip(places, stretches, strict=True)), defaultdict[DocumentAddress, float](float)
        for leaf in matching.score_components(_parsed_query(request), request.natural, request.extras):
            both = TantivyQuery.boolean_query([(Occur.Must, leaf.query), (Occur.Must, these)])
            for place, score in snapshot.scores(both, len(first) + URLS_MAX).items() if leaf.most else ():
                if place in stretched:
                    change = global_score(score, leaf.most, stretched[place]) - score
                    gained[place] += change * (WHOLE_GAIN if place in raised else 1.0)
        several = zip(first.scores, first.field_values(schema.STATIC), places, strict=True)
        measured = [score + indexed_factor(static) * gained[place] for score, static, place in several]
        return matches.with_scores(measured)

    def _with_late_gains(
        self, matches: IndexMatches, snapshot: IndexSnapshot, query: BuiltQuery, raised: set[DocumentAddress]
    ) -> IndexMatches:
        """The matches, the best of them rescored with what they gain from costly pairs of words, and from words with
        signs that they write as typed; best first. A gain of `raised` matches counts as their other words do.
        """
        first = matches.first(LATE_PAIR_MATCHES)
        these, gains = best_ids_query(first.field_values(schema.ID_HIGH)), defaultdict[DocumentAddress, float](float)
        for pair in query.late:
            both = TantivyQuery.boolean_query([(Occur.Must, pair), (Occur.Must, these)])
            for place, gain in snapshot.scores(both, len(first) + URLS_MAX).items():
                gains[place] += gain
        places = first.addresses()
        for place in places if query.signed else ():
            gains[place] += sum(gain for _, gain in _signed_gains(snapshot, query, place))
        if not gains:
            return matches
        gains |= {place: gain * WHOLE_GAIN for place, gain in gains.items() if place in raised}
        several = zip(first.scores, first.field_values(schema.STATIC), places, strict=True)
        scores = [score + indexed_factor(static) * gains.get(place, 0.0) for score, static, place in several]
        return matches.with_scores(scores)

    def _ranked(
        self, context: _SearchContext, query: BuiltQuery, request: SearchRequest, limit: int, overall: ShardStatistics
    ) -> "_RankedMatches":
        """The first matches in the order of their scores. By relevance, a match with all words scores WHOLE_GAIN times
        as much; in any other order, these come first.
        """
        if query.whole is None:
            total, candidates, _ = self._ranked_matches(context, query, request, limit, overall)
            return _RankedMatches(total, candidates, total if query.is_whole else 0 if query.lacks else None)
        if request.sort is Sort.RELEVANCE:
            total, candidates, whole = self._ranked_matches(context, query, request, limit, overall)
            return _RankedMatches(total, candidates, 0 if query.lacks else whole)
        first = query._replace(matches=query.whole, whole=None)
        whole, candidates, _ = self._ranked_matches(context, first, request, limit, overall)
        if whole >= limit:
            total = context.snapshot.top_matches(query.matches, 1, order=SORT_FIELDS[request.sort]).total
        else:
            rest = query._replace(whole=None)
            total, others, _ = self._ranked_matches(context, rest, request, limit, overall)
            seen = {one.place for one in candidates}
            lower = [replace(one, score=one.score - PARTIAL_DISTANCE, partial=True) for one in others]
            candidates = [*candidates, *(one for one in lower if one.place not in seen)][:limit]
        return _RankedMatches(total, candidates, 0 if query.lacks else whole)

    def _ranked_matches(
        self, context: _SearchContext, query: BuiltQuery, request: SearchRequest, limit: int, overall: ShardStatistics
    ) -> tuple[int, list[Candidate], int]:
        """The number of all matches, the first ones in the order of their scores, and the number of those with all
        words. Reading a match costs a tenth of computing its present score: more are read than are probably needed, and
        then as many are weighed as needed.
        """
        order, gain_max = SORT_FIELDS.get(request.sort), _gain_max(request)
        reading = min(READ_SHARE * limit, RERANKED_MAX) if gain_max > 1 else limit
        snapshot, is_brief = context.snapshot, True
        while True:
            matches = snapshot.top_matches(query.matches, reading, weight=schema.STATIC, order=order)
            if not matches:
                return matches.total, [], 0
            least = matches.scores[-1] if matches.total > len(matches) else 0.0  # no match that is left out has more
            whole, raised = 0, set[DocumentAddress]()
            if order is None:
                if query.whole is not None:
                    several = snapshot.top_matches(query.whole, reading, schema.STATIC)
                    is_brief = is_brief and reading < RERANKED_MAX
                    lowest = _lowest_weighed(matches, several, limit, gain_max) if is_brief else 0.0
                    matches, raised, whole, is_brief = _with_whole(matches, several, lowest)
                    least = max(least, lowest) if is_brief else least
                if query.late or query.signed:
                    matches = self._with_late_gains(matches, snapshot, query, raised)
                matches = self._renormalized(matches, raised, context, request, overall)
            weighed = _probably_enough(matches.scores, limit, gain_max)
            while True:
                found = self._weigh(context, matches.first(weighed), request)
                best = np.argsort(-found.scores, kind="stable")[:limit]  # equals stay in the order of the index
                is_last = weighed >= len(matches)
                bound = least if is_last else max(least, matches.scores[weighed])
                if not bound or found.scores[best[-1]] >= bound * gain_max or (is_last and reading >= RERANKED_MAX):
                    candidates = found.candidates(best.tolist(), None if query.whole is None else raised)
                    return matches.total, candidates, whole
                if is_last:
                    break
                weighed = len(matches)
            reading, is_brief = reading if raised and is_brief else min(RERANKED_TIMES * reading, RERANKED_MAX), False

    def _weigh(self, context: _SearchContext, matches: IndexMatches, request: SearchRequest) -> "_WeighedMatches":
        """The present scores of matches: at most `_gain_max` times those of the index."""
        ids, static = matches.columns(WEIGHED_FIELDS)
        standings = self._standings(ids, request.collection)
        scores = np.array(matches.scores)
        if request.sort is Sort.LINKS:
            scores = np.minimum([float(in_links) for in_links, _ in standings], IN_LINKS_RATIO * scores)
        elif request.sort is Sort.RELEVANCE:
            scores *= factor_gains([rank for _, rank in standings], static)
            if request.recent:
                scores *= [self._recency(date) for date in matches.field_values(schema.DATE)]
            lowered = self._lowered(context, ids)
            if lowered:
                scores *= [lowered.get(key, 1.0) for key in ids]
        return _WeighedMatches(matches, ids, standings, scores)

    def _lowered(self, context: _SearchContext, ids: Sequence[UrlId]) -> dict[UrlId, float]:
        """The factors for the scores of these pages, where their site is demoted."""
        rules, snapshot = context.rules, context.snapshot
        if not rules.lowered or not ids:
            return {}
        lowered = TantivyQuery.term_set_query(schema.SCHEMA, schema.SITE, list(rules.lowered))
        both = TantivyQuery.boolean_query([(Occur.Must, lowered), (Occur.Must, urls_query(ids))])
        found = snapshot.top_matches(both, len(ids) + URLS_MAX)
        hosts = (host_name(snapshot.stored_document(place).url) for place in found.addresses())
        return dict(zip(found.ids(), map(rules.factor, hosts), strict=True))

    def _recency(self, date: int) -> float:
        age_s = max(0.0, self._now() - date)
        return 1.0 + RECENT_SHARE * exp2(-age_s / RECENT_HALF_S)

    def _standings(self, ids: Sequence[UrlId], collection: str | None) -> list[NodeStanding]:
        """Present in-links and ranks from the graph; without a graph, no page has in-links."""
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


def _signed_gains(snapshot: IndexSnapshot, query: BuiltQuery, place: DocumentAddress) -> list[tuple[SignedForm, float]]:
    """What a document gains because it writes words with signs as they are typed."""
    shown = snapshot.stored_document(place)
    patterns = [(form, signed_pattern(form.word)) for form in query.signed]
    return [(form, form.gain) for form, one in patterns if one and (one.search(shown.title) or one.search(shown.text))]


class _RankedMatches(NamedTuple):
    """The number of all matches, the first of them, and the number of those with all words; None: no difference."""

    total: int
    candidates: list[Candidate]
    whole: int | None


def _with_whole(
    matches: IndexMatches, whole: IndexMatches, lowest: float = 0.0
) -> tuple[IndexMatches, set[DocumentAddress], int, bool]:
    """The matches with this score or more, those with all words raised, best first; the raised ones; how many there are
    in all; and whether some were left out.
    """
    if not whole:
        return matches, set(), 0, False
    first, raised_first = _above(matches, lowest), _above(whole, lowest / WHOLE_GAIN)
    is_brief = len(first) < len(matches) or len(raised_first) < len(whole)
    raised = set(raised_first.addresses())
    others = [at for at, place in enumerate(first.addresses()) if place not in raised]
    return first.at(others).merged(raised_first, WHOLE_GAIN), raised, whole.total, is_brief


def _above(matches: IndexMatches, lowest: float) -> IndexMatches:
    return matches.first(bisect_right(matches.scores, -lowest, key=neg)) if lowest else matches


def _lowest_weighed(matches: IndexMatches, whole: IndexMatches, limit: int, gain_max: float) -> float:
    """A score that all matches reach that are probably enough (`_probably_enough`) when those with all words are
    raised: to put all others into one order took 50 us of a search.
    """
    several = ((matches.scores, 1.0), (whole.scores, WHOLE_GAIN))
    best = max((factor * scores[limit - 1] for scores, factor in several if len(scores) >= limit), default=0.0)
    return best * WEIGHED_LOSS / gain_max


class _WeighedMatches(NamedTuple):
    """Matches with their ids, standings and present scores."""

    matches: IndexMatches
    ids: Sequence[UrlId]
    standings: list[NodeStanding]
    scores: FloatArray

    def candidates(self, places: list[int], whole: set[DocumentAddress] | None = None) -> list[Candidate]:
        """The matches at these places, in this order. `whole`: those with all words; None: no match is partial."""
        chosen, ids, standings = self.matches.at(places), self.ids, self.standings
        several = [ids[place] for place in places], [standings[place][0] for place in places]
        addresses, fields = chosen.addresses(), chosen.columns(COPIED_FIELDS)
        partial = [whole is not None and place not in whole for place in addresses]
        return list(map(Candidate, self.scores[places].tolist(), *several, addresses, *fields, partial))


def _probably_enough(scores: list[float], limit: int, gain_max: float) -> int:
    """How many of these matches, best first, hold the `limit` best by present scores, if none of them falls by more
    than WEIGHED_LOSS.
    """
    if len(scores) <= limit or gain_max <= 1:
        return len(scores)
    least = scores[limit - 1] * WEIGHED_LOSS / gain_max
    return bisect_left(scores, -least, lo=limit, key=neg)


def _gain_max(request: SearchRequest) -> float:
    """How many times the score of the index a score can be."""
    if request.sort is Sort.RELEVANCE:
        return LINK_FACTOR_RATIO * (1 + RECENT_SHARE if request.recent else 1.0)
    return IN_LINKS_RATIO if request.sort is Sort.LINKS else 1.0


def _means(snapshot: IndexSnapshot, overall: ShardStatistics) -> MeanLengths:
    return MeanLengths(snapshot.terms_total / max(snapshot.documents, 1), overall.length / max(overall.documents, 1))


def _snippet_source(shown: schema.StoredDocument) -> SnippetSource:
    return SnippetSource(shown.text, shown.content_chars, shown.own_chars, shown.description)


def _parsed_query(request: SearchRequest) -> QueryGroup:
    """The parsed query; an empty one, if a page is requested instead of words."""
    if request.related and not request.text.strip():
        return QueryGroup()
    return parse(request.text, request.all_words)
