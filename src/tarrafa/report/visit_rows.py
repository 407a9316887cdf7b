"""Reads the visits of a collection from the archive, one small row per visit.

Promises: only metadata records and notes are decoded, and of them only the counted fields. Memory holds the different
names (hosts, types, languages) and up to ROWS_IN_MEMORY rows; more rows lie in an unnamed temporary file, which ends
with the process. Values that the Web can invent without end (types, charsets, languages, redirects) have a maximum.
Knows nothing of tables: `tables` makes them.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Annotated, Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import xxhash
from msgspec import Meta
from numpy.typing import NDArray

from tarrafa.archive.warc_reader import durable_lengths, moment, read_records, worker_of
from tarrafa.archive.warc_writer import RESOURCE
from tarrafa.errors import DataError
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.i18n import message
from tarrafa.model import HostNote, Outcome, UrlRole, UsageStatement
from tarrafa.parse.url import host_key
from tarrafa.runtime.heartbeat import Amount

ROWS_PER_CHUNK = 1 << 14
ROWS_IN_MEMORY = 1 << 20  # some 60 MB
NAMES_MAX = 60_000  # different types, languages, charsets or collectors; the others are counted as one
OTHER = "(other)"
REDIRECTS_MAX = 1_000_000
HOSTS_MAX = 1 << 31
RULES_CACHED_MAX = 10_000
NAME_CHARS_MAX = 100
SMALL_MAX = (1 << 16) - 1

# Flags of a row. READ: the links of the page were counted; CUT: not all of its structured data are
# kept; CUT_TEXT: not all of its text; USE_FLAGS: the uses that its publisher reserves; LICENSED: it names terms.
KEPT, REQUESTED, GRACE, READ, CUT, CUT_TEXT = 1, 2, 4, 8, 16, 32
USE_FLAGS = {"search": 64, "ai-input": 128, "ai-train": 256}
LICENSED = 512
ARCHIVED = 1024  # of a requisite: its bytes are archived, here or as those of another URL
TERMS = ("License:", "tdm-policy:")
ROW = np.dtype([
    ("url", "u8"), ("at", "f8"), ("visit", "u4"), ("elapsed_s", "f4"), ("bytes", "u4"), ("host", "u4"),
    ("external", "u4"), ("status", "i2"), ("depth", "u2"), ("type", "u2"), ("language", "u2"), ("charset", "u2"),
    ("collector", "u2"), ("internal", "u2"), ("links", "u2"), ("flags", "u2"),
])  # fmt: skip
NEED_ROW = np.dtype([("page", "u8"), ("need", "u8"), ("visit", "u4")])  # a page, or requisite, needs a URL
NEEDS_MAX = 1 << 25  # 670 MB in a file
# The columns of a row that hold numbers of names, and the tables of these names.
NAME_TABLES = {
    "host": "hosts",
    "type": "types",
    "language": "languages",
    "charset": "charsets",
    "collector": "collectors",
}
Rows = NDArray[np.void]
OnBytesRead = Callable[[int], None]


class NameInterner:
    """Numbers names in the order of their first use, and appends new ones to `names`."""

    def __init__(self, names: list[str], names_max: int) -> None:
        self.names = names
        self._numbers: dict[str, int] = {}
        self._most = names_max

    def number(self, name: str) -> int:
        found = self._numbers.get(name)
        if found is None:
            if len(self.names) >= self._most and name != OTHER:
                return self.number(OTHER)
            found = self._numbers[name] = len(self.names)
            self.names.append(name)
        return found


class RobotsSummary(NamedTuple):
    """A summary of a robots.txt, and when it was recorded."""

    status: int
    forbids: bool = False
    closed: bool = False
    delay_s: Amount = 0.0
    at: Amount = 0.0


class ServerHeader(NamedTuple):
    """The Server header of a host, and its time."""

    at: Amount
    text: Annotated[str, Meta(max_length=NAME_CHARS_MAX)]


class LatestRedirect(NamedTuple):
    """The target of a URL's newest redirect; both URLs by their hash."""

    visit: int
    code: int
    target: int


class _Link(msgspec.Struct, array_like=True, gc=False):
    url: str


