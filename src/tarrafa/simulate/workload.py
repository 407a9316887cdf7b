"""Portable synthetic workload: pages with change rates, weights and servers from SplitMix64 and Zipf.

Promises: a workload depends on its arguments alone. Randomness is splitmix64 of the page's number, which any language
computes in five lines, so that others can check our figures page by page.
Knows nothing of policies or time.

Rates are per second inside; the study that this workload follows gives them per hour (our reading: it names no unit).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]

HOUR_S = 3600.0
RATE_MIN_PER_HOUR, RATE_SPAN_PER_HOUR = 0.01, 0.99
RATE_STEPS = 100  # second experiment: 0.01, 0.02 … 1.00 changes per hour


@dataclass(slots=True, frozen=True)
class Workload:
    """Pages, contiguous by server."""

    rates_per_s: Floats  # of each page
    servers: Numbers  # number of each page's server, ascending
    n_servers: int  # the last ones may be empty
    weights: Floats  # importance of each page; the mean is 1


def splitmix64(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The i-th number that SplitMix64 (Steele, Lea and Flood, 2014) gives from seed 0, for each i; modulo 2^64.

    Not the first number from seed i: over a million pages that other reading moves the mean staleness by 2e-4.
    """
    z = numbers * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def uniform_numbers(count: int, first: int = 1) -> Floats:
    """Numbers in [0, 1): u_i = (splitmix64(i) >> 11) 2^-53 for `count` numbers i from `first` on."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    return (splitmix64(numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def zipf_shares(count: int, theta: float) -> Floats:
    """Shares proportional to rank^-theta; theta 0: all the same."""
    powers: Floats = np.arange(1, count + 1, dtype=np.float64) ** -theta
    shares: Floats = powers / powers.sum()
    return shares


def largest_remainder(total: int, shares: Floats) -> Numbers:
    """Whole numbers that sum to `total` and follow the shares; of equal remainders the first wins."""
    exact = shares * total
    whole = np.floor(exact).astype(np.int64)
    missing = total - int(whole.sum())
    whole[np.argsort(whole - exact, kind="stable")[:missing]] += 1
    return whole


def uniform_rates(pages: int) -> Floats:
    """First experiment: evenly spread from 0.01 to 1 change per hour."""
    return (RATE_MIN_PER_HOUR + RATE_SPAN_PER_HOUR * uniform_numbers(pages)) / HOUR_S


def zipf_rates(pages: int, theta: float) -> Floats:
    """Second experiment: 0.01 k changes per hour, k = 1 … 100, P(k) ~ k^-theta; by the inverse of the distribution."""
    steps = np.searchsorted(np.cumsum(zipf_shares(RATE_STEPS, theta)), uniform_numbers(pages), side="right") + 1
    return np.minimum(steps, RATE_STEPS) * 0.01 / HOUR_S


def zipf_weights(pages: int, theta: float) -> Floats:
    """Third experiment: a page's importance is proportional to rank^-theta, mean 1, independent of its rate and its
    server.

    Ranks are the order of splitmix64 of the numbers after the rates' own (N+1 … 2N), so the two are independent.
    """
    weights = np.empty(pages)
    order = np.argsort(splitmix64(np.arange(pages + 1, 2 * pages + 1, dtype=np.uint64)), kind="stable")
    weights[order] = zipf_shares(pages, theta) * pages
    return weights


def make_workload(
    pages: int,
    n_servers: int,
    servers_theta: float,
    rates_theta: float | None = None,
    weights_theta: float = 0.0,
) -> Workload:
    """A Web of `pages` pages; server sizes follow Zipf(servers_theta), rates are even unless `rates_theta` is given."""
    sizes = largest_remainder(pages, zipf_shares(n_servers, servers_theta))
    rates = uniform_rates(pages) if rates_theta is None else zipf_rates(pages, rates_theta)
    servers = np.repeat(np.arange(n_servers, dtype=np.int64), sizes)
    return Workload(rates, servers, n_servers, zipf_weights(pages, weights_theta))
