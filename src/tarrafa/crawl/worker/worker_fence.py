"""The fence of a worker: registers it at the frontier, renews from a thread, and forbids requests once that is lost.

The leases of a worker's hosts hold as long as its registration. A thread of its own renews the registration, whatever
the event loop is busy with. When a renewal fails, or this process was stopped for longer than a lease, the fence is
down: no request is sent any more, nothing is written, and the worker ends. The margin covers requests that are already
on their way to the network. Each renewal compares the frontier's clock with ours; `on_drift` is called when they differ
too much. The thread reads the states of the collections several times per renewal, so that a pause reaches even a
worker whose event loop is late.
Promises: after the registration may have ended, no request is sent and nothing is written.
"""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from tarrafa.clock import Clock, boottime
from tarrafa.errors import NameTaken, TarrafaError
from tarrafa.frontier.address import Address, BlockingClient, connect_blocking
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import CLOCK_SKEW_S_MAX, clock_skew_s
from tarrafa.frontier.messages import REQUEST_MARGIN, FrontierCollectionState, RegistrationTerms
from tarrafa.i18n import Message
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.process_identity import ProcessId, current_process, is_dead

RENEWALS_PER_LEASE = 6
COLLECTION_STATES_EVERY_S = 0.5
REGISTER_RETRY_S, REGISTER_SPARE_S = 0.5, 5.0


class PreviousWorker(msgspec.Struct, frozen=True):
    """The process that had the name last, in this data directory."""

    process: ProcessId
    lease_s: float


async def register(frontier: Frontier, data: DataDirectory, name: str) -> tuple[RegistrationTerms, float]:
    """Register a worker under its name; returns the terms, and the boot time of the request for them.

    The frontier cannot know whether a worker on another machine was killed. Its successor can: `DATA/run/NAME.worker`
    names the process that had the name. If that process is gone, the successor says so, and its hosts are free at once.
    Where that cannot be seen (the machine has booted since), the successor waits until the predecessor's lease must be
    over. A name that a running process has is an error at once.
    """
    path = _path(data, name)
    previous, me = _read(path), current_process()
    began = boottime()
    while True:
        is_gone = previous is not None and is_dead(previous.process)
        if previous is not None and is_gone:
            await frontier.release_process(previous.process)
        asked_at = boottime()
        try:
            terms = await frontier.join(name, me)
        except NameTaken:
            if previous is None or is_gone or asked_at - began > previous.lease_s + REGISTER_SPARE_S:
                raise
            await asyncio.sleep(REGISTER_RETRY_S)
            continue
        write_atomically(path, msgspec.json.encode(PreviousWorker(me, terms.lease_s)), durable=False)
        return terms, asked_at


def free_name(data: DataDirectory, name: str) -> None:
    """Remove the note of the process that had the name: a successor need not ask whether it is dead."""
    with contextlib.suppress(OSError):
        _path(data, name).unlink()


def _path(data: DataDirectory, name: str) -> Path:
    return data.run / f"{name}.worker"


def _read(path: Path) -> PreviousWorker | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PreviousWorker)
    except (OSError, msgspec.MsgspecError):
        return None


class Registration(Protocol):
    """The registration of a worker at the frontier: the worker's number, and whether its leases still hold."""

    @property
    def worker(self) -> int: ...

    def is_valid(self) -> bool:
        """Whether the results may still be written and reported."""


class WorkerFence:
    """Up while the registration is valid. `note` returns the worker's notice, sent with each renewal."""

    def __init__(
        self,
        address: Address,
        terms: RegistrationTerms,
        asked_at: float,
        clock: Clock,
        note: Callable[[], Message | str],
        on_lost: Callable[[TarrafaError], None],
        on_drift: Callable[[float], None],
        on_states: Callable[[list[FrontierCollectionState], float], None] = lambda states, asked_at: None,
    ) -> None:
        self._address, self.worker, self._clock, self._note = address, terms.worker, clock, note
        self._lease_s, self._deadline = terms.lease_s, asked_at + terms.lease_s
        self._on_lost, self._on_drift, self._on_states = on_lost, on_drift, on_states
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="registration renewal", daemon=True)
        self._thread.start()

    def may_send(self) -> bool:
        return boottime() < self._deadline - self._lease_s * REQUEST_MARGIN

    def is_valid(self) -> bool:
        return boottime() < self._deadline

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        try:
            client, every_s = connect_blocking(self._address), self._lease_s / RENEWALS_PER_LEASE
            pause_s = due_at = 0.0  # at once: one of several servers counts only from the first renewal on
            while not self._stop.wait(pause_s):
                pause_s, asked_at = min(COLLECTION_STATES_EVERY_S, every_s), boottime()
                if asked_at >= due_at:
                    left_s = self._renew_once(client)
                    is_late = left_s < self._lease_s - every_s  # one of several servers did not answer: ask again soon
                    due_at = asked_at + (pause_s if is_late else every_s)
                now = self._clock.now()
                self._on_states(client.call("collection_states"), now)
            client.close()
        except TarrafaError as error:
            if not self._stop.is_set():
                self._deadline = 0.0
                self._on_lost(error)

    def _renew_once(self, client: BlockingClient) -> float:
        """Renew; returns how long the leases last."""
        asked_at = boottime()
        left_s = float(client.call("renew", self.worker, self._note()))
        self._deadline = asked_at + left_s
        asked_at = boottime()
        ahead_s = clock_skew_s(self._clock, client.call("time"), asked_at, boottime())
        if abs(ahead_s) > CLOCK_SKEW_S_MAX:
            self._on_drift(ahead_s)
        return left_s
