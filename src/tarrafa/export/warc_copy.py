"""Copies listed records of the archive into a WARC file, each with the records that belong to it.

The compressed members are copied as they lie, byte for byte; behind a response or revisit come its request and the
document that its scripts made, which refer to it. Promises: every member is inflated and checked before it is copied;
a damaged one is left out and named. What was taken down since it was listed is left out. A file begins with a
`warcinfo` record that says what was selected.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Protocol

from isal import igzip_lib

from tarrafa import __version__
from tarrafa.archive.warc_reader import IGZIP_ERROR, READ_BYTES, DamagedRecord, match_head, read_member
from tarrafa.archive.warc_writer import (
    INFO_TYPE,
    SIZED_START,
    WARCINFO,
    one_line,
    pack_record,
    read_durable,
    record_ids,
    warc_date,
)
from tarrafa.errors import NotReady
from tarrafa.export.record_list import ListedRecord, OnProgress, RecordList
from tarrafa.takedown import CurrentTakedowns

DAMAGES_SHOWN = 20
MOMENT_DIGITS = 17
PEEK_BYTES, PEEKED_BYTES = 200, 60  # packed and unpacked: the kind of a record is its first header
_record_id = re.compile(rb"\r\nWARC-Record-ID: (<[^\r\n>]+>)\r\n").search
_kind = re.compile(rb"WARC/1\.[01]\r\nWARC-Type: (request|conversion)\r\n").match


@dataclass(slots=True)
class CopySummary:
    """What was copied. `damaged`: file, offset and reason of the first records that could not be."""

    captures: int = 0
    records: int = 0
    bytes: int = 0
    taken_down: int = 0
    damages: int = 0
    damaged: list[tuple[str, int, str]] = field(default_factory=list)


class WarcOutput(Protocol):
    """A part being written."""

    def write(self, content: bytes, /) -> int: ...


NextPart = Callable[[int], tuple[str, WarcOutput]]  # name and stream of the part for the next record, by bytes written


class WarcCopy:
    """Copies the records of a list into one or several parts."""

    def __init__(self, archive: Path, takedowns: CurrentTakedowns, description: str) -> None:
        self._archive, self._takedowns, self._description = archive, takedowns, description
        self.summary = CopySummary()

    def write(self, records: RecordList, next_part: NextPart, tell: OnProgress = lambda size: None) -> None:
        """Copy all records. `next_part` is asked before each record: it may end a part and begin the next one."""
        part, position = "", 0
        stream: WarcOutput | None = None
        for name, several in records.records():
            for listed, moment, content in self._read_file(name, several, tell):
                found, to = next_part(position)
                if to is not stream:
                    part, stream, position = found, to, self._write_info(found, to)
                assert stream is not None
                records.note_copied(listed.place, part, position, moment)
                stream.write(content)
                position += len(content)
                self.summary.captures += 1
                self.summary.bytes += len(content)
        if stream is None:  # nothing selected: a file without captures
            self._write_info(*next_part(0))

    def _write_info(self, part: str, stream: WarcOutput) -> int:
        content = (
            f"software: Tarrafa/{__version__}\r\nformat: WARC File Format 1.1\r\n"
            f"description: export of {one_line(self._description)}\r\n"
        )
        now = warc_date(datetime.now(UTC).timestamp())
        headers = f"Content-Type: {INFO_TYPE}\r\nWARC-Filename: {one_line(part)}\r\n"
        return stream.write(pack_record(WARCINFO, now, next(record_ids()), headers, content.encode()))

    def _read_file(
        self, name: str, several: Iterator[ListedRecord], tell: OnProgress
    ) -> Iterator[tuple[ListedRecord, str, bytes]]:
        """The date of each record of a file, its member, and those of the records that belong to it."""
        durable = self._durable(name)
        with (self._archive / f"{name}.warc.gz").open("rb", buffering=READ_BYTES) as stream:
            for listed in several:
                tell(listed.place.length)
                if self._takedowns.covers(listed.url):
                    self.summary.taken_down += 1
                    continue
                try:
                    moment, members = _members(stream, listed, durable)
                except (DamagedRecord, IGZIP_ERROR) as error:
                    self._note_damage(listed, error)
                    continue
                self.summary.records += len(members)
                yield listed, moment, b"".join(members)

    def _durable(self, name: str) -> int:
        try:
            return read_durable(self._archive / f"{name}.durable").warc
        except FileNotFoundError:
            raise NotReady(f"{name}: no longer in the archive: run the export again") from None

    def _note_damage(self, listed: ListedRecord, error: Exception) -> None:
        self.summary.damages += 1
        if len(self.summary.damaged) < DAMAGES_SHOWN:
            place = listed.place
            self.summary.damaged.append((f"{place.name}.warc.gz", place.offset, str(error)))


def _members(stream: IO[bytes], listed: ListedRecord, durable: int) -> tuple[str, list[bytes]]:
    """The date of a record, its member, and those behind it that refer to it."""
    stream.seek(listed.place.offset)
    record, size = read_member(stream, durable - listed.place.offset)
    found, head = _record_id(record), match_head(record)
    if found is None or head is None or size != listed.place.length or _url_of(head) != listed.url:
        raise DamagedRecord("it is another record than the index says; `tarrafa rebuild captures`")
    stream.seek(listed.place.offset)
    members, position = [stream.read(size)], listed.place.offset + size
    while position < durable and _is_companion(stream, durable - position):
        stream.seek(position)
        record, size = read_member(stream, durable - position)
        if found[1] not in record[: record.find(b"\r\n\r\n")]:
            break
        stream.seek(position)
        members.append(stream.read(size))
        position += size
    return _moment(head[2].decode()), members


def _moment(date: str) -> str:
    """The digits of a WARC-Date down to milliseconds."""
    return "".join(filter(str.isdigit, date))[:MOMENT_DIGITS].ljust(MOMENT_DIGITS, "0")


def _url_of(head: re.Match[bytes]) -> str:
    return str(head[4] or b"", "utf-8", "replace").strip("<>")


def _is_companion(stream: IO[bytes], readable: int) -> bool:
    """Whether the next record is a request or a conversion."""
    packed = stream.read(min(SIZED_START.size + PEEK_BYTES, readable))
    beginning = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP).decompress(packed, PEEKED_BYTES)
    return _kind(bytes(beginning)) is not None
