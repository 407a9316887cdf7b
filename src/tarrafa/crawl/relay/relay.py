"""Relay: a worker whose requests are made by an external crawler over HTTP.

Leasing, robots.txt, delays, traps, scope and the order of durability are those of any worker: the same walks, the
same commits. But what a walk wants fetched is laid out as an `Errand`; a crawler elsewhere takes it, keeps to the
time that it names, and brings what came of it. So nobody can be less polite here than our own workers are.

Promises: one errand of a host at a time; `conclusion` is there when the visit's record is durable, its links are
delivered and the visit is finished; whatever ends this process, the frontier still holds the visits for the crawler,
and `resume` finds them again. Leases are renewed by the crawler's own calls and by nothing else.
Knows nothing of HTTP or JSON.
"""

import asyncio
import contextlib
import random
from collections.abc import Callable, Collection

from msgspec.structs import replace

from tarrafa.clock import boottime
from tarrafa.crawl.relay.crawler_result import CrawlerResult
from tarrafa.crawl.relay.remote_fetch import FetchTask, RelaySession, RemoteFetchServices, SettledVisit, VisitKey
from tarrafa.crawl.worker.host_session import HostSession
from tarrafa.crawl.worker.link_cache import LinkCache
from tarrafa.crawl.worker.outcome import FinishedVisit
from tarrafa.crawl.worker.worker import OFFLINE_PAUSE_S, STOP_GRACE_S, Worker
from tarrafa.errors import DataError, FrontierError, LeaseLost, TarrafaError
from tarrafa.fetch.http_message import FetchRequest
from tarrafa.frontier.address import Address, OpenFrontier
from tarrafa.frontier.clock_sync import ClockAgreement
from tarrafa.frontier.messages import DiscoveredUrl, HostReport, Lease, NextVisits, UrlLookup
from tarrafa.model import HostId, Outcome, Status, UrlId
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process import ProcessId

HOSTS_MAX = 200  # that one crawler visits at once
ELSEWHERE = "crawler"  # stands where a boot id would: no process of any machine is called so
NOTE = "a crawler that talks through HTTP"
READY_WAIT_S = 5.0  # a host whose name or rules take longer is told of the next time
COMMIT_S = 60.0
GRACE_S = 30.0  # beyond a document's time limit; then nobody is waited for any more
COLLECTION_STATES_EVERY_S = 1.0
MARGIN = 1 / 6  # of a lease: in its last part no request is sent
RENEWAL = 1 / 6  # of a lease: it is renewed no more often
SETTLED_MAX = 10_000
CACHED_URLS_MAX = 20_000  # there may be many of us in one process


