"""HTTP client: runs many transfers at once with libcurl on the event loop.

The hosts are divided over several pools of connections (`ConnectionPool`). libcurl hands over header lines and parts of
the body as they arrive; a `Transfer` is cut as soon as the rest is known to be unwanted. `build_response` maps every
possible end of a transfer to a status: nothing that a server does is an exception, and no fault of our own is blamed on
the server.
Promises: no request is sent after the worker fence has fallen, or, without `connect_to` and proxy, to an address that
was not vetted (both are checked at the last moment, when the connection is open and before the request is sent).
libcurl follows no redirect, decodes nothing, uses no proxy of the environment and keeps no cookies. A connection whose
certificate does not verify serves only requests that accept that. All bodies together stay within a bound. Every
transfer ends within its limits with a `FetchResponse`.
"""

import asyncio
import contextlib
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pycurl

from tarrafa.clock import boottime
from tarrafa.fetch.certificates import DistrustedHosts, ca_bundle, verify_error
from tarrafa.fetch.content_encoding import UndecodableBody, decode_chunked
from tarrafa.fetch.http_message import (
    HEADER_BYTES_MAX,
    FetchRequest,
    FetchResponse,
    ResponseHead,
    header_lines,
    parse_head,
)
from tarrafa.fetch.transfer_limits import Backpressure, BandwidthLimiter
from tarrafa.i18n import Message, message, messages
from tarrafa.model import Status
from tarrafa.parse.url import host_key, split

IDLE_HANDLES_MAX = 1000
PLAIN_POOLS, TLS_POOLS = 32, 4
BUFFERED_MAX = 256_000_000
MILLISECONDS_MAX = 2_000_000_000
SWEEP_S = 0.5
SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl has no name for
INTERIM_MAX = 20  # interim responses (1xx) before the final one
STARVED_SHARE = 0.2  # of the exceeded time limit: if we caused at least this share, the host is not to blame
CURL_TEXT_CHARS_MAX = 200
TLS_HUNG_UP = "unexpected eof while reading"  # many servers close without TLS's close_notify; OpenSSL's wording


@dataclass(slots=True, eq=False)
class Transfer:
    """One request in flight. `admit` of `Backpressure` is asked before each part of the body is taken."""

    request: FetchRequest
    curl: pycurl.Curl
    future: "asyncio.Future[FetchResponse]"
    started: float
    admit: "Callable[[Transfer, int], bool]"
    limiters: tuple[BandwidthLimiter, ...] = ()
    verify: bool = True
    head: bytearray = field(default_factory=bytearray)
    body: bytearray = field(default_factory=bytearray)
    parsed: ResponseHead | None = None
    complete_head: bool = False
    interim: int = 0
    refused: int = 0  # our own reason for cutting the transfer
    why: Message | str = ""  # the reason in words
    head_is_enough: bool = False  # the body is not needed: its head is the response
    sent: bool = False
    bytes_seen: int = -1  # bytes at the last stall check
    bytes_seen_at: float = 0.0
    waiting_bytes: int = 0  # bytes that wait to be taken
    held_since: float = 0.0  # 0: not paused
    held_s: float = 0.0  # how long our own limits paused it

    def refuse(self, status: int, why: Message | str) -> int:
        """Cut the transfer. Returns the value that libcurl's callbacks return for that."""
        self.refused, self.why = status, why
        return -1

    def is_stalled(self, now: float) -> bool:
        """Whether nothing arrived for too long; called now and then. (Connecting has its own limit; pauses of our own
        do not count.)

        libcurl's own LOW_SPEED_TIME is not usable. It averages over five seconds, does not begin to count before
        something wakes the transfer (a silent server was dropped after 21 s instead of 1), and wakes every transfer
        every second.
        """
        came = len(self.head) + len(self.body) + self.interim
        if came != self.bytes_seen or not self.sent or self.held_since:
            self.bytes_seen, self.bytes_seen_at = came, now
        return now - self.bytes_seen_at >= self.request.stall_timeout_s

    def take_header(self, line: bytes) -> int:
        """Take a header line; an interim response (1xx) is followed by another block."""
        if self.complete_head:
            if self.parsed is not None and self.parsed.code >= 200:
                return len(line)  # trailer fields
            self.head.clear()
            self.parsed, self.complete_head = None, False
        self.head += line
        if len(self.head) > HEADER_BYTES_MAX:
            return self.refuse(
                Status.INVALID_RESPONSE, message("header block larger than {bytes} bytes", bytes=HEADER_BYTES_MAX)
            )
        if line in {b"\r\n", b"\n"}:
            self.complete_head = True
            return self._judge_head() or len(line)
        return len(line)

    def _judge_head(self) -> int:
        """The block is complete: check whether it is a response and is wanted. 0: continue."""
        head = self.parsed = parse_head(bytes(self.head))
        for limiter in self.limiters:
            limiter.take(len(self.head))
        if head is None:
            line = bytes(self.head[:60]).partition(b"\n")[0].decode("latin-1").strip()
            return self.refuse(Status.INVALID_RESPONSE, message("status line {line!r}", line=line))
        if head.code < 200:
            self.interim += 1
            if head.code == 101:
                return self.refuse(Status.INVALID_RESPONSE, message("switches to another protocol, unasked"))
            if self.interim > INTERIM_MAX:
                return self.refuse(
                    Status.INVALID_RESPONSE, message("more than {count} interim responses", count=INTERIM_MAX)
                )
            return 0
        verdict = self.request.check_head(head)
        return self.refuse(verdict, "") if verdict else 0

    def take_body(self, part: bytes) -> int:
        """Take a part of the body; a part that was not taken comes again."""
        if not self.admit(self, len(part)):
            return int(pycurl.WRITEFUNC_PAUSE)
        self.body += part
        if len(self.body) > self.request.size_max:
            if self.parsed is not None and self.parsed.code != 200:
                self.head_is_enough = True
                return -1
            return self.refuse(Status.TOO_LARGE, message("more than {bytes} bytes", bytes=self.request.size_max))
        return len(part)


