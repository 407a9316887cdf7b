"""Relay: takes part at the frontier for an external crawler, which makes the requests over HTTP.

Leasing, robots.txt, delays, traps, scope and the order of durability are those of any worker: the relay uses the same
host sessions and the same committer. Only the request differs: it becomes a `FetchTask`. An external crawler takes the
task, waits until the time that the task names, and reports the result. So no external crawler can be less polite than
our own workers.

Promises: one fetch task per host at a time; a visit is settled when its record is durable, its links are delivered and
the visit is finished; whatever ends this process, the frontier still holds the visits for the crawler, and `resume`
finds them again. Leases are renewed by the crawler's own calls and by nothing else.
Knows nothing of HTTP or JSON.
"""

import asyncio
import contextlib
import random
from collections.abc import Collection
from functools import partial

from msgspec.structs import replace

from tarrafa.archive.segment_log.log_mirror import refuse_mirror
from tarrafa.archive.warc_writer import WarcWriter
from tarrafa.clock import boottime
from tarrafa.crawl.relay.crawler_result import CrawlerResult
from tarrafa.crawl.relay.remote_fetch import (
    FetchTask,
    FetchTaskBoard,
    SettledVisit,
    VisitKey,
    new_remote_session,
)
from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.committer import Committer, LinkCache, VisitRecorder
from tarrafa.crawl.worker.host_session import SessionTable
from tarrafa.crawl.worker.parser_with_sandbox import ParserWithSandbox
from tarrafa.crawl.worker.politeness import HostResolver
from tarrafa.crawl.worker.resource_limits import OverloadControl
from tarrafa.crawl.worker.robots_fetch import RobotsCache
from tarrafa.crawl.worker.stats import WorkerNotices, WorkerStats
from tarrafa.errors import DataError, FrontierError
from tarrafa.frontier.address import OpenFrontier
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import ClockAgreement
from tarrafa.frontier.messages import Lease, UrlLookup
from tarrafa.i18n import joined, message
from tarrafa.model import HostId, UrlId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process_identity import ProcessId

HOSTS_MAX = 200  # hosts that one crawler visits at once
READY_WAIT_S = 5.0  # a host whose DNS or robots.txt takes longer is returned by a later call
COMMIT_S = 60.0
COLLECTION_STATES_EVERY_S = 1.0
STOP_GRACE_S = 5.0
CACHED_URLS_MAX = 20_000  # there may be many relays in one process
ELSEWHERE = "crawler"  # in place of a boot id: no machine has this one
NOTE = message("a crawler that talks through HTTP")
MARGIN = 1 / 6  # of a lease: no request is sent in its last sixth
RENEWAL = 1 / 6  # of a lease: the shortest time between two renewals


class RelayRegistration:
    """Registration of one external crawler: its worker number, and until when its leases hold."""

    def __init__(self, frontier: Frontier, notices: WorkerNotices) -> None:
        self._frontier, self._notices = frontier, notices
        self.worker = 0
        self._asked_at = self._lease_s = 0.0

    async def join(self, name: str) -> int:
        self._asked_at = boottime()
        terms = await self._frontier.join(name, ProcessId(ELSEWHERE, 0, random.getrandbits(62)))
        self.worker, self._lease_s = terms.worker, terms.lease_s
        return self.worker

    async def resume(self, worker: int) -> None:
        """Continue as an existing worker."""
        self.worker = worker
        await self.renew()

    async def renew(self) -> None:
        """Renew the leases, unless they were renewed a moment ago."""
        if not self._lease_s or boottime() - self._asked_at > self._lease_s * RENEWAL:
            asked_at = boottime()
            note = joined([one for one in (NOTE, self._notices.text()) if one])
            self._lease_s = await self._frontier.renew(self.worker, note)
            self._asked_at = asked_at

    async def confirm(self) -> None:
        """Renew at once: with several servers, a server counts only after it has heard from the worker twice."""
        await self._frontier.renew(self.worker, NOTE)

    def send_time_left_s(self) -> float:
        """How long a request may still be sent."""
        return max(0.0, self._asked_at + self._lease_s * (1 - MARGIN) - boottime())

    def is_valid(self) -> bool:
        """Whether the crawler has called within the time of a lease."""
        return boottime() < self._asked_at + self._lease_s


