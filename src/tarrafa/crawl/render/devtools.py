"""Chromium's DevTools protocol over a pair of pipes: calls with their results, and events.

Each message is JSON with a zero byte behind it (`--remote-debugging-pipe`). A *DevTools session* is the connection to
one target: a page, a frame or a worker of the browser.
Promises: a message that is too long ends the connection; when the connection has ended, every waiting call and every
later one raises `BrowserGone`.
Knows nothing of processes, pages or requests.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any

import msgspec

MESSAGE_BYTES_MAX = 48 << 20
END = b"\0"


class BrowserGone(Exception):
    """The browser has ended, was killed, or talks nonsense."""


class DevToolsMessage(msgspec.Struct):
    """A result (`id`) or an event (`method`) of the browser."""

    id: int = 0
    method: str = ""
    sessionId: str = ""  # the protocol's own name
    params: dict[str, Any] = {}
    result: dict[str, Any] = {}
    error: dict[str, Any] = {}


class DevToolsPipe:
    """The connection to one browser. `on_event` gets the events, in their order; `on_end` is called at its end."""

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.on_event: Callable[[DevToolsMessage], None] = lambda event: None
        self.on_end: Callable[[], None] = lambda: None
        self._read_fd, self._write_fd = read_fd, write_fd
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._last_id, self._is_open = 0, True
        self._decoder = msgspec.json.Decoder(DevToolsMessage)
        self._outgoing: asyncio.WriteTransport | None = None
        self._incoming: asyncio.ReadTransport | None = None
        self._reading: asyncio.Task[None] | None = None

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MESSAGE_BYTES_MAX)
        self._outgoing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(self._write_fd, "wb"))
        self._incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._read_fd, "rb")
        )
        self._reading = asyncio.create_task(self._read(reader))

    async def call(self, method: str, session: str = "", **params: object) -> dict[str, Any]:
        """Call a method; its result. An error of the browser is an empty result: the target may be gone already."""
        return await self.send(method, session, **params)

    def send(self, method: str, session: str = "", **params: object) -> "asyncio.Future[dict[str, Any]]":
        """Send a call; the result need not be waited for."""
        waiter: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        if not self._is_open or self._outgoing is None:
            waiter.set_exception(BrowserGone("the browser has ended"))
            return _observed(waiter)
        self._last_id += 1
        call: dict[str, object] = {"id": self._last_id, "method": method, "params": params}
        if session:
            call["sessionId"] = session
        self._waiting[self._last_id] = waiter
        self._outgoing.write(msgspec.json.encode(call) + END)
        return _observed(waiter)

    def close(self) -> None:
        self._is_open = False
        for transport in (self._outgoing, self._incoming):
            if transport is not None:
                transport.close()
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(BrowserGone("the browser has ended"))
        self._waiting.clear()
        self.on_end()
        if self._reading is not None:
            self._reading.cancel()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
                while True:
                    self._take(self._decoder.decode((await reader.readuntil(END))[:-1]))
        except msgspec.MsgspecError:
            pass
        finally:
            self.close()

    def _take(self, message: DevToolsMessage) -> None:
        if not message.id:
            self.on_event(message)
            return
        waiter = self._waiting.pop(message.id, None)
        if waiter is not None and not waiter.done():
            waiter.set_result({} if message.error else message.result)


def _observed(waiter: "asyncio.Future[dict[str, Any]]") -> "asyncio.Future[dict[str, Any]]":
    """A future whose exception need not be fetched."""
    waiter.add_done_callback(lambda done: done.cancelled() or done.exception())
    return waiter
