"""WARC writer: appends visits, makes them durable with fsync, and recovers the files after a crash.

Promises: each record is a gzip member of its own; records that the function returned by `seal` has made durable survive
a power cut; other records are cut off by `recover_archive` after a crash, so that every file is complete. One writer
has one pair of files, locked while it lives: `recover_archive` does not touch them. Knows nothing of HTTP clients,
frontiers or parsing.
"""

import contextlib
import fcntl
import hashlib
import os
from base64 import b32encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import IO
from zlib import crc32

import msgspec
from fastwarc.stream_io import GzipWriter
from fastwarc.warc import WarcRecord, WarcRecordType

from tarrafa import __version__
from tarrafa.errors import DataError, data_error_from_os
from tarrafa.model import CollectionNote, DeletedNote, HostNote, ListingNote, Note, VisitRecord
from tarrafa.runtime.data_dir import sync_directory

FILE_BYTES_MAX = 1 << 30
GZIP_LEVEL = 3  # level 9 costs three times the time for 4 % less
BUFFER_BYTES = 1 << 20
HTTP_REQUEST = "application/http; msgtype=request"
HTTP_RESPONSE = "application/http; msgtype=response"
PROFILES = "http://netpreserve.org/warc/1.1/revisit/"
NOT_MODIFIED, SAME_PAYLOAD = f"{PROFILES}server-not-modified", f"{PROFILES}identical-payload-digest"
METADATA_TYPE = "application/json"
TEXT_TYPE = "text/plain; charset=utf-8"
STATEMENTS_TYPE = "application/n-quads"
NOTE_URI = "urn:tarrafa:"  # of a note without a URL of its own
COLLECTION_URI = f"{NOTE_URI}collection:"
DELETED_URI = f"{NOTE_URI}deleted:"


class WarcExchange(msgspec.Struct, frozen=True):
    """One request and its response, byte for byte as sent over the network."""

    url: str
    at: float
    request: bytes
    response: bytes  # header block and body, transfer and content encodings as sent
    head_bytes: int  # length of the header block in `response`
    address: str = ""
    truncated: str = ""  # "length" or "time": why the body is incomplete
    payload: str = ""  # the body's digest, if it is already known
    same_as: float = 0.0  # when the archive got this body (or, of a 304, the body that it confirms); 0: never

    def digest(self) -> str:
        return self.payload or payload_digest(self.response[self.head_bytes :])


def payload_digest(body: bytes) -> str:
    return "sha1:" + b32encode(hashlib.sha1(body, usedforsecurity=False).digest()).decode()


class DurableLengths(msgspec.Struct, frozen=True):
    """The durable lengths of a pair of files; behind `told` there are notes, but no visit."""

    warc: int
    meta: int
    visits_end: int


