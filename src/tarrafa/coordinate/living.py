"""How does a node live: what does it say, and how does it obey?

A supervisor with ears for the pulses of its processes. `beat` is what there is to say now; `obey` takes orders, and
returns at once: workers are started and dismissed in the background, while the beats go on. Whoever runs it carries
beats and orders: the coordinator itself, or `joining.py` over a network.
"""

import asyncio
import contextlib
from collections.abc import Callable

from tarrafa.coordinate import answering
from tarrafa.coordinate.beats import Beat, Orders
from tarrafa.coordinate.throttle import next_share
from tarrafa.coordinate.vitals import Vitals
from tarrafa.crawl.children import Child
from tarrafa.crawl.rations import BY_ORDER, Rations
from tarrafa.crawl.supervise import Supervisor
from tarrafa.errors import TarrafaError
from tarrafa.pulse import Listener

AGAIN_S = 5.0  # then an order that could not be obeyed is tried again


def rations_of(orders: Orders, workers: int, share: float = 1.0) -> Rations:
    """What the workers are told of it. `workers` is how many there are."""
    return Rations(workers, orders.hosts_at_once, orders.bandwidth, share, orders.paused)


def workers_of(orders: Orders, usual: int) -> int:
    """How many workers a node has that would have so many."""
    if "worker" not in orders.roles:
        return 0
    return usual if orders.workers is None else orders.workers


class LivingNode:
    """Use it in an `async with`, inside that of its supervisor; it can beat before, and hears orders, but obeys them
    only then. `workers`: how many it has if nobody orders otherwise; the supervisor is started with what `orders` says.
    `a_search`: makes the process that answers searches of others, where the node is one that can.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        vitals: Vitals,
        workers: int,
        orders: Orders,
        say: Callable[[str], None],
        a_search: Callable[[], Child] | None = None,
    ) -> None:
        self._supervisor, self._vitals, self._usual, self._say = supervisor, vitals, workers, say
        self._orders = self._obeyed = orders
        self._share = 1.0
        self._a_search, self._answers = a_search, list[Child]()
        self._ears: Listener | None = None
        self._changing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "LivingNode":
        self._ears = Listener(self._supervisor.data, self._vitals.hear)
        self._ration()
        self._change()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._changing is not None:
            self._changing.cancel()
            await asyncio.gather(self._changing, return_exceptions=True)
        if self._ears is not None:
            self._ears.close()
            self._ears = None

    @property
    def secrets(self) -> str:
        """The mark of those that there are, as last told."""
        return self._orders.secrets

    def beat(self) -> Beat:
        """Also the moment to look how busy we are: about once a second."""
        trouble = self._supervisor.trouble
        if self._orders.paused:
            trouble = "; ".join(filter(None, [BY_ORDER, trouble]))
        address = answering.address(self._supervisor.data) if self._answers else ""
        beat = self._vitals.beat(self._supervisor.children, self._obeyed.number, trouble, self._share, address)
        share = next_share(self._share, self._vitals.cpu, self._orders.cpu)
        if share != self._share:
            self._share = share
            self._ration()
        return beat

    def obey(self, orders: Orders) -> None:
        """Do so from now on. What takes time is done in the background; the beat tells when it is."""
        if orders == self._orders:
            return
        self._orders = orders
        if orders.cpu is None:
            self._share = 1.0
        self._ration()
        self._change()

    def _ration(self) -> None:
        if self._ears is None:  # the data directory may still be somebody else's
            return
        self._supervisor.ration(rations_of(self._orders, max(1, workers_of(self._orders, self._usual)), self._share))

    def _change(self) -> None:
        if self._ears is not None and (self._changing is None or self._changing.done()):
            self._changing = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Until what was ordered last is so."""
        while True:
            orders = self._orders
            try:
                await self._supervisor.employ(workers_of(orders, self._usual))
                await self._supervisor.follow("follower" in orders.roles)
                await self._answer("search" in orders.roles)
            except (TarrafaError, OSError) as error:
                self._say(f"order {orders.number} cannot be obeyed yet: {error}")
                await asyncio.sleep(AGAIN_S)
                continue
            if orders is self._orders:
                self._obeyed = orders
                return

    async def _answer(self, wanted: bool) -> None:
        if wanted and self._a_search is not None and not self._answers:
            self._answers = [self._a_search()]
            await self._supervisor.add(self._answers[0])
        elif not wanted:
            leaving, self._answers = self._answers, []
            await self._supervisor.dismiss(leaving)

    async def at_rest(self) -> None:
        """Return when all that was ordered so far is so."""
        if self._changing is not None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(self._changing)
