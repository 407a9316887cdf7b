"""Forty days of each policy against the bound."""

import msgspec
import numpy as np
import pytest

from tarrafa.errors import ConfigError
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.visit_value import staleness
from tarrafa.simulate.steady_state import (
    ServerVisits,
    compare_steady,
    count_violations,
    make_web,
    measure_staleness,
    psp_timetable,
    share_budget,
    uniform_timetable,
)

EXCESS_MAX = 0.5  # percent


@pytest.mark.parametrize(("pages", "unit"), [(96, "hour"), (480, "hour"), (480, "day")])
def test_index_stays_within_half_a_percent_of_the_bound(pages, unit):
    found = compare_steady(pages, 480, unit)
    assert -EXCESS_MAX / 2 < found.excess["index"] <= EXCESS_MAX
    assert found.excess["index"] < min(found.excess["psp"], found.excess["uniform"], found.excess["proportional"])
    assert found.visits_per_day["index"] == pytest.approx(480)
    assert found.violations == 0


def test_index_spends_its_budget_and_not_more_on_several_servers():
    found = compare_steady(600, 120, "day", servers=4, budget=400)
    assert found.excess["index"] <= 1.0  # pages are few, and wait for slots
    assert 0.98 * 400 <= found.visits_per_day["index"] <= 400.0001
    assert found.visits_per_day["uniform"] == pytest.approx(400, rel=0.01)


def test_uneven_servers_are_all_served():
    found = compare_steady(400, 100, "day", servers=5, theta=1.0, budget=300)
    assert 0 < found.policies["index"] < found.policies["uniform"]
    assert found.bound <= found.policies["index"] * 1.005


def test_servers_without_pages_do_no_harm():
    found = compare_steady(5, 200, "day", servers=8)
    assert found.visits_per_day["uniform"] == pytest.approx(5 * 200)
    assert found.policies["index"] == pytest.approx(found.bound, rel=1e-3)  # one page a server: nothing to choose


@pytest.mark.parametrize("unit", ["hour", "day"])
def test_uniform_equals_its_closed_form(unit):
    web = make_web(300, 150, unit, servers=1, days=40, budget=None, theta=0.0)
    interval_s = 300 / 150 * DAY_S
    expected = np.mean([staleness(rate * interval_s) for rate in web.rates_per_s])
    found, visits = measure_staleness(web, uniform_timetable(web))
    assert found == pytest.approx(expected, rel=1e-9)
    assert visits == pytest.approx(150)


def test_psp_repeats_one_day_for_ever():
    web = make_web(30, 60, "hour", servers=2, days=6, budget=None, theta=0.0)
    for visits in psp_timetable(web):
        first = visits.times_s < DAY_S
        per_day = np.count_nonzero(first)
        assert 0 < per_day <= 60
        assert np.allclose(visits.times_s.reshape(6, per_day), visits.times_s[first] + DAY_S * np.arange(6)[:, None])
        assert (visits.pages.reshape(6, per_day) == visits.pages[first]).all()


def test_a_page_never_visited_is_stale_for_ever():
    web = make_web(2, 10, "day", servers=1, days=4, budget=None, theta=0.0)
    times_s = np.arange(40.0) * web.politeness_s
    found, _ = measure_staleness(web, iter([ServerVisits(times_s, np.zeros(40, np.int64))]))
    expected = (staleness(web.rates_per_s[0] * web.politeness_s) + 1) / 2
    assert found == pytest.approx(expected, rel=1e-6)


def test_one_impolite_visit_is_refused():
    web = make_web(2, 24, "hour", servers=1, days=4, budget=None, theta=0.0)
    times_s = np.arange(96.0) * 3600.0
    measure_staleness(web, iter([ServerVisits(times_s, np.arange(96) % 2)]))
    times_s[7] -= 0.001
    with pytest.raises(AssertionError, match="after another: 1"):
        measure_staleness(web, iter([ServerVisits(times_s, np.arange(96) % 2)]))


def test_violations_are_counted_beyond_rounding():
    assert count_violations(np.array([0.0, 10.0, 19.9999, 30.0, 31.0]), 10.0) == 2
    assert count_violations(np.array([0.0, 10.0 - 1e-9, 20.0]), 10.0) == 0
    assert count_violations(np.empty(0), 10.0) == 0


def test_a_budget_is_shared_by_demand_as_far_as_politeness_allows():
    web = make_web(100, 100, "hour", servers=3, days=40, budget=160, theta=0.0)
    assert share_budget(web, np.array([6.0, 1.0, 1.0])) == pytest.approx([100, 30, 30])
    assert share_budget(web, np.array([1.0, 1.0, 0.0])) == pytest.approx([80, 80, 0])


def test_json_has_the_shape_that_others_read():
    told = []
    found = compare_steady(20, 100, days=10, progress=lambda done, total: told.append((done, total)))
    data = msgspec.json.decode(msgspec.json.encode(found))
    assert isinstance(data["bound"], float)
    assert {"index", "psp", "uniform"} <= set(data["policies"])
    assert all(isinstance(value, float) for value in data["policies"].values())
    assert told == [(number, 4) for number in range(1, 5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pages": 0}, "pages must be 1 or more"),
        ({"days": 1}, "days must be 4 or more"),
        ({"rates": "week"}, "rates must be hour or day"),
        ({"pages": 100_000}, "days: 40, visits"),
        ({"servers": 10**6}, "take fewer days"),
    ],
)
def test_what_cannot_be_meant_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        compare_steady(**({"pages": 10, "slots_per_day": 100} | options))
