"""Measures how much staleness it costs that change rates must be learned.

Promises: the beliefs are those of `tarrafa.revisit.change_rate`, the decisions those of the index policy. The same
arguments give the same numbers. The result is expected staleness, in closed form from the *true* rates and the visit
times; randomness decides only what the visits see.
Knows nothing of politeness: one pool of pages, slots evenly spaced at the rate that the budget gives.

Rates are spread evenly from 0.01 to 1 change per hour (`workload`). The first round visits every page once, in order,
as a discovering crawl does. Before it the belief about every page is the Gamma with the mean and variance of that even
spread: what a site's other pages would teach (`change_rate.site_prior`), without having to learn it. From the second
round on the index policy chooses, by the rates estimated so far. The peer is the same policy, on the same classes,
after the same first round, and knows the true rates from then on.

After n mean visits: rounds are of one visit per page on average. The excess after n of them is the staleness over the
WINDOW rounds that follow (from n to n + WINDOW) against the peer's over the same rounds, minus one. One round would be
too few: pages visited together in the first round are due together again, and the peer itself swings by 0.4 % from one
round to the next. The first round counts: after it n is 1.

At 8.64 visits per page and day, without dates, the excess after 9 is 0.68 % (windows of 3 to 8 rounds: 0.72 to 0.59),
with one visit in 50 exploring; the mean instead of the cautious estimate gives 0.85 %, the exact posterior under the
true spread of rates 0.6 %. At 2 per day it is 0.9 % after 22 with dates, and 3.4 % without: there most visits find a
change and cannot tell how many.
"""

import math
from collections.abc import Callable

import msgspec
import numpy as np

from tarrafa.errors import ConfigError
from tarrafa.revisit import change_rate
from tarrafa.revisit.policy import EXPLORE_EVERY
from tarrafa.simulate.index_policy_queues import (
    LONG_AGO_S,
    IndexQueues,
    append_page,
    best_class,
    class_number,
    class_numbers,
    classes_between,
    compiled,
    make_queues,
    oldest_class,
    stale_time,
    take_head,
)
from tarrafa.simulate.workload import HOUR_S, RATE_MIN_PER_HOUR, RATE_SPAN_PER_HOUR, Floats, uniform_rates

WINDOW = 4  # rounds
MEAN_PER_S = (RATE_MIN_PER_HOUR + RATE_SPAN_PER_HOUR / 2) / HOUR_S  # of an even spread, and its variance below
VARIANCE = (RATE_SPAN_PER_HOUR / HOUR_S) ** 2 / 12
PRIOR_ALPHA = MEAN_PER_S**2 / VARIANCE  # 3.12
ESTIMATE_MIN_PER_S, ESTIMATE_MAX_PER_S = 1e-5 / HOUR_S, 20 / HOUR_S  # estimates are clamped to these
WEIGHT = 1.0
ROUNDS_MAX = 10_000

update_unchanged = compiled(change_rate.update_unchanged)
update_dated = compiled(change_rate.update_dated)
cautious_rate = compiled(change_rate.cautious_rate)
update_changed = compiled(change_rate.update_changed)

Progress = Callable[[int, int], None]


