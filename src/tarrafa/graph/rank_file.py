"""Rank file: the PageRank of each node as 32-bit floats, mapped into memory.

A header of 64 bytes, and then a 32-bit float for each node: N times PageRank, with the mean 1. Promises: a new file
replaces the old one when it is complete and durable; a process with the old one open keeps using it. A node beyond the
end of the file has the rank 1, and so have all nodes where there is no file, or a file of another incarnation of the
graph, whose nodes had other numbers. Knows nothing of how ranks are computed, nor of numpy: looking up a hundred ranks
needs none.
"""

import math
import mmap
import os
from pathlib import Path
from struct import Struct
from typing import Self

import msgspec

from tarrafa.runtime.data_dir import DataDirectory, replace_atomically

MAGIC = b"TARRANK1"
DEFAULT_RANK = 1.0
HEADER_BYTES = 64
_header = Struct("<8sqqqqdd")


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


def write_ranks(data: DataDirectory, stated: RankFileHeader, ranks: bytes) -> None:
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
