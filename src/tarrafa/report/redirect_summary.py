"""Redirect chains: their codes, lengths, ends and loops.

Pure. From the newest redirect of each URL: the counts of codes, the lengths and ends of chains, and the loops. A page
with an immediate meta refresh is a redirect with the code 200.
"""

from collections import Counter

import numpy as np

from tarrafa.model import Status
from tarrafa.report.histograms import rank_counts
from tarrafa.report.schema import Bin, RedirectSummary, ResponseStatusCount
from tarrafa.report.visit_rows import LatestRedirect, Rows, VisitRows

DOCUMENT, OTHER_ANSWER, UNVISITED, LOOP = "document", "other", "unvisited", "loop"


def summarize_redirects(visits: VisitRows, documents: Rows) -> RedirectSummary:
    moved = visits.moved
    if visits.deleted > -np.inf:  # redirects of a deleted collection of the same name are left out
        ours = set(visits.rows["url"].tolist())
        moved = {url: one for url, one in moved.items() if url in ours}
    codes = Counter(one.code for one in moved.values())
    total = sum(codes.values()) or 1
    loops, looping = _loops(moved)
    targets = {one.target for one in moved.values()}
    lengths: Counter[int] = Counter()
    ends: list[int] = []
    astray = 0
    for begin in moved:
        if begin not in targets:
            length, end = _follow_chain(begin, moved, looping)
            lengths[length] += 1
            if end is None:
                astray += 1
            else:
                ends.append(end)
    return RedirectSummary(
        len(moved),
        [
            ResponseStatusCount(code, count, count / total)
            for code, count in sorted(codes.items(), key=lambda item: (-item[1], item[0]))
        ],
        [Bin(length, length + 1, lengths[length]) for length in sorted(lengths)],
        rank_counts({name: count for name, count in (*_chain_ends(ends, visits, documents), (LOOP, astray)) if count}),
        loops,
        len(looping),
        int((visits.rows["status"] == Status.REDIRECTS_EXCEEDED).sum()),
        visits.moved_whole,
    )


def _loops(moved: dict[int, LatestRedirect]) -> tuple[int, set[int]]:
    """The number of loops, and the URLs in them."""
    loops, looping = 0, set[int]()
    seen: dict[int, int] = {}  # URL -> the walk that met it
    for number, begin in enumerate(moved):
        at, path = begin, []
        while at in moved and at not in seen:
            seen[at] = number
            path.append(at)
            at = moved[at].target
        if seen.get(at) == number and path:
            loops += 1
            looping.update(path[path.index(at) :])
    return loops, looping


def _follow_chain(begin: int, moved: dict[int, LatestRedirect], looping: set[int]) -> tuple[int, int | None]:
    """The number of redirects from there, and the end of the chain; None: a loop."""
    length, at = 0, begin
    while at in moved:
        if at in looping:
            return length, None
        length, at = length + 1, moved[at].target
    return length, at


def _chain_ends(ends: list[int], visits: VisitRows, documents: Rows) -> list[tuple[str, int]]:
    found = np.array(ends, np.uint64)
    kept = np.isin(found, documents["url"])
    seen = np.isin(found, visits.rows["url"])
    return [
        (DOCUMENT, int(kept.sum())), (OTHER_ANSWER, int((seen & ~kept).sum())), (UNVISITED, int((~seen).sum())),
    ]  # fmt: skip
