"""Watches free disk space: pauses the workers of a node before the disk is full.

A crawl in the foreground ends with an error when the disk is full. A node pauses instead, well before anything fails,
and resumes by itself. It resumes at a higher threshold than it pauses at, so that it does not start and stop with every
page.
"""

import shutil

from tarrafa.i18n import Message, message
from tarrafa.runtime import data_dir
from tarrafa.runtime.data_dir import DataDirectory

PAUSE_BELOW, RESUME_ABOVE = 2.0, 3.0  # times the minimum that every command needs


class DiskSpace:
    """Checks the disk of a data directory. `trouble`: why nothing may be fetched now; None if it may."""

    def __init__(self, directory: DataDirectory) -> None:
        self._data = directory
        self.trouble: Message | None = None

    def refresh(self) -> bool:
        """Check again; returns whether the result changed."""
        free, before = shutil.disk_usage(self._data.root).free, self.trouble
        needed = data_dir.FREE_BYTES_MIN * (RESUME_ABOVE if before else PAUSE_BELOW)
        if free >= needed:
            self.trouble = None
        elif not before:
            self.trouble = message(
                "paused: the disk is nearly full ({free} MB left, {needed} MB needed)",
                free=str(free >> 20),
                needed=str(int(needed) >> 20),
            )
        return before != self.trouble
