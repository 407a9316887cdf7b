"""Controllers that set and renew the parameters of a revisit policy during a simulation.

Promises: the policies are those of `tarrafa.revisit`; nothing here decides about a visit. The parameters of a policy
(an interval, a scale, a price, a plan) are computed from what the crawler knows of the documents at that time.
Knows nothing of events.

    index         the price that spends the budget in the long run; no budget: no price, every slot that
                  politeness gives is used
    psp           allocation with caps, MERGE; a new plan every horizon
    mp2           allocation with caps, each document at its own ideal times
    m-wolf        allocation without caps, each document at its own ideal times
    uniform       the interval at which all documents known so far together spend the budget
    proportional  unchanged; for documents with known rates, intervals stretched until they spend the budget
    rateupdate    the scale at which the rates known now spend the budget

Known weakness: proportional has no price. While it learns it demands visits by the changes that it sees, be that less
than the budget (the rest is wasted) or more (the bucket lets the most overdue go first).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

import numpy as np

from tarrafa.errors import ConfigError
from tarrafa.revisit import optimal_frequency
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.revisit.policy import (
    IndexPolicy,
    PageHistory,
    PlannedPolicy,
    ProportionalPolicy,
    RateUpdatePolicy,
    RevisitPolicy,
    UniformPolicy,
    class_of,
)
from tarrafa.simulate.web_model import WebModel, server_intervals_s

RENEW_EVERY_S = 3600.0  # prices and scales; the live frontier renews six times as often, which costs more than it shows

PolicyName = Literal["index", "psp", "mp2", "m-wolf", "uniform", "proportional", "rateupdate"]
POLICY_NAMES: tuple[PolicyName, ...] = get_args(PolicyName)
Pages = Sequence[PageHistory | None]


@dataclass(slots=True, frozen=True)
class SimulationSettings:
    """How a Web is crawled."""

    policy: PolicyName = "index"
    budget: float | None = None  # revisits per day; None: as many as politeness allows
    learn: bool = True  # False: the true rates are known
    start: Literal["sweep", "fresh"] = "sweep"  # start without copies, or with a copy of everything made at time 0
    share: float = 0.5  # of a server's slots for revisits, while it has documents never visited
    horizon_s: float = DAY_S  # of the plans
    interval_min_s: float = 0.0  # no document is visited more often
    scale_s: float | None = None  # of rateupdate; None: the scale that spends the budget, or a day
    statistic_s: float = 6 * 3600.0
    from_s: float = 0.0  # where the means of the whole run begin

    def __post_init__(self) -> None:
        for name, value, fits, allowed in (
            ("policy", self.policy, self.policy in POLICY_NAMES, f"one of {', '.join(POLICY_NAMES)}"),
            ("budget", self.budget, self.budget is None or self.budget > 0, "above 0 visits a day"),
            ("share", self.share, 0 <= self.share <= 1, "0 to 1"),
            ("horizon", self.horizon_s, self.horizon_s > 0, "above 0"),
            ("interval_min", self.interval_min_s, self.interval_min_s >= 0, "0 or more"),
            ("statistic", self.statistic_s, self.statistic_s > 0, "above 0"),
        ):
            if not fits:
                raise ConfigError(f"{name} must be {allowed}, got {value}")

    @property
    def budget_per_s(self) -> float:
        return math.inf if self.budget is None else self.budget / DAY_S


@dataclass(slots=True, frozen=True)
class PolicyTurn:
    """The parameters that the scheduler uses until the next renewal."""

    policy: RevisitPolicy
    plan: Sequence[tuple[float, int]] | None = None  # all visits of a plan, due and document; None: no plan
    again_s: float = math.inf


class PolicyController(Protocol):
    """Makes and renews the policy of a simulation."""

    explores: bool  # whether one visit in EXPLORE_EVERY explores
    is_metered: bool  # False: the plan keeps to the budget by itself
    visits_ahead: bool  # whether budget that is left over is spent on the documents that are due next

    def renew(self, now_s: float, pages: Pages) -> PolicyTurn:
        """The policy from now on."""


def make_controller(web: WebModel, settings: SimulationSettings) -> PolicyController:
    """The controller that the settings name."""
    if settings.policy == "index":
        return PriceController(web, settings)
    if settings.policy in ("psp", "mp2", "m-wolf"):
        return PlanController(web, settings)
    return IntervalController(settings)


def interval_stretch(web: WebModel, settings: SimulationSettings) -> float:
    """The factor for proportional's true intervals at which they spend the budget."""
    return math.fsum(one.rate for one in web.documents) / settings.budget_per_s if settings.budget else 1.0


