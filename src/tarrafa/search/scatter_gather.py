"""Scatter-gather: sends one search request to all shards and merges what they return into hits.

Promises: a shard that does not answer is named and asked no more, and the others answer without it; if no shard
answers, that is an error. The result has the same candidates, in the same blocks, as one index with all documents, up
to the last digits of scores. Every shard returns its matches in the order of their scores. They are merged, the first
shard's first among equals, and cut into blocks of BLOCK_MATCHES (`merge_blocks`). Copies are grouped, and in a block a
site's surplus pages move back (`duplicates_and_site_diversity`). Further blocks follow for later pages of results, or
when grouping left too few hits. A longer result of the same shards begins with the shorter one: pages of results are
consistent.

The order among equals must be that of the shards, and not of ids: a shard that is asked for a hundred matches returns
any hundred of a thousand equal ones, always the same, but not those with the smallest ids.

`total` counts the pages that match (of a query of several plain words: those that hold all of them, if there are any;
`others` are those that hold some), less the copies that were found on the way to the requested hits. It is exact once
all matches have been read (up to BLOCK_MATCHES of them: at once), and before that too high by the copies further down.
Where MATCHES_MAX matches do not make enough hits, it is the number of hits that they make: no others can be shown.
`copies` likewise counts the copies met on the way. Any number of requests may use the threads at the same time; a
single shard is called without a thread. Knows nothing of other kinds of requests (`searcher`).

The parts of an index on this machine (`index/shards.py`) are searched in the same way, and are one shard for their
clients, here or elsewhere (`PartitionedShard`).
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial, wraps
from itertools import repeat
from operator import attrgetter, gt
from typing import Concatenate, ParamSpec, TypeVar

import msgspec
from msgspec.structs import replace

from tarrafa.errors import DataError, QueryError, ShardUnavailable
from tarrafa.i18n import Message, Value, message
from tarrafa.index import schema, shards
from tarrafa.model import Hit, ShardReport, UrlId
from tarrafa.parse.url import canonical, url_id
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.search import autocomplete, query_expansion, spelling
from tarrafa.search.duplicates_and_site_diversity import (
    Deduplicator,
    DuplicateGroup,
    RankedCandidate,
    diversify_sites,
)
from tarrafa.search.local_shard import (
    LOCAL_SHARD_NAME,
    RESULTS_CHANGED,
    VOCABULARY_WAIT_S,
    KeptSnapshots,
    LocalShard,
)
from tarrafa.search.match_ranking import PARTIAL_DISTANCE
from tarrafa.search.part_replicas import AskedShards
from tarrafa.search.query_builder import common_words
from tarrafa.search.query_expansion import TermEvidence
from tarrafa.search.query_parser import parse
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
    Shard,
    ShardParts,
    ShardStatistics,
    Sort,
    sum_statistics,
)
from tarrafa.search.vocabulary import WORDS_MAX

WHOLE_PAGES_MIN = 100  # pages with all words; where they are fewer than expected, others are searched, too
THREADS_PER_SHARD, THREADS_MAX = 8, 512
PART_SNAPSHOTS_MAX = 256  # every commit of every part makes a new one
LARGE_PART_DOCUMENTS = 50_000  # documents of a part; smaller parts would only wait for Python's lock

PartSnapshots = tuple[Sequence[Shard], tuple[int, ...]]
Given = ParamSpec("Given")
Answer = TypeVar("Answer")
ShardCall = Callable[Concatenate["PartitionedShard", Given], Answer]
PartsCall = Callable[Concatenate["PartitionedShard", Sequence[Shard], Given], Answer]


class ScatterGather:
    """One request on its way through the shards. A shard that fails is not asked again, nor by follow-up requests
    (`follow_up`); if other shards have its parts, the failure is `OwnerLost`. Without a `pool` there is one shard.
    """

    def __init__(
        self,
        request: SearchRequest,
        asked: AskedShards,
        pool: ThreadPoolExecutor | None,
        away: dict[int, Message | str] | None = None,
    ) -> None:
        self.request, self._asked, self._shards, self._pool = request, asked, asked.shards, pool
        self.ignored: list[str] = []
        self.known = ShardStatistics()
        self.total, self.found = 0, list[DuplicateGroup]()
        self.others = 0  # pages with some of the words only, where `total` counts those with all
        self.is_partial = False  # no page holds all words
        self.is_short = False  # only pages with all words were searched, and they are few
        self.away: dict[int, Message | str] = {} if away is None else away
        self._pinned: set[UrlId] = set()
        self._is_whole = False  # a shard has searched pages with all words only
        self._answers: list[tuple[int, int]] = []  # shard and snapshot of each response with candidates

    def follow_up(self, request: SearchRequest) -> "ScatterGather":
        """Another request to the same shards, even if the set of shards has changed meanwhile."""
        return ScatterGather(request, self._asked, self._pool, self.away)

    def find_groups(self, pinned: list[UrlId]) -> None:
        """The total, and as many groups as requested."""
        request = self.request
        overall = self.known = self.global_statistics()
        where = request.collection
        if where is not None and not overall.frequency(schema.COLLECTION, where):
            raise QueryError(message("Nothing is indexed of a collection named {name}.", name=repr(where[:100])))
        if request.natural and request.text.strip():
            self.ignored = common_words(parse(request.text, request.all_words), overall)
        enough = MATCHES_MAX if request.like else request.offset + request.n + bool(request.related)
        matching, whole, groups = self._collect_groups(overall, pinned, enough)
        self.total, self.found = matching, groups.all
        if whole is not None:
            self._count_whole(matching, whole)
            self.is_short = self._is_whole and whole < WHOLE_PAGES_MIN
        if request.like:
            self.found = [[one] for one in groups.group_of(url_id(canonical(request.like) or request.like))]
            self.total = len(self.found)
        elif request.related:
            own = groups.group_of(url_id(request.related))
            self.found = [group for group in groups.all if group is not own]
            self.total -= bool(own)

    def _count_whole(self, matching: int, whole: int) -> None:
        """The total of pages that hold all words, less their copies; where there are none, of those that hold some."""
        if not whole:
            self.is_partial = matching > 0
            return
        grouped = (group for group in self.found if len(group) > 1)
        several = [{one.candidate.id for one in group if not one.candidate.partial} for group in grouped]
        copies = sum(len(ids) - 1 for ids in several if ids)
        self.total = min(max(whole - copies, 1), matching)
        self.others = matching - self.total

    def count_matches(self) -> int:
        """How many documents match, copies included."""
        overall = self.global_statistics()
        return sum(block.total for block in self._best(overall, 1).values())

    def expansion_terms(self, pages: int, limit: int) -> list[TermEvidence]:
        """The words of the best pages, or of the page in `related`; each shard reports its own."""
        if self.request.related:
            return list(
                self.ask_each(lambda shard: shard.expansion_terms(self.request, self.known, pages, limit)).values()
            )
        own = Counter(self._answers[group[0].answer][0] for group in self.found[:pages])

        def terms_of(number: int) -> TermEvidence:
            return self._shards[number].expansion_terms(self.request, self.known, own[number], limit)

        return list(self._gather(terms_of, list(own)).values())

    def _start_groups(self, pinned: list[UrlId]) -> Deduplicator:
        """Groups that begin with these pinned pages; their duplicates become their copies."""
        groups = Deduplicator(apart=self.request.copies and not self.request.like and not self.request.related)
        if pinned:
            answers = self.ask_each(lambda shard: shard.find_urls(self.request, pinned))
            found = {one.candidate.id: one for one in self._merged(answers, URLS_MAX)}
            block = [found[key] for key in pinned if key in found]
            groups.add(block)
            groups.looked -= len(block)  # those that match are met again
            self._pinned = {group[0].candidate.id for group in groups.all}
        return groups

    def explain_score(self, url: str) -> list[ScorePart]:
        overall = self.global_statistics()
        answers = self.ask_each(lambda shard: shard.explain_score(self.request, overall, url))
        return next((parts for parts in answers.values() if parts), [])

    def global_statistics(self) -> ShardStatistics:
        """The sum of the term statistics of all shards."""
        found = sum_statistics(self.ask_each(lambda shard: shard.statistics(self.request)).values())
        if not self.away:
            self._asked.check_complete(found.complete)
        return found

    def fetch_hits(self, groups: list[DuplicateGroup]) -> list[Hit]:
        """The displayed fields of these groups, each from the shard that it came from."""
        wanted: dict[int, list[int]] = {}
        for place, group in enumerate(groups):
            wanted.setdefault(group[0].answer, []).append(place)
        by_shard: dict[int, list[tuple[int, list[int]]]] = {}
        for answer, places in wanted.items():
            number, moment = self._answers[answer]
            by_shard.setdefault(number, []).append((moment, places))

        def shown(number: int) -> dict[int, Hit]:
            hits: dict[int, Hit] = {}
            for moment, places in by_shard[number]:
                found = [groups[place][0].candidate.place for place in places]
                several = self._shards[number].show(self.request, moment, found)
                hits |= {place: self._hit(groups[place], one) for place, one in zip(places, several, strict=True)}
            return hits

        hits: dict[int, Hit] = {}
        for some in self._gather(shown, list(by_shard)).values():
            hits |= some
        return self._with_indexed_alternates([hits[place] for place in sorted(hits)])

    def _with_indexed_alternates(self, hits: list[Hit]) -> list[Hit]:
        """The hits, with those of their alternates that can be found, too."""
        ids = {url: url_id(url) for hit in hits if hit.alternates for _, url in hit.alternates}
        if not ids:
            return hits
        wanted, indexed = list(ids.values()), set[UrlId]()
        for start in range(0, len(wanted), URLS_MAX):
            some = wanted[start : start + URLS_MAX]
            for block in self.ask_each(partial(_find_urls, request=self.request, ids=some)).values():
                indexed.update(one.id for one in block.candidates)
        return [
            replace(hit, alternates=tuple(one for one in hit.alternates if ids[one[1]] in indexed) or msgspec.UNSET)
            if hit.alternates
            else hit
            for hit in hits
        ]

    def _hit(self, group: DuplicateGroup, shown: HitDetails) -> Hit:
        best = group[0].candidate
        return Hit(
            shown.url, shown.title, shown.snippet, self._shown_score(best), best.in_links, shown.date, shown.language,
            len(group) - 1, shown.type, shown.site, best.id in self._pinned, shown.declared,
            shown.date_kind, shown.alternates or msgspec.UNSET, shown.full_title or msgspec.UNSET,
        )  # fmt: skip

    def _shown_score(self, best: Candidate) -> float:
        is_lowered = best.partial and self.request.sort is not Sort.RELEVANCE
        return round(best.score + PARTIAL_DISTANCE if is_lowered else best.score, 4)

    def site_factor(self, key: UrlId) -> float:
        """The factor of a hit's score where its site has better pages."""
        return next((group[0].site_factor for group in self.found if group[0].candidate.id == key), 1.0)

    def shard_reports(self) -> list[ShardReport]:
        """The shards that were asked, with the reason of each failure; empty if there is only one shard. Parts of the
        index that no shard has completely are named, too."""
        several = enumerate(self._shards) if self._pool is not None else ()
        reports = [ShardReport(shard.name, self.away.get(number, "")) for number, shard in several]
        missing = sorted({*range(1, self.known.parts + 1)} - {*self.known.complete})
        if missing:
            name = f"{','.join(map(str, missing))}/{self.known.parts}"
            reports.append(ShardReport(name, message("being built, or on no machine that answers")))
        return reports

    def _collect_groups(
        self, overall: ShardStatistics, pinned: list[UrlId], enough: int
    ) -> tuple[int, int | None, Deduplicator]:
        """Read block by block, until there are enough groups or no matches are left; the total, how many of the matches
        hold all words, and the groups.
        """
        groups = self._start_groups(pinned)
        looked, limit = 0, -(-enough // BLOCK_MATCHES) * BLOCK_MATCHES
        while True:
            present = len(self.away)
            answers = self._best(overall, limit)
            if looked and len(self.away) > present:  # fewer shards give other blocks
                groups, looked = self._start_groups(pinned), 0
            found = self._merged(answers, limit)
            total, whole = sum(block.total for block in answers.values()), _sum_whole(answers.values())
            self._is_whole = any(block.is_whole for block in answers.values())
            for start in range(looked, limit, BLOCK_MATCHES):
                before = len(groups.all)
                groups.add(rank_block(found[start : start + BLOCK_MATCHES]))
                if self._spreads_sites():
                    groups.all[before:] = diversify_sites(groups.all[before:])
                if len(groups.all) >= enough:
                    return total - groups.looked + len(groups.all), whole, groups
            if limit >= min(total, MATCHES_MAX):
                return len(groups.all), whole, groups
            looked, limit = limit, min(2 * limit, MATCHES_MAX)

    def _best(self, overall: ShardStatistics, limit: int) -> dict[int, CandidateBlock]:
        return self.ask_each(lambda shard: shard.top_matches(self.request, overall, limit))

    def _merged(self, answers: dict[int, CandidateBlock], limit: int) -> list[RankedCandidate]:
        found = merge_blocks(list(answers.values()), limit, len(self._answers))
        self._answers += ((number, block.moment) for number, block in answers.items())
        return found

    def _spreads_sites(self) -> bool:
        request = self.request
        return request.sort is Sort.RELEVANCE and not request.crowded and not request.like

    def ask_each(self, ask: Callable[[Shard], Answer]) -> dict[int, Answer]:
        """The response of each shard; at least one answers."""
        present = [number for number in range(len(self._shards)) if number not in self.away]
        answers = self._gather(lambda number: ask(self._shards[number]), present)
        if not answers:
            raise ShardUnavailable(self._away_message(self.away))
        return answers

    def _gather(self, ask: Callable[[int], Answer], numbers: list[int]) -> dict[int, Answer]:
        """The responses of these shards, asked in parallel. Where there are others, a failed shard is only named."""
        if self._pool is None:
            try:
                return {number: ask(number) for number in numbers}
            except ShardUnavailable as error:
                self._asked.check_lost(0, error)
                raise ShardUnavailable(self._away_message({0: error.message})) from None
        futures = {number: self._pool.submit(ask, number) for number in numbers}
        answers: dict[int, Answer] = {}
        for number, future in futures.items():
            try:
                answers[number] = future.result()
            except (ShardUnavailable, DataError) as error:
                self._asked.check_lost(number, error)
                self.away[number] = error.message
        return answers

    def _away_message(self, away: dict[int, Message | str]) -> Message:
        """The shards that do not answer, each with its reason."""
        values: dict[str, Value] = {f"name{number}": self._shards[number].name for number in away}
        values |= {f"why{number}": why for number, why in away.items()}
        return Message("; ".join(f"{{name{number}}}: {{why{number}}}" for number in away), values)


def _find_urls(shard: Shard, request: SearchRequest, ids: list[UrlId]) -> CandidateBlock:
    return shard.find_urls(request, ids)


def _sum_whole(blocks: Iterable[CandidateBlock]) -> int | None:
    """The matches with all words; a shard for which there is no difference counts all of its own. None: in no shard."""
    several = list(blocks)
    if all(block.whole is None for block in several):
        return None
    return sum(block.total if block.whole is None else block.whole for block in several)


_score, _id = attrgetter("candidate.score"), attrgetter("candidate.id")


def merge_blocks(blocks: Sequence[CandidateBlock], limit: int, first: int = 0) -> list[RankedCandidate]:
    """The matches of all shards, up to the limit, each with its block number, counted from `first`."""
    found = list[RankedCandidate]()
    for number, block in enumerate(blocks, first):
        found += map(RankedCandidate, block.candidates, repeat(number))
    if len(blocks) > 1:
        found.sort(key=_score, reverse=True)  # stable
    return found[:limit]


def rank_block(block: list[RankedCandidate]) -> list[RankedCandidate]:
    """A block, best first; ids break ties within it, so that the order does not depend on segments or shards."""
    scores = list(map(_score, block))
    if not all(map(gt, scores, scores[1:])):  # most often it is in this order, without ties
        block.sort(key=_id)
        block.sort(key=_score, reverse=True)  # stable: two sorts by one key take half the time of one by two
    return block


class ShardThreads:
    """A thread pool that is as large as the number of shards needs. A pool that has become too small ends when its last
    request is answered.
    """

    def __init__(self) -> None:
        self._lock, self._most = threading.Lock(), 0
        self._pool: ThreadPoolExecutor | None = None

    def pool_for(self, shards: int) -> ThreadPoolExecutor | None:
        """None: a single shard is called in the caller's thread."""
        if shards < 2:
            return None
        wanted = min(THREADS_PER_SHARD * shards, THREADS_MAX)
        with self._lock:
            if self._pool is None or self._most < wanted:
                self._pool, self._most = ThreadPoolExecutor(wanted, thread_name_prefix="asks shards"), wanted
            return self._pool


# -- an index in several parts -----------------------------------------------------------------------------------------


def _retry_when_redivided(method: PartsCall[Given, Answer]) -> ShardCall[Given, Answer]:
    """Call the method with the present parts, and again when they have disappeared because the index got a new shard
    layout: the new parts are asked.
    """

    @wraps(method)
    def ask(joined: "PartitionedShard", /, *given: Given.args, **named: Given.kwargs) -> Answer:
        before = joined._parts()
        try:
            return method(joined, before, *given, **named)
        except DataError:
            parts = joined._parts()
            if parts == before:
                raise
            return method(joined, parts, *given, **named)

    return ask


class PartitionedShard:
    """All parts of an index as one shard. `parts` returns the present ones, or those of some numbers; one without
    documents is skipped. All parts answer or none: a part of this machine that fails is damaged. Hits can be shown as
    long as each part keeps its own snapshot. `layout` tells which parts are here, where other machines have the
    others."""

    def __init__(
        self,
        name: str,
        parts: Callable[..., Sequence[Shard]],
        layout: Callable[[], shards.ShardLayout] | None = None,
    ) -> None:
        self.name, self._parts, self._layout = name, parts, layout
        self._numbers: frozenset[int] | None = None  # of the parts that are asked; None: all
        self._snapshots = KeptSnapshots[PartSnapshots](PART_SNAPSHOTS_MAX)
        self._threads = ShardThreads()

    @_retry_when_redivided
    def documents(self, parts: Sequence[Shard]) -> int:
        return sum(part.documents() for part in parts)

    @_retry_when_redivided
    def count_urls(self, parts: Sequence[Shard]) -> int:
        return sum(part.count_urls() for part in parts)

    def parts(self) -> ShardParts:
        self._parts()
        layout = self._layout() if self._layout is not None else None
        if layout is None or not layout.is_owned:
            return ShardParts()
        return ShardParts(layout.of, list(layout.complete), list(layout.building))

    def restricted(self, numbers: Sequence[int]) -> "PartitionedShard":
        if self._layout is None:
            return self
        view = copy(self)
        view._numbers, view._parts = frozenset(numbers), partial(self._parts, frozenset(numbers))
        return view

    @_retry_when_redivided
    def statistics(self, parts: Sequence[Shard], request: SearchRequest) -> ShardStatistics:
        found = sum_statistics(part.statistics(request) for part in parts)
        layout = self._layout() if self._layout is not None else None
        if layout is not None and layout.is_owned:
            found.parts = layout.of
            found.complete = [one for one in layout.complete if self._numbers is None or one in self._numbers]
        return found

    @_retry_when_redivided
    def top_matches(
        self, parts: Sequence[Shard], request: SearchRequest, overall: ShardStatistics, limit: int
    ) -> CandidateBlock:
        return self._join(parts, self._best(parts, request, overall, limit), limit)

    @_retry_when_redivided
    def find_urls(self, parts: Sequence[Shard], request: SearchRequest, ids: list[UrlId]) -> CandidateBlock:
        found = self._join(parts, [part.find_urls(request, ids) for part in parts], len(ids) * len(parts))
        known = {one.id: one for one in reversed(found.candidates)}
        several = [known[key] for key in ids if key in known]
        return CandidateBlock(found.moment, len(several), several)

    def explain_score(self, request: SearchRequest, overall: ShardStatistics, url: str) -> list[ScorePart]:
        return next((parts for one in self._parts() if (parts := one.explain_score(request, overall, url))), [])

    def complete(self, beginning: str, before: str, limit: int) -> list[tuple[str, int]]:
        answers = [part.complete(beginning, before, limit) for part in self._parts()]
        return autocomplete.merge_completions(beginning, answers, limit)

    def similar_words(self, word: str, limit: int) -> list[tuple[str, int, int]]:
        return spelling.merge_similar_words(word, (part.similar_words(word, limit) for part in self._parts()), limit)

    def expansion_terms(
        self, request: SearchRequest, overall: ShardStatistics, pages: int, limit: int
    ) -> list[tuple[str, float]]:
        parts = self._parts()
        shares = [pages] * len(parts)
        if len(parts) > 1 and not request.related:  # the best pages of all parts are spread over them
            blocks = self._best(parts, request, overall, BLOCK_MATCHES)
            different: dict[object, int] = {}
            for one in rank_block(merge_blocks(blocks, BLOCK_MATCHES)):
                different.setdefault(one.candidate.content or one.candidate.id, one.answer)
            first = Counter(list(different.values())[:pages])
            shares = [first[number] for number in range(len(parts))]
        feedback_parts = [(part, share) for part, share in zip(parts, shares, strict=True) if share]
        return query_expansion.merge_evidence(
            [part.expansion_terms(request, overall, share, limit) for part, share in feedback_parts], limit
        )

    def show(self, request: SearchRequest, moment: int, places: list[DocumentAddress]) -> list[HitDetails]:
        parts, moments = self._snapshots.get(moment)
        if places and not parts:
            raise QueryError(RESULTS_CHANGED)
        if len(parts) == 1:
            return parts[0].show(request, moments[0], places)
        shown: dict[DocumentAddress, HitDetails] = {}
        for number, (part, one) in enumerate(zip(parts, moments, strict=True)):
            own = [place for place in places if place[0] % len(parts) == number]
            if own:
                local = [(place[0] // len(parts), place[1]) for place in own]
                shown |= zip(own, part.show(request, one, local), strict=True)
        return [shown[place] for place in places]

    def _best(
        self, parts: Sequence[Shard], request: SearchRequest, overall: ShardStatistics, limit: int
    ) -> list[CandidateBlock]:
        """The matches of each part. Large parts are searched in parallel: tantivy releases Python's lock."""

        def ask(part: Shard) -> CandidateBlock:
            return part.top_matches(request, overall, limit)

        pool = self._threads.pool_for(len(parts))
        if pool is None or sum(part.documents() for part in parts) < LARGE_PART_DOCUMENTS * len(parts):
            return list(map(ask, parts))
        others = [pool.submit(ask, part) for part in parts[1:]]
        return [ask(parts[0]), *(other.result() for other in others)]

    def _join(self, parts: Sequence[Shard], blocks: list[CandidateBlock], limit: int) -> CandidateBlock:
        """Join the matches of all parts; each place tells its part."""
        moments = tuple(block.moment for block in blocks)
        moment = self._snapshots.number(moments, (parts, moments))
        if len(parts) == 1:
            return msgspec.structs.replace(blocks[0], moment=moment)
        found = [
            msgspec.structs.replace(one, place=(one.place[0] * len(parts) + number, one.place[1]))
            for one, number, _ in merge_blocks(blocks, limit)
        ]
        return CandidateBlock(
            moment, sum(block.total for block in blocks), found, _sum_whole(blocks), any(b.is_whole for b in blocks)
        )


def open_local_shard(
    data: DataDirectory, patience_s: float = VOCABULARY_WAIT_S, or_nothing: bool = False
) -> PartitionedShard:
    """Open the index of a data directory, in any number of parts, with the time to wait for a vocabulary that is still
    being read. Without an index this raises `DataError` or, if requested, returns a shard without documents.
    """
    parts = _LocalParts(data, patience_s, or_nothing)
    return PartitionedShard(LOCAL_SHARD_NAME, parts, lambda: parts.layout)


class _LocalParts:
    """The present parts, looked up at each request in one small file."""

    def __init__(self, data: DataDirectory, patience_s: float, or_nothing: bool) -> None:
        self._data, self._path, self._patience_s = data, shards.path_of(data), patience_s
        self._or_nothing = or_nothing
        self._seen: tuple[int, ...] | None = None
        self._all: tuple[shards.ShardLayout, list[tuple[DataDirectory, LocalShard]]] = (shards.SINGLE_SHARD, [])

    @property
    def layout(self) -> shards.ShardLayout:
        return self._all[0]

    def __call__(self, numbers: frozenset[int] | None = None) -> list[Shard]:
        seen = file_fingerprint(self._path)
        if seen != self._seen:
            new, kept = shards.read_layout(self._data), dict(self._all[1])
            parts = shards.parts_of(self._data, new)
            words_max = WORDS_MAX // max(1, len(parts))
            opened = [
                (part, kept.get(part) or LocalShard(part, patience_s=self._patience_s, words_max=words_max))
                for part in parts
            ]
            self._all, self._seen = (new, opened), seen
        layout, known = self._all
        or_nothing = self._or_nothing or layout.is_owned
        if numbers is not None and layout.is_owned:
            if not numbers <= {*layout.here}:
                raise DataError(message("a part of the index is on another machine now"))
            known = [one for number, one in zip(layout.here, known, strict=True) if number in numbers]
        if len(known) == 1 and not or_nothing:
            return [known[0][1]]
        filled: list[Shard] = [shard for part, shard in known if schema.exists(part)]
        return filled if filled or or_nothing else [known[0][1]]
