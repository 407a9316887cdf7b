"""The followers of a data directory: a process each for graph, captures, and every part of index and triple store.

Where the archive is a segment log, one more process mirrors it here, and the others follow the mirror.

A follower keeps its projection up to date with the archive. It never touches the crawl: only the graph's weights are
sent to the frontier. `Followers` and `FollowerCatchUp` are for the supervisor: which of them run, and whether they have
caught up with the archive. `main` is the process of one follower.
Promises: the code of a projection is imported when it is first needed: by the supervisor after the workers were
started, by a follower only that of its own projection.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tarrafa.archive import warc_reader as archive
from tarrafa.clock import boottime
from tarrafa.crawl.supervisor.child_processes import ChildProcess
from tarrafa.errors import ConfigError, DataError, LeaseLost
from tarrafa.i18n import message
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import PROCESS_HEARTBEAT_EVERY_S, ProcessHeartbeat, send_from_thread

if TYPE_CHECKING:
    from tarrafa.archive.segment_log.segment import LogIdentity, SegmentManifest
    from tarrafa.index.shards import ShardLayout

MODULE = "tarrafa.crawl.supervisor.followers"
PROGRESS_TIME_SHARE = 0.005  # of our time for measuring the backlog: an archive may have thousands of files
NICE = 5  # of triple store and captures, which need little; index and graph go before the workers
LOW_PRIORITY = frozenset({"triples", "captures"})
NOT_OWNER = -1  # epoch of a graph follower that delivers nothing
CaughtUp = Callable[[], bool]  # whether all that was archived until some moment has reached the followers; blocks
ReadCursor = Callable[[DataDirectory], archive.Cursor]
Follow = Callable[[DataDirectory, threading.Event], None]


class Followers:
    """The follower processes. `layout`: the parts into which a new index is divided. `graph_epoch`: of the node's lease
    on the graph, see `main`."""

    def __init__(self, data: DataDirectory, layout: "ShardLayout | None") -> None:
        self._data, self._layout = data, layout
        self._log: tuple[SegmentManifest, LogIdentity] | None = None
        self.children: list[ChildProcess] = []
        self.graph_epoch = 0

    def mirror_log(self, manifest: "SegmentManifest", log: "LogIdentity") -> None:
        """The archive is a log that several machines write: one more child brings it here, and a lease says which
        machine delivers the weights of the graph."""
        self._log, self.graph_epoch = (manifest, log), NOT_OWNER
        self.renew()

    def archived(self) -> archive.Cursor:
        """What is archived at this moment, here or on any machine of the log."""
        if self._log is None:
            return archive.visit_lengths(self._data.archive)
        manifest, log = self._log
        return {log.file: end} if (end := manifest.lengths().visits_end) else {}

    def prepare(self) -> None:
        """Set the layout of a new index, remove stray parts, and create the children."""
        from tarrafa.index import shards
        from tarrafa.triples import storage

        wanted, there = self._layout, shards.read_layout(self._data)
        if wanted is not None and wanted.at_first != there.at_first:
            if wanted.at_first == there.at_first._replace(replicas=wanted.replicas):
                shards.write_layout(self._data, there._replace(replicas=wanted.replicas))
            elif shards.exists(self._data):
                raise ConfigError(
                    message(
                        "--index-shards {wanted}: the index of {root} is divided otherwise ({there}); `tarrafa"
                        " rebuild index --shards {wanted}` makes it again",
                        wanted=str(wanted.at_first),
                        root=self._data.root,
                        there=str(there.at_first),
                    )
                )
            else:
                shards.set_layout(self._data, wanted.at_first)
        if shards.read_layout(self._data).is_owned:
            self.graph_epoch = NOT_OWNER
        shards.remove_stray_parts(self._data)
        storage.remove_stray_parts(self._data)
        self.renew()

    def renew(self) -> None:
        """Create the children anew: the previous ones were dismissed."""
        from tarrafa.index import shards

        names = ("captures",) if self._log is None else ("log", "captures")
        beside = [ChildProcess.for_module(self._data, name, MODULE, projection=name) for name in names]
        self.children = [self._graph_child(), *beside]
        for part in shards.parts(self._data):
            self.children += self._part_children(part)

    def _graph_child(self) -> ChildProcess:
        return ChildProcess.for_module(self._data, "graph", MODULE, projection="graph", epoch=self.graph_epoch)

    def _part_children(self, part: DataDirectory) -> list[ChildProcess]:
        return [
            ChildProcess.for_module(
                self._data, _child_name(role, part), MODULE, role=role, projection=role, part=part.part
            )
            for role in ("index", "triples")
        ]

    def replace_graph_child(self, epoch: int) -> list[ChildProcess]:
        """Make another child for the graph, with the epoch of another lease; returns the one to be dismissed."""
        self.graph_epoch = epoch
        old = [child for child in self.children if child.role == "graph"]
        self.children = [self._graph_child(), *(child for child in self.children if child.role != "graph")]
        return old

    def add_part(self, part: DataDirectory) -> None:
        self.children += self._part_children(part)

    def remove_part(self, part: DataDirectory) -> list[ChildProcess]:
        """Forget the children of a part; returns those that are to be dismissed."""
        names = {_child_name(role, part) for role in ("index", "triples")}
        gone = [child for child in self.children if child.name in names]
        self.children = [child for child in self.children if child.name not in names]
        return gone

    @property
    def are_leased(self) -> bool:
        """Whether leases say what is followed and delivered here, because the archive is shared."""
        return self.graph_epoch != 0

    def expect_records(self, *, are_expected: bool) -> None:
        """Note whether more records will come: where none will, followers commit at once what they have read."""
        with contextlib.suppress(OSError):  # a full disk: they commit somewhat later
            if are_expected:
                self._data.exhausted.unlink(missing_ok=True)
            else:
                self._data.exhausted.touch()

    def beside_index(self) -> list[ChildProcess]:
        """The followers of graph, triple store and captures."""
        return [child for child in self.children if child.role != "index"]

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
        wanted. Where nodes share their archive, only the owner of the graph knows whether its weights are delivered."""
        from tarrafa.graph import follower as graph

        passage = FollowerCatchUp(self._data, collection, self.archived())

        def has_caught_up() -> bool:
            if self.are_leased and not graph.has_begun(self._data, self.graph_epoch):
                return False
            return self.are_dismissed or passage.is_complete()

        return has_caught_up

    def are_caught_up(self) -> bool:
        """Whether everything archived is in graph, index and triple store, and its weights are in the frontier; or no
        follower is wanted."""
        from tarrafa.captures import follower as captures
        from tarrafa.graph import follower as graph
        from tarrafa.index import follower as index
        from tarrafa.triples import status as triples_status

        if self.are_dismissed:
            return True
        until = self.archived()
        if graph.behind(self._data, until) or index.behind(self._data, until):
            return False
        return not (triples_status.behind(self._data, until) or captures.behind(self._data, until))


