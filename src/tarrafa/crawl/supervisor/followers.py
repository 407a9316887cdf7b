"""The followers of a data directory: a process each for graph, captures, and every part of index and triple store.

`Followers` and `FollowerCatchUp` are for the supervisor: which of them run, and whether they have caught up with the
archive. The processes are those of `follower_process.py`. The code of the projections is imported when it is first
needed, after the workers were started.
"""

from tarrafa.archive.warc_reader import visit_lengths
from tarrafa.crawl.supervisor.child_processes import ChildProcess
from tarrafa.crawl.supervisor.completion import CaughtUp
from tarrafa.errors import ConfigError
from tarrafa.i18n import message
from tarrafa.index import shards
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory
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
                    message(
                        "--index-shards {wanted}: the index of {root} is divided otherwise ({there}); `tarrafa"
                        " rebuild index --shards {wanted}` makes it again",
                        wanted=str(wanted),
                        root=self._data.root,
                        there=str(there),
                    )
                )
            shards.set_layout(self._data, wanted)
        shards.remove_stray_parts(self._data)
        storage.remove_stray_parts(self._data)
        self.renew()

    def renew(self) -> None:
        """Create the children anew: the previous ones were dismissed."""
        names = ("graph", "captures")
        self.children = [ChildProcess.for_module(self._data, name, MODULE, projection=name) for name in names]
        for part in shards.parts(self._data):
            for role in ("index", "triples"):
                name = f"{role}-{part.part}" if part.part else role
                arguments = {"projection": role, "part": part.part}
                self.children.append(ChildProcess.for_module(self._data, name, MODULE, role=role, **arguments))

    @property
    def are_dismissed(self) -> bool:
        return bool(self.children) and all(child.dismissed for child in self.children)

    @property
    def has_dismissed(self) -> bool:
        return any(child.dismissed for child in self.children)

    def has_anchors_to_refresh(self) -> bool:
        """Whether a running follower still has to bring anchor texts and ranks into the index."""
        from tarrafa.index.follower import is_settled

        return any(child.is_running for child in self.children) and not is_settled(self._data)

    def catch_up_of(self, collection: str) -> CaughtUp:
        """A check whether all that is archived of a collection until now has reached the followers, or no follower is
        wanted."""
        passage = FollowerCatchUp(self._data, collection)
        return lambda: self.are_dismissed or passage.is_complete()

    def are_caught_up(self) -> bool:
        """Whether everything archived is in graph, index and triple store, and its weights are in the frontier; or no
        follower is wanted."""
        from tarrafa.captures import follower as captures
        from tarrafa.graph import follower as graph
        from tarrafa.index import follower as index
        from tarrafa.triples import status as triples_status

        if self.are_dismissed:
            return True
        if graph.behind(self._data) or index.behind(self._data):
            return False
        return not (triples_status.behind(self._data) or captures.behind(self._data))


class FollowerCatchUp:
    """Checks whether the present content of the archive has reached graph, frontier, index and triple store."""

    def __init__(self, data: DataDirectory, collection: str) -> None:
        self._data, self._collection = data, collection
        self._until = visit_lengths(data.archive)
        self._commits: list[int] | None = None  # commits of the triple store that hold all of it, to be published

    def is_complete(self) -> bool:
        from tarrafa.captures import follower as captures
        from tarrafa.graph import follower as graph
        from tarrafa.index import follower as index
        from tarrafa.triples import status as triples_status

        if graph.behind(self._data, self._until, self._collection) or index.behind(self._data, self._until):
            return False
        if captures.behind(self._data, self._until):
            return False
        if self._commits is None:
            found = triples_status.commits(self._data, self._until)
            if found is None:
                return False
            self._commits = found
        return triples_status.are_published(self._data, self._commits)
