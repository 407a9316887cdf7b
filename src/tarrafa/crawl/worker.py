"""The worker: lease -> fetch -> parse -> append -> deliver -> finish.

Holds no truth and may be killed at any moment. The order of durability is its one law: a visit's record is on the disk,
then its links are with the frontier, then the visit is finished. Visits are committed in groups, a few times a second,
so that one fsync and one message serve hundreds of them.
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
from tarrafa.archive.writer import Writer
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl import membership
from tarrafa.crawl.collection import Admission
from tarrafa.crawl.delivered import Delivered
from tarrafa.crawl.diary import Diary
from tarrafa.crawl.entering import Entrance, conceal
from tarrafa.crawl.fence import Fence
from tarrafa.crawl.finding import Finder
from tarrafa.crawl.hearing import Hearing
from tarrafa.crawl.host import Place, Walk
from tarrafa.crawl.news import News
from tarrafa.crawl.rations import Rationed
from tarrafa.crawl.reader import Reader
from tarrafa.crawl.reading import Reading
from tarrafa.crawl.reports import parts, reports
from tarrafa.crawl.scribe import Scribe
from tarrafa.crawl.strain import Strain
from tarrafa.crawl.visit import Body, Finished
from tarrafa.data import DataDirectory
from tarrafa.errors import FrontierError, LeaseLost, TarrafaError
from tarrafa.fetch.client import Client
from tarrafa.fetch.http import Request, Response
from tarrafa.fetch.lag import LoopLag
from tarrafa.fetch.robots import Robots
from tarrafa.fetch.robots import parse as parse_robots
from tarrafa.fetch.valve import Valve
from tarrafa.frontier.address import Address, connect, handed_down
from tarrafa.frontier.protocol import (
    REQUEST_MARGIN,
    Continuation,
    Frontier,
    HostReport,
    Lease,
    Loan,
    Offer,
    RobotsCopy,
    Standing,
)
from tarrafa.frontier.timing import Agreement, agree
from tarrafa.model import HostId
from tarrafa.process import become_child, raise_file_limit, run_child
from tarrafa.pulse import PULSE_EVERY_S, Pulse, Sender, shown
from tarrafa.takedown import TakenDown

COMMIT_EVERY_S = 0.2
COMMIT_PAUSE_S = 0.03  # sooner when a walk waits for it, but never without a pause
COMMIT_VISITS_MAX = 500  # or when so many visits wait
LEASE_EVERY_S = 0.2
FIRST_HOSTS = 10  # until we know how many the collection allows
STOP_GRACE_S = 5.0
ROBOTS_CACHED_MAX = 5_000
OFFERS_PER_CALL_MAX = 20_000
FILES_WANTED, FILES_SPARE = 10_000, 200  # a socket per host, and some
OFFLINE_PAUSE_S = 30.0
UNREAD_BYTES_MAX, HEAVY_AT_ONCE = 128 << 20, 2


class Worker:
    """One crawling process; also the `Kit` of its walks."""

    def __init__(
        self,
        data: DataDirectory,
        name: str,
        address: Address,
        frontier: Frontier,
        agreed: Agreement,
        connections_max: int,
        workers: int,
    ) -> None:
        self.clock, self._connections_max = agreed.clock, connections_max
        self._address, self._notices = address, {"paused": "", "clock": agreed.notice(), "busy": ""}
        self._diary, self._rationed = Diary(), Rationed(data, workers)
        self._valves: dict[int, Valve] = {}
        self._machine_valve = Valve(None)
        self._lag = LoopLag()
        self._data, self._name, self._frontier = data, name, frontier
        self._writer = Writer(data.archive, name, self.clock.now())
        self._scribe = Scribe(self._writer, self.clock)
        self._taken_down = TakenDown(data)
        self._orders = self._taken_down.now()
        self._finder = Finder(lambda host, place: self._frontier.claim(self._number, host, place))
        self._entrance = Entrance(data)
        self._hearing = Hearing(data, self.clock)
        self._delivered = Delivered()
        self._robots: dict[bytes, Robots] = {}
        self._collections: dict[int, tuple[int, Collection, Admission]] = {}
        self._walks: dict[HostId, Walk] = {}
        self._tasks: dict[HostId, asyncio.Task[None]] = {}
        self._finished: list[tuple[Walk, Finished]] = []
        self._leaving: list[Walk] = []
        self._learned: list[tuple[Walk, list[Offer]]] = []
        self._reader = Reader()
        self._attention = asyncio.Semaphore(HEAVY_AT_ONCE)
        self._unread = 0  # bytes of bodies that came and are not concluded yet
        self._eaten = asyncio.Event()
        self._strain = Strain()
        self._news, self._told = News(), asyncio.Event()
        self._stopping = asyncio.Event()
        self._commit_now = asyncio.Event()
        self._lost: TarrafaError | None = None
        self._closing = False
        self._apart = ""
        self._failure: BaseException | None = None
        self._number = 0
        self._fence: Fence | None = None
        self._client: Client | None = None

    # -- the kit ---------------------------------------------------------------------------------------------

    async def fetch(self, request: Request, collection: int) -> Response:
        assert self._client is not None
        request.valve, request.machine_valve = self._valve(collection), self._machine_valve
        shown = self._entrance.prepare(request, self._collections[collection][1].name)
        while self._unread > UNREAD_BYTES_MAX:
            self._eaten.clear()
            await self._eaten.wait()
        response = conceal(await self._client.fetch(request), shown)
        self._diary.bytes += len(response.raw_head) + len(response.raw_body)
        return response

    @contextlib.contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """A body of that size waits to be read. When too much does, nothing more is fetched."""
        self._unread += size
        try:
            yield
        finally:
            self._unread -= size
            self._eaten.set()

    def _valve(self, collection: int) -> Valve | None:
        """What lets in no more than this worker's part of the collection's bandwidth."""
        bandwidth = self._collections[collection][1].fetch.bandwidth
        if bandwidth is None:
            return None
        rate = bandwidth / self._rationed.workers
        valve = self._valves.get(collection)
        if valve is None or valve.rate != rate:
            valve = self._valves[collection] = Valve(rate)
        return valve

    async def find(self, name: str, host: HostId, collection: Collection, beside: str | None = None) -> Place:
        return await self._finder.find(name, host, collection, beside)

    async def rules(self, copy: RobotsCopy) -> Robots:
        rules = self._robots.get(copy.digest)
        if rules is None:
            text = copy.text or await self.robots_text(copy.digest)
            if len(self._robots) >= ROBOTS_CACHED_MAX:
                self._robots.clear()
            rules = self._robots[copy.digest] = parse_robots(text)
        return rules

    def finished(self, walk: Walk, done: Finished) -> None:
        if not self._holds():
            return  # its host may be with somebody else: whoever has it makes this visit
        done = self._scribe.visit(walk, *self._configuration(walk), done)
        self._diary.note(done.record)
        self._finished.append((walk, done))
        if len(self._finished) >= COMMIT_VISITS_MAX:
            self._commit_now.set()

    def _configuration(self, walk: Walk) -> tuple[int, Collection]:
        revision, collection, _ = self._collections[walk.lease.collection]
        return revision, collection

    def archive_robots(self, request: Request, response: Response) -> None:
        if response.raw_head and self._holds():
            self._scribe.robots(request, response)

    async def robots_text(self, digest: bytes) -> bytes:
        return await self._frontier.robots_text(digest)

    async def borrow(self, collection: int, host: HostId, key: str) -> Loan:
        return await self._frontier.borrow(self._number, collection, host, key)

    async def give_back(self, report: HostReport) -> None:
        await self._frontier.finish(self._number, [report])

    async def understand(self, make: Callable[[], Body], *, heavy: bool) -> tuple[Body, Reading | None]:
        """Unpack and read a document; what is heavy waits for its turn packed."""
        async with self._attention if heavy else contextlib.nullcontext():
            body = make()
            return body, await self._reader.read(body.job) if body.job is not None else None

    def learned(self, walk: Walk, offers: list[Offer]) -> None:
        """Noted down if it is news: only so does somebody hear of a sitemap if the frontier is lost."""
        sitemaps = self._delivered.news(walk.lease.collection, offers, walk.lease.run)
        if walk.new_robots is not None or sitemaps:
            self._scribe.host(walk, *self._configuration(walk), sitemaps)
        self._learned.append((walk, offers))

    def starved(self) -> None:
        """A time limit passed because this machine could not keep up: take fewer hosts for a while, and say so."""
        self._strain.starve()
        self._notices["busy"] = f"this machine is too busy: visiting {self._hosts_at_once()} hosts at once; allow fewer"

    def is_crowded(self, walk: Walk) -> bool:
        """Somebody else could use its place: we have no room for more hosts, or it holds an address."""
        return walk.place.address is not None or len(self._walks) >= self._hosts_at_once()

    def is_offline(self, host: HostId, reached: bool) -> bool:
        """So many different hosts in a row were out of reach that it must be us."""
        self._strain.note(host, reached)
        return self._strain.is_offline

    def is_current(self, walk: Walk) -> bool:
        """Nothing is known that is newer than what it goes by. Asked before each request leaves."""
        number = walk.lease.collection
        return not (
            self._news.rests(number, walk.began_at) or self._news.is_newer(number, self._collections[number][0])
        )

    def hungry(self) -> None:
        """A walk has nothing left to visit until its visits are reported."""
        self._commit_now.set()

    def leaving(self, walk: Walk) -> None:
        if not walk.released:  # else the host may be with somebody else by now, even with us
            self._leaving.append(walk)

    # -- life ------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Work until told to stop, or until the lease is lost."""
        loop = asyncio.get_running_loop()
        terms, asked_at = await membership.join(self._frontier, self._data, self._name)
        self._number = terms.worker

        def lost(error: TarrafaError) -> None:
            self._lost = error
            with contextlib.suppress(RuntimeError):  # it has ended already
                loop.call_soon_threadsafe(self._stopping.set)

        def apart(ahead_s: float) -> None:
            way = "ahead of" if ahead_s > 0 else "behind"
            self._apart = f"this machine's clock is {abs(ahead_s):,.1f} s {way} the frontier's by now: joining anew"
            loop.call_soon_threadsafe(self._stopping.set)

        def told(standings: list[Standing], heard_at: float) -> None:
            self._news.hear(standings, heard_at)
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._told.set)

        self._fence = Fence(self._address, terms, asked_at, self.clock, self._note, lost, apart, told)
        unheard_s = terms.lease_s * REQUEST_MARGIN
        self._client = Client(self._connections_max, self._fence.is_up, lag=self._lag.lateness, unheard_s=unheard_s)
        measuring = asyncio.create_task(self._lag.run())
        pulsing = asyncio.create_task(self._pulse())
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        leasing = asyncio.create_task(self._lease_hosts())
        committing = asyncio.create_task(self._commit_groups())
        heeding = asyncio.create_task(self._heed())
        stopping = asyncio.create_task(self._stopping.wait())
        done, _ = await asyncio.wait({leasing, committing, heeding, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (leasing, committing, heeding):
            if task in done:
                task.result()  # raises what went wrong
        leasing.cancel()
        heeding.cancel()
        if self._lost is not None:
            raise self._lost
        await self._bring_home(committing)
        measuring.cancel()
        pulsing.cancel()
        if self._apart:
            raise FrontierError(self._apart)

    def _note(self) -> str:
        """What there is to say about us, for people."""
        return "; ".join(filter(None, [*self._notices.values(), self._delivered.sentence()]))

    def _holds(self) -> bool:
        return self._fence is not None and self._fence.holds()

    async def _bring_home(self, committing: "asyncio.Task[None]") -> None:
        """Finish what is under way, start nothing, hand everything back."""
        assert self._client is not None
        assert self._fence is not None
        for walk in self._walks.values():
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
        membership.left(self._data, self._name)
        self._fence.close()
        self._client.close()
        self._reader.close()
        self._writer.close()
        await self._finder.close()

    async def _lease_hosts(self) -> None:
        await self._refresh_collections()
        while True:
            if self._strain.is_offline:  # nothing answers: look again later
                await asyncio.sleep(OFFLINE_PAUSE_S)
                self._strain.try_again()
            if self._strain.recover():
                self._notices["busy"] = ""
            room = self._hosts_at_once() - len(self._walks)
            leases = await self._frontier.lease(self._number, room) if room > 0 else []
            for lease in leases:
                known = self._collections.get(lease.collection)
                if known is None or known[0] < lease.revision:
                    await self._refresh_collections()
                self._start(lease)
            await asyncio.sleep(LEASE_EVERY_S)

    def _hosts_at_once(self) -> int:
        limits = [collection.fetch.hosts_at_once for _, collection, _ in self._collections.values()]
        most = min(max(limits, default=FIRST_HOSTS), self._connections_max)
        return self._rationed.hosts(most, self._strain.share)

    async def _pulse(self) -> None:
        """Once a second: say how we fare, and look what we may take."""
        sender = Sender(self._data)
        self._keep_to_rations()
        while True:
            sender.send(self._pulse_now())
            await asyncio.sleep(PULSE_EVERY_S)
            if self._rationed.look():
                self._keep_to_rations()

    def _keep_to_rations(self) -> None:
        """Hosts that are too many now go back after the visit that is under way."""
        self._notices["paused"] = self._rationed.now.why
        self._machine_valve.set_rate(self._rationed.bandwidth)
        staying = [walk for walk in self._walks.values() if not walk.left]
        for walk in staying[self._hosts_at_once() :]:
            walk.left = True
            walk.more.set()

    def _pulse_now(self) -> Pulse:
        newest, failures, slowest = self._diary.tell()
        return Pulse(
            self._name,
            os.getpid(),
            self._diary.visits,
            self._diary.pages,
            self._diary.bytes,
            hosts=len(self._walks),
            hosts_max=self._hosts_at_once(),
            connections=self._client.under_way if self._client is not None else 0,
            lag_s=self._lag.lateness(boottime() - PULSE_EVERY_S),
            note=shown(self._note()),
            newest=newest,
            failures=failures,
            slowest=slowest,
        )

    async def _refresh_collections(self) -> None:
        """Configurations may change while we run; walks go on by the new one. Who is new may have the name of one that
        was deleted: that is in the archive first."""
        changed: set[int] = set()
        standings = await self._frontier.standings()
        if any(standing.id not in self._collections for standing in standings):
            await self._hearing.once(self._frontier)
        for standing in standings:
            known = self._collections.get(standing.id)
            if known is not None and known[0] == standing.revision:
                continue
            row = await self._frontier.collection(standing.name)
            if row is not None and row.id == standing.id:  # else it is another one of that name: next time
                collection = await asyncio.to_thread(config.decode, row.config)
                admission = Admission(collection, lambda url: self._orders.covers(url))  # noqa: PLW0108 (they change)
                self._collections[row.id] = (row.revision, collection, admission)
                changed.add(row.id)
        for walk in self._walks.values():
            if walk.lease.collection in changed:
                walk.adopt(*self._collections[walk.lease.collection][1:])

    async def _heed(self) -> None:
        """Walks of what rests leave, others go by what is new, as soon as somebody hears of it."""
        while True:
            await self._told.wait()
            self._told.clear()
            await self._go_by_the_news()

    async def _go_by_the_news(self) -> None:
        if self._news.differs({number: revision for number, (revision, _, _) in self._collections.items()}):
            await self._refresh_collections()
        for walk in self._walks.values():
            if not walk.left and self._news.rests(walk.lease.collection, walk.began_at):
                walk.leave()

    def _start(self, lease: Lease) -> None:
        _, collection, admission = self._collections[lease.collection]
        walk = Walk(lease, collection, admission, self)
        self._walks[lease.host] = walk
        task = self._tasks[lease.host] = asyncio.create_task(walk.run())
        task.add_done_callback(self._walk_ended)

    def _walk_ended(self, task: "asyncio.Task[None]") -> None:
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
            if self._finished or self._leaving or self._learned:
                await self._commit()
                await asyncio.sleep(COMMIT_PAUSE_S)

    async def _commit(self) -> None:
        """Durable record, then links, then the end of the visit; all of it only while we hold what we speak of."""
        if not self._holds():
            raise LeaseLost(f"worker {self._name} was stopped, or too slow, for longer than its lease")
        finished, self._finished = self._finished, []
        leaving, self._leaving = self._leaving, []
        learned, self._learned = self._learned, []
        offers: defaultdict[tuple[int, int], list[Offer]] = defaultdict(list)  # by collection and run
        for walk, some in [*learned, *((walk, done.offers) for walk, done in finished)]:
            offers[walk.lease.collection, walk.lease.run] += some
        batch = reports(finished, leaving, (walk for walk, _ in learned))
        await asyncio.to_thread(self._writer.seal())
        if not self._holds():
            raise LeaseLost(f"worker {self._name} could not write for longer than its lease")
        await self._deliver(offers)
        for part in parts(batch):
            answers = await self._frontier.finish(self._number, [report for _, report in part])
            for (walk, report), answer in zip(part, answers, strict=True):
                self._continue(walk, report, answer)

    def _continue(self, walk: Walk, report: HostReport, answer: Continuation) -> None:
        if walk.released:
            return
        walk.unreported -= len(report.reports)
        if answer.held:
            walk.queue.extend(answer.visits)
        else:
            walk.left = walk.released = True
            del self._walks[report.host], self._tasks[report.host]
        walk.more.set()

    async def _deliver(self, offers: dict[tuple[int, int], list[Offer]]) -> None:
        for (collection, run), some in offers.items():
            news = self._delivered.news(collection, some, run)
            for start in range(0, len(news), OFFERS_PER_CALL_MAX):
                await self._frontier.discover(collection, news[start : start + OFFERS_PER_CALL_MAX])
            self._delivered.remember(collection, news, run)


async def _main(data: DataDirectory, name: str, connections_max: int, workers: int) -> None:
    address, own = handed_down(), Clock.from_environment()
    frontier = await connect(address, own, data.outbox / name)
    agreed = await agree(frontier, own)
    await Worker(data, name, address, frontier, agreed, connections_max, workers).run()


def main() -> None:
    """`python -m tarrafa.crawl.worker`: started by the supervisor."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--workers", type=int, default=1, help="how many share this machine's bandwidth")
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    become_child(options.parent)
    connections_max = max(10, raise_file_limit(FILES_WANTED) - FILES_SPARE)
    run_child(lambda: uvloop.run(_main(DataDirectory(options.data), options.name, connections_max, options.workers)))


if __name__ == "__main__":
    main()
