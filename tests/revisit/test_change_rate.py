"""How often a page changes, from what its visits saw."""

import math
import random
import statistics
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.revisit import believe, change_rate
from tarrafa.revisit.belief import NARROW_ALPHA_MIN, Belief, NarrowBelief, WideBelief, make_belief
from tarrafa.revisit.change_rate import NO_PRIOR, RatePrior, RateSums, log_rate_prior
from tarrafa.revisit.policy import record_first_visit, record_visit

DAY_S = change_rate.DAY_S


# The classical estimators, for comparison.
def naive_rate(changes: int, observed: float) -> float:
    """Changes seen divided by time observed: too low for pages that change more than once between visits."""
    return changes / observed if observed > 0 else 0.0


def cho_garcia_molina_rate(changes: int, visits: int, interval: float) -> float:
    """Cho and Garcia-Molina (2003): -log((n - X + 0.5) / (n + 0.5)) / interval, for visits at one regular interval."""
    return -math.log((visits - changes + 0.5) / (visits + 0.5)) / interval


def maximum_likelihood_rate(gaps: Sequence[float], flags: Sequence[bool]) -> float:
    """The maximum-likelihood rate of visits at irregular intervals; infinite if every one saw a change."""
    quiet = sum(gap for gap, flag in zip(gaps, flags, strict=True) if not flag)
    busy = [gap for gap, flag in zip(gaps, flags, strict=True) if flag]
    if not busy:
        return 0.0
    if quiet <= 0:
        return math.inf
    low, high = 0.0, len(busy) / quiet  # gap / (e^(rate gap) - 1) < 1 / rate
    for _ in range(200):
        rate = (low + high) / 2
        if sum(gap / math.expm1(min(rate * gap, 700.0)) for gap in busy) > quiet:
            low = rate
        else:
            high = rate
    return (low + high) / 2


MINUTE, YEAR = 60.0, 365 * DAY_S
SCALES = {"a minute": MINUTE, "an hour": 3600.0, "a day": DAY_S, "a year": YEAR}

Visits = list[tuple[float, bool]]


def watch(rng: random.Random, rate: float, gap: float, visits: int, regular: bool = True) -> Visits:
    """What visits of a page see that changes at this rate."""
    gaps = [gap if regular else rng.expovariate(1 / gap) for _ in range(visits)]
    return [(one, rng.random() < -math.expm1(-rate * one)) for one in gaps]


def watch_changes(rng: random.Random, rate: float, gap: float, changes: int) -> Visits:
    """Visits until so many changes were seen."""
    seen: Visits = []
    while sum(changed for _, changed in seen) < changes:
        seen += watch(rng, rate, gap, 1)
    return seen


def fit(seen: Visits, prior: RatePrior = NO_PRIOR, quiet: float = 0.0, dated: int = 0) -> tuple[float, float]:
    quiet, gaps = evidence(seen, quiet)
    return change_rate.fit_rate(quiet, dated, gaps, *prior)


def belief_in(seen: Visits, prior: RatePrior = NO_PRIOR, quiet: float = 0.0, dated: int = 0) -> Belief:
    alpha, beta = fit(seen, prior, quiet, dated)
    quiet, gaps = evidence(seen, quiet)
    return make_belief(alpha, beta, quiet, dated, gaps)


def evidence(seen: Visits, quiet: float) -> tuple[float, list[int]]:
    gaps = [0] * (2 * change_rate.GAPS_MAX)
    for gap, changed in seen:
        if changed:
            change_rate.add_gap(gaps, gap)
        else:
            quiet += gap
    return quiet, gaps


def exact_quantiles(seen: Visits, prior: RatePrior) -> tuple[float, float, float]:
    """The 5, 50 and 95 % quantiles of the posterior under a log-normal prior, by summing over rates."""
    logs = np.linspace(prior.mean - 40, prior.mean + 40, 160_001)
    rates = np.exp(logs)
    density = -((logs - prior.mean) ** 2) * prior.precision / 2
    for gap, changed in seen:
        with np.errstate(divide="ignore", over="ignore"):
            density += np.log(-np.expm1(-rates * gap)) if changed else -rates * gap
    shares = np.cumsum(np.exp(density - density.max()))
    low, middle, high = (float(np.exp(np.interp(share, shares / shares[-1], logs))) for share in (0.05, 0.5, 0.95))
    return low, middle, high


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("expected", [0.05, 0.3, 1.0])
def test_after_ten_changes_the_rate_is_believed_on_every_time_scale(scale, expected):
    rng = random.Random(1)
    found = [believe(watch_changes(rng, 1 / scale, expected * scale, 10))[0] * scale for _ in range(1000)]
    assert 0.85 <= statistics.median(found) <= 1.15


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("visits", [1, 2, 3, 5, 10, 30, 100, 300])
def test_nine_times_of_ten_the_truth_lies_within_the_interval(scale, visits):
    """Visits at a gap that is .03 to 3 times the mean time between changes, regular or not."""
    rng, inside, runs = random.Random(visits), 0, 1200 if visits < 100 else 400
    for run in range(runs):
        gap = scale * math.exp(rng.uniform(math.log(0.03), math.log(3.0)))
        _, low, high = believe(watch(rng, 1 / scale, gap, visits, regular=run % 2 == 0))
        inside += low <= 1 / scale <= high
    assert 0.85 <= inside / runs <= 0.97


