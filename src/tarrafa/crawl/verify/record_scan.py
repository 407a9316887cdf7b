"""Scan of one WARC file of ours: every record whole, with its digests checked, and the ranges that are no records.

Promises: a damaged record hides no other one: behind it the next whole record is looked for, whatever lies between.
Nothing behind the given length is read. Memory is that of the largest record. Knows nothing of other files.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from isal import igzip_lib

from tarrafa.archive.warc_reader import (
    IGZIP_ERROR,
    READ_BYTES,
    DamagedRecord,
    match_head,
    read_member,
    read_record,
)
from tarrafa.archive.warc_writer import MEMBER_START, RECORD_END, RESPONSE, SIZED_START, base32
from tarrafa.errors import DataError

GZIP_START = b"\x1f\x8b\x08"
ZEROS_MIN = 512  # in a row: no compressed record has so many
HTTP_HEAD_BYTES_MAX = 1 << 20
PAYLOAD_TRIES_MAX = 8
PEEKED_BYTES, PEEKED_AT_ONCE = 4_096, 64  # of a damaged record, for its URL
_end_of_http_head = re.compile(rb"\r?\n\r?\n")


class ScannedRecord(NamedTuple):
    """A whole record. `fields`: its headers in lower case; `wrong`: which of its digests is wrong, empty if none."""

    position: int
    length: int  # of its gzip member
    kind: str
    fields: dict[bytes, bytes]
    content: bytes
    whole: bytes
    wrong: str = ""

    @property
    def end(self) -> int:
        return self.position + self.length

    @property
    def url(self) -> str:
        return self.text(b"warc-target-uri")

    @property
    def record_id(self) -> bytes:
        return self.fields.get(b"warc-record-id", b"")

    def text(self, name: bytes) -> str:
        return self.fields.get(name, b"").decode("utf-8", "replace")


class DamagedRange(NamedTuple):
    """Bytes that are no whole record; `url`: of the record that began there, if its head can be read."""

    position: int
    end: int
    reason: str
    has_zeros: bool
    url: str = ""


OnDamage = Callable[[DamagedRange], None]


def scan_records(path: Path, end: int, on_damage: OnDamage, *, start: int = 0) -> Iterator[ScannedRecord]:
    """All whole records between two offsets of a file, in order."""
    position = start
    with path.open("rb", buffering=READ_BYTES) as stream:
        while position < end:
            try:
                stream.seek(position)
                record, length = read_member(stream, end - position)
                yield parse_record(position, length, record)
                position += length
            except DamagedRecord as error:
                found = _next_record(stream, position, end)
                on_damage(_damaged_range(stream, position, found, str(error)))
                position = found


def parse_record(position: int, length: int, record: bytes) -> ScannedRecord:
    """A record with its headers; `DamagedRecord` if it is none."""
    found = match_head(record)
    if found is None:
        raise DamagedRecord("it is no WARC record")
    head, content = record[: found.end()], record[found.end() : -len(RECORD_END)]
    if int(found[3]) != len(content) or not record.endswith(RECORD_END):
        raise DamagedRecord("it is not as long as its Content-Length says")
    fields = dict[bytes, bytes]()
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.lower(), value.strip())
    kind = found[1].decode()
    return ScannedRecord(position, length, kind, fields, content, record, _wrong_digest(kind, fields, content))


def _wrong_digest(kind: str, fields: dict[bytes, bytes], content: bytes) -> str:
    stated = fields.get(b"warc-block-digest", b"")
    if stated.startswith(b"sha1:") and stated[5:] != _sha1(content):
        return "WARC-Block-Digest"
    stated = fields.get(b"warc-payload-digest", b"")
    if not stated.startswith(b"sha1:") or len(stated) != 37 or kind not in (RESPONSE, "resource"):
        return ""
    if kind == RESPONSE:
        return "" if _is_payload(content, stated[5:]) else "WARC-Payload-Digest"
    return "" if _sha1(content) == stated[5:] else "WARC-Payload-Digest"


def _is_payload(content: bytes, digest: bytes) -> bool:
    """Whether the body behind the HTTP header has this digest. The header ends at the first empty line, but for servers
    that send several headers, or empty lines before them."""
    if content[9:12] == b"304":  # it confirms a body that another record has
        return True
    for tries, found in enumerate(_end_of_http_head.finditer(content, 0, HTTP_HEAD_BYTES_MAX)):
        if _sha1(memoryview(content)[found.end() :]) == digest:
            return True
        if tries == PAYLOAD_TRIES_MAX:
            break
    return _sha1(b"") == digest


def _sha1(content: bytes | memoryview) -> bytes:
    return base32(hashlib.sha1(content, usedforsecurity=False).digest()).encode()


def step_records(path: Path, end: int, on_damage: OnDamage) -> Iterator[tuple[int, int, str]]:
    """The same without looking into the records: offset, end and kind of each. Only heads and lengths are checked."""
    position = 0
    with path.open("rb", buffering=READ_BYTES) as stream:
        while position < end:
            try:
                record = read_record(stream, end - position, lambda head: False)
                yield position, position + record.member_size, record.head.kind
                position += record.member_size
            except DamagedRecord as error:
                found = _next_record(stream, position, end)
                on_damage(_damaged_range(stream, position, found, str(error)))
                position = found
                stream.seek(position)


def is_whole(path: Path, start: int, end: int) -> bool:
    """Whether whole records with right digests fill a range of a file exactly."""
    damages, position = list[DamagedRange](), start
    try:
        for record in scan_records(path, end, damages.append, start=start):
            if record.wrong:
                return False
            position = record.end
    except (OSError, DataError):
        return False
    return not damages and position == end


def _next_record(stream: IO[bytes], position: int, end: int) -> int:
    """The offset of the next whole record behind this position; the end if there is none."""
    place = position + 1
    while (place := _next_gzip_start(stream, place, end)) < end:
        try:
            stream.seek(place)
            record, length = read_member(stream, end - place)
            parse_record(place, length, record)
        except DamagedRecord:
            place += 1
            continue
        return place
    return end


def _next_gzip_start(stream: IO[bytes], place: int, end: int) -> int:
    stream.seek(place)
    kept = b""
    while place < end and (chunk := stream.read(min(READ_BYTES, end - place))):
        found = (kept + chunk).find(GZIP_START)
        if found >= 0:
            return place - len(kept) + found
        place += len(chunk)
        kept = (kept + chunk)[-len(GZIP_START) + 1 :]
    return end


def _damaged_range(stream: IO[bytes], position: int, end: int, reason: str) -> DamagedRange:
    stream.seek(position)
    has_zeros, left, url = False, end - position, ""
    first = True
    while left > 0 and (chunk := stream.read(min(READ_BYTES, left))):
        has_zeros |= bytes(ZEROS_MIN) in chunk
        url = _url_of_beginning(chunk) if first else url
        left, first = left - len(chunk), False
    return DamagedRange(position, end, reason, has_zeros, url)


def _url_of_beginning(member: bytes) -> str:
    """The URL in the head of a damaged member, as far as it can be inflated."""
    if not member.startswith(MEMBER_START):
        return ""
    inflater, beginning = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_DEFLATE), bytearray()
    with suppress(IGZIP_ERROR):
        for start in range(SIZED_START.size, PEEKED_BYTES, PEEKED_AT_ONCE):
            if inflater.eof:
                break
            beginning += inflater.decompress(member[start : start + PEEKED_AT_ONCE])
    found = match_head(beginning)
    return found[4].decode("utf-8", "replace") if found is not None and found[4] else ""
