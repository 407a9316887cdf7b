"""Reads anybody's WARC and ARC files: WARC 0.17 to 1.1, ARC 1 and 2; plain, gzip or zstd, per record or per file.

Our own files have a stricter reader (`warc_reader`), which refuses what it does not expect. Here the Web's archives are
read as they are: header names in any case, folded lines, bare line feeds, absent digests, padding.
Promises: any bytes give records and `Damage`, each with the offset of its gzip member or zstd frame (in a plain file:
of the record) and never an exception; after damage, reading continues at the next record that can be recognized.
Memory is bounded by the content that the caller wants, time by the size of the file: a member that unpacks to
implausibly much is damage. What is read at an address is what was found there.
Knows nothing of HTTP, collections or our own archive.
"""

import base64
import contextlib
import hashlib
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import zstandard
from isal import igzip_lib

from tarrafa.archive.warc_reader import IGZIP_ERROR

HEADER_BYTES_MAX = 64 << 10  # of one record
FIELDS_MAX = 200  # header fields of one record
LENGTH_DIGITS_MAX = 15
RAW_BYTES, PIECE_BYTES = 64 << 10, 256 << 10  # read at once, unpacked at once
FIRST_RAW_BYTES = 4 << 10  # of a member: what a short one leaves over is copied
ZSTD_RAW_BYTES = 1 << 10  # unpacks to 32 MB at most: the library gives all that the input holds
ZSTD_WINDOW_MAX = 128 << 20
DICTIONARY_BYTES_MAX = 16 << 20
BOMB_BYTES_MIN, BOMB_RATIO = 256 << 20, 400  # a member that unpacks to so much, and so densely, is damage
CANDIDATES_MAX = 100_000  # places that are tried in one file, to find the next member behind damage
DAMAGES_MAX = 10_000  # in one file; then the rest is skipped
BLANK_BYTES = 1 << 10
PADDING = b"\r\n \t\0"  # between records
OVERLAP_BYTES = 4 << 10  # of two windows in which the next record is searched
FILEDESC = "filedesc"  # kind of the first record of an ARC file
ARC_CAPTURE = "response"  # kind of all others

GZIP_MAGIC, ZSTD_MAGIC, ZIP_MAGIC = b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04"
DICTIONARY_MAGIC = b"\x5d\x2a\x4d\x18"  # of the skippable frame that holds a dictionary (IIPC, WARC with zstd)
SKIPPABLE_HEAD = bytes(8)  # magic number and length of a skippable frame
SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18", re.DOTALL)

_warc_version = re.compile(rb"WARC/\d{1,2}\.\d{1,3}[ \t]*\r?\n", re.IGNORECASE).match
_header_end = re.compile(rb"\r?\n\r?\n").search
_fold = re.compile(rb"\r?\n[ \t]+")
_arc_line = re.compile(
    rb"(?P<url>[A-Za-z][A-Za-z0-9+.-]{1,20}:[^\n]{0,8000}?) (?P<ip>[0-9A-Fa-f.:]{2,45}|-) (?P<date>\d{12,17}|-|0)"
    rb" (?P<rest>[^\n]{0,2000}) (?P<length>\d{1,15}|-)\r?\n"
)
_next_record = re.compile(
    rb"WARC/\d{1,2}\.\d{1,3}[ \t]*\r?\n[A-Za-z][A-Za-z-]*[ \t]*:"
    rb"|(?<=\n)(?:https?|dns|ftp|filedesc)://?[^\s]{1,2000} [0-9.]{7,15} \d{14} [^\n]{1,300} \d{1,12}\r?\n"
)
_begins_record = re.compile(
    rb"[\r\n]*(?:WARC/\d|[A-Za-z][A-Za-z0-9+.-]{1,20}:\S{0,400} [0-9A-Fa-f.:]{2,45} \d{12,17} )"
).match