def test_a_page_that_always_changed_is_believed_to_change_at_least_so_often():
    rng, holds = random.Random(7), 0
    for _ in range(500):
        seen = watch(rng, 1.0, 6.0, 20)
        rate, low, high = believe(seen)
        assert rate >= low
        assert high == math.inf or not all(changed for _, changed in seen)
        holds += low <= 1.0
    assert holds >= 0.95 * 500


def test_one_change_seen_tells_nothing_of_how_often():
    rate, low, high = believe([(DAY_S, True)])
    assert high == math.inf
    assert low < 0.3 / DAY_S < rate


def test_a_belief_does_not_depend_on_the_unit_of_time():
    rng = random.Random(3)
    seen = watch(rng, 0.2, 1.0, 40)
    slow = believe(seen)
    for times in (2.0**-20, 2.0**10, 2.0**24):
        fast = believe([(gap * times, changed) for gap, changed in seen])
        assert [one * times for one in fast] == pytest.approx(slow, rel=1e-6)


def test_no_observation_is_a_belief_too_and_nonsense_is_refused():
    rate, low, high = believe([])
    assert 0 < low < rate < high < math.inf
    assert believe([(0.0, True), (0.0, False)]) == (rate, low, high)
    for gap in (math.nan, math.inf, -1.0):
        with pytest.raises(ValueError, match="finite number of seconds"):
            believe([(gap, True)])


def test_a_fast_page_is_found_though_its_first_visit_came_late():
    """A year without a visit, then one every ten minutes: the long gap must not hold the rate down."""
    rng = random.Random(5)
    found = [believe([(YEAR, True), *watch(rng, 6 / DAY_S * 24, 600.0, 30)])[0] * DAY_S / 144 for _ in range(200)]
    assert 0.85 < statistics.median(found) < 1.15


def test_the_belief_is_near_the_exact_posterior_where_other_pages_are_known():
    rng, prior = random.Random(4), RatePrior(math.log(0.1), 0.1)
    for rate in (0.02, 0.1, 0.5, 2.0):
        seen = watch(rng, rate, 1.0, 60, regular=False)
        low, middle, high = exact_quantiles(seen, prior)
        belief = belief_in(seen, prior)
        assert belief.median == pytest.approx(middle, rel=0.08)
        assert belief.bounds == pytest.approx((low, high), rel=0.25)


ONE_SIDED = {"one change": [(1.0, True)], "three changes": [(1.0, True)] * 3, "no change": [(1.0, False)] * 3}


@pytest.mark.parametrize("seen", [*ONE_SIDED.values(), [(1.0, True), (1.0, False)]], ids=[*ONE_SIDED, "both"])
@pytest.mark.parametrize("precision", [0.035, 0.05, 0.2, 1.0])
@pytest.mark.parametrize("mean", [-6.0, 0.0, 6.0])
def test_a_wide_belief_is_the_exact_posterior(seen, precision, mean):
    prior = RatePrior(mean, precision)
    low, middle, high = exact_quantiles(seen, prior)
    belief = belief_in(seen, prior)
    assert belief.median == pytest.approx(middle, rel=0.05)
    assert belief.bounds == pytest.approx((low, high), rel=0.15)


def test_the_two_kinds_of_belief_join():
    """A Gamma that was wide when the last change came is narrow now: nothing jumps."""
    rng, prior = random.Random(11), RatePrior(0.0, 0.1)
    for _ in range(20):
        seen = watch(rng, 1.0, 0.7, 14)
        alpha, beta = fit(seen, prior)
        quiet, gaps = evidence(seen, 0.0)
        if alpha < NARROW_ALPHA_MIN - 1:
            continue
        narrow = NarrowBelief(alpha, beta)
        wide = make_belief(NARROW_ALPHA_MIN - 1e-9, beta * NARROW_ALPHA_MIN / alpha, quiet, 0, gaps)
        assert isinstance(wide, WideBelief)
        assert narrow.fresh_probability(0.5) == pytest.approx(wide.fresh_probability(0.5), abs=0.06)


