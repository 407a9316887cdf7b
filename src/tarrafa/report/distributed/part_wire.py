"""The wire format of a report part: frames of msgpack packed by zstandard.

    POST URL/report/VERSION    a `PartRequest` in msgpack -> frames

A frame is its length in four bytes, and a message in msgpack, compressed by zstandard. First come any number of
progress messages; then names, statements of hosts, redirects and rows, some thousands in each; `PartEnd` is the last
one, or `PartFailed`. Rows go column by column, of each value the first byte, then the second, and so on: this
compresses best. VERSION is a hash of all these structs: two nodes that would misunderstand each other report it.

Promises: decoding frames gives a consistent part or a `ValueError`; nothing is decompressed beyond its bound, and no
number points beyond its table. Knows nothing of sockets.
"""

import sys
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec
import numpy as np
import zstandard
from msgspec import Meta

from tarrafa.fetch.node_client import wire_version
from tarrafa.graph.dead_links_and_inlinks import GraphStatistics
from tarrafa.index.index_state import PagesByFate
from tarrafa.report.distributed.local_part import PartRequest, ReportPart
from tarrafa.report.schema import StoragePart
from tarrafa.report.visit_rows import (
    ARCHIVED,
    NAME_CHARS_MAX,
    NAME_TABLES,
    NAMES_MAX,
    NEED_ROW,
    NEEDS_MAX,
    REDIRECTS_MAX,
    ROW,
    LatestRedirect,
    RobotsSummary,
    Rows,
    RowStore,
    ServerHeader,
    VisitRows,
)
from tarrafa.runtime.heartbeat import TEXT_CHARS_MAX, Amount, Count

PATH = "/report"
CONTENT_TYPE = "application/x-tarrafa-portion"
REQUEST_BYTES_MAX = 64 << 10
LENGTH_BYTES = 4
FRAME_BYTES_MAX, UNPACKED_BYTES_MAX = 8 << 20, 16 << 20
NAMES_PER_FRAME, ROWS_PER_FRAME = 1 << 12, 1 << 16
HOSTS_MAX, ROWS_MAX = 1 << 22, 1 << 27  # of one machine
COLLECTIONS_MAX, RUNS_MAX = 10_000, 100_000
CONFIG_BYTES_MAX = 4 << 20
PARTS_AT_ONCE = 8  # parts of several machines are held at once
MOMENT_MAX, ELAPSED_MAX = 1e11, 1e7  # seconds: the year 5138; four months
LEVEL = 1  # of zstandard: 3 saves 3 % of the bytes, and takes half as long again
HOST_KEY = r"^[a-z]+://[^\s/]+:\d+$"
FLAGS = 2 * ARCHIVED

HostKey = Annotated[str, Meta(pattern=HOST_KEY, max_length=TEXT_CHARS_MAX)]
Short = Annotated[str, Meta(max_length=NAME_CHARS_MAX)]
NameTable = Literal["types", "languages", "charsets", "collectors"]  # NAME_TABLES without hosts
PartName = Literal["archive", "metadata", "frontier", "index", "graph", "triples", "captures", "other"]
RowTable = Literal["rows", "requisites", "needs"]  # of `VisitRows`
Kind = Literal["data", "index", "other"]
REDIRECT_ROW = np.dtype([("url", "u8"), ("target", "u8"), ("visit", "u4"), ("code", "i2")])
CollectionTimes = Annotated[
    list[tuple[Annotated[str, Meta(max_length=TEXT_CHARS_MAX)], Amount]], Meta(max_length=COLLECTIONS_MAX)
]  # and the last time of an event


