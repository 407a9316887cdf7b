"""Unpacks a ZIP archive of XML parts (OOXML, ODF) within limits and parses its parts with expat.

Promises: a part is unpacked and parsed in small pieces, so a decompression bomb costs no more than the limits in
`document` allow, whatever its headers claim. No DTD, no entities, no recursion, no file outside the archive.
Knows nothing of what the parts mean.

Python's zipfile needs a file object and reads the whole directory before its length can be checked. This module reads
the directory itself, so that the directory is bounded too.
"""

import struct
import zlib
from collections.abc import Iterator
from typing import Protocol
from xml.parsers import expat

from tarrafa.i18n import message
from tarrafa.parse.documents import document as limits
from tarrafa.parse.documents.document import DAMAGED, DETAIL_CHARS_MAX, ENCRYPTED, LimitReached, UnreadableDocument

END_BYTES_MAX = 22 + 0xFFFF  # the end record and the longest comment behind it
END_64_LOCATOR_BYTES = 20
PIECE_BYTES = 1 << 15
IN_ZIP64_FIELD = 0xFFFFFFFF  # the value is in the ZIP64 field

_end = struct.Struct("<4s4H2IH")
_end_64 = struct.Struct("<4sQ2H2I4Q")
_entry = struct.Struct("<4s6H3I5H2I")
_STORED, _DEFLATED = 0, 8
_SKIP = "<"  # marks an element that is left out; no element has this name
_ENCODINGS = frozenset({"utf-8", "utf-16", "us-ascii", "iso-8859-1"})


class XmlPartHandler(Protocol):
    """Receives the events of one XML part in order: elements listed in `handled`, by local name, and all text except
    that inside `skipped` elements. By default events are ignored.
    """

    handled: frozenset[str]
    skipped: frozenset[str] = frozenset()

    def start(self, name: str, attributes: dict[str, str]) -> None: ...

    def end(self, name: str) -> None:
        return

    def text(self, text: str) -> None:
        return


