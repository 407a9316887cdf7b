"""Searcher: the entry point of search for library, command line and search page.

Promises: the same request on the same commits gives the same hits in the same order, page after page, no hit twice and
none lost, from one shard or from many. Shards may come and go: a request is sent to those present at its start. An
invalid request is one `QueryError`; a missing index is one `DataError`. A shard that does not answer in time is named,
and the others answer without it. Knows nothing of HTML, JSON or terminals.

One request is one `ScatterGather` over all shards. Further ones follow for added words (`query_expansion`), for another
spelling (`spelling`) and, if nothing was found where all words were required, for some of them.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter

from msgspec.structs import replace

from tarrafa.errors import DataError, QueryError, ShardUnavailable, TarrafaError
from tarrafa.i18n import message
from tarrafa.index import schema, shards
from tarrafa.index.reader import DocumentAddress, IndexReader, IndexSnapshot
from tarrafa.index.text_analysis import fold
from tarrafa.model import SearchResult, UrlId
from tarrafa.parse.url import canonical, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.search import autocomplete, query_expansion, spelling
from tarrafa.search.autocomplete import PartialText, completed_text, partial_text
from tarrafa.search.curation import Curation
from tarrafa.search.global_bm25 import document_frequency
from tarrafa.search.local_shard import VOCABULARY_WAIT_S, ExclusionFilter, exclude
from tarrafa.search.part_replicas import PartReplicas, with_replicas
from tarrafa.search.query_builder import (
    all_occur,
    contents_query,
    page_query,
)
from tarrafa.search.query_parser import parse
from tarrafa.search.request import (
    EXPANSION_TERMS_MAX,
    HITS_MAX,
    MATCHES_MAX,
    RESULT_DEPTH_MAX,
    SHARD_WORDS_MAX,
    URLS_MAX,
    ExpansionTerm,
    ScorePart,
    SearchRequest,
    Shard,
    Sort,
)
from tarrafa.search.scatter_gather import ScatterGather, ShardThreads, open_local_shard
from tarrafa.search.snippet import MarkedPieces, mark_terms, marked_terms, terms_of_texts
from tarrafa.search.spelling import Correction, SimilarWord, SpellingCorrector
from tarrafa.triples.sparql_matches import MatchingPages

EMPTY_REQUEST = SearchRequest("")
SIMILAR_WORDS_MAX = 8  # words of similar spelling
INSTEAD_SPELLING, INSTEAD_SOME_WORDS = "spelling", "some"  # the fallbacks when nothing is found
ONE_SEARCH_WAIT_S = 5.0  # for a vocabulary, in a process that searches once

PresentShards = Callable[[], Sequence[Shard]]  # the shards that are present now


class Searcher:
    """Stays open over many requests, in any number of threads. `shards` is a list, or a function that returns the
    present ones.
    """

    def __init__(self, shards: Sequence[Shard] | PresentShards, curation: Curation | None = None) -> None:
        self._present = shards if callable(shards) else partial(tuple, shards)
        self._curation = curation
        self._threads, self._replicas = ShardThreads(), PartReplicas()

    @classmethod
    def open(
        cls, data: DataDirectory, elsewhere: Sequence[Shard] = (), patience_s: float = VOCABULARY_WAIT_S
    ) -> "Searcher":
        """Open the index of a data directory and shards elsewhere; without data, those shards alone."""
        own = [open_local_shard(data, patience_s)] if data.version.exists() or not elsewhere else []
        return cls([*own, *elsewhere], Curation(data))

    @classmethod
    def over_changing_shards(cls, data: DataDirectory, elsewhere: PresentShards) -> "Searcher":
        """Open the index of a data directory and the changing set of shards elsewhere. An empty index is skipped if
        there are other shards.
        """
        own = open_local_shard(data)

        def present() -> Sequence[Shard]:
            others = elsewhere()
            return (own, *others) if not others or _may_answer(data) else others

        return cls(present, Curation(data))

    @property
    def present_shards(self) -> tuple[Shard, ...]:
        """The shards that are asked now."""
        return tuple(self._present())

    @with_replicas
    def count_urls(self) -> int:
        """The number of URLs that can be found now: each counts once, in however many collections it is."""
        return sum(self._scatter(EMPTY_REQUEST).ask_each(lambda shard: shard.count_urls()).values())

    @with_replicas
    def languages(self) -> dict[str, int]:
        """The languages of the pages, with the number of pages of each, the most frequent first."""
        anything = SearchRequest("lang:pt")  # a filter adds no terms of its own
        counts = self._scatter(anything).global_statistics().counts.get(schema.LANGUAGE, {})
        return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))

    def count_indexed(self, kind: str, name: str, collection: str | None = None) -> int | None:
        """The number of pages of a `site` or a `host` that can be found, copies included; None if no shard answers."""
        with suppress(DataError, QueryError, ShardUnavailable):
            return self._count_indexed(SearchRequest(f"{kind}:{name}", collection=collection))
        return None

    @with_replicas
    def _count_indexed(self, request: SearchRequest) -> int:
        return self._count(request)

    @with_replicas
    def search(self, request: SearchRequest) -> SearchResult:
        """The hits from `offset` on, at most `n`."""
        started = perf_counter()
        request.check()
        answer = self._answer(request)
        gathered, meant = answer.gathered, answer.correction
        hits = gathered.fetch_hits(gathered.found[request.offset : request.offset + request.n])
        time_s = round(perf_counter() - started, 6)
        return SearchResult(
            request.text,
            gathered.total,
            time_s,
            hits,
            meant.text if meant else None,
            gathered.shard_reports(),
            gathered.ignored,
            answer.expanded,
            answer.instead,
            gathered.others,
        )

    @with_replicas
    def matching_pages(self, text: str, collection: str | None = None) -> MatchingPages:
        """The pages that match a text, copies too, the best first, for SPARQL and exports. Nothing else is shown
        instead."""
        last = SearchRequest(text, HITS_MAX, RESULT_DEPTH_MAX - HITS_MAX, collection, copies=True, crowded=True)
        gathered = self._find(last)
        urls: dict[str, None] = {}
        for start in range(0, min(len(gathered.found), RESULT_DEPTH_MAX), HITS_MAX):
            some = gathered.found[start : min(start + HITS_MAX, RESULT_DEPTH_MAX)]
            urls.update(dict.fromkeys(hit.url for hit in gathered.fetch_hits(some)))
        missing = tuple(report.name for report in gathered.shard_reports() if report.trouble)
        return MatchingPages(list(urls), gathered.total + gathered.others > RESULT_DEPTH_MAX, missing)

    def suggest(self, text: str, limit: int = 8) -> list[str]:
        """Completions of a text that is still being typed, the most frequent first. Errors give an empty list."""
        try:
            beginning = partial_text(text)
            return self._complete(beginning, text, min(limit, SHARD_WORDS_MAX - 1)) if beginning and limit > 0 else []
        except TarrafaError:
            return []

    def _pinned(self, request: SearchRequest) -> list[UrlId]:
        """The pages that the operator pinned."""
        narrowed = request.language or request.after or request.before or request.like
        if self._curation is None or request.sort is not Sort.RELEVANCE or narrowed:
            return []
        return [url_id(url) for url in self._curation.rules().pinned_urls(request.text)]

    @with_replicas
    def explain_score(self, request: SearchRequest, url: str) -> list[ScorePart]:
        """The parts of a page's score for this request: addends, then factors. Empty: the page does not match."""
        effective = request
        if request.expand or request.related or not self._count(request):
            effective = self._answer(request).gathered.request
        address = canonical(url) or url
        parts = self._scatter(effective).explain_score(address)
        if not parts:
            effective = replace(effective, loose=True)
            parts = self._scatter(effective).explain_score(address)
        if not parts or request.crowded or request.sort is not Sort.RELEVANCE:
            return parts
        deep = self._find(replace(effective, n=HITS_MAX, offset=RESULT_DEPTH_MAX - HITS_MAX))
        factor = deep.site_factor(url_id(address))
        return [*parts, ScorePart("site", "", factor)] if factor < 1 else parts

    # -- expansion, spelling and fallbacks -------------------------------------------------------------------------

    def _answer(self, request: SearchRequest) -> "_SearchOutcome":
        """The result, by a fallback if the request itself finds nothing."""
        if request.related:
            return _SearchOutcome(self._find(self._related(request)))
        parse(request.text)
        first = self._find(request)
        if request.like:
            return _SearchOutcome(first)
        correction = self._correction(first)
        if not first.total:
            return self._instead(first, correction)
        gathered, words = self._expanded(request, first) if request.expand else (first, [])
        return _SearchOutcome(gathered, words, correction, INSTEAD_SOME_WORDS if gathered.is_partial else "")

    def _expanded(self, request: SearchRequest, first: ScatterGather) -> tuple[ScatterGather, list[str]]:
        """The result of the request with words of the best of these pages, and the words."""
        good = first
        if request.sort is not Sort.RELEVANCE:
            good = self._find(replace(request, sort=Sort.RELEVANCE, n=query_expansion.FEEDBACK_PAGES, offset=0), good)
        extras = self._extras(
            good,
            terms_of_texts(parse(request.text).texts),
            query_expansion.EXPANSION_WORDS,
            query_expansion.EXPANSION_SHARE,
        )
        if not extras:
            return first, []
        return self._find(replace(request, extras=extras), good), [extra.word for extra in extras]

    def _instead(self, first: ScatterGather, correction: Correction | None) -> "_SearchOutcome":
        """Fallback if nothing was found: another spelling for a word that no page holds, else some of the words, where
        an option required all. Parts required by a sign, quotation marks or a filter are never dropped: the result is
        then empty.
        """
        request = first.request
        if correction is not None and correction.is_needed:
            spelled = self._find(replace(request, text=correction.text), first)
            return _SearchOutcome(spelled, correction.words, correction, INSTEAD_SPELLING)
        some = self._find(replace(request, all_words=False), first) if request.all_words else first
        if some.total:
            return _SearchOutcome(some, [], correction, INSTEAD_SOME_WORDS)
        return _SearchOutcome(first, [], correction)

    def _related(self, request: SearchRequest) -> SearchRequest:
        """The words of a page, as a request."""
        url = canonical(request.related) or request.related
        gathered = self._scatter(replace(request, related=url))
        if not any(
            block.candidates
            for block in gathered.ask_each(lambda shard: shard.find_urls(request, [url_id(url)])).values()
        ):
            raise QueryError(
                message("{url}: this page is not indexed, so nothing can be found that is like it.", url=url[:200])
            )
        own = terms_of_texts(parse(request.text).texts) if request.text.strip() else frozenset()
        return replace(gathered.request, extras=self._extras(gathered, own, query_expansion.RELATED_WORDS, 1.0))

    def _extras(self, good: ScatterGather, own: frozenset[str], limit: int, share: float) -> tuple[ExpansionTerm, ...]:
        """The words that distinguish the best pages of a result, or the words of the page in `related`."""
        evidence = query_expansion.sum_evidence(
            good.expansion_terms(query_expansion.FEEDBACK_PAGES, query_expansion.WORDS_PER_SHARD), own
        )
        some = tuple(ExpansionTerm(word, 1.0) for word in list(evidence)[:EXPANSION_TERMS_MAX])
        counts = self._scatter(replace(good.request, extras=some), good).global_statistics()
        return query_expansion.choose_terms({extra.word: evidence[extra.word] for extra in some}, counts, limit, share)

    def _correction(self, first: ScatterGather) -> Correction | None:
        """Another spelling, where next to nothing is found or a word is unknown."""
        request = first.request

        def alike(word: str) -> list[SimilarWord]:
            answers = first.ask_each(lambda shard: shard.similar_words(fold(word), SIMILAR_WORDS_MAX))
            return spelling.merge_similar_words(word, answers.values(), SIMILAR_WORDS_MAX)

        def count(text: str, all_words: bool) -> int:
            with suppress(QueryError):
                return self._count(replace(request, text=text, all_words=all_words or request.all_words), first)
            return 0

        def documents(word: str, name: str) -> int:
            return document_frequency(word, first.known, schema.TITLE if name else schema.ALL)

        found = first.total + first.others
        if found >= spelling.FEW_PAGES and all_occur(parse(request.text), first.known):
            return None
        return SpellingCorrector(request.text, found, documents, alike, count).correction()

    @with_replicas
    def _complete(self, beginning: PartialText, text: str, limit: int) -> list[str]:
        gathered, before = self._scatter(EMPTY_REQUEST), beginning.before
        checked = not beginning.is_plain
        try:
            parse(before)
        except QueryError:  # a sign, or only an exclusion: no query by itself
            checked, before = checked or bool(before.strip()), ""
        # one of them may be the typed word
        answers = gathered.ask_each(lambda shard: shard.complete(beginning.typed, before, limit + 1))
        words = autocomplete.merge_completions(beginning.typed, answers.values(), limit + 1)
        texts = [completed_text(beginning, word) for word, _ in words]
        found = [
            one
            for one in texts
            if one != text and (not checked or self._count(SearchRequest(one, all_words=True), gathered))
        ]
        if found and not beginning.before.strip() and beginning.is_plain:
            found[1:1] = self._continued(gathered, found[0])
        return found[:limit]

    def _continued(self, gathered: ScatterGather, text: str) -> list[str]:
        """A text with the word that follows it in many pages, if there is one."""
        answers = gathered.ask_each(lambda shard: shard.complete("", f"{text} ", 1))
        return [f"{text} {word}" for word, _ in autocomplete.merge_completions("", answers.values(), 1)]

    # -- scatter-gather --------------------------------------------------------------------------------------------

    def _scatter(self, request: SearchRequest, before: ScatterGather | None = None) -> ScatterGather:
        if before is not None:
            return before.follow_up(request)
        present = self.present_shards
        asked = self._replicas.choose(present, self._threads.pool_for(len(present)))
        return ScatterGather(request, asked, self._threads.pool_for(len(asked.shards)))

    def _find(self, request: SearchRequest, before: ScatterGather | None = None) -> ScatterGather:
        gathered = self._scatter(request, before)
        gathered.find_groups(self._pinned(request))
        return (
            gathered if request.loose or not gathered.is_short else self._find(replace(request, loose=True), gathered)
        )

    def _count(self, request: SearchRequest, before: ScatterGather | None = None) -> int:
        """How many pages match. By date, no scores are computed."""
        return self._scatter(replace(request, sort=Sort.DATE, loose=True), before).count_matches()


