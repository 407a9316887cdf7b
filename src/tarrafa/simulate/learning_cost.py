"""Measures how much staleness it costs that change rates must be learned.

Promises: the beliefs are those of `tarrafa.revisit.change_rate`, the decisions those of the index policy. The same
arguments give the same numbers. The result is expected staleness, in closed form from the *true* rates and the visit
times; randomness decides only what the visits see.
Knows nothing of politeness: one pool of pages, slots evenly spaced at the rate that the budget gives.

Two Webs. *uniform*: 0.01 to 1 change per hour, spread evenly (`workload`), and before the first round the belief about
every page has the spread of these rates: what a site's other pages would teach, without having to learn it.
*log-uniform*: from one change a minute to one in three years, spread evenly on a logarithmic scale, and nothing is
known beforehand: the spread is learned from the pages during the run (`change_rate.log_rate_prior`).

The first round visits every page once, in order, as a discovering crawl does. From the second round on the index policy
chooses, by the rates estimated so far. The peer is the same policy, on the same classes, after the same first round,
and knows the true rates from then on.

After n mean visits: rounds are of one visit per page on average. The excess after n of them is the staleness over the
WINDOW rounds that follow (from n to n + WINDOW) against the peer's over the same rounds, minus one. One round would be
too few: pages visited together in the first round are due together again, and the peer itself swings by 0.4 % from one
round to the next. The first round counts: after it n is 1.

docs/simulation.md has the results.
"""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numba.extending import register_jitable

from tarrafa.errors import ConfigError
from tarrafa.revisit import change_rate
from tarrafa.revisit.change_rate import GAPS_MAX, HALF, NO_PRIOR, RatePrior, RateSums
from tarrafa.revisit.policy import (
    EXPLORE_EVERY,
    PROBE_CAUTION,
    PROBE_PRECISION_MAX,
    PROBES_MAX,
    UNKNOWN_WORTH,
    WIDE_ALPHA_MAX,
)
from tarrafa.simulate.index_policy_queues import (
    LONG_AGO_S,
    NO_PAGE,
    IndexQueues,
    append_page,
    best_class,
    class_number,
    class_numbers,
    classes_between,
    compiled,
    compiled_visit_value,
    make_queues,
    oldest_class,
    stale_time,
    take_head,
)
from tarrafa.simulate.workload import Floats, Numbers, uniform_numbers, uniform_rates

WINDOW = 4  # rounds
WEIGHT = 1.0
ROUNDS_MAX = 10_000
SPREAD_PAGES = 10_000  # from which the spread of even rates is computed
LOG_UNIFORM_PER_S = 1.0 / (3 * 365 * change_rate.DAY_S), 1.0 / 60.0
WebName = Literal["uniform", "log-uniform"]

for _function in (
    change_rate.group_gap, change_rate.log_step, change_rate._join_nearest, change_rate._belief_without_evidence,
    change_rate.evidence_slope,
):  # fmt: skip
    register_jitable(_function)
fit_rate = compiled(change_rate.fit_rate)
add_gap = compiled(change_rate.add_gap)
cautious_rate = compiled(change_rate.cautious_rate)
log_rate_prior = compiled(change_rate.log_rate_prior)

Progress = Callable[[int, int], None]


class Evidence(NamedTuple):
    """What the visits of all pages saw: see `change_rate`."""

    quiet: Floats
    dated: Numbers
    gaps: Numbers  # [page, place]


class Learner(NamedTuple):
    """How rates are learned; a learner that is not `learns` knows them."""

    learns: bool
    last_modified: bool
    explore_every: int  # 0: never
    caution: float
    prior: RatePrior  # a precision of 0: from the other pages


class LearningCurve(msgspec.Struct, frozen=True):
    """How much staler learned rates leave the pages than known ones, as the visits add up."""

    web: str
    pages: int
    visits_per_day: float  # of a page, on average
    last_modified: bool
    explore_every: int  # 0: never
    caution: float
    seeds: int
    known: float  # staleness of the peer, mean over all rounds after the first
    curve: tuple[tuple[int, float], ...]  # mean visits, excess in percent
    errors: tuple[float, ...]  # standard error of each, over the seeds; empty for one seed


