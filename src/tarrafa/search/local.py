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
from tarrafa.index.reader import IndexReader, Matches, Snapshot
from tarrafa.model import UrlId
from tarrafa.parse.url import host_name, url_id
from tarrafa.search.curation import Curation, Rules
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


class _Ground(NamedTuple):
    """What one question stands on: the newest commit, and what those who run the engine want at that moment."""

    rules: Rules
    left_out: list[Clause]
    snapshot: Snapshot


class _Told(NamedTuple):
    """What was counted last, for whoever then asks with nothing but those counts."""

    counts: Statistics
    ground: _Ground
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
        self._withheld = Withheld(data)
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
        ground = self._ground()
        snapshot = ground.snapshot
        counted = Counted(snapshot)
        said = self._say(question, ground.rules, counted, counted)
        counted.counts[schema.LANGUAGE] = snapshot.languages()
        counts = Statistics(snapshot.documents, snapshot.written, snapshot.length(), counted.counts)
        self._thread.told = _Told(counts, ground, question, said)
        return counts

    def best(self, question: Question, together: Statistics, limit: int) -> Block:
        ground, said = self._said(question, together)
        order = ORDERS.get(question.sort)
        matches = ground.snapshot.best(said, limit, weight=schema.STATIC, order=order)
        if order is None:
            matches = self._measured(matches, ground, question, together)
        return Block(self._moment(ground.snapshot), matches.total, self._scored(ground, matches, question))

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
        ground, said = self._said(question, together)
        key, snapshot = url_id(url), ground.snapshot
        page = Said.const_score_query(of_page(key, question.collection), 0.0)
        matches = snapshot.best(Said.boolean_query([(Occur.Must, said), (Occur.Must, page)]), BLOCK, schema.STATIC)
        ids = matches.ids()
        if key not in ids:
            return []
        at = ids.index(key)
        place, length, updated = matches.places()[at], matches.fact(schema.LENGTH)[at], matches.fact(schema.UPDATED)[at]
        matching = self._matching(question, ground.rules, snapshot, together)
        leaves = matching.leaves(_understood(question), question.natural, question.extras)
        stretch = _means(snapshot, together).stretch(length)
        parts = [
            Part(leaf.kind, leaf.what, common(snapshot.value(leaf.said, place), leaf.most, stretch)) for leaf in leaves
        ]
        _, rank = self._standings([key], question.collection).get(key, NEWCOMER)
        factors = [Part("links", "", static_factor(rank))]
        if question.recent:
            factors.append(Part("recent", "", self._recency(updated)))
        lowered = self._lowered(ground, [key])
        factors += [Part("curated", "", factor) for factor in lowered.values()]
        return [part for part in parts if part.value > 0] + factors

    def find(self, question: Question, ids: list[UrlId]) -> Block:
        ground = self._ground()
        candidates = self._found(ground, question, ids)
        return Block(self._moment(ground.snapshot), len(candidates), candidates)

    def _found(self, ground: _Ground, question: Question, ids: list[UrlId]) -> list[Candidate]:
        """What `find` finds: where several collections have a page, the newest."""
        parts = [(Occur.Must, among(ids)), *ground.left_out]
        if question.collection is not None:
            parts.append((Occur.Must, exactly(schema.COLLECTION, question.collection)))
        matches = ground.snapshot.best(Said.boolean_query(parts), BLOCK)
        keys, updated = matches.ids(), matches.fact(schema.UPDATED)
        known = self._standings(keys, question.collection)
        candidates = _candidates(matches, [0.0] * len(keys), keys, [known.get(key, NEWCOMER)[0] for key in keys])
        newest = {candidates[at].id: candidates[at] for at in sorted(range(len(keys)), key=updated.__getitem__)}
        return [newest[key] for key in ids if key in newest]

    def complete(self, beginning: str, before: str, limit: int) -> list[tuple[str, int]]:
        ground = self._ground()
        snapshot = ground.snapshot
        vocabulary = self._vocabularies.newest(snapshot, self._patience_s)
        found = less(Said.all_query(), ground.left_out) if ground.left_out else None
        if before.strip():
            said = self._say(Question(before, all_words=True), ground.rules, snapshot, snapshot)
            found = less(said, ground.left_out)
        return completions(snapshot, vocabulary, beginning, found, limit)

    def alike(self, word: str, limit: int) -> list[tuple[str, int, int]]:
        vocabulary = self._vocabularies.newest(self._index.snapshot(), self._patience_s)
        return near(vocabulary, word, limit) if vocabulary is not None else []

    def speaking(self, question: Question, together: Statistics, pages: int, limit: int) -> list[tuple[str, float]]:
        if question.related:
            ground = self._ground()
            candidates = self._found(ground, question, [url_id(question.related)])
        else:
            ground, said = self._said(question, together)
            candidates = self._first(ground, said, question)[:pages]
        often, snapshot = 1.0 if question.related else OFTEN, ground.snapshot
        return told([snapshot.shown(one.place) for one in candidates], snapshot, limit, often)

    def _first(self, ground: _Ground, said: Said, question: Question) -> list[Candidate]:
        """The best, without exact copies."""
        matches = ground.snapshot.best(said, BLOCK, weight=schema.STATIC)
        found: dict[object, Candidate] = {}
        for one in sorted(self._scored(ground, matches, question), key=attrgetter("score"), reverse=True):
            found.setdefault(one.id if one.content is None else one.content, one)
        return list(found.values())

    def _ground(self) -> _Ground:
        rules = self._curation.rules()
        left_out = self._withheld.clauses(rules.blocked)  # before the snapshot: see there
        return _Ground(rules, left_out, self._index.snapshot())

    def _matching(self, question: Question, rules: Rules, local: Counting, together: Counting) -> Matching:
        linking = partial(self._linking, collection=question.collection)
        return Matching(local, together, linking, rules.synonyms)

    def _said(self, question: Question, together: Statistics) -> tuple[_Ground, Said]:
        """The question as tantivy takes it, less what must not be shown, and what it is asked of; as it was when it was
        counted, if nobody else has counted."""
        told: _Told | None = getattr(self._thread, "told", None)
        if told is not None and told.counts is together and told.question == question:
            return told.ground, less(told.said, told.ground.left_out)
        ground = self._ground()
        return ground, less(self._say(question, ground.rules, ground.snapshot, together), ground.left_out)

    def _say(self, question: Question, rules: Rules, local: Counting, together: Counting) -> Said:
        """Whoever counts `together` hears of every term that matters."""
        query = narrowed(_understood(question), question.language, question.after, question.before)
        matching = self._matching(question, rules, local, together)
        related = bool(question.related)
        return matching.query(query, question.collection, question.natural, question.extras, related)

    def _measured(self, matches: Matches, ground: _Ground, question: Question, together: Statistics) -> Matches:
        """The matches as they would score by the mean length of all shards' texts, the best first; further down than
        anybody looks, as they are."""
        snapshot = ground.snapshot
        means = _means(snapshot, together)
        if means.are_alike or not matches:
            return matches
        first = matches.first(MEASURED)
        matching, these = self._matching(question, ground.rules, snapshot, together), among(first.ids())
        places, stretches = first.places(), map(means.stretch, first.fact(schema.LENGTH))
        stretched, gained = dict(zip(places, stretches, strict=True)), defaultdict[Place, float](float)
        for leaf in matching.leaves(_understood(question), question.natural, question.extras):
            both = Said.boolean_query([(Occur.Must, leaf.said), (Occur.Must, Said.const_score_query(these, 0.0))])
            for place, score in snapshot.scores(both, len(first) + BLOCK).items() if leaf.most else ():
                if place in stretched:
                    gained[place] += common(score, leaf.most, stretched[place]) - score
        several = zip(first.scores, first.fact(schema.STATIC), places, strict=True)
        measured = [score + log2(2 + static) * gained[place] for score, static, place in several]
        return matches.scored([*measured, *matches.scores[MEASURED:]])

    def _scored(self, ground: _Ground, matches: Matches, question: Question) -> list[Candidate]:
        """The matches in the order of the index, each with the score that ranks it in its block."""
        ids = matches.ids()
        known = self._standings(ids, question.collection)
        standings = [known.get(key, NEWCOMER) for key in ids]
        if question.sort is Sort.RELEVANCE:
            # tantivy has multiplied by what links were worth when the page was indexed.
            several = zip(matches.scores, matches.fact(schema.STATIC), standings, strict=True)
            scores = [score * static_factor(rank) / log2(2.0 + static) for score, static, (_, rank) in several]
            if question.recent:
                aged = zip(scores, matches.fact(schema.UPDATED), strict=True)
                scores = [score * self._recency(updated) for score, updated in aged]
            lowered = self._lowered(ground, ids)
            if lowered:
                scores = [score * lowered.get(key, 1.0) for score, key in zip(scores, ids, strict=True)]
        elif question.sort is Sort.LINKS:
            scores = [float(in_links) for in_links, _ in standings]
        else:
            scores = [float(updated) for updated in matches.fact(schema.UPDATED)]
        in_links = [in_links for in_links, _ in standings]
        return _candidates(matches, scores, ids, in_links)

    def _lowered(self, ground: _Ground, ids: list[UrlId]) -> dict[UrlId, float]:
        """What the scores of these pages are multiplied by, where their site is lowered."""
        rules, snapshot = ground.rules, ground.snapshot
        lowered = below(rules.lowered)
        if lowered is None or not ids:
            return {}
        both = Said.boolean_query([(Occur.Must, lowered), (Occur.Must, among(ids))])
        found = snapshot.best(both, len(ids) + BLOCK)
        hosts = (host_name(snapshot.shown(place).url) for place in found.places())
        return dict(zip(found.ids(), map(rules.factor, hosts), strict=True))

    def _recency(self, updated: int) -> float:
        age_s = max(0.0, self._now() - updated)
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


def _candidates(matches: Matches, scores: list[float], ids: list[UrlId], in_links: list[int]) -> list[Candidate]:
    copied = (schema.CONTENT, schema.SIMHASH, schema.HEADLINE, schema.URL_LENGTH, schema.SITE_ID)
    facts = map(matches.fact, copied)
    return list(map(Candidate, scores, ids, in_links, matches.places(), *facts, matches.scores))


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
