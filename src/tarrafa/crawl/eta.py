"""Estimates how many pages a crawl will keep, and how long it still takes (ETA).

Both figures come from the current state of the frontier, as if nothing more were discovered. They never exceed the
limits of the collection.
Promises: pure.
"""

from tarrafa.frontier.messages import CollectionStatus


def expected_pages(status: CollectionStatus) -> int:
    """Number of pages that this run will have kept if nothing more is discovered."""
    visited, kept = max(1, status.visits), status.fetched - status.earlier
    total = kept + round((status.pending + status.handed_out) * status.fetched / visited)
    return min(total, status.pages_max) if status.pages_max is not None else total


def time_left_s(status: CollectionStatus, pages_per_s: float) -> float | None:
    """Seconds until the end at that speed, 0 when the end is near; None: the end is unknown, or there is none."""
    if status.keeps_fresh:
        return None
    left = expected_pages(status) - (status.fetched - status.earlier)
    if left <= 0 and not (status.pending or status.handed_out):
        return 0.0
    return max(0, left) / pages_per_s if pages_per_s > 0 else None
