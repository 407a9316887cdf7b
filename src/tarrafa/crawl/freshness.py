"""How often does a page change, how sure is that, and why is it seen again when it is?

What the frontier believes of a page that it keeps fresh, in words and in numbers that people use (changes a day). Pure.
"""

import math

import msgspec

from tarrafa.config import Collection
from tarrafa.frontier.protocol import Freshness
from tarrafa.frontier.store.revisits import LATER, LISTED
from tarrafa.revisit.estimate import DAY_S, bounds
from tarrafa.revisit.policy import ANNOUNCED, class_of, proportional_interval
from tarrafa.revisit.staleness import age_worth


class Believed(msgspec.Struct, frozen=True):
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


def believed(collection: Collection, found: Freshness, now: float) -> Believed:
    page = found.history
    low, high = bounds(page.alpha, page.beta)
    age = max(0.0, now - page.last)
    return Believed(
        changes_per_day=round(page.estimate * DAY_S, 6),
        low=round(low * DAY_S, 6),
        high=round(high * DAY_S, 6),
        visits=page.visits,
        changes=page.changes,
        weight=round(page.weight, 3),
        fresh=round(math.exp(-page.estimate * age), 4),
        dates=_dates(found),
        due=found.due,
        why=_why(collection, found),
    )


def _dates(found: Freshness) -> str:
    believed = [
        name
        for name, trusted in (
            ("Last-Modified", found.dates_believed),
            ("sitemap dates", found.announcements_believed),
        )
        if trusted
    ]
    return " and ".join(believed) + " of its host are believed" if believed else "no dates of its host are believed yet"


def _why(collection: Collection, found: Freshness) -> str:
    page, revisit = found.history, collection.revisit
    if found.shelf < 0:
        return _own(found)
    if revisit.policy == "index":
        return _worth(collection, found)
    reasons = {
        "proportional": f"every {_span(proportional_interval(page))}: the time observed by the changes seen",
        "rateupdate": f"by its rate {page.rate:.3g}, computed anew every 24 h",
        "uniform": "every page equally often",
    }
    return reasons.get(revisit.policy, f"the {revisit.policy} plan for {_span(float(revisit.horizon))} says so")


def _own(found: Freshness) -> str:
    if found.shelf == LISTED:
        return "a sitemap or feed: once a day, beside the plan"
    if found.shelf != LATER:
        return "it gives its place to a more important page"
    return "it was gone the last time: one grace visit" if found.gone else "its last visit failed"


def _worth(collection: Collection, found: Freshness) -> str:
    """Of the index policy."""
    if found.shelf >= ANNOUNCED:
        return "its sitemap or feed says that it changed since the last visit"
    least = float(collection.revisit.interval_min)
    after = max(least, age_worth(*class_of(found.shelf), found.price))
    if after == math.inf:
        return "it changes so often that no visit would keep it fresh for long: others are worth more"
    bar = "interval_min" if after == least else "the price that the budget sets"
    return f"a visit is worth it {_span(after)} after the last ({bar}), then the best of its host goes first"


def _span(seconds: float) -> str:
    for unit, length in (("days", DAY_S), ("h", 3600.0), ("min", 60.0)):
        if seconds >= 2 * length:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds:.3g} s"
