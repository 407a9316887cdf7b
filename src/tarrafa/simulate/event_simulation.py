"""Event-driven simulation of a crawl under a revisit policy, with politeness checked from its log.

Promises: the decisions are made by the live crawl's own code. A server never gets two requests at once nor one before
its pause has passed, and every run checks that from its log. One Web and one setting give one result.
Knows nothing of files, HTTP or URLs, and nothing of how a policy decides.

One heap holds the coming events, of five kinds:

    modified    a document changes
    statistic   a measuring interval ends
    end         the simulation ends
    free        a crawler has finished a download
    ready       the scheduler may act: a server's pause is over and a document there is due (its number), there is
                a token of the budget again (TOKEN), enough is saved for a visit ahead of its time (AHEAD), or the
                policy is renewed (RENEW)

Events at the same time happen in this order: a change at the start of a download is still seen, and a visit that would
start when a plan ends is not made. A visit sees the document at the *start* of the download, and that copy counts from
then on; a change during the download is not in the copy.

A free crawler and a ready server make a visit. Documents never visited go first, in the order of their numbers, except
for the `share` of the slots that revisits may take while there are both. Of several ready servers the one goes first
whose document the policy finds most urgent, of several free crawlers the fastest.

Known weakness: all crawlers share one scheduler that knows everything at once. Downloads never fail, and a document
that did not change costs its whole size.
"""

import enum
import heapq
import math
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from tarrafa.errors import ConfigError
from tarrafa.revisit import date_trust, policy
from tarrafa.revisit.budget import BudgetLimit, TokenBucket
from tarrafa.revisit.change_rate import AGE_MAX_S, ALPHA_MAX, DAY_S, RateSums, log_rate_prior
from tarrafa.revisit.policy import EXPLORE_EVERY, PageHistory, choose_shelf
from tarrafa.simulate import freshness_metrics
from tarrafa.simulate.change_process import Floats
from tarrafa.simulate.freshness_metrics import FreshnessGauge, IntervalMeans, SimulationSummary, VisitLog
from tarrafa.simulate.policy_controllers import PolicyController, SimulationSettings, interval_stretch, make_controller
from tarrafa.simulate.scheduler import CachedPolicy, ServerShelves, SleepingServers, WaitingServers
from tarrafa.simulate.web_model import WebModel

AHEAD, RENEW, TOKEN = -3, -2, -1  # in place of a server's number
ONCE = 1  # a statistic that is not repeated
RATE_LEAST = policy.RATE_CHANGES_MIN / policy.RATE_DAYS_MAX  # rateupdate keeps its rates between these, per day
RATE_MOST = policy.RATE_CHANGES_MAX / policy.RATE_DAYS_MIN


class EventKind(enum.IntEnum):
    """Kinds of events; their order at the same time."""

    MODIFIED = 0
    STATISTIC = 1
    END = 2
    FREE = 3
    READY = 4


class CrawlerKnowledge(Protocol):
    """Knowledge of all documents; None for a document that was never visited."""

    pages: list[PageHistory | None]

    def record_visit(self, document: int, at_s: float, changed: bool, modified_s: float) -> PageHistory:
        """Record a visit that found a version made at `modified_s`."""


class LearnedKnowledge:
    """Rates learned from visits, by the code of the live crawl, from the prior of the document's server on.

    Servers that are `dated` send a truthful Last-Modified. As in the live crawl it is trusted after it was right a few
    times; a visit that finds no change is a 304 and proves nothing.
    """

    def __init__(self, web: WebModel) -> None:
        self.pages: list[PageHistory | None] = [None] * len(web.documents)
        self._web = web
        self._dates_s = [0.0] * len(web.documents)  # as given by the last visit
        self._records = [date_trust.DateTrust()] * len(web.servers)
        self._sums = [RateSums()] * len(web.servers)
        self._all = RateSums()

    def record_visit(self, document: int, at_s: float, changed: bool, modified_s: float) -> PageHistory:
        page, server = self.pages[document], self._web.documents[document].server
        claimed_s = max(modified_s, -AGE_MAX_S) if self._web.servers[server].dated else 0.0
        self._count(server, page, -1)
        prior = log_rate_prior(self._sums[server], self._all)
        if page is None:
            seen = policy.record_first_visit(at_s, prior, self._web.documents[document].weight, claimed_s)
        else:
            if changed:
                verdict = date_trust.check_last_modified(True, self._dates_s[document], claimed_s, page.last, at_s)
                self._records[server] = self._records[server].updated(verdict)
            believed = bool(claimed_s) and self._records[server].is_trusted
            seen = policy.record_visit(page, at_s, changed, claimed_s if believed else None, believed, prior)
        self._count(server, seen, 1)
        self._dates_s[document] = claimed_s
        self.pages[document] = seen
        return seen

    def _count(self, server: int, page: PageHistory | None, sign: int) -> None:
        if page is not None and page.has_evidence:
            self._sums[server] = self._sums[server].plus(page.alpha, page.beta, sign)
            self._all = self._all.plus(page.alpha, page.beta, sign)


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
                dated=1,
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


