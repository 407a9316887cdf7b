"""Cache of the links that this worker has delivered to the frontier already.

Most links lead to what is known: a bounded memory of what was delivered spares the frontier nearly all of them. It is
exact: what it holds was delivered at that depth; what it has forgotten is only offered once more. Each run of a
collection has to be told anew: that is how it finds what is known.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.model import UrlId

CACHED_URLS_MAX = 300_000  # some 70 MB


class LinkCache:
    """URL -> the lowest depth at which it was offered in which run; the oldest are forgotten first."""

    def __init__(self, most: int = CACHED_URLS_MAX) -> None:
        self._depths: dict[tuple[int, UrlId], tuple[int, int, int, int]] = {}
        self._most = most
        self.urls_seen = 0  # offers that pages made
        self.urls_delivered = 0  # those of them that had to be delivered

    def filter_new(self, collection: int, offers: Iterable[DiscoveredUrl], run: int = 1) -> list[DiscoveredUrl]:
        """What the frontier has not heard from us, each URL once and at its smallest depth."""
        best: dict[UrlId, DiscoveredUrl] = {}
        for offer in offers:
            self.urls_seen += 1
            place = (offer.depth, offer.redirects)
            known = self._depths.get((collection, offer.id))
            told = known is not None and known[:2] <= place and offer.role in (0, known[2]) and run <= known[3]
            if told and not offer.announced:
                continue
            other = best.get(offer.id)
            if other is None:
                best[offer.id] = offer
                continue
            first = offer if (-offer.role, place) < (-other.role, (other.depth, other.redirects)) else other
            announced = max(offer.announced, other.announced)
            best[offer.id] = first if first.announced == announced else replace(first, announced=announced)
        self.urls_delivered += len(best)
        return list(best.values())

    def remember(self, collection: int, offers: Iterable[DiscoveredUrl], run: int = 1) -> None:
        for offer in offers:
            self._depths[collection, offer.id] = (offer.depth, offer.redirects, offer.role, run)
        while len(self._depths) > self._most:
            del self._depths[next(iter(self._depths))]

    def hit_rate_text(self) -> str:
        """Its hit rate, for people; empty while there is nothing to tell."""
        if not self.urls_seen:
            return ""
        share = 1.0 - self.urls_delivered / self.urls_seen
        return f"{share:.1%} of {self.urls_seen:,} links were delivered before (cache: {len(self._depths):,} URLs)"
