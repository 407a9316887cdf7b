"""Computes which in-links of a crawler's URLs are new or gone since its last acknowledged response.

A crawler's URLs are those whose newest visit it made: the graph knows them, and stamps each when its in-links change.
The store holds the in-links that were sent to the crawler, so a response is the difference between the two, and the
same link is sent once, after any restart or rebuild. A response is repeated until it is acknowledged. Known weakness:
of a URL with more than IN_LINKS_MAX in-links, the first known ones are sent, and the total.
"""

from collections.abc import Iterator

from tarrafa.errors import DataError
from tarrafa.graph.reader import GraphReader, InLinkChange
from tarrafa.model import UrlId
from tarrafa.server.crawler_api.crawler_store import CrawlerStore, InlinkDifference, PendingChanges
from tarrafa.server.crawler_api.messages import ConflictingCall, CrawlerChangesResponse, InlinkChange

IN_LINKS_MAX = 10_000  # of one URL
STAMPED_PER_LOOK = 500
LOOKS_MAX = 20  # per call
IDS_PER_RESPONSE = 20_000  # about: the last URL is sent whole


def inlink_changes(
    store: CrawlerStore, graph: GraphReader | None, crawler: str, owner: str, after: int | None
) -> CrawlerChangesResponse:
    """The next response, or the last one again while it is not acknowledged."""
    sent = store.inlink_cursor(crawler)
    pending, cursor = sent.pending, sent.cursor
    if pending is not None and after == pending.cursor:
        store.acknowledge(crawler, pending)
        cursor, pending = pending.cursor, None
    elif after not in (None, cursor):
        known = f"{cursor} or {pending.cursor}" if pending is not None else str(cursor)
        raise ConflictingCall(
            f"after: {after} is not the cursor of the last answer ({known}); leave it out to begin there"
        )
    more = False
    if pending is None and graph is not None:
        pending, more = _next_changes(store, graph, crawler, owner)
    if pending is None:
        return CrawlerChangesResponse(cursor, [], more)
    changes = [
        InlinkChange(one.collection, one.id.hex(), one.url, _hex(one.new), _hex(one.gone), one.total)
        for one in pending.differences
    ]
    return CrawlerChangesResponse(pending.cursor, changes, pending.more)


def _next_changes(
    store: CrawlerStore, graph: GraphReader, crawler: str, owner: str
) -> tuple[PendingChanges | None, bool]:
    """The next changes, stored before they are sent; and whether there may be more."""
    sent, incarnation = store.inlink_cursor(crawler), graph.incarnation()
    start = stamp = sent.stamp if sent.incarnation == incarnation else 0
    found: list[InlinkDifference] = []
    ids = looked_at = 0
    for one in _stamped(graph, owner, start):
        difference = _difference(store, graph, crawler, one)
        if difference is not None:
            found.append(difference)
            ids += len(difference.new) + len(difference.gone)
        stamp, looked_at = one.stamp, looked_at + 1
        if ids >= IDS_PER_RESPONSE:
            break
    more = ids >= IDS_PER_RESPONSE or looked_at == STAMPED_PER_LOOK * LOOKS_MAX
    if found:
        pending = PendingChanges(sent.cursor + 1, stamp, found, more)
        store.save_pending(crawler, incarnation, start, pending)
        return pending, more
    if (incarnation, stamp) != (sent.incarnation, sent.stamp):
        store.save_pending(crawler, incarnation, stamp, None)
    return None, more


def _stamped(graph: GraphReader, owner: str, after: int) -> Iterator[InLinkChange]:
    for _ in range(LOOKS_MAX):
        part = graph.in_link_changes(owner, after, STAMPED_PER_LOOK)
        yield from part
        if len(part) < STAMPED_PER_LOOK:
            return
        after = part[-1].stamp


def _difference(store: CrawlerStore, graph: GraphReader, crawler: str, one: InLinkChange) -> InlinkDifference | None:
    links, total = graph.in_link_ids(one.id, one.collection, IN_LINKS_MAX)
    before = store.known_inlinks(crawler, one.collection, one.id)
    known, now = frozenset(before), frozenset(links)
    new = [link for link in links if link not in known]
    gone = [link for link in before if link not in now] if len(links) < IN_LINKS_MAX else []
    return InlinkDifference(one.collection, one.id, one.url, new, gone, total) if new or gone else None


def _hex(ids: list[UrlId]) -> list[str]:
    return [one.hex() for one in ids]


def in_links_of(graph: GraphReader | None, url: UrlId, collection: str, limit: int) -> tuple[list[UrlId], int]:
    """The known in-links of a URL; none if the graph cannot be read."""
    if graph is None:
        return [], 0
    try:
        return graph.in_link_ids(url, collection, limit)
    except DataError:
        return [], 0