class Damage(NamedTuple):
    """What could not be read, and where."""

    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class ArchiveSource:
    """A WARC or ARC file, or the part of a file that holds one (in a WACZ). `name` is for people."""

    path: Path
    name: str
    start: int = 0
    length: int = -1  # -1: to the end of the file

    def open(self) -> "SourceBytes":
        return SourceBytes(self)

    def size(self) -> int:
        return self.path.stat().st_size - self.start if self.length < 0 else self.length


class SourceBytes:
    """The open bytes of a source; offsets count from its beginning."""

    def __init__(self, source: ArchiveSource) -> None:
        self._file: IO[bytes] = source.path.open("rb", buffering=0)
        self._start, self.end = source.start, source.size()

    def read(self, offset: int, count: int) -> bytes:
        """Up to so many bytes; fewer at the end only."""
        count = min(count, self.end - offset)
        if count <= 0:
            return b""
        self._file.seek(self._start + offset)
        parts, missing = list[bytes](), count
        while missing > 0 and (part := self._file.read(missing)):
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    def close(self) -> None:
        self._file.close()


class ForeignRecord(NamedTuple):
    """A record as its writer wrote it. `content` is the beginning of its block, as much as the caller wanted.

    `offset` and `skip` are its address: the member that it begins in, and where in the unpacked member.
    """

    offset: int
    skip: int
    kind: str
    fields: dict[str, str]  # of the WARC header, names in lower case, the first of each name
    size: int  # of the whole block
    content: bytes
    is_arc: bool = False
    concurrent: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return self.fields.get("warc-target-uri", "").strip("<> \t")

    @property
    def is_whole(self) -> bool:
        return len(self.content) == self.size


# -- unpacking ---------------------------------------------------------------------------------------------------------


class _DamagedMember(Exception):
    """A gzip member or zstd frame that cannot be unpacked, at an offset."""

    def __init__(self, offset: int, reason: str) -> None:
        super().__init__(reason)
        self.offset, self.reason = offset, reason


class _NextMember(Exception):
    """Another record begins, in a member of its own, where content of the present one was expected."""

    def __init__(self, offset: int) -> None:
        super().__init__()
        self.offset = offset


class _Unpacker(Protocol):
    eof: bool

    def unpack(self, data: bytes) -> bytes: ...
    @property
    def wants_input(self) -> bool: ...
    @property
    def unused(self) -> bytes: ...


class _Gunzip:
    raw_bytes = RAW_BYTES

    def __init__(self) -> None:
        self._inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)

    def unpack(self, data: bytes) -> bytes:
        return self._inflater.decompress(data, PIECE_BYTES)

    @property
    def eof(self) -> bool:
        return self._inflater.eof

    @property
    def wants_input(self) -> bool:
        return self._inflater.needs_input

    @property
    def unused(self) -> bytes:
        return self._inflater.unused_data


class _Unzstd:
    raw_bytes = ZSTD_RAW_BYTES
    wants_input = True

    def __init__(self, dictionary: zstandard.ZstdCompressionDict | None) -> None:
        self._object = zstandard.ZstdDecompressor(dict_data=dictionary, max_window_size=ZSTD_WINDOW_MAX).decompressobj()

    def unpack(self, data: bytes) -> bytes:
        return bytes(self._object.decompress(data))

    @property
    def eof(self) -> bool:
        return bool(self._object.eof)

    @property
    def unused(self) -> bytes:
        return bytes(self._object.unused_data)


PACK_ERRORS = (IGZIP_ERROR, zlib.error, zstandard.ZstdError, MemoryError, OverflowError, EOFError)


