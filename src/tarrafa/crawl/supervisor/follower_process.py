"""The process of one follower: of the graph, of the captures, or of one part of index or triple store.

A follower keeps its projection up to date with the archive. It never touches the crawl: only the graph's weights are
sent to the frontier. Each process loads the code of its own projection only.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable

from tarrafa.archive import warc_reader as archive
from tarrafa.archive.warc_reader import Cursor
from tarrafa.clock import boottime
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import PROCESS_HEARTBEAT_EVERY_S, ProcessHeartbeat, send_from_thread

ReadCursor = Callable[[DataDirectory], Cursor]
Follow = Callable[[DataDirectory, threading.Event], None]
PROGRESS_TIME_SHARE = 0.005  # of our time for measuring the backlog: an archive may have thousands of files
# Of triple store and captures, which need little. Index and graph have the priority of the workers: what they have not
# done when the last page has come is waited for, while a processor is idle.
NICE = 5
LOW_PRIORITY = frozenset({"triples", "captures"})


def main(data: DataDirectory, projection: str, part: str = "") -> None:
    """The process of one follower, of graph or captures, or of one part of index or triple store."""
    stop, data = threading.Event(), DataDirectory(data.root, part)
    on_sigterm(stop.set)
    read_cursor, follow = FOLLOWERS[projection]()
    send_from_thread(data, FollowerHeartbeat(data, projection, read_cursor).heartbeat)
    if projection in LOW_PRIORITY:
        os.nice(NICE)
    follow(data, stop)


def _graph() -> tuple[ReadCursor, Follow]:
    from tarrafa.frontier.address import address_from_supervisor, connect_blocking
    from tarrafa.frontier.messages import UrlWeight
    from tarrafa.graph import follower

    def follow(data: DataDirectory, stop: threading.Event) -> None:
        frontier = connect_blocking(address_from_supervisor())

        def deliver(collection: str, weights: list[UrlWeight]) -> None:
            frontier.call("update_weights", collection, weights)

        follower.follow(data, deliver, stop)

    return follower.cursor, follow


def _index() -> tuple[ReadCursor, Follow]:
    from tarrafa.index import follower

    return follower.cursor, follower.follow


def _triples() -> tuple[ReadCursor, Follow]:
    from tarrafa.triples import follower, status

    return status.cursor, follower.follow


def _captures() -> tuple[ReadCursor, Follow]:
    from tarrafa.captures import follower

    return follower.cursor, follower.follow


FOLLOWERS = {"graph": _graph, "captures": _captures, "index": _index, "triples": _triples}


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
