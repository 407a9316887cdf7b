"""Making the index again, in front of a person."""

import os

from tarrafa.archive.follow import published
from tarrafa.cli.checkpoint import Advance
from tarrafa.data import DataDirectory
from tarrafa.index import shards
from tarrafa.index.making import make_again


def index(data: DataDirectory, divided: str | None) -> int:
    """Make it again with all processors, in so many parts; the number of visits read."""
    if divided is not None:
        shards.choose(data, shards.parse(divided, "--shards"))
    shards.settle(data)
    with Advance("indexing", sum(published(data.archive).values())) as tell:
        return make_again(data, len(os.sched_getaffinity(0)), tell)
