"""Status of the archive: how many files it has, how large they are, and which orders to erase wait or are due."""

import os
from contextlib import suppress

import msgspec

from tarrafa.crawl.compaction.erase_orders import due_erasures, pending_erasures
from tarrafa.errors import DataError
from tarrafa.runtime.data_dir import DataDirectory


class ArchiveStatus(msgspec.Struct, frozen=True):
    """`pairs` of files; `to_erase`: orders whose waiting time is not over, and `due`: those whose is."""

    pairs: int = 0
    bytes: int = 0
    to_erase: int = 0
    due: int = 0


def archive_status(data: DataDirectory, now: float) -> ArchiveStatus:
    """What is there now."""
    pairs, size = measure_archive(data)
    pending = due = 0
    with suppress(DataError):  # a damaged log is reported where it is obeyed
        due = len(due_erasures(data, now))
        pending = len(pending_erasures(data)) - due
    return ArchiveStatus(pairs, size, pending, due)


def measure_archive(data: DataDirectory) -> tuple[int, int]:
    """The number of pairs of files, and their bytes; a file may be removed meanwhile."""
    pairs = size = 0
    with suppress(OSError), os.scandir(data.archive) as files:
        for file in files:
            with suppress(OSError):
                pairs += file.name.endswith(".durable")
                size += file.stat().st_size if file.name.endswith(".warc.gz") else 0
    return pairs, size
