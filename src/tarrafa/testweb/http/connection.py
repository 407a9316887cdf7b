"""Handles one HTTP/1.1 client connection of the synthetic Web: keep-alive, pipelining, request log.

Promises: HTTP/1.1 with keep-alive and pipelining; responses in the order of the requests, one at a time. Every request
to a host of the world is logged when its response has been sent, or when the client has closed.
Knows nothing of pages: it asks its `RequestHandler` for the response.
"""

import asyncio
import socket
import struct
from collections import Counter, deque
from typing import Protocol, cast

import httptools

from tarrafa.clock import Clock, boottime
from tarrafa.testweb.hostile import HostileExchange, HostileHost
from tarrafa.testweb.http.request_log import LoggedRequest
from tarrafa.testweb.http.web_response import PLAIN, WebRequest, WebResponse, typed

HEAD_BYTES_MAX = 64 * 1024
PIPELINE_MAX = 64
REQUEST_HEADERS = (b"host", b"user-agent", b"if-none-match", b"if-modified-since", b"accept-encoding", b"cookie")


class RequestHandler(Protocol):
    """The part of the server that a connection needs."""

    clock: Clock
    request_counts: Counter[str]  # for the hostile hosts

    def connection_opened(self, connection: "WebConnection") -> int: ...
    def connection_closed(self, connection: "WebConnection") -> None: ...
    def hostile_host_for(self, request: WebRequest) -> HostileHost | None: ...
    def respond(self, request: WebRequest, now: float) -> tuple[WebResponse, float, bool]:
        """The response, its latency in seconds, and whether to log it."""
        ...

    def log_request(self, entry: LoggedRequest) -> None: ...


class WebConnection(asyncio.Protocol):
    def __init__(self, handler: RequestHandler, scheme: str = "http") -> None:
        self._handler = handler
        self._scheme = scheme
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[tuple[WebRequest, float]] = deque()
        self._current: tuple[WebRequest, float] | None = None  # the request in progress, and since when
        self._logged = self._written = False
        self._reading_paused = False  # paused because too much is queued
        self._status = self._bytes = 0
        self._sent = 0.0
        self._hostile_task: asyncio.Task[None] | None = None
        self._drained: asyncio.Event | None = None  # awaited by a hostile host
        self._reset_request()

    def _reset_request(self) -> None:
        self._url = b""
        self._headers: dict[bytes, str] = {}

    @property
    def under_way(self) -> int:
        """Requests read and not yet answered, except those to the server's own endpoints."""
        return len(self._queue) + (self._current is not None and self._logged)

    # --- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass of it
        self.transport.set_write_buffer_limits(high=0)  # so `resume_writing` means: the kernel has taken everything
        name = transport.get_extra_info("sockname")
        self.address: str = name[0]
        self._number = self._handler.connection_opened(self)
        self._unparsed = 0

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError:
            self._refuse(400)
            return
        if self._unparsed > HEAD_BYTES_MAX:
            self._refuse(431)
            return
        if self._current is None:
            self._next()
        if len(self._queue) > PIPELINE_MAX and not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    def connection_lost(self, error: Exception | None) -> None:
        if self._hostile_task is not None:
            self._hostile_task.cancel()
        if self._current is not None:
            if not self._written:
                self._status = 0
            self._close_entry()
        self._queue.clear()
        self._handler.connection_closed(self)

    def pause_writing(self) -> None:
        if self._drained is not None:
            self._drained.clear()

    def resume_writing(self) -> None:
        if self._drained is not None:
            self._drained.set()
        if self._written and self._current is not None:
            self._done()

    # --- called by the parser

    def on_message_begin(self) -> None:
        self._start = boottime()

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key = name.lower()
        if key in REQUEST_HEADERS:
            self._headers[key] = value.decode("latin-1")

    def on_message_complete(self) -> None:
        self._unparsed = 0
        target, headers = self._url.decode("latin-1"), [self._headers.get(name, "") for name in REQUEST_HEADERS]
        authority, agent, match, since, codings, cookie = headers
        if target.startswith("http://"):  # absolute form, as sent to proxies
            authority, slash, rest = target[7:].partition("/")
            target = slash + rest or "/"
        request = WebRequest(
            self._parser.get_method().decode(), target, authority or self.address, agent, match, since,
            self._parser.should_keep_alive(), codings, cookie,
        )  # fmt: skip
        self._reset_request()
        self._queue.append((request, self._start))

    # --- responses

    def _next(self) -> None:
        """Start the next waiting request."""
        while self._queue and self._current is None and not self.transport.is_closing():
            self._current = self._queue.popleft()
            request = self._current[0]
            self._written = False
            hostile = self._handler.hostile_host_for(request)
            if hostile is not None:
                self._logged, self._bytes = True, 0
                self._hostile_task = asyncio.get_running_loop().create_task(self._run_hostile_host(hostile, request))
                return
            now = self._handler.clock.now()
            answer, delay_s, self._logged = self._handler.respond(request, now)
            data = answer.encode(now, request.keep_alive, request.method != "HEAD")
            self._status, self._bytes = answer.status, len(data)
            if delay_s:
                asyncio.get_running_loop().call_later(delay_s, self._send, data)
                return
            self._send(data, chained=True)
        if self._reading_paused and not self._queue and not self.transport.is_closing():
            self._reading_paused = False
            self.transport.resume_reading()

    def _send(self, data: bytes, chained: bool = False) -> None:
        if self.transport.is_closing():
            return
        self._sent = boottime()
        self._written = True
        self.transport.write(data)
        if not self.transport.get_write_buffer_size():
            self._done(chained)

    def _done(self, chained: bool = False) -> None:
        """The response has been sent. `chained`: `_next` continues by itself."""
        assert self._current is not None
        keep_alive = self._current[0].keep_alive
        self._close_entry()
        if not keep_alive:
            self.transport.close()
        elif not chained:
            self._next()

    def _close_entry(self) -> None:
        assert self._current is not None
        request, start = self._current
        self._current = None
        if not self._logged:
            return
        end = boottime()
        sent = self._sent if self._written else end
        clock = self._handler.clock
        shift, scale = clock.epoch - clock.scale * clock.anchor, clock.scale
        self._handler.log_request(
            LoggedRequest(
                _host(request.authority, self._scheme), request.target, self._status, self._bytes, start, sent, end,
                shift + scale * start, shift + scale * sent, shift + scale * end, request.agent, self._number,
                self.address, self._scheme,
            )
        )  # fmt: skip

    async def _run_hostile_host(self, host: HostileHost, request: WebRequest) -> None:
        """Let a hostile host write its response."""

        def write(data: bytes) -> None:
            self._bytes += len(data)
            self._sent = boottime()
            self.transport.write(data)

        self._drained = asyncio.Event()
        self._drained.set()
        exchange = HostileExchange(request, self._handler.clock, write, self.transport.close, abort=self._reset,
                            drain=self._drain, request_counts=self._handler.request_counts)  # fmt: skip
        try:
            await host.handler(exchange)
        except Exception:
            self.transport.abort()  # an error of ours: let it be seen, and do not keep the client waiting
            raise
        self._hostile_task = self._drained = None
        self._status, self._written = exchange.status, True
        if not self.transport.get_write_buffer_size() and self._current is not None:
            self._done()

    async def _drain(self) -> None:
        """Wait until the kernel has taken everything. Even if it took everything at once, yield to other connections
        and notice a client that left: without that, an endless response to a fast client would block this server.
        """
        await asyncio.sleep(0)
        if self._drained is not None:
            await self._drained.wait()

    def _reset(self) -> None:
        """Close with RST instead of FIN."""
        sock = self.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _refuse(self, status: int) -> None:
        if not self.transport.is_closing():
            self.transport.write(typed(status, PLAIN, b"").encode(self._handler.clock.now(), keep_alive=False))
            self.transport.close()


def _host(authority: str, scheme: str) -> str:
    return authority.lower().removesuffix(":443" if scheme == "https" else ":80")
