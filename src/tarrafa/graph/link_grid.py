"""Link grid: the links of a graph that is larger than memory, in temporary files, in the order in which PageRank reads
them.

Nodes have numbers from 0 on and are cut into *intervals* of 2**bits nodes. A link from interval s to interval t lies in
row t, and there in the order of s, of its target and of its source. Inside of an interval a node has 27 bits at most,
so the graph may have many more than 2^32 nodes (10^10 with 2 GB of memory), and a link takes one word of 32 bits: the
distance to the target of the link before, above the source's place in its interval. The largest distance stands for
"that far on, and no link".

Links come in any order, in pieces of any size. Each piece of a bounded number is sorted and spooled to the rows that it
concerns (8 bytes a link); then each row is merged from its sorted runs, encoded, and its spool freed. So memory is
bounded whatever the graph is like, and files are read and written from their beginning to their end only.

Promises: a pair of nodes is one link however often it is added, and a link from a node to itself is none; anonymous
memory stays below `memory_bytes`; files have no names, so that the system frees them even after a kill; a full disk
is a `DataError`. Knows nothing of ranks, URLs or SQLite.
"""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tarrafa.errors import DataError, write_errors
from tarrafa.i18n import message

INTERVAL_BITS_MIN = 20  # 8 MB of 64-bit floats: random reads within it stay in the processor's cache
INTERVAL_BITS_MAX = 27  # leaves 5 bits of a word for distances
INTERVALS_WANTED = 64
INTERVALS_MAX = 512  # each has an open file
SEGMENT_LINKS_MAX = 1 << 20
WORD_BITS = 32
# memory at once, in bytes: of a link while it is sorted or merged, and of a node of the interval that is computed
SORTED_LINK_BYTES = 128
INTERVAL_NODE_BYTES = 64

Keys = NDArray[np.int64]  # source interval, place of the target, place of the source: in this order, so sorted
Words = NDArray[np.uint32]


class LinkSegment(NamedTuple):
    """Links of one row that come from one interval. `first`: the place of the first target in its interval."""

    interval: int
    first: int
    start: int  # byte of the row's file
    words: int


def mapped_array(folder: Path, length: int, kind: DTypeLike) -> NDArray[Any]:
    """An array of zeros in a file without a name, which the system removes with its last mapping."""
    with write_errors(folder), tempfile.TemporaryFile(dir=folder) as file:
        # reserved now: a disk that is full later would be a signal in the middle of a computation
        os.posix_fallocate(file.fileno(), 0, max(1, length) * np.dtype(kind).itemsize)
        return np.memmap(file, kind, "r+", shape=(max(1, length),)).view(np.ndarray)[:length]