@pytest.mark.parametrize("decades", [0, 2, 4, 8])
def test_with_learned_priors_the_interval_holds_nine_times_of_ten(decades):
    """Pages whose rates lie within so many decades, and are learned together. Gaps are spread as far as the rates."""
    rng, pages = random.Random(decades), 300
    width = decades * math.log(10)
    rates = [math.exp((number / pages - 0.5) * width) for number in range(pages)]
    kept = [record_first_visit(0.0) for _ in rates]
    sums = RateSums()
    for visits in range(1, 31):
        for number, rate in enumerate(rates):
            page = kept[number]
            if page.has_evidence:
                sums = sums.plus(page.alpha, page.beta, -1)
            gap = math.exp(rng.uniform(-0.5, 0.5) * max(width, math.log(100)))
            changed = rng.random() < -math.expm1(-rate * gap)
            kept[number] = page = record_visit(page, page.last + gap, changed, prior=log_rate_prior(sums))
            sums = sums.plus(page.alpha, page.beta)
        if visits in (1, 3, 10, 30):
            bounds = [page.bounds for page in kept]
            holds = sum(low <= rate for (low, _), rate in zip(bounds, rates, strict=True)) / pages
            inside = sum(low <= rate <= high for (low, high), rate in zip(bounds, rates, strict=True)) / pages
            assert inside >= 0.85
            assert holds >= 0.9
            assert statistics.median(low / rate for (low, _), rate in zip(bounds, rates, strict=True)) > 1e-4


def test_where_rates_lie_far_apart_a_change_still_says_at_least():
    """One visit after ten days that found a change: hardly less than once in some hundred days, perhaps far more."""
    page = record_first_visit(0.0, RatePrior(math.log(1 / DAY_S), 0.05))
    page = record_visit(page, 10 * DAY_S, changed=True, prior=RatePrior(math.log(1 / DAY_S), 0.05))
    low, high = page.bounds
    assert 1 / 200 < low * DAY_S < 1 / 10
    assert high == math.inf
    assert 0.5 < page.estimate * DAY_S < 30
    assert page.fresh_probability(20 * DAY_S) < 0.2


def test_groups_of_gaps_lose_hardly_anything():
    """Gaps over four decades, in five groups: the estimate is that of each gap by itself."""
    rng = random.Random(6)
    found, exactly = [], []
    for _ in range(60):
        gaps = [10 ** rng.uniform(-2, 2) for _ in range(80)]
        seen = [(gap, rng.random() < -math.expm1(-gap)) for gap in gaps]
        found.append(believe(seen)[0])
        exactly.append(maximum_likelihood_rate(*zip(*seen, strict=True)))
    ratios = [one / other for one, other in zip(found, exactly, strict=True)]
    assert statistics.median(ratios) == pytest.approx(1.0, abs=0.05)
    assert max(ratios) < 1.5 and min(ratios) > 0.67


def test_dates_keep_a_fast_page_identifiable():
    """Visited every five days, it changes twice a day: it has always changed. Its dates tell how often."""
    rng = random.Random(1)
    quiet = sum(rng.expovariate(2.0) * DAY_S for _ in range(30))
    alpha, beta = fit([], quiet=quiet, dated=30)
    assert alpha / beta * DAY_S == pytest.approx(2.0, rel=0.4)
    assert change_rate.cannot_be_told(0.0, 0, (30, 30 * change_rate.log_step(5 * DAY_S)), alpha / beta)
    assert not change_rate.cannot_be_told(quiet, 30, (), alpha / beta)


def test_the_other_pages_of_a_site_are_the_prior_of_a_page():
    rng = random.Random(8)
    site = RateSums()
    for _ in range(200):
        site = site.plus(*fit(watch(rng, 1 / DAY_S * math.exp(rng.gauss(0, 0.5)), DAY_S, 30)))
    prior = log_rate_prior(site)
    assert math.exp(prior.mean) * DAY_S == pytest.approx(1.0, rel=0.2)
    alpha, beta = fit([], prior)
    assert alpha / beta * DAY_S == pytest.approx(1.0, rel=0.2)
    # It is no limit: a page a thousand times as fast is believed after some visits.
    fast = belief_in(watch(rng, 1000 / DAY_S, DAY_S / 2000, 120), prior).median
    assert fast * DAY_S == pytest.approx(1000, rel=0.5)


