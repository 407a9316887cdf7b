"""Limits of HTTP connections: size and time of requests, pipelining, and connections per client address.

uvicorn reads whatever a client sends: header lines without end, thousands of pipelined requests, connections that stay
silent. `LimitedHttpProtocol` stands before its parser. Promises: one connection makes this process hold at most
HEAD_BYTES_MAX and one read of the socket beyond the body that an application reads; the next request of a connection is
parsed after the response to the one before; a request that does not arrive in time and a response that is not read in
time end the connection; a client address has a share of the connections, a named proxy any number. When there are too
many connections, idle ones make room, those of the address with the most connections first, those of proxies last; so
health checks and the console are always answered.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tarrafa.server.auth.request_origin import NO_PROXIES, TrustedProxies, address_key

CONNECTIONS_MAX = 1_000
CONNECTIONS_RESERVED = 50  # beyond the maximum, for RESERVED_PATHS alone
RESERVED_PATHS = (b"/healthz", b"/console", b"/api/v1/", b"/nodes/", b"/static/")
CONNECTIONS_PER_ADDRESS_MAX = 250
HEAD_BYTES_MAX = 64 << 10  # request line and header lines
HEADER_LINES_MAX = 100
HEAD_S_MAX = 10.0  # from the connection, or from the first byte of a later request
BODY_S_MAX, BODY_BYTES_PER_S_MIN = 30.0, 16 << 10
WRITE_S_MAX = 30.0  # a client that reads nothing for so long is gone
DISCARD_S_MAX = 5.0
JOINED_BYTES_MAX = 64 << 10  # of a body, to be copied behind its head
HEAD_END = b"\r\n\r\n"


class ConnectionTable:
    """The open connections of one server, by client address."""

    def __init__(self, proxies: TrustedProxies = NO_PROXIES) -> None:
        self._proxies = proxies  # they have the connections of many clients
        self._by_address: dict[str, dict[LimitedHttpProtocol, None]] = {}  # the oldest first
        self._count = 0

    def add(self, connection: "LimitedHttpProtocol") -> bool:
        """Add a connection. False: there is no room, not even by closing an idle one."""
        address = connection.address
        own = self._by_address.get(address, {})
        if len(own) >= CONNECTIONS_PER_ADDRESS_MAX and address not in self._proxies and not _close_idle(own):
            return False
        if self._count >= CONNECTIONS_MAX:
            largest = sorted(self._by_address, key=lambda one: (one in self._proxies, -len(self._by_address[one])))
            if (
                not any(_close_idle(self._by_address[one]) for one in largest)
                and self._count >= CONNECTIONS_MAX + CONNECTIONS_RESERVED
            ):
                return False
        self._by_address.setdefault(address, {})[connection] = None
        self._count += 1
        return True

    def name_address(self, peer: str) -> str:
        """The address that a connection counts for: of a proxy its own, not its IPv6 network."""
        return peer if peer in self._proxies else address_key(peer)

    def remove(self, connection: "LimitedHttpProtocol") -> None:
        own = self._by_address.get(connection.address, {})
        if connection in own:
            del own[connection]
            self._count -= 1
            if not own:
                del self._by_address[connection.address]

    @property
    def is_full(self) -> bool:
        return self._count > CONNECTIONS_MAX


def _close_idle(connections: "dict[LimitedHttpProtocol, None]") -> bool:
    """Close the oldest connection without a running request. False: there is none."""
    idle = next((one for one in connections if one.is_idle), None)
    if idle is not None:
        idle.abort()
    return idle is not None


class ResponseTransport:
    """The transport as uvicorn's response sees it, which closes it: not before the client has the response. The head is
    sent with the first piece of the body, if that comes at once: one packet, and one call of the system, less.
    """

    def __init__(self, connection: "LimitedHttpProtocol") -> None:
        self._connection = connection
        self._head: bytes | None = None
        self._is_begun = False

    def write(self, data: bytes) -> None:
        if not self._is_begun:
            self._is_begun, self._head = True, data
            self._connection.loop.call_soon(self._send_head)
        elif self._head is not None and len(data) <= JOINED_BYTES_MAX:
            whole, self._head = self._head + data, None
            self._connection.transport.write(whole)
        else:
            self._send_head()
            self._connection.transport.write(data)

    def _send_head(self) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            self._connection.transport.write(head)

    def is_closing(self) -> bool:
        return self._connection.transport.is_closing()

    def close(self) -> None:
        self._send_head()
        self._connection.close_after_response()


class LimitedHttpProtocol(HttpToolsProtocol):
    """One connection. Bytes wait in `_unread` until the parser may have them: a whole head, then its body."""

    def __init__(self, *args: Any, table: ConnectionTable, **options: Any) -> None:
        super().__init__(*args, **options)
        self._table, self.address = table, ""
        self._unread = bytearray()
        self._in_body = False
        self._body_left: int | None = 0  # bytes; None: chunked, so the parser alone knows
        self._is_last = False  # nothing that follows is parsed
        self._is_discarding = False  # answered before the end of the request: what follows is thrown away
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def abort(self) -> None:
        self._table.remove(self)
        self.transport.abort()

    # -- the connection ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self._table.name_address(self.client[0]) if self.client else ""
        if self._table.add(self):
            self._end_after(HEAD_S_MAX)
        else:
            self._refuse(503, "too many connections: try again later")

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        self._stop_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._end_after(WRITE_S_MAX)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer()

    def _end_after(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(seconds, self.abort)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: int, reason: str) -> None:
        content = f"{reason}\n".encode()
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(content)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + content)
        self._close_when_read()

    # -- requests ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._is_discarding or self.transport.is_closing():
            return
        self._unread += data
        self._parse()

    def _parse(self) -> None:
        """Give the parser what it may have now."""
        while self._unread and not self.transport.is_closing():
            if not (self._feed_body() if self._in_body else self._feed_head()):
                return

    def _feed_head(self) -> bool:
        if self._is_last:
            self._unread.clear()
            return False
        if not self.is_idle:  # a pipelined request waits for the response before it
            self.flow.pause_reading()
            if len(self._unread) > 2 * HEAD_BYTES_MAX + (256 << 10):  # the application has asked for more
                self.abort()
            return False
        end = self._unread.find(HEAD_END, 0, HEAD_BYTES_MAX + 1) + len(HEAD_END)
        if end < len(HEAD_END):
            if len(self._unread) > HEAD_BYTES_MAX:
                self._refuse(431, f"the header is too long: at most {HEAD_BYTES_MAX:,} bytes are read")
            elif self._timer is None:
                self._unset_keepalive_if_required()
                self._end_after(HEAD_S_MAX)
            return False
        if self._unread.count(b"\n", 0, end) > HEADER_LINES_MAX + 2:
            self._refuse(431, f"there are too many header lines: at most {HEADER_LINES_MAX} are read")
            return False
        self._feed(end)
        return True

    def _feed_body(self) -> bool:
        count = len(self._unread)
        if self._body_left is not None:
            count = min(count, self._body_left)
            self._body_left -= count
        self._feed(count)
        return True

    def _feed(self, count: int) -> None:
        piece = bytes(self._unread[:count])
        del self._unread[:count]
        super().data_received(piece)

    def on_headers_complete(self) -> None:
        if self._is_last:
            return
        lengths = [int(value) for name, value in self.headers if name == b"content-length"]
        chunked = any(name == b"transfer-encoding" for name, _ in self.headers)
        self._body_left = None if chunked else sum(lengths)
        self._in_body = chunked or self._body_left != 0
        full = self._table.is_full and not self.url.startswith(RESERVED_PATHS)
        self.limit_concurrency = 0 if full else None  # uvicorn answers 503
        self._stop_timer()
        if self._in_body:
            self._end_after(BODY_S_MAX + (self._body_left or 0) / BODY_BYTES_PER_S_MIN)
        super().on_headers_complete()
        self.cycle.transport = ResponseTransport(self)  # type: ignore[assignment]
        if chunked:  # the bytes after its end are in the parser already: the connection ends with the response
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        if self._is_last:
            return
        self._is_last = self._body_left is None
        if self._in_body:
            self._in_body = False
            self._stop_timer()
        super().on_message_complete()

    def close_after_response(self) -> None:
        if self._in_body:  # the rest of the body is of no interest
            self._close_when_read()
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        if self._in_body:
            self.close_after_response()
        super().on_response_complete()
        self._parse()

    def _close_when_read(self) -> None:
        """Close when the client has the response. A close with unread bytes resets the connection, and the client may
        lose what was sent (RFC 9112 section 9.6); so what it still sends is thrown away for a while.
        """
        self._is_discarding = True
        self._unread.clear()
        if not self.transport.is_closing():
            self.transport.write_eof()
            self.flow.resume_reading()
            self._end_after(DISCARD_S_MAX)
