"""The limits of the workers of a node: as ordered, and paused while the disk is nearly full.

The limits are in a file that the workers read. If the disk is too full to write the file, it is written again later.
A crawl in the foreground ends with an error when the disk is full. A node pauses instead, well before anything fails,
and resumes by itself, at a higher threshold than it pauses at, so that it does not start and stop with every page.
"""

import shutil
from collections.abc import Callable

from msgspec.structs import replace

from tarrafa.crawl.worker.resource_limits import PAUSED_BY_ORDER, ResourceLimits, write_limits
from tarrafa.i18n import Message, joined, message
from tarrafa.runtime import data_dir
from tarrafa.runtime.data_dir import DataDirectory

PAUSE_BELOW, RESUME_ABOVE = 2.0, 3.0  # times the minimum that every command needs


class NodeLimits:
    """`trouble`: why nothing may be fetched now; None if it may."""

    def __init__(self, data: DataDirectory, limits: ResourceLimits, print_line: Callable[[str], None]) -> None:
        self._data, self._limits, self._print_line = data, limits, print_line
        self._written = False
        self.trouble: Message | None = None

    def set(self, limits: ResourceLimits) -> None:
        if limits != self._limits:
            self._limits = limits
            self.write()

    def refresh(self) -> None:
        """Check the disk again, and pause or resume the workers."""
        before, self.trouble = self.trouble, disk_trouble(self._data, self.trouble)
        if before != self.trouble:
            self._written = False
            self._print_line(str(self.trouble) if self.trouble else "there is room on the disk again; going on")
        if not self._written:
            self.write()

    def write(self) -> None:
        ordered = PAUSED_BY_ORDER if self._limits.paused else None
        why = joined([one for one in (ordered, self.trouble) if one is not None])
        try:
            write_limits(self._data, replace(self._limits, paused=bool(why), why=why))
            self._written = True
        except OSError:
            self._written = False


def disk_trouble(data: DataDirectory, before: Message | None) -> Message | None:
    """Why the disk is too full to fetch anything, `before` being the last answer; None if it is not."""
    free = shutil.disk_usage(data.root).free
    needed = data_dir.FREE_BYTES_MIN * (RESUME_ABOVE if before else PAUSE_BELOW)
    if free >= needed:
        return None
    return before or message(
        "paused: the disk is nearly full ({free} MB left, {needed} MB needed)",
        free=str(free >> 20),
        needed=str(int(needed) >> 20),
    )
