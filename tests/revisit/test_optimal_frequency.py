"""The bound is an optimum: its conditions hold, nothing feasible is better, and long plans approach it."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tarrafa.revisit.allocation import allocate
from tarrafa.revisit.optimal_frequency import Floats, Mask, OptimalFrequencies, inverse_value_growths, solve
from tarrafa.revisit.visit_value import inverse_value_growth, staleness, visit_value


def mean_staleness(rates: Floats, weights: Floats, frequencies: Floats, counts: Floats | None = None) -> float:
    counts = np.ones(len(rates)) if counts is None else counts
    stale = [0.0 if r == 0 else 1.0 if f == 0 else staleness(r / f) for r, f in zip(rates, frequencies, strict=True)]
    return float((counts * weights * stale).sum() / (counts * weights).sum())


def web(seed: int, size: int, servers: int) -> tuple[Floats, Floats, NDArray[np.int64], np.random.Generator]:
    """Rates, weights, servers, and more chance."""
    rng = np.random.default_rng(seed)
    return np.exp(rng.normal(0, 1.5, size)), rng.pareto(2, size) + 0.1, rng.zipf(1.5, size) % servers, rng


def check_optimal(
    rates: Floats,
    weights: Floats,
    servers: NDArray[np.int64],
    caps: Floats,
    budget: float,
    counts: Floats | None = None,
) -> tuple[OptimalFrequencies, Mask]:
    """The conditions of Karush, Kuhn and Tucker."""
    found = solve(rates, weights, servers, caps, budget, counts)
    counts = np.ones(len(rates)) if counts is None else counts
    used = np.bincount(servers, counts * found.frequencies, len(caps))
    assert (used <= caps * (1 + 1e-12)).all()
    assert used.sum() <= budget * (1 + 1e-12)
    assert (found.server_prices >= found.price).all()
    full = found.server_prices > found.price
    assert used[full] == pytest.approx(caps[full], rel=1e-9)
    if found.price > 0:
        assert used.sum() == pytest.approx(budget, rel=1e-9)
    for rate, weight, server, frequency in zip(rates, weights, servers, found.frequencies, strict=True):
        price = found.server_prices[server]
        if frequency > rate / 20:  # less often the worth is weight / rate, and says nothing of the frequency
            assert visit_value(rate, weight, 1 / frequency) == pytest.approx(price, rel=1e-8)
        elif frequency == 0 and rate > 0:
            assert weight / rate <= price * (1 + 1e-9)
    assert found.staleness == pytest.approx(mean_staleness(rates, weights, found.frequencies, counts), rel=1e-12)
    return found, full


@pytest.mark.parametrize("seed", range(8))
def test_all_visits_of_a_server_are_worth_its_price(seed):
    rates, weights, servers, rng = web(seed, 400, 12)
    caps = np.exp(rng.normal(3, 1.5, 12))
    found, full = check_optimal(rates, weights, servers, caps, 0.5 * caps.sum())
    assert 0 < full.sum() < 12
    assert found.price > 0


@pytest.mark.parametrize("seed", range(4))
def test_with_budget_to_spare_every_server_is_full_and_the_common_price_is_nothing(seed):
    rates, weights, servers, rng = web(seed, 200, 5)
    caps = np.exp(rng.normal(3, 1, 5))
    found, full = check_optimal(rates, weights, servers, caps, 2 * caps.sum())
    assert found.price == 0.0
    assert full.all()
    assert found.frequencies.tolist() == solve(rates, weights, servers, caps, None).frequencies.tolist()


def test_classes_are_as_good_as_the_pages_they_stand_for():
    rates, weights, servers, rng = web(3, 60, 4)
    counts = rng.integers(1, 9, 60)
    caps = np.array([30.0, 8.0, 50.0, 2.0])
    few, _ = check_optimal(rates, weights, servers, caps, 60.0, counts.astype(np.float64))
    many = solve(np.repeat(rates, counts), np.repeat(weights, counts), np.repeat(servers, counts), caps, 60.0)
    assert few.price == pytest.approx(many.price, rel=1e-9)
    assert few.server_prices == pytest.approx(many.server_prices, rel=1e-9)
    assert np.repeat(few.frequencies, counts) == pytest.approx(many.frequencies, rel=1e-8)
    assert few.staleness == pytest.approx(many.staleness, rel=1e-10)


@given(st.integers(0, 10_000), st.floats(0.05, 2.0))
@settings(max_examples=40, deadline=None)
def test_no_other_frequencies_are_better(seed, share):
    rates, weights, servers, rng = web(seed, 30, 3)
    caps = np.exp(rng.normal(2, 1, 3))
    budget = share * caps.sum()
    found = solve(rates, weights, servers, caps, budget)
    other = np.maximum(0.0, found.frequencies * np.exp(rng.normal(0, 0.1, 30)) + rng.normal(0, 0.01, 30))
    other *= np.minimum(1.0, caps / np.maximum(np.bincount(servers, other, 3), 1e-9))[servers]
    other *= min(1.0, budget / other.sum())
    assert mean_staleness(rates, weights, other) >= found.staleness - 1e-12


@pytest.mark.parametrize("capped", [True, False])
def test_a_plan_for_a_long_time_approaches_it(capped):
    rates, weights, servers, _ = web(5, 50, 4)
    caps = np.array([20.0, 5.0, 2.0, 9.0]) if capped else None
    horizon = 3000.0
    found = solve(rates, weights, servers, caps, 30.0)
    whole = None if caps is None else caps * horizon
    visits = allocate(rates, servers, whole, 30.0 * horizon, horizon, weights)
    planned = mean_staleness(rates, weights, (visits + 1) / horizon)
    assert planned == pytest.approx(found.staleness, rel=2e-3)
    often = found.frequencies > 0.05
    assert visits[often] / horizon == pytest.approx(found.frequencies[often], rel=0.02, abs=2 / horizon)


def test_what_never_changes_or_matters_is_never_visited():
    found = solve([0.0, 1.0, 1.0, 1.0], [1.0, 0.0, 1.0, 1.0], [0, 0, 0, 0], None, 4.0, [1, 1, 1, 0])
    assert found.frequencies.tolist() == [0.0, 0.0, pytest.approx(4.0), 0.0]
    assert found.staleness == pytest.approx(staleness(1 / 4) / 2)


def test_no_bounds_no_staleness():
    found = solve([1.0, 2.0, 0.0], None, [0, 1, 1], None, None)
    assert found.price == 0.0
    assert found.frequencies.tolist() == [math.inf, math.inf, 0.0]
    assert found.staleness == 0.0
    capped = solve([1.0, 2.0], None, [0, 1], [math.inf, 3.0], math.inf)
    assert capped.frequencies.tolist() == [math.inf, pytest.approx(3.0)]
    assert capped.server_prices[0] == capped.price == 0.0


@pytest.mark.parametrize(("caps", "budget"), [(None, 0.0), ([0.0, 0.0], None), ([0.0, 0.0], 5.0)])
def test_without_visits_all_that_changes_is_stale(caps, budget):
    found = solve([1.0, 2.0, 0.0], None, [0, 1, 1], caps, budget)
    assert found.frequencies.tolist() == [0.0, 0.0, 0.0]
    assert found.staleness == pytest.approx(2 / 3)


def test_no_pages():
    found = solve([], None, [], None, 1.0)
    assert (found.price, found.staleness, found.frequencies.tolist()) == (0.0, 0.0, [])


def test_pages_visited_so_rarely_that_the_price_does_not_tell_share_the_budget():
    found = solve([1.0, 1.0, 2.0], None, [0, 0, 0], None, 0.01)
    assert found.frequencies[:2] == pytest.approx([0.005, 0.005], rel=1e-6)
    assert found.frequencies[2] == 0.0
    assert 0.999 < found.price <= 1.0 + 1e-8


@pytest.mark.parametrize("scale", [1e-9, 1e-5, 1e4])
def test_the_unit_of_time_does_not_matter(scale):
    rates, weights, servers, _ = web(9, 100, 3)
    caps = np.array([20.0, 5.0, 2.0])
    one, other = (
        solve(rates, weights, servers, caps, 15.0),
        solve(rates * scale, weights, servers, caps * scale, 15 * scale),
    )
    assert other.staleness == pytest.approx(one.staleness, rel=1e-9)
    assert other.frequencies == pytest.approx(one.frequencies * scale, rel=1e-7, abs=1e-12 * scale)
    assert other.server_prices * scale == pytest.approx(one.server_prices, rel=1e-8)


def test_many_ages_at_once_are_those_of_one_by_one():
    targets = np.concatenate(
        [np.geomspace(1e-300, 0.5, 500), np.linspace(0.5, 0.999, 500), 1 - np.geomspace(1e-3, 1e-9, 50)]
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ages = inverse_value_growths(np.append(targets, [0.0, 1.0, 7.0]))
    assert ages[-3:].tolist() == [0.0, math.inf, math.inf]
    expected = np.array([inverse_value_growth(target) for target in targets.tolist()])
    assert ages[:1000] == pytest.approx(expected[:1000], rel=1e-11)
    assert ages[1000:-3] == pytest.approx(expected[1000:], rel=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counts": [1.0]}, "counts must have one entry per page, 2"),
        ({"counts": [1.0, -1.0]}, "counts must be 0 or more and finite, got -1.0 at 1"),
        ({"budget": -1.0}, "budget must be 0 or more"),
        ({"rates": [1.0, math.nan]}, "rates must be 0 or more"),
        ({"servers": [0, 2]}, "servers must be 0 to 1"),
    ],
)
def test_what_cannot_be_is_refused(change, message):
    problem = {"rates": [1.0, 2.0], "weights": None, "servers": [0, 1], "caps": [1.0, 1.0], "budget": 1.0} | change
    with pytest.raises(ValueError, match=message):
        solve(**problem)
