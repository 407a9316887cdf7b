"""Rewrites pairs of archive files into one new pair, without the records that are to go.

Promises: a record that stays keeps its bytes: its gzip member is copied as it is, and only its place changes. Each
record is read whole and with its checksum: what is damaged is never copied, but refused (`DamagedRecord`). Request and
rendered document go with their response, texts with their visit. The record of a visit always stays: without its
response it says why (`removed`), and it keeps its record id. The new pair is in a folder of its own, durable when
`rewrite` returns; no other file is changed. Knows nothing of rules, cursors and projections.
"""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple, Protocol

import msgspec

from tarrafa.archive.warc_reader import READ_BYTES, DamagedRecord, match_head, meta_path, read_member
from tarrafa.archive.warc_writer import (
    CONVERSION,
    METADATA,
    METADATA_TYPE,
    RECORD_END,
    REQUEST,
    RESOURCE,
    RESPONSE,
    WARCINFO,
    DurableLengths,
    durable_line,
    info_record,
    one_line,
    pack_record,
    record_ids,
)
from tarrafa.errors import write_errors
from tarrafa.i18n import message
from tarrafa.model import VisitRecord
from tarrafa.runtime.data_dir import sync_directory

BUFFER_BYTES = 1 << 20
RESPONSE_HEADERS = ("WARC-Target-URI:", "Content-Type:", "WARC-IP-Address:", "WARC-Truncated:", "WARC-Payload-Digest:")
_decode_visit = msgspec.json.Decoder(VisitRecord).decode
_record_id = re.compile(rb"\r\nWARC-Record-ID: ([^\r\n]+)\r\n").search
_ids = record_ids()
OnBytesRead = Callable[[int], None]


class ReadMember(NamedTuple):
    """A gzip member as it is in its file, and the record in it."""

    position: int
    packed: bytes
    kind: str
    date: str
    url: str
    content_type: str
    head: bytes
    content: bytes


class RewrittenVisit(NamedTuple):
    """What becomes of a visit. `record`: the new record, None if the old one stays as it is; `conversions`: the new
    texts by type, None: as `keeps_conversions` says."""

    record: VisitRecord | None = None
    keeps_conversions: bool = True
    conversions: list[tuple[str, bytes]] | None = None


class RewriteChoice(Protocol):
    """Decides what stays. `drops_gaps`: gaps go, where a replica could fill in damaged bytes; else a pair with one is
    refused."""

    @property
    def drops_gaps(self) -> bool: ...

    def rewrite_capture(self, file: str, member: ReadMember) -> bytes | None:
        """The bytes of a record of a response file (a response, robots.txt, or what else is there); None: it goes, with
        its request."""

    def keeps_note(self, file: str, member: ReadMember) -> bool:
        """Whether a note stays."""

    def rewrite_visit(self, file: str, member: ReadMember, record: Callable[[], VisitRecord]) -> RewrittenVisit:
        """What becomes of a visit; `record` decodes it."""


class PlaceLog(Protocol):
    """Hears where records have gone."""

    def moved_capture(self, file: str, position: int, new: int) -> None:
        """A record of a response file has another place."""

    def moved_visit(self, file: str, position: int, new: int) -> None:
        """A visit has another place in the meta file."""


class NewPair(NamedTuple):
    """A new pair of files."""

    name: str
    lengths: DurableLengths


def read_members(path: Path, end: int) -> Iterator[ReadMember]:
    """The records of a file, whole, with their bytes. Raises `DamagedRecord` at the first that is not."""
    with path.open("rb", buffering=READ_BYTES) as stream:
        yield from read_members_of(stream, 0, end)


def read_members_of(stream: IO[bytes], position: int, end: int) -> Iterator[ReadMember]:
    """The same of a stream, from a position on."""
    stream.seek(position)
    while position < end:
        record, length = read_member(stream, end - position)
        found = match_head(record)
        if found is None or not record.endswith(RECORD_END):
            raise DamagedRecord(message("it is no WARC record"))
        head, content = record[: found.end()], record[found.end() : -len(RECORD_END)]
        if int(found[3]) != len(content):
            raise DamagedRecord(message("it is not as long as its Content-Length says"))
        stream.seek(position)
        kind, date, _, url, content_type = (one.decode("utf-8", "replace") for one in found.groups(b""))
        yield ReadMember(position, stream.read(length), kind, date, url, content_type, head, content)
        position += length


