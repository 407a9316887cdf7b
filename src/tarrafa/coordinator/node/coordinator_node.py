"""The coordinator node: a lasting supervisor with the coordinator in the same process.

Its own heartbeats reach the registry without a network. Promises: collections that run when it ends continue at its
next start; while the frontier is unreachable, people see that, and everything waits for it.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Callable

from tarrafa import credentials
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinator.audit import AuditLog
from tarrafa.coordinator.coordinator import Coordinator
from tarrafa.coordinator.node.agent import NodeAgent, worker_count, worker_limits
from tarrafa.coordinator.node.control_socket import ControlServer
from tarrafa.coordinator.node.messages import NODE_HEARTBEAT_EVERY_S, JoinResponse, NodeHeartbeat, NodeOrders
from tarrafa.coordinator.node.process_health import NodeHealth
from tarrafa.coordinator.notify.notice_outbox import NoticeOutbox, Notifier, make_notice
from tarrafa.coordinator.notify.webhook_and_mail import NotifyEnvironment
from tarrafa.coordinator.store import CoordinatorStore
from tarrafa.coordinator.watch.watch_follower import WATCH_EVERY_S, run_watch_pass
from tarrafa.coordinator.watch.watch_messages import notice_without_taken_down
from tarrafa.crawl.supervisor.frontier_link import FrontierLink, RemoteFrontierLink
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.errors import ConfigError, Locked, TarrafaError, Unreachable
from tarrafa.frontier.address import Address, PostgresServers, TcpServer
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import Message, message
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.takedown import CurrentTakedowns

log = logging.getLogger(__name__)
NOTICE_NUMBERS = ("fetched", "known", "pending", "failed", "visits", "requests")


class CoordinatorNode:
    """Use it in an `async with`, and `run` it. `workers`: their number, unless orders say otherwise. `submitted`: a
    collection to crawl from the start; `scrub_every_s`: how often all data are verified; `store`: where the archive of
    all machines is (`Supervisor`)."""

    def __init__(
        self,
        data: DataDirectory,
        name: str,
        workers: int,
        clock: Clock,
        print_line: Callable[[str], None],
        frontier_link: FrontierLink | None = None,
        divided: ShardLayout | None = None,
        submitted: Collection | None = None,
        scrub_every_s: float = 0.0,
        store: str | None = None,
    ) -> None:
        data.create()
        self.data, self.name, self._clock = data, name, clock
        self._store = CoordinatorStore(data)
        takedowns = CurrentTakedowns(data)
        self.notifier = Notifier(
            NoticeOutbox(data.coordinator), NotifyEnvironment.from_environment(), time.time,
            lambda notice: notice_without_taken_down(notice, takedowns.now()),
        )  # fmt: skip
        self.site_address = ""  # of the search page and the console, for links in messages
        self.coordinator = Coordinator(
            self._store, lambda: self.supervisor.frontier, clock, self._notify, name, self.notifier.delivery_problems
        )
        orders = self._stored_orders()
        count = worker_count(orders, workers)
        self.supervisor = Supervisor(
            data, count, clock, frontier_link=frontier_link, name=f"{name}-", lasting=True, divided=divided,
            patient=True, limits=worker_limits(orders, max(1, count)), print_line=print_line,
            submitted=submitted, scrub_every_s=scrub_every_s, store=store,
        )  # fmt: skip
        self._health = NodeHealth(data, name, f"{name}-")
        self._agent = NodeAgent(self.supervisor, self._health, workers, orders, print_line)
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    def _notify(
        self,
        event: str,
        collection: Collection,
        reason: Message | str,
        status: CollectionStatus | None,
        occasion: object,
    ) -> None:
        numbers = {name: getattr(status, name) for name in NOTICE_NUMBERS} if status is not None else {}
        sentence = f"{collection.name} {event}: {reason}"
        notice = make_notice(collection.name, event, self._clock.now(), sentence, numbers, occasion)
        self.notifier.notify(notice, collection.notify)

    @property
    def last_heartbeat(self) -> NodeHeartbeat | None:
        return self._health.last

    @property
    def frontier_address(self) -> Address:
        return self.supervisor.frontier_link.address

    @property
    def remote_frontier(self) -> Address | None:
        """The frontier's address, if the frontier is remote."""
        return self.frontier_address if isinstance(self.supervisor.frontier_link, RemoteFrontierLink) else None

    async def overview(self) -> FrontierOverview:
        """The latest overview of the frontier."""
        if self.coordinator.overview.current is None:
            raise Unreachable(message("the frontier has not answered yet"))
        return self.coordinator.overview.current

    def _stored_orders(self) -> NodeOrders:
        try:
            return self.coordinator.nodes.orders(self.name)
        except ConfigError:  # its first start
            return NodeOrders()

    async def __aenter__(self) -> "CoordinatorNode":
        self._stack.callback(self._store.close)
        try:
            await self._stack.enter_async_context(self.supervisor)
            await self._stack.enter_async_context(self._agent)
            with contextlib.suppress(Unreachable):
                await self.coordinator.overview.refresh()  # so that the first request sees an overview
            audit = AuditLog(self.data, self._clock.now)
            await self._stack.enter_async_context(ControlServer(self.data, self.coordinator, audit))
        except BaseException:
            await self._stack.aclose()
            raise
        self._tasks = [
            asyncio.create_task(self._heartbeat_loop()),
            asyncio.create_task(self.notifier.deliver_forever()),
            asyncio.create_task(self._watch_loop()),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def run(self) -> None:
        """Run until cancelled."""
        async for _ in self.overviews():
            pass

    async def overviews(self) -> AsyncGenerator[FrontierOverview, None]:
        """Overviews of the frontier, a few times a second, after the coordinator has seen them."""
        async for overview in self.supervisor.overviews():
            with contextlib.suppress(Unreachable):  # the supervisor waits for it
                await self.coordinator.tick(overview)
            yield overview

    async def _heartbeat_loop(self) -> None:
        while True:
            try:
                orders = self.coordinator.nodes.receive_heartbeat(self._agent.heartbeat(), time.time())
                self._agent.apply_orders(orders)
            except Exception:  # such as a full disk, or another node with our name: the next heartbeat still comes
                log.exception("heartbeat of the coordinator node")
            await asyncio.sleep(NODE_HEARTBEAT_EVERY_S)

    async def _watch_loop(self) -> None:
        """Look for changes of what is watched. After an error, such as a full disk, the next pass reads it again."""
        while True:
            try:
                found = await asyncio.to_thread(
                    run_watch_pass, self.data, self.site_address, self._clock.now(), time.time()
                )
                if found:
                    self.notifier.wake()
            except Locked:  # `tarrafa watch update` does it just now
                pass
            except TarrafaError as error:
                log.warning("watches: %s", error)
            except Exception:
                log.exception("watches")
            await asyncio.sleep(WATCH_EVERY_S)

    def credentials_mark(self) -> str:
        """Changes when the credentials for crawled sites change."""
        states = [
            (name, file_fingerprint(credentials.credentials_path(self.data, name)))
            for name in credentials.collections_with_credentials(self.data)
        ]
        return hashlib.blake2s(repr(states).encode(), digest_size=8).hexdigest()

    async def make_join_response(self, orders: NodeOrders) -> JoinResponse:
        """The frontier's address, orders and credentials, for a node that joins."""
        address, bundle = self.supervisor.frontier_link.address_for_others, credentials.export_bundle(self.data)
        if isinstance(address, TcpServer):
            return JoinResponse((str(address),), address.token.secret.decode(), orders, bundle)
        if isinstance(address, PostgresServers):
            return JoinResponse(tuple(address.texts()), "", orders, bundle)
        raise ConfigError(
            "the frontier is open to this machine only; start the coordinating node with --listen HOST:PORT"
        )
