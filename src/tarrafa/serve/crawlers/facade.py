"""Who is calling, what is it told, and what became of what it said?

Behind each crawler stands a `Relay`, opened by its first call and renewed by every other; the notebook remembers enough
to open it again after we were killed. Promises: what was acknowledged is not lost; any call may be repeated; two
crawlers never hold one host; a crawler that falls silent loses its hosts by the frontier's own rule, and hears so.
Knows nothing of HTTP.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from weakref import WeakValueDictionary

from tarrafa.clock import Clock
from tarrafa.crawl.brought import links_of
from tarrafa.crawl.messenger import Errand, Key, Settled
from tarrafa.crawl.relay import Relay
from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, FrontierError, LeaseLost, NameTaken, TarrafaError
from tarrafa.frontier.address import Address, connect, local
from tarrafa.frontier.timing import agree
from tarrafa.graph.reader import GraphReader
from tarrafa.graph.store import is_there
from tarrafa.model import Link, Outcome, Role
from tarrafa.serve.crawlers.changes import changes, in_links_of
from tarrafa.serve.crawlers.notebook import Given, Notebook
from tarrafa.serve.crawlers.refusals import Conflict, Crowded, Lost, Malformed, Refusal, Unknown
from tarrafa.serve.crawlers.shapes import (
    ChangesAsked,
    ChangesTold,
    LeaveAsked,
    LeaveTold,
    LinksAsked,
    LinksTold,
    TypeAsked,
    TypeTold,
    VisitTold,
    WorkAsked,
    WorkTold,
)
from tarrafa.serve.crawlers.words import brought_of, id_of, rounded, status_of, visit_told, worker_name

CRAWLERS_MAX = 100  # at once
IN_LINKS_SHOWN = 1_000  # of one visit
ASK_AGAIN_S = 1.0
SWEEP_EVERY_S = 10.0


class Facade:
    """The conversations. Use it in an `async with`."""

    def __init__(self, data: DataDirectory, address: Address | None = None, clock: Clock | None = None) -> None:
        self._data, self._address, self._clock = data, address or local(data), clock or Clock.from_environment()
        self._notebook: Notebook | None = None
        self._graph: GraphReader | None = None
        self._relays: dict[str, Relay] = {}
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._sweeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "Facade":
        self._notebook = await asyncio.to_thread(Notebook, self._data.crawlers)
        self._sweeping = asyncio.create_task(self._sweep())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Crawlers go on when we are back: nothing is handed back in their name."""
        assert self._sweeping is not None
        self._sweeping.cancel()
        await asyncio.gather(self._sweeping, return_exceptions=True)
        for name in list(self._relays):
            await self._close(name)
        self._book.close()

    # -- the conversations -------------------------------------------------------------------------------------

    async def work(self, asked: WorkAsked) -> WorkTold:
        """*Give me work*: everything that the crawler is to fetch now, what it was told before included."""
        try:
            return await self._work(asked)
        except Lost:  # only now it came out; it begins anew
            return await self._work(asked)

    async def _work(self, asked: WorkAsked) -> WorkTold:
        async with self._relay(asked.crawler, joins=True) as relay:
            assert relay is not None
            errands = await relay.work(asked.hosts, restarted=asked.restarted)
            visits = await self._tell(asked.crawler, errands)
            if visits or not asked.hosts:
                return WorkTold(asked.crawler, rounded(await relay.renew()), visits)
            running = await relay.is_any_running()
            reason = "nothing may be visited now" if running else "no collection is running"
            return WorkTold(asked.crawler, rounded(await relay.renew()), [], ASK_AGAIN_S, reason, running)

    async def links(self, asked: LinksAsked) -> LinksTold:
        """*Here are new links and who points to them*: durable when this returns, delivered when the visit is over."""
        key = (id_of(asked.source, "from"), asked.visit)
        self._data.check_space()
        async with self._relay(asked.crawler) as relay:
            errand = await self._errand(relay, key)
            if relay is None or errand is None:
                await self._past(relay, asked.crawler, key)
                raise Lost(f"{asked.source}: visit {asked.visit} is over; nothing can be added to it")
            if errand.visit is None:
                raise Conflict(f"{asked.source}: robots.txt leads nowhere; bring it as it is")
            told = [Link(one.url, one.anchor, one.rel) for one in asked.targets]
            async with self._turn(asked.crawler):
                if not errand.is_open:
                    raise Lost(f"{asked.source}: visit {asked.visit} is over; nothing can be added to it")
                before = await asyncio.to_thread(self._book.links, asked.crawler, *key)
                identity = errand.walk.admission.identity
                links, unusable = links_of(errand.visit.url, identity, told, before, asked.base, asked.charset)
                await asyncio.to_thread(self._book.keep_links, asked.crawler, *key, links)
            return LinksTold(rounded(relay.left_s()), len(links), unusable)

    async def type(self, asked: TypeAsked) -> TypeTold:
        """*This URL is of that type*, or gone: the end of a visit, and what comes next on its host."""
        key = (id_of(asked.url, "url"), asked.visit)
        status = status_of(asked)
        self._data.check_space()
        async with self._relay(asked.crawler) as relay:
            errand = await self._errand(relay, key)
            if relay is None or errand is None:
                settled = await self._past(relay, asked.crawler, key)
                return await self._ended(relay, asked.crawler, settled, repeated=True)
            if status == 200 and not asked.type and errand.visit is not None and errand.visit.role == Role.PAGE:
                raise Malformed("type: a page that is there (200) has one, such as text/html")
            async with self._turn(asked.crawler):  # no more links are taken from here on
                links = await asyncio.to_thread(self._book.links, asked.crawler, *key)
                relay.answer(errand, brought_of(asked, status, links))
            settled = await relay.conclusion(errand)
            await asyncio.to_thread(self._book.drop_links, asked.crawler, *key)
            return await self._ended(relay, asked.crawler, settled)

    async def changes(self, asked: ChangesAsked) -> ChangesTold:
        """*What changed in the in-links of what is mine?* Needs no frontier; if there is one, the lease is renewed."""
        with contextlib.suppress(FrontierError, Refusal):
            async with self._relay(asked.crawler):
                pass
        async with self._turn(asked.crawler):
            return await asyncio.to_thread(self._changes, asked)

    async def leave(self, asked: LeaveAsked) -> LeaveTold:
        """*I am leaving*: its hosts are free at once."""
        async with self._relay(asked.crawler) as relay:
            if relay is None:
                return LeaveTold(False)
            await relay.leave()
        await self._forget(asked.crawler, relay)
        return LeaveTold(True)

    # -- what is told ------------------------------------------------------------------------------------------

    async def _tell(self, crawler: str, errands: Sequence[Errand]) -> list[VisitTold]:
        return await asyncio.to_thread(self._write_and_tell, crawler, errands) if errands else []

    def _write_and_tell(self, crawler: str, errands: Sequence[Errand]) -> list[VisitTold]:
        """What a crawler is told of is written down first, or a repeated call could not be told from a false one."""
        told: list[VisitTold] = []
        given: list[Given] = []
        graph = self._find_graph()
        for errand in errands:
            visit, collection = errand.visit, errand.walk.collection.name
            links, total = in_links_of(graph, errand.key[0], collection, IN_LINKS_SHOWN) if visit else ([], 0)
            if visit is not None:
                is_all = len(links) < IN_LINKS_SHOWN
                given.append(Given(visit.id, visit.number, errand.host, collection, tuple(links), is_all))
            clock = errand.walk.kit.clock
            wait_s = (errand.not_before - clock.now()) / clock.scale
            told.append(visit_told(errand, wait_s, links, total))
        if given:
            self._book.give(crawler, given)
        return told

    async def _ended(self, relay: Relay | None, crawler: str, settled: Settled, *, repeated: bool = False) -> TypeTold:
        following = relay.next_of(settled.host) if relay is not None else None
        told = await self._tell(crawler, [following] if following is not None else [])
        left_s = rounded(relay.left_s()) if relay is not None else 0.0
        outcome = settled.outcome
        return TypeTold(left_s, outcome.status, outcome.kept, settled.finished, repeated, told[0] if told else None)

    def _changes(self, asked: ChangesAsked) -> ChangesTold:
        graph = GraphReader(self._data) if self._graph is None and is_there(self._data) else self._graph
        self._graph = graph
        return changes(self._book, graph, asked.crawler, worker_name(asked.crawler), asked.after)

    def _find_graph(self) -> GraphReader | None:
        """The graph, if there is one that can be read: work is to be had without."""
        if self._graph is None:
            with contextlib.suppress(DataError):
                self._graph = GraphReader(self._data)
        return self._graph

    # -- what was said -----------------------------------------------------------------------------------------

    async def _errand(self, relay: Relay | None, key: Key) -> Errand | None:
        return await relay.find_errand(key) if relay is not None and relay.settled(key) is None else None

    async def _past(self, relay: Relay | None, crawler: str, key: Key) -> Settled:
        """What became of a visit that is no longer under way, if it was this crawler who finished it."""
        settled = relay.settled(key) if relay is not None else None
        if settled is not None:
            return settled
        if not key[1]:
            raise Lost("this robots.txt is not wanted, or not any more; ask for work")
        given = await asyncio.to_thread(self._book.visit, crawler, *key)
        if given is None:
            raise Unknown(f"{key[0].hex()}: crawler {crawler!r} was never given visit {key[1]} of this URL")
        async with contextlib.AsyncExitStack() as stack:
            if relay is None:
                frontier = await connect(self._address, self._clock)
                stack.push_async_callback(frontier.close)
                facts = await frontier.look_up(given.host, given.id)
            else:
                facts = await relay.look_up(given.host, given.id)
        for url in facts.urls:
            for past in url.history:
                mine = url.collection == given.collection and past.worker == worker_name(crawler)
                if mine and past.number == key[1]:
                    return Settled(given.host, Outcome(past.status, past.at, kept=url.state == "fetched"))
        await asyncio.to_thread(self._book.drop_links, crawler, *key)
        raise Lost(
            f"{key[0].hex()}: visit {key[1]} is no longer with crawler {crawler!r}, who was silent for too long"
            " or took longer than the document's time limit; ask for work"
        )

    # -- relays ------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _relay(self, crawler: str, *, joins: bool = False) -> AsyncIterator[Relay | None]:
        """The crawler's relay, its lease renewed; None if it does not take part, and is not to begin."""
        async with self._turn(crawler):
            relay = await self._renewed(crawler)
            if relay is None and joins:
                relay = await self._joined(crawler)
        try:
            yield relay
        except LeaseLost:
            await self._forget(crawler, relay)
            raise Lost(f"crawler {crawler!r} was silent for too long, and has lost its hosts; ask for work") from None
        except Refusal:
            raise
        except TarrafaError:  # whatever it is, everything begins anew from what the frontier knows
            async with self._turn(crawler):
                if self._relays.get(crawler) is relay:  # else another call has begun anew already
                    await self._close(crawler)
            raise

    async def _renewed(self, crawler: str) -> Relay | None:
        relay = self._relays.get(crawler)
        try:
            if relay is not None and relay.broken is None and await self._is_alive(relay):
                return relay
            await self._close(crawler)
            worker = await asyncio.to_thread(self._book.worker_of, crawler)
            return await self._resumed(crawler, worker) if worker is not None else None
        except LeaseLost:
            await self._close(crawler)
            await asyncio.to_thread(self._book.set_worker, crawler, None)
            return None
        except TarrafaError:
            await self._close(crawler)
            raise

    async def _is_alive(self, relay: Relay) -> bool:
        """Renew its lease; where its line is broken, another one may be had."""
        try:
            await relay.renew()
        except LeaseLost:
            raise
        except FrontierError:
            return False
        return True

    async def _resumed(self, crawler: str, worker: int) -> Relay:
        """As the worker that it was: we were restarted, or the frontier was."""
        relay = await self._opened(crawler)
        await relay.resume(worker, await asyncio.to_thread(self._book.given, crawler))
        return relay

    async def _joined(self, crawler: str) -> Relay:
        relay = await self._opened(crawler)
        try:
            number = await relay.join()
        except NameTaken as error:
            await self._close(crawler)
            raise FrontierError(f"{error}; if we were killed a moment ago, ask again in half a minute") from None
        except TarrafaError:
            await self._close(crawler)
            raise
        await asyncio.to_thread(self._book.set_worker, crawler, number)
        return relay

    async def _opened(self, crawler: str) -> Relay:
        if len(self._relays) >= CRAWLERS_MAX:
            raise Crowded(f"{CRAWLERS_MAX} crawlers are at work already; ask again later")
        name = worker_name(crawler)
        frontier = await connect(self._address, self._clock, self._data.outbox / name)
        try:
            agreed = await agree(frontier, self._clock)
        except BaseException:
            await frontier.close()
            raise
        relay = self._relays[crawler] = Relay(self._data, name, self._address, frontier, agreed)
        return relay

    async def _close(self, crawler: str) -> None:
        relay = self._relays.pop(crawler, None)
        if relay is not None:
            await relay.abandon()

    async def _forget(self, crawler: str, relay: Relay | None) -> None:
        """It is no worker any more, unless another call has made it one meanwhile."""
        async with self._turn(crawler):
            if self._relays.get(crawler) is relay:
                await self._close(crawler)
                await asyncio.to_thread(self._book.set_worker, crawler, None)

    async def _sweep(self) -> None:
        """Close what nobody has called for so long that its lease is over."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            for name in [name for name, relay in self._relays.items() if relay.is_forgotten()]:
                async with self._turn(name):
                    relay = self._relays.get(name)
                    if relay is not None and relay.is_forgotten():
                        await self._close(name)

    def _turn(self, crawler: str) -> asyncio.Lock:
        return self._turns.setdefault(crawler, asyncio.Lock())

    @property
    def _book(self) -> Notebook:
        assert self._notebook is not None, "not opened"
        return self._notebook
