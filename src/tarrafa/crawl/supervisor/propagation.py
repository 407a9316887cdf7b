"""Propagates take-downs and deletions of collections between the frontier and the archive of each machine.

The frontier knows; an archive hears of it from whoever works for that frontier beside it. Promises: what the frontier
has noted when it is asked is in the archive when that returns, durably, and once, however many processes ask; so
whoever asks before it archives the first record of a collection leaves no record of it before the end of its
namesake. Repeating is harmless, and so is being killed in between.

Does everybody who works for one frontier know what is taken down, and which collections are deleted?

The frontier of one machine has its log beside its file, and everybody there reads that. Who works for a frontier that
is elsewhere has a data directory, and so a log, of his own. Both logs are made the same here, again and again: what
the frontier has heard of is written down here, what was said here is told to the frontier; from there the other
machines have it. Deletions go one way only: the frontier knows of them, and each archive hears of them (hearing.py),
that beside the frontier's file too. Promises: what was done on any machine is known on every other within a few
seconds, or as soon as the frontier answers; repeating is harmless.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.clock import Clock
from tarrafa.errors import FrontierError, TarrafaError, Unreachable
from tarrafa.frontier.address import Address, OpenFrontier, connect
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import CLOCK_SKEW_S_MAX
from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import TakedownEntry, append_entries, read_entries_from


class DeletionSync:
    """How far one process has heard. `clock` is the one that visits here are dated by, as nearly as is known."""

    def __init__(self, data: DataDirectory, clock: Clock) -> None:
        self._data, self._clock = data, clock
        self._heard = 0

    async def sync_once(self, frontier: Frontier) -> None:
        """All that is to be heard now. Where there is no archive, there is nobody to hear it yet."""
        if not self._data.archive.is_dir():
            return
        while told := await frontier.deletions(self._heard):
            moments = {one.collection: one.at for one in told}
            apart = CLOCK_SKEW_S_MAX * self._clock.scale
            await asyncio.to_thread(record_deletions, self._data.archive, moments, self._clock.now(), apart)
            self._heard = told[-1].number

    def reset(self) -> None:
        """Whoever answers next may be another one."""
        self._heard = 0


PROPAGATE_EVERY_S = 1.0

log = logging.getLogger(__name__)


class TakedownSync:
    """The two logs, as far as they have been read."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._here = self._there = 0  # places
        self._known: set[TakedownEntry] = set()  # to the frontier

    async def sync_once(self, frontier: Frontier) -> None:
        """Make both logs the same, as of now."""
        while (told := await frontier.takedowns(self._there)).entries:
            await asyncio.to_thread(append_entries, self._data, told.entries)
            self._known.update(told.entries)
            self._there = told.end
        while (mine := await asyncio.to_thread(read_entries_from, self._data, self._here, ENTRIES_PER_RESPONSE))[0]:
            news = [entry for entry in mine[0] if entry not in self._known]
            if news:
                await frontier.record_takedowns(news)
                self._known.update(news)
            self._here = mine[1]

    def reset(self) -> None:
        """Whoever answers next may be another one, or have forgotten what we told."""
        self._here = self._there = 0
        self._known.clear()


async def run_propagation(
    data: DataDirectory, clock: Clock, frontier: Callable[[], Awaitable[Frontier]], *, one_log: bool = False
) -> None:
    """For ever. `frontier` gives the one that is there at the moment, or raises `Unreachable`; `one_log`: it is this
    directory's own. Visits here are dated by `clock`."""
    spreading, hearing, said = TakedownSync(data), DeletionSync(data, clock), ""
    while True:
        try:
            answering = await frontier()
            if not one_log:
                await spreading.sync_once(answering)
            await hearing.sync_once(answering)
            said = ""
        except TarrafaError as error:
            spreading.reset()
            hearing.reset()
            if not isinstance(error, Unreachable) and str(error) != said:  # who is away is waited for elsewhere
                log.error("what is taken down or deleted cannot be told to the frontier, or by it: %s", error)
                said = str(error)
        await asyncio.sleep(PROPAGATE_EVERY_S)


async def sync_takedowns_once(data: DataDirectory, address: Address) -> None:
    """Make both logs the same, once."""
    frontier = await connect(address)
    try:
        await TakedownSync(data).sync_once(frontier)
    finally:
        await frontier.close()


@contextlib.asynccontextmanager
async def propagation_running(data: DataDirectory, address: Address | None) -> AsyncIterator[None]:
    """Meanwhile, this directory hears of what the frontier at that address hears of. None: it is this directory's own,
    they have one log, and whoever runs it hears of the rest."""
    if address is None:
        yield
        return
    line = _ReconnectingFrontier(address)
    spreading = asyncio.create_task(run_propagation(data, Clock.from_environment(), line.open))
    try:
        yield
    finally:
        spreading.cancel()
        await asyncio.gather(spreading, return_exceptions=True)
        await line.close()


class _ReconnectingFrontier:
    """A frontier that is connected to anew, the next time, where it went away."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self._frontier: OpenFrontier | None = None

    async def open(self) -> Frontier:
        if self._frontier is not None:
            try:
                await self._frontier.time()
            except FrontierError:
                await self.close()
                raise
        if self._frontier is None:
            self._frontier = await connect(self._address)
        return self._frontier

    async def close(self) -> None:
        frontier, self._frontier = self._frontier, None
        if frontier is not None:
            await frontier.close()