class IntervalController:
    """The controller of uniform, proportional and rateupdate."""

    explores = visits_ahead = False
    is_metered = True

    def __init__(self, settings: SimulationSettings) -> None:
        self._settings = settings

    def renew(self, now_s: float, pages: Pages) -> PolicyTurn:
        settings, least_s = self._settings, self._settings.interval_min_s
        learning_s = now_s + RENEW_EVERY_S if settings.learn or settings.start == "sweep" else math.inf
        if settings.policy == "uniform":
            known = sum(page is not None for page in pages)
            again_s = learning_s if known < len(pages) else math.inf
            return PolicyTurn(UniformPolicy(max(least_s, known / settings.budget_per_s)), again_s=again_s)
        if settings.policy == "proportional":
            return PolicyTurn(ProportionalPolicy(least_s))
        if settings.scale_s is not None or settings.budget is None:
            return PolicyTurn(RateUpdatePolicy(settings.scale_s or DAY_S, least_s))
        total = math.fsum(page.rate for page in pages if page is not None)
        return PolicyTurn(RateUpdatePolicy(max(total, 1.0) / settings.budget_per_s, least_s), again_s=learning_s)


class PlanController:
    """The controller of psp, mp2 and m-wolf. A plan assumes that every copy is fresh when it begins; that none is, is
    the cost of planning.
    """

    explores = visits_ahead = False
    is_metered = False

    def __init__(self, web: WebModel, settings: SimulationSettings) -> None:
        from tarrafa.revisit.allocation import page_visits_max

        self._web = web
        self._settings = settings
        self._made = 0
        self._page_max = page_visits_max(settings.horizon_s, settings.interval_min_s)
        documents = np.bincount([document.server for document in web.documents], minlength=len(web.servers))
        caps = np.minimum(settings.horizon_s / np.maximum(server_intervals_s(web), 1e-3), self._page_max * documents)
        self._caps = np.floor(caps).astype(np.int64)

    def renew(self, now_s: float, pages: Pages) -> PolicyTurn:
        from tarrafa.revisit.allocation import allocate
        from tarrafa.revisit.visit_times import merge, own_times

        settings, horizon_s = self._settings, self._settings.horizon_s
        known = [(number, page) for number, page in enumerate(pages) if page is not None]
        self._made += 1
        end_s = now_s + horizon_s
        if not known:
            return PolicyTurn(PlannedPolicy(self._made, end_s), [], end_s)
        servers = np.array([self._web.documents[number].server for number, _ in known])
        budget = int(min(settings.budget_per_s * horizon_s, self._caps.sum()))
        visits = allocate(
            np.array([page.estimate for _, page in known]),
            servers,
            None if settings.policy == "m-wolf" else self._caps,
            budget,
            horizon_s,
            np.array([page.weight for _, page in known]),
            self._page_max,
        )
        place = merge if settings.policy == "psp" else own_times
        slots = place(visits, servers, len(self._web.servers), horizon_s)
        plan = [
            (now_s + due_s, known[row][0]) for due_s, row in zip(slots.due.tolist(), slots.page.tolist(), strict=True)
        ]
        return PolicyTurn(PlannedPolicy(self._made, end_s), plan, end_s)


class PriceController:
    """The controller of index. Documents of one server and class are one row of the optimum, so that a price costs
    milliseconds.

    The long-run optimum knows neither of exploring, which is added, nor that a due document waits for its server's next
    slot and is visited a little less often. What is left of the budget is spent by visits ahead of their time.
    """

    explores = is_metered = visits_ahead = True

    def __init__(self, web: WebModel, settings: SimulationSettings) -> None:
        self._servers = [document.server for document in web.documents]
        self._caps = 1.0 / np.array(server_intervals_s(web))
        self._settings = settings

    def renew(self, now_s: float, pages: Pages) -> PolicyTurn:
        settings = self._settings
        if not settings.budget:
            return PolicyTurn(IndexPolicy(0.0, settings.interval_min_s))
        again_s = now_s + RENEW_EVERY_S if settings.learn or settings.start == "sweep" else math.inf
        return PolicyTurn(IndexPolicy(self._price(pages), settings.interval_min_s), again_s=again_s)

    def _price(self, pages: Pages) -> float:
        """The price at which the visits worth it add up to the budget, in the long run."""
        counts = Counter(
            (server, page.shelf) for server, page in zip(self._servers, pages, strict=True) if page is not None
        )
        if not counts:
            return 0.0
        classes = np.array([class_of(shelf) for _, shelf in counts])
        servers = np.array([server for server, _ in counts])
        many, budget = np.array(list(counts.values())), self._settings.budget_per_s
        return optimal_frequency.solve(classes[:, 0], classes[:, 1], servers, self._caps, budget, many).price