class _Stream:
    """The unpacked bytes of a source from the beginning of one of its members on."""

    def __init__(self, reader: "RecordReader", offset: int) -> None:
        self._reader, self._source, self._form = reader, reader.bytes, reader.form
        self._raw_at = offset  # of the next raw byte that is not at hand
        self._raw, self._raw_pos = b"", 0  # raw bytes at hand, and how many of them were used
        self._unpacker: _Gunzip | _Unzstd | None = None
        self._member = (offset, 0)  # where the present member begins: raw and unpacked
        self._member_raw = 0
        self._data, self._at, self._base = b"", 0, 0  # unpacked bytes at hand; where we are; place of the first
        self._marks: list[tuple[int, int]] = [(0, offset)] if self._form == "plain" else []
        self._ended = False
        self.failure: _DamagedMember | None = None
        self.guards = False  # whether another record may not begin in a new member now

    @property
    def place(self) -> int:
        return self._base + self._at

    def address(self) -> tuple[int, int]:
        """The member at the present place, and how far behind its beginning that is."""
        place = self.place
        while len(self._marks) > 1 and self._marks[1][0] <= place:
            self._marks.pop(0)
        begun, offset = self._marks[0] if self._marks else (place, self._member[0])
        return (offset + place - begun, 0) if self._form == "plain" else (offset, place - begun)

    def peek(self, count: int) -> bytes:
        """So many bytes from here, fewer at the end or before damage, which is then in `failure`: what is before it is
        whole."""
        if len(self._data) - self._at < count:
            parts = [self._data[self._at :]]
            have = len(parts[0])
            self._base, self._data, self._at = self._base + self._at, parts[0], 0
            try:
                while have < count and (piece := self._next_piece(have)) is not None:
                    parts.append(piece)
                    have += len(piece)
            except _DamagedMember as error:
                self.failure, self._ended = error, True
            finally:
                self._data = b"".join(parts)
        return self._data[self._at : self._at + count]

    def take(self, count: int) -> bytes:
        found = self.peek(count)
        self._at += len(found)
        return found

    def skip(self, count: int) -> int:
        """Step over so many bytes; returns how many there were."""
        left = count
        while left > 0:
            here = len(self._data) - self._at
            if here <= 0:
                if not self.peek(min(left, PIECE_BYTES)):
                    break
                continue
            step = min(left, here)
            self._at += step
            left -= step
        return count - left

    def check_failure(self) -> None:
        """Raise the damage that ended the bytes."""
        if self.failure is not None:
            raise self.failure

    def check_members(self, size: int) -> None:
        """Raise `_NextMember` if a record begins in a member within the next bytes, as far as they are at hand."""
        for begun, offset in self._marks:
            at = begun - self._base
            if self._at < at < min(self._at + size, len(self._data)) and _begins_record(self._data[at : at + 1000]):
                raise _NextMember(offset)

    def _next_piece(self, have: int) -> bytes | None:
        """The next unpacked bytes, or None at the end; `have` are at hand already."""
        if self._form == "plain":
            piece = self._source.read(self._raw_at, PIECE_BYTES)
            self._raw_at += len(piece)
            return piece or None
        while not self._ended:
            piece = self._unpack(self._base + have)
            if piece:
                return piece
        return None

    def _unpack(self, place: int) -> bytes:
        begins = self._unpacker is None
        if begins and not self._begin_member(place):
            self._ended = True
            return b""
        unpacker, (offset, begun) = self._unpacker, self._member
        assert unpacker is not None
        data = b""
        if unpacker.wants_input:
            if self._raw_pos == len(self._raw):
                self._read_raw()
            count = FIRST_RAW_BYTES if begins else unpacker.raw_bytes
            data = self._raw[self._raw_pos : self._raw_pos + min(count, unpacker.raw_bytes)]
            if not data:
                raise _DamagedMember(offset, "it has no end: the file is cut off")
            self._raw_pos += len(data)
            self._member_raw += len(data)
        try:
            piece = unpacker.unpack(data)
        except PACK_ERRORS as error:
            raise _DamagedMember(offset, f"it cannot be unpacked ({str(error)[:80]})") from None
        unpacked = place + len(piece) - begun
        if unpacked > BOMB_BYTES_MIN and unpacked > BOMB_RATIO * self._member_raw:
            raise _DamagedMember(offset, "it unpacks to implausibly much")
        if unpacker.eof:
            self._raw_pos -= len(unpacker.unused)
            self._unpacker = None
        if begins and self.guards and _begins_record(piece[:1000]):
            raise _NextMember(offset)
        return piece

    def _begin_member(self, place: int) -> bool:
        """Begin the next member; False: there are no more."""
        while True:
            if len(self._raw) - self._raw_pos < len(SKIPPABLE_HEAD):
                self._read_raw()
            head = self._raw[self._raw_pos : self._raw_pos + len(SKIPPABLE_HEAD)]
            offset = self._raw_at - (len(self._raw) - self._raw_pos)
            if not head.strip(b"\0"):  # nothing, or the padding of a tape
                if not head:
                    return False
                rest = self._raw[self._raw_pos :]
                self._raw_pos += len(rest) - len(rest.lstrip(b"\0"))
                continue
            if self._form == "zstd" and SKIPPABLE.match(head):
                size = int.from_bytes(head[4:], "little")
                self._raw_at, self._raw, self._raw_pos = offset + len(SKIPPABLE_HEAD) + size, b"", 0
                continue
            if not head.startswith(GZIP_MAGIC if self._form == "gzip" else ZSTD_MAGIC):
                raise _DamagedMember(offset, "no compressed data begin here")
            self._unpacker = self._reader.unpacker()
            self._member, self._member_raw = (offset, place), 0
            self._marks.append((place, offset))
            return True

    def _read_raw(self) -> None:
        more = self._source.read(self._raw_at, RAW_BYTES)
        self._raw_at += len(more)
        self._raw, self._raw_pos = self._raw[self._raw_pos :] + more, 0


