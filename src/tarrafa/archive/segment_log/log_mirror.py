"""Log mirror: brings the segments of the log into the two files that followers and readers of this machine read.

Promises: bytes are checked against the manifest (length, xxh3-128) before anything reads them; a segment is published
after its bytes, and all segments before it, are durable here; a mirror that was killed goes on where it was. A missing
or damaged object stops it with a message that names the object: nothing behind it is published. A manifest that no
longer agrees with what was read here (restored from an older backup, or of another log) is noticed, and nothing is
changed. Deletions and takedowns are applied first, as far as the log has them. One process at a time, by the lock of
`NAME.durable`, which other writers of the archive take, too.
"""

import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import msgspec

from tarrafa.archive.segment_log.log_notes import LogNotes
from tarrafa.archive.segment_log.log_status import STATUS_EVERY_S, TROUBLE_CHARS_MAX, LogStatus, write_log_status
from tarrafa.archive.segment_log.object_store import ObjectStore, StoreUnreachable
from tarrafa.archive.segment_log.orphans import sweep_orphans
from tarrafa.archive.segment_log.segment import (
    META_ENDING,
    WARC_ENDING,
    LogIdentity,
    Segment,
    SegmentManifest,
    SegmentPart,
    digest,
    is_merged,
    object_names_of,
)
from tarrafa.archive.warc_writer import DurableLengths, durable_line, read_durable
from tarrafa.clock import Clock, boottime
from tarrafa.errors import DataError, Locked, Unreachable, write_errors
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory, sync_directory, write_atomically
from tarrafa.runtime.sqlite import SqliteFile, rows
from tarrafa.runtime.terminal import print_note

SEGMENTS_PER_PASS = 64  # some 100 MB at most, in memory
DOWNLOADS = 8
POLL_S, RETRY_S = 0.3, 2.0
SWEEP_EVERY_S = 600.0
CHANGED_BYTES = 4096
SCHEMA = """
CREATE TABLE segment (number INTEGER PRIMARY KEY, name TEXT NOT NULL, row BLOB NOT NULL);
CREATE TABLE rewrite (last INTEGER NOT NULL); -- the last rewrite that is here
INSERT INTO rewrite VALUES (0);
"""
_decode_segment = msgspec.msgpack.Decoder(Segment).decode


class MirroredLog(msgspec.Struct, frozen=True):
    """DATA/archive/log.json: which log this data directory has."""

    id: str
    store: str
    file: str


def log_path(data: DataDirectory) -> Path:
    return data.archive / "log.json"


def mirrored_log(data: DataDirectory) -> MirroredLog | None:
    """The log of which this data directory has a mirror."""
    try:
        content = log_path(data).read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(content, type=MirroredLog)
    except msgspec.MsgspecError as error:
        raise DataError(message("{path}: damaged ({error})", path=log_path(data), error=error)) from None


def remember_log(data: DataDirectory, log: LogIdentity) -> None:
    """Note in a data directory which log it mirrors, once. An archive of its own, or another log, is refused."""
    found, ours = mirrored_log(data), MirroredLog(log.id, log.store, log.file)
    if found == ours:
        return
    if found is not None:
        raise DataError(
            message(
                "{path}: belongs to another frontier, whose archive is in {store}; use another --data directory",
                path=data.archive,
                store=found.store,
            )
        )
    if any(read_durable(path).visits_end for path in data.archive.glob("*.durable")):
        raise DataError(
            message(
                "{path}: has an archive of its own, and the frontier keeps its archive in {store}; use another --data"
                " directory",
                path=data.archive,
                store=log.store,
            )
        )
    write_atomically(log_path(data), msgspec.json.encode(ours))


