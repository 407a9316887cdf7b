"""Segment writer: the archive of a worker where several machines share one log.

What is appended between two commits is a segment: two objects in the store, then a row in the manifest, and only then
is it durable. Promises: a segment is visible as a whole or not at all; the store may be away for any time, and what
waits for it is what was appended since, which is bounded, because host sessions pause while a commit waits; a writer
whose leases are gone writes nothing more. A killed writer leaves objects without a row: `orphans` sweeps them.
"""

import time
from collections.abc import Callable
from io import BytesIO

from tarrafa.archive.segment_log.object_store import ObjectStore
from tarrafa.archive.segment_log.segment import (
    META_ENDING,
    WARC_ENDING,
    LogIdentity,
    SegmentManifest,
    put_segment,
)
from tarrafa.archive.warc_writer import RecordPair, RecordStream, WarcExchange
from tarrafa.errors import LeaseLost, Unreachable
from tarrafa.i18n import message
from tarrafa.model import Note, VisitRecord
from tarrafa.runtime.terminal import print_note

RETRY_PAUSE_S, RETRY_PAUSE_S_MAX = 0.5, 5.0


class _OpenSegment:
    """A segment being written, in memory."""

    def __init__(self, file: str) -> None:
        self.warc, self.meta = BytesIO(), BytesIO()
        self.records = RecordPair(
            RecordStream(self.warc, file + WARC_ENDING), RecordStream(self.meta, file + META_ENDING)
        )


class SegmentWriter:
    """Appends to the log for one worker; `may_write` says whether it still holds its leases."""

    def __init__(
        self,
        manifest: SegmentManifest,
        log: LogIdentity,
        worker: int,
        may_write: Callable[[], bool],
        store: ObjectStore | None = None,
        print_line: Callable[[str], None] = print_note,
    ) -> None:
        self._manifest, self._log, self._worker, self._may_write = manifest, log, worker, may_write
        self._store = store or ObjectStore(log.store)
        self._print_line = print_line
        self._sequence = 0
        self._open: _OpenSegment | None = None

    @property
    def file_pair(self) -> int:
        return 1  # the files of the log have no end

    def append(self, record: VisitRecord, exchange: WarcExchange | None) -> None:
        records = self._records()
        if exchange is not None:
            records.append_exchange(exchange)
        records.append_visit(record)

    def append_exchange(self, exchange: WarcExchange) -> None:
        self._records().append_exchange(exchange)

    def append_note(self, note: Note, at: float) -> None:
        self._records().append_note(note, at)

    def prepare_commit(self) -> Callable[[], None]:
        segment, self._open = self._open, None
        if segment is None:
            return lambda: None
        sequence, visits_end = self._sequence, segment.records.lengths().visits_end
        return lambda: self._publish(sequence, segment.warc.getvalue(), segment.meta.getvalue(), visits_end)

    def _publish(self, sequence: int, warc: bytes, meta: bytes, visits_end: int) -> None:
        """Put the segment, again and again while the store is away, and append it."""
        pause_s, is_waiting = RETRY_PAUSE_S, False
        while True:
            try:
                new = put_segment(self._store, self._log, self._worker, sequence, warc, meta, visits_end)
                break
            except Unreachable as error:
                if not self._may_write():
                    raise
                if not is_waiting:
                    self._print_line(f"waiting: {error}")
                is_waiting = True
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_PAUSE_S_MAX)
        if is_waiting:
            self._print_line(f"{self._store.url}: the store answers; going on")
        if not self._may_write():
            raise LeaseLost(
                message("worker {worker} could not write for longer than its lease", worker=str(self._worker))
            )
        self._manifest.append(new)

    def close(self) -> None:
        """What was appended since the last commit is dropped: its visits were never finished."""
        self._manifest.close()

    def _records(self) -> RecordPair:
        if self._open is None:
            self._sequence += 1
            self._open = _OpenSegment(self._log.file)
        return self._open.records
