"""Session with one leased host: robots.txt first, then its visits one by one, with crawl delay and back-off.

A session takes a visit from its queue, decides whether it may be requested, fetches, parses, concludes, and passes the
finished visit to the committer. The committer returns further visits, until there are none or the lease has ended.
Where no delay has to pass, the next request is sent first, and the page is parsed while its response is on its way.
Promises: never two requests at once; nothing that robots.txt forbids; no request while a visit of the host has waited
for its report for half a second, so that little is requested twice after a kill or a network cut; a host that fails or
sends Retry-After is handed back with the time from which it may be visited again, and costs nothing while it waits. A
session whose collection is changed continues with the new configuration; a session whose collection is paused makes no
further request.
A session knows nothing of the worker, of other sessions or of the archive; `SessionTable` holds all sessions of a
worker.
"""

import asyncio
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Protocol

from msgspec.structs import replace

from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl.worker.collection_state import CollectionInForce, WorkerCollections
from tarrafa.crawl.worker.fetcher import build_request, decode_response
from tarrafa.crawl.worker.host_memory import HostMemory
from tarrafa.crawl.worker.outcome import FinishedVisit, conclude, refuse_visit
from tarrafa.crawl.worker.parser_with_sandbox import DecodedBody, ParseJobResult
from tarrafa.crawl.worker.politeness import HostPacing, HostResolver, PoliteFetcher, RequestFetcher
from tarrafa.crawl.worker.resource_limits import OverloadControl
from tarrafa.crawl.worker.robots_fetch import RobotsCache, RobotsFetch
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, retry_after_s
from tarrafa.fetch.robots import RobotsRules
from tarrafa.frontier.messages import VISITS_OF_NEW_LEASE, DiscoveredUrl, HostReport, Lease, NextVisits, VisitReport
from tarrafa.i18n import message
from tarrafa.model import BUSY, UNREACHED, HostId, Page, Status, UrlRole, Visit, host_trouble
from tarrafa.parse.url import host_name

if TYPE_CHECKING:
    from tarrafa.crawl.render.render_policy import HostRender, RenderedPage

WANTED_MAX = 1_024
VISITS_IN_HAND_MAX = 256
HEAVY_BYTES = 4 << 20  # such documents are decoded and parsed a few at a time
PARSED_LATER_BYTES_MAX = 64 << 10  # larger ones are parsed before the next request: they are not held twice
TURN_VISITS, TURN_S_MIN = 50, 5.0  # then other hosts may take its place
ERROR_CHARS_MAX = 200
TURN_S = 300.0  # then the session ends: the next one looks whether robots.txt is too old


class CommitTiming(NamedTuple):
    """How commits are paced, and what sessions do meanwhile."""

    every_s: float  # after the last commit; a visit that comes later does not wait
    few_every_s: float  # the same while fewer than `FEW_VISITS` wait
    pause_s: float  # between two commits, also when a session has nothing left to visit and waits for the next one
    unreported_s_max: float  # no request while a visit waits for longer: it would be made again after a kill
    in_hand_s: float  # visits to have in hand: as many as the host takes in that time


FEW_VISITS = 20
LOCAL_COMMITS = CommitTiming(every_s=0.2, few_every_s=0.2, pause_s=0.03, unreported_s_max=0.5, in_hand_s=1.0)
# Objects in a distant store. A commit costs two requests and a row there, of how many visits it may be.
LOG_COMMITS = CommitTiming(every_s=1.0, few_every_s=4.0, pause_s=0.5, unreported_s_max=6.0, in_hand_s=6.0)


class DocumentParser(Protocol):
    """Parses what was fetched, or gives what an external crawler has parsed."""

    @property
    def parses_later(self) -> bool:
        """Whether a document may be parsed while the next one is fetched."""

    async def decode_and_parse(
        self, decode: Callable[[], DecodedBody], *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]: ...


class VisitCommitter(Protocol):
    """Takes the finished visits of a session."""

    def record_visit(self, session: "HostSession", done: FinishedVisit) -> None: ...

    def record_host(self, session: "HostSession", sitemaps: list[DiscoveredUrl]) -> None:
        """New rules or sitemaps of the host."""

    def archive_exchange(self, request: FetchRequest, response: FetchResponse) -> None:
        """robots.txt, or what a page's scripts asked for."""

    def request_commit(self) -> None:
        """The session has nothing left to visit until its visits are reported."""

    def return_host(self, session: "HostSession") -> None:
        """The session is over; its host goes back."""


