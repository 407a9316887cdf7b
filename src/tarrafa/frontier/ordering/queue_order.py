"""Queue order: computes the rank of each waiting URL in its host's queue (fifo, lifo, random, backlinks, breadth).

`plain_rank` computes the four plain orders; `QueueOrder` is a whole `[strategy]`, including breadth
(`breadth_rules.py`) with its score (`url_score.py`). The smallest rank goes first.

`favour` and `penalise` act in every order. Breadth has both in its score. In the other orders a penalised URL goes
after all that are not penalised, and before those that failed. Either all URLs of a host are favoured or none is, so
favour cannot order a host's queue: there the favoured *hosts* go first, when several could be visited
(`store/ready_queue.py`).
Promises: pure; touches neither network nor disk nor clock.
"""

import re
from fnmatch import translate
from functools import lru_cache

from tarrafa.config import HostMatcher, StrategyConfig
from tarrafa.frontier.ordering.url_score import url_score
from tarrafa.model import UrlId, UrlRole
from tarrafa.parse.url import DEFAULT_PORTS, split

TIE_BREAK = 1e-12  # the discovery number decides between equals; a thousand billion of them stay below one in-link
FAILED_OFFSET = 1e15  # beyond every other rank
PENALTY_OFFSET = FAILED_OFFSET / 2  # beyond every rank of URLs that are not penalised; none of them reaches it
ORDERS_CACHED_MAX = 1_000


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
        if not self._strategy.favour:
            return False
        parts = split(url)
        return self._favoured.matches(parts.host, "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port)

    def penalises(self, url: str) -> bool:
        return self._penalised is not None and self._penalised.match(url) is not None

    def score(self, url: str) -> float:
        return url_score(url, self.favours(url), self.penalises(url), self._strategy.weights)

    def rank(self, url: str, sequence: int, url_id: UrlId, in_links: int, attempts: int, role: int) -> float:
        """Breadth looks for other sites: sitemaps and feeds, which list pages of a known site, come after the pages."""
        if self.is_breadth:
            return (
                sequence * TIE_BREAK
                - self.score(url)
                + (role != UrlRole.PAGE) * PENALTY_OFFSET
                + attempts * FAILED_OFFSET
            )
        return (
            plain_rank(self._strategy.order, sequence, url_id, in_links, attempts)
            + self.penalises(url) * PENALTY_OFFSET
        )


@lru_cache(maxsize=ORDERS_CACHED_MAX)
def order_of(strategy: StrategyConfig) -> QueueOrder:
    return QueueOrder(strategy)
