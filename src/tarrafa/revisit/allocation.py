"""Allocates a visit budget over pages for the least staleness, under caps per server.

Promises: exactly the visits of the literal greedy algorithm (always the visit that gains the most freshness, under a
cap per server and a total budget; equal gains go to the lowest page number), found by prices in a fraction of its time.
No cap and no budget is ever exceeded; a visit that gains nothing is not made.
Knows nothing of when the visits happen (`visit_times`), nor of rates that must still be learned (`change_rate`).

A page of `y` expected changes that gets `x` visits, evenly spaced, is stale S(y / (x+1)) of the time. S is convex in x:
every further visit gains less than the one before, and so the greedy algorithm is optimal under caps that do not
overlap.

The method: at a given price each page demands the visits that gain at least that price (`VisitDemand`). At one common
price the total demand meets the budget; a saturated server has a higher price of its own, at which its demand meets its
cap (`bracket_prices`). No price meets them exactly: the heap of the literal greedy algorithm gives the last visits,
those between a price a little too high and one a little too low.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heapreplace
from typing import Any, TypeVar, cast

import numpy as np
from numba import get_num_threads, njit, prange
from numpy.typing import ArrayLike, NDArray

from tarrafa.revisit.optimal_frequency import CELLS, RATIOS, Floats, Mask, check_arrays
from tarrafa.revisit.visit_value import staleness as plain_staleness
from tarrafa.revisit.visit_value import value_growth
from tarrafa.runtime.compiled_kernels import has_numba_cache

Integers = NDArray[np.int64]
Servers = NDArray[np.int32]
Function = TypeVar("Function", bound=Callable[..., Any])

VISITS_MAX = 2**53  # beyond it a count is no longer exact as a float
CHANGES_MAX = 1e100  # from 1e17 on no visit gains anything
NOISE = 1e-15  # error of a computed gain, in units of the weight: a few ulps of S
SINGLE_THREAD_PAGES = 50_000  # up to this many pages one thread is faster than starting several
BLOCK = 512  # pages at a time: their positions stay in the nearest cache
SAMPLE = 32  # with many pages, every 32nd page gives nearly the prices of all
SPREAD = 1 / 128  # the share of the visits between two prices that is left to the heap
SLACK_MIN = 4  # this few visits are left to it whatever their share
SAME = 1 << 44  # bits: prices that agree to 1/256 enclose no more than that, except for ties
LEAP = 1 << 49  # bits: a tenth more or less
HIGHEST = int(np.array(np.inf).view(np.int64))


def compiled(function: Function) -> Function:
    """Compile with numba, cached on disk if that is possible. After a change in `visit_value` remove __pycache__: numba
    watches one file only.
    """
    return cast(Function, njit(cache=has_numba_cache(), error_model="numpy")(function))


def compiled_parallel(function: Function) -> Function:
    """Compile for several threads. Not for a function that is also `compiled`: the two would share their file
    on disk.
    """
    return cast(Function, njit(cache=has_numba_cache(), error_model="numpy", parallel=True)(function))


staleness = compiled(plain_staleness)


@compiled
def gain(changes: float, weight: float, visits: int) -> float:
    """The staleness that one more visit saves a page that has `visits` already."""
    return weight * (staleness(changes / (visits + 1)) - staleness(changes / (visits + 2)))


@compiled
def tabled_inverse_value_growth(target: float) -> float:
    """The inverse of `value_growth`, from the table. A chord of a convex curve: its error is always upwards."""
    root = math.sqrt(target)
    cell = int(root * CELLS)
    if cell < CELLS - 1:
        return float(root * (RATIOS[cell] + (root * CELLS - cell) * (RATIOS[cell + 1] - RATIOS[cell])))
    logarithm = -math.log(1.0 - target)  # (1+u) e^-u = 1 - target by iteration: it stays above when it starts above
    u = 2.0 * logarithm + 2.0
    for _ in range(6):
        u = logarithm + math.log1p(u)
    return u


# The number of visits that a page demands at a price: all before the first that gains less.
#
# The gain of a visit is the mean of (w/y) value_growth(y/z) over x+1 <= z <= x+2. With value_growth(u) = price * y/w
# and z = y/u every visit x <= z - 2 therefore gains the price, and none above z - 1 does. Between them `visit_position`
# decides: the mean is nearly the middle, moved by a second derivative; for u < 6 that is right to 0.003 + 1.5e-5 z (a
# test checks it), and only for pages that come so near to a whole number, some 1 in 100, are the gains themselves
# computed.
#
# Computed gains are noisy (where y is huge they are all w/y up to the last digits), and so "the first that gains less"
# is not what a bisection finds. The literal greedy takes a visit once its gain is on top of the heap, and the bump
# after a dip at once: to it a visit gains the least of the gains up to it. Hence `visits_at_price` jumps only over
# gains that exceed the price by more than the noise, then goes on one by one. Weakness: a page whose gains stay within
# the noise of the price is counted visit by visit, as the literal greedy would.
@compiled
def visits_at_price(changes: float, weight: float, price: float, limit: int) -> int:
    if changes <= 0.0 or weight <= 0.0:
        return 0
    visits = 0
    target = (price + NOISE * weight * min(1.0, 100.0 * changes)) * changes / weight
    if 1e-290 < target < 1.0:
        surely = changes / tabled_inverse_value_growth(target) * (1.0 - 1e-9) - 1.0
        visits = int(min(float(limit), max(0.0, surely)))
    before = staleness(changes / (visits + 1))
    while visits < limit:
        after = staleness(changes / (visits + 2))
        if weight * (before - after) < price:
            break
        visits += 1
        before = after
    return visits


@compiled
def visit_position(changes: float, weight: float, price: float) -> float:
    """A number whose whole part is the number of visits demanded, if it is not too near to a whole number; -1 if in
    doubt.

    Without branches, so that the compiler can vectorize it.
    """
    target = price * changes / weight
    some, none = target < 0.98, target > 1.0001
    u = tabled_inverse_value_growth(target if some else 0.98)
    z = changes / u
    place = 0.25 if none or z < 0.999 else z + (3.0 - u) / (24.0 * z) - 0.5
    sure = (some or none) and z * weight * 1e-11 < price and weight * 1e-11 < price
    return place if sure else -1.0


@compiled
def _count_visits(
    first: int, stop: int, changes: Floats, weights: Floats, servers: Servers, limits: Integers, page_max: int,
    prices: Floats, visits: Integers, counts: Floats,
) -> None:  # fmt: skip
    """The visits that each page demands at its server's price, and their totals by server."""
    places = np.empty(BLOCK)
    for block in range(first, stop, BLOCK):
        start, end = block, min(block + BLOCK, stop)
        while start < end and prices[np.uint32(servers[start])] == math.inf:
            visits[start] = 0
            start += 1
        for page in range(start, end):
            places[page - start] = visit_position(changes[page], weights[page], prices[np.uint32(servers[page])])
        for page in range(start, end):
            server = np.uint32(servers[page])
            place = places[page - start]
            asked, limit = int(place), min(limits[server], page_max)
            if prices[server] == math.inf:
                asked = 0
            elif not abs(place - asked - 0.5) < 0.495 - 2e-5 * place:
                asked = visits_at_price(changes[page], weights[page], prices[server], limit)
            asked = min(asked, limit)
            visits[page] = asked
            counts[server] += asked


