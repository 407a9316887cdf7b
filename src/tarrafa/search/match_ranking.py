"""Ranks the matches of one request in one index: the order of their scores, and the parts of a score.

Promises: matches come in the order of their scores, and fewer matches are the beginning of more. Knows nothing of other
shards, queries as they are typed, or takedowns.

The score of a match is its text score times its *present* link factor. tantivy knows the factor at indexing time, and
returns the best matches by that one. The present factor counts as at most LINK_FACTOR_RATIO times the indexed one (the
follower indexes a page again when its factor has changed so much), so a match that tantivy has not returned scores at
most that ratio times the last one returned. Matches above that bound are in their final order; if they are too few,
more are read (`_ranked_matches`), up to RERANKED_MAX. Known weakness: where that many matches have nearly the same
score (`lang:pt`), the order is that of the first RERANKED_MAX by indexed score.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp2, isnan, nan
from operator import neg
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace
from tantivy import Occur
from tantivy import Query as TantivyQuery

from tarrafa.graph.reader import NodeStanding
from tarrafa.index import schema
from tarrafa.index.document_fields import (
    IN_LINKS_RATIO,
    LINK_FACTOR_RATIO,
    factor_gains,
    indexed_factor,
    link_factor,
)
from tarrafa.index.reader import URL_ID, IndexMatches, IndexSnapshot
from tarrafa.model import UrlId
from tarrafa.parse.url import host_name, url_id
from tarrafa.search.curation import CurationRules
from tarrafa.search.global_bm25 import MeanLengths, global_score
from tarrafa.search.query_builder import (
    BuiltQuery,
    ScoreComponent,
    SignedForm,
    best_ids_query,
    page_query,
    signed_pattern,
    urls_query,
)
from tarrafa.search.request import (
    MATCHES_MAX,
    URLS_MAX,
    Candidate,
    DocumentAddress,
    ScorePart,
    SearchRequest,
    ShardStatistics,
    Sort,
)

READ_SHARE = 6  # matches read at first for each one wanted; what is enough for how many queries: decision 0116
WEIGHED_LOSS = 0.95  # of its score that a match may lose by its present links, if the first ones weighed are to suffice
RERANKED_MAX = 2 * MATCHES_MAX  # matches of one shard whose present scores are computed
RERANKED_TIMES = 3  # how many times as many matches are read when the first ones do not suffice
WHOLE_GAIN = 1.4  # times the score, for a page that holds all words: decision 0281
PARTIAL_DISTANCE = 1e15  # by which pages with some of the words come later, in another order than that of relevance
RECENT_SHARE = 0.2  # gain of a page of today where new pages are preferred
RECENT_HALF_S = 90 * 86_400.0  # half-life of that gain
LATE_PAIR_MATCHES = 30  # matches of a shard that gain from costly pairs and words with signs (`BuiltQuery`)
RENORMALIZED_MATCHES = 30  # matches of a shard that are rescored by the mean length of all shards: 1 ms
WEIGHED_FIELDS = (URL_ID, schema.STATIC)
COPIED_FIELDS = (  # into candidates
    schema.CONTENT, schema.SIMHASH, schema.HEADLINE, schema.URL_LENGTH, schema.SITE_ID, schema.CANONICAL
)  # fmt: skip
UNKNOWN_STANDING = (0, nan)  # of all pages, where the link graph does not know them yet: the index counts
SORT_FIELDS = {Sort.DATE: schema.DATE, Sort.LINKS: schema.IN_LINKS}

Now = Callable[[], float]
FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MatchRanking:
    """The ranking of one request. `overall`: the counts of all shards; `components`: the addends of a text score;
    `standings`: present in-links and ranks of pages."""

    snapshot: IndexSnapshot
    rules: CurationRules
    query: BuiltQuery
    request: SearchRequest
    overall: ShardStatistics
    components: Callable[[], "list[ScoreComponent]"]
    standings: Callable[[Sequence[UrlId], str | None], list[NodeStanding]]
    now: Now

    def first(self, limit: int) -> "RankedMatches":
        """The first matches in the order of their scores. By relevance, a match with all words scores WHOLE_GAIN times
        as much; in any other order, these come first.
        """
        query, sort = self.query, self.request.sort
        if query.whole is None:
            total, candidates, _ = self._ranked_matches(query, limit)
            return RankedMatches(total, candidates, total if query.is_whole else 0 if query.lacks else None)
        if sort is Sort.RELEVANCE:
            total, candidates, whole = self._ranked_matches(query, limit)
            return RankedMatches(total, candidates, 0 if query.lacks else whole)
        first = query._replace(matches=query.whole, whole=None)
        whole, candidates, _ = self._ranked_matches(first, limit)
        if whole >= limit:
            total = self.snapshot.top_matches(query.matches, 1, order=SORT_FIELDS[sort]).total
        else:
            rest = query._replace(whole=None)
            total, others, _ = self._ranked_matches(rest, limit)
            seen = {one.place for one in candidates}
            lower = [replace(one, score=one.score - PARTIAL_DISTANCE, partial=True) for one in others]
            candidates = [*candidates, *(one for one in lower if one.place not in seen)][:limit]
        return RankedMatches(total, candidates, 0 if query.lacks else whole)

    def _ranked_matches(self, query: BuiltQuery, limit: int) -> tuple[int, list[Candidate], int]:
        """The number of all matches, the first ones in the order of their scores, and the number of those with all
        words. Reading a match costs a tenth of computing its present score: more are read than are probably needed, and
        then as many are weighed as needed.
        """
        order, gain_max = SORT_FIELDS.get(self.request.sort), _gain_max(self.request)
        reading = min(READ_SHARE * limit, RERANKED_MAX) if gain_max > 1 else limit
        snapshot, is_brief = self.snapshot, True
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
                    matches = self._with_late_gains(matches, query, raised)
                matches = self._renormalized(matches, raised)
            weighed = _probably_enough(matches.scores, limit, gain_max)
            while True:
                found = self._weigh(matches.first(weighed))
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

    def _weigh(self, matches: IndexMatches) -> "WeighedMatches":
        """The present scores of matches: at most `_gain_max` times those of the index."""
        request = self.request
        ids, static = matches.columns(WEIGHED_FIELDS)
        standings = self.standings(ids, request.collection)
        scores, is_known = np.array(matches.scores), not standings or not isnan(standings[0][1])
        if request.sort is Sort.LINKS and is_known:
            scores = np.minimum([float(in_links) for in_links, _ in standings], IN_LINKS_RATIO * scores)
        elif request.sort is Sort.RELEVANCE:
            if is_known:
                scores *= factor_gains([rank for _, rank in standings], static)
            if request.recent:
                scores *= [self._recency(date) for date in matches.field_values(schema.DATE)]
            lowered = self._lowered(ids)
            if lowered:
                scores *= [lowered.get(key, 1.0) for key in ids]
        return WeighedMatches(matches, ids, standings, scores)

    def explain(self, url: str) -> list[ScorePart]:
        """The addends and factors of the score of a page; none if it is no match."""
        key, snapshot, query, request = url_id(url), self.snapshot, self.query, self.request
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
        leaves = self.components()
        best, raised = [place], False
        if query.late or query.signed or query.whole is not None:
            first = snapshot.top_matches(query.matches, LATE_PAIR_MATCHES, schema.STATIC)
            if query.whole is not None:
                several = snapshot.top_matches(query.whole, RERANKED_MAX, schema.STATIC)
                raised, first = place in several.addresses(), _with_whole(first, several)[0]
            best = first.first(LATE_PAIR_MATCHES).addresses()
            leaves = [leaf for leaf in leaves if place in best or not leaf.is_late]
        stretch = self._means().penalty_ratio(length)
        parts = [
            ScorePart(leaf.kind, leaf.what, global_score(snapshot.score_of(leaf.query, place), leaf.most, stretch))
            for leaf in leaves
        ]
        if place in best and query.signed:
            parts += [ScorePart("form", form.word, gain) for form, gain in _signed_gains(snapshot, query, place)]
        if raised:
            parts = [ScorePart(part.kind, part.what, part.value * WHOLE_GAIN) for part in parts]
        _, rank = self.standings([key], request.collection)[0]
        factor = indexed_factor(static)
        of_links = factor if isnan(rank) else link_factor(rank)
        if not isnan(rank):
            factor *= float(factor_gains([rank], [static])[0])
        if static < 0:
            factors = [ScorePart("links", "", of_links), ScorePart("listing", "", factor / of_links)]
        else:
            factors = [ScorePart("links", "", factor)]
        if request.recent:
            factors.append(ScorePart("recent", "", self._recency(date)))
        lowered = self._lowered([key])
        factors += [ScorePart("curated", "", factor) for factor in lowered.values()]
        return [part for part in parts if part.value > 0] + factors

    def _with_late_gains(self, matches: IndexMatches, query: BuiltQuery, raised: set[DocumentAddress]) -> IndexMatches:
        """The matches, the best of them rescored with what they gain from costly pairs of words, and from words with
        signs that they write as typed; best first. A gain of `raised` matches counts as their other words do.
        """
        first = matches.first(LATE_PAIR_MATCHES)
        these, gains = best_ids_query(first.field_values(schema.ID_HIGH)), defaultdict[DocumentAddress, float](float)
        for pair in query.late:
            both = TantivyQuery.boolean_query([(Occur.Must, pair), (Occur.Must, these)])
            for place, gain in self.snapshot.scores(both, len(first) + URLS_MAX).items():
                gains[place] += gain
        places = first.addresses()
        for place in places if query.signed else ():
            gains[place] += sum(gain for _, gain in _signed_gains(self.snapshot, query, place))
        if not gains:
            return matches
        gains |= {place: gain * WHOLE_GAIN for place, gain in gains.items() if place in raised}
        several = zip(first.scores, first.field_values(schema.STATIC), places, strict=True)
        scores = [score + indexed_factor(static) * gains.get(place, 0.0) for score, static, place in several]
        return matches.with_scores(scores)

    def _renormalized(self, matches: IndexMatches, raised: set[DocumentAddress]) -> IndexMatches:
        """The matches rescored by the mean text length of all shards, best first; matches below RENORMALIZED_MATCHES
        stay as they are.
        """
        means = self._means()
        if means.are_close or not matches:
            return matches
        first = matches.first(RENORMALIZED_MATCHES)
        these = best_ids_query(first.field_values(schema.ID_HIGH))
        places, stretches = first.addresses(), map(means.penalty_ratio, first.field_values(schema.LENGTH))
        stretched, gained = dict(zip(places, stretches, strict=True)), defaultdict[DocumentAddress, float](float)
        for leaf in self.components():
            both = TantivyQuery.boolean_query([(Occur.Must, leaf.query), (Occur.Must, these)])
            for place, score in self.snapshot.scores(both, len(first) + URLS_MAX).items() if leaf.most else ():
                if place in stretched:
                    change = global_score(score, leaf.most, stretched[place]) - score
                    gained[place] += change * (WHOLE_GAIN if place in raised else 1.0)
        several = zip(first.scores, first.field_values(schema.STATIC), places, strict=True)
        measured = [score + indexed_factor(static) * gained[place] for score, static, place in several]
        return matches.with_scores(measured)

    def _lowered(self, ids: Sequence[UrlId]) -> dict[UrlId, float]:
        """The factors for the scores of these pages, where their site is demoted."""
        rules, snapshot = self.rules, self.snapshot
        if not rules.lowered or not ids:
            return {}
        lowered = TantivyQuery.term_set_query(schema.SCHEMA, schema.SITE, list(rules.lowered))
        both = TantivyQuery.boolean_query([(Occur.Must, lowered), (Occur.Must, urls_query(ids))])
        found = snapshot.top_matches(both, len(ids) + URLS_MAX)
        hosts = (host_name(snapshot.stored_document(place).url) for place in found.addresses())
        return dict(zip(found.ids(), map(rules.factor, hosts), strict=True))

    def _recency(self, date: int) -> float:
        age_s = max(0.0, self.now() - date)
        return 1.0 + RECENT_SHARE * exp2(-age_s / RECENT_HALF_S)

    def _means(self) -> MeanLengths:
        own, overall = self.snapshot, self.overall
        return MeanLengths(own.terms_total / max(own.documents, 1), overall.length / max(overall.documents, 1))


class RankedMatches(NamedTuple):
    """The number of all matches, the first of them, and the number of those with all words; None: no difference."""

    total: int
    candidates: list[Candidate]
    whole: int | None


class WeighedMatches(NamedTuple):
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


def _signed_gains(snapshot: IndexSnapshot, query: BuiltQuery, place: DocumentAddress) -> list[tuple[SignedForm, float]]:
    """What a document gains because it writes words with signs as they are typed."""
    shown = snapshot.stored_document(place)
    patterns = [(form, signed_pattern(form.word)) for form in query.signed]
    return [(form, form.gain) for form, one in patterns if one and (one.search(shown.title) or one.search(shown.text))]


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
