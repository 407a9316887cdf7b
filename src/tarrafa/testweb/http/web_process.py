"""The synthetic Web in a child process: starts it, and stops it with its statistics.

Promises: when `start_process` returns, the server listens. It ends with its parent, even if that is killed. `stop`
returns its statistics and leaves its log complete.
Knows nothing of what is served.

The kernel ties the child to the *thread* that started it: start it from a thread that lives as long as the child
should.
"""

import os
import subprocess
import urllib.request
from dataclasses import asdict
from pathlib import Path
from types import TracebackType

import msgspec

from tarrafa.clock import CLOCK_VARIABLE, Clock
from tarrafa.errors import ListenError
from tarrafa.runtime.child_process import child_command
from tarrafa.testweb.hostile import HOSTILE_HOSTS, HostileHost
from tarrafa.testweb.http.web_server import WebServerStats, format_authority
from tarrafa.testweb.world.hosts import UrlForm, World

STOP_S_MAX = 60.0  # longer than any of our servers takes, however busy the machine


class WebProcessMessage(msgspec.Struct):
    """A line that the child (`testweb/__main__.py`) prints. `left_out`: hosts that this machine cannot serve (IPv6)."""

    port: int = 0
    connections: dict[str, str] = {}
    left_out: tuple[str, ...] = ()
    error: str = ""
    stats: WebServerStats | None = None


def _decode_message(line: bytes, without: str) -> WebProcessMessage:
    """The message; `without` is its error if the process printed nothing."""
    return msgspec.json.decode(line, type=WebProcessMessage) if line else WebProcessMessage(error=without)


class WebProcess:
    """A synthetic Web in another process; a context manager that stops it at the end."""

    def __init__(self, process: subprocess.Popen[bytes], world: World, host: str, message: WebProcessMessage) -> None:
        self.process = process
        self.world = world  # the same world in this process, for the oracle
        self.host = host
        self.port = message.port
        self.connections = message.connections  # for `[network] connect_to`: the first matching pattern counts
        self.left_out = message.left_out  # hostile hosts that this machine cannot serve

    @property
    def connect_to(self) -> str:
        """Where a crawler must send the connections of `*.test`; with hostile hosts, `connections` is the whole
        mapping.
        """
        return format_authority(self.host, self.port)

    @property
    def hostile_hosts(self) -> dict[str, HostileHost]:
        """The hostile hosts that are served."""
        return {name: it for name, it in HOSTILE_HOSTS.items() if self.world.hostile and name not in self.left_out}

    @property
    def form(self) -> UrlForm:
        """The form of URLs by address."""
        return UrlForm(self.port)

    def stats(self) -> WebServerStats:
        return msgspec.json.decode(self._get("/__stats__"), type=WebServerStats)

    def flush_log(self) -> None:
        self._get("/__log__/flush")

    def stop(self) -> WebServerStats:
        """Ask the process to stop, wait, and return its statistics."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=STOP_S_MAX)
        message = _decode_message(output.splitlines()[-1] if output else b"", "it was killed")
        if message.stats is None:
            raise ListenError(f"synthetic web on port {self.port}: {message.error}")
        return message.stats

    def _get(self, path: str) -> bytes:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(f"http://{self.connect_to}{path}", timeout=STOP_S_MAX) as answer:
            body: bytes = answer.read()
        return body

    def __enter__(self) -> "WebProcess":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


def start_process(
    world: World,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    addresses: bool = False,
    log_path: Path | None = None,
    clock: Clock | None = None,
    latency_s: float = 0.0,
) -> WebProcess:
    """Serve `world` from a child process; the arguments are those of `WebServer`."""
    options = {"addresses": addresses, "log_path": log_path and str(log_path), "latency_s": latency_s}
    settings = {"world": asdict(world), "host": host, "port": port, **options}
    command = child_command("tarrafa.testweb", settings=msgspec.json.encode(settings).decode())
    environment = os.environ | ({CLOCK_VARIABLE: clock.to_environment()} if clock is not None else {})
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    message = _decode_message(process.stdout.readline(), "it ended before it listened")
    if message.error:
        process.wait()
        process.stdout.close()
        raise ListenError(message.error)
    return WebProcess(process, world, host, message)
