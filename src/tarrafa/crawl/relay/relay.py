"""Relay: takes part at the frontier for an external crawler, which makes the requests over HTTP.

Leasing, robots.txt, delays, traps, scope and the order of durability are those of any worker: the same host sessions,
the same committer. But what a session wants fetched is laid out as a `FetchTask`; a crawler elsewhere takes it, keeps
to the time that it names, and brings the result. So no external crawler can be less polite than our own workers.

Promises: one fetch task of a host at a time; a visit is settled when its record is durable, its links are delivered and
the visit is finished; whatever ends this process, the frontier still holds the visits for the crawler, and `resume`
finds them again. Leases are renewed by the crawler's own calls and by nothing else.
Knows nothing of HTTP or JSON.
"""

import asyncio
import contextlib
from collections.abc import Collection
from functools import partial

from msgspec.structs import replace

from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.crawl.relay.crawler_result import CrawlerResult
from tarrafa.crawl.relay.relay_lease import RelayLease
from tarrafa.crawl.relay.remote_fetch import (
    FetchTask,
    FetchTaskBoard,
    RemoteSessionFactory,
    SettledVisit,
    VisitKey,
)
from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.committer import Committer
from tarrafa.crawl.worker.host_resolver import HostResolver
from tarrafa.crawl.worker.host_session import HostSession, SessionTable
from tarrafa.crawl.worker.link_cache import LinkCache
from tarrafa.crawl.worker.overload import OverloadControl
from tarrafa.crawl.worker.parser import SandboxedParser
from tarrafa.crawl.worker.recorder import VisitRecorder
from tarrafa.crawl.worker.robots_fetch import RobotsCache
from tarrafa.crawl.worker.stats import WorkerNotices, WorkerStats
from tarrafa.errors import DataError, FrontierError
from tarrafa.frontier.address import OpenFrontier
from tarrafa.frontier.clock_sync import ClockAgreement
from tarrafa.frontier.messages import Lease, UrlLookup
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.data_dir import DataDirectory

HOSTS_MAX = 200  # that one crawler visits at once
READY_WAIT_S = 5.0  # a host whose name or rules take longer is told of the next time
COMMIT_S = 60.0
COLLECTION_STATES_EVERY_S = 1.0
STOP_GRACE_S = 5.0
CACHED_URLS_MAX = 20_000  # there may be many relays in one process


