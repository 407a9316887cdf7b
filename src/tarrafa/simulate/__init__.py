"""Simulator of revisit policies on a modelled Web with a simulated clock.

Promises: the same arguments give the same numbers, on every machine; nothing is visited before politeness allows it,
and every run counts that. What the live crawl decides with (`tarrafa.revisit`) is what runs here.
Knows nothing of URLs or HTTP: a page is its rate of change, its weight and its server.

Two ways of simulating. Large and fast, for what theory says: `workload` makes a Web, `queue` walks a day's plan
through it for `classic`; `shelves` is the index policy in arrays, for `steady` and `learned`. Event by event, with
the live crawl's own policies: `falseweb` is what is there, `changes` how it changes, `engine` what happens,
`knowing`, `choosing`, `policies` and `measuring` its parts; `scenario` and `comparing` run a file, `mixture` four
kinds of changes, `whatif` a collection. `periodic` is a formula, `plots` draws. Most compute with numpy and numba:
import them only where a simulation runs.
"""
