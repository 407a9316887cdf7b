"""How does the node live that coordinates?

A supervisor that lasts, with the coordinator beside it: in one process, so that nothing need be installed and nothing
can be out of step. Its own beats reach the registry without a network. Promises: what runs when it ends runs again when
it is back; when the frontier does not answer, people see that, and everything goes on when it does.
"""

import asyncio
import contextlib
import hashlib
import logging
import time
from collections.abc import AsyncGenerator, Callable

from tarrafa import secrets
from tarrafa.clock import Clock
from tarrafa.config import Collection
from tarrafa.coordinate.audit import Audit
from tarrafa.coordinate.beats import BEAT_EVERY_S, Invitation, Orders
from tarrafa.coordinate.coordinator import Coordinator
from tarrafa.coordinate.ledger import Ledger, path_of
from tarrafa.coordinate.living import LivingNode, rations_of, workers_of
from tarrafa.coordinate.posting import Surroundings
from tarrafa.coordinate.states import Told
from tarrafa.coordinate.telling import Outbox, Teller, make_notice
from tarrafa.coordinate.terminal import Terminal
from tarrafa.coordinate.vitals import Vitals
from tarrafa.crawl.keeping import FarFrontier, Keeper
from tarrafa.crawl.supervise import Supervisor
from tarrafa.data import DataDirectory, state_of
from tarrafa.errors import ConfigError, Unreachable
from tarrafa.frontier.address import Address, PostgresServers, TcpServer
from tarrafa.frontier.protocol import CollectionStatus, Overview
from tarrafa.index.shards import Shards

log = logging.getLogger(__name__)
NUMBERS = ("fetched", "known", "pending", "failed", "visits", "requests")


class Home:
    """Use it in an `async with`, and `run` it. `workers`: how many it has if nobody orders otherwise."""

    def __init__(
        self,
        data: DataDirectory,
        name: str,
        workers: int,
        clock: Clock,
        say: Callable[[str], None],
        keeper: Keeper | None = None,
        divided: Shards | None = None,
    ) -> None:
        data.create()
        self.data, self.name, self._clock = data, name, clock
        self._ledger = Ledger.at(data)
        self.teller = Teller(Outbox(path_of(data)), Surroundings.from_environment(), time.time)
        self.coordinator = Coordinator(
            self._ledger, lambda: self.supervisor.frontier, clock, self._tell, name, self.teller.troubles
        )
        orders = self._orders()
        employed = workers_of(orders, workers)
        self._vitals = Vitals(data, name, f"{name}-")
        self.supervisor = Supervisor(
            data, employed, clock, keeper=keeper, name=f"{name}-", lasting=True, divided=divided, patient=True,
            rations=rations_of(orders, max(1, employed)), tell=say,
        )  # fmt: skip
        self._living = LivingNode(self.supervisor, self._vitals, workers, orders, say)
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    def _tell(
        self, event: str, collection: Collection, told: Told, status: CollectionStatus | None, occasion: object
    ) -> None:
        """Those hear of it who want to."""
        numbers = {name: getattr(status, name) for name in NUMBERS} if status is not None else {}
        sentence = f"{collection.name} {event}: {told.en}"
        notice = make_notice(collection.name, event, self._clock.now(), sentence, numbers, occasion)
        self.teller.tell(notice, collection.notify)

    @property
    def address(self) -> Address:
        return self.supervisor.keeper.address

    @property
    def others(self) -> Address | None:
        """Where the frontier is, if it is elsewhere."""
        return self.address if isinstance(self.supervisor.keeper, FarFrontier) else None

    async def status(self) -> Overview:
        """The state of things, for those who only look."""
        if self.coordinator.overview is None:
            raise Unreachable("the frontier has not answered yet")
        return self.coordinator.overview

    def _orders(self) -> Orders:
        try:
            return self.coordinator.nodes.orders(self.name)
        except ConfigError:  # it never lived before
            return Orders()

    async def __aenter__(self) -> "Home":
        self._stack.callback(self._ledger.close)
        try:
            await self._stack.enter_async_context(self.supervisor)
            await self._stack.enter_async_context(self._living)
            with contextlib.suppress(Unreachable):
                await self.coordinator.refresh()  # whoever asks first sees what there is
            audit = Audit(self.data, self._clock.now)
            await self._stack.enter_async_context(Terminal(self.data, self.coordinator, audit))
        except BaseException:
            await self._stack.aclose()
            raise
        self._tasks = [asyncio.create_task(self._beat_for_ever()), asyncio.create_task(self.teller.keep_on())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def run(self) -> None:
        """Until somebody ends us."""
        async for _ in self.looks():
            pass

    async def looks(self) -> AsyncGenerator[Overview, None]:
        """The state of things a few times a second, looked at by the coordinator."""
        async for overview in self.supervisor.overviews():
            with contextlib.suppress(Unreachable):  # then it is waited for
                await self.coordinator.look(overview)
            yield overview

    async def _beat_for_ever(self) -> None:
        while True:
            try:
                self._living.obey(self.coordinator.nodes.take(self._living.beat(), time.time()))
            except Exception:  # a disk without room, a guest who has our name: whatever it is, the next beat comes
                log.exception("our own beat")
            await asyncio.sleep(BEAT_EVERY_S)

    def mark(self) -> str:
        """Another one when the secrets for sites are others."""
        states = [(name, state_of(secrets.path_of(self.data, name))) for name in secrets.names(self.data)]
        return hashlib.blake2s(repr(states).encode(), digest_size=8).hexdigest()

    async def invite(self, orders: Orders) -> Invitation:
        """Where those find the frontier who want to join us."""
        address, kept = self.supervisor.keeper.others, secrets.bundle(self.data)
        if isinstance(address, TcpServer):
            return Invitation((str(address),), address.token.secret.decode(), orders, kept)
        if isinstance(address, PostgresServers):
            return Invitation(tuple(address.texts()), "", orders, kept)
        raise ConfigError("the frontier is open to this machine only; let the coordinator's node --listen HOST:PORT")
