"""How many revisits may be made: they come at a rate, some can be saved, and saved ones are spent slowly."""

import pytest

from tarrafa.revisit.budget import AT_ONCE_S, PEAK, SAVED_S, BudgetLimit, TokenBucket

ONE_A_SECOND = BudgetLimit.from_rate(1.0)


def spend_all(tokens: TokenBucket, limit: BudgetLimit, now: float) -> int:
    made = 0
    while tokens.available(limit, now):
        tokens.spend(limit, now)
        made += 1
    return made


def test_a_new_bucket_has_two_tokens_and_not_those_of_an_hour():
    tokens = TokenBucket()
    assert [spend_all(tokens, ONE_A_SECOND, 100.0 + second) for second in range(61)] == [2] + 60 * [1]


def test_what_a_pause_saved_is_spent_at_twice_the_rate_and_never_at_once():
    tokens = TokenBucket()
    spend_all(tokens, ONE_A_SECOND, 100.0)
    made = [spend_all(tokens, ONE_A_SECOND, 1e6 + tenth / 10) for tenth in range(2 * 36_000)]
    assert made[0] == PEAK * AT_ONCE_S == 4
    seconds = [sum(made[tenth : tenth + 10]) for tenth in range(10, len(made), 10)]
    assert set(seconds[:3500]) == {2}
    assert set(seconds[3700:]) == {1}
    assert sum(made) == pytest.approx(7200 + SAVED_S, abs=4)


def test_a_small_rate_saves_two():
    limit, tokens = BudgetLimit.from_rate(0.1 / 3600), TokenBucket()
    spend_all(tokens, limit, 100.0)
    assert tokens.available(limit, 100.0 + 35_000) == 0
    assert tokens.available(limit, 100.0 + 36_000) == 1
    assert tokens.available(limit, 1e9) == 2


def test_at_a_fast_clock_callers_come_seldom_and_still_spend_the_whole_rate():
    limit, tokens = BudgetLimit.from_rate(1.0, clock_scale=10_000.0), TokenBucket()
    spend_all(tokens, limit, 0.0)
    assert sum(spend_all(tokens, limit, call * 2_000.0) for call in range(1, 101)) == pytest.approx(200_000, rel=0.01)


def test_asking_changes_nothing():
    asked, silent = TokenBucket(), TokenBucket()
    for one in (asked, silent):
        one.spend(ONE_A_SECOND, 100.0)
    asked.available(ONE_A_SECOND, 100.5)
    asked.next_ahead_at(ONE_A_SECOND, 100.5)
    assert asked.available(ONE_A_SECOND, 101.0) == silent.available(ONE_A_SECOND, 101.0) == 2


@pytest.mark.parametrize("per_s", [1e-5, 0.01, 1.0, 100.0])
def test_the_time_of_the_next_token_is_when_one_is_there(per_s):
    limit, tokens, now = BudgetLimit.from_rate(per_s), TokenBucket(), 1.7e9
    for _ in range(100):
        spend_all(tokens, limit, now)
        soon = tokens.next_at(limit, now)
        assert now < soon <= now + 1.01 / per_s
        assert tokens.available(limit, soon - 0.01 / per_s) == 0
        now = soon
        assert tokens.available(limit, now) == 1


@pytest.mark.parametrize("per_s", [1e-5, 0.01, 1.0])
def test_from_half_of_what_can_be_saved_on_revisits_are_made_ahead(per_s):
    limit, tokens = BudgetLimit.from_rate(per_s), TokenBucket()
    spend_all(tokens, limit, 0.0)
    ahead_at = tokens.next_ahead_at(limit, 0.0)
    assert ahead_at == pytest.approx(max(SAVED_S / 2, 1.0 / per_s))
    assert tokens.available_ahead(limit, ahead_at - 0.1 / per_s) == 0
    assert tokens.available_ahead(limit, ahead_at) == 1
    tokens.spend(limit, ahead_at)
    assert tokens.available_ahead(limit, ahead_at) == 0
    assert tokens.next_ahead_at(limit, ahead_at) == pytest.approx(ahead_at + 1.0 / per_s)
