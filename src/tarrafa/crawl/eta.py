"""Estimates how many pages a crawl will keep, and how long it still takes (ETA).

From what is known at this moment, as if nothing more were discovered; never more than the collection allows. Pure.
"""

from tarrafa.frontier.messages import CollectionStatus


def expected_pages(status: CollectionStatus) -> int:
    """How many pages this run will have kept if nothing more is discovered."""
    visited, kept = max(1, status.visits), status.fetched - status.earlier
    total = kept + round((status.pending + status.handed_out) * status.fetched / visited)
    return min(total, status.pages_max) if status.pages_max is not None else total


def time_left_s(status: CollectionStatus, pages_per_s: float) -> float | None:
    """Seconds to its end at that speed, 0 when it is nearly there; None: nobody can tell, or there is no end."""
    if status.keeps_fresh:
        return None
    left = expected_pages(status) - (status.fetched - status.earlier)
    if left <= 0 and not (status.pending or status.handed_out):
        return 0.0
    return max(0, left) / pages_per_s if pages_per_s > 0 else None
