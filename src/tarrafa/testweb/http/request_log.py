"""Logs every request to the synthetic Web, and measures the politeness of a crawler from the log.

Promises: one line for every request except those to the server's own `/__…__` endpoints, in the order in which
responses ended. Times are boot time (`tarrafa.clock.boottime`, shared by all processes of the machine) and clock time.
Knows nothing of the world.

A request has three times: `start`, its first byte was read; `sent`, the last byte of the response was handed to the
transport; `end`, the kernel had taken all of it. A client cannot have the response before `sent`, nor have sent its
request after `start`. So a gap from `sent` to the next `start` is never shorter than the client really waited: a gap
shorter than the delay is proof of impoliteness. Two requests overlap when one starts before the other's `end`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO, Literal

import msgspec

from tarrafa.errors import data_error_from_os


class LoggedRequest(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    host: str  # as in the URL, in lower case; the port only if it is not the scheme's default
    path: str
    status: int
    bytes: int  # of the whole response; 0 with status 0 if the client closed before it
    start: float
    sent: float
    end: float
    clock_start: float
    clock_sent: float
    clock_end: float
    agent: str
    connection: int
    address: str  # the local address that the client connected to
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}"


class PolitenessMeasurement(msgspec.Struct, frozen=True):
    """How politely one host (or one address) was treated."""

    requests: int
    simultaneous_max: int
    gap_s_min: float  # real seconds; infinite if there was only one request
    gap_clock_s_min: float
    per_url: dict[str, int]


class RequestLog:
    """Keeps entries until `flush`; without a path it keeps nothing."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._waiting: list[LoggedRequest] = []
        self._file: BinaryIO | None = None
        if path is not None:
            try:
                self._file = path.open("ab")
            except OSError as error:
                raise data_error_from_os(error, path) from error

    def append(self, entry: LoggedRequest) -> None:
        if self._file is not None:
            self._waiting.append(entry)

    def flush(self) -> None:
        if self._file is None or not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        try:
            self._file.write(msgspec.json.Encoder().encode_lines(waiting))
            self._file.flush()
        except OSError as error:
            raise data_error_from_os(error, self.path or "") from error

    def close(self) -> None:
        self.flush()
        if self._file is not None:
            self._file.close()
            self._file = None


def read_log(path: Path) -> list[LoggedRequest]:
    """All entries; a last line that a kill truncated is left out."""
    lines = path.read_bytes().split(b"\n")
    decoder = msgspec.json.Decoder(LoggedRequest)
    return [decoder.decode(line) for line in lines[:-1] if line]


def measure_politeness(
    entries: Iterable[LoggedRequest], by: Literal["host", "address"] = "host"
) -> dict[str, PolitenessMeasurement]:
    """For each host (or local address): parallel requests, shortest gaps, requests of each URL."""
    groups: defaultdict[str, list[LoggedRequest]] = defaultdict(list)
    for entry in entries:
        groups[entry.host if by == "host" else entry.address].append(entry)
    return {name: _measure_group(group) for name, group in groups.items()}


def _measure_group(group: list[LoggedRequest]) -> PolitenessMeasurement:
    group.sort(key=lambda entry: entry.start)
    edges = sorted([(entry.start, 1) for entry in group] + [(entry.end, -1) for entry in group])
    at_once = most = 0
    for _, step in edges:  # at the same instant an end counts before a start
        at_once += step
        most = max(most, at_once)
    # The next start after a response: gaps are between neighbours, negative where they overlap.
    latest_s = latest_clock_s = float("-inf")
    gap_s = gap_clock_s = float("inf")
    for entry in group:
        gap_s = min(gap_s, entry.start - latest_s)
        gap_clock_s = min(gap_clock_s, entry.clock_start - latest_clock_s)
        latest_s = max(latest_s, entry.sent)
        latest_clock_s = max(latest_clock_s, entry.clock_sent)
    return PolitenessMeasurement(len(group), most, gap_s, gap_clock_s, dict(Counter(entry.url for entry in group)))
