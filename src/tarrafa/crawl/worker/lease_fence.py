"""Lease fence: renews the worker's lease from a thread and forbids requests once the lease is lost.

A thread of its own renews the worker's leases, whatever the event loop is busy with. When a renewal fails, or this
process was stopped for longer than the lease, the fence is down: no request is sent any more, nothing is written, and
the worker ends. The margin covers requests that are already on their way to the network. Each renewal compares the
frontier's clock with ours; `on_drift` is called when they differ too much. The thread reads the states of the
collections several times per renewal, so that a pause reaches even a worker whose event loop is late.
Promises: after the lease may have ended, no request leaves and nothing is written.
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
        """Whether the results may still be written and reported."""


class LeaseFence:
    """Up while the lease holds. `note` returns the worker's notice, sent with each renewal."""

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
        """Whether a request may be sent."""
        return boottime() < self._deadline - self._lease_s * REQUEST_MARGIN

    def holds_lease(self) -> bool:
        """Whether the results may still be written and reported."""
        return boottime() < self._deadline

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        try:
            heart, every_s = connect_blocking(self._address), self._lease_s / RENEWALS_PER_LEASE
            pause_s = due_at = 0.0  # at once: one of several servers counts only from the first renewal on
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
