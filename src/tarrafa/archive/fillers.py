"""Fillers: WARC records without content, and records padded to a length, so that bytes can be erased in place.

Promises: a filler, and a padded record, is a gzip member of exactly the length asked for, or there is none; any reader
of gzip and WARC steps over a filler, as over every record of a type that it does not know (WARC 1.1, section 6).
Padding is made of deflate blocks without content, of five and of six bytes, and does not belong to the record.
"""

import uuid
import zlib
from collections.abc import Iterator
from zlib import crc32

from xxhash import xxh3_128_digest

from tarrafa.archive.warc_writer import MEMBER_START, RECORD_END, SIZED_START, sha1_digest

FILLER = "filler"
TRAILER_BYTES = 8
STORED_BYTES_MAX = 0xFFFF
STORED_HEAD_BYTES = 5
EMPTY_STORED = b"\x00\x00\x00\xff\xff"
EMPTY_FIXED_AND_STORED = b"\x02\x00\x00\x00\xff\xff"  # a block of ten bits before it
LAST_STORED = b"\x01\x00\x00\xff\xff"
SPACES = b" \t\n  \t\t \n\t \n\n \t\n\t\t  \n \n\t\t\n  \t \n\t\n \t\t\t\n \n"  # that do not shrink much


def filler(size: int, date: str, place_of: str) -> bytes | None:
    """A record of this type and length in the place of another one, by its id; None: it is too short for one. The same
    arguments make the same bytes."""
    record_id = uuid.UUID(bytes=xxh3_128_digest(place_of.encode()), version=4).urn
    head = f"WARC/1.1\r\nWARC-Type: {FILLER}\r\nWARC-Date: {date}\r\nWARC-Record-ID: <{record_id}>\r\n".encode()
    blocks = max(1, -(-(size - SIZED_START.size - TRAILER_BYTES) // (STORED_BYTES_MAX + STORED_HEAD_BYTES)))
    record_size = size - SIZED_START.size - TRAILER_BYTES - blocks * STORED_HEAD_BYTES
    length = f"Content-Length: {max(0, record_size - len(head) - 32):015d}\r\n\r\n".encode()
    content = record_size - len(head) - len(length) - len(RECORD_END)
    if content < 0:
        return None
    length = f"Content-Length: {content:015d}\r\n\r\n".encode()
    record = b"".join((head, length, b" " * content, RECORD_END))
    return _member(record, b"".join(_stored(record, -(-record_size // blocks))))


def _stored(record: bytes, block_size: int) -> Iterator[bytes]:
    for at in range(0, len(record), block_size):
        part = record[at : at + block_size]
        is_last = at + block_size >= len(record)
        yield bytes([is_last]) + len(part).to_bytes(2, "little") + (len(part) ^ 0xFFFF).to_bytes(2, "little") + part


def _member(record: bytes, deflated: bytes) -> bytes:
    size = SIZED_START.size + len(deflated) + TRAILER_BYTES
    trailer = crc32(record).to_bytes(4, "little") + len(record).to_bytes(4, "little")
    return SIZED_START.pack(MEMBER_START, size, len(record)) + deflated + trailer


def padded_record(kind: str, date: str, record_id: str, headers: str, content: bytes, size: int) -> bytes | None:
    """A record in a gzip member of this length, with a filler behind it where much is left; None: it does not fit. The
    content is JSON, to which spaces may be added. The digest of the block is left out if there is no place for it."""
    for has_digest in (True, False):
        for spaces in range(len(SPACES)):
            text = content + SPACES[:spaces]  # for another length
            digest = f"WARC-Block-Digest: {sha1_digest(text)}\r\n" if has_digest else ""
            head = (
                f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Date: {date}\r\nWARC-Record-ID: {record_id}\r\n"
                f"Content-Length: {len(text)}\r\n{headers}{digest}\r\n"
            )
            record = b"".join((head.encode(), text, RECORD_END))
            if (member := _padded(record, size, date, record_id)) is not None:
                return member
    return None


def _padded(record: bytes, size: int, date: str, record_id: str) -> bytes | None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    begun = packer.compress(record)
    whole = _member(record, begun + packer.copy().flush())
    if len(whole) == size:
        return whole
    if (rest := filler(size - len(whole), date, record_id)) is not None:
        return whole + rest
    begun += packer.flush(zlib.Z_FULL_FLUSH)
    left = size - len(_member(record, begun + LAST_STORED))
    sixes = left % STORED_HEAD_BYTES
    fives = (left - 6 * sixes) // STORED_HEAD_BYTES
    if left < 0 or fives < 0:
        return None
    return _member(record, begun + EMPTY_STORED * fives + EMPTY_FIXED_AND_STORED * sixes + LAST_STORED)
