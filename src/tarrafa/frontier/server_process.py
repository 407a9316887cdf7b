"""The frontier server process: the only process with the frontier's SQLite file open; serves it on a socket and TCP.

Started by the supervisor. Every other process calls it over `DATA/run/frontier.sock`, and with `--listen` over TCP,
from other machines too. It prints `ready` on its standard output, with the port, then each refused client. When the
file can no longer be written it prints the reason in one line and ends: the supervisor decides what follows.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

import uvloop

from tarrafa.archive.warc_reader import visit_lengths
from tarrafa.clock import Clock, boottime
from tarrafa.errors import DataError, Locked, TarrafaError
from tarrafa.frontier.address import local_address
from tarrafa.frontier.clock_sync import resume_clock
from tarrafa.frontier.revisit_planner import PlannerLauncher
from tarrafa.frontier.rpc.frontier_server import RpcSession, parse_listen_address, serve_tcp, serve_unix
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier, last_clock_reading
from tarrafa.i18n import message
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import PROCESS_HEARTBEAT_EVERY_S, ProcessHeartbeat, send_heartbeats
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.token import load_token

OPEN_TRIES, OPEN_WAIT_S = 50, 0.1  # a predecessor that was killed a moment ago may still hold the lock


async def _serve(data: DataDirectory, listen: str) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    fatal: list[TarrafaError] = []

    def on_fatal(error: TarrafaError) -> None:
        fatal.append(error)
        loop.call_soon_threadsafe(ended.set)

    on_sigterm(ended.set)
    resumed = resume_clock(Clock.from_environment(), last_clock_reading(data.frontier))
    clock = resumed.clock
    frontier = await _open(data, clock, on_fatal)
    server = await serve_unix(frontier, data.socket)
    ready = "ready"
    if listen:
        token = load_token(None)
        tcp = await serve_tcp(frontier, *parse_listen_address(listen, token), token, _print_line)
        ready = f"ready {tcp.sockets[0].getsockname()[1]}"
    planners = asyncio.create_task(PlannerLauncher(frontier, local_address(data), clock).run())
    heartbeats = asyncio.create_task(send_heartbeats(data, partial(next, _heartbeats())))
    _print_line(ready)
    if resumed.notice():
        _print_line(f"{resumed.notice()} (it was set back since the frontier was last open)")
    await ended.wait()
    heartbeats.cancel()
    planners.cancel()
    with contextlib.suppress(asyncio.CancelledError, TarrafaError):
        await planners
    server.close()
    await frontier.close()
    if fatal:
        raise fatal[0]


def _heartbeats() -> Iterator[ProcessHeartbeat]:
    """The heartbeat of each second, with the number of calls."""
    answers, at = RpcSession.responses, boottime()
    while True:
        before, since, answers, at = answers, at, RpcSession.responses, boottime()
        elapsed_s = max(at - since, PROCESS_HEARTBEAT_EVERY_S)
        note = message("{count} questions/s", count=round((answers - before) / elapsed_s))
        lag_s = elapsed_s - PROCESS_HEARTBEAT_EVERY_S
        yield ProcessHeartbeat("frontier", os.getpid(), connections=RpcSession.open_sessions, lag_s=lag_s, note=note)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _open(data: DataDirectory, clock: Clock, on_fatal: Callable[[TarrafaError], None]) -> SqliteFrontier:
    if not data.frontier.exists() and visit_lengths(data.archive):
        # An empty frontier would assign visit numbers that the archive has already, and the followers ignore those.
        raise DataError(
            message(
                "{path}: is missing, but the archive holds visits; `tarrafa rebuild frontier` makes it again",
                path=data.frontier,
            )
        )
    for attempt in range(OPEN_TRIES):
        try:
            return SqliteFrontier(data.frontier, clock, bundled_suffix_list(), on_fatal, LeaseClock.from_environment())
        except Locked:
            if attempt == OPEN_TRIES - 1:
                raise
            await asyncio.sleep(OPEN_WAIT_S)
    raise AssertionError


def main(data: DataDirectory, listen: str = "") -> None:
    """`listen`: HOST:PORT for other machines; the token is in the environment."""
    uvloop.run(_serve(data, listen))


if __name__ == "__main__":
    run_child(main)