@compiled_parallel
def _count_visits_parallel(
    changes: Floats, weights: Floats, servers: Servers, limits: Integers, page_max: int, prices: Floats,
    visits: Integers, counts: Floats,
) -> None:  # fmt: skip
    parts, pages = len(counts), len(changes)
    for part in prange(parts):
        first, stop = part * pages // parts, (part + 1) * pages // parts
        _count_visits(first, stop, changes, weights, servers, limits, page_max, prices, visits, counts[part])


@compiled
def _greedy(
    changes: Floats, weights: Floats, servers: Servers, visits: Integers, more: Integers, left: Integers,
    budget: int, page_max: int,
) -> None:  # fmt: skip
    """The literal greedy algorithm, continuing from `visits`; only pages that may get `more` visits are considered."""
    heap = [(0.0, 0)]
    heap.clear()
    for page in range(len(visits)):
        if more[page] > visits[page]:
            heap.append((-gain(changes[page], weights[page], visits[page]), page))
    heapify(heap)
    while heap and budget > 0:
        worth, page = -heap[0][0], heap[0][1]
        if worth <= 0.0 or left[servers[page]] <= 0 or visits[page] >= page_max:
            heappop(heap)
            continue
        visits[page] += 1
        left[servers[page]] -= 1
        budget -= 1
        heapreplace(heap, (-gain(changes[page], weights[page], visits[page]), page))


