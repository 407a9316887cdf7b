"""Leases of a relay: held for an external crawler and renewed by its calls, by nothing else."""

import random

from tarrafa.clock import boottime
from tarrafa.crawl.worker.stats import WorkerNotices
from tarrafa.frontier.api import Frontier
from tarrafa.runtime.process import ProcessId

ELSEWHERE = "crawler"  # in place of a boot id: no machine has this one
NOTE = "a crawler that talks through HTTP"
MARGIN = 1 / 6  # of a lease: no request is sent in its last sixth
RENEWAL = 1 / 6  # of a lease: the shortest time between two renewals


class RelayLease:
    """Lease of one external crawler: its worker number, and until when its leases hold."""

    def __init__(self, frontier: Frontier, notices: WorkerNotices) -> None:
        self._frontier, self._notices = frontier, notices
        self.worker = 0
        self._asked_at = self._lease_s = 0.0

    async def join(self, name: str) -> int:
        """Register as a new worker; returns its number."""
        self._asked_at = boottime()
        terms = await self._frontier.join(name, ProcessId(ELSEWHERE, 0, random.getrandbits(62)))
        self.worker, self._lease_s = terms.worker, terms.lease_s
        return self.worker

    async def resume(self, worker: int) -> None:
        """Continue as an existing worker."""
        self.worker = worker
        await self.renew()

    async def renew(self) -> None:
        """Renew the leases, unless they were renewed a moment ago."""
        if not self._lease_s or boottime() - self._asked_at > self._lease_s * RENEWAL:
            asked_at = boottime()
            note = "; ".join(filter(None, [NOTE, self._notices.text()]))
            self._lease_s = await self._frontier.renew(self.worker, note)
            self._asked_at = asked_at

    async def confirm(self) -> None:
        """Renew at once: with several servers, a server counts only after it has heard from the worker twice."""
        await self._frontier.renew(self.worker, NOTE)

    async def leave(self) -> None:
        """Return all hosts to the frontier."""
        await self._frontier.leave(self.worker)

    def send_time_left_s(self) -> float:
        """How long a request may still be sent."""
        return max(0.0, self._asked_at + self._lease_s * (1 - MARGIN) - boottime())

    def holds_lease(self) -> bool:
        """Whether the crawler has called within the time of a lease."""
        return boottime() < self._asked_at + self._lease_s
