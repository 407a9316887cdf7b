"""Deletes collections, and propagates deletions and takedowns between the frontier and the archive of each machine.

A frontier on this machine has its takedown log beside its file, and all local processes read that log. A machine that
works for a frontier elsewhere has a data directory, and so a log, of its own. `TakedownSync` keeps both logs equal: new
entries of the frontier are written here, new entries from here are sent to the frontier, and other machines get them
from there. Deletions go one way only: the frontier notes them, and `DeletionSync` writes them into each archive, also
into the archive beside the frontier's file. Where machines share a segment log, both are notes in it, which the mirror
of each machine applies (`archive/segment_log/log_notes`): here takedowns of this machine are only sent.

Promises: a takedown or deletion made on any machine is known on every other within a few seconds, or as soon as the
frontier answers. When `DeletionSync.sync_once` returns, all deletions that the frontier had noted are in the archive,
durably, and once, however many processes ask; so a process that syncs before it archives the first record of a
collection leaves no record of it before the deletion of its namesake. Repeating is harmless, and so is being killed in
between.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.segment_log.log_mirror import mirrored_log
from tarrafa.archive.segment_log.log_notes import LogNotes
from tarrafa.clock import Clock, boottime
from tarrafa.errors import FrontierError, TarrafaError, Unreachable
from tarrafa.frontier.address import Address, OpenFrontier, connect, open_manifest
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import CLOCK_SKEW_S_MAX
from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import TakedownEntry, append_entries, read_entries_from

PROPAGATE_EVERY_S = 1.0
ROWS_AT_ONCE = 5_000
NOTES_PATIENCE_S, NOTES_RETRY_S = 3.0, 10.0  # a log that cannot be read
RUNNING_VISITS_S_MAX, LOOK_EVERY_S = 60.0, 0.2  # running visits are waited for

log = logging.getLogger(__name__)


class DeletionSync:
    """Brings the deletions of collections into this machine's archive. `clock` is the clock that dates the visits here,
    as nearly as is known."""

    def __init__(self, data: DataDirectory, clock: Clock) -> None:
        self._data, self._clock = data, clock
        self._last_number = 0

    async def sync_once(self, frontier: Frontier) -> None:
        """Record all deletions that are new. Without an archive there is nothing to record; a mirror has them from its
        log."""
        if not self._data.archive.is_dir() or mirrored_log(self._data) is not None:
            return
        while noted := await frontier.deletions(self._last_number):
            moments = {one.collection: one.at for one in noted}
            apart = CLOCK_SKEW_S_MAX * self._clock.scale
            await asyncio.to_thread(record_deletions, self._data.archive, moments, self._clock.now(), apart)
            self._last_number = noted[-1].number

    def reset(self) -> None:
        """Start from the beginning: the next frontier may be another one."""
        self._last_number = 0


async def delete_collection(frontier: Frontier, data: DataDirectory | None, name: str) -> None:
    """Delete a collection that does not run. `data` is None if no archive of this machine is concerned.

    The order is fixed. First no further visit starts, and running visits end. Then the frontier notes the deletion; the
    archive of every machine learns of it, this machine's at once, so that graph, index and triple store drop the
    collection. Then the frontier removes its rows, the name last. After a kill, the deletion is simply repeated. So a
    name is never free before every machine can learn of the deletion. What was archived stays archived.
    """
    await frontier.delete_collection(name, 0)
    await _wait_for_running_visits(frontier, name)
    if data is not None:
        await DeletionSync(data, Clock.from_environment()).sync_once(frontier)
    while await frontier.delete_collection(name, ROWS_AT_ONCE):
        pass


async def _wait_for_running_visits(frontier: Frontier, name: str) -> None:
    """Wait: a running visit leaves a record, which must come before the note of the deletion."""
    until = boottime() + RUNNING_VISITS_S_MAX
    while not await frontier.record_deletion(name):
        if boottime() > until:
            raise FrontierError(
                message(
                    "{name}: some visits still run, or a server does not answer; delete it again when they have ended",
                    name=name,
                )
            )
        await asyncio.sleep(LOOK_EVERY_S)


class TakedownSync:
    """Keeps two takedown logs equal: this data directory's and the frontier's."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._here = self._there = 0  # positions in the logs
        self._known: set[TakedownEntry] = set()  # entries that the frontier knows

    async def sync_once(self, frontier: Frontier) -> None:
        """Make both logs equal, as of now; where there is a mirror, it brings theirs."""
        is_mirror = mirrored_log(self._data) is not None
        while not is_mirror and (theirs := await frontier.takedowns(self._there)).entries:
            await asyncio.to_thread(append_entries, self._data, theirs.entries)
            self._known.update(theirs.entries)
            self._there = theirs.end
        while (ours := await asyncio.to_thread(read_entries_from, self._data, self._here, ENTRIES_PER_RESPONSE))[0]:
            unknown = [entry for entry in ours[0] if entry not in self._known]
            if unknown:
                await frontier.record_takedowns(unknown)
                self._known.update(unknown)
            self._here = ours[1]

    def reset(self) -> None:
        """Start from the beginning: the next frontier may be another one, or may have lost our entries."""
        self._here = self._there = 0
        self._known.clear()


