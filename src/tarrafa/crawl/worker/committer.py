"""Commits finished visits in groups, a few times a second: archive record, then links, then the end of the visit.

One fsync and one message serve hundreds of visits. The order of durability is the one law: a visit's record is on the
disk, then its links are with the frontier, then the visit is finished at the frontier. `VisitRecorder` writes the
records, and the notes that a rebuild of the frontier needs; `LinkCache` spares the frontier links that it knows.
Promises: what was recorded after the leases were lost is never committed; a failure of a session ends the commits; a
visit that cannot be encoded becomes a refusal, not a failure.
Knows nothing of sockets or parsing.
"""

import asyncio
import contextlib
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from msgspec.structs import replace

from tarrafa.archive.warc_writer import ArchiveWriter
from tarrafa.clock import Clock, boottime
from tarrafa.config import encode_collection
from tarrafa.config.sections import redact_for_archive
from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.fetcher import build_exchange
from tarrafa.crawl.worker.host_session import FEW_VISITS, LOCAL_COMMITS, CommitTiming, HostSession
from tarrafa.crawl.worker.outcome import FinishedVisit, refuse_visit
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.crawl.worker.worker_fence import Registration
from tarrafa.errors import LeaseLost
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import DiscoveredUrl, HostReport, NextVisits, VisitReport
from tarrafa.i18n import Message, message
from tarrafa.model import CollectionNote, HostId, HostNote, ListingNote, Status, UrlId, UrlRole

# From the beginning of a commit of so many visits to the next one: other sessions have enough to do meanwhile.
BUSY_EVERY_S, BUSY_VISITS_MIN = 0.15, 16
COMMIT_VISITS_MAX = 500  # or when so many visits wait
DISCOVERED_PER_CALL_MAX = 20_000
MESSAGE_BYTES_MAX = 8 << 20
CACHED_URLS_MAX = 300_000  # some 70 MB
BODIES_REMEMBERED_MAX = 100_000  # some 30 MB
REQUISITE = int(UrlRole.REQUISITE)
SessionReport = tuple[HostSession, HostReport]


class ArchivedBodies:
    """The bodies of requisites that this worker has archived, by collection and digest: the next URL with the same
    bytes is archived as a reference to the first. The oldest are forgotten first.

    The record that is referred to was written before by the same writer, so it is durable whenever the reference is.
    """

    def __init__(self, most: int = BODIES_REMEMBERED_MAX) -> None:
        self._first: dict[tuple[str, str], tuple[str, float]] = {}
        self._most = most

    def refer(self, done: FinishedVisit) -> None:
        """Let a visit refer to the URL that had its bytes before. The frontier must not take the reference for a body:
        a record that refers to a reference would not be found by every program."""
        exchange = done.exchange
        if exchange is None or not exchange.payload or exchange.is_revisit_record:
            return
        first = self._first.get((done.record.collection, exchange.payload))
        if first is not None and first[0] != exchange.url:
            url, at = first
            done.exchange = replace(exchange, archived_payload=exchange.payload, archived_url=url, archived_at=at)
            done.record = replace(done.record, outcome=replace(done.record.outcome, same_as=url))

    def remember(self, done: FinishedVisit) -> None:
        """Remember the body of a visit that was written."""
        exchange = done.exchange
        if exchange is None or not exchange.payload or exchange.is_revisit_record:
            return
        if len(self._first) >= self._most:
            del self._first[next(iter(self._first))]
        self._first[done.record.collection, exchange.payload] = (exchange.url, exchange.at)


