"""Computes optimal long-run visit frequencies and prices under server caps and a budget.

Promises: the optimal frequencies under the servers' caps and the budget, and the prices that lead a live policy to
them: visit a page when `visit_value.visit_value` reaches the price of its server. A row may stand for many pages, so
that a few thousand classes are planned in milliseconds. Plain numpy: a crawl needs no compiler.
Knows nothing of horizons or whole visits (`allocation`), nor of the crawlers.

A page visited every `age` is stale S(rate * age) of the time, and a little more frequency saves visit_value(rate,
weight, age) of it. At the optimum all visits of a server are worth its price, and servers that are not full have the
same price.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tarrafa.revisit.visit_value import SMALL, inverse_value_growth

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

CELLS = 4096
ROOTS = np.arange(CELLS) / CELLS
# The inverse of `value_growth` by the root s of its target, divided by s: convex, and hardly curved up to a target of
# 0.9.
RATIOS = np.array([math.sqrt(2.0)] + [inverse_value_growth(root**2) / root for root in ROOTS[1:].tolist()])
BLOCK = 1 << 14  # rows at a time: intermediate results stay in the cache
EXACT = 1e-11  # of a usage or a price: more precise than any rate is known
STEPS_MAX = 600  # some 10 to 50 are taken; the whole range of floats has 500 quarters


@dataclass(slots=True)
class PageRows:
    """Pages, or classes of pages, validated. `caps` is by server, infinite where there is none."""

    rates: Floats
    weights: Floats
    servers: NDArray[np.int32]
    caps: Floats


@dataclass(slots=True)
class OptimalFrequencies:
    """The optimum. `server_prices` is the common price, or above it where a server is full; `frequencies` are per page
    of a row.
    """

    price: float
    server_prices: Floats
    frequencies: Floats
    staleness: float


def check_arrays(rates: ArrayLike, weights: ArrayLike | None, servers: ArrayLike, caps: ArrayLike | None) -> PageRows:
    """The arrays of one problem, or a ValueError that names the wrong entry."""
    rates = _amounts("rates", rates)
    weights = np.ones(len(rates)) if weights is None else _amounts("weights", weights, len(rates))
    servers = np.asarray(servers)
    if servers.shape != rates.shape:
        raise ValueError(f"servers must have one entry per page, {len(rates)}, got shape {servers.shape}")
    if servers.size and servers.dtype.kind not in "iu":
        raise ValueError(f"servers must be whole numbers, got {servers.dtype}")
    lowest, highest = int(servers.min(initial=0)), int(servers.max(initial=-1))
    if caps is None:
        caps = np.full(highest + 1, np.inf)
    caps = _amounts("caps", caps, finite=False)
    if lowest < 0 or highest >= len(caps):
        raise ValueError(f"servers must be 0 to {len(caps) - 1}, one for each cap, got {lowest} to {highest}")
    return PageRows(rates, weights, np.ascontiguousarray(servers, np.int32), caps)


def _amounts(name: str, values: ArrayLike, size: int | None = None, finite: bool = True) -> Floats:
    amounts = np.ascontiguousarray(values, np.float64)
    if amounts.ndim != 1 or (size is not None and len(amounts) != size):
        raise ValueError(f"{name} must have one entry per page, {size}, got shape {amounts.shape}")
    wrong = ~(amounts >= 0.0) | (np.isinf(amounts) if finite else False)
    if wrong.any():
        where = int(np.argmax(wrong))
        raise ValueError(f"{name} must be 0 or more{' and finite' if finite else ''}, got {amounts[where]} at {where}")
    return amounts


def solve(
    rates: ArrayLike, weights: ArrayLike | None, servers: ArrayLike, caps: ArrayLike | None, budget: float | None,
    counts: ArrayLike | None = None,
) -> OptimalFrequencies:  # fmt: skip
    """Compute the optimum. `caps` (visits per unit of time, by server) and `budget` (total) may be None or infinite.

    A row stands for `counts` pages, each with its rate and weight.
    """
    rows = check_arrays(rates, weights, servers, caps)
    many = np.ones(len(rows.rates)) if counts is None else _amounts("counts", counts, len(rows.rates))
    budget = math.inf if budget is None else float(budget)
    if not budget >= 0.0:
        raise ValueError(f"budget must be 0 or more, got {budget}")
    wanted = (rows.rates > 0.0) & (rows.weights > 0.0) & (many > 0.0)
    usage = FrequencyUsage(rows.rates[wanted], rows.weights[wanted], rows.servers[wanted], many[wanted], rows.caps)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        prices = find_prices(usage, budget)
        frequencies, stale = np.zeros(len(rows.rates)), np.zeros(len(rows.rates))
        frequencies[wanted] = _frequencies(usage, prices, budget)
        changing = rows.rates > 0.0
        stale[changing] = _staleness(rows.rates[changing] / frequencies[changing])
    importance = many * rows.weights
    mean = float((importance * stale).sum() / importance.sum()) if importance.any() else 0.0
    return OptimalFrequencies(prices.common, prices.low, frequencies, mean)


@dataclass(slots=True)
class FrequencyUsage:
    """How often the pages of each server are visited at a price. Only rows with rate, weight and count above 0."""

    rates: Floats
    weights: Floats
    servers: NDArray[np.int32]
    counts: Floats
    caps: Floats

    def of(self, servers: Mask) -> "FrequencyUsage":
        rows = servers[self.servers]
        return FrequencyUsage(self.rates[rows], self.weights[rows], self.servers[rows], self.counts[rows], self.caps)

    def at(self, prices: Floats) -> tuple[Floats, Floats]:
        """The frequency of each row's pages, and the totals by server."""
        frequencies = np.empty(len(self.rates))
        for start in range(0, len(self.rates), BLOCK):
            block = slice(start, start + BLOCK)
            target = prices[self.servers[block]] * self.rates[block] / self.weights[block]
            frequencies[block] = self.rates[block] / inverse_value_growths(target)
        return frequencies, self.by_server(frequencies)

    def by_server(self, values: Floats) -> Floats:
        return np.asarray(np.bincount(self.servers, self.counts * values, len(self.caps)), np.float64)

    def highest_worths(self) -> Floats:
        """By server, the highest weight / rate, which is the limit of a page's visit value."""
        worths = np.zeros(len(self.caps))
        np.maximum.at(worths, self.servers, self.weights / self.rates)
        return worths


