"""Worker process: joins the frontier, leases hosts, runs one host session for each, and stops cleanly.

    Worker --lease--> HostSession --finished visit--> Committer --report--> frontier
                          ^                               |
                          +--------- next visits ---------+

A worker holds no truth and may be killed at any moment. Its host sessions know nothing of it: they are given a
fetcher, a parser, a committer and a few other narrow objects, which are put together here.
"""

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import uvloop

from tarrafa.archive.segment_log.segment import LogIdentity, SegmentManifest
from tarrafa.archive.segment_log.segment_writer import SegmentWriter
from tarrafa.archive.warc_writer import ArchiveWriter, WarcWriter
from tarrafa.clock import Clock, boottime
from tarrafa.crawl.worker.collection_state import WorkerCollections
from tarrafa.crawl.worker.committer import Committer, LinkCache, VisitRecorder
from tarrafa.crawl.worker.fetcher import Fetcher, RequestCredentials
from tarrafa.crawl.worker.host_session import LOCAL_COMMITS, LOG_COMMITS, HostSession, SessionTable
from tarrafa.crawl.worker.parser_with_sandbox import ParserWithSandbox
from tarrafa.crawl.worker.politeness import HostResolver
from tarrafa.crawl.worker.resource_limits import OFFLINE_PAUSE_S, LoopLag, OverloadControl, ResourceShare
from tarrafa.crawl.worker.robots_fetch import RobotsCache
from tarrafa.crawl.worker.stats import WorkerHeartbeat, WorkerNotices, WorkerStats
from tarrafa.crawl.worker.worker_fence import WorkerFence, free_name, register
from tarrafa.errors import FrontierError, TarrafaError, Unreachable
from tarrafa.fetch.http_client import HttpClient
from tarrafa.frontier.address import Address, OpenFrontier, address_from_supervisor, connect, open_manifest
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import ClockAgreement, sync_clock
from tarrafa.frontier.messages import REQUEST_MARGIN, RegistrationTerms
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import ProcessHeartbeat, send_heartbeats
from tarrafa.runtime.process_identity import raise_file_limit

if TYPE_CHECKING:
    from tarrafa.crawl.render.browser_requests import AnswerCache
    from tarrafa.crawl.render.render_policy import HostRender, Renderer

LEASE_EVERY_S, LIMITS_EVERY_S = 0.2, 1.0
FIRST_HOSTS = 10  # until the collection's number is known
STOP_GRACE_S = 5.0
# The frontier server, and the followers of graph and index, go first: what they have not done when the last page has
# come is waited for, on one processor, while another one is idle. Workers take what is left, so none is idle before.
NICE = 6
SERVER_START_S, SERVER_LOOK_S = 5.0, 0.02  # how long a frontier that is not there yet is waited for
FILES_WANTED, FILES_SPARE = 10_000, 200  # one socket per host, and spare ones


class StopSignal:
    """Ends a worker, with an error or without. May be given from another thread."""

    def __init__(self) -> None:
        self._loop, self._given = asyncio.get_running_loop(), asyncio.Event()
        self.error: TarrafaError | None = None
        self.is_registration_lost = False

    def give(self, error: TarrafaError | None = None, *, is_registration_lost: bool = False) -> None:
        self.error, self.is_registration_lost = self.error or error, self.is_registration_lost or is_registration_lost
        with contextlib.suppress(RuntimeError):  # the event loop has ended already
            self._loop.call_soon_threadsafe(self._given.set)

    async def wait(self) -> None:
        await self._given.wait()


