"""Reads the notes of a segment log: deletions go into the archive of this machine, takedowns into its takedown log.

Notes are read before, and apart from, the visits of the log: a machine that is far behind, or whose store is away,
obeys them at once. Promises: when `read_once` returns, all notes that the log had are applied here, durably; to apply
one again changes nothing.
"""

from collections.abc import Iterator
from io import BytesIO

import msgspec

from tarrafa.archive.deletion_log import record_deletions
from tarrafa.archive.segment_log.segment import Segment, SegmentManifest, digest
from tarrafa.archive.warc_reader import read_record
from tarrafa.archive.warc_writer import RESOURCE
from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.model import DeletedNote, Note, TakedownNote
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import TakedownEntry, append_entries

SEGMENTS_AT_ONCE = 100
_decode = msgspec.json.Decoder(Note).decode
_decode_entry = msgspec.json.Decoder(TakedownEntry).decode


class LogNotes:
    """The notes of one log, for one data directory."""

    def __init__(self, data: DataDirectory, manifest: SegmentManifest) -> None:
        self._data, self._manifest = data, manifest
        self.last_number = 0  # of the notes that were applied

    def read_once(self) -> None:
        """Apply all notes that are new."""
        while found := self._manifest.notes(self.last_number, SEGMENTS_AT_ONCE):
            notes = [note for segment in found for note in notes_of(segment)]
            for note in notes:
                if isinstance(note, DeletedNote):
                    apart = note.at - note.frontier_time
                    record_deletions(self._data.archive, {note.collection: note.frontier_time}, note.at, apart)
            append_entries(self._data, [_decode_entry(one.entry) for one in notes if isinstance(one, TakedownNote)])
            self.last_number = found[-1].number


def notes_of(segment: Segment) -> Iterator[Note]:
    """The notes of a segment, whose bytes are checked."""
    if len(segment.note) != segment.meta.size or digest(segment.note) != segment.meta.digest:
        raise DataError(
            message("segment {number} ({name}): its notes are damaged", number=str(segment.number), name=segment.name)
        )
    stream = BytesIO(segment.note)
    while (position := stream.tell()) < len(segment.note):
        head, content, _ = read_record(stream, len(segment.note) - position)
        if head.kind == RESOURCE and content is not None:
            yield _decode(content)