class Relay(Worker):
    """One crawler's place at the frontier."""

    def __init__(
        self, data: DataDirectory, name: str, address: Address, frontier: OpenFrontier, agreed: ClockAgreement
    ) -> None:
        super().__init__(data, name, address, frontier, agreed, HOSTS_MAX, 1)
        self._line = frontier
        self._link_cache = LinkCache(CACHED_URLS_MAX)
        self._fetch_tasks: dict[HostId, FetchTask] = {}
        self._answered: dict[VisitKey, FetchTask] = {}  # and not settled yet
        self._settled: dict[VisitKey, SettledVisit] = {}
        self._leasing = asyncio.Lock()
        self._wanted = 0
        self._changed = asyncio.Event()
        self._committing: asyncio.Task[None] | None = None
        self._watching_states: asyncio.Task[None] | None = None
        self._fatal_error: BaseException | None = None
        self._cut_off_at = 0.0
        self._asked_at = self._lease_s = 0.0

    # -- taking part -----------------------------------------------------------------------------------------

    async def join(self) -> int:
        """Take part as a new worker: its number."""
        self._asked_at = boottime()
        terms = await self._frontier.join(self._name, ProcessId(ELSEWHERE, 0, random.getrandbits(62)))
        self._number, self._lease_s = terms.worker, terms.lease_s
        await self._begin()
        await self._frontier.renew(self._number, NOTE)  # of several servers, those count that have heard of it twice
        return self._number

    async def resume(self, worker: int, given: Collection[VisitKey]) -> None:
        """Go on as the worker that it was. `given` are the visits that the crawler was told of: they come first."""
        self._number = worker
        await self.renew()
        await self._begin()
        for lease in await self._frontier.held_leases(worker):
            visits = sorted(lease.visits, key=lambda visit: (visit.id, visit.number) not in given)
            self._start_session(replace(lease, visits=visits))

    async def _begin(self) -> None:
        await self._refresh_collections()
        self._committing = asyncio.create_task(self._commit_groups())
        self._committing.add_done_callback(self._ended)
        self._watching_states = asyncio.create_task(self._watch_collection_states())
        self._watching_states.add_done_callback(self._ended)

    async def _watch_collection_states(self) -> None:
        """No thread asks for us. That the frontier does not answer, the crawler hears by its own calls."""
        while True:
            heard_at = self.clock.now()
            with contextlib.suppress(FrontierError):
                self._collection_states.update(await self._frontier.collection_states(), heard_at)
                await self._apply_collection_states()
            await asyncio.sleep(COLLECTION_STATES_EVERY_S)

    async def renew(self) -> float:
        """Prolong the leases, unless that was done a moment ago; for how long a request may still be sent."""
        if not self._lease_s or boottime() - self._asked_at > self._lease_s * RENEWAL:
            asked_at = boottime()
            self._lease_s = await self._frontier.renew(self._number, "; ".join(filter(None, [NOTE, self._note()])))
            self._asked_at = asked_at
        return self.send_time_left_s()

    def send_time_left_s(self) -> float:
        """For how long a request may still be sent."""
        return max(0.0, self._asked_at + self._lease_s * (1 - MARGIN) - boottime())

    def is_lease_expired(self) -> bool:
        """It was not called for longer than a lease."""
        return not self._holds_lease()

    def _holds_lease(self) -> bool:
        """Its lease is not over, as far as can be told here."""
        return boottime() < self._asked_at + self._lease_s

    @property
    def failure(self) -> BaseException | None:
        """Why nothing goes on here."""
        return self._fatal_error

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._fatal_error = task.exception()
            self._notify_waiters()

    async def leave(self) -> None:
        """Hand everything back."""
        await self._frontier.leave(self._number)

    async def abandon(self) -> None:
        """Let go of everything here. The frontier still holds it for the crawler, as long as its lease lasts."""
        for walk in self._sessions.values():
            walk.left = walk.released = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._closing = True
        self._commit_now.set()
        if self._watching_states is not None:
            self._watching_states.cancel()
        if self._committing is not None:
            await asyncio.wait({self._committing}, timeout=STOP_GRACE_S)  # a commit that is under way comes to its end
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        self._fatal_error = self._fatal_error or FrontierError("the door is being closed")
        self._notify_waiters()
        self._parser.close()
        with contextlib.suppress(DataError):
            self._writer.close()
        await self._resolver.close()
        await self._line.close()

    # -- errands ---------------------------------------------------------------------------------------------

    async def lease_fetch_tasks(self, hosts: int, *, restarted: bool = False) -> list[FetchTask]:
        """All that is to be fetched now, on up to so many hosts. A crawler that `restarted` has forgotten whether it
        asked for what it holds."""
        for errand in self.open_fetch_tasks() if restarted else []:
            errand.not_before = max(errand.not_before, self.clock.now() + errand.session.delay_s)
        async with self._leasing:
            self._wanted = min(hosts, HOSTS_MAX)
            room = self._wanted - len(self._sessions)
            leases = await self._frontier.lease(self._number, room) if room > 0 and not self._is_cut_off() else []
            for lease in leases:
                known = self._collections.get(lease.collection)
                if known is None or known[0] < lease.revision:
                    await self._refresh_collections()
                self._start_session(lease)
        await self._wait_until(lambda: all(host in self._fetch_tasks for host in self._sessions), READY_WAIT_S)
        return self.open_fetch_tasks()

    def open_fetch_tasks(self) -> list[FetchTask]:
        return [errand for errand in self._fetch_tasks.values() if errand.is_open]

    async def find_fetch_task(self, key: VisitKey) -> FetchTask | None:
        """The errand that is called so, if it is not over. Just after `resume` it may not be laid out yet."""

        def found() -> FetchTask | None:
            waiting = (errand for errand in self.open_fetch_tasks() if errand.key == key)
            return self._answered.get(key) or next(waiting, None)

        await self._wait_until(
            lambda: bool(found()) or all(host in self._fetch_tasks for host in self._sessions), READY_WAIT_S
        )
        return found()

    def accept_result(self, errand: FetchTask, brought: CrawlerResult) -> None:
        """Take what came of an errand. Brought again, the first answer counts."""
        if errand.is_open:
            self._answered[errand.key] = errand
            errand.result.set_result(brought)

    async def wait_until_settled(self, errand: FetchTask) -> SettledVisit:
        """What became of an errand that was answered; when it is durable, and known what comes next on its host."""
        key, host, walk = errand.key, errand.host, errand.session

        def is_over() -> bool:
            following = self.next_fetch_task(host)
            moved = errand.visit is None and following is not None and following.visit is None
            return key in self._settled or moved or self._sessions.get(host) is not walk

        def is_known_what_follows() -> bool:
            return self.next_fetch_task(host) is not None or host not in self._sessions

        try:
            if not await self._wait_until(is_over, COMMIT_S):
                raise FrontierError(f"the visit could not be finished within {COMMIT_S:.0f} s; bring it again")
            await self._wait_until(is_known_what_follows, READY_WAIT_S)
        finally:
            self._answered.pop(key, None)
        if key not in self._settled:  # rules that live elsewhere are over, a visit that nothing came of is not
            late = errand.result.cancelled()
            outcome = Outcome(Status.NOT_SENT if late else errand.result.result().status, self.clock.now())
            self._settle(key, SettledVisit(host, outcome, finished=errand.visit is None))
        return self._settled[key]

    def settled_visit(self, key: VisitKey) -> SettledVisit | None:
        """What became of a visit that was over a while ago."""
        return self._settled.get(key)

    def next_fetch_task(self, host: HostId) -> FetchTask | None:
        errand = self._fetch_tasks.get(host)
        return errand if errand is not None and errand.is_open else None

    async def fetch_remotely(
        self, walk: RelaySession, request: FetchRequest, not_before: float
    ) -> CrawlerResult | None:
        """Lay an errand out, and wait for somebody to bring its answer; None: nobody did."""
        host, waiting_s = walk.lease.host, (not_before - self.clock.now()) / self.clock.scale
        errand = FetchTask(walk, request, walk.visit, not_before, asyncio.get_running_loop().create_future())
        self._fetch_tasks[host] = errand
        self._settled.pop(errand.key, None)  # robots.txt is fetched again and again
        if errand.visit is None:
            walk.robots_key = errand.key
        self._notify_waiters()
        try:
            return await asyncio.wait_for(errand.result, max(0.0, waiting_s) + request.time_max_s + GRACE_S)
        except TimeoutError:
            return None
        finally:
            if self._fetch_tasks.get(host) is errand:
                del self._fetch_tasks[host]

    async def is_any_running(self) -> bool:
        """Whether any collection is."""
        return any(one.state == "running" for one in await self._frontier.collection_states())

    async def look_up(self, host: HostId, url: UrlId) -> UrlLookup:
        return await self._frontier.look_up(host, url)

    # -- as a worker -----------------------------------------------------------------------------------------

    def record_visit(self, walk: HostSession, done: FinishedVisit) -> None:
        """The record says who made the visit, if it made a request. There are no bytes to be archived."""
        outcome, kit = done.record.outcome, walk.services
        assert isinstance(kit, RemoteFetchServices)
        if outcome.requested and kit.last_result is not None:
            outcome = replace(outcome, length=kit.last_result.length, payload="")
            done.record = replace(done.record, outcome=outcome, worker=self._name)
        done.exchange = None
        super().record_visit(walk, done)
        if not self._holds_lease():
            self._failure = LeaseLost(f"worker {self._name} has lost its leases: it was silent for too long")
        self._commit_now.set()

    def record_host(self, walk: HostSession, offers: list[DiscoveredUrl]) -> None:
        super().record_host(walk, offers)
        self._commit_now.set()  # somebody waits for it

    def release_host(self, walk: HostSession) -> None:
        super().release_host(walk)
        self._commit_now.set()

    def _start_session(self, lease: Lease) -> None:
        _, collection, admission = self._collections[lease.collection]
        messenger = RemoteFetchServices(self)
        walk = messenger.session = RelaySession(lease, collection, admission, messenger)
        self._sessions[lease.host] = walk
        task = self._tasks[lease.host] = asyncio.create_task(walk.run())
        task.add_done_callback(self._session_ended)

    def _apply_continuation(self, walk: HostSession, report: HostReport, answer: NextVisits) -> None:
        super()._apply_continuation(walk, report, answer)
        assert isinstance(walk, RelaySession)
        if report.robots is not None and walk.robots_key is not None:
            self._settle(walk.robots_key, SettledVisit(report.host, Outcome(report.robots.status, report.ended_at)))
        for one in report.reports:
            self._settle((one.id, one.number), SettledVisit(report.host, one.outcome))
        self._notify_waiters()

    def _settle(self, key: VisitKey, settled: SettledVisit) -> None:
        self._settled[key] = settled
        while len(self._settled) > SETTLED_MAX:
            del self._settled[next(iter(self._settled))]

    def _hosts_at_once(self) -> int:
        return self._wanted

    def _is_cut_off(self) -> bool:
        """So many of its hosts were out of reach that it must be the crawler: it gets no more for a while."""
        if not self._overload.is_offline:
            return False
        now = boottime()
        self._cut_off_at = self._cut_off_at or now
        if now - self._cut_off_at > OFFLINE_PAUSE_S:
            self._overload.assume_online()
            self._cut_off_at = 0.0
        return self._overload.is_offline

    def _notify_waiters(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _wait_until(self, is_so: Callable[[], bool], patience_s: float) -> bool:
        """Wait until something is so, or for so long; whether it is. Raises what keeps everything from going on."""
        deadline = boottime() + patience_s
        while True:
            if isinstance(self._fatal_error, TarrafaError):
                raise self._fatal_error
            if self._fatal_error is not None:
                raise FrontierError(f"it went wrong here: {self._fatal_error!r}") from self._fatal_error
            if is_so():
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), max(0.0, deadline - boottime()))
            if boottime() >= deadline:
                return is_so()
