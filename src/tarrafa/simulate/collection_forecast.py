"""Forecasts the freshness of a live collection under each policy and visit budget.

Promises: the forecast uses what the frontier has learned of the collection's own pages (their rates, weights, hosts and
delays) and the live crawl's own policies on a simulated clock. It contacts no other machine and changes nothing.
Knows nothing of how it is printed.

Two methods. The policies are compared by the event-driven simulator, on a sample if there are many pages: of each host
as many pages as keep its slots per page unchanged. The effect of a budget is computed in closed form, for all pages, by
the long-run bound, from which the index policy stays within half a percent.

Rates are uncertain, and the forecast with them. The simulated Web draws the rate of each page from its belief, so that
pages which may be fast are fast in their share of cases. The interval of a long-run freshness comes from many such Webs
under one plan, which is made from the estimates. A policy is simulated as if it knew the drawn rates; what it still has
to learn costs some percent of staleness (`learning_cost`).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from tarrafa.config import Collection, decode_collection
from tarrafa.errors import DataError
from tarrafa.frontier.messages import RevisitPage
from tarrafa.frontier.store.sqlite_frontier import read_revisit_pages
from tarrafa.revisit import optimal_frequency
from tarrafa.revisit.belief import WideBelief
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.policy import RATE_MIN
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.simulate import event_simulation, web_model
from tarrafa.simulate.policy_controllers import POLICY_NAMES, PolicyName, SimulationSettings
from tarrafa.simulate.web_model import SimulatedCrawler, SimulatedDocument, SimulatedServer

SAMPLE_MIN, SAMPLE_GOOD, SAMPLE_MAX = 50, 500, 1_500
DAYS_MIN, DAYS_MAX = 3.0, 365.0
ROUNDS = 8.0  # visits to each page, on average; the first half of them is not measured
PAUSE_MIN_S = 0.05
MULTIPLES = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
VISITS_MAX, CHANGES_MAX = 60_000, 300_000  # in one run: beyond them the sample shrinks
DRAWS = 100  # Webs for an interval
LIMIT_STEPS = 8
Z_90 = 1.645  # nine of ten values of a normal distribution lie within so many standard deviations

Floats = npt.NDArray[np.float64]
Progress = Callable[[int, int], None]


class FreshnessRange(msgspec.Struct, frozen=True):
    """A freshness, and where it lies nine times of ten."""

    likely: float
    low: float
    high: float


class PolicyForecast(msgspec.Struct, frozen=True):
    """The forecast of one policy."""

    policy: str
    freshness: float
    twice: float  # with twice the visits


class BudgetForecast(msgspec.Struct, frozen=True):
    """The long-run effect of a budget."""

    visits_per_day: float
    index: float
    uniform: float


class CollectionForecast(msgspec.Struct, frozen=True):
    """The output of `simulate --collection --json`."""

    collection: str
    policy: str
    visits_per_day: float
    pages: int
    hosts: int
    sampled: int
    polite_per_day: float  # the most that politeness and interval_min allow
    changes_per_day: float  # expected, of all pages
    fresh_now: FreshnessRange
    long_run: FreshnessRange  # with the index policy
    best: str
    policies: tuple[PolicyForecast, ...]
    curve: tuple[BudgetForecast, ...]


@dataclass(slots=True, frozen=True)
class BeliefArrays:
    """What is believed of the rates of all pages, to draw Webs from."""

    medians: Floats
    fresh: Floats  # the probability that each is fresh now
    alphas: Floats
    betas: Floats
    wide: npt.NDArray[np.int64]  # the pages whose belief is no Gamma distribution; of these:
    slowest: Floats  # the first rate
    steps: Floats  # from one rate to the next, as a factor
    sums: npt.NDArray[np.float32]  # [wide page, point]: the shares up to this rate

    @classmethod
    def of(cls, pages: Sequence[RevisitPage], now: float) -> "BeliefArrays":
        medians, fresh = np.empty(len(pages)), np.empty(len(pages))
        wide, slowest, steps, sums = [], [], [], []
        for number, page in enumerate(pages):
            belief = page.history.belief
            medians[number], fresh[number] = belief.median, belief.fresh_probability(now - page.history.last)
            if isinstance(belief, WideBelief):
                wide.append(number)
                slowest.append(belief.rates[0])
                steps.append(belief.rates[1] / belief.rates[0])
                sums.append(np.cumsum(belief.shares, dtype=np.float32))
        return cls(
            medians,
            fresh,
            np.array([page.history.alpha for page in pages]),
            np.array([page.history.beta for page in pages]),
            np.array(wide, dtype=np.int64),
            np.array(slowest),
            np.array(steps),
            np.array(sums, dtype=np.float32).reshape(len(wide), -1 if wide else 0),
        )

    def draw(self, seed: int) -> Floats:
        """One rate for each page."""
        rng = np.random.default_rng(seed)
        drawn: Floats = rng.gamma(self.alphas) / self.betas
        below = (self.sums < rng.random((len(self.wide), 1), dtype=np.float32)).sum(axis=1)
        drawn[self.wide] = self.slowest * self.steps**below
        return np.maximum(drawn, RATE_MIN)


@dataclass(slots=True, frozen=True)
class PageArrays:
    """The pages as arrays; hosts are numbered."""

    rates: Floats  # drawn from the beliefs
    estimates: Floats
    weights: Floats
    fresh: Floats  # the probability that each is fresh now
    servers: npt.NDArray[np.int64]
    pauses: Floats  # of each host
    dated: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, pages: Sequence[RevisitPage], believed: BeliefArrays) -> "PageArrays":
        numbers: dict[int, int] = {}
        servers = np.array([numbers.setdefault(page.host, len(numbers)) for page in pages], dtype=np.int64)
        pauses, dated = np.zeros(len(numbers)), np.zeros(len(numbers), dtype=bool)
        for page, server in zip(pages, servers, strict=True):
            pauses[server], dated[server] = max(page.delay_s, PAUSE_MIN_S), page.dates_believed
        return cls(
            believed.draw(seed=0),
            believed.medians,
            np.array([page.history.weight for page in pages]),
            believed.fresh,
            servers,
            pauses,
            dated,
        )

    def caps(self, interval_min: float) -> Floats:
        """The most visits per second that each host accepts."""
        often = np.bincount(self.servers) / interval_min if interval_min > 0 else math.inf
        return np.minimum(1.0 / self.pauses, often)


def read_collection_pages(data: DataDirectory, name: str) -> tuple[Collection, list[RevisitPage]]:
    """The collection and its learned pages, from the frontier's file: no running server is asked."""
    data.check_version()
    row, pages = read_revisit_pages(data.frontier, name)
    return decode_collection(row.config), pages


