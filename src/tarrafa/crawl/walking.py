"""What does the order of breadth have in store for a URL?

Words for `explain`, from where the URL's site stands in the frontier (`frontier/order/breadth.py`).
"""

from tarrafa.crawl.sayings import ENGLISH, Tongue
from tarrafa.frontier.order.breadth import FRUITLESS_VISITS_MAX, continues_walk
from tarrafa.frontier.protocol import SiteFacts, UrlFacts


def is_passed_over(known: UrlFacts) -> bool:
    """It waits, but nobody will ask for it in this run."""
    return known.state == "pending" and known.site is not None and known.site.stage == "over"


def passed_over_reason(site: SiteFacts | None, say: Tongue = ENGLISH) -> str:
    """Why a URL was passed over."""
    return "" if site is None else say("over", site=site.name, why=_walk_end_reason(site, say))


def _walk_end_reason(site: SiteFacts, say: Tongue) -> str:
    """Of a walk."""
    if site.walked and not continues_walk(site.walked, site.links):
        page = "over by the only page" if site.walked == 1 else "over by the last page"
        return say(page, walked=site.walked, links=site.links, needed=2**site.walked)
    if site.vain >= FRUITLESS_VISITS_MAX:
        return say("over in vain", vain=site.vain)
    if not site.walked and not site.vain:
        return say("over before")
    return say("over with nothing left", walked=site.walked)


def breadth_turn_text(known: UrlFacts, soon: str, say: Tongue = ENGLISH) -> str:
    """When a URL's turn comes, `soon` being when its host could be asked for it."""
    site = known.site
    if site is None or site.stage == "unheard":
        return soon
    is_best = site.best == known.url
    if site.stage in ("listed", "heard"):
        mentioned = say("mentioned", site=site.name, mentions=site.mentions)
        begins = say("begins here" if is_best else "begins with", best=site.best)
        return say(site.stage, table=site.table, mentioned=mentioned, begins=begins)
    if is_best:
        return say("next of the walk", soon=soon, number=site.walked + 1, site=site.name)
    return say("if the walk gets there", site=site.name, walked=site.walked, best=site.best)
