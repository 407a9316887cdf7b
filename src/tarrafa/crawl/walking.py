"""What does the order of breadth have in store for a URL?

Words for `explain`, from where the URL's site stands in the frontier (`frontier/order/breadth.py`).
"""

from tarrafa.frontier.order.breadth import VAIN_MAX, goes_on
from tarrafa.frontier.protocol import SiteFacts, UrlFacts


def is_passed_over(known: UrlFacts) -> bool:
    """It waits, but nobody will ask for it in this run."""
    return known.state == "pending" and known.site is not None and known.site.stage == "over"


def why_over(site: SiteFacts | None) -> str:
    """Why a URL was passed over."""
    if site is None:
        return ""
    over = f"not in this run: the walk through {site.name} is over"
    if site.walked and not goes_on(site.walked, site.links):
        pages = "its only page" if site.walked == 1 else f"the last of its {site.walked} pages"
        return f"{over}: {pages} had {_counted(site.links, 'link')} to other sites, {2**site.walked:,} would lead on"
    if site.vain >= VAIN_MAX:
        return f"{over}: {site.vain} visits brought no page"
    if not site.walked and not site.vain:
        return f"{over}: it was visited before the order became breadth, or could not be"
    return f"{over}: after {_counted(site.walked, 'page')} nothing more of it waited"


def turn(known: UrlFacts, soon: str) -> str:
    """When a URL's turn comes, `soon` being when its host could be asked for it."""
    site = known.site
    if site is None or site.stage == "unheard":
        return soon
    is_best = site.best == known.url
    mentioned = f"{site.name} was mentioned {_counted(site.mentions, 'time')}"
    begins = f"the walk then begins with {'this URL' if is_best else site.best}"
    if site.stage == "listed":
        return (
            f"when its site is chosen: {mentioned} and waits in the table of {_counted(site.table, 'site')}; {begins}"
        )
    if site.stage == "heard":
        room = f"when its site comes into the table of {_counted(site.table, 'site')} and is chosen"
        return f"{room}: {mentioned}; {begins}"
    if is_best:
        return f"{soon}: it is page {site.walked + 1} of the walk through {site.name}"
    return (
        f"if the walk through {site.name} gets there: {_counted(site.walked, 'page')} so far, the next is {site.best};"
        " it goes on after page i while 2^i links lead to other sites"
    )


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
