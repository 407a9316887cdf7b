"""What has been archived since I last looked?

Promises: a record is shown only when it is on the disk for certain and whole; following from the offset that came with
a record shows exactly what came after it. A `Cursor` is {file name: offset in its meta file}; whoever follows keeps it
together with what it made of the records, and replays harmlessly after a crash.
Knows nothing of who follows.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
from fastwarc.warc import ArchiveIterator, WarcRecordType

from tarrafa.archive.writer import read_durable
from tarrafa.errors import DataError
from tarrafa.model import Record

Cursor = dict[str, int]


class Entry(NamedTuple):
    """A record, and where to go on after it."""

    file: str
    end: int
    record: Record


def published(directory: Path) -> Cursor:
    """How far each meta file may be read now."""
    return {
        path.name.removesuffix(".durable"): durable.meta
        for path in sorted(directory.glob("*.durable"))
        if (durable := read_durable(path)).meta
    }


def behind(directory: Path, cursor: Cursor) -> int:
    """How many durable bytes the cursor has not seen."""
    return sum(max(0, length - cursor.get(file, 0)) for file, length in published(directory).items())


def follow(directory: Path, cursor: Cursor) -> Iterator[Entry]:
    """Every record that became durable after the cursor, file by file, until there is no more *now*."""
    for file, length in published(directory).items():
        start = cursor.get(file, 0)
        if length > start:
            yield from _read(directory / f"{file}.meta.warc.gz", file, start, length)


_decode = msgspec.json.Decoder(Record).decode


def _read(path: Path, file: str, start: int, length: int) -> Iterator[Entry]:
    """A metadata record is complete when the next one begins: its conversion, if any, comes straight after it."""
    held: Record | None = None
    with path.open("rb") as stream:
        stream.seek(start)
        for raw in ArchiveIterator(stream, parse_http=False):
            if raw.stream_pos >= length:
                break
            if raw.record_type not in (WarcRecordType.metadata, WarcRecordType.conversion):
                continue
            body = raw.reader.read()
            if len(body) != raw.content_length:  # the reader alone accepts a torn record
                raise DataError(f"{path}: the record at {raw.stream_pos} is not whole")
            if raw.record_type == WarcRecordType.metadata:
                if held is not None:
                    yield Entry(file, raw.stream_pos, held)
                held = _parse(path, raw.stream_pos, body)
            elif held is not None and held.page is not None:
                text = body.decode("utf-8", "surrogatepass")
                held = msgspec.structs.replace(held, page=msgspec.structs.replace(held.page, text=text))
    if held is not None:
        yield Entry(file, length, held)


def _parse(path: Path, position: int, body: bytes) -> Record:
    try:
        return _decode(body)
    except msgspec.MsgspecError as error:
        raise DataError(f"{path}: the record at {position} cannot be read: {error}") from None
