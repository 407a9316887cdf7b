"""What is believed of a page's change rate, as people read it: median, 90 % interval, probability that it is fresh.

The Gamma distribution of `change_rate` is skewed to the slow side. A wide belief need not be: where every visit found a
change, and the rates of other pages lie far apart, it falls steeply below one change in the shortest gap and reaches
over decades above it; where no visit did, it reaches over decades below. So a wide belief is the exact posterior, as a
sum over rates. That takes some 40 us. A narrow belief is the Gamma distribution.

Promises: pure. Rates are per second and times in seconds, but nothing depends on the unit.
"""

import bisect
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tarrafa.revisit.change_rate import (
    DATE_S,
    GAPS_MAX,
    HALF,
    NO_PRIOR,
    add_gap,
    cannot_be_told,
    fit_rate,
    group_gap,
    prior_behind,
    shortest_gap,
)

NARROW_ALPHA_MIN = 6.0  # from here on the Gamma distribution is as good
POINTS = 48
DROP = 11.0  # the points reach as far as the density is above e^-11 of the highest
EDGE_STEP, AWAY_MAX = 1.3, 60.0  # of log rates, from the peak
Z_90 = 1.645  # the quantile of the normal distribution below which 95 % lie


@dataclass(slots=True, frozen=True)
class NarrowBelief:
    """A Gamma distribution."""

    alpha: float
    beta: float

    @property
    def median(self) -> float:
        return self._quantile(0.0)

    @property
    def bounds(self) -> tuple[float, float]:
        return self._quantile(-Z_90), self._quantile(Z_90)

    def fresh_probability(self, age: float) -> float:
        return math.exp(-self.alpha * math.log1p(max(0.0, age) / self.beta))

    def _quantile(self, z: float) -> float:
        """Wilson and Hilferty: the cube root of a Gamma is nearly normal."""
        root = 1.0 - 1.0 / (9.0 * self.alpha) + z / (3.0 * math.sqrt(self.alpha))
        return self.alpha * root**3 / self.beta


@dataclass(slots=True, frozen=True)
class WideBelief:
    """Rates that are evenly spaced by logarithm, slow ones first, and the probability of each."""

    rates: Sequence[float]
    shares: Sequence[float]

    @property
    def median(self) -> float:
        return self.quantile(0.5)

    @property
    def bounds(self) -> tuple[float, float]:
        return self.quantile(0.05), self.quantile(0.95)

    def fresh_probability(self, age: float) -> float:
        age = max(0.0, age)
        return sum(share * math.exp(-rate * age) for rate, share in zip(self.rates, self.shares, strict=True))

    def quantile(self, share: float) -> float:
        sums = list(itertools.accumulate(self.shares))
        place = min(bisect.bisect_left(sums, share), len(sums) - 1)
        between = (share - sums[place]) / self.shares[place] + 0.5  # from -0.5 to 0.5 of a step
        return float(self.rates[place] * (self.rates[1] / self.rates[0]) ** between)


# `median` is the rate that is as probably too high as too low, `bounds` the 90 % interval, and `fresh_probability` that
# of no change for `age`, over the whole belief.
Belief = NarrowBelief | WideBelief


def make_belief(alpha: float, beta: float, quiet: float, dated: int, gaps: Sequence[int]) -> Belief:
    """The belief that `change_rate.fit_rate` found for this evidence."""
    if alpha >= NARROW_ALPHA_MIN:
        return NarrowBelief(alpha, beta)
    peak, still, prior = alpha / beta, quiet + dated * DATE_S, prior_behind(alpha, beta, quiet, dated, gaps)
    groups = [(count, group_gap(count, logs)) for count, logs in zip(gaps[::2], gaps[1::2], strict=True) if count]
    if prior is None:
        linear, square, still = dated + HALF, 0.0, still + HALF * shortest_gap(gaps)
    else:
        linear, square = dated + prior[0], prior[1] / 2.0

    def log_density(away: float) -> float:
        rate = peak * math.exp(away)
        found = (linear - square * away) * away - still * rate
        for count, gap in groups:
            found += count * math.log(-math.expm1(-rate * gap))
        return found

    highest = log_density(0.0)
    low, high = -1.0 / math.sqrt(alpha), 1.0 / math.sqrt(alpha)
    while low > -AWAY_MAX and log_density(low) > highest - DROP:
        low *= EDGE_STEP
    while high < AWAY_MAX and log_density(high) > highest - DROP:
        high *= EDGE_STEP
    places = [low + (high - low) * number / (POINTS - 1) for number in range(POINTS)]
    densities = [math.exp(log_density(away) - highest) for away in places]
    whole = math.fsum(densities)
    return WideBelief([peak * math.exp(away) for away in places], [density / whole for density in densities])


def believe(observations: Iterable[tuple[float, bool]]) -> tuple[float, float, float]:
    """The rate of change of a page, and its 90 % interval, from its visits alone.

    Each observation is the time since the visit before, in seconds, and whether the page had changed. The rates are per
    second. An upper end that is infinite says: at least the lower end.
    """
    quiet, places = 0.0, [0] * (2 * GAPS_MAX)
    for gap, changed in observations:
        if not 0.0 <= gap < math.inf:
            raise ValueError(f"a time since the visit before must be a finite number of seconds, got {gap!r}")
        if not changed:
            quiet += gap
        elif gap > 0.0:
            add_gap(places, gap)
    belief = make_belief(*fit_rate(quiet, 0, places, *NO_PRIOR), quiet, 0, places)
    low, high = belief.bounds
    return belief.median, low, math.inf if cannot_be_told(quiet, 0, places, belief.median) else high
