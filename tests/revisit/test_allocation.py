"""The greedy of prices gives the visits of the literal greedy, and those are the best there are."""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tarrafa.revisit
from tarrafa.revisit.allocation import allocate, gain, literal_greedy, page_visits_max, visit_position, visits_at_price
from tarrafa.revisit.visit_value import inverse_value_growth, staleness


def mean_staleness(rates: Sequence[float], visits: Iterable[int], weights: Sequence[float] | None = None) -> float:
    """In a horizon of 1."""
    weights = [1.0] * len(rates) if weights is None else weights
    stale = [w * staleness(r / (x + 1)) for r, w, x in zip(rates, weights, visits, strict=True)]
    return sum(stale) / sum(weights)


@pytest.mark.parametrize("way", [allocate, literal_greedy])
@pytest.mark.parametrize(
    ("rates", "servers", "weights", "caps", "budget", "visits", "stale"),
    [
        ([1, 2, 4], [0, 0, 1], None, [3, 3], 10, [1, 2, 3], 0.283688813049),
        ([1, 2, 4], [0, 0, 1], None, [2, 2], 3, [1, 1, 1], 0.382869467405),
        ([1, 1], [0, 0], [3, 1], [5], 5, [4, 1], None),
        ([100, 2], [0, 0], None, [4], 4, [0, 4], None),
    ],
)
def test_the_cases_of_the_design(way, rates, servers, weights, caps, budget, visits, stale):
    assert way(rates, servers, caps, budget, 1.0, weights).tolist() == visits
    if stale is not None:
        assert mean_staleness(rates, visits) == pytest.approx(stale, abs=5e-13)


@pytest.mark.parametrize("way", [allocate, literal_greedy])
def test_no_page_gets_more_visits_than_a_page_may_have(way):
    rates, servers = [1.0, 2.0, 0.1], [0, 0, 1]
    assert way(rates, servers, [9, 9], 9, 1.0, page_max=2).tolist() == [2, 2, 2]
    assert way(rates, servers, None, math.inf, 1.0, page_max=2).tolist() == [2, 2, 2]
    assert way(rates, servers, [3, 9], 5, 1.0, page_max=2).tolist() == [1, 2, 2]


@pytest.mark.parametrize("caps", [None, [2_000] * 20])
def test_many_pages_with_a_maximum_of_visits_get_those_of_the_literal_greedy(caps):
    rng = np.random.default_rng(5)
    rates, servers = np.exp(rng.normal(size=2_000)), rng.integers(0, 20, 2_000)
    for page_max in (1, 3, 6):
        problem = rates, servers, caps, 6_000, 1.0
        visits = allocate(*problem, page_max=page_max)
        assert visits.tolist() == literal_greedy(*problem, page_max=page_max).tolist()
        assert visits.max() == page_max and visits.sum() == min(6_000, page_max * 2_000)


def test_evenly_spaced_visits_keep_the_least_interval():
    for interval in (0.0, 60.0, 700.0, 1200.0):
        assert 3600.0 / (page_visits_max(3600.0, interval) + 1) >= max(interval, 1.0)
    assert page_visits_max(3600.0, 5000.0) == 1  # a page that is planned is visited


def test_it_is_called_from_the_room_itself():
    assert tarrafa.revisit.allocate is allocate


def test_the_horizon_multiplies_the_rates():
    assert allocate([1 / 24, 2 / 24, 4 / 24], [0, 0, 1], [3, 3], 10, 24.0).tolist() == [1, 2, 3]


def test_equal_gains_go_to_the_lowest_page():
    assert allocate([1.0] * 7, [1, 0, 1, 0, 1, 0, 1], None, 10, 1.0).tolist() == [2, 2, 2, 1, 1, 1, 1]
    assert allocate([1.0] * 7, [1, 0, 1, 0, 1, 0, 1], [2, 5], 20, 1.0).tolist() == [2, 1, 1, 1, 1, 0, 1]


@pytest.mark.parametrize(
    ("caps", "budget"),
    [
        ([4, 0], 3),
        ([0, 0], 9),
        ([4, 4], 0),
        ([9, 9, 9], 5),
        (None, 7),
        (None, 0),
        ([math.inf, 3.9], 6),
        ([2, 2], math.inf),
    ],
)
def test_the_ends_of_caps_and_budget(caps, budget):
    rates, servers = [0.5, 1.0, 0.0, 3.0], [0, 1, 0, 1]
    visits = allocate(rates, servers, caps, budget, 1.0)
    assert visits.tolist() == literal_greedy(rates, servers, caps, budget, 1.0).tolist()
    assert visits.sum() == min(budget, 7 if caps is None else sum(math.floor(min(c, 9)) for c in caps[:2]))
    assert visits[2] == 0


