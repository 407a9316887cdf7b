"""How far is the triple store of this data directory?

For people and programs that look on: `tarrafa status`. Nothing is opened for writing.
"""

import msgspec

from tarrafa.data import DataDirectory, open_to_read
from tarrafa.graph.store import in_our_words, rows
from tarrafa.index import shards
from tarrafa.triples import layout
from tarrafa.triples.progress import behind


class TriplesState(msgspec.Struct, frozen=True):
    """`pages`: those that state something. `things` that pages in several parts speak of are counted in each."""

    pages: int
    statements: int
    inferred: int
    things: int
    behind_bytes: int


def state_of(data: DataDirectory) -> TriplesState | None:
    """None, where there is no store."""
    there = [part for part in shards.parts(data) if layout.exists(part)]
    if not there:
        return None
    sums = {"pages": 0, "statements": 0, "inferred": 0, "things": 0}
    for part in there:
        path = layout.books(part)
        with in_our_words(path, what="triples"):
            connection = open_to_read(path)
            try:
                for name, value in rows(connection, "SELECT name, value FROM totals"):
                    sums[name] += value
            finally:
                connection.close()
    return TriplesState(**sums, behind_bytes=behind(data))
