"""Has all that was archived of a collection until now reached everybody who follows?

Others may go on: what is archived later is not waited for. So one collection can be over while another one runs, for
days or for ever.
"""

from tarrafa.archive.follow import visit_lengths
from tarrafa.data import DataDirectory
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.triples import progress as triples


class FollowerCatchUp:
    """What the archive holds at this moment, on its way into graph, frontier, index and triple store."""

    def __init__(self, data: DataDirectory, collection: str) -> None:
        self._data, self._collection = data, collection
        self._until = visit_lengths(data.archive)
        self._commits: list[int] | None = None  # those of the triple store that hold it all: to be published

    def is_complete(self) -> bool:
        if graph.behind(self._data, self._until, self._collection) or index.behind(self._data, self._until):
            return False
        if self._commits is None:
            found = triples.commits(self._data, self._until)
            if found is None:
                return False
            self._commits = found
        return triples.are_published(self._data, self._commits)
