"""Revisit policies: estimates change rates and decides which page to visit next (pure).

Promises: pure. No clock, no disk, no network; chance comes in as an argument. The live frontier and the simulator run
this same code, one on the real clock, the other on a false one.
Knows nothing of URLs, HTTP or tables: a page is its rate of change, its weight and its server.

`staleness` holds the formulas, `estimate` learns rates, `belief` says whose dates may be trusted, `policy` decides.
`allocation` and `slots` plan a whole day at once, `longrun` says what no policy can beat; these three compute with
numba or numpy and are imported only by those who need them.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tarrafa.revisit.allocation import allocate

__all__ = ["allocate"]


def __getattr__(name: str) -> Any:
    """`tarrafa.revisit.allocate`, without making everybody wait for numba."""
    if name == "allocate":
        from tarrafa.revisit.allocation import allocate

        return allocate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
