"""Queue order: computes the rank of each waiting URL in its host's queue (fifo, lifo, random, backlinks, breadth).

Pure: a rank from what is known of the URL; the smallest goes first. Touches neither network nor disk nor clock.
`rank` is the four plain orders; `Order` is what a collection's `[strategy]` asks for as a whole, breadth
(`breadth.py`) with its score (`score.py`) included.

What is favoured or penalised means something in every order. Breadth has both in its score. In the others a penalised
URL goes after all that are not, whatever the order says, and before those that failed. All URLs of a host are
favoured or none is, so favour cannot order a host's queue: there it is the *hosts* that go first, when several could
be visited (`store/ready.py`).
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
PENALTY_OFFSET = FAILED_OFFSET / 2  # beyond every rank of those that are not put off; none of them reaches it
ORDERS_CACHED_MAX = 1_000


def plain_rank(order: str, sequence: int, url_id: UrlId, in_links: int, attempts: int = 0) -> float:
    """`sequence` is the URL's number in the order of discovery.

    What failed before goes last: one bad URL must not stand in the way of a host's good ones.
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
    """What one `[strategy]` asks for."""

    def __init__(self, strategy: StrategyConfig) -> None:
        self._strategy = strategy
        self._favoured = HostMatcher(strategy.favour)
        patterns = "|".join(translate(pattern) for pattern in strategy.penalise)
        self._penalised = re.compile(patterns) if patterns else None

    @property
    def is_breadth(self) -> bool:
        return self._strategy.order == "breadth"

    def favours(self, url: str) -> bool:
        """Whether its host, or that of a host key with a slash behind it, is one of those that `favour` names."""
        if not self._strategy.favour:
            return False
        parts = split(url)
        return self._favoured.matches(parts.host, "" if parts.port == DEFAULT_PORTS[parts.scheme] else parts.port)

    def penalises(self, url: str) -> bool:
        return self._penalised is not None and self._penalised.match(url) is not None

    def score(self, url: str) -> float:
        return url_score(url, self.favours(url), self.penalises(url), self._strategy.weights)

    def rank(self, url: str, sequence: int, url_id: UrlId, in_links: int, attempts: int, role: int) -> float:
        """Breadth looks for other sites: what lists pages of a site it knows already, sitemaps and feeds, comes after
        the pages."""
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
