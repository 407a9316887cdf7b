"""What the simulated crawler knows of each document: true change rates, or rates learned from visits.

Promises: `LearnedKnowledge` starts from the prior of the document's server and learns by the code of the live crawl
(`policy.record_first_visit`, `policy.record_visit`, `date_trust.DateTrust`). `TrueKnowledge` is given the true rate and
learns nothing. Both give the `PageHistory` by which a policy places the document.
Knows nothing of policies, nor of when visits happen.

Servers that are `dated` send a truthful Last-Modified. As in the live crawl it is trusted after it was right a few
times; a visit that finds no change is a 304 and proves nothing.
"""

import math
from typing import Protocol

import msgspec

from tarrafa.revisit import change_rate, date_trust, policy
from tarrafa.revisit.change_rate import AGE_MAX_S, ALPHA_MAX, DAY_S
from tarrafa.revisit.policy import PageHistory
from tarrafa.simulate.web_model import WebModel

RATE_LEAST = policy.RATE_CHANGES_MIN / policy.RATE_DAYS_MAX  # rateupdate keeps its rates between these, per day
RATE_MOST = policy.RATE_CHANGES_MAX / policy.RATE_DAYS_MIN


class CrawlerKnowledge(Protocol):
    """Knowledge of all documents; None for a document that was never visited."""

    pages: list[PageHistory | None]

    def record_visit(self, document: int, at_s: float, changed: bool, modified_s: float) -> PageHistory:
        """Record a visit that found a version made at `modified_s`."""


class LearnedKnowledge:
    """Rates learned from visits."""

    def __init__(self, web: WebModel) -> None:
        self.pages: list[PageHistory | None] = [None] * len(web.documents)
        self._web = web
        self._dates_s = [0.0] * len(web.documents)  # as given by the last visit
        self._records = [date_trust.DateTrust()] * len(web.servers)
        self._counts = [0] * len(web.servers)
        self._means = [0.0] * len(web.servers)  # sums over the pages of a server, for `change_rate.site_prior`
        self._squares = [0.0] * len(web.servers)

    def record_visit(self, document: int, at_s: float, changed: bool, modified_s: float) -> PageHistory:
        page, server = self.pages[document], self._web.documents[document].server
        claimed_s = max(modified_s, -AGE_MAX_S) if self._web.servers[server].dated else 0.0
        if page is None:
            alpha, beta = change_rate.site_prior(self._counts[server], self._means[server], self._squares[server])
            seen = policy.record_first_visit(at_s, alpha, beta, self._web.documents[document].weight, claimed_s)
            self._counts[server] += 1
        else:
            if changed:
                verdict = date_trust.check_last_modified(True, self._dates_s[document], claimed_s, page.last, at_s)
                self._records[server] = self._records[server].updated(verdict)
            believed = bool(claimed_s) and self._records[server].is_trusted
            seen = policy.record_visit(page, at_s, changed, claimed_s if believed else None, believed)
            self._means[server] -= page.estimate
            self._squares[server] -= change_rate.second_moment(page.alpha, page.beta)
        self._means[server] += seen.estimate
        self._squares[server] += change_rate.second_moment(seen.alpha, seen.beta)
        self._dates_s[document] = claimed_s
        self.pages[document] = seen
        return seen


class TrueKnowledge:
    """The true rates, as page histories from which every policy reads them.

    `stretch` is for `proportional`, which has no budget of its own: it sees this multiple of the true intervals.
    """

    def __init__(self, web: WebModel, stretch: float = 1.0) -> None:
        self.pages: list[PageHistory | None] = [None] * len(web.documents)
        self._patterns = [
            PageHistory(
                first=-stretch / one.rate if one.rate > 0.0 else -math.inf,
                last=0.0,
                alpha=ALPHA_MAX,
                beta=ALPHA_MAX / one.rate if one.rate > 0.0 else math.inf,
                weight=one.weight,
                changes=1,
                rate=min(max(one.rate * DAY_S, RATE_LEAST), RATE_MOST),
            )
            for one in web.documents
        ]

    def record_visit(self, document: int, at_s: float, changed: bool, modified_s: float) -> PageHistory:
        pattern = self._patterns[document]
        page = msgspec.structs.replace(pattern, first=pattern.first + at_s, last=at_s)
        self.pages[document] = page
        return page
