"""How does a new machine take part?

It asks the coordinator for an invitation, learns where the frontier is and what to do, works, and says once a second
how it fares. Promises: a coordinator that is away is missed once, aloud, and asked for ever; meanwhile everything goes
on as it was ordered last. When it is back, the node says so, and learns if the frontier has moved.
Knows nothing of the command line.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

from tarrafa import __version__
from tarrafa.clock import Clock, boottime
from tarrafa.coordinate.answering import a_child
from tarrafa.coordinate.beats import BEAT_EVERY_S, SILENT_AFTER_S, Beat, Invitation, Joining
from tarrafa.coordinate.calling import Caller
from tarrafa.coordinate.living import LivingNode, rations_of, workers_of
from tarrafa.coordinate.vitals import Vitals
from tarrafa.crawl.children import Child
from tarrafa.crawl.keeping import FarFrontier
from tarrafa.crawl.supervise import Supervisor
from tarrafa.data import DataDirectory
from tarrafa.errors import FrontierError, NameTaken, Refused, Unreachable
from tarrafa.frontier.address import Address, TcpServer, parse
from tarrafa.frontier.token import Token
from tarrafa.index.shards import Shards
from tarrafa.secrets import take

AWAY_S_MAX = 5.0  # the longest pause before a coordinator that is away is asked again


@dataclass
class Guest:
    """A node on its way into another's crawl. `run` it for ever; `say` is heard by people."""

    coordinator: Caller
    data: DataDirectory
    name: str
    workers: int
    say: Callable[[str], None]
    divided: Shards | None = None
    beats: int = 0  # that were heard
    _vitals: Vitals = field(init=False)
    _secrets: str = ""  # the mark of those that we have

    def __post_init__(self) -> None:
        self.data.create()
        self._vitals = Vitals(self.data, self.name, f"{self.name}-")

    async def run(self) -> None:
        """Until somebody ends us, or we are refused."""
        invitation = await self._invited()
        while True:
            self._tell(f"{self.name} works for {self.address_of(invitation)}, as {self.coordinator.url} says")
            invitation = await self._work(invitation)

    def _tell(self, line: str) -> None:
        """To whoever sits in front of us, and to those who look at the nodes."""
        self.say(line)
        self._vitals.say(line)

    async def _invited(self) -> Invitation:
        pause_s, missed, began = BEAT_EVERY_S, False, boottime()
        while True:
            try:
                return await self._join()
            except NameTaken:  # by ourselves, perhaps, as we were until a moment ago
                if boottime() - began > SILENT_AFTER_S + 2 * BEAT_EVERY_S:
                    raise
                await asyncio.sleep(BEAT_EVERY_S)
            except Unreachable as error:
                if not missed:
                    self._tell(f"waiting for the coordinator: {error}")
                missed, pause_s = True, min(2 * pause_s, AWAY_S_MAX)
                await asyncio.sleep(pause_s)

    async def _join(self) -> Invitation:
        who = Joining(self.name, __version__, self._vitals.machine(), self._vitals.process)
        return await asyncio.to_thread(self.coordinator.join, who)

    def _take_secrets(self, invitation: Invitation) -> None:
        """Those that there are now. Whoever sends none at all does not know of them."""
        if invitation.secrets:
            take(self.data, invitation.secrets)

    def address_of(self, invitation: Invitation) -> Address:
        """Where the frontier is. A door that is open on all addresses of the coordinator's machine is at the one that
        we know it by."""
        where = f"{self.coordinator.url}: its invitation"
        address = parse(invitation.frontier, Token(invitation.token.encode()), where)
        if not isinstance(address, TcpServer):
            return address
        with contextlib.suppress(ValueError):
            number = ipaddress.ip_address(address.host)
            if number.is_unspecified:
                return TcpServer(self.coordinator.host, address.port, address.token)
            if number.is_loopback and not _is_here(self.coordinator.host):
                raise Refused(f"{where}: its frontier is open to its own machine only; let it --listen HOST:PORT")
        return address

    async def _work(self, invitation: Invitation) -> Invitation:
        """Until we are invited elsewhere."""
        orders, clock = invitation.orders, Clock.from_environment()
        self._take_secrets(invitation)
        self._secrets = orders.secrets
        workers = workers_of(orders, self.workers)
        supervisor = Supervisor(
            self.data,
            workers,
            clock,
            keeper=FarFrontier(self.address_of(invitation), clock, self._tell),
            name=f"{self.name}-",
            lasting=True,
            divided=self.divided,
            patient=True,
            rations=rations_of(orders, max(1, workers)),
            tell=self._tell,
        )
        living = LivingNode(supervisor, self._vitals, self.workers, orders, self._tell, self._a_search)
        beating = asyncio.create_task(self._beat_for_ever(living, invitation))  # also while the frontier is away
        working = asyncio.create_task(_work_for_ever(supervisor, living))
        try:
            await asyncio.wait({beating, working}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()  # raises what stands in the way
            return beating.result()
        finally:
            for task in (beating, working):
                task.cancel()
            await asyncio.gather(beating, working, return_exceptions=True)

    def _a_search(self) -> Child:
        return a_child(self.data, self.coordinator.local, self.coordinator.token)

    async def _beat_for_ever(self, living: LivingNode, invitation: Invitation) -> Invitation:
        """The invitation to another frontier, should there be one."""
        missed, pause_s = False, BEAT_EVERY_S
        while True:
            began, beat = boottime(), living.beat()
            try:
                if missed or living.secrets != self._secrets:
                    again = await self._join()
                    if missed:
                        self._tell(f"{self.coordinator.url}: the coordinator answers; going on")
                    missed, pause_s, self._secrets = False, BEAT_EVERY_S, living.secrets
                    self._take_secrets(again)
                    if (again.frontier, again.token) != (invitation.frontier, invitation.token):
                        return again
                await self._beat(living, beat)
            except NameTaken:
                raise
            except FrontierError as error:
                self._vitals.unsaid(beat.lines)
                if not missed:
                    self._tell(f"{error}; working on without the coordinator")
                missed, pause_s = True, min(2 * pause_s, AWAY_S_MAX)
            await asyncio.sleep(max(0.0, pause_s - (boottime() - began)))

    async def _beat(self, living: LivingNode, beat: Beat) -> None:
        living.obey(await asyncio.to_thread(self.coordinator.beat, beat))
        self.beats += 1


async def _work_for_ever(supervisor: Supervisor, living: LivingNode) -> None:
    async with supervisor, living:
        await supervisor.stay()


def _is_here(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
