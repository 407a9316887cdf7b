"""PartitionedShard: an index in several parts on this machine, searched as one shard.

An index may have several parts (`index/shards.py`); for its clients, here or on other machines, they are one shard.
Promises: the same results as one shard with all documents, up to the last digits of scores; hits can be shown as long
as each part keeps its own snapshot. All parts answer or none: a part of this machine that fails is damaged, and the
error says so. A part without documents is skipped; an index with a new shard layout is opened again. Knows nothing of
other machines.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import msgspec

from tarrafa.errors import DataError, QueryError
from tarrafa.index import schema, shards
from tarrafa.model import UrlId
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.search import autocomplete, query_expansion, spelling
from tarrafa.search.local_shard import (
    LOCAL_SHARD_NAME,
    RESULTS_CHANGED,
    VOCABULARY_WAIT_S,
    KeptSnapshots,
    LocalShard,
)
from tarrafa.search.request import (
    BLOCK_MATCHES,
    CandidateBlock,
    DocumentAddress,
    HitDetails,
    ScorePart,
    SearchRequest,
    Shard,
    ShardStatistics,
    sum_statistics,
)
from tarrafa.search.scatter_gather import ShardThreads, merge_blocks, rank_block
from tarrafa.search.vocabulary import WORDS_MAX

SNAPSHOTS_KEPT_MAX = 256  # every commit of every part makes a new one
LARGE_PART_DOCUMENTS = 50_000  # documents of a part; smaller parts would only wait for Python's lock

PartSnapshots = tuple[Sequence[Shard], tuple[int, ...]]


Given = ParamSpec("Given")
Answer = TypeVar("Answer")
ShardCall = Callable[Concatenate["PartitionedShard", Given], Answer]


def _retry_when_redivided(method: ShardCall[Given, Answer]) -> ShardCall[Given, Answer]:
    """Retry when parts have disappeared because the index got a new shard layout: the new parts are asked."""

    @wraps(method)
    def ask(joined: "PartitionedShard", /, *given: Given.args, **named: Given.kwargs) -> Answer:
        before = joined._parts()
        try:
            return method(joined, *given, **named)
        except DataError:
            if joined._parts() == before:
                raise
            return method(joined, *given, **named)

    return ask


class PartitionedShard:
    """Asks all parts. `parts` returns the present ones."""

    def __init__(self, name: str, parts: Callable[[], Sequence[Shard]]) -> None:
        self.name, self._parts = name, parts
        self._snapshots = KeptSnapshots[PartSnapshots](SNAPSHOTS_KEPT_MAX)
        self._threads = ShardThreads()

    @_retry_when_redivided
    def documents(self) -> int:
        return sum(part.documents() for part in self._parts())

    @_retry_when_redivided
    def count_urls(self) -> int:
        return sum(part.count_urls() for part in self._parts())

    @_retry_when_redivided
    def statistics(self, request: SearchRequest) -> ShardStatistics:
        return sum_statistics(part.statistics(request) for part in self._parts())

    @_retry_when_redivided
    def top_matches(self, request: SearchRequest, overall: ShardStatistics, limit: int) -> CandidateBlock:
        parts = self._parts()
        return self._join(parts, self._best(parts, request, overall, limit), limit)

    @_retry_when_redivided
    def find_urls(self, request: SearchRequest, ids: list[UrlId]) -> CandidateBlock:
        parts = self._parts()
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
        return CandidateBlock(moment, sum(block.total for block in blocks), found)


def open_local_shard(data: DataDirectory, patience_s: float = VOCABULARY_WAIT_S, or_nothing: bool = False) -> Shard:
    """Open the index of a data directory, in any number of parts, with the time to wait for a vocabulary that is still
    being read. Without an index this raises `DataError` or, if requested, returns a shard without documents.
    """
    return PartitionedShard(LOCAL_SHARD_NAME, _LocalParts(data, patience_s, or_nothing))


class _LocalParts:
    """The present parts, looked up at each request in one small file."""

    def __init__(self, data: DataDirectory, patience_s: float, or_nothing: bool) -> None:
        self._data, self._path, self._patience_s = data, shards.path_of(data), patience_s
        self._or_nothing = or_nothing
        self._seen: tuple[int, ...] | None = None
        self._all: list[tuple[DataDirectory, LocalShard]] = []

    def __call__(self) -> list[Shard]:
        seen = file_fingerprint(self._path)
        if not self._all or seen != self._seen:
            parts, patience_s = shards.parts(self._data), self._patience_s
            words_max = WORDS_MAX // len(parts)
            self._all = [(part, LocalShard(part, patience_s=patience_s, words_max=words_max)) for part in parts]
            self._seen = seen
        known = self._all
        if len(known) == 1 and not self._or_nothing:
            return [known[0][1]]
        filled: list[Shard] = [shard for part, shard in known if schema.exists(part)]
        return filled if filled or self._or_nothing else [known[0][1]]
