"""Reparse: today's parser reads the bodies that the archive has, and the records of their visits get its result.

A body is decoded and parsed as at its visit, in sandboxes, and described by what is known of its host now. What
became of the visit (status, kept or not, digests) stays as it was decided then; so do the responses, byte for byte.
Pages whose body is not here, or that the parser refuses today, keep their old record. At the end graph, index and
triple store are made anew. Promises: killed at any moment, it goes on with the next files when it is run again.

    DATA/reparse.json    the pairs of files that are done
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

import apsw
import msgspec

from tarrafa.archive.file_rewrite import ReadMember, RewrittenVisit
from tarrafa.archive.warc_reader import RecordHead, decode_body, meta_path, read_record, read_records, scan_heads
from tarrafa.archive.warc_writer import CONVERSION, HTML_TYPE, METADATA, RESOURCE, RESPONSE, REVISIT, split_texts
from tarrafa.captures import follower as captures
from tarrafa.captures.follower import visit_key
from tarrafa.captures.reader import Capture, CapturesReader
from tarrafa.config import Collection
from tarrafa.crawl.compaction.compaction import locked_for_compaction
from tarrafa.crawl.compaction.file_groups import ArchivePair, CompactionGroup, complete_pairs
from tarrafa.crawl.compaction.group_rewriter import Advance, GroupRewriter, UnreadablePair, next_name
from tarrafa.crawl.compaction.retention_plan import collection_definitions
from tarrafa.crawl.rebuild_projection import rebuild_projection
from tarrafa.crawl.render.render_policy import merge_fetched, rendered_job
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.verify.verification import ProgressReporter, silent
from tarrafa.crawl.warc_import.capture import decode_capture, make_response, parse_response
from tarrafa.crawl.warc_import.capture_importer import HOSTS_KEPT_MAX, ParserPool
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.crawl.worker.outcome import with_usage, without_future_dates
from tarrafa.crawl.worker.parser_with_sandbox import ParseJob, ParseJobResult
from tarrafa.errors import DataError
from tarrafa.fetch.http_message import FetchResponse, ResponseHead
from tarrafa.model import Visit, VisitRecord
from tarrafa.parse.robots_meta_usage import combine_usage
from tarrafa.parse.url import host_id, host_key, url_id
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.sqlite import open_sqlite_readonly, rows

BATCH_BYTES = 2 << 30  # of files that are parsed before they are replaced: so much is repeated after a kill
WINDOW = 32  # pages that are parsed or wait for it
SCHEMA = "CREATE TABLE page (file TEXT, start INTEGER, record BLOB, PRIMARY KEY (file, start)) WITHOUT ROWID"
_decode_visit = msgspec.json.Decoder(VisitRecord).decode
_decode_page = msgspec.msgpack.Decoder(VisitRecord).decode
_encode_page = msgspec.msgpack.Encoder().encode


class ReparseResult(msgspec.Struct):
    """What became of the pages. `without_body`: of which the archive has no body that can be read."""

    parsed: int = 0
    refused: int = 0
    without_body: int = 0
    notes: list[str] = []


class _Place(NamedTuple):
    """Where the response of a visit is, and the document that its scripts made."""

    position: int
    size: int
    kind: str
    url: str
    content_type: str
    rendered: tuple[int, int] | None = None


@dataclass(slots=True)
class _WaitingPage:
    """A page that is being parsed."""

    start: int
    record: VisitRecord
    head: ResponseHead
    is_rendered: bool
    parsing: "asyncio.Task[ParseJobResult]"


def _state_path(data: DataDirectory) -> Path:
    return data.root / "reparse.json"


def reparse(data: DataDirectory, progress: ProgressReporter = silent) -> ReparseResult:
    """Parse all stored bodies again, and rebuild graph, index and triple store."""
    with locked_for_compaction(data):
        return Reparse(data, progress).run()


class Reparse:
    """One reparse. The caller holds the locks."""

    def __init__(self, data: DataDirectory, progress: ProgressReporter) -> None:
        self._data, self._progress, self.result = data, progress, ReparseResult()
        path = _state_path(data)
        self._done = set(msgspec.json.decode(path.read_bytes(), type=list[str])) if path.exists() else set[str]()

    def run(self) -> ReparseResult:
        captures.catch_up(self._data)
        pairs = [one for one in complete_pairs(self._data) if one.name not in self._done]
        with self._progress("parsing", sum(one.size for one in pairs)) as advance:
            rewriter = GroupRewriter(self._data, batch_bytes=BATCH_BYTES)
            for batch in rewriter.batches([CompactionGroup([one]) for one in pairs]):
                self._parse_batch(rewriter, batch, advance)
        for store in ("graph", "index", "triples"):
            with self._progress(f"rebuilding {store}", 0) as advance:
                rebuild_projection(self._data, store, advance)
        _state_path(self._data).unlink(missing_ok=True)
        return self.result

    def _parse_batch(self, rewriter: GroupRewriter, batch: list[CompactionGroup], advance: Advance) -> None:
        pairs = [group.pairs[0] for group in batch]
        with ParsedPages() as parsed, PairParser(self._data, parsed, self.result) as parser:
            for pair in pairs:
                try:
                    asyncio.run(parser.parse_pair(pair))
                except DataError as error:
                    self.result.notes.append(str(error))
                    batch = [one for one in batch if one.pairs[0] is not pair]
                advance(pair.size)
            while batch:
                try:
                    rewriter.rewrite(batch, ReparseChoice(parsed))
                    break
                except UnreadablePair as error:
                    self.result.notes.append(str(error))
                    batch = [part for one in batch for part in one.without(error.name)]
        self._done |= {next_name(one.pairs[0].name) for one in batch}
        write_atomically(_state_path(self._data), msgspec.json.encode(sorted(self._done)))


class ParsedPages:
    """The new records of visits, in a temporary file of SQLite."""

    def __init__(self) -> None:
        self._connection = apsw.Connection("")
        self._connection.execute(SCHEMA)

    def __enter__(self) -> "ParsedPages":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, file: str, start: int, record: VisitRecord) -> None:
        self._connection.execute("INSERT OR REPLACE INTO page VALUES (?, ?, ?)", (file, start, _encode_page(record)))

    def find(self, file: str, start: int) -> VisitRecord | None:
        found = rows(self._connection, "SELECT record FROM page WHERE file = ? AND start = ?", (file, start))
        return _decode_page(found[0][0]) if found else None


class ReparseChoice:
    """Keeps everything, and gives visits their new records."""

    drops_gaps = False

    def __init__(self, parsed: ParsedPages) -> None:
        self._parsed = parsed

    def rewrite_capture(self, file: str, member: ReadMember) -> bytes | None:
        return member.packed

    def keeps_note(self, file: str, member: ReadMember) -> bool:
        return True

    def rewrite_visit(self, file: str, member: ReadMember, record: Callable[[], VisitRecord]) -> RewrittenVisit:
        found = self._parsed.find(file, member.position)
        if found is None:
            return RewrittenVisit()
        bare, texts = split_texts(found)
        return RewrittenVisit(bare, keeps_conversions=False, conversions=texts)


# -- bodies ------------------------------------------------------------------------------------------------------------


class StoredBodies:
    """The bodies of the visits of one pair of files."""

    def __init__(self, data: DataDirectory, pair: ArchivePair, stack: ExitStack) -> None:
        self._archive, self._name = data.archive, pair.name
        self._reader = CapturesReader(data)
        path = data.archive / f"{pair.name}.warc.gz"
        self._file: IO[bytes] = stack.enter_context(path.open("rb"))
        self._places = dict(_places(path, pair.lengths.warc)) if pair.lengths.warc else {}

    def find(self, head: RecordHead) -> tuple[FetchResponse, bytes] | None:
        """The response of a visit, and the document that its scripts made."""
        place = self._places.get(visit_key(head.url, head.date))
        response = self._response(place) if place is not None else None
        if place is None or response is None:
            return None
        rendered = b""
        if place.rendered is not None:
            rendered = self._content(self._file, *place.rendered)
        return response, rendered

    def _content(self, stream: IO[bytes], position: int, size: int) -> bytes:
        stream.seek(position)
        return read_record(stream, size).content or b""

    def _response(self, place: _Place) -> FetchResponse | None:
        content = self._content(self._file, place.position, place.size)
        if place.kind == RESOURCE:
            return make_response(place.content_type, content)
        response = parse_response(content)
        if place.kind == RESPONSE or response is None or response.status == 304:
            return response
        original = self._original(place)
        if original is None:
            return None
        with (self._archive / original.filename).open("rb") as stream:
            former = parse_response(self._content(stream, original.offset, original.length))
        if former is None:
            return None
        return FetchResponse(response.status, response.head, response.raw_head, former.raw_body, response.address)

    def _original(self, place: _Place) -> Capture | None:
        """The capture with the body of a revisit record; None if it is taken down."""
        for one in self._reader.captures_of(place.url, with_noarchive=True):
            if (one.name, one.offset) == (self._name, place.position):
                return self._reader.original_of(one)
        return None


def _places(path: Path, length: int) -> Iterator[tuple[int, _Place]]:
    held: tuple[int, _Place] | None = None
    for position, size, head in scan_heads(path, length):
        if head.kind in (RESPONSE, REVISIT, RESOURCE):
            if held is not None:
                yield held
            held = visit_key(head.url, head.date), _Place(position, size, head.kind, head.url, head.content_type)
        elif head.kind == CONVERSION and head.content_type == HTML_TYPE and held is not None:
            held = held[0], held[1]._replace(rendered=(position, size))
    if held is not None:
        yield held


# -- parsing -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class PairParser:
    """Parses the bodies of pairs of files. Use it in a `with`."""

    data: DataDirectory
    parsed: ParsedPages
    result: ReparseResult
    _definitions: dict[str, tuple[Collection, Admission]] = field(default_factory=dict)
    _memories: dict[int, HostMemory] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> "PairParser":
        self._definitions = {name: (one, Admission(one)) for name, one in collection_definitions(self.data).items()}
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    async def parse_pair(self, pair: ArchivePair) -> None:
        """Parse the pages of a pair, in order: the memory of a host learns from one page after the other."""
        path, waiting = meta_path(self.data.archive, pair.name), deque[_WaitingPage]()
        pool = ParserPool(len(os.sched_getaffinity(0)))
        try:
            with ExitStack() as stack:
                bodies = StoredBodies(self.data, pair, stack)
                for start, head, content in read_records(path, 0, pair.lengths.visits_end):
                    if head.kind == METADATA:
                        record = decode_body(path, start, _decode_visit, content)
                        if (one := self._begin(pool, bodies, start, head, record)) is not None:
                            waiting.append(one)
                    while len(waiting) >= WINDOW:
                        self._settle(pair.name, waiting[0], await waiting.popleft().parsing)
                while waiting:
                    self._settle(pair.name, waiting[0], await waiting.popleft().parsing)
        finally:
            for one in waiting:
                one.parsing.cancel()
            pool.close()

    def _begin(
        self, pool: ParserPool, bodies: StoredBodies, start: int, head: RecordHead, record: VisitRecord
    ) -> _WaitingPage | None:
        """Begin to parse a kept page; None: its record stays as it is."""
        definition = self._definitions.get(record.collection)
        if record.page is None or record.removed or not record.outcome.kept or definition is None:
            return None
        found = bodies.find(head)
        job = self._job(record, *found, definition) if found is not None else None
        if found is None or job is None:
            self.result.without_body += 1
            return None
        return _WaitingPage(start, record, found[0].head, bool(found[1]), asyncio.create_task(pool.parse(job)))

    def _job(
        self, record: VisitRecord, response: FetchResponse, rendered: bytes, definition: tuple[Collection, Admission]
    ) -> ParseJob | None:
        key = host_key(record.url)
        place = (record.depth, record.redirects, record.visit)
        visit = Visit(0, host_id(key), url_id(record.url), record.url, *place, role=record.outcome.role)
        job = decode_capture(visit, response, *definition).job
        return rendered_job(job, rendered) if job is not None and rendered else job

    def _settle(self, file: str, one: _WaitingPage, parsed: ParseJobResult) -> None:
        record = one.record
        collection, admission = self._definitions[record.collection]
        if one.is_rendered and parsed.page is not None and record.page is not None and record.rendered is not None:
            parsed = merge_fetched(record.page, parsed, record.rendered.moved_to, admission.identity)
        page = parsed.page
        if page is None or record.page is None:
            self.result.refused += 1
            return
        page = without_future_dates(self._memory(record, collection).describe(page), record.outcome.at)
        page = with_usage(page, one.head, collection, None)
        # what robots.txt said then is known from the old record only
        page = msgspec.structs.replace(page, usage=combine_usage(page.usage, record.page.usage))
        self.parsed.add(file, one.start, msgspec.structs.replace(record, page=page))
        self.result.parsed += 1

    def _memory(self, record: VisitRecord, collection: Collection) -> HostMemory:
        """What the frontier knows of a host; what is learned here is not stored."""
        host = host_id(host_key(record.url))
        memory = self._memories.get(host)
        if memory is None:
            if len(self._memories) >= HOSTS_KEPT_MAX:
                self._memories.clear()
            memory = self._memories[host] = HostMemory(self._stored_memory(host), collection.scope)
        return memory

    def _stored_memory(self, host: int) -> bytes:
        if not self.data.frontier.exists():
            return b""
        connection = open_sqlite_readonly(self.data.frontier)
        with suppress(IndexError):
            try:
                return bytes(rows(connection, "SELECT memory FROM host WHERE id = ?", (host,))[0][0] or b"")
            finally:
                connection.close()
        return b""
