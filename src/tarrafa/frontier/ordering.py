"""Orders of discovery: rank of each pending URL (fifo, lifo, random, backlinks, breadth), and the rules of breadth.

`plain_rank` computes the four plain orders; `QueueOrder` is a whole `[strategy]`, including breadth with its URL score.
The smallest rank goes first. The rows that breadth needs are in `store/breadth_sites.py`.

`favour` and `penalise` act in every order. Breadth has both in its score. In the other orders a penalised URL goes
after all that are not penalised, and before those that failed. Either all URLs of a host are favoured or none is, so
favour cannot order a host's queue: there the favoured *hosts* go first, when several could be visited
(`ReadyQueue` in `store/leases.py`).
Promises: pure; touches neither network nor disk nor clock.
"""

import re
from enum import IntEnum
from fnmatch import translate
from functools import lru_cache

from tarrafa.config.sections import HostMatcher, StrategyConfig, UrlScoreWeights
from tarrafa.model import LISTING_ROLES, UrlId, UrlRole
from tarrafa.parse.url import name_and_port

TIE_BREAK = 1e-12  # the discovery number decides between equals; a thousand billion of them stay below one in-link
FAILED_OFFSET = 1e15  # beyond every other rank
# Requisites come before every page of their host, so that a page and what it needs are of the same time. Their ranks
# are below REQUISITE_RANK_MAX, above those of pages to be dismissed, and exact whole numbers.
REQUISITE = int(UrlRole.REQUISITE)  # an int is compared in a fifth of the time
REQUISITE_OFFSET, REQUISITE_RANK_MAX, REQUISITE_FAILED_OFFSET = -8e15, -5e15, 1e12
PENALTY_OFFSET = FAILED_OFFSET / 2  # beyond every rank of URLs that are not penalised; none of them reaches it
ORDERS_CACHED_MAX = 1_000
FRUITLESS_VISITS_MAX = 5  # visits of one site session without a page


def plain_rank(order: str, sequence: int, url_id: UrlId, in_links: int, attempts: int = 0) -> float:
    """Rank in one of the plain orders; `sequence` is the URL's number in the order of discovery.

    A URL that failed before goes last: it must not hold up the other URLs of its host.
    """
    if order == "lifo":
        place = float(-sequence)
    elif order == "random":
        place = float(int.from_bytes(url_id[:6], "big"))
    elif order == "backlinks":
        place = sequence * TIE_BREAK - in_links
    else:
        place = float(sequence)
    return place + attempts * FAILED_OFFSET


class QueueOrder:
    """The order that one `[strategy]` defines."""

    def __init__(self, strategy: StrategyConfig) -> None:
        self._strategy = strategy
        self._favoured = HostMatcher(strategy.favour)
        patterns = "|".join(translate(pattern) for pattern in strategy.penalise)
        self._penalised = re.compile(patterns) if patterns else None

    @property
    def is_breadth(self) -> bool:
        return self._strategy.order == "breadth"

    def favours(self, url: str) -> bool:
        """Whether `favour` names the host of this URL, or of a host key with a slash behind it."""
        return bool(self._strategy.favour) and self._favoured.matches(*name_and_port(url))

    def penalises(self, url: str) -> bool:
        return self._penalised is not None and self._penalised.match(url) is not None

    def score(self, url: str) -> float:
        return url_score(url, self.favours(url), self.penalises(url), self._strategy.weights)

    def rank(self, url: str, sequence: int, url_id: UrlId, in_links: int, attempts: int, role: int) -> float:
        """Breadth looks for other sites: sitemaps and feeds, which list pages of a known site, come after the pages."""
        if role == REQUISITE:
            return REQUISITE_OFFSET + sequence + attempts * REQUISITE_FAILED_OFFSET
        if self.is_breadth:
            place = sequence * TIE_BREAK - self.score(url) + (role in LISTING_ROLES) * PENALTY_OFFSET
            return place + attempts * FAILED_OFFSET
        place = plain_rank(self._strategy.order, sequence, url_id, in_links, attempts)
        return place + self.penalises(url) * PENALTY_OFFSET


