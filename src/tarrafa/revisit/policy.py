"""Revisit policies (uniform, proportional, rateupdate, planned, index): which page of a host is due next.

One small interface for the live frontier and the simulator. A policy *places* each page after a visit on a shelf, under
a key. On one shelf the smallest key is always the best, so a caller that keeps the shelves sorted compares only their
heads and scans nothing: `due` gives the time from which a head is worth a visit, `urgency` decides which of the due
heads goes first.

The calendar policies (uniform, proportional, rateupdate, and the plans psp, mp2, m-wolf) use one shelf, keyed by time.
The index policy uses a shelf per class of pages: rate in steps of 1.25, weight in steps of 2. In a class the page that
was visited longest ago is the best, whatever the price; so nothing is rewritten when the price moves. It costs less
than a tenth of a percent against exact rates; a plain calendar of "next due" costs 1 to 3.5 %, because a page that
waits for its host's next free slot gains value while it waits.

Where a rate cannot be told yet, the index policy has other shelves. A page that was visited once, of which other pages
tell nothing either, is worth a second visit in proportion to its age, whatever the speed of the clock. A page that has
changed at every visit may change at any higher rate: only a shorter gap can tell more, so it is soon visited again (a
*probe*), until a visit finds no change, or it is too fast to be worth a visit. All that has to be known of such a page
is whether it stays fresh long enough to be worth visits. So a probe is worth the age of the page: it comes after a gap
that the price sets, whatever gaps were tried before.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from tarrafa.revisit import change_rate
from tarrafa.revisit.belief import Belief, make_belief
from tarrafa.revisit.change_rate import DAY_S, NO_PRIOR, RatePrior
from tarrafa.revisit.visit_value import age_at_price, visit_value

RATE_STEP, WEIGHT_STEP = 1.25, 2.0
RATE_MIN = 1e-10  # one change in three hundred years
WEIGHT_CLASSES = 64  # of weight
RATE_CLASSES_MAX = 400  # classes of rates: far beyond one change per nanosecond
UNKNOWN_SHELF = 1 << 18  # added to a shelf: nothing is known of the rates of its pages
PROBE_SHELF = 1 << 19  # added to a shelf: its pages have changed at every visit, and are due after a shorter gap
ANNOUNCED_SHELF = 1 << 20  # added to a shelf: its pages are known to have changed
PLAN_SHELF = 2 * ANNOUNCED_SHELF  # a shelf of a plan: not a class of the index policy
# The second visit of a page of which nothing is known is worth so much for each second since the first. If its rate
# were the best for that time, it would be worth 0.3 (the most that `visit_value` gives, divided by the time).
UNKNOWN_WORTH = 0.05
PROBE_CAUTION = 1.0  # deviations below the peak of the belief: a page is given up only if it is hardly slow enough
WIDE_ALPHA_MAX = 1.5  # a belief that is narrower needs no probe
PROBES_MAX = 4  # that leave the shortest gap as it was
PROBE_PRECISION_MAX = (
    0.4  # of the prior: where nine pages of ten lie within a decade to either side, no probe is needed
)
EXPLORE_EVERY = 200  # one visit in this many goes to the page that was left alone longest

RATE_CHANGES_MIN, RATE_CHANGES_MAX = 1, 10  # of rateupdate, clamped as by its authors
RATE_DAYS_MIN, RATE_DAYS_MAX = 1.0, 10.0
INTERVAL_FIRST_S = DAY_S  # of proportional, for a page with one visit
CHANGES_UNSEEN = 0.5  # what "none yet" counts as, so that no page is left alone for ever
INTERVAL_MAX_S = 90 * DAY_S


class PageHistory(msgspec.Struct, frozen=True, array_like=True):
    """The facts about a page that are kept from one visit to the next."""

    first: float  # when it was first kept
    last: float  # when it was last visited
    alpha: float
    beta: float
    weight: float = 1.0
    visits: int = 1
    changes: int = 0
    rate: float = 1.0  # of rateupdate, per day
    rated: float | int = 0  # when that was last computed
    unrated: int = 0  # changes seen since
    # An int of 0 takes one byte where a float takes nine.
    announced: float | int = 0  # a trusted date later than the last visit: it has certainly changed
    birth: float | int = 0  # the date of its first visit, until its host's dates are trusted
    # What alpha and beta follow from, with the rates of other pages: see `change_rate`.
    quiet: float | int = 0
    dated: int = 0
    gaps: tuple[int, ...] = ()

    @property
    def belief(self) -> Belief:
        """What is believed of its change rate."""
        return make_belief(self.alpha, self.beta, self.quiet, self.dated, self.gaps)

    @property
    def estimate(self) -> float:
        """Changes per second."""
        return self.belief.median

    @property
    def bounds(self) -> tuple[float, float]:
        """The 90 % interval of the true rate; an infinite upper end says that it may as well be any higher rate."""
        belief = self.belief
        low, high = belief.bounds
        told = not change_rate.cannot_be_told(self.quiet, self.dated, self.gaps, belief.median)
        return low, high if told else math.inf

    @property
    def has_evidence(self) -> bool:
        """Whether its visits tell anything about its rate."""
        return bool(self.quiet or self.dated or self.gaps)

    def fresh_probability(self, now: float) -> float:
        """The probability that it has not changed since its last visit."""
        return self.belief.fresh_probability(now - self.last)

    @property
    def is_unknown(self) -> bool:
        """Whether neither its visits nor other pages tell how often it changes."""
        return not self.has_evidence and self.alpha <= change_rate.HALF

    @property
    def needs_probe(self) -> bool:
        """Whether it has changed at every visit, and a shorter gap, not yet tried often enough, can tell more than the
        rates of other pages do."""
        if self.quiet or self.dated or not self.gaps or self.alpha > WIDE_ALPHA_MAX:
            return False
        pairs = zip(self.gaps[::2], self.gaps[1::2], strict=True)
        if min((logs / count, count) for count, logs in pairs)[1] >= PROBES_MAX:
            return False
        prior = change_rate.prior_behind(self.alpha, self.beta, self.quiet, self.dated, self.gaps)
        return prior is None or prior[1] <= PROBE_PRECISION_MAX

    @property
    def shelf(self) -> int:
        """The class of the page, by its cautious rate (`change_rate.cautious_rate`)."""
        if not self.has_evidence:
            return shelf_of(self.alpha / self.beta, self.weight)
        caution = PROBE_CAUTION if self.needs_probe else change_rate.CAUTION
        return shelf_of(change_rate.cautious_rate(self.alpha, self.beta, caution), self.weight)


def record_first_visit(
    at: float, prior: RatePrior = NO_PRIOR, weight: float = 1.0, claimed: float = 0.0
) -> PageHistory:
    """A page's first visit; `claimed` is its date, used once its host's dates are trusted."""
    alpha, beta = change_rate.fit_rate(0.0, 0, (), *prior)
    return PageHistory(at, at, alpha, beta, weight, rated=int(at), birth=min(claimed, at) or 0)


def record_visit(
    page: PageHistory,
    at: float,
    changed: bool,
    modified: float | None = None,
    believed: bool = False,
    prior: RatePrior = NO_PRIOR,
) -> PageHistory:
    """A page after one more visit; `modified` is when it last changed, if its date is `believed`. The `prior` is that
    of the other pages."""
    gap = max(0.0, at - page.last)
    quiet, dated, gaps, birth = page.quiet, page.dated, page.gaps, page.birth
    if believed and birth:
        dated, quiet, birth = dated + 1, quiet + min(page.first - birth, change_rate.AGE_MAX_S), 0
    if not changed:
        quiet += gap
    elif page.announced > page.last:  # it was visited because it had changed: what counts is how long that took
        dated, quiet = dated + 1, quiet + min(page.announced - page.last, gap)
    elif modified is not None:
        dated, quiet = dated + 1, quiet + min(max(0.0, at - modified), gap)
    elif gap > 0.0:
        gaps = _with_gap(gaps, gap)
    alpha, beta = change_rate.fit_rate(quiet, dated, gaps, *prior)
    rate, rated, unrated = page.rate, page.rated, page.unrated + changed
    if at - rated >= DAY_S:
        rate, rated, unrated = updated_rate(unrated, (at - rated) / DAY_S), int(at), 0
    return PageHistory(
        page.first, at, alpha, beta, page.weight, page.visits + 1, page.changes + changed, rate, rated, unrated,
        birth=birth, quiet=quiet, dated=dated, gaps=gaps,
    )  # fmt: skip


def _with_gap(gaps: tuple[int, ...], gap: float) -> tuple[int, ...]:
    places = [*gaps, *(0,) * (2 * change_rate.GAPS_MAX - len(gaps))]
    change_rate.add_gap(places, gap)
    return tuple(number for place in range(0, len(places), 2) if places[place] for number in places[place : place + 2])


def updated_rate(changes: int, days: float) -> float:
    """The rate of `rateupdate`: changes seen divided by days since the last update, both clamped."""
    seen = min(max(changes, RATE_CHANGES_MIN), RATE_CHANGES_MAX)
    return seen / min(max(days, RATE_DAYS_MIN), RATE_DAYS_MAX)


def proportional_interval(page: PageHistory) -> float:
    """The interval of `proportional`: time observed divided by changes seen."""
    observed = page.last - page.first
    if observed <= 0.0:
        return INTERVAL_FIRST_S
    return min(observed / max(page.changes, CHANGES_UNSEEN), INTERVAL_MAX_S)


class RevisitPolicy(Protocol):
    """Decides the place of a page after a visit, and when the head of a shelf is worth one."""

    def place(self, page: PageHistory) -> tuple[int, float]:
        """Shelf and key."""

    def due(self, shelf: int, key: float) -> float: ...

    def urgency(self, shelf: int, key: float, now: float) -> float:
        """The most urgent of the due heads goes first."""

    def explore_from(self, shelf: int, key: float) -> float:
        """The time from which an exploring visit may go there, whatever it is worth."""


@dataclass(frozen=True, slots=True)
class UniformPolicy:
    """Visits all pages equally often."""

    interval: float

    def place(self, page: PageHistory) -> tuple[int, float]:
        return 0, page.last

    def due(self, shelf: int, key: float) -> float:
        return key + self.interval

    def urgency(self, shelf: int, key: float, now: float) -> float:
        return now - key

    explore_from = due


class _DueTimePolicy:
    """A policy whose key is the time from which the page is due; the most overdue page goes first."""

    __slots__ = ()

    def due(self, shelf: int, key: float) -> float:
        return key

    def urgency(self, shelf: int, key: float, now: float) -> float:
        return now - key

    def explore_from(self, shelf: int, key: float) -> float:
        return self.due(shelf, key)


@dataclass(frozen=True, slots=True)
class ProportionalPolicy(_DueTimePolicy):
    """Visits a page as often as it changes."""

    interval_min: float = 0.0

    def place(self, page: PageHistory) -> tuple[int, float]:
        return 0, page.last + max(self.interval_min, proportional_interval(page))


@dataclass(frozen=True, slots=True)
class RateUpdatePolicy(_DueTimePolicy):
    """Visits by a rate that is computed again every day; `scale` is the interval, in seconds, of a page whose rate is
    1.
    """

    scale: float = DAY_S
    interval_min: float = 0.0

    def place(self, page: PageHistory) -> tuple[int, float]:
        return 0, page.last + max(self.interval_min, self.scale / page.rate)


@dataclass(frozen=True, slots=True)
class PlannedPolicy(_DueTimePolicy):
    """Follows a plan made beforehand (psp, mp2, m-wolf), one shelf per plan. A page that is not in the plan waits for
    the next one, which begins at the latest at `end`.
    """

    shelf: int
    end: float

    def place(self, page: PageHistory) -> tuple[int, float]:
        return self.shelf, self.end

    def due(self, shelf: int, key: float) -> float:
        return key if shelf == self.shelf else math.inf


@dataclass(frozen=True, slots=True)
class IndexPolicy:
    """Visits the page where a visit gains most freshness, above the price that the budget sets."""

    price: float = 0.0
    interval_min: float = 0.0

    def place(self, page: PageHistory) -> tuple[int, float]:
        if page.announced > page.last:
            return page.shelf + ANNOUNCED_SHELF, max(page.announced, page.last + self.interval_min)
        return page.shelf + UNKNOWN_SHELF * page.is_unknown + PROBE_SHELF * page.needs_probe, page.last

    def due(self, shelf: int, key: float) -> float:
        rate, weight = class_of(shelf)
        if shelf >= PLAN_SHELF or (shelf >= PROBE_SHELF and _most_worth(shelf) < self.price):
            return math.inf
        if shelf >= ANNOUNCED_SHELF:
            return key
        if shelf >= PROBE_SHELF:
            after = self.price / weight
        elif shelf >= UNKNOWN_SHELF:
            after = self.price / (UNKNOWN_WORTH * weight)
        else:
            after = age_at_price(rate, weight, self.price)
        return key + max(self.interval_min, after)

    def urgency(self, shelf: int, key: float, now: float) -> float:
        if shelf >= ANNOUNCED_SHELF:
            return _most_worth(shelf)
        rate, weight = class_of(shelf)
        if shelf >= PROBE_SHELF:
            return min(_most_worth(shelf), weight * (now - key))
        return UNKNOWN_WORTH * weight * (now - key) if shelf >= UNKNOWN_SHELF else visit_value(rate, weight, now - key)

    def explore_from(self, shelf: int, key: float) -> float:
        return math.inf if shelf >= PLAN_SHELF else key if shelf >= ANNOUNCED_SHELF else key + self.interval_min


def _most_worth(shelf: int) -> float:
    """The worth of a visit to a page that has certainly changed, and the most that a probe is worth."""
    rate, weight = class_of(shelf)
    return weight / rate


def shelf_of(rate: float, weight: float) -> int:
    """The class of pages with nearly this rate and weight."""
    across = min(
        max(round(math.log(max(weight, 1e-9)) / math.log(WEIGHT_STEP)) + WEIGHT_CLASSES // 2, 0), WEIGHT_CLASSES - 1
    )
    return round(math.log(max(rate, RATE_MIN) / RATE_MIN) / math.log(RATE_STEP)) * WEIGHT_CLASSES + across


def class_of(shelf: int) -> tuple[float, float]:
    """The rate and weight that all pages of a class are assumed to have."""
    along, across = divmod(shelf % UNKNOWN_SHELF, WEIGHT_CLASSES)
    along = min(along, RATE_CLASSES_MAX)
    return RATE_MIN * RATE_STEP**along, WEIGHT_STEP ** (across - WEIGHT_CLASSES // 2)


def choose_shelf(
    policy: RevisitPolicy, heads: Iterable[tuple[int, float]], now: float, explore: bool = False, ahead: bool = False
) -> int | None:
    """The shelf whose head is visited now, if any is due; an exploring visit goes to the one left alone longest. A
    visit `ahead` of its time goes to the one that is due next."""
    heads = list(heads)
    due = [head for head in heads if policy.due(*head) <= now]
    if not due:
        return _next_shelf(policy, heads, now) if ahead else None
    if explore:
        return min([head for head in heads if policy.explore_from(*head) <= now] or due, key=lambda head: head[1])[0]
    return max(due, key=lambda head: policy.urgency(head[0], head[1], now))[0]


def _next_shelf(policy: RevisitPolicy, heads: list[tuple[int, float]], now: float) -> int | None:
    coming = [(policy.due(*head), head[0]) for head in heads if policy.explore_from(*head) <= now]
    moment, shelf = min(coming, default=(math.inf, 0))
    return shelf if moment < math.inf else None
