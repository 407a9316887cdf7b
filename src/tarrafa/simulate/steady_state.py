"""Compares policies day after day in the steady state against the bound that no policy can beat.

Promises: the result is expected staleness, in closed form from the visit times. It is computed by code that shares
nothing with the policies, which also counts every gap between two visits of one server that is shorter than politeness
allows: one violation is enough to refuse the whole result. The same arguments give the same numbers.
Knows nothing of learning: all rates are known. Nothing of crawlers either: a server is visited whenever it is its turn.

    index         at each slot of a server the page worth most, if it is worth the price (`index_policy_queues`)
    psp           the day's plan of the classic study (allocation, MERGE, T = 24 h), the same every day
    uniform       round robin
    proportional  as often as it changes

All begin with nothing visited, and none knows the solution of the bound, except for the price where the budget is below
what politeness allows. The first half of the days is not measured: by then the index policy has long forgotten its
start (with a quarter or three quarters instead, the figures move by less than 0.1 %).

The bound is the mean staleness if every page could be visited at its own best regular interval, whatever the visits of
other pages (`revisit.optimal_frequency`). A window of some days may end up a little below it: what is saved inside it
is paid for outside.

Known weakness: with few pages, slots are coarse against their intervals, and the bound itself cannot be reached.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from tarrafa.errors import ConfigError
from tarrafa.revisit.allocation import allocate
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.optimal_frequency import OptimalFrequencies, solve
from tarrafa.revisit.visit_times import merge
from tarrafa.simulate.index_policy_queues import (
    LONG_AGO_S,
    NO_PAGE,
    append_page,
    best_class,
    class_numbers,
    classes_of,
    compiled,
    make_queues,
    stale_time,
    take_head,
)
from tarrafa.simulate.plan_execution import execute_plan
from tarrafa.simulate.workload import (
    HOUR_S,
    Floats,
    Numbers,
    largest_remainder,
    uniform_numbers,
    uniform_rates,
    zipf_shares,
)

WARMUP_SHARE = 0.5  # share of the days that is not measured
TOLERANCE_S = 1e-6  # seconds of forty days are kept to some 1e-9 s
DAYS_MIN = 4
ROUNDS_MIN = 2.0  # of round robin in the measured days: otherwise there is no steady state
VISITS_MAX = 200_000_000
TRIES, STRIDE, SPENT_TOLERANCE = 16, 0.01, 1e-3  # to find the price that spends the budget

Unit = Literal["hour", "day"]
Progress = Callable[[int, int], None]


class SteadyStateResult(msgspec.Struct, frozen=True):
    """Mean staleness over pages."""

    bound: float
    policies: dict[str, float]
    excess: dict[str, float]  # above the bound, in percent
    visits_per_day: dict[str, float]  # actual
    violations: int  # of politeness; always 0, because any violation is refused


class ServerVisits(NamedTuple):
    """The visits of one server, in order of time."""

    times_s: Floats
    pages: Numbers


@dataclass(slots=True, frozen=True)
class SteadyWeb:
    """Pages, contiguous by server, and the limits of the servers."""

    rates_per_s: Floats
    servers: Numbers  # of each page
    offsets: Numbers  # the pages of server s are offsets[s] … offsets[s + 1]
    slots_per_day: int  # of each server
    budget_per_day: float  # total
    days: int

    @property
    def n_servers(self) -> int:
        return len(self.offsets) - 1

    @property
    def capacity_per_day(self) -> int:
        """The visits per day that politeness allows."""
        return self.slots_per_day * int(np.count_nonzero(np.diff(self.offsets)))

    @property
    def politeness_s(self) -> float:
        return DAY_S / self.slots_per_day

    @property
    def end_s(self) -> float:
        return self.days * DAY_S


def compare_steady(
    pages: int,
    slots_per_day: int,
    rates: Unit = "hour",
    servers: int = 1,
    days: int = 40,
    budget: float | None = None,
    theta: float = 0.0,
    progress: Progress = lambda done, total: None,
) -> SteadyStateResult:
    """Compare the policies; `budget` is the total of visits per day, by default what politeness allows; `theta` makes
    some servers larger than others; `progress` is called with servers done and servers in all, over all policies.
    """
    web = make_web(pages, slots_per_day, rates, servers, days, budget, theta)
    bound = float(solve_frequencies(web, web.rates_per_s, web.servers).staleness)
    timetables = {
        "index": index_timetable(web),
        "psp": psp_timetable(web),
        "uniform": uniform_timetable(web),
        "proportional": proportional_timetable(web),
    }
    found, made = {}, {}
    for number, (name, timetable) in enumerate(timetables.items()):
        visits = _with_progress(timetable, number * servers, len(timetables) * servers, progress)
        found[name], made[name] = measure_staleness(web, visits)
    excess = {name: 100.0 * (value / bound - 1.0) for name, value in found.items()}
    return SteadyStateResult(bound, found, excess, made, violations=0)


def make_web(
    pages: int, slots_per_day: int, rates: Unit, servers: int, days: int, budget: float | None, theta: float
) -> SteadyWeb:
    """The portable workload: lambda = 0.01 + 0.99 u, a unit."""
    for name, value, least in (
        ("pages", pages, 1), ("slots_per_day", slots_per_day, 1), ("servers", servers, 1), ("days", days, DAYS_MIN),
    ):  # fmt: skip
        if value < least:
            raise ConfigError(f"{name} must be {least} or more, got {value}")
    if servers * slots_per_day * days > VISITS_MAX:
        raise ConfigError(f"servers x slots_per_day x days must be at most {VISITS_MAX:,}: take fewer days")
    if rates not in ("hour", "day"):
        raise ConfigError(f"rates must be hour or day, got {rates}")
    capacity = float(servers * slots_per_day)
    budget = capacity if budget is None else min(budget, capacity)
    if not budget * days * (1 - WARMUP_SHARE) >= ROUNDS_MIN * pages:
        raise ConfigError(f"too short to be steady: pages: {pages}, days: {days}, visits a day: {budget:g}")
    rates_per_s = uniform_rates(pages) * (1.0 if rates == "hour" else HOUR_S / DAY_S)
    sizes = largest_remainder(pages, zipf_shares(servers, theta))
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return SteadyWeb(rates_per_s, np.repeat(np.arange(servers), sizes), offsets, slots_per_day, budget, days)


def measure_staleness(web: SteadyWeb, timetable: Iterator[ServerVisits]) -> tuple[float, float]:
    """Mean staleness over the measured days, and visits per day in them; an impolite visit is an error."""
    stale_s, visits = np.zeros(len(web.rates_per_s)), 0
    last_s = np.full(len(web.rates_per_s), LONG_AGO_S)
    from_s = web.end_s * WARMUP_SHARE
    for server, (times_s, pages) in enumerate(timetable):
        impolite = count_violations(times_s, web.politeness_s)
        if impolite:
            raise AssertionError(f"server {server}: visits less than {web.politeness_s} s after another: {impolite}")
        visits += int(np.count_nonzero(times_s >= from_s))
        _add_stale_time(web.rates_per_s, times_s, pages, from_s, last_s, stale_s)
    _add_last_gaps(web.rates_per_s, from_s, web.end_s, last_s, stale_s)
    measured_s = web.end_s - from_s
    return float(stale_s.mean()) / measured_s, visits / measured_s * DAY_S


def count_violations(times_s: Floats, politeness_s: float) -> int:
    """How many visits of a server started too soon after the previous one."""
    return int(np.count_nonzero(np.diff(times_s) < politeness_s - TOLERANCE_S))


def index_timetable(web: SteadyWeb) -> Iterator[ServerVisits]:
    """The index policy, at the price that spends the budget."""
    if web.budget_per_day >= web.capacity_per_day:
        return index_timetable_at_price(web, 0.0)
    return index_timetable_at_price(web, spending_price(web))


def index_timetable_at_price(web: SteadyWeb, price: float) -> Iterator[ServerVisits]:
    """The index policy at a price."""
    weights = np.ones(len(web.rates_per_s))
    classes = classes_of(web.rates_per_s, weights)
    numbers = class_numbers(classes, web.rates_per_s, weights)
    shelves = make_queues(classes, numbers, web.servers, web.n_servers, np.full(len(weights), LONG_AGO_S))
    times_s = np.arange(web.slots_per_day * web.days) * web.politeness_s
    for server in range(web.n_servers):
        pages = _index(shelves, numbers, server, times_s, price)
        yield ServerVisits(times_s[pages != NO_PAGE], pages[pages != NO_PAGE])


# The price of a visit at which the budget is spent. The first guess is the long-run price for the classes' rates (the
# true rates' price errs by a few percent: a class is visited or not as a whole, where the true rates would divide it).
# That ignores that a page waits for a slot while others are served; where nearly all slots are needed the wait is long
# and the visits too few. So the price is corrected by the actual spending, as in a live crawl: steps that double until
# one price spends too much and another does not, then halves. Weakness: that takes whole runs.
def spending_price(web: SteadyWeb) -> float:
    price, stride = class_price(web), STRIDE
    dear: float | None = None  # spends no more than the budget
    cheap: float | None = None  # spends more
    for _ in range(TRIES):
        spent = measure_staleness(web, index_timetable_at_price(web, price))[1] / web.budget_per_day
        if 1.0 - SPENT_TOLERANCE <= spent <= 1.0:
            return price
        if spent > 1.0:
            cheap = price
        else:
            dear = price
        if cheap is None or dear is None:
            price = price * (1.0 + stride) if dear is None else price / (1.0 + stride)
            stride *= 2.0
        else:
            price = (cheap * dear) ** 0.5
    return price if dear is None else dear


def class_price(web: SteadyWeb) -> float:
    """The long-run price if every page had the rate of its class."""
    weights = np.ones(len(web.rates_per_s))
    classes = classes_of(web.rates_per_s, weights)
    rows = web.servers * len(classes.rates) + class_numbers(classes, web.rates_per_s, weights)
    rows, counts = np.unique(rows, return_counts=True)
    servers, numbers = np.divmod(rows, len(classes.rates))
    return float(solve_frequencies(web, classes.rates[numbers], servers, counts).price)


def solve_frequencies(
    web: SteadyWeb, rates_per_s: Floats, servers: Numbers, counts: Numbers | None = None
) -> OptimalFrequencies:
    caps = np.full(web.n_servers, web.slots_per_day / DAY_S)
    return solve(rates_per_s, np.ones(len(rates_per_s)), servers, caps, web.budget_per_day / DAY_S, counts)


# A plan for one day that starts fresh and ends at midnight, repeated. It ignores two things: a page without a visit in
# the plan never gets one, and a page with x visits has gaps of T/(x+1) but one, over midnight, that is twice as long.
# Where a server's slots are all used MERGE asks for a little more than politeness gives; the classic queue then delays
# visits, never beyond midnight.
def psp_timetable(web: SteadyWeb) -> Iterator[ServerVisits]:
    caps = np.full(web.n_servers, web.slots_per_day)
    visits = allocate(web.rates_per_s, web.servers, caps, int(web.budget_per_day), DAY_S)
    plan = merge(visits, web.servers, web.n_servers, DAY_S)
    starts_s = execute_plan(plan.start, plan.due, web.politeness_s, web.n_servers, 0.0, DAY_S).starts_s
    midnights_s = np.arange(web.days)[:, None] * DAY_S
    for server in range(web.n_servers):
        mine = slice(plan.start[server], plan.start[server + 1])
        is_made = np.isfinite(starts_s[mine])
        pages = np.asarray(plan.page[mine][is_made], np.int64)
        yield ServerVisits((midnights_s + starts_s[mine][is_made]).ravel(), np.tile(pages, web.days))


def uniform_timetable(web: SteadyWeb) -> Iterator[ServerVisits]:
    sizes = np.diff(web.offsets)
    for server, per_day in enumerate(share_budget(web, sizes.astype(np.float64))):
        times_s = _even_times_s(web, per_day)
        yield ServerVisits(times_s, web.offsets[server] + np.arange(len(times_s)) % max(1, sizes[server]))


def proportional_timetable(web: SteadyWeb) -> Iterator[ServerVisits]:
    rates = web.rates_per_s
    demands: Floats = np.bincount(web.servers, rates, web.n_servers).astype(np.float64)
    phases = uniform_numbers(len(rates), first=len(rates) + 1)
    for server, per_day in enumerate(share_budget(web, demands)):
        mine = slice(web.offsets[server], web.offsets[server + 1])
        times_s = _even_times_s(web, per_day)
        if not len(times_s):
            yield ServerVisits(times_s, np.empty(0, np.int64))
            continue
        intervals = demands[server] / rates[mine]  # in slots
        yield ServerVisits(times_s, web.offsets[server] + _in_turn(intervals, phases[mine], len(times_s)))


def share_budget(web: SteadyWeb, demands: Floats) -> Floats:
    """Visits per day of each server: in proportion to its demand, as far as politeness allows, the budget in all."""
    low, high = 0.0, web.slots_per_day / demands[demands > 0].min()
    for _ in range(100):
        factor = (low + high) / 2
        if np.minimum(web.slots_per_day, factor * demands).sum() > web.budget_per_day:
            high = factor
        else:
            low = factor
    return np.asarray(np.minimum(web.slots_per_day, high * demands))


def _even_times_s(web: SteadyWeb, per_day: float) -> Floats:
    """The times of a server's visits."""
    if per_day * web.days < 1e-9:
        return np.empty(0)
    times_s = np.arange(np.ceil(per_day * web.days - 1e-6)) * (DAY_S / per_day)
    return np.asarray(times_s, np.float64)


