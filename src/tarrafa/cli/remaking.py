"""Making the index or the triple store again, in front of a person."""

import os

from tarrafa.archive.follow import published
from tarrafa.cli.checkpoint import Advance
from tarrafa.data import DataDirectory
from tarrafa.index import shards
from tarrafa.index.making import make_again
from tarrafa.triples import follower, layout


def index(data: DataDirectory, divided: str | None) -> int:
    """Make it again with all processors, in so many parts; the number of visits read. The triple store has the same
    parts: where it has others, it is made again, too."""
    wanted = shards.parse(divided, "--shards") if divided is not None else None
    with Advance("indexing", sum(published(data.archive).values())) as tell:
        count = make_again(data, len(os.sched_getaffinity(0)), tell, wanted)
    there, fitting = layout.all_books(data), {layout.books(part) for part in shards.parts(data)}
    if there and there != fitting:
        triples(data)
    return count


def triples(data: DataDirectory) -> int:
    """Make it again; the number of visits read."""
    layout.settle(data)
    size = sum(published(data.archive).values()) * len(shards.parts(data))
    with Advance("reading statements", size) as tell:
        return follower.rebuild(data, tell)
