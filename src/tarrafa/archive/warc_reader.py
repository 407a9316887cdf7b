"""WARC reader: follows the durable records of the archive from a cursor.

Promises: a record is returned only when it is complete and durable; following from the offset of a record returns
exactly the records after it. A `Cursor` is {file name: offset in its meta file}; a follower stores it together with its
own data, and a replay after a crash is harmless. Knows nothing of its followers.
"""

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

import msgspec
from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType

from tarrafa.archive.warc_writer import COLLECTION_URI, STATEMENTS_TYPE, read_durable
from tarrafa.errors import DataError
from tarrafa.model import CollectionNote, VisitRecord

Cursor = dict[str, int]
UrlFilter = Callable[[str], bool]
OnCollectionNote = Callable[[CollectionNote], None]
VISIT = WarcRecordType.metadata | WarcRecordType.conversion
VISITS_AND_NOTES = VISIT | WarcRecordType.resource
INFO_BYTES_MAX = 4 << 10  # of the warcinfo record, which is some 300


class ArchiveEntry(NamedTuple):
    """A record, the offset after it, and its own offset."""

    file: str
    end: int
    record: VisitRecord
    start: int = 0


def visit_lengths(directory: Path) -> Cursor:
    """The durable length of each meta file with a visit in it. (A worker that fetched robots.txt only has none.)"""
    lengths: Cursor = {}
    for path in sorted(directory.glob("*.durable")):
        name = path.name.removesuffix(".durable")
        with contextlib.suppress(FileNotFoundError):  # `recover_archive` removes files that were never published
            length = read_durable(path).visits_end
            if length > INFO_BYTES_MAX or (length and length > _info_bytes(directory / f"{name}.meta.warc.gz", length)):
                lengths[name] = length
    return lengths


def _info_bytes(path: Path, length: int) -> int:
    """The length of the first member of a file, which describes the file. Bytes behind the durable part are
    undefined.
    """
    with path.open("rb") as file:
        head = file.read(length)
    return len(head) - len(_unzipped(path, 0, head).unused_data)


def _unzipped(path: Path, position: int, content: bytes) -> "zlib._Decompress":
    """A decompressor that has read the member at that position, and knows the bytes after it."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        unzip.decompress(content)
    except zlib.error as error:
        raise DataError(f"{path}: damaged: the record at {position}: {error}") from None
    if not unzip.eof:
        raise DataError(f"{path}: damaged: the record at {position} has no end")
    return unzip


def bytes_behind(directory: Path, cursor: Cursor, until: Cursor | None = None) -> int:
    """The number of durable bytes that the cursor has not read; `until`: of those that were durable at some moment."""
    lengths = visit_lengths(directory) if until is None else until
    return sum(max(0, length - cursor.get(file, 0)) for file, length in lengths.items())


def follow(
    directory: Path,
    cursor: Cursor,
    hear: OnCollectionNote | None = None,
    *,
    wanted: UrlFilter | None = None,
    upto: Cursor | None = None,
) -> Iterator[ArchiveEntry]:
    """Every record that became durable after the cursor, file by file, until there are no more *now*, or up to another
    cursor.

    `hear` receives the configurations of collections, before the first record under each. `wanted` selects visits by
    URL; the others are not even decoded.
    """
    for file, length in (visit_lengths(directory) if upto is None else upto).items():
        start = cursor.get(file, 0)
        if length > start:
            yield from _read(directory / f"{file}.meta.warc.gz", file, start, length, hear, wanted)


def read_entry(directory: Path, file: str, start: int) -> ArchiveEntry | None:
    """The record at that position; None if the archive no longer has it."""
    try:
        length = read_durable(directory / f"{file}.durable").visits_end
    except FileNotFoundError:
        return None
    if start >= length:
        return None
    return next(_read(directory / f"{file}.meta.warc.gz", file, start, length), None)


_decode = msgspec.json.Decoder(VisitRecord).decode
_decode_note = msgspec.json.Decoder(CollectionNote).decode


def _read(
    path: Path,
    file: str,
    start: int,
    length: int,
    hear: OnCollectionNote | None = None,
    wanted: UrlFilter | None = None,
) -> Iterator[ArchiveEntry]:
    """A metadata record is complete when the next one begins: its conversions, if any, come directly after it."""
    held: VisitRecord | None = None
    begun = start
    for position, raw, body in read_records(path, start, length, VISIT if hear is None else VISITS_AND_NOTES):
        if raw.record_type == WarcRecordType.metadata:
            if held is not None:
                yield ArchiveEntry(file, position, held, begun)
            held, begun = None, position
            if wanted is None or wanted(raw.headers.get("WARC-Target-URI") or ""):
                held = parse_record(path, position, body)
        elif raw.record_type == WarcRecordType.resource:
            if hear is not None and (raw.headers.get("WARC-Target-URI") or "").startswith(COLLECTION_URI):
                # a caller that needs the configuration for certain reads the whole history
                with contextlib.suppress(msgspec.MsgspecError):
                    hear(_decode_note(body))
        elif held is not None and held.page is not None:
            stated = raw.headers.get("Content-Type") == STATEMENTS_TYPE
            text = _text(path, position, body, "replace" if stated else "surrogatepass")  # N-Quads: whole characters
            field = "statements" if stated else "text"
            held = msgspec.structs.replace(held, page=msgspec.structs.replace(held.page, **{field: text}))
    if held is not None:
        yield ArchiveEntry(file, length, held, begun)


def read_records(path: Path, start: int, length: int, kinds: WarcRecordType) -> Iterator[tuple[int, WarcRecord, bytes]]:
    """The records of some types between two offsets of a file: offset, headers and body of each."""
    if start >= length:  # an empty range has no last record to check
        return
    position = start
    with path.open("rb") as stream:
        stream.seek(start)
        for raw in _records(path, _DurablePart(stream, length)):
            position = start + raw.stream_pos
            if raw.record_type & kinds:
                body = raw.reader.read()
                if len(body) != raw.content_length:  # the reader alone accepts a torn record
                    raise DataError(f"{path}: the record at {position} is not whole")
                yield position, raw, body
        _check_end(path, stream, position, length)


def _check_end(path: Path, stream: IO[bytes], position: int, length: int) -> None:
    """Check that the last record read is the last one in the range: at bytes that are no record, the reader stops as at
    the end of the file.
    """
    stream.seek(position)
    if _unzipped(path, position, stream.read(length - position)).unused_data:
        raise DataError(f"{path}: damaged: nothing can be read after the record at {position}")


class _DurablePart:
    """A file that ends at its durable length: bytes behind it are undefined."""

    def __init__(self, stream: IO[bytes], length: int) -> None:
        self._stream, self._length, self._start = stream, length, stream.tell()

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._length - self._stream.tell())
        return self._stream.read(left if size < 0 else min(size, left))

    def tell(self) -> int:
        return self._stream.tell() - self._start

    def seek(self, offset: int, whence: int = 0) -> int:
        raise OSError("only forward")

    def close(self) -> None:
        """The caller that opened the file closes it."""


def _records(path: Path, stream: _DurablePart) -> Iterator[WarcRecord]:
    try:
        yield from ArchiveIterator(stream, parse_http=False)
    except OSError as error:
        raise DataError(f"{path}: damaged: {error}") from None


def _text(path: Path, position: int, body: bytes, errors: str) -> str:
    try:
        return body.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: the record at {position} cannot be read: {error}") from None


def parse_record(path: Path, position: int, body: bytes) -> VisitRecord:
    try:
        return _decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: the record at {position} cannot be read: {error}") from None
