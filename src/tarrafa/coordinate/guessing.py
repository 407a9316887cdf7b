"""How fresh is a collection, about?

Nobody can look at ten million pages every half minute: a few hundred, begun at random places, say it well enough. Each
is as fresh as its own history lets one believe (`revisit`): exp(-rate x age).
"""

import math
from random import Random

from tarrafa.frontier.protocol import FIRST_HOST, Frontier
from tarrafa.model import HostId

FRESHNESS_STARTS, FRESHNESS_PAGES = 5, 100


async def estimate_freshness(frontier: Frontier, collection: int, now: float, rng: Random) -> float | None:
    """The estimated share of kept pages that are as we have them; None: there are none."""
    sum_, count = 0.0, 0
    for _ in range(FRESHNESS_STARTS):
        host: HostId = rng.randrange(FIRST_HOST, -FIRST_HOST)
        pages = await frontier.revisit_pages(collection, host, b"", FRESHNESS_PAGES)
        if len(pages) < FRESHNESS_PAGES:  # round the end, to the beginning
            pages += await frontier.revisit_pages(collection, FIRST_HOST, b"", FRESHNESS_PAGES - len(pages))
        for page in pages:
            history = page.history
            if history.announced <= history.last:  # else it has certainly changed
                sum_ += math.exp(-history.estimate * max(0.0, now - history.last))
            count += 1
    return sum_ / count if count else None
