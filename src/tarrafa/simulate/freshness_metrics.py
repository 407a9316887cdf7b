"""Measures freshness, staleness and age over simulated time, counted and in closed form, and their bounds.

Promises: freshness is the share of all documents, by importance, whose copy equals the document on the Web; staleness
is the rest; age is the time since the first change that a copy does not have (0 for a fresh one), over the documents
fetched so far. All are means over time, exact to the time of each event. A document never fetched is not fresh and has
no age; `fetched` is the share of documents with a copy.
Knows nothing of policies.

Two methods give the same numbers and share no code. `FreshnessGauge` follows the actual changes: a few running sums,
updated by each event. `expected_means` uses only the visit times and change rate of each document: a Poisson document
is still fresh t after a visit with probability e^(-rate t). That holds under learning policies, too: the time of the
next visit depends on what earlier visits saw, and a Poisson process has no memory; so each gap between two visits has
the expected freshness of any gap of its length. Their difference is chance; `expected_means` has less of it.

Known weakness: `expected_means` is wrong for other processes, and is not computed if there are any.
"""

import math
from dataclasses import dataclass

import msgspec
import numpy as np

from tarrafa.revisit import optimal_frequency
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate.change_process import Floats
from tarrafa.simulate.web_model import SimulatedServer, WebModel, server_intervals_s

SLACK_S = 1e-6  # of the politeness check alone: seconds of a month are kept to some 1e-9 s
SMALL = 1e-2  # expected changes below which differences of exponentials lose digits


class IntervalMeans(msgspec.Struct, frozen=True):
    """Means over the time since the previous interval."""

    until_s: float
    freshness: float
    age_s: float
    fetched: float  # share of the documents, by importance, with a copy
    visits: int
    expected_freshness: float | None = None  # in closed form, if all documents are Poisson
    expected_age_s: float | None = None


class SimulationSummary(msgspec.Struct, frozen=True):
    """The run of one policy; the means are over the time from `from_s` on."""

    policy: str
    freshness: float
    staleness: float
    age_s: float
    visits: int
    changes_seen: int  # visits that found a new version
    violations: int  # of politeness; always 0
    from_s: float
    intervals: tuple[IntervalMeans, ...]
    expected_freshness: float | None = None
    expected_age_s: float | None = None


@dataclass(slots=True, frozen=True)
class VisitLog:
    """All visits, in the order of their starts."""

    documents: np.ndarray[tuple[int], np.dtype[np.int64]]
    starts_s: Floats
    ends_s: Floats
    changed: np.ndarray[tuple[int], np.dtype[np.bool_]]


class FreshnessGauge:
    """Freshness and age, summed over time."""

    def __init__(self, weights: list[float]) -> None:
        self._weights = weights
        self._total = math.fsum(weights)
        self._since: list[float | None] = [None] * len(weights)  # first unseen change; inf: fresh; None: never fetched
        self._fresh = self._kept = self._stale = 0.0  # weights of the documents in each state
        self._stale_since = 0.0  # weight x first unseen change, over the stale
        self._fresh_area = self._kept_area = self._age_area = 0.0
        self._now_s = self._opened_s = 0.0

    def advance(self, now_s: float) -> None:
        span_s = now_s - self._now_s
        self._fresh_area += self._fresh * span_s
        self._kept_area += self._kept * span_s
        self._age_area += (self._stale * (now_s + self._now_s) / 2 - self._stale_since) * span_s
        self._now_s = now_s

    def record_change(self, document: int, now_s: float) -> None:
        """A document changed."""
        if self._since[document] == math.inf:
            self.advance(now_s)
            weight = self._weights[document]
            self._since[document] = now_s
            self._fresh -= weight
            self._stale += weight
            self._stale_since += weight * now_s

    def record_visit(self, document: int, now_s: float) -> None:
        """A document was visited."""
        since_s = self._since[document]
        if since_s == math.inf:
            return
        self.advance(now_s)
        weight = self._weights[document]
        self._since[document] = math.inf
        self._fresh += weight
        if since_s is None:
            self._kept += weight
        else:
            self._stale -= weight
            self._stale_since -= weight * since_s

    def close(self, now_s: float, visits: int) -> IntervalMeans:
        """The means since the last call."""
        self.advance(now_s)
        whole = self._total * (now_s - self._opened_s)
        age_s = max(0.0, self._age_area / self._kept_area) if self._kept_area else 0.0
        interval = IntervalMeans(now_s, self._fresh_area / whole, age_s, self._kept_area / whole, visits)
        self._fresh_area = self._kept_area = self._age_area = 0.0
        self._opened_s = now_s
        return interval