class _Page(msgspec.Struct):
    language: str = ""
    charset: str = ""
    links: tuple[_Link, ...] = ()
    cut_statements: bool = False
    cut_text: bool = False
    usage: tuple[UsageStatement, ...] = ()


class _VisitMetadata(msgspec.Struct):
    """The counted fields of a record."""

    collection: str
    url: str
    visit: int
    depth: int
    outcome: Outcome
    page: _Page | None = None
    requisites: tuple[str, ...] = ()
    worker: str = ""


class _RunConfigured(msgspec.Struct, tag="collection"):
    """From here on the records of this file belong to that run, with that configuration."""

    collection: str
    revision: int
    config: msgspec.Raw
    run: int = 1


class _CollectionDeleted(msgspec.Struct, tag="deleted"):
    """Earlier visits of the collection belong to no collection any more."""

    collection: str
    at: float


class _SkippedListing(msgspec.Struct, tag="listing"):
    """Not counted."""


class _SkippedRebuilt(msgspec.Struct, tag="rebuilt"):
    """Not counted."""


class _SkippedTakedown(msgspec.Struct, tag="takedown"):
    """Not counted."""


_Note = _RunConfigured | _CollectionDeleted | HostNote | _SkippedListing | _SkippedRebuilt | _SkippedTakedown
_decode = msgspec.json.Decoder(_VisitMetadata).decode
_decode_note: Callable[[bytes], _Note] = msgspec.json.Decoder(_Note).decode


@dataclass(slots=True)
class VisitRows:
    """All visits of a collection, and the notes beside them."""

    rows: Rows = field(default_factory=lambda: np.empty(0, ROW))
    requisites: Rows = field(default_factory=lambda: np.empty(0, ROW))  # visits of requisites, which are no pages
    needs: Rows = field(default_factory=lambda: np.empty(0, NEED_ROW))
    needs_whole: bool = True
    hosts: list[str] = field(default_factory=list)
    types: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    charsets: list[str] = field(default_factory=list)
    collectors: list[str] = field(default_factory=list)
    software: dict[int, ServerHeader] = field(default_factory=dict)  # by host
    rules: dict[str, RobotsSummary] = field(default_factory=dict)  # by host key
    sitemaps: set[str] = field(default_factory=set)  # host keys with sitemaps
    moved: dict[int, LatestRedirect] = field(default_factory=dict)
    moved_whole: bool = True
    config: tuple[int, bytes] = (-1, b"")  # of the collection, as last noted, and its revision; empty: never
    names: dict[str, float] = field(default_factory=dict)  # collections in the archive, and their last record's time
    runs: dict[int, float] = field(default_factory=dict)  # of the collection, with the time of the last record of each
    deletions: dict[str, float] = field(default_factory=dict)  # the last recorded deletion of each collection
    deleted: float = -np.inf  # the same for this collection: earlier visits are not counted
    recorded: int = 0  # visits of the collection, in the period or not, deleted or not

    def interners(self) -> dict[str, NameInterner]:
        """Number the names of each column of ROW that refers to a table of names."""
        return {
            column: NameInterner(getattr(self, table), HOSTS_MAX if column == "host" else NAMES_MAX)
            for column, table in NAME_TABLES.items()
        }

    def add_redirect(self, url: int, redirect: LatestRedirect) -> None:
        before = self.moved.get(url)
        if before is None and len(self.moved) >= REDIRECTS_MAX:
            self.moved_whole = False
        elif before is None or before.visit < redirect.visit:
            self.moved[url] = redirect

    def collections(self) -> set[str]:
        """The collections that still exist."""
        return {name for name, at in self.names.items() if at > self.deletions.get(name, -np.inf)}

    def runs_made(self) -> set[int]:
        return {run for run, at in self.runs.items() if at > self.deleted}