def inverse_value_growths(target: Floats) -> Floats:
    """`inverse_value_growth` of each, infinite from 1 on: the table, then Newton; in logarithms where the curve is
    flat.
    """
    root = np.sqrt(np.minimum(target, 1.0))
    u = root * np.interp(root, ROOTS, RATIOS)
    decay = np.exp(-u)
    little = u * u * (1 / 2 - u * (1 / 3 - u * (1 / 8 - u * (1 / 30 - u * (1 / 144 - u / 840)))))
    grown = np.where(u < SMALL, little, 1.0 - (1.0 + u) * decay)
    u = np.asarray(np.where(target > 1e-300, u - (grown - target) / (u * decay), u))
    u[target >= 1.0] = np.inf
    flat = (target > 0.9) & (target < 1.0)
    logarithm = -np.log1p(-target[flat])
    guess = logarithm + np.log1p(logarithm + np.log1p(logarithm))
    for _ in range(3):
        guess += (logarithm + np.log1p(guess) - guess) * (1.0 + guess) / guess
    u[flat] = guess
    return u


def _staleness(y: Floats) -> Floats:
    series = y * (1 / 2 - y * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y * (1 / 720 - y / 5040)))))
    return np.where(y < SMALL, series, 1.0 + np.expm1(-y) / y)


