"""`tarrafa top`: the numbers of a crawl, live in a terminal.

Once a second, until `q` or Ctrl-C. Elsewhere than in a terminal, the same frames one after the other, without colours
and without signs that move a cursor; as JSON, one line a second. It only looks: nothing that it shows depends on it.
"""

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import AsyncGenerator, Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from tarrafa.cli.frame import Lines, draw_frame
from tarrafa.cli.running import run_until_interrupted
from tarrafa.cli.sight import TopReader, TopSnapshot
from tarrafa.clock import Clock
from tarrafa.data import DataDirectory
from tarrafa.errors import TarrafaError
from tarrafa.frontier.address import Address

EVERY_S = 1.0
LAST_LINE = Text("q ends", "dim")


def run_top(data: DataDirectory, address: Address | None, *, once: bool = False, as_json: bool = False) -> None:
    """Watch a data directory, or a frontier that is elsewhere, until somebody has seen enough."""
    onlooker = TopReader(data, address)
    place = str(data.root) if address is None else str(address)
    run_until_interrupted(lambda: _watch(onlooker, place, once=once, as_json=as_json))


async def _watch(onlooker: TopReader, place: str, *, once: bool, as_json: bool) -> int:
    console, clock = Console(highlight=False), Clock.from_environment()
    first = await onlooker.read(clock.now())  # what is wrong from the beginning is told as every command tells it
    if once or as_json or not console.is_terminal:
        await _print(onlooker, first, clock, console, place, once=once, as_json=as_json)
        return 0
    with _single_keys() as keys, Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live:
        async with contextlib.aclosing(_snapshots(onlooker, first, clock, keys)) as sights:
            async for sight in sights:
                live.update(Group(*_frame(onlooker, sight, console, place), LAST_LINE), refresh=True)
    return 0


async def _print(
    onlooker: TopReader, first: TopSnapshot, clock: Clock, console: Console, place: str, *, once: bool, as_json: bool
) -> None:
    async with contextlib.aclosing(_snapshots(onlooker, first, clock, None)) as sights:
        async for sight in sights:
            if as_json:
                sys.stdout.write(sight.to_json_line().decode() + "\n")
            else:
                with console.capture() as captured:  # rich would end us with status 1 where nobody reads any more
                    console.print(Group(*_frame(onlooker, sight, console, place), *([] if once else [Text()])))
                sys.stdout.write(captured.get())
            sys.stdout.flush()
            if once:
                return


def _frame(onlooker: TopReader, sight: TopSnapshot, console: Console, place: str) -> Lines:
    ascii_only = console.options.ascii_only
    return draw_frame(sight, onlooker.trends, console.width, console.height, where=place, plain=ascii_only)


async def _snapshots(
    onlooker: TopReader, first: TopSnapshot, clock: Clock, keys: asyncio.Event | None
) -> AsyncGenerator[TopSnapshot, None]:
    """One a second, until a key is pressed. A frontier that goes away is waited for."""
    sight = first
    while True:
        yield sight
        if await _pressed(keys, EVERY_S):
            return
        try:
            sight = await onlooker.read(clock.now())
        except TarrafaError as error:
            sight = TopSnapshot(clock.now(), sight.overview, sight.followers, None, f"these are old numbers: {error}")


async def _pressed(keys: asyncio.Event | None, wait_s: float) -> bool:
    if keys is None:
        await asyncio.sleep(wait_s)
        return False
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(keys.wait(), wait_s)
    return keys.is_set()


@contextlib.contextmanager
def _single_keys() -> Iterator[asyncio.Event]:
    """Set when somebody presses q; the terminal is afterwards as it was."""
    pressed, loop = asyncio.Event(), asyncio.get_running_loop()
    if not sys.stdin.isatty():
        yield pressed
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        content = os.read(descriptor, 64)
        if not content or b"q" in content.lower():  # nothing: the terminal is gone
            pressed.set()

    try:
        tty.setcbreak(descriptor)
        loop.add_reader(descriptor, read)
        yield pressed
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
