"""Worker process: leases hosts, runs one host session for each, and commits finished visits in groups.

Holds no truth and may be killed at any moment. The order of durability is its one law: a visit's record is on the
disk, then its links are with the frontier, then the visit is finished. Visits are committed in groups, a few times a
second, so that one fsync and one message serve hundreds of them.
"""

import argparse
import asyncio
import contextlib
import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import uvloop

from tarrafa import config
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.supervisor.propagation import DeletionSync
from tarrafa.crawl.worker import registration
from tarrafa.crawl.worker.collection_state import CollectionStates
from tarrafa.crawl.worker.committer import build_host_reports, split_into_messages
from tarrafa.crawl.worker.host_resolver import HostResolver
from tarrafa.crawl.worker.host_session import HostSession, ResolvedHost
from tarrafa.crawl.worker.lease_fence import LeaseFence
from tarrafa.crawl.worker.link_cache import LinkCache
from tarrafa.crawl.worker.outcome import DecodedBody, FinishedVisit
from tarrafa.crawl.worker.overload import OverloadControl
from tarrafa.crawl.worker.parser import SandboxedParser
from tarrafa.crawl.worker.parser_process import ParseJobResult
from tarrafa.crawl.worker.recorder import VisitRecorder
from tarrafa.crawl.worker.request_credentials import RequestCredentials, redact_response
from tarrafa.crawl.worker.resource_limits import WorkerLimits
from tarrafa.crawl.worker.stats import WorkerStats
from tarrafa.errors import FrontierError, LeaseLost, TarrafaError
from tarrafa.fetch.http_client import HttpClient
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.fetch.loop_lag import LoopLag
from tarrafa.fetch.robots import RobotsTxt
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.fetch.throttling import BandwidthLimiter
from tarrafa.frontier.address import Address, address_from_supervisor, connect
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import ClockAgreement, sync_clock
from tarrafa.frontier.messages import (
    REQUEST_MARGIN,
    CachedRobots,
    DiscoveredUrl,
    FrontierCollectionState,
    HostLoan,
    HostReport,
    Lease,
    NextVisits,
)
from tarrafa.model import HostId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import PROCESS_HEARTBEAT_EVERY_S, HeartbeatSender, ProcessHeartbeat, printable_text
from tarrafa.runtime.process import die_with_parent, raise_file_limit, run_child
from tarrafa.takedown import CurrentTakedowns

COMMIT_EVERY_S = 0.2
COMMIT_PAUSE_S = 0.03  # sooner when a walk waits for it, but never without a pause
COMMIT_VISITS_MAX = 500  # or when so many visits wait
LEASE_EVERY_S = 0.2
FIRST_HOSTS = 10  # until we know how many the collection allows
STOP_GRACE_S = 5.0
ROBOTS_CACHED_MAX = 5_000
DISCOVERED_PER_CALL_MAX = 20_000
FILES_WANTED, FILES_SPARE = 10_000, 200  # a socket per host, and some
OFFLINE_PAUSE_S = 30.0
UNPARSED_BYTES_MAX, HEAVY_AT_ONCE = 128 << 20, 2


