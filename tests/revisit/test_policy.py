"""Where pages stand, and which one goes first."""

import math
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.revisit.change_rate import DAY_S, GAPS_MAX, RatePrior
from tarrafa.revisit.policy import (
    ANNOUNCED_SHELF,
    PROBE_SHELF,
    RATE_STEP,
    UNKNOWN_SHELF,
    UNKNOWN_WORTH,
    IndexPolicy,
    PageHistory,
    PlannedPolicy,
    ProportionalPolicy,
    RateUpdatePolicy,
    RevisitPolicy,
    UniformPolicy,
    choose_shelf,
    class_of,
    proportional_interval,
    record_first_visit,
    record_visit,
    shelf_of,
    updated_rate,
)
from tarrafa.revisit.visit_value import visit_value


def page(rate: float = 1.0, last: float = 0.0, **more: Any) -> PageHistory:
    return PageHistory(0.0, last, 4.0, 4.0 / rate, **more)


def test_thirty_daily_visits_with_ten_changes_give_three_days():
    seen = record_first_visit(0.0)
    for day in range(1, 31):
        seen = record_visit(seen, day * DAY_S, day % 3 == 0)
    assert proportional_interval(seen) == 3 * DAY_S
    shelf, key = ProportionalPolicy().place(seen)
    assert (shelf, ProportionalPolicy().due(shelf, key)) == (0, 33 * DAY_S)


def test_a_page_that_never_changed_is_left_alone_longer_and_longer():
    seen, gaps = record_first_visit(0.0), []
    for _ in range(12):
        gap = proportional_interval(seen)
        gaps.append(gap)
        seen = record_visit(seen, seen.last + gap, changed=False)
    assert gaps == sorted(gaps)
    assert gaps[-1] == 90 * DAY_S


def test_rateupdate_two_changes_and_three_days_give_two_thirds():
    assert updated_rate(2, 3) == pytest.approx(0.667, abs=5e-4)
    assert updated_rate(0, 3) == pytest.approx(1 / 3)
    assert updated_rate(99, 0.1) == 10
    assert updated_rate(0, 99) == 0.1


def test_rateupdate_all_are_equal_at_first_and_are_computed_anew_after_a_day():
    seen = record_first_visit(0.0)
    assert seen.rate == 1.0
    seen = record_visit(seen, DAY_S / 2, changed=True)
    assert seen.rate == 1.0
    seen = record_visit(seen, 3 * DAY_S, changed=True)
    assert seen.rate == pytest.approx(2 / 3)


def test_rateupdate_rate_two_is_visited_twice_as_often_as_one():
    policy = RateUpdatePolicy()
    assert policy.place(page(rate=1, last=10.0))[1] - 10.0 == DAY_S
    twice = policy.place(PageHistory(0, 10.0, 1, 1, rate=2.0))[1] - 10.0
    assert twice == DAY_S / 2


def test_uniform_visits_the_oldest_first_and_none_too_soon():
    policy = UniformPolicy(100.0)
    assert choose_shelf(policy, [policy.place(page(last=0.0))], 99.0) is None
    assert choose_shelf(policy, [policy.place(page(last=0.0))], 100.0) == 0


def test_a_page_that_the_plan_does_not_know_waits_for_the_next():
    plan = PlannedPolicy(7, end=1000.0)
    assert plan.place(page()) == (7, 1000.0)
    assert plan.due(7, 30.0) == 30.0
    assert plan.due(6, 30.0) == math.inf


def test_in_a_class_the_longest_unseen_is_the_best():
    policy = IndexPolicy()
    old, new = policy.place(page(last=0.0)), policy.place(page(last=5.0))
    assert old[0] == new[0]
    assert old[1] < new[1]
    assert policy.urgency(*old, 10.0) > policy.urgency(*new, 10.0)


@given(rate=st.floats(1e-9, 1.0), weight=st.floats(1e-3, 1e6))
def test_a_class_is_near_its_pages(rate, weight):
    near, heavy = class_of(shelf_of(rate, weight))
    assert 1 / math.sqrt(RATE_STEP) <= near / rate * (1 + 1e-9) and near / rate <= math.sqrt(RATE_STEP) * (1 + 1e-9)
    assert 0.7 <= heavy / weight <= 1.42