class VisitRecorder:
    """Writes for one worker. Nothing is durable before the function that `prepare_commit` returns has run."""

    def __init__(self, writer: ArchiveWriter, clock: Clock, collections: WorkerCollections) -> None:
        self._writer, self._clock, self._collections = writer, clock, collections
        self._noted: dict[int, tuple[int, int, int]] = {}  # last note: pair of files, revision and run
        self._bodies = ArchivedBodies()

    def record_visit(self, session: HostSession, done: FinishedVisit) -> FinishedVisit:
        """Record a visit; returns it as recorded."""
        self._record_configuration(session)
        try:
            if done.listing is not None:
                note = ListingNote(session.collection.name, done.visit.url, done.visit.number, done.listing)
                self._writer.append_note(note, self._clock.now())
            if done.visit.role == UrlRole.REQUISITE:
                self._bodies.refer(done)
            self._writer.append(done.record, done.exchange)
            if done.visit.role == UrlRole.REQUISITE:
                self._bodies.remember(done)
        except (UnicodeError, ValueError, TypeError) as error:  # the page's content cannot be encoded
            traceback.print_exc()
            name, now = session.collection.name, self._clock.now()
            done = refuse_visit(
                done.visit,
                name,
                Status.HOSTILE,
                now,
                message("it cannot be archived ({error})", error=type(error).__name__),
            )
            self._writer.append(done.record, None)
        return done

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None:
        """Record the host's robots.txt, if it is new, and the sitemaps that it names."""
        self._record_configuration(session)
        robots = session.robots_fetch.new_copy
        note = HostNote(
            session.collection.name,
            session.lease.host_key,
            min((offer.depth for offer in sitemaps), default=0),
            session.pacing.delay_s,
            tuple(offer.url for offer in sitemaps),
        )
        if robots is not None:
            note = replace(note, status=robots.status, expires=robots.expires, text=robots.text)
        self._writer.append_note(note, self._clock.now())

    def record_exchange(self, request: FetchRequest, response: FetchResponse) -> None:
        self._writer.append_exchange(build_exchange(request, response, self._clock.now()))

    def prepare_commit(self) -> Callable[[], None]:
        """Fix the records so far; the returned function makes them durable and may run in a thread."""
        return self._writer.prepare_commit()

    def close(self) -> None:
        self._writer.close()

    def _record_configuration(self, session: HostSession) -> None:
        number, run = session.lease.collection, session.lease.run
        in_force = self._collections[number]
        state = (self._writer.file_pair, in_force.revision, run)
        if self._noted.get(number) != state:
            collection = in_force.collection
            content = msgspec.Raw(encode_collection(redact_for_archive(collection)))
            note = CollectionNote(collection.name, in_force.revision, content, run)
            self._writer.append_note(note, self._clock.now())
            self._noted[number] = (self._writer.file_pair, in_force.revision, run)


class LinkCache:
    """URL -> the smallest depth at which it was delivered, and the run. The oldest entries of the collection with the
    most are forgotten first."""

    def __init__(self, most: int = CACHED_URLS_MAX) -> None:
        self._depths: defaultdict[int, dict[UrlId, tuple[int, int, int, int]]] = defaultdict(dict)  # by collection
        self._most = most
        self.urls_seen = 0  # links found on pages
        self.urls_delivered = 0  # links that were delivered

    def filter_new(self, collection: int, offers: Iterable[DiscoveredUrl], run: int = 1) -> list[DiscoveredUrl]:
        """The links that this worker has not delivered yet, each URL once and at its smallest depth."""
        best: dict[UrlId, DiscoveredUrl] = {}
        get_known, seen = self._depths[collection].get, 0
        for seen, offer in enumerate(offers, 1):  # noqa: B007 (the number of them)
            known = get_known(offer.id)
            if known is not None and not offer.announced:
                depth, redirects, role, known_run = known
                is_place_known = depth < offer.depth or (depth == offer.depth and redirects <= offer.redirects)
                if is_place_known and run <= known_run and (offer.role == role or _covers(role, offer.role)):
                    continue
            other = best.get(offer.id)
            if other is None:
                best[offer.id] = offer
                continue
            if REQUISITE in (offer.role, other.role):
                best[offer.id] = _join_roles(other, offer)
                continue
            place = (offer.depth, offer.redirects)
            first = offer if (-offer.role, place) < (-other.role, (other.depth, other.redirects)) else other
            announced = max(offer.announced, other.announced)
            best[offer.id] = first if first.announced == announced else replace(first, announced=announced)
        self.urls_seen += seen
        self.urls_delivered += len(best)
        return list(best.values())

    def remember(self, collection: int, offers: Iterable[DiscoveredUrl], run: int = 1) -> None:
        depths = self._depths[collection]
        for offer in offers:
            role, known = offer.role, depths.get(offer.id)
            if known is not None and known[3] == run and REQUISITE in (role, known[2]) and role != known[2]:
                role = UrlRole.NEEDED_PAGE  # both were delivered
            depths[offer.id] = (offer.depth, offer.redirects, role, run)
        while self._size() > self._most:
            largest = max(self._depths.values(), key=len)
            for id_ in list(islice(largest, self._size() - self._most)):
                del largest[id_]

    def _size(self) -> int:
        return sum(map(len, self._depths.values()))

    def hit_rate_text(self) -> Message | str:
        """The hit rate, for people; empty while there is none."""
        if not self.urls_seen:
            return ""
        share = 1.0 - self.urls_delivered / self.urls_seen
        return message(
            "links delivered before: {share:.1%} of {links} (URLs in the cache: {urls})",
            share=share,
            links=self.urls_seen,
            urls=self._size(),
        )


