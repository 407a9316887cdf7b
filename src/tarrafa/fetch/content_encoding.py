"""Decodes Content-Encoding and Transfer-Encoding (gzip, deflate, br, zstd, chunked) within a size limit.

`decode_body` undoes what the header of a response names.
Promises: for any bytes, at most the limit and one part beyond it is unpacked, in time linear in input and output: a
megabyte that unpacks to a gigabyte is cut at the caller's limit. A truncated stream gives the data before the cut, and
garbage after its end is ignored. Any other fault raises. Pure.
"""

import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain, repeat

import brotli
import zstandard

from tarrafa.fetch.http_message import ResponseHead
from tarrafa.i18n import Message, message
from tarrafa.parse.gzip_members import GZIP, MEMBERS_MAX, TooManyMembers, unzip

NO_CODING = frozenset({"", "identity", "none", "utf-8", "7bit", "8bit", "binary"})  # also seen in the header
CODINGS_MAX = 3  # applied one after the other; nobody needs two
ZSTD_WINDOW_MAX = 8 << 20  # RFC 9659: the window that a decoder must offer and a server may use
BROTLI_PIECE_BYTES = 4 << 10
PART_BYTES = 64 << 10
CHUNK_LINE_BYTES_MAX = 1 << 10
ERROR_CHARS_MAX = 100

_chunk_line = re.compile(rb"([0-9A-Fa-f]{1,16})[ \t]*(?:;[^\n]*)?\r?\n").match


class UndecodableBody(ValueError):
    """The body does not match its Content-Encoding or Transfer-Encoding."""

    def __init__(self, reason: Message) -> None:
        super().__init__(str(reason))
        self.reason = reason


class DecodedBodyTooLarge(ValueError):
    """The body unpacks to more than allowed."""


def decode_body(head: ResponseHead, raw: bytes, size_max: int, *, prefix: bool = False) -> bytes:
    """The body without its transfer and content encodings; at most `size_max` bytes.

    A larger body raises an error, or, with `prefix`, is cut there.
    """
    body, named = raw, [head.joined("content-encoding"), head.joined("transfer-encoding")]
    if any(named):
        content, transfer = ([coding.strip() for coding in text.lower().split(",")] for text in named)
        body = decode_chunked(raw) if "chunked" in transfer else raw
        codings = [coding for coding in content + transfer if coding not in NO_CODING and coding != "chunked"]
        body = decode(codings, body, size_max, prefix=prefix)
    if len(body) > size_max and not prefix:
        raise DecodedBodyTooLarge
    return body[:size_max]


def decode(codings: list[str], body: bytes, size_max: int, *, prefix: bool = False) -> bytes:
    """The body without its codings (HTTP names, in lower case), the last of which was applied last; at most `size_max`
    bytes.

    A larger body raises an error, or, with `prefix`, is cut there.
    """
    if len(codings) > CODINGS_MAX:
        raise UndecodableBody(
            message(
                "{count} content encodings one upon another; at most {limit} are undone",
                count=len(codings),
                limit=CODINGS_MAX,
            )
        )
    for coding in reversed(codings):
        unpack = DECODERS.get(coding)
        if unpack is None:
            raise UndecodableBody(message("unknown content encoding {name!r}", name=coding[:40]))
        body = unpack(body, size_max)
        if len(body) > size_max and not prefix:
            raise DecodedBodyTooLarge
        body = body[:size_max]
    return body


def decode_chunked(raw: bytes) -> bytes:
    """RFC 9112 §7.1. A bare line feed also ends a line; a length is nothing but hex digits."""
    parts: list[bytes] = []
    position = 0
    while position < len(raw):
        line = _chunk_line(raw, position, position + CHUNK_LINE_BYTES_MAX)
        if line is None:
            if parts and b"\n" not in raw[position:] and len(raw) - position < CHUNK_LINE_BYTES_MAX:
                break  # truncated within the line
            raise UndecodableBody(message("bad chunk length"))
        length = int(line[1], 16)
        if not length:  # trailer fields follow, or nothing
            return b"".join(parts)
        parts.append(raw[line.end() : line.end() + length])
        position = line.end() + length
        end = raw[position : position + 2]
        if end[:1] == b"\n":
            position += 1
        elif end == b"\r\n":
            position += 2
        elif end in {b"", b"\r"}:
            break
        else:
            raise UndecodableBody(message("a chunk goes on behind its length"))
    if not parts:
        raise UndecodableBody(message("no chunk length"))
    return b"".join(parts)


