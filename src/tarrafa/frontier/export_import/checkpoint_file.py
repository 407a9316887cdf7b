"""Checkpoint file: writes a whole frontier, or one collection, to one file, and verifies and loads it.

    tarrafa-frontier 1          one line of text: what this is, and the version of its format
    records                     one zstd frame; each record: kind (1 byte), length (4 bytes), msgpack
    tarrafa-end                 12 bytes, and the SHA-256 of everything before: a truncated file has none

The first record is the `CheckpointHeader` with the collections, then come the host exports
(`frontier/export_import/export_records.py`), the last is a `CheckpointSummary` with their number.
Promises: written and read at constant memory; a file is verified to its last byte before anything is imported; an
import that was interrupted is repeated without harm.
"""

import hashlib
import struct
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec
import zstandard

from tarrafa import __version__, config
from tarrafa.config.formats import COLLECTION_NAME
from tarrafa.errors import ConfigError, DataError
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.export_import.export_records import (
    URLS_MAX,
    ExportBatch,
    ExportCatalogue,
    FrontierCursor,
    HostExport,
    check_host_export,
    estimate_bytes,
)
from tarrafa.frontier.messages import ENTRIES_PER_RESPONSE
from tarrafa.takedown import TakedownEntry

FORMAT = 1
MAGIC, END = b"tarrafa-frontier ", b"\ntarrafa-end"
LEVEL = 3
WINDOW_BYTES_MAX = 1 << 27  # memory for decompression
RECORD = struct.Struct("!cI")
RECORD_BYTES_MAX = 64 << 20
HEADER, HOST_EXPORT, SUMMARY = b"h", b"i", b"s"
PART_BYTES = 1 << 20
BATCH_BYTES = 4 << 20  # of host exports, in one call of `import_hosts`

ProgressCallback = Callable[[int], None]
_encode = msgspec.msgpack.Encoder().encode


class ExportSource(Protocol):
    """Source of host exports: any frontier, or a snapshot of its file."""

    async def export_catalogue(self) -> ExportCatalogue: ...

    async def export_hosts(self, after: FrontierCursor, limit: int) -> ExportBatch: ...


class CheckpointHeader(msgspec.Struct, frozen=True):
    """`archive`: lengths of the archive's files, if the archive is beside this frontier. `takedowns`: the whole log of
    takedowns."""

    at: float
    software: str
    catalogue: ExportCatalogue
    archive: dict[str, int] | None = None
    takedowns: list[TakedownEntry] = []


class CheckpointSummary(msgspec.Struct, frozen=True):
    """What a checkpoint file contains."""

    hosts: int = 0
    urls: int = 0
    visits: int = 0
    pages: int = 0  # that are kept fresh

    def plus(self, image: HostExport) -> "CheckpointSummary":
        urls = [url for share in image.shares for url in share.urls]
        return CheckpointSummary(
            self.hosts + (image.row is not None),
            self.urls + len(urls),
            self.visits + sum(len(url.history) for url in urls),
            self.pages + sum(url.page is not None for url in urls),
        )


@dataclass(frozen=True, slots=True)
class CheckpointContents:
    """A verified checkpoint file."""

    path: Path
    header: CheckpointHeader
    summary: CheckpointSummary
    digest: str


# -- export ---------------------------------------------------------------------------------------------------


async def iterate_hosts(source: ExportSource, only: str | None = None) -> AsyncIterator[HostExport]:
    """All hosts, or their parts of one collection."""
    cursor: FrontierCursor | None = FrontierCursor()
    first: HostExport | None = None  # the part of the host that has its row
    while cursor is not None:
        batch = await source.export_hosts(cursor, URLS_MAX)
        for image in batch.images:
            if only is None:
                yield image
                continue
            first = image if image.row is not None else first
            shares = [share for share in image.shares if share.collection == only]
            if shares:
                row = first.row if first is not None and first.id == image.id else None
                yield msgspec.structs.replace(image, row=row, shares=shares)
                first = None
        cursor = batch.end


