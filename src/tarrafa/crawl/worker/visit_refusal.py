"""Refusal of a visit without a request: taken down, dismissed, out of scope, forbidden by robots.txt, a trap.

Promises: pure. A waiting URL of a taken-down host or site is finished with `Status.TAKEN_DOWN`, before its host is
contacted at all; `Status` names the other reasons.
"""

from collections.abc import Callable

from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.scope.traps import TrapMemory
from tarrafa.model import Status, UrlRole, Visit


def takedown_or_dismissal_status(visit: Visit, collection: Collection, admission: Admission) -> int:
    """The status of a visit that needs no contact with its host; 0: it needs one."""
    if visit.dismissed:  # for a better page, or because its run has found no way to it
        return Status.REPLACED if collection.keeps_fresh else Status.NOT_FOUND_AGAIN
    return Status.TAKEN_DOWN if admission.is_taken_down(visit.url) else 0


def visit_refusal_status(
    visit: Visit,
    collection: Collection,
    admission: Admission,
    traps: TrapMemory,
    robots_allows: Callable[[str], bool],
) -> int:
    """Why no request may be made: scope, robots.txt, traps; 0: one may. Takedowns and dismissals come before this."""
    limit = collection.scope.depth_max
    if visit.depth and visit.role == UrlRole.PAGE:  # roots (depth 0), sitemaps and feeds are always in scope
        if not admission.may_fetch(visit.url) or (limit is not None and visit.depth > limit):
            return Status.OUT_OF_SCOPE
        if refusal := admission.url_refusal_status(visit.url):
            return refusal
    if not robots_allows(visit.url):
        return Status.ROBOTS
    if traps.is_hostile:
        return Status.HOSTILE
    return Status.TRAP if visit.content_id is None and traps.is_barren(visit.url) else 0
