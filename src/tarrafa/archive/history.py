"""History of the archive: visits and notes of all files merged in order of time.

`warc_reader.follow` reads visits file by file, as they become durable. This module reads all files from their beginning
and merges visits and notes by time: a lost frontier is rebuilt from that. Promises: the events of one file keep their
order; a file is open only from its first event to its last, so memory does not grow with the archive. Knows nothing of
frontiers.
"""

import heapq
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec
from fastwarc.warc import WarcRecord, WarcRecordType

from tarrafa.archive.warc_reader import Cursor, parse_record, read_records
from tarrafa.archive.warc_writer import read_durable
from tarrafa.errors import DataError
from tarrafa.model import CollectionNote, DeletedNote, Note, RebuiltNote, VisitRecord

RECORDS_AND_NOTES = WarcRecordType.metadata | WarcRecordType.resource
FILE_NAME = re.compile(r"tarrafa-\d{14}-(.+)-\d{5}")

OnBytesRead = Callable[[int], None]


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


class _CollectionOnly(msgspec.Struct):
    """The part of a record that names its collection."""

    collection: str


_decode_note: Callable[[bytes], Note] = msgspec.json.Decoder(Note).decode
_decode_name = msgspec.json.Decoder(_CollectionOnly).decode


def durable_lengths(directory: Path) -> Cursor:
    """The durable length of each meta file, its last notes included."""
    found = {
        path.name.removesuffix(".durable"): read_durable(path).meta for path in sorted(directory.glob("*.durable"))
    }
    return {name: length for name, length in found.items() if length}


def worker_of(file: str) -> str:
    """The worker that wrote a file."""
    match = FILE_NAME.fullmatch(file)
    return match[1] if match else ""


def survey_archive(
    directory: Path, tell: OnBytesRead = lambda size: None, after: Cursor | None = None
) -> ArchiveSurvey:
    """Read the whole archive once, quickly, or the part after a cursor; `tell` receives the bytes read."""
    found = ArchiveSurvey()
    for file, length in durable_lengths(directory).items():
        path, read = directory / f"{file}.meta.warc.gz", min((after or {}).get(file, 0), length)
        for position, raw, body in read_records(path, read, length, RECORDS_AND_NOTES):
            tell(position - read)
            read = position
            found.starts.setdefault(file, _moment(path, position, raw))
            if raw.record_type == WarcRecordType.resource:
                note = _note(path, position, body)
                # a collection in such a note may have no visits here
                if not isinstance(note, RebuiltNote | DeletedNote):
                    found.names.add(note.collection)
                if isinstance(note, CollectionNote):
                    first = found.configs.setdefault(note.collection, note)
                    found.configs[note.collection] = min(first, note, key=lambda one: one.revision)
            else:
                found.visits += 1
                found.visited.add(_name(path, position, body))
        found.names |= found.visited
        tell(length - read)
    return found


def first_notes(directory: Path) -> Iterator[Note]:
    """The notes of each file before its first visit."""
    for file, length in durable_lengths(directory).items():
        path = directory / f"{file}.meta.warc.gz"
        for position, raw, body in read_records(path, 0, length, RECORDS_AND_NOTES):
            if raw.record_type != WarcRecordType.resource:
                break
            yield _note(path, position, body)


def read_events(
    directory: Path, starts: dict[str, float], tell: OnBytesRead = lambda size: None
) -> Iterator[ArchiveEvent]:
    """All events from the beginning; `starts` are those of an `ArchiveSurvey`."""
    until = durable_lengths(directory)
    closed = sorted(((at, file) for file, at in starts.items()), reverse=True)
    opened: list[tuple[float, str, ArchiveEvent, Iterator[ArchiveEvent]]] = []
    while closed or opened:
        while closed and (not opened or closed[-1][0] <= opened[0][0]):
            file = closed.pop()[1]
            _push(opened, file, _read(directory, file, until[file], tell))
        if opened:
            _, file, happening, rest = heapq.heappop(opened)
            yield happening
            _push(opened, file, rest)


def _push(
    opened: list[tuple[float, str, ArchiveEvent, Iterator[ArchiveEvent]]], file: str, rest: Iterator[ArchiveEvent]
) -> None:
    happening = next(rest, None)
    if happening is not None:
        heapq.heappush(opened, (happening.at, file, happening, rest))


def _read(directory: Path, file: str, length: int, tell: OnBytesRead) -> Iterator[ArchiveEvent]:
    path, read = directory / f"{file}.meta.warc.gz", 0
    for position, raw, body in read_records(path, 0, length, RECORDS_AND_NOTES):
        tell(position - read)
        read = position
        at = _moment(path, position, raw)
        if raw.record_type == WarcRecordType.resource:
            yield ArchiveEvent(at, file, _note(path, position, body))
        else:
            yield ArchiveEvent(at, file, parse_record(path, position, body))
    tell(length - read)


def _moment(path: Path, position: int, raw: WarcRecord) -> float:
    date = raw.record_date
    if date is None:
        raise DataError(f"{path}: the record at {position} has no date")
    return date.timestamp()


def _note(path: Path, position: int, body: bytes) -> Note:
    try:
        return _decode_note(body)
    except msgspec.MsgspecError as error:
        raise DataError(f"{path}: the note at {position} cannot be read: {error}") from None


def _name(path: Path, position: int, body: bytes) -> str:
    try:
        return _decode_name(body).collection
    except msgspec.MsgspecError as error:
        raise DataError(f"{path}: the record at {position} cannot be read: {error}") from None
