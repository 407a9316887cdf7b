"""WARC reader: follows the durable records of the archive from a cursor, and reads its whole history in order of time.

`follow` returns visits file by file, as they become durable. `read_events` reads all files from their beginning and
merges visits and notes by time: a lost frontier is rebuilt from that.
Promises: a record is returned only when it is complete and durable; following from the offset of a record returns
exactly the records after it. A `Cursor` is {file name: offset in its meta file}; a follower stores it together with its
own data, and a replay after a crash is harmless. The events of one file keep their order; `read_events` has a file open
only from its first event to its last, so memory does not grow with the archive. The lengths in the extra field of a
record (`warc_writer`) are never trusted: a length that leaves the durable part, or that disagrees with the end of the
member or with the record's Content-Length, is a damaged record; a record that is read is whole and has its checksum. A
record that is not wanted is stepped over: only its head is inflated. A member without the field (files of earlier
versions, other programs) is inflated to its end. Knows nothing of its followers.
"""

import contextlib
import heapq
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, NamedTuple, TypeVar

import msgspec
from isal import igzip_lib

from tarrafa.archive.archive_settings import raise_if_disk_missing
from tarrafa.archive.warc_writer import (
    COLLECTION_URI,
    CONVERSION,
    MEMBER_START,
    METADATA,
    RECORD_END,
    RESOURCE,
    SIZED_START,
    STATEMENTS_TYPE,
    TEXT_TYPE,
    read_durable,
)
from tarrafa.errors import DataError
from tarrafa.i18n import message
from tarrafa.model import CollectionlessNote, CollectionNote, DeletedNote, Note, UrlRole, VisitRecord

Cursor = dict[str, int]
UrlFilter = Callable[[str], bool]
OnCollectionNote = Callable[[CollectionNote], None]
OnBytesRead = Callable[[int], None]
PAGE_FIELDS = {TEXT_TYPE: "text", STATEMENTS_TYPE: "statements"}  # of a page, by the type of their conversion records
ALL_CONVERSIONS = frozenset(PAGE_FIELDS)
READ_BYTES, ENTRY_BYTES = 256 << 10, 16 << 10  # read at once from a file: of many records, of one
FILE_NAME = re.compile(r"tarrafa-\d{14}-(.+)-\d{5}(?:g\d+)?")  # g: how often a compaction has rewritten it
INFO_BYTES_MAX = 4 << 10  # of the warcinfo record, which is some 300
WHOLE_BYTES = 2000  # a member up to so long is inflated whole, in twice the time of its beginning
# The beginning of a longer member. A head is some 300 bytes; one that is longer by its URLs is found in the whole.
PEEK_BYTES, HEAD_BYTES_MAX = 450, 700
CHUNK_BYTES = 64 << 10
DEFLATE_RATIO_MAX = 1032  # of a member's lengths (https://zlib.net/zlib_tech.html)
IGZIP_ERROR: type[Exception] = igzip_lib.error  # type: ignore[assignment]  # its stub declares an instance
T = TypeVar("T")


class ArchiveEntry(NamedTuple):
    """A record, the offset after it, its own offset, and whether its page has text, which may not have been read."""

    file: str
    end: int
    record: VisitRecord
    start: int = 0
    has_text: bool = False


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


# -- one record --------------------------------------------------------------------------------------------------------

# A head as `pack_record` writes it, and earlier versions did.
match_head = re.compile(
    rb"WARC/1\.1\r\nWARC-Type: ([a-z]+)\r\nWARC-Date: ([!-~]+)\r\nWARC-Record-ID: [^\r\n]*\r\n"
    rb"Content-Length: ([0-9]{1,15})\r\n(?:WARC-Target-URI: ([^\r\n]*)\r\n)?(?:Content-Type: ([ -~]*)\r\n)?"
    rb"(?:[A-Z][^\r\n]*\r\n)*\r\n"
).match


class DamagedRecord(DataError):
    """The bytes are no whole record in a gzip member of its own; the message says why."""


class RecordHead(NamedTuple):
    """The headers of a record that readers need, and the length of the head."""

    kind: str
    url: str
    content_type: str
    date: str
    size: int


class PackedRecord(NamedTuple):
    """A record and the length of its gzip member; `content` is None if it was not wanted."""

    head: RecordHead
    content: bytes | None
    member_size: int


Wants = Callable[[RecordHead], bool]