def test_sums_of_sites_do_not_depend_on_order_and_can_be_taken_back():
    beliefs = [(1.0, 5.0), (0.3, 1e6), (40.0, 2e3)]
    one = two = RateSums()
    for belief in beliefs:
        one = one.plus(*belief)
    for belief in reversed(beliefs):
        two = two.plus(*belief)
    assert one == pytest.approx(two)
    for belief in beliefs:
        one = one.plus(*belief, -1)
    assert one == pytest.approx((0.0, 0.0, 0.0), abs=1e-6)
    assert log_rate_prior(RateSums()) == NO_PRIOR


def test_a_small_site_leans_on_its_collection():
    collection = RateSums()
    for _ in range(1000):
        collection = collection.plus(50.0, 50.0 * DAY_S)
    own = RateSums().plus(50.0, 50.0 * YEAR)
    mean = math.exp(log_rate_prior(own, collection).mean)
    assert 1 / YEAR < mean < 1 / DAY_S
    assert log_rate_prior(own, collection).precision < log_rate_prior(RateSums(), collection).precision


@given(
    seen=st.lists(st.tuples(st.floats(0, 1e10), st.booleans()), max_size=40),
    quiet=st.floats(0, 1e10), dated=st.integers(0, 10_000),
    mean=st.floats(-40, 10), precision=st.sampled_from([0.0, 1e-3, 0.05, 1.0, 1e5]),
)  # fmt: skip
def test_whatever_is_seen_leaves_a_belief(seen, quiet, dated, mean, precision):
    after = fit([(gap, changed) for gap, changed in seen if gap], RatePrior(mean, precision), quiet, dated)
    assert all(math.isfinite(value) and value > 0 for value in after)
    belief = belief_in([(gap, changed) for gap, changed in seen if gap], RatePrior(mean, precision), quiet, dated)
    low, high = belief.bounds
    assert 0 <= low <= belief.median <= high < math.inf
    assert 0 <= belief.fresh_probability(1e6) <= 1 + 1e-9


@given(gap=st.floats(1e-3, 1e7), seen=st.lists(st.tuples(st.floats(1e-2, 1e6), st.booleans()), min_size=1, max_size=10))
def test_a_change_raises_the_estimate_and_none_lowers_it(gap, seen):
    prior = RatePrior(-10.0, 0.1)
    before, more, less = (
        math.log(a / b) for a, b in (fit([*seen, *one], prior) for one in ([], [(gap, True)], [(gap, False)]))
    )
    rounding = 0.15  # of gaps, and of groups that were joined
    assert less <= before + 1e-3 and before <= more + rounding


@given(st.lists(st.floats(1e-3, 1e9), min_size=1, max_size=60))
def test_groups_count_every_gap(gaps):
    places = [0] * (2 * change_rate.GAPS_MAX)
    for gap in gaps:
        change_rate.add_gap(places, gap)
    assert sum(places[::2]) == len(gaps)
    assert sum(places[1::2]) == sum(map(change_rate.log_step, gaps))


def test_cho_and_garcia_molina_2003_improved_estimator():
    """Ten visits: naive 0.6 a visit for six changes, improved -log((10 - 6 + .5) / (10 + .5))."""
    assert naive_rate(6, 10.0) == 0.6
    assert cho_garcia_molina_rate(6, 10, 1.0) == pytest.approx(-math.log(4.5 / 10.5))
    assert math.isfinite(cho_garcia_molina_rate(10, 10, 1.0))


def test_the_naive_estimator_is_too_low_and_the_others_are_not():
    rng, rate, rounds = random.Random(5), 1.5, 300
    naive = improved = likeliest = 0.0
    for _ in range(rounds):
        flags = [rng.random() < -math.expm1(-rate) for _ in range(40)]
        naive += naive_rate(sum(flags), 40.0) / rounds
        improved += cho_garcia_molina_rate(sum(flags), 40, 1.0) / rounds
        likeliest += maximum_likelihood_rate([1.0] * 40, flags) / rounds
    assert naive < 0.6 * rate
    assert improved == pytest.approx(rate, rel=0.03)
    assert likeliest == pytest.approx(rate, rel=0.08)


def test_the_likeliest_rate_of_irregular_visits_solves_its_equation():
    gaps, flags = [1.0, 2.0, 0.5, 4.0, 3.0], [True, False, True, True, False]
    rate = maximum_likelihood_rate(gaps, flags)
    slope = sum(gap / math.expm1(rate * gap) for gap, flag in zip(gaps, flags, strict=True) if flag)
    assert slope == pytest.approx(5.0)
    assert maximum_likelihood_rate([1.0, 2.0], [False, False]) == 0.0
    assert maximum_likelihood_rate([1.0, 2.0], [True, True]) == math.inf
