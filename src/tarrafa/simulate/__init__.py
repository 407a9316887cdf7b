"""Simulator of revisit policies on a modelled Web with a simulated clock.

Promises: the same arguments give the same numbers, on every machine. No visit is made before politeness allows it, and
every run counts violations. The decisions are made by the code of the live crawl (`tarrafa.revisit`).
Knows nothing of URLs or HTTP: a page is its change rate, its weight and its server.

There are two ways of simulating. Large and fast, to check theory: `workload` makes a Web, `plan_execution` executes a
day's plan for `classic_policies`; `index_policy_queues` is the index policy in arrays, for `steady_state` and
`learning_cost`. Event by event, with the live crawl's own policies: `web_model` is the Web, `change_process` its
changes, `event_simulation` the simulation, with `scheduler`, `policy_controllers` and `freshness_metrics` as its parts;
`policy_comparison` runs a `scenario` file or compares change processes, `collection_forecast` forecasts a live
collection. `periodic_crawl` is a formula, `matplotlib_plots` draws. Most compute with numpy and numba: import them only
where a simulation runs.
"""

from tarrafa.runtime.compiled_kernels import use_own_numba_cache

use_own_numba_cache()  # before any module of this package imports numba