# -- records -----------------------------------------------------------------------------------------------------------


class RecordReader:
    """Reads one source. `content_max`: so much of each record's block is returned."""

    def __init__(self, source: ArchiveSource, content_max: int) -> None:
        self.bytes, self._content_max = source.open(), content_max
        self._dictionary: zstandard.ZstdCompressionDict | None = None
        self._begin_damage: Damage | None = None
        self.form = self._detect_form()
        self._stream = _Stream(self, 0)
        self._candidates = self._damages = 0
        self._given_up_at: int | None = None  # behind so much damage that no next member is searched
        self.unpack_damage: Damage | None = None

    def close(self) -> None:
        self.bytes.close()

    def unpacker(self) -> _Gunzip | _Unzstd:
        return _Gunzip() if self.form == "gzip" else _Unzstd(self._dictionary)

    def _detect_form(self) -> str:
        start = self.bytes.read(0, 8)
        if start.startswith(GZIP_MAGIC):
            return "gzip"
        if start.startswith(DICTIONARY_MAGIC):
            self._load_dictionary(int.from_bytes(start[4:8], "little"))
            return "zstd"
        return "zstd" if start.startswith(ZSTD_MAGIC) or SKIPPABLE.match(start) else "plain"

    def _load_dictionary(self, size: int) -> None:
        content = self.bytes.read(8, min(size, DICTIONARY_BYTES_MAX))
        try:
            if content.startswith(ZSTD_MAGIC):
                unpacked = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_MAX)
                with unpacked.stream_reader(content) as stream:
                    content = stream.read(DICTIONARY_BYTES_MAX)
            self._dictionary = zstandard.ZstdCompressionDict(content)
        except PACK_ERRORS as error:
            self._begin_damage = Damage(0, f"its dictionary cannot be read ({str(error)[:80]})")

    def read_at(self, offset: int, skip: int) -> ForeignRecord | Damage:
        """The record at an address that an earlier reading gave."""
        try:
            if self._stream.address() != (offset, skip) or self._stream.place == 0:
                self._stream = _Stream(self, offset)
                self._stream.skip(skip)
        except (_DamagedMember, _NextMember):
            self._stream = _Stream(self, offset)
        for item in self._next():
            return item
        return Damage(offset, "no record is here any more")

    def position(self) -> int:
        """How much of the source was read, for a progress bar."""
        return self._stream.address()[0]

    def unpacked(self) -> Iterator[bytes]:
        """All unpacked bytes, up to the first damage of their compression, which is then in `unpack_damage`."""
        try:
            while piece := self._stream.take(PIECE_BYTES):
                yield piece
            self._stream.check_failure()
        except _DamagedMember as error:
            self.unpack_damage = Damage(error.offset, error.reason)

    def records(self) -> Iterator[ForeignRecord | Damage]:
        """All records from the beginning, with the damage between them."""
        if self._begin_damage is not None:
            yield self._begin_damage
        while True:
            is_over = True
            for item in self._next():
                is_over = False
                yield item
                if isinstance(item, Damage):
                    self._damages += 1
            if self._damages > DAMAGES_MAX or self._given_up_at is not None:
                at = self.position() if self._given_up_at is None else self._given_up_at
                yield Damage(at, "too much damage: the rest of the file is skipped")
                return
            if is_over:
                return

    def _next(self) -> Iterator[ForeignRecord | Damage]:
        """The next record, or damage; the stream is then behind it. Nothing at the end."""
        stream = self._stream
        stream.guards, address = False, stream.address()
        try:
            while blank := len(start := stream.peek(BLANK_BYTES)) - len(start.lstrip(PADDING)):
                stream.skip(blank)
            if not start:
                stream.check_failure()
                return
            address = stream.address()
            found = self._parse_head()
            if isinstance(found, Damage):
                yield found
                self._resynchronize()
                return
            yield self._with_content(found, address)
        except _NextMember as error:
            yield Damage(address[0], "its Content-Length leads into the next record")
            self._stream = _Stream(self, error.offset)
        except _DamagedMember as error:
            yield Damage(error.offset, error.reason)
            self._resume_at_member(error.offset + 1)

    def _with_content(self, head: ForeignRecord, address: tuple[int, int]) -> ForeignRecord | Damage:
        stream = self._stream
        if self.form == "plain" and (there := self.bytes.end - stream.address()[0]) < head.size:
            self._resynchronize()  # records behind a wrong length are found again
            return Damage(address[0], f"it is cut off: {max(0, there)} of {head.size} bytes")
        stream.guards = address[1] == 0 and self.form != "plain"
        if stream.guards:
            stream.check_members(head.size)
        content = stream.take(min(head.size, self._content_max))
        there = len(content) + stream.skip(head.size - len(content))
        stream.guards = False
        if there == head.size:
            return head._replace(content=content)
        stream.check_failure()
        return Damage(address[0], f"it is cut off: {there} of {head.size} bytes")

    def _parse_head(self) -> ForeignRecord | Damage:
        stream, address = self._stream, self._stream.address()
        block = stream.peek(4 << 10)
        if not _warc_version(block):
            return self._parse_arc_line(stream.peek(HEADER_BYTES_MAX), address)
        end = _header_end(block) or _header_end(block := stream.peek(HEADER_BYTES_MAX))
        if end is None:
            stream.check_failure()
            stream.skip(HEADER_BYTES_MAX // 2)  # no header ends there
            return Damage(address[0], "its header has no end")
        fields, concurrent = _parse_fields(block[: end.start()])
        stream.skip(end.end())
        length = fields.get("content-length", "")
        if not (length.isascii() and length.isdigit() and len(length) <= LENGTH_DIGITS_MAX):
            return Damage(address[0], "its header has no Content-Length")
        kind = fields.get("warc-type", "").lower()
        return ForeignRecord(*address, kind, fields, int(length), b"", concurrent=concurrent)

    def _parse_arc_line(self, block: bytes, address: tuple[int, int]) -> ForeignRecord | Damage:
        """The first line of an ARC record: URL, address, date, type and length, in version 2 with more in between."""
        found = _arc_line.match(block)
        if found is None:
            if b"\n" not in block:
                self._stream.check_failure()
            self._stream.skip(1)
            return Damage(address[0], "no WARC or ARC record begins here")
        self._stream.skip(found.end())
        if found["length"] == b"-":
            return Damage(address[0], "its header has no length")
        text = {name: str(value, "utf-8", "replace") for name, value in found.groupdict(b"").items()}
        rest = text["rest"].split(" ")  # version 1: the type; version 2: type, code, checksum, place, offset, file
        kind = " ".join(rest) if len(rest) < 6 else rest[0]
        fields = {
            "warc-target-uri": text["url"], "warc-date": text["date"], "warc-ip-address": text["ip"],
            "content-type": "" if kind in {"-", "no-type"} else kind,
        }  # fmt: skip
        is_first = text["url"].startswith("filedesc:")
        return ForeignRecord(*address, FILEDESC if is_first else ARC_CAPTURE, fields, int(text["length"]), b"", True)

    # -- behind damage ---------------------------------------------------------------------------------------------

    def _resynchronize(self) -> None:
        """Go to the next place in the unpacked bytes where a record begins."""
        stream = self._stream
        while window := stream.peek(PIECE_BYTES):
            found = _next_record.search(window)
            if found is not None:
                stream.skip(found.start())
                return
            if len(window) < PIECE_BYTES:
                stream.check_failure()
            step = max(1, len(window) - OVERLAP_BYTES) if len(window) == PIECE_BYTES else len(window)
            stream.skip(step)

    def _resume_at_member(self, offset: int) -> None:
        """Go to the next member from an offset on whose content begins like a record; else to the end."""
        magic = ZSTD_MAGIC if self.form == "zstd" else GZIP_MAGIC
        while (window := self.bytes.read(offset, PIECE_BYTES)) and self._candidates < CANDIDATES_MAX:
            place = window.find(magic)
            while place >= 0 and self._candidates < CANDIDATES_MAX:
                self._candidates += 1
                if _begins_record(self._try_unpack(offset + place)):
                    self._stream = _Stream(self, offset + place)
                    return
                place = window.find(magic, place + 1)
            offset += max(1, len(window) - len(magic) + 1)
        self._given_up_at = offset if window else None
        self._stream = _Stream(self, self.bytes.end)

    def _try_unpack(self, offset: int) -> bytes:
        with contextlib.suppress(*PACK_ERRORS):
            if self.form == "zstd":
                return self.unpacker().unpack(self.bytes.read(offset, ZSTD_RAW_BYTES))
            return igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP).decompress(self.bytes.read(offset, 4 << 10), 1000)
        return b""


