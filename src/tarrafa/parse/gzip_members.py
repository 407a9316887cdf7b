"""Unpacks gzip and zlib streams of one or more members, piece by piece.

Promises: time linear in input and output; what the caller does not take is not unpacked. Bytes after the last member
are ignored. Damage raises `zlib.error`, a premature end `EOFError`, too many members `TooManyMembers`, each after the
pieces before it.
"""

import zlib
from collections.abc import Iterator

GZIP = 31  # zlib's `wbits`
MEMBERS_MAX = 1_024  # a file that is compressed in blocks has a member for every 64 kB
PIECE_BYTES = 65_536


class TooManyMembers(ValueError):
    """The stream has more than MEMBERS_MAX members."""


def unzip(body: bytes, window: int = GZIP) -> Iterator[bytes]:
    at, members, data = 0, 1, b""
    stream, begun = zlib.decompressobj(wbits=window), True
    while True:
        if not data:
            data = body[at : at + PIECE_BYTES]
            at += PIECE_BYTES
        try:
            piece = stream.decompress(data, PIECE_BYTES)
        except zlib.error:
            if begun:
                raise
            return
        if piece:
            yield piece
        elif not data:
            if begun:
                raise EOFError
            return
        begun, data = True, stream.unconsumed_tail
        if stream.eof:
            stream, begun, data = zlib.decompressobj(wbits=window), False, stream.unused_data
            members += 1
            if members > MEMBERS_MAX and (data or at < len(body)):
                raise TooManyMembers