@dataclass(slots=True, frozen=True)
class SimulationResult:
    """The result of a run."""

    summary: SimulationSummary
    log: VisitLog


def run(web: WebModel, settings: SimulationSettings, by: PolicyController | None = None) -> SimulationResult:
    """Simulate a crawl until the Web's end; `by` replaces the policy that the settings name."""
    if not settings.from_s < web.until_s:
        raise ConfigError(f"nothing is left to measure from {settings.from_s:g} s on: the end is at {web.until_s:g} s")
    knowledge: CrawlerKnowledge = (
        LearnedKnowledge(web) if settings.learn else TrueKnowledge(web, interval_stretch(web, settings))
    )
    crawl = _Simulation(web, settings, by or make_controller(web, settings), knowledge)
    crawl.run()
    log = crawl.downloads.log()
    server_of = np.array([document.server for document in web.documents])[log.documents]
    violations = freshness_metrics.count_violations(web.servers, server_of, log)
    if violations:
        raise AssertionError(f"{violations} of {len(log.documents)} downloads started too soon: the engine is wrong")
    return SimulationResult(_summary(web, settings, crawl.intervals, log, violations), log)


class _Copies:
    """The versions of all documents on the Web, and those of their copies."""

    def __init__(self, web: WebModel, knowledge: CrawlerKnowledge) -> None:
        self.knowledge = knowledge
        self.gauge = FreshnessGauge([document.weight for document in web.documents])
        self.coming = [iter(life.after.tolist()) for life in web.lives]  # changes
        self.modified_s = [life.before for life in web.lives]  # current version on the Web
        self._copied_s: list[float | None] = [None] * len(web.documents)  # version of the copy

    def page(self, document: int) -> PageHistory:
        page = self.knowledge.pages[document]
        assert page is not None, "only documents that were visited are placed"
        return page

    def take(self, document: int, now_s: float) -> bool:
        """Take a copy and learn from it. Returns whether it differed from the last one."""
        found_s, had_s = self.modified_s[document], self._copied_s[document]
        changed = had_s is not None and found_s != had_s
        self._copied_s[document] = found_s
        self.gauge.record_visit(document, now_s)
        self.knowledge.record_visit(document, now_s, changed, found_s)
        return changed


class _Downloads:
    """All downloads in the order of their starts."""

    def __init__(self) -> None:
        self._starts, self._ends, self._documents, self._changed = array("d"), array("d"), array("q"), array("b")

    def __len__(self) -> int:
        return len(self._starts)

    def add(self, document: int, start_s: float, end_s: float, changed: bool) -> None:
        self._starts.append(start_s)
        self._ends.append(end_s)
        self._documents.append(document)
        self._changed.append(changed)

    def log(self) -> VisitLog:
        return VisitLog(
            np.array(self._documents, np.int64),
            np.array(self._starts, np.float64),
            np.array(self._ends, np.float64),
            np.array(self._changed, np.bool_),
        )


