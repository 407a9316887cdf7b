"""A worker node: joins a coordinator, works for its frontier, and sends heartbeats.

It asks the coordinator for an invitation, learns where the frontier is and what to do, works, and says once a second
how it fares. Promises: a coordinator that is away is missed once, aloud, and asked for ever; meanwhile everything
goes on as it was ordered last. When it is back, the node says so, and learns if the frontier has moved. Knows nothing
of the command line.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field

from tarrafa import __version__
from tarrafa.clock import Clock, boottime
from tarrafa.coordinator.node.agent import NodeAgent, worker_count, worker_limits
from tarrafa.coordinator.node.coordinator_client import CoordinatorClient
from tarrafa.coordinator.node.health import NodeHealth
from tarrafa.coordinator.node.messages import (
    NODE_HEARTBEAT_EVERY_S,
    NODE_SILENT_AFTER_S,
    JoinRequest,
    JoinResponse,
    NodeHeartbeat,
)
from tarrafa.coordinator.node.search_process import search_child
from tarrafa.crawl.supervisor.child_processes import ChildProcess
from tarrafa.crawl.supervisor.frontier_link import RemoteFrontierLink
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.credentials import import_bundle
from tarrafa.errors import AccessRefused, FrontierError, NameTaken, Unreachable
from tarrafa.frontier.address import Address, TcpServer, parse_address
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import Token

RETRY_PAUSE_MAX_S = 5.0  # the longest pause before a coordinator that is away is asked again


@dataclass
class WorkerNode:
    """A node on its way into another's crawl. `run` it for ever; `say` is heard by people."""

    coordinator: CoordinatorClient
    data: DataDirectory
    name: str
    workers: int
    say: Callable[[str], None]
    divided: ShardLayout | None = None
    beats: int = 0  # that were heard
    _vitals: NodeHealth = field(init=False)
    _secrets: str = ""  # the mark of those that we have

    def __post_init__(self) -> None:
        self.data.create()
        self._vitals = NodeHealth(self.data, self.name, f"{self.name}-")

    async def run(self) -> None:
        """Until somebody ends us, or we are refused."""
        invitation = await self._join_with_retry()
        while True:
            self._announce(f"{self.name} works for {self.frontier_address(invitation)}, as {self.coordinator.url} says")
            invitation = await self._work_until_moved(invitation)

    def _announce(self, line: str) -> None:
        """To whoever sits in front of us, and to those who look at the nodes."""
        self.say(line)
        self._vitals.add_log_line(line)

    async def _join_with_retry(self) -> JoinResponse:
        pause_s, missed, began = NODE_HEARTBEAT_EVERY_S, False, boottime()
        while True:
            try:
                return await self._join()
            except NameTaken:  # by ourselves, perhaps, as we were until a moment ago
                if boottime() - began > NODE_SILENT_AFTER_S + 2 * NODE_HEARTBEAT_EVERY_S:
                    raise
                await asyncio.sleep(NODE_HEARTBEAT_EVERY_S)
            except Unreachable as error:
                if not missed:
                    self._announce(f"waiting for the coordinator: {error}")
                missed, pause_s = True, min(2 * pause_s, RETRY_PAUSE_MAX_S)
                await asyncio.sleep(pause_s)

    async def _join(self) -> JoinResponse:
        who = JoinRequest(self.name, __version__, self._vitals.machine(), self._vitals.process)
        return await asyncio.to_thread(self.coordinator.join, who)

    def _import_credentials(self, invitation: JoinResponse) -> None:
        """Those that there are now. Whoever sends none at all does not know of them."""
        if invitation.secrets:
            import_bundle(self.data, invitation.secrets)

    def frontier_address(self, invitation: JoinResponse) -> Address:
        """Where the frontier is. A door that is open on all addresses of the coordinator's machine is at the one that
        we know it by."""
        where = f"{self.coordinator.url}: its invitation"
        address = parse_address(invitation.frontier, Token(invitation.token.encode()), where)
        if not isinstance(address, TcpServer):
            return address
        with contextlib.suppress(ValueError):
            number = ipaddress.ip_address(address.host)
            if number.is_unspecified:
                return TcpServer(self.coordinator.host, address.port, address.token)
            if number.is_loopback and not _is_loopback_host(self.coordinator.host):
                raise AccessRefused(f"{where}: its frontier is open to its own machine only; let it --listen HOST:PORT")
        return address

    async def _work_until_moved(self, invitation: JoinResponse) -> JoinResponse:
        """Until we are invited elsewhere."""
        orders, clock = invitation.orders, Clock.from_environment()
        self._import_credentials(invitation)
        self._secrets = orders.secrets
        workers = worker_count(orders, self.workers)
        supervisor = Supervisor(
            self.data,
            workers,
            clock,
            frontier_link=RemoteFrontierLink(self.frontier_address(invitation), clock, self._announce),
            name=f"{self.name}-",
            lasting=True,
            divided=self.divided,
            patient=True,
            limits=worker_limits(orders, max(1, workers)),
            tell=self._announce,
        )
        living = NodeAgent(supervisor, self._vitals, self.workers, orders, self._announce, self._search_child)
        beating = asyncio.create_task(self._heartbeat_loop(living, invitation))  # also while the frontier is away
        working = asyncio.create_task(_run_supervisor(supervisor, living))
        try:
            await asyncio.wait({beating, working}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()  # raises what stands in the way
            return beating.result()
        finally:
            for task in (beating, working):
                task.cancel()
            await asyncio.gather(beating, working, return_exceptions=True)

    def _search_child(self) -> ChildProcess:
        return search_child(self.data, self.coordinator.local, self.coordinator.token)

    async def _heartbeat_loop(self, living: NodeAgent, invitation: JoinResponse) -> JoinResponse:
        """The invitation to another frontier, should there be one."""
        missed, pause_s = False, NODE_HEARTBEAT_EVERY_S
        while True:
            began, beat = boottime(), living.heartbeat()
            try:
                if missed or living.credentials_mark != self._secrets:
                    again = await self._join()
                    if missed:
                        self._announce(f"{self.coordinator.url}: the coordinator answers; going on")
                    missed, pause_s, self._secrets = False, NODE_HEARTBEAT_EVERY_S, living.credentials_mark
                    self._import_credentials(again)
                    if (again.frontier, again.token) != (invitation.frontier, invitation.token):
                        return again
                await self._send_heartbeat(living, beat)
            except NameTaken:
                raise
            except FrontierError as error:
                self._vitals.restore_lines(beat.lines)
                if not missed:
                    self._announce(f"{error}; working on without the coordinator")
                missed, pause_s = True, min(2 * pause_s, RETRY_PAUSE_MAX_S)
            await asyncio.sleep(max(0.0, pause_s - (boottime() - began)))

    async def _send_heartbeat(self, living: NodeAgent, beat: NodeHeartbeat) -> None:
        living.apply_orders(await asyncio.to_thread(self.coordinator.heartbeat, beat))
        self.beats += 1


async def _run_supervisor(supervisor: Supervisor, living: NodeAgent) -> None:
    async with supervisor, living:
        await supervisor.run_until_failure()


def _is_loopback_host(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