def _parse_fields(block: bytes) -> tuple[dict[str, str], tuple[str, ...]]:
    """Header fields, folded lines joined; and all values of WARC-Concurrent-To, which may be repeated."""
    fields, concurrent = dict[str, str](), list[str]()
    for line in _fold.sub(b" ", block).split(b"\n")[1 : FIELDS_MAX + 1]:
        name, colon, value = line.partition(b":")
        if not colon:
            continue
        key, text = str(name, "latin-1").strip().lower(), _decode(value.strip())
        fields.setdefault(key, text)
        if key == "warc-concurrent-to":
            concurrent.append(text)
    return fields, tuple(concurrent)


def _decode(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


# -- digests -----------------------------------------------------------------------------------------------------------

_HEX = re.compile(r"[0-9a-fA-F]+")
ALGORITHMS = {"sha1": 20, "sha-1": 20, "md5": 16, "sha256": 32, "sha-256": 32, "sha512": 64, "sha-512": 64}


def digest_matches(stated: str, content: bytes) -> bool | None:
    """Whether a digest of a WARC header, in base 32, base 64 or hexadecimal digits, is that of the content; None: the
    algorithm or its notation is unknown."""
    name, _, value = stated.strip().partition(":")
    size = ALGORITHMS.get(name.lower())
    if size is None:
        return None
    wanted = _decode_digest(value.strip(), size)
    if wanted is None:
        return None
    return hashlib.new(name.lower().replace("-", ""), content, usedforsecurity=False).digest() == wanted


def _decode_digest(value: str, size: int) -> bytes | None:
    with contextlib.suppress(ValueError):
        if len(value) == 2 * size and _HEX.fullmatch(value):
            return bytes.fromhex(value)
        for decode, group in ((base64.b32decode, 8), (base64.urlsafe_b64decode, 4)):
            text = value.rstrip("=").upper() if group == 8 else value.rstrip("=").translate(str.maketrans("+/", "-_"))
            with contextlib.suppress(ValueError):
                decoded = decode(text + "=" * (-len(text) % group))
                if len(decoded) == size:
                    return decoded
    return None
