"""Connections of libcurl to a part of the hosts, served by the event loop.

libcurl (one multi handle) names the sockets that it watches and the time when it wants to be called. It finds the open
connection of a host by passing over all connections to the same address: where thousands of hosts are on one address,
one pool for all would take longer for that than for the request (docs/decisions, 0287).
Promises: no connection of one pool serves another one; no more than `connections_max` connections stay open unused.
Knows nothing of requests and responses.
"""

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import pycurl


class ConnectionPool:
    """`on_end` is called with each handle whose transfer has ended, libcurl's error code (0: none) and its text."""

    def __init__(self, connections_max: int, on_end: Callable[[pycurl.Curl, int, str], None]) -> None:
        self._loop, self._on_end = asyncio.get_running_loop(), on_end
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections_max)
        self._timer: asyncio.TimerHandle | None = None
        self._watched: dict[int, int] = {}

    def start(self, curl: pycurl.Curl) -> None:
        """Begin the transfer of a handle; on an open connection its request leaves now."""
        self._multi.add_handle(curl)
        self._act(pycurl.SOCKET_TIMEOUT, 0)

    def remove(self, curl: pycurl.Curl) -> None:
        """Take back a handle, whose transfer is cut if it has not ended."""
        with contextlib.suppress(pycurl.error):
            self._multi.remove_handle(curl)

    def close(self) -> None:
        """Close all connections. No transfer may be under way."""
        for fd in list(self._watched):
            self._on_socket(pycurl.POLL_REMOVE, fd, None, None)
        if self._timer is not None:
            self._timer.cancel()
        self._multi.close()

    def _on_socket(self, what: int, fd: int, _multi: Any, _data: Any) -> None:
        before = self._watched.get(fd, 0)
        after = 0 if what == pycurl.POLL_REMOVE else what
        if before & pycurl.POLL_IN and not after & pycurl.POLL_IN:
            self._loop.remove_reader(fd)
        if before & pycurl.POLL_OUT and not after & pycurl.POLL_OUT:
            self._loop.remove_writer(fd)
        if after & pycurl.POLL_IN and not before & pycurl.POLL_IN:
            self._loop.add_reader(fd, self._act, fd, pycurl.CSELECT_IN)
        if after & pycurl.POLL_OUT and not before & pycurl.POLL_OUT:
            self._loop.add_writer(fd, self._act, fd, pycurl.CSELECT_OUT)
        if after:
            self._watched[fd] = after
        else:
            self._watched.pop(fd, None)

    def _on_timer(self, timeout_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if timeout_ms >= 0:
            self._timer = self._loop.call_later(timeout_ms / 1000, self._on_time)

    def _on_time(self) -> None:
        """Run curl's timeout. If the loop's timer fires early, curl finds nothing due and sets no new timer."""
        self._timer = None
        self._act(pycurl.SOCKET_TIMEOUT, 0)
        if self._timer is None:
            left_ms = self._multi.timeout()
            if left_ms >= 0:
                self._on_timer(max(1, left_ms))

    def _act(self, fd: int, events: int) -> None:
        self._multi.socket_action(fd, events)
        more = 1
        while more:
            more, finished, failed = self._multi.info_read()
            for curl in finished:
                self._on_end(curl, 0, "")
            for curl, code, text in failed:
                self._on_end(curl, code, text)