class LogMirror:
    """The mirror of one data directory. Use it in a `with`: it holds the lock and the files."""

    def __init__(self, data: DataDirectory, manifest: SegmentManifest, log: LogIdentity) -> None:
        self._manifest, self.store = manifest, ObjectStore(log.store)
        remember_log(data, log)
        self._behind_s = 0.0
        self._notes, self._behind = LogNotes(data, manifest), 0
        self._archive, self._stem = data.archive, data.archive / log.file
        self._durable_fd = self._lock()
        try:
            self._rows = SqliteFile(_rows_path(data), 2, message("delete it: it is made again")).open(
                SCHEMA, sync="full"
            )
            self._files = [self._open(ending) for ending in (WARC_ENDING, META_ENDING)]
            self._last = self._read_last()
            self._last_rewrite = int(rows(self._rows, "SELECT last FROM rewrite")[0][0])
            self._publish()
        except BaseException:
            os.close(self._durable_fd)
            raise
        self._downloads = ThreadPoolExecutor(DOWNLOADS)

    def __enter__(self) -> "LogMirror":
        return self

    def __exit__(self, *_: object) -> None:
        self._downloads.shutdown()
        self._rows.close()
        for descriptor in (*self._files, self._durable_fd):
            os.close(descriptor)

    @property
    def lengths(self) -> DurableLengths:
        """What is published here."""
        return self._last.lengths if self._last is not None else DurableLengths(0, 0, 0)

    def status(self) -> LogStatus:
        """How far this mirror is behind; store and database have just answered."""
        number = self._last.number + 1 if self._last is not None else 1
        self._behind_s = self._manifest.age(number) if self._behind else 0.0
        return LogStatus(Clock.real().now(), self._behind, self._behind_s)

    def status_in_trouble(self, error: Unreachable) -> LogStatus:
        """The same as last known, with what does not answer now."""
        trouble, is_store = str(error)[:TROUBLE_CHARS_MAX], isinstance(error, StoreUnreachable)
        troubles = (trouble, "") if is_store else ("", trouble)
        return LogStatus(Clock.real().now(), self._behind, self._behind_s, *troubles)

    def pull(self) -> int:
        """Bring the next segments; their number."""
        head = self._manifest.head()
        if head.note > self._notes.last_number:
            self._notes.read_once()
        last = (self._last.number, self._last.name) if self._last is not None else (0, None)
        pulled = self._pull_new() if (head.number, head.name) != last else 0
        if head.rewrites > self._last_rewrite:
            self._pull_rewritten()
        self._behind = max(0, head.number - (self._last.number if self._last is not None else 0))
        return pulled

    def _pull_new(self) -> int:
        new = self._next_segments()
        if not new:
            return 0
        if any(segment.note for segment in new):
            self._notes.read_once()  # appended since: before the visits behind them
        with write_errors(self._stem), self._stopping_downloads(new):
            for segment, contents in self._download_all(new):
                for file, part, content in zip(self._files, (segment.warc, segment.meta), contents, strict=True):
                    _write_at(file, content, part.start)
            for descriptor in self._files:
                os.fdatasync(descriptor)
        with self._rows:
            self._rows.executemany(
                "INSERT INTO segment VALUES (?, ?, ?)",
                ((one.number, one.name, msgspec.msgpack.encode(one)) for one in new),
            )
        self._last = new[-1]
        self._publish()
        return len(new)

    def _pull_rewritten(self) -> None:
        """Bring the bytes of segments that were rewritten since: after new segments, whose rows may have been read just
        before."""
        while found := self._manifest.rewritten(self._last_rewrite, SEGMENTS_PER_PASS):
            ours = [one for one in found if self._last is not None and one.number <= self._last.number]
            ours.sort(key=lambda one: one.number)
            with write_errors(self._stem), self._stopping_downloads(ours):
                for segment, contents in self._download_all(ours):
                    for file, part, content in zip(self._files, (segment.warc, segment.meta), contents, strict=True):
                        _overwrite(file, content, part.start)
                for descriptor in self._files:
                    os.fdatasync(descriptor)
            with self._rows:
                self._rows.executemany(
                    "UPDATE segment SET name = ?, row = ? WHERE number = ?",
                    ((one.name, msgspec.msgpack.encode(one), one.number) for one in ours),
                )
                self._rows.execute("UPDATE rewrite SET last = ?", (found[-1].rewrite,))
            self._last, self._last_rewrite = self._read_last(), found[-1].rewrite

    def _next_segments(self) -> list[Segment]:
        """The segments behind the last one, which must still be the same."""
        last = self._last
        found = self._manifest.segments(last.number if last else 1, SEGMENTS_PER_PASS + 1)
        if last is not None:
            if not found or not _is_same(found[0], last):
                raise DataError(
                    message(
                        "{path}: the manifest has no segment {number} ({name}) any more: it was restored from an older"
                        " backup, or belongs to another log. Nothing was changed",
                        path=self._stem,
                        number=str(last.number),
                        name=last.name,
                    )
                )
            found = found[1:]
        for before, one in zip([last, *found], found, strict=False):
            number, ends = (before.number, before.lengths) if before else (0, DurableLengths(0, 0, 0))
            if (one.number, one.warc.start, one.meta.start) != (number + 1, ends.warc, ends.meta):
                raise DataError(
                    message(
                        "{path}: the manifest has a gap before segment {number}",
                        path=self._stem,
                        number=str(one.number),
                    )
                )
        return found

    def _download_all(self, segments: list[Segment]) -> Iterator[tuple[Segment, tuple[bytes, bytes]]]:
        groups = list[list[Segment]]()
        for one in segments:
            if groups and _is_next(groups[-1][-1], one):
                groups[-1].append(one)
            else:
                groups.append([one])
        for group, contents in zip(groups, self._downloads.map(self.download, groups), strict=True):
            yield from zip(group, contents, strict=True)

    def read(self, segment: Segment) -> tuple[bytes, bytes]:
        """The bytes of both parts of a segment, as they are here, checked; if they are damaged, from the store."""
        parts = segment.warc, segment.meta
        warc, meta = (os.pread(file, part.size, part.start) for file, part in zip(self._files, parts, strict=True))
        is_whole = (digest(warc), digest(meta)) == (segment.warc.digest, segment.meta.digest)
        return (warc, meta) if is_whole else self.download([segment])[0]

    def download(self, group: list[Segment]) -> list[tuple[bytes, bytes]]:
        """The bytes of both parts of some segments that share their objects, from the store, checked."""
        if group[0].note:
            return [(b"", one.note) for one in group]
        warc, meta = object_names_of(group[0].name)
        return list(
            zip(self._get(warc, [one.warc for one in group]), self._get(meta, [one.meta for one in group]), strict=True)
        )

    def _get(self, name: str, parts: list[SegmentPart]) -> Iterator[bytes]:
        """The parts, which stand in an object in their order."""
        start, size = parts[0].offset, parts[-1].offset + parts[-1].size - parts[0].offset
        read = self.store.get_part(name, start, size) if is_merged(name) else self.store.get(name, size)
        for part in parts:
            content = read[part.offset - start : part.offset - start + part.size]
            if digest(content) != part.digest:
                raise DataError(
                    message(
                        "{store}/{name}: damaged: its bytes are not those that were written",
                        store=self.store.url,
                        name=name,
                    )
                )
            yield content

    @contextmanager
    def _stopping_downloads(self, segments: list[Segment]) -> Iterator[None]:
        """After an error, start no more of the downloads that wait. `Unreachable`: an object is missing because its
        segment was rewritten meanwhile; the next pass reads its row."""
        try:
            yield
        except BaseException as error:
            self._downloads.shutdown(wait=True, cancel_futures=True)
            self._downloads = ThreadPoolExecutor(DOWNLOADS)
            if isinstance(error, DataError) and self._are_outdated(segments):
                raise StoreUnreachable(message("{path}: segments are being rewritten", path=self._stem)) from None
            raise

    def _are_outdated(self, segments: list[Segment]) -> bool:
        return any(self._manifest.segments(one.number, 1) != [one] for one in segments)

    def _read_last(self) -> Segment | None:
        found = rows(self._rows, "SELECT row FROM segment ORDER BY number DESC LIMIT 1")
        return _decode_segment(found[0][0]) if found else None

    def _lock(self) -> int:
        descriptor = os.open(self._stem.with_name(f"{self._stem.name}.durable"), os.O_CREAT | os.O_RDWR, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Locked(message("{path}: another process is mirroring the log", path=self._stem)) from None
        return descriptor

    def _open(self, ending: str) -> int:
        descriptor = os.open(f"{self._stem}{ending}", os.O_CREAT | os.O_RDWR, 0o644)
        sync_directory(self._archive)
        return descriptor

    def _publish(self) -> None:
        with write_errors(self._stem):
            os.pwrite(self._durable_fd, durable_line(self.lengths), 0)
            os.fdatasync(self._durable_fd)


def follow(data: DataDirectory, manifest: SegmentManifest, log: LogIdentity, stop: Event) -> None:
    """Mirror the log until `stop` is set. Database and store may be away for any time."""
    with LogMirror(data, manifest, log) as mirror:
        is_waiting, swept_at, told_at = False, boottime(), 0.0
        while not stop.is_set():
            try:
                pulled = mirror.pull()
                if boottime() - told_at > STATUS_EVERY_S:
                    told_at = boottime()
                    write_log_status(data, mirror.status())
                if boottime() - swept_at > SWEEP_EVERY_S:
                    swept_at = boottime()
                    sweep_orphans(mirror.store, log, manifest)
            except Unreachable as error:
                if not is_waiting:
                    print_note(f"waiting: {error}")
                is_waiting = True
                write_log_status(data, mirror.status_in_trouble(error))
                stop.wait(RETRY_S)
                continue
            if is_waiting:
                print_note("the log can be read again; going on")
            is_waiting = False
            if pulled < SEGMENTS_PER_PASS:
                stop.wait(POLL_S)


def refuse_mirror(data: DataDirectory, command: str) -> None:
    """Raise where the archive is a mirror, for a command that changes the files of an archive."""
    log = mirrored_log(data)
    if log is not None:
        raise DataError(
            message(
                "{path}: mirrors the log in {store}, which all machines share: {command} works on the archive of one"
                " machine only",
                path=data.archive,
                store=log.store,
                command=command,
            )
        )


def detach_mirror(data: DataDirectory) -> None:
    """Make the mirror an archive of one machine: its files stay as they are."""
    SqliteFile(_rows_path(data)).remove()
    log_path(data).unlink(missing_ok=True)
    sync_directory(data.archive)


def _rows_path(data: DataDirectory) -> Path:
    return data.archive / "log.sqlite"


def _is_next(one: Segment, other: Segment) -> bool:
    """Whether a segment stands behind another one in the same objects."""
    ends = one.warc.offset + one.warc.size, one.meta.offset + one.meta.size
    return one.name == other.name and (other.warc.offset, other.meta.offset) == ends


def _is_same(found: Segment, known: Segment) -> bool:
    """Whether a row is the one that was read before; it may have been rewritten since, or merged with others."""
    digests = (found.warc.digest, found.meta.digest) if found.rewrite <= known.rewrite else ()
    return (found.number, found.lengths, found.warc.start, found.meta.start, found.note) == (
        known.number,
        known.lengths,
        known.warc.start,
        known.meta.start,
        known.note,
    ) and digests in ((), (known.warc.digest, known.meta.digest))


def _overwrite(descriptor: int, content: bytes, start: int) -> None:
    """Write what differs: readers are at work."""
    before = os.pread(descriptor, len(content), start)
    for at in range(0, len(content), CHANGED_BYTES):
        if content[at : at + CHANGED_BYTES] != before[at : at + CHANGED_BYTES]:
            _write_at(descriptor, content[at : at + CHANGED_BYTES], start + at)


def _write_at(descriptor: int, content: bytes, start: int) -> None:
    view, written = memoryview(content), 0
    while written < len(view):
        written += os.pwrite(descriptor, view[written:], start + written)
