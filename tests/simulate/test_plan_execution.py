"""The run-time queue: never early, never impolite, the most late first."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.simulate.plan_execution import count_violations, execute_plan
from tests.simulate import reference_policies


def walked(
    due: list[list[float]], politeness: float, crawlers: int, download: float, horizon: float
) -> list[list[float]]:
    """Starts of each server's visits; those that were not made are left out."""
    offsets = np.cumsum([0, *(len(plan) for plan in due)])
    flat = np.array([at for plan in due for at in plan], dtype=float)
    done = execute_plan(offsets, flat, politeness, crawlers, download, horizon)
    starts = [done.starts_s[offsets[s] : offsets[s + 1]] for s in range(len(due))]
    assert done.violations == 0
    assert done.made == np.isfinite(done.starts_s).sum()
    return [[float(at) for at in one if np.isfinite(at)] for one in starts]


@pytest.mark.parametrize(
    ("due", "politeness", "download", "expected"),
    [
        ([[5, 7, 30]], 10, 1, [[5, 15, 30]]),
        ([[50, 51, 52]], 10, 1, [[50]]),
        ([[10, 12], [11, 13]], 5, 4, [[10, 18], [14, 22]]),
        ([[], [59.5], []], 5, 1, [[], [59.5], []]),
        ([[60], [61]], 5, 1, [[], []]),
        ([[5], [5], [5]], 5, 1, [[5], [6], [7]]),
        ([], 5, 1, []),
    ],
    ids=[
        "politeness puts off",
        "too late is not made",
        "most late first",
        "empty servers",
        "the horizon is not part of the day",
        "ties go to the smaller server",
        "nothing",
    ],
)
def test_one_crawler_within_a_minute(due, politeness, download, expected):
    assert walked(due, politeness, 1, download, 60) == expected


def test_a_crawler_that_was_idle_does_not_start_in_the_past():
    assert walked([[10], [10], [10]], 5, 2, 4, 60) == [[10], [10], [14]]


moments = st.integers(0, 80).map(float)


@settings(max_examples=300, deadline=None)
@given(
    due=st.lists(st.lists(moments, max_size=8).map(sorted), max_size=6),
    politeness=st.integers(0, 12),
    crawlers=st.integers(1, 4),
    download=st.sampled_from([0.25, 1.0, 3.0, 7.0]),
)
def test_the_queue_agrees_with_the_plain_one(due, politeness, crawlers, download):
    expected = reference_policies.execute_plan(due, politeness, crawlers, download, 60.0)
    assert walked(due, politeness, crawlers, download, 60.0) == expected


@settings(max_examples=100, deadline=None)
@given(
    due=st.lists(st.lists(st.floats(0, 60), max_size=30).map(sorted), min_size=1, max_size=6),
    politeness=st.floats(0.001, 9),
)
def test_no_visit_is_early_or_impolite(due, politeness):
    starts = walked(due, politeness, 2, 0.1, 60.0)
    for plan, begun in zip(due, starts, strict=True):
        assert all(start >= at for at, start in zip(plan, begun, strict=False))
        assert all(after - before >= politeness - 1e-9 for before, after in itertools.pairwise(begun))


def test_violations_are_counted_within_servers_only():
    starts = np.array([0.0, 5.0, 14.0, 15.0, 20.0, np.inf, np.inf, 1.0, 2.0])
    offsets = np.array([0, 0, 3, 7, 9, 9])
    assert count_violations(offsets, starts, 10.0) == 4
    assert count_violations(offsets, starts, 5.0) == 1
    assert count_violations(offsets, starts, 1.0) == 0