def _child_name(role: str, part: DataDirectory) -> str:
    return f"{role}-{part.part}" if part.part else role


class FollowerCatchUp:
    """Checks whether the content of the archive up to a cursor has reached graph, frontier, index and triple store."""

    def __init__(self, data: DataDirectory, collection: str, until: archive.Cursor) -> None:
        self._data, self._collection, self._until = data, collection, until
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


# -- the process of one follower ---------------------------------------------------------------------------------------


def main(data: DataDirectory, projection: str, part: str = "", epoch: int = 0) -> None:
    """Follow, until the supervisor ends this process. `epoch`: of the node's lease on the graph; `NOT_OWNER`: another
    node owns it; 0: nodes do not share their archive, and each delivers its own weights."""
    stop, data = threading.Event(), DataDirectory(data.root, part)
    on_sigterm(stop.set)
    read_cursor, follow = _graph(epoch) if projection == "graph" else FOLLOWERS[projection]()
    send_from_thread(data, FollowerHeartbeat(data, projection, read_cursor).heartbeat)
    if projection in LOW_PRIORITY:
        os.nice(NICE)
    follow(data, stop)


def _log() -> tuple[ReadCursor, Follow]:
    from tarrafa.archive.segment_log import log_mirror
    from tarrafa.frontier.address import address_from_supervisor, open_manifest

    def follow(data: DataDirectory, stop: threading.Event) -> None:
        opened = open_manifest(address_from_supervisor())
        if opened is None:
            raise DataError(message("the frontier has no segment log"))
        log_mirror.follow(data, *opened, stop)

    return lambda data: archive.visit_lengths(data.archive), follow


def _graph(epoch: int) -> tuple[ReadCursor, Follow]:
    from tarrafa.frontier.address import address_from_supervisor, connect_blocking
    from tarrafa.frontier.messages import UrlWeight
    from tarrafa.graph import follower

    def follow(data: DataDirectory, stop: threading.Event) -> None:
        if epoch == NOT_OWNER:
            follower.follow(data, None, stop)
            return
        frontier = connect_blocking(address_from_supervisor())

        def deliver(collection: str, weights: list[UrlWeight]) -> None:
            if frontier.call("update_weights", collection, weights, epoch):
                return
            if epoch:
                raise LeaseLost(message("another node owns the link graph now"))
            raise ConfigError(
                message(
                    "the machines of this frontier share their archive, and one of them owns the link graph: start this"
                    " one with --index-shards owned/N, too"
                )
            )

        follower.follow(data, deliver, stop, epoch)

    return follower.cursor, follow


def _index() -> tuple[ReadCursor, Follow]:
    from tarrafa.crawl.supervisor.part_snapshots import snapshots_of
    from tarrafa.index import follower

    def follow(data: DataDirectory, stop: threading.Event) -> None:
        snapshots = snapshots_of(data)
        if snapshots is None:
            follower.follow(data, stop)
            return
        with snapshots:
            snapshots.restore(stop)
            follower.follow(data, stop, snapshots)

    return follower.cursor, follow


def _triples() -> tuple[ReadCursor, Follow]:
    from tarrafa.triples import follower, status

    return status.cursor, follower.follow


def _captures() -> tuple[ReadCursor, Follow]:
    from tarrafa.captures import follower

    return follower.cursor, follower.follow


FOLLOWERS = {"log": _log, "captures": _captures, "index": _index, "triples": _triples}


class FollowerHeartbeat:
    """How far one follower is behind, for its heartbeat. The measuring has a thread of its own: a heartbeat never waits
    for the disk. Another thread does the following."""

    def __init__(self, data: DataDirectory, projection: str, read_cursor: ReadCursor) -> None:
        self._data, self._cursor = data, read_cursor
        self._name = f"{projection}-{data.part}" if data.part else projection
        self._behind_bytes = 0
        threading.Thread(target=self._measure, name="backlog", daemon=True).start()

    def _measure(self) -> None:
        while True:
            began = boottime()
            with contextlib.suppress(Exception):  # the follower itself reports what is wrong
                self._behind_bytes = archive.bytes_behind(self._data.archive, self._cursor(self._data))
            time.sleep(max(PROCESS_HEARTBEAT_EVERY_S, (boottime() - began) / PROGRESS_TIME_SHARE))

    def heartbeat(self) -> ProcessHeartbeat:
        return ProcessHeartbeat(self._name, os.getpid(), behind_bytes=self._behind_bytes)


if __name__ == "__main__":
    run_child(main)
