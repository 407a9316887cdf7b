"""What learning change rates costs any crawler, at least, on a Web whose rates lie log-uniformly between two bounds.

A crawler is given, for nothing, all changes of every page during T rounds (one visit for each page and round), and the
true spread of rates. It knows more than any crawler that has made its visits in T rounds. Its lowest staleness in the
long run has a Lagrangian bound: for every price p it is at least the mean over pages of the least
(a - F(a) + p) / a over all gaps a, less p; F(a) is the time that a page is expected to be fresh within a. The same
bound with known rates is the comparison. Prints how much higher the first one is (decision 0381).

    python benchmarks/learning_bound.py
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from tarrafa.simulate.learning_cost import LOG_UNIFORM_PER_S

Floats = npt.NDArray[np.float64]
ROUND_S = 10_000.0  # of `simulate learning`: 8.64 visits a day and page
RATES, GAPS, COUNTS = 400, 900, 1_000  # points of the integrals
COUNT_EXACT = 400  # larger counts of changes are taken at geometric distances
PRICES = np.linspace(0.05, 0.16, 45)
ROUNDS = (1.0, 5.0, 10.0, 14.0, 20.0, 30.0, 34.0, 100.0, 340.0)


def log_uniform_rates() -> Floats:
    """Rates per round, in the middle of equal parts of the spread."""
    low, high = (math.log(rate * ROUND_S) for rate in LOG_UNIFORM_PER_S)
    return np.exp(low + (np.arange(RATES) + 0.5) / RATES * (high - low))


def staleness_bound(fresh: Floats, gaps: Floats, shares: Floats) -> float:
    """`fresh`: the expected fresh time of each kind of page within each gap; `shares`: how many pages are of a kind."""
    bounds = list[float]()
    for price in PRICES:
        cost = np.minimum(1.0, ((gaps - fresh + price) / gaps).min(axis=1))
        bounds.append(float((cost * shares).sum() / shares.sum()) - price)
    return float(max(bounds))


def change_counts(rates: Floats, rounds: float) -> tuple[Floats, Floats]:
    """Numbers of changes that a page may have shown, and how many numbers each stands for."""
    most = int(rates[-1] * rounds + 8.0 * math.sqrt(rates[-1] * rounds) + 20.0)
    if most < COUNTS:
        counts = np.arange(most, dtype=float)
        return counts, np.ones(len(counts))
    far = np.exp(np.linspace(math.log(COUNT_EXACT), math.log(most), COUNTS - COUNT_EXACT))
    counts = np.unique(np.concatenate((np.arange(COUNT_EXACT), far)).astype(np.int64)).astype(float)
    weights = np.gradient(counts)
    weights[: COUNT_EXACT - 1] = 1.0
    return counts, weights


def learned_bound(rates: Floats, gaps: Floats, fresh: Floats, rounds: float) -> float:
    counts, weights = change_counts(rates, rounds)
    lgamma: Any = np.vectorize(math.lgamma)
    logs = counts[:, None] * np.log(rates * rounds) - rates * rounds - lgamma(counts + 1.0)[:, None]
    likely = np.exp(logs)
    seen = likely.mean(axis=1) * weights
    posterior = likely / np.maximum(likely.sum(axis=1, keepdims=True), 1e-300)
    return staleness_bound(posterior @ fresh, gaps, seen)


def main() -> None:
    rates, gaps = log_uniform_rates(), np.exp(np.linspace(math.log(0.005), math.log(20_000.0), GAPS))
    fresh = -np.expm1(-np.outer(rates, gaps)) / rates[:, None]
    known = staleness_bound(fresh, gaps, np.ones(RATES))
    print(f"known rates: staleness at least {known:.4f}")
    print("| rounds | above known rates, at least |\n|---|---|")
    for rounds in ROUNDS:
        print(f"| {rounds:g} | {100 * (learned_bound(rates, gaps, fresh, rounds) / known - 1):.2f} % |")


if __name__ == "__main__":
    main()