class Worker:
    """One crawling process; also the `Kit` of its walks."""

    def __init__(
        self,
        data: DataDirectory,
        name: str,
        address: Address,
        frontier: Frontier,
        agreed: ClockAgreement,
        connections_max: int,
        workers: int,
    ) -> None:
        self.clock, self._connections_max = agreed.clock, connections_max
        self._address, self._notices = address, {"paused": "", "clock": agreed.notice(), "busy": ""}
        self._stats, self._limits = WorkerStats(), WorkerLimits(data, workers)
        self._limiters: dict[int, BandwidthLimiter] = {}
        self._machine_limiter = BandwidthLimiter(None)
        self._lag = LoopLag()
        self._data, self._name, self._frontier = data, name, frontier
        self._writer = WarcWriter(data.archive, name, self.clock.now())
        self._recorder = VisitRecorder(self._writer, self.clock)
        self._taken_down = CurrentTakedowns(data)
        self._orders = self._taken_down.now()
        self._resolver = HostResolver(lambda host, place: self._frontier.claim_address(self._number, host, place))
        self._credentials = RequestCredentials(data)
        self._deletion_sync = DeletionSync(data, self.clock)
        self._link_cache = LinkCache()
        self._robots: dict[bytes, RobotsTxt] = {}
        self._collections: dict[int, tuple[int, Collection, Admission]] = {}
        self._sessions: dict[HostId, HostSession] = {}
        self._tasks: dict[HostId, asyncio.Task[None]] = {}
        self._finished: list[tuple[HostSession, FinishedVisit]] = []
        self._leaving: list[HostSession] = []
        self._host_facts: list[tuple[HostSession, list[DiscoveredUrl]]] = []
        self._parser = SandboxedParser()
        self._heavy_slots = asyncio.Semaphore(HEAVY_AT_ONCE)
        self._unparsed_bytes = 0  # bytes of bodies that came and are not concluded yet
        self._body_parsed = asyncio.Event()
        self._overload = OverloadControl()
        self._collection_states, self._states_changed = CollectionStates(), asyncio.Event()
        self._stopping = asyncio.Event()
        self._commit_now = asyncio.Event()
        self._lost: TarrafaError | None = None
        self._closing = False
        self._clock_drift = ""
        self._failure: BaseException | None = None
        self._number = 0
        self._fence: LeaseFence | None = None
        self._client: HttpClient | None = None

    # -- the kit ---------------------------------------------------------------------------------------------

    async def fetch(self, request: FetchRequest, collection: int) -> FetchResponse:
        assert self._client is not None
        request.limiter, request.machine_limiter = self._bandwidth_limiter(collection), self._machine_limiter
        shown = self._credentials.attach(request, self._collections[collection][1].name)
        while self._unparsed_bytes > UNPARSED_BYTES_MAX:
            self._body_parsed.clear()
            await self._body_parsed.wait()
        response = redact_response(await self._client.fetch(request), shown)
        self._stats.bytes += len(response.raw_head) + len(response.raw_body)
        return response

    @contextlib.contextmanager
    def hold_body(self, size: int) -> Iterator[None]:
        """A body of that size waits to be read. When too much does, nothing more is fetched."""
        self._unparsed_bytes += size
        try:
            yield
        finally:
            self._unparsed_bytes -= size
            self._body_parsed.set()

    def _bandwidth_limiter(self, collection: int) -> BandwidthLimiter | None:
        """What lets in no more than this worker's part of the collection's bandwidth."""
        bandwidth = self._collections[collection][1].fetch.bandwidth
        if bandwidth is None:
            return None
        rate = bandwidth / self._limits.workers
        valve = self._limiters.get(collection)
        if valve is None or valve.rate != rate:
            valve = self._limiters[collection] = BandwidthLimiter(rate)
        return valve

    async def resolve_host(
        self, name: str, host: HostId, collection: Collection, beside: str | None = None
    ) -> ResolvedHost:
        return await self._resolver.resolve(name, host, collection, beside)

    async def robots_rules(self, copy: CachedRobots) -> RobotsTxt:
        rules = self._robots.get(copy.digest)
        if rules is None:
            text = copy.text or await self.robots_text(copy.digest)
            if len(self._robots) >= ROBOTS_CACHED_MAX:
                self._robots.clear()
            rules = self._robots[copy.digest] = parse_robots(text)
        return rules

    def record_visit(self, walk: HostSession, done: FinishedVisit) -> None:
        if not self._holds_lease():
            return  # its host may be with somebody else: whoever has it makes this visit
        done = self._recorder.record_visit(walk, *self._configuration(walk), done)
        self._stats.count_visit(done.record)
        self._finished.append((walk, done))
        if len(self._finished) >= COMMIT_VISITS_MAX:
            self._commit_now.set()

    def _configuration(self, walk: HostSession) -> tuple[int, Collection]:
        revision, collection, _ = self._collections[walk.lease.collection]
        return revision, collection

    def archive_robots(self, request: FetchRequest, response: FetchResponse) -> None:
        if response.raw_head and self._holds_lease():
            self._recorder.record_robots(request, response)

    async def robots_text(self, digest: bytes) -> bytes:
        return await self._frontier.robots_text(digest)

    async def borrow_host(self, collection: int, host: HostId, key: str) -> HostLoan:
        return await self._frontier.borrow_host(self._number, collection, host, key)

    async def return_host(self, report: HostReport) -> None:
        await self._frontier.finish(self._number, [report])

    async def parse_body(
        self, make: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]:
        """Unpack and read a document; what is heavy waits for its turn packed."""
        async with self._heavy_slots if heavy else contextlib.nullcontext():
            body = make()
            return body, await self._parser.parse(body.job) if body.job is not None else None

    def record_host(self, walk: HostSession, offers: list[DiscoveredUrl]) -> None:
        """Noted down if it is news: only so does somebody hear of a sitemap if the frontier is lost."""
        sitemaps = self._link_cache.filter_new(walk.lease.collection, offers, walk.lease.run)
        if walk.new_robots is not None or sitemaps:
            self._recorder.record_host(walk, *self._configuration(walk), sitemaps)
        self._host_facts.append((walk, offers))

    def note_overload(self) -> None:
        """A time limit passed because this machine could not keep up: take fewer hosts for a while, and say so."""
        self._overload.back_off()
        self._notices["busy"] = f"this machine is too busy: visiting {self._hosts_at_once()} hosts at once; allow fewer"

    def is_crowded(self, walk: HostSession) -> bool:
        """Somebody else could use its place: we have no room for more hosts, or it holds an address."""
        return walk.resolved.address is not None or len(self._sessions) >= self._hosts_at_once()

    def note_reachability(self, host: HostId, reached: bool) -> bool:
        """So many different hosts in a row were out of reach that it must be us."""
        self._overload.note_host(host, reached)
        return self._overload.is_offline

    def is_current(self, walk: HostSession) -> bool:
        """Nothing is known that is newer than what it goes by. Asked before each request leaves."""
        number = walk.lease.collection
        return not (
            self._collection_states.is_suspended(number, walk.began_at)
            or self._collection_states.has_newer_revision(number, self._collections[number][0])
        )

    def request_commit(self) -> None:
        """A walk has nothing left to visit until its visits are reported."""
        self._commit_now.set()

    def release_host(self, walk: HostSession) -> None:
        if not walk.released:  # else the host may be with somebody else by now, even with us
            self._leaving.append(walk)

    # -- life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until told to stop, or until the lease is lost."""
        loop = asyncio.get_running_loop()
        terms, asked_at = await registration.register(self._frontier, self._data, self._name)
        self._number = terms.worker

        def lost(error: TarrafaError) -> None:
            self._lost = error
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(self._stopping.set)

        def apart(ahead_s: float) -> None:
            way = "ahead of" if ahead_s > 0 else "behind"
            self._clock_drift = (
                f"this machine's clock is {abs(ahead_s):,.1f} s {way} the frontier's by now: joining anew"
            )
            loop.call_soon_threadsafe(self._stopping.set)

        def told(standings: list[FrontierCollectionState], heard_at: float) -> None:
            self._collection_states.update(standings, heard_at)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._states_changed.set)

        self._fence = LeaseFence(self._address, terms, asked_at, self.clock, self._note, lost, apart, told)
        unheard_s = terms.lease_s * REQUEST_MARGIN
        self._client = HttpClient(self._connections_max, self._fence.may_send, lag=self._lag.lag_s, unheard_s=unheard_s)
        measuring = asyncio.create_task(self._lag.run())
        pulsing = asyncio.create_task(self._send_heartbeats())
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        leasing = asyncio.create_task(self._lease_hosts())
        committing = asyncio.create_task(self._commit_groups())
        heeding = asyncio.create_task(self._watch_collection_states())
        stopping = asyncio.create_task(self._stopping.wait())
        done, _ = await asyncio.wait({leasing, committing, heeding, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (leasing, committing, heeding):
            if task in done:
                task.result()  # raises what went wrong
        leasing.cancel()
        heeding.cancel()
        if self._lost is not None:
            raise self._lost
        await self._shut_down(committing)
        measuring.cancel()
        pulsing.cancel()
        if self._clock_drift:
            raise FrontierError(self._clock_drift)

    def _note(self) -> str:
        """What there is to say about us, for people."""
        return "; ".join(filter(None, [*self._notices.values(), self._link_cache.hit_rate_text()]))

    def _holds_lease(self) -> bool:
        return self._fence is not None and self._fence.holds_lease()

    async def _shut_down(self, committing: "asyncio.Task[None]") -> None:
        """Finish what is under way, start nothing, hand everything back."""
        assert self._client is not None
        assert self._fence is not None
        for walk in self._sessions.values():
            walk.leave()
        tasks = set(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self._closing = True  # a commit that is under way must come to its end
        self._commit_now.set()
        await committing
        await self._commit()
        await self._frontier.leave(self._number)
        registration.unregister(self._data, self._name)
        self._fence.close()
        self._client.close()
        self._parser.close()
        self._writer.close()
        await self._resolver.close()

    async def _lease_hosts(self) -> None:
        await self._refresh_collections()
        while True:
            if self._overload.is_offline:  # nothing answers: look again later
                await asyncio.sleep(OFFLINE_PAUSE_S)
                self._overload.assume_online()
            if self._overload.recover():
                self._notices["busy"] = ""
            room = self._hosts_at_once() - len(self._sessions)
            leases = await self._frontier.lease(self._number, room) if room > 0 else []
            for lease in leases:
                known = self._collections.get(lease.collection)
                if known is None or known[0] < lease.revision:
                    await self._refresh_collections()
                self._start_session(lease)
            await asyncio.sleep(LEASE_EVERY_S)

    def _hosts_at_once(self) -> int:
        limits = [collection.fetch.hosts_at_once for _, collection, _ in self._collections.values()]
        most = min(max(limits, default=FIRST_HOSTS), self._connections_max)
        return self._limits.hosts_at_once(most, self._overload.share)

    async def _send_heartbeats(self) -> None:
        """Once a second: say how we fare, and look what we may take."""
        sender = HeartbeatSender(self._data)
        self._apply_resource_limits()
        while True:
            sender.send(self._heartbeat_now())
            await asyncio.sleep(PROCESS_HEARTBEAT_EVERY_S)
            if self._limits.reload():
                self._apply_resource_limits()

    def _apply_resource_limits(self) -> None:
        """Hosts that are too many now go back after the visit that is under way."""
        self._notices["paused"] = self._limits.current.why
        self._machine_limiter.set_rate(self._limits.bandwidth)
        staying = [walk for walk in self._sessions.values() if not walk.left]
        for walk in staying[self._hosts_at_once() :]:
            walk.left = True
            walk.visits_arrived.set()

    def _heartbeat_now(self) -> ProcessHeartbeat:
        newest, failures, slowest = self._stats.take_recent()
        return ProcessHeartbeat(
            self._name,
            os.getpid(),
            self._stats.visits,
            self._stats.pages,
            self._stats.bytes,
            hosts=len(self._sessions),
            hosts_max=self._hosts_at_once(),
            connections=self._client.transfers_running if self._client is not None else 0,
            lag_s=self._lag.lag_s(boottime() - PROCESS_HEARTBEAT_EVERY_S),
            note=printable_text(self._note()),
            newest=newest,
            failures=failures,
            slowest=slowest,
        )

    async def _refresh_collections(self) -> None:
        """Configurations may change while we run; walks go on by the new one. Who is new may have the name of one that
        was deleted: that is in the archive first."""
        changed: set[int] = set()
        standings = await self._frontier.collection_states()
        if any(standing.id not in self._collections for standing in standings):
            await self._deletion_sync.sync_once(self._frontier)
        for standing in standings:
            known = self._collections.get(standing.id)
            if known is not None and known[0] == standing.revision:
                continue
            row = await self._frontier.collection(standing.name)
            if row is not None and row.id == standing.id:  # else it is another one of that name: next time
                collection = await asyncio.to_thread(config.decode_collection, row.config)
                admission = Admission(collection, lambda url: self._orders.covers(url))  # noqa: PLW0108 (they change)
                self._collections[row.id] = (row.revision, collection, admission)
                changed.add(row.id)
        for walk in self._sessions.values():
            if walk.lease.collection in changed:
                walk.apply_configuration(*self._collections[walk.lease.collection][1:])

    async def _watch_collection_states(self) -> None:
        """Walks of what rests leave, others go by what is new, as soon as somebody hears of it."""
        while True:
            await self._states_changed.wait()
            self._states_changed.clear()
            await self._apply_collection_states()

    async def _apply_collection_states(self) -> None:
        if self._collection_states.any_revision_differs(
            {number: revision for number, (revision, _, _) in self._collections.items()}
        ):
            await self._refresh_collections()
        for walk in self._sessions.values():
            if not walk.left and self._collection_states.is_suspended(walk.lease.collection, walk.began_at):
                walk.leave()

    def _start_session(self, lease: Lease) -> None:
        _, collection, admission = self._collections[lease.collection]
        walk = HostSession(lease, collection, admission, self)
        self._sessions[lease.host] = walk
        task = self._tasks[lease.host] = asyncio.create_task(walk.run())
        task.add_done_callback(self._session_ended)

    def _session_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self._commit_now.set()

    async def _commit_groups(self) -> None:
        while not self._closing:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._commit_now.wait(), COMMIT_EVERY_S)
            self._commit_now.clear()
            self._orders = self._taken_down.now()
            if self._failure is not None:
                raise self._failure
            if self._finished or self._leaving or self._host_facts:
                await self._commit()
                await asyncio.sleep(COMMIT_PAUSE_S)

    async def _commit(self) -> None:
        """Durable record, then links, then the end of the visit; all of it only while we hold what we speak of."""
        if not self._holds_lease():
            raise LeaseLost(f"worker {self._name} was stopped, or too slow, for longer than its lease")
        finished, self._finished = self._finished, []
        leaving, self._leaving = self._leaving, []
        learned, self._host_facts = self._host_facts, []
        offers: defaultdict[tuple[int, int], list[DiscoveredUrl]] = defaultdict(list)  # by collection and run
        for walk, some in [*learned, *((walk, done.discovered) for walk, done in finished)]:
            offers[walk.lease.collection, walk.lease.run] += some
        batch = build_host_reports(finished, leaving, (walk for walk, _ in learned))
        await asyncio.to_thread(self._writer.seal())
        if not self._holds_lease():
            raise LeaseLost(f"worker {self._name} could not write for longer than its lease")
        await self._deliver(offers)
        for part in split_into_messages(batch):
            answers = await self._frontier.finish(self._number, [report for _, report in part])
            for (walk, report), answer in zip(part, answers, strict=True):
                self._apply_continuation(walk, report, answer)

    def _apply_continuation(self, walk: HostSession, report: HostReport, answer: NextVisits) -> None:
        if walk.released:
            return
        walk.unreported -= len(report.reports)
        if answer.held:
            walk.queue.extend(answer.visits)
        else:
            walk.left = walk.released = True
            del self._sessions[report.host], self._tasks[report.host]
        walk.visits_arrived.set()

    async def _deliver(self, offers: dict[tuple[int, int], list[DiscoveredUrl]]) -> None:
        for (collection, run), some in offers.items():
            news = self._link_cache.filter_new(collection, some, run)
            for start in range(0, len(news), DISCOVERED_PER_CALL_MAX):
                await self._frontier.discover(collection, news[start : start + DISCOVERED_PER_CALL_MAX])
            self._link_cache.remember(collection, news, run)


async def _main(data: DataDirectory, name: str, connections_max: int, workers: int) -> None:
    address, own = address_from_supervisor(), Clock.from_environment()
    frontier = await connect(address, own, data.outbox / name)
    agreed = await sync_clock(frontier, own)
    await Worker(data, name, address, frontier, agreed, connections_max, workers).run()


def main() -> None:
    """`python -m tarrafa.crawl.worker.worker`: started by the supervisor."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--workers", type=int, default=1, help="how many share this machine's bandwidth")
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent)
    connections_max = max(10, raise_file_limit(FILES_WANTED) - FILES_SPARE)
    run_child(lambda: uvloop.run(_main(DataDirectory(options.data), options.name, connections_max, options.workers)))


if __name__ == "__main__":
    main()
