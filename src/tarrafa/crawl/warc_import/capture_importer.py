"""Imports captures into a collection as if it had crawled them: archive, frontier, and from there all that follows.

Each capture takes the way of a page that a worker has fetched (`worker/outcome`, `archive/warc_writer`,
`frontier/replay`), in the order of the dates of all captures, under a clock that shows their dates. So links, states,
versions, change rates and validators are those of a crawl at that time. A capture that is older than a known visit of
its URL becomes a version in the archive (`OLDER_VERSION`) and changes nothing else but that its links are known.
Promises: the record is durable before the frontier knows of it, and the frontier before `imports.sqlite`; so whatever
is killed, the next import finds what was done, in the archive, and neither loses nor repeats a capture. Nothing is
fetched. Documents are parsed in sandboxed child processes only.
"""

import asyncio
import contextlib
import os
import traceback
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from tarrafa import config
from tarrafa.archive.foreign_archive_reader import Damage
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.config import Collection
from tarrafa.config.sections import redact_for_archive
from tarrafa.crawl.rebuild_frontier import ReplayClock
from tarrafa.crawl.scope.scope_rules import Admission, discovered_url
from tarrafa.crawl.warc_import.capture import ForeignCapture, as_unchanged, decode_capture
from tarrafa.crawl.warc_import.capture_loader import CONTENT_BYTES_MAX, CaptureLoader
from tarrafa.crawl.warc_import.import_recovery import WRITER_NAME, import_lengths
from tarrafa.crawl.warc_import.import_state import ImportRow, ImportState, capture_key
from tarrafa.crawl.worker.committer import LinkCache
from tarrafa.crawl.worker.fetcher import build_exchange, build_request
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.crawl.worker.outcome import FinishedVisit, conclude, discovered_urls, refuse_visit
from tarrafa.crawl.worker.parser_with_sandbox import DecodedBody, ParseJob, ParseJobResult, ParserWithSandbox
from tarrafa.crawl.worker.politeness import configured_delay_s
from tarrafa.crawl.worker.robots_fetch import ROBOTS_TTL_S, to_robots_copy
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.fetch.robots import RobotsRules
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.frontier.messages import DiscoveredUrl
from tarrafa.frontier.replay import FrontierReplay, KnownUrl
from tarrafa.frontier.store.collections import LoadedCollection
from tarrafa.i18n import message
from tarrafa.model import (
    OLDER_VERSION,
    REDIRECTS,
    CollectionNote,
    HostId,
    HostNote,
    ListingNote,
    Status,
    UrlRole,
    Visit,
)
from tarrafa.parse.url import host_id, host_key, split, url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.takedown import CurrentTakedowns

ROBOTS_PATH = "/robots.txt"
BATCH_CAPTURES, BATCH_BYTES = 500, 64 << 20  # of one commit
WINDOW_CAPTURES, WINDOW_BYTES = 32, 128 << 20  # that are parsed or wait for it
HOSTS_KEPT_MAX = 1_000  # memories and robots.txt of hosts
ERROR_CHARS_MAX = 200
ANY_TYPE = ("text/*", "application/*", "image/*", "audio/*", "video/*", "font/*", "multipart/*", "message/*", "model/*")
COUNT_MAX = 1 << 31
Advance = Callable[[int], None]


def unlimited_scope(collection: Collection) -> Collection:
    """The collection as it would keep everything that a file holds."""
    scope = replace(
        collection.scope, hosts=("*",), include=(), exclude=(), types=ANY_TYPE, languages=(), keep="all",
        size_max=type(collection.scope.size_max)(CONTENT_BYTES_MAX), copies_max=COUNT_MAX, alike_max=COUNT_MAX,
    )  # fmt: skip
    return replace(collection, scope=scope)


