"""Learned rates against known ones, small."""

import math

import msgspec
import pytest

from tarrafa.errors import ConfigError
from tarrafa.simulate.learning_cost import LearningCurve, measure_learning_cost

PAGES = 2_000


def excess_after(found: LearningCurve, visits: int) -> float:
    """The excess in percent, after this many mean visits."""
    return dict(found.curve)[visits]


def test_often_visited_pages_are_learned_without_dates():
    found = measure_learning_cost(PAGES, visits_per_day=8.64, days=2, seeds=3, explore_every=50)
    assert excess_after(found, 9) < 0.9  # 20,000 pages: 0.7
    assert excess_after(found, 9) < excess_after(found, 1)


def test_dates_teach_the_rates_of_pages_that_are_seldom_visited():
    dated = measure_learning_cost(PAGES, visits_per_day=2.0, last_modified=True, days=13, seeds=2)
    blind = measure_learning_cost(PAGES, visits_per_day=2.0, last_modified=False, days=13, seeds=2)
    assert excess_after(dated, 22) < 1.5  # 20,000 pages: 0.9
    assert excess_after(blind, 22) > 2 * excess_after(dated, 22)


def test_rates_of_eight_decades_are_learned_from_nothing():
    found = measure_learning_cost(PAGES, days=4.2, seeds=2, web="log-uniform")
    assert excess_after(found, 10) < 6.5  # 20,000 pages: 4.5; no learner can be below 2.3
    assert excess_after(found, 30) < 3.5  # 2.5; 1.3


def test_a_seed_gives_the_same_numbers_again_and_another_gives_others():
    first = measure_learning_cost(300, days=1, seeds=2, first_seed=5)
    assert first == measure_learning_cost(300, days=1, seeds=2, first_seed=5)
    assert first.curve != measure_learning_cost(300, days=1, seeds=2, first_seed=7).curve


def test_the_curve_begins_after_the_first_round_and_ends_a_window_before_the_last():
    told = []
    found = measure_learning_cost(
        100, visits_per_day=5.0, days=2, seeds=2, progress=lambda done, total: told.append((done, total))
    )
    assert [visits for visits, _ in found.curve] == [1, 2, 3, 4, 5, 6]
    assert len(found.errors) == 6
    assert all(math.isfinite(error) for error in found.errors)
    assert 0 < found.known < 1
    assert told == [(1, 3), (2, 3), (3, 3)]
    assert msgspec.json.decode(msgspec.json.encode(found))["curve"][0][0] == 1


def test_what_cannot_be_meant_is_refused():
    with pytest.raises(ConfigError, match="rounds, got 1"):
        measure_learning_cost(100, visits_per_day=1.0, days=1)
    with pytest.raises(ConfigError, match="seeds must be 1 or more"):
        measure_learning_cost(100, seeds=0)
