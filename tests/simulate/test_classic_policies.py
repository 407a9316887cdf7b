"""The classic policies against a slow computation, their bounds, and the study's own size."""

import math

import pytest

from tarrafa.errors import ConfigError
from tarrafa.simulate.classic_policies import (
    THETAS,
    ClassicResult,
    ClassicSetting,
    MWolfExcess,
    compare_policies,
    m_wolf_excess,
    make_experiment,
    run_experiment,
)
from tarrafa.simulate.workload import Workload, make_workload
from tests.simulate import reference_policies

SMALL = ClassicSetting(documents=400, servers=12, budget=2_600, politeness_s=120.0, crawlers=3, download_s=90.0)
ODD = ClassicSetting(
    documents=150, servers=40, budget=500, politeness_s=1000.0, horizon_s=40_000.0, crawlers=1, download_s=60
)


def slowly(web: Workload, setting: ClassicSetting) -> dict[str, float]:
    rates, servers, weights = web.rates_per_s.tolist(), web.servers.tolist(), web.weights.tolist()
    horizon, cap = setting.horizon_s, int(setting.horizon_s // setting.politeness_s)
    capped = reference_policies.allocate(rates, servers, cap, setting.budget, horizon, weights)
    free = reference_policies.allocate(rates, servers, math.inf, setting.budget, horizon, weights)
    merged = reference_policies.merged_times(capped, servers, web.n_servers, horizon)
    own = reference_policies.own_times(capped, servers, web.n_servers, horizon)
    wolf = reference_policies.own_times(free, servers, web.n_servers, horizon)

    def met(plans: list[reference_policies.Plan]) -> list[list[float]]:
        return [[at for at, _ in plan] for plan in plans]

    def walked(plans: list[reference_policies.Plan]) -> list[list[float]]:
        return reference_policies.execute_plan(
            met(plans), setting.politeness_s, setting.crawlers, setting.download_s, horizon
        )

    plans_and_starts = {
        "psp": (merged, walked(merged)),
        "mp2": (own, walked(own)),
        "m_wolf": (wolf, walked(wolf)),
        "inf_crawlers": (merged, met(merged)),
        "wp": (own, met(own)),
        "non_polite": (wolf, met(wolf)),
    }
    return {
        name: reference_policies.mean_staleness(plans, starts, rates, weights, horizon)
        for name, (plans, starts) in plans_and_starts.items()
    }


def quickly(web: Workload, setting: ClassicSetting) -> dict[str, float]:
    return {name: value for step in compare_policies(web, setting) for name, value in step.items()}


@pytest.mark.parametrize(
    ("setting", "servers_theta", "rates_theta", "weights_theta"),
    [
        (SMALL, 0.0, None, 0.0),
        (SMALL, 1.0, None, 0.0),
        (SMALL, 1.5, None, 0.0),
        (SMALL, 1.0, 1.0, 0.0),
        (SMALL, 1.0, None, 1.0),
        (ODD, 0.75, 2.0, 0.5),
    ],
)
def test_every_column_agrees_with_plain_python(setting, servers_theta, rates_theta, weights_theta):
    web = make_workload(setting.documents, setting.servers, servers_theta, rates_theta, weights_theta)
    assert quickly(web, setting) == pytest.approx(slowly(web, setting), abs=1e-9)


def test_bounds_are_bounds():
    for row in run_experiment(
        make_experiment(), ClassicSetting(documents=10_000, servers=20, budget=86_400, crawlers=1, download_s=1.0)
    ):
        assert row.non_polite <= row.wp + 1e-12
        assert row.wp <= row.inf_crawlers <= row.psp
        assert row.wp <= row.mp2
        assert row.non_polite <= row.m_wolf


def test_where_caps_do_not_bind_they_make_no_difference():
    (row,) = run_experiment(make_experiment([0.0]), SMALL)
    assert row.wp == row.non_polite
    assert row.mp2 == row.m_wolf


DESIGN = {  # of the design, for a million pages on two thousand servers
    0.0: {
        "psp": 0.40044,
        "mp2": 0.41560,
        "m_wolf": 0.41560,
        "inf_crawlers": 0.40038,
        "wp": 0.38509,
        "non_polite": 0.38509,
    },
    1.0: {
        "psp": 0.58410,
        "mp2": 0.59565,
        "m_wolf": 0.65202,
        "inf_crawlers": 0.58403,
        "wp": 0.57279,
        "non_polite": 0.38509,
    },
}


@pytest.fixture(scope="module")
def full_size():
    heard: list[tuple[int, int]] = []
    rows = run_experiment(
        make_experiment([0.0, 1.0]), ClassicSetting(), lambda done, total: heard.append((done, total))
    )
    assert heard == [(done, 10) for done in range(1, 11)]
    return {row.theta: row for row in rows}


@pytest.mark.parametrize(("theta", "name"), [(theta, name) for theta, known in DESIGN.items() for name in known])
def test_a_million_pages_on_two_thousand_servers_give_the_known_number(full_size, theta, name):
    assert getattr(full_size[theta], name) == pytest.approx(DESIGN[theta][name], abs=5e-5)


def test_without_arguments_the_first_experiment_is_meant():
    what = make_experiment()
    assert (what.axis, what.thetas) == ("servers", THETAS)
    assert [point.servers_theta for point in what.points] == list(THETAS)
    assert {(point.rates_theta, point.weights_theta) for point in what.points} == {(None, 0.0)}


@pytest.mark.parametrize(
    ("thetas", "axis", "points"),
    [
        (([0.5],), "servers", [(0.5, None, 0.0)]),
        (([], [0.0, 2.0]), "rates", [(1.0, 0.0, 0.0), (1.0, 2.0, 0.0)]),
        (([1.0], [0.5]), "rates", [(1.0, 0.5, 0.0)]),
        (([0.0, 1.0], [0.5]), "servers", [(0.0, 0.5, 0.0), (1.0, 0.5, 0.0)]),
        (([], [], [0.0, 1.0]), "weights", [(1.0, None, 0.0), (1.0, None, 1.0)]),
        (([0.5], [1.0, 2.0], [0.5]), "rates", [(0.5, 1.0, 0.5), (0.5, 2.0, 0.5)]),
    ],
)
def test_the_theta_that_is_given_several_times_varies(thetas, axis, points):
    what = make_experiment(*thetas)
    assert what.axis == axis
    assert [(point.servers_theta, point.rates_theta, point.weights_theta) for point in what.points] == points
    assert len(what.thetas) == len(points)


@pytest.mark.parametrize(
    ("thetas", "told"),
    [
        (([-1.0],), "--theta must be 0 to 10, got -1"),
        (([], [math.nan]), "--rates-theta must be 0 to 10, got nan"),
        (([], [], [11.0]), "--weights-theta must be 0 to 10, got 11"),
        (([0.0, 1.0], [0.0, 1.0]), "only one of"),
    ],
)
def test_thetas_that_cannot_be_meant_are_refused(thetas, told):
    with pytest.raises(ConfigError, match=told):
        make_experiment(*thetas)


@pytest.mark.parametrize("name", ["documents", "servers", "budget"])
def test_sizes_that_cannot_be_meant_are_refused(name):
    for value in (0, 10**12):
        with pytest.raises(ConfigError, match=f"{name} must be 1 to"):
            ClassicSetting(**{name: value})


def test_excess_is_the_mean_over_all_thetas_and_over_the_inner_ones():
    rows = [ClassicResult(theta, 1.0, 1.0, 1.0 + theta, 1.0, 1.0, 1.0) for theta in THETAS]
    assert (m_wolf_excess(rows).whole, m_wolf_excess(rows).inner) == pytest.approx((0.75, 0.75))
    rows[-1] = ClassicResult(1.5, 1.0, 1.0, 9.0, 1.0, 1.0, 1.0)
    assert (m_wolf_excess(rows).whole, m_wolf_excess(rows).inner) == pytest.approx(((3.75 + 8.0) / 7, 0.75))
    assert m_wolf_excess(rows[:-1]).whole is None
    assert m_wolf_excess(rows[:-1]).inner == pytest.approx(0.75)
    assert m_wolf_excess(rows[:2]) == MWolfExcess(whole=None, inner=None)
