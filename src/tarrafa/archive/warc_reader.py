"""WARC reader: follows the durable records of the archive from a cursor, and reads its whole history in order of time.

`follow` returns visits file by file, as they become durable. `read_events` reads all files from their beginning and
merges visits and notes by time: a lost frontier is rebuilt from that.
Promises: a record is returned only when it is complete and durable; following from the offset of a record returns
exactly the records after it. A `Cursor` is {file name: offset in its meta file}; a follower stores it together with its
own data, and a replay after a crash is harmless. The events of one file keep their order; `read_events` has a file open
only from its first event to its last, so memory does not grow with the archive. Knows nothing of its followers.
"""

import contextlib
import heapq
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import msgspec
from fastwarc.warc import ArchiveIterator, WarcRecord, WarcRecordType

from tarrafa.archive.warc_writer import COLLECTION_URI, STATEMENTS_TYPE, read_durable
from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.model import CollectionNote, DeletedNote, Note, RebuiltNote, VisitRecord

Cursor = dict[str, int]
UrlFilter = Callable[[str], bool]
OnCollectionNote = Callable[[CollectionNote], None]
OnBytesRead = Callable[[int], None]
VISIT = WarcRecordType.metadata | WarcRecordType.conversion
VISITS_AND_NOTES = VISIT | WarcRecordType.resource
RECORDS_AND_NOTES = WarcRecordType.metadata | WarcRecordType.resource
FILE_NAME = re.compile(r"tarrafa-\d{14}-(.+)-\d{5}")
INFO_BYTES_MAX = 4 << 10  # of the warcinfo record, which is some 300
T = TypeVar("T")


class ArchiveEntry(NamedTuple):
    """A record, the offset after it, and its own offset."""

    file: str
    end: int
    record: VisitRecord
    start: int = 0


class _CollectionOnly(msgspec.Struct):
    """The part of a record that names its collection."""

    collection: str


_decode_visit = msgspec.json.Decoder(VisitRecord).decode
_decode_name = msgspec.json.Decoder(_CollectionOnly).decode
_decode_note: Callable[[bytes], Note] = msgspec.json.Decoder(Note).decode
_decode_collection_note = msgspec.json.Decoder(CollectionNote).decode


def meta_path(directory: Path, file: str) -> Path:
    return directory / f"{file}.meta.warc.gz"


def worker_of(file: str) -> str:
    """The worker that wrote a file."""
    match = FILE_NAME.fullmatch(file)
    return match[1] if match else ""


# -- durable lengths ---------------------------------------------------------------------------------------------------


def durable_lengths(directory: Path) -> Cursor:
    """The durable length of each meta file, its last notes included."""
    found = {path.stem: read_durable(path).meta for path in sorted(directory.glob("*.durable"))}
    return {name: length for name, length in found.items() if length}


def visit_lengths(directory: Path) -> Cursor:
    """The durable length of each meta file with a visit in it. (A worker that fetched robots.txt only has none.)"""
    lengths: Cursor = {}
    for path in sorted(directory.glob("*.durable")):
        with contextlib.suppress(FileNotFoundError):  # `recover_archive` removes files that were never published
            length = read_durable(path).visits_end
            if length > INFO_BYTES_MAX or (length and length > _info_bytes(meta_path(directory, path.stem), length)):
                lengths[path.stem] = length
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
        raise DataError(
            message(
                "{path}: damaged: the record at {position}: {error}", path=path, position=str(position), error=error
            )
        ) from None
    if not unzip.eof:
        raise DataError(
            message("{path}: damaged: the record at {position} has no end", path=path, position=str(position))
        )
    return unzip


def bytes_behind(directory: Path, cursor: Cursor) -> int:
    """The number of durable bytes that the cursor has not read."""
    return sum(max(0, length - cursor.get(file, 0)) for file, length in visit_lengths(directory).items())


# -- visits in the order of their files --------------------------------------------------------------------------------


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
            yield from _read_visits(meta_path(directory, file), file, start, length, hear, wanted)


def read_entry(directory: Path, file: str, start: int) -> ArchiveEntry | None:
    """The record at that position; None if the archive no longer has it."""
    try:
        length = read_durable(directory / f"{file}.durable").visits_end
    except FileNotFoundError:
        return None
    if start >= length:
        return None
    return next(_read_visits(meta_path(directory, file), file, start, length), None)


