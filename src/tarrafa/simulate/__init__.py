"""What would happen? Revisit policies on a false Web, under a false clock.

Promises: the same arguments give the same numbers, on every machine; nothing is visited before politeness allows it,
and every run counts that. What the live crawl decides with (`tarrafa.revisit`) is what runs here.
Knows nothing of URLs, HTTP or frontiers: a page is its rate of change, its weight and its server.

`workload` makes a Web, `queue` walks a day's plan through it, `classic` compares the classic policies, `plots` draws.
All but `plots` compute with numpy and numba: import them only where a simulation runs.
"""
