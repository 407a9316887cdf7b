"""Budget of revisits: a token bucket that saves an hour's revisits, and limits the speed at which they are spent.

Two limits hold at once, as for the two rates of RFC 2698: in the long run no more revisits than the rate and an hour's
saved ones, in the short run no more than twice the rate. So a pause is made up for, but never at once.

Each limit is one number, the time when its bucket was empty; tokens have come evenly since then (the generic cell rate
algorithm, ITU-T I.371). Processes that spend at the same time add to it.

The index policy visits a page ahead of its time when half of what can be saved is there and nothing is due. Otherwise
the revisits of a quiet hour would be lost: pages that were first visited together are also due together.
"""

from dataclasses import dataclass

SAVED_S = 3600.0  # revisits that were not made are saved, but no more than this much of them
PEAK = 2.0  # times the rate: the saved ones are spent no faster
AT_ONCE_S = 2.0  # of real time: this much of the peak may be spent in one call; workers ask several times a second
SAVED_MIN = 2.0  # tokens, at any rate; a new bucket has them
ROUNDING = 1e-3  # of a token: times are kept to some 1e-7 s


@dataclass(frozen=True, slots=True)
class BudgetLimit:
    """Revisits a second, how many can be saved, and how many may be made at once."""

    per_s: float
    saved_max: float
    at_once_max: float

    @classmethod
    def from_rate(cls, per_s: float, clock_scale: float = 1.0) -> "BudgetLimit":
        at_once = PEAK * per_s * AT_ONCE_S * clock_scale
        return cls(per_s, max(SAVED_MIN, per_s * SAVED_S), max(SAVED_MIN, at_once))

    @property
    def peak_per_s(self) -> float:
        return PEAK * self.per_s


@dataclass(frozen=True, slots=True)
class Charge:
    """What tokens cost: the times of a bucket, but none before these, move by these."""

    saved_from_min: float
    saved_step_s: float
    peak_from_min: float
    peak_step_s: float


@dataclass(slots=True)
class TokenBucket:
    """Revisits that may be made now. Tokens that were not spent count at the present rate, even if they came at
    another one."""

    saved_from: float | None = None  # the saved tokens have come since; None: until the first question
    peak_from: float = 0.0  # the same for the tokens of the peak rate
    charge: Charge | None = None  # for the tokens spent since the bucket was read from the database

    def available(self, limit: BudgetLimit, now: float) -> int:
        """How many revisits may be made. Spends nothing."""
        saved = self._saved(limit, now)
        at_once = min(limit.at_once_max, (now - self.peak_from) * limit.peak_per_s)
        return int(max(0.0, min(saved, at_once) + ROUNDING))

    def available_ahead(self, limit: BudgetLimit, now: float) -> int:
        """How many saved revisits are to be made ahead of their time, if nothing is due."""
        above = self._saved(limit, now) - _saved_goal(limit) + ROUNDING
        return int(above) + 1 if above >= 0.0 and self.available(limit, now) else 0

    def next_at(self, limit: BudgetLimit, now: float) -> float:
        """When a revisit may be made; now, if one may."""
        if self.available(limit, now):
            return now
        return max(self._begun(limit, now) + 1.0 / limit.per_s, self.peak_from + 1.0 / limit.peak_per_s)

    def next_ahead_at(self, limit: BudgetLimit, now: float) -> float:
        """When a revisit may be made ahead of its time."""
        missing = _saved_goal(limit) - self._saved(limit, now)
        return max(self.next_at(limit, now), now + missing / limit.per_s)

    def spend(self, limit: BudgetLimit, now: float) -> None:
        saved_min, peak_min = now - limit.saved_max / limit.per_s, now - limit.at_once_max / limit.peak_per_s
        self.saved_from = max(self._begun(limit, now), saved_min) + 1.0 / limit.per_s
        self.peak_from = max(self.peak_from, peak_min) + 1.0 / limit.peak_per_s
        before = (self.charge.saved_step_s, self.charge.peak_step_s) if self.charge else (0.0, 0.0)
        self.charge = Charge(saved_min, before[0] + 1.0 / limit.per_s, peak_min, before[1] + 1.0 / limit.peak_per_s)

    def _saved(self, limit: BudgetLimit, now: float) -> float:
        return min(limit.saved_max, (now - self._begun(limit, now)) * limit.per_s)

    def _begun(self, limit: BudgetLimit, now: float) -> float:
        if self.saved_from is None:
            self.saved_from, self.peak_from = now - SAVED_MIN / limit.per_s, now - SAVED_MIN / limit.peak_per_s
        return self.saved_from


def _saved_goal(limit: BudgetLimit) -> float:
    return limit.saved_max / 2
