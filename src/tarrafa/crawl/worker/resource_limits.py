"""Limits on hosts at once and bandwidth that the supervisor sets for the workers while they run.

The supervisor writes it into `DATA/run/orders.json`, and the workers look there once a second: so it holds without a
restart, and nobody waits for anybody. A file that is not there, or cannot be read, rations nothing.
Knows nothing of who decides, or why.
"""

import contextlib
from pathlib import Path

import msgspec

from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint, write_atomically


class ResourceLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """For all workers of a data directory together. None: as much as the collections allow."""

    workers: int = 0  # who share it; 0: as many as the command line said
    hosts_at_once: int | None = None
    bandwidth: int | None = None  # bytes a second
    share: float = 1.0  # of the hosts that they would visit otherwise
    paused: bool = False
    why: str = ""  # they are paused, for those who look at them


PAUSED_BY_ORDER = message("paused by order")
UNLIMITED = ResourceLimits()
_decode = msgspec.json.Decoder(ResourceLimits).decode


def limits_path(data: DataDirectory) -> Path:
    return data.run / "orders.json"


def write_limits(data: DataDirectory, rations: ResourceLimits) -> None:
    """They hold from the next look on. What an earlier supervisor ordered holds no more."""
    path = limits_path(data)
    if rations == UNLIMITED:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, msgspec.json.encode(rations), durable=False)


class ResourceShare:
    """The part of the limits that holds for one worker, which has so many connections."""

    def __init__(self, data: DataDirectory, workers: int, connections_max: int) -> None:
        self._path, self._workers, self._connections_max = limits_path(data), workers, connections_max
        self._seen: tuple[int, ...] | None = None
        self.current = UNLIMITED
        self.reload()

    def reload(self) -> bool:
        """Read what is written there now; whether that is something else."""
        seen = file_fingerprint(self._path)
        if seen == self._seen:
            return False
        before, self._seen, self.current = self.current, seen, UNLIMITED
        if seen:
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                self.current = _decode(self._path.read_bytes())
        return before != self.current

    @property
    def workers(self) -> int:
        """How many share what a machine may take."""
        return max(1, self.current.workers or self._workers)

    def hosts_at_once(self, most: int, share: float) -> int:
        """How many hosts to visit at once, of so many that would be visited otherwise."""
        if self.current.paused:
            return 0
        most = min(most, self._connections_max)
        if self.current.hosts_at_once is not None:
            most = min(most, -(-self.current.hosts_at_once // self.workers))
        return max(1, int(most * min(share, self.current.share)))

    @property
    def bandwidth(self) -> float | None:
        return None if self.current.bandwidth is None else max(1.0, self.current.bandwidth / self.workers)
