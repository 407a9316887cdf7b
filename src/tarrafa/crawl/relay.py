"""A worker whose requests are made by somebody else.

Leasing, robots.txt, delays, traps, scope and the order of durability are those of any worker: the same walks, the same
commits. But what a walk wants fetched is laid out as an `Errand`; a crawler elsewhere takes it, keeps to the time that
it names, and brings what came of it. So nobody can be less polite here than our own workers are.

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
from tarrafa.crawl.brought import Brought
from tarrafa.crawl.delivered import Delivered
from tarrafa.crawl.host import Walk
from tarrafa.crawl.messenger import Errand, Key, Messenger, RelayWalk, Settled
from tarrafa.crawl.visit import Finished
from tarrafa.crawl.worker import OFFLINE_PAUSE_S, STOP_GRACE_S, Worker
from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, FrontierError, LeaseLost, TarrafaError
from tarrafa.fetch.http import Request
from tarrafa.frontier.address import Address, OpenFrontier
from tarrafa.frontier.protocol import Continuation, Facts, HostReport, Lease, Offer
from tarrafa.frontier.timing import Agreement
from tarrafa.model import HostId, Outcome, Status, UrlId
from tarrafa.process import ProcessId

HOSTS_MAX = 200  # that one crawler visits at once
ELSEWHERE = "crawler"  # stands where a boot id would: no process of any machine is called so
NOTE = "a crawler that talks through HTTP"
ARRIVE_S = 5.0  # a host whose name or rules take longer is told of the next time
COMMIT_S = 60.0
GRACE_S = 30.0  # beyond a document's time limit; then nobody is waited for any more
HEED_EVERY_S = 1.0
MARGIN = 1 / 6  # of a lease: in its last part no request is sent
RENEWAL = 1 / 6  # of a lease: it is renewed no more often
SETTLED_MAX = 10_000
DELIVERED_MAX = 20_000  # there may be many of us in one process


class Relay(Worker):
    """One crawler's place at the frontier."""

    def __init__(
        self, data: DataDirectory, name: str, address: Address, frontier: OpenFrontier, agreed: Agreement
    ) -> None:
        super().__init__(data, name, address, frontier, agreed, HOSTS_MAX, 1)
        self._line = frontier
        self._delivered = Delivered(DELIVERED_MAX)
        self._errands: dict[HostId, Errand] = {}
        self._answered: dict[Key, Errand] = {}  # and not settled yet
        self._settled: dict[Key, Settled] = {}
        self._leasing = asyncio.Lock()
        self._wanted = 0
        self._stirred = asyncio.Event()
        self._committing: asyncio.Task[None] | None = None
        self._heeding: asyncio.Task[None] | None = None
        self._broken: BaseException | None = None
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

    async def resume(self, worker: int, given: Collection[Key]) -> None:
        """Go on as the worker that it was. `given` are the visits that the crawler was told of: they come first."""
        self._number = worker
        await self.renew()
        await self._begin()
        for lease in await self._frontier.held(worker):
            visits = sorted(lease.visits, key=lambda visit: (visit.id, visit.number) not in given)
            self._start(replace(lease, visits=visits))

    async def _begin(self) -> None:
        await self._refresh_collections()
        self._committing = asyncio.create_task(self._commit_groups())
        self._committing.add_done_callback(self._ended)
        self._heeding = asyncio.create_task(self._heed())
        self._heeding.add_done_callback(self._ended)

    async def _heed(self) -> None:
        """No thread asks for us. That the frontier does not answer, the crawler hears by its own calls."""
        while True:
            heard_at = self.clock.now()
            with contextlib.suppress(FrontierError):
                self._news.hear(await self._frontier.standings(), heard_at)
                await self._go_by_the_news()
            await asyncio.sleep(HEED_EVERY_S)

    async def renew(self) -> float:
        """Prolong the leases, unless that was done a moment ago; for how long a request may still be sent."""
        if not self._lease_s or boottime() - self._asked_at > self._lease_s * RENEWAL:
            asked_at = boottime()
            self._lease_s = await self._frontier.renew(self._number, "; ".join(filter(None, [NOTE, self._note()])))
            self._asked_at = asked_at
        return self.left_s()

    def left_s(self) -> float:
        """For how long a request may still be sent."""
        return max(0.0, self._asked_at + self._lease_s * (1 - MARGIN) - boottime())

    def is_forgotten(self) -> bool:
        """It was not called for longer than a lease."""
        return not self._holds()

    def _holds(self) -> bool:
        """Its lease is not over, as far as can be told here."""
        return boottime() < self._asked_at + self._lease_s

    @property
    def broken(self) -> BaseException | None:
        """Why nothing goes on here."""
        return self._broken

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self._broken = task.exception()
            self._stir()

    async def leave(self) -> None:
        """Hand everything back."""
        await self._frontier.leave(self._number)

    async def abandon(self) -> None:
        """Let go of everything here. The frontier still holds it for the crawler, as long as its lease lasts."""
        for walk in self._walks.values():
            walk.left = walk.released = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._closing = True
        self._commit_now.set()
        if self._heeding is not None:
            self._heeding.cancel()
        if self._committing is not None:
            await asyncio.wait({self._committing}, timeout=STOP_GRACE_S)  # a commit that is under way comes to its end
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
        self._broken = self._broken or FrontierError("the door is being closed")
        self._stir()
        self._reader.close()
        with contextlib.suppress(DataError):
            self._writer.close()
        await self._finder.close()
        await self._line.close()

    # -- errands ---------------------------------------------------------------------------------------------

    async def work(self, hosts: int, *, restarted: bool = False) -> list[Errand]:
        """All that is to be fetched now, on up to so many hosts. A crawler that `restarted` has forgotten whether it
        asked for what it holds."""
        for errand in self.errands() if restarted else []:
            errand.not_before = max(errand.not_before, self.clock.now() + errand.walk.delay_s)
        async with self._leasing:
            self._wanted = min(hosts, HOSTS_MAX)
            room = self._wanted - len(self._walks)
            leases = await self._frontier.lease(self._number, room) if room > 0 and not self._is_cut_off() else []
            for lease in leases:
                known = self._collections.get(lease.collection)
                if known is None or known[0] < lease.revision:
                    await self._refresh_collections()
                self._start(lease)
        await self._until(lambda: all(host in self._errands for host in self._walks), ARRIVE_S)
        return self.errands()

    def errands(self) -> list[Errand]:
        return [errand for errand in self._errands.values() if errand.is_open]

    async def find_errand(self, key: Key) -> Errand | None:
        """The errand that is called so, if it is not over. Just after `resume` it may not be laid out yet."""

        def found() -> Errand | None:
            waiting = (errand for errand in self.errands() if errand.key == key)
            return self._answered.get(key) or next(waiting, None)

        await self._until(lambda: bool(found()) or all(host in self._errands for host in self._walks), ARRIVE_S)
        return found()

    def answer(self, errand: Errand, brought: Brought) -> None:
        """Take what came of an errand. Brought again, the first answer counts."""
        if errand.is_open:
            self._answered[errand.key] = errand
            errand.answer.set_result(brought)

    async def conclusion(self, errand: Errand) -> Settled:
        """What became of an errand that was answered; when it is durable, and known what comes next on its host."""
        key, host, walk = errand.key, errand.host, errand.walk

        def is_over() -> bool:
            following = self.next_of(host)
            moved = errand.visit is None and following is not None and following.visit is None
            return key in self._settled or moved or self._walks.get(host) is not walk

        def is_known_what_follows() -> bool:
            return self.next_of(host) is not None or host not in self._walks

        try:
            if not await self._until(is_over, COMMIT_S):
                raise FrontierError(f"the visit could not be finished within {COMMIT_S:.0f} s; bring it again")
            await self._until(is_known_what_follows, ARRIVE_S)
        finally:
            self._answered.pop(key, None)
        if key not in self._settled:  # rules that live elsewhere are over, a visit that nothing came of is not
            late = errand.answer.cancelled()
            outcome = Outcome(Status.NOT_SENT if late else errand.answer.result().status, self.clock.now())
            self._settle(key, Settled(host, outcome, finished=errand.visit is None))
        return self._settled[key]

    def settled(self, key: Key) -> Settled | None:
        """What became of a visit that was over a while ago."""
        return self._settled.get(key)

    def next_of(self, host: HostId) -> Errand | None:
        errand = self._errands.get(host)
        return errand if errand is not None and errand.is_open else None

    async def ask(self, walk: RelayWalk, request: Request, not_before: float) -> Brought | None:
        """Lay an errand out, and wait for somebody to bring its answer; None: nobody did."""
        host, waiting_s = walk.lease.host, (not_before - self.clock.now()) / self.clock.scale
        errand = Errand(walk, request, walk.visit, not_before, asyncio.get_running_loop().create_future())
        self._errands[host] = errand
        self._settled.pop(errand.key, None)  # robots.txt is fetched again and again
        if errand.visit is None:
            walk.rules_key = errand.key
        self._stir()
        try:
            return await asyncio.wait_for(errand.answer, max(0.0, waiting_s) + request.time_max_s + GRACE_S)
        except TimeoutError:
            return None
        finally:
            if self._errands.get(host) is errand:
                del self._errands[host]

    async def is_any_running(self) -> bool:
        """Whether any collection is."""
        return any(one.state == "running" for one in await self._frontier.standings())

    async def look_up(self, host: HostId, url: UrlId) -> Facts:
        return await self._frontier.look_up(host, url)

    # -- as a worker -----------------------------------------------------------------------------------------

    def finished(self, walk: Walk, done: Finished) -> None:
        """The record says who made the visit, if it made a request. There are no bytes to be archived."""
        outcome, kit = done.record.outcome, walk.kit
        assert isinstance(kit, Messenger)
        if outcome.requested and kit.brought is not None:
            outcome = replace(outcome, length=kit.brought.length, payload="")
            done.record = replace(done.record, outcome=outcome, worker=self._name)
        done.exchange = None
        super().finished(walk, done)
        if not self._holds():
            self._failure = LeaseLost(f"worker {self._name} has lost its leases: it was silent for too long")
        self._commit_now.set()

    def learned(self, walk: Walk, offers: list[Offer]) -> None:
        super().learned(walk, offers)
        self._commit_now.set()  # somebody waits for it

    def leaving(self, walk: Walk) -> None:
        super().leaving(walk)
        self._commit_now.set()

    def _start(self, lease: Lease) -> None:
        _, collection, admission = self._collections[lease.collection]
        messenger = Messenger(self)
        walk = messenger.walk = RelayWalk(lease, collection, admission, messenger)
        self._walks[lease.host] = walk
        task = self._tasks[lease.host] = asyncio.create_task(walk.run())
        task.add_done_callback(self._walk_ended)

    def _continue(self, walk: Walk, report: HostReport, answer: Continuation) -> None:
        super()._continue(walk, report, answer)
        assert isinstance(walk, RelayWalk)
        if report.robots is not None and walk.rules_key is not None:
            self._settle(walk.rules_key, Settled(report.host, Outcome(report.robots.status, report.ended_at)))
        for one in report.reports:
            self._settle((one.id, one.number), Settled(report.host, one.outcome))
        self._stir()

    def _settle(self, key: Key, settled: Settled) -> None:
        self._settled[key] = settled
        while len(self._settled) > SETTLED_MAX:
            del self._settled[next(iter(self._settled))]

    def _hosts_at_once(self) -> int:
        return self._wanted

    def _is_cut_off(self) -> bool:
        """So many of its hosts were out of reach that it must be the crawler: it gets no more for a while."""
        if not self._strain.is_offline:
            return False
        now = boottime()
        self._cut_off_at = self._cut_off_at or now
        if now - self._cut_off_at > OFFLINE_PAUSE_S:
            self._strain.try_again()
            self._cut_off_at = 0.0
        return self._strain.is_offline

    def _stir(self) -> None:
        self._stirred.set()
        self._stirred = asyncio.Event()

    async def _until(self, is_so: Callable[[], bool], patience_s: float) -> bool:
        """Wait until something is so, or for so long; whether it is. Raises what keeps everything from going on."""
        deadline = boottime() + patience_s
        while True:
            if isinstance(self._broken, TarrafaError):
                raise self._broken
            if self._broken is not None:
                raise FrontierError(f"it went wrong here: {self._broken!r}") from self._broken
            if is_so():
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stirred.wait(), max(0.0, deadline - boottime()))
            if boottime() >= deadline:
                return is_so()
