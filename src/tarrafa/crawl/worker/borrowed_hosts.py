"""Borrowed hosts: a request to another host than that of the session, which the frontier lends for it.

The target of a robots.txt that is redirected is such a host, and so is what a page's scripts ask for.
Promises: a host is borrowed only while no worker holds it and its delay has passed; it is returned with the time from
which it may be contacted again, after its delay, or after a back-off if it was busy.
"""

from tarrafa.crawl.worker.politeness import HostResolver, PoliteFetcher, backoff_s, random_jitter
from tarrafa.crawl.worker.worker_fence import Registration
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, retry_after_s
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.messages import HostLoan, HostReport, Lease, RobotsCopy
from tarrafa.i18n import joined
from tarrafa.model import BUSY, UNREACHED, HostId, Status, status_name
from tarrafa.parse.url import host_id, host_key, host_name, name_and_port


class HostLender:
    """The frontier as far as it lends hosts to a worker."""

    def __init__(self, frontier: Frontier, registration: Registration) -> None:
        self._frontier, self._registration = frontier, registration

    async def borrow(self, collection: int, key: str) -> HostLoan:
        return await self._frontier.borrow_host(self._registration.worker, collection, host_id(key), key)

    async def take_back(self, report: HostReport) -> None:
        await self._frontier.finish(self._registration.worker, [report])


class BorrowedHostFetch:
    """The borrowed hosts of one session."""

    def __init__(self, lease: Lease, polite_fetcher: PoliteFetcher, lender: HostLender, resolver: HostResolver) -> None:
        self._lease, self._polite_fetcher, self._lender, self._resolver = lease, polite_fetcher, lender, resolver

    async def borrow(self, key: str, wait_s_max: float) -> HostLoan:
        """Borrow a host. If it becomes free within that time (its delay, or another worker for a moment), wait."""
        clock = self._polite_fetcher.clock
        loan = await self._lender.borrow(self._lease.collection, key)
        if not loan.granted and loan.free_at - clock.now() < wait_s_max:
            await clock.sleep_until(loan.free_at)
            loan = await self._lender.borrow(self._lease.collection, key)
        return loan

    async def fetch(self, request: FetchRequest, loan: HostLoan) -> FetchResponse | None:
        """Send one request to a borrowed host. None: its address is busy."""
        resolved = await self._resolver.resolve(
            host_name(request.url),
            host_id(host_key(request.url)),
            self._polite_fetcher.collection,
            beside=self._polite_fetcher.resolved.address,
        )
        if resolved.error:
            return FetchResponse(
                Status.SYSTEM_ERROR, error=joined([host_key(request.url), status_name(resolved.error)], ": ")
            )
        if resolved.free_at:
            return None
        delay_s = self._delay_s(request.url, loan)
        return await self._polite_fetcher.send_to_other_host(request, resolved, loan.ended_at + delay_s)

    async def give_back(
        self,
        url: str,
        loan: HostLoan,
        answer: FetchResponse | None,
        robots_copy: RobotsCopy | None = None,
        asked_delay_s: float = 0.0,
    ) -> None:
        """Return a borrowed host with its delay, and with its back-off if it was busy; and its robots.txt, if that was
        fetched."""
        host, delay_s = host_id(host_key(url)), max(self._delay_s(url, loan), asked_delay_s)
        now, pause_s, failures = self._polite_fetcher.clock.now(), delay_s, loan.failures
        if answer is not None and answer.status in BUSY | UNREACHED:
            failures += 1
            politeness, asked_s = self._polite_fetcher.collection.politeness, retry_after_s(answer.head, now)
            pause_s = max(pause_s, backoff_s(politeness, failures, asked_s, random_jitter()))
        await self._return(host, now + pause_s, now, delay_s, failures, robots_copy)

    async def give_back_unused(self, key: str, loan: HostLoan) -> None:
        """Return a host to which nothing was sent: its pause does not begin anew."""
        now = self._polite_fetcher.clock.now()
        await self._return(host_id(key), now, loan.ended_at, loan.delay_s, loan.failures, None)

    async def _return(
        self, host: HostId, next_at: float, ended_at: float, delay_s: float, failures: int, copy: RobotsCopy | None
    ) -> None:
        await self._lender.take_back(
            HostReport(
                host, self._lease.collection, [], next_at, ended_at, delay_s,
                keep=False, failures=failures, robots_copy=copy,
            )
        )  # fmt: skip

    def _delay_s(self, url: str, loan: HostLoan) -> float:
        return max(loan.delay_s, self._polite_fetcher.collection.delay_for(*name_and_port(url)))
