"""How many revisits may go out: they come at a rate, and a few can be saved up."""

from tarrafa.frontier.store.collections import TokenBucket


def test_they_come_at_the_rate_up_to_what_can_be_saved():
    tokens = TokenBucket()
    assert tokens.available(1.0, 3.0, 100.0) == 2, "the first two"
    for _ in range(2):
        tokens.spend(1.0, 3.0, 100.0)
    assert tokens.available(1.0, 3.0, 100.0) == 0
    assert tokens.available(1.0, 3.0, 102.5) == 2
    assert tokens.available(1.0, 3.0, 1_000.0) == 3


def test_the_budget_of_an_hour_is_not_there_at_the_start():
    tokens = TokenBucket()
    made = 0
    for second in range(61):
        while tokens.available(1.0, 3_600.0, 100.0 + second):
            tokens.spend(1.0, 3_600.0, 100.0 + second)
            made += 1
    assert made == 62, "one a second, and the first two"


def test_asking_changes_nothing():
    asked, silent = TokenBucket(), TokenBucket()
    for one in (asked, silent):
        one.spend(0.1, 2.0, 100.0)
        one.spend(0.1, 2.0, 100.0)
    asked.available(0.1, 2.0, 105.0)
    assert asked.available(1.0, 5.0, 110.0) == silent.available(1.0, 5.0, 110.0) == 5