@dataclass(slots=True)
class VisitReader:
    """Reads an archive for one collection: all of it, one run, a period."""

    name: str
    user_agent: str
    since: float = -np.inf
    until: float = np.inf
    run: int | None = None
    _found: VisitRows = field(default_factory=VisitRows)
    _interners: dict[str, NameInterner] = field(init=False)
    _origins: dict[str, int] = field(default_factory=dict)
    _judged: dict[bytes, RobotsSummary] = field(default_factory=dict)
    _now_run: int = 1  # the run of the present file
    _requisites: "RowStore" = field(init=False)
    _needs: "RowStore" = field(init=False)

    def __post_init__(self) -> None:
        self._interners = self._found.interners()

    def read(self, directory: Path, progress: OnBytesRead = lambda size: None) -> VisitRows:
        found = self._found
        with RowStore() as store, RowStore() as requisites, RowStore(kind=NEED_ROW) as needs:
            self._requisites, self._needs = requisites, needs
            for file, length in durable_lengths(directory).items():
                self._read_file(directory / f"{file}.meta.warc.gz", worker_of(file), length, store, progress)
            found.deleted = found.deletions.get(self.name, -np.inf)
            found.rows, found.requisites = (
                rows if found.deleted == -np.inf else rows[rows["at"] > found.deleted]
                for rows in (store.all(), requisites.all())
            )
            found.needs = needs.all()
        return found

    def _read_file(self, path: Path, worker: str, length: int, store: "RowStore", progress: OnBytesRead) -> None:
        read, self._now_run = 0, 1
        for position, head, content in read_records(path, 0, length):
            progress(position - read)
            read = position
            try:
                if head.kind == RESOURCE:
                    self._read_note(_decode_note(content), moment(path, position, head))
                    continue
                seen = _decode(content)
            except msgspec.MsgspecError as error:
                raise DataError(
                    message(
                        "{path}: the record at {position} cannot be read: {error}",
                        path=path,
                        position=str(position),
                        error=error,
                    )
                ) from None
            at = seen.outcome.at
            keep_latest(self._found.names, seen.collection, at)
            if seen.collection == self.name:
                keep_latest(self._found.runs, self._now_run, at)
                self._found.recorded += 1
                if self.since <= at < self.until and self.run in (None, self._now_run):
                    is_requisite = seen.outcome.role == UrlRole.REQUISITE
                    (self._requisites if is_requisite else store).add(self._row(seen, worker))
                    self._add_needs(seen)
        progress(length - read)

    def _add_needs(self, seen: _VisitMetadata) -> None:
        if seen.requisites:
            if self._needs.rows + len(seen.requisites) > NEEDS_MAX:
                self._found.needs_whole = False
                return
            page = xxhash.xxh3_64_intdigest(seen.url.encode())
            for url in seen.requisites:
                self._needs.add((page, xxhash.xxh3_64_intdigest(url.encode()), seen.visit))

    def _row(self, seen: _VisitMetadata, worker: str) -> tuple[Any, ...]:
        outcome, page, url = seen.outcome, seen.page, seen.url
        origin = url[: url.index("/", 8) + 1]
        host = self._origins.get(origin)
        if host is None:
            host = self._origins[origin] = self._interners["host"].number(host_key(url))
        key = xxhash.xxh3_64_intdigest(url.encode())
        if outcome.server:
            keep_newest(self._found.software, host, ServerHeader(outcome.at, outcome.server[:NAME_CHARS_MAX]))
        if outcome.location:
            target = xxhash.xxh3_64_intdigest(outcome.location.encode())
            self._found.add_redirect(key, LatestRedirect(seen.visit, outcome.status, target))
        internal = links = 0
        if page is not None and page.links:
            urls = {link.url for link in page.links}
            urls.discard(url)
            links, internal = len(urls), sum(one.startswith(origin) for one in urls)
        number = self._number
        flags = KEPT * outcome.kept | REQUESTED * outcome.requested | GRACE * outcome.grace
        if outcome.role == UrlRole.REQUISITE and (outcome.payload or outcome.status == 304):
            flags |= ARCHIVED
        if page is not None:
            flags |= READ | CUT * page.cut_statements | CUT_TEXT * page.cut_text
            for said in page.usage:
                for use in said.reserved:
                    flags |= USE_FLAGS.get(use, 0)
                flags |= LICENSED * said.text.startswith(TERMS)
        return (
            key, outcome.at, seen.visit, outcome.elapsed_s, min(outcome.length, 0xFFFFFFFF), host,
            min(outcome.external, 0xFFFFFFFF), outcome.status, min(seen.depth, SMALL_MAX),
            number("type", outcome.type), number("language", page.language if page is not None else ""),
            number("charset", page.charset.lower() if page is not None else ""),
            number("collector", seen.worker or worker), min(internal, SMALL_MAX), min(links, SMALL_MAX), flags,
        )  # fmt: skip

    def _number(self, column: str, name: str) -> int:
        return self._interners[column].number(name[:NAME_CHARS_MAX])

    def _read_note(self, note: _Note, at: float) -> None:
        """A robots.txt belongs to the host, whichever collection fetched it."""
        if isinstance(note, HostNote):
            if note.status:
                keep_newest(self._found.rules, note.host, self._robots_summary(note)._replace(at=at))
            if note.sitemaps:
                self._found.sitemaps.add(note.host)
        elif isinstance(note, _RunConfigured):
            keep_latest(self._found.names, note.collection, at)
            if note.collection == self.name:
                self._now_run = note.run
                if note.revision > self._found.config[0]:
                    self._found.config = (note.revision, bytes(note.config))
        elif isinstance(note, _CollectionDeleted):
            keep_latest(self._found.deletions, note.collection, note.at)

    def _robots_summary(self, note: HostNote) -> RobotsSummary:
        if note.status != 200:
            return RobotsSummary(note.status)
        digest = xxhash.xxh3_128_digest(note.text)
        found = self._judged.get(digest)
        if found is None:
            robots, agent = parse_robots(note.text), self.user_agent
            forbids = robots.disallows_anything(agent)
            closed = (
                forbids and not robots.allows(agent, f"{note.host}/") and not robots.allows(agent, f"{note.host}/a")
            )
            found = RobotsSummary(200, forbids, closed, robots.crawl_delay(agent) or 0.0)
            if len(self._judged) >= RULES_CACHED_MAX:
                self._judged.clear()
            self._judged[digest] = found
        return found


