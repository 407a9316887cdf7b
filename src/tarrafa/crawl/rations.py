"""How much may the workers of this machine take, as things stand?

The supervisor writes it into `DATA/run/orders.json`, and the workers look there once a second: so it holds without a
restart, and nobody waits for anybody. A file that is not there, or cannot be read, rations nothing.
Knows nothing of who decides, or why.
"""

import contextlib
from pathlib import Path

import msgspec

from tarrafa.data import DataDirectory, state_of, write_atomically


class Rations(msgspec.Struct, frozen=True, omit_defaults=True):
    """For all workers of a data directory together. None: as much as the collections allow."""

    workers: int = 0  # who share it; 0: as many as the command line said
    hosts_at_once: int | None = None
    bandwidth: int | None = None  # bytes a second
    share: float = 1.0  # of the hosts that they would visit otherwise
    paused: bool = False
    why: str = ""  # they are paused, for those who look at them


PAUSED = "paused"  # how every reason begins
BY_ORDER = f"{PAUSED} by order"
EVERYTHING = Rations()
_decode = msgspec.json.Decoder(Rations).decode


def path_of(data: DataDirectory) -> Path:
    return data.run / "orders.json"


def hand_out(data: DataDirectory, rations: Rations) -> None:
    """They hold from the next look on. What an earlier supervisor ordered holds no more."""
    path = path_of(data)
    if rations == EVERYTHING:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, msgspec.json.encode(rations), durable=False)


class Rationed:
    """One worker's part of it."""

    def __init__(self, data: DataDirectory, workers: int) -> None:
        self._path, self._workers = path_of(data), workers
        self._seen: tuple[int, ...] | None = None
        self.now = EVERYTHING
        self.look()

    def look(self) -> bool:
        """Read what is written there now; whether that is something else."""
        seen = state_of(self._path)
        if seen == self._seen:
            return False
        before, self._seen, self.now = self.now, seen, EVERYTHING
        if seen:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                self.now = _decode(self._path.read_bytes())
        return before != self.now

    @property
    def workers(self) -> int:
        """How many share what a machine may take."""
        return max(1, self.now.workers or self._workers)

    def hosts(self, most: int, share: float) -> int:
        """How many hosts to visit at once, of so many that would be visited otherwise."""
        if self.now.paused:
            return 0
        if self.now.hosts_at_once is not None:
            most = min(most, -(-self.now.hosts_at_once // self.workers))
        return max(1, int(most * min(share, self.now.share)))

    @property
    def bandwidth(self) -> float | None:
        return None if self.now.bandwidth is None else max(1.0, self.now.bandwidth / self.workers)