class Worker:
    """One crawling process that has joined the frontier."""

    def __init__(
        self,
        data: DataDirectory,
        name: str,
        address: Address,
        frontier: Frontier,
        agreed: ClockAgreement,
        registered: tuple[RegistrationTerms, float],
        connections_max: int,
        workers: int,
        stop: StopSignal,
        manifest: tuple[SegmentManifest, LogIdentity] | None = None,
    ) -> None:
        clock, stats, link_cache, self._lag = agreed.clock, WorkerStats(), LinkCache(), LoopLag()
        terms, asked_at = registered
        self._data, self._frontier, self._stop = data, frontier, stop
        self._limits = ResourceShare(data, workers, connections_max)
        notices = WorkerNotices(agreed.notice(), link_cache.hit_rate_text, lambda: self._limits.current.why)
        self._heartbeat = WorkerHeartbeat(name, stats, notices, self._lag.lag_s)
        self._collections = WorkerCollections(data, clock, frontier)
        self._sessions = SessionTable(self._collections)
        self._overload = OverloadControl(self._sessions, self._hosts_max, notices)
        on_lost = partial(self._stop.give, is_registration_lost=True)
        self._fence = WorkerFence(
            address,
            terms,
            asked_at,
            clock,
            notices.text,
            on_lost,
            self._clock_drifted,
            self._collections.receive_states,
        )
        unheard_s = terms.lease_s * REQUEST_MARGIN
        client = HttpClient(connections_max, self._fence.may_send, lag=self._lag.lag_s, unheard_s=unheard_s)
        self._fetcher = Fetcher(client, RequestCredentials(data), self._limits, stats)
        timing = LOCAL_COMMITS if manifest is None else LOG_COMMITS
        writer: ArchiveWriter
        if manifest is None:
            writer = WarcWriter(data.archive, name, clock.now())
        else:
            writer = SegmentWriter(*manifest, terms.worker, self._fence.is_valid)
        recorder = VisitRecorder(writer, clock, self._collections)
        self._committer = Committer(
            name,
            frontier,
            self._fence,
            self._collections,
            recorder,
            link_cache,
            stats,
            self._sessions.remove,
            timing=timing,
        )
        parser, resolver = ParserWithSandbox(), HostResolver(partial(frontier.claim_address, terms.worker))
        self._new_session = partial(
            HostSession,
            clock=clock,
            fetcher=self._fetcher,
            parser=parser,
            committer=self._committer,
            resolver=resolver,
            robots_cache=RobotsCache(frontier, self._fence),
            overload=self._overload,
            is_current=self._collections.is_current,
            new_render=self._new_render,
            commits=timing,
        )
        self._closing = contextlib.AsyncExitStack()  # closed in reverse order
        self._closing.push_async_callback(resolver.close)
        for close in (recorder.close, parser.close, client.close, self._fence.close):
            self._closing.callback(close)
        self._closing.callback(free_name, data, name)
        self._closing.push_async_callback(frontier.leave, terms.worker)
        self._renders: tuple[Renderer, AnswerCache] | None = None

    async def run(self) -> None:
        """Work until stopped, or until the leases are lost."""
        on_sigterm(self.stop)
        measuring = asyncio.create_task(self._lag.run())
        heartbeats = asyncio.create_task(send_heartbeats(self._data, self._make_heartbeat))
        limiting = asyncio.create_task(self._apply_limits())
        leasing = asyncio.create_task(self._lease_hosts())
        committing = asyncio.create_task(self._committer.run())
        watching = asyncio.create_task(self._watch_collection_states())
        stopping = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait({leasing, committing, watching, stopping}, return_when=asyncio.FIRST_COMPLETED)
        errors = [error for task in (leasing, committing, watching) if task in done and (error := task.exception())]
        if errors:  # an unreachable frontier ends several tasks: the first error says enough
            raise errors[0]
        leasing.cancel()
        watching.cancel()
        if self._stop.is_registration_lost:
            await self._sessions.abandon()
        else:
            await self._shut_down(committing)
        for task in (measuring, heartbeats, limiting):
            task.cancel()
        if self._stop.error is not None:
            raise self._stop.error

    def stop(self) -> None:
        """Finish running requests, return all hosts, and end."""
        self._stop.give()

    def _clock_drifted(self, ahead_s: float) -> None:
        """The clocks of this machine and of the frontier differ too much: end, to join anew."""
        way = "ahead of" if ahead_s > 0 else "behind"
        why = f"this machine's clock is {abs(ahead_s):,.1f} s {way} the frontier's by now: joining anew"
        self._stop.give(FrontierError(why))

    async def _shut_down(self, committing: "asyncio.Task[None]") -> None:
        await self._sessions.finish(STOP_GRACE_S)
        self._committer.close()
        await committing
        await self._committer.commit()
        await self._closing.aclose()

    async def _lease_hosts(self) -> None:
        await self._sessions.refresh_configurations()
        while True:
            if self._overload.is_offline:  # nothing answers: try again later
                await asyncio.sleep(OFFLINE_PAUSE_S)
                self._overload.assume_online()
            self._overload.recover()
            room = self._overload.room()
            leases = await self._frontier.lease(self._fence.worker, room) if room > 0 else []
            for lease in leases:
                if not self._collections.has_config_of(lease):
                    await self._sessions.refresh_configurations()
                session = self._new_session(lease, self._collections[lease.collection])
                self._sessions.start(session).add_done_callback(self._committer.session_ended)
            await asyncio.sleep(LEASE_EVERY_S)

    def _new_render(self, session: HostSession) -> "HostRender":
        """What renders the pages of a host. Its code is loaded for the first page that scripts make."""
        from tarrafa.crawl.render.browser_requests import AnswerCache, HostMeans
        from tarrafa.crawl.render.render_policy import HostRender, Renderer

        if self._renders is None:
            self._renders = Renderer((str(self._data.root.resolve()),)), AnswerCache()
            self._closing.callback(self._renders[0].close)
        means = HostMeans(
            session.polite_fetcher,
            session.robots_fetch,
            lambda: session.admission,
            self._committer.archive_exchange,
            session.lease.host_key,
        )
        return HostRender(*self._renders, means)

    def _hosts_max(self, share: float) -> int:
        return self._limits.hosts_allowed(self._collections.hosts_wanted(FIRST_HOSTS), share)

    async def _watch_collection_states(self) -> None:
        while True:
            await self._collections.wait_for_states()
            await self._sessions.apply_states()

    def _make_heartbeat(self) -> ProcessHeartbeat:
        return self._heartbeat.make(
            len(self._sessions), self._overload.hosts_at_once(), self._fetcher.transfers_running
        )

    async def _apply_limits(self) -> None:
        """Apply the resource limits, and again whenever they have changed."""
        have_changed = True
        while True:
            if have_changed:
                self._fetcher.apply_limits()
                self._sessions.limit(self._overload.hosts_at_once())
            await asyncio.sleep(LIMITS_EVERY_S)
            have_changed = self._limits.reload()