@dataclass(frozen=True, slots=True)
class AnsweredVisit:
    """A visit whose response is here, and when it was complete; not parsed yet."""

    visit: Visit
    request: FetchRequest
    response: FetchResponse
    at: float


@dataclass(slots=True)
class VisitQueue:
    """The visits of one session: those that wait, and how many are under way or not reported yet."""

    waiting: deque[Visit]
    commits: CommitTiming = LOCAL_COMMITS
    unreported: int = 0
    taken: int = 0
    wanted: int = VISITS_OF_NEW_LEASE  # how many to ask the frontier for next
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _paced: tuple[float, int] = field(default_factory=lambda: (boottime(), 0))  # the last report, and `taken` then
    _recorded: deque[float] = field(default_factory=deque)  # since when visits wait for their report

    def take(self) -> Visit:
        self.unreported += 1
        self.taken += 1
        return self.waiting.popleft()

    def dismiss(self, visit: Visit) -> None:
        """Remove a visit out of turn; it needs no request."""
        self.waiting.remove(visit)
        self.unreported += 1

    def give_back(self) -> None:
        """Return a taken visit with the host: nothing was sent."""
        self.unreported -= 1

    def note_recorded(self) -> None:
        """A visit is over, and waits for its report."""
        self._recorded.append(boottime())

    @property
    def is_report_late(self) -> bool:
        """Whether a visit has waited too long for its report: the frontier is silent, or this machine is too busy."""
        return bool(self._recorded) and boottime() - self._recorded[0] > self.commits.unreported_s_max

    def settle(self, reported: int, following: list[Visit]) -> None:
        """Count the reported visits and add those that follow."""
        self.unreported -= reported
        for _ in range(min(reported, len(self._recorded))):
            self._recorded.popleft()
        self.waiting.extend(following)

    def grow_batch(self) -> None:
        """Ask for more visits: refusals cost no time, and thousands of them should not go by eights."""
        self.wanted = min(2 * self.wanted, WANTED_MAX)

    def reset_batch(self) -> None:
        self.wanted = VISITS_OF_NEW_LEASE

    def wanted_by_pace(self) -> int:
        """How many visits to ask for in a report: as many as are made in the time of a few commits, or more where
        visits are refused."""
        (since, before), self._paced = self._paced, (boottime(), self.taken)
        pace = (self.taken - before) / max(self._paced[0] - since, 1e-3)
        return max(self.wanted, min(int(pace * self.commits.in_hand_s), VISITS_IN_HAND_MAX))