class ZipXmlPackage:
    """A ZIP archive. Member names are compared without case, as OPC (ECMA-376 part 2) requires."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._unpacked = 0
        self._elements_left = limits.XML_ELEMENTS_MAX
        self._members = dict(_directory(body))  # name: flags, method, packed size, offset

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._members

    def first_bytes(self, name: str) -> bytes:
        """The first bytes of a member; empty if there is no member of this name."""
        return next(self._pieces(name), b"") if name in self else b""

    def parse_part_leniently(self, name: str, handler: XmlPartHandler) -> None:
        """Like `parse_part`, for an optional part: a damaged part gives the events before the damage."""
        try:
            self.parse_part(name, handler)
        except UnreadableDocument as error:
            if error.reason != DAMAGED:
                raise

    def parse_part(self, name: str, handler: XmlPartHandler) -> None:
        """Send the events of a part to `handler`. An absent part sends none; a damaged part is refused."""
        if name not in self:
            return
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.XmlDeclHandler = _refuse_encodings
        parser.StartDoctypeDeclHandler = _refuse_dtd
        steps = _XmlDispatcher(self._elements_left, handler)
        parser.StartElementHandler = steps.start
        parser.EndElementHandler = steps.end
        parser.CharacterDataHandler = steps.text
        try:
            fed = 0
            for piece in self._pieces(name):
                parser.Parse(piece, False)
                fed += len(piece)
                if (
                    fed - parser.CurrentByteIndex > limits.XML_TOKEN_BYTES_MAX
                    or len(parser.intern) > limits.XML_NAMES_MAX
                ):
                    raise LimitReached
            parser.Parse(b"", True)
        except expat.ExpatError as error:
            raise UnreadableDocument(DAMAGED, f"{name}: {error}"[:DETAIL_CHARS_MAX]) from None
        finally:
            self._elements_left = steps.left

    def properties(self, part: str) -> tuple[str, str]:
        """Title and language."""
        properties = _CoreProperties()
        self.parse_part_leniently(part, properties)
        return properties.values["title"], properties.values["language"]

    def _pieces(self, name: str) -> Iterator[bytes]:
        """Unpack a member piece by piece, never more than one piece at a time."""
        flags, method, size, start = self._members[name.lower()]
        if flags & 1:
            raise UnreadableDocument(ENCRYPTED)
        if method not in (_STORED, _DEFLATED):
            raise UnreadableDocument(
                DAMAGED, message("{name}: packed by method {method}", name=name[:DETAIL_CHARS_MAX], method=method)
            )
        own = 0
        for piece in _stored(self._body, start, size) if method == _STORED else _inflated(self._body, start, size):
            own += len(piece)
            self._unpacked += len(piece)
            if own > limits.PACKAGE_MEMBER_BYTES_MAX or self._unpacked > limits.PACKAGE_BYTES_MAX:
                raise LimitReached
            yield piece


class _XmlDispatcher:
    """Counts elements, removes prefixes, and drops the elements and text that the handler does not want."""

    def __init__(self, elements_left: int, handler: XmlPartHandler) -> None:
        self.left = elements_left
        self._handler = handler
        self._names: dict[str, str] = {}  # qualified name: local name, or empty if the handler does not handle it
        self._depth = 0
        self._silent_from = 0  # depth of the element that is left out; 0: none

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.left -= 1
        self._depth += 1
        if self.left < 0 or self._depth > limits.XML_DEPTH_MAX:
            raise LimitReached
        if self._silent_from:
            return
        local = self._names.get(name)
        if local is None:
            local = self._name(name)
        if local == _SKIP:
            self._silent_from = self._depth
        elif local:
            self._handler.start(local, attributes)

    def _name(self, name: str) -> str:
        local = name.rpartition(":")[2]
        if local in self._handler.skipped:
            local = _SKIP
        elif local not in self._handler.handled:
            local = ""
        self._names[name] = local
        return local

    def end(self, name: str) -> None:
        if self._silent_from:
            if self._silent_from == self._depth:
                self._silent_from = 0
        elif local := self._names[name]:
            self._handler.end(local)
        self._depth -= 1

    def text(self, text: str) -> None:
        if not self._silent_from:
            self._handler.text(text)


class _CoreProperties(XmlPartHandler):
    """Reads the Dublin Core properties in docProps/core.xml of OOXML and in meta.xml of ODF."""

    handled = frozenset({"title", "language"})

    def __init__(self) -> None:
        self.values = dict.fromkeys(self.handled, "")
        self._name = ""

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self._name = name

    def end(self, name: str) -> None:
        self._name = ""

    def text(self, text: str) -> None:
        if self._name:
            self.values[self._name] = (self.values[self._name] + text)[: limits.PROPERTY_LENGTH_MAX]


def attribute_value(attributes: dict[str, str], name: str) -> str:
    """The value of an attribute, whatever its prefix."""
    return next((value for key, value in attributes.items() if key.rpartition(":")[2] == name), "")


def _refuse_encodings(_version: str, encoding: str | None, _standalone: int) -> None:
    """Refuse encodings that expat does not know: Python would look up a codec by a name that the document chose."""
    if encoding is not None and encoding.lower() not in _ENCODINGS:
        raise UnreadableDocument(DAMAGED, message("its XML is neither UTF-8 nor UTF-16"))


def _refuse_dtd(*_: object) -> None:
    raise UnreadableDocument(DAMAGED, message("a DTD, which no office document may have"))


def _directory(body: bytes) -> Iterator[tuple[str, tuple[int, int, int, int]]]:
    """The entries of the central directory. Bytes before the archive shift the offsets in its end record."""
    at = body.rfind(b"PK\x05\x06", max(0, len(body) - END_BYTES_MAX))
    if at < 0 or at + _end.size > len(body):
        raise UnreadableDocument(DAMAGED, message("no ZIP archive, or its end is missing"))
    size, start = _end.unpack_from(body, at)[5:7]
    if body.startswith(b"PK\x06\x07", max(0, at - END_64_LOCATOR_BYTES)):
        at = body.rfind(b"PK\x06\x06", 0, at)
        if at < 0 or at + _end_64.size > len(body):
            raise UnreadableDocument(DAMAGED, message("its directory is nowhere"))
        size, start = _end_64.unpack_from(body, at)[8:10]
    shift = at - size - start
    place, count = start + shift, 0
    if place < 0:
        raise UnreadableDocument(DAMAGED, message("its directory is nowhere"))
    while place + _entry.size <= at and body.startswith(b"PK\x01\x02", place):
        fields = _entry.unpack_from(body, place)
        flags, method, packed, unpacked, offset = fields[3], fields[4], fields[8], fields[9], fields[16]
        name_length, extra_length, comment_length = fields[10:13]
        name_at = place + _entry.size
        place = name_at + name_length + extra_length + comment_length
        if IN_ZIP64_FIELD in (packed, offset):
            extra = body[name_at + name_length : name_at + name_length + extra_length]
            packed, offset = _from_zip64(extra, packed, unpacked, offset)
        count += 1
        if count > limits.PACKAGE_MEMBERS_MAX:
            raise LimitReached
        name = body[name_at : name_at + name_length].decode("utf-8", "replace")
        yield name.replace("\\", "/").lstrip("/").lower(), (flags, method, packed, offset + shift)


def _from_zip64(extra: bytes, packed: int, unpacked: int, offset: int) -> tuple[int, int]:
    """APPNOTE 4.5.3: 64-bit values, in this order, for the fields that are all ones."""
    at = 0
    while at + 4 <= len(extra):
        kind, size = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            values = iter(
                struct.unpack(f"<{size // 8}Q", extra[at + 4 : at + 4 + size // 8 * 8].ljust(size // 8 * 8, b"\0"))
            )
            if unpacked == IN_ZIP64_FIELD:
                next(values, 0)
            if packed == IN_ZIP64_FIELD:
                packed = next(values, packed)
            return packed, next(values, offset) if offset == IN_ZIP64_FIELD else offset
        at += 4 + size
    return packed, offset


def _data(body: bytes, start: int, size: int) -> tuple[int, int]:
    """The start and end of a member's bytes, after its local header."""
    if start < 0 or not body.startswith(b"PK\x03\x04", start) or start + 30 > len(body):
        raise UnreadableDocument(DAMAGED, message("a part is not where the directory says"))
    name_length, extra_length = struct.unpack_from("<2H", body, start + 26)
    begin = start + 30 + name_length + extra_length
    return begin, min(begin + size, len(body))


def _stored(body: bytes, start: int, size: int) -> Iterator[bytes]:
    begin, end = _data(body, start, size)
    for at in range(begin, end, PIECE_BYTES):
        yield body[at : min(at + PIECE_BYTES, end)]


def _inflated(body: bytes, start: int, size: int) -> Iterator[bytes]:
    begin, end = _data(body, start, size)
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        for at in range(begin, end, PIECE_BYTES):
            packed = body[at : min(at + PIECE_BYTES, end)]
            while packed and not inflater.eof:
                yield inflater.decompress(packed, PIECE_BYTES)
                packed = inflater.unconsumed_tail
        yield inflater.flush()  # at most the output of the last few bits
    except zlib.error:
        raise UnreadableDocument(DAMAGED, message("a part does not unpack")) from None
    if not inflater.eof:
        raise UnreadableDocument(DAMAGED, message("a part is cut"))
