"""WARC writer: bytes of records, visits appended to files, durability by fsync, and recovery after a crash.

A record is one gzip member, whose extra field states its length. That field is `sl` (skip-lengths) of the WARC 0.9
draft, section 9.2: the length of the gzip member and the length of the record in it, each a little-endian number of
four bytes. Later versions of the standard do not mention the field; any gzip reader passes over it.
Promises: each record is a gzip member of its own; records that the function returned by `prepare_commit` has made
durable survive a power cut; other records are cut off by `recover_archive` after a crash, so that every file is
complete. One writer has one pair of files, locked while it lives: `recover_archive` does not touch them. Knows nothing
of HTTP clients, frontiers or parsing.
"""

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from struct import Struct
from typing import IO, Protocol
from zlib import crc32

import msgspec
from deflate import gzip_compress
from isal import igzip_lib

from tarrafa import __version__
from tarrafa.archive.archive_settings import directory_for_new_files, raise_if_disk_missing, read_settings
from tarrafa.archive.revisit_record import is_unchanged, revisit_headers
from tarrafa.clock import boottime
from tarrafa.errors import DataError, write_errors
from tarrafa.i18n import message
from tarrafa.model import CollectionNote, DeletedNote, HostNote, ListingNote, Note, TakedownNote, VisitRecord
from tarrafa.runtime.data_dir import sync_directory

WARCINFO, METADATA, CONVERSION, RESOURCE = "warcinfo", "metadata", "conversion", "resource"
REQUEST, RESPONSE, REVISIT = "request", "response", "revisit"
INFO_TYPE = "application/warc-fields"
HTTP_REQUEST = "application/http; msgtype=request"
HTTP_RESPONSE = "application/http; msgtype=response"
METADATA_TYPE = "application/json"
HTML_TYPE = "text/html; charset=utf-8"
TEXT_TYPE = "text/plain; charset=utf-8"
STATEMENTS_TYPE = "application/n-quads"

BUFFER_BYTES = 1 << 20
NOTE_URI = "urn:tarrafa:"  # of a note without a URL of its own
COLLECTION_URI = f"{NOTE_URI}collection:"
DELETED_URI = f"{NOTE_URI}deleted:"
TAKEDOWN_URI = f"{NOTE_URI}takedown"
# Of small records igzip makes as few bytes as any, in the least time. Most bytes are in large ones: there libdeflate
# comes near to zlib's level 6 in a third of its time (decision 0357).
SMALL_LEVEL, LARGE_LEVEL = 2, 3  # of igzip; of libdeflate
LARGE_BYTES = 8 << 10
GZIP_HEADER_BYTES = 10  # that libdeflate writes
IDS_AT_ONCE = 256
DATES_REMEMBERED_MAX = 8  # the records of a visit share one
DIGEST_DIGITS = 32  # of SHA-1 in base 32, with five bits each
RECORD_END = b"\r\n\r\n"
# RFC 1952: magic number, deflate, FEXTRA; no time; no flags, system unknown; 12 bytes of extra field: `sl`, of 8 bytes
MEMBER_START = b"\x1f\x8b\x08\x04" + bytes(4) + b"\x00\xff" + b"\x0c\x00" + b"sl" + b"\x08\x00"
SIZED_START = Struct("<16sII")


# -- the bytes of a record ---------------------------------------------------------------------------------------------


def record_ids() -> Iterator[str]:
    """Random record ids without end (UUIDs, version 4). The system is asked for the randomness of many at once, so two
    processes must not share the iterator.
    """
    while True:
        pool = os.urandom(16 * IDS_AT_ONCE).hex()
        for start in range(0, len(pool), 32):
            one = pool[start : start + 32]
            variant = "89ab"[int(one[16], 16) & 3]
            yield f"<urn:uuid:{one[:8]}-{one[8:12]}-4{one[13:16]}-{variant}{one[17:20]}-{one[20:]}>"


