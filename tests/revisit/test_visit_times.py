"""Visits are laid on times as a plain sort would lay them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.revisit.visit_times import (
    RANKED_VISITS_MAX,
    VisitSchedule,
    _schedule,
    ideal_times,
    merge,
    own_times,
    rank_times,
)

Plan = list[tuple[float, int]]  # of a server: times and pages


def plain(visits: list[int], servers: list[int], n_servers: int, horizon: float, merged: bool) -> list[Plan]:
    plans: list[Plan] = [[] for _ in range(n_servers)]
    for page, (many, server) in enumerate(zip(visits, servers, strict=True)):
        plans[server] += [((j * horizon) / (many + 1), page) for j in range(1, many + 1)]
    for plan in plans:
        plan.sort()
        if merged:
            plan[:] = [((i * horizon) / (len(plan) + 1), page) for i, (_, page) in enumerate(plan, 1)]
    return plans


def by_server(schedule: VisitSchedule) -> list[Plan]:
    visits = list(zip(schedule.due.tolist(), schedule.page.tolist(), strict=True))
    return [visits[a:b] for a, b in zip(schedule.start[:-1], schedule.start[1:], strict=True)]


def test_merge_of_the_design():
    schedule = merge([1, 2, 3], [0, 0, 0], 1, 84.0)
    assert schedule.page.tolist() == [2, 1, 0, 2, 1, 2]
    assert schedule.due.tolist() == [12, 24, 36, 48, 60, 72]
    assert schedule.start.tolist() == [0, 6]


def test_unmerged_each_page_keeps_its_own_times():
    schedule = own_times([1, 2, 3], [0, 0, 0], 1, 84.0)
    assert schedule.page.tolist() == [2, 1, 0, 2, 1, 2]
    assert schedule.due.tolist() == [21, 28, 42, 42, 56, 63]


def test_the_arrays_are_those_a_queue_wants():
    schedule = merge([2, 1], [1, 0], 3, 24.0)
    assert [array.dtype.name for array in (schedule.start, schedule.page, schedule.due)] == [
        "int64",
        "int32",
        "float64",
    ]
    assert schedule.start.tolist() == [0, 1, 3, 3]


def test_ideal_times_divide_the_horizon_evenly():
    page, due = ideal_times([1, 0, 3], 24.0)
    assert page.tolist() == [0, 2, 2, 2]
    assert due.tolist() == [12.0, 6.0, 12.0, 18.0]


@pytest.mark.parametrize("lay", [merge, own_times])
def test_nothing_to_lay(lay):
    assert lay([], [], 2, 24.0).start.tolist() == [0, 0, 0]
    assert lay([0, 0], [0, 1], 2, 24.0).page.tolist() == []


@pytest.mark.parametrize(
    ("visits", "servers", "horizon", "message"),
    [
        ([1, -1], [0, 0], 24.0, "visits must be whole numbers, 0 or more"),
        ([1.5, 1], [0, 0], 24.0, "visits must be whole numbers"),
        ([1, 1], [0], 24.0, "servers and visits must have one entry per page, got 1 and 2"),
        ([1, 1], [0, 2], 24.0, "servers must be 0 to 1, got 0 to 2"),
        ([1, 1], [-1, 0], 24.0, "servers must be 0 to 1"),
        ([1, 1], [0, 0], 0.0, "horizon must be positive"),
    ],
)
def test_what_cannot_be_laid_is_refused(visits, servers, horizon, message):
    with pytest.raises(ValueError, match=message):
        merge(visits, servers, 2, horizon)


@given(
    st.lists(st.tuples(st.integers(0, 30) | st.integers(0, 400), st.integers(0, 4)), max_size=30),
    st.sampled_from([24.0, 86400.0, 84.0, 1 / 7, 0.1, 1e-300, 1e300]),
    st.booleans(),
    st.sampled_from([RANKED_VISITS_MAX, 0]),
)
@settings(max_examples=300, deadline=None)
def test_both_ways_of_sorting_are_a_plain_sort(pages, horizon, merged, short):
    visits, servers = [many for many, _ in pages], [server for _, server in pages]
    schedule = _schedule(visits, servers, 5, horizon, merged, short)
    assert by_server(schedule) == plain(visits, servers, 5, horizon, merged)


def test_counting_ranks_and_filling_buckets_agree_on_many_pages():
    rng = np.random.default_rng(3)
    visits, servers = rng.zipf(1.6, 40_000) % 120, rng.zipf(1.3, 40_000) % 50
    for merged in (True, False):
        counted, filled = (_schedule(visits, servers, 50, 24.0, merged, short) for short in (RANKED_VISITS_MAX, 0))
        assert (counted.start == filled.start).all()
        assert (counted.page == filled.page).all()
        assert (counted.due == filled.due).all()


def test_a_server_of_one_page_visited_all_the_time():
    schedule = merge([100_000, 1, 3], [0, 0, 1], 2, 86400.0)
    assert by_server(schedule) == plain([100_000, 1, 3], [0, 0, 1], 2, 86400.0, True)


def test_equal_parts_of_the_horizon_share_a_rank():
    ranks = rank_times(5, 24.0)
    assert ranks.time.tolist() == sorted({24.0 * j / n for n in range(2, 7) for j in range(1, n)})
    half = [x * (x - 1) // 2 + (x + 1) // 2 - 1 for x in (1, 3, 5)]
    assert len({int(ranks.rank[place]) for place in half}) == 1


@pytest.mark.parametrize("merged", [True, False])
def test_pages_at_the_height_where_the_ranks_end(merged):
    for tallest in (RANKED_VISITS_MAX, RANKED_VISITS_MAX + 1):
        visits = [tallest, 1, tallest - 1, 0] * 30
        servers = [0] * len(visits)
        schedule = _schedule(visits, servers, 1, 24.0, merged)
        assert by_server(schedule) == plain(visits, servers, 1, 24.0, merged)