class RowStore:
    """Rows, in memory while they are few. Use it in a `with`: a file stays mapped until the end of its array. `share`:
    of the memory for one store, when several are held at once.
    """

    def __init__(self, share: int = 1, kind: "np.dtype[Any]" = ROW) -> None:
        self._most, self._kind = ROWS_IN_MEMORY // share, kind
        self.rows = 0  # added so far
        self._waiting: list[tuple[Any, ...]] = []
        self._chunks: list[Rows] = []
        self._held = 0  # rows in them
        self._file: IO[bytes] | None = None
        self._stored = 0

    def __enter__(self) -> "RowStore":
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()  # a mapping survives the closing

    def add(self, row: tuple[Any, ...]) -> None:
        self._waiting.append(row)
        self.rows += 1
        if len(self._waiting) >= ROWS_PER_CHUNK:
            self._pack()

    def add_rows(self, rows: Rows) -> None:
        """Add rows of another machine, some thousands at a time."""
        self.rows += len(rows)
        self._hold(rows)

    def _hold(self, rows: Rows) -> None:
        self._chunks.append(rows)
        self._held += len(rows)
        if self._held >= self._most:
            self._spill()

    def all(self) -> Rows:
        self._pack()
        if self._file is None:
            return np.concatenate(self._chunks) if self._chunks else np.empty(0, self._kind)
        self._spill()
        self._file.flush()
        return np.memmap(self._file, self._kind, "r", shape=(self._stored,))

    def _pack(self) -> None:
        if self._waiting:
            waiting, self._waiting = np.array(self._waiting, self._kind), []
            self._hold(waiting)

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="tarrafa-report-")  # noqa: SIM115
        for chunk in self._chunks:
            self._file.write(chunk.tobytes())
            self._stored += len(chunk)
        self._chunks, self._held = [], 0


Key = TypeVar("Key", str, int)
Noted = TypeVar("Noted", RobotsSummary, ServerHeader)


def keep_newest(found: dict[Key, Noted], key: Key, note: Noted) -> None:
    """The newest note holds, in whichever order they are read."""
    before = found.get(key)
    if before is None or before.at <= note.at:
        found[key] = note


def keep_latest(found: dict[Key, float], key: Key, at: float) -> None:
    found[key] = max(at, found.get(key, 0.0))


def count_names(numbers: NDArray[Any], names: Sequence[str]) -> dict[str, int]:
    """The count of each name among the numbers; unused names are left out."""
    counts = np.bincount(numbers, minlength=len(names)) if len(names) else np.empty(0, np.int64)
    return {name: int(count) for name, count in zip(names, counts.tolist(), strict=True) if count}
