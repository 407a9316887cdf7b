import math

import numpy as np
import pytest

from tarrafa.errors import ConfigError
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate.periodic_crawl import best_freshness, draw_curves, periodic_freshness

MONTH_S = 30 * DAY_S
RATES = np.array([0.003, 0.02, 0.1, 0.7, 2.0]) / DAY_S


@pytest.mark.parametrize("burst_days", [0.5, 7, 30])
def test_in_place_and_steady_are_equally_fresh_in_the_mean(burst_days):
    curves = periodic_freshness(RATES, MONTH_S, burst_days * DAY_S)
    assert curves.mean(curves.in_place) == pytest.approx(curves.steady, abs=2e-3)


def test_a_page_that_changes_every_four_months_crawled_once_a_month():
    """The setting of Cho and Garcia-Molina (2000): one month, four months, a week."""
    rate, week_s = 1 / (4 * MONTH_S), 7 * DAY_S
    curves = periodic_freshness([rate], MONTH_S, week_s)
    steady = -math.expm1(-0.25) / 0.25
    assert curves.steady == pytest.approx(steady, abs=1e-12)
    assert curves.mean(curves.shadow) == pytest.approx(steady * -math.expm1(-rate * week_s) / (rate * week_s), abs=1e-4)
    everlasting = periodic_freshness([rate], MONTH_S, MONTH_S)
    assert everlasting.mean(everlasting.shadow) == pytest.approx(steady**2, abs=1e-4)


def test_the_curves_are_what_visiting_each_document_in_turn_gives():
    """Many documents, each visited at its own moment of the burst, without any formula but e^(-rate t)."""
    burst_s = 9 * DAY_S
    curves = periodic_freshness(RATES, MONTH_S, burst_s, periods=2)
    visited_s = (np.arange(4000) + 0.5) / 4000 * burst_s
    for moment in range(0, len(curves.times_s), 37):
        t = curves.times_s[moment] % MONTH_S
        since = np.where(visited_s <= t, t - visited_s, t - visited_s + MONTH_S)
        shown = t - visited_s if t >= burst_s else t - visited_s + MONTH_S
        assert curves.in_place[moment] == pytest.approx(np.exp(-np.outer(RATES, since)).mean(), abs=2e-4)
        assert curves.shadow[moment] == pytest.approx(np.exp(-np.outer(RATES, shown)).mean(), abs=2e-4)


def test_a_shadow_is_never_fresher_and_catches_up_when_it_is_shown():
    curves = periodic_freshness(RATES, MONTH_S, 7 * DAY_S)
    assert (curves.shadow <= curves.in_place + 1e-12).all()
    shown = curves.times_s == 7 * DAY_S
    assert curves.shadow[shown] == curves.in_place[shown] == pytest.approx(curves.in_place.max())


def test_an_empty_collection_fills_and_a_shadow_shows_nothing_until_the_first_burst_is_over():
    curves = periodic_freshness(RATES, MONTH_S, 7 * DAY_S, from_empty=True)
    during = curves.times_s < 7 * DAY_S
    assert curves.in_place[0] == 0
    assert (np.diff(curves.in_place[during]) > 0).all()
    assert (curves.shadow[during] == 0).all()
    settled = periodic_freshness(RATES, MONTH_S, 7 * DAY_S)
    assert curves.in_place[~during] == pytest.approx(settled.in_place[~during])


def test_best_is_steady_for_equal_rates_and_better_for_mixed_ones():
    alike = periodic_freshness([0.1 / DAY_S] * 5, MONTH_S, DAY_S)
    assert alike.best == pytest.approx(alike.steady, rel=1e-9)
    mixed = periodic_freshness(RATES, MONTH_S, DAY_S)
    assert mixed.best > mixed.steady * 1.1


def test_best_gives_up_pages_that_change_too_often():
    fresh = best_freshness(np.array([100.0, 1.0]), np.ones(2), visits_per_s=1.0)
    assert fresh == pytest.approx(-math.expm1(-1.0) / 2)


def test_pages_that_never_change_are_always_fresh():
    curves = periodic_freshness([0.0, 0.0], MONTH_S, DAY_S)
    assert curves.steady == curves.best == 1
    assert curves.shadow.tolist() == pytest.approx(np.ones(len(curves.times_s)).tolist())


def test_a_million_rates_say_what_their_groups_say():
    rates = np.random.default_rng(1).gamma(0.5, 0.2, 100_000) / DAY_S
    curves = periodic_freshness(rates, MONTH_S, DAY_S, periods=1)
    y = rates * MONTH_S
    assert curves.steady == pytest.approx(np.mean(-np.expm1(-y) / y), abs=1e-4)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (([1.0], 10.0, 11.0), "burst must be above 0 and at most the period"),
        (([1.0], 10.0, 0.0), "burst must be"),
        (([1.0], 10.0, 1.0, 0), "periods must be 1 or more"),
        (([], 10.0, 1.0), "rates must be numbers of 0 or more"),
        (([-1.0], 10.0, 1.0), "rates must be"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, complaint):
    with pytest.raises(ConfigError, match=complaint):
        periodic_freshness(*arguments)


def test_curves_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    draw_curves(periodic_freshness(RATES, MONTH_S, 7 * DAY_S), tmp_path / "sawtooth")
    assert (tmp_path / "sawtooth.png").stat().st_size > 10_000
    assert (tmp_path / "sawtooth.svg").exists()