def _covers(known: int, role: int) -> bool:
    """Whether a URL that was delivered in one role need not be delivered in another."""
    if REQUISITE in (known, role):
        return known in (role, UrlRole.NEEDED_PAGE)
    return role in (UrlRole.PAGE, known)


def _join_roles(one: DiscoveredUrl, other: DiscoveredUrl) -> DiscoveredUrl:
    """One offer for two, of which one says that a page needs the URL. The place is that of the page to which a link
    leads."""
    announced = max(one.announced, other.announced)
    if one.role == other.role:
        best = min(one, other, key=lambda offer: (offer.depth, offer.redirects))
        return best if best.announced == announced else replace(best, announced=announced)
    link = other if one.role == REQUISITE else one
    if link.status:  # it is not visited as a page
        return replace(one if link is other else other, announced=announced)
    role = UrlRole.NEEDED_PAGE if link.role == UrlRole.PAGE else link.role
    return replace(link, role=int(role), announced=announced)


@dataclass(slots=True)
class PendingCommit:
    """What waits for the next commit."""

    finished: list[tuple[HostSession, FinishedVisit]] = field(default_factory=list)
    returning: list[HostSession] = field(default_factory=list)  # their hosts go back
    learned: list[tuple[HostSession, list[DiscoveredUrl]]] = field(default_factory=list)  # new robots.txt and sitemaps

    def __bool__(self) -> bool:
        return bool(self.finished or self.returning or self.learned)

    def discovered(self) -> dict[tuple[int, int], list[DiscoveredUrl]]:
        """All links, by collection and run."""
        found: defaultdict[tuple[int, int], list[DiscoveredUrl]] = defaultdict(list)
        for session, some in [*self.learned, *((session, done.discovered) for session, done in self.finished)]:
            found[session.lease.collection, session.lease.run] += some
        return found

    def build_reports(self) -> list[SessionReport]:
        """One report per host that has changed, as things stand now: the sessions continue meanwhile."""
        visits: defaultdict[HostId, list[VisitReport]] = defaultdict(list)
        touched: Iterable[HostSession] = (
            *(session for session, _ in self.learned),
            *self.returning,
            *(session for session, _ in self.finished),
        )
        sessions = {session.lease.host: session for session in touched if not session.lease_ended}  # else lost
        gone = {session.lease.host for session in self.returning if not session.lease_ended}
        for session, done in self.finished:
            visits[session.lease.host].append(VisitReport(done.visit.id, done.visit.number, done.record.outcome))
        return [
            (session, session.build_report(visits[host], keep=host not in gone)) for host, session in sessions.items()
        ]


