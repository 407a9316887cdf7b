"""Captures follower: enters the captures of the archive into their index.

A capture is in `NAME.warc.gz`; what is known of its visit (collection, robots directives) is in `NAME.meta.warc.gz`.
Both are read up to one line of `NAME.durable`: a capture is written before its visit, and both become durable together,
so the visit of every durable capture is known, and a capture without one belongs to no visit (robots.txt, or what a
page's scripts asked for).
Promises: follows the archive from where it stopped, after any kind of stop; rows and cursors are committed together,
and a record that is read twice is one row. One process at a time (by a lock). Deleted collections are removed before
any record is read. Takedowns are not applied here: `reader` hides what is taken down. A damaged record is skipped and
noted with file and offset.
"""

import base64
import logging
import re
import threading
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from time import time
from types import TracebackType
from typing import Any, NamedTuple

import msgspec
from xxhash import xxh3_64_intdigest

from tarrafa.archive.projection import ProjectionDeletions, ProjectionState, cursor_of, unread_bytes, with_each_follower
from tarrafa.archive.warc_reader import Cursor, decode_body, meta_path, read_records, visit_lengths
from tarrafa.archive.warc_writer import METADATA, REVISIT, DurableLengths, read_durable
from tarrafa.captures.record_heads import CaptureHead, scan_captures
from tarrafa.captures.store import (
    NO_COLLECTION,
    NOT_MODIFIED_KIND,
    RESPONSE_KIND,
    SAME_PAYLOAD_KIND,
    captures_file,
    open_writer,
    remove_captures,
    writer_lock,
)
from tarrafa.captures.surt import surt
from tarrafa.i18n import Message
from tarrafa.model import RobotsMeta
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows

BATCH_RECORDS = 5_000
POLL_S = 0.2
SETTLED_S = 10.0  # a `.durable` file that was not written for so long is not read again
ENTER = "INSERT OR REPLACE INTO captures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
CaptureRow = tuple[str | int | bytes | None, ...]
OnBytesRead = Callable[[int], None]
log = logging.getLogger(__name__)
_sha1 = re.compile(r"sha1:([A-Z2-7]{32})").fullmatch
_key_columns: Callable[[CaptureRow], Any] = itemgetter(slice(4))
_digits = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)").match


class _VisitOutcome(msgspec.Struct):
    status: int
    at: float


class _VisitPage(msgspec.Struct):
    robots: RobotsMeta = RobotsMeta()


class _VisitPart(msgspec.Struct):
    """The part of a visit's record that its capture needs."""

    collection: str
    outcome: _VisitOutcome
    page: _VisitPage | None = None


_decode_visit = msgspec.json.Decoder(_VisitPart).decode


class _VisitOfCapture(NamedTuple):
    meta: int
    collection: int
    noarchive: bool
    is_deleted: bool


