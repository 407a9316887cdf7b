"""May this worker still act?

A thread of its own renews the worker's leases, whatever the event loop is busy with. When renewing fails, or this
process was stopped for longer than the lease, the fence is down: no request leaves any more, and the worker ends. The
margin covers what is already between us and the network.
"""

import threading
from collections.abc import Callable

from tarrafa.clock import boottime
from tarrafa.errors import TarrafaError
from tarrafa.frontier.protocol import LEASE_S, REQUEST_MARGIN_S
from tarrafa.frontier.remote import Line

RENEW_EVERY_S = LEASE_S / 6


class Fence:
    """Up while the lease holds."""

    def __init__(self, socket: str, worker: int, deadline: float, on_lost: Callable[[str], None]) -> None:
        self._socket, self._worker, self._deadline, self._on_lost = socket, worker, deadline, on_lost
        self.note = ""  # for people, sent with every renewal
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="heartbeat", daemon=True)
        self._thread.start()

    def is_up(self) -> bool:
        return boottime() < self._deadline - REQUEST_MARGIN_S

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _renew(self) -> None:
        try:
            line = Line(self._socket)
            while not self._stop.wait(RENEW_EVERY_S):
                asked_at = boottime()
                self._deadline = asked_at + float(line.call("renew", self._worker, self.note))
            line.close()
        except TarrafaError as error:
            if not self._stop.is_set():
                self._deadline = 0.0
                self._on_lost(str(error))