def _read_visits(
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
                held = decode_body(path, position, _decode_visit, body)
        elif raw.record_type == WarcRecordType.resource:
            if hear is not None and (raw.headers.get("WARC-Target-URI") or "").startswith(COLLECTION_URI):
                # a caller that needs the configuration for certain reads the whole history
                with contextlib.suppress(msgspec.MsgspecError):
                    hear(_decode_collection_note(body))
        elif held is not None and held.page is not None:
            stated = raw.headers.get("Content-Type") == STATEMENTS_TYPE
            errors = "replace" if stated else "surrogatepass"  # N-Quads: whole characters
            text = decode_body(path, position, partial(str, encoding="utf-8", errors=errors), body)
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
                    raise DataError(
                        message("{path}: the record at {position} is not whole", path=path, position=str(position))
                    )
                yield position, raw, body
        _check_end(path, stream, position, length)


def _check_end(path: Path, stream: IO[bytes], position: int, length: int) -> None:
    """Check that the last record read is the last one in the range: at bytes that are no record, the reader stops as at
    the end of the file.
    """
    stream.seek(position)
    if _unzipped(path, position, stream.read(length - position)).unused_data:
        raise DataError(
            message(
                "{path}: damaged: nothing can be read after the record at {position}", path=path, position=str(position)
            )
        )


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
        raise DataError(message("{path}: damaged: {error}", path=path, error=error)) from None


def decode_body(path: Path, position: int, decode: Callable[[bytes], T], body: bytes) -> T:
    try:
        return decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DataError(
            message(
                "{path}: the record at {position} cannot be read: {error}",
                path=path,
                position=str(position),
                error=error,
            )
        ) from None


# -- the history: visits and notes in order of time --------------------------------------------------------------------


class ArchiveEvent(NamedTuple):
    """A visit or a note; `file` is the file that holds it."""

    at: float
    file: str
    content: VisitRecord | Note


@dataclass(slots=True)
class ArchiveSurvey:
    """A summary of an archive."""

    starts: dict[str, float] = field(default_factory=dict)  # time of the first record of each file
    names: set[str] = field(default_factory=set)  # of collections
    visited: set[str] = field(default_factory=set)  # collections with visits
    configs: dict[str, CollectionNote] = field(default_factory=dict)  # the first note of each
    visits: int = 0


def survey_archive(
    directory: Path, tell: OnBytesRead = lambda size: None, after: Cursor | None = None
) -> ArchiveSurvey:
    """Read the whole archive once, quickly, or the part after a cursor; `tell` receives the bytes read."""
    found = ArchiveSurvey()
    for file, length in durable_lengths(directory).items():
        path, read = meta_path(directory, file), min((after or {}).get(file, 0), length)
        for position, raw, body in read_records(path, read, length, RECORDS_AND_NOTES):
            tell(position - read)
            read = position
            found.starts.setdefault(file, _moment(path, position, raw))
            if raw.record_type == WarcRecordType.resource:
                note = decode_body(path, position, _decode_note, body)
                # a collection in such a note may have no visits here
                if not isinstance(note, RebuiltNote | DeletedNote):
                    found.names.add(note.collection)
                if isinstance(note, CollectionNote):
                    first = found.configs.setdefault(note.collection, note)
                    found.configs[note.collection] = min(first, note, key=lambda one: one.revision)
            else:
                found.visits += 1
                found.visited.add(decode_body(path, position, _decode_name, body).collection)
        found.names |= found.visited
        tell(length - read)
    return found


def first_notes(directory: Path) -> Iterator[Note]:
    """The notes of each file before its first visit."""
    for file, length in durable_lengths(directory).items():
        path = meta_path(directory, file)
        for position, raw, body in read_records(path, 0, length, RECORDS_AND_NOTES):
            if raw.record_type != WarcRecordType.resource:
                break
            yield decode_body(path, position, _decode_note, body)


def read_events(
    directory: Path, starts: dict[str, float], tell: OnBytesRead = lambda size: None
) -> Iterator[ArchiveEvent]:
    """All events from the beginning; `starts` are those of an `ArchiveSurvey`."""
    until = durable_lengths(directory)
    closed = sorted(((at, file) for file, at in starts.items()), reverse=True)
    opened: list[tuple[float, str, ArchiveEvent, Iterator[ArchiveEvent]]] = []

    def push(file: str, rest: Iterator[ArchiveEvent]) -> None:
        event = next(rest, None)
        if event is not None:
            heapq.heappush(opened, (event.at, file, event, rest))

    while closed or opened:
        while closed and (not opened or closed[-1][0] <= opened[0][0]):
            file = closed.pop()[1]
            push(file, _read_events(directory, file, until[file], tell))
        if opened:
            _, file, event, rest = heapq.heappop(opened)
            yield event
            push(file, rest)


def _read_events(directory: Path, file: str, length: int, tell: OnBytesRead) -> Iterator[ArchiveEvent]:
    path, read = meta_path(directory, file), 0
    for position, raw, body in read_records(path, 0, length, RECORDS_AND_NOTES):
        tell(position - read)
        read = position
        decode = _decode_note if raw.record_type == WarcRecordType.resource else _decode_visit
        yield ArchiveEvent(_moment(path, position, raw), file, decode_body(path, position, decode, body))
    tell(length - read)


def _moment(path: Path, position: int, raw: WarcRecord) -> float:
    date = raw.record_date
    if date is None:
        raise DataError(message("{path}: the record at {position} has no date", path=path, position=str(position)))
    return date.timestamp()
