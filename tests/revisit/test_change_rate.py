"""How often a page changes, from what its visits saw."""

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.revisit import change_rate

DAY_S = change_rate.DAY_S


# The classical estimators, for comparison.
def naive_rate(changes: int, observed: float) -> float:
    """Changes seen divided by time observed: too low for pages that change more than once between visits."""
    return changes / observed if observed > 0 else 0.0


def cho_garcia_molina_rate(changes: int, visits: int, interval: float) -> float:
    """Cho and Garcia-Molina (2003): -log((n - X + 0.5) / (n + 0.5)) / interval, for visits at one regular interval."""
    return -math.log((visits - changes + 0.5) / (visits + 0.5)) / interval


def maximum_likelihood_rate(gaps: Sequence[float], flags: Sequence[bool]) -> float:
    """The maximum-likelihood rate of visits at irregular intervals; infinite if every one saw a change."""
    quiet = sum(gap for gap, flag in zip(gaps, flags, strict=True) if not flag)
    busy = [gap for gap, flag in zip(gaps, flags, strict=True) if flag]
    if not busy:
        return 0.0
    if quiet <= 0:
        return math.inf
    low, high = 0.0, len(busy) / quiet  # gap / (e^(rate gap) - 1) < 1 / rate
    for _ in range(200):
        rate = (low + high) / 2
        if sum(gap / math.expm1(min(rate * gap, 700.0)) for gap in busy) > quiet:
            low = rate
        else:
            high = rate
    return (low + high) / 2


def exact(alpha: float, beta: float, seen: list[tuple[float, bool]]) -> tuple[float, float]:
    """Mean and deviation of the true posterior, by summing over rates."""
    rates = np.geomspace(1e-12, 100, 400_001)
    log = alpha * np.log(rates) - beta * rates  # one more power: the steps are geometric
    for gap, changed in seen:
        log += np.log(-np.expm1(-rates * gap)) if changed else -rates * gap
    density = np.exp(log - log.max())
    density /= density.sum()
    mean = float((density * rates).sum())
    return mean, math.sqrt(float((density * rates**2).sum()) - mean**2)


def follow(alpha: float, beta: float, seen: list[tuple[float, bool]]) -> tuple[float, float]:
    for gap, changed in seen:
        alpha, beta = (
            change_rate.update_changed(alpha, beta, gap) if changed else change_rate.update_unchanged(alpha, beta, gap)
        )
    return alpha, beta


def test_one_unchanged_visit_is_exact():
    alpha, beta = follow(0.5, 5.0, [(3.0, False)])
    mean, deviation = exact(0.5, 5.0, [(3.0, False)])
    assert alpha / beta == pytest.approx(mean, rel=1e-4)
    assert math.sqrt(alpha) / beta == pytest.approx(deviation, rel=1e-3)


def test_one_changed_visit_keeps_mean_and_variance():
    for gap in (1e-3, 0.5, 20.0, 1e4):
        alpha, beta = follow(2.0, 3.0, [(gap, True)])
        mean, deviation = exact(2.0, 3.0, [(gap, True)])
        assert alpha / beta == pytest.approx(mean, rel=1e-4)
        assert math.sqrt(alpha) / beta == pytest.approx(deviation, rel=1e-3)


def test_long_irregular_histories_stay_near_the_exact_posterior():
    rng = random.Random(4)
    for rate in (0.05, 0.3, 1.0, 3.0):
        seen = [(gap := rng.uniform(0.2, 4.0), rng.random() < -math.expm1(-rate * gap)) for _ in range(40)]
        alpha, beta = follow(1.0, 2.0, seen)
        mean, deviation = exact(1.0, 2.0, seen)
        assert alpha / beta == pytest.approx(mean, rel=0.1)
        if rate < 2:  # one that has nearly always changed is known less well than it seems, by a quarter here
            assert math.sqrt(alpha) / beta == pytest.approx(deviation, rel=0.12)


def test_dates_keep_a_fast_page_identifiable():
    """Visited every five days, it changes twice a day: it has always changed. Its dates tell how often."""
    rng = random.Random(1)
    blind = dated = (change_rate.PRIOR_ALPHA, change_rate.PRIOR_BETA)
    for _ in range(30):
        blind = change_rate.update_changed(*blind, 5 * DAY_S)
        dated = change_rate.update_dated(*dated, rng.expovariate(2.0) * DAY_S)
    assert dated[0] / dated[1] * DAY_S == pytest.approx(2.0, rel=0.4)
    assert blind[0] / blind[1] * DAY_S < 1.2
    low, high = change_rate.rate_bounds(*dated)
    assert low < dated[0] / dated[1] < high