def measure_learning_cost(
    pages: int = 20_000,
    visits_per_day: float = 8.64,
    last_modified: bool = False,
    days: float = 4.0,
    seeds: int = 3,
    explore_every: int = EXPLORE_EVERY,
    caution: float = change_rate.CAUTION,
    first_seed: int = 0,
    web: WebName = "uniform",
    progress: Progress = lambda done, total: None,
) -> LearningCurve:
    """The excess after 1, 2, 3 … mean visits; `progress` is called with runs done and runs in all."""
    rounds = int(visits_per_day * days)
    if not WINDOW < rounds <= ROUNDS_MAX:
        raise ConfigError(f"days x visits a day must be {WINDOW + 1} to {ROUNDS_MAX:,} rounds, got {rounds:,}")
    if pages < 1 or seeds < 1:
        raise ConfigError(f"pages and seeds must be 1 or more, got {pages:,} and {seeds:,}")
    rates_per_s, prior = make_rates(web, pages)
    slot_s = change_rate.DAY_S / visits_per_day / pages

    def run(seed: int | None) -> Floats:
        learner = Learner(seed is not None, last_modified, explore_every, caution, prior)
        rng = np.random.default_rng(seed)
        found = _run_rounds(
            _initial_queues(rates_per_s),
            _initial_queues(rates_per_s, full=False),
            rates_per_s,
            slot_s,
            rounds,
            learner,
            rng,
        )
        progress(1 if seed is None else seed - first_seed + 2, seeds + 1)
        return np.asarray(found)

    known = run(None)
    seen = [100 * (_window_means(run(first_seed + number)) / _window_means(known) - 1) for number in range(seeds)]
    means = np.mean(seen, axis=0)
    errors = np.std(seen, axis=0, ddof=1) / math.sqrt(seeds) if seeds > 1 else []
    curve = tuple((number + 1, float(value)) for number, value in enumerate(means))
    return LearningCurve(
        web, pages, visits_per_day, last_modified, explore_every, caution, seeds,
        float(known[1:].mean()), curve, tuple(map(float, errors)),
    )  # fmt: skip


def make_rates(web: WebName, pages: int) -> tuple[Floats, RatePrior]:
    """The rates of the pages, and what is known of them beforehand."""
    if web == "uniform":
        logs = np.log(uniform_rates(SPREAD_PAGES))
        return uniform_rates(pages), RatePrior(float(logs.mean()), float(1.0 / logs.var()))
    low, high = (math.log(rate) for rate in LOG_UNIFORM_PER_S)
    rates: Floats = np.exp(low + (high - low) * uniform_numbers(pages))
    return rates, NO_PRIOR


def _initial_queues(rates_per_s: Floats, full: bool = True) -> IndexQueues:
    """All pages in the class of the first belief, none visited yet; or no pages."""
    pages = len(rates_per_s)
    classes = classes_between(rates_per_s.min() / 1000, rates_per_s.max() * 20, WEIGHT)
    numbers = class_numbers(classes, np.full(pages, rates_per_s.mean()), np.full(pages, WEIGHT))
    last_s = np.full(pages, LONG_AGO_S)
    if not full:
        queues = make_queues(classes, numbers[:0], np.zeros(0, np.int64), 1, last_s[:0])
        return queues._replace(following=np.full(pages, NO_PAGE, np.int64), last_s=last_s)
    return make_queues(classes, numbers, np.zeros(pages, np.int64), 1, last_s)


def _window_means(staleness: Floats) -> Floats:
    """Means over WINDOW rounds, from each round after the first on."""
    return np.convolve(staleness[1:], np.full(WINDOW, 1 / WINDOW), "valid")


@compiled
def _add_evidence(evidence, page, gap_s, quiet_s, is_first, last_modified):  # type: ignore[no-untyped-def]
    """Add what a visit saw; the page last changed `quiet_s` ago. A first visit learns only from a date."""
    if not is_first and quiet_s >= gap_s:
        evidence.quiet[page] += gap_s
    elif last_modified:
        evidence.dated[page] += 1
        evidence.quiet[page] += quiet_s
    elif not is_first:
        add_gap(evidence.gaps[page], gap_s)


@compiled
def _needs_probe(evidence, page, alpha, precision):  # type: ignore[no-untyped-def]
    """`policy.PageHistory.needs_probe`."""
    if evidence.quiet[page] > 0.0 or evidence.dated[page] > 0 or alpha > WIDE_ALPHA_MAX:
        return False
    gaps = evidence.gaps[page]
    fewest, lowest = 0, np.inf
    for place in range(0, len(gaps), 2):
        if gaps[place] > 0 and gaps[place + 1] / gaps[place] < lowest:
            fewest, lowest = gaps[place], gaps[place + 1] / gaps[place]
    return 0 < fewest < PROBES_MAX and precision <= PROBE_PRECISION_MAX


@compiled
def _best_probe(probes, now_s):  # type: ignore[no-untyped-def]
    """The class of the probe that is worth most, and its worth."""
    chosen, most = NO_PAGE, 0.0
    for number in range(len(probes.classes.rates)):
        if probes.heads[0, number] != NO_PAGE:
            worth = min(probes.classes.ceilings[number], WEIGHT * (now_s - probes.oldest_s[0, number]))
            if worth > most:
                chosen, most = number, worth
    return chosen, most


