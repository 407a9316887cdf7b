"""Compares the classic policies PSP, MP2 and M-Wolf with their bounds on one planned day.

Each policy plans one day by two decisions: how many visits a page gets, and when. Then one queue, the same for all,
executes the plan.

    psp           visits with caps (no server gets more than politeness allows), MERGE: evenly spaced slots
    mp2           visits with caps, each page at its own ideal times
    m_wolf        visits without caps, each page at its own ideal times
    inf_crawlers  psp's plan met to the second: PSP with any number of crawlers
    wp            mp2's plan met to the second: no polite policy does better
    non_polite    m_wolf's plan met to the second: no policy with this budget does better

A result is the expected mean staleness over pages (weighted) and over [0, T], in closed form from the visits' times:
every copy is fresh at 0, and the last gap of a page ends at T.

Known weakness: one day that starts fresh. Repeated day after day such plans do worse than an index policy.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
from numba.extending import register_jitable

from tarrafa.errors import ConfigError
from tarrafa.revisit import visit_value as formulas
from tarrafa.revisit.allocation import allocate
from tarrafa.revisit.visit_times import Pages, VisitSchedule, merge, own_times
from tarrafa.simulate.matplotlib_plots import Series, draw_lines
from tarrafa.simulate.plan_execution import compiled, execute_plan
from tarrafa.simulate.workload import Floats, Numbers, Workload, make_workload

THETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)
THETA_MAX = 10.0
SERVERS_THETA = 1.0  # unless it is the parameter that varies
DOCUMENTS_MAX = 20_000_000
BUDGET_MAX = 100_000_000  # a visit takes some 60 bytes of memory
STEPS_PER_ROW = 5  # progress steps per row

CLASSIC_CURVES = (
    ("M-Wolf", "m_wolf", False),
    ("MP2", "mp2", False),
    ("PSP", "psp", False),
    ("InfCrawlers", "inf_crawlers", True),
    ("WP", "wp", True),
    ("NonPolite", "non_polite", True),
)
TICKS_MAX = 12

staleness = register_jitable(formulas.staleness)
stale_time = register_jitable(formulas.stale_time)

Axis = Literal["servers", "rates", "weights"]
Progress = Callable[[int, int], None]


class ClassicResult(msgspec.Struct, frozen=True):
    """Mean staleness of each policy and bound at one theta."""

    theta: float
    psp: float
    mp2: float
    m_wolf: float
    inf_crawlers: float
    wp: float
    non_polite: float


class MWolfExcess(msgspec.Struct, frozen=True):
    """By how much M-Wolf is staler than PSP: the mean of m_wolf / psp - 1 over rows of a range of theta."""

    whole: float | None  # 0 … 1.5; None if rows are missing
    inner: float | None  # 0.25 … 1.25


@dataclass(slots=True, frozen=True)
class ClassicSetting:
    """The fixed parameters of an experiment; the defaults are the study's, as we read it."""

    documents: int = 1_000_000
    servers: int = 2_000
    budget: int = 8_640_000  # total visits: ten crawlers at ten pages a second for a day
    politeness_s: float = 15.0
    horizon_s: float = 86_400.0
    crawlers: int = 10
    download_s: float = 0.1

    def __post_init__(self) -> None:
        for name, most in (("documents", DOCUMENTS_MAX), ("servers", DOCUMENTS_MAX), ("budget", BUDGET_MAX)):
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise ConfigError(f"{name} must be 1 to {most:,}, got {value:,}")

    @property
    def caps(self) -> Numbers:
        """The most visits that politeness allows, of each server."""
        return np.full(self.servers, int(self.horizon_s // self.politeness_s), dtype=np.int64)


@dataclass(slots=True, frozen=True)
class ClassicPoint:
    """One Web of an experiment."""

    servers_theta: float
    rates_theta: float | None
    weights_theta: float


@dataclass(slots=True, frozen=True)
class ClassicExperiment:
    """Which theta varies, and the Webs of the experiment."""

    axis: Axis
    thetas: tuple[float, ...]
    points: tuple[ClassicPoint, ...]


def make_experiment(
    servers: Sequence[float] = (), rates: Sequence[float] = (), weights: Sequence[float] = ()
) -> ClassicExperiment:
    """Make an experiment from thetas of server sizes, rates and weights; at most one of them has several values, and
    varies.

    Without arguments: the study's first experiment. With rates or weights, server sizes stay at theta 1 unless given.
    """
    for name, thetas in (("theta", servers), ("rates-theta", rates), ("weights-theta", weights)):
        for theta in thetas:
            if not 0.0 <= theta <= THETA_MAX:
                raise ConfigError(f"--{name} must be 0 to {THETA_MAX:g}, got {theta:g}")
    if sum(len(thetas) > 1 for thetas in (servers, rates, weights)) > 1:
        raise ConfigError("only one of --theta, --rates-theta and --weights-theta may be given more than once")
    if not servers:
        servers = (SERVERS_THETA,) if rates or weights else THETAS
    points = tuple(
        ClassicPoint(of_servers, of_rates, of_weights)
        for of_servers in servers
        for of_rates in (rates or (None,))
        for of_weights in (weights or (0.0,))
    )
    axis: Axis = "servers"
    if len(servers) == 1 and (rates or weights):
        axis = "weights" if weights and len(rates) <= 1 else "rates"
    varying = {"servers": servers, "rates": rates, "weights": weights}[axis]
    return ClassicExperiment(axis, tuple(float(theta) for theta in varying), points)


def run_experiment(
    what: ClassicExperiment, setting: ClassicSetting, progress: Progress = lambda done, total: None
) -> list[ClassicResult]:
    """One row for each theta; `progress` is called with steps done and steps in all."""
    total = STEPS_PER_ROW * len(what.points)
    done = 0
    rows = []
    for theta, point in zip(what.thetas, what.points, strict=True):
        web = make_workload(
            setting.documents, setting.servers, point.servers_theta, point.rates_theta, point.weights_theta
        )
        found: dict[str, float] = {}
        for names_and_values in compare_policies(web, setting):
            found.update(names_and_values)
            done += 1
            progress(done, total)
        rows.append(ClassicResult(theta=theta, **found))
    return rows


def compare_policies(web: Workload, setting: ClassicSetting) -> Iterator[dict[str, float]]:
    """The six numbers of one Web, in five steps of work."""
    rates, servers, horizon_s = web.rates_per_s, web.servers, setting.horizon_s
    free = allocate(rates, servers, None, setting.budget, horizon_s, web.weights)
    yield {"non_polite": _ideal_staleness(web, free, horizon_s)}
    capped = allocate(rates, servers, setting.caps, setting.budget, horizon_s, web.weights)
    yield {"wp": _ideal_staleness(web, capped, horizon_s)}
    slots = merge(capped, servers, web.n_servers, horizon_s)
    yield {
        "inf_crawlers": mean_staleness(web, slots.page, slots.due, horizon_s),
        "psp": _executed_staleness(web, slots, setting),
    }
    mp2 = _executed_staleness(web, own_times(capped, servers, web.n_servers, horizon_s), setting)
    yield {"mp2": mp2}
    if np.array_equal(free, capped):  # the caps bind nowhere: it is the same plan
        yield {"m_wolf": mp2}
    else:
        yield {"m_wolf": _executed_staleness(web, own_times(free, servers, web.n_servers, horizon_s), setting)}


def _executed_staleness(web: Workload, plan: VisitSchedule, setting: ClassicSetting) -> float:
    """Mean staleness after the queue has executed the plan."""
    done = execute_plan(
        plan.start, plan.due, setting.politeness_s, setting.crawlers, setting.download_s, setting.horizon_s
    )
    return mean_staleness(web, plan.page, done.starts_s, setting.horizon_s)


def _ideal_staleness(web: Workload, visits: Numbers, horizon_s: float) -> float:
    """Mean staleness if every page is visited at its own ideal times: evenly spaced, all gaps alike."""
    return float(np.average(_even_staleness(web.rates_per_s, visits, horizon_s), weights=web.weights))


def mean_staleness(web: Workload, pages: Pages, starts_s: Floats, horizon_s: float) -> float:
    """Mean staleness from the visits' times, each page's in ascending order; infinite times are visits that were not
    made.
    """
    stale_s = _stale_seconds(web.rates_per_s, pages, starts_s, horizon_s)
    return float(np.average(stale_s, weights=web.weights)) / horizon_s


@compiled
def _even_staleness(rates_per_s, visits, horizon_s):  # type: ignore[no-untyped-def]
    found = np.empty(len(rates_per_s))
    for page in range(len(rates_per_s)):
        found[page] = staleness(rates_per_s[page] * horizon_s / (visits[page] + 1))
    return found


@compiled
def _stale_seconds(rates_per_s, pages, starts_s, horizon_s):  # type: ignore[no-untyped-def]
    """Expected seconds of [0, horizon) that each page's copy is stale."""
    last_s, stale_s = np.zeros(len(rates_per_s)), np.zeros(len(rates_per_s))
    for visit in range(len(pages)):
        start_s = starts_s[visit]
        if start_s < horizon_s:
            page = pages[visit]
            stale_s[page] += stale_time(rates_per_s[page], start_s - last_s[page])
            last_s[page] = start_s
    for page in range(len(rates_per_s)):
        stale_s[page] += stale_time(rates_per_s[page], horizon_s - last_s[page])
    return stale_s


def m_wolf_excess(rows: Sequence[ClassicResult]) -> MWolfExcess:
    """A published study reports 9.5 % without naming the range: these are the two ranges that it may mean."""

    def mean(low: float, high: float) -> float | None:
        wanted = {theta for theta in THETAS if low <= theta <= high}
        chosen = {row.theta: row.m_wolf / row.psp - 1.0 for row in rows if row.theta in wanted}
        return sum(chosen.values()) / len(chosen) if chosen.keys() == wanted else None

    return MWolfExcess(whole=mean(0.0, 1.5), inner=mean(0.25, 1.25))


def draw_classic(rows: Sequence[ClassicResult], stem: Path, title: str, x_label: str, y_label: str) -> None:
    """The classic policies (solid) and their bounds (dashed), against theta."""
    rows = sorted(rows, key=lambda row: row.theta)
    thetas = [row.theta for row in rows]
    curves = [
        Series(label, thetas, [getattr(row, name) for row in rows], bound) for label, name, bound in CLASSIC_CURVES
    ]
    lowest = min(min(curve.y) for curve in curves)
    draw_lines(
        stem,
        curves,
        title,
        x_label,
        y_label,
        y_from=max(0.0, math.floor((lowest - 0.01) * 10) / 10),  # the next tenth below: the curves stay distinct
        percent=True,
        x_ticks=thetas if len(thetas) <= TICKS_MAX else None,
    )
