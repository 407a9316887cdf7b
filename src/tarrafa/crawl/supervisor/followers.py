"""The followers of a data directory: one process for the graph, and one each for every part of index and triple store.

It also tells when the followers have caught up with the archive.
"""

from tarrafa.crawl.supervisor.child_process import ChildProcess
from tarrafa.crawl.supervisor.completion import CaughtUp, FollowerCatchUp
from tarrafa.errors import ConfigError
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.index import shards
from tarrafa.index.follower import is_settled
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.triples import follower as triples
from tarrafa.triples import storage

MODULE = "tarrafa.crawl.supervisor.follower_process"


class Followers:
    """The follower processes. `layout`: the parts into which a new index is divided."""

    def __init__(self, data: DataDirectory, layout: ShardLayout | None) -> None:
        self._data, self._layout = data, layout
        self.children: list[ChildProcess] = []

    def prepare(self) -> None:
        """Set the layout of a new index, remove stray parts, and create the children."""
        wanted, there = self._layout, shards.read_layout(self._data)
        if wanted is not None and wanted != there:
            if shards.exists(self._data):
                raise ConfigError(
                    f"--index-shards {wanted}: the index of {self._data.root} is divided otherwise ({there}); "
                    f"`tarrafa rebuild index --shards {wanted}` makes it again"
                )
            shards.set_layout(self._data, wanted)
        shards.remove_stray_parts(self._data)
        storage.remove_stray_parts(self._data)
        self.renew()

    def renew(self) -> None:
        """Create the children anew: the previous ones were dismissed."""
        self.children = [ChildProcess.for_module(self._data, "graph", MODULE, "graph", role="graph")]
        for part in shards.parts(self._data):
            for role in ("index", "triples"):
                name = f"{role}-{part.part}" if part.part else role
                arguments = (MODULE, role, f"--part={part.part}")
                self.children.append(ChildProcess.for_module(self._data, name, *arguments, role=role))

    @property
    def are_dismissed(self) -> bool:
        return bool(self.children) and all(child.dismissed for child in self.children)

    @property
    def has_dismissed(self) -> bool:
        return any(child.dismissed for child in self.children)

    def has_anchors_to_refresh(self) -> bool:
        """Whether a running follower still has to bring anchor texts and ranks into the index."""
        return any(child.is_running for child in self.children) and not is_settled(self._data)

    def catch_up_of(self, collection: str) -> CaughtUp:
        """A check whether all that is archived of a collection until now has reached the followers, or no follower is
        wanted."""
        passage = FollowerCatchUp(self._data, collection)
        return lambda: self.are_dismissed or passage.is_complete()

    def are_caught_up(self) -> bool:
        """Whether everything archived is in graph, index and triple store, and its weights are in the frontier; or no
        follower is wanted."""
        if self.are_dismissed:
            return True
        return not (graph.behind(self._data) or index.behind(self._data) or triples.behind(self._data))
