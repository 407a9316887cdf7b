"""Compresses page bodies (gzip, brotli, zstd) and encodes them in chunks, by host.

Promises: the host's number alone decides: every third host compresses its pages with gzip, a few with brotli or zstd,
for clients that accept it; a few send them in chunks. Unpacked, a page is the same byte for byte. Compression affects
only the number of bytes in `/__truth__` and the log.
Knows nothing of pages.

In a benchmark the server must not spend its time on compression. zlib takes longer to compress a page than the page
takes to render, so only the first GZIP_BYTES of it are really compressed and the rest goes into stored blocks, as
deflate allows; brotli and zstd at their fastest are fast enough. Known weakness: a host's ETag is the same with and
without compression.
"""

import struct
import zlib
from functools import cache
from typing import Any

GZIP_BYTES = 1024
STORED_MAX = 0xFFFF  # bytes of one stored block, the format's maximum
CHUNK_BYTES = 4096
CYCLE = 24

_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
_LAST, _NOT_LAST = 1, 0
_BROTLI, _ZSTD, _CHUNKED = (1, 13), (7, 19), (5, 11, 20)  # remainders modulo CYCLE, none a multiple of three


def coding_of_host(no: int) -> str:
    """The content coding of host `no`, for clients that accept it."""
    place = no % CYCLE
    if place % 3 == 0:
        return "gzip"
    return "br" if place in _BROTLI else "zstd" if place in _ZSTD else ""


def is_chunked(no: int) -> bool:
    return no % CYCLE in _CHUNKED


def accepts_coding(offered: str, wanted: str) -> bool:
    """Whether Accept-Encoding names a coding (RFC 9110 section 12.5.3); `q=0` refuses it, other weights count
    as one.
    """
    for part in offered.split(","):
        name, _, weight = part.partition(";")
        if name.strip().lower() == wanted:
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def compress_body(body: bytes, how: str) -> bytes:
    if how == "gzip":
        return fast_gzip(body)
    packed: bytes = _brotli()(body, quality=0) if how == "br" else _zstd().compress(body)
    return packed


def fast_gzip(body: bytes) -> bytes:
    """RFC 1952: a compressed block, an empty one that ends on a whole byte, and stored ones."""
    packer = zlib.compressobj(1, zlib.DEFLATED, -zlib.MAX_WBITS)
    parts = [_GZIP_HEAD, packer.compress(body[:GZIP_BYTES]), packer.flush(zlib.Z_SYNC_FLUSH)]
    for at in range(GZIP_BYTES, len(body), STORED_MAX):
        piece = body[at : at + STORED_MAX]
        parts += struct.pack("<BHH", _NOT_LAST, len(piece), len(piece) ^ 0xFFFF), piece
    parts += struct.pack("<BHH", _LAST, 0, 0xFFFF), struct.pack("<II", zlib.crc32(body), len(body) & 0xFFFFFFFF)
    return b"".join(parts)


def encode_chunks(body: bytes) -> bytes:
    """The chunked transfer coding (RFC 9112 section 7.1)."""
    parts: list[bytes] = []
    for at in range(0, len(body), CHUNK_BYTES):
        piece = body[at : at + CHUNK_BYTES]
        parts += b"%x\r\n" % len(piece), piece, b"\r\n"
    parts.append(b"0\r\n\r\n")
    return b"".join(parts)


@cache
def _brotli() -> Any:
    from brotli import compress

    return compress


@cache
def _zstd() -> Any:
    from zstandard import ZstdCompressor

    return ZstdCompressor(level=1)
