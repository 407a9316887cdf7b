"""Check of the archive: durable marks, lengths of files, each record, and that visits and captures belong together.

Promises: the archive is read once, up to the durable lengths of its start; what is written later is ignored. A file
whose mark cannot be read is checked as far as it goes. Knows nothing of the frontier.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec
from xxhash import xxh3_64_digest

from tarrafa.archive.deletion_log import ArchiveDeletions
from tarrafa.archive.segment_log.segment import LOG_WRITER
from tarrafa.archive.warc_reader import Cursor, meta_path, read_member, worker_of
from tarrafa.archive.warc_writer import (
    CONVERSION,
    METADATA,
    REQUEST,
    RESOURCE,
    RESPONSE,
    REVISIT,
    STATEMENTS_TYPE,
    WARCINFO,
    DurableLengths,
    read_durable,
)
from tarrafa.captures.follower import capture_facts, visit_key
from tarrafa.captures.record_heads import HEAD_BYTES_MAX, capture_head
from tarrafa.crawl.verify.expected import GRAPH_BIT, INDEX_BIT, TRIPLES_BIT, ExpectedContent, ExpectedVisit
from tarrafa.crawl.verify.findings import Finding, Findings
from tarrafa.crawl.verify.record_scan import (
    DamagedRange,
    ScannedRecord,
    parse_record,
    scan_records,
    step_records,
)
from tarrafa.errors import DataError
from tarrafa.graph.graph_writer import OutEdge, out_edges
from tarrafa.index import shards
from tarrafa.index.index_state import index_action, page_fate
from tarrafa.model import Note, UrlRole, VisitRecord
from tarrafa.parse.url import url_id
from tarrafa.triples.triple_writer import statements_of

GAP_FIELD = b"tarrafa-gap: "  # begins the content of a record that fills the place of damaged bytes
_decode_visit = msgspec.json.Decoder(VisitRecord).decode
_decode_note: Callable[[bytes], Note] = msgspec.json.Decoder(Note).decode
_encode = msgspec.msgpack.Encoder().encode
PRINCIPALS = frozenset({RESPONSE, REVISIT, RESOURCE, METADATA})
Advance = Callable[[int], None]


@dataclass(slots=True)
class ProjectionPosition:
    """How far a projection has read the archive, and which deletions it has applied."""

    cursor: Cursor = field(default_factory=dict)
    dropped: dict[str, float] = field(default_factory=dict)
    warc_cursor: Cursor = field(default_factory=dict)  # of the captures

    def has_applied(self, file: str, start: int, collection: str, at: float) -> bool:
        return start < self.cursor.get(file, 0) and at > self.dropped.get(collection, -1.0)


@dataclass(slots=True)
class ReadPositions:
    """The positions of all projections; index and triple store by part."""

    graph: ProjectionPosition
    captures: ProjectionPosition
    index: list[ProjectionPosition]
    triples: list[ProjectionPosition]
    parts: dict[int, int]  # place of each part that is kept here, by its number
    of: int  # parts in all

    def applied_bits(self, file: str, start: int, collection: str, at: float, part: int) -> int:
        place = self.parts.get(part)
        bits = GRAPH_BIT * self.graph.has_applied(file, start, collection, at)
        if place is not None:
            bits |= INDEX_BIT * self.index[place].has_applied(file, start, collection, at)
            bits |= TRIPLES_BIT * self.triples[place].has_applied(file, start, collection, at)
        return bits


@dataclass(slots=True)
class ArchiveCounts:
    """What was read."""

    records: int = 0
    gaps: list[tuple[str, int, int]] = field(default_factory=list)  # file, offset and end
    captures: dict[str, int] = field(default_factory=dict)  # of each file


def edges_digest(edges: list[tuple[bytes | None, str, str, int | None]]) -> bytes:
    """A digest of the links of a page: target, anchor, rel and hops of each, in their order."""
    return xxh3_64_digest(_encode(edges))


def _edge(edge: OutEdge) -> tuple[bytes | None, str, str, int | None]:
    return url_id(edge.url), edge.anchor, edge.rel, edge.hops


class ArchiveCheck:
    """Reads the archive into an `ExpectedContent`, and adds what is wrong to the findings."""

    def __init__(
        self,
        archive: Path,
        findings: Findings,
        expected: ExpectedContent,
        positions: ReadPositions,
        deletions: ArchiveDeletions,
    ) -> None:
        self._archive, self._findings, self._expected, self._positions = archive, findings, expected, positions
        self._deletions = deletions
        self.advance: Advance = lambda more: None
        self.counts = ArchiveCounts()

    def durable_lengths(self) -> dict[str, DurableLengths]:
        """The durable lengths of all pairs of files, and what is wrong with their marks."""
        found = dict[str, DurableLengths]()
        names = {path.name.removesuffix(".warc.gz").removesuffix(".meta") for path in self._archive.glob("*.warc.gz")}
        for path in sorted(self._archive.glob("*.durable")):
            names.discard(path.stem)
            try:
                found[path.stem] = self._existing_lengths(path.stem, read_durable(path))
            except FileNotFoundError:  # `recover_archive` removes files that were never published
                continue
            except (DataError, ValueError) as error:
                self._add("mark-damaged", path.name, detail=str(error))
                found[path.stem] = self._file_lengths(path.stem)
        for name in sorted(names):
            if (self._archive / f"{name}.durable").exists():  # a writer has just begun it
                continue
            self._add("mark-missing", f"{name}.durable")
            found[name] = self._file_lengths(name)
        return found

    def _existing_lengths(self, name: str, durable: DurableLengths) -> DurableLengths:
        """The lengths, as far as the files go."""
        sizes = list[int]()
        for file, length in ((f"{name}.warc.gz", durable.warc), (f"{name}.meta.warc.gz", durable.meta)):
            path = self._archive / file
            size = path.stat().st_size if path.exists() else -1
            if size < 0 and length:
                self._add("file-missing", file, 0, length)
            elif size < length:
                self._add("mark-beyond-file", file, size, length, f"{length - size:,} bytes are missing")
            sizes.append(max(0, min(size, length)))
            is_log = worker_of(name) == LOG_WRITER  # its segments may have been pushed from other files
            if size > 0 and not is_log and (stated := stated_name(path)) not in ("", file):
                self._add("wrong-file", file, 0, detail=f"it says that it is {stated}")
        return DurableLengths(sizes[0], sizes[1], min(durable.visits_end, sizes[1]))

    def _file_lengths(self, name: str) -> DurableLengths:
        paths = (self._archive / f"{name}.warc.gz", meta_path(self._archive, name))
        warc, meta = (path.stat().st_size if path.exists() else 0 for path in paths)
        for path in paths:
            if not path.exists():
                self._add("file-missing", path.name)
        return DurableLengths(warc, meta, meta)

    def _add(
        self, kind: str, file: str, offset: int | None = None, end: int | None = None, detail: str = "", url: str = ""
    ) -> None:
        self._findings.add(Finding(kind, "archive", file, offset, end, url=url, detail=detail))

    def _on_damage(self, file: str, damaged: DamagedRange) -> None:
        kind = "zeroed-block" if damaged.has_zeros else "damaged-record"
        self._add(kind, file, damaged.position, damaged.end, damaged.reason, damaged.url)

    # -- quick -----------------------------------------------------------------------------------------------------

    def step(self, name: str, durable: DurableLengths) -> None:
        """Check heads and lengths of the records of a pair of files, and that cursors are at records."""
        followers = [("graph", self._positions.graph), *(("index", one) for one in self._positions.index)]
        followers += [("triples", one) for one in self._positions.triples]
        wanted = {position.cursor.get(name, 0) for _, position in followers}
        captures, reached = 0, {0, durable.visits_end}
        files = ((self._archive / f"{name}.warc.gz", durable.warc), (meta_path(self._archive, name), durable.meta))
        for path, length in files:
            read = 0
            for _, end, kind in step_records(path, length, partial(self._on_damage, path.name)) if length else ():
                self.counts.records += 1
                is_meta = ".meta." in path.name  # a `resource` is a note there
                captures += not is_meta and kind in (RESPONSE, REVISIT, RESOURCE)
                if end in wanted and is_meta:
                    reached.add(end)
                self.advance(end - read)
                read = end
        self.counts.captures[name] = captures
        for store, position in followers:
            if (at := position.cursor.get(name, 0)) not in reached and at <= durable.meta:
                detail = f"the cursor {at:,} of {name} lies within a record"
                self._findings.add(Finding("cursor-wrong", store, f"{name}.meta.warc.gz", at, detail=detail))

    # -- deep ------------------------------------------------------------------------------------------------------

    def read(self, name: str, durable: DurableLengths) -> None:
        """Read all records of a pair of files: first the visits, then the captures."""
        visits = _VisitReader(self._expected, self._positions, self._deletions, name)
        if durable.meta:
            path = meta_path(self._archive, name)
            for record in self._scan(path, durable.meta):
                try:
                    visits.take(record)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    self._add("unreadable-record", path.name, record.position, record.end, str(error), record.url)
            visits.finish()
        if durable.warc:
            path = self._archive / f"{name}.warc.gz"
            captures = _CaptureReader(self._expected, self._positions.captures, name, visits.waiting)
            for record in self._scan(path, durable.warc):
                captures.take(record)

    def _scan(self, path: Path, length: int) -> Iterator[ScannedRecord]:
        """The records of a file, with their digests, order and names checked."""
        read, principal = 0, b""  # the id of the record that the next ones may belong to; empty: unknown
        is_meta = path.name.endswith(".meta.warc.gz")
        file = self._expected.file_number(path.name.removesuffix(".warc.gz").removesuffix(".meta"))
        damaged_at = list[int]()

        def on_damage(damaged: DamagedRange) -> None:
            damaged_at.append(damaged.end)
            self._on_damage(path.name, damaged)

        for record in scan_records(path, length, on_damage):
            self.advance(record.end - read)
            read = record.end
            self.counts.records += 1
            is_gap = record.kind == WARCINFO and record.content.startswith(GAP_FIELD)
            if is_gap or damaged_at:
                principal = b""
                damaged_at.clear()
            if is_gap:
                self.counts.gaps.append((path.name, record.position, record.end))
                continue
            if record.wrong:
                self._add("wrong-digest", path.name, record.position, record.end, record.wrong, record.url)
            row = (xxh3_64_digest(record.record_id), file, is_meta, record.position, record.length)
            self._expected.append("record_id", row)
            if record.kind in PRINCIPALS:
                principal = record.record_id
            elif principal and (belongs := belongs_to(record)) and belongs != principal:
                self._add("misplaced-record", path.name, record.position, record.end, record.kind, record.url)
            yield record
        self.advance(length - read)


def stated_name(path: Path) -> str:
    """The name that a file has by its first record, wherever its durable mark is; empty: it says nothing."""
    with contextlib.suppress(DataError, OSError), path.open("rb") as stream:
        record, length = read_member(stream, path.stat().st_size)
        found = parse_record(0, length, record)
        return found.text(b"warc-filename") if found.kind == WARCINFO else ""
    return ""


def read_tail(archive: Path, expected: ExpectedContent, name: str, start: int) -> None:
    """Remember the visits that lie behind the durable mark of a meta file."""
    path = meta_path(archive, name)
    size = path.stat().st_size if path.exists() else 0
    file = expected.file_number(name)
    for record in scan_records(path, size, lambda damaged: None, start=start) if size > start else ():
        if record.kind == METADATA:
            with contextlib.suppress(msgspec.MsgspecError):
                found = _decode_visit(record.content)
                expected.append("tail", (url_id(found.url), found.collection, found.visit, file))


def tail_keys(path: Path, start: int) -> set[int]:
    """The keys of the captures that lie behind the durable mark of a response file."""
    size = path.stat().st_size if path.exists() else 0
    found = scan_records(path, size, lambda damaged: None, start=start) if size > start else ()
    return {visit_key(one.url, one.text(b"warc-date")) for one in found if one.kind in PRINCIPALS}


def belongs_to(record: ScannedRecord) -> bytes:
    """The id of the record that this one stands behind, if it says so."""
    if record.kind == REQUEST:
        return record.fields.get(b"warc-concurrent-to", b"")
    return record.fields.get(b"warc-refers-to", b"") if record.kind == CONVERSION else b""


class _VisitReader:
    """Appends the visits of one meta file to the expected content. `waiting`: those that may have a capture in the
    other file of the pair, by URL and date: meta offset, collection, whether it is not to be shown, and when."""

    def __init__(
        self, expected: ExpectedContent, positions: ReadPositions, deletions: ArchiveDeletions, name: str
    ) -> None:
        self._expected, self._positions, self._deletions, self._name = expected, positions, deletions, name
        self._file = expected.file_number(name)
        self._held: tuple[ScannedRecord, VisitRecord] | None = None
        self._statements = ""
        self.waiting: dict[int, tuple[int, str, bool, float]] = {}

    def take(self, record: ScannedRecord) -> None:
        if record.kind == METADATA:
            self.finish()
            self._held, self._statements = (record, _decode_visit(record.content)), ""
        elif record.kind == CONVERSION and record.fields.get(b"content-type") == STATEMENTS_TYPE.encode():
            self._statements = record.content.decode("utf-8", "replace")
        elif record.kind == CONVERSION:
            record.content.decode("utf-8", "surrogatepass")
        elif record.kind == RESOURCE:
            _decode_note(record.content)

    def finish(self) -> None:
        """The visit that was read last is complete."""
        if self._held is None:
            return
        (place, record), self._held = self._held, None
        outcome, key = record.outcome, url_id(record.url)
        if outcome.status > 0:  # else there was no response
            noarchive = record.page is not None and record.page.robots.noarchive
            facts = (place.position, record.collection, noarchive, outcome.at)
            self.waiting[visit_key(place.url, place.text(b"warc-date"))] = facts
        edges = out_edges(record)
        part = shards.shard_number(record.url, self._positions.of) if self._positions.of > 1 else 1
        applied = self._positions.applied_bits(self._name, place.position, record.collection, outcome.at, part)
        if outcome.role == UrlRole.REQUISITE:  # the projections of pages pass it over
            applied = 0
        self._expected.append_visit(
            ExpectedVisit(
                key, record.collection, record.visit, self._file, place.position, outcome.at, outcome.status,
                record.url, part, applied, index_action(record).value, int(page_fate(record, is_taken_down=False)),
                len(statements_of(self._statements, key)) if self._statements else 0,
                None if edges is None else edges_digest([_edge(edge) for edge in edges]),
                self._deletions.covers(record), bool(outcome.payload) and not record.removed,
            )
        )  # fmt: skip


class _CaptureReader:
    """Appends the captures of one response file to the expected content."""

    def __init__(
        self,
        expected: ExpectedContent,
        position: ProjectionPosition,
        name: str,
        visits: dict[int, tuple[int, str, bool, float]],
    ) -> None:
        self._expected, self._visits, self._file = expected, visits, expected.file_number(name)
        self._read, self._dropped = position.warc_cursor.get(name, 0), position.dropped

    def take(self, record: ScannedRecord) -> None:
        if record.kind not in (RESPONSE, REVISIT, RESOURCE):
            return
        visit = self._visits.pop(visit_key(record.url, record.text(b"warc-date")), None)
        if visit is not None:
            self._expected.append("answer", (self._file, visit[0]))
        is_deleted = visit is not None and visit[3] <= self._dropped.get(visit[1], -1.0)
        if is_deleted:
            return
        head = capture_head(record.position, record.length, record.whole[:HEAD_BYTES_MAX])
        of_visit = (visit[1], visit[0], visit[2]) if visit is not None else ("", None, False)
        facts = facts_digest((*capture_facts(head), *of_visit))
        self._expected.append("capture", (self._file, record.position, facts, record.url, record.position < self._read))


def facts_digest(facts: tuple[object, ...]) -> bytes:
    return xxh3_64_digest(_encode(facts))