def expected_means(web: WebModel, log: VisitLog, edges_s: Floats, fetched_at_0: bool) -> tuple[Floats, Floats]:
    """Expected freshness and age of each interval between two edges, from the visit times alone.

    Every document's visits and all edges are put in order; between two neighbours nothing happens but time.
    """
    count, edges = len(web.documents), len(edges_s)
    documents = np.concatenate([np.repeat(np.arange(count), edges), log.documents])
    times_s = np.concatenate([np.tile(edges_s, count), log.starts_s])
    copied = np.concatenate([np.tile((edges_s == 0.0) & fetched_at_0, count), np.ones(len(log.starts_s), bool)])
    order = np.lexsort((copied, times_s, documents))
    documents, times_s, copied = documents[order], times_s[order], copied[order]
    copy = np.maximum.accumulate(np.where(copied, np.arange(len(copied)), 0))[:-1]  # the last one before a neighbour
    there = (documents[1:] == documents[:-1]) & (documents[copy] == documents[:-1]) & copied[copy]
    begin_s, end_s, from_s = times_s[:-1][there], times_s[1:][there], times_s[copy][there]
    document = documents[:-1][there]
    rates = np.array([one.rate for one in web.documents])[document]
    weights = np.array([one.weight for one in web.documents])
    fresh, age = _areas(rates, begin_s - from_s, end_s - from_s)
    where = np.searchsorted(edges_s, begin_s, side="right") - 1
    kept = np.bincount(where, weights[document] * (end_s - begin_s), edges)[: edges - 1]
    whole = weights.sum() * np.diff(edges_s)
    freshness = np.bincount(where, weights[document] * fresh, edges)[: edges - 1] / whole
    ages = np.bincount(where, weights[document] * age, edges)[: edges - 1] / np.where(kept > 0.0, kept, 1.0)
    return freshness, ages


def _areas(rates: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The integrals of expected freshness, e^(-rate t), and of expected age, t - (1 - e^(-rate t)) / rate, over the
    time since the visit from `low` to `high`.
    """
    safe = np.where(rates > 0.0, rates, 1.0)
    span = high - low
    fresh = np.where(rates > 0.0, np.exp(-rates * low) * -np.expm1(-rates * span) / safe, span)
    age = (high**2 - low**2) / 2 - (span - fresh) / safe

    def early(t: Floats) -> Floats:
        y = rates * t
        result: Floats = y * t**2 * (1 / 6 - y * (1 / 24 - y * (1 / 120 - y / 720)))
        return result

    return fresh, np.where(rates * high < SMALL, early(high) - early(low), age)


def count_violations(servers: tuple[SimulatedServer, ...], server_of: Floats, log: VisitLog) -> int:
    """Downloads that started too soon after the previous one on the same server. Shares no code with the scheduler."""
    order = np.lexsort((log.starts_s, server_of))
    server, start_s, end_s = server_of[order].astype(np.int64), log.starts_s[order], log.ends_s[order]
    same = server[1:] == server[:-1]
    pause_s = np.array([one.pause_s for one in servers])[server[1:]]
    from_end = np.array([one.pause_from == "end" for one in servers])[server[1:]]
    together = start_s[1:] < end_s[:-1] - SLACK_S
    hasty = start_s[1:] - np.where(from_end, end_s[:-1], start_s[:-1]) < pause_s - SLACK_S
    return int(np.count_nonzero(same & (together | hasty)))


class FreshnessBounds(msgspec.Struct, frozen=True):
    """The least mean staleness of Poisson documents with known rates in the long run: `wp` under politeness and the
    budget, `non_polite` under the budget alone; None where there is no bound. A run that starts with fresh copies of
    everything is below them at first: leave its beginning out of the means.
    """

    non_polite: float | None = None
    wp: float | None = None


def freshness_bounds(web: WebModel, budget: float | None) -> FreshnessBounds:
    """The bounds for a budget in visits per day; without a budget only politeness limits the visits."""
    if not web.is_poisson:
        return FreshnessBounds()
    rates = np.array([document.rate for document in web.documents])
    weights = np.array([document.weight for document in web.documents])
    servers = np.array([document.server for document in web.documents])
    caps = 1.0 / np.array(server_intervals_s(web))
    budget_per_s = None if budget is None else budget / DAY_S
    wp = optimal_frequency.solve(rates, weights, servers, caps, budget_per_s).staleness
    if budget_per_s is None:
        return FreshnessBounds(wp=wp)
    return FreshnessBounds(optimal_frequency.solve(rates, weights, servers, None, budget_per_s).staleness, wp)