class CapturesFollower:
    """Enters new captures pass by pass. Use it in a `with`: it holds the lock and the connection."""

    def __init__(self, data: DataDirectory) -> None:
        self._data, self._file = data, captures_file(data)
        self._lock = writer_lock(data)
        try:
            self._connection = open_writer(data)
            self._errors = self._file.errors(self._connection)
            self.state = ProjectionState(self._connection)
            self._deletions = ProjectionDeletions(data.archive, self.state)
            self._warc_cursor: Cursor = dict(rows(self._connection, "SELECT file, offset FROM warc_cursor"))
            sql = "SELECT name, collection FROM collections"
            self._collections: dict[str, int] = dict(rows(self._connection, sql))
        except BaseException:
            self._lock.close()
            raise
        self._settled: dict[Path, tuple[int, DurableLengths]] = {}  # last modified, and content

    def __enter__(self) -> "CapturesFollower":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._connection.close()
        self._lock.close()

    def read(self, stop: threading.Event | None = None, tell: OnBytesRead = lambda size: None) -> int:
        """Enter all durable captures; the number of records that were read."""
        total = 0
        upto = self._durable_lengths()  # first: deletions of later records may also become known later
        self.drop_deleted()
        for name, durable in upto.items():
            if stop is not None and stop.is_set():
                break
            read = self._warc_cursor.get(name, 0)
            if durable.warc > read or durable.visits_end > self.state.cursor.get(name, 0):
                self._data.check_space()
                total += self._read_pair(name, durable, stop)
                tell(durable.warc - read)
        return total

    def drop_deleted(self) -> None:
        """Remove the collections that were deleted since."""
        for name, at in self._deletions.pending():
            with self._errors:
                self.state.begin()
                number = self._collections.get(name, -1)
                self._connection.execute("DELETE FROM captures WHERE collection = ?", (number,))
                self.state.note_dropped(name, at)
                self.state.commit()

    def _durable_lengths(self) -> dict[str, DurableLengths]:
        """What is durable of each pair of files. An archive may have thousands that are complete."""
        now, found = time(), dict[str, DurableLengths]()
        for path in sorted(self._data.archive.glob("*.durable")):
            try:
                modified = path.stat().st_mtime_ns
                known = self._settled.get(path)
                if known is None or known[0] != modified or now - modified / 1e9 < SETTLED_S:
                    known = self._settled[path] = (modified, read_durable(path))
            except FileNotFoundError:  # `recover_archive` removes files that were never published
                continue
            found[path.stem] = known[1]
        return found

    def _read_pair(self, name: str, durable: DurableLengths, stop: threading.Event | None) -> int:
        """Enter the captures of a pair of files. The meta cursor moves last: a pass that was killed reads its visits
        again."""
        visits = self._visits(name, self.state.cursor.get(name, 0), durable.visits_end)
        batch: list[CaptureRow] = []
        read = 0
        position = start = self._warc_cursor.get(name, 0)
        for position, head in scan_captures(self._warc_path(name), start, durable.warc, self._note_damage):
            if head is not None:
                read += 1
                visit = visits.pop(visit_key(head.url, head.date), None)
                if visit is None or not visit.is_deleted:
                    batch.append(self._row(name, head, visit))
            if len(batch) >= BATCH_RECORDS:
                self._commit(name, position, batch)
                if stop is not None and stop.is_set():
                    return read
        self.state.cursor[name] = durable.visits_end
        self._commit(name, position, batch)
        return read

    def _visits(self, name: str, start: int, end: int) -> dict[int, _VisitOfCapture]:
        """The visits between two offsets of a meta file that may have a capture, by URL and date."""
        if start >= end:
            return {}
        path = meta_path(self._data.archive, name)
        found: dict[int, _VisitOfCapture] = {}
        for position, head, content in read_records(path, start, end):
            if head.kind != METADATA:
                continue
            part = decode_body(path, position, _decode_visit, content)
            outcome = part.outcome
            if outcome.status > 0:  # else there was no response
                noarchive = part.page is not None and part.page.robots.noarchive
                is_deleted = self._deletions.covers_visit(part.collection, outcome.at)
                visit = _VisitOfCapture(position, self._collection(part.collection), noarchive, is_deleted)
                found[visit_key(head.url, head.date)] = visit
        return found

    def _collection(self, name: str) -> int:
        number = self._collections.get(name)
        if number is None:
            number = self._collections[name] = len(self._collections) + 1
            with self._errors:
                self.state.begin()
                self._connection.execute("INSERT INTO collections VALUES (?, ?)", (number, name))
        return number

    def _row(self, name: str, head: CaptureHead, visit: _VisitOfCapture | None) -> CaptureRow:
        with self._errors:
            self.state.begin()
            number = self.state.file_number(name)
        urlkey, timestamp, *facts = capture_facts(head)
        return (
            urlkey, timestamp, number, head.position, *facts, visit.collection if visit else NO_COLLECTION,
            visit.meta if visit else None, visit is not None and visit.noarchive,
        )  # fmt: skip

    def _commit(self, name: str, position: int, batch: list[CaptureRow]) -> None:
        """Rows and cursors in one transaction; sorted rows touch fewer pages."""
        with self._errors:
            self.state.begin()
            batch.sort(key=_key_columns)
            self._connection.executemany(ENTER, batch)
            self._warc_cursor[name] = position
            self._connection.execute("INSERT OR REPLACE INTO warc_cursor VALUES (?, ?)", (name, position))
            self.state.commit()
        batch.clear()

    def _note_damage(self, path: Path, position: int, reason: Message | str) -> None:
        log.error("%s: damaged: the record at %d is left out: %s", path, position, reason)
        with self._errors:
            self.state.begin()
            row = (self.state.file_number(path.name.removesuffix(".warc.gz")), position, str(reason))
            self._connection.execute("INSERT OR REPLACE INTO damaged VALUES (?, ?, ?)", row)

    def _warc_path(self, name: str) -> Path:
        return self._data.archive / f"{name}.warc.gz"


