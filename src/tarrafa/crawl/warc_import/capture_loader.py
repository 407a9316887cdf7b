"""Reads the captures of an import: each record with its request and, for a revisit, with the record it refers to.

Promises: a record that is damaged, has another digest than it states, or is too large, is `Damage`, never an exception;
only a few files are open at a time.
"""

from collections import OrderedDict

from tarrafa.archive.foreign_archive_reader import ArchiveSource, Damage, ForeignRecord, RecordReader, digest_matches
from tarrafa.crawl.warc_import.capture import (
    CAPTURES,
    REQUEST,
    RESOURCE,
    REVISIT,
    ForeignCapture,
    parse_date,
    parse_response,
    response_of,
)
from tarrafa.crawl.warc_import.import_state import NO_REQUEST, ImportRow, ImportState, reference_hash

CONTENT_BYTES_MAX = 64 << 20  # of one record
REQUEST_BYTES_MAX = 64 << 10
OPEN_FILES_MAX = 64
NOT_MODIFIED = "server-not-modified"


class CaptureLoader:
    """The captures of these files, by the numbers of the files."""

    def __init__(self, sources: dict[int, ArchiveSource], state: ImportState, now: float) -> None:
        self._sources, self._state, self._now = sources, state, now
        self._readers: OrderedDict[int, RecordReader] = OrderedDict()

    def load(self, row: ImportRow) -> ForeignCapture | Damage:
        """The capture at a place, with its URL as written."""
        record = self._read(row.source, row.offset, row.skip)
        if isinstance(record, Damage):
            return record
        if record.kind not in CAPTURES:
            return Damage(row.offset, "the record is another one than before")
        original = None
        if record.kind == REVISIT:
            original = self._find_original(record, row)
        response = response_of(record, original)
        lost = record.kind == REVISIT and original is None and not _is_not_modified(record)
        if response is None and not lost:
            return Damage(row.offset, "it shows no HTTP response")
        if response is None:
            response = parse_response(b"HTTP/1.1 304 Not Modified\r\n\r\n")
            assert response is not None
        return ForeignCapture(
            record.url,
            row.at,
            response,
            self._request(row),
            record.fields.get("warc-truncated", "")[:40],
            (record.fields.get("content-type") or "application/octet-stream")[:200] if record.kind == RESOURCE else "",
            lost,
        )

    def _read(self, source: int, offset: int, skip: int) -> ForeignRecord | Damage:
        record = self._reader(source).read_at(offset, skip)
        if isinstance(record, Damage):
            return record
        if not record.is_whole:
            return Damage(offset, f"it is too large: {record.size} bytes")
        stated = record.fields.get("warc-block-digest", "")
        if stated and digest_matches(stated, record.content) is False:
            return Damage(offset, "its bytes have another digest than its header states")
        return record

    def _reader(self, source: int) -> RecordReader:
        reader = self._readers.get(source)
        if reader is None:
            while len(self._readers) >= OPEN_FILES_MAX:
                self._readers.popitem(last=False)[1].close()
            reader = self._readers[source] = RecordReader(self._sources[source], CONTENT_BYTES_MAX)
        self._readers.move_to_end(source)
        return reader

    def _request(self, row: ImportRow) -> bytes:
        if row.request_offset == NO_REQUEST:
            return b""
        record = self._read(row.source, row.request_offset, row.request_skip)
        is_usable = isinstance(record, ForeignRecord) and record.kind == REQUEST
        return record.content[:REQUEST_BYTES_MAX] if is_usable and isinstance(record, ForeignRecord) else b""

    def _find_original(self, revisit: ForeignRecord, row: ImportRow) -> ForeignRecord | None:
        """The record that a revisit refers to: by its id, by URL and date, or by the digest of its payload."""
        fields = revisit.fields
        url = fields.get("warc-refers-to-target-uri", "").strip("<> ")
        at = parse_date(fields.get("warc-refers-to-date", ""), self._now)
        references = (
            ("record", fields.get("warc-refers-to", "")),
            ("place", f"{url} {round(at)}" if url and at is not None else ""),
            ("payload", fields.get("warc-payload-digest", "").lower()),
        )
        for column, text in references:
            found = self._state.find_original(column, reference_hash(text), row.at) if text else None
            if found is not None and found[:4] != row[:4]:
                record = self._read(found.source, found.offset, found.skip)
                if isinstance(record, ForeignRecord) and record.kind in CAPTURES and record.kind != REVISIT:
                    return record
        return None

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()


def _is_not_modified(record: ForeignRecord) -> bool:
    return NOT_MODIFIED in record.fields.get("warc-profile", "").lower() or record.content[:12].endswith(b"304")
