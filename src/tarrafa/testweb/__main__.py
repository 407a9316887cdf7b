"""The process of a synthetic Web, started by `start_process` (`http/web_process.py`).

It prints one line of JSON when it listens, and one when it has stopped or cannot listen (`WebProcessMessage`).
"""

import os
import signal
import sys
from pathlib import Path

import msgspec

from tarrafa.clock import Clock
from tarrafa.errors import TarrafaError
from tarrafa.runtime.child_process import EXIT_ERROR, run_child
from tarrafa.testweb.http.web_process import WebProcessMessage
from tarrafa.testweb.http.web_server import WebServer, run_web_server
from tarrafa.testweb.world.hosts import World


class _WebSettings(msgspec.Struct):
    world: World
    host: str
    port: int
    addresses: bool
    log_path: Path | None
    latency_s: float


def main(settings: str) -> None:
    """`settings`: the world, and the arguments of its `WebServer`, as JSON. The clock comes from the environment."""
    given = msgspec.json.decode(settings, type=_WebSettings, dec_hook=lambda kind, value: kind(value))
    try:
        server = WebServer(
            given.world,
            given.host,
            given.port,
            addresses=given.addresses,
            log_path=given.log_path,
            clock=Clock.from_environment(),
            latency_s=given.latency_s,
        )
        stats = run_web_server(server, _announce)
    except TarrafaError as error:
        _print_message(WebProcessMessage(error=str(error)))
        sys.exit(EXIT_ERROR)
    _print_message(WebProcessMessage(stats=stats))


def _announce(server: WebServer) -> None:
    _print_message(WebProcessMessage(server.port, server.connections, server.left_out))


def _print_message(message: WebProcessMessage) -> None:
    try:
        sys.stdout.write(msgspec.json.encode(message).decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reading process was killed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    run_child(main, signal.SIGTERM)  # not SIGKILL: the log must still be written