async def fetch_catalogue(source: ExportSource, only: str | None = None) -> ExportCatalogue:
    catalogue = await source.export_catalogue()
    names = [image.name for image in catalogue.collections]
    if only is not None and only not in names:
        raise ConfigError(f"no collection is named {only!r} (there are: {', '.join(names) or 'none'})")
    images = [image for image in catalogue.collections if only in (None, image.name)]
    for image in images:
        if image.state == "importing":
            raise DataError(f"{image.name}: was not wholly imported; finish that first")
    deleted = {} if only is not None else catalogue.deleted
    return msgspec.structs.replace(catalogue, collections=images, deleted=deleted)


async def write_checkpoint(
    source: ExportSource,
    file: IO[bytes],
    at: float,
    archive: dict[str, int] | None,
    only: str | None,
    report: ProgressCallback,
    takedowns: list[TakedownEntry],
) -> CheckpointSummary:
    """Write everything, or one collection, to an open file. `report` gets the number of URLs of each host export."""
    summary, digest = CheckpointSummary(), hashlib.sha256()

    def put(part: bytes) -> None:
        digest.update(part)
        file.write(part)

    put(MAGIC + f"{FORMAT}\n".encode())
    packer = zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compressobj()
    header = CheckpointHeader(at, __version__, await fetch_catalogue(source, only), archive, takedowns)
    put(packer.compress(_record(HEADER, header)))
    async for image in iterate_hosts(source, only):
        put(packer.compress(_record(HOST_EXPORT, image)))
        summary = summary.plus(image)
        report(image.urls)
    put(packer.compress(_record(SUMMARY, summary)))
    put(packer.flush())
    put(END)
    file.write(digest.digest())
    return summary


def _record(kind: bytes, content: Any) -> bytes:
    body = _encode(content)
    if len(body) > RECORD_BYTES_MAX:
        raise DataError(f"a record of {len(body):,} bytes is more than the {RECORD_BYTES_MAX:,} allowed")
    return RECORD.pack(kind, len(body)) + body


# -- import ---------------------------------------------------------------------------------------------------


def verify_checkpoint(path: Path, report: ProgressCallback = lambda size: None) -> CheckpointContents:
    """Verify a file to its last byte. `report` gets the number of bytes read."""
    digest = _check_complete(path)
    header: CheckpointHeader | None = None
    counted, stored = CheckpointSummary(), None
    for number, (kind, content, read) in enumerate(_records(path)):
        report(read)
        if (kind == HEADER) != (number == 0):
            raise DataError(f"{path}: record {number} is not where it belongs; the file is damaged")
        if isinstance(content, CheckpointHeader):
            header = content
            _check_header(path, header)
        elif isinstance(content, CheckpointSummary):
            stored = content
        else:
            try:
                check_host_export(content)
            except DataError as error:
                raise DataError(f"{path}: {error}") from None
            counted = counted.plus(content)
    if header is None or stored != counted:
        raise DataError(f"{path}: holds {counted}, but says that it holds {stored}; the file is damaged")
    return CheckpointContents(path, header, counted, digest)


