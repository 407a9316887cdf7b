"""Serves the synthetic Web over HTTP on loopback addresses, with /__truth__, /__stats__ and /__log__ endpoints.

Promises: it listens on loopback addresses only. A port in use is reported in one line. The log is on disk at most a
second after the response, and complete when the server has stopped. Its own CPU time is reported separately
(`/__stats__`).
Knows nothing of how a response is made.

Endpoints beside the world's own hosts, never logged:
    /__truth__          all resources of the requested host, or of `?host=NAME`, as JSON
    /__truth__/hosts    all hosts
    /__stats__          requests, bytes, CPU seconds, seconds up
    /__log__/flush      the log is on disk when this is answered
"""

import asyncio
import errno
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import msgspec
import uvloop

from tarrafa.clock import Clock, boottime
from tarrafa.errors import ListenError, TarrafaError
from tarrafa.runtime.child_process import collect_garbage_rarely
from tarrafa.runtime.listen_address import is_loopback_address
from tarrafa.runtime.process_identity import raise_file_limit
from tarrafa.testweb import oracle
from tarrafa.testweb.hostile import HOSTILE_HOSTS, HostileHost, hostile_host_of
from tarrafa.testweb.hostile.hostile_host import IPV6_SUFFIX, TLS_SUFFIX
from tarrafa.testweb.http.connection import WebConnection
from tarrafa.testweb.http.request_log import LoggedRequest, RequestLog
from tarrafa.testweb.http.tls_listener import TlsListener
from tarrafa.testweb.http.web_response import PLAIN, WebRequest, WebResponse, make_response, typed
from tarrafa.testweb.world.hosts import UrlForm, World, endpoint

BACKLOG = 4096
IPV6_ADDRESS = "::1"
FLUSH_EVERY_S = 0.5
PORT_TRIES = 20  # to find a port that is free on every address
ROUTES_MAX = 1 << 17


class WebServerStats(msgspec.Struct, frozen=True):
    requests: int
    bytes: int
    connections: int
    under_way: int  # requests read and not yet answered
    cpu_s: float  # of the whole process
    uptime_s: float
    statuses: dict[int, int]

    def sentence(self) -> str:
        rate = f"{self.requests / self.cpu_s:,.0f} requests per CPU second" if self.cpu_s else "no CPU time"
        return (
            f"requests served: {self.requests:,}, {self.bytes / 1e6:,.1f} MB; connections: {self.connections:,}; "
            f"time {self.uptime_s:.1f} s; own CPU {self.cpu_s:.2f} s, {rate}"
        )


class WebServer:
    """Serves a world. `port` 0 takes any free port. With `addresses` every host also listens on its own loopback
    address, at `port` or the next one. `latency_s` is the mean latency of a response, 0.5 to 1.5 times that by host.
    `clock` decides which version of a page is served.
    """

    def __init__(
        self,
        world: World,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        addresses: bool = False,
        log_path: Path | None = None,
        clock: Clock | None = None,
        latency_s: float = 0.0,
    ) -> None:
        if not is_loopback_address(host):
            raise ListenError(f"{host}: the synthetic Web listens on loopback only (127.0.0.1 or ::1)")
        self.world = world
        self.host = host
        self.port = port
        self.clock = clock or Clock.real()
        self.request_counts: Counter[str] = Counter()  # for the hostile hosts
        self.left_out: tuple[str, ...] = ()  # hostile hosts that this machine cannot serve
        self.failure: TarrafaError | None = None  # why it stopped by itself
        self.stopping = asyncio.Event()
        self._addresses = addresses
        self._latency_s = latency_s
        self._log_path = log_path
        self._log = RequestLog()
        self._servers: list[asyncio.Server] = []
        self._tls_listener: TlsListener | None = None
        self._ipv6_port = 0
        self._connections: set[WebConnection] = set()
        self._empty = asyncio.Event()
        self._routes: dict[str, tuple[int, UrlForm] | None] = {}
        self._count = self._bytes = self._opened = 0
        self._statuses: Counter[int] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def form(self) -> UrlForm:
        """The form of URLs by address, on this server's port."""
        return UrlForm(self.port)

    @property
    def connections(self) -> dict[str, str]:
        """The mapping from host patterns to addresses, for `[network] connect_to`: the first matching pattern
        counts.
        """
        found = {}
        if self._tls_listener is not None:
            found[f"*{TLS_SUFFIX}"] = format_authority(self.host, self._tls_listener.port)
        if self._ipv6_port:
            found[f"*{IPV6_SUFFIX}"] = format_authority(IPV6_ADDRESS, self._ipv6_port)
        return found | {"*.test": format_authority(self.host, self.port)}

    async def start(self) -> None:
        self._started, self._cpu = boottime(), time.process_time()
        for no in (1, 3):
            if no <= self.world.hosts:
                self.world.host(no)  # makes the text of its language now, not at the first request
        sockets = self._listen()
        self._log = RequestLog(self._log_path)
        self.port = sockets[0].getsockname()[1]
        loop = asyncio.get_running_loop()
        if self.world.hostile:
            sockets += self._listen_for_hostile_hosts()
        for sock in sockets:
            self._servers.append(await loop.create_server(lambda: WebConnection(self), sock=sock, backlog=BACKLOG))
        self._timer = loop.call_later(FLUSH_EVERY_S, self._tick)

    async def stop(self) -> WebServerStats:
        """Close everything. The log is complete afterwards."""
        if self._timer is not None:
            self._timer.cancel()
        for server in self._servers:
            server.close()
        if self._tls_listener is not None:
            await self._tls_listener.close()
        for connection in list(self._connections):
            connection.transport.abort()
        if self._connections:
            await self._empty.wait()
        self._servers.clear()
        self._log.close()
        return self.stats()

    def stats(self) -> WebServerStats:
        cpu_s, up_s = time.process_time() - self._cpu, boottime() - self._started
        under_way = sum(connection.under_way for connection in self._connections)
        return WebServerStats(self._count, self._bytes, self._opened, under_way, cpu_s, up_s, dict(self._statuses))

    # --- RequestHandler: called by connections

    def connection_opened(self, connection: WebConnection) -> int:
        self._connections.add(connection)
        self._empty.clear()
        self._opened += 1
        return self._opened

    def connection_closed(self, connection: WebConnection) -> None:
        self._connections.discard(connection)
        if not self._connections:
            self._empty.set()

    def hostile_host_for(self, request: WebRequest) -> HostileHost | None:
        if not self.world.hostile:
            return None
        found = hostile_host_of(request.authority.partition(":")[0])
        return None if found is None or found.name in self.left_out else found

    def respond(self, request: WebRequest, now: float) -> tuple[WebResponse, float, bool]:
        if request.target.startswith("/__"):
            return self._control_endpoint(request, now), 0.0, False
        route = self._route(request.authority)
        if route is None:
            return self._unknown_host(request), 0.0, not self._is_own(request)
        no, form = route
        delay_s = self._latency_s * self.world.host(no).pace if self._latency_s else 0.0
        return make_response(self.world, no, form, request, now), delay_s, True

    def log_request(self, entry: LoggedRequest) -> None:
        self._count += 1
        self._bytes += entry.bytes
        self._statuses[entry.status] += 1
        self._log.append(entry)

    # --- the server's own endpoints

    def _route(self, authority: str) -> tuple[int, UrlForm] | None:
        try:
            return self._routes[authority]
        except KeyError:
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            found = self._routes[authority] = self.world.find(authority, self.port)
            return found

    def _is_own(self, request: WebRequest) -> bool:
        return request.authority.partition(":")[0] in (self.host, "localhost")

    def _unknown_host(self, request: WebRequest) -> WebResponse:
        """The response to a request for an unknown host; a person who opens the server's own address gets
        directions.
        """
        if not self._is_own(request):
            return typed(404, PLAIN, f"{request.authority}: no such host in this world\n".encode())
        world = self.world
        text = f"Tarrafa's synthetic Web, seed {world.seed}; hosts: {world.hosts}, pages: {world.pages}.\n"
        text += f"By name, through this address: {world.root(1)} (header Host, or as a proxy)\n"
        if self._addresses:
            text += f"By address: {world.root(1, self.form)}\n"
        return typed(
            200, PLAIN, f"{text}The truth: /__truth__/hosts and /__truth__?host={world.host(1).name}\n".encode()
        )

    def _control_endpoint(self, request: WebRequest, now: float) -> WebResponse:
        parts = urlsplit(request.target)
        if parts.path == "/__stats__":
            return _json(self.stats())
        if parts.path == "/__log__/flush":
            self._log.flush()
            return _json({"flushed": self._count})
        authority = parse_qs(parts.query).get("host", [request.authority])[0]
        route = self._route(authority)
        if parts.path == "/__truth__/hosts":
            return _json(list(oracle.describe_hosts(self.world, self.port, route[1] if route else UrlForm())))
        if parts.path == "/__truth__" and route is not None:
            pages = list(oracle.describe_host(self.world, route[0], now, route[1]))
            return _json({"host": self.world.authority(*route), "now": now, "pages": pages})
        return typed(404, PLAIN, f"{authority}{parts.path}: no such endpoint or host\n".encode())

    def _tick(self) -> None:
        try:
            self._log.flush()
        except TarrafaError as error:
            self.failure = error
            self.stopping.set()
            return
        self._timer = asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self._tick)

    def _listen(self) -> list[socket.socket]:
        """The sockets, that for host names first. A port chosen here must be free on every address: try several."""
        if not self._addresses:
            return [_bind(self.host, self.port)]
        raise_file_limit(self.world.hosts + 10_000)
        places = [endpoint(no) for no in range(1, self.world.hosts + 1)]
        for left in range(PORT_TRIES - 1, -1, -1):
            sockets = [_bind(self.host, self.port)]
            first = sockets[0].getsockname()[1]
            try:
                for address, shift in places:
                    sockets.append(_bind(address, first + shift))
                return sockets
            except ListenError:
                for sock in sockets:
                    sock.close()
                if self.port or not left:
                    raise
        raise AssertionError("unreachable")

    def _listen_for_hostile_hosts(self) -> list[socket.socket]:
        """A listener for TLS, and a socket on IPv6; a machine without IPv6 leaves out the hostile hosts on IPv6."""
        self._tls_listener = TlsListener(_bind(self.host, 0), lambda: WebConnection(self, "https"))
        self._tls_listener.open()
        try:
            six = _bind(IPV6_ADDRESS, 0)
        except ListenError:
            self.left_out = tuple(name for name in HOSTILE_HOSTS if name.endswith(IPV6_SUFFIX))
            return []
        self._ipv6_port = six.getsockname()[1]
        return [six]


