"""Estimates how often a page changes, from what its visits saw, on every time scale.

What the visits of a page saw is kept as a few numbers, its *evidence*:

- `quiet`: the time in which it certainly did not change (visits that found no change; the time since a trusted date);
- `dated`: changes whose time is known from a trusted date;
- `gaps`: visits that found a change at an unknown time, in at most `GAPS_MAX` groups of similar gaps between visits.

Given the rate, the probability of this evidence is rate^dated e^(-rate quiet) times 1 - e^(-rate gap) for each gap. It
is exact but for the grouping, and as a function of the logarithm of the rate it has one peak.

The belief is kept as a Gamma distribution (alpha, beta) that has the peak and the curvature there of the posterior of
the log rate. So a page costs two more numbers, by which its visits are scheduled. `belief` makes of them, and of the
evidence, what people read.

The prior has no scale of its own. Where nothing is known of other pages, it is half a change, and half a visit without
a change at the shortest gap that saw one (the prior of Jeffreys for such visits, nearly): the belief is then
the same on a clock of any speed, and its 90 % interval covers the truth nine times of ten from the first visits on.
Where the rates of other pages of the site or collection are known, it is their spread on a logarithmic scale
(`log_rate_prior`): a page may be a hundred times as fast as the others of its site without being held back for long.

A page that has changed at every visit may change at any faster rate, too. Its interval has no upper end
(`cannot_be_told`), and `policy` visits it again after a shorter gap, which can tell more.

All rates are per second and all times in seconds here, but nothing depends on the unit. Plain functions of numbers,
which numba compiles as they are.
"""

import math
from collections.abc import MutableSequence, Sequence
from typing import NamedTuple

DAY_S = 86_400.0
FIRST_RATE = 0.1 / DAY_S  # of a page of which nothing is known, nor of any other page
HALF = 0.5  # the prior without a scale: so many changes, and visits without a change
GAPS_MAX = 6  # groups of gaps
LOG_STEPS = 16  # logarithms of gaps are counted in steps of 1/16 octave
SAME_GROUP = 3 * LOG_STEPS // 4  # gaps that differ by less are similar
ALPHA_MIN, ALPHA_MAX = 0.02, 1e6
CAUTION = 0.5
AT_LEAST = 3.0  # changes expected within the shortest gap: more cannot be told from any larger number
DATE_S = 0.5  # a date has no fractions of a second
GAP_MIN_S = 1e-9
AGE_MAX_S = 3 * 365 * DAY_S  # an older date counts as this age
PRIOR_PAGES = 5.0  # the spread of rates that is assumed at first counts as much as this many pages
PRIOR_VARIANCE = 30.0  # of log rates, at first: nine pages of ten lie within four decades to either side
VARIANCE_MIN = 1e-6  # rounding can leave less than nothing
SAME = 0.01  # of slopes and curvatures
STEP_MAX, STEPS_MAX, PRECISE = 1.5, 60, 1e-3  # of Newton's method, on the scale of log rates


class RatePrior(NamedTuple):
    """The spread of the log rates of other pages; a precision of 0: nothing is known of them."""

    mean: float
    precision: float


NO_PRIOR = RatePrior(0.0, 0.0)


class RateSums(NamedTuple):
    """Sums over pages with evidence: they can be added and subtracted, in any order and by any machine."""

    pages: float = 0.0
    means: float = 0.0  # of log rates
    squares: float = 0.0

    def plus(self, alpha: float, beta: float, sign: int = 1) -> "RateSums":
        """With a page's belief added, or removed."""
        mean = math.log(alpha / beta)
        return RateSums(self.pages + sign, self.means + sign * mean, self.squares + sign * (mean * mean + 1.0 / alpha))


NO_SUMS = RateSums()


def log_rate_prior(site: RateSums, collection: RateSums = NO_SUMS) -> RatePrior:
    """The prior of a page from the other pages of its site, and behind them from those of its collection.

    The spread of each sum is the one that makes its pages most probable, as each page is believed to be: one step of
    expectation maximisation with each visit. What is behind counts as `PRIOR_PAGES` more pages.
    """
    mean, variance, known = 0.0, PRIOR_VARIANCE, False
    for sums in (collection, site):
        if sums.pages > 0.5:
            if not known:  # the first sum says where the rates are; how far apart is assumed
                mean = sums.means / sums.pages
            total = sums.pages + PRIOR_PAGES
            squares = sums.squares + PRIOR_PAGES * (mean * mean + variance)
            mean = (sums.means + PRIOR_PAGES * mean) / total
            variance, known = max(squares / total - mean * mean, VARIANCE_MIN), True
    return RatePrior(mean, 1.0 / variance) if known else NO_PRIOR


def log_step(gap: float) -> int:
    """The logarithm of a gap, in steps."""
    return round(math.log2(max(gap, GAP_MIN_S)) * LOG_STEPS)


def group_gap(group_count: int, group_sum: int) -> float:
    """The geometric mean of a group of gaps."""
    return float(2.0 ** (group_sum / (group_count * LOG_STEPS)))


def add_gap(gaps: MutableSequence[int], gap: float) -> None:
    """Count a change that was found after a gap. `gaps` has `GAPS_MAX` pairs: a count, and a sum of logarithms in
    steps; (0, 0) is free."""
    step, free, near, distance = log_step(gap), -1, -1, math.inf
    for place in range(0, 2 * GAPS_MAX, 2):
        if gaps[place] == 0:
            free = place
        elif abs(gaps[place + 1] / gaps[place] - step) < distance:
            near, distance = place, abs(gaps[place + 1] / gaps[place] - step)
    if distance > SAME_GROUP:
        near = free if free >= 0 else _join_nearest(gaps)
    gaps[near] += 1
    gaps[near + 1] += step


