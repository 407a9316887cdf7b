"""HTTP client: runs many transfers at once with libcurl on the event loop.

The hosts are divided over several pools of connections (`connection_pool`).
Promises: no request is sent after the worker fence has fallen, or, without `connect_to` and proxy, to an address that
was not vetted (both are checked at the last moment, when the connection is open and before the request is sent).
libcurl follows no redirect, decodes nothing, uses no proxy of the environment and keeps no cookies. A connection whose
certificate does not verify serves only requests that accept that. All bodies together stay within a bound. Every
transfer ends within its limits with a `FetchResponse`.
"""

import asyncio
import socket
from collections.abc import Callable
from dataclasses import replace

import pycurl

from tarrafa.clock import boottime
from tarrafa.fetch.certificates import DistrustedHosts, ca_bundle, verify_error
from tarrafa.fetch.connection_pool import ConnectionPool
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, header_lines
from tarrafa.fetch.transfer import CurlResult, Transfer, build_response
from tarrafa.fetch.transfer_limits import Backpressure, BandwidthLimiter
from tarrafa.i18n import message
from tarrafa.model import Status
from tarrafa.parse.url import host_key, split

IDLE_HANDLES_MAX = 1000
PLAIN_POOLS, TLS_POOLS = 32, 4
BUFFERED_MAX = 256_000_000
MILLISECONDS_MAX = 2_000_000_000
SWEEP_S = 0.5
SUPPRESS_CONNECT_HEADERS = 265  # CURLOPT_SUPPRESS_CONNECT_HEADERS, which pycurl has no name for


class HttpClient:
    """Fetches URLs; one per event loop. `may_send` is called before each request is sent: it is the worker's lease
    fence.

    `unheard_s`: how long sent data may stay unacknowledged before the connection is dropped. Without it the kernel
    would resend a request when a cut cable is repaired, long after the lease.
    `lag` gives the seconds by which this machine was late since a boot time (`loop_lag`): a transfer that runs into a
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
