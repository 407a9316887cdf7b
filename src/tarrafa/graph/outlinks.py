"""Reads the outlinks and the redirect of an archived visit as edges.

Promises: a pure reading of one archived visit. `hops` of an edge is its increase of depth: 1 for a link, 0 for a
redirect, None for one that is not followed (the page or the link says so, or the redirect chain was too long). Knows
nothing of SQLite.
"""

from typing import NamedTuple

from tarrafa.model import GONE, REDIRECTS, Link, Status, VisitRecord
from tarrafa.parse.url import canonical

REDIRECT = "redirect"
LEADS_NOWHERE = GONE | {Status.NOT_FOUND_AGAIN}
ANCHOR_CHARS_MAX = 300
REL_CHARS_MAX = 100
EDGES_PER_PAGE_MAX = 20_000  # far above the limit of the parser


class OutEdge(NamedTuple):
    """One outlink or redirect."""

    url: str
    anchor: str
    rel: str
    hops: int | None


def out_edges(record: VisitRecord) -> list[OutEdge] | None:
    """The out-edges of this visit, or None: it saw none, and the known ones stay.

    A page that is gone (404, 410; the first time there may be grace), or that its collection has not found again, has
    no edges; any other failure is temporary, and changes nothing.
    """
    outcome, page = record.outcome, record.page
    edges: list[OutEdge] = []
    target = canonical(outcome.location, record.url) if outcome.location else None
    if target is not None:
        # not at the end of a redirect chain that was too long
        walked = outcome.status in REDIRECTS or outcome.status == 200
        edges.append(OutEdge(target, "", REDIRECT, 0 if walked else None))
    if page is not None:
        edges.extend(_edge(link, page.robots.nofollow) for link in page.links[:EDGES_PER_PAGE_MAX])
    elif target is None and (outcome.grace or outcome.status not in LEADS_NOWHERE):
        return None
    return edges


def _edge(link: Link, page_nofollow: bool) -> OutEdge:
    rel = link.rel[:REL_CHARS_MAX].lower() if link.rel else ""
    walked = not page_nofollow and link.is_followed
    return OutEdge(link.url, link.anchor[:ANCHOR_CHARS_MAX], rel, 1 if walked else None)
