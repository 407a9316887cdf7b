"""Rebuilds one projection of the archive, whatever it holds. The caller holds DATA/lock."""

import os
from collections.abc import Callable

from tarrafa.captures import follower as captures
from tarrafa.graph import follower as graph
from tarrafa.index.parallel_rebuild import rebuild_in_parallel
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import follower as triples
from tarrafa.triples import storage

PROJECTIONS = ("graph", "captures", "index", "triples")  # the index reads the graph, so it comes after it


def rebuild_projection(data: DataDirectory, store: str, advance: Callable[[int], None]) -> None:
    if store == "graph":
        graph.rebuild(data)
    elif store == "captures":
        captures.rebuild(data, advance)
    elif store == "index":
        rebuild_in_parallel(data, len(os.sched_getaffinity(0)), advance)
    else:
        storage.remove_stray_parts(data)
        triples.rebuild(data, advance)
