"""Surveys the files of an import: what each holds, where each capture is, when it was made, and what is damaged.

The survey reads every file once, so that captures can be imported in the order of their dates, whatever file they are
in. Requests find their responses here. A file that is compressed as a whole cannot be read at a place in its middle:
it is unpacked into a scratch folder first.
Promises: a survey that is killed begins anew; memory does not grow with the file.
"""

import re
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from xxhash import xxh3_128

from tarrafa.archive.foreign_archive_reader import ArchiveSource, Damage, ForeignRecord, RecordReader
from tarrafa.archive.warc_writer import INFO_TYPE
from tarrafa.crawl.warc_import.capture import (
    CAPTURES,
    REQUEST,
    RESOURCE,
    RESPONSE,
    REVISIT,
    is_web,
    method_of,
    parse_date,
)
from tarrafa.crawl.warc_import.import_state import ImportRow, ImportState, reference_hash
from tarrafa.parse.url import canonical

HEAD_BYTES = 8 << 10  # of a record's block that the survey reads
SKIP_BYTES_MAX = 1 << 20  # a record that begins so far behind its member's beginning is reached too slowly
WAITING_MAX = 200  # captures and requests that may still find each other
READ_BYTES = 1 << 20
HOSTS_MAX = 200_000
PAGE = re.compile(
    rb"HTTP/[\d.]+ 200\b.*?^content-type:\s*(?:text/html|application/xhtml|text/plain|application/pdf)",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
).match
PAGE_TYPE = re.compile(r"text/html|application/xhtml|text/plain|application/pdf").match
Advance = Callable[[int], None]
CheckSpace = Callable[[], None]
Unpack = Callable[[ArchiveSource], tuple[ArchiveSource, Damage | None]]


class SolidFile(Exception):
    """The file is compressed as a whole."""


def digest_of(source: ArchiveSource, advance: Advance) -> bytes:
    """The digest by which the bytes of a file are known."""
    content, digest, at = source.open(), xxh3_128(), 0
    while part := content.read(at, READ_BYTES):
        digest.update(part)
        at += len(part)
        advance(len(part))
    content.close()
    return bytes(digest.digest())


@dataclass(slots=True)
class _Finds:
    """What was found since the last save."""

    captures: list[ImportRow] = field(default_factory=list)
    tally: Counter[str] = field(default_factory=Counter)
    hosts: set[str] = field(default_factory=set)