def _with_progress(
    timetable: Iterator[ServerVisits], done: int, total: int, progress: Progress
) -> Iterator[ServerVisits]:
    for number, visits in enumerate(timetable):
        yield visits
        progress(done + number + 1, total)


@compiled
def _index(shelves, numbers, server, times_s, price):  # type: ignore[no-untyped-def]
    """The page visited at each slot, or NOBODY."""
    pages = np.full(len(times_s), NO_PAGE, np.int64)
    for slot in range(len(times_s)):
        number = best_class(shelves, server, times_s[slot], price)
        if number != NO_PAGE:
            page = take_head(shelves, server, number)
            append_page(shelves, server, numbers[page], page, times_s[slot])
            pages[slot] = page
    return pages


@compiled
def _in_turn(intervals, phases, slots):  # type: ignore[no-untyped-def]
    """Every page at its own interval, as nearly as one page per slot allows: at each slot the most overdue one."""
    heap = [(intervals[page] * phases[page], page) for page in range(len(intervals))]
    heapify(heap)
    pages = np.empty(slots, np.int64)
    for slot in range(slots):
        due, page = heap[0]
        pages[slot] = page
        heapreplace(heap, (due + intervals[page], page))
    return pages


@compiled
def _add_stale_time(rates_per_s, times_s, pages, from_s, last_s, stale_s):  # type: ignore[no-untyped-def]
    """Add the expected stale time, from `from_s` on, of every gap that a visit ends."""
    for visit in range(len(times_s)):
        page, now_s = pages[visit], times_s[visit]
        stale_s[page] += _stale_since(rates_per_s[page], last_s[page], from_s, now_s)
        last_s[page] = now_s


@compiled
def _add_last_gaps(rates_per_s, from_s, end_s, last_s, stale_s):  # type: ignore[no-untyped-def]
    """Add the gaps that no visit ends."""
    for page in range(len(rates_per_s)):
        stale_s[page] += _stale_since(rates_per_s[page], last_s[page], from_s, end_s)


@compiled
def _stale_since(rate, last_s, from_s, now_s):  # type: ignore[no-untyped-def]
    if now_s <= from_s:
        return 0.0
    before_s = from_s - last_s
    return stale_time(rate, now_s - last_s) - (stale_time(rate, before_s) if before_s > 0.0 else 0.0)
