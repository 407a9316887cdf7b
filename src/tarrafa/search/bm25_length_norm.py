"""Corrects BM25 scores of one shard to the mean document length of all shards.

BM25 lowers the score of a text that is longer than the mean, and tantivy knows only the mean of its own index. The
difference is visible where the texts of one shard are longer than those of another: of the ten hits of one index, eight
shards found 9.65 by their own means, and 9.93 by the common mean (20,000 documents; hosts, and so shards, differ in the
length of their texts). Promises: the same scores as one index, up to the last digits. Pure. Knows nothing of queries or
shards. Known weakness: titles are measured by the mean of their own shard.
"""

from dataclasses import dataclass

B = 0.75  # b of BM25, as in tantivy: how much lengths matter
CLOSE_SHARE = 0.005  # means that differ by less are treated as equal: a correction costs a millisecond


@dataclass(frozen=True, slots=True)
class MeanLengths:
    """The mean text length of one shard, and of all shards."""

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
    return 1 - B + B * quantize_length(length) / mean


def quantize_length(length: int) -> int:
    """A length as tantivy stores it in one byte: exact below 40, then in steps that double after every eighth."""
    if length < 40:
        return length
    step = 2 << ((length - 24) // 16).bit_length() - 1
    return 24 + (length - 24) // step * step
