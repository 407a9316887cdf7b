"""The agent of a node: makes its heartbeats, applies its orders, and keeps its CPU limit.

A supervisor with ears for the pulses of its processes. `beat` is what there is to say now; `obey` takes orders, and
returns at once: workers are started and dismissed in the background, while the beats go on. Whoever runs it carries
beats and orders: the coordinator itself, or `joining.py` over a network.

How many of the hosts that it could visit may a node visit, so as not to use more of its processors than it may?

A controller in one line: above the limit, a fifth fewer; well below it, a twentieth more; once a second. So a limit
that is set holds within some ten seconds, and what a burst took is given back within a minute. Pure.
"""

import asyncio
import contextlib
from collections.abc import Callable

from tarrafa.coordinator.node import search_process
from tarrafa.coordinator.node.health import NodeHealth
from tarrafa.coordinator.node.messages import NodeHeartbeat, NodeOrders
from tarrafa.crawl.supervisor.child_processes import ChildProcess
from tarrafa.crawl.supervisor.supervisor import Supervisor
from tarrafa.crawl.worker.resource_limits import PAUSED_BY_ORDER, ResourceLimits
from tarrafa.errors import TarrafaError
from tarrafa.i18n import joined
from tarrafa.runtime.heartbeat import HeartbeatListener

RETRY_ORDERS_S = 5.0  # then an order that could not be obeyed is tried again


def worker_limits(orders: NodeOrders, workers: int, share: float = 1.0) -> ResourceLimits:
    """What the workers are told of it. `workers` is how many there are."""
    return ResourceLimits(workers, orders.hosts_at_once, orders.bandwidth, share, orders.paused)


def worker_count(orders: NodeOrders, usual: int) -> int:
    """How many workers a node has that would have so many."""
    if "worker" not in orders.roles:
        return 0
    return usual if orders.workers is None else orders.workers


class NodeAgent:
    """Use it in an `async with`, inside that of its supervisor; it can beat before, and hears orders, but obeys them
    only then. `workers`: how many it has if nobody orders otherwise; the supervisor is started with what `orders` says.
    `a_search`: makes the process that answers searches of others, where the node is one that can.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        vitals: NodeHealth,
        workers: int,
        orders: NodeOrders,
        say: Callable[[str], None],
        a_search: Callable[[], ChildProcess] | None = None,
    ) -> None:
        self._supervisor, self._vitals, self._usual, self._say = supervisor, vitals, workers, say
        self._orders = self._obeyed = orders
        self._share = 1.0
        self._a_search, self._answers = a_search, list[ChildProcess]()
        self._ears: HeartbeatListener | None = None
        self._changing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "NodeAgent":
        self._ears = HeartbeatListener(self._supervisor.data, self._vitals.receive)
        self._apply_limits()
        self._start_applying()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.gather(self._changing, return_exceptions=True)
        if self._ears is not None:
            self._ears.close()
            self._ears = None

    @property
    def credentials_mark(self) -> str:
        """The mark of those that there are, as last told."""
        return self._orders.secrets

    def heartbeat(self) -> NodeHeartbeat:
        """Also the moment to look how busy we are: about once a second."""
        ordered = [PAUSED_BY_ORDER] if self._orders.paused else []
        trouble = joined([*ordered, *self._supervisor.troubles])
        is_paused = self._orders.paused or self._supervisor.is_disk_nearly_full
        address = search_process.search_address(self._supervisor.data) if self._answers else ""
        beat = self._vitals.make_heartbeat(
            self._supervisor.children, self._obeyed.number, trouble, self._share, address, is_paused=is_paused
        )
        share = next_host_share(self._share, self._vitals.cpu, self._orders.cpu)
        if share != self._share:
            self._share = share
            self._apply_limits()
        return beat

    def apply_orders(self, orders: NodeOrders) -> None:
        """Do so from now on. What takes time is done in the background; the beat tells when it is."""
        if orders == self._orders:
            return
        self._orders = orders
        if orders.cpu is None:
            self._share = 1.0
        self._apply_limits()
        self._start_applying()

    def _apply_limits(self) -> None:
        if self._ears is None:  # the data directory may still be somebody else's
            return
        self._supervisor.set_limits(
            worker_limits(self._orders, max(1, worker_count(self._orders, self._usual)), self._share)
        )

    def _start_applying(self) -> None:
        if self._ears is not None and (self._changing is None or self._changing.done()):
            self._changing = asyncio.create_task(self._apply_latest_orders())

    async def _apply_latest_orders(self) -> None:
        """Until what was ordered last is so."""
        while True:
            orders = self._orders
            try:
                await self._supervisor.set_worker_count(worker_count(orders, self._usual))
                await self._supervisor.set_following("follower" in orders.roles)
                await self._run_search_process("search" in orders.roles)
            except (TarrafaError, OSError) as error:
                self._say(f"order {orders.number} cannot be obeyed yet: {error}")
                await asyncio.sleep(RETRY_ORDERS_S)
                continue
            if orders is self._orders:
                self._obeyed = orders
                return

    async def _run_search_process(self, wanted: bool) -> None:
        if wanted and self._a_search is not None and not self._answers:
            self._answers = [self._a_search()]
            await self._supervisor.add(self._answers[0])
        elif not wanted:
            leaving, self._answers = self._answers, []
            await self._supervisor.stop_children(leaving)

    async def wait_until_applied(self) -> None:
        """Return when all that was ordered so far is so."""
        if self._changing is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._changing)


SHARE_MIN = 0.01
DECREASE, INCREASE = 0.8, 1.05
WELL_BELOW = 0.9  # of the limit: in between nothing changes, or it would never rest


def next_host_share(share: float, used: float, limit: float | None) -> float:
    """The share of the next second. `used` and `limit` are of all processors, 0…1; no limit: everything."""
    if limit is None:
        return 1.0
    if used > limit:
        return max(SHARE_MIN, share * DECREASE)
    if used < limit * WELL_BELOW:
        return min(1.0, share * INCREASE)
    return share