class Relay:
    """Represents one external crawler at the frontier."""

    def __init__(self, data: DataDirectory, name: str, frontier: OpenFrontier, agreed: ClockAgreement) -> None:
        refuse_mirror(data, "the crawler API")
        clock, link_cache = agreed.clock, LinkCache(CACHED_URLS_MAX)
        notices = WorkerNotices(agreed.notice(), link_cache.hit_rate_text)
        self._name, self._frontier, self._registration = name, frontier, RelayRegistration(frontier, notices)
        self._collections = WorkerCollections(data, clock, frontier)
        self._sessions = SessionTable(self._collections)
        self._board = FetchTaskBoard(self._sessions)
        self._hosts_wanted = 0
        self._overload = OverloadControl(self._sessions, lambda share: self._hosts_wanted, notices)
        recorder = VisitRecorder(WarcWriter(data.archive, name, clock.now()), clock, self._collections)
        shared = (self._collections, recorder, link_cache, WorkerStats())
        self._committer = Committer(
            name, frontier, self._registration, *shared, self._sessions.remove, self._board.settle_reported
        )
        parser = ParserWithSandbox()
        resolver = HostResolver(lambda host, address: frontier.claim_address(self._registration.worker, host, address))
        self._new_session = partial(
            new_remote_session,
            name,
            clock,
            self._registration,
            self._board,
            self._committer,
            parser,
            resolver=resolver,
            robots_cache=RobotsCache(frontier, self._registration),
            overload=self._overload,
            is_current=self._collections.is_current,
        )
        self._leasing = asyncio.Lock()
        self._background: list[asyncio.Task[None]] = []
        self._closing = contextlib.AsyncExitStack()  # closed in reverse order
        self._closing.push_async_callback(frontier.close)
        self._closing.push_async_callback(resolver.close)
        self._closing.enter_context(contextlib.suppress(DataError))
        self._closing.callback(recorder.close)
        self._closing.callback(parser.close)

    # -- taking part -----------------------------------------------------------------------------------------

    async def join(self) -> int:
        """Register as a new worker; returns its number."""
        worker = await self._registration.join(self._name)
        await self._begin()
        await self._registration.confirm()
        return worker

    async def resume(self, worker: int, given: Collection[VisitKey]) -> None:
        """Continue as an existing worker. `given` are the visits that the crawler received: they come first."""
        await self._registration.resume(worker)
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
        """Poll the states: a relay has no worker fence. The crawler's own calls report an unreachable
        frontier."""
        while True:
            with contextlib.suppress(FrontierError):
                await self._collections.poll_states()
                await self._sessions.apply_states()
            await asyncio.sleep(COLLECTION_STATES_EVERY_S)

    async def renew(self) -> float:
        """Renew the leases, unless they were renewed a moment ago; returns how long a request may still be sent."""
        await self._registration.renew()
        return self._registration.send_time_left_s()

    def send_time_left_s(self) -> float:
        return self._registration.send_time_left_s()

    def is_registration_expired(self) -> bool:
        """Whether the crawler has not called for longer than a lease."""
        return not self._registration.is_valid()

    @property
    def failure(self) -> BaseException | None:
        """The error that stopped this relay."""
        return self._board.failure

    async def leave(self) -> None:
        """End the registration; the frontier takes all hosts back."""
        await self._frontier.leave(self._registration.worker)

    async def abandon(self) -> None:
        """Close this relay. The frontier holds its hosts for the crawler until its leases end."""
        await self._sessions.abandon()
        self._committer.close()
        if self._background:
            committing, watching = self._background
            watching.cancel()
            await asyncio.wait({committing}, timeout=STOP_GRACE_S)  # a running commit is finished
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
        self._board.fail(FrontierError("the crawler API is being closed"))
        await self._closing.aclose()

    # -- fetch tasks -----------------------------------------------------------------------------------------

    async def lease_fetch_tasks(self, hosts: int, *, restarted: bool = False) -> list[FetchTask]:
        """All fetch tasks that are due now, on up to `hosts` hosts. `restarted`: the crawler does not know whether it
        made the requests that it holds."""
        if restarted:
            for task in self._board.open_tasks():
                task.restart_delay()
        async with self._leasing:
            self._hosts_wanted = min(hosts, HOSTS_MAX)
            room = self._overload.room()
            if room > 0 and not self._overload.is_pausing():
                for lease in await self._frontier.lease(self._registration.worker, room):
                    if not self._collections.has_config_of(lease):
                        await self._sessions.refresh_configurations()
                    self._start_session(lease)
        await self._board.wait_until(self._board.is_complete, READY_WAIT_S)
        return self._board.open_tasks()

    def _start_session(self, lease: Lease) -> None:
        session = self._new_session(lease, self._collections[lease.collection])
        self._sessions.start(session).add_done_callback(self._committer.session_ended)

    async def find_fetch_task(self, key: VisitKey) -> FetchTask | None:
        """The fetch task of a visit that is not over. Just after `resume` the task may not be there yet."""
        await self._board.wait_until(
            lambda: self._board.find(key) is not None or self._board.is_complete(), READY_WAIT_S
        )
        return self._board.find(key)

    def next_fetch_task(self, host: HostId) -> FetchTask | None:
        return self._board.next_task(host)

    def accept_result(self, task: FetchTask, result: CrawlerResult) -> None:
        """Take the result of a fetch task. If it is reported twice, the first report counts."""
        self._board.answer(task, result)

    async def wait_until_settled(self, task: FetchTask) -> SettledVisit:
        """Wait until an answered fetch task is durable and the next task of its host is known; returns its outcome."""
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
        """The outcome of a visit that was settled earlier."""
        return self._board.settled_visit(key)

    async def is_any_running(self) -> bool:
        return any(one.state == "running" for one in await self._frontier.collection_states())

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        return await self._frontier.look_up(host, url)
