"""Rank file: the PageRank of each node as 32-bit floats, mapped into memory; and which ranks the frontier knows.

A header of 64 bytes, and then a 32-bit float for each node: N times PageRank, with the mean 1. Promises: a new file
replaces the old one when it is complete and durable; a process with the old one open keeps using it. A node beyond the
end of the file has the rank 1, and so have all nodes where there is no file, or a file of another incarnation of the
graph, whose nodes had other numbers. Knows nothing of how ranks are computed, nor of numpy: looking up a hundred ranks
needs none.

Beside it lies a file of the same format with the ranks that the frontier received last (0: none). Graph and frontier
use the same rule: a rank is news if it is more than a quarter above or below the last one; a page without a rank has
the mean. Promises: small changes are never delivered, so a ranking never floods the frontier; each call reads a bounded
number of nodes; delivered ranks are remembered across restarts, and a repeated delivery is harmless.
"""

import math
import mmap
import os
from collections.abc import Iterable
from pathlib import Path
from struct import Struct
from typing import Self

import msgspec

from tarrafa.errors import write_errors
from tarrafa.frontier.messages import is_significant_rank_change
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically

MAGIC, DELIVERED_MAGIC = b"TARRANK1", b"TARTOLD1"
DEFAULT_RANK = 1.0
HEADER_BYTES = 64
LOOKED_AT_MAX = 50_000  # nodes per call: some milliseconds
_header = Struct("<8sqqqqdd")
_delivered_header = Struct("<8sq")


class RankFileHeader(msgspec.Struct, frozen=True):
    """The graph that a rank file was computed from."""

    incarnation: int
    turned: int
    nodes: int
    edges: int
    at: float  # time of the computation
    took_s: float


def path_of(data: DataDirectory) -> Path:
    return data.graph / "ranks.f32"


def write_ranks(data: DataDirectory, stated: RankFileHeader, ranks: bytes | memoryview) -> None:
    """`ranks` are 32-bit floats, from node 1 on."""
    head = _header.pack(MAGIC, stated.incarnation, stated.turned, stated.nodes, stated.edges, stated.at, stated.took_s)
    with replace_atomically(path_of(data)) as file:
        file.write(head.ljust(HEADER_BYTES, b"\0"))
        file.write(ranks)


def read_header(data: DataDirectory) -> RankFileHeader | None:
    """The header of the present file; None without a readable one."""
    try:
        with path_of(data).open("rb") as file:
            return _read(file.read(HEADER_BYTES))
    except OSError:
        return None


def _read(head: bytes) -> RankFileHeader | None:
    if len(head) != HEADER_BYTES or not head.startswith(MAGIC):
        return None
    return RankFileHeader(*_header.unpack_from(head)[1:])


class RankFile:
    """A rank file, mapped into memory. It may be read by any number of threads."""

    def __init__(self, stated: RankFileHeader | None, values: "memoryview[float]") -> None:
        self.stated, self.values = stated, values

    @classmethod
    def empty(cls) -> Self:
        return cls(None, memoryview(b"").cast("f"))

    @classmethod
    def open(cls, data: DataDirectory, incarnation: int) -> Self:
        """Open the ranks of this incarnation of the graph."""
        try:
            with path_of(data).open("rb") as file:
                found = _read(file.read(HEADER_BYTES))
                if found is None or found.incarnation != incarnation:
                    return cls.empty()
                length = os.fstat(file.fileno()).st_size
                if length <= HEADER_BYTES:
                    return cls(found, memoryview(b"").cast("f"))
                content = memoryview(mmap.mmap(file.fileno(), length, access=mmap.ACCESS_READ))
        except OSError:
            return cls.empty()
        whole = (length - HEADER_BYTES) // 4 * 4
        return cls(found, content[HEADER_BYTES : HEADER_BYTES + whole].cast("f"))

    def rank_of(self, node: int) -> float:
        if not 0 < node <= len(self.values):
            return DEFAULT_RANK
        rank = self.values[node - 1]
        return rank if 0.0 <= rank < math.inf else DEFAULT_RANK


def delivered_path(data: DataDirectory) -> Path:
    """The file of the ranks that the frontier knows. Without it, all ranks are delivered again."""
    return data.graph / "ranks_sent.f32"


class UndeliveredRanks:
    """Of one incarnation of the graph. Call `reload` after each ranking."""

    def __init__(self, data: DataDirectory, incarnation: int) -> None:
        self._data, self._incarnation = data, incarnation
        self._ranks, self._delivered = RankFile.empty(), memoryview(bytearray()).cast("f")
        self._map: mmap.mmap | None = None
        self._place = 0
        self.reload()

    def reload(self) -> None:
        """Start over: there may be new ranks."""
        self.close()
        self._ranks = RankFile.open(self._data, self._incarnation)
        self._place = 0
        if len(self._ranks.values):
            self._map = self._open(len(self._ranks.values))
            self._delivered = memoryview(self._map)[HEADER_BYTES:].cast("f")

    def _open(self, nodes: int) -> mmap.mmap:
        """Open both files; ranks delivered from another incarnation are ignored."""
        path, head = delivered_path(self._data), _delivered_header.pack(DELIVERED_MAGIC, self._incarnation)
        with write_errors(path):
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

    def rank(self, node: int) -> float:
        """The rank by the last ranking; 0: the node is newer than it."""
        return self._ranks.rank_of(node) if node <= len(self._ranks.values) else 0.0

    def next_nodes(self, limit: int) -> list[int]:
        """Some nodes with undelivered ranks. An empty list: none among the nodes read by this call."""
        found: list[int] = []
        end = min(self._place + LOOKED_AT_MAX, len(self._ranks.values))
        while self._place < end and len(found) < limit:
            self._place += 1
            if is_significant_rank_change(self._ranks.rank_of(self._place), self._delivered[self._place - 1]):
                found.append(self._place)
        return found

    @property
    def is_done(self) -> bool:
        """Whether all ranks of the last ranking were read."""
        return self._place >= len(self._ranks.values)

    def mark_delivered(self, nodes: Iterable[int]) -> None:
        """Mark the present ranks of these nodes as delivered."""
        ranked = len(self._ranks.values)
        for node in nodes if ranked else ():
            rank = self.rank(node)
            if node <= ranked and is_significant_rank_change(rank, self._delivered[node - 1]):
                self._delivered[node - 1] = rank

    def close(self) -> None:
        self._delivered.release()
        if self._map is not None:
            self._map.close()
        self._map, self._delivered = None, memoryview(bytearray()).cast("f")
