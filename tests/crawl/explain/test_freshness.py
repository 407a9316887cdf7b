"""Why the next revisit of a page is due when it is, in words that agree with the policy."""

import math

import msgspec

from tarrafa.config import Collection
from tarrafa.config.sections import RevisitConfig
from tarrafa.crawl.explain.freshness import estimate_changes, revisit_reason
from tarrafa.frontier.messages import PageFreshness
from tarrafa.i18n import ENGLISH
from tarrafa.revisit.change_rate import DAY_S, RatePrior
from tarrafa.revisit.policy import IndexPolicy, PageHistory, record_first_visit, record_visit

KEPT_FRESH = Collection(name="c", roots=("http://a.br/",), revisit=RevisitConfig(policy="index"))
LEAST_S = float(KEPT_FRESH.revisit.interval_min)
WIDE = RatePrior(math.log(1 / DAY_S), 0.05)


def found(page: PageHistory, price: float = 0.0) -> PageFreshness:
    policy = IndexPolicy(price, LEAST_S)
    shelf, key = policy.place(page)
    return PageFreshness(page, policy.due(shelf, key), 0, shelf, price, False, False)


def reason(page: PageHistory, price: float = 0.0) -> str:
    return ENGLISH.render(revisit_reason(KEPT_FRESH, found(page, price)))


def test_a_page_that_was_visited_once_waits_for_a_second_visit():
    assert reason(record_first_visit(0.0), price=180.0) == (
        "a second visit tells how often it changes; that is worth it 60 min after the first"
    )


def test_a_page_that_always_changed_is_visited_again_soon():
    seen = record_visit(record_first_visit(0.0, WIDE), 10 * DAY_S, changed=True, prior=WIDE)
    told = found(seen, price=3 * DAY_S)
    assert told.due is not None and seen.last + LEAST_S < told.due < seen.last + 10 * DAY_S
    days = (told.due - seen.last) / DAY_S
    found_reason = reason(seen, price=3 * DAY_S)
    assert found_reason == f"it has changed at every visit: one only {days:.3g} days after the last can tell how often"
    assert "others are worth more" in reason(seen, price=1000 * DAY_S)
    estimate = estimate_changes(KEPT_FRESH, told, seen.last)
    assert (estimate.high, estimate.fresh) == (None, 1.0)
    assert 0 < estimate.low < estimate.changes_per_day


def test_a_page_whose_rate_is_known_waits_for_the_price():
    page = msgspec.structs.replace(record_first_visit(0.0), alpha=50.0, beta=50 * DAY_S, quiet=50 * DAY_S)
    assert reason(page).startswith(f"a visit is worth it {LEAST_S / 60:.3g} min after the last (interval_min), then")
    assert "the price that the budget sets" in reason(page, price=DAY_S / 4)
