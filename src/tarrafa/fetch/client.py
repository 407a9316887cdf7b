"""How do hundreds of requests travel at once in one thread?

libcurl's multi interface on the running event loop: curl says which sockets it watches and when it wants to be woken.
Promises: no request leaves after the fence has fallen or to an address that was not vetted (both are asked at the last
moment, when the connection stands and before the first byte is sent); nothing is redirected, decoded, proxied or
remembered behind our back; every transfer ends within its limits with a `Response`.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pycurl

from tarrafa.clock import boottime
from tarrafa.fetch.http import HEADER_BYTES_MAX, Head, Request, Response, header_lines, parse_head
from tarrafa.model import Status
from tarrafa.parse.url import split

IDLE_HANDLES_MAX = 1000

CURL_STATUS = {
    pycurl.E_OPERATION_TIMEDOUT: Status.TOO_SLOW,
    pycurl.E_COULDNT_RESOLVE_HOST: Status.NAME_UNKNOWN,
    pycurl.E_SSL_CONNECT_ERROR: Status.TLS_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: Status.TLS_ERROR,
    pycurl.E_UNSUPPORTED_PROTOCOL: Status.INVALID_RESPONSE,
    pycurl.E_HTTP2: Status.INVALID_RESPONSE,
    8: Status.INVALID_RESPONSE,  # CURLE_WEIRD_SERVER_REPLY
    100: Status.INVALID_RESPONSE,  # CURLE_TOO_LARGE: a header line
}
OUR_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
MILLISECONDS_MAX = 2_000_000_000


@dataclass(slots=True)
class _Transfer:
    """One request on its way."""

    request: Request
    future: "asyncio.Future[Response]"
    started: float
    head: bytearray = field(default_factory=bytearray)
    body: bytearray = field(default_factory=bytearray)
    parsed: Head | None = None
    complete_head: bool = False
    refused: int = 0  # our own reason for cutting the transfer
    enough: bool = False  # of a body that is not wanted whole: its head is the answer
    sent: bool = False

    def take_header(self, line: bytes) -> int:
        """Header lines as they come; an interim answer (1xx) is followed by another block."""
        if self.complete_head:
            if not line.startswith(b"HTTP/"):
                return len(line)  # trailer fields
            self.head.clear()
            self.complete_head = False
        self.head += line
        if len(self.head) > HEADER_BYTES_MAX:
            self.refused = Status.INVALID_RESPONSE
            return -1
        if line in {b"\r\n", b"\n"}:
            self.complete_head = True
            self.parsed = parse_head(bytes(self.head))
            if self.parsed is None:
                self.refused = Status.INVALID_RESPONSE
                return -1
            if self.parsed.code >= 200:
                self.refused = self.request.verdict(self.parsed)
                if self.refused:
                    return -1
        return len(line)

    def take_body(self, part: bytes) -> int:
        self.body += part
        if len(self.body) > self.request.size_max:
            if self.parsed is not None and self.parsed.code != 200:
                self.enough = True
            else:
                self.refused = Status.TOO_LARGE
            return -1
        return len(part)


class Client:
    """Fetches; one per event loop. `may_send` is asked before each request leaves: it is the worker's fence."""

    def __init__(self, connections_max: int, may_send: Callable[[], bool] = lambda: True) -> None:
        self._loop = asyncio.get_running_loop()
        self._may_send = may_send
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._on_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._on_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, connections_max)
        self._timer: asyncio.TimerHandle | None = None
        self._watched: dict[int, int] = {}
        self._idle: list[pycurl.Curl] = []
        self._under_way: dict[pycurl.Curl, _Transfer] = {}

    async def fetch(self, request: Request) -> Response:
        """Do it. Cancelling the caller cuts the transfer."""
        transfer = _Transfer(request, self._loop.create_future(), boottime())
        curl = self._idle.pop() if self._idle else pycurl.Curl()
        self._prepare(curl, transfer)
        self._under_way[curl] = transfer
        self._multi.add_handle(curl)
        try:
            return await transfer.future
        finally:
            if self._under_way.get(curl) is transfer:  # cancelled; else the handle may serve another one by now
                self._end(curl)

    def close(self) -> None:
        for curl in list(self._under_way):
            self._end(curl)
        for fd in list(self._watched):
            self._on_socket(pycurl.POLL_REMOVE, fd, None, None)
        if self._timer is not None:
            self._timer.cancel()
        self._multi.close()

    def _prepare(self, curl: pycurl.Curl, transfer: _Transfer) -> None:
        request = transfer.request
        curl.reset()
        curl.setopt(pycurl.URL, request.url)
        curl.setopt(pycurl.HTTPHEADER, header_lines(request))
        curl.setopt(pycurl.PROXY, "")  # an environment proxy would go round the address guard
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.HTTP_CONTENT_DECODING, 0)  # the archive keeps what was sent
        curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 0)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.TCP_NODELAY, 1)
        curl.setopt(pycurl.TIMEOUT_MS, _whole(request.time_max_s * 1000))
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, _whole(request.connect_timeout_s * 1000))
        curl.setopt(pycurl.LOW_SPEED_LIMIT, 1)
        curl.setopt(pycurl.LOW_SPEED_TIME, _whole(request.stall_timeout_s))
        curl.setopt(pycurl.HEADERFUNCTION, transfer.take_header)
        curl.setopt(pycurl.WRITEFUNCTION, transfer.take_body)
        curl.setopt(pycurl.PREREQFUNCTION, lambda *where: self._last_question(transfer, str(where[0])))
        if request.connect_to is not None:
            curl.setopt(pycurl.CONNECT_TO, [f"::{request.connect_to}"])
        elif request.address is not None:
            literal = f"[{request.address}]" if ":" in request.address else request.address
            curl.setopt(pycurl.CONNECT_TO, [f"::{literal}:{split(request.url).port}"])

    def _last_question(self, transfer: _Transfer, connected: str) -> int:
        """The connection stands: is it the vetted address, and do we still hold the lease?"""
        wanted = transfer.request.address
        if transfer.request.connect_to is None and wanted is not None and not same_address(connected, wanted):
            transfer.refused = Status.ADDRESS_REFUSED
        elif transfer.sent or not self._may_send():  # curl repeats by itself what a dead connection swallowed
            transfer.refused = Status.NOT_SENT
        transfer.sent = True
        return int(pycurl.PREREQFUNC_ABORT if transfer.refused else pycurl.PREREQFUNC_OK)

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
        """A loop's timer may ring a moment early. Then curl finds nothing due, and does not ask again by itself."""
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
                self._done(curl, 0, "")
            for curl, code, message in failed:
                self._done(curl, code, message)

    def _done(self, curl: pycurl.Curl, code: int, message: str) -> None:
        transfer = self._under_way.get(curl)
        if transfer is None:
            return
        address = curl.getinfo(pycurl.PRIMARY_IP) or ""
        if code and curl.getinfo(pycurl.OS_ERRNO) in OUR_ERRNOS:
            transfer.refused = Status.NOT_SENT
        self._end(curl)
        if not transfer.future.done():
            transfer.future.set_result(_response(transfer, code, message, address))

    def _end(self, curl: pycurl.Curl) -> None:
        del self._under_way[curl]
        with contextlib.suppress(pycurl.error):
            self._multi.remove_handle(curl)
        curl.reset()  # it would keep the transfer and its body
        if len(self._idle) < IDLE_HANDLES_MAX:
            self._idle.append(curl)
        else:
            curl.close()


def _response(transfer: _Transfer, code: int, message: str, address: str) -> Response:
    elapsed = boottime() - transfer.started
    head = transfer.parsed
    if transfer.refused:
        status: int = transfer.refused
    elif (
        transfer.enough or code == pycurl.E_PARTIAL_FILE
    ) and head is not None:  # fewer bytes than promised: browsers show what came
        status = head.code
    elif code:
        status = CURL_STATUS.get(code, Status.SYSTEM_ERROR)
    else:
        status = head.code if head is not None else Status.INVALID_RESPONSE
    return Response(
        status, head or Head(0, ()), bytes(transfer.head), bytes(transfer.body), address, elapsed, message[:200]
    )


def _whole(number: float) -> int:
    return max(1, min(int(number), MILLISECONDS_MAX))


def same_address(one: str, other: str) -> bool:
    """Two spellings of one IP address."""
    if one == other:
        return True
    try:
        family = socket.AF_INET6 if ":" in one else socket.AF_INET
        return socket.inet_pton(family, one) == socket.inet_pton(family, other)
    except OSError:
        return False