def test_no_pages_get_no_visits():
    assert allocate([], [], None, 10, 1.0).tolist() == []
    assert allocate([], [], [5, 5], 10, 1.0).tolist() == []


def test_a_visit_that_gains_nothing_is_not_made():
    assert allocate([0.0, 1e308, 5.0], [0, 0, 1], [10, 10], 20, 1e3, [1.0, 1.0, 0.0]).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rates": [1.0, -0.5]}, r"rates must be 0 or more and finite, got -0\.5 at 1"),
        ({"rates": [math.nan, 1.0]}, "rates must be 0 or more and finite, got nan at 0"),
        ({"rates": [math.inf, 1.0]}, "rates must be 0 or more and finite"),
        ({"rates": [[1.0, 1.0]]}, "rates must have one entry per page"),
        ({"weights": [1.0, math.nan]}, "weights must be 0 or more and finite, got nan at 1"),
        ({"weights": [1.0]}, "weights must have one entry per page, 2"),
        ({"servers": [0]}, "servers must have one entry per page, 2"),
        ({"servers": [0, 2]}, "servers must be 0 to 1, one for each cap, got 0 to 2"),
        ({"servers": [-1, 0]}, "servers must be 0 to 1"),
        ({"servers": [0.0, 1.0]}, "servers must be whole numbers"),
        ({"caps": [5, -1]}, "caps must be 0 or more, got -1.0 at 1"),
        ({"budget": -1}, "budget must be 0 or more, got -1"),
        ({"budget": math.nan}, "budget must be 0 or more"),
        ({"budget": math.inf, "caps": None}, "budget must be at most"),
        ({"horizon": 0.0}, "horizon must be positive and finite, got 0.0"),
        ({"horizon": math.nan}, "horizon must be positive"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(change, message):
    problem = {"rates": [1.0, 2.0], "servers": [0, 1], "caps": [5, 5], "budget": 5, "horizon": 1.0} | change
    with pytest.raises(ValueError, match=message):
        allocate(**problem)


@st.composite
def problems(draw, pages_max=12, visits_max=60):
    """Few pages with many ties, zeros, and rates from nothing to all the time."""
    size = draw(st.integers(1, pages_max))
    rate = st.one_of(st.sampled_from([0.0, 1e-12, 0.5, 1.0, 2.0, 30.0, 1e3, 1e5]), st.floats(0.0, 20.0))
    weight = st.one_of(st.just(1.0), st.sampled_from([0.0, 0.1, 1.0, 5.0]))
    servers = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    caps = draw(st.none() | st.lists(st.integers(0, visits_max // 2), min_size=4, max_size=4))
    rates = draw(st.lists(rate, min_size=size, max_size=size))
    weights = draw(st.lists(weight, min_size=size, max_size=size))
    return rates, servers, caps, draw(st.integers(0, visits_max)), draw(st.sampled_from([1.0, 24.0])), weights


@given(problems())
@example(([0.0] * 3, [0, 1, 2], [5] * 4, 9, 1.0, [1.0] * 3))
@example(([5e-324, 1e-320, 1.0], [0, 0, 0], None, 40, 1.0, [1.0, 1.0, 1e-300]))
@example(([1e5] * 3, [0, 0, 1], [50] * 4, 60, 24.0, [1.0] * 3))
@settings(max_examples=300, deadline=None)
def test_it_is_the_literal_greedy(problem):
    assert allocate(*problem).tolist() == literal_greedy(*problem).tolist()


@given(problems(), st.integers(1, 20))
@settings(max_examples=150, deadline=None)
def test_no_cap_is_broken_and_more_budget_takes_no_visit_away(problem, extra):
    rates, servers, caps, budget, horizon, weights = problem
    visits = allocate(*problem)
    assert visits.sum() <= budget
    if caps is not None:
        assert (np.bincount(servers, visits, 4) <= caps).all()
    assert (allocate(rates, servers, caps, budget + extra, horizon, weights) >= visits).all()


@given(
    st.lists(st.tuples(st.floats(0.01, 30.0), st.integers(0, 1), st.floats(0.1, 3.0)), min_size=1, max_size=4),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.integers(0, 7),
)
@settings(max_examples=80, deadline=None)
def test_no_other_allocation_is_better(pages, caps, budget):
    rates, servers, weights = (list(column) for column in zip(*pages, strict=True))
    best = min(
        mean_staleness(rates, visits, weights)
        for visits in itertools.product(range(5), repeat=len(rates))
        if sum(visits) <= budget and (np.bincount(servers, visits, 2) <= caps).all()
    )
    ours = allocate(rates, servers, caps, budget, 1.0, weights)
    assert mean_staleness(rates, ours.tolist(), weights) == pytest.approx(best, abs=1e-14)


def zipf_servers(size: int, servers: int, rng: np.random.Generator) -> NDArray[np.int64]:
    shares = 1 / np.arange(1, servers + 1)
    return rng.choice(servers, size, p=shares / shares.sum())


@pytest.mark.parametrize("kind", ["different", "tied", "all the same", "weighted", "sometimes none", "very different"])
@pytest.mark.parametrize("caps", [True, False])
def test_twenty_thousand_pages_get_the_visits_of_the_literal_greedy(kind, caps):
    rng = np.random.default_rng(7)
    size, budget = 20_000, 130_000
    servers, weights = zipf_servers(size, 100, rng), None
    rates = 0.01 + 0.99 * rng.random(size)
    if kind == "tied":
        rates = np.ceil(100 * rates) / 100
    elif kind == "all the same":
        rates = np.full(size, 0.3)
    elif kind == "weighted":
        weights = rng.pareto(1.5, size)
    elif kind == "sometimes none":
        rates[rng.random(size) < 0.6] = 0.0
    elif kind == "very different":
        rates, weights = np.exp(rng.normal(-2, 6, size)), np.exp(rng.normal(0, 3, size))
    limits = rng.integers(0, 3_000, 100) if caps else None
    visits = allocate(rates, servers, limits, budget, 24.0, weights)
    assert (visits == literal_greedy(rates, servers, limits, budget, 24.0, weights)).all()
    assert visits.sum() <= budget


def test_what_a_sample_told_and_several_threads_counted_is_exact():
    rng = np.random.default_rng(11)
    rates, servers = np.round(rng.random(60_000), 2), zipf_servers(60_000, 100, rng)
    caps = np.full(100, 5_000)
    assert (allocate(rates, servers, caps, 300_000, 24.0) == literal_greedy(rates, servers, caps, 300_000, 24.0)).all()


@pytest.mark.parametrize("changes", [1e3, 1e4, 1e5, 1e6, 1e9])
@pytest.mark.parametrize("budget", [1, 10, 300, 5_000])
def test_the_noise_of_nearly_equal_gains_leads_to_the_same_visits(changes, budget):
    rates = changes * np.array([1.0, 1.0, 1.0 + 1e-13, 1.0 + 1e-9, 1.0 - 1e-15])
    problem = rates, [0, 1, 0, 1, 0], [3_000, 2_500], budget, 1.0
    assert allocate(*problem).tolist() == literal_greedy(*problem).tolist()


@given(st.floats(-3.0, 6.0), st.floats(-3.0, 3.0), st.floats(1e-6, 1.2))
@settings(max_examples=200, deadline=None)
def test_visits_are_asked_for_up_to_the_first_that_gains_less(logarithm, weight_logarithm, part):
    changes, weight = 10.0**logarithm, 10.0**weight_logarithm
    price = part * gain(changes, weight, 0)
    walked = next(x for x in range(3_001) if x == 3_000 or gain(changes, weight, x) < price)
    assert visits_at_price(changes, weight, price, 3_000) == walked


@pytest.mark.parametrize("visits", [0, 1, 2, 3, 5, 8, 20, 100, 1000])
def test_the_position_of_a_visit_is_as_exact_as_the_search_takes_it_for(visits):
    """`_ask` trusts it outside of 0.005 + 2e-5 z around whole numbers."""
    for changes in np.geomspace(1e-4, 8.0 * (visits + 2), 2_000).tolist():
        price = gain(changes, 1.0, visits)
        place = visit_position(changes, 1.0, price)
        if place == -1.0:
            target = price * changes
            assert target >= 0.98 or changes / inverse_value_growth(target) * 1e-11 >= price * 0.999
        else:
            assert abs(place - (visits + 1)) < 0.003 + 1.5e-5 * (visits + 2)
