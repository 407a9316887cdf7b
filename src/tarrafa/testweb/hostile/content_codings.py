"""Hostile hosts with every content and transfer coding, unknown and truncated ones, and compression bombs.

Promises: every coding that browsers understand is a page to keep, whole or in several members. An unknown or truncated
coding costs one page. Bombs must be cut. The codings are sent whatever Accept-Encoding says.
Knows nothing of how bombs are built (`compression_bombs`).
"""

import gzip
import zlib

from tarrafa.model import Status
from tarrafa.testweb.hostile import compression_bombs
from tarrafa.testweb.hostile.response_builders import either, header, html, kept, lazily, lost, raw, register_site
from tarrafa.testweb.http.web_response import HTML, WebResponse

CHUNK = 100


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

register_site(
    "bombs",
    "less than a megabyte that unpacks to more than a gigabyte, in four codings",
    {
        "/gzip.html": lost(
            lazily(compression_bombs.gzip_bomb, headers="Content-Encoding: gzip\r\n", remember=True), Status.TOO_LARGE
        ),
        "/br.html": lost(
            lazily(compression_bombs.brotli_bomb, headers="Content-Encoding: br\r\n", remember=True), Status.TOO_LARGE
        ),
        "/zstd.html": lost(
            lazily(compression_bombs.zstd_bomb, headers="Content-Encoding: zstd\r\n", remember=True), Status.TOO_LARGE
        ),
        "/gzip-gzip.html": lost(
            lazily(compression_bombs.nested_gzip_bomb, headers="Content-Encoding: gzip, gzip\r\n", remember=True),
            Status.TOO_LARGE,
        ),
    },
)