def test_uncertainty_shrinks_with_every_visit():
    rng, (alpha, beta) = random.Random(2), (change_rate.PRIOR_ALPHA, change_rate.PRIOR_BETA)
    widths = []
    for _ in range(60):
        alpha, beta = follow(alpha, beta, [(DAY_S, rng.random() < 0.3)])
        widths.append(1 / math.sqrt(alpha))
    assert widths[-1] < 0.35 < widths[0]


def test_nine_times_of_ten_the_truth_lies_within_the_bounds():
    rng, inside = random.Random(3), 0
    for _ in range(400):
        rate = rng.gammavariate(2.0, 0.25)
        seen = [(gap := rng.uniform(0.5, 2.0), rng.random() < -math.expm1(-rate * gap)) for _ in range(25)]
        low, high = change_rate.rate_bounds(*follow(2.0, 4.0, seen))
        inside += low <= rate <= high
    assert 0.85 <= inside / 400 <= 0.95


def test_a_new_page_is_believed_to_be_like_its_site():
    alpha, beta = change_rate.site_prior(0, 0.0, 0.0)
    assert (alpha, beta) == pytest.approx((change_rate.PRIOR_ALPHA, change_rate.PRIOR_BETA))
    daily = 1 / DAY_S
    alpha, beta = change_rate.site_prior(1000, 1000 * daily, 1000 * 1.05 * daily**2)
    assert alpha / beta == pytest.approx(daily, rel=0.01)
    assert alpha > 10  # they are all alike, so one is nearly known before it is seen


@given(
    alpha=st.floats(0.05, 1e4), beta=st.floats(1e-3, 1e9), gap=st.floats(0, 1e9), quiet=st.floats(0, 1e9)
)  # fmt: skip
def test_whatever_is_seen_leaves_a_belief(alpha, beta, gap, quiet):
    for after in (
        change_rate.update_changed(alpha, beta, gap),
        change_rate.update_unchanged(alpha, beta, gap),
        change_rate.update_dated(alpha, beta, quiet),
    ):
        assert all(math.isfinite(value) and value > 0 for value in after)
        low, high = change_rate.rate_bounds(*after)
        assert 0 <= low <= high


@given(alpha=st.floats(0.1, 1e3), beta=st.floats(0.1, 1e6), gap=st.floats(1e-3, 1e6))
def test_a_change_raises_the_estimate_and_none_lowers_it(alpha, beta, gap):
    more, less = change_rate.update_changed(alpha, beta, gap), change_rate.update_unchanged(alpha, beta, gap)
    assert less[0] / less[1] <= alpha / beta <= more[0] / more[1] * (1 + 1e-9)


def test_cho_and_garcia_molina_2003_improved_estimator():
    """Ten visits: naive 0.6 a visit for six changes, improved -log((10 - 6 + .5) / (10 + .5))."""
    assert naive_rate(6, 10.0) == 0.6
    assert cho_garcia_molina_rate(6, 10, 1.0) == pytest.approx(-math.log(4.5 / 10.5))
    assert math.isfinite(cho_garcia_molina_rate(10, 10, 1.0))


def test_the_naive_estimator_is_too_low_and_the_others_are_not():
    rng, rate, rounds = random.Random(5), 1.5, 300
    naive = improved = likeliest = 0.0
    for _ in range(rounds):
        flags = [rng.random() < -math.expm1(-rate) for _ in range(40)]
        naive += naive_rate(sum(flags), 40.0) / rounds
        improved += cho_garcia_molina_rate(sum(flags), 40, 1.0) / rounds
        likeliest += maximum_likelihood_rate([1.0] * 40, flags) / rounds
    assert naive < 0.6 * rate
    assert improved == pytest.approx(rate, rel=0.03)
    assert likeliest == pytest.approx(rate, rel=0.08)


def test_the_likeliest_rate_of_irregular_visits_solves_its_equation():
    gaps, flags = [1.0, 2.0, 0.5, 4.0, 3.0], [True, False, True, True, False]
    rate = maximum_likelihood_rate(gaps, flags)
    slope = sum(gap / math.expm1(rate * gap) for gap, flag in zip(gaps, flags, strict=True) if flag)
    assert slope == pytest.approx(5.0)
    assert maximum_likelihood_rate([1.0, 2.0], [False, False]) == 0.0
    assert maximum_likelihood_rate([1.0, 2.0], [True, True]) == math.inf
