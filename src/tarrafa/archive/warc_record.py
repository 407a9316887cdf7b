"""WARC records as bytes: one record is one gzip member, whose extra field states its length.

The extra field is `sl` (skip-lengths) of the WARC 0.9 draft, section 9.2: the length of the gzip member and the length
of the record in it, each a little-endian number of four bytes. Later versions of the standard do not mention the field;
any gzip reader passes over it. A reader that does not want a record inflates its head only, and steps over the rest.
Promises: the field is never trusted. A length that leaves the readable part, or that disagrees with the end of the
member or with the record's Content-Length, is a damaged record; a record that is read is whole and has its checksum. A
member without the field (files of earlier versions, other programs) is inflated to its end. Knows nothing of files,
cursors or visits.
"""

import hashlib
import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from struct import Struct
from typing import IO, NamedTuple

from isal import igzip_lib

from tarrafa.errors import DataError
from tarrafa.i18n import message

WARCINFO, METADATA, CONVERSION, RESOURCE = "warcinfo", "metadata", "conversion", "resource"
REQUEST, RESPONSE, REVISIT = "request", "response", "revisit"
INFO_TYPE = "application/warc-fields"
HTTP_REQUEST = "application/http; msgtype=request"
HTTP_RESPONSE = "application/http; msgtype=response"
METADATA_TYPE = "application/json"
HTML_TYPE = "text/html; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"
STATEMENTS_TYPE = "application/n-quads"

COMPRESSION_LEVEL = 2  # of igzip: as small as zlib's level 3, in a fifth of the time
IDS_AT_ONCE = 256
DATES_REMEMBERED_MAX = 8  # the records of a visit share one
DIGEST_DIGITS = 32  # of SHA-1 in base 32, with five bits each
RECORD_END = b"\r\n\r\n"
# RFC 1952: magic number, deflate, FEXTRA; no time; no flags, system unknown; 12 bytes of extra field: `sl`, of 8 bytes
MEMBER_START = b"\x1f\x8b\x08\x04" + bytes(4) + b"\x00\xff" + b"\x0c\x00" + b"sl" + b"\x08\x00"
SIZED_START = Struct("<16sII")
WHOLE_BYTES = 2000  # a member up to so long is inflated whole, in twice the time of its beginning
# The beginning of a longer member. A head is some 300 bytes; one that is longer by its URLs is found in the whole.
PEEK_BYTES, HEAD_BYTES_MAX = 450, 700
CHUNK_BYTES = 64 << 10
DEFLATE_RATIO_MAX = 1032  # of a member's lengths (https://zlib.net/zlib_tech.html)
IGZIP_ERROR: type[Exception] = igzip_lib.error  # type: ignore[assignment]  # its stub declares an instance


# -- writing -----------------------------------------------------------------------------------------------------------


def record_ids() -> Iterator[str]:
    """Random record ids without end (UUIDs, version 4). The system is asked for the randomness of many at once, so two
    processes must not share the iterator.
    """
    while True:
        pool = os.urandom(16 * IDS_AT_ONCE).hex()
        for start in range(0, len(pool), 32):
            one = pool[start : start + 32]
            variant = "89ab"[int(one[16], 16) & 3]
            yield f"<urn:uuid:{one[:8]}-{one[8:12]}-4{one[13:16]}-{variant}{one[17:20]}-{one[20:]}>"


@lru_cache(DATES_REMEMBERED_MAX)
def warc_date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def sha1_digest(content: bytes) -> str:
    return "sha1:" + base32(hashlib.sha1(content, usedforsecurity=False).digest())


def _spreads() -> tuple[tuple[int, int, int], ...]:
    """Each step moves the upper half of every group of digits away from the lower half, until each digit of five bits
    has a byte of its own: masks of the upper and the lower halves, and the distance."""
    steps, digits = [], DIGEST_DIGITS
    while digits > 1:
        half = digits // 2
        low = sum((1 << 5 * half) - 1 << start for start in range(0, 8 * DIGEST_DIGITS, 8 * digits))
        steps.append((low << 5 * half, low, 3 * half))
        digits = half
    return tuple(steps)


_SPREADS = _spreads()
_BASE_32 = bytes.maketrans(bytes(range(32)), b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def base32(digest: bytes) -> str:
    """A digest of 20 bytes in base 32 (RFC 4648). Python's own loop takes six times as long, and a page has six."""
    number = int.from_bytes(digest, "big")
    for high, low, distance in _SPREADS:
        number = (number & high) << distance | number & low
    return number.to_bytes(DIGEST_DIGITS, "big").translate(_BASE_32).decode()


def one_line(value: str) -> str:
    """A value of a header that cannot begin another line."""
    return value if value.isprintable() else " ".join(value.splitlines())


def pack_record(kind: str, date: str, record_id: str, headers: str, content: bytes) -> bytes:
    """The gzip member of a record. `headers`: the lines of those that only some kinds of records have."""
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Date: {date}\r\nWARC-Record-ID: {record_id}\r\n"
        f"Content-Length: {len(content)}\r\n{headers}WARC-Block-Digest: {sha1_digest(content)}\r\n\r\n"
    )
    record = b"".join((head.encode(), content, RECORD_END))
    packed = igzip_lib.compress(record, COMPRESSION_LEVEL, igzip_lib.COMP_GZIP_NO_HDR)
    return SIZED_START.pack(MEMBER_START, SIZED_START.size + len(packed), len(record)) + packed


# -- reading -----------------------------------------------------------------------------------------------------------

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


def _read_sized(stream: IO[bytes], start: bytes, readable: int, wants: Wants | None) -> PackedRecord:
    _, member_size, size = SIZED_START.unpack(start)
    packed_size = member_size - SIZED_START.size
    is_possible = len(RECORD_END) < size <= packed_size * DEFLATE_RATIO_MAX
    if not is_possible or packed_size > readable - SIZED_START.size:
        raise DamagedRecord(message("the lengths in its extra field are impossible"))
    packed = stream.read(packed_size)
    if len(packed) < packed_size or packed[-4:] != start[-4:]:
        raise DamagedRecord(message("it does not end where its extra field says"))
    if wants is not None and packed_size > WHOLE_BYTES:
        inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_DEFLATE)
        beginning = inflater.decompress(packed[:PEEK_BYTES], HEAD_BYTES_MAX)
        if (found := match_head(beginning)) and not wants(head := _head(found, size)) and MEMBER_START not in packed:
            return PackedRecord(head, None, member_size)  # with the next member in it, its length would be wrong
    inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP_NO_HDR_VER)
    record = inflater.decompress(packed, size + 1)
    if not inflater.eof or inflater.unused_data or len(record) != size:
        raise DamagedRecord(message("it is not as long as its extra field says"))
    return _whole(record, member_size, wants)


def _read_unsized(stream: IO[bytes], start: bytes, readable: int, wants: Wants | None) -> PackedRecord:
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
    return _whole(b"".join(parts), read - behind, wants)


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
