"""Histograms, percentiles and ranked counts of many numbers.

Pure: takes arrays and returns a `Distribution`. Percentiles are exact; bins are whole numbers where there are few, else
powers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tarrafa.report.schema import Bin, Distribution, NamedCount

PERCENTILES = (10, 50, 90, 99)
BINS_MAX = 48


def power_edges(values: NDArray[Any], base: float, least: float) -> NDArray[np.float64]:
    """Edges 0, least, least × base, … up to beyond the largest."""
    most = float(values.max()) if len(values) else 0.0
    steps = 1 if most < least else int(np.floor(np.log(most / least) / np.log(base) + 1e-9)) + 2
    return np.concatenate(([0.0], least * base ** np.arange(min(steps, BINS_MAX))))


def distribution(values: NDArray[Any], base: float = 2.0, least: float = 1.0) -> Distribution:
    """The distribution of numbers that are 0 or more; empty, if there are none."""
    if not len(values):
        return Distribution()
    edges = power_edges(values, base, least)
    edges[-1] = max(float(edges[-1]), float(values.max()) * (1 + 1e-9) + 1e-12)
    counts, _ = np.histogram(values, edges)
    bins = zip(edges[:-1].tolist(), edges[1:].tolist(), counts.tolist(), strict=True)
    p10, median, p90, p99 = np.percentile(values, PERCENTILES).tolist()
    return Distribution(
        len(values), float(values.mean(dtype=np.float64)), float(values.min()), p10, median, p90, p99,
        float(values.max()), [Bin(*row) for row in bins],
    )  # fmt: skip


def value_counts(values: NDArray[Any]) -> list[tuple[int, int]]:
    """Each different number and its count."""
    found, counts = np.unique(values, return_counts=True)
    return list(zip(found.tolist(), counts.tolist(), strict=True))


def rank_counts(
    counts: dict[str, int], servers: dict[str, int] | None = None, limit: int | None = None
) -> list[NamedCount]:
    """The most frequent first; shares are of all, those beyond the limit included."""
    total = sum(counts.values()) or 1
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]
    return [NamedCount(name, count, count / total, (servers or {}).get(name, 0)) for name, count in ordered]
