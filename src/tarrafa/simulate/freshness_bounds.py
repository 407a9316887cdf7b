"""Lower bounds of staleness that no policy can beat: with politeness (WP) and without (NonPolite).

Promises: the least mean staleness, weighted by importance, that visits at the best frequencies reach in the long run:
`wp` under the politeness of each server and the budget, `non_polite` under the budget alone.
Knows nothing of policies; crawlers are assumed to be fast enough.

The bounds hold for Poisson documents with known rates, in the long run. A run that starts with fresh copies of
everything is below them at first, whatever its policy: leave its beginning out of the means.
"""

import msgspec
import numpy as np

from tarrafa.revisit import optimal_frequency
from tarrafa.revisit.change_rate import DAY_S
from tarrafa.simulate.policy_controllers import server_intervals_s
from tarrafa.simulate.web_model import WebModel


class FreshnessBounds(msgspec.Struct, frozen=True):
    """The least staleness in the long run; None where there is no bound."""

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
