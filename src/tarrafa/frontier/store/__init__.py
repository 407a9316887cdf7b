"""Frontier storage: the tables, the operations on them, and the SQLite frontier.

`sqlite_frontier.py` opens the one file, runs every call in one thread, and puts the operations together:
`collections.py`, `urls.py`, `leases.py`, `dispatch.py` and the others, each on a part of the tables of `database.py`.
Exactly one process, the frontier server, has the file open for writing: every other process calls it over its socket,
or only reads the file.
"""
