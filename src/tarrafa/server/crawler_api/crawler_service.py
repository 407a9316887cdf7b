"""Serves external crawlers: keeps one relay worker per crawler, hands out visits, takes their results.

Each crawler has a `Relay` worker, opened by its first call; every call renews its lease. `crawler_store` holds enough
to open it again after a kill. Promises: acknowledged data are not lost; any call may be repeated; two crawlers never
hold one host; a silent crawler loses its hosts as any worker does, and its next call says so. Knows nothing of HTTP.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from weakref import WeakValueDictionary

from tarrafa.clock import Clock
from tarrafa.crawl.relay.crawler_result import merge_links
from tarrafa.crawl.relay.relay import Relay
from tarrafa.crawl.relay.remote_fetch import FetchTask, SettledVisit, VisitKey
from tarrafa.errors import DataError, FrontierError, LeaseLost, NameTaken, TarrafaError
from tarrafa.frontier.address import Address, connect, local_address
from tarrafa.frontier.clock_sync import sync_clock
from tarrafa.graph.graph_writer import graph_exists
from tarrafa.graph.reader import GraphReader
from tarrafa.model import Link, Outcome, UrlRole
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.server.crawler_api.crawler_store import AssignedVisit, CrawlerStore
from tarrafa.server.crawler_api.inlink_changes import in_links_of, inlink_changes
from tarrafa.server.crawler_api.messages import (
    ConflictingCall,
    CrawlerApiError,
    CrawlerChangesRequest,
    CrawlerChangesResponse,
    CrawlerLeaveRequest,
    CrawlerLeaveResponse,
    CrawlerLinksRequest,
    CrawlerLinksResponse,
    CrawlerTypeRequest,
    CrawlerTypeResponse,
    CrawlerWorkRequest,
    CrawlerWorkResponse,
    LostVisit,
    MalformedCall,
    TooManyCrawlers,
    UnknownVisit,
    VisitMessage,
    parse_url_id,
    reported_status,
    round_to_ms,
    to_fetch_result,
    to_visit_message,
    worker_name,
)

CRAWLERS_MAX = 100  # at once
IN_LINKS_SHOWN = 1_000  # of one visit
RETRY_S = 1.0
SWEEP_EVERY_S = 10.0


class CrawlerService:
    """The calls of external crawlers. Use it in an `async with`."""

    def __init__(self, data: DataDirectory, address: Address | None = None, clock: Clock | None = None) -> None:
        self._data, self._address, self._clock = data, address or local_address(data), clock or Clock.from_environment()
        self._store: CrawlerStore | None = None
        self._graph: GraphReader | None = None
        self._relays: dict[str, Relay] = {}
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._sweeping: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "CrawlerService":
        self._store = await asyncio.to_thread(CrawlerStore, self._data.crawlers)
        self._sweeping = asyncio.create_task(self._close_idle_relays())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is handed back: crawlers go on after a restart."""
        assert self._sweeping is not None
        self._sweeping.cancel()
        await asyncio.gather(self._sweeping, return_exceptions=True)
        for name in list(self._relays):
            await self._close(name)
        self._open_store.close()

    # -- calls -------------------------------------------------------------------------------------------------

    async def work(self, call: CrawlerWorkRequest) -> CrawlerWorkResponse:
        """All visits that the crawler is to make now, those of earlier responses included."""
        try:
            return await self._work(call)
        except LostVisit:  # the lease was lost: the crawler joins again
            return await self._work(call)

    async def _work(self, call: CrawlerWorkRequest) -> CrawlerWorkResponse:
        async with self._relay(call.crawler, joins=True) as relay:
            assert relay is not None
            tasks = await relay.lease_fetch_tasks(call.hosts, restarted=call.restarted)
            visits = await self._visit_messages(call.crawler, tasks)
            if visits or not call.hosts:
                return CrawlerWorkResponse(call.crawler, round_to_ms(await relay.renew()), visits)
            running = await relay.is_any_running()
            reason = "nothing may be visited now" if running else "no collection is running"
            return CrawlerWorkResponse(call.crawler, round_to_ms(await relay.renew()), [], RETRY_S, reason, running)

    async def links(self, call: CrawlerLinksRequest) -> CrawlerLinksResponse:
        """Take links of a page: durable when this returns, delivered when the visit is over."""
        key = (parse_url_id(call.source, "from"), call.visit)
        self._data.check_space()
        async with self._relay(call.crawler) as relay:
            task = await self._fetch_task(relay, key)
            if relay is None or task is None:
                await self._finished_visit(relay, call.crawler, key)
                raise LostVisit(f"{call.source}: visit {call.visit} is over; nothing can be added to it")
            if task.visit is None:
                raise ConflictingCall(f"{call.source}: robots.txt has no links; report its text")
            reported = [Link(one.url, one.anchor, one.rel) for one in call.targets]
            async with self._lock_of(call.crawler):
                if not task.is_open:
                    raise LostVisit(f"{call.source}: visit {call.visit} is over; nothing can be added to it")
                before = await asyncio.to_thread(self._open_store.links, call.crawler, *key)
                identity = task.session.admission.identity
                links, unusable = merge_links(task.visit.url, identity, reported, before, call.base, call.charset)
                await asyncio.to_thread(self._open_store.save_links, call.crawler, *key, links)
            return CrawlerLinksResponse(round_to_ms(relay.send_time_left_s()), len(links), unusable)

    async def type(self, call: CrawlerTypeRequest) -> CrawlerTypeResponse:
        """Take the result of a visit; returns the next visit on its host."""
        key = (parse_url_id(call.url, "url"), call.visit)
        status = reported_status(call)
        self._data.check_space()
        async with self._relay(call.crawler) as relay:
            task = await self._fetch_task(relay, key)
            if relay is None or task is None:
                settled = await self._finished_visit(relay, call.crawler, key)
                return await self._type_response(relay, call.crawler, settled, repeated=True)
            if status == 200 and not call.type and task.visit is not None and task.visit.role == UrlRole.PAGE:
                raise MalformedCall("type: a page with status 200 has one, such as text/html")
            async with self._lock_of(call.crawler):  # no more links are taken from here on
                links = await asyncio.to_thread(self._open_store.links, call.crawler, *key)
                relay.accept_result(task, to_fetch_result(call, status, links))
            settled = await relay.wait_until_settled(task)
            await asyncio.to_thread(self._open_store.delete_links, call.crawler, *key)
            return await self._type_response(relay, call.crawler, settled)

    async def changes(self, call: CrawlerChangesRequest) -> CrawlerChangesResponse:
        """The changed in-links of the crawler's URLs. Needs no frontier; if there is one, the lease is renewed."""
        with contextlib.suppress(FrontierError, CrawlerApiError):
            async with self._relay(call.crawler):
                pass
        async with self._lock_of(call.crawler):
            return await asyncio.to_thread(self._changes, call)

    async def leave(self, call: CrawlerLeaveRequest) -> CrawlerLeaveResponse:
        """End the crawler's lease: its hosts are free at once."""
        async with self._relay(call.crawler) as relay:
            if relay is None:
                return CrawlerLeaveResponse(False)
            await relay.leave()
        await self._forget(call.crawler, relay)
        return CrawlerLeaveResponse(True)

    # -- responses ---------------------------------------------------------------------------------------------

    async def _visit_messages(self, crawler: str, tasks: Sequence[FetchTask]) -> list[VisitMessage]:
        return await asyncio.to_thread(self._record_and_describe, crawler, tasks) if tasks else []

    def _record_and_describe(self, crawler: str, tasks: Sequence[FetchTask]) -> list[VisitMessage]:
        """Visits are recorded before they are sent: a repeated call must be told from a false one."""
        messages: list[VisitMessage] = []
        assigned: list[AssignedVisit] = []
        graph = self._find_graph()
        for task in tasks:
            visit, collection = task.visit, task.session.collection.name
            links, total = in_links_of(graph, task.key[0], collection, IN_LINKS_SHOWN) if visit else ([], 0)
            if visit is not None:
                is_all = len(links) < IN_LINKS_SHOWN
                assigned.append(AssignedVisit(visit.id, visit.number, task.host, collection, tuple(links), is_all))
            messages.append(to_visit_message(task, task.wait_s(), links, total))
        if assigned:
            self._open_store.record_visits(crawler, assigned)
        return messages

    async def _type_response(
        self, relay: Relay | None, crawler: str, settled: SettledVisit, *, repeated: bool = False
    ) -> CrawlerTypeResponse:
        following = relay.next_fetch_task(settled.host) if relay is not None else None
        messages = await self._visit_messages(crawler, [following] if following is not None else [])
        lease_s = round_to_ms(relay.send_time_left_s()) if relay is not None else 0.0
        status, kept, next_visit = settled.outcome.status, settled.outcome.kept, next(iter(messages), None)
        return CrawlerTypeResponse(lease_s, status, kept, settled.finished, repeated, next_visit)

    def _changes(self, call: CrawlerChangesRequest) -> CrawlerChangesResponse:
        graph = GraphReader(self._data) if self._graph is None and graph_exists(self._data) else self._graph
        self._graph = graph
        return inlink_changes(self._open_store, graph, call.crawler, worker_name(call.crawler), call.after)

    def _find_graph(self) -> GraphReader | None:
        """The graph, if there is one that can be read: visits do not need it."""
        if self._graph is None:
            with contextlib.suppress(DataError):
                self._graph = GraphReader(self._data)
        return self._graph

    # -- visits ------------------------------------------------------------------------------------------------

    async def _fetch_task(self, relay: Relay | None, key: VisitKey) -> FetchTask | None:
        return await relay.find_fetch_task(key) if relay is not None and relay.settled_visit(key) is None else None

    async def _finished_visit(self, relay: Relay | None, crawler: str, key: VisitKey) -> SettledVisit:
        """The result of a visit that is over, if this crawler finished it."""
        settled = relay.settled_visit(key) if relay is not None else None
        if settled is not None:
            return settled
        if not key[1]:
            raise LostVisit("this robots.txt is no longer needed; ask for work")
        given = await asyncio.to_thread(self._open_store.find_visit, crawler, *key)
        if given is None:
            raise UnknownVisit(f"{key[0].hex()}: crawler {crawler!r} was never given visit {key[1]} of this URL")
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
                    return SettledVisit(given.host, Outcome(past.status, past.at, kept=url.state == "fetched"))
        await asyncio.to_thread(self._open_store.delete_links, crawler, *key)
        raise LostVisit(
            f"{key[0].hex()}: visit {key[1]} is no longer with crawler {crawler!r}, who was silent for too long"
            " or took longer than the document's time limit; ask for work"
        )

    # -- relays ------------------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def _relay(self, crawler: str, *, joins: bool = False) -> AsyncIterator[Relay | None]:
        """The crawler's relay, with renewed lease; None if the crawler has not joined and the call does not join."""
        async with self._lock_of(crawler):
            relay = await self._renewed_relay(crawler)
            if relay is None and joins:
                relay = await self._join_relay(crawler)
        try:
            yield relay
        except LeaseLost:
            await self._forget(crawler, relay)
            raise LostVisit(
                f"crawler {crawler!r} was silent for too long, and has lost its hosts; ask for work"
            ) from None
        except CrawlerApiError:
            raise
        except TarrafaError:  # the relay is opened again from the frontier's state
            async with self._lock_of(crawler):
                if self._relays.get(crawler) is relay:  # else another call has opened it again already
                    await self._close(crawler)
            raise

    async def _renewed_relay(self, crawler: str) -> Relay | None:
        relay = self._relays.get(crawler)
        try:
            if relay is not None and relay.failure is None and await self._is_alive(relay):
                return relay
            await self._close(crawler)
            worker = await asyncio.to_thread(self._open_store.worker_of, crawler)
            return await self._resume_relay(crawler, worker) if worker is not None else None
        except LeaseLost:
            await self._close(crawler)
            await asyncio.to_thread(self._open_store.set_worker, crawler, None)
            return None
        except TarrafaError:
            await self._close(crawler)
            raise

    async def _is_alive(self, relay: Relay) -> bool:
        """Renew the lease; False: the connection is broken, and another one may be made."""
        try:
            await relay.renew()
        except LeaseLost:
            raise
        except FrontierError:
            return False
        return True

    async def _resume_relay(self, crawler: str, worker: int) -> Relay:
        """Go on as the same worker, after a restart of this process or of the frontier."""
        relay = await self._open_relay(crawler)
        await relay.resume(worker, await asyncio.to_thread(self._open_store.visit_keys, crawler))
        return relay

    async def _join_relay(self, crawler: str) -> Relay:
        relay = await self._open_relay(crawler)
        try:
            number = await relay.join()
        except NameTaken as error:
            await self._close(crawler)
            raise FrontierError(f"{error}; after a restart of this server, ask again in half a minute") from None
        except TarrafaError:
            await self._close(crawler)
            raise
        await asyncio.to_thread(self._open_store.set_worker, crawler, number)
        return relay

    async def _open_relay(self, crawler: str) -> Relay:
        if len(self._relays) >= CRAWLERS_MAX:
            raise TooManyCrawlers(f"{CRAWLERS_MAX} crawlers are at work already; ask again later")
        name = worker_name(crawler)
        frontier = await connect(self._address, self._clock, keeps_links=True)
        try:
            agreed = await sync_clock(frontier, self._clock)
        except BaseException:
            await frontier.close()
            raise
        relay = self._relays[crawler] = Relay(self._data, name, frontier, agreed)
        return relay

    async def _close(self, crawler: str) -> None:
        relay = self._relays.pop(crawler, None)
        if relay is not None:
            await relay.abandon()

    async def _forget(self, crawler: str, relay: Relay | None) -> None:
        """Close the relay and forget its worker, unless another call has opened a new one meanwhile."""
        async with self._lock_of(crawler):
            if self._relays.get(crawler) is relay:
                await self._close(crawler)
                await asyncio.to_thread(self._open_store.set_worker, crawler, None)

    async def _close_idle_relays(self) -> None:
        """Close relays whose lease is over."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            for name in [name for name, relay in self._relays.items() if relay.is_registration_expired()]:
                async with self._lock_of(name):
                    relay = self._relays.get(name)
                    if relay is not None and relay.is_registration_expired():
                        await self._close(name)

    def _lock_of(self, crawler: str) -> asyncio.Lock:
        return self._locks.setdefault(crawler, asyncio.Lock())

    @property
    def _open_store(self) -> CrawlerStore:
        assert self._store is not None, "not opened"
        return self._store
