"""Watches free disk space: pauses the workers of a node before the disk is full.

A crawl that somebody sits in front of ends when the disk is full, and says so. A node that is to last pauses instead,
well before anything fails, and goes on by itself when there is room again; a little more than it paused at, lest it
begin and stop with every page.
"""

import shutil

from tarrafa.i18n import Message, message
from tarrafa.runtime import data_dir
from tarrafa.runtime.data_dir import DataDirectory

PAUSE_BELOW, RESUME_ABOVE = 2.0, 3.0  # of what no command works without


class DiskSpace:
    """Looks at the disk of a data directory. `trouble`: why nothing may be fetched now; None, if it may."""

    def __init__(self, directory: DataDirectory) -> None:
        self._data = directory
        self.trouble: Message | None = None

    def refresh(self) -> bool:
        """Look again; whether that changed anything."""
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
