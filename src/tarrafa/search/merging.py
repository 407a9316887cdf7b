"""How do the answers of several shards become one?

Promises: the same candidates, in the same blocks, as one index with all their documents would have given, up to the
last digits of their scores. Every shard tells its matches in the order in which its index found them (`order`). Put
together by that, with the first shard's first among equals, they are cut into blocks; within a block `score` ranks. A
longer answer of the same shards begins as the shorter one: pages of results follow each other.
Pure. Knows nothing of where shards are.

The order among equals must be that of the shards, and not of ids: a shard that is asked for a hundred matches tells any
hundred of a thousand equal ones, always the same, but not those with the smallest ids.
"""

from collections.abc import Sequence
from operator import attrgetter

from tarrafa.search.copies import RankedCandidate
from tarrafa.search.question import CandidateBlock

_order = attrgetter("candidate.order")
_score, _id = attrgetter("candidate.score"), attrgetter("candidate.id")


def merge_blocks(blocks: Sequence[CandidateBlock], limit: int, first: int = 0) -> list[RankedCandidate]:
    """The matches of all, at most so many, each with the number of its block, counted from `first` on."""
    found = [RankedCandidate(one, number) for number, block in enumerate(blocks, first) for one in block.candidates]
    if len(blocks) > 1:
        found.sort(key=_order, reverse=True)  # stable
    return found[:limit]


def rank_block(block: list[RankedCandidate]) -> list[RankedCandidate]:
    """A block, the best first; ids break ties, so that nothing depends on segments or shards."""
    block.sort(key=_id)
    block.sort(key=_score, reverse=True)  # stable: two sorts by one key take half the time of one by two
    return block
