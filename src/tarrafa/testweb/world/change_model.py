"""Computes the version of a page at any time, by a Poisson process of changes.

Promises: each page changes by a Poisson process of its own rate, exactly. Its version at any time, past or future, is
computed from (seed, page, time) alone, in constant time. Changes fall on whole seconds, so that Last-Modified is exact.
Knows nothing of what a change does to a page.

How to evaluate a Poisson process at one time without simulating it: cut time into windows in which a page changes
`WINDOW_MEAN` times on average. Windows are independent, so each is drawn from the hash of (page, window): first the
number of changes (Poisson, by inversion), then the time of each (uniform). The price: the number of changes in earlier
windows is unknown, so versions are not counted but labelled. A version's number is the position of the change that made
it; it grows with time, with gaps. `change_times` counts, window by window.
(Counting in logarithmic time is possible by halving the changes of a large window again and again. It was tried: twice
as expensive, for a number that nothing needs.)
"""

import math
from statistics import NormalDist

import msgspec

from tarrafa.testweb.world.hash_random import draw, draw_shorts
from tarrafa.testweb.world.hosts import World

DAY_S = 86_400.0
WINDOW_MEAN = 5.0
WINDOW_CHANGES_MAX = 31  # never reached: the probability is 10^-14
RATE_MAX_PER_DAY = 1000.0
AGE_MAX_S = 3 * 365 * DAY_S  # of a page that has not changed since the world's epoch
NEVER_SHARE = 0.3
RATES = 256

_PURPOSE_COUNT = 10
_PURPOSE_PLACE = 12
_PURPOSE_AGE = 13


class PageVersion(msgspec.Struct, frozen=True, gc=False):
    number: int  # 0 until the first change, then growing, with gaps
    since: int  # when it began, whole seconds


def _rates() -> tuple[float, ...]:
    """Changes per day, by quantile: many never, half by a lognormal around once a month, a fifth by a power law up to
    twelve a day (news).
    """
    never = round(RATES * NEVER_SHARE)
    steady = round(RATES * 0.5)
    news = RATES - never - steady
    spread = [math.exp(1.2 * NormalDist().inv_cdf((i + 0.5) / steady)) / 30 for i in range(steady)]
    fast = [(1 / 7) * (12 * 7) ** ((i + 0.5) / news) for i in range(news)]
    return tuple([0.0] * never + spread + fast)


RATE_TABLE = _rates()


def rate_per_day(world: World, quantile: int, front: bool) -> float:
    """A page's rate from its eight random bits; a front page (root, section) changes like news."""
    if front:
        quantile = RATES - 1 - quantile // 5
    return min(RATE_TABLE[quantile] * world.changes, RATE_MAX_PER_DAY)


def _cumulative() -> tuple[float, ...]:
    weights = [math.exp(-WINDOW_MEAN) * WINDOW_MEAN**k / math.factorial(k) for k in range(WINDOW_CHANGES_MAX)]
    return tuple(math.fsum(weights[: k + 1]) for k in range(WINDOW_CHANGES_MAX))


_CUMULATIVE = _cumulative()


def version_at(world: World, no: int, n: int, rate: float, now: float) -> PageVersion:
    """The version at `now` of page `n` of host `no`, which changes `rate` times a day."""
    moment = math.floor(now - world.epoch)
    if rate > 0 and moment >= 0:
        width = WINDOW_MEAN / rate * DAY_S
        for window in range(int(moment / width), -1, -1):
            passed = [at for at in _change_times_in_window(world, no, n, window, width) if at <= moment]
            if passed:
                return PageVersion((window + 1) * (WINDOW_CHANGES_MAX + 1) + len(passed), world.epoch + max(passed))
    age = (draw(world.seed, _PURPOSE_AGE, no, n) & 0xFFFFFF) / 0x1000000 * AGE_MAX_S
    return PageVersion(0, int(world.epoch - age))


def change_times(world: World, no: int, n: int, rate: float, start: float, end: float) -> list[int]:
    """The times after `start` and up to `end` at which a page changed (twice in one second counts twice)."""
    first, last = max(0.0, start - world.epoch), end - world.epoch
    if rate <= 0 or last < 0:
        return []
    width = WINDOW_MEAN / rate * DAY_S
    found: list[int] = []
    for window in range(max(0, int((first - 1) / width)), int(last / width) + 1):
        found += (world.epoch + at for at in _change_times_in_window(world, no, n, window, width) if first < at <= last)
    return sorted(found)


def _change_times_in_window(world: World, no: int, n: int, window: int, width: float) -> list[int]:
    """The changes of a page in one window: seconds after the epoch, rounded up, unordered."""
    luck = (draw(world.seed, _PURPOSE_COUNT, no, n, window) & 0xFFFFFFFFFFFF) / 0x1000000000000
    count = 0
    while count < WINDOW_CHANGES_MAX and luck >= _CUMULATIVE[count]:
        count += 1
    places = draw_shorts(world.seed, _PURPOSE_PLACE, no, n, window)
    low = window * width
    return [math.ceil(low + width * (places[2 * i] << 16 | places[2 * i + 1]) / 0x100000000) for i in range(count)]
