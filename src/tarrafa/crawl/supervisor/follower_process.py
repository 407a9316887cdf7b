"""Follower process: keeps the link graph, the index or the triple store up to date with the archive.

`python -m tarrafa.crawl.supervisor.follower_process graph|index|triples`: started by the supervisor; of an index in
several parts, and of the store that is divided as the index is, one for each. It never touches the crawl: the only
thing that goes back are the graph's weights, to the frontier.
"""

import argparse
import os
import signal
import threading
from pathlib import Path
from types import FrameType

from tarrafa.archive import warc_reader as archive
from tarrafa.clock import boottime
from tarrafa.frontier.address import address_from_supervisor, connect_blocking
from tarrafa.frontier.messages import UrlWeight
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import ProcessHeartbeat, send_from_thread
from tarrafa.runtime.process import die_with_parent, run_child
from tarrafa.triples import follower as triples

ROLES = ("graph", "index", "triples")
CURSORS = {"graph": graph.cursor, "index": index.cursor, "triples": triples.cursor}
PROGRESS_TIME_SHARE = 0.005  # of our time may go into looking how far we are: an archive may have thousands of files
TRIPLES_NICE = 5  # where processors are few, pages come first: what they state may wait a moment


def _follow(data: DataDirectory, role: str, stop: threading.Event) -> None:
    if role == "index":
        index.follow(data, stop)
        return
    if role == "triples":
        os.nice(TRIPLES_NICE)
        triples.follow(data, stop)
        return
    frontier = connect_blocking(address_from_supervisor())

    def deliver(collection: str, weights: list[UrlWeight]) -> None:
        frontier.call("update_weights", collection, weights)

    graph.follow(data, deliver, stop)


class FollowerHeartbeat:
    """How far one follower is behind, as its pulse tells it; another thread does the following."""

    def __init__(self, data: DataDirectory, role: str) -> None:
        self._data, self._role = data, role
        self._name = f"{role}-{data.part}" if data.part else role
        self._behind, self._look_at = 0, 0.0

    def heartbeat(self) -> ProcessHeartbeat:
        if (began := boottime()) >= self._look_at:
            self._behind = archive.bytes_behind(self._data.archive, CURSORS[self._role](self._data))
            self._look_at = boottime() + (boottime() - began) / PROGRESS_TIME_SHARE
        return ProcessHeartbeat(self._name, os.getpid(), behind_bytes=self._behind)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=ROLES)
    parser.add_argument("--part", default="")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent)
    stop = threading.Event()

    def on_term(number: int, frame: FrameType | None) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, on_term)
    data = DataDirectory(options.data, options.part)
    send_from_thread(data, FollowerHeartbeat(data, options.role).heartbeat)
    run_child(lambda: _follow(data, options.role, stop))


if __name__ == "__main__":
    main()
