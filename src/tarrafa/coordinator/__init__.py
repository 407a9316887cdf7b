"""The coordinator: collections and their versions, schedules, runs, nodes, notifications, audit.

Promises: every collection has one state with its reason, and never two runs at once; what people define is kept with
all its versions; every process of every node is seen, or known to be silent; the crawl itself needs none of this, and
goes on when whoever coordinates is away.
Knows nothing of HTML, and of HTTP only how a node calls its coordinator (`calling.py`).
"""
