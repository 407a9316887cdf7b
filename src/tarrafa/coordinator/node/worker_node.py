"""A worker node: joins a coordinator over HTTP, works for its frontier, and sends a heartbeat each second.

The join response says where the frontier is and what to do. Promises: while the coordinator is unreachable, this is
said once and retried for ever, and the work continues by the latest orders; afterwards the node joins again, and moves
if the frontier has moved. A request ends within a few seconds, with a response or one line that says what is wrong. The
token is sent only to the coordinator, and without TLS to no public address (`fetch.node_client`).
Knows nothing of the command line.
"""

import asyncio
import contextlib
import ipaddress
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec

from tarrafa import __version__
from tarrafa.clock import Clock, boottime
from tarrafa.coordinator.node.agent import NodeAgent, search_child, worker_count, worker_limits
from tarrafa.coordinator.node.messages import (
    NODE_HEARTBEAT_EVERY_S,
    NODE_SILENT_AFTER_S,
    NODES_PATH,
    JoinRequest,
    JoinResponse,
    NodeHeartbeat,
    NodeOrders,
    decode_message,
)
from tarrafa.coordinator.node.process_health import NodeHealth
from tarrafa.crawl.supervisor.frontier_link import RemoteFrontierLink
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.credentials import import_bundle
from tarrafa.errors import AccessRefused, ConfigError, FrontierError, NameTaken, Unreachable
from tarrafa.fetch.node_client import (
    ERROR_CHARS_MAX,
    NodeHttpClient,
    NodeRequestFailed,
    NodeRequestRefused,
    check_node_url,
)
from tarrafa.frontier.address import Address, TcpServer, parse_address
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import printable_text
from tarrafa.runtime.listen_address import is_loopback_host
from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, Token

RETRY_PAUSE_MAX_S = 5.0  # the longest pause before an unreachable coordinator is tried again
TIME_MAX_S = 5.0
RESPONSE_BYTES_MAX, JOIN_RESPONSE_BYTES_MAX = (
    64 << 10,
    96 << 20,
)  # a join response holds the credentials of all collections
WRONG_TOKEN = f"wrong token: --token-file or {TOKEN_VARIABLE} must be the coordinator's"

T = TypeVar("T", bound=msgspec.Struct)


class CoordinatorClient:
    """The HTTP client of a node. Blocks: call it from a thread."""

    def __init__(self, url: str, token: Token) -> None:
        self.url = check_node_url(url, "--join")
        if not token:
            raise ConfigError(
                f"--join needs the coordinator's token: --token-file FILE, or {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}"
            )
        self.token = token
        self.local = ""  # our own address, as of the last connection
        self._http = NodeHttpClient(self.url, token.secret, "application/json", TIME_MAX_S, private=True)

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or ""

    def join(self, request: JoinRequest) -> JoinResponse:
        return self._post("/join", request, JoinResponse, JOIN_RESPONSE_BYTES_MAX)

    def heartbeat(self, beat: NodeHeartbeat) -> NodeOrders:
        return self._post(f"/{quote(beat.node, safe='')}/beat", beat, NodeOrders)

    def _post(self, path: str, request: msgspec.Struct, kind: type[T], bytes_max: int = RESPONSE_BYTES_MAX) -> T:
        try:
            response = self._http.post(f"{NODES_PATH}{path}", msgspec.json.encode(request), bytes_max)
        except NodeRequestRefused as error:
            raise AccessRefused(f"{self.url}: {error}") from None
        except NodeRequestFailed as error:
            raise Unreachable(f"{self.url}: {error}") from None
        self.local = response.local or self.local
        code = response.code
        try:
            if code == 200:
                return decode_message(response.body, kind)
            sentence = printable_text(str(msgspec.json.decode(response.body)["error"]), ERROR_CHARS_MAX)
        except (ValueError, msgspec.MsgspecError, TypeError, KeyError):
            raise Unreachable(f"{self.url}: no Tarrafa coordinator answers there (HTTP {code})") from None
        if code == 409:
            raise NameTaken(f"{self.url}: {sentence}")
        if code == 401:
            raise AccessRefused(f"{self.url}: {WRONG_TOKEN}")
        if 400 <= code < 500:
            raise AccessRefused(f"{self.url}: refused our request ({sentence}); are both of the same version?")
        raise Unreachable(f"{self.url}: {sentence}")