class _Budget:
    """The budget of revisits, if there is one, and the times of its two events."""

    def __init__(self, settings: SimulationSettings, by: PolicyController) -> None:
        is_metered = settings.budget is not None and by.is_metered
        self._limit = BudgetLimit.from_rate(settings.budget_per_s) if is_metered else None
        self._visits_ahead = by.visits_ahead
        self._tokens = TokenBucket()
        self.token_s = self.ahead_s = math.nan

    def next_s(self, now_s: float) -> float:
        """From when on a visit may be made."""
        return now_s if self._limit is None else self._tokens.next_at(self._limit, now_s)

    def spend(self, now_s: float) -> None:
        if self._limit is not None:
            self._tokens.spend(self._limit, now_s)

    def next_ahead_s(self, now_s: float) -> float | None:
        """From when on a visit may be made ahead of its time; None if it never may, or that time is set already."""
        if self._limit is None or not self._visits_ahead or self.ahead_s > now_s:
            return None
        soonest_s = now_s + 1.0 / self._limit.peak_per_s  # if no server may be visited yet
        self.ahead_s = max(self._tokens.next_ahead_at(self._limit, now_s), soonest_s)
        return self.ahead_s

    def available_ahead(self, now_s: float) -> bool:
        assert self._limit is not None
        return self._tokens.available_ahead(self._limit, now_s) > 0


class _Servers:
    """What waits on each server: new documents, and revisits on shelves; and which servers are ready for which."""

    def __init__(self, web: WebModel, by: PolicyController, share: float) -> None:
        count = len(web.servers)
        self._visits_ahead, self._share = by.visits_ahead, share
        self.new: list[deque[int]] = [deque() for _ in range(count)]  # never visited
        self.shelves = [ServerShelves() for _ in range(count)]
        self.pool = WaitingServers(self.shelves)  # ready for a revisit
        self.spare: dict[int, None] = {}  # servers of the pool that also have new documents
        self.ready: dict[int, None] = {}  # for a new document
        self._credit = [0.0] * count  # towards the next revisit, while there are new documents
        self.may_s = [0.0] * count  # earliest time by politeness
        self.wake_s = [math.nan] * count  # time of its ready event
        self._sleeping = SleepingServers(count)

    def sleep(self, server: int, policy: CachedPolicy, now_s: float) -> float:
        """The time of the server's next ready event."""
        due_s = 0.0 if self.new[server] else self.shelves[server].due(policy)
        self.wake_s[server] = wake_s = max(self.may_s[server], due_s, now_s)
        if self._visits_ahead:
            self._sleeping.put(server, wake_s)
        return wake_s

    def enter(self, server: int, policy: CachedPolicy, now_s: float) -> None:
        """A server is ready: decide between a new document and a revisit."""
        if not self.new[server]:
            self.pool.enter(server)
        elif self.shelves[server].due(policy) > now_s:
            self.ready[server] = None
        else:
            self._credit[server] = min(self._credit[server], 1.0) + self._share
            if self._credit[server] >= 1.0:
                self.pool.enter(server)
                self.spare[server] = None
            else:
                self.ready[server] = None

    def leave(self, server: int) -> None:
        self.ready.pop(server, None)
        self.spare.pop(server, None)
        self.pool.leave(server)

    def take_revisit(self, server: int, policy: CachedPolicy, now_s: float, explore: bool) -> int:
        """The document to revisit."""
        if self.new[server]:
            self._credit[server] -= 1.0
        shelf = choose_shelf(policy, self.shelves[server].heads(), now_s, explore, ahead=True)
        assert shelf is not None, "a server was sent for whose documents are not due"
        return self.shelves[server].take(shelf)

    def first_ahead(self, policy: CachedPolicy, now_s: float) -> int | None:
        """The server that may be visited ahead of its time."""

        def may_be(server: int) -> bool:
            if self.new[server] or self.may_s[server] > now_s:
                return False
            return choose_shelf(policy, self.shelves[server].heads(), now_s, ahead=True) is not None

        return self._sleeping.first(may_be)


