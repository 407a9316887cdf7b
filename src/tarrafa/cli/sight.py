"""What does one see who looks on?

The one place where `tarrafa top` gets its numbers from. The frontier is asked each time; what follows the archive is
looked at now and then only, in a thread, because that opens files. Reads only.
"""

import asyncio
import os
from collections import deque

import msgspec

from tarrafa.cli.running import fetch_overview
from tarrafa.clock import boottime
from tarrafa.data import DataDirectory
from tarrafa.errors import DataError
from tarrafa.frontier.address import Address
from tarrafa.frontier.protocol import FrontierOverview
from tarrafa.graph.follower import behind as graph_behind
from tarrafa.index.state import IndexStatus
from tarrafa.index.state import index_status as index_of
from tarrafa.triples.state import TriplesStatus
from tarrafa.triples.state import triples_status as triples_of

FOLLOWERS_EVERY_S = 5.0
TREND_SAMPLES = 240  # samples
RATE_SAMPLES = 5  # of them


class FollowerStates(msgspec.Struct, frozen=True):
    """How far those are who follow the archive; None: there are none here."""

    index: IndexStatus | None = None
    triples: TriplesStatus | None = None
    graph_behind_bytes: int = 0
    archive_bytes: int = 0


class TopSnapshot(msgspec.Struct, frozen=True):
    """Everything at one moment. `trouble`: why the numbers are not those of now."""

    at: float
    overview: FrontierOverview
    followers: FollowerStates
    bytes_per_s: float | None = None  # that the archive grows by; None: looked at once, nobody knows
    trouble: str = ""

    def to_json_line(self) -> bytes:
        """One line: what `tarrafa status --json` says, and more."""
        fields = msgspec.to_builtins(self.overview) | {
            "at": self.at, "bytes_per_s": self.bytes_per_s, "trouble": self.trouble,
        } | msgspec.to_builtins(self.followers)  # fmt: skip
        return msgspec.json.encode(fields)


class TopReader:
    """Looks again and again, and remembers a little: how fast each collection was."""

    def __init__(self, data: DataDirectory, address: Address | None) -> None:
        self._data, self._address = data, address
        self._followers, self._looked = FollowerStates(), 0.0
        self._sizes: deque[tuple[float, int]] = deque(maxlen=RATE_SAMPLES)
        self.trends: dict[str, deque[float]] = {}

    async def read(self, now: float) -> TopSnapshot:
        overview = await fetch_overview(self._data, self._address)
        trouble = ""
        if boottime() - self._looked >= FOLLOWERS_EVERY_S:
            try:
                self._followers = await asyncio.to_thread(_followers_of, self._data)
            except DataError as error:
                trouble = str(error)
            self._looked = boottime()
        for one in overview.collections:
            self.trends.setdefault(one.name, deque(maxlen=TREND_SAMPLES)).append(one.pages_per_s)
        return TopSnapshot(now, overview, self._followers, self._growth(), trouble)

    def _growth(self) -> float | None:
        """Bytes a second, over the last few looks."""
        self._sizes.append((boottime(), _archive_bytes(self._data)))
        (first, before), (last, size) = self._sizes[0], self._sizes[-1]
        return round(max(0, size - before) / (last - first)) if last > first else None


def _followers_of(data: DataDirectory) -> FollowerStates:
    if not data.version.exists():
        return FollowerStates()
    return FollowerStates(index_of(data), triples_of(data), graph_behind(data), _archive_bytes(data))


def _archive_bytes(data: DataDirectory) -> int:
    try:
        with os.scandir(data.archive) as files:
            return sum(file.stat().st_size for file in files if file.name.endswith(".warc.gz"))
    except OSError:  # there is none, or a file was taken away meanwhile
        return 0
