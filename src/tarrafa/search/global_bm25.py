"""BM25 over all shards: the statistics of terms, and mean text lengths, by which a page scores alike in every shard.

A request first counts its terms in each shard (`RecordingTermStatistics`); the sums weigh the words of its query in all
of them (`query_builder`). Scores of tantivy, which knows only the mean length of its own index, are corrected by
`MeanLengths`.
Promises: what is remembered of readings is bounded, and belongs to one snapshot of one shard. Knows nothing of queries
but their terms.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeVar, cast

from tarrafa.index import schema
from tarrafa.index.text_analysis import readings

READINGS_REMEMBERED_MAX = 20_000  # of words in the queries on one commit
BM25_B = 0.75  # as in tantivy: how much lengths matter
CLOSE_SHARE = 0.005  # mean lengths that differ by less are treated as equal: a correction costs a millisecond

Terms = tuple[str, ...]
Counts = dict[str, dict[str, int]]  # of documents with a term, by field
Made = TypeVar("Made")


# -- terms -------------------------------------------------------------------------------------------------------------


class TermStatistics(Protocol):
    """Counts documents, and the documents that hold a term."""

    @property
    def written(self) -> int: ...

    def frequency(self, field: str, term: str) -> int: ...


def document_frequency(word: str, counting: TermStatistics, field: str = schema.ALL) -> int:
    """The number of documents that hold a word, in any reading; a word that stands only in templates counts there."""
    terms, frequency = _first_terms(word), counting.frequency
    found = sum([frequency(field, term) for term in terms])
    if not found and field == schema.ALL:
        return sum([frequency(schema.TEMPLATE, term) for term in terms])
    return found


@lru_cache(10_000)
def _first_terms(word: str) -> frozenset[str]:
    return frozenset(terms[0] for terms in readings(word) if terms)


class RememberedReadings:
    """What queries on one snapshot have made of a shard's counts of words and pairs, and the counts that it needed."""

    def __init__(self) -> None:
        self.known: dict[tuple[object, ...], tuple[Counts, object]] = {}

    @property
    def is_full(self) -> bool:
        return len(self.known) >= READINGS_REMEMBERED_MAX


class RecordingTermStatistics:
    """Counts in one shard, and records the counted terms: the statistics phase. What earlier requests have counted is
    `remembered`.
    """

    def __init__(self, counting: TermStatistics, remembered: RememberedReadings) -> None:
        self._counting, self._remembered = counting, remembered
        self.counts: Counts = {}

    def remember(self, key: tuple[object, ...], make: Callable[[], Made]) -> Made:
        """What was made for this key on this snapshot, now or before; its terms are recorded in either case."""
        known = self._remembered.known.get(key)
        if known is None:
            before, self.counts = self.counts, {}
            try:
                made = make()
            finally:
                own, self.counts = self.counts, before
            known = self._remembered.known[key] = own, made
        for field, counts in known[0].items():
            self.record(field, counts)
        return cast(Made, known[1])

    def record(self, field: str, counts: dict[str, int]) -> None:
        if field in self.counts:
            self.counts[field].update(counts)
        else:
            self.counts[field] = counts.copy()

    @property
    def written(self) -> int:
        return self._counting.written

    def frequency(self, field: str, term: str) -> int:
        counts = self.counts.get(field)
        if counts is None:
            counts = self.counts[field] = {}
        found = counts.get(term)
        if found is None:
            found = counts[term] = self._counting.frequency(field, term)
        return found


# -- lengths -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MeanLengths:
    """The mean text length of one shard, and of all shards: they correct the scores of one shard to those of one index.

    BM25 lowers the score of a text that is longer than the mean, and tantivy knows only the mean of its own index. The
    difference is visible where the texts of one shard are longer than those of another: of the ten hits of one index,
    eight shards found 9.65 by their own means, and 9.93 by the common mean (20,000 documents; hosts, and so shards,
    differ in the length of their texts). The corrected scores are those of one index, up to the last digits. Known
    weakness: titles are measured by the mean of their own shard.
    """

    here: float
    everywhere: float

    @property
    def are_close(self) -> bool:
        return not self.here or not self.everywhere or abs(self.here / self.everywhere - 1) < CLOSE_SHARE

    def penalty_ratio(self, length: int) -> float:
        """How much more BM25 penalizes a text of this length by the global mean than by the mean of this shard."""
        if self.are_close:
            return 1.0
        return _length_penalty(length, self.everywhere) / _length_penalty(length, self.here)


def global_score(score: float, most: float, stretch: float) -> float:
    """The score of one word in one text, converted from this shard's mean length to the global one. The ratio of the
    score to its maximum gives the term frequency. Maximum 0: the score does not depend on lengths.
    """
    if not most:
        return score
    reached = min(score / most, 1.0)
    return score / (reached + (1 - reached) * stretch)


def _length_penalty(length: int, mean: float) -> float:
    return 1 - BM25_B + BM25_B * quantize_length(length) / mean


def quantize_length(length: int) -> int:
    """A length as tantivy stores it in one byte: exact below 40, then in steps that double after every eighth."""
    if length < 40:
        return length
    step = 2 << ((length - 24) // 16).bit_length() - 1
    return 24 + (length - 24) // step * step