class _Simulation:
    """The state of a run."""

    def __init__(
        self, web: WebModel, settings: SimulationSettings, by: PolicyController, knowledge: CrawlerKnowledge
    ) -> None:
        self.intervals: list[IntervalMeans] = []
        self.downloads = _Downloads()
        self._web, self._settings, self._scheme = web, settings, by
        self._events: list[tuple[float, EventKind, int]] = []
        self._copies, self._budget = _Copies(web, knowledge), _Budget(settings, by)
        self._servers = _Servers(web, by, settings.share)
        self._revisits = self._measured = 0
        self._policy: CachedPolicy  # made by the first renewal
        self._idle = [(-crawler.speed, number) for number, crawler in enumerate(web.crawlers)]

    def run(self) -> None:
        """Process all events from the first to the end."""
        self._begin()
        events, copies, servers = self._events, self._copies, self._servers
        modified_s, coming, gauge = copies.modified_s, copies.coming, copies.gauge
        while True:
            now_s, kind, number = events[0]
            if kind is EventKind.MODIFIED:
                modified_s[number] = now_s
                gauge.record_change(number, now_s)
                following_s = next(coming[number], None)
                if following_s is None:
                    heapq.heappop(events)
                else:
                    heapq.heapreplace(events, (following_s, kind, number))
                continue
            heapq.heappop(events)
            if kind is EventKind.READY:
                self._be_ready(number, now_s)
            elif kind is EventKind.FREE:
                heapq.heappush(self._idle, (-self._web.crawlers[number].speed, number))
            elif kind is EventKind.STATISTIC:
                self._measure(now_s)
                if number != ONCE:
                    self._push(now_s + self._settings.statistic_s, EventKind.STATISTIC)
            else:
                self._measure(now_s)
                return
            if events[0][0] > now_s:  # once all events of this time have happened
                if self._idle and (servers.ready or servers.pool):
                    self._dispatch(now_s)
                if not servers.pool:
                    self._await_ahead(now_s)

    def _begin(self) -> None:
        heapq.heapify(self._idle)
        for number, coming in enumerate(self._copies.coming):
            first_s = next(coming, None)
            if first_s is not None:
                self._push(first_s, EventKind.MODIFIED, number)
        for number, document in enumerate(self._web.documents):
            if self._settings.start == "fresh":
                self._copies.take(number, 0.0)
            else:
                self._servers.new[document.server].append(number)
        self._renew(0.0, self._settings.start == "fresh")
        self._push(self._settings.statistic_s, EventKind.STATISTIC)
        self._push(self._settings.from_s, EventKind.STATISTIC, ONCE)
        self._push(self._web.until_s, EventKind.END)
        self._await_ahead(0.0)

    def _push(self, at_s: float, kind: EventKind, number: int = 0) -> None:
        heapq.heappush(self._events, (at_s, kind, number))

    def _be_ready(self, number: int, now_s: float) -> None:
        if number == RENEW:
            self._renew(now_s)
        elif number == TOKEN:
            self._budget.token_s = math.nan
        elif number == AHEAD:
            self._budget.ahead_s = math.nan
            self._visit_ahead(now_s)
        elif self._servers.wake_s[number] == now_s:  # otherwise a later event replaced this one
            self._servers.wake_s[number] = math.nan
            self._servers.enter(number, self._policy, now_s)

    def _renew(self, now_s: float, place_all: bool = False) -> None:
        """Renew the policy: all due times may change."""
        turn = self._scheme.renew(now_s, self._copies.knowledge.pages)
        if turn.again_s < math.inf:
            self._push(turn.again_s, EventKind.READY, RENEW)
        if now_s > 0.0 and turn.plan is None and turn.policy == self._policy.behind:
            return
        self._policy = CachedPolicy(turn.policy)
        shelves, documents = self._servers.shelves, self._web.documents
        if turn.plan is not None:
            for one in shelves:
                one.clear()
            for due_s, document in turn.plan:
                shelf, _ = self._policy.place(self._copies.page(document))
                shelves[documents[document].server].put(shelf, due_s, document)
        elif place_all:
            for number, what in enumerate(documents):
                shelves[what.server].put(*self._policy.place(self._copies.page(number)), number)
        for server in range(len(shelves)):
            self._servers.leave(server)
            self._sleep(server, now_s)

    def _sleep(self, server: int, now_s: float) -> None:
        """Schedule the server's next ready event."""
        wake_s = self._servers.sleep(server, self._policy, now_s)
        if wake_s < math.inf:
            self._push(wake_s, EventKind.READY, server)

    def _dispatch(self, now_s: float) -> None:
        """Assign crawlers to servers, as long as there are both."""
        servers, budget = self._servers, self._budget
        while self._idle:
            if servers.ready:
                self._visit(next(iter(servers.ready)), now_s, is_new=True)
                continue
            if not servers.pool:
                return
            token_s = budget.next_s(now_s)
            if token_s <= now_s:
                server = servers.pool.best(self._policy, now_s)
                if server is None:
                    return
                budget.spend(now_s)
                self._visit(server, now_s, is_new=False)
            elif servers.spare:
                self._visit(next(iter(servers.spare)), now_s, is_new=True)
            else:
                if budget.token_s != token_s:
                    budget.token_s = token_s
                    self._push(token_s, EventKind.READY, TOKEN)
                return

    def _await_ahead(self, now_s: float) -> None:
        """Nothing is due. Schedule the time from which a visit may be made ahead of its time."""
        ahead_s = self._budget.next_ahead_s(now_s)
        if ahead_s is not None:
            self._push(ahead_s, EventKind.READY, AHEAD)

    def _visit_ahead(self, now_s: float) -> None:
        """Visit the document that is due next, if none is due, the budget has enough saved, and a crawler is free."""
        if self._servers.pool or not self._idle or not self._budget.available_ahead(now_s):
            return
        server = self._servers.first_ahead(self._policy, now_s)
        if server is not None:
            self._budget.spend(now_s)
            self._visit(server, now_s, is_new=False)

    def _visit(self, server: int, now_s: float, is_new: bool) -> None:
        """Start one download."""
        servers = self._servers
        servers.leave(server)
        if is_new:
            document = servers.new[server].popleft()
        else:
            self._revisits += 1
            explore = self._scheme.explores and self._revisits % EXPLORE_EVERY == 0
            document = servers.take_revisit(server, self._policy, now_s, explore)
        crawler = heapq.heappop(self._idle)[1]
        what, where = self._web.documents[document], self._web.servers[server]
        end_s = now_s + what.size / min(self._web.crawlers[crawler].speed, where.speed)
        self.downloads.add(document, now_s, end_s, self._copies.take(document, now_s))
        servers.shelves[server].put(*self._policy.place(self._copies.page(document)), document)
        servers.may_s[server] = where.next_start_s(now_s, end_s)
        self._push(end_s, EventKind.FREE, crawler)
        self._sleep(server, now_s)

    def _measure(self, now_s: float) -> None:
        last_s = self.intervals[-1].until_s if self.intervals else 0.0
        if now_s > last_s:
            self.intervals.append(self._copies.gauge.close(now_s, len(self.downloads) - self._measured))
            self._measured = len(self.downloads)


