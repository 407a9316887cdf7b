"""Unpacks and decodes a large body piece by piece, up to a limit of bytes.

Promises: the text of a body, gzipped or not, in pieces of some 64 KB and never more than the caller's limit of unpacked
bytes. Any bytes give a text. The encoding is taken from the byte order mark, then the HTTP header, then the XML
declaration; else it is UTF-8, the default of XML and sitemaps.
Knows nothing of what the text means.
"""

import codecs
import re
import zlib
from collections.abc import Iterator

from tarrafa.parse.html.link_extractor import PYTHON_CODECS
from tarrafa.parse.text import charset

PIECE_BYTES = 65_536
GZIP_MEMBERS_MAX = 1_024

_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_xml_encoding = re.compile(rb"""\s{0,64}<\?xml[^>]{0,256}?\sencoding\s{0,8}=\s{0,8}["']([^"'>]{1,40})["']""").match


class TextStream:
    """The text of a body. After its pieces are read, `cut` tells whether the body was longer than the limit or
    incomplete.
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
            yield _decoded(decoder, piece)
        if decoder is not None:
            yield _decoded(decoder, b"", final=True)

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
        """All gzip members, one after the other. Bytes after the last member are ignored; a premature end sets
        `cut`.
        """
        at, members, data = 0, 1, b""
        unzip, begun = zlib.decompressobj(wbits=31), True
        while True:
            if not data:
                data = self._body[at : at + PIECE_BYTES]
                at += PIECE_BYTES
            try:
                piece = unzip.decompress(data, PIECE_BYTES)
            except zlib.error:
                self.cut = begun
                return
            if piece:
                yield piece
            elif not data:
                self.cut = begun
                return
            begun, data = True, unzip.unconsumed_tail
            if unzip.eof:
                unzip, begun, data = zlib.decompressobj(wbits=31), False, unzip.unused_data
                members += 1
                if members > GZIP_MEMBERS_MAX:
                    self.cut = True
                    return


def _encoding(head: bytes, content_type: str) -> tuple[str, bytes]:
    """The encoding's name and the byte order mark, if there is one."""
    for mark, name in _BYTE_ORDER_MARKS:
        if head.startswith(mark):
            return name, mark
    declared = charset.from_header(content_type)
    if declared is None:
        if head.startswith((b"<\x00?\x00", b"<\x00!\x00")):
            return "utf-16le", b""
        if head.startswith((b"\x00<\x00?", b"\x00<\x00!")):
            return "utf-16be", b""
        found = _xml_encoding(head)
        declared = charset.LABELS.get(found[1].decode("latin-1").strip().lower()) if found else None
        if declared in ("utf-16le", "utf-16be"):  # the declaration was read as ASCII, so it is not UTF-16
            declared = None
    return declared or charset.UTF_8, b""


def _decoder(name: str) -> codecs.IncrementalDecoder:
    try:
        return codecs.getincrementaldecoder(PYTHON_CODECS.get(name, name))("replace")
    except LookupError:
        return codecs.getincrementaldecoder(charset.UTF_8)("replace")


def _decoded(decoder: codecs.IncrementalDecoder, piece: bytes, final: bool = False) -> str:
    """The next piece as text. Python's ISO-2022-JP raises "pending buffer overflow" whatever the error handler."""
    try:
        return decoder.decode(piece, final)
    except UnicodeError:
        decoder.reset()
        return piece.decode(charset.UTF_8, "replace")