def capture_facts(head: CaptureHead) -> CaptureRow:
    """What the index has of a capture by its head: urlkey, timestamp, and the columns from `length` to `refers_url`."""
    kind = RESPONSE_KIND
    if head.kind == REVISIT:
        kind = NOT_MODIFIED_KIND if head.is_not_modified else SAME_PAYLOAD_KIND
    return (
        surt(head.url), _timestamp(head.date), head.length, head.url, head.mime, head.status, pack_digest(head.digest),
        kind, _timestamp(head.refers_date) if kind else None, head.refers_url or None,
    )  # fmt: skip


def visit_key(url: str, date: str) -> int:
    """Visit and capture have the same URL and date, to the microsecond."""
    return xxh3_64_intdigest(f"{date} {url}".encode())


def _timestamp(date: str) -> int:
    """A WARC-Date as 14 digits; 0 if it is none."""
    found = _digits(date)
    return int("".join(found.groups())) if found else 0


def pack_digest(digest: str) -> bytes | str:
    """A SHA-1 as 20 bytes; another digest as it is."""
    found = _sha1(digest)
    if found is None:
        return digest
    return base64.b32decode(found[1])


def response_files(archive: Path) -> list[Path]:
    """The files with captures."""
    return [path for path in sorted(archive.glob("*.warc.gz")) if not path.name.endswith(".meta.warc.gz")]


# -- following ---------------------------------------------------------------------------------------------------------


def follow(data: DataDirectory, stop: threading.Event) -> None:
    """Follow the archive until `stop` is set."""
    with CapturesFollower(data) as follower:
        while not stop.is_set():
            follower.read(stop)
            stop.wait(POLL_S)


def catch_up(data: DataDirectory, tell: OnBytesRead = lambda size: None) -> int:
    """Enter all durable captures; the number of records read."""
    with CapturesFollower(data) as follower:
        return follower.read(tell=tell)


def rebuild(data: DataDirectory, tell: OnBytesRead = lambda size: None) -> int:
    """Make the index anew from the archive; the number of captures read."""
    with writer_lock(data):
        remove_captures(data)
    return catch_up(data, tell)


def drop_deleted(data: DataDirectory) -> bool:
    """Remove deleted collections. False: there is no index, or its follower is running and does it."""
    parts = [data] if captures_are_current(data) else []
    return with_each_follower(parts, CapturesFollower, CapturesFollower.drop_deleted)


def captures_are_current(data: DataDirectory) -> bool:
    """Whether there is an index of the present format."""
    file = captures_file(data)
    return file.found_format() == file.format


def cursor(data: DataDirectory) -> Cursor:
    """How far the follower has read the archive's visits; an empty cursor without an index."""
    return cursor_of(captures_file(data))


def behind(data: DataDirectory, until: Cursor | None = None) -> int:
    """0 when the index holds the captures of all visits of the archive (now, or at a given moment); otherwise roughly
    the number of missing bytes."""
    return unread_bytes(visit_lengths(data.archive) if until is None else until, [cursor(data)])


def damaged_records(data: DataDirectory) -> Iterator[tuple[str, int, str]]:
    """The records that were left out, with file, offset and reason."""
    with captures_file(data).reading() as connection:
        sql = "SELECT name, offset, reason FROM damaged JOIN files USING (file) ORDER BY name, offset"
        yield from rows(connection, sql)