def forecast(
    collection: Collection,
    pages: Sequence[RevisitPage],
    now: float,
    policy: PolicyName | None = None,
    per_day: float | None = None,
    progress: Progress = lambda done, total: None,
) -> CollectionForecast:
    """Forecast a collection; `policy` and `per_day` replace the collection's own settings."""
    if not pages:
        raise DataError(f"{collection.name}: no page of it is kept fresh yet: give it a [revisit] section and crawl")
    believed, least = BeliefArrays.of(pages, now), float(collection.revisit.interval_min)
    stock = PageArrays.of(pages, believed)
    polite = float(stock.caps(least).sum()) * DAY_S
    budget = min(per_day or collection.revisit.rate or polite, polite)
    chosen = policy or (collection.revisit.policy if collection.revisit.policy != "never" else "index")
    runs = {(name, times): 0.0 for name in POLICY_NAMES for times in (1.0, 2.0)}
    days = _simulated_days(stock, budget)
    sample = _sample(stock, days, 2 * budget)
    for done, (name, times) in enumerate(runs):
        progress(done, len(runs))
        runs[name, times] = _simulated_freshness(sample, name, min(times * budget, polite) / polite, least, days)
    progress(len(runs), len(runs))
    prospects = sorted(
        (PolicyForecast(name, round(runs[name, 1.0], 4), round(runs[name, 2.0], 4)) for name in POLICY_NAMES),
        key=lambda one: -one.freshness,
    )
    return CollectionForecast(
        collection=collection.name,
        policy=chosen,
        visits_per_day=round(budget, 2),
        pages=len(pages),
        hosts=len(stock.pauses),
        sampled=len(sample.rates),
        polite_per_day=round(polite, 2),
        changes_per_day=round(float(stock.estimates.sum()) * DAY_S, 2),
        fresh_now=_fresh_now(stock),
        long_run=_long_run(stock, believed, budget, least),
        best=prospects[0].policy,
        policies=tuple(prospects),
        curve=tuple(
            _budget_forecast(stock, times * budget, least) for times in MULTIPLES if times * budget <= polite * 1.001
        ),
    )


def _simulated_days(stock: PageArrays, per_day: float) -> float:
    """Days of a run: several visits to each page; some days, as far as a good sample allows."""
    share = min(1.0, SAMPLE_GOOD / len(stock.rates))
    changes_per_day = float(stock.rates.sum()) * DAY_S
    affordable = min(VISITS_MAX / (2 * per_day * share), CHANGES_MAX / max(changes_per_day * share, 1e-9))
    return min(max(min(DAYS_MIN, affordable), ROUNDS * len(stock.rates) / per_day), DAYS_MAX)


def _fresh_now(stock: PageArrays) -> FreshnessRange:
    """Each page is fresh or not, by its own probability: the sum of many is nearly normal."""
    likely, shares = _mean(stock.fresh, stock.weights), stock.weights / stock.weights.sum()
    spread = Z_90 * math.sqrt(float((shares**2 * stock.fresh * (1.0 - stock.fresh)).sum()))
    return FreshnessRange(round(likely, 4), round(max(0.0, likely - spread), 4), round(min(1.0, likely + spread), 4))


def _long_run(stock: PageArrays, believed: BeliefArrays, per_day: float, interval_min: float) -> FreshnessRange:
    """Freshness under the index policy's frequencies, made from the estimates, on many Webs that may be true."""
    gaps = 1.0 / np.maximum(_index_frequencies(stock, stock.estimates, per_day / DAY_S, interval_min), 1e-300)
    found = [_freshness(stock, believed.draw(seed), gaps) for seed in range(DRAWS)]
    low, likely, high = (round(float(value), 4) for value in np.quantile(found, (0.05, 0.5, 0.95)))
    return FreshnessRange(likely, low, high)