def _may_answer(data: DataDirectory) -> bool:
    """Whether this index holds anything. A damaged index reports its error when it is searched."""
    try:
        return shards.exists(data)
    except DataError:
        return True


@dataclass(frozen=True, slots=True)
class _SearchOutcome:
    """The request that found the result, its added words, the suggested spelling, and the fallback that was used."""

    gathered: ScatterGather
    expanded: list[str] = field(default_factory=list)
    correction: Correction | None = None
    instead: str = ""


class TermMarker:
    """Marks a query's words in titles and snippets."""

    def __init__(self, text: str, others: Iterable[str] = ()) -> None:
        """`others` are the added words; the text may then be empty."""
        self._wanted = (marked_terms(parse(text).texts) if text.strip() else frozenset()) | terms_of_texts(others)

    def __call__(self, text: str, language: str) -> MarkedPieces:
        return mark_terms(text, self._wanted, language)


def search(data: DataDirectory, request: SearchRequest) -> SearchResult:
    """One search, for a process that makes only one."""
    return Searcher.open(data, patience_s=ONE_SEARCH_WAIT_S).search(request)


def exact_copies(data: DataDirectory, url: str, collection: str | None, limit: int = 10) -> list[str]:
    """The URLs whose page is an exact copy of this URL's page, the shortest first; empty without an index."""
    parts, identity, blocked = shards.parts(data), url_id(canonical(url) or url), Curation(data).rules().blocked
    excluded = [clause for part in parts for clause in ExclusionFilter(part).clauses(blocked)]
    snapshots = [IndexReader(part).snapshot() for part in parts if schema.exists(part)]
    contents, others = set[int](), dict[UrlId, tuple[int, IndexSnapshot, DocumentAddress]]()
    for snapshot in snapshots:
        own = snapshot.top_matches(exclude(page_query(identity, collection), excluded), URLS_MAX)
        pairs = zip(own.ids(), own.field_values(schema.CONTENT), strict=True)
        contents |= {content for key, content in pairs if key == identity and content is not None}
    for snapshot in snapshots:
        found = snapshot.top_matches(exclude(contents_query(contents, collection), excluded), MATCHES_MAX)
        lengths = found.field_values(schema.URL_LENGTH)
        several = zip(found.ids(), lengths, found.addresses(), strict=True)
        others |= {key: (length, snapshot, place) for key, length, place in several if key != identity}
    first = sorted(others, key=lambda key: (others[key][0], key))[: max(limit, 0)]
    return [others[key][1].stored_document(others[key][2]).url for key in first]
