"""Estimates how often a page changes: a Gamma posterior updated by each visit.

The belief about a page's rate is a Gamma distribution (alpha, beta): its mean alpha / beta is the estimate, its width
the uncertainty. A visit, `gap` after the one before, has one of three results:

- no change: no event in `gap`. The Gamma stays a Gamma: beta grows by the gap. Exact.
- a change, and the page's date says when the last one was: an event, and none in the `quiet` time since. Exact: alpha +
  1, beta + quiet. Earlier events leave no trace and need none: given the rate, they are independent.
- a change, at unknown times and of unknown number: 1 - e^(-rate gap). That is no Gamma any more; the Gamma with the
  same mean and variance takes its place (assumed-density filtering), so that a page costs two numbers however long its
  history. Weakness: each such step loses a little of the shape; tests/revisit compares with the exact posterior.

A page that changes much faster than it is visited has changed at every visit: without dates its rate cannot be told
from any faster one, and only the prior limits it. Dates keep it identifiable.

All rates are per second and all times in seconds here, but nothing depends on the unit. Plain functions of floats,
which numba compiles as they are.
"""

import math

DAY_S = 86_400.0
PRIOR_ALPHA, PRIOR_BETA = 0.5, 0.5 * 10 * DAY_S  # once in ten days on average, with wide uncertainty
PRIOR_PAGES = 5.0  # the general prior counts as much as this many pages of the site
ALPHA_MIN, ALPHA_MAX = 0.05, 1e6
CAUTION = 0.75
NEGLIGIBLE = 1e-12  # a gap below this share of beta is ignored
AGE_MAX_S = 3 * 365 * DAY_S  # an older date counts as this age


def update_unchanged(alpha: float, beta: float, gap: float) -> tuple[float, float]:
    return alpha, beta + max(0.0, gap)


def update_dated(alpha: float, beta: float, quiet: float) -> tuple[float, float]:
    """Update after a change whose last occurrence was `quiet` ago."""
    return alpha + 1.0, beta + max(0.0, quiet)


def update_changed(alpha: float, beta: float, gap: float) -> tuple[float, float]:
    """Update after at least one change in `gap`.

    With g = log(1 + gap/beta) and E(k) = 1 - e^(-kg), the k-th moment of the posterior is that of the Gamma times
    E(alpha + k) / E(alpha): stable however small the gap.
    """
    if gap <= NEGLIGIBLE * beta:
        return alpha + 1.0, beta
    g = math.log1p(gap / beta)
    whole = -math.expm1(-alpha * g)
    mean = alpha / beta * -math.expm1(-(alpha + 1.0) * g) / whole
    square = alpha * (alpha + 1.0) / (beta * beta) * -math.expm1(-(alpha + 2.0) * g) / whole
    variance = square - mean * mean
    shape = min(max(mean * mean / variance, ALPHA_MIN), ALPHA_MAX) if variance > 0.0 else ALPHA_MAX
    return shape, shape / mean


# Which rate to use for a page whose rate is uncertain. The mean of the belief (alpha / beta) is a trap: a page thought
# to change fast is worth little and is left alone; when it is visited at last it has changed, which says nothing new
# but "fast", and the estimate runs away. An error to the slow side is corrected soon, because slow pages are visited.
# So the estimate is taken some standard deviations below the mean (of log rate, about 1/sqrt(alpha)), the optimism in
# the face of uncertainty of bandit problems; it vanishes as visits add up, unlike exploration, which goes on costing.
# Weakness: 0.75 is tuned on one experiment (`simulate learning`; 0.5 to 1 do as well), and pages whose rate cannot be
# learned (no dates, changed at every visit) stay between guess and prior.
def cautious_rate(alpha: float, beta: float, caution: float = CAUTION) -> float:
    """The rate by which visits to a page are scheduled."""
    return alpha / beta * math.exp(-caution / math.sqrt(alpha))


def site_prior(pages: float, means: float, squares: float) -> tuple[float, float]:
    """The prior of a new page of a site: the Gamma with the mean and variance of the site's pages.

    `means` is the sum of their estimates, `squares` the sum of the second moments of their beliefs. The general prior
    counts as `PRIOR_PAGES` pages.
    """
    mean = PRIOR_ALPHA / PRIOR_BETA
    square = mean * mean + PRIOR_ALPHA / PRIOR_BETA**2
    total = pages + PRIOR_PAGES
    mean, square = (means + PRIOR_PAGES * mean) / total, (squares + PRIOR_PAGES * square) / total
    variance = square - mean * mean
    shape = min(max(mean * mean / variance, ALPHA_MIN), ALPHA_MAX) if variance > 0.0 else ALPHA_MAX
    return shape, shape / mean


def second_moment(alpha: float, beta: float) -> float:
    return alpha * (alpha + 1.0) / (beta * beta)


def rate_bounds(alpha: float, beta: float, z: float = 1.645) -> tuple[float, float]:
    """The 90 % interval of the true rate. Wilson and Hilferty's cube: the cube root of a Gamma is nearly normal; a few
    percent wrong where alpha is below 1.
    """
    spread = z / (3.0 * math.sqrt(alpha))
    centre = 1.0 - 1.0 / (9.0 * alpha)
    return alpha / beta * max(0.0, centre - spread) ** 3, alpha / beta * (centre + spread) ** 3
