"""PostgreSQL frontier: the frontier's tables on one or more PostgreSQL servers that many machines share.

PostgreSQL keeps the tables; what can happen to them is the store's own code (../store.py), the same as for one file.
`server.py` runs it: a call locks the hosts that it is about, fetches what hangs below them into a working copy in
memory (`copy.py`), runs there, and writes the difference back in one transaction. `cluster.py` spreads sites over
several such servers.
"""