class ConnectionPool:
    """Connections to a part of the hosts, which serve no other hosts; at most `connections_max` stay open unused.
    `on_end` is called with each handle whose transfer has ended, libcurl's error code (0: none) and its text.

    libcurl (one multi handle) names the sockets that it watches and the time when it wants to be called. It finds the
    open connection of a host by passing over all connections to the same address: where thousands of hosts are on one
    address, one pool for all would take longer for that than for the request (docs/decisions, 0287).
    """

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


class HttpClient:
    """Fetches URLs; one per event loop. `may_send` is called before each request is sent: it is the worker's lease
    fence.

    `unheard_s`: how long sent data may stay unacknowledged before the connection is dropped. Without it the kernel
    would resend a request when a cut cable is repaired, long after the lease.
    `lag` gives the seconds by which this machine was late since a boot time: a transfer that runs into a
    time limit meanwhile was starved by us.
    """

    def __init__(
        self,
        connections_max: int,
        may_send: Callable[[], bool] = lambda: True,
        buffered_max: int = BUFFERED_MAX,
        lag: Callable[[float], float] | None = None,
        unheard_s: float | None = None,
    ) -> None:
        self._unheard_ms = None if unheard_s is None else max(1, int(unheard_s * 1000))
        self._loop = asyncio.get_running_loop()
        self._may_send, self._lag = may_send, lag
        self._backpressure = Backpressure(self._loop, buffered_max, self._done)
        self._distrusted_hosts = DistrustedHosts()
        self._ca_file = ca_bundle()
        self._connections_max = max(1, connections_max // (PLAIN_POOLS + TLS_POOLS))  # of each pool
        self._pools: dict[tuple[bool, int], ConnectionPool] = {}  # whether for TLS, and the hash of the host
        self._pool_of: dict[pycurl.Curl, ConnectionPool] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._idle: list[pycurl.Curl] = []
        self._transfers: dict[pycurl.Curl, Transfer] = {}

    @property
    def transfers_running(self) -> int:
        return len(self._transfers)

    async def fetch(self, request: FetchRequest) -> FetchResponse:
        """Fetch one request. Cancelling the caller cuts the transfer."""
        if request.connect_to is None and request.address is None and request.proxy is None:
            # libcurl would resolve the name itself
            return FetchResponse(Status.ADDRESS_REFUSED, error=message("no vetted address"))
        if request.tls == "accept" and request.url.startswith("https:"):
            return await self._fetch_accepting_any_certificate(request)
        transfer = self._start(request)
        try:
            return await transfer.future
        finally:
            self._leave(transfer)

    async def _fetch_accepting_any_certificate(self, request: FetchRequest) -> FetchResponse:
        """Verify the certificate. If that fails, nothing was sent: repeat without verification, as one request."""
        began, host = boottime(), host_key(request.url)
        why = self._distrusted_hosts.reason_for(host, request.ca_file)
        if not why:
            response = await self.fetch(replace(request, tls="strict"))
            why = response.tls
            if not why:
                return response
            self._distrusted_hosts.remember(host, request.ca_file, why)
        time_left = request.time_max_s - (boottime() - began)
        transfer = self._start(replace(request, time_max_s=time_left), verify=False)
        try:
            response = await transfer.future
        finally:
            self._leave(transfer)
        response.tls, response.elapsed_s = why, boottime() - began
        return response

    def _start(self, request: FetchRequest, verify: bool = True) -> Transfer:
        curl = self._idle.pop() if self._idle else pycurl.Curl()
        transfer = Transfer(
            request, curl, self._loop.create_future(), boottime(), self._backpressure.admit, verify=verify
        )
        self._prepare(curl, transfer)
        self._transfers[curl] = transfer
        pool = self._pool_of[curl] = self._pool(request.url)
        pool.start(curl)
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_S, self._end_stalled)
        return transfer

    def _pool(self, url: str) -> ConnectionPool:
        """The pool of a URL's host. TLS has fewer: each reads the certificates of all authorities (12 ms)."""
        is_tls = url.startswith("https:")
        key = is_tls, hash(url[: url.index("/", 8)]) % (TLS_POOLS if is_tls else PLAIN_POOLS)
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = ConnectionPool(self._connections_max, self._done)
        return pool

    def _leave(self, transfer: Transfer) -> None:
        """The transfer has ended (its handle may serve another one by now), or its caller was cancelled."""
        if self._transfers.get(transfer.curl) is transfer:
            self._end(transfer.curl)

    def close(self) -> None:
        for curl in list(self._transfers):
            self._end(curl)
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._backpressure.close()
        for pool in self._pools.values():
            pool.close()

    def _prepare(self, curl: pycurl.Curl, transfer: Transfer) -> None:
        """Set up a handle that is new or reset: it follows no redirect and keeps no cookie."""
        request = transfer.request
        curl.setopt(pycurl.URL, request.url)
        curl.setopt(pycurl.HTTPHEADER, header_lines(request))
        curl.setopt(pycurl.PROXY, request.proxy or "")  # a proxy of the environment would bypass the address guard
        if request.proxy:
            curl.setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)  # headers for the host are not for the proxy
            curl.setopt(SUPPRESS_CONNECT_HEADERS, 1)
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
        curl.setopt(pycurl.HTTP_CONTENT_DECODING, 0)  # the archive keeps the bytes as sent
        curl.setopt(pycurl.HTTP_TRANSFER_DECODING, 0)
        curl.setopt(pycurl.PATH_AS_IS, 1)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.TIMEOUT_MS, _milliseconds(request.time_max_s))
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, _milliseconds(request.connect_timeout_s))
        curl.setopt(pycurl.HEADERFUNCTION, transfer.take_header)
        curl.setopt(pycurl.WRITEFUNCTION, transfer.take_body)
        curl.setopt(pycurl.PREREQFUNCTION, lambda *where: self._check_before_send(transfer, str(where[0])))
        if self._unheard_ms is not None:
            curl.setopt(pycurl.SOCKOPTFUNCTION, self._on_new_socket)
        if request.connect_to is not None:
            curl.setopt(pycurl.CONNECT_TO, [f"::{request.connect_to}"])
        elif request.address is not None:
            literal = f"[{request.address}]" if ":" in request.address else request.address
            curl.setopt(pycurl.CONNECT_TO, [f"::{literal}:{split(request.url).port}"])
        if request.url.startswith("https:"):
            self._prepare_tls(curl, transfer)
        machine = request.machine_limiter
        if machine is not None and machine.rate is None:
            machine = None
        if request.limiter is not None or request.host_bandwidth is not None or machine is not None:
            own = None if request.host_bandwidth is None else BandwidthLimiter(request.host_bandwidth)
            transfer.limiters = tuple(limiter for limiter in (own, request.limiter, machine) if limiter is not None)

    def _on_new_socket(self, fd: int, _: int) -> int:
        borrowed = socket.socket(fileno=fd)
        try:
            borrowed.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, self._unheard_ms or 0)
        finally:
            borrowed.detach()
        return int(pycurl.SOCKOPT_OK)

    def _prepare_tls(self, curl: pycurl.Curl, transfer: Transfer) -> None:
        ca_file = transfer.request.ca_file or self._ca_file
        if ca_file is not None:
            curl.setopt(pycurl.CAINFO, ca_file)
        if not transfer.verify:
            curl.setopt(pycurl.SSL_VERIFYPEER, 0)
            curl.setopt(pycurl.SSL_VERIFYHOST, 0)

    def _check_before_send(self, transfer: Transfer, connected: str) -> int:
        """libcurl calls this when the connection is open: check the vetted address, the lease, and whether the
        request is still wanted."""
        wanted = transfer.request.address
        if transfer.request.connect_to is None and wanted is not None and not same_address(connected, wanted):
            transfer.refuse(
                Status.ADDRESS_REFUSED,
                message("connected to {address}, not to {wanted}", address=connected, wanted=wanted),
            )
        elif transfer.sent:
            transfer.refuse(Status.NOT_SENT, message("a dead connection swallowed it"))  # curl repeats it by itself
        elif not self._may_send():
            transfer.refuse(Status.NOT_SENT, message("the lease is over"))
        elif not transfer.request.is_wanted():
            transfer.refuse(Status.NOT_SENT, message("it is no longer wanted"))
        transfer.sent = True
        return int(pycurl.PREREQFUNC_ABORT if transfer.refused else pycurl.PREREQFUNC_OK)

    def _end_stalled(self) -> None:
        """End the transfers that received nothing for too long."""
        now = boottime()
        stalled = [transfer for transfer in self._transfers.values() if transfer.is_stalled(now)]
        for transfer in stalled:
            transfer.why = message("nothing came for {seconds:g} s", seconds=transfer.request.stall_timeout_s)
            self._done(transfer.curl, pycurl.E_OPERATION_TIMEDOUT, "")
        self._sweeper = self._loop.call_later(SWEEP_S, self._end_stalled) if self._transfers else None

    def _done(self, curl: pycurl.Curl, code: int, text: str) -> None:
        transfer = self._transfers.get(curl)
        if transfer is None:
            return
        address = "" if transfer.request.proxy else curl.getinfo(pycurl.PRIMARY_IP) or ""
        ending = CurlResult(code, text, address, curl.getinfo(pycurl.OS_ERRNO) if code else 0)
        is_distrusted = code == pycurl.E_PEER_FAILED_VERIFICATION
        tls = verify_error(curl.getinfo(pycurl.SSL_VERIFYRESULT)) if is_distrusted else ""
        self._end(curl)
        if not transfer.future.done():
            late_s = self._lag(transfer.started) if code == pycurl.E_OPERATION_TIMEDOUT and self._lag else 0.0
            response = build_response(transfer, ending, boottime() - transfer.started, late_s)
            response.tls, response.error = tls, tls or response.error
            transfer.future.set_result(response)

    def _end(self, curl: pycurl.Curl) -> None:
        self._backpressure.release(self._transfers.pop(curl))
        self._pool_of.pop(curl).remove(curl)
        curl.reset()  # the handle would keep the transfer and its body
        if len(self._idle) < IDLE_HANDLES_MAX:
            self._idle.append(curl)
        else:
            curl.close()