class Survey:
    """The survey of one file."""

    def __init__(self, source: ArchiveSource, number: int, state: ImportState, now: float) -> None:
        self._source, self._number, self._state, self._now = source, number, state, now
        self._finds = _Finds()
        self._captures: OrderedDict[str, ImportRow] = OrderedDict()  # by record id, waiting for their requests
        self._wanted: dict[str, str] = {}  # id of a request -> that of the capture that names it
        self._requests: OrderedDict[str, ForeignRecord] = OrderedDict()
        self._known_hosts: set[str] = set()
        self._unnamed = 0

    def run(self, advance: Advance) -> None:
        reader, read = RecordReader(self._source, HEAD_BYTES), 0
        try:
            for item in reader.records():
                if isinstance(item, Damage):
                    self._note_damage(item)
                else:
                    if item.skip > SKIP_BYTES_MAX:
                        raise SolidFile
                    self._take(item)
                position = max(read, reader.position())
                advance(position - read)
                read = position
                if len(self._finds.captures) >= WAITING_MAX:
                    self._save()
        finally:
            reader.close()
        advance(max(0, self._source.size() - read))
        while self._captures:
            self._settle(next(iter(self._captures)))
        self._save()

    def _note_damage(self, damage: Damage) -> None:
        self._finds.tally["damaged"] += 1
        self._state.add_damage(self._number, damage.offset, damage.reason)

    def _save(self) -> None:
        finds, self._finds = self._finds, _Finds()
        self._state.add_captures(finds.captures)
        self._state.add_tally(self._number, finds.tally)
        self._state.add_hosts(self._number, finds.hosts)

    # -- records ---------------------------------------------------------------------------------------------------

    def _take(self, record: ForeignRecord) -> None:
        tally = self._finds.tally
        tally["records"] += 1
        if record.kind == REQUEST and is_web(record.url):
            self._take_request(record)
        elif record.kind not in CAPTURES:
            tally[f"skipped: {record.kind[:30] or 'a record without a type'}"] += 1
        elif not is_web(record.url):
            tally["skipped: no Web address"] += 1
        elif "warc-segment-number" in record.fields:
            tally["skipped: a segment of a record"] += 1
        elif record.kind == RESOURCE and record.fields.get("content-type", "").strip().lower() == INFO_TYPE:
            tally["skipped: a resource that describes a file"] += 1
        elif record.kind == RESPONSE and not _is_http(record):
            tally["skipped: no HTTP response"] += 1
        else:
            self._take_capture(record)

    def _take_capture(self, record: ForeignRecord) -> None:
        fields = record.fields
        at = parse_date(fields.get("warc-date", ""), self._now)
        if at is None:
            self._note_damage(Damage(record.offset, "it has no date, or an impossible one"))
            return
        self._finds.tally["captures"] += 1
        place = "" if record.kind == REVISIT else f"{record.url} {round(at)}"
        payload = "" if record.kind == REVISIT else fields.get("warc-payload-digest", "").lower()
        name = fields.get("warc-record-id", "")
        row = ImportRow(
            at, self._number, record.offset, record.skip, record=reference_hash(name), place=reference_hash(place),
            payload=reference_hash(payload),
        )  # fmt: skip
        self._find_host(record)
        if not name:
            self._unnamed += 1
            name = f"#{self._unnamed}"
        for request in record.concurrent:
            if (former := self._requests.pop(request, None)) is not None:
                self._add_paired(row, former)
                return
            self._wanted[request] = name
        self._captures[name] = row
        if len(self._captures) > WAITING_MAX:
            self._settle(next(iter(self._captures)))

    def _take_request(self, record: ForeignRecord) -> None:
        self._finds.tally["requests"] += 1
        name = record.fields.get("warc-record-id", "")
        for capture in (*record.concurrent, self._wanted.pop(name, "")):
            if (row := self._captures.pop(capture, None)) is not None:
                self._add_paired(row, record)
                return
        self._requests[name] = record
        if len(self._requests) > WAITING_MAX:
            self._requests.popitem(last=False)

    def _add_paired(self, row: ImportRow, request: ForeignRecord) -> None:
        method = method_of(request.content)
        if method == "GET":
            self._finds.captures.append(row._replace(request_offset=request.offset, request_skip=request.skip))
            return
        self._finds.tally["captures"] -= 1
        self._finds.tally[f"skipped: {method} requests"] += 1

    def _settle(self, name: str) -> None:
        """A capture whose request is not here."""
        self._finds.captures.append(self._captures.pop(name))
        if len(self._wanted) > 2 * WAITING_MAX:
            for one in list(self._wanted)[:WAITING_MAX]:
                del self._wanted[one]

    def _find_host(self, record: ForeignRecord) -> None:
        """A host with a page is one that its collector wanted."""
        is_resource = record.kind == RESOURCE and PAGE_TYPE(record.fields.get("content-type", "").lower())
        if not is_resource and not (record.kind == RESPONSE and PAGE(record.content)):
            return
        url = canonical(record.url)
        if url is None or url.endswith("/robots.txt") or len(self._known_hosts) >= HOSTS_MAX:
            return
        root = url[: url.index("/", 8) + 1]
        if root not in self._known_hosts:
            self._known_hosts.add(root)
            self._finds.hosts.add(root)


def _is_http(record: ForeignRecord) -> bool:
    """Whether a response is one of HTTP: not so in ARC files and with some WARC writers, its block shows it."""
    kind = record.fields.get("content-type", "").lower()
    return kind.startswith("application/http") or record.content[:5].upper() == b"HTTP/"


def run_survey(
    source: ArchiveSource, number: int, state: ImportState, now: float, advance: Advance, unpack: Unpack
) -> ArchiveSource:
    """Survey a file; returns the source from which its captures are read: the file, or an unpacked copy of it."""
    state.begin_survey(number)
    solid, damage = False, None
    try:
        Survey(source, number, state, now).run(advance)
    except SolidFile:
        solid = True
        state.begin_survey(number)
        source, damage = unpack(source)
        Survey(source, number, state, now).run(lambda more: None)
    if damage is not None:
        state.add_damage(number, damage.offset, damage.reason)
        state.add_tally(number, {"damaged": 1})
    state.end_survey(number, is_solid=solid)
    return source


def unpack_source(source: ArchiveSource, target: Path, check_space: CheckSpace) -> tuple[ArchiveSource, Damage | None]:
    """Unpack a file that is compressed as a whole, as far as it can be."""
    target.parent.mkdir(parents=True, exist_ok=True)
    reader = RecordReader(source, 0)
    try:
        with target.open("wb") as file:
            for piece in reader.unpacked():
                check_space()
                file.write(piece)
    finally:
        reader.close()
    return ArchiveSource(target, source.name), reader.unpack_damage
