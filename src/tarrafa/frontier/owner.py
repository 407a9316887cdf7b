"""The one process that has the frontier's file open.

Started by the supervisor; everybody else speaks to it over `DATA/run/frontier.sock`, and with `--listen` over TCP, from
other machines too. It says `ready` on its standard output, with the port, then whom it refused. When the file can no
longer be written it says why in one line and ends: the supervisor decides what then.
"""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import uvloop

from tarrafa.archive.follow import published
from tarrafa.clock import Clock, boottime
from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, Locked, TarrafaError
from tarrafa.fetch.suffixes import bundled_list
from tarrafa.frontier.address import local
from tarrafa.frontier.door import listen, parse_listen
from tarrafa.frontier.planner import Steward
from tarrafa.frontier.remote import Tally, serve
from tarrafa.frontier.store.hosts import LeaseClock
from tarrafa.frontier.store.sqlite import SqliteFrontier, last_seen
from tarrafa.frontier.timing import going_on
from tarrafa.frontier.token import find_token
from tarrafa.process import become_child, run_child
from tarrafa.pulse import PULSE_EVERY_S, Pulse, Sender

OPEN_TRIES, OPEN_WAIT_S = 50, 0.1  # a predecessor that was killed a moment ago may still hold the lock


async def _main(data: DataDirectory, where: str | None) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    fatal: list[TarrafaError] = []

    def on_fatal(error: TarrafaError) -> None:
        fatal.append(error)
        loop.call_soon_threadsafe(ended.set)

    loop.add_signal_handler(signal.SIGTERM, ended.set)
    going = going_on(Clock.from_environment(), last_seen(data.frontier))
    clock = going.clock
    frontier = await _open(data, clock, on_fatal)
    server = await serve(frontier, data.socket)
    ready = "ready"
    if where is not None:
        token = find_token(None)
        doors = await listen(frontier, *parse_listen(where, token), token, _say)
        ready = f"ready {doors.sockets[0].getsockname()[1]}"
    steward = asyncio.create_task(Steward(frontier, local(data), clock).run())
    pulsing = asyncio.create_task(_pulse(data))
    _say(ready)
    if going.notice():
        _say(f"{going.notice()} (it was set back since the frontier was last open)")
    await ended.wait()
    pulsing.cancel()
    steward.cancel()
    with contextlib.suppress(asyncio.CancelledError, TarrafaError):
        await steward
    server.close()
    await frontier.close()
    if fatal:
        raise fatal[0]


async def _pulse(data: DataDirectory) -> None:
    """Say once a second how much we are asked."""
    sender = Sender(data)
    answers, at = Tally.answers, boottime()
    while True:
        await asyncio.sleep(PULSE_EVERY_S)
        before, since, answers, at = answers, at, Tally.answers, boottime()
        late_s = max(0.0, at - since - PULSE_EVERY_S)
        note = f"{(answers - before) / (at - since):,.0f} questions/s"
        sender.send(Pulse("frontier", os.getpid(), connections=Tally.sessions, lag_s=late_s, note=note))


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _open(data: DataDirectory, clock: Clock, on_fatal: Callable[[TarrafaError], None]) -> SqliteFrontier:
    if not data.frontier.exists() and published(data.archive):
        # An empty one would give the numbers of visits again that the archive holds already: nobody would follow them.
        raise DataError(
            f"{data.frontier}: is missing, but the archive holds visits; `tarrafa rebuild frontier` makes it again"
        )
    for attempt in range(OPEN_TRIES):
        try:
            return SqliteFrontier(data.frontier, clock, bundled_list(), on_fatal, LeaseClock.from_environment())
        except Locked:
            if attempt == OPEN_TRIES - 1:
                raise
            await asyncio.sleep(OPEN_WAIT_S)
    raise AssertionError


def main() -> None:
    """`python -m tarrafa.frontier.owner`: started by the supervisor."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--listen", help="HOST:PORT; the token is in the environment")
    options = parser.parse_args()
    become_child(options.parent)
    run_child(lambda: uvloop.run(_main(DataDirectory(options.data), options.listen)))


if __name__ == "__main__":
    main()
