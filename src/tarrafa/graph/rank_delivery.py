"""Tracks which ranks have changed enough to be delivered to the frontier.

Beside the file of ranks lies one of the same shape with the ranks as the frontier took them up last (0: never). Both
sides judge alike what is news: a rank more than a quarter above or below; who has none yet has the mean. Promises:
small changes are never told, so a survey floods nobody; each call looks at a bounded number of nodes, however many
there are; what was told is remembered across restarts, and telling something twice is harmless. Knows nothing of how
it is told.
"""

import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from tarrafa.errors import data_error_from_os
from tarrafa.frontier.messages import is_significant_rank_change
from tarrafa.graph.rank_file import HEADER_BYTES, RankFile
from tarrafa.runtime.data_dir import DataDirectory

MAGIC = b"TARTOLD1"
LOOKED_AT_MAX = 50_000  # nodes per call: some milliseconds
_header = Struct("<8sq")


def path_of(data: DataDirectory) -> Path:
    return data.graph / "told.f32"


class UndeliveredRanks:
    """Of one making of the graph. `take_up` after each survey."""

    def __init__(self, data: DataDirectory, incarnation: int) -> None:
        self._data, self._incarnation = data, incarnation
        self._ranks, self._told = RankFile.empty(), memoryview(bytearray()).cast("f")
        self._map: mmap.mmap | None = None
        self._place = 0
        self.reload()

    def reload(self) -> None:
        """There may be new ranks: look through all of them again."""
        self.close()
        self._ranks = RankFile.open(self._data, self._incarnation)
        self._place = 0
        if len(self._ranks.values):
            self._map = self._open(len(self._ranks.values))
            self._told = memoryview(self._map)[HEADER_BYTES:].cast("f")

    def _open(self, nodes: int) -> mmap.mmap:
        """What was told of a former making says nothing."""
        path, head = path_of(self._data), _header.pack(MAGIC, self._incarnation)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                if os.pread(descriptor, len(head), 0) != head:
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, head, 0)
                length = max(os.fstat(descriptor).st_size // 4 * 4, HEADER_BYTES + 4 * nodes)
                os.posix_fallocate(descriptor, 0, length)  # or a full disk would be noticed in the middle of a page
                os.ftruncate(descriptor, length)
                return mmap.mmap(descriptor, length)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise data_error_from_os(error, path) from None

    def rank(self, node: int) -> float:
        """As the last survey found it; 0: it has not met it."""
        return self._ranks.rank_of(node) if node <= len(self._ranks.values) else 0.0

    def next_nodes(self, limit: int) -> list[int]:
        """Some nodes whose ranks are news. None of them: there are none in what was looked at."""
        found: list[int] = []
        end = min(self._place + LOOKED_AT_MAX, len(self._ranks.values))
        while self._place < end and len(found) < limit:
            self._place += 1
            if is_significant_rank_change(self._ranks.rank_of(self._place), self._told[self._place - 1]):
                found.append(self._place)
        return found

    @property
    def is_done(self) -> bool:
        """All ranks of the last survey were looked at."""
        return self._place >= len(self._ranks.values)

    def mark_delivered(self, nodes: Iterable[int]) -> None:
        """The frontier was told the ranks of these, as they are now; it takes up what is news."""
        for node in nodes:
            if node <= len(self._ranks.values) and is_significant_rank_change(
                self._ranks.rank_of(node), self._told[node - 1]
            ):
                self._told[node - 1] = self._ranks.rank_of(node)

    def close(self) -> None:
        self._told.release()
        if self._map is not None:
            self._map.close()
        self._map, self._told = None, memoryview(bytearray()).cast("f")


def remove(data: DataDirectory) -> None:
    """The frontier was made anew: it knows nothing."""
    path_of(data).unlink(missing_ok=True)
