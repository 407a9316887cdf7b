"""Change estimate of a page for people: changes a day, probability that the copy is fresh, reason of the next revisit.

Presents the frontier's estimate for a page that it keeps fresh, in words and in numbers that people use (changes a
day).
Promises: pure.
"""

import math

import msgspec

from tarrafa.config import Collection
from tarrafa.frontier.messages import PageFreshness
from tarrafa.frontier.store.revisits import LISTING_SHELF, RETRY_SHELF
from tarrafa.i18n import ENGLISH, Message, Translator, message
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.policy import ANNOUNCED_SHELF, PROBE_SHELF, UNKNOWN_SHELF, IndexPolicy, proportional_interval


class ChangeEstimate(msgspec.Struct, frozen=True):
    """Estimate of a page's changes, as in `explain --json`."""

    changes_per_day: float
    low: float  # the true value lies between `low` and `high` nine times out of ten
    high: float | None  # None: as it has changed at (nearly) every visit, the true value may be any larger one
    visits: int
    changes: int
    weight: float
    fresh: float  # probability that the kept copy is what the page says now
    dates: str
    due: float | None
    why: str


def estimate_changes(
    collection: Collection, found: PageFreshness, now: float, _: Translator = ENGLISH
) -> ChangeEstimate:
    page = found.history
    low, high = page.bounds
    return ChangeEstimate(
        changes_per_day=round(page.estimate * DAY_S, 6),
        low=round(low * DAY_S, 6),
        high=round(high * DAY_S, 6) if high < math.inf else None,
        visits=page.visits,
        changes=page.changes,
        weight=round(page.weight, 3),
        fresh=round(page.fresh_probability(now), 4),
        dates=_.render(_believed_dates(found)),
        due=found.due,
        why=_.render(revisit_reason(collection, found)),
    )


def _believed_dates(found: PageFreshness) -> Message:
    if found.dates_believed and found.announcements_believed:
        return message("Last-Modified and sitemap dates of its host are trusted")
    if found.dates_believed:
        return message("Last-Modified of its host is trusted")
    if found.announcements_believed:
        return message("sitemap dates of its host are trusted")
    return message("no dates of its host are trusted yet")


def revisit_reason(collection: Collection, found: PageFreshness) -> Message:
    """Why the next revisit of a page is due when it is."""
    page, revisit = found.history, collection.revisit
    if found.shelf < 0:
        return _special_reason(found)
    if revisit.policy == "index":
        return _index_policy_reason(collection, found)
    if revisit.policy == "proportional":
        span = _span(proportional_interval(page))
        return message("every {span}: the time observed by the changes seen", span=span)
    if revisit.policy == "rateupdate":
        return message("by its rate {rate:.3g}, computed anew every 24 h", rate=page.rate)
    if revisit.policy == "uniform":
        return message("every page is visited equally often")
    return message("the {policy} plan for {span} says so", policy=revisit.policy, span=_span(float(revisit.horizon)))


def _special_reason(found: PageFreshness) -> Message:
    if found.shelf == LISTING_SHELF:
        return message("a sitemap or feed: once a day, beside the plan")
    if found.shelf != RETRY_SHELF:
        return message("it gives its place to a more important page")
    if found.gone:
        return message("it was gone at the last visit: one more visit before it is dropped")
    return message("its last visit failed")


def _index_policy_reason(collection: Collection, found: PageFreshness) -> Message:
    """Reason of the next revisit by the index policy."""
    if found.shelf >= ANNOUNCED_SHELF:
        return message("its sitemap or feed says that it changed since the last visit")
    least = float(collection.revisit.interval_min)
    after = IndexPolicy(found.price, least).due(found.shelf, 0.0)
    if after == math.inf:
        return message("it changes so often that no visit would keep it fresh for long: others are worth more")
    if found.shelf >= PROBE_SHELF:
        return message(
            "it has changed at every visit: one only {span} after the last can tell how often", span=_span(after)
        )
    if found.shelf >= UNKNOWN_SHELF:
        return message(
            "a second visit tells how often it changes; that is worth it {span} after the first", span=_span(after)
        )
    return message(
        "a visit is worth it {span} after the last ({bar}), then the best of its host goes first",
        span=_span(after),
        bar="interval_min" if after == least else message("the price that the budget sets"),
    )


def _span(seconds: float) -> Message:
    if seconds >= 2 * DAY_S:
        return message("{count:.3g} days", count=seconds / DAY_S)
    if seconds >= 2 * 3600.0:
        return message("{count:.3g} h", count=seconds / 3600.0)
    if seconds >= 2 * 60.0:
        return message("{count:.3g} min", count=seconds / 60.0)
    return message("{count:.3g} s", count=seconds)
