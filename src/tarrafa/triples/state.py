"""How far is the triple store of this data directory?

For people and programs that look on: `tarrafa status`. Nothing is opened for writing.
"""

import msgspec

from tarrafa.data import DataDirectory, open_sqlite_readonly
from tarrafa.graph.store import sqlite_errors, rows
from tarrafa.index import shards
from tarrafa.triples import layout
from tarrafa.triples.progress import behind


class TriplesStatus(msgspec.Struct, frozen=True):
    """`pages`: those that state something. `things` that pages in several parts speak of are counted in each."""

    pages: int
    statements: int
    inferred: int
    things: int
    behind_bytes: int


def triples_status(data: DataDirectory) -> TriplesStatus | None:
    """None, where there is no store."""
    there = [part for part in shards.parts(data) if layout.exists(part)]
    if not there:
        return None
    sums = {"pages": 0, "statements": 0, "inferred": 0, "things": 0}
    for part in there:
        path = layout.database_path(part)
        with sqlite_errors(path, what="triples"):
            connection = open_sqlite_readonly(path)
            try:
                for name, value in rows(connection, "SELECT name, value FROM totals"):
                    sums[name] += value
            finally:
                connection.close()
    return TriplesStatus(**sums, behind_bytes=behind(data))
