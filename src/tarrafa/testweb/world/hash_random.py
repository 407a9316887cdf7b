"""Draws reproducible pseudo-random numbers by hashing seed, purpose, host and page.

Promises: every number is a hash of its subject (seed, purpose, host, page, ...), so that any page can be made first,
alone, and again. Different purposes are independent. No number changes with the version of a library (numpy and
`random` promise no stable streams; splitmix64, xxh3 and SHAKE are fixed).
Knows nothing of what the numbers are for.
"""

import hashlib
from struct import Struct

import numpy as np
import xxhash
from numpy.typing import NDArray

_KEY = Struct("<QIIQI")  # seed, purpose, host, page, and one more
_SHORTS = Struct("<64H")
_PURPOSE_STEP = 1 << 40
_MASK_64 = (1 << 64) - 1
_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def draw(seed: int, purpose: int, host: int, page: int = 0, more: int = 0) -> int:
    """A pseudo-random number of 128 bits."""
    bits: int = xxhash.xxh3_128_intdigest(_KEY.pack(seed, purpose, host, page, more))
    return bits


def draw_shorts(seed: int, purpose: int, host: int, page: int, more: int = 0) -> tuple[int, ...]:
    """64 numbers of 16 bits."""
    return _SHORTS.unpack(hashlib.shake_128(_KEY.pack(seed, purpose, host, page, more)).digest(128))


def uniform(seed: int, purpose: int, count: int) -> NDArray[np.float64]:
    """`count` numbers in [0, 1), by splitmix64."""
    start = (seed * _GOLDEN + purpose * _PURPOSE_STEP) & _MASK_64
    z = np.uint64(start) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIX_2)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def zipf(seed: int, purpose: int, count: int, ranks: int, exponent: float = 1.0) -> list[int]:
    """`count` ranks below `ranks`, the r-th with weight 1/(r+2)^exponent."""
    cumulative = np.cumsum((np.arange(ranks) + 2.0) ** -exponent)
    drawn = np.searchsorted(cumulative, uniform(seed, purpose, count) * cumulative[-1], side="right")
    picked: list[int] = np.minimum(drawn, ranks - 1).tolist()
    return picked


def apportion(total: int, parts: int, exponent: float) -> NDArray[np.int64]:
    """`total` divided by a power law of rank, each part at least 1, by largest remainder: the sum is exact."""
    weights = np.arange(1, parts + 1, dtype=np.float64) ** -exponent
    ideal = (total - parts) * weights / weights.sum()
    shares: NDArray[np.int64] = np.floor(ideal).astype(np.int64)
    left = total - parts - int(shares.sum())
    shares[np.argsort(shares - ideal, kind="stable")[:left]] += 1
    shares += 1
    return shares