class HostSession:
    """Session with one leased host. `is_current` says whether a collection is unchanged since a given time;
    `new_render` makes what renders pages, where this machine may have a browser."""

    def __init__(
        self,
        lease: Lease,
        in_force: CollectionInForce,
        clock: Clock,
        fetcher: RequestFetcher,
        parser: DocumentParser,
        committer: VisitCommitter,
        resolver: HostResolver,
        robots_cache: RobotsCache,
        overload: OverloadControl,
        is_current: Callable[[int, float], bool],
        new_render: "Callable[[HostSession], HostRender] | None" = None,
        commits: CommitTiming = LOCAL_COMMITS,
    ) -> None:
        collection, self.admission = in_force.collection, in_force.admission
        self.lease, self.began_at = lease, clock.now()
        self.pacing = HostPacing.from_lease(lease, collection)
        self.polite_fetcher = PoliteFetcher(
            lease.host_key,
            collection,
            self.pacing,
            clock,
            fetcher,
            partial(is_current, lease.collection, self.began_at),
        )
        self.visits = VisitQueue(deque(lease.visits), commits)
        self.memory = HostMemory(lease.memory, collection.scope, lease.collection)
        self.robots_fetch = RobotsFetch(
            lease, self.polite_fetcher, robots_cache, resolver, overload, self.memory, committer.archive_exchange
        )
        self._parser, self._committer, self._resolver, self._overload = parser, committer, resolver, overload
        self._new_render = new_render
        self._render: HostRender | None = None
        self._answered: AnsweredVisit | None = None  # to be parsed while the next request is on its way
        self.lease_ended = False  # the host is no longer ours

    # -- for the committer and the session table ----------------------------------------------------------------

    @property
    def collection(self) -> Collection:
        """The collection with the configuration in force."""
        return self.polite_fetcher.collection

    @property
    def is_stopped(self) -> bool:
        """Whether no further request is made and the host goes back."""
        return self.polite_fetcher.is_stopped

    def stop(self) -> None:
        """Make no further request; a running request may end."""
        self.polite_fetcher.stop()
        self.visits.changed.set()

    def end_lease(self) -> None:
        """Make no further request and report nothing more: the frontier has taken the host back."""
        self.lease_ended = True
        self.stop()

    def apply_configuration(self, in_force: CollectionInForce) -> None:
        """Use a new configuration from now on. What was found out on arrival may not hold any more: then the session
        ends, and its host is leased again."""
        before, after = self.collection, in_force.collection
        self.admission = in_force.admission
        self.polite_fetcher.configure(after)
        old, new = before.politeness, after.politeness
        if before.network != after.network or (old.robots, old.per_ip) != (new.robots, new.per_ip):
            self.stop()
        self.memory.traps.set_limits(after.scope)
        if self.is_stopped:  # the next session computes the delays; the back-off of a failing host is decided already
            return
        if self.polite_fetcher.resolved.is_known:
            self.pacing.set_delay(self.robots_fetch.crawl_delay_s())
        else:
            self.pacing.raise_delay()
        self.pacing.restart_pause(self.polite_fetcher.resolved.free_at)

    def build_report(self, visits: list[VisitReport], *, keep: bool) -> HostReport:
        """The report on the host as things stand now; a new robots.txt is reported once."""
        lease, pacing = self.lease, self.pacing
        return HostReport(
            lease.host,
            lease.collection,
            visits,
            pacing.next_at,
            pacing.ended_at,
            pacing.delay_s,
            keep=keep,
            wanted=self.visits.wanted_by_pace(),
            failures=pacing.failures,
            robots_copy=self.robots_fetch.take_new_copy(),
            memory=self.memory.encode_if_changed(is_leaving=not keep, is_idle=not self.visits.waiting),
            trouble=pacing.trouble,
            run=lease.run,
        )

    def continue_with(self, reported: int, following: NextVisits) -> None:
        """Take the frontier's answer: the next visits, or that the host is no longer ours. `reported` visits are
        settled."""
        self.visits.settle(reported, following.visits if following.is_leased else [])
        if following.is_leased:
            self.visits.changed.set()
        else:
            self.end_lease()

    # -- the session's task ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Visit until there is nothing more to visit, or a reason to stop."""
        try:
            while self._settle_without_request() and not self.visits.waiting and not self._is_turn_over():
                self.visits.grow_batch()
                await self._wait_for_visits()
            if self.visits.waiting and await self._resolve_and_read_robots():
                while await self._next_visit():
                    pass
                await self._conclude_answered()
        finally:
            self.polite_fetcher.stop()
            self._committer.return_host(self)

    def _settle_without_request(self) -> bool:
        """Finish visits that were dismissed or taken down: they need no request, so their host need not answer. Returns
        whether there were any."""
        status_of = self.admission.takedown_or_dismissal_status
        found = [(visit, status) for visit in self.visits.waiting if (status := status_of(visit))]
        for visit, status in found:
            self.visits.dismiss(visit)
            self._refuse(visit, status)
        return bool(found)

    def _refuse(self, visit: Visit, status: int) -> None:
        now = self.polite_fetcher.clock.now()
        self._record(refuse_visit(visit, self.collection.name, status, now))

    def _record(self, done: FinishedVisit) -> None:
        self.visits.note_recorded()
        self._committer.record_visit(self, done)

    async def _wait_for_visits(self) -> None:
        """Return when there is something to visit, or when nothing more will come."""
        visits = self.visits
        if not visits.waiting:
            await self._conclude_answered()
        while not visits.waiting and visits.unreported and not self.polite_fetcher.is_stopped:
            await self._wait_for_report()

    async def _wait_for_report(self) -> None:
        """Wait until something was reported, or the session stops."""
        self.visits.changed.clear()
        self._committer.request_commit()
        await self.visits.changed.wait()

    async def _resolve_and_read_robots(self) -> bool:
        """Resolve the host and load its robots.txt; False when the session is over."""
        resolved = await self._resolver.resolve(host_name(f"{self.lease.host_key}/"), self.lease.host, self.collection)
        self.polite_fetcher.connect_to(resolved)
        if resolved.error == Status.ADDRESS_REFUSED:
            return True  # every URL gets this error
        if resolved.error:
            if not resolved.unsure and self.lease.failures:  # the name does not exist, and did not a while ago
                self.polite_fetcher.back_off(0.0, resolved.why, self.collection.fetch.host_failures_max)
            elif not (resolved.unsure and self._overload.note_reachability(self.lease.host, False)):
                self.polite_fetcher.back_off(0.0, resolved.why)
            return False
        if resolved.free_at:  # its address is busy with another host
            self.pacing.postpone(resolved.free_at)
            return False
        if self.collection.politeness.robots == "ignore":
            self.pacing.set_delay(None)
            return True
        rules = await self.robots_fetch.load()
        if rules is None:
            return False
        self.pacing.set_delay(self.robots_fetch.crawl_delay_s())
        self.pacing.postpone(self.pacing.ended_at + self.pacing.delay_s)  # robots.txt was a request too
        sitemaps = self._sitemaps(rules)
        if self.robots_fetch.new_copy is not None or sitemaps:
            self._committer.record_host(self, sitemaps)  # at once: after a kill the next session must know the delay
        return True

    def _sitemaps(self, rules: RobotsRules) -> list[DiscoveredUrl]:
        """The sitemaps of robots.txt; none if the host is only visited for a sitemap, or for one page."""
        visits = self.visits.waiting
        if not any(visit.role == UrlRole.PAGE and not self.admission.is_outside_hosts(visit.url) for visit in visits):
            return []
        depth = min((visit.depth for visit in visits), default=0)
        return list(self.admission.admit_sitemaps(rules.sitemaps, self.lease.host_key, depth))

    async def _next_visit(self) -> bool:
        """Make one visit; False when the session is over."""
        await self._wait_for_visits()
        if self.polite_fetcher.is_stopped or not self.visits.waiting or self._is_turn_over():
            return False
        visit = self.visits.take()
        if reason := self._status_without_request(visit):
            self._refuse(visit, reason)
            if not self.visits.waiting:
                self.visits.grow_batch()
            return True
        self.visits.reset_batch()
        return await self._visit_when_due(visit)

    async def _visit_when_due(self, visit: Visit) -> bool:
        """Make a visit with a request, when the delay has passed; False when the session is over."""
        collection = self.collection
        while is_due := await self.polite_fetcher.wait_for_delay():
            if not self.visits.is_report_late:
                break
            await self._conclude_answered()
            if not self.polite_fetcher.is_stopped:
                await self._wait_for_report()
        if not is_due:
            self.visits.give_back()
            return False
        if self.collection is not collection and (
            reason := self._status_without_request(visit)
        ):  # changed during the delay
            self._refuse(visit, reason)
            return True
        return await self._fetch_visit(visit)

    async def _fetch_visit(self, visit: Visit) -> bool:
        """Send the request and take its response; False when the session is over."""
        request = build_request(visit.url, self.collection, visit)
        response = await self._send(request, visit)
        if response is None:  # nothing was sent: the visit goes back with the host
            self.visits.give_back()
            return False
        unreached = response.status in UNREACHED
        if self._overload.note_reachability(self.lease.host, not unreached):  # we are offline: the visit goes back
            self.visits.give_back()
            return False
        self._answered = AnsweredVisit(visit, request, response, self.pacing.ended_at)
        if not self._may_parse_later(visit, response):
            await self._conclude_answered()
        if response.status == Status.STARVED:
            self._overload.note_overload()
            return True
        if unreached or response.status in BUSY:
            self._back_off(response)
            return False
        if not self.polite_fetcher.is_stopped:  # a page's own requests may have found the host busy
            self.pacing.note_success()
        return True

    def _may_parse_later(self, visit: Visit, response: FetchResponse) -> bool:
        """Whether the next request may be sent before this response is parsed."""
        if self.collection.render.when != "never":  # its scripts may have requests to make before the next visit
            return False
        is_small = visit.role == UrlRole.PAGE and len(response.raw_body) <= PARSED_LATER_BYTES_MAX
        return is_small and self._parser.parses_later and self.polite_fetcher.is_due

    async def _send(self, request: FetchRequest, visit: Visit) -> FetchResponse | None:
        """Send the request; parse and record the visit before it while the response is on its way."""
        if self._answered is None:
            return await self.polite_fetcher.send(request, visit)
        sending = asyncio.create_task(self.polite_fetcher.send(request, visit))
        try:
            await asyncio.sleep(0)  # the request is sent
            await self._conclude_answered()
            return await sending
        finally:
            if not sending.done():  # this session is cancelled
                sending.cancel()
                await asyncio.wait([sending])

    async def _conclude_answered(self) -> None:
        """Parse and record the visit whose response is here, if there is one."""
        answered, self._answered = self._answered, None
        if answered is None:
            return
        with self.polite_fetcher.hold_body(len(answered.response.raw_body)):
            done = await self._parse_and_conclude(answered)
        if done is None:  # the session stops in the middle of a page: the visit goes back with the host
            self.visits.give_back()
            return
        if self.admission.is_taken_down(answered.visit.url):  # taken down during the request: nothing is kept
            name = self.collection.name
            done = refuse_visit(answered.visit, name, Status.TAKEN_DOWN, answered.at, requested=True)
        self._record(done)

    async def _parse_and_conclude(self, answered: AnsweredVisit) -> FinishedVisit | None:
        """Parse and conclude; None: the page could not be rendered before the session stopped. A failure of the parser
        ends this visit only."""
        visit, response = answered.visit, answered.response
        try:
            body = parsed = rendered = None
            if response.status == 200:
                heavy = visit.role == UrlRole.SITEMAP or len(response.raw_body) > HEAVY_BYTES
                body, parsed = await self._parse(visit, response, heavy=heavy)
                if parsed is not None and parsed.hostile:
                    self.memory.count_hostile_page()
                if self._is_a_page(parsed, response):  # announced as a sitemap or feed
                    visit = replace(visit, role=int(UrlRole.PAGE))
                    body, parsed = await self._parse(visit, response, heavy=heavy)
                if self.collection.render.when != "never" and parsed is not None and parsed.page is not None:
                    parsed, rendered, is_whole = await self._render_page(visit, response, body, parsed, parsed.page)
                    if not is_whole:
                        return None
            facts = (self.collection, self.admission, answered.at, body, parsed, self.memory)
            return conclude(visit, answered.request, response, *facts, self.robots_fetch.rules, rendered)
        except Exception as error:
            traceback.print_exc()
            why = message("the parser failed: {error}", error=f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX])
            return refuse_visit(visit, self.collection.name, Status.HOSTILE, answered.at, why, requested=True)

    async def _render_page(
        self, visit: Visit, response: FetchResponse, body: DecodedBody, parsed: ParseJobResult, page: Page
    ) -> "tuple[ParseJobResult, RenderedPage | None, bool]":
        """Render a page that scripts make, and parse the result; with it the facts, and whether nothing was left out
        because the session stops."""
        from tarrafa.crawl.render.render_policy import has_gained, merge_fetched, reason_to_render, rendered_job

        kind, job = response.head.content_type or body.type, body.job
        if self._new_render is None or job is None or visit.role != UrlRole.PAGE:
            return parsed, None, True
        why = reason_to_render(self.collection, self.lease.host_key, kind, job.body, page, self.memory)
        if why is None:
            return parsed, None, True
        self._render = self._render or self._new_render(self)
        rendered, requests = await self._render.render(why, visit.url, response, job.body, page)
        if requests.is_interrupted:
            return parsed, None, False
        if requests.trouble is not None:
            self._back_off(requests.trouble)
        if not rendered.body:
            return parsed, rendered, True
        made_body = DecodedBody(rendered_job(job, rendered.body))
        _, made = await self._parser.decode_and_parse(lambda: made_body, heavy=len(rendered.body) > HEAVY_BYTES)
        if made is None or made.page is None:
            return parsed, rendered, True
        self.memory.count_rendered_page(has_gained=has_gained(page, made.page))
        asked = rendered.asked[: job.requisites_max]
        return merge_fetched(page, made, rendered.facts.moved_to, job.identity, asked), rendered, True

    def _back_off(self, response: FetchResponse) -> None:
        """Leave the host alone: it is busy, or does not answer."""
        wait_s = retry_after_s(response.head, self.pacing.ended_at) if response.status in BUSY else 0.0
        self.polite_fetcher.back_off(wait_s, host_trouble(response.status, response.error))

    async def _parse(
        self, visit: Visit, response: FetchResponse, *, heavy: bool
    ) -> tuple[DecodedBody, ParseJobResult | None]:
        return await self._parser.decode_and_parse(
            lambda: decode_response(visit, response, self.collection, self.admission), heavy=heavy
        )

    def _is_a_page(self, parsed: ParseJobResult | None, response: FetchResponse) -> bool:
        listing = parsed.listing if parsed is not None else None
        kind = response.head.content_type
        return listing is not None and not listing.kind and bool(kind) and self.collection.wants_type(kind)

    def _is_turn_over(self) -> bool:
        """Whether the turn is over and another host waits for the place; or robots.txt may be outdated."""
        clock = self.polite_fetcher.clock
        since_s = (clock.now() - self.began_at) / clock.scale
        if since_s > TURN_S:
            return True
        holds_address = self.polite_fetcher.resolved.address is not None
        is_long = self.visits.taken >= TURN_VISITS and since_s >= TURN_S_MIN
        return is_long and self._overload.is_place_wanted(holds_address=holds_address)

    def _status_without_request(self, visit: Visit) -> int:
        """Why no request may be made for this visit; 0 if one may."""
        admission = self.admission
        if status := admission.takedown_or_dismissal_status(visit) or self.polite_fetcher.resolved.error:
            return status
        return admission.visit_refusal_status(visit, self.memory, self.robots_fetch.allows)