@lru_cache(maxsize=ORDERS_CACHED_MAX)
def order_of(strategy: StrategyConfig) -> QueueOrder:
    return QueueOrder(strategy)


# -- breadth --------------------------------------------------------------------------------------------------
#
# The other orders decide which URL of a *host* comes first, and all hosts are visited side by side. Breadth looks for
# new *sites* (registered domains), and enters each only as far as it leads to others.
#
# - The *site table* has one row for each site that is known and not yet visited: the number of its mentions (the sum
#   of the in-links of its URLs, as the link graph counts them), and its best URL by score. The table has a maximum. A
#   site that finds it full is left out, not forgotten: its mentions are still counted, and it enters when the table has
#   room, or when it has more mentions than the least mentioned site in the table, which leaves.
# - A *cycle* updates the table and chooses its most mentioned sites; between equals, those with the better URL. A
#   chosen site never returns to the table in that run.
# - A *site session* (a walk) visits one chosen site, one page at a time: first its best URL, then the best of the URLs
#   known by then. After its i-th page, with N distinct links to other sites on it, the session continues while
#   2^i <= N: the second page is fetched if the first links to two pages of other sites or more, the tenth only if the
#   ninth links to 512.
#
# A visit without a page (404, a redirect, excluded by robots.txt) does not count as an i-th page: the next best URL is
# tried, a few times. A URL to be tried again waits at the end of its queue, as in every order.
#
# A cycle begins when fewer than half of the sites of a cycle are being fetched or could be: sites that wait for their
# host's delay or back-off do not hold up the next cycle. So the next sites are chosen as late as the workers allow,
# with as many mentions counted as possible.
# Known weakness: early in a run mentions say little, and the link graph is seconds behind.


class SiteStage(IntEnum):
    """State of a site in a run."""

    UNHEARD = 0  # no URL of it is pending, and it was not chosen
    HEARD = 1  # some URL of it is pending, but it is not in the table
    LISTED = 2  # in the table
    CHOSEN = 3  # its session runs
    OVER = 4  # its session is over: its other URLs are passed over in this run


def continues_walk(page: int, external: int) -> bool:
    """Whether the session with a site continues after its `page`-th page, from 1, with `external` links to other sites
    on it."""
    return external >> page > 0


def is_cycle_due(under_way: int, cycle: int) -> bool:
    """Whether a new cycle is due, with so many sites being fetched or free to be."""
    return 2 * under_way < max(cycle, 1)


def url_score(url: str, favoured: bool, penalised: bool, weights: UrlScoreWeights) -> float:
    """Score of a canonical URL in the order of breadth, from its characters alone; the greater the better.

        score = favour x (its host is favoured) - length x characters - block x path blocks
                - penalty x (it matches a penalised pattern)

    Breadth chooses the first URL of a site by this score, and the next ones within the site. Characters are those of
    host, port, path and query: `http` and `https` are worth the same. Path blocks are the segments between the slashes
    of the path; the query is none. By default one block is worth ten characters; a favoured host makes up for five
    blocks; a penalised URL is behind everything that a person would type.

    Why it works: the entry of a site is short (`a.br/`), deep pages have long names, and pages that lead elsewhere
    (portals, lists of links) are near the root.
    Known weakness: a site whose front page is `/cgi-bin/portal?id=1` is entered by any shorter URL; and a short URL may
    be a login form. Hence `penalise`.
    """
    address = url.partition("://")[2]
    path = address.partition("?")[0].partition("/")[2]
    blocks = sum(1 for block in path.split("/") if block)
    merit = weights.favour * favoured - weights.length * len(address)
    return merit - weights.block * blocks - weights.penalty * penalised