class ParserPool:
    """Sandboxed parser processes, one for each processor."""

    def __init__(self, processes: int) -> None:
        self._parsers = [ParserWithSandbox() for _ in range(processes)]
        self._free: asyncio.Queue[ParserWithSandbox] = asyncio.Queue()
        for parser in self._parsers:
            self._free.put_nowait(parser)

    async def parse(self, job: ParseJob) -> ParseJobResult:
        parser = await self._free.get()
        try:
            return await parser.parse_in_sandbox(job)
        finally:
            self._free.put_nowait(parser)

    def close(self) -> None:
        for parser in self._parsers:
            parser.close()


@dataclass(slots=True)
class ImportCounts:
    """What became of the captures."""

    imported: int = 0
    kept: int = 0
    older: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


@dataclass(slots=True)
class _Batch:
    """What the next commit makes known."""

    rows: list[ImportRow] = field(default_factory=list)
    keys: list[bytes] = field(default_factory=list)
    tally: dict[int, Counter[str]] = field(default_factory=dict)
    damages: list[tuple[int, Damage]] = field(default_factory=list)
    size: int = 0

    def count(self, source: int, what: str) -> None:
        self.tally.setdefault(source, Counter())[what] += 1


@dataclass(slots=True)
class _Waiting:
    """A capture whose document is being parsed."""

    row: ImportRow
    capture: ForeignCapture
    key: bytes
    role: int
    body: DecodedBody | None = None
    parsing: "asyncio.Task[ParseJobResult] | None" = None

    failure: Exception | None = None

    @property
    def size(self) -> int:
        return len(self.capture.response.raw_body)

    @property
    def is_robots(self) -> bool:
        return split(self.capture.url).target == ROBOTS_PATH

    @property
    def leads_others(self) -> bool:
        """Whether it says what other URLs are: robots.txt names sitemaps, sitemaps name others."""
        return self.is_robots or self.role != UrlRole.PAGE