class _WarcFile:
    """One WARC file being written."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: IO[bytes] = path.open("xb", buffering=BUFFER_BYTES)
        self.gzip = GzipWriter(self.file, compression_level=GZIP_LEVEL)

    def write(self, record: WarcRecord) -> None:
        record.write(self.gzip, checksum_data=True)
        self.gzip.finish()  # one member per record

    def length(self) -> int:
        self.file.flush()
        return self.file.tell()

    def sync(self) -> None:
        os.fdatasync(self.file.fileno())


def warc_date(at: float) -> str:
    """A date in the format of WARC-Date, so that the two can be compared."""
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def _record(kind: WarcRecordType, url: str, at: float, content_type: str) -> WarcRecord:
    record = WarcRecord()
    record.init_headers(kind)
    record.record_date = datetime.fromtimestamp(at, UTC)
    headers = record.headers
    if url:
        headers["WARC-Target-URI"] = url
    headers["Content-Type"] = content_type
    return record


class WarcWriter:
    """Appends visits to the archive. `append` is fast and runs on the event loop; the function that `seal` returns is
    slow.
    """

    def __init__(self, directory: Path, worker: str, stamp: float) -> None:
        self._directory = directory
        day = datetime.fromtimestamp(stamp, UTC).strftime("%Y%m%d%H%M%S")
        self._prefix = f"tarrafa-{day}-{worker}"
        self._serial = 0
        self._warc: _WarcFile | None = None
        self._meta: _WarcFile | None = None
        self._visits_end = 0  # end of the last visit's record
        self._durable_fd = -1

    @property
    def file_pair(self) -> int:
        """The number of the pair of files for the next record."""
        return self._serial if self._warc is not None else self._serial + 1

    def append(self, record: VisitRecord, exchange: WarcExchange | None) -> None:
        """Write one visit: always its metadata, the exchange if it is kept, the page's text if any."""
        try:
            warc, meta = self._files()
            if exchange is not None:
                self._append_exchange(warc, exchange)
            self._append_metadata(meta, record)
            self._visits_end = meta.file.tell()
        except OSError as error:
            raise data_error_from_os(error, self._directory) from None

    def append_exchange(self, exchange: WarcExchange) -> None:
        """Write an exchange that is no visit: robots.txt, a sitemap."""
        try:
            self._append_exchange(self._files()[0], exchange)
        except OSError as error:
            raise data_error_from_os(error, self._directory) from None

    def append_note(self, note: Note, at: float) -> None:
        """Write a note that is needed to rebuild the frontier. Followers of visits do not see it."""
        try:
            record = _record(WarcRecordType.resource, _note_uri(note), at, METADATA_TYPE)
            record.set_bytes_content(msgspec.json.encode(note))
            self._files()[1].write(record)
        except OSError as error:
            raise data_error_from_os(error, self._directory) from None

    def seal(self) -> Callable[[], None]:
        """Fix the records appended so far; the returned function makes them durable and may run in a thread."""
        if self._warc is None or self._meta is None:
            return lambda: None
        warc, meta, descriptor = self._warc, self._meta, self._durable_fd
        try:
            durable = DurableLengths(warc.length(), meta.length(), self._visits_end)
        except OSError as error:
            raise data_error_from_os(error, self._directory) from None
        full = max(durable.warc, durable.meta) >= FILE_BYTES_MAX
        if full:
            self._warc = self._meta = None

        def publish() -> None:
            try:
                warc.sync()
                meta.sync()
                _write_durable(descriptor, durable)
                if full:
                    _close(warc, meta, descriptor)
            except OSError as error:
                raise data_error_from_os(error, warc.path) from None

        return publish

    def close(self) -> None:
        self.seal()()
        if self._warc is not None and self._meta is not None:
            _close(self._warc, self._meta, self._durable_fd)
            self._warc = self._meta = None

    def _files(self) -> tuple[_WarcFile, _WarcFile]:
        if self._warc is None or self._meta is None:
            self._open()
            assert self._warc is not None
            assert self._meta is not None
        return self._warc, self._meta

    def _open(self) -> None:
        while True:  # a worker restarted within the same second needs another name
            self._serial += 1
            name = self._directory / f"{self._prefix}-{self._serial:05d}"
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY
                self._durable_fd = os.open(f"{name}.durable", flags, 0o644)
            except FileExistsError:
                continue
            fcntl.flock(self._durable_fd, fcntl.LOCK_EX)
            if os.fstat(self._durable_fd).st_nlink:  # else `recover_archive` removed it before it was locked
                break
            os.close(self._durable_fd)
        self._warc, self._meta = _WarcFile(Path(f"{name}.warc.gz")), _WarcFile(Path(f"{name}.meta.warc.gz"))
        self._visits_end = 0
        for file in (self._warc, self._meta):
            info = _record(WarcRecordType.warcinfo, "", datetime.now(UTC).timestamp(), "application/warc-fields")
            info.headers["WARC-Filename"] = file.path.name
            info.set_bytes_content(f"software: Tarrafa/{__version__}\r\nformat: WARC File Format 1.1\r\n".encode())
            file.write(info)
        sync_directory(self._directory)

    @staticmethod
    def _append_exchange(warc: _WarcFile, exchange: WarcExchange) -> None:
        kind = WarcRecordType.revisit if exchange.same_as else WarcRecordType.response
        response = _record(kind, exchange.url, exchange.at, HTTP_RESPONSE)
        if exchange.address:
            response.headers["WARC-IP-Address"] = exchange.address
        if exchange.truncated:
            response.headers["WARC-Truncated"] = exchange.truncated
        if exchange.same_as:  # WARC 1.1, 6.7: the header block, and where the body is
            not_modified = exchange.response[:12].endswith(b"304")
            response.headers["WARC-Profile"] = NOT_MODIFIED if not_modified else SAME_PAYLOAD
            response.headers["WARC-Refers-To-Target-URI"] = exchange.url
            response.headers["WARC-Refers-To-Date"] = warc_date(exchange.same_as)
        response.headers["WARC-Payload-Digest"] = exchange.digest()
        response.set_bytes_content(exchange.response[: exchange.head_bytes] if exchange.same_as else exchange.response)
        warc.write(response)
        request = _record(WarcRecordType.request, exchange.url, exchange.at, HTTP_REQUEST)
        request.headers["WARC-Concurrent-To"] = response.record_id or ""
        request.set_bytes_content(exchange.request)
        warc.write(request)

    @staticmethod
    def _append_metadata(meta: _WarcFile, record: VisitRecord) -> None:
        page = record.page
        if page is not None and (page.text or page.statements):
            record = msgspec.structs.replace(record, page=msgspec.structs.replace(page, text="", statements=""))
        metadata = _record(WarcRecordType.metadata, record.url, record.outcome.at, METADATA_TYPE)
        metadata.set_bytes_content(msgspec.json.encode(record))
        meta.write(metadata)
        if page is None:
            return
        for content, kind in ((page.text, TEXT_TYPE), (page.statements, STATEMENTS_TYPE)):
            if content:
                conversion = _record(WarcRecordType.conversion, record.url, record.outcome.at, kind)
                conversion.headers["WARC-Refers-To"] = metadata.record_id or ""
                conversion.set_bytes_content(content.encode("utf-8", "surrogatepass"))
                meta.write(conversion)


