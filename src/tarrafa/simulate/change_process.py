"""Draws when documents change: Poisson, Pareto, regular, or a mixture.

Promises: under every process, a document of rate lambda changes lambda times per unit of time on average, from time 0
on: the changes do not reveal when the simulation began. Randomness is an argument.
Knows nothing of crawlers or visits; any unit of time will do.

A renewal process that begins at a change is not stationary: regular documents would all change in step. An observer who
arrives at time 0 meets the gap that covers time 0, and long gaps cover more arrivals than short ones: its length has
the density x f(x) / mean, and time 0 falls anywhere in it. So one such gap is drawn and cut at a uniform place; the
left end is the last change before 0 (the Last-Modified of the first visit), the right end the first change after. All
later gaps are ordinary.

    poisson   exponential gaps: the part on either side of 0 is exponential again
    pareto    P(gap > x) = (least / x)^shape: bursts, then silence. Covering gap: Pareto again, its shape less by one
    regular   1 / lambda, plus or minus JITTER of it, evenly. Covering gap: density x on the same range
    mixture   each document one of the three: 60, 30 and 10 of a hundred

Known weakness: with a shape of 2 or less the covering gap has no mean. Counts over any finite time are still right on
average, but a sample of documents needs to be large to show it.
"""

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rng = np.random.Generator

PARETO_SHAPE = 1.5  # above 1, or there is no mean; below 2, so that the variance is infinite
JITTER = 0.1  # of a regular gap, either way
MIXTURE = (0.6, 0.3, 0.1)  # poisson, pareto, regular


class ChangeProcess(enum.StrEnum):
    """The distribution of the gaps between two changes of a document."""

    POISSON = "poisson"
    PARETO = "pareto"
    REGULAR = "regular"


ProcessName = Literal["poisson", "pareto", "regular", "mixture"]


@dataclass(slots=True, frozen=True)
class ChangeTimes:
    """All changes of one document."""

    before: float  # the last one at or before time 0; minus infinity if there never was one
    after: Floats  # those after time 0, ascending


def choose_process(choice: str, chance: Rng) -> ChangeProcess:
    """The process of one document; a mixture chooses at random."""
    if choice != "mixture":
        return ChangeProcess(choice)
    return list(ChangeProcess)[int(np.searchsorted(np.cumsum(MIXTURE[:-1]), chance.random(), side="right"))]


def draw_changes(process: ChangeProcess, rate: float, until: float, chance: Rng) -> ChangeTimes:
    """The changes of one document from time 0 to `until`; a rate of 0 never changes."""
    if rate <= 0.0:
        return ChangeTimes(-math.inf, np.empty(0))
    covering = _COVERING[process](rate, chance)
    cut = chance.random()
    first = covering * (1.0 - cut)
    parts: list[Floats] = [np.array([first])]
    reached = first
    while reached < until:
        parts.append(reached + np.cumsum(draw_gaps(process, rate, _gaps_to_draw(rate * (until - reached)), chance)))
        reached = float(parts[-1][-1])
    after = np.concatenate(parts)
    return ChangeTimes(-covering * cut, after[: int(np.searchsorted(after, until, side="right"))])


def draw_all_changes(
    processes: Sequence[ChangeProcess], rates: Sequence[float], until: float, seed: int
) -> list[ChangeTimes]:
    """The changes of every document, each with its own random stream: they depend on the seed and the document's number
    alone.
    """
    return [
        draw_changes(process, rate, until, np.random.default_rng((seed, number)))
        for number, (process, rate) in enumerate(zip(processes, rates, strict=True))
    ]


def draw_gaps(process: ChangeProcess, rate: float, count: int, chance: Rng) -> Floats:
    """`count` ordinary gaps with mean 1 / rate."""
    return _GAPS[process](rate, count, chance)


def _gaps_to_draw(expected: float) -> int:
    """How many gaps to draw at once: hardly ever too few, never far too many."""
    return int(expected + 4.0 * math.sqrt(expected)) + 4


def _exponential(rate: float, count: int, chance: Rng) -> Floats:
    return chance.exponential(1.0 / rate, count)


def _pareto(rate: float, count: int, chance: Rng) -> Floats:
    return _least(rate) * (1.0 - chance.random(count)) ** (-1.0 / PARETO_SHAPE)


def _regular(rate: float, count: int, chance: Rng) -> Floats:
    return chance.uniform(1.0 - JITTER, 1.0 + JITTER, count) / rate


def _least(rate: float) -> float:
    """The shortest Pareto gap: mean = shape / (shape - 1) of it."""
    return (PARETO_SHAPE - 1.0) / PARETO_SHAPE / rate


def _covering_exponential(rate: float, chance: Rng) -> float:
    return float(chance.gamma(2.0)) / rate


def _covering_pareto(rate: float, chance: Rng) -> float:
    return float(_least(rate) * (1.0 - chance.random()) ** (-1.0 / (PARETO_SHAPE - 1.0)))


def _covering_regular(rate: float, chance: Rng) -> float:
    low, high = 1.0 - JITTER, 1.0 + JITTER
    return math.sqrt(low * low + (high * high - low * low) * chance.random()) / rate


_GAPS: dict[ChangeProcess, Callable[[float, int, Rng], Floats]] = {
    ChangeProcess.POISSON: _exponential,
    ChangeProcess.PARETO: _pareto,
    ChangeProcess.REGULAR: _regular,
}
_COVERING: dict[ChangeProcess, Callable[[float, Rng], float]] = {
    ChangeProcess.POISSON: _covering_exponential,
    ChangeProcess.PARETO: _covering_pareto,
    ChangeProcess.REGULAR: _covering_regular,
}