def _summary(
    web: WebModel, settings: SimulationSettings, intervals: list[IntervalMeans], log: VisitLog, violations: int
) -> SimulationSummary:
    """The means of the whole run from those of its intervals."""
    edges_s = np.array([0.0] + [interval.until_s for interval in intervals])
    spans_s = np.diff(edges_s) * (edges_s[:-1] >= settings.from_s)
    if web.is_poisson:
        freshness, ages_s = freshness_metrics.expected_means(web, log, edges_s, settings.start == "fresh")
        intervals = [
            msgspec.structs.replace(interval, expected_freshness=float(fresh), expected_age_s=float(age_s))
            for interval, fresh, age_s in zip(intervals, freshness, ages_s, strict=True)
        ]
    kept_s = spans_s * [interval.fetched for interval in intervals]

    def mean(values: Sequence[float | None], spans_s: Floats) -> float | None:
        if None in values or not spans_s.sum():
            return None
        return float(np.average(np.array(values, np.float64), weights=spans_s))

    fresh = mean([interval.freshness for interval in intervals], spans_s) or 0.0
    return SimulationSummary(
        policy=settings.policy,
        freshness=fresh,
        staleness=1.0 - fresh,
        age_s=mean([interval.age_s for interval in intervals], kept_s) or 0.0,
        visits=len(log.documents),
        changes_seen=int(log.changed.sum()),
        violations=violations,
        from_s=settings.from_s,
        intervals=tuple(intervals),
        expected_freshness=mean([interval.expected_freshness for interval in intervals], spans_s),
        expected_age_s=mean([interval.expected_age_s for interval in intervals], kept_s),
    )