def _index_frequencies(stock: PageArrays, rates: Floats, per_s: float, interval_min: float) -> Floats:
    """Visits per second of each page under the index policy. The optimum knows limits of hosts only: pages that would
    be visited more often than `interval_min` allows get that much, and the others share what is left."""
    most = 1.0 / interval_min if interval_min > 0 else math.inf
    caps, found = stock.caps(interval_min), np.zeros(len(rates))
    limited = np.zeros(len(rates), dtype=bool)
    for _ in range(LIMIT_STEPS):
        free = ~limited
        used = np.bincount(stock.servers[limited], minlength=len(caps)) * most if limited.any() else np.zeros(len(caps))
        left, budget = np.maximum(caps - used, 0.0), max(per_s - float(used.sum()), 0.0)
        solved = optimal_frequency.solve(rates[free], stock.weights[free], stock.servers[free], left, budget)
        found[free] = solved.frequencies
        over = free & (found > most * (1 + 1e-9))
        if not over.any():
            break
        limited |= over
        found[limited] = most
    return found


def _freshness(stock: PageArrays, rates: Floats, gaps: Floats) -> float:
    """The mean of e^(-rate age) over the gaps: one minus `staleness()` of each, for whole arrays."""
    expected = rates * gaps
    fresh = np.where(expected < 1e-6, 1.0 - expected / 2.0, -np.expm1(-expected) / np.maximum(expected, 1e-300))
    return _mean(fresh, stock.weights)


def _mean(values: Floats, weights: Floats) -> float:
    return float(np.average(values, weights=weights))


def _sample(stock: PageArrays, days: float, per_day: float) -> PageArrays:
    """A sample of each host's pages, spread evenly over its rates; a host's pause grows as its pages become fewer."""
    expected = float(stock.rates.sum()) * days * DAY_S
    part = min(CHANGES_MAX / max(expected, 1.0), VISITS_MAX / max(per_day * days, 1.0), 1.0)
    most = min(SAMPLE_MAX, max(SAMPLE_MIN, int(part * len(stock.rates))))
    if len(stock.rates) <= most:
        return stock
    order = np.lexsort((stock.rates, stock.servers))
    kept = np.sort(order[np.linspace(0, len(order) - 1, most).astype(np.int64)])
    before, after = np.bincount(stock.servers), np.bincount(stock.servers[kept], minlength=len(stock.pauses))
    there = np.flatnonzero(after)
    numbers = np.zeros(len(stock.pauses), dtype=np.int64)
    numbers[there] = np.arange(len(there))
    return PageArrays(
        stock.rates[kept],
        stock.estimates[kept],
        stock.weights[kept],
        stock.fresh[kept],
        numbers[stock.servers[kept]],
        (stock.pauses * before / np.maximum(after, 1))[there],
        stock.dated[there],
    )


def _simulated_freshness(
    stock: PageArrays, policy: PolicyName, share: float, interval_min: float, days: float
) -> float:
    """Long-run freshness, with this share of the visits that politeness allows."""
    servers = [
        SimulatedServer(float(pause), dated=bool(dated)) for pause, dated in zip(stock.pauses, stock.dated, strict=True)
    ]
    documents = [
        SimulatedDocument(int(server), float(rate), size=0.0, weight=float(weight))
        for server, rate, weight in zip(stock.servers, stock.rates, stock.weights, strict=True)
    ]
    web = web_model.make_web_model([SimulatedCrawler()] * len(servers), servers, documents, days * DAY_S, seed=1)
    budget = None if share >= 1.0 else share * float(stock.caps(interval_min).sum()) * DAY_S
    settings = SimulationSettings(
        policy, budget, learn=False, start="fresh", interval_min_s=interval_min, from_s=days / 2 * DAY_S
    )
    found = event_simulation.run(web, settings).summary
    return found.freshness if found.expected_freshness is None else found.expected_freshness


def _level(most: Floats, sizes: npt.NDArray[np.int64], rate: float) -> Floats:
    """All pages equally often, but no host beyond its maximum; the excess goes to the other hosts."""
    low, high = 0.0, float(most.max())
    for _ in range(60):
        level = (low + high) / 2
        low, high = (level, high) if float((np.minimum(most, level) * sizes).sum()) < rate else (low, level)
    return np.minimum(most, high)


def _budget_forecast(stock: PageArrays, per_day: float, interval_min: float) -> BudgetForecast:
    caps, rate = stock.caps(interval_min), per_day / DAY_S
    best = _index_frequencies(stock, stock.rates, rate, interval_min)
    each = _level(caps / np.bincount(stock.servers), np.bincount(stock.servers), rate)[stock.servers]
    index, uniform = (
        _freshness(stock, stock.rates, 1.0 / np.maximum(frequencies, 1e-300)) for frequencies in (best, each)
    )
    return BudgetForecast(round(per_day, 2), round(index, 4), round(uniform, 4))