@lru_cache(DATES_REMEMBERED_MAX)
def warc_date(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")


def sha1_digest(content: bytes) -> str:
    return "sha1:" + base32(hashlib.sha1(content, usedforsecurity=False).digest())


def _spreads() -> tuple[tuple[int, int, int], ...]:
    """Each step moves the upper half of every group of digits away from the lower half, until each digit of five bits
    has a byte of its own: masks of the upper and the lower halves, and the distance."""
    steps, digits = [], DIGEST_DIGITS
    while digits > 1:
        half = digits // 2
        low = sum((1 << 5 * half) - 1 << start for start in range(0, 8 * DIGEST_DIGITS, 8 * digits))
        steps.append((low << 5 * half, low, 3 * half))
        digits = half
    return tuple(steps)


_SPREADS = _spreads()
_BASE_32 = bytes.maketrans(bytes(range(32)), b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


def base32(digest: bytes) -> str:
    """A digest of 20 bytes in base 32 (RFC 4648). Python's own loop takes six times as long, and a page has six."""
    number = int.from_bytes(digest, "big")
    for high, low, distance in _SPREADS:
        number = (number & high) << distance | number & low
    return number.to_bytes(DIGEST_DIGITS, "big").translate(_BASE_32).decode()


def one_line(value: str) -> str:
    """A value of a header that cannot begin another line."""
    return value if value.isprintable() else " ".join(value.splitlines())


def pack_record(kind: str, date: str, record_id: str, headers: str, content: bytes) -> bytes:
    """The gzip member of a record. `headers`: the lines of those that only some kinds of records have."""
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Date: {date}\r\nWARC-Record-ID: {record_id}\r\n"
        f"Content-Length: {len(content)}\r\n{headers}WARC-Block-Digest: {sha1_digest(content)}\r\n\r\n"
    )
    record = b"".join((head.encode(), content, RECORD_END))
    if len(record) < LARGE_BYTES:
        packed = igzip_lib.compress(record, SMALL_LEVEL, igzip_lib.COMP_GZIP_NO_HDR)
    else:
        packed = bytes(memoryview(gzip_compress(record, LARGE_LEVEL))[GZIP_HEADER_BYTES:])
    return SIZED_START.pack(MEMBER_START, SIZED_START.size + len(packed), len(record)) + packed


def info_record(name: str) -> bytes:
    """The first record of a file, which describes it."""
    content = f"software: Tarrafa/{__version__}\r\nformat: WARC File Format 1.1\r\n".encode()
    headers = f"Content-Type: {INFO_TYPE}\r\nWARC-Filename: {one_line(name)}\r\n"
    date = warc_date(datetime.now(UTC).timestamp())
    return pack_record(WARCINFO, date, next(record_ids()), headers, content)


# -- the files ---------------------------------------------------------------------------------------------------------


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
    archived_payload: str = ""  # the digest of the body that the archive has of this URL; a 304 confirms it
    archived_at: float = 0.0
    archived_url: str = ""  # of that body, if it was archived of another URL
    rendered: bytes = b""  # the document as its scripts have made it, in UTF-8
    resource_type: str = ""  # of a body that was imported without a response: it is archived as a `resource`

    @property
    def is_revisit_record(self) -> bool:
        return is_unchanged(self.payload, self.archived_payload, self.archived_at)

    def digest(self) -> str:
        return self.payload or sha1_digest(self.response[self.head_bytes :])


class DurableLengths(msgspec.Struct, frozen=True):
    """The durable lengths of a pair of files; behind `visits_end` there are notes, but no visit."""

    warc: int
    meta: int
    visits_end: int


class RecordStream:
    """WARC records written one after the other, to a file or to memory; the first describes what follows."""

    def __init__(self, stream: IO[bytes], name: str) -> None:
        self._stream, self._ids = stream, record_ids()
        stream.write(info_record(name))

    def write(self, kind: str, date: str, headers: str, content: bytes) -> str:
        """Write a record; returns its id."""
        record_id = next(self._ids)
        self._stream.write(pack_record(kind, date, record_id, headers, content))
        return record_id

    def length(self) -> int:
        return self._stream.tell()


class RecordPair:
    """The two streams of a writer: `warc` has the exchanges, `meta` the visits and the notes."""

    def __init__(self, warc: RecordStream, meta: RecordStream) -> None:
        self._warc, self._meta = warc, meta
        self._visits_end = 0  # end of the last visit's record

    def append_exchange(self, exchange: WarcExchange) -> None:
        date, content, kind = warc_date(exchange.at), exchange.response, RESPONSE
        target = f"WARC-Target-URI: {one_line(exchange.url)}\r\n"
        headers = f"{target}Content-Type: {HTTP_RESPONSE}\r\n"
        if exchange.resource_type:
            kind, content = RESOURCE, content[exchange.head_bytes :]
            headers = f"{target}Content-Type: {one_line(exchange.resource_type)}\r\n"
        if exchange.address:
            headers += f"WARC-IP-Address: {one_line(exchange.address)}\r\n"
        if exchange.truncated:
            headers += f"WARC-Truncated: {one_line(exchange.truncated)}\r\n"
        if exchange.is_revisit_record:
            kind, content = REVISIT, content[: exchange.head_bytes]
            extra = revisit_headers(exchange.archived_url or exchange.url, content, warc_date(exchange.archived_at))
            headers += "".join(f"{name}: {one_line(value)}\r\n" for name, value in extra.items())
        headers += f"WARC-Payload-Digest: {exchange.digest()}\r\n"
        response = self._warc.write(kind, date, headers, content)
        if exchange.request:  # an imported capture may have none
            headers = f"{target}Content-Type: {HTTP_REQUEST}\r\nWARC-Concurrent-To: {response}\r\n"
            self._warc.write(REQUEST, date, headers, exchange.request)
        if exchange.rendered:
            headers = f"{target}Content-Type: {HTML_TYPE}\r\nWARC-Refers-To: {response}\r\n"
            self._warc.write(CONVERSION, date, headers, exchange.rendered)

    def append_visit(self, record: VisitRecord) -> None:
        date, target = warc_date(record.outcome.at), f"WARC-Target-URI: {one_line(record.url)}\r\n"
        record, texts = split_texts(record)
        headers = f"{target}Content-Type: {METADATA_TYPE}\r\n"
        metadata = self._meta.write(METADATA, date, headers, msgspec.json.encode(record))
        for content_type, content in texts:
            headers = f"{target}Content-Type: {content_type}\r\nWARC-Refers-To: {metadata}\r\n"
            self._meta.write(CONVERSION, date, headers, content)
        self._visits_end = self._meta.length()

    def append_note(self, note: Note, at: float) -> None:
        headers = f"WARC-Target-URI: {one_line(_note_uri(note))}\r\nContent-Type: {METADATA_TYPE}\r\n"
        self._meta.write(RESOURCE, warc_date(at), headers, msgspec.json.encode(note))

    def lengths(self) -> DurableLengths:
        return DurableLengths(self._warc.length(), self._meta.length(), self._visits_end)


class _FilePair:
    """A pair of files being written; `durable_fd` is the locked file of their durable lengths."""

    def __init__(self, name: str, durable_fd: int, directory: Path) -> None:
        self.path = Path(f"{name}.meta.warc.gz")
        paths = (Path(f"{name}.warc.gz"), self.path)
        self._files = [_new_file(path, directory) for path in paths]
        self.records = RecordPair(
            *(RecordStream(file, path.name) for file, path in zip(self._files, paths, strict=True))
        )
        self._durable_fd, self.began_at = durable_fd, boottime()
        self._syncs = ThreadPoolExecutor(1)  # two files are durable sooner if they are synced side by side

    def flush(self) -> DurableLengths:
        """Hand everything written so far to the system; the lengths up to there."""
        for file in self._files:
            file.flush()
        return self.records.lengths()

    def publish(self, durable: DurableLengths) -> None:
        """Make the files durable up to these lengths. One small overwrite in place: after a crash the file holds either
        the old line or the new one."""
        warc, meta = self._files
        other = self._syncs.submit(os.fdatasync, warc.fileno())
        os.fdatasync(meta.fileno())
        other.result()
        os.pwrite(self._durable_fd, durable_line(durable), 0)
        os.fdatasync(self._durable_fd)

    def close(self) -> None:
        self._syncs.shutdown()
        for file in self._files:
            file.close()
        os.close(self._durable_fd)


def _new_file(path: Path, directory: Path) -> IO[bytes]:
    """A new file of the archive; if it is on another disk, with a link to it."""
    real = directory / path.name
    file = real.open("xb", buffering=BUFFER_BYTES)
    if real != path:
        path.symlink_to(real)
    return file


class ArchiveWriter(Protocol):
    """Appends visits to an archive. `append` is fast and runs on the event loop; the function that `prepare_commit`
    returns is slow."""

    @property
    def file_pair(self) -> int:
        """The number of the pair of files for the next record: each begins with the configurations."""

    def append(self, record: VisitRecord, exchange: WarcExchange | None) -> None:
        """Write one visit: always its metadata, the exchange if it is kept, the page's text if any."""

    def append_exchange(self, exchange: WarcExchange) -> None:
        """Write an exchange that is no visit: robots.txt, or what a page's scripts asked for."""

    def append_note(self, note: Note, at: float) -> None:
        """Write a note that is needed to rebuild the frontier. Followers of visits do not see it."""

    def prepare_commit(self) -> Callable[[], None]:
        """Fix the records appended so far; the returned function makes them durable and may run in a thread."""

    def close(self) -> None: ...


class WarcWriter:
    """The archive of one machine: files in a directory, made durable by fsync."""

    def __init__(self, directory: Path, worker: str, stamp: float) -> None:
        self._directory = directory
        day = datetime.fromtimestamp(stamp, UTC).strftime("%Y%m%d%H%M%S")
        self._prefix = f"tarrafa-{day}-{worker}"
        self._serial, self._settings = 0, read_settings(directory)
        self._pair: _FilePair | None = None

    @property
    def file_pair(self) -> int:
        return self._serial if self._pair is not None else self._serial + 1

    def append(self, record: VisitRecord, exchange: WarcExchange | None) -> None:
        with write_errors(self._directory):
            records = self._records()
            if exchange is not None:
                records.append_exchange(exchange)
            records.append_visit(record)

    def append_exchange(self, exchange: WarcExchange) -> None:
        with write_errors(self._directory):
            self._records().append_exchange(exchange)

    def append_note(self, note: Note, at: float) -> None:
        with write_errors(self._directory):
            self._records().append_note(note, at)

    def prepare_commit(self) -> Callable[[], None]:
        pair = self._pair
        if pair is None:
            return lambda: None
        with write_errors(self._directory):
            durable = pair.flush()
        is_full = max(durable.warc, durable.meta) >= self._settings.file_size
        is_full |= 0 < self._settings.file_time <= boottime() - pair.began_at
        if is_full:
            self._pair = None

        def publish() -> None:
            with write_errors(pair.path):
                pair.publish(durable)
                if is_full:
                    pair.close()

        return publish

    def close(self) -> None:
        self.prepare_commit()()
        if self._pair is not None:
            self._pair.close()
            self._pair = None

    def _records(self) -> RecordPair:
        if self._pair is None:
            self._pair = self._open()
        return self._pair.records

    def _open(self) -> _FilePair:
        while True:  # a worker restarted within the same second needs another name
            self._serial += 1
            name = f"{self._directory}/{self._prefix}-{self._serial:05d}"
            try:
                durable_fd = os.open(f"{name}.durable", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
            except FileExistsError:
                continue
            fcntl.flock(durable_fd, fcntl.LOCK_EX)
            if os.fstat(durable_fd).st_nlink:  # else `recover_archive` removed it before it was locked
                break
            os.close(durable_fd)
        pair = _FilePair(name, durable_fd, directory_for_new_files(self._directory))
        sync_directory(self._directory)
        return pair


def split_texts(record: VisitRecord) -> tuple[VisitRecord, list[tuple[str, bytes]]]:
    """The record of a visit without the texts of its page, which are records of their own; and these, by type."""
    page = record.page
    if page is None:
        return record, []
    bare = msgspec.structs.replace(
        page, text="", statements="", wording=0, code_spans=(), language_chars=0, requisites=()
    )
    texts = [(TEXT_TYPE, page.text), (STATEMENTS_TYPE, page.statements)]
    encoded = [(kind, text.encode("utf-8", "surrogatepass")) for kind, text in texts if text]
    return msgspec.structs.replace(record, page=bare), encoded


def _note_uri(note: Note) -> str:
    """The URI that a note is about."""
    if isinstance(note, CollectionNote):
        return f"{COLLECTION_URI}{note.collection}"
    if isinstance(note, HostNote):
        return f"{note.host}/robots.txt"
    if isinstance(note, DeletedNote):
        return f"{DELETED_URI}{note.collection}"
    if isinstance(note, TakedownNote):
        return TAKEDOWN_URI
    return note.url if isinstance(note, ListingNote) else f"{NOTE_URI}frontier"


def durable_line(durable: DurableLengths) -> bytes:
    """The content of `NAME.durable`: always of one length."""
    line = f"{durable.warc} {durable.meta} {durable.visits_end}"
    return f"{line} {crc32(line.encode()):08x}".ljust(63).encode() + b"\n"


def read_durable(path: Path) -> DurableLengths:
    """The content of `NAME.durable`; before the first publication nothing is durable."""
    text = path.read_text(encoding="ascii", errors="replace")
    if not text.strip():
        return DurableLengths(0, 0, 0)
    *parts, checksum = text.split()
    if len(parts) not in (2, 3) or f"{crc32(' '.join(parts).encode()):08x}" != checksum:
        raise DataError(message("{path}: damaged: {line!r}", path=path, line=text.strip()[:60]))
    return DurableLengths(int(parts[0]), int(parts[1]), int(parts[-1]))  # an older file has visits only


def recover_archive(directory: Path) -> int:
    """Cut off the records that crashed writers had not made durable; returns the number of bytes cut.

    No process relies on these records: their visits were never finished. The files of a living writer are not touched.
    """
    cut = 0
    for path in sorted(directory.glob("*.durable")):
        with path.open("rb") as file, contextlib.suppress(BlockingIOError):  # a living writer has locked it
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            cut += _truncate(path)
    return cut


def _truncate(path: Path) -> int:
    durable, cut = read_durable(path), 0
    name = path.name.removesuffix(".durable")
    pairs = ((f"{name}.warc.gz", durable.warc), (f"{name}.meta.warc.gz", durable.meta))
    for file, length in pairs:
        target = path.with_name(file)
        raise_if_disk_missing(target)
        size = target.stat().st_size if target.exists() else 0
        if size < length:
            raise DataError(
                message(
                    "{target}: {length} bytes were made durable, only {size} are there",
                    target=target,
                    length=str(length),
                    size=str(size),
                )
            )
        cut += size - length
        if size > length and length:
            os.truncate(target, length)
    if durable.meta == 0:  # never published: no process relies on it
        for file, _ in pairs:
            remove_file(path.with_name(file))
        path.unlink()
    return cut


def remove_file(path: Path) -> None:
    """Remove a file of the archive: the file itself before the link that leads to it."""
    if path.is_symlink():
        path.readlink().unlink(missing_ok=True)
    path.unlink(missing_ok=True)