async def sync_takedowns_and_deletions(
    data: DataDirectory, clock: Clock, frontier: Callable[[], Awaitable[Frontier]], *, one_log: bool = False
) -> None:
    """Propagate for ever. `frontier` returns the connected frontier, or raises `Unreachable`; `one_log`: it is this
    directory's own. Visits here are dated by `clock`."""
    takedowns, deletions, last_error = TakedownSync(data), DeletionSync(data, clock), ""
    while True:
        try:
            connected = await frontier()
            if not one_log:
                await takedowns.sync_once(connected)
            await deletions.sync_once(connected)
            last_error = ""
        except TarrafaError as error:
            takedowns.reset()
            deletions.reset()
            if not isinstance(error, Unreachable) and str(error) != last_error:  # the supervisor waits for it
                log.error("takedowns and deletions cannot be exchanged with the frontier: %s", error)
                last_error = str(error)
        await asyncio.sleep(PROPAGATE_EVERY_S)


async def sync_takedowns_once(data: DataDirectory, address: Address) -> None:
    """Make both logs equal, once."""
    if mirrored_log(data) is not None:
        await asyncio.to_thread(_read_notes, data, address, lambda: True)
    frontier = await connect(address)
    try:
        await TakedownSync(data).sync_once(frontier)
    finally:
        await frontier.close()


@contextlib.asynccontextmanager
async def takedown_and_deletion_sync_running(data: DataDirectory, address: Address | None) -> AsyncIterator[None]:
    """Propagate while the context is open. `address` None: the frontier is this directory's own, both share one log,
    and the process that runs the frontier propagates the rest."""
    if address is None:
        yield
        return
    frontier, is_over = _ReconnectingFrontier(address), threading.Event()
    task = asyncio.create_task(sync_takedowns_and_deletions(data, Clock.from_environment(), frontier.open))
    reading = asyncio.create_task(asyncio.to_thread(_follow_notes, data, address, is_over))
    try:
        yield
    finally:
        task.cancel()
        is_over.set()
        await asyncio.gather(task, reading, return_exceptions=True)
        await frontier.close()


def _follow_notes(data: DataDirectory, address: Address, is_over: threading.Event) -> None:
    """Apply the notes of the log that this directory mirrors, whether or not a process mirrors it now."""
    while mirrored_log(data) is not None and not is_over.is_set():
        try:
            _read_notes(data, address, lambda: is_over.wait(PROPAGATE_EVERY_S))
        except TarrafaError as error:
            log.error("takedowns and deletions cannot be read from the log: %s", error)
        is_over.wait(NOTES_RETRY_S)


def _read_notes(data: DataDirectory, address: Address, is_over: Callable[[], bool]) -> None:
    """Apply the notes of the log, again and again until the end."""
    opened = open_manifest(address, None, NOTES_PATIENCE_S)
    if opened is None:
        return
    manifest, _ = opened
    try:
        notes = LogNotes(data, manifest)
        notes.read_once()
        while not is_over():
            notes.read_once()
    finally:
        manifest.close()


class _ReconnectingFrontier:
    """A frontier that is connected again, at the next use, after the connection was lost."""

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
