"""Leases of a relay: held for an external crawler and renewed by its calls, by nothing else."""

import random

from tarrafa.clock import boottime
from tarrafa.crawl.worker.stats import WorkerNotices
from tarrafa.frontier.api import Frontier
from tarrafa.runtime.process import ProcessId

ELSEWHERE = "crawler"  # stands where a boot id would: no process of any machine is called so
NOTE = "a crawler that talks through HTTP"
MARGIN = 1 / 6  # of a lease: in its last part no request is sent
RENEWAL = 1 / 6  # of a lease: it is renewed no more often


class RelayLease:
    """The place of one crawler at the frontier: the number of its worker, and until when its leases hold."""

    def __init__(self, frontier: Frontier, notices: WorkerNotices) -> None:
        self._frontier, self._notices = frontier, notices
        self.worker = 0
        self._asked_at = self._lease_s = 0.0

    async def join(self, name: str) -> int:
        """Take part as a new worker: its number."""
        self._asked_at = boottime()
        terms = await self._frontier.join(name, ProcessId(ELSEWHERE, 0, random.getrandbits(62)))
        self.worker, self._lease_s = terms.worker, terms.lease_s
        return self.worker

    async def resume(self, worker: int) -> None:
        """Go on as the worker that it was."""
        self.worker = worker
        await self.renew()

    async def renew(self) -> None:
        """Prolong the leases, unless that was done a moment ago."""
        if not self._lease_s or boottime() - self._asked_at > self._lease_s * RENEWAL:
            asked_at = boottime()
            note = "; ".join(filter(None, [NOTE, self._notices.text()]))
            self._lease_s = await self._frontier.renew(self.worker, note)
            self._asked_at = asked_at

    async def confirm(self) -> None:
        """Renew at once: of several servers, those count that have heard of a worker twice."""
        await self._frontier.renew(self.worker, NOTE)

    async def leave(self) -> None:
        """Hand everything back."""
        await self._frontier.leave(self.worker)

    def send_time_left_s(self) -> float:
        """For how long a request may still be sent."""
        return max(0.0, self._asked_at + self._lease_s * (1 - MARGIN) - boottime())

    def holds_lease(self) -> bool:
        """Whether the crawler has called within the time of a lease."""
        return boottime() < self._asked_at + self._lease_s