class WarcImporter:
    """One import into one collection of a frontier that nothing else uses."""

    def __init__(
        self,
        data: DataDirectory,
        collection: str,
        replay: FrontierReplay,
        past: ReplayClock,
        state: ImportState,
        loader: CaptureLoader,
        *,
        everything: bool,
        now: float,
    ) -> None:
        self._data, self._replay, self._past, self._state, self._loader = data, replay, past, state, loader
        self._everything = everything
        self.known: LoadedCollection = replay.store.collections.by_name(collection)
        takedowns = CurrentTakedowns(data)
        self._admission = Admission(self.known.config, takedowns.now)
        self._kept_by = unlimited_scope(self.known.config) if everything else self.known.config
        self._kept_admission = Admission(self._kept_by, takedowns.now) if everything else self._admission
        self._writer = WarcWriter(data.archive, WRITER_NAME, now)
        self._noted = (0, 0, 0)
        self._links = LinkCache()
        self._memories: OrderedDict[HostId, HostMemory] = OrderedDict()
        self._robots: OrderedDict[HostId, RobotsRules] = OrderedDict()
        self._pool = ParserPool(len(os.sched_getaffinity(0)))
        self._waiting: deque[_Waiting] = deque()
        self._window_keys: set[bytes] = set()
        self._batch, self._transaction = _Batch(), contextlib.ExitStack()
        self.counts = ImportCounts()

    # -- the way of all captures -----------------------------------------------------------------------------------

    async def run(self, advance: Advance) -> None:
        self._begin()
        try:
            held = 0
            for row in self._state.open_captures():
                held += self._prepare(row)
                leads = bool(self._waiting) and self._waiting[-1].leads_others
                while self._waiting and (leads or len(self._waiting) >= WINDOW_CAPTURES or held > WINDOW_BYTES):
                    held -= self._waiting[0].size
                    await self._settle(self._waiting.popleft())
                if len(self._batch.rows) >= BATCH_CAPTURES or self._batch.size >= BATCH_BYTES:
                    advance(await self._commit())
            while self._waiting:
                await self._settle(self._waiting.popleft())
            advance(await self._commit())
        finally:
            for one in self._waiting:
                if one.parsing is not None:
                    one.parsing.cancel()
            self._pool.close()
            self._loader.close()
        self._transaction.close()
        self._writer.close()

    def _begin(self) -> None:
        self._batch = _Batch()
        self._transaction.enter_context(self._replay.transaction())

    async def _commit(self) -> int:
        """Make the archive durable, then the frontier, then the state; the number of captures."""
        batch = self._batch
        self._data.check_space()
        for host, memory in self._memories.items():
            self._store_memory(host, memory)
        await asyncio.to_thread(self._writer.prepare_commit())
        self._replay.free_hosts()
        self._transaction.close()
        for source, damage in batch.damages:
            self._state.add_damage(source, damage.offset, damage.reason)
        self._state.save_batch(batch.rows, batch.keys, dict(batch.tally), import_lengths(self._data.archive))
        self._window_keys.difference_update(batch.keys)
        self._begin()
        return len(batch.rows)

    def _finish_row(self, row: ImportRow, what: str, key: bytes | None = None) -> None:
        self._batch.rows.append(row)
        self._batch.count(row.source, what)
        if key is not None:
            self._batch.keys.append(key)
        if what.startswith("skipped"):
            self.counts.skipped[what] += 1

    # -- before the parser -----------------------------------------------------------------------------------------

    def _prepare(self, row: ImportRow) -> int:
        """Load a capture and begin to parse it; its size, or 0 if it is over already."""
        capture = self._loader.load(row)
        if isinstance(capture, Damage):
            self._batch.damages.append((row.source, capture))
            self._finish_row(row, "damaged")
            return 0
        url = self._admission.identity.canonicalize(capture.url)
        if url is None:
            self._finish_row(row, "skipped: no Web address")
            return 0
        capture = capture._replace(url=url)
        if why := self._refusal(url):
            self._finish_row(row, f"skipped: {why}")
            return 0
        is_robots = split(url).target == ROBOTS_PATH
        length = 0 if is_robots or capture.is_unchanged else len(capture.response.raw_body)
        key = capture_key(self.known.row.name, url, row.at, length)
        if self._is_known(key, url, row.at, length):
            self._finish_row(row, "skipped: imported before")
            return 0
        self._window_keys.add(key)
        found = self._known_url(url)
        one = _Waiting(row, capture, key, found.role if found is not None else int(UrlRole.PAGE))
        if not is_robots:
            self._begin_parsing(one)
        self._waiting.append(one)
        return one.size

    def _refusal(self, url: str) -> str:
        """Why the collection does not take a capture of a URL; empty if it does."""
        if self._admission.is_taken_down(url):
            return "taken down"
        if self._everything or url in self.known.config.root_set:
            return ""
        found = self._known_url(url)
        if found is not None and found.role != UrlRole.PAGE:  # a sitemap or feed, which may be anywhere
            return ""
        if split(url).target == ROBOTS_PATH:
            return "" if self._admission.has_host(url) else "outside the scope"
        if not self._admission.may_fetch(url):
            return "outside the scope"
        status = self._admission.url_refusal_status(url)
        return {0: "", int(Status.TRAP): "a trap"}.get(int(status), "type not wanted")

    def _is_known(self, key: bytes, url: str, at: float, length: int) -> bool:
        """Whether a capture was imported or is being imported, or is a visit of our own."""
        if key in self._window_keys or self._state.is_seen(key):
            return True
        return self._replay.has_visit(self.known, host_id(host_key(url)), url_id(url), at, length)

    def _known_url(self, url: str) -> KnownUrl | None:
        return self._replay.known_url(self.known, host_id(host_key(url)), url_id(url))

    def _begin_parsing(self, one: _Waiting) -> None:
        visit, response = self._visit(one), one.capture.response
        try:
            if one.capture.is_unchanged or self._checked(visit, response).status != 200:
                return
            one.body = decode_capture(visit, response, self._kept_by, self._kept_admission)
        except Exception as error:  # it costs only this capture
            one.failure = error
            return
        if one.body.job is not None:
            one.parsing = asyncio.create_task(self._pool.parse(one.body.job))

    def _checked(self, visit: Visit, response: FetchResponse) -> FetchResponse:
        """The response, refused by its header as our client would have."""
        refusal = self._request(visit).check_head(response.head) if response.status == 200 else 0
        if not refusal:
            return response
        return FetchResponse(refusal, response.head, response.raw_head, response.raw_body, response.address)

    def _request(self, visit: Visit) -> FetchRequest:
        return build_request(visit.url, self._kept_by, visit)

    def _visit(self, one: _Waiting) -> Visit:
        """The visit as the frontier would have handed it out then. A version that is older than a known visit has
        nothing to be compared with."""
        url = one.capture.url
        found, key = self._known_url(url), host_key(url)
        number, facts = self.known.row.id, (host_id(key), url_id(url), url)
        if found is None:
            return Visit(number, *facts, 0, 0, 1, role=one.role)
        place = (found.depth, found.redirects)
        if found.fetched is not None and one.capture.at < found.fetched:
            return Visit(number, *facts, *place, OLDER_VERSION, content_id="", role=found.role, parent=found.parent)
        return Visit(
            number, *facts, *place, found.visits + 1, content_id=found.content_id, role=found.role,
            parent=found.parent, payload=found.payload, archived=found.archived,
        )  # fmt: skip

    # -- behind the parser -----------------------------------------------------------------------------------------

    async def _settle(self, one: _Waiting) -> None:
        """Conclude a capture, record it, and tell the frontier."""
        capture = one.capture
        self._past.moment[0] = capture.at
        if one.is_robots:
            self._record_robots(one)
            return
        visit = self._visit(one)
        needs_original = capture.is_unchanged or capture.response.status == 304
        if needs_original and not (visit.payload and visit.archived):
            self._finish_row(one.row, "skipped: a revisit of a record that is not here")
            self._window_keys.discard(one.key)
            return
        done = await self._conclude(one, visit)
        self._record(one, done)

    async def _conclude(self, one: _Waiting, visit: Visit) -> FinishedVisit:
        capture, parsed = one.capture, None
        try:
            if one.failure is not None:
                raise one.failure
            if one.parsing is not None:
                parsed = await one.parsing
                if visit.role != UrlRole.PAGE and self._is_a_page(parsed, capture.response):
                    visit = replace(visit, role=int(UrlRole.PAGE))
                    one.body = decode_capture(visit, capture.response, self._kept_by, self._kept_admission)
                    parsed = await self._pool.parse(one.body.job) if one.body.job is not None else None
            response = as_unchanged(visit, capture.response) if capture.is_unchanged else capture.response
            response, memory = self._checked(visit, response), self._memory(visit.host)
            facts = (self._kept_by, self._kept_admission, capture.at, one.body, parsed, memory)
            request = self._request(visit)
            done = conclude(visit, request, response, *facts, self._robots.get(visit.host))
            if self._everything:
                listing = parsed.listing if parsed is not None else None
                done.discovered = list(discovered_urls(done.record, visit, listing, self._admission))
                if done.exchange is None and response.raw_head:
                    done.exchange = build_exchange(request, response, capture.at)
        except Exception as error:
            traceback.print_exc()
            why = message("the parser failed: {error}", error=f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX])
            done = refuse_visit(visit, self.known.row.name, Status.HOSTILE, capture.at, why, requested=True)
        return done

    def _is_a_page(self, parsed: ParseJobResult, response: FetchResponse) -> bool:
        kind = response.head.content_type
        return parsed.listing is not None and not parsed.listing.kind and self._kept_by.wants_type(kind)

    def _record(self, one: _Waiting, done: FinishedVisit) -> None:
        capture, name = one.capture, self.known.row.name
        self._record_configuration(capture.at)
        if done.exchange is not None:
            # a body without a response of its own has no header that a revisit record could hold
            former = "" if capture.resource_type else done.exchange.archived_payload
            done.exchange = replace(
                done.exchange, request=capture.request, truncated=capture.truncated, archived_payload=former,
                resource_type=capture.resource_type,
            )  # fmt: skip
        try:
            if done.listing is not None:
                note = ListingNote(name, done.visit.url, done.visit.number, done.listing)
                self._writer.append_note(note, capture.at)
            self._writer.append(done.record, done.exchange)
        except (UnicodeError, ValueError, TypeError) as error:  # the page's content cannot be encoded
            why = message("it cannot be archived ({error})", error=type(error).__name__)
            done = refuse_visit(done.visit, name, Status.HOSTILE, capture.at, why, requested=True)
            self._writer.append(done.record, None)
        self._tell_frontier(done)
        self._batch.size += one.size
        self.counts.imported += 1
        self.counts.kept += done.record.outcome.kept
        self.counts.older += done.visit.number == OLDER_VERSION
        self._finish_row(one.row, "imported", one.key)

    def _tell_frontier(self, done: FinishedVisit) -> None:
        visit, outcome = done.visit, done.record.outcome
        self._discover(done.discovered)
        if visit.number != OLDER_VERSION:
            url = discovered_url(visit.url, visit.depth, visit.role, visit.redirects)
            self._replay.replay_visit(self.known, url, visit.number, outcome, WRITER_NAME)

    def _discover(self, offers: list[DiscoveredUrl]) -> None:
        new = self._links.filter_new(self.known.row.id, offers, self.known.run)
        self._replay.discover(self.known, new)
        self._links.remember(self.known.row.id, new, self.known.run)

    def _record_configuration(self, at: float) -> None:
        """Each pair of files begins with the definition of the collection."""
        row, run = self.known.row, self.known.run
        if self._noted == (self._writer.file_pair, row.revision, run):
            return
        content = msgspec.Raw(config.encode_collection(redact_for_archive(self.known.config)))
        self._writer.append_note(CollectionNote(row.name, row.revision, content, run), at)
        self._noted = (self._writer.file_pair, row.revision, run)

    # -- hosts -----------------------------------------------------------------------------------------------------

    def _memory(self, host: HostId) -> HostMemory:
        memory = self._memories.get(host)
        if memory is None:
            while len(self._memories) >= HOSTS_KEPT_MAX:
                self._store_memory(*self._memories.popitem(last=False))
            memory = HostMemory(self._replay.host_memory(host), self._kept_by.scope, self.known.row.id)
            self._memories[host] = memory
        self._memories.move_to_end(host)
        return memory

    def _store_memory(self, host: HostId, memory: HostMemory) -> None:
        content = memory.encode_if_changed(is_leaving=True, is_idle=True)
        if content is not None:
            self._replay.set_host_memory(host, content)

    def _record_robots(self, one: _Waiting) -> None:
        """Record a robots.txt as a worker does. A later crawl requests it again: the copy has expired."""
        capture, response = one.capture, one.capture.response
        key, name = host_key(capture.url), self.known.row.name
        host, config_ = host_id(key), self.known.config
        self._record_configuration(capture.at)
        request = build_request(capture.url, config_)
        facts = {
            "request": capture.request, "resource_type": capture.resource_type, "truncated": capture.truncated,
        }  # fmt: skip
        self._writer.append_exchange(replace(build_exchange(request, response, capture.at), **facts))
        self._finish_row(one.row, "robots.txt", one.key)
        self._batch.size += one.size
        if response.status in REDIRECTS or response.status == 304 or not 200 <= response.status < 500:
            return
        copy = to_robots_copy(response, capture.at + ROBOTS_TTL_S)
        rules = parse_robots(copy.text)
        self._robots[host] = rules
        while len(self._robots) > HOSTS_KEPT_MAX:
            self._robots.popitem(last=False)
        before = self._replay.host_rules(host)
        delay_s = max(before[0] if before is not None else 0.0, configured_delay_s(config_, key))
        sitemaps = list(self._admission.admit_sitemaps(rules.sitemaps, key, 0))
        note = HostNote(
            name, key, 0, delay_s, tuple(offer.url for offer in sitemaps), copy.status, copy.expires, copy.text
        )
        self._writer.append_note(note, capture.at)
        if before is None or before[1] < copy.expires:
            self._replay.set_host_rules(self.known, host, key, copy, delay_s)
        self._discover(sitemaps)