class Committer:
    """Takes what the host sessions have finished. `on_lease_ended` is called for sessions whose host is no longer ours,
    `on_reported` for every report that the frontier has accepted."""

    def __init__(
        self,
        name: str,
        frontier: Frontier,
        registration: Registration,
        collections: WorkerCollections,
        recorder: VisitRecorder,
        link_cache: LinkCache,
        stats: WorkerStats,
        on_lease_ended: Callable[[HostSession], None],
        on_reported: Callable[[HostReport], None] = lambda report: None,
        timing: CommitTiming = LOCAL_COMMITS,
    ) -> None:
        self._name, self._frontier, self._registration, self._collections = name, frontier, registration, collections
        self._recorder, self._link_cache, self._stats = recorder, link_cache, stats
        self._on_lease_ended, self._on_reported, self._timing = on_lease_ended, on_reported, timing
        self._pending = PendingCommit()
        self._wake = asyncio.Event()
        self._committed_at = 0.0
        self._closing = False
        self._failure: BaseException | None = None

    # -- what sessions hand over -------------------------------------------------------------------------------

    def record_visit(self, session: HostSession, done: FinishedVisit) -> None:
        if not self._registration.is_valid():
            return  # its host may be leased to another worker, which makes this visit
        done = self._recorder.record_visit(session, done)
        self._stats.count_visit(done.record)
        self._pending.finished.append((session, done))
        if self._is_due or len(self._pending.finished) >= COMMIT_VISITS_MAX:
            self._wake.set()

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None:
        """Record the host's robots.txt and sitemaps if they are new: after the loss of a frontier only the record knows
        them."""
        unknown = self._link_cache.filter_new(session.lease.collection, sitemaps, session.lease.run)
        if session.robots_fetch.new_copy is not None or unknown:
            self._recorder.record_host(session, unknown)
        self._pending.learned.append((session, sitemaps))

    def archive_exchange(self, request: FetchRequest, response: FetchResponse) -> None:
        if response.raw_head and self._registration.is_valid():
            self._recorder.record_exchange(request, response)

    def return_host(self, session: HostSession) -> None:
        if not session.lease_ended:  # else the host may be leased to another worker by now, or to us again
            self._pending.returning.append(session)

    def request_commit(self) -> None:
        self._wake.set()

    def session_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """Commit nothing more: `run` raises the error."""
        self._failure = error
        self._wake.set()

    # -- the commits -------------------------------------------------------------------------------------------

    @property
    def _is_due(self) -> bool:
        """Whether the last commit is long enough ago. A few visits wait for others to come; a host that goes back does
        not."""
        is_little = len(self._pending.finished) < FEW_VISITS and not self._pending.returning
        wait_s = self._timing.few_every_s if is_little else self._timing.every_s
        return boottime() - self._committed_at >= wait_s

    async def run(self) -> None:
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.every_s):
                    await self._wake.wait()
            is_asked = self._wake.is_set()
            self._wake.clear()
            self._collections.reload_takedowns()
            if self._failure is not None:
                raise self._failure
            if self._pending and (is_asked or self._is_due):
                is_busy = len(self._pending.finished) >= BUSY_VISITS_MIN
                await self.commit()
                left_s = self._committed_at + BUSY_EVERY_S - boottime() if is_busy else 0.0
                await asyncio.sleep(max(self._timing.pause_s, left_s))

    def close(self) -> None:
        """Let `run` end; a running commit is finished."""
        self._closing = True
        self._wake.set()

    async def commit(self) -> None:
        """Make the records durable, deliver the links, finish the visits; all of it only while we hold the leases."""
        if not self._registration.is_valid():
            raise LeaseLost(
                message("worker {name} was stopped, or too slow, for longer than its lease", name=self._name)
            )
        pending, self._pending, self._committed_at = self._pending, PendingCommit(), boottime()
        discovered, reports = pending.discovered(), pending.build_reports()
        await asyncio.to_thread(self._recorder.prepare_commit())
        if not self._registration.is_valid():
            raise LeaseLost(message("worker {name} could not write for longer than its lease", name=self._name))
        await self._deliver(discovered)
        for part in split_into_messages(reports):
            answers = await self._frontier.finish(self._registration.worker, [report for _, report in part])
            for (session, report), answer in zip(part, answers, strict=True):
                self._continue(session, report, answer)

    def _continue(self, session: HostSession, report: HostReport, answer: NextVisits) -> None:
        if not session.lease_ended:
            session.continue_with(len(report.reports), answer)
            if session.lease_ended:
                self._on_lease_ended(session)
        self._on_reported(report)

    async def _deliver(self, discovered: dict[tuple[int, int], list[DiscoveredUrl]]) -> None:
        for (collection, run), some in discovered.items():
            new = self._link_cache.filter_new(collection, some, run)
            for start in range(0, len(new), DISCOVERED_PER_CALL_MAX):
                await self._frontier.discover(collection, new[start : start + DISCOVERED_PER_CALL_MAX])
            self._link_cache.remember(collection, new, run)


def split_into_messages(reports: list[SessionReport]) -> Iterator[list[SessionReport]]:
    """Split reports into messages that stay small, with the robots.txt texts in them."""
    part: list[SessionReport] = []
    size = 0
    for session, report in reports:
        part.append((session, report))
        size += 1000 * (1 + len(report.reports)) + len(report.robots_copy.text if report.robots_copy else b"")
        if size > MESSAGE_BYTES_MAX:
            yield part
            part, size = [], 0
    if part:
        yield part
