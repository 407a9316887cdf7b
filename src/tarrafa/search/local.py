"""What does the index on this disk answer?

Promises: the newest commit answers; the moments of the last few answers are kept, so that what was found can still be
shown after the next commit. A match is scored by its text times what links are worth *now*: tantivy orders by what they
were worth when the page was indexed (`order`), and the quotient is made up for here. Known weakness: scores rank within
a block of BLOCK matches only, so a page that comes 101st cannot enter the first block, however many have linked to it
since; the follower writes such pages anew in time.
Knows nothing of other shards, HTML or HTTP.
"""

import contextlib
import random
import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from math import exp2, log2
from operator import attrgetter
from typing import NamedTuple

from tantivy import Occur
from tantivy import Query as Said

from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, QueryError
from tarrafa.graph.reader import GraphReader
from tarrafa.index import schema
from tarrafa.index.documents import static_factor
from tarrafa.index.reader import IndexReader, Match, Snapshot
from tarrafa.model import UrlId
from tarrafa.parse.url import host_name, url_id
from tarrafa.search.curation import Curation
from tarrafa.search.expansion import OFTEN, told
from tarrafa.search.lengths import Means, common
from tarrafa.search.matching import Counted, Counting, Matching, among, below, exactly, of_page, wanted, wanted_of
from tarrafa.search.query import Group, narrowed, parse
from tarrafa.search.question import BLOCK, Block, Candidate, Part, Place, Question, Shown, Sort, Statistics
from tarrafa.search.snippet import snippet
from tarrafa.search.spelling import near
from tarrafa.search.suggesting import completions
from tarrafa.search.vocabulary import WORDS_MAX, Vocabularies
from tarrafa.search.withheld import Clause, Withheld, less

MOMENTS_MAX = 8
LINKING_MAX = 10_000  # pages that `link:` finds
PATIENCE_S = 0.05  # with a vocabulary that is still being read
RECENT_SHARE = 0.2  # what a page of today gains where new ones are preferred
RECENT_HALF_S = 90 * 86_400.0  # after which half of that is left
MEASURED = 30  # matches of a shard whose texts are measured by the mean length of all: 1 ms
NEWCOMER = (0, 1.0)  # who is not known: in-links and rank
CHANGED = "The results have changed in between: please search again."
ORDERS = {Sort.DATE: schema.UPDATED, Sort.LINKS: schema.IN_LINKS}

Now = Callable[[], float]


class _Told(NamedTuple):
    """What was counted last, for whoever then asks with nothing but those counts."""

    counts: Statistics
    snapshot: Snapshot
    question: Question
    said: Said