@dataclass(slots=True)
class VisitDemand:
    """How many visits the pages of each server demand at a price."""

    changes: Floats
    weights: Floats
    servers: Servers
    limits: Integers
    budget: int
    page_max: int = VISITS_MAX
    every: int = 1  # number of pages that each of these stands for

    @property
    def pages(self) -> tuple[Floats, Floats, Servers]:
        return self.changes, self.weights, self.servers

    def sample(self, every: int) -> "VisitDemand":
        changes, weights, servers = self.changes[::every], self.weights[::every], self.servers[::every]
        return VisitDemand(
            changes.copy(), weights.copy(), servers.copy(), self.limits, self.budget, self.page_max, every
        )

    def of(self, servers: Mask) -> "VisitDemand":
        """The demand of these servers' pages only."""
        chosen = servers[self.servers]
        return replace(self, changes=self.changes[chosen], weights=self.weights[chosen], servers=self.servers[chosen])

    def at(self, prices: Floats, visits: Integers | None = None) -> Floats:
        """Demand by server, and in `visits` by page. One page demands at most its own and its server's cap; all of
        them together may demand more.
        """
        if visits is None:
            visits = np.empty(len(self.changes), np.int64)
        counts = np.zeros((get_num_threads(), len(self.limits)))
        if len(visits) < SINGLE_THREAD_PAGES:
            _count_visits(0, len(visits), *self.pages, self.limits, self.page_max, prices, visits, counts[0])
        else:
            _count_visits_parallel(*self.pages, self.limits, self.page_max, prices, visits, counts)
        return np.asarray(counts.sum(axis=0)) * self.every


# Regula falsi (Illinois) on the logarithm of the visits over the bits of the price, which are close enough to its
# logarithm and leave nothing between two neighbours. Many searches at once; each ends not at a price but with two
# prices that have few visits in between. Weakness: many equal gains cannot be separated; the search stops when the two
# prices agree to 1/256.
def bracket_prices(count: Callable[[Floats], Floats], target: Floats, guess: Floats) -> tuple[Floats, Floats]:
    """Prices (low, high) at which the demand is above the target, and not above it. Finished searches ask at inf."""
    size = len(target)
    slack, goal = np.maximum(SLACK_MIN, target * SPREAD), np.log(target + 0.5)
    low, high = np.zeros(size, np.int64), np.full(size, HIGHEST)
    more, fewer = np.full(size, np.inf), np.zeros(size)
    above, below, side = np.zeros(size), np.zeros(size), np.zeros(size)
    leap = np.full(size, LEAP)
    price = np.clip(guess, 5e-324, 1e300).view(np.int64)
    for step in itertools.count(1):
        is_open = (more - fewer > slack) & (high - low > SAME)
        if not is_open.any():
            break
        asked = count(np.where(is_open, price.view(np.float64), np.inf))
        error = np.log(asked + 0.5) - goal
        fits, exceeds = is_open & (asked <= target), is_open & (asked > target)
        above[fits & (side < 0)] /= 2
        below[exceeds & (side > 0)] /= 2
        side = np.where(fits, -1.0, 1.0)
        high[fits], fewer[fits], below[fits] = price[fits], asked[fits], error[fits]
        low[exceeds], more[exceeds], above[exceeds] = price[exceeds], asked[exceeds], error[exceeds]
        met = is_open & (asked == target)
        low[met], more[met] = high[met], fewer[met]
        part = above / np.maximum(above - below, 1e-300) if step % 4 else np.full(size, 0.5)
        price = low + ((high - low) * part).astype(np.int64)
        price = np.where(low == 0, high - leap, np.where(high == HIGHEST, low + leap, price))
        price = np.clip(price, low + 1, high - 1)
        leap = np.minimum(2 * leap, 1 << 61)
    return np.maximum(low, 1).view(np.float64), high.view(np.float64)


@dataclass(slots=True)
class AllocationPrices:
    """A page gets its last visits between its server's `low` and `high`; servers that are not full share `common`."""

    low: Floats
    high: Floats
    common: float


def find_prices(demand: VisitDemand, guess: AllocationPrices) -> AllocationPrices:
    """The prices of the servers that the guess takes for full, then the common one, then those of the servers that it
    fills.
    """
    open_servers = demand.limits > 0
    low, high = np.full((2, len(open_servers)), np.inf)
    believed = (guess.high > guess.common) & open_servers
    low[believed], high[believed] = find_server_prices(demand, believed, guess.high)
    common_low, common, full = find_common_price(demand, np.where(believed, low, 0.0), guess.common)
    surprise = full & ~believed & open_servers
    low[surprise], high[surprise] = find_server_prices(demand, surprise, np.full(len(high), common))
    low[~full & open_servers], high[~full & open_servers] = common_low, common
    return AllocationPrices(low, high, common)


def find_server_prices(demand: VisitDemand, servers: Mask, guess: Floats) -> tuple[Floats, Floats]:
    """For each of these servers, two prices around the one that fills it."""
    sizes = np.bincount(demand.servers, minlength=len(servers))
    part = demand

    def count(price: Floats) -> Floats:
        nonlocal part
        prices = np.full(len(servers), np.inf)
        prices[servers] = price
        still_open = prices < np.inf
        if sizes[still_open].sum() < len(part.changes) / 2:
            part = part.of(still_open)
        return part.at(prices)[servers]

    return bracket_prices(count, demand.limits[servers].astype(np.float64), guess[servers])


