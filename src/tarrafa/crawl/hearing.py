"""Which collections were deleted since we last heard of it?

The frontier knows; an archive hears of it from whoever works for that frontier beside it. Promises: what the frontier
has noted when it is asked is in the archive when that returns, durably, and once, however many processes ask; so
whoever asks before it archives the first record of a collection leaves no record of it before the end of its namesake.
Repeating is harmless, and so is being killed in between.
"""

import asyncio

from tarrafa.archive.deletions import record_deletions
from tarrafa.clock import Clock
from tarrafa.data import DataDirectory
from tarrafa.frontier.protocol import Frontier
from tarrafa.frontier.timing import CLOCK_SKEW_S_MAX


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