def run_web_server(server: WebServer, ready: Callable[[WebServer], None]) -> WebServerStats:
    """Serve until SIGINT or SIGTERM; `ready` is called once the sockets listen. Returns the statistics."""

    async def serve() -> WebServerStats:
        await server.start()
        collect_garbage_rarely()  # the text lives as long as the process, and requests make no reference cycles
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:  # a child leaves Ctrl-C to its parent
                asyncio.get_running_loop().add_signal_handler(number, server.stopping.set)
        ready(server)
        await server.stopping.wait()
        stats = await server.stop()
        if server.failure is not None:
            raise server.failure
        return stats

    return uvloop.run(serve())


def format_authority(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _bind(address: str, port: int) -> socket.socket:
    assert is_loopback_address(address), address
    try:
        sock = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    except OSError as error:
        raise ListenError(f"{address}:{port}: no socket left ({error.strerror}); raise `ulimit -n`") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen(BACKLOG)
    except (OSError, OverflowError) as error:
        sock.close()
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise ListenError(f"{address}:{port}: the port is already in use; choose another with --port") from error
        raise ListenError(f"{address}:{port}: cannot listen ({error}); choose another with --port") from error
    return sock


def _json(value: object) -> WebResponse:
    return typed(200, "application/json", msgspec.json.encode(value))
