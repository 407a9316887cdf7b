"""Freshness of periodic (batch) crawling against steady crawling, in closed form.

Promises: the expected freshness at every time, in closed form, of crawlers that make the same number of visits: each
document once per period. No randomness, no simulation.
Knows nothing of servers or politeness: the length of a crawl is an argument.

The question is Cho's and Garcia-Molina's (The Evolution of the Web and Implications for an Incremental Crawler, 2000).
A document of rate r is still fresh t after its visit with probability e^(-r t); a curve is the mean of that over the
documents and over their visit times. A batch crawler visits document after document during a `burst` at the beginning
of each period, in the same order every time, so that at one time the ages of the copies are spread evenly from `low` to
`high`, and the mean is (e^(-r low) - e^(-r high)) / (r (high - low)).

    in place     each new copy is shown at once: freshness climbs during the burst, then decays: a saw-tooth
    shadow       the new copies are shown all together when the burst is over; until then the old ones grow older
    steady       visits spread over the whole period: no burst, the same freshness at all times
    best         steady, and each document as often as it is worth: the index policy comes close to it

On average over a period `in place` and `steady` are equal: the spacing of the visits of one document matters, not the
times of the others. A shadow costs freshness, the more the longer the burst.

Known weakness: all pages are known, none is born and none dies; and a crawler with bursts needs period / burst times
the bandwidth of a steady one, which freshness does not show.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from tarrafa.errors import ConfigError
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.visit_value import age_at_price, staleness
from tarrafa.simulate import matplotlib_plots
from tarrafa.simulate.change_process import Floats

GROUPS_MAX = 1000  # of documents with nearly the same rate: a million rates would give the same result
POINTS = 240  # per period


@dataclass(slots=True, frozen=True)
class FreshnessCurves:
    """Freshness over time; steady and best are constant."""

    times_s: Floats
    in_place: Floats
    shadow: Floats
    steady: float
    best: float

    def mean(self, curve: Floats) -> float:
        """The mean over the whole time, by trapezoids."""
        return float(np.trapezoid(curve, self.times_s) / (self.times_s[-1] - self.times_s[0]))


def periodic_freshness(
    rates: ArrayLike, period_s: float, burst_s: float, periods: int = 3, *, from_empty: bool = False
) -> FreshnessCurves:
    """The curves of several periods. `from_empty` begins before the first crawl, otherwise in the steady state."""
    values, counts = _groups(np.asarray(rates, np.float64))
    if not 0.0 < burst_s <= period_s:
        raise ConfigError(f"burst must be above 0 and at most the period ({period_s:g} s), got {burst_s:g} s")
    if periods < 1:
        raise ConfigError(f"periods must be 1 or more, got {periods}")
    times_s, phases = _moments(period_s, burst_s, periods)
    in_place, shadow = np.zeros(len(times_s)), np.zeros(len(times_s))
    for moment, (time_s, t) in enumerate(zip(times_s, phases, strict=True)):
        first = from_empty and time_s <= burst_s
        done = min(t, burst_s) / burst_s
        is_over = t >= burst_s
        after = t if is_over else t + period_s
        shown = _mean(values, counts, after - burst_s, after)
        if is_over:
            in_place[moment] = shown
        else:
            in_place[moment] = done * _mean(values, counts, 0.0, t)
            in_place[moment] += 0.0 if first else (1.0 - done) * _mean(values, counts, after - burst_s, period_s)
        shadow[moment] = 0.0 if first and not is_over else shown
    steady = _mean(values, counts, 0.0, period_s)
    return FreshnessCurves(
        times_s, in_place, shadow, steady, best_freshness(values, counts, float(counts.sum()) / period_s)
    )


def best_freshness(rates: Floats, counts: Floats, visits_per_s: float) -> float:
    """The highest freshness that this many visits can reach: at one price for all, each document is visited whenever a
    visit is worth it. The price is found by bisection of its logarithm.
    """

    def ages(price: float) -> Floats:
        return np.array([age_at_price(rate, 1.0, price) for rate in rates])

    if not np.any(rates > 0.0):
        return 1.0
    low, high = 1e-12, float(1.0 / rates[rates > 0.0].min())
    for _ in range(100):
        price = (low * high) ** 0.5
        low, high = (price, high) if float((counts / ages(price)).sum()) > visits_per_s else (low, price)
        if high / low < 1.0 + 1e-12:
            break
    stale = [staleness(rate * age) if rate > 0.0 else 0.0 for rate, age in zip(rates, ages(high), strict=True)]
    return 1.0 - float(np.average(stale, weights=counts))


def _moments(period_s: float, burst_s: float, periods: int) -> tuple[Floats, Floats]:
    """The times at which a curve is drawn, and their offsets in the period. The time of the swap occurs twice, just
    before and just after, or the jump would be a slope.
    """
    even = np.linspace(0.0, period_s, POINTS + 1)
    phases = np.unique(np.concatenate([even, [np.nextafter(burst_s, 0.0), burst_s]]))
    whole = np.tile(phases, periods)
    starts_s = np.repeat(np.arange(periods) * period_s, len(phases))
    return starts_s + whole, whole


def _mean(rates: Floats, counts: Floats, low: float, high: float) -> float:
    """Freshness of documents visited evenly between `low` and `high` ago."""
    y = rates * (high - low)
    spread = np.where(y > 1e-9, -np.expm1(-y) / np.where(y > 1e-9, y, 1.0), 1.0)
    return float(np.average(np.exp(-rates * low) * spread, weights=counts))


def _groups(rates: Floats) -> tuple[Floats, Floats]:
    """Representative rates, and how many documents each stands for."""
    if not len(rates) or not np.all(rates >= 0.0) or not np.all(np.isfinite(rates)):
        raise ConfigError("rates must be numbers of 0 or more, at least one of them")
    if len(rates) <= GROUPS_MAX:
        return rates, np.ones(len(rates))
    parts = np.array_split(np.sort(rates), GROUPS_MAX)
    return np.array([part.mean() for part in parts]), np.array([float(len(part)) for part in parts])


def draw_curves(curves: FreshnessCurves, stem: Path) -> None:
    """Draw the curves as STEM.png and STEM.svg."""
    days = (curves.times_s / DAY_S).tolist()
    ends = [days[0], days[-1]]
    matplotlib_plots.draw_lines(
        stem,
        [
            matplotlib_plots.Series("in place", days, curves.in_place.tolist(), markers=False),
            matplotlib_plots.Series("shadow", days, curves.shadow.tolist(), markers=False),
            matplotlib_plots.Series("steady", ends, [curves.steady] * 2, markers=False),
            matplotlib_plots.Series("best", ends, [curves.best] * 2, bound=True),
        ],
        "The same visits, in bursts or all the time",
        "days",
        "freshness (share of documents up to date)",
        percent=True,
    )
