"""Lease fence: renews the worker's lease from a thread and forbids requests once the lease is lost.

A thread of its own renews the worker's leases, whatever the event loop is busy with. When renewing fails, or this
process was stopped for longer than the lease, the fence is down: no request leaves any more, nothing is written, and
the worker ends. The margin covers what is already between us and the network. With each renewal the frontier's clock
is compared with ours: when they have come apart, the worker is told. A few times as often the thread asks how the
collections stand: whoever pauses one is heard even by a worker that is late with everything else.
"""

import threading
from collections.abc import Callable
from typing import Protocol

from tarrafa.clock import Clock, boottime
from tarrafa.errors import TarrafaError
from tarrafa.frontier.address import Address, BlockingClient, connect_blocking
from tarrafa.frontier.clock_sync import CLOCK_SKEW_S_MAX, clock_skew_s
from tarrafa.frontier.messages import REQUEST_MARGIN, FrontierCollectionState, WorkerRegistration

RENEWALS_PER_LEASE = 6
COLLECTION_STATES_EVERY_S = 0.5


class LeaseHolder(Protocol):
    """A worker's leases: the worker's number, and whether they still hold."""

    @property
    def worker(self) -> int: ...

    def holds_lease(self) -> bool:
        """What was fetched is still ours to write down and to report."""


class LeaseFence:
    """Up while the lease holds. `note` is what the worker has to say about itself, asked for at each renewal."""

    def __init__(
        self,
        address: Address,
        terms: WorkerRegistration,
        asked_at: float,
        clock: Clock,
        note: Callable[[], str],
        on_lost: Callable[[TarrafaError], None],
        on_drift: Callable[[float], None],
        on_states: Callable[[list[FrontierCollectionState], float], None] = lambda states, asked_at: None,
    ) -> None:
        self._address, self.worker, self._clock, self._note = address, terms.worker, clock, note
        self._lease_s, self._deadline = terms.lease_s, asked_at + terms.lease_s
        self._on_lost, self._on_drift, self._on_states = on_lost, on_drift, on_states
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)
        self._thread.start()

    def may_send(self) -> bool:
        """A request may leave."""
        return boottime() < self._deadline - self._lease_s * REQUEST_MARGIN

    def holds_lease(self) -> bool:
        """What was fetched is still ours to write down and to report."""
        return boottime() < self._deadline

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        try:
            heart, every_s = connect_blocking(self._address), self._lease_s / RENEWALS_PER_LEASE
            pause_s = due_at = 0.0  # at once: a server of several counts from the first renewal on
            while not self._stop.wait(pause_s):
                pause_s, asked_at = min(COLLECTION_STATES_EVERY_S, every_s), boottime()
                if asked_at >= due_at:
                    due_at = asked_at + every_s
                    self._renew_once(heart)
                now = self._clock.now()
                self._on_states(heart.call("collection_states"), now)
            heart.close()
        except TarrafaError as error:
            if not self._stop.is_set():
                self._deadline = 0.0
                self._on_lost(error)

    def _renew_once(self, heart: BlockingClient) -> None:
        asked_at = boottime()
        self._deadline = asked_at + float(heart.call("renew", self.worker, self._note()))
        asked_at = boottime()
        ahead_s = clock_skew_s(self._clock, heart.call("time"), asked_at, boottime())
        if abs(ahead_s) > CLOCK_SKEW_S_MAX:
            self._on_drift(ahead_s)