class PairRewriter:
    """Writes the records of some pairs of an archive, one after the other, into new pairs."""

    def __init__(
        self, archive: Path, choice: RewriteChoice, places: PlaceLog, tell: OnBytesRead = lambda size: None
    ) -> None:
        self._archive, self._choice, self._places, self._tell = archive, choice, places, tell
        self.reading = ""  # the pair that is read

    def rewrite(self, sources: dict[str, DurableLengths], folder: Path, name: str) -> NewPair:
        """Write a new pair into a folder."""
        with write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
            with _new_file(folder / f"{name}.warc.gz") as file:
                for source, lengths in sources.items():
                    self._copy_captures(source, lengths.warc, file)
                warc = _sync(file)
            with _new_file(folder / f"{name}.meta.warc.gz") as file:
                visits_end = 0
                for source, lengths in sources.items():
                    visits_end = self._copy_visits(source, lengths.meta, file) or visits_end
                meta = _sync(file)
            durable = DurableLengths(warc, meta, visits_end)
            with (folder / f"{name}.durable").open("wb") as file:
                file.write(durable_line(durable))
                _sync(file)
            sync_directory(folder)
            sync_directory(folder.parent)
        return NewPair(name, durable)

    def _members(self, path: Path, end: int) -> Iterator[ReadMember]:
        """The records of a file, but for the first one, which says whose file it is. Another such record is a gap: it
        fills the place of damaged bytes."""
        for member in read_members(path, end) if end else ():
            self._tell(len(member.packed))
            if member.kind != WARCINFO:
                yield member
            elif member.position and not self._choice.drops_gaps:
                raise DamagedRecord(message("it is a gap, where bytes were damaged"))

    def _copy_captures(self, name: str, end: int, file: IO[bytes]) -> None:
        keeps, self.reading = True, name
        for member in self._members(self._archive / f"{name}.warc.gz", end):
            if member.kind in (REQUEST, CONVERSION):  # these belong to the response before them
                packed = member.packed if keeps else None
            else:
                packed = self._choice.rewrite_capture(name, member)
                keeps = packed is not None
            if packed is not None:
                self._places.moved_capture(name, member.position, file.tell())
                file.write(packed)

    def _copy_visits(self, name: str, end: int, file: IO[bytes]) -> int:
        """Copy the visits of a meta file; the end of the last one in the new file, 0 if there is none."""
        keeps_texts, visits_end, self.reading = True, 0, name
        for member in self._members(meta_path(self._archive, name), end):
            if member.kind == METADATA:
                self._places.moved_visit(name, member.position, file.tell())
                keeps_texts = self._write_visit(name, member, file)
                visits_end = file.tell()
            elif member.kind == CONVERSION and keeps_texts:
                file.write(member.packed)
                visits_end = file.tell()
            elif member.kind == RESOURCE and self._choice.keeps_note(name, member):
                file.write(member.packed)
        return visits_end

    def _write_visit(self, name: str, member: ReadMember, file: IO[bytes]) -> bool:
        """Write a visit; whether its old texts stay."""
        found = self._choice.rewrite_visit(name, member, lambda: _decode_visit(member.content))
        if found.record is None:
            file.write(member.packed)
        else:
            file.write(repacked(member, msgspec.json.encode(found.record)))
        for content_type, content in found.conversions or ():
            file.write(_conversion(member, content_type, content))
        return found.keeps_conversions and found.conversions is None


def _new_file(path: Path) -> IO[bytes]:
    file = path.open("wb", buffering=BUFFER_BYTES)
    file.write(info_record(path.name))
    return file


def _sync(file: IO[bytes]) -> int:
    """Make a file durable; its length."""
    file.flush()
    os.fsync(file.fileno())
    return file.tell()


def record_id_of(member: ReadMember) -> str:
    found = _record_id(member.head)
    return found[1].decode() if found is not None else ""


def repacked(member: ReadMember, content: bytes) -> bytes:
    """The record of a visit with another content, under its date and id."""
    headers = f"WARC-Target-URI: {one_line(member.url)}\r\nContent-Type: {METADATA_TYPE}\r\n"
    return pack_record(METADATA, member.date, record_id_of(member), headers, content)


def with_body(member: ReadMember, body: bytes) -> bytes:
    """The response to which a `revisit` record becomes with the body that it refers to, under its date and id."""
    lines = member.head.decode("utf-8", "replace").split("\r\n")
    headers = "".join(f"{line}\r\n" for line in lines if line.startswith(RESPONSE_HEADERS))
    return pack_record(RESPONSE, member.date, record_id_of(member), headers, member.content + body)


def _conversion(member: ReadMember, content_type: str, content: bytes) -> bytes:
    headers = (
        f"WARC-Target-URI: {one_line(member.url)}\r\nContent-Type: {content_type}\r\n"
        f"WARC-Refers-To: {record_id_of(member)}\r\n"
    )
    return pack_record(CONVERSION, member.date, next(_ids), headers, content)