@compiled
def _run_rounds(shelves, probes, rates_per_s, slot_s, rounds, learner, rng):  # type: ignore[no-untyped-def]
    """Mean staleness of each round. A Poisson process looks the same backwards: one exponential draw gives the time of
    a page's last change, and so whether it changed since the last visit.
    """
    pages = len(rates_per_s)
    evidence = Evidence(np.zeros(pages), np.zeros(pages, np.int64), np.zeros((pages, 2 * GAPS_MAX), np.int64))
    means, variances = np.zeros(pages), np.zeros(pages)  # of log rates; a variance of 0: there is no evidence yet
    rated, sum_, squares = 0.0, 0.0, 0.0
    last_s = np.full(pages, LONG_AGO_S)
    has_unknown = learner.learns and learner.prior.precision <= HALF and not learner.last_modified
    unknown = 0 if has_unknown else pages  # the next page for a second visit, of which nothing is known
    past_s, before_s, staleness = 0.0, 0.0, np.empty(rounds)
    for slot in range(rounds * pages):
        now_s = (slot + 1) * slot_s
        is_first = slot < pages
        worth = UNKNOWN_WORTH * (now_s - last_s[unknown]) if unknown < pages and not is_first else 0.0
        page = _next_page(shelves, probes, now_s, slot, is_first, learner, unknown, worth)
        unknown += page == unknown and not is_first
        gap_s, rate = now_s - last_s[page], rates_per_s[page]
        past_s += now_s if is_first else stale_time(rate, gap_s)  # a page never visited is stale
        last_s[page] = now_s
        is_probe = False
        if learner.learns:
            quiet_s = -math.log1p(-rng.random()) / rate
            _add_evidence(evidence, page, gap_s, quiet_s, is_first, learner.last_modified)
            if variances[page] > 0.0:
                rated, sum_ = rated - 1.0, sum_ - means[page]
                squares -= means[page] ** 2 + variances[page]
            prior = learner.prior
            if prior.precision == 0.0:
                prior = log_rate_prior(RateSums(rated, sum_, squares), RateSums(0.0, 0.0, 0.0))
            alpha, beta = fit_rate(
                evidence.quiet[page], evidence.dated[page], evidence.gaps[page], prior.mean, prior.precision
            )
            if not is_first or learner.last_modified:
                means[page], variances[page] = math.log(alpha / beta), 1.0 / alpha
                rated, sum_ = rated + 1.0, sum_ + means[page]
                squares += means[page] ** 2 + variances[page]
            rate = alpha / beta
            if variances[page] > 0.0:
                is_probe = _needs_probe(evidence, page, alpha, prior.precision)
                rate = cautious_rate(alpha, beta, PROBE_CAUTION if is_probe else learner.caution)
        number = class_number(shelves.classes, rate, WEIGHT)
        if not (is_first and has_unknown):
            append_page(probes if is_probe else shelves, 0, number, page, now_s)
        if (slot + 1) % pages == 0:
            until_s = past_s
            for other in range(pages):
                until_s += stale_time(rates_per_s[other], now_s - last_s[other])
            staleness[slot // pages] = (until_s - before_s) / (pages * pages * slot_s)
            before_s = until_s
    return staleness


@compiled
def _worth_of(shelves, number, now_s):  # type: ignore[no-untyped-def]
    """The value of a visit to the head of a class; below 0 if there is none."""
    if number == NO_PAGE:
        return -1.0
    return compiled_visit_value(shelves.classes.rates[number], WEIGHT, now_s - shelves.oldest_s[0, number])


@compiled
def _next_page(shelves, probes, now_s, slot, is_first, learner, unknown, unknown_worth):  # type: ignore[no-untyped-def]
    """The page that `policy.choose_shelf` would visit now; `unknown` is the one whose first visit was longest ago."""
    if is_first:
        return take_head(shelves, 0, oldest_class(shelves, 0))
    explores = learner.learns and learner.explore_every > 0 and slot % learner.explore_every == 0
    best = oldest_class(shelves, 0) if explores else best_class(shelves, 0, now_s, 0.0)
    probe, worth = _best_probe(probes, now_s)
    if unknown_worth > 0.0 and (explores or unknown_worth > max(worth, _worth_of(shelves, best, now_s))):
        return unknown  # it was also left alone longest
    if best == NO_PAGE or (not explores and worth > _worth_of(shelves, best, now_s)):
        return take_head(probes, 0, probe)
    return take_head(shelves, 0, best)
