"""Heads of the `response`, `revisit` and `resource` records of a WARC file: what an index of captures says of them.

Promises: a member is inflated only as far as its WARC head and HTTP header reach; a length in an extra field that is
impossible is damage, as `archive/warc_reader` says. Behind a damaged record the next member that begins as ours do is
looked for, and the damage is reported with its position: one damaged record hides no other. The values are those that
cdxj-indexer finds: the first Content-Type up to a semicolon or space, the status as the server wrote it; a `resource`,
which was imported without an HTTP header, has the type of the record and no status. Knows nothing of the store.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from isal import igzip_lib

from tarrafa.archive.archive_settings import raise_if_disk_missing
from tarrafa.archive.warc_reader import CHUNK_BYTES, DEFLATE_RATIO_MAX, IGZIP_ERROR, READ_BYTES, DamagedRecord
from tarrafa.archive.warc_writer import MEMBER_START, RECORD_END, RESOURCE, REVISIT, SIZED_START
from tarrafa.i18n import Message, message

KIND_BYTES = 40  # `WARC/1.1`, and the type, which is the first header
PACKED_HEAD_BYTES, HEAD_BYTES = 1_200, 2_500  # of most heads; longer ones are inflated again
HEAD_BYTES_MAX = 600 << 10  # a WARC head, and an HTTP header as long as we read one
CAPTURE_KINDS = (b"response", b"revisit", b"resource")
URL_AND_KIND_HEADERS = (b"warc-type", b"warc-target-uri", b"warc-refers-to-target-uri")
_end_of_head = re.compile(rb"\r?\n\r?\n").search
_kind = re.compile(rb"WARC/1\.[01]\r\nWARC-Type: ([a-z]+)\r\n").match
_content_type = re.compile(rb"^content-type[ \t]*:((?:[^\n]|\n[ \t])*)", re.I | re.M).search
_end_of_mime = re.compile(r"[;\s]").search

OnDamage = Callable[[Path, int, Message | str], None]


class CaptureHead(NamedTuple):
    """What the head of a record says. `mime` is None without a Content-Type; `refers_date`, `refers_url`: of a
    revisit record."""

    position: int
    length: int  # of the gzip member
    kind: str
    url: str
    date: str
    digest: str
    status: str
    mime: str | None
    refers_date: str
    refers_url: str  # empty: the same URL
    is_not_modified: bool


def scan_captures(path: Path, start: int, end: int, on_damage: OnDamage) -> Iterator[tuple[int, CaptureHead | None]]:
    """The offset behind each record between two offsets of a file, and its head if it is a capture."""
    position = start
    raise_if_disk_missing(path)
    with path.open("rb", buffering=READ_BYTES) as stream:
        stream.seek(start)
        while position < end:
            try:
                size, beginning = _read_beginning(stream, end - position)
                head = capture_head(position, size, beginning) if beginning else None
            except (DamagedRecord, IGZIP_ERROR) as error:
                on_damage(path, position, error.message if isinstance(error, DamagedRecord) else str(error))
                size, head = _next_member(stream, position, end) - position, None
            position += size
            yield position, head
            if head is None or stream.tell() != position:
                stream.seek(position)


def _read_beginning(stream: IO[bytes], readable: int) -> tuple[int, bytes]:
    """The length of the member at the position of the stream, and the unpacked beginning of its record; empty if it is
    no capture."""
    start = stream.read(min(SIZED_START.size, readable))
    if len(start) < SIZED_START.size or not start.startswith(MEMBER_START):
        return _read_unsized(stream, start, readable)
    _, member_size, size = SIZED_START.unpack(start)
    packed_size = member_size - SIZED_START.size
    if not len(RECORD_END) < size <= packed_size * DEFLATE_RATIO_MAX or packed_size > readable - SIZED_START.size:
        raise DamagedRecord(message("the lengths in its extra field are impossible"))
    packed = stream.read(packed_size)
    if len(packed) < packed_size or packed[-4:] != start[-4:]:
        raise DamagedRecord(message("it does not end where its extra field says"))
    beginning = _inflate(packed[:PACKED_HEAD_BYTES], HEAD_BYTES)
    if not _is_capture(beginning):
        return member_size, b""
    if len(beginning) < size and len(_split_heads(beginning)) < 3:
        beginning = _inflate(packed, HEAD_BYTES_MAX)
    return member_size, beginning


def _inflate(packed: bytes, most: int) -> bytes:
    return bytes(igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_DEFLATE).decompress(packed, most))


def _read_unsized(stream: IO[bytes], start: bytes, readable: int) -> tuple[int, bytes]:
    """A member without the extra field is inflated to its end."""
    inflater = igzip_lib.IgzipDecompressor(igzip_lib.DECOMP_GZIP)
    beginning, read = bytearray(inflater.decompress(start)), len(start)
    while not inflater.eof:
        chunk = stream.read(min(CHUNK_BYTES, readable - read))
        if not chunk:
            raise DamagedRecord(message("it has no end"))
        read += len(chunk)
        part = inflater.decompress(chunk)
        beginning += part[: max(0, HEAD_BYTES_MAX - len(beginning))]
    return read - len(inflater.unused_data), bytes(beginning) if _is_capture(bytes(beginning[:KIND_BYTES])) else b""


def _is_capture(beginning: bytes) -> bool:
    found = _kind(beginning)
    if found is None:
        raise DamagedRecord(message("it is no WARC record"))
    return found[1] in CAPTURE_KINDS


def _next_member(stream: IO[bytes], position: int, end: int) -> int:
    """The next position, behind this one, at which a member may begin; the end if there is none."""
    place, kept = position + 1, b""
    stream.seek(place)
    while place < end and (chunk := stream.read(min(READ_BYTES, end - place))):
        found = (kept + chunk).find(MEMBER_START)
        if found >= 0:
            return place - len(kept) + found
        place += len(chunk)
        kept = (kept + chunk)[-len(MEMBER_START) + 1 :]
    return end


def _split_heads(beginning: bytes) -> list[bytes]:
    """The WARC head, the HTTP header, and what follows, as far as they are there."""
    warc, found, rest = beginning.partition(RECORD_END)
    if not found:
        return [warc]
    end = _end_of_head(rest)
    return [warc, rest] if end is None else [warc, rest[: end.start()], rest[end.end() :]]


def capture_head(position: int, length: int, beginning: bytes) -> CaptureHead:
    """What the beginning of a capture says: its WARC head and its HTTP header."""
    warc, *rest = _split_heads(beginning)
    fields: dict[bytes, bytes] = {}
    for line in warc.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        fields.setdefault(name.lower(), value.strip())
    if not fields.get(b"warc-target-uri") or not fields.get(b"warc-date"):
        raise DamagedRecord(message("it is no WARC record"))

    def text(name: bytes) -> str:
        return fields.get(name, b"").decode("utf-8", "replace")

    kind, url, refers_url = (text(name).strip("<>") for name in URL_AND_KIND_HEADERS)
    is_resource = kind == RESOURCE
    status, mime = ("", _mime(text(b"content-type"))) if is_resource else _status_and_mime(rest[0] if rest else b"")
    return CaptureHead(
        position, length, kind, url, text(b"warc-date"), text(b"warc-payload-digest"), status, mime,
        text(b"warc-refers-to-date"), refers_url if refers_url != url else "",
        kind == REVISIT and fields.get(b"warc-profile", b"").endswith(b"server-not-modified"),
    )  # fmt: skip


def _status_and_mime(header: bytes) -> tuple[str, str | None]:
    first, _, rest = header.partition(b"\n")
    status = _decoded(first).partition(" ")[2].strip().partition(" ")[0]
    found = _content_type(rest)
    if found is None:
        return status, None
    return status, _mime(_decoded(found[1].replace(b"\r", b"").replace(b"\n", b"")).strip())


def _mime(value: str) -> str:
    end = _end_of_mime(value)
    return value[: end.start()] if end else value


def _decoded(text: bytes) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")
