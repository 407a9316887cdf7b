"""Revisit policies: estimates change rates and decides which page to visit next (pure).

Promises: pure. No clock, no disk, no network; randomness is an argument. The live frontier and the simulator run this
same code, one on the real clock, the other on a simulated one.
Knows nothing of URLs, HTTP or tables: a page is its change rate, its weight and its server.

`visit_value` holds the formulas, `change_rate` estimates rates, `date_trust` decides whose dates are trusted, `policy`
decides which page is next. `allocation` and `visit_times` plan a whole day at once, `optimal_frequency` computes the
optimum that no policy can beat; these three compute with numba or numpy and are imported only where they are needed.
"""

from typing import TYPE_CHECKING, Any

from tarrafa.revisit.belief import believe

if TYPE_CHECKING:
    from tarrafa.revisit.allocation import allocate

__all__ = ["allocate", "believe"]


def __getattr__(name: str) -> Any:
    """Provides `tarrafa.revisit.allocate` without importing numba for every user of this package."""
    if name == "allocate":
        from tarrafa.revisit.allocation import allocate

        return allocate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
