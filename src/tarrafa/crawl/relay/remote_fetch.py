"""Fetch tasks of a relay: hands each request to the external crawler and waits for its result.

The host session is the same as in a worker. Its fetcher turns each request into a `FetchTask`, with the earliest time
of the request, and waits for the result. A page arrives parsed; robots.txt, sitemaps and feeds arrive unparsed.
Promises: one fetch task per host at a time.
Knows nothing of HTTP or of the frontier.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl.relay.crawler_result import CrawlerResult, to_page, to_response
from tarrafa.crawl.worker.collection_state import CollectionInForce
from tarrafa.crawl.worker.committer import Committer
from tarrafa.crawl.worker.host_session import HostSession, SessionTable
from tarrafa.crawl.worker.outcome import FinishedVisit
from tarrafa.crawl.worker.parser_with_sandbox import DecodedBody, ParseJobResult, ParserWithSandbox
from tarrafa.crawl.worker.worker_fence import Registration
from tarrafa.errors import FrontierError, LeaseLost, TarrafaError
from tarrafa.fetch.http_message import FetchRequest, FetchResponse
from tarrafa.frontier.messages import DiscoveredUrl, HostReport, Lease
from tarrafa.i18n import message
from tarrafa.model import HostId, Outcome, Status, UrlId, UrlRole, Visit
from tarrafa.parse.url import url_id

GRACE_S = 30.0  # beyond a document's time limit; then the task is given up
SETTLED_MAX = 10_000
VisitKey = tuple[UrlId, int]  # of a visit; number 0 is the host's robots.txt


@dataclass(frozen=True, slots=True)
class DeferredClock(Clock):
    """Does not wait: the fetch task carries the earliest time of its request."""

    inner: Clock = field(default_factory=Clock.real)
    moments: list[float] = field(default_factory=lambda: [0.0])

    @classmethod
    def of(cls, clock: Clock) -> "DeferredClock":
        return cls(clock.epoch, clock.anchor, clock.scale, clock)

    def now(self) -> float:
        return self.inner.now()

    async def sleep_until(self, moment: float) -> None:
        self.moments[0] = moment


@dataclass(slots=True, eq=False)
class FetchTask:
    """A request for the external crawler, due now or at the time that it names. Without a visit it is the host's
    robots.txt."""

    session: HostSession
    request: FetchRequest
    visit: Visit | None
    not_before: float
    result: "asyncio.Future[CrawlerResult]"

    @property
    def host(self) -> HostId:
        return self.session.lease.host

    @property
    def key(self) -> VisitKey:
        return (url_id(self.request.url), 0) if self.visit is None else (self.visit.id, self.visit.number)

    @property
    def is_open(self) -> bool:
        return not self.result.done()

    def wait_s(self) -> float:
        """How long the crawler has to wait; 0 or less: not at all."""
        clock = self.session.polite_fetcher.clock
        return (self.not_before - clock.now()) / clock.scale

    def restart_delay(self) -> None:
        """Start the host's delay again: the crawler may have made the request a moment ago."""
        self.not_before = max(self.not_before, self.session.polite_fetcher.clock.now() + self.session.pacing.delay_s)

    async def wait_for_result(self) -> CrawlerResult | None:
        """The result; None: it did not arrive in time."""
        try:
            async with asyncio.timeout(max(0.0, self.wait_s()) + self.request.time_max_s + GRACE_S):
                return await self.result
        except TimeoutError:
            return None


@dataclass(frozen=True, slots=True)
class SettledVisit:
    """A visit that is over. `finished` is False if it had no result and is made again later."""

    host: HostId
    outcome: Outcome
    finished: bool = True