class _Pile:
    """A file of numbers that only grows, without a name. Closing it frees its space."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with write_errors(folder):
            self._file: IO[bytes] = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        self.bytes = 0

    def append(self, numbers: NDArray[Any]) -> None:
        with write_errors(self._folder):
            self._file.write(numbers.data)
            self._file.flush()
        self.bytes += numbers.nbytes

    def read_into(self, numbers: NDArray[Any], place: int) -> None:
        """Fill an array from a place, in bytes."""
        self._file.seek(place)
        length = self._file.readinto(numbers.data.cast("B"))  # type: ignore[attr-defined]
        assert length == numbers.nbytes, "a temporary file is too short"

    def close(self) -> None:
        self._file.close()
        self.bytes = 0


class LinkGrid:
    """Add all links, then `finish`; then rows may be read any number of times. Close it at the end."""

    def __init__(self, nodes: int, folder: Path, memory_bytes: int) -> None:
        self.nodes, self._folder = nodes, folder
        self.bits = min(
            max(INTERVAL_BITS_MIN, (max(1, nodes // INTERVALS_WANTED) - 1).bit_length()),
            max(1, memory_bytes // INTERVAL_NODE_BYTES).bit_length() - 1,
            INTERVAL_BITS_MAX,
        )
        self.intervals = -(-nodes >> self.bits)
        if self.intervals > INTERVALS_MAX:
            raise DataError(
                message(
                    "{folder}: {nodes} URLs are too many to be ranked ({limit} at most)",
                    folder=folder,
                    nodes=nodes,
                    limit=INTERVALS_MAX << self.bits,
                )
            )
        self.links = 0  # that are different
        self.disk_bytes_max = 0
        self.links_of = mapped_array(folder, nodes, np.int32)  # outlinks of each node
        self._at_once = max(1, memory_bytes // SORTED_LINK_BYTES)
        self._waiting: list[tuple[NDArray[np.uint16], Keys]] = []
        self._waiting_links = 0
        self._spools = [_Pile(folder) for _ in range(self.intervals)]
        self._runs: list[list[int]] = [[] for _ in range(self.intervals)]  # lengths
        self._rows: list[_GridRow] = []
        self._buffer = np.empty(0, np.uint32)  # as large as the largest segment

    # -- writing ---

    def add(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> None:
        """Add links. Nodes are from 0 to `nodes` - 1: the caller checks that."""
        for start in range(0, len(sources), self._at_once):
            source, target = sources[start : start + self._at_once], targets[start : start + self._at_once]
            if self._waiting_links + len(source) > self._at_once:
                self._spool()
            apart = source != target
            source, target = source[apart], target[apart]
            self._waiting.append(((target >> self.bits).astype(np.uint16), self._keys(source, target)))
            self._waiting_links += len(source)

    def finish(self) -> Self:
        """All links are there: bring them into their order."""
        self._spool()
        for number, (spool, runs) in enumerate(zip(self._spools, self._runs, strict=True)):
            row = _GridRow(self._folder, self.bits)
            self._rows.append(row)
            links_of = self.links_of[self.interval(number)]
            for keys in self._merged(spool, runs):
                linking = links_of[self._targets(keys)] > 0
                row.add(keys[linking], linking=True)
                row.add(keys[~linking], linking=False)
            self.disk_bytes_max = max(self.disk_bytes_max, self.disk_bytes)
            spool.close()
        self._spools, self._runs = [], []
        self._buffer = np.empty(max((row.words_max for row in self._rows), default=0), np.uint32)
        return self

    def _keys(self, sources: NDArray[np.int64], targets: NDArray[np.int64]) -> Keys:
        mask = (1 << self.bits) - 1
        keys = sources >> self.bits
        keys <<= self.bits
        keys |= targets & mask
        keys <<= self.bits
        keys |= sources & mask
        return keys

    def _sources(self, keys: Keys) -> NDArray[np.int64]:
        return (keys >> 2 * self.bits << self.bits) | (keys & ((1 << self.bits) - 1))

    def _targets(self, keys: Keys) -> NDArray[np.int64]:
        """Places of targets in their interval."""
        return (keys >> self.bits) & ((1 << self.bits) - 1)

    def _spool(self) -> None:
        """Sort the waiting links, and append to each row its own."""
        if not self._waiting_links:
            return
        rows, keys = (np.concatenate(arrays) for arrays in zip(*self._waiting, strict=True))
        self._waiting, self._waiting_links = [], 0
        keys = keys[np.argsort(rows, kind="stable")]
        ends = np.cumsum(np.bincount(rows, minlength=self.intervals)).tolist()
        del rows
        for spool, runs, start, end in zip(self._spools, self._runs, [0, *ends], ends, strict=False):
            if start < end:
                run = _sorted_once(keys[start:end])[0]
                np.add.at(self.links_of, self._sources(run), np.int32(1))
                spool.append(run)
                runs.append(len(run))

    def _merged(self, spool: _Pile, runs: list[int]) -> Iterator[Keys]:
        """The links of a row in their order, each once, in pieces.

        Each round takes from all runs what is not above the last key held of a run that goes on: nothing that is
        still in the file comes before it.
        """
        ends = np.cumsum(runs, dtype=np.int64).tolist()
        places = [end - length for end, length in zip(ends, runs, strict=True)]
        held = [np.empty(0, np.int64)] * len(runs)
        share = max(1, self._at_once // max(1, len(runs)))
        while any(map(len, held)) or any(place < end for place, end in zip(places, ends, strict=True)):
            for run, (place, end) in enumerate(zip(places, ends, strict=True)):
                if place < end and len(held[run]) < share:
                    more = np.empty(min(share - len(held[run]), end - place), np.int64)
                    spool.read_into(more, 8 * place)
                    held[run] = np.concatenate((held[run], more))
                    places[run] += len(more)
            open_ends = [held[run][-1] for run, end in enumerate(ends) if places[run] < end]
            cuts = [
                len(keys) if not open_ends else int(np.searchsorted(keys, min(open_ends), "right")) for keys in held
            ]
            keys, again = _sorted_once(np.concatenate([keys[:cut] for keys, cut in zip(held, cuts, strict=True)]))
            held = [keys[cut:] for keys, cut in zip(held, cuts, strict=True)]
            np.subtract.at(self.links_of, self._sources(again), np.int32(1))
            self.links += len(keys)
            yield keys

    # -- reading ---

    def interval(self, number: int) -> slice:
        """The nodes of an interval."""
        return slice(number << self.bits, min((number + 1) << self.bits, self.nodes))

    def row(self, number: int, *, linking: bool) -> Iterator[tuple[LinkSegment, Words]]:
        """The links to an interval's nodes that have outlinks (`linking`), or to the others. Those from the interval
        itself come last. The words are valid until the next ones.
        """
        row = self._rows[number]
        for segment in sorted(row.segments[linking], key=lambda one: one.interval == number):
            words = self._buffer[: segment.words]
            row.pile.read_into(words, segment.start)
            yield segment, words

    @property
    def disk_bytes(self) -> int:
        """What the links take on the disk. The most is while they are merged."""
        return sum(pile.bytes for pile in self._piles())

    def close(self) -> None:
        for pile in self._piles():
            pile.close()

    def _piles(self) -> list[_Pile]:
        return [*self._spools, *(row.pile for row in self._rows)]


class _GridRow:
    """The encoded links to one interval."""

    def __init__(self, folder: Path, bits: int) -> None:
        self.pile, self._bits = _Pile(folder), bits
        self.segments: dict[bool, list[LinkSegment]] = {True: [], False: []}
        self.words_max = 0

    def add(self, keys: Keys, *, linking: bool) -> None:
        """Keys in their order. A segment ends with its interval, or when it is full."""
        intervals = keys >> 2 * self._bits
        starts = np.flatnonzero(np.diff(intervals, prepend=-1)).tolist()
        for start, end in zip(starts, [*starts[1:], len(keys)], strict=False):  # none at all: no start
            for part in range(start, end, SEGMENT_LINKS_MAX):
                piece = keys[part : min(part + SEGMENT_LINKS_MAX, end)]
                mask = (1 << self._bits) - 1
                targets = (piece >> self._bits) & mask
                words = encode(targets, piece & mask, self._bits)
                self.segments[linking].append(
                    LinkSegment(int(intervals[start]), int(targets[0]), self.pile.bytes, len(words))
                )
                self.pile.append(words)
                self.words_max = max(self.words_max, len(words))


def encode(targets: NDArray[np.int64], sources: NDArray[np.int64], bits: int) -> Words:
    """One word for each link, and one for each time that the distance to the next target is too large for a word."""
    distances = np.diff(targets, prepend=targets[:1])
    distance_max = (1 << WORD_BITS - bits) - 1
    leaps = distances // distance_max
    words = np.full(len(targets) + int(leaps.sum()), distance_max << bits, np.uint32)
    words[np.arange(len(targets)) + np.cumsum(leaps)] = (distances - leaps * distance_max) << bits | sources
    return words


def _sorted_once(keys: Keys) -> tuple[Keys, Keys]:
    """The different keys in their order, and the repeated ones."""
    keys.sort()
    repeated = np.flatnonzero(keys[1:] == keys[:-1])
    return np.delete(keys, repeated), keys[repeated]