class SessionTable:
    """The running host sessions, by host; tells them what changes about their collections."""

    def __init__(self, collections: WorkerCollections) -> None:
        self._collections = collections
        self._sessions: dict[HostId, HostSession] = {}
        self._tasks: dict[HostId, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, host: HostId) -> bool:
        return host in self._sessions

    def get(self, host: HostId) -> HostSession | None:
        return self._sessions.get(host)

    def hosts(self) -> list[HostId]:
        return list(self._sessions)

    def start(self, session: HostSession) -> "asyncio.Task[None]":
        self._sessions[session.lease.host] = session
        task = self._tasks[session.lease.host] = asyncio.create_task(session.run())
        return task

    def remove(self, session: HostSession) -> None:
        """Remove a session whose host is no longer ours. With several PostgreSQL servers the host may have been leased
        anew, on one that answers, before the answers of all are there: then its new session stays."""
        host = session.lease.host
        if self._sessions.get(host) is session:
            del self._sessions[host], self._tasks[host]

    async def refresh_configurations(self) -> None:
        """Read changed configurations; the sessions continue with the new ones."""
        changed = await self._collections.refresh()
        for session in self._sessions.values():
            if session.lease.collection in changed:
                session.apply_configuration(self._collections[session.lease.collection])

    async def apply_states(self) -> None:
        """Stop the sessions of suspended collections; pass news to the others."""
        if self._collections.is_outdated():
            await self.refresh_configurations()
        for session in self._sessions.values():
            suspended = self._collections.states.is_suspended(session.lease.collection, session.began_at)
            if suspended and not session.is_stopped:
                session.stop()

    def limit(self, hosts: int) -> None:
        """Let surplus hosts go back after their running visit."""
        for session in [session for session in self._sessions.values() if not session.is_stopped][hosts:]:
            session.stop()

    async def finish(self, grace_s: float) -> None:
        """Let running requests end and start nothing; cancel the rest after `grace_s`."""
        for session in self._sessions.values():
            session.stop()
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=grace_s)
            await _cancel(tasks)

    async def abandon(self) -> None:
        """Cancel all sessions and report nothing more."""
        for session in self._sessions.values():
            session.end_lease()
        await _cancel(list(self._tasks.values()))


async def _cancel(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
