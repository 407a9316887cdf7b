"""How is a good input made a bad one?

A mutation fuzzer in the manner of AFL's "havoc" stage, without instrumentation: an input is taken from the pool, up to
eight random operations are done to it, and when what comes out of the code under test is of a kind not seen before, the
input joins the pool. The same seed gives the same inputs in the same order on every machine.
"""

import random
from collections.abc import Callable, Hashable, Sequence

INPUT_BYTES_MAX = 65_536
POOL_MAX = 2_000
POOLED_BYTES_MAX = 4_096  # small ones are tried more often in the same time
OPERATIONS_MAX = 8
GROWN_SHARE = 0.02  # of the inputs: one part is repeated until it fills what an input may have
EDGES = (0x00, 0x09, 0x0A, 0x0D, 0x20, 0x22, 0x26, 0x27, 0x2F, 0x3C, 0x3E, 0x7F, 0x80, 0xC3, 0xE2, 0xF0, 0xFE, 0xFF)


class Mutator:
    """Makes inputs from seeds and a dictionary of tokens that mean something to the code under test."""

    def __init__(self, seeds: Sequence[bytes], tokens: Sequence[bytes], seed: str) -> None:
        self.rng = random.Random(seed)
        self.pool = [bytes(sample[:INPUT_BYTES_MAX]) for sample in seeds]
        self._tokens = list(tokens)
        self._seen: set[Hashable] = set()
        self._operations: list[Callable[[bytearray], None]] = [
            self._flip, self._overwrite, self._insert, self._delete, self._repeat, self._move, self._splice, self._cut,
            self._token, self._token, self._token, self._exchange,
        ]  # fmt: skip

    def next(self) -> bytes:
        data = bytearray(self.rng.choice(self.pool))
        for _ in range(self.rng.randint(1, OPERATIONS_MAX)):
            self.rng.choice(self._operations)(data)
        if self.rng.random() < GROWN_SHARE:
            self._grow(data)
        return bytes(data[:INPUT_BYTES_MAX])

    def learn(self, data: bytes, kind: Hashable) -> None:
        """Keep an input for others to grow from, if the code made something new of it."""
        if kind not in self._seen and len(data) <= POOLED_BYTES_MAX and len(self.pool) < POOL_MAX:
            self._seen.add(kind)
            self.pool.append(data)

    def _place(self, data: bytearray) -> int:
        return self.rng.randint(0, len(data))

    def _part(self, data: bytearray) -> tuple[int, int]:
        """Two places, mostly near each other."""
        begin = self._place(data)
        return begin, min(len(data), begin + 1 + int(self.rng.expovariate(1 / 24)))

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self.rng.randrange(len(data))] ^= 1 << self.rng.randrange(8)

    def _overwrite(self, data: bytearray) -> None:
        if data:
            data[self.rng.randrange(len(data))] = self.rng.choice(EDGES)

    def _insert(self, data: bytearray) -> None:
        at = self._place(data)
        data[at:at] = self.rng.randbytes(self.rng.randint(1, 8))

    def _delete(self, data: bytearray) -> None:
        begin, end = self._part(data)
        del data[begin:end]

    def _repeat(self, data: bytearray) -> None:
        begin, end = self._part(data)
        data[end:end] = data[begin:end] * self.rng.choice((1, 1, 2, 10))

    def _move(self, data: bytearray) -> None:
        begin, end = self._part(data)
        part = data[begin:end]
        del data[begin:end]
        at = self._place(data)
        data[at:at] = part

    def _splice(self, data: bytearray) -> None:
        other = self.rng.choice(self.pool)
        begin = self.rng.randint(0, len(other))
        end = begin + int(self.rng.expovariate(1 / 200))
        at = self._place(data)
        data[at:at] = other[begin:end]

    def _token(self, data: bytearray) -> None:
        at = self._place(data)
        data[at:at] = self.rng.choice(self._tokens)

    def _exchange(self, data: bytearray) -> None:
        begin, end = self._part(data)
        data[begin:end] = self.rng.choice(self._tokens)

    def _cut(self, data: bytearray) -> None:
        if self.rng.random() < 0.25:
            del data[self._place(data) :]

    def _grow(self, data: bytearray) -> None:
        begin, end = self._part(data)
        part = bytes(data[begin:end]) if self.rng.random() < 0.5 else self.rng.choice(self._tokens)
        room = self.rng.randint(0, max(0, INPUT_BYTES_MAX - len(data)))
        data[end:end] = part * (room // max(1, len(part)))
