"""The coordinator node: a lasting supervisor with the coordinator in the same process.

A supervisor that lasts, with the coordinator beside it: in one process, so that nothing need be installed and nothing
can be out of step. Its own beats reach the registry without a network. Promises: what runs when it ends runs again
when it is back; when the frontier does not answer, people see that, and everything goes on when it does.
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
from tarrafa.coordinator.node.health import NodeHealth
from tarrafa.coordinator.node.local_control import ControlServer
from tarrafa.coordinator.node.messages import NODE_HEARTBEAT_EVERY_S, JoinResponse, NodeOrders
from tarrafa.coordinator.notify.notice_outbox import NoticeOutbox, Notifier, make_notice
from tarrafa.coordinator.notify.transports import NotifyEnvironment
from tarrafa.coordinator.store import CoordinatorStore, store_path
from tarrafa.crawl.supervisor.frontier_link import FrontierLink, RemoteFrontierLink
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.frontier.address import Address, PostgresServers, TcpServer
from tarrafa.frontier.messages import CollectionStatus, FrontierOverview
from tarrafa.i18n import Message
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint

log = logging.getLogger(__name__)
NOTICE_NUMBERS = ("fetched", "known", "pending", "failed", "visits", "requests")


class CoordinatorNode:
    """Use it in an `async with`, and `run` it. `workers`: how many it has if nobody orders otherwise."""

    def __init__(
        self,
        data: DataDirectory,
        name: str,
        workers: int,
        clock: Clock,
        say: Callable[[str], None],
        keeper: FrontierLink | None = None,
        divided: ShardLayout | None = None,
    ) -> None:
        data.create()
        self.data, self.name, self._clock = data, name, clock
        self._store = CoordinatorStore.open(data)
        self.notifier = Notifier(NoticeOutbox(store_path(data)), NotifyEnvironment.from_environment(), time.time)
        self.coordinator = Coordinator(
            self._store, lambda: self.supervisor.frontier, clock, self._notify, name, self.notifier.delivery_problems
        )
        orders = self._stored_orders()
        employed = worker_count(orders, workers)
        self._vitals = NodeHealth(data, name, f"{name}-")
        self.supervisor = Supervisor(
            data, employed, clock, frontier_link=keeper, name=f"{name}-", lasting=True, divided=divided, patient=True,
            limits=worker_limits(orders, max(1, employed)), tell=say,
        )  # fmt: skip
        self._living = NodeAgent(self.supervisor, self._vitals, workers, orders, say)
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    def _notify(
        self,
        event: str,
        collection: Collection,
        told: Message | str,
        status: CollectionStatus | None,
        occasion: object,
    ) -> None:
        """Those hear of it who want to."""
        numbers = {name: getattr(status, name) for name in NOTICE_NUMBERS} if status is not None else {}
        sentence = f"{collection.name} {event}: {told}"
        notice = make_notice(collection.name, event, self._clock.now(), sentence, numbers, occasion)
        self.notifier.notify(notice, collection.notify)

    @property
    def frontier_address(self) -> Address:
        return self.supervisor.frontier_link.address

    @property
    def remote_frontier(self) -> Address | None:
        """Where the frontier is, if it is elsewhere."""
        return self.frontier_address if isinstance(self.supervisor.frontier_link, RemoteFrontierLink) else None

    async def overview(self) -> FrontierOverview:
        """The state of things, for those who only look."""
        if self.coordinator.overview.current is None:
            raise Unreachable("the frontier has not answered yet")
        return self.coordinator.overview.current

    def _stored_orders(self) -> NodeOrders:
        try:
            return self.coordinator.nodes.orders(self.name)
        except ConfigError:  # it never lived before
            return NodeOrders()

    async def __aenter__(self) -> "CoordinatorNode":
        self._stack.callback(self._store.close)
        try:
            await self._stack.enter_async_context(self.supervisor)
            await self._stack.enter_async_context(self._living)
            with contextlib.suppress(Unreachable):
                await self.coordinator.overview.refresh()  # whoever asks first sees what there is
            audit = AuditLog(self.data, self._clock.now)
            await self._stack.enter_async_context(ControlServer(self.data, self.coordinator, audit))
        except BaseException:
            await self._stack.aclose()
            raise
        self._tasks = [
            asyncio.create_task(self._heartbeat_loop()),
            asyncio.create_task(self.notifier.deliver_forever()),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def run(self) -> None:
        """Until somebody ends us."""
        async for _ in self.overviews():
            pass

    async def overviews(self) -> AsyncGenerator[FrontierOverview, None]:
        """The state of things a few times a second, looked at by the coordinator."""
        async for overview in self.supervisor.overviews():
            with contextlib.suppress(Unreachable):  # then it is waited for
                await self.coordinator.tick(overview)
            yield overview

    async def _heartbeat_loop(self) -> None:
        while True:
            try:
                self._living.apply_orders(
                    self.coordinator.nodes.receive_heartbeat(self._living.heartbeat(), time.time())
                )
            except Exception:  # a disk without room, a guest who has our name: whatever it is, the next beat comes
                log.exception("our own beat")
            await asyncio.sleep(NODE_HEARTBEAT_EVERY_S)

    def credentials_mark(self) -> str:
        """Another one when the secrets for sites are others."""
        states = [
            (name, file_fingerprint(credentials.credentials_path(self.data, name)))
            for name in credentials.collections_with_credentials(self.data)
        ]
        return hashlib.blake2s(repr(states).encode(), digest_size=8).hexdigest()

    async def make_join_response(self, orders: NodeOrders) -> JoinResponse:
        """Where those find the frontier who want to join us."""
        address, kept = self.supervisor.frontier_link.address_for_others, credentials.export_bundle(self.data)
        if isinstance(address, TcpServer):
            return JoinResponse((str(address),), address.token.secret.decode(), orders, kept)
        if isinstance(address, PostgresServers):
            return JoinResponse(tuple(address.texts()), "", orders, kept)
        raise ConfigError("the frontier is open to this machine only; let the coordinator's node --listen HOST:PORT")