def _note_uri(note: Note) -> str:
    """The URI that a note is about."""
    if isinstance(note, CollectionNote):
        return f"{COLLECTION_URI}{note.collection}"
    if isinstance(note, HostNote):
        return f"{note.host}/robots.txt"
    if isinstance(note, DeletedNote):
        return f"{DELETED_URI}{note.collection}"
    return note.url if isinstance(note, ListingNote) else f"{NOTE_URI}frontier"


def _close(warc: _WarcFile, meta: _WarcFile, descriptor: int) -> None:
    warc.file.close()
    meta.file.close()
    os.close(descriptor)


def _write_durable(descriptor: int, durable: DurableLengths) -> None:
    """One small overwrite in place: after a crash the file holds either the old line or the new one."""
    line = f"{durable.warc} {durable.meta} {durable.visits_end}"
    os.pwrite(descriptor, f"{line} {crc32(line.encode()):08x}".ljust(63).encode() + b"\n", 0)
    os.fdatasync(descriptor)


def read_durable(path: Path) -> DurableLengths:
    """The content of `NAME.durable`; before the first publication nothing is durable."""
    text = path.read_text(encoding="ascii", errors="replace")
    if not text.strip():
        return DurableLengths(0, 0, 0)
    *parts, sum_of_them = text.split()
    if len(parts) not in (2, 3) or f"{crc32(' '.join(parts).encode()):08x}" != sum_of_them:
        raise DataError(f"{path}: damaged: {text.strip()[:60]!r}")
    warc, meta, told = int(parts[0]), int(parts[1]), int(parts[-1])  # an older file has visits only
    return DurableLengths(warc, meta, told)


def recover_archive(directory: Path) -> int:
    """Cut off the records that crashed writers had not made durable; returns the number of bytes cut.

    No process relies on these records: their visits were never finished. The files of a living writer are not touched.
    """
    cut = 0
    for path in sorted(directory.glob("*.durable")):
        with _lock_abandoned(path) as deserted:
            if deserted:
                cut += _truncate(path)
    return cut


@contextlib.contextmanager
def _lock_abandoned(path: Path) -> Iterator[bool]:
    """Lock files without a living writer; whether that worked."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _truncate(path: Path) -> int:
    durable, cut = read_durable(path), 0
    name = path.name.removesuffix(".durable")
    pairs = ((f"{name}.warc.gz", durable.warc), (f"{name}.meta.warc.gz", durable.meta))
    for file, length in pairs:
        target = path.with_name(file)
        size = target.stat().st_size if target.exists() else 0
        if size < length:
            raise DataError(f"{target}: {length} bytes were made durable, only {size} are there")
        cut += size - length
        if size > length and length:
            os.truncate(target, length)
    if durable.meta == 0:  # never published: no process relies on it
        for file, _ in pairs:
            path.with_name(file).unlink(missing_ok=True)
        path.unlink()
    return cut