def read_record(stream: IO[bytes], readable: int, wants: Wants | None = None) -> PackedRecord:
    """The record at the position of the stream, which is left behind it; `wants` decides whether its content is read,
    and may be asked twice. `readable`: so many bytes from there may be read.
    """
    try:
        start = stream.read(min(SIZED_START.size, readable))
        if len(start) == SIZED_START.size and start.startswith(MEMBER_START):
            return _read_sized(stream, start, readable, wants)
        return _read_unsized(stream, start, readable, wants)
    except IGZIP_ERROR as error:
        raise DamagedRecord(str(error)) from None


def read_member(stream: IO[bytes], readable: int) -> tuple[bytes, int]:
    """The whole record at the position of the stream, with its head, and the length of its gzip member."""
    try:
        start = stream.read(min(SIZED_START.size, readable))
        if len(start) < SIZED_START.size or not start.startswith(MEMBER_START):
            return _inflate_unsized(stream, start, readable)
        packed, size = _read_packed(stream, start, readable)
        return _inflate_sized(packed, size), SIZED_START.size + len(packed)
    except IGZIP_ERROR as error:
        raise DamagedRecord(str(error)) from None


def _read_sized(stream: IO[bytes], start: bytes, readable: int, wants: Wants | None) -> PackedRecord:
    packed, size = _read_packed(stream, start, readable)
    member_size = SIZED_START.size + len(packed)
    if wants is not None and len(packed) > WHOLE_BYTES:
        inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_DEFLATE)
        beginning = inflater.decompress(packed[:PEEK_BYTES], HEAD_BYTES_MAX)
        if (found := match_head(beginning)) and not wants(head := _head(found, size)) and MEMBER_START not in packed:
            return PackedRecord(head, None, member_size)  # with the next member in it, its length would be wrong
    return _whole(_inflate_sized(packed, size), member_size, wants)


def _read_packed(stream: IO[bytes], start: bytes, readable: int) -> tuple[bytes, int]:
    """The deflated record behind the first bytes of a member, with its trailer, and the length of the record."""
    _, member_size, size = SIZED_START.unpack(start)
    packed_size = member_size - SIZED_START.size
    is_possible = len(RECORD_END) < size <= packed_size * DEFLATE_RATIO_MAX
    if not is_possible or packed_size > readable - SIZED_START.size:
        raise DamagedRecord(message("the lengths in its extra field are impossible"))
    packed = stream.read(packed_size)
    if len(packed) < packed_size or packed[-4:] != start[-4:]:
        raise DamagedRecord(message("it does not end where its extra field says"))
    return packed, size


def _inflate_sized(packed: bytes, size: int) -> bytes:
    inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP_NO_HDR_VER)
    record = inflater.decompress(packed, size + 1)
    if not inflater.eof or inflater.unused_data or len(record) != size:
        raise DamagedRecord(message("it is not as long as its extra field says"))
    return record


def _read_unsized(stream: IO[bytes], start: bytes, readable: int, wants: Wants | None) -> PackedRecord:
    return _whole(*_inflate_unsized(stream, start, readable), wants)


def _inflate_unsized(stream: IO[bytes], start: bytes, readable: int) -> tuple[bytes, int]:
    inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
    parts, read = [inflater.decompress(start)], len(start)
    while not inflater.eof:
        chunk = stream.read(min(CHUNK_BYTES, readable - read))
        if not chunk:
            raise DamagedRecord(message("it has no end"))
        read += len(chunk)
        parts.append(inflater.decompress(chunk))
    behind = len(inflater.unused_data)
    stream.seek(-behind, os.SEEK_CUR)
    return b"".join(parts), read - behind


def _whole(record: bytes, member_size: int, wants: Wants | None) -> PackedRecord:
    found = match_head(record)
    if found is None:
        raise DamagedRecord(message("it is no WARC record"))
    head = _head(found, len(record))
    is_wanted = wants is None or wants(head)
    return PackedRecord(head, record[head.size : -len(RECORD_END)] if is_wanted else None, member_size)


