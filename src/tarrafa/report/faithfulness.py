"""Counts how complete the copy of a faithful collection is: which requisites of its pages are archived, what lacks.

A page is complete when everything that it needs is archived: also what its styles and frames need, and the target of a
redirect. What its own site does not have (404, 410) does not lack: no reader ever saw it. Requisites that wait for
their visit, or that a limit left out, lack.
Promises: pure; works on arrays, whose size `visit_rows` bounds.
"""

import numpy as np
from numpy.typing import NDArray

from tarrafa.model import GONE, REDIRECTS
from tarrafa.report.schema import NamedCount, RequisiteSummary, ResponseStatusCount
from tarrafa.report.visit_rows import ARCHIVED, Rows, VisitRows, count_names

STEPS_MAX = 12  # from a page to its farthest requisite
REDIRECTS_FOLLOWED = 10
LISTED = 20
Hashes = NDArray[np.uint64]


def newest_of_each(rows: Rows) -> Rows:
    """The newest row of each URL, in the order of the URLs' hashes; of an archived one, the newest with a body."""
    has_body = (rows["flags"] & ARCHIVED > 0) & (rows["status"] == 200)
    order = np.lexsort((rows["at"], rows["visit"], has_body, rows["url"]))
    urls = rows["url"][order]
    return rows[order[np.flatnonzero(np.append(urls[1:] != urls[:-1], [True] * bool(len(order))))]]


def requisite_summary(visits: VisitRows, documents: Rows) -> RequisiteSummary | None:
    """None: no page of the collection needs anything, or its requisites are not fetched."""
    if not len(visits.requisites) and not len(visits.needs):
        return None
    newest = newest_of_each(visits.requisites)
    is_archived = (newest["flags"] & ARCHIVED) > 0
    is_moved = np.isin(newest["status"], list(REDIRECTS))
    is_gone = np.isin(newest["status"], list(GONE))
    lacking = newest[~(is_archived | is_moved | is_gone)]
    needs = _needs_in_force(visits.needs, documents, newest)
    there = np.concatenate((newest["url"][is_archived | is_gone], documents["url"]))
    unvisited = _unvisited(needs["need"], newest["url"], documents["url"])
    pages = np.intersect1d(needs["page"], documents["url"])
    incomplete = _incomplete(needs["page"], needs["need"], there, _moves(visits, newest["url"][is_moved]))
    counts, total = np.unique(lacking["status"], return_counts=True), max(len(lacking), 1)
    hosts = sorted(count_names(lacking["host"], visits.hosts).items(), key=lambda one: (-one[1], one[0]))
    return RequisiteSummary(
        known=len(newest) + unvisited,
        archived=int(is_archived.sum()),
        bytes=int(newest["bytes"][is_archived].sum(dtype=np.int64)),
        redirects=int(is_moved.sum()),
        gone=int(is_gone.sum()),
        unvisited=unvisited,
        requests=len(visits.requisites),
        pages=len(pages),
        complete=int((~np.isin(pages, incomplete)).sum()),
        lacking=[
            ResponseStatusCount(int(status), int(count), int(count) / total)
            for status, count in sorted(zip(*counts, strict=True), key=lambda one: -one[1])
        ],
        lacking_hosts=[NamedCount(host, count, count / total) for host, count in hosts[:LISTED]],
        whole=visits.needs_whole,
    )


def _needs_in_force(needs: Rows, documents: Rows, newest: Rows) -> Rows:
    """The needs of the newest version of each page and of each requisite."""
    ends = np.concatenate((documents[["url", "visit"]], newest[["url", "visit"]]))
    ends = ends[np.argsort(ends["url"], kind="stable")]
    if not len(ends) or not len(needs):
        return needs[:0]
    place = np.minimum(np.searchsorted(ends["url"], needs["page"]), len(ends) - 1)
    is_in_force = (ends["url"][place] == needs["page"]) & (ends["visit"][place] == needs["visit"])
    found: Rows = needs[is_in_force]
    return found


def _unvisited(needed: Hashes, *visited: Hashes) -> int:
    return len(np.setdiff1d(needed, np.concatenate(visited)))


def _moves(visits: VisitRows, moved: Hashes) -> dict[int, int]:
    """Where requisites redirect to, in the end."""
    found: dict[int, int] = {}
    for url in moved.tolist():
        target = url
        for _ in range(REDIRECTS_FOLLOWED):
            step = visits.moved.get(target)
            if step is None:
                break
            target = step.target
        found[url] = target
    return found


def _incomplete(pages: Hashes, needed: Hashes, there: Hashes, moves: dict[int, int]) -> Hashes:
    """The pages and requisites that lack something, or that need something that does."""
    targets = needed.copy()
    if moves:
        at = np.array(sorted(moves), np.uint64)
        to = np.array([moves[one] for one in sorted(moves)], np.uint64)
        place = np.minimum(np.searchsorted(at, needed), len(at) - 1)
        is_moved = at[place] == needed
        targets[is_moved] = to[place[is_moved]]
    bad = np.unique(pages[~np.isin(targets, there)])
    for _ in range(STEPS_MAX):
        more = np.union1d(bad, pages[np.isin(targets, bad)])
        if len(more) == len(bad):
            break
        bad = more
    return bad
