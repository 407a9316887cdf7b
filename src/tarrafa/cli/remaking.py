"""Making the index or the triple store again, in front of a person."""

import os

from tarrafa.archive.follow import visit_lengths
from tarrafa.cli.checkpoint import ProgressBar
from tarrafa.data import DataDirectory
from tarrafa.index import shards
from tarrafa.index.making import rebuild_in_parallel
from tarrafa.triples import follower, layout


def rebuild_index(data: DataDirectory, divided: str | None) -> int:
    """Make it again with all processors, in so many parts; the number of visits read. The triple store has the same
    parts: where it has others, it is made again, too."""
    wanted = shards.parse_layout(divided, "--shards") if divided is not None else None
    with ProgressBar("indexing", sum(visit_lengths(data.archive).values())) as tell:
        count = rebuild_in_parallel(data, len(os.sched_getaffinity(0)), tell, wanted)
    there, fitting = layout.all_database_paths(data), {layout.database_path(part) for part in shards.parts(data)}
    if there and there != fitting:
        rebuild_triples(data)
    return count


def rebuild_triples(data: DataDirectory) -> int:
    """Make it again; the number of visits read."""
    layout.remove_stray_parts(data)
    size = sum(visit_lengths(data.archive).values()) * len(shards.parts(data))
    with ProgressBar("reading statements", size) as tell:
        return follower.rebuild(data, tell)