def _head(found: re.Match[bytes], size: int) -> RecordHead:
    """The head of a record of that size."""
    kind, date, length, url, content_type = found.groups(b"")
    content_size = size - found.end() - len(RECORD_END)
    if int(length) != content_size:
        raise DamagedRecord(message("it is not as long as its Content-Length says"))
    return RecordHead(kind.decode(), str(url, "utf-8", "replace"), content_type.decode(), date.decode(), found.end())


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
    """The length of the first record of a file, which describes the file."""
    return next(_scan(path, 0, length, lambda head: False))[1].member_size


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
    conversions: frozenset[str] = ALL_CONVERSIONS,
    upto: Cursor | None = None,
) -> Iterator[ArchiveEntry]:
    """Every record that became durable after the cursor, file by file, until there are no more *now*, or up to another
    cursor. Requisites of pages are no pages: they are passed over.

    `hear` receives the configurations of collections, before the first record under each. `wanted` selects visits by
    URL, `conversions` the types of conversion records: the others are not even inflated.
    """
    for file, length in (visit_lengths(directory) if upto is None else upto).items():
        start = cursor.get(file, 0)
        if length > start:
            for entry in _read_visits(meta_path(directory, file), file, start, length, hear, wanted, conversions):
                if entry.record.outcome.role != UrlRole.REQUISITE:
                    yield entry


def read_entry(directory: Path, file: str, start: int) -> ArchiveEntry | None:
    """The record at that position; None if the archive no longer has it."""
    try:
        length = read_durable(directory / f"{file}.durable").visits_end
    except FileNotFoundError:
        return None
    if start >= length:
        return None
    return next(_read_visits(meta_path(directory, file), file, start, length, buffer_bytes=ENTRY_BYTES), None)


def read_entries(
    directory: Path, file: str, starts: Iterable[int], conversions: frozenset[str] = ALL_CONVERSIONS
) -> Iterator[ArchiveEntry]:
    """The records at these positions of a file, as far as they are durable."""
    path, length = meta_path(directory, file), read_durable(directory / f"{file}.durable").visits_end
    for start in starts:
        if start < length:
            visits = _read_visits(path, file, start, length, conversions=conversions, buffer_bytes=ENTRY_BYTES)
            yield from islice(visits, 1)


def _read_visits(
    path: Path,
    file: str,
    start: int,
    length: int,
    hear: OnCollectionNote | None = None,
    wanted: UrlFilter | None = None,
    conversions: frozenset[str] = ALL_CONVERSIONS,
    buffer_bytes: int = READ_BYTES,
) -> Iterator[ArchiveEntry]:
    """A metadata record is complete when the next one begins: its conversions, if any, come directly after it."""
    held: VisitRecord | None = None
    begun, texts = start, dict[str, str | None]()  # texts of its page by content type; None: not read

    def wants(head: RecordHead) -> bool:
        if head.kind == METADATA:
            return wanted is None or wanted(head.url)
        if head.kind == CONVERSION:
            return held is not None and head.content_type in conversions
        return hear is not None and head.kind == RESOURCE and head.url.startswith(COLLECTION_URI)

    is_everything = wanted is None and conversions == ALL_CONVERSIONS
    for position, (head, content, _) in _scan(path, start, length, None if is_everything else wants, buffer_bytes):
        if head.kind == METADATA:
            if held is not None:
                yield _complete_entry(file, position, held, begun, texts)
            held, begun, texts = None, position, {}
            if content is not None:
                held = decode_body(path, position, _decode_visit, content)
        elif head.kind == CONVERSION:
            errors = "replace" if head.content_type == STATEMENTS_TYPE else "surrogatepass"  # N-Quads: whole characters
            decode = partial(str, encoding="utf-8", errors=errors)
            texts[head.content_type] = None if content is None else decode_body(path, position, decode, content)
        elif hear is not None and content is not None and head.url.startswith(COLLECTION_URI):
            # a caller that needs the configuration for certain reads the whole history
            with contextlib.suppress(msgspec.MsgspecError):
                hear(_decode_collection_note(content))
    if held is not None:
        yield _complete_entry(file, length, held, begun, texts)


def _complete_entry(file: str, end: int, record: VisitRecord, start: int, texts: dict[str, str | None]) -> ArchiveEntry:
    fields = {PAGE_FIELDS[kind]: text for kind, text in texts.items() if text is not None and kind in PAGE_FIELDS}
    if fields and record.page is not None:
        record = msgspec.structs.replace(record, page=msgspec.structs.replace(record.page, **fields))
    return ArchiveEntry(file, end, record, start, TEXT_TYPE in texts)


def read_records(path: Path, start: int, length: int) -> Iterator[tuple[int, RecordHead, bytes]]:
    """The metadata records and notes between two offsets of a file: offset, head and content of each."""
    for position, (head, content, _) in _scan(path, start, length, lambda head: head.kind in {METADATA, RESOURCE}):
        if content is not None:
            yield position, head, content