async def _work(data: DataDirectory, name: str, connections_max: int, workers: int) -> None:
    address, own, stop = address_from_supervisor(), Clock.from_environment(), StopSignal()
    on_lost = partial(
        stop.give, is_registration_lost=True
    )  # at once: what is fetched from now on could not be reported
    frontier = await _connect_once_served(partial(connect, address, own, keeps_links=True, on_lost=on_lost))
    agreed = await sync_clock(frontier, own)
    registered = await register(frontier, data, name)
    manifest = await asyncio.to_thread(open_manifest, address)
    await Worker(data, name, address, frontier, agreed, registered, connections_max, workers, stop, manifest).run()


async def _connect_once_served(connect_now: Callable[[], Awaitable[OpenFrontier]]) -> OpenFrontier:
    """Connect to the frontier. Our supervisor starts its server at the same moment as us."""
    until = boottime() + SERVER_START_S
    while boottime() < until:
        with contextlib.suppress(Unreachable):
            return await connect_now()
        await asyncio.sleep(SERVER_LOOK_S)
    return await connect_now()


def main(data: DataDirectory, name: str, workers: int = 1) -> None:
    """Started by the supervisor. `workers`: how many share this machine's bandwidth."""
    os.nice(NICE)
    connections_max = max(10, raise_file_limit(FILES_WANTED) - FILES_SPARE)
    uvloop.run(_work(data, name, connections_max, workers))


if __name__ == "__main__":
    run_child(main)