def _gunzip(data: bytes, size_max: int) -> bytes:
    return _inflated(data, size_max, GZIP)


def _undeflate(data: bytes, size_max: int) -> bytes:
    """zlib format by the standard, raw deflate in practice."""
    try:
        return _inflated(data, size_max, 15)
    except UndecodableBody:
        return _inflated(data, size_max, -15)


def _inflated(data: bytes, size_max: int, window: int) -> bytes:
    """All members of a gzip or zlib stream, to one piece beyond the limit."""
    parts: list[bytes] = []
    size = 0
    try:
        for part in unzip(data, window):
            parts.append(part)
            size += len(part)
            if size > size_max:
                break
    except EOFError:
        pass
    except TooManyMembers:
        raise UndecodableBody(message("more than {limit} compressed parts in one body", limit=MEMBERS_MAX)) from None
    except zlib.error as error:
        raise UndecodableBody(_broken("gzip" if window == GZIP else "deflate", error)) from None
    return b"".join(parts)


def _unbrotli(data: bytes, size_max: int) -> bytes:
    """One stream. The decoder drops its output for a piece with garbage: that piece is read byte by byte."""
    pieces = [data[start : start + BROTLI_PIECE_BYTES] for start in range(0, len(data), BROTLI_PIECE_BYTES)]
    untouched = iter(pieces)
    try:
        return _join_up_to(size_max, _brotli_parts(untouched))
    except brotli.error:
        last = len(pieces) - len(list(untouched)) - 1
    byte_by_byte = (pieces[last][place : place + 1] for place in range(len(pieces[last])))
    try:
        return _join_up_to(size_max, _brotli_parts(chain(pieces[:last], byte_by_byte)))
    except brotli.error as error:
        raise UndecodableBody(_broken("brotli", error)) from None


def _brotli_parts(pieces: Iterator[bytes]) -> Iterator[bytes]:
    unpacker = brotli.Decompressor()
    for piece in pieces:
        part = unpacker.process(piece, output_buffer_limit=PART_BYTES)
        while part or not unpacker.can_accept_more_data():
            yield part
            part = unpacker.process(b"", output_buffer_limit=PART_BYTES)
        if unpacker.is_finished():
            return


def _unzstd(data: bytes, size_max: int) -> bytes:
    """All frames, concatenated. Here, too, garbage swallows the part before it: that part is read byte by byte.

    (`read1` would stop at the end of a frame, but zstandard 0.25 never returns from it when the input is cut short.)
    """
    parts: list[bytes] = []
    try:
        _zstd_parts(data, repeat(PART_BYTES), size_max, parts)
    except _TrailingGarbage:
        sizes = chain(repeat(PART_BYTES, len(parts)), repeat(1))
        parts.clear()
        with suppress(_TrailingGarbage):
            _zstd_parts(data, sizes, size_max, parts)
        if not parts:
            raise UndecodableBody(message("no Zstandard data")) from None
    return b"".join(parts)


class _TrailingGarbage(Exception):
    """No frame begins where one should."""


def _zstd_parts(data: bytes, sizes: Iterator[int], size_max: int, parts: list[bytes]) -> None:
    """Read parts of these sizes until there are no more, or more than allowed."""
    reader = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX).stream_reader(data, read_across_frames=True)
    size = 0
    try:
        while size <= size_max and (part := reader.read(next(sizes))):
            parts.append(part)
            size += len(part)
    except zstandard.ZstdError as error:
        if "Unknown frame descriptor" in str(error):
            raise _TrailingGarbage from None
        raise UndecodableBody(_broken("Zstandard", error)) from None


def _broken(name: str, error: Exception) -> Message:
    """`error` is the text of the decoder."""
    return message("damaged {format} data ({error})", format=name, error=str(error)[:ERROR_CHARS_MAX])


def _join_up_to(size_max: int, parts: Iterator[bytes]) -> bytes:
    """Join the parts until they are more than allowed."""
    taken: list[bytes] = []
    size = 0
    for part in parts:
        taken.append(part)
        size += len(part)
        if size > size_max:
            break
    return b"".join(taken)


DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}
