"""Deletion log: notes in the archive which collections were deleted, and when.

Each machine that learns of a deletion writes it to a small file of its own archive, so that followers read it before
any other record, in whichever order they read files. Promises: visits of the collection up to the deletion belong to no
collection any more; later visits, for another collection of the same name, belong to that one, if the deletion was
recorded before the first of them was archived. Each deletion is recorded once, however many processes learn of it. Only
durable records count.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from tarrafa.archive.warc_reader import decode_body, meta_path, read_records
from tarrafa.archive.warc_writer import DELETED_URI, WarcWriter, read_durable
from tarrafa.errors import write_errors
from tarrafa.model import DeletedNote, VisitRecord

WRITER_NAME = "deleted"  # in the names of these files

_decode = msgspec.json.Decoder(DeletedNote).decode


def record_deletions(directory: Path, deleted: Mapping[str, float], now: float, apart: float = 0.0) -> None:
    """Record the deletion of collections, each with its time by the frontier's clock. All of them are durable when this
    returns.

    Visits are dated by this machine's clock, which shows `now`, and may differ by `apart` from the frontier's. Every
    visit archived for such a collection until now is older than its deletion, whatever its date; so the deletion is
    dated now, if the difference is no larger than that.
    """
    with _exclusive_lock(directory):
        deletions = ArchiveDeletions(directory)
        deletions.latest()
        news = {name: at for name, at in deleted.items() if at > deletions.by_frontier_clock.get(name, -1.0)}
        if not news:
            return
        writer = WarcWriter(directory, WRITER_NAME, now)
        for name, at in news.items():
            writer.append_note(DeletedNote(name, min(max(at, now), at + apart), at), now)
        writer.close()


@contextlib.contextmanager
def _exclusive_lock(directory: Path) -> Iterator[None]:
    """One recording process at a time."""
    with write_errors(directory):
        descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class ArchiveDeletions:
    """The deletions recorded in one archive; each file is read once."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._read: dict[str, int] = {}
        self._latest: dict[str, float] = {}
        self.by_frontier_clock: dict[str, float] = {}  # the same by the frontier's clock

    def latest(self) -> dict[str, float]:
        """The time of the last deletion of each collection."""
        for path in sorted(self._directory.glob(f"tarrafa-*-{WRITER_NAME}-*.durable")):
            with contextlib.suppress(FileNotFoundError):  # `recover_archive` removes files that were never published
                length = read_durable(path).meta
                if length > self._read.get(path.stem, 0):
                    self._read_notes(meta_path(self._directory, path.stem), length)
                    self._read[path.stem] = length
        return self._latest

    def covers(self, record: VisitRecord) -> bool:
        """Whether a visit belongs to a deleted collection, by the deletions read so far."""
        return self.covers_visit(record.collection, record.outcome.at)

    def covers_visit(self, collection: str, at: float) -> bool:
        return at <= self._latest.get(collection, -1.0)

    def _read_notes(self, path: Path, length: int) -> None:
        for position, head, content in read_records(path, 0, length):
            if head.url.startswith(DELETED_URI):
                note = decode_body(path, position, _decode, content)
                for latest, at in ((self._latest, note.at), (self.by_frontier_clock, note.frontier_time or note.at)):
                    latest[note.collection] = max(at, latest.get(note.collection, -1.0))