def _join_nearest(gaps: MutableSequence[int]) -> int:
    """Join the two groups that are most similar. Returns the free place."""
    first, second, distance = 0, 2, math.inf
    for one in range(0, 2 * GAPS_MAX, 2):
        for other in range(one + 2, 2 * GAPS_MAX, 2):
            apart = abs(gaps[one + 1] / gaps[one] - gaps[other + 1] / gaps[other])
            if apart < distance:
                first, second, distance = one, other, apart
    gaps[first] += gaps[second]
    gaps[first + 1] += gaps[second + 1]
    gaps[second] = gaps[second + 1] = 0
    return second


def shortest_gap(gaps: Sequence[int]) -> float:
    """The shortest gap that saw a change; 0: none did."""
    shortest = 0.0
    for place in range(0, len(gaps), 2):
        if gaps[place] > 0:
            gap = group_gap(gaps[place], gaps[place + 1])
            if shortest == 0.0 or gap < shortest:
                shortest = gap
    return shortest


def fit_rate(
    quiet: float, dated: int, gaps: Sequence[int], prior_mean: float, prior_precision: float
) -> tuple[float, float]:
    """The belief after this evidence: (alpha, beta)."""
    quiet += dated * DATE_S
    changes, shortest, whole = float(dated), 0.0, quiet
    lengths = [0.0 for _ in range(len(gaps) // 2)]
    for place in range(len(lengths)):
        count = gaps[2 * place]
        if count > 0:
            lengths[place] = group_gap(count, gaps[2 * place + 1])
            changes += count
            whole += count * lengths[place] / 2.0
            if shortest == 0.0 or lengths[place] < shortest:
                shortest = lengths[place]
    half = 0.0 if prior_precision > 0.0 else HALF  # other pages tell more
    still = quiet + half * shortest
    if whole < GAP_MIN_S:
        return _belief_without_evidence(prior_mean, prior_precision)
    peak = math.log((changes + 0.1 + half) / whole)
    curvature = 1.0
    for _ in range(STEPS_MAX):
        slope, curvature = evidence_slope(math.exp(peak), still, dated + half, gaps[::2], lengths)
        slope -= (peak - prior_mean) * prior_precision
        curvature = max(curvature + prior_precision, ALPHA_MIN)
        step = min(max(slope / curvature, -STEP_MAX), STEP_MAX)
        peak += step
        if abs(step) < PRECISE:
            break
    alpha = min(curvature, ALPHA_MAX)
    return alpha, alpha / math.exp(peak)


def evidence_slope(
    rate: float, still: float, dated: float, counts: Sequence[int], lengths: Sequence[float]
) -> tuple[float, float]:
    """Slope and curvature of the evidence's log probability, by the log rate."""
    slope, curvature = dated - still * rate, still * rate
    for place in range(len(lengths)):
        expected = rate * lengths[place]
        if 0.0 < expected < 500.0:  # more tell nothing
            ratio = 1.0 - expected / 2.0 if expected < 1e-6 else expected / math.expm1(expected)
            slope += counts[place] * ratio
            curvature += counts[place] * ratio * (expected + ratio - 1.0)
    return slope, curvature


def _belief_without_evidence(prior_mean: float, prior_precision: float) -> tuple[float, float]:
    if prior_precision > 0.0:
        alpha = min(max(prior_precision, ALPHA_MIN), ALPHA_MAX)
        return alpha, alpha / math.exp(prior_mean)
    return HALF, HALF / FIRST_RATE


# Which rate to use for a page whose rate is uncertain. The middle of the belief is a trap: a page thought to change
# fast is worth little and is left alone; when it is visited at last it has changed, which says nothing new but "fast",
# and the estimate runs away. An error to the slow side is corrected soon, because slow pages are visited. So the rate
# is taken some standard deviations lower (of log rate, 1/sqrt(alpha)), the optimism in the face of uncertainty of
# bandit problems; it vanishes as visits add up, unlike exploration, which goes on costing. A quarter to six tenths of a
# deviation do as well (`simulate learning`).
def cautious_rate(alpha: float, beta: float, caution: float = CAUTION) -> float:
    """The rate by which visits to a page are scheduled."""
    return alpha / beta * math.exp(-caution / math.sqrt(alpha))


def prior_behind(
    alpha: float, beta: float, quiet: float, dated: int, gaps: Sequence[int]
) -> tuple[float, float] | None:
    """The slope at the peak and the precision of the normal prior of a belief: what its evidence leaves unexplained.
    None: it was the prior without a scale."""
    peak, still, half_visit = alpha / beta, quiet + dated * DATE_S, HALF * shortest_gap(gaps)
    counts = gaps[::2]
    lengths = [group_gap(*pair) if pair[0] else 0.0 for pair in zip(counts, gaps[1::2], strict=True)]
    slope, curvature = evidence_slope(peak, still, dated, counts, lengths)
    without_scale = abs(alpha - curvature - half_visit * peak), abs(slope + HALF - half_visit * peak)
    return None if max(without_scale) < SAME else (-slope, max(alpha - curvature, 0.0))


def cannot_be_told(quiet: float, dated: int, gaps: Sequence[int], rate: float) -> bool:
    """Whether a page may as well change at any faster rate: it has changed at every visit, or nearly."""
    shortest = shortest_gap(gaps)
    return shortest > 0.0 and not dated and (quiet <= 0.0 or rate * shortest > AT_LEAST)
