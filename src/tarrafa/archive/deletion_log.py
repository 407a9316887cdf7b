"""Deletion log: notes in the archive which collections were deleted, and when.

Whoever hears of it notes it down in a small file of the archive of its own, so that those who follow the archive hear
of it before they read anything else, in whichever order they read. Promises: what was visited for the collection
until then is nobody's any more, and what is visited later, for another one of the same name, is that one's, if it was
noted before the first of that was archived. Each deletion is noted once, however many hear of it. Only what is
durable counts.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from fastwarc.warc import WarcRecordType

from tarrafa.archive.warc_reader import read_records
from tarrafa.archive.warc_writer import DELETED_URI, WarcWriter, read_durable
from tarrafa.errors import DataError, data_error_from_os
from tarrafa.model import DeletedNote, VisitRecord

WRITER_NAME = "deleted"  # in the names of these files

_decode = msgspec.json.Decoder(DeletedNote).decode


def record_deletions(directory: Path, told: Mapping[str, float], now: float, apart: float = 0.0) -> None:
    """Collections were deleted, each at that moment by the frontier's clock. What is not noted yet is when this
    returns, durably.

    Visits are dated by this machine's clock, which shows `now`, and may be that far `apart` from the frontier's. All
    that was archived for such a collection until now is older than its deletion, whatever its date says; so the note
    speaks of this very moment, where that is no further away.
    """
    with _exclusive_lock(directory):
        deletions = ArchiveDeletions(directory)
        deletions.latest()
        news = {name: at for name, at in told.items() if at > deletions.by_frontier_clock.get(name, -1.0)}
        if not news:
            return
        writer = WarcWriter(directory, WRITER_NAME, now)
        for name, at in news.items():
            writer.append_note(DeletedNote(name, min(max(at, now), at + apart), at), now)
        writer.close()


@contextlib.contextmanager
def _exclusive_lock(directory: Path) -> Iterator[None]:
    """One who notes at a time, of all processes."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except OSError as error:
        raise data_error_from_os(error, directory) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class ArchiveDeletions:
    """The deletions that one archive tells of; each file is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, int] = {}
        self._latest: dict[str, float] = {}
        self.by_frontier_clock: dict[str, float] = {}  # the same by the frontier's clock

    def latest(self) -> dict[str, float]:
        """When each collection was deleted last."""
        for path in sorted(self._directory.glob(f"tarrafa-*-{WRITER_NAME}-*.durable")):
            with contextlib.suppress(FileNotFoundError):  # `recover` takes away what was never published, just now
                length, name = read_durable(path).meta, path.name.removesuffix(".durable")
                if length > self._read.get(name, 0):
                    self._read_notes(self._directory / f"{name}.meta.warc.gz", length)
                    self._read[name] = length
        return self._latest

    def covers(self, record: VisitRecord) -> bool:
        """Whether it belongs to a collection that was deleted, as far as `now` has told."""
        return record.outcome.at <= self._latest.get(record.collection, -1.0)

    def _read_notes(self, path: Path, length: int) -> None:
        for position, raw, body in read_records(path, 0, length, WarcRecordType.resource):
            if (raw.headers.get("WARC-Target-URI") or "").startswith(DELETED_URI):
                try:
                    note = _decode(body)
                except msgspec.MsgspecError as error:
                    raise DataError(f"{path}: the note at {position} cannot be read: {error}") from None
                for latest, at in ((self._latest, note.at), (self.by_frontier_clock, note.told or note.at)):
                    latest[note.collection] = max(at, latest.get(note.collection, -1.0))
