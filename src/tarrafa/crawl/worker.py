"""The worker: lease -> fetch -> parse -> append -> deliver -> finish.

Holds no truth and may be killed at any moment. The order of durability is its one law: a visit's record is on the disk,
then its links are with the frontier, then the visit is finished. Visits are committed in groups, a few times a second,
so that one fsync and one message serve hundreds of them.
"""

import argparse
import asyncio
import contextlib
import signal
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import uvloop
from msgspec.structs import replace

from tarrafa import config
from tarrafa.archive.writer import Writer
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl import membership
from tarrafa.crawl.collection import Admission
from tarrafa.crawl.delivered import Delivered
from tarrafa.crawl.fence import Fence
from tarrafa.crawl.host import Place, Walk
from tarrafa.crawl.reader import Reader
from tarrafa.crawl.reading import Reading
from tarrafa.crawl.visit import Body, Finished, exchange_of, refused
from tarrafa.data import DataDirectory
from tarrafa.errors import FrontierError, LeaseLost, TarrafaError
from tarrafa.fetch.client import Client
from tarrafa.fetch.http import Request, Response
from tarrafa.fetch.lag import LoopLag
from tarrafa.fetch.names import Resolver
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
    Report,
    RobotsCopy,
)
from tarrafa.frontier.timing import Agreement, agree
from tarrafa.model import CollectionNote, HostId, HostNote, ListingNote, Status
from tarrafa.process import become_child, raise_file_limit, run_child
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
MESSAGE_BYTES = 8 << 20
OFFLINE_HOSTS, OFFLINE_PAUSE_S = 20, 30.0
UNREAD_BYTES_MAX, HEAVY_AT_ONCE = 128 << 20, 2
SHARE_MIN, STARVED_PAUSE_S, RECOVERY_S = 0.05, 10.0, 60.0


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
        self.clock, self._connections_max, self._workers = agreed.clock, connections_max, workers
        self._address, self._notices = address, {"clock": agreed.notice(), "busy": ""}
        self._valves: dict[int, Valve] = {}
        self._lag = LoopLag()
        self._data, self._name, self._frontier = data, name, frontier
        self._writer = Writer(data.archive, name, self.clock.now())
        self._taken_down = TakenDown(data)
        self._orders = self._taken_down.now()
        self._resolver = Resolver()
        self._delivered = Delivered()
        self._robots: dict[bytes, Robots] = {}
        self._collections: dict[int, tuple[int, Collection, Admission]] = {}
        self._noted: dict[int, tuple[int, int]] = {}  # in which pair of files, as of which revision
        self._walks: dict[HostId, Walk] = {}
        self._tasks: dict[HostId, asyncio.Task[None]] = {}
        self._finished: list[tuple[Walk, Finished]] = []
        self._leaving: list[Walk] = []
        self._learned: list[tuple[Walk, list[Offer]]] = []
        self._reader = Reader()
        self._attention = asyncio.Semaphore(HEAVY_AT_ONCE)
        self._unread = 0  # bytes of bodies that came and are not concluded yet
        self._eaten = asyncio.Event()
        self._share = 1.0  # of the hosts that the collections allow
        self._starved_at = 0.0
        self._unreached: set[HostId] = set()
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
        request.valve = self._valve(collection)
        while self._unread > UNREAD_BYTES_MAX:
            self._eaten.clear()
            await self._eaten.wait()
        return await self._client.fetch(request)

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
        rate = bandwidth / self._workers
        valve = self._valves.get(collection)
        if valve is None or valve.rate != rate:
            valve = self._valves[collection] = Valve(rate)
        return valve

    async def find(self, name: str, host: HostId, collection: Collection, beside: str | None = None) -> Place:
        """Where a host is. `beside` is an address that the caller holds for another host: no claim is needed there."""
        target = collection.connect_target(name)
        if target is not None:
            return Place(connect_to=target)
        answer = await self._resolver.resolve(name, collection.network.allow_private)
        if answer.address is None:
            status = Status.ADDRESS_REFUSED if answer.refused else Status.NAME_UNKNOWN
            return Place(error=status, why=answer.error, unsure=answer.unsure)
        if collection.politeness.per_ip and answer.address != beside:
            free_at = await self._frontier.claim(self._number, host, answer.address)
            if free_at:
                return Place(free_at=free_at)
        return Place(address=answer.address)

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
        self._note_collection(walk)
        try:
            if done.listing is not None:
                note = ListingNote(walk.collection.name, done.visit.url, done.visit.number, done.listing)
                self._writer.append_note(note, self.clock.now())
            self._writer.append(done.record, done.exchange)
        except (UnicodeError, ValueError, TypeError) as error:  # what a page said cannot be written down
            traceback.print_exc()
            name, now = walk.collection.name, self.clock.now()
            done = refused(done.visit, name, Status.HOSTILE, now, type(error).__name__)
            self._writer.append(done.record, None)
        self._finished.append((walk, done))
        if len(self._finished) >= COMMIT_VISITS_MAX:
            self._commit_now.set()

    def _note_collection(self, walk: Walk) -> None:
        """Each pair of files says how the collections were configured that its visits belong to."""
        number = walk.lease.collection
        revision, collection, _ = self._collections[number]
        if self._noted.get(number) != (self._writer.pair, revision):
            content = msgspec.Raw(config.encode(collection))
            self._writer.append_note(CollectionNote(collection.name, revision, content), self.clock.now())
            self._noted[number] = (self._writer.pair, revision)

    def archive_robots(self, request: Request, response: Response) -> None:
        if response.raw_head and self._holds():
            self._writer.append_exchange(exchange_of(request, response, self.clock.now()))

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
        robots, sitemaps = walk.new_robots, self._delivered.news(walk.lease.collection, offers)
        if robots is not None or sitemaps:
            self._note_collection(walk)
            note = HostNote(
                walk.collection.name,
                walk.lease.host_key,
                min((offer.depth for offer in sitemaps), default=0),
                walk.delay_s,
                tuple(offer.url for offer in sitemaps),
            )
            if robots is not None:
                note = replace(note, status=robots.status, expires=robots.expires, text=robots.text)
            self._writer.append_note(note, self.clock.now())
        self._learned.append((walk, offers))

    def starved(self) -> None:
        """A time limit passed because this machine could not keep up: take fewer hosts for a while, and say so."""
        now = boottime()
        if now - self._starved_at > STARVED_PAUSE_S:
            self._share = max(SHARE_MIN, self._share / 2)
            self._starved_at = now
        self._notices["busy"] = f"this machine is too busy: visiting {self._hosts_at_once()} hosts at once; allow fewer"

    def is_crowded(self, walk: Walk) -> bool:
        """Somebody else could use its place: we have no room for more hosts, or it holds an address."""
        return walk.place.address is not None or len(self._walks) >= self._hosts_at_once()

    def is_offline(self, host: HostId, reached: bool) -> bool:
        """So many different hosts in a row were out of reach that it must be us."""
        if reached:
            self._unreached.clear()
        else:
            self._unreached.add(host)
        return len(self._unreached) >= OFFLINE_HOSTS

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

        self._fence = Fence(self._address, terms, asked_at, self.clock, self._note, lost, apart)
        unheard_s = terms.lease_s * REQUEST_MARGIN
        self._client = Client(self._connections_max, self._fence.is_up, lag=self._lag.lateness, unheard_s=unheard_s)
        measuring = asyncio.create_task(self._lag.run())
        loop.add_signal_handler(signal.SIGTERM, self._stopping.set)
        leasing = asyncio.create_task(self._lease_hosts())
        committing = asyncio.create_task(self._commit_groups())
        stopping = asyncio.create_task(self._stopping.wait())
        done, _ = await asyncio.wait({leasing, committing, stopping}, return_when=asyncio.FIRST_COMPLETED)
        for task in (leasing, committing):
            if task in done:
                task.result()  # raises what went wrong
        leasing.cancel()
        if self._lost is not None:
            raise self._lost
        await self._bring_home(committing)
        measuring.cancel()
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
            walk.left = True
            walk.more.set()
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
        await self._resolver.close()

    async def _lease_hosts(self) -> None:
        await self._refresh_collections()
        while True:
            if len(self._unreached) >= OFFLINE_HOSTS:  # nothing answers: look again later
                await asyncio.sleep(OFFLINE_PAUSE_S)
                self._unreached.clear()
            self._recover()
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
        return max(1, int(most * self._share))

    def _recover(self) -> None:
        """Little by little, as many hosts as before."""
        if self._share < 1.0 and boottime() - self._starved_at > RECOVERY_S:
            self._share, self._starved_at = min(1.0, self._share * 1.25), boottime()
            if self._share == 1.0:
                self._notices["busy"] = ""

    async def _refresh_collections(self) -> None:
        """Configurations may change while we run; a walk keeps the one that it began with."""
        for row in await self._frontier.collections():
            known = self._collections.get(row.id)
            if known is None or known[0] < row.revision:
                collection = config.decode(row.config)
                admission = Admission(collection, lambda url: self._orders.covers(url))  # noqa: PLW0108 (they change)
                self._collections[row.id] = (row.revision, collection, admission)

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
        offers: defaultdict[int, list[Offer]] = defaultdict(list)
        for walk, some in [*learned, *((walk, done.offers) for walk, done in finished)]:
            offers[walk.lease.collection] += some
        walks = [walk for walk, _ in learned]
        batch = self._reports(finished, leaving, walks)  # as things stand now: the walks go on meanwhile
        await asyncio.to_thread(self._writer.seal())
        if not self._holds():
            raise LeaseLost(f"worker {self._name} could not write for longer than its lease")
        await self._deliver(offers)
        for part in _parts(batch):
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

    async def _deliver(self, offers: dict[int, list[Offer]]) -> None:
        for collection, some in offers.items():
            news = self._delivered.news(collection, some)
            for start in range(0, len(news), OFFERS_PER_CALL_MAX):
                await self._frontier.discover(collection, news[start : start + OFFERS_PER_CALL_MAX])
            self._delivered.remember(collection, news)

    def _reports(
        self, finished: list[tuple[Walk, Finished]], leaving: list[Walk], learned: list[Walk]
    ) -> list[tuple[Walk, HostReport]]:
        """One report per host that something happened on."""
        reports: defaultdict[HostId, list[Report]] = defaultdict(list)
        touched = (*learned, *leaving, *(walk for walk, _ in finished))
        walks = {walk.lease.host: walk for walk in touched if not walk.released}  # else it is somebody's, maybe ours
        gone = {walk.lease.host for walk in leaving if not walk.released}
        for walk, done in finished:
            reports[walk.lease.host].append(Report(done.visit.id, done.visit.number, done.record.outcome))
        batch: list[tuple[Walk, HostReport]] = []
        for host, walk in walks.items():
            robots, walk.new_robots = walk.new_robots, None
            report = HostReport(
                host,
                walk.lease.collection,
                reports[host],
                walk.next_at,
                walk.ended_at,
                walk.delay_s,
                keep=host not in gone,
                wanted=walk.wanted,
                failures=walk.failures,
                robots=robots,
                memory=walk.memory.news() if host in gone or not walk.queue else None,
                trouble=walk.trouble,
            )
            batch.append((walk, report))
        return batch


def _parts(batch: list[tuple[Walk, HostReport]]) -> Iterator[list[tuple[Walk, HostReport]]]:
    """So many reports that a message stays small, robots.txt texts and all."""
    part: list[tuple[Walk, HostReport]] = []
    size = 0
    for walk, report in batch:
        part.append((walk, report))
        size += 1000 * (1 + len(report.reports)) + len(report.robots.text if report.robots else b"")
        if size > MESSAGE_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


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
