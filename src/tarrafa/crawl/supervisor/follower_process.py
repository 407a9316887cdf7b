"""Follower process: keeps the link graph, the index or the triple store up to date with the archive.

Started by the supervisor. An index in several parts has one follower per part, and so has the triple store, which is
divided like the index. A follower never touches the crawl: it only sends the graph's weights to the frontier.
"""

import os
import threading

from tarrafa.archive import warc_reader as archive
from tarrafa.clock import boottime
from tarrafa.frontier.address import address_from_supervisor, connect_blocking
from tarrafa.frontier.messages import UrlWeight
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import ProcessHeartbeat, send_from_thread
from tarrafa.triples import follower as triples

CURSORS = {"graph": graph.cursor, "index": index.cursor, "triples": triples.cursor}
PROGRESS_TIME_SHARE = 0.005  # of our time for measuring the backlog: an archive may have thousands of files
TRIPLES_NICE = 5  # where processors are few, crawling comes before the triple store


def _follow(data: DataDirectory, projection: str, stop: threading.Event) -> None:
    if projection == "index":
        index.follow(data, stop)
        return
    if projection == "triples":
        os.nice(TRIPLES_NICE)
        triples.follow(data, stop)
        return
    frontier = connect_blocking(address_from_supervisor())

    def deliver(collection: str, weights: list[UrlWeight]) -> None:
        frontier.call("update_weights", collection, weights)

    graph.follow(data, deliver, stop)


class FollowerHeartbeat:
    """How far one follower is behind, for its heartbeat; another thread does the following."""

    def __init__(self, data: DataDirectory, projection: str) -> None:
        self._data, self._cursor = data, CURSORS[projection]
        self._name = f"{projection}-{data.part}" if data.part else projection
        self._behind, self._look_at = 0, 0.0

    def heartbeat(self) -> ProcessHeartbeat:
        if (began := boottime()) >= self._look_at:
            self._behind = archive.bytes_behind(self._data.archive, self._cursor(self._data))
            self._look_at = boottime() + (boottime() - began) / PROGRESS_TIME_SHARE
        return ProcessHeartbeat(self._name, os.getpid(), behind_bytes=self._behind)


def main(data: DataDirectory, projection: str, part: str = "") -> None:
    stop, data = threading.Event(), DataDirectory(data.root, part)
    on_sigterm(stop.set)
    send_from_thread(data, FollowerHeartbeat(data, projection).heartbeat)
    _follow(data, projection, stop)


if __name__ == "__main__":
    run_child(main)