class Relay:
    """One crawler's place at the frontier."""

    def __init__(self, data: DataDirectory, name: str, frontier: OpenFrontier, agreed: ClockAgreement) -> None:
        clock, link_cache = agreed.clock, LinkCache(CACHED_URLS_MAX)
        notices = WorkerNotices(agreed.notice(), link_cache.hit_rate_text)
        self._name, self._frontier, self._lease = name, frontier, RelayLease(frontier, notices)
        self._collections = WorkerCollections(data, clock, frontier)
        self._sessions = SessionTable(self._collections)
        self._board = FetchTaskBoard(self._sessions)
        self._hosts_wanted = 0
        self._overload = OverloadControl(self._sessions, lambda share: self._hosts_wanted, notices)
        recorder = VisitRecorder(WarcWriter(data.archive, name, clock.now()), clock, self._collections)
        shared = (self._collections, recorder, link_cache, WorkerStats())
        self._committer = Committer(
            name, frontier, self._lease, *shared, self._sessions.remove, self._board.settle_reported
        )
        parser = SandboxedParser()
        resolver = HostResolver(lambda host, address: frontier.claim_address(self._lease.worker, host, address))
        new_session = partial(
            HostSession,
            resolver=resolver,
            robots=RobotsCache(frontier, self._lease),
            overload=self._overload,
            is_current=self._collections.is_current,
        )
        self._factory = RemoteSessionFactory(
            name, clock, self._lease, self._board, self._committer, parser, new_session
        )
        self._leasing = asyncio.Lock()
        self._background: list[asyncio.Task[None]] = []
        self._closing = contextlib.AsyncExitStack()  # the last is closed first
        self._closing.push_async_callback(frontier.close)
        self._closing.push_async_callback(resolver.close)
        self._closing.enter_context(contextlib.suppress(DataError))
        self._closing.callback(recorder.close)
        self._closing.callback(parser.close)

    # -- taking part -----------------------------------------------------------------------------------------

    async def join(self) -> int:
        """Take part as a new worker: its number."""
        worker = await self._lease.join(self._name)
        await self._begin()
        await self._lease.confirm()
        return worker

    async def resume(self, worker: int, given: Collection[VisitKey]) -> None:
        """Go on as the worker that it was. `given` are the visits that the crawler was told of: they come first."""
        await self._lease.resume(worker)
        await self._begin()
        for lease in await self._frontier.held_leases(worker):
            visits = sorted(lease.visits, key=lambda visit: (visit.id, visit.number) not in given)
            self._start_session(replace(lease, visits=visits))

    async def _begin(self) -> None:
        await self._sessions.refresh_configurations()
        for work in (self._committer.run(), self._watch_collection_states()):
            task = asyncio.create_task(work)
            task.add_done_callback(self._background_ended)
            self._background.append(task)

    def _background_ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._board.fail(error)

    async def _watch_collection_states(self) -> None:
        """No thread asks for us. That the frontier does not answer, the crawler hears by its own calls."""
        while True:
            with contextlib.suppress(FrontierError):
                await self._collections.poll_states()
                await self._sessions.apply_states()
            await asyncio.sleep(COLLECTION_STATES_EVERY_S)

    async def renew(self) -> float:
        """Prolong the leases, unless that was done a moment ago; for how long a request may still be sent."""
        await self._lease.renew()
        return self._lease.send_time_left_s()

    def send_time_left_s(self) -> float:
        """For how long a request may still be sent."""
        return self._lease.send_time_left_s()

    def is_lease_expired(self) -> bool:
        """The crawler has not called for longer than a lease."""
        return not self._lease.holds_lease()

    @property
    def failure(self) -> BaseException | None:
        """Why nothing goes on here."""
        return self._board.failure

    async def leave(self) -> None:
        """Hand everything back."""
        await self._lease.leave()

    async def abandon(self) -> None:
        """Let go of everything here. The frontier still holds it for the crawler, as long as its lease lasts."""
        await self._sessions.abandon()
        self._committer.close()
        if self._background:
            committing, watching = self._background
            watching.cancel()
            await asyncio.wait({committing}, timeout=STOP_GRACE_S)  # a commit that is under way comes to its end
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
        self._board.fail(FrontierError("the door is being closed"))
        await self._closing.aclose()

    # -- fetch tasks -----------------------------------------------------------------------------------------

    async def lease_fetch_tasks(self, hosts: int, *, restarted: bool = False) -> list[FetchTask]:
        """All that is to be fetched now, on up to so many hosts. A crawler that `restarted` has forgotten whether it
        made the requests that it holds."""
        if restarted:
            for task in self._board.open_tasks():
                task.restart_delay()
        async with self._leasing:
            self._hosts_wanted = min(hosts, HOSTS_MAX)
            room = self._overload.room()
            if room > 0 and not self._overload.is_pausing():
                for lease in await self._frontier.lease(self._lease.worker, room):
                    if not self._collections.has_config_of(lease):
                        await self._sessions.refresh_configurations()
                    self._start_session(lease)
        await self._board.wait_until(self._board.is_complete, READY_WAIT_S)
        return self._board.open_tasks()

    def _start_session(self, lease: Lease) -> None:
        session = self._factory.build(lease, self._collections[lease.collection])
        self._sessions.start(session).add_done_callback(self._committer.session_ended)

    async def find_fetch_task(self, key: VisitKey) -> FetchTask | None:
        """The fetch task of a visit, if it is not over. Just after `resume` it may not be laid out yet."""
        await self._board.wait_until(
            lambda: self._board.find(key) is not None or self._board.is_complete(), READY_WAIT_S
        )
        return self._board.find(key)

    def next_fetch_task(self, host: HostId) -> FetchTask | None:
        return self._board.next_task(host)

    def accept_result(self, task: FetchTask, result: CrawlerResult) -> None:
        """Take the result of a fetch task. Brought again, the first one counts."""
        self._board.answer(task, result)

    async def wait_until_settled(self, task: FetchTask) -> SettledVisit:
        """What became of a fetch task that was answered; when it is durable, and known what comes next on its host."""
        key, host, board = task.key, task.host, self._board

        def is_over() -> bool:
            following = board.next_task(host)
            moved = task.visit is None and following is not None and following.visit is None
            return board.settled_visit(key) is not None or moved or self._sessions.get(host) is not task.session

        def is_known_what_follows() -> bool:
            return board.next_task(host) is not None or host not in self._sessions

        try:
            if not await board.wait_until(is_over, COMMIT_S):
                raise FrontierError(f"the visit could not be finished within {COMMIT_S:.0f} s; bring it again")
            await board.wait_until(is_known_what_follows, READY_WAIT_S)
        finally:
            board.forget_answer(key)
        return board.settled_visit(key) or board.settle_unreported(task)

    def settled_visit(self, key: VisitKey) -> SettledVisit | None:
        """What became of a visit that was over a while ago."""
        return self._board.settled_visit(key)

    async def is_any_running(self) -> bool:
        """Whether any collection is."""
        return any(one.state == "running" for one in await self._frontier.collection_states())

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        return await self._frontier.look_up(host, url)
