"""How complete a faithful copy is: pages, what they need, and what lacks of it."""

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from tarrafa.model import Status
from tarrafa.report.faithfulness import requisite_summary
from tarrafa.report.schema import RequisiteSummary
from tarrafa.report.visit_rows import ARCHIVED, KEPT, NEED_ROW, ROW, LatestRedirect, Rows, VisitRows

PAGE, OTHER, STYLE, FONT, IMAGE, MOVED = range(1, 7)
Needs = dict[int, tuple[int, ...]]


def rows(kind: int, found: Iterable[tuple[int, int, int]]) -> Rows:
    """URL, visit and status of each."""
    made = np.zeros(len(found := list(found)), ROW)
    for row, (url, visit, status) in zip(made, found, strict=True):
        row["url"], row["visit"], row["status"], row["at"], row["bytes"] = url, visit, status, visit, 10
        row["flags"] = kind if status in (200, 304) else 0
    return made


def summary(
    requisites: Iterable[tuple[int, int, int]], needs: Needs, pages: Iterable[int] = (PAGE, OTHER), moved: int = 0
) -> RequisiteSummary | None:
    edges = np.array([(one, need, 1) for one, all_needs in needs.items() for need in all_needs], NEED_ROW)
    visits = VisitRows(hosts=["http://a.test:80"], requisites=rows(ARCHIVED, requisites), needs=edges)
    if moved:
        visits.moved[MOVED] = LatestRedirect(1, 302, moved)
    return requisite_summary(visits, rows(KEPT, [(page, 1, 200) for page in pages]))


NEEDS: Needs = {PAGE: (STYLE, IMAGE), OTHER: (IMAGE,), STYLE: (FONT,)}


@pytest.mark.parametrize(
    ("requisites", "needs", "complete", "lacking"),
    [
        ([(STYLE, 1, 200), (FONT, 1, 200), (IMAGE, 1, 200)], NEEDS, 2, {}),
        ([(STYLE, 1, 200), (FONT, 1, Status.ROBOTS), (IMAGE, 1, 200)], NEEDS, 1, {Status.ROBOTS: 1}),
        ([(STYLE, 1, 200), (FONT, 1, 200), (IMAGE, 1, 500)], NEEDS, 0, {500: 1}),
        ([(STYLE, 1, 200), (FONT, 1, 200), (IMAGE, 1, 404)], NEEDS, 2, {}),  # the site does not have it
        ([(STYLE, 1, 200), (FONT, 1, 200)], NEEDS, 0, {}),  # not visited
        ([(STYLE, 1, 200), (FONT, 1, 200), (IMAGE, 1, 200), (IMAGE, 2, 304)], NEEDS, 2, {}),
        ([(STYLE, 1, 200), (FONT, 1, 200), (IMAGE, 1, 200), (IMAGE, 2, 503)], NEEDS, 2, {}),
        ([(STYLE, 1, 200)], {PAGE: (STYLE,), STYLE: (STYLE,)}, 1, {}),  # a loop
        ([], {PAGE: (OTHER,)}, 1, {}),  # a frame that is a page
    ],
)
def test_a_page_is_complete_when_its_requisites_and_theirs_are(requisites, needs, complete, lacking):
    found = summary(requisites, needs)
    assert found is not None
    assert (found.pages, found.complete) == (sum(page in needs for page in (PAGE, OTHER)), complete)
    assert {one.status: one.count for one in found.lacking} == lacking
    assert sum(one.count for one in found.lacking_hosts) == sum(lacking.values())
    listed = found.archived + found.redirects + found.gone + found.unvisited + sum(lacking.values())
    assert listed == found.known


@pytest.mark.parametrize(("target", "complete"), [(IMAGE, 1), (FONT, 0)])
def test_a_redirect_is_followed_to_its_end(target, complete):
    found = summary([(MOVED, 1, 302), (IMAGE, 1, 200)], {PAGE: (MOVED,)}, moved=target)
    assert found is not None
    assert (found.complete, found.redirects) == (complete, 1)


def test_needs_of_an_older_version_of_a_page_do_not_count():
    visits = VisitRows(requisites=rows(ARCHIVED, []), needs=np.array([(PAGE, IMAGE, 1)], NEED_ROW))
    found = requisite_summary(visits, rows(KEPT, [(PAGE, 2, 200)]))
    assert found is not None
    assert (found.known, found.pages) == (0, 0)


def test_a_collection_without_requisites_has_no_such_section():
    assert summary([], {}) is None


PAGES_IN_A_ROW: Callable[[int], Needs] = lambda most: {number: (number + 1,) for number in range(1, most)}  # noqa: E731


def test_long_chains_of_needs_come_to_an_end():
    found = summary([(number, 1, 200) for number in range(2, 100)], PAGES_IN_A_ROW(200), pages=(1,))
    assert found is not None
    assert found.pages == 1