class FetchTaskBoard:
    """The fetch tasks of one crawler, from creation to settlement; calls wait here for changes."""

    def __init__(self, sessions: SessionTable) -> None:
        self._sessions = sessions
        self._tasks: dict[HostId, FetchTask] = {}
        self._answered: dict[VisitKey, FetchTask] = {}  # answered, not settled yet
        self._settled: dict[VisitKey, SettledVisit] = {}
        self._robots_keys: dict[HostId, VisitKey] = {}  # of the robots.txt requested last
        self._changed = asyncio.Event()
        self.failure: BaseException | None = None  # the error that stopped the relay

    def open_tasks(self) -> list[FetchTask]:
        return [task for task in self._tasks.values() if task.is_open]

    def next_task(self, host: HostId) -> FetchTask | None:
        task = self._tasks.get(host)
        return task if task is not None and task.is_open else None

    def find(self, key: VisitKey) -> FetchTask | None:
        """The fetch task of a visit, if the visit is not over."""
        return self._answered.get(key) or next((task for task in self.open_tasks() if task.key == key), None)

    def is_complete(self) -> bool:
        """Whether every host has its fetch task."""
        return all(host in self._tasks for host in self._sessions.hosts())

    async def fetch(
        self, host: HostId, request: FetchRequest, visit: Visit | None, not_before: float
    ) -> CrawlerResult | None:
        """Create a fetch task and wait for its result; None: it did not arrive in time."""
        session = self._sessions.get(host)
        if session is None:  # the host is no longer ours
            return None
        task = FetchTask(session, request, visit, not_before, asyncio.get_running_loop().create_future())
        self._tasks[host] = task
        self._settled.pop(task.key, None)  # robots.txt is fetched again and again
        if visit is None:
            self._robots_keys[host] = task.key
        self.notify()
        try:
            return await task.wait_for_result()
        finally:
            if self._tasks.get(host) is task:
                del self._tasks[host]

    def answer(self, task: FetchTask, result: CrawlerResult) -> None:
        """Take the result of a fetch task. If it is reported twice, the first report counts."""
        if task.is_open:
            self._answered[task.key] = task
            task.result.set_result(result)

    def forget_answer(self, key: VisitKey) -> None:
        self._answered.pop(key, None)

    def settle(self, key: VisitKey, settled: SettledVisit) -> None:
        self._settled[key] = settled
        while len(self._settled) > SETTLED_MAX:
            del self._settled[next(iter(self._settled))]

    def settle_reported(self, report: HostReport) -> None:
        """Settle the visits of a report that the frontier has accepted."""
        key = self._robots_keys.get(report.host)
        if report.robots_copy is not None and key is not None:
            self.settle(key, SettledVisit(report.host, Outcome(report.robots_copy.status, report.ended_at)))
        for one in report.reports:
            self.settle((one.id, one.number), SettledVisit(report.host, one.outcome))
        if report.robots_copy is not None or report.host not in self._sessions:
            self._robots_keys.pop(report.host, None)
        self.notify()

    def settle_unreported(self, task: FetchTask) -> SettledVisit:
        """Settle a task without a report: a robots.txt of another host is over; a visit without a result is not."""
        status = Status.NOT_SENT if task.result.cancelled() else task.result.result().status
        outcome = Outcome(status, task.session.polite_fetcher.clock.now())
        settled = SettledVisit(task.host, outcome, finished=task.visit is None)
        self.settle(task.key, settled)
        return settled

    def settled_visit(self, key: VisitKey) -> SettledVisit | None:
        return self._settled.get(key)

    def fail(self, error: BaseException) -> None:
        self.failure = self.failure or error
        self.notify()

    def notify(self) -> None:
        """Wake the calls that wait."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_until(self, is_so: Callable[[], bool], patience_s: float) -> bool:
        """Wait until the condition holds, at most `patience_s`; returns whether it holds. Raises the error that stopped
        the relay."""
        deadline = boottime() + patience_s
        while True:
            if isinstance(self.failure, TarrafaError):
                raise self.failure
            if self.failure is not None:
                raise FrontierError(
                    message("it went wrong here: {failure}", failure=repr(self.failure))
                ) from self.failure
            if is_so():
                return True
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, deadline - boottime())):
                    await self._changed.wait()
            if boottime() >= deadline:
                return is_so()


class RemoteFetcher:
    """Fetcher of one host session: the external crawler makes its requests."""

    def __init__(self, host: HostId, board: FetchTaskBoard, clock: DeferredClock) -> None:
        self._host, self._board, self._clock = host, board, clock
        self.last_result: CrawlerResult | None = None

    async def fetch(self, request: FetchRequest, collection: Collection, visit: Visit | None) -> FetchResponse:
        self.last_result = await self._board.fetch(self._host, request, visit, self._clock.moments[0])
        if self.last_result is None:
            return FetchResponse(Status.NOT_SENT)
        return to_response(self.last_result, request, is_page=visit is not None and visit.role == UrlRole.PAGE)

    def hold_body(self, size: int) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()  # the HTTP API limits the size of results


class RemoteParser:
    """Parser of one host session: the external crawler has parsed its pages; sitemaps, feeds and requisites are parsed
    here."""

    parses_later = False  # the crawler's next result would take its place

    def __init__(self, fetcher: RemoteFetcher, parser: ParserWithSandbox) -> None:
        self._fetcher, self._parser = fetcher, parser

    async def decode_and_parse(
        self, decode: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]:
        body = decode()
        if body.job is None:
            return body, None
        if body.job.role != UrlRole.PAGE:
            return await self._parser.decode_and_parse(lambda: body, heavy=heavy)
        assert self._fetcher.last_result is not None
        return body, ParseJobResult(page=to_page(self._fetcher.last_result, body.job.url, body.job.identity))


class RelayCommitter:
    """Committer of one host session: records the name of the external crawler, and commits at once, because a call
    waits."""

    def __init__(self, name: str, fetcher: RemoteFetcher, committer: Committer, registration: Registration) -> None:
        self._name, self._fetcher, self._committer, self._registration = name, fetcher, committer, registration
        self.archive_exchange, self.request_commit = committer.archive_exchange, committer.request_commit

    def record_visit(self, session: HostSession, done: FinishedVisit) -> None:
        """Record the visit with the crawler's name, if a request was made. There are no bytes to archive."""
        outcome, record, result = done.record.outcome, done.record, self._fetcher.last_result
        if outcome.requested and result is not None:
            outcome = replace(outcome, length=result.length, payload="")
            record = replace(record, outcome=outcome, worker=self._name)
        self._committer.record_visit(session, FinishedVisit(done.visit, record, None, done.discovered, done.listing))
        if not self._registration.is_valid():
            self._committer.fail(
                LeaseLost(message("worker {name} has lost its leases: it was silent for too long", name=self._name))
            )
        self.request_commit()

    def record_host(self, session: HostSession, sitemaps: list[DiscoveredUrl]) -> None:
        self._committer.record_host(session, sitemaps)
        self.request_commit()

    def return_host(self, session: HostSession) -> None:
        self._committer.return_host(session)
        self.request_commit()


def new_remote_session(
    name: str,
    clock: Clock,
    registration: Registration,
    board: FetchTaskBoard,
    committer: Committer,
    parser: ParserWithSandbox,
    lease: Lease,
    in_force: CollectionInForce,
    **shared: Any,
) -> HostSession:
    """A host session whose requests the external crawler `name` makes. `shared`: what all sessions of a relay use."""
    deferred = DeferredClock.of(clock)
    fetcher = RemoteFetcher(lease.host, board, deferred)
    return HostSession(
        lease,
        in_force,
        clock=deferred,
        fetcher=fetcher,
        parser=RemoteParser(fetcher, parser),
        committer=RelayCommitter(name, fetcher, committer, registration),
        **shared,
    )
