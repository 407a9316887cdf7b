"""Frontier storage: the tables, the operations on them, and the SQLite frontier.

`sqlite.py` opens the one file and runs all that happens to it in one thread; `collections.py`, `urls.py` and
`hosts.py` are what can happen. Exactly one process has the file open for writing: everybody else asks it over its
socket. `images.py` takes hosts out and in, `snapshot.py` shows one moment, `replay.py` lives a lost frontier again.
"""
