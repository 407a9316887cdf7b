"""Hostile hosts with every content and transfer coding, unknown and truncated ones, and compression bombs.

Promises: every coding that browsers understand is a page to keep, whole or in several members. An unknown or truncated
coding costs one page. The codings are sent whatever Accept-Encoding says. Bombs must be cut: each is smaller than a
megabyte, valid in its format, including the check sum, and unpacks to BOMB_BYTES, more than 10^9, of spaces.
"""

import gzip
import struct
import zlib

from tarrafa.model import Status
from tarrafa.testweb.hostile.response_builders import either, header, html, kept, lazily, lost, raw, register_site
from tarrafa.testweb.http.web_response import HTML, WebResponse

CHUNK = 100
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


def _coded(body: bytes, coding: str) -> WebResponse:
    return WebResponse(200, body, f"Content-Type: {HTML}\r\nContent-Encoding: {coding}\r\n")


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, 6, mtime=0)


def _raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, -15)
    return packer.compress(body) + packer.flush()


def _brotli() -> bytes:
    from brotli import compress

    packed: bytes = compress(html("Página em brotli"))
    return packed


def _zstd() -> bytes:
    from zstandard import ZstdCompressor

    packed: bytes = ZstdCompressor().compress(html("Página em zstd"))
    return packed


def chunked(body: bytes) -> bytes:
    """RFC 9112 section 7.1, with an extension and a trailer."""
    pieces = [body[at : at + CHUNK] for at in range(0, len(body), CHUNK)]
    chunks = b"".join(b"%x;pedaco=sim\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return chunks + b"0\r\nX-Trailer: fim\r\n\r\n"


def _halves(body: bytes) -> bytes:
    middle = len(body) // 2
    return _gzip(body[:middle]) + _gzip(body[middle:])


# No bomb is made by compressing a gigabyte. A block of spaces is compressed once, up to a point where the format
# forgets the preceding data (deflate's full flush, brotli's flush; a zstd block that says "repeat this byte" needs no
# compressor at all), and then repeated. That costs milliseconds.
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
    return gzip.compress(gzip_bomb(), 9, mtime=0)


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


register_site(
    "encodings", "pages in every content and transfer coding, and in some that are none",
    {
        "/gzip.html": kept(_coded(_gzip(html("Página em gzip")), "gzip")),
        "/x-gzip.html": kept(_coded(_gzip(html("Página em x-gzip")), "X-GZip")),
        "/members.html": kept(_coded(_halves(html("Página em duas metades de gzip")), "gzip")),
        "/zlib.html": kept(_coded(zlib.compress(html("Página em deflate com zlib")), "deflate")),
        "/deflate.html": kept(_coded(_raw_deflate(html("Página em deflate cru")), "deflate")),
        "/br.html": kept(lazily(_brotli, headers="Content-Encoding: br\r\n", remember=True)),
        "/zstd.html": kept(lazily(_zstd, headers="Content-Encoding: zstd\r\n", remember=True)),
        "/twice.html": kept(_coded(_gzip(_gzip(html("Página em gzip dentro de gzip"))), "gzip, gzip")),
        "/identity.html": kept(_coded(html("Página como ela é"), "identity")),
        "/chunked.html": kept(raw(200, header("Transfer-Encoding: chunked") + chunked(html("Página em pedaços")))),
        "/chunked-gzip.html": kept(raw(200, header("Transfer-Encoding: chunked", "Content-Encoding: gzip")
                                       + chunked(_gzip(html("Página em pedaços de gzip"))))),
        "/cut.html": either(_coded(_gzip(html("Página cortada"))[:-60], "gzip"), 200, Status.INVALID_RESPONSE),
        "/label.html": either(_coded(html("Página que não está em gzip"), "gzip"), Status.INVALID_RESPONSE, 200),
        "/unknown.html": lost(_coded(html("Página em quê?"), "x-rede"), Status.INVALID_RESPONSE),
        "/many.html": lost(_coded(_gzip(b"nada"), ", ".join(["gzip"] * 1000)), Status.INVALID_RESPONSE),
    },
)  # fmt: skip

_BOMBS = {
    "/gzip.html": ("gzip", gzip_bomb),
    "/br.html": ("br", brotli_bomb),
    "/zstd.html": ("zstd", zstd_bomb),
    "/gzip-gzip.html": ("gzip, gzip", nested_gzip_bomb),
}
register_site(
    "bombs", "less than a megabyte that unpacks to more than a gigabyte, in four codings",
    {
        path: lost(lazily(make, headers=f"Content-Encoding: {coding}\r\n", remember=True), Status.TOO_LARGE)
        for path, (coding, make) in _BOMBS.items()
    },
)  # fmt: skip
