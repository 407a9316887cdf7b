"""Segments of the log, and the calls of a manifest.

A segment is what one worker archived in about a second. Promises of every manifest: segments are numbered 1, 2, 3 …
without a gap, in the order in which they became visible; each takes the next bytes of the two files of the log; a row
never changes. A segment is appended only while its writer is registered with the frontier: whose leases are gone writes
nothing more.
"""

from datetime import UTC, datetime
from typing import NamedTuple, Protocol

import msgspec
from xxhash import xxh3_128_digest

from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.warc_writer import DurableLengths

MERGED = "merged"
LOG_WRITER = "log"  # in the name of the pair of files of a log
WARC_ENDING, META_ENDING = ".warc.gz", ".meta.warc.gz"


class SegmentPart(msgspec.Struct, frozen=True):
    """The bytes of a segment in one of the two files of the log; `start` is their offset there, `offset` that in their
    object, which merged segments share."""

    start: int
    size: int
    digest: bytes  # xxh3-128
    offset: int = 0

    @property
    def end(self) -> int:
        return self.start + self.size


class Segment(msgspec.Struct, frozen=True):
    """A row of the manifest. `visits_end`: the end of the last visit's record in the meta file, so far. `note`: the
    bytes of the meta part of a segment of notes (`log_notes`), which has no objects. `rewrite`: the number of the last
    rewrite of its bytes, 0 if there was none; its place and lengths never change."""

    number: int
    name: str  # of its two objects, without their endings
    warc: SegmentPart
    meta: SegmentPart
    visits_end: int
    note: bytes = b""
    rewrite: int = 0

    @property
    def lengths(self) -> DurableLengths:
        """The lengths of the files of the log up to this segment."""
        return DurableLengths(self.warc.end, self.meta.end, self.visits_end)


class NewSegment(msgspec.Struct, frozen=True):
    """A segment whose objects are in the store. `worker` is the number of its writer at the frontier, `sequence` counts
    that writer's segments; `visits_size`: the end of its last visit's record in its meta part, 0 without visits."""

    worker: int
    sequence: int
    name: str
    warc_size: int
    warc_digest: bytes
    meta_size: int
    meta_digest: bytes
    visits_size: int


class LogIdentity(msgspec.Struct, frozen=True):
    """Which log it is: its id, the URL of its store, and the time of its creation."""

    id: str
    store: str
    began: float

    @property
    def file(self) -> str:
        """The name of its pair of files in `DATA/archive`."""
        return f"tarrafa-{datetime.fromtimestamp(self.began, UTC):%Y%m%d%H%M%S}-{LOG_WRITER}-00001"


class LogHead(NamedTuple):
    """The end of the log: the number and name of its last segment, the number of its last note, and of its rewrites."""

    number: int = 0
    name: str | None = None
    note: int = 0
    rewrites: int = 0


class SegmentManifest(Protocol):
    """Which segments exist, in which order. Calls block."""

    def identity(self) -> LogIdentity | None:
        """The log of this frontier; None: there is none, each machine keeps what it fetches."""

    def append(self, new: NewSegment) -> None:
        """Make a segment visible, after all others. Called again with the same worker and sequence, it changes nothing.
        Raises `LeaseLost` if the worker is not registered any more."""

    def segments(self, first: int, most: int) -> list[Segment]:
        """Some segments from this number on, in their order."""

    def notes(self, after: int, most: int) -> list[Segment]:
        """Some segments of notes behind this number, in their order."""

    def announce(self, name: str) -> None:
        """Note that objects of this name are put next. If no row names them within an hour, they are retired."""

    def replace(self, old: list[Segment], new: list[Segment], after_s: float) -> bool:
        """Let the same segments have other objects, and perhaps other bytes of the same length. The old objects are
        retired, after some time. False: another machine was first."""

    def merged_in(self, name: str) -> list[Segment]:
        """All segments whose bytes are in these merged objects."""

    def rewritten(self, after: int, most: int) -> list[Segment]:
        """Some segments that were rewritten after this rewrite, in the order of their rewrites."""

    def retired(self, most: int) -> list[str]:
        """Some names whose objects no row of a segment names, and that may be in the store."""

    def forget_retired(self, names: list[str]) -> None: ...

    def head(self) -> LogHead:
        """The end of the log at this moment."""

    def age(self, number: int) -> float:
        """How long ago a segment was appended, in seconds; 0: there is none by that number."""

    def lengths(self) -> DurableLengths:
        """The lengths of the files of the log at this moment."""

    def unswept_writers(self, most: int) -> list[int]:
        """Some workers that can never append again, and were not swept (`orphans`)."""

    def names(self, worker: int) -> list[str]:
        """The names of all segments of a worker."""

    def mark_swept(self, worker: int) -> None: ...

    def first_owner_epoch(self, node: str, number: int) -> int | None:
        """The epoch of a node's claim on the first replica of a part of the index; None: it is not its owner."""

    def part_snapshot(self, part: str) -> bytes | None:
        """What was put last for a part."""

    def forget_part_snapshots(self) -> None: ...

    def put_part_snapshot(self, part: str, number: int, node: str, epoch: int, log_end: int, content: bytes) -> bool:
        """Replace what is there for a part; whether it was replaced: not if the node's claim has ended, or a later end
        of the log was put."""

    def close(self) -> None: ...


def writer_prefix(log: LogIdentity, worker: int) -> str:
    """Where the objects of a worker are. Worker numbers repeat where a frontier was restored from a backup, the id of a
    log never does."""
    return f"{log.id}/segment/{worker:010d}/"


def put_segment(
    store: ObjectStore, log: LogIdentity, worker: int, sequence: int, warc: bytes, meta: bytes, visits_size: int
) -> NewSegment:
    """Put the two objects of a segment into the store: it can be appended then."""
    new = NewSegment(
        worker,
        sequence,
        f"{writer_prefix(log, worker)}{sequence:08d}",
        len(warc),
        digest(warc),
        len(meta),
        digest(meta),
        visits_size,
    )
    for name, content in zip(object_names_of(new.name), (warc, meta), strict=True):
        store.put(name, content)
    return new


def merged_name(log: LogIdentity, first: int, last: int, content_digest: bytes) -> str:
    """The name of an object that has the bytes of several segments."""
    return f"{log.id}/{MERGED}/{first:012d}-{last:012d}-{content_digest.hex()[:16]}"


def is_merged(name: str) -> bool:
    return f"/{MERGED}/" in name


def next_name(name: str, warc_digest: bytes, meta_digest: bytes) -> str:
    """The name of a segment whose bytes are rewritten: of the same writer, and never used for other bytes."""
    folder, _, last = name.rpartition("/")
    base, _, former = last.partition("r")
    generation = 1 + int(former.partition("-")[0] or 0)
    return f"{folder}/{base}r{generation}-{digest(warc_digest + meta_digest).hex()[:16]}"


def object_names_of(name: str) -> tuple[str, str]:
    """The two objects of the segment with this name."""
    return name + WARC_ENDING, name + META_ENDING


def digest(content: bytes | memoryview) -> bytes:
    return xxh3_128_digest(content)
