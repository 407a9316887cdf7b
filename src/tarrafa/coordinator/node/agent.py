"""The agent of a node: makes its heartbeats, applies its orders, keeps its CPU limit, and runs its search process.

The coordinator node and the worker node each have one; they carry heartbeats and orders. `apply_orders` returns at
once: workers are started and stopped in the background, while the heartbeats continue.

The CPU limit is kept by visiting a share of the hosts (`next_host_share`).

A node with the role `search` runs a process (`tarrafa.server.internal.peer_server`) that answers searches and reports
from its index and archive, for requests with the coordinator's token. It listens on the address from which this machine
reaches the coordinator. Behind NAT or a tunnel it is unreachable: then `search_peers` reports it as missing, and a
report says that its pages are not counted.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from tarrafa.coordinator.node.messages import NodeHeartbeat, NodeOrders
from tarrafa.coordinator.node.process_health import NodeHealth
from tarrafa.crawl.supervisor.child_processes import ChildProcess
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.crawl.worker.resource_limits import PAUSED_BY_ORDER, ResourceLimits
from tarrafa.errors import TarrafaError
from tarrafa.i18n import joined
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import TEXT_CHARS_MAX, printable_text
from tarrafa.runtime.token import TOKEN_VARIABLE, Token

RETRY_ORDERS_S = 5.0  # pause before orders that failed are applied again
SEARCH_MODULE = "tarrafa.server.internal.peer_server"
SHARE_MIN = 0.01
DECREASE, INCREASE = 0.8, 1.05
WELL_BELOW = 0.9  # of the limit; between this and the limit nothing changes, so that the share settles


def worker_limits(orders: NodeOrders, workers: int, share: float = 1.0) -> ResourceLimits:
    """The limits that the workers receive; `workers` is their number."""
    return ResourceLimits(workers, orders.hosts_at_once, orders.bandwidth, share, orders.paused)


def worker_count(orders: NodeOrders, default: int) -> int:
    """The number of workers by the orders; `default` is the number by the command line."""
    if "worker" not in orders.roles:
        return 0
    return default if orders.workers is None else orders.workers


class NodeAgent:
    """Use it in an `async with`, inside that of its supervisor. Before that it makes heartbeats and accepts orders, but
    does not apply them. `workers`: the number by the command line; the supervisor is started as `orders` say.
    `make_search_process`: None if the node never answers searches of others.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        health: NodeHealth,
        workers: int,
        orders: NodeOrders,
        print_line: Callable[[str], None],
        make_search_process: Callable[[], ChildProcess] | None = None,
    ) -> None:
        self._supervisor, self._health, self._workers, self._print_line = supervisor, health, workers, print_line
        self._orders = self._applied = orders
        self._share = 1.0
        self._make_search_process, self._search_processes = make_search_process, list[ChildProcess]()
        self._is_open = False
        self._change_task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "NodeAgent":
        self._is_open = True
        self._supervisor.watchdog.on_heartbeat = self._health.receive
        self._apply_limits()
        self._start_applying()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._change_task is not None:
            self._change_task.cancel()
            await asyncio.gather(self._change_task, return_exceptions=True)
        self._is_open = False

    @property
    def credentials_mark(self) -> str:
        """The mark of the coordinator's credentials, by the latest orders."""
        return self._orders.secrets

    def heartbeat(self) -> NodeHeartbeat:
        """Make a heartbeat, and adjust the share of hosts to the CPU limit: about once a second."""
        ordered = [PAUSED_BY_ORDER] if self._orders.paused else []
        trouble = joined([*ordered, *self._supervisor.troubles])
        is_paused = self._orders.paused or self._supervisor.is_disk_nearly_full
        address = search_address(self._supervisor.data) if self._search_processes else ""
        beat = self._health.make_heartbeat(
            self._supervisor.children, self._applied.number, trouble, self._share, address, is_paused=is_paused
        )
        share = next_host_share(self._share, self._health.cpu, self._orders.cpu)
        if share != self._share:
            self._share = share
            self._apply_limits()
        return beat

    def apply_orders(self, orders: NodeOrders) -> None:
        """Apply orders, in the background where it takes time; the heartbeat has the number of the applied ones."""
        if orders == self._orders:
            return
        self._orders = orders
        if orders.cpu is None:
            self._share = 1.0
        self._apply_limits()
        self._start_applying()

    def _apply_limits(self) -> None:
        if not self._is_open:  # another process may still own the data directory
            return
        workers = max(1, worker_count(self._orders, self._workers))
        self._supervisor.set_limits(worker_limits(self._orders, workers, self._share))

    def _start_applying(self) -> None:
        if self._is_open and (self._change_task is None or self._change_task.done()):
            self._change_task = asyncio.create_task(self._apply_latest_orders())

    async def _apply_latest_orders(self) -> None:
        while True:
            orders = self._orders
            try:
                await self._supervisor.set_worker_count(worker_count(orders, self._workers))
                await self._supervisor.set_following("follower" in orders.roles)
                await self._run_search_process("search" in orders.roles)
            except (TarrafaError, OSError) as error:
                self._print_line(f"order {orders.number} cannot be applied yet: {error}")
                await asyncio.sleep(RETRY_ORDERS_S)
                continue
            if orders is self._orders:
                self._applied = orders
                return

    async def _run_search_process(self, wanted: bool) -> None:
        if wanted and self._make_search_process is not None and not self._search_processes:
            self._search_processes = [self._make_search_process()]
            await self._supervisor.add(self._search_processes[0])
        elif not wanted:
            leaving, self._search_processes = self._search_processes, []
            await self._supervisor.stop_children(leaving)


def next_host_share(share: float, used: float, limit: float | None) -> float:
    """The share of hosts to visit in the next second. `used` and `limit` are of all processors, 0…1.

    Above the limit a fifth fewer, well below it a twentieth more, once a second: a new limit holds within some ten
    seconds, and the loss of a burst is recovered within a minute.
    """
    if limit is None:
        return 1.0
    if used > limit:
        return max(SHARE_MIN, share * DECREASE)
    if used < limit * WELL_BELOW:
        return min(1.0, share * INCREASE)
    return share


def _address_file(data: DataDirectory) -> Path:
    """The search process writes its address here while it listens."""
    return data.run / "search.address"


def search_child(data: DataDirectory, host: str, token: Token) -> ChildProcess:
    child = ChildProcess.for_module(data, "search", SEARCH_MODULE, host=host, address_file=_address_file(data))
    child.secrets = {TOKEN_VARIABLE: token.secret.decode()}
    return child


def search_address(data: DataDirectory) -> str:
    """The address of the search process; empty if it does not listen."""
    try:
        with _address_file(data).open("rb") as file:
            return printable_text(file.read(TEXT_CHARS_MAX).decode(errors="replace"))
    except OSError:
        return ""
