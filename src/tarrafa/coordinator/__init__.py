"""The coordinator: collections and their versions, schedules, runs, nodes, notifications, audit.

Promises: every collection has one state with its reason, and never two runs at once; every version of a definition is
kept; every process of every node is seen, or known to be silent; the crawl does not need the coordinator, and continues
while it is unreachable.
Knows nothing of HTML, and of HTTP only how a node calls its coordinator (`node/worker_node.py`).
"""