def _milliseconds(seconds: float) -> int:
    return max(1, min(int(seconds * 1000), MILLISECONDS_MAX))


def same_address(one: str, other: str) -> bool:
    """Two spellings of one IP address."""
    if one == other:
        return True
    try:
        family = socket.AF_INET6 if ":" in one else socket.AF_INET
        return socket.inet_pton(family, one) == socket.inet_pton(family, other)
    except OSError:
        return False


# -- how a transfer has ended ------------------------------------------------------------------------------------------


CURL_STATUS = {
    pycurl.E_OPERATION_TIMEDOUT: Status.TOO_SLOW,
    pycurl.E_COULDNT_RESOLVE_HOST: Status.NAME_UNKNOWN,
    pycurl.E_UNSUPPORTED_PROTOCOL: Status.INVALID_RESPONSE,
    pycurl.E_HTTP2: Status.INVALID_RESPONSE,
    8: Status.INVALID_RESPONSE,  # CURLE_WEIRD_SERVER_REPLY
    100: Status.INVALID_RESPONSE,  # CURLE_TOO_LARGE: a header line
    pycurl.E_SSL_CONNECT_ERROR: Status.TLS_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: Status.TLS_ERROR,
    pycurl.E_SSL_CIPHER: Status.TLS_ERROR,
    pycurl.E_SSL_CACERT_BADFILE: Status.TLS_ERROR,
    pycurl.E_SSL_ISSUER_ERROR: Status.TLS_ERROR,
    pycurl.E_SSL_INVALIDCERTSTATUS: Status.TLS_ERROR,
}
CURL_REASONS = {
    pycurl.E_COULDNT_RESOLVE_HOST: message("name does not resolve"),
    pycurl.E_COULDNT_CONNECT: message("no connection"),
    pycurl.E_COULDNT_RESOLVE_PROXY: message("the name of the proxy does not resolve"),
    pycurl.E_UNSUPPORTED_PROTOCOL: message("the response is no HTTP"),
    pycurl.E_GOT_NOTHING: message("empty response"),
    pycurl.E_SEND_ERROR: message("connection lost while sending"),
    pycurl.E_RECV_ERROR: message("connection lost while receiving"),
    8: message("the response is no HTTP"),
    100: message("a header line is too long"),
}
ERRNO_REASONS = {
    errno.ECONNREFUSED: message("connection refused"),
    errno.ECONNRESET: message("connection reset by the host"),
    errno.EPIPE: message("connection closed by the host"),
    errno.EHOSTUNREACH: message("host unreachable"),
    errno.ENETUNREACH: message("network unreachable"),
    errno.ETIMEDOUT: message("connection timed out"),
}
OUR_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class CurlResult(NamedTuple):
    """libcurl's data about a finished transfer."""

    code: int = 0
    message: str = ""
    address: str = ""
    errno: int = 0


