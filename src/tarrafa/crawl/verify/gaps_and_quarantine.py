"""Gaps and quarantine: bytes of archive files are replaced in place, and what was there is kept in DATA/quarantine.

    DATA/quarantine/FILE.FROM-TO       bytes that were replaced
    DATA/quarantine/pending/FILE.FROM  bytes that are being written to their place

Promises: the old bytes are durable in the quarantine, and the new ones in `pending`, before the archive is touched. A
kill at any moment is completed by `finish_pending`, so that no byte is lost and no range is half old and half new. The
length of a file never shrinks here.

A *gap* is a `warcinfo` record, exactly as long as the damaged bytes in whose place it is, so that every reader steps
over it: it is a gzip member of uncompressed blocks, filled with spaces.
"""

import os
import shutil
import struct
import uuid
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

from tarrafa.archive.warc_writer import MEMBER_START, RECORD_END, SIZED_START, WARCINFO, DurableLengths, durable_line
from tarrafa.crawl.verify.archive_check import GAP_FIELD
from tarrafa.crawl.verify.losses import quarantine_folder
from tarrafa.errors import write_errors
from tarrafa.runtime.data_dir import DataDirectory, replace_atomically, sync_directory, write_atomically

COPIED_AT_ONCE = 1 << 20
BLOCK_MAX = 65_535  # of an uncompressed deflate block
BLOCK_HEAD, TRAILER = 5, 8


class ArchivePatches:
    """Changes the files of one archive. The caller holds DATA/lock."""

    def __init__(self, data: DataDirectory) -> None:
        self._archive, self._folder = data.archive, quarantine_folder(data)
        self._pending = self._folder / "pending"

    def finish_pending(self) -> int:
        """Complete patches that a kill has interrupted; their number."""
        found = sorted(self._pending.glob("*.gz.*")) if self._pending.is_dir() else []
        done = 0
        for path in found:
            name, _, offset = path.name.rpartition(".")
            if offset.isdecimal():
                self._write(self._archive / name, int(offset), path)
                done += 1
        return done

    def replace(self, path: Path, offset: int, end: int, source: Path, source_offset: int) -> None:
        """Replace a range by the same range of another file."""
        self._patch(path, offset, end, lambda target: _copy_range(source, source_offset, end - offset, target))

    def replace_file(self, path: Path, source: Path, length: int) -> None:
        """Replace a whole file by the beginning of another one."""
        self._keep(path, 0, path.stat().st_size)
        _copy_range(source, 0, length, path)

    def replace_bytes(self, path: Path, offset: int, content: bytes) -> None:
        def write(target: Path) -> None:
            with replace_atomically(target) as file:
                file.write(content)

        self._patch(path, offset, offset + len(content), write)

    def make_gap(self, path: Path, offset: int, end: int, date: str) -> bool:
        """Put a gap in the place of a range; False: the range is too short for one."""
        kept = f"{path.name}.{offset}-{end}"
        record = gap_record(end - offset, date, f"the damaged bytes {offset} to {end} are in quarantine/{kept}")
        if record:
            self.replace_bytes(path, offset, record)
        return bool(record)

    def write_mark(self, path: Path, durable: DurableLengths) -> None:
        """Write a durable mark; the old one is kept aside."""
        if path.exists():
            self._keep(path, 0, path.stat().st_size)
        with write_errors(path):
            write_atomically(path, durable_line(durable))

    def keep_tail(self, path: Path, offset: int) -> None:
        """Keep a copy of what lies behind an offset: the next start cuts it off."""
        if path.exists() and (size := path.stat().st_size) > offset:
            self._keep(path, offset, size)

    def _patch(self, path: Path, offset: int, end: int, write: Callable[[Path], None]) -> None:
        if path.exists():
            self._keep(path, offset, min(end, path.stat().st_size))
        with write_errors(self._pending):
            self._pending.mkdir(parents=True, exist_ok=True)
            sync_directory(self._folder)
        pending = self._pending / f"{path.name}.{offset}"
        write(pending)
        self._write(path, offset, pending)

    def _keep(self, path: Path, offset: int, end: int) -> None:
        """Copy bytes to the quarantine, once for each content."""
        if end <= offset:
            return
        with write_errors(self._folder):
            self._folder.mkdir(exist_ok=True)
        name = f"{path.name}.{offset}-{end}"
        for number in range(1, 10_000):
            target = self._folder / (name if number == 1 else f"{name}.{number}")
            if not target.exists():
                _copy_range(path, offset, end - offset, target)
                return
            if _is_same(path, offset, target):
                return

    def _write(self, path: Path, offset: int, pending: Path) -> None:
        with write_errors(path):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
            with os.fdopen(descriptor, "wb", closefd=True) as file, pending.open("rb") as source:
                file.seek(offset)
                shutil.copyfileobj(source, file, COPIED_AT_ONCE)
                file.flush()
                os.fsync(file.fileno())
            sync_directory(path.parent)
            pending.unlink()
            sync_directory(pending.parent)


def _copy_range(source: Path, offset: int, length: int, target: Path) -> None:
    with source.open("rb") as file, replace_atomically(target) as copy:
        file.seek(offset)
        while length > 0 and (chunk := file.read(min(COPIED_AT_ONCE, length))):
            copy.write(chunk)
            length -= len(chunk)


def _is_same(path: Path, offset: int, copy: Path) -> bool:
    with path.open("rb") as file, copy.open("rb") as other:
        file.seek(offset)
        while chunk := other.read(COPIED_AT_ONCE):
            if file.read(len(chunk)) != chunk:
                return False
    return True


def gap_record(length: int, date: str, why: str) -> bytes:
    """A gzip member of exactly this length, with a `warcinfo` record in it; empty if it is too short for one."""
    head = (
        f"WARC/1.1\r\nWARC-Type: {WARCINFO}\r\nWARC-Date: {date}\r\nWARC-Record-ID: <urn:uuid:{uuid.uuid4()}>\r\n"
        "Content-Length: {size:010d}\r\n\r\n"
    )
    room = length - SIZED_START.size - TRAILER
    blocks = max(1, -(-room // (BLOCK_MAX + BLOCK_HEAD)))
    size = room - BLOCK_HEAD * blocks  # of the record
    content_size = size - len(head.format(size=0)) - len(RECORD_END)
    if content_size < len(GAP_FIELD):
        return b""
    content = (GAP_FIELD + why.encode())[:content_size].ljust(content_size)
    record = head.format(size=content_size).encode() + content + RECORD_END
    packed = b"".join(_stored_blocks(record, blocks))
    start = SIZED_START.pack(MEMBER_START, length, len(record))
    return b"".join((start, packed, struct.pack("<II", crc32(record), len(record))))


def _stored_blocks(record: bytes, blocks: int) -> list[bytes]:
    """The record in this many uncompressed deflate blocks (RFC 1951, 3.2.4); the last ones may be empty."""
    parts = list[bytes]()
    for number in range(blocks):
        part = record[number * BLOCK_MAX : (number + 1) * BLOCK_MAX]
        parts += [struct.pack("<BHH", number == blocks - 1, len(part), len(part) ^ 0xFFFF), part]
    return parts