def read_notes(path: Path, start: int, length: int) -> Iterator[tuple[int, RecordHead, Note]]:
    """The notes between two offsets of a file: offset, head and note of each. Everything else is stepped over."""
    for position, (head, content, _) in _scan(path, start, length, lambda head: head.kind == RESOURCE):
        if content is not None:
            yield position, head, decode_body(path, position, _decode_note, content)


def _scan(
    path: Path, start: int, length: int, wants: Wants | None, buffer_bytes: int = READ_BYTES
) -> Iterator[tuple[int, PackedRecord]]:
    """All records between two offsets of a file, with the content of those that are wanted. Bytes behind the second
    offset are undefined, and not read.
    """
    position = start
    raise_if_disk_missing(path)
    with path.open("rb", buffering=buffer_bytes) as stream:
        stream.seek(start)
        while position < length:
            try:
                record = read_record(stream, length - position, wants)
            except DamagedRecord as error:
                raise DataError(
                    message(
                        "{path}: damaged: the record at {position}: {error}",
                        path=path,
                        position=str(position),
                        error=error.message,
                    )
                ) from None
            yield position, record
            position += record.member_size


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
        for position, head, content in read_records(path, read, length):
            tell(position - read)
            read = position
            found.starts.setdefault(file, moment(path, position, head))
            if head.kind == RESOURCE:
                note = decode_body(path, position, _decode_note, content)
                # a collection in such a note may have no visits here
                if not isinstance(note, CollectionlessNote | DeletedNote):
                    found.names.add(note.collection)
                if isinstance(note, CollectionNote):
                    first = found.configs.setdefault(note.collection, note)
                    found.configs[note.collection] = min(first, note, key=lambda one: one.revision)
            else:
                found.visits += 1
                found.visited.add(decode_body(path, position, _decode_name, content).collection)
        found.names |= found.visited
        tell(length - read)
    return found


def first_configuration(directory: Path, collection: str) -> msgspec.Raw | None:
    """The configuration of a collection in its first note; all other records are stepped over."""
    uri = f"{COLLECTION_URI}{collection}"
    for file, length in durable_lengths(directory).items():
        path = meta_path(directory, file)
        for position, (_, content, _) in _scan(path, 0, length, lambda head: head.url == uri):
            if content is not None:
                return decode_body(path, position, _decode_collection_note, content).config
    return None


def scan_heads(path: Path, length: int, start: int = 0) -> Iterator[tuple[int, int, RecordHead]]:
    """Offset, length and head of each record."""
    for position, (head, _, size) in _scan(path, start, length, lambda head: False):
        yield position, size, head


def read_chosen(path: Path, length: int, wanted: UrlFilter) -> Iterator[tuple[RecordHead, bytes]]:
    """Head and content of the records of some URLs; the others are stepped over."""
    for _, (head, content, _) in _scan(path, 0, length, lambda head: wanted(head.url)):
        if content is not None:
            yield head, content


def read_collection_notes(path: Path, length: int) -> Iterator[CollectionNote]:
    """The definitions of collections in a meta file; all other records are stepped over."""
    for position, (_, content, _) in _scan(path, 0, length, lambda head: head.url.startswith(COLLECTION_URI)):
        if content is not None:
            yield decode_body(path, position, _decode_collection_note, content)


def time_span(path: Path, length: int) -> tuple[float, float] | None:
    """The times of the first and the last visit or note of a meta file; None if there is none."""
    found: tuple[float, float] | None = None
    for position, (head, _, _) in _scan(path, 0, length, lambda head: False):
        if head.kind in {METADATA, RESOURCE}:
            at = moment(path, position, head)
            found = (at, at) if found is None else (min(found[0], at), max(found[1], at))
    return found


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
    for position, head, content in read_records(path, 0, length):
        tell(position - read)
        read = position
        decode = _decode_note if head.kind == RESOURCE else _decode_visit
        yield ArchiveEvent(moment(path, position, head), file, decode_body(path, position, decode, content))
    tell(length - read)


def moment(path: Path, position: int, head: RecordHead) -> float:
    """The time of a record."""
    try:
        return datetime.fromisoformat(head.date).timestamp()
    except ValueError:
        raise DataError(
            message("{path}: the record at {position} has no date", path=path, position=str(position))
        ) from None