class LocalShard:
    """Stays open over many questions, in any number of threads, and sees each commit as it comes."""

    def __init__(
        self, data: DataDirectory, now: Now = time.time, patience_s: float = PATIENCE_S, words_max: int = WORDS_MAX
    ) -> None:
        self._data, self._now, self._patience_s = data, now, patience_s
        self._vocabularies = Vocabularies(words_max)
        self._index = IndexReader(data)
        self._graph: GraphReader | None = None
        self._curation = Curation(data)
        self._withheld = Withheld(data, self._curation)
        self._moments: OrderedDict[int, Snapshot] = OrderedDict()
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._next = first_moment()

    @property
    def name(self) -> str:
        return "here"

    def documents(self) -> int:
        return self._index.snapshot().documents

    def statistics(self, question: Question) -> Statistics:
        snapshot = self._index.snapshot()
        counted = Counted(snapshot)
        said = self._say(question, counted, counted)
        counted.counts[schema.LANGUAGE] = snapshot.languages()
        counts = Statistics(snapshot.documents, snapshot.length(), counted.counts)
        self._thread.told = _Told(counts, snapshot, question, said)
        return counts

    def best(self, question: Question, together: Statistics, limit: int) -> Block:
        left_out = self._withheld.clauses()  # before the snapshot: see there
        snapshot = self._index.snapshot()
        said = less(self._said(question, snapshot, together), left_out)
        order = ORDERS.get(question.sort)
        matches, total = snapshot.best(said, limit, weight=schema.STATIC, order=order)
        if order is None:
            matches = self._measured(matches, snapshot, question, together)
        return Block(self._moment(snapshot), total, self._scored(snapshot, matches, question))

    def show(self, question: Question, moment: int, places: list[Place]) -> list[Shown]:
        with self._lock:
            snapshot = self._moments.get(moment)
        if snapshot is None:
            raise QueryError(CHANGED)
        terms, others = wanted(_understood(question)), wanted_of(extra.word for extra in question.extras)
        shown = [snapshot.shown(place) for place in places]
        return [
            Shown(
                one.url, one.title, snippet(one.text, terms, one.language, others), one.updated, one.language,
                one.type, host_name(one.url), one.declared,
            )
            for one in shown
        ]  # fmt: skip

    def why(self, question: Question, together: Statistics, url: str) -> list[Part]:
        left_out = self._withheld.clauses()
        snapshot = self._index.snapshot()
        said, page = self._said(question, snapshot, together), of_page(url_id(url), question.collection)
        said = less(said, left_out)
        both = Said.boolean_query([(Occur.Must, said), (Occur.Must, Said.const_score_query(page, 0.0))])
        matches = [match for match in snapshot.best(both, BLOCK, schema.STATIC)[0] if match.id == url_id(url)]
        if not matches:
            return []
        match = matches[0]
        matching, means = self._matching(question, snapshot, together), _means(snapshot, together)
        leaves = matching.leaves(_understood(question), question.natural, question.extras)
        values = [snapshot.value(leaf.said, match.place) for leaf in leaves]
        parts = [
            Part(leaf.kind, leaf.what, common(value, leaf.most, means.stretch(match.length)))
            for leaf, value in zip(leaves, values, strict=True)
        ]
        _, rank = self._standings([match.id], question.collection).get(match.id, NEWCOMER)
        factors = [Part("links", "", static_factor(rank))]
        if question.recent:
            factors.append(Part("recent", "", self._recency(match)))
        lowered = self._lowered(snapshot, [match.id])
        factors += [Part("curated", "", factor) for factor in lowered.values()]
        return [part for part in parts if part.value > 0] + factors

    def find(self, question: Question, ids: list[UrlId]) -> Block:
        parts = [(Occur.Must, among(ids)), *self._withheld.clauses()]
        snapshot = self._index.snapshot()
        if question.collection is not None:
            parts.append((Occur.Must, exactly(schema.COLLECTION, question.collection)))
        found = snapshot.best(Said.boolean_query(parts), BLOCK)[0]
        standings = self._standings(ids, question.collection)
        newest = {match.id: match for match in sorted(found, key=attrgetter("updated"))}
        candidates = [
            Candidate(0.0, key, standings.get(key, NEWCOMER)[0], newest[key].place, *newest[key][5:], 0.0)
            for key in ids
            if key in newest
        ]
        return Block(self._moment(snapshot), len(candidates), candidates)

    def complete(self, beginning: str, before: str, limit: int) -> list[tuple[str, int]]:
        left_out = self._withheld.clauses()
        snapshot = self._index.snapshot()
        vocabulary = self._vocabularies.newest(snapshot, self._patience_s)
        found = less(Said.all_query(), left_out) if left_out else None
        if before.strip():
            found = less(self._say(Question(before, all_words=True), snapshot, snapshot), left_out)
        return completions(snapshot, vocabulary, beginning, found, limit)

    def alike(self, word: str, limit: int) -> list[tuple[str, int, int]]:
        vocabulary = self._vocabularies.newest(self._index.snapshot(), self._patience_s)
        return near(vocabulary, word, limit) if vocabulary is not None else []

    def speaking(self, question: Question, together: Statistics, pages: int, limit: int) -> list[tuple[str, float]]:
        left_out = self._withheld.clauses()
        snapshot = self._index.snapshot()
        if question.related:
            places = [one.place for one in self.find(question, [url_id(question.related)]).candidates]
        else:
            places = [one.place for one in self._first(snapshot, question, together, pages, left_out)]
        often = 1.0 if question.related else OFTEN
        return told([snapshot.shown(place) for place in places], snapshot, limit, often)

    def _first(
        self, snapshot: Snapshot, question: Question, together: Statistics, pages: int, left_out: list[Clause]
    ) -> list[Candidate]:
        """The best so many, without exact copies."""
        said = less(self._said(question, snapshot, together), left_out)
        matches, _ = snapshot.best(said, BLOCK, weight=schema.STATIC)
        found: dict[object, Candidate] = {}
        for one in sorted(self._scored(snapshot, matches, question), key=attrgetter("score"), reverse=True):
            found.setdefault(one.id if one.content is None else one.content, one)
        return list(found.values())[:pages]

    def _matching(self, question: Question, local: Counting, together: Counting) -> Matching:
        linking = partial(self._linking, collection=question.collection)
        return Matching(local, together, linking, self._curation.rules().synonyms)

    def _said(self, question: Question, snapshot: Snapshot, together: Statistics) -> Said:
        """The question as tantivy takes it; as it was said when it was counted, if nobody else has counted."""
        told: _Told | None = getattr(self._thread, "told", None)
        if told is not None and told.counts is together and told.snapshot is snapshot and told.question == question:
            return told.said
        return self._say(question, snapshot, together)

    def _say(self, question: Question, local: Counting, together: Counting) -> Said:
        """Whoever counts `together` hears of every term that matters."""
        query = narrowed(_understood(question), question.language, question.after, question.before)
        matching = self._matching(question, local, together)
        related = bool(question.related)
        return matching.query(query, question.collection, question.natural, question.extras, related)

    def _measured(
        self, matches: list[Match], snapshot: Snapshot, question: Question, together: Statistics
    ) -> list[Match]:
        """The matches as they would score by the mean length of all shards' texts, the best first; further down than
        anybody looks, as they are."""
        means, first = _means(snapshot, together), matches[:MEASURED]
        if means.are_alike or not matches:
            return matches
        matching, these = self._matching(question, snapshot, together), among(match.id for match in first)
        stretched, gained = (
            {match.place: means.stretch(match.length) for match in first},
            defaultdict[Place, float](float),
        )
        for leaf in matching.leaves(_understood(question), question.natural, question.extras):
            both = Said.boolean_query([(Occur.Must, leaf.said), (Occur.Must, Said.const_score_query(these, 0.0))])
            for place, score in snapshot.scores(both, len(first) + BLOCK).items() if leaf.most else ():
                if place in stretched:
                    gained[place] += common(score, leaf.most, stretched[place]) - score
        measured = [match._replace(score=match.score + log2(2 + match.static) * gained[match.place]) for match in first]
        return sorted([*measured, *matches[MEASURED:]], key=attrgetter("score"), reverse=True)

    def _scored(self, snapshot: Snapshot, matches: list[Match], question: Question) -> list[Candidate]:
        """The matches in the order of the index, each with the score that ranks it in its block."""
        ids = [match.id for match in matches]
        known = self._standings(ids, question.collection)
        standings = [known.get(key, NEWCOMER) for key in ids]
        if question.sort is Sort.RELEVANCE:
            lowered = self._lowered(snapshot, ids)
            scores = [
                match.score * self._factor(match, rank, question.recent) * lowered.get(match.id, 1.0)
                for match, (_, rank) in zip(matches, standings, strict=True)
            ]
        elif question.sort is Sort.LINKS:
            scores = [float(in_links) for in_links, _ in standings]
        else:
            scores = [float(match.updated) for match in matches]
        return [
            Candidate(score, match.id, in_links, match.place, *match[5:], match.score)
            for score, match, (in_links, _) in zip(scores, matches, standings, strict=True)
        ]

    def _lowered(self, snapshot: Snapshot, ids: list[UrlId]) -> dict[UrlId, float]:
        """What the scores of these pages are multiplied by, where their site is lowered."""
        rules = self._curation.rules()
        lowered = below(rules.lowered)
        if lowered is None or not ids:
            return {}
        both = Said.boolean_query([(Occur.Must, lowered), (Occur.Must, among(ids))])
        found, _ = snapshot.best(both, len(ids) + BLOCK)
        return {match.id: rules.factor(host_name(snapshot.shown(match.place).url)) for match in found}

    def _factor(self, match: Match, rank: float, recent: bool) -> float:
        """What becomes of a text score that tantivy has already multiplied by what links were worth."""
        factor = static_factor(rank) / log2(2.0 + match.static)
        return factor * self._recency(match) if recent else factor

    def _recency(self, match: Match) -> float:
        age_s = max(0.0, self._now() - match.updated)
        return 1.0 + RECENT_SHARE * exp2(-age_s / RECENT_HALF_S)

    def _standings(self, ids: list[UrlId], collection: str | None) -> dict[UrlId, tuple[int, float]]:
        """In-links and ranks, fresh from the graph; without one, nobody links to anybody."""
        graph = self._open_graph()
        if graph is None:
            return {}
        try:
            return graph.standings(ids, collection)
        except DataError:
            self._graph = None
            return {}

    def _linking(self, url: str, collection: str | None) -> list[UrlId]:
        graph = self._open_graph()
        return graph.linking(url, collection, LINKING_MAX) if graph is not None else []

    def _open_graph(self) -> GraphReader | None:
        if self._graph is None:
            with contextlib.suppress(DataError):
                self._graph = GraphReader(self._data)
        return self._graph

    def _moment(self, snapshot: Snapshot) -> int:
        """Keep it until so many others have been asked for."""
        with self._lock:
            for number, kept in self._moments.items():
                if kept is snapshot:
                    self._moments.move_to_end(number)
                    return number
            number = self._next = self._next + 1
            self._moments[number] = snapshot
            if len(self._moments) > MOMENTS_MAX:
                self._moments.popitem(last=False)
            return number


def _means(snapshot: Snapshot, together: Statistics) -> Means:
    return Means(snapshot.length() / max(snapshot.documents, 1), together.length / max(together.documents, 1))


def _understood(question: Question) -> Group:
    """What the text says; nothing, where a page is asked for instead of words."""
    if question.related and not question.text.strip():
        return Group()
    return parse(question.text, question.all_words)


def first_moment() -> int:
    """Where a process begins to count: a number that another one, before it or beside it, has never come near. (The
    clock's seconds would not do: there may be more commits than seconds, and clocks are set back.)"""
    return random.SystemRandom().getrandbits(52)