def build_response(transfer: Transfer, ending: CurlResult, elapsed_s: float, late_s: float) -> FetchResponse:
    """The response of a finished transfer. `late_s` is how late our own machine was meanwhile."""
    head = transfer.parsed
    status = _status(transfer, ending)
    error = transfer.why
    if not (error or transfer.refused or transfer.head_is_enough) and (ending.code or status < 0):
        error = _reason(transfer, ending, elapsed_s)
    if status == Status.TOO_SLOW and transfer.held_s + late_s >= STARVED_SHARE * elapsed_s:
        status = Status.STARVED
        error = message(
            "{error}; held back {held:.1f} s, late {late:.1f} s", error=error, held=transfer.held_s, late=late_s
        )
    return FetchResponse(
        status,
        head or ResponseHead(0, ()),
        bytes(transfer.head),
        bytes(transfer.body),
        ending.address,
        elapsed_s,
        error,
        held_s=transfer.held_s,
    )


def _reason(transfer: Transfer, ending: CurlResult, elapsed_s: float) -> Message:
    """Why a transfer ended so, by libcurl's code. Its own text is used only where the code says too little."""
    code = ending.code
    if not code:
        return message("the header block ends too soon")
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if not transfer.sent:
            return message("no connection within {seconds:.1f} s", seconds=elapsed_s)
        size = len(transfer.head) + len(transfer.body)
        return messages(
            "not complete after {seconds:.1f} s: {count} byte received",
            "not complete after {seconds:.1f} s: {count} bytes received",
            size,
            seconds=elapsed_s,
        )
    if code == pycurl.E_PARTIAL_FILE:
        return messages(
            "the body ends too soon, after {count} byte",
            "the body ends too soon, after {count} bytes",
            len(transfer.body),
        )
    text = ending.message[:CURL_TEXT_CHARS_MAX]
    if CURL_STATUS.get(code) == Status.TLS_ERROR:
        return message("no secure connection ({error})", error=text or str(code))
    known = ERRNO_REASONS.get(ending.errno) or CURL_REASONS.get(code)
    return known or message("libcurl error {code}: {error}", code=str(code), error=text)


def _status(transfer: Transfer, ending: CurlResult) -> int:
    head, code = transfer.parsed, ending.code
    if transfer.refused:
        return transfer.refused
    if code and ending.errno in OUR_ERRNOS:
        return Status.NOT_SENT
    failure = CURL_STATUS.get(code, Status.SYSTEM_ERROR)
    if head is None:
        return failure  # also where libcurl accepts half a header block
    broken = code == pycurl.E_RECV_ERROR
    if (
        not code
        or transfer.head_is_enough
        or code == pycurl.E_PARTIAL_FILE
        or (broken and TLS_HUNG_UP in ending.message)
    ):
        return head.code  # the body may be shorter than declared: browsers show what arrived
    misframed = broken and not ending.errno and _is_misframed(head, bytes(transfer.body))
    return Status.INVALID_RESPONSE if misframed else failure


def _is_misframed(head: ResponseHead, body: bytes) -> bool:
    """Whether the chunks are malformed: libcurl has the same code for a broken connection, which is retried."""
    if "chunked" not in head.joined("transfer-encoding").lower():
        return False
    try:
        decode_chunked(body)
    except UndecodableBody:
        return True
    return False
