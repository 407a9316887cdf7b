"""Change estimate of a page for people: changes a day, probability that the copy is fresh, reason of the next revisit.

What the frontier believes of a page that it keeps fresh, in words and in numbers that people use (changes a day).
Pure.
"""

import math

import msgspec

from tarrafa.config import Collection
from tarrafa.crawl.sentences import ENGLISH, Tongue
from tarrafa.frontier.messages import PageFreshness
from tarrafa.frontier.store.revisit_queue import LISTING_SHELF, RETRY_SHELF
from tarrafa.revisit.change_rate import DAY_S, rate_bounds
from tarrafa.revisit.policy import ANNOUNCED_SHELF, class_of, proportional_interval
from tarrafa.revisit.visit_value import age_at_price


class ChangeEstimate(msgspec.Struct, frozen=True):
    """What is believed of a page's changes, as `explain --json` gives it."""

    changes_per_day: float
    low: float  # nine times of ten the truth lies between these
    high: float
    visits: int
    changes: int
    weight: float
    fresh: float  # how probably the copy kept is what the page says now
    dates: str
    due: float | None
    why: str


def estimate_changes(collection: Collection, found: PageFreshness, now: float, say: Tongue = ENGLISH) -> ChangeEstimate:
    page = found.history
    low, high = rate_bounds(page.alpha, page.beta)
    age = max(0.0, now - page.last)
    return ChangeEstimate(
        changes_per_day=round(page.estimate * DAY_S, 6),
        low=round(low * DAY_S, 6),
        high=round(high * DAY_S, 6),
        visits=page.visits,
        changes=page.changes,
        weight=round(page.weight, 3),
        fresh=round(math.exp(-page.estimate * age), 4),
        dates=_dates(found, say),
        due=found.due,
        why=_why(collection, found, say),
    )


def _dates(found: PageFreshness, say: Tongue) -> str:
    modified = ["Last-Modified"] if found.dates_believed else []
    believed = [*modified, *([say("sitemap dates")] if found.announcements_believed else [])]
    if not believed:
        return say("no dates believed")
    both = say("dates and dates", one=believed[0], other=believed[1]) if len(believed) > 1 else believed[0]
    return say("dates believed", dates=both)


def _why(collection: Collection, found: PageFreshness, say: Tongue) -> str:
    page, revisit = found.history, collection.revisit
    if found.shelf < 0:
        return say(_special_reason(found))
    if revisit.policy == "index":
        return _index_policy_reason(collection, found, say)
    if revisit.policy == "proportional":
        return say("proportional", span=_span(proportional_interval(page), say))
    if revisit.policy == "rateupdate":
        return say("rateupdate", rate=page.rate)
    if revisit.policy == "uniform":
        return say("uniform")
    return say("planned", policy=revisit.policy, span=_span(float(revisit.horizon), say))


def _special_reason(found: PageFreshness) -> str:
    if found.shelf == LISTING_SHELF:
        return "a listing"
    if found.shelf != RETRY_SHELF:
        return "gives its place"
    return "grace" if found.gone else "last visit failed"


def _index_policy_reason(collection: Collection, found: PageFreshness, say: Tongue) -> str:
    """Of the index policy."""
    if found.shelf >= ANNOUNCED_SHELF:
        return say("announced")
    least = float(collection.revisit.interval_min)
    after = max(least, age_at_price(*class_of(found.shelf), found.price))
    if after == math.inf:
        return say("changes too often")
    return say("worth it", span=_span(after, say), bar="interval_min" if after == least else say("price"))


def _span(seconds: float, say: Tongue) -> str:
    for unit, length in (("days", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return say(unit, count=seconds / length)
    return say("s", count=seconds)
