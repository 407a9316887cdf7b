"""Pages change by a Poisson process of their own rate, and versions say so."""

import math
import statistics
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.testweb import World, version_of_url
from tarrafa.testweb.world.change_model import DAY_S, RATE_TABLE, change_times, version_at
from tarrafa.testweb.world.resources import page_attributes

WORLD = World(seed=2, hosts=10, pages=500)
START = float(WORLD.epoch)


@pytest.mark.parametrize("rate", [0.02, 1.0, 24.0])
def test_the_mean_rate_is_the_rate_and_the_variance_too(rate):
    days = 400 / rate
    counts = [len(change_times(WORLD, 1, n, rate, START, START + days * DAY_S)) for n in range(150)]
    mean = 400.0
    error = math.sqrt(mean / len(counts))
    assert abs(statistics.mean(counts) - mean) < 4 * error
    assert 0.6 < statistics.variance(counts) / mean < 1.5, "a Poisson count varies as much as its mean"


def test_gaps_are_exponential():
    moments = [at for n in range(40) for at in change_times(WORLD, 2, n, 1.0, START, START + 100 * DAY_S)]
    gaps = [b - a for n in range(40) for a, b in _pairs(change_times(WORLD, 2, n, 1.0, START, START + 100 * DAY_S))]
    assert len(moments) > 3000
    for share in (0.1, 0.5, 1.0, 2.0):
        longer = sum(gap > share * DAY_S for gap in gaps) / len(gaps)
        assert abs(longer - math.exp(-share)) < 0.03, share


def _pairs(moments: list[int]) -> list[tuple[int, int]]:
    return list(pairwise(moments))


@settings(deadline=None)
@given(st.integers(0, 499), st.floats(0.01, 50), st.floats(0, 900 * DAY_S), st.floats(0, 40 * DAY_S))
def test_versions_change_exactly_at_the_changes(n, rate, first_s, more_s):
    before, after = (version_at(WORLD, 1, n, rate, START + at) for at in (first_s, first_s + more_s))
    between = change_times(WORLD, 1, n, rate, START + first_s, START + first_s + more_s)
    assert (before == after) == (not between)
    assert after.number >= before.number
    assert after.since == (max(between) if between else before.since)
    assert before.since <= START + first_s


def test_at_its_moment_a_change_is_there_and_a_second_before_it_is_not():
    for at in change_times(WORLD, 1, 7, 3.0, START, START + 50 * DAY_S):
        assert version_at(WORLD, 1, 7, 3.0, at).since == at
        assert version_at(WORLD, 1, 7, 3.0, at - 0.001).since < at


def test_a_page_that_never_changes_never_changes():
    assert version_at(WORLD, 1, 3, 0.0, START) == version_at(WORLD, 1, 3, 0.0, START + 1e9)
    assert change_times(WORLD, 1, 3, 0.0, START, START + 1e9) == []
    assert version_at(WORLD, 1, 3, 9.0, START - 5).number == 0, "before the epoch nothing has changed"


def test_many_pages_never_change_some_often_and_the_factor_counts():
    rates = [
        page_attributes(WORLD, no, n).changes_per_day for no in range(1, 11) for n in range(10, WORLD.host(no).pages)
    ]
    assert 0.2 < sum(rate == 0 for rate in rates) / len(rates) < 0.4
    assert max(rates) > 100 * statistics.median(rate for rate in rates if rate)
    faster = World(seed=2, hosts=10, pages=500, changes=7.0)
    assert page_attributes(faster, 1, 12).changes_per_day == pytest.approx(
        7 * page_attributes(WORLD, 1, 12).changes_per_day
    )
    assert max(RATE_TABLE) < 12


def test_a_version_can_be_asked_by_url():
    root = WORLD.root(4)
    assert version_of_url(WORLD, root, 1.8e9) == version_at(
        WORLD, 4, 0, page_attributes(WORLD, 4, 0).changes_per_day, 1.8e9
    )
    with pytest.raises(ValueError, match="nothing there"):
        version_of_url(WORLD, f"{root}nada", 1.8e9)