# Regula falsi (Illinois) in logarithms, many searches at once. No Newton: a page that is nearly never worth its price
# uses 1 / log(1/0), an infinite slope that says nothing of the next digit. Weakness, from the same cause: a page
# visited less than once in 25 changes uses anything between nothing and that at one price, to the last digits that
# count; then two prices remain, and the answer lies between.
def search_prices(use: Callable[[Floats], Floats], targets: Floats, highest: Floats) -> tuple[Floats, Floats]:
    """Prices (low, high) that use no less than the target and no more; mostly they are the same.

    `highest` must use no more. A finished search asks at an infinite price.
    """
    low, high, price = np.zeros(len(targets)), highest.copy(), highest
    above, below, side = np.zeros((3, len(targets)))
    for step in range(1, STEPS_MAX):
        is_open = high - low > EXACT * high
        if not is_open.any():
            break
        used = use(np.where(is_open, price, np.inf))
        more, less = is_open & (used > targets), is_open & (used <= targets)
        met = less & (used >= (1.0 - EXACT) * targets)
        above[less & (side < 0)] /= 2
        below[more & (side > 0)] /= 2
        side = np.where(more, 1.0, -1.0)
        error = np.log(used / targets)
        low, above = np.where(more | met, price, low), np.where(more, error, above)
        high, below = np.where(less, price, high), np.where(less, error, below)
        guess = low * np.exp(np.log(high / low) * above / (above - below))
        middle = np.where(low > 0.0, np.sqrt(low) * np.sqrt(high), high / 4.0)
        price = np.where((low < guess) & (guess < high) & (step % 4 > 0), guess, middle)
    return low, high


@dataclass(slots=True)
class FrequencyPrices:
    """By server, a price that uses no less than allowed and one that uses no more; `full` servers reach their
    own cap.
    """

    low: Floats
    high: Floats
    full: Mask
    common: float


def find_prices(usage: FrequencyUsage, budget: float) -> FrequencyPrices:
    """Find the common price first, then those of all servers that it would overfill, at once.

    Both searches start from a price that is surely too high: no page is worth more than weight / rate, and as
    value_growth(u) is below u^2 / 2 none is visited more often than sqrt(rate * weight / (2 * price)).
    """
    caps = usage.caps
    worths, roots = usage.highest_worths(), usage.by_server(np.sqrt(usage.rates * usage.weights / 2.0))

    def of_all(price: Floats) -> Floats:
        return np.asarray(np.minimum(usage.at(np.full(len(caps), price[0]))[1], caps).sum(keepdims=True))

    low, high = 0.0, 0.0
    if budget < caps[worths > 0.0].sum():
        highest = np.fmin(worths.max(), (roots.sum() / np.array([budget])) ** 2) * (1.0 + 1e-9)
        ((low,), (high,)) = search_prices(of_all, np.array([budget]), highest)
    full = usage.at(np.full(len(caps), high))[1] > caps
    part = usage.of(full)

    def of_each(price: Floats) -> Floats:
        nonlocal part
        prices = np.full(len(caps), np.inf)
        prices[full] = price
        if np.count_nonzero(prices[part.servers] < np.inf) < len(part.servers) / 2:
            part = part.of(prices < np.inf)
        return part.at(prices)[1][full]

    lows, highs = np.full(len(caps), low), np.full(len(caps), high)
    highest = np.fmin(worths, (roots / caps) ** 2)[full] * (1.0 + 1e-9)
    lows[full], highs[full] = search_prices(of_each, caps[full], highest)
    return FrequencyPrices(lows, highs, full, float(low))


def _frequencies(usage: FrequencyUsage, prices: FrequencyPrices, budget: float) -> Floats:
    """Frequencies between those of the two prices, where they differ, so that caps and budget are used to the last
    visit.
    """
    at_low, most = usage.at(prices.low)
    at_high, least = usage.at(prices.high)
    full, caps = prices.full, usage.caps
    part = (caps - least) / (most - least)
    rest = ~full
    part[rest] = (budget - caps[full].sum() - least[rest].sum()) / (most[rest] - least[rest]).sum()
    part = np.clip(np.nan_to_num(part, nan=0.0), 0.0, 1.0)[usage.servers]
    return np.where(at_low > at_high, at_high + part * (at_low - at_high), at_high)