class PartMessage(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """The content of a frame."""


class PartKeepAlive(PartMessage, frozen=True):
    """The node is alive. It may come at any point."""


class PartProgress(PartMessage, frozen=True):
    """Bytes of the archive read, and in all."""

    done: Count
    total: Count


class PartHosts(PartMessage, frozen=True):
    keys: Annotated[list[HostKey], Meta(max_length=NAMES_PER_FRAME)]


class PartNames(PartMessage, frozen=True):
    """The next names of a table."""

    table: NameTable
    names: Annotated[list[Short], Meta(max_length=NAMES_PER_FRAME)]


class PartServers(PartMessage, frozen=True):
    """The Server headers of hosts, by number."""

    headers: Annotated[list[tuple[Count, ServerHeader]], Meta(max_length=NAMES_PER_FRAME)]


class PartRobots(PartMessage, frozen=True):
    """The robots.txt rules of hosts."""

    rules: Annotated[list[tuple[HostKey, RobotsSummary]], Meta(max_length=NAMES_PER_FRAME)]


class PartSitemaps(PartMessage, frozen=True):
    """Hosts with sitemaps."""

    keys: Annotated[list[HostKey], Meta(max_length=NAMES_PER_FRAME)]


class PartRedirects(PartMessage, frozen=True):
    """Redirects, in the layout of REDIRECT_ROW."""

    content: bytes


class PartRows(PartMessage, frozen=True):
    """Visits of pages or of requisites, in the layout of ROW; or which page needs which requisite, in that of
    NEED_ROW."""

    table: RowTable
    content: bytes


class PartEnd(PartMessage, frozen=True):
    """The rest of the part, and the number of rows sent."""

    rows: Count
    recorded: Count
    deleted: Amount | None
    revision: Annotated[int, Meta(ge=-1, le=1 << 60)]
    config: Annotated[bytes, Meta(max_length=CONFIG_BYTES_MAX)]
    names: CollectionTimes
    runs: Annotated[list[tuple[Count, Amount]], Meta(max_length=RUNS_MAX)]
    deletions: CollectionTimes
    moved_whole: bool
    storage: Annotated[list[tuple[PartName, Kind, Count]], Meta(max_length=20)]
    index: PagesByFate | None
    statements: Count | None
    graph: GraphStatistics | None
    requisites: Count = 0
    needs: Count = 0
    needs_whole: bool = True


class PartFailed(PartMessage, frozen=True):
    """The part cannot be completed, for this reason."""

    why: Annotated[str, Meta(max_length=1_000)]


Frame = (
    PartKeepAlive
    | PartProgress
    | PartHosts
    | PartNames
    | PartServers
    | PartRobots
    | PartSitemaps
    | PartRedirects
    | PartRows
    | PartEnd
    | PartFailed
)
_decode = msgspec.msgpack.Decoder(Frame).decode
_encode = msgspec.msgpack.Encoder().encode
T = TypeVar("T")


VERSION = wire_version(
    msgspec.json.schema(tuple[PartRequest, Frame]), ROW.descr, REDIRECT_ROW.descr, NEED_ROW.descr, sys.byteorder
)


# -- encoding --------------------------------------------------------------------------------------------------------


def encode_frame(message: PartMessage) -> bytes:
    content = zstandard.ZstdCompressor(level=LEVEL).compress(_encode(message))
    return len(content).to_bytes(LENGTH_BYTES, "big") + content


def encode_part(part: ReportPart) -> Iterator[bytes]:
    """The frames of a part, up to the last."""
    visits = part.visits
    for keys in _batches(visits.hosts):
        yield encode_frame(PartHosts(list(keys)))
    for table in get_args(NameTable):
        for names in _batches(getattr(visits, table)):
            yield encode_frame(PartNames(table, list(names)))
    for servers in _batches(list(visits.software.items())):
        yield encode_frame(PartServers(list(servers)))
    for rules in _batches(list(visits.rules.items())):
        yield encode_frame(PartRobots(list(rules)))
    for keys in _batches(sorted(visits.sitemaps)):
        yield encode_frame(PartSitemaps(list(keys)))
    moves = np.array([(url, one.target, one.visit, one.code) for url, one in visits.moved.items()], REDIRECT_ROW)
    for begin in range(0, len(moves), ROWS_PER_FRAME):
        yield encode_frame(PartRedirects(_columns_to_bytes(moves[begin : begin + ROWS_PER_FRAME])))
    for table in get_args(RowTable):
        rows = getattr(visits, table)
        for begin in range(0, len(rows), ROWS_PER_FRAME):
            yield encode_frame(PartRows(table, _columns_to_bytes(rows[begin : begin + ROWS_PER_FRAME])))
    yield encode_frame(_part_end(part))


def _part_end(part: ReportPart) -> PartEnd:
    visits, (revision, config) = part.visits, part.visits.config
    return PartEnd(
        len(visits.rows), visits.recorded, visits.deleted if visits.deleted > -inf else None, revision,
        config if len(config) <= CONFIG_BYTES_MAX else b"", _newest(visits.names),
        sorted(visits.runs.items())[-RUNS_MAX:], _newest(visits.deletions), visits.moved_whole,
        [(one.name, one.kind, one.bytes) for one in part.storage],  # type: ignore[misc]
        part.index, part.statements, part.graph, len(visits.requisites), len(visits.needs), visits.needs_whole,
    )  # fmt: skip


def _newest(times: dict[str, float]) -> list[tuple[str, float]]:
    return sorted(times.items(), key=lambda one: (-one[1], one[0]))[:COLLECTIONS_MAX]


def _batches(items: Sequence[T]) -> Iterable[Sequence[T]]:
    return (items[begin : begin + NAMES_PER_FRAME] for begin in range(0, len(items), NAMES_PER_FRAME))


def _columns_to_bytes(rows: Rows) -> bytes:
    """Column by column, byte by byte."""
    columns = (np.ascontiguousarray(rows[name]) for name in rows.dtype.names or ())
    return b"".join(column.view(np.uint8).reshape(len(rows), -1).T.tobytes() for column in columns)


# -- decoding --------------------------------------------------------------------------------------------------------


def _rows_from_bytes(content: bytes, kind: "np.dtype[Any]") -> Rows:
    count, rest = divmod(len(content), kind.itemsize)
    if rest or count > ROWS_PER_FRAME:
        raise ValueError(f"{len(content):,} bytes are no rows")
    rows, at, flat = np.empty(count, kind), 0, np.frombuffer(content, np.uint8)
    for name in kind.names or ():
        column, size = kind[name], kind[name].itemsize
        plain = np.ascontiguousarray(flat[at : at + count * size].reshape(size, count).T)
        rows[name] = plain.view(column)[:, 0] if count else 0
        at += count * size
    return rows


def decode_frame(content: bytes) -> Frame:
    """The message in a frame, without the length before it."""
    try:
        size = zstandard.frame_content_size(content)
        if not 0 < size <= UNPACKED_BYTES_MAX:
            raise ValueError(f"a frame of {size:,} bytes")
        found: Frame = _decode(zstandard.ZstdDecompressor().decompress(content))
        return found
    except (zstandard.ZstdError, msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(str(error)) from None


class PartReader:
    """Takes the bytes as they arrive. Use it in a `with`; `part` is set after the last frame."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._stores = {
            table: RowStore(PARTS_AT_ONCE, NEED_ROW if table == "needs" else ROW) for table in get_args(RowTable)
        }
        self._visits = VisitRows()
        self._most = dict.fromkeys(NAME_TABLES, -1)  # the largest number in each column
        self.messages = 0  # messages with progress or data
        self.read = (0, 0)  # bytes of the archive read there, and in all
        self.failed = ""
        self.part: ReportPart | None = None

    def __enter__(self) -> "PartReader":
        return self

    def __exit__(self, *_: object) -> None:
        for store in self._stores.values():
            store.__exit__()

    def feed(self, content: bytes) -> None:
        """Raises `ValueError` as soon as the data are known to be invalid."""
        self._waiting += content
        while len(self._waiting) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(self._waiting[:LENGTH_BYTES], "big")
            if end > LENGTH_BYTES + FRAME_BYTES_MAX:
                raise ValueError(f"a frame of {end:,} bytes")
            if len(self._waiting) < end:
                return
            message = decode_frame(bytes(self._waiting[LENGTH_BYTES:end]))
            del self._waiting[:end]
            if (self.part is not None or self.failed) and not isinstance(message, PartKeepAlive):
                raise ValueError("more comes after the end")
            self._handle(message)

    def _handle(self, message: Frame) -> None:
        visits = self._visits
        self.messages += not isinstance(message, PartKeepAlive)
        match message:
            case PartKeepAlive():
                pass
            case PartProgress(done, total):
                self.read = (min(done, total), total)
            case PartHosts(keys):
                visits.hosts += keys
                _require(len(visits.hosts) <= HOSTS_MAX, "hosts")
            case PartNames(table, names):
                known = getattr(visits, table)
                known += names
                _require(len(known) <= NAMES_MAX + 1, table)
            case PartServers(headers):
                visits.software.update(headers)
                _require(len(visits.software) <= HOSTS_MAX, "servers")
            case PartRobots(rules):
                visits.rules.update(rules)
                _require(len(visits.rules) <= HOSTS_MAX, "robots.txt")
            case PartSitemaps(keys):
                visits.sitemaps.update(keys)
                _require(len(visits.sitemaps) <= HOSTS_MAX, "sitemaps")
            case PartRedirects(content):
                for url, target, visit, code in _rows_from_bytes(content, REDIRECT_ROW).tolist():
                    visits.moved[url] = LatestRedirect(visit, code, target)
                _require(len(visits.moved) <= REDIRECTS_MAX, "redirects")
            case PartRows(table, content):
                self._take_rows(table, content)
            case PartEnd():
                self._end(message)
            case PartFailed(why):
                self.failed = why or "for no reason"

    def _take_rows(self, table: RowTable, content: bytes) -> None:
        store, is_visits = self._stores[table], table != "needs"
        rows = _rows_from_bytes(content, ROW if is_visits else NEED_ROW)
        _require(store.rows + len(rows) <= (ROWS_MAX if is_visits else NEEDS_MAX), table)
        if len(rows) and is_visits:
            self._check_visits(rows)
        if len(rows):
            store.add_rows(rows)

    def _check_visits(self, rows: Rows) -> None:
        at, elapsed = rows["at"], rows["elapsed_s"]
        whole = ((at >= 0) & (at <= MOMENT_MAX) & (elapsed >= 0) & (elapsed <= ELAPSED_MAX)).all()  # no NaN passes
        if not whole or int(rows["flags"].max()) >= FLAGS:
            raise ValueError("visits that cannot be")
        for column in self._most:
            self._most[column] = max(self._most[column], int(rows[column].max()))

    def _end(self, rest: PartEnd) -> None:
        visits = self._visits
        numbers = (most < len(getattr(visits, NAME_TABLES[column])) for column, most in self._most.items())
        sent = tuple(store.rows for store in self._stores.values())
        if (
            sent != (rest.rows, rest.requisites, rest.needs)
            or not all(numbers)
            or max(visits.software, default=-1) >= len(visits.hosts)
        ):
            raise ValueError("what came does not hold together")
        visits.rows, visits.recorded, visits.moved_whole = self._stores["rows"].all(), rest.recorded, rest.moved_whole
        visits.requisites, visits.needs = self._stores["requisites"].all(), self._stores["needs"].all()
        visits.needs_whole = rest.needs_whole
        visits.config, visits.deleted = (rest.revision, rest.config), -inf if rest.deleted is None else rest.deleted
        visits.names, visits.runs, visits.deletions = dict(rest.names), dict(rest.runs), dict(rest.deletions)
        storage = [StoragePart(*part) for part in rest.storage]
        self.part = ReportPart(visits, storage, rest.index, rest.statements, rest.graph)


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise ValueError(f"more {what} than one machine can have")
