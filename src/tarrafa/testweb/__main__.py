"""Runs the synthetic Web as a process of its own (`python -m tarrafa.testweb`).

`python -m tarrafa.testweb` is for programs; `tarrafa testweb` is for people. It prints one line of JSON when it
listens, `{"port", "host", "connections", "left_out", "pid", "seed", "hosts", "pages"}`, and one when it has stopped,
`{"stats"}`; or `{"error"}` with exit status 2. `connections` is the value that a collection writes into `connect_to`;
`left_out` names the hosts that this machine cannot serve (IPv6). The clock comes from the environment
(`tarrafa.clock`). With `--parent` the process ends with that parent process.
"""

import argparse
import os
import signal
import sys
from pathlib import Path

import msgspec

from tarrafa.clock import Clock
from tarrafa.errors import TarrafaError
from tarrafa.runtime.child_process import die_with_parent
from tarrafa.testweb.http.web_server import WebServer, run_web_server
from tarrafa.testweb.world.world import World


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    if options.parent:
        die_with_parent(options.parent, signal.SIGTERM)  # not SIGKILL: the log must still be written
    try:
        world = World(
            seed=options.seed,
            hosts=options.hosts,
            pages=options.pages,
            crawl_delay_s=options.crawl_delay,
            crawl_delay_share=options.crawl_delay_share,
            changes=options.changes,
            hostile=options.hostile,
        )
        server = WebServer(
            world,
            options.host,
            options.port,
            addresses=options.addresses,
            log_path=options.log,
            clock=Clock.from_environment(),
            latency_s=options.latency,
        )
        stats = run_web_server(server, _announce)
    except TarrafaError as error:
        _print_json({"error": str(error)})
        return 2
    _print_json({"stats": stats})
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tarrafa.testweb", description="A synthetic Web on loopback.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hosts", type=int, default=40)
    parser.add_argument("--pages", type=int, default=2000)
    parser.add_argument("--host", default="127.0.0.1", help="the loopback address to listen on for names")
    parser.add_argument("--port", type=int, default=8090, help="0: any that is free")
    parser.add_argument("--addresses", action="store_true", help="every host also on its own 127.x.y.z")
    parser.add_argument("--log", type=Path, help="append every request to this file, as JSON lines")
    parser.add_argument("--latency", type=float, default=0.0, help="mean seconds that an answer takes")
    parser.add_argument("--crawl-delay", type=float, default=1.0, help="seconds that robots.txt asks for")
    parser.add_argument("--crawl-delay-share", type=float, default=0.0, help="on this share of the hosts")
    parser.add_argument("--changes", type=float, default=1.0, help="multiplies the rate of change of every page")
    parser.add_argument("--hostile", action="store_true", help="serve the badly behaved hosts too")
    parser.add_argument("--parent", type=int, help="stop when this process, which must be the parent, dies")
    return parser


def _announce(server: WebServer) -> None:
    world = server.world
    place = {"port": server.port, "host": server.host, "connections": server.connections, "left_out": server.left_out}
    about = {"pid": os.getpid(), "seed": world.seed, "hosts": world.hosts, "pages": world.pages}
    _print_json(place | about)


def _print_json(value: object) -> None:
    try:
        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:  # the reading process was killed
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
