"""Corrects BM25 scores of one shard to the mean document length of all shards.

BM25 holds against a text that it is longer than the mean, and tantivy knows only the mean of its own index. Where the
texts of one shard are longer than those of another, that is felt: of ten hits of one index, eight shards found 9.65
by their own means, and 9.93 by the common one (20,000 documents; hosts, and so shards, differ in the length of
texts). Promises: the same scores as of one index, up to the last digits. Pure. Knows nothing of queries or shards.
Known weakness: titles are measured by the mean of their own shard.
"""

from dataclasses import dataclass

B = 0.75  # of BM25, as tantivy has it: how much lengths matter
CLOSE_SHARE = 0.005  # means that differ by less are alike: looking closer costs a millisecond


@dataclass(frozen=True, slots=True)
class MeanLengths:
    """The mean length of the texts of one shard, and of all."""

    here: float
    everywhere: float

    @property
    def are_close(self) -> bool:
        return not self.here or not self.everywhere or abs(self.here / self.everywhere - 1) < CLOSE_SHARE

    def penalty_ratio(self, length: int) -> float:
        """How much more is held against a text of this length everywhere than here."""
        if self.are_close:
            return 1.0
        return _length_penalty(length, self.everywhere) / _length_penalty(length, self.here)


def global_score(score: float, most: float, stretch: float) -> float:
    """A score that a text had here for one word, as it is everywhere. How often the word stands in it, is told by how
    near the score is to the most that it could be; 0: it has nothing to do with lengths."""
    if not most:
        return score
    reached = min(score / most, 1.0)
    return score / (reached + (1 - reached) * stretch)


def _length_penalty(length: int, mean: float) -> float:
    return 1 - B + B * quantize_length(length) / mean


def quantize_length(length: int) -> int:
    """A length as tantivy keeps it, in one byte: from 40 on, in steps that double after every eighth."""
    if length < 40:
        return length
    step = 2 << ((length - 24) // 16).bit_length() - 1
    return 24 + (length - 24) // step * step