def _check_complete(path: Path) -> str:
    """Check beginning, end and digest of a file; returns the digest."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            line = file.readline(len(MAGIC) + 20)
            version = line.removeprefix(MAGIC).strip()
            if not line.startswith(MAGIC) or not version.isdigit():
                raise DataError(f"{path}: no frontier that `tarrafa export frontier` wrote")
            if int(version) > FORMAT:
                raise DataError(
                    f"{path}: written by a newer Tarrafa (format {int(version)}, this one reads up to {FORMAT})"
                )
            tail = len(END) + hashlib.sha256().digest_size
            digest, left = hashlib.sha256(line), size - len(line) - tail + len(END)
            last = b""
            while left > 0 and (part := file.read(min(PART_BYTES, left))):
                digest.update(part)
                last, left = (last + part)[-len(END) :], left - len(part)
            found = file.read()
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None
    if last != END or len(found) != digest.digest_size:
        raise DataError(f"{path}: its end is missing; it was cut while it was written or copied; nothing was changed")
    if found != digest.digest():
        raise DataError(f"{path}: damaged: its contents are not those that were written; nothing was changed")
    return digest.hexdigest()


_DECODERS: dict[bytes, msgspec.msgpack.Decoder[Any]] = {
    HEADER: msgspec.msgpack.Decoder(CheckpointHeader),
    HOST_EXPORT: msgspec.msgpack.Decoder(HostExport),
    SUMMARY: msgspec.msgpack.Decoder(CheckpointSummary),
}


def _records(path: Path) -> Iterator[tuple[bytes, Any, int]]:
    """Each record, and how many bytes of the file were read since the previous one."""
    number, seen = 0, 0
    try:
        with path.open("rb") as file:
            file.readline(len(MAGIC) + 20)
            unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES_MAX).stream_reader(file)
            kind = b""
            while kind != SUMMARY:
                kind, length = RECORD.unpack(_read_exactly(unpacker, RECORD.size))
                if kind not in _DECODERS or length > RECORD_BYTES_MAX:
                    raise DataError(f"{path}: record {number} is of no kind that this Tarrafa knows")
                content = _DECODERS[kind].decode(_read_exactly(unpacker, length))
                at = file.tell()
                yield kind, content, at - seen
                number, seen = number + 1, at
    except (zstandard.ZstdError, msgspec.MsgspecError, EOFError, struct.error) as error:
        raise DataError(f"{path}: record {number} cannot be read: {error}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from None


def _read_exactly(stream: IO[bytes], count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = stream.read(count - len(parts))
        if not part:
            raise EOFError("it ends before its end")
        parts += part
    return bytes(parts)


def _check_header(path: Path, header: CheckpointHeader) -> None:
    for image in header.catalogue.collections:
        try:
            name = config.decode_collection(image.config).name
        except (ConfigError, msgspec.MsgspecError) as error:
            raise DataError(f"{path}: the configuration of {image.name!r} cannot be read: {error}") from None
        if name != image.name:
            raise DataError(f"{path}: the collection {image.name!r} has the configuration of {name!r}")
    for name in header.catalogue.deleted:
        if not COLLECTION_NAME.fullmatch(name):
            raise DataError(f"{path}: {name[:80]!r} is no collection's name")


async def load_checkpoint(frontier: Frontier, contents: CheckpointContents, report: ProgressCallback) -> list[str]:
    """Import a verified file; returns the names of its collections. They are paused, or finished as they were.

    An import that was killed continues when it is repeated; until then its collections are not crawled.
    """
    mark = f"import of {contents.digest[:32]} is under way"
    images = contents.header.catalogue.collections
    here = {row.name for row in await frontier.collections() if (row.state, row.reason) != ("importing", mark)}
    if taken := sorted(here & {image.name for image in images}):
        raise DataError(
            f"{contents.path}: {', '.join(taken)}: a collection of this name is here already; nothing was changed"
            " (import into another --data directory, or export single collections with --collection)"
        )
    takedowns = contents.header.takedowns
    for start in range(0, len(takedowns), ENTRIES_PER_RESPONSE):
        await frontier.record_takedowns(takedowns[start : start + ENTRIES_PER_RESPONSE])
    for image in images:
        await frontier.import_collection(msgspec.structs.replace(image, reason=mark))
    await frontier.import_deletions(contents.header.catalogue.deleted)
    for batch in _import_batches(contents.path):
        await frontier.import_hosts(batch)
        report(sum(image.urls for image in batch))
    for image in images:
        if image.state == "finished":
            await frontier.set_state(image.name, "finished", image.reason)
        else:
            await frontier.set_state(image.name, "paused", "imported; `tarrafa crawl FILE` goes on where it was")
    return [image.name for image in images]


def _import_batches(path: Path) -> Iterator[list[HostExport]]:
    batch, size = list[HostExport](), 0
    for kind, content, _ in _records(path):
        if kind == HOST_EXPORT:
            batch.append(content)
            size += estimate_bytes(content)
            if size >= BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch
