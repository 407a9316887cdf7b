"""Reads the text of a sitemap or feed, gzipped or not, in pieces.

Promises: a byte order mark, the HTTP header and the XML declaration decide the encoding, in this order; an undeclared
body is UTF-8, the default of XML and sitemaps. Any bytes give a text; nothing raises. No more is unpacked than the
limit and one piece beyond it.
"""

import codecs
import re
import zlib
from collections.abc import Iterator

from tarrafa.parse.charset import BYTE_ORDER_MARKS, LABELS, PYTHON_CODECS, UTF_8, from_header
from tarrafa.parse.gzip_members import PIECE_BYTES, TooManyMembers, unzip

_GZIP = b"\x1f\x8b"

_xml_encoding = re.compile(rb"""\s{0,64}<\?xml[^>]{0,256}?\sencoding\s{0,8}=\s{0,8}["']([^"'>]{1,40})["']""").match


class TextStream:
    """The text of a large body, gzipped or not, in pieces and up to a limit of unpacked bytes. After the pieces are
    read, `cut` tells whether the body was longer than the limit or incomplete.
    """

    def __init__(self, body: bytes, content_type: str, bytes_max: int) -> None:
        self.cut = False
        self._body = body
        self._content_type = content_type
        self._bytes_max = bytes_max

    def pieces(self) -> Iterator[str]:
        decoder = None
        for piece in self._bounded():
            if decoder is None:
                name, mark = _encoding(piece, self._content_type)
                decoder = _decoder(name)
                piece = piece[len(mark) :]  # noqa: PLW2901
            yield _decode_piece(decoder, piece)
        if decoder is not None:
            yield _decode_piece(decoder, b"", final=True)

    def _bounded(self) -> Iterator[bytes]:
        body, left = self._body, self._bytes_max
        plain = (body[at : at + PIECE_BYTES] for at in range(0, len(body), PIECE_BYTES))
        for piece in self._unzipped() if body.startswith(_GZIP) else plain:
            yield piece[:left]
            left -= len(piece)
            if left < 0:
                self.cut = True
                return

    def _unzipped(self) -> Iterator[bytes]:
        try:
            yield from unzip(self._body)
        except (zlib.error, EOFError, TooManyMembers):
            self.cut = True


def _encoding(head: bytes, content_type: str) -> tuple[str, bytes]:
    """The encoding's name and the byte order mark, if there is one."""
    for mark, name in BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name, mark
    declared = from_header(content_type)
    if declared is None:
        if head.startswith((b"<\x00?\x00", b"<\x00!\x00")):
            return "utf-16le", b""
        if head.startswith((b"\x00<\x00?", b"\x00<\x00!")):
            return "utf-16be", b""
        found = _xml_encoding(head)
        declared = LABELS.get(found[1].decode("latin-1").strip().lower()) if found else None
        if declared in ("utf-16le", "utf-16be"):  # the declaration was read as ASCII, so it is not UTF-16
            declared = None
    return declared or UTF_8, b""


def _decoder(name: str) -> codecs.IncrementalDecoder:
    try:
        return codecs.getincrementaldecoder(PYTHON_CODECS.get(name, name))("replace")
    except LookupError:
        return codecs.getincrementaldecoder(UTF_8)("replace")


def _decode_piece(decoder: codecs.IncrementalDecoder, piece: bytes, final: bool = False) -> str:
    """The next piece as text. Python's ISO-2022-JP raises "pending buffer overflow" whatever the error handler."""
    try:
        return decoder.decode(piece, final)
    except UnicodeError:
        decoder.reset()
        return piece.decode(UTF_8, "replace")
