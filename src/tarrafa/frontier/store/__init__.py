"""Frontier storage: the tables, the operations on them, and the SQLite frontier.

`sqlite_frontier.py` opens the one file and runs every call in one thread; `frontier_store.py` puts the operations
together: `collections.py`, `urls.py`, `leases.py`, `dispatch.py` and the others, each on a part of the tables of
`schema.py`. Exactly one process has the file open for writing: every other process calls that one over its socket.
`host_transfer.py` exports and imports hosts, `offline_reads.py` reads the file beside its owner or without one,
`replay.py` rebuilds a lost frontier.
"""