def find_common_price(demand: VisitDemand, full_below: Floats, guess: float) -> tuple[float, float, Mask]:
    """Two prices around the one that spends the budget, and which servers are full at the higher.

    `full_below` is a price at which a server is known to be full; no lower price is tried for it.
    """
    limits = demand.limits.astype(np.float64)

    def count(price: Floats) -> Floats:
        nonlocal full_below
        full = full_below >= price
        counts = np.where(full, limits, demand.at(np.where(full, np.inf, price)))
        total: Floats = np.minimum(counts, limits).sum(keepdims=True)
        if total[0] <= demand.budget:
            full_below = np.where(counts > limits, price, full_below)
        return total

    (low,), (high,) = bracket_prices(count, np.array([float(demand.budget)]), np.array([guess]))
    return low, high, full_below >= high


def allocate(
    rates: ArrayLike, servers: ArrayLike, caps: ArrayLike | None, budget: float, horizon: float,
    weights: ArrayLike | None = None, page_max: int = VISITS_MAX,
) -> Integers:  # fmt: skip
    """The number of visits of each page in a horizon, for the least weighted mean staleness.

    `servers` is each page's server, `caps` each server's maximum of visits (None: no caps), `budget` the total maximum;
    it may be infinite where the caps are not. No page gets more than `page_max`.
    """
    demand = _demand(rates, servers, caps, budget, horizon, weights, page_max)
    visits, more = np.zeros((2, len(demand.changes)), np.int64)
    prices = _first_guess(demand)
    if len(visits) > max(SINGLE_THREAD_PAGES, 8 * SAMPLE * int(np.count_nonzero(demand.limits))):
        prices = find_prices(demand.sample(SAMPLE), prices)
    prices = find_prices(demand, prices)
    counts = demand.at(prices.high, visits).astype(np.int64)
    demand.at(prices.low, more)
    left = demand.limits - counts
    _greedy(*demand.pages, visits, more, left, demand.budget - int(counts.sum()), page_max)
    return visits


def page_visits_max(horizon: float, interval_min: float) -> int:
    """The most visits of a page, evenly spaced in a horizon, that are `interval_min` apart, and a second; but one."""
    return max(1, int(horizon / max(interval_min, 1.0)) - 1)


def literal_greedy(
    rates: ArrayLike, servers: ArrayLike, caps: ArrayLike | None, budget: float, horizon: float,
    weights: ArrayLike | None = None, page_max: int = VISITS_MAX,
) -> Integers:  # fmt: skip
    """The definition of `allocate`: a heap of all pages, one visit at a time."""
    demand = _demand(rates, servers, caps, budget, horizon, weights, page_max)
    visits = np.zeros(len(demand.changes), np.int64)
    _greedy(*demand.pages, visits, visits + 1, demand.limits, demand.budget, page_max)
    return visits


def _demand(
    rates: ArrayLike, servers: ArrayLike, caps: ArrayLike | None, budget: float, horizon: float,
    weights: ArrayLike | None, page_max: int,
) -> VisitDemand:  # fmt: skip
    if not 0.0 < horizon < math.inf:
        raise ValueError(f"horizon must be positive and finite, got {horizon}")
    if not budget >= 0:
        raise ValueError(f"budget must be 0 or more, got {budget}")
    rows = check_arrays(rates, weights, servers, caps)
    limits, sizes = np.floor(rows.caps), np.bincount(rows.servers, minlength=len(rows.caps))
    limits[sizes == 0] = 0.0
    if page_max < VISITS_MAX:
        limits = np.minimum(limits, page_max * sizes)
    most = min(budget, limits.sum())
    if most > VISITS_MAX:
        raise ValueError(f"budget must be at most {VISITS_MAX} where a server has no cap, got {budget}")
    limits = np.minimum(limits, most).astype(np.int64)
    with np.errstate(over="ignore"):
        changes = np.minimum(rows.rates * horizon, CHANGES_MAX)
    return VisitDemand(changes, rows.weights, rows.servers, limits, math.floor(most), page_max)


def _first_guess(demand: VisitDemand) -> AllocationPrices:
    """Prices as if every page were the mean page and got the mean number of visits."""
    changes, weight = (float(array.sum()) / max(1, len(array)) for array in demand.pages[:2])
    visits = demand.budget / max(1, len(demand.changes))
    price = weight * value_growth(changes / (visits + 1.5)) / changes if changes > 0.0 else 0.0
    return AllocationPrices(np.zeros(len(demand.limits)), np.full(len(demand.limits), price), price)