@dataclass
class WorkerNode:
    """A node that works for another one. `print_line` prints for people."""

    coordinator: CoordinatorClient
    data: DataDirectory
    name: str
    workers: int
    print_line: Callable[[str], None]
    divided: ShardLayout | None = None
    scrub_every_s: float = 0.0  # how often all data are verified; 0: never
    _health: NodeHealth = field(init=False)
    _credentials_mark: str = ""  # of the credentials that were imported

    def __post_init__(self) -> None:
        self.data.create()
        self._health = NodeHealth(self.data, self.name, f"{self.name}-")

    @property
    def last_heartbeat(self) -> NodeHeartbeat | None:
        return self._health.last

    async def run(self) -> None:
        """Work until cancelled or refused."""
        joined = await self._join_with_retry()
        while True:
            self._announce(
                f"{self.name} works for {self._frontier_address(joined)}, by order of {self.coordinator.url}"
            )
            joined = await self._work_until_moved(joined)

    def _announce(self, line: str) -> None:
        """Print a line here, and show it in the console."""
        self.print_line(line)
        self._health.add_log_line(line)

    async def _join_with_retry(self) -> JoinResponse:
        pause_s, missed, began = NODE_HEARTBEAT_EVERY_S, False, boottime()
        while True:
            try:
                return await self._join()
            except NameTaken:  # perhaps by our own previous process
                if boottime() - began > NODE_SILENT_AFTER_S + 2 * NODE_HEARTBEAT_EVERY_S:
                    raise
                await asyncio.sleep(NODE_HEARTBEAT_EVERY_S)
            except Unreachable as error:
                if not missed:
                    self._announce(f"waiting for the coordinator: {error}")
                missed, pause_s = True, min(2 * pause_s, RETRY_PAUSE_MAX_S)
                await asyncio.sleep(pause_s)

    async def _join(self) -> JoinResponse:
        request = JoinRequest(self.name, __version__, self._health.machine(), self._health.process)
        return await asyncio.to_thread(self.coordinator.join, request)

    def _import_credentials(self, joined: JoinResponse, mark: str) -> None:
        if joined.secrets:  # an older coordinator sends none
            import_bundle(self.data, joined.secrets)
        self._credentials_mark = mark

    def _frontier_address(self, joined: JoinResponse) -> Address:
        """The frontier's address. If it listens on all addresses, use the host by which we reach the coordinator."""
        where = f"{self.coordinator.url}: its join response"
        address = parse_address(joined.frontier, Token(joined.token.encode()), where)
        if not isinstance(address, TcpServer):
            return address
        with contextlib.suppress(ValueError):
            number = ipaddress.ip_address(address.host)
            if number.is_unspecified:
                return TcpServer(self.coordinator.host, address.port, address.token)
            if number.is_loopback and not is_loopback_host(self.coordinator.host):
                raise AccessRefused(
                    f"{where}: its frontier is open to its own machine only; start it with --listen HOST:PORT"
                )
        return address

    async def _work_until_moved(self, joined: JoinResponse) -> JoinResponse:
        """Work until the coordinator names another frontier; the new join response."""
        orders, clock = joined.orders, Clock.from_environment()
        self._import_credentials(joined, orders.secrets)
        workers = worker_count(orders, self.workers)
        link = RemoteFrontierLink(self._frontier_address(joined), clock, self._announce)
        supervisor = Supervisor(
            self.data, workers, clock, frontier_link=link, name=f"{self.name}-", lasting=True, divided=self.divided,
            patient=True, limits=worker_limits(orders, max(1, workers)), print_line=self._announce,
            scrub_every_s=self.scrub_every_s,
        )  # fmt: skip
        agent = NodeAgent(
            supervisor, self._health, self.workers, orders, self._announce,
            lambda: search_child(self.data, self.coordinator.local, self.coordinator.token),
        )  # fmt: skip
        heartbeats = asyncio.create_task(self._heartbeat_loop(agent, joined))  # also while the frontier is unreachable
        work = asyncio.create_task(_run_supervisor(supervisor, agent))
        try:
            await asyncio.wait({heartbeats, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()  # raises
            return heartbeats.result()
        finally:
            for task in (heartbeats, work):
                task.cancel()
            await asyncio.gather(heartbeats, work, return_exceptions=True)

    async def _heartbeat_loop(self, agent: NodeAgent, joined: JoinResponse) -> JoinResponse:
        """Send heartbeats until a join response names another frontier."""
        missed, pause_s = False, NODE_HEARTBEAT_EVERY_S
        while True:
            began, beat = boottime(), agent.heartbeat()
            try:
                if missed or agent.credentials_mark != self._credentials_mark:
                    again = await self._join()
                    if missed:
                        self._announce(f"{self.coordinator.url}: the coordinator answers again")
                    missed, pause_s = False, NODE_HEARTBEAT_EVERY_S
                    self._import_credentials(again, agent.credentials_mark)
                    if (again.frontier, again.token) != (joined.frontier, joined.token):
                        return again
                agent.apply_orders(await asyncio.to_thread(self.coordinator.heartbeat, beat))
            except NameTaken:
                raise
            except FrontierError as error:
                self._health.restore_lines(beat.lines)
                if not missed:
                    self._announce(f"{error}; working without the coordinator")
                missed, pause_s = True, min(2 * pause_s, RETRY_PAUSE_MAX_S)
            await asyncio.sleep(max(0.0, pause_s - (boottime() - began)))


async def _run_supervisor(supervisor: Supervisor, agent: NodeAgent) -> None:
    async with supervisor, agent:
        await supervisor.run_until_failure()