class LearningCurve(msgspec.Struct, frozen=True):
    """How much staler learned rates leave the pages than known ones, as the visits add up."""

    pages: int
    visits_per_day: float  # of a page, on average
    last_modified: bool
    explore_every: int  # 0: never
    caution: float
    prior_alpha: float
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
    prior_alpha: float = PRIOR_ALPHA,
    first_seed: int = 0,
    progress: Progress = lambda done, total: None,
) -> LearningCurve:
    """The excess after 1, 2, 3 … mean visits; `progress` is called with runs done and runs in all."""
    rounds = int(visits_per_day * days)
    if not WINDOW < rounds <= ROUNDS_MAX:
        raise ConfigError(f"days x visits a day must be {WINDOW + 1} to {ROUNDS_MAX:,} rounds, got {rounds:,}")
    if pages < 1 or seeds < 1:
        raise ConfigError(f"pages and seeds must be 1 or more, got {pages:,} and {seeds:,}")
    rates_per_s = uniform_rates(pages)
    slot_s = change_rate.DAY_S / visits_per_day / pages

    def run(seed: int | None) -> Floats:
        shelves = _initial_queues(pages)
        belief = (prior_alpha, prior_alpha / MEAN_PER_S)
        rng = np.random.default_rng(seed)
        learner = (seed is not None, last_modified, explore_every, caution)
        found = _run_rounds(shelves, rates_per_s, slot_s, rounds, learner, belief, rng)
        progress(1 if seed is None else seed - first_seed + 2, seeds + 1)
        return np.asarray(found)

    known = run(None)
    seen = [100 * (_window_means(run(first_seed + number)) / _window_means(known) - 1) for number in range(seeds)]
    means = np.mean(seen, axis=0)
    errors = np.std(seen, axis=0, ddof=1) / math.sqrt(seeds) if seeds > 1 else []
    curve = tuple((number + 1, float(value)) for number, value in enumerate(means))
    return LearningCurve(
        pages, visits_per_day, last_modified, explore_every, caution, prior_alpha, seeds,
        float(known[1:].mean()), curve, tuple(map(float, errors)),
    )  # fmt: skip


def _initial_queues(pages: int) -> IndexQueues:
    """All pages in the class of the prior, none visited yet."""
    classes = classes_between(ESTIMATE_MIN_PER_S, ESTIMATE_MAX_PER_S, WEIGHT)
    numbers = class_numbers(classes, np.full(pages, MEAN_PER_S), np.full(pages, WEIGHT))
    return make_queues(classes, numbers, np.zeros(pages, np.int64), 1, np.full(pages, LONG_AGO_S))


def _window_means(staleness: Floats) -> Floats:
    """Means over WINDOW rounds, from each round after the first on."""
    return np.convolve(staleness[1:], np.full(WINDOW, 1 / WINDOW), "valid")


@compiled
def _updated_belief(alpha, beta, gap_s, quiet_s, is_first, last_modified):  # type: ignore[no-untyped-def]
    """The belief after a visit; the page last changed `quiet_s` ago. A first visit learns only from a date."""
    if not is_first and quiet_s >= gap_s:
        return update_unchanged(alpha, beta, gap_s)
    if last_modified:
        return update_dated(alpha, beta, quiet_s)
    if is_first:
        return alpha, beta
    return update_changed(alpha, beta, gap_s)


@compiled
def _run_rounds(shelves, rates_per_s, slot_s, rounds, learner, belief, rng):  # type: ignore[no-untyped-def]
    """Mean staleness of each round. A Poisson process looks the same backwards: one exponential draw gives the time of
    a page's last change, and so whether it changed since the last visit.
    """
    is_learning, last_modified, explore_every, caution = learner
    pages = len(rates_per_s)
    alphas, betas = np.full(pages, belief[0]), np.full(pages, belief[1])
    past_s, before_s, staleness = 0.0, 0.0, np.empty(rounds)
    for slot in range(rounds * pages):
        now_s = (slot + 1) * slot_s
        is_first = slot < pages
        explores = is_learning and explore_every > 0 and slot % explore_every == 0
        page = take_head(
            shelves, 0, oldest_class(shelves, 0) if is_first or explores else best_class(shelves, 0, now_s, 0.0)
        )
        gap_s, rate = now_s - shelves.last_s[page], rates_per_s[page]
        past_s += now_s if is_first else stale_time(rate, gap_s)  # a page never visited is stale
        if is_learning:
            quiet_s = -math.log1p(-rng.random()) / rate
            alphas[page], betas[page] = _updated_belief(
                alphas[page], betas[page], gap_s, quiet_s, is_first, last_modified
            )
            rate = cautious_rate(alphas[page], betas[page], caution)
        append_page(shelves, 0, class_number(shelves.classes, rate, WEIGHT), page, now_s)
        if (slot + 1) % pages == 0:
            until_s = past_s
            for other in range(pages):
                until_s += stale_time(rates_per_s[other], now_s - shelves.last_s[other])
            staleness[slot // pages] = (until_s - before_s) / (pages * pages * slot_s)
            before_s = until_s
    return staleness