@given(st.lists(st.tuples(st.floats(1e-7, 1e-2), st.floats(0, 1e6)), min_size=1, max_size=30), st.floats(0, 1e6))
def test_the_best_head_of_the_index_policy_is_worth_the_most(pages, price):
    policy, now = IndexPolicy(price), 1e6
    heads: dict[int, float] = {}
    for rate, last in pages:
        shelf, key = policy.place(page(rate=rate, last=last))
        heads[shelf] = min(key, heads.get(shelf, math.inf))
    chosen = choose_shelf(policy, heads.items(), now)
    values = {shelf: visit_value(*class_of(shelf), now - key) for shelf, key in heads.items()}
    if chosen is None:
        assert max(values.values()) <= price * (1 + 1e-6) + 1e-9
    else:
        assert values[chosen] >= price * (1 - 1e-6) - 1e-9
        assert values[chosen] >= max(values.values()) * (1 - 1e-9)


def test_a_page_that_changes_too_often_is_not_worth_it_until_somebody_explores():
    policy = IndexPolicy(price=3600.0, interval_min=60.0)
    hopeless, good = policy.place(page(rate=1 / 60)), policy.place(page(rate=1 / 7200, last=10_000.0))
    assert policy.due(*hopeless) == math.inf
    now = policy.due(*good) + 1.0
    assert choose_shelf(policy, [hopeless, good], now) == good[0]
    assert choose_shelf(policy, [hopeless, good], now, explore=True) == hopeless[0]


def test_an_announced_change_goes_first():
    policy = IndexPolicy(price=10.0)
    told = page(rate=1 / 7200, last=100.0, announced=150.0)
    shelf, key = policy.place(told)
    assert shelf >= ANNOUNCED_SHELF
    assert policy.due(shelf, key) == 150.0
    quiet = policy.place(page(rate=1 / 7200, last=0.0))
    assert choose_shelf(policy, [quiet, (shelf, key)], 200.0) == shelf


def test_the_first_date_counts_once_dates_are_believed():
    seen = record_first_visit(1000.0, claimed=400.0)
    unsure = record_visit(seen, 1100.0, changed=False)
    sure = record_visit(unsure, 1200.0, changed=False, believed=True)
    assert (unsure.quiet, unsure.dated, unsure.birth) == (100.0, 0, 400.0)
    assert (sure.quiet, sure.dated, sure.birth) == (800.0, 1, 0)
    again = record_visit(sure, 1300.0, changed=False, believed=True)
    assert (again.quiet, again.dated) == (900.0, 1)


@pytest.mark.parametrize("unit", [1e-3, 1.0, DAY_S])
def test_a_page_of_which_nothing_is_known_gets_its_turn_on_a_clock_of_any_speed(unit):
    """Another page is visited every unit, and changes once in ten: it must not keep the new page waiting for ever."""
    policy, busy, new = IndexPolicy(), PageHistory(0.0, 0.0, 50.0, 500.0 * unit, quiet=unit), record_first_visit(0.0)
    for turn in range(1, 20):
        now = turn * unit
        chosen = choose_shelf(policy, [policy.place(busy), policy.place(new)], now)
        if chosen == policy.place(new)[0]:
            break
        busy = msgspec.structs.replace(busy, last=now)
    else:
        pytest.fail("the new page was never visited")
    assert IndexPolicy(price=10.0).due(*policy.place(new)) == 10.0 / UNKNOWN_WORTH
    alike = record_first_visit(0.0, RatePrior(math.log(0.1 / unit), 2.0))  # other pages tell how often it changes
    assert policy.place(alike)[0] < UNKNOWN_SHELF


def test_a_visit_that_an_announcement_caused_tells_how_long_the_change_took():
    """The visit comes a minute after the change, whatever the rate: that minute says nothing."""
    seen = msgspec.structs.replace(record_first_visit(0.0), announced=DAY_S)
    seen = record_visit(seen, DAY_S + 60.0, changed=True, modified=DAY_S, believed=True)
    assert (seen.dated, seen.quiet, seen.announced) == (1, DAY_S, 0)
    assert 0.2 < seen.estimate * DAY_S < 2.0


@pytest.mark.parametrize("changes_every", [0.1, 1.0, 3.0, 300.0, 3000.0])
def test_a_page_that_always_changed_is_probed_after_a_gap_that_the_price_sets(changes_every):
    """First visited a day apart. A few short gaps tell whether it stays fresh for as long as a visit must be worth."""
    price, prior = 10.0, RatePrior(math.log(1 / DAY_S), 0.05)
    policy = IndexPolicy(price)
    seen = record_visit(record_first_visit(0.0, prior), DAY_S, changed=True, prior=prior)
    gaps: list[float] = []
    while seen.needs_probe and (due := policy.due(*policy.place(seen))) < math.inf:
        assert ANNOUNCED_SHELF > policy.place(seen)[0] >= PROBE_SHELF
        gaps.append(due - seen.last)
        seen = record_visit(seen, due, changed=gaps[-1] > changes_every, prior=prior)
    assert gaps == pytest.approx([price] * len(gaps))
    assert 1 <= len(gaps) <= 5
    assert (policy.due(*policy.place(seen)) == math.inf) == (changes_every < price)


def test_a_probe_is_worth_the_age_of_its_page_and_no_more_than_a_visit_to_a_changed_page():
    prior = RatePrior(math.log(1 / DAY_S), 0.05)
    seen = record_visit(record_first_visit(0.0, prior, weight=4.0), DAY_S, changed=True, prior=prior)
    policy = IndexPolicy()
    shelf, key = policy.place(seen)
    assert policy.urgency(shelf, key, key + 60.0) == pytest.approx(240.0)
    most = policy.urgency(shelf, key, key + 1e9)
    assert most == pytest.approx(4.0 / class_of(shelf)[0])
    assert policy.due(shelf, key) == key and IndexPolicy(price=1.01 * most).due(shelf, key) == math.inf


def test_where_the_rates_of_other_pages_lie_near_each_other_no_probe_is_needed():
    for precision, needed in ((0.05, True), (0.3, True), (0.6, False), (5.0, False)):
        prior = RatePrior(math.log(1 / DAY_S), precision)
        seen = record_visit(record_first_visit(0.0, prior), DAY_S, changed=True, prior=prior)
        assert seen.needs_probe == needed
    assert record_visit(record_first_visit(0.0), DAY_S, changed=True).needs_probe  # nothing is known of other pages


def test_a_probe_is_not_worth_more_than_the_price_and_keeps_the_least_interval():
    prior = RatePrior(math.log(1 / DAY_S), 0.05)
    seen = record_visit(record_first_visit(0.0, prior), 60.0, changed=True, prior=prior)
    assert IndexPolicy(price=DAY_S).due(*IndexPolicy().place(seen)) == math.inf
    patient = IndexPolicy(interval_min=3600.0)
    assert patient.due(*patient.place(seen)) == seen.last + 3600.0
    for at in (3660.0, 7260.0, 10_860.0, 14_460.0):
        seen = record_visit(seen, at, changed=True, prior=prior)
    assert seen.needs_probe  # its shortest gap was tried once
    for at in (14_500.0, 14_550.0, 14_600.0, 14_650.0):
        seen = record_visit(seen, at, changed=True, prior=prior)
    assert not seen.needs_probe


def test_a_history_without_dates_takes_few_bytes():
    seen = record_first_visit(1.7e9)
    rng = random.Random(1)
    for _ in range(200):
        seen = record_visit(seen, seen.last + rng.expovariate(1 / DAY_S), changed=rng.random() < 0.5)
    assert len(seen.gaps) == 2 * GAPS_MAX
    assert len(msgspec.msgpack.encode(seen)) <= 105
    regular = record_first_visit(1.7e9)
    for day in range(30):
        regular = record_visit(regular, regular.last + DAY_S, changed=day % 3 == 0)
    assert len(msgspec.msgpack.encode(regular)) <= 85  # as many as with two floats alone for the belief


def test_an_index_policy_beats_taking_turns():
    """Ten pages, one visit an hour, rates from once in an hour to once in a month: by the closed form of staleness."""
    rng = random.Random(7)
    rates = [1 / rng.uniform(3600, 30 * DAY_S) ** 1.0 for _ in range(20)]
    stale = {
        name: _stale(policy, rates) for name, policy in (("index", IndexPolicy()), ("uniform", UniformPolicy(0.0)))
    }
    assert stale["index"] < stale["uniform"]


def _stale(policy: RevisitPolicy, rates: list[float], hours: int = 24 * 60) -> float:
    from tarrafa.revisit.visit_value import stale_time

    last, total = [0.0] * len(rates), 0.0
    for hour in range(1, hours):
        now = hour * 3600.0
        places = [policy.place(page(rate=rate, last=at)) for rate, at in zip(rates, last, strict=True)]
        best = max(range(len(rates)), key=lambda n: policy.urgency(*places[n], now))
        total += stale_time(rates[best], now - last[best])
        last[best] = now
    end = hours * 3600.0
    total += sum(stale_time(rate, end - at) for rate, at in zip(rates, last, strict=True))
    return total / end / len(rates)
