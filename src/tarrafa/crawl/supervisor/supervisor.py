"""Supervisor: decides how many workers and followers a data directory has, and when its crawl is over.

The first process that locks `DATA/lock` is the supervisor. It starts the workers and followers of this data directory,
and starts again what dies (`child_processes`); so for the frontier server, if the frontier is here (`frontier_link`).
Its children die with it. It ends when every collection has ended, unless it is a lasting one (of a node, a worker, a
frontier server). A child that prints an error and exits with status 2 has an error that no restart can mend: everything
stops, and the supervisor raises the error. A *patient* supervisor, that of a node, continues instead: it shows the
problem, tries again later, and pauses its workers while the disk is nearly full. The number of workers, following and
limits can be changed while it runs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Container
from itertools import islice
from typing import IO

from tarrafa import config
from tarrafa.archive.segment_log.log_mirror import refuse_mirror, remember_log
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl.compaction.switch import recover
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.supervisor.child_processes import TICK_S, ChildProcess, ChildProcesses, ChildProcessState
from tarrafa.crawl.supervisor.completion import SETTLE_S, CompletionCheck
from tarrafa.crawl.supervisor.drain import drainable, is_draining
from tarrafa.crawl.supervisor.followers import Followers
from tarrafa.crawl.supervisor.frontier_link import FrontierLink, LocalFrontierLink
from tarrafa.crawl.supervisor.part_ownership import PartOwnership
from tarrafa.crawl.supervisor.takedown_and_deletion_sync import sync_takedowns_and_deletions
from tarrafa.crawl.supervisor.watchdog import SilenceLimits, Watchdog
from tarrafa.crawl.verify.scrub import ScrubSchedule
from tarrafa.crawl.worker.resource_limits import UNLIMITED, NodeLimits, ResourceLimits
from tarrafa.errors import DataError, FrontierError, Locked, TarrafaError, Unreachable
from tarrafa.frontier.address import OpenFrontier, child_environment, open_manifest
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import sync_clock
from tarrafa.frontier.messages import GRAPH, INDEX, CollectionRow, DiscoveredUrl, FrontierOverview
from tarrafa.i18n import Message, message
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_note

STOPPED_REASON = message("stopped; `tarrafa crawl FILE`, or `tarrafa resume` beside a node, goes on where it was")
PAUSE_TIMEOUT_S = 5.0
END_TICK_S = 0.1  # between two looks at followers that have nothing left but the last pages
CATCH_UP_S_MAX = 10.0  # after Ctrl-C
WAIT_S = 15.0
SETTLE_S_MAX = 30.0
LOG_PATIENCE_S = 3.0  # for the manifest of a segment log
ROOTS_PER_CALL = 4_000
FOLLOWERS_WAIT_S_MAX = 5.0  # for the first worker


class Supervisor:
    """Owns the processes of one data directory. Use it in an `async with`.

    `lasting`: the frontier outlives the supervisor, or continues when the supervisor starts again; running collections
    are not paused at its end. `follows`: there will be an archive to follow, of our workers or of external crawlers.
    `divided`: the parts of a new index. `patient`: whatever happens to a child or to the disk, continue and report it
    (`troubles`). `silence`: how long a child may send no heartbeat before it is killed and started again. `submitted`:
    the collection to crawl; workers get no work before the frontier has its present definition. `scrub_every_s`: how
    often all data are verified; 0: never. `store`: where a new frontier in PostgreSQL keeps the archive of all
    machines.
    """

    def __init__(
        self,
        data: DataDirectory,
        workers: int,
        clock: Clock | None = None,
        *,
        frontier_link: FrontierLink | None = None,
        name: str = "w",
        lasting: bool = False,
        follows: bool = True,
        divided: ShardLayout | None = None,
        patient: bool = False,
        limits: ResourceLimits = UNLIMITED,
        silence: SilenceLimits = SilenceLimits(),  # noqa: B008 (immutable)
        print_line: Callable[[str], None] = print_note,
        submitted: Collection | None = None,
        scrub_every_s: float = 0.0,
        store: str | None = None,
    ) -> None:
        clock = clock or Clock.from_environment()
        self._submitted, self._store = submitted, store
        self.data, self.name = data, name  # prefix of our workers' names
        self.frontier_link: FrontierLink = frontier_link or LocalFrontierLink(
            data, clock, print_line=print_line, patient=patient
        )
        self._lasting, self._follows, self._patient, self._print_line = lasting, follows, patient, print_line
        self._limits = NodeLimits(data, limits, print_line)
        self._clock = clock  # children begin with its time
        self._scrubs = ScrubSchedule(data, scrub_every_s, clock)
        self._processes = ChildProcesses(
            lambda: child_environment(self.frontier_link.address, self._clock),
            self.frontier_link.wait_until_reachable,
            print_line,
            patient=patient,
            may_restart=lambda: not self._limits.trouble,
        )
        self.watchdog = Watchdog(data, self._all_children, print_line, silence)
        self._followers = Followers(data, divided)
        self._changing = asyncio.Lock()  # held while it changes which followers run
        self._ownership: PartOwnership | None = None
        self._workers = [self._worker(number, workers) for number in range(1, workers + 1)]
        self._completion = CompletionCheck(self._followers.catch_up_of, self._settle_s())
        self._lock: IO[bytes] | None = None
        self._closing, self._running = contextlib.ExitStack(), contextlib.ExitStack()

    def _settle_s(self) -> float:
        """How long a collection must be exhausted. A process that only serves leaves finishing to the machines that
        crawl, which know their own followers, as long as there are any."""
        if not self.frontier_link.is_shared:
            return 0.0
        return SETTLE_S if self._workers else 3 * SETTLE_S

    @property
    def frontier(self) -> OpenFrontier:
        return self.frontier_link.frontier

    async def __aenter__(self) -> "Supervisor":
        self.data.create()
        self._lock = self.data.try_lock()
        if self._lock is None:
            raise Locked(message("{path}: another Tarrafa process is working here", path=self.data.root))
        try:
            self._running.enter_context(drainable(self.data))
            self._check()
            self._limits.write()
            self._closing.enter_context(self.watchdog)
            recover(self.data)
            self._followers.prepare()
            self._followers.expect_records(are_expected=True)
            await asyncio.gather(self._open_frontier(), self._start_worker_early())
            await self._sync_clock()
            self._start_takedown_and_deletion_sync()
            self._processes.track(asyncio.create_task(self._scrubs.run()))
            await self._start_all()
        except BaseException:
            await self._shut_down()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shut_down()

    async def _open_frontier(self) -> None:
        """The collection is submitted at once: a collection that was running when the last process was killed may have
        another definition now."""
        await self.frontier_link.open()
        await self._open_log()
        if self._submitted is not None:
            await self._submit(self._submitted)

    async def _open_log(self) -> None:
        """Join the segment log of the frontier, if there is one."""
        opened = await asyncio.to_thread(open_manifest, self.frontier_link.address, self._store, LOG_PATIENCE_S)
        if opened is None:
            refuse_mirror(self.data, "a frontier without a store")
            return
        manifest, log = opened
        self._closing.callback(manifest.close)
        await asyncio.to_thread(remember_log, self.data, log)
        self._followers.mirror_log(manifest, log)

    async def _start_worker_early(self) -> None:
        """Start the first worker beside the frontier server of our own: until it has loaded its code, that is ready.
        Two processors have no time for more before the first request. A frontier that is there already may have work by
        an old definition: then the collection is submitted first."""
        is_safe = self._submitted is None or not self.data.frontier.exists()
        if self._is_frontier_local and self._workers and is_safe:
            await self._processes.start(self._workers[0])

    async def _start_all(self) -> None:
        """Start all workers, and followers when the first worker works: before the first page they have nothing to
        do but to load their code, for which the worker would wait."""
        if not self._workers:
            await self._begin_following()
            return
        for worker in self._workers:
            if not worker.launches:
                await self._processes.start(worker)
        task = asyncio.create_task(self._start_followers(self._workers[0]))
        self._closing.callback(task.cancel)
        self._processes.track(task)

    async def _start_followers(self, worker: ChildProcess) -> None:
        await self.watchdog.wait_for_heartbeat(worker, FOLLOWERS_WAIT_S_MAX)
        try:
            await self._begin_following()
        except TarrafaError as error:
            self._processes.failure = self._processes.failure or error

    async def _begin_following(self) -> None:
        """Start the followers; where leases say which parts are followed here, begin to claim."""
        await self._start_missing()
        if self._followers.are_leased and self._follows_archive:
            self._ownership = PartOwnership(
                self.data, self._followers, lambda: self.frontier, self._start_missing, self.stop_children,
                self._changing,
            )  # fmt: skip
            task = asyncio.create_task(self._ownership.run())
            self._closing.callback(task.cancel)
            self._processes.track(task)

    async def _start_missing(self) -> None:
        """Start the children that were never started."""
        for child in self._wanted():
            if not child.launches and not child.dismissed:
                await self._processes.start(child)

    async def _sync_clock(self) -> None:
        """Children begin with the frontier's time. A frontier server of our own has our clock."""
        agreed = await sync_clock(self.frontier, self._clock)
        self._clock = agreed.clock
        if agreed.notice() and not self._is_frontier_local:
            self._print_line(str(agreed.notice()))

    @property
    def _is_frontier_local(self) -> bool:
        return isinstance(self.frontier_link, LocalFrontierLink)

    def _start_takedown_and_deletion_sync(self) -> None:
        async def current_frontier() -> Frontier:
            return self.frontier

        task = sync_takedowns_and_deletions(self.data, self._clock, current_frontier, one_log=self._is_frontier_local)
        self._processes.track(asyncio.create_task(task))

    def _wanted(self) -> list[ChildProcess]:
        """The children to run, workers first: followers have nothing to do before the first page. An archive that is
        empty and stays empty needs no follower."""
        return [*self._workers, *(self._followers.children if self._follows_archive else ())]

    @property
    def _follows_archive(self) -> bool:
        return self._follows or bool(self._workers) or any(self.data.archive.iterdir())

    async def _shut_down(self) -> None:
        """Stop all children, the frontier server last. When cancelled (a second Ctrl-C), kill them: each can be killed
        at any moment."""
        self._processes.stop_restarts()
        self._closing.close()
        try:
            await self._stop_in_order()
        except asyncio.CancelledError:
            for child in self._all_children():
                child.kill()
            raise
        finally:
            await self._processes.terminate()
            await self.frontier_link.close()
            await self._processes.close()
            self._running.close()
            if self._lock is not None:
                self._lock.close()

    async def _stop_in_order(self) -> None:
        """Stop workers, which return their hosts, and followers when they have caught up."""
        if not self._lasting:
            with contextlib.suppress(FrontierError, TimeoutError):
                async with asyncio.timeout(PAUSE_TIMEOUT_S):
                    await self._pause_running_collections()
        await self.stop_children(self._workers)
        await self._wait_for_followers()
        await self._processes.terminate()
        if self._ownership is not None:
            with contextlib.suppress(FrontierError, TimeoutError):
                async with asyncio.timeout(PAUSE_TIMEOUT_S):
                    # Parts of the index stay ours for a lease, because this node may start again; not if it is drained.
                    await self._ownership.leave(GRAPH, *([INDEX] if is_draining(self.data) else []))

    async def _wait_for_followers(self) -> None:
        """Let the last records reach index, graph and triple store, for some seconds."""
        is_possible = self._failure is None and all(child.is_running for child in self._followers.children)
        if not is_possible or self._followers.are_caught_up():
            return
        self._print_line(f"the last pages become searchable, in {CATCH_UP_S_MAX:g} s at most (Ctrl-C ends at once)")
        until = boottime() + CATCH_UP_S_MAX
        with contextlib.suppress(TarrafaError):
            while boottime() < until:
                await asyncio.sleep(TICK_S)
                if self._followers.are_caught_up():
                    return
            self._print_line("the last pages are not searchable yet; the next start continues")

    async def _pause_running_collections(self) -> None:
        """Pause them with a reason: the state then shows that the crawl was left on purpose, or why it had to end."""
        reason = self._failure.message if self._failure else STOPPED_REASON
        for one in (await self.frontier.overview()).collections:
            if one.state == "running":
                await self.frontier.set_state(one.name, "paused", reason)

    async def overviews(self, every_s: float = TICK_S) -> AsyncIterator[FrontierOverview]:
        """Yield the state of all collections a few times a second, until none runs any more; if lasting, for ever.
        Collections that are exhausted are finished.

        A collection that was paused since the start may be resumed: that is waited for.
        """
        seen: set[str] = set()  # collections that ran since the start
        while True:
            self._check()
            try:
                overview = await self.frontier.overview()
                yield overview
                was_finished = await self._completion.finish_exhausted(self.frontier, overview)
                self._followers.expect_records(are_expected=not self._completion.are_all_waiting(overview))
                if was_finished:
                    continue
                seen |= {one.name for one in overview.collections if one.state == "running"}
                waits = [one for one in overview.collections if one.state == "paused" and one.name in seen]
                if not (self._lasting or waits or any(one.state == "running" for one in overview.collections)):
                    await asyncio.gather(self._wait_for_anchor_refresh(), self._stop_idle_children())
                    return
                is_near_end = self._completion.is_waiting(overview) and not self.frontier_link.is_shared
                pause_s = END_TICK_S if is_near_end else every_s
            except Unreachable:
                pause_s = every_s
                with contextlib.suppress(TimeoutError):  # wake up now and then: another failure may have happened
                    async with asyncio.timeout(WAIT_S):
                        await self.frontier_link.wait_until_reachable()
            await asyncio.sleep(pause_s)

    async def run_until_failure(self) -> None:
        while True:
            self._check()
            await asyncio.sleep(TICK_S)

    @property
    def _failure(self) -> TarrafaError | None:
        refused = self._ownership.failure if self._ownership is not None and not self._patient else None
        return self._processes.failure or self.frontier_link.failure or refused

    def _check(self) -> None:
        """Raise the failure that stops the supervisor."""
        if self._patient:
            self._limits.refresh()
        elif self._failure is None:
            try:
                self.data.check_space()
            except DataError as error:
                self._processes.failure = error
        if self._failure is not None:
            raise self._failure

    # -- what may change while it runs ---------------------------------------------------------------------------

    @property
    def children(self) -> list[ChildProcessState]:
        """The child processes at this moment, for monitoring."""
        return [child.state for child in self._all_children()]

    def _all_children(self) -> list[ChildProcess]:
        return [*self.frontier_link.children, *self._processes.children]

    @property
    def troubles(self) -> list[Message | str]:
        """What the supervisor waits for, or continues without."""
        problems = [self._limits.trouble, self.frontier_link.trouble, *self._processes.problems]
        if self._ownership is not None and self._ownership.failure is not None:
            problems.append(self._ownership.failure.message)
        return [one for one in problems if one]

    @property
    def is_disk_nearly_full(self) -> bool:
        return self._limits.trouble is not None

    def _worker(self, number: int, workers: int) -> ChildProcess:
        name = f"{self.name}{number}"
        return ChildProcess.for_module(
            self.data, name, "tarrafa.crawl.worker.worker", role="worker", name=name, workers=workers
        )

    async def set_worker_count(self, workers: int) -> None:
        """Run this number of workers from now on; surplus workers return their hosts and end."""
        kept, leaving = self._workers[:workers], self._workers[workers:]
        self._workers = kept
        await self.stop_children(leaving)
        for number in range(len(kept) + 1, workers + 1):
            child = self._worker(number, workers)
            await self._processes.start(child)
            kept.append(child)

    async def set_following(self, wanted: bool) -> None:
        """Start our followers, where there is an archive to follow, or stop them."""
        async with self._changing:
            if not wanted:
                await self.stop_children(self._followers.children)
                return
            if self._followers.has_dismissed:
                self._followers.renew()
            await self._start_missing()

    async def add(self, child: ChildProcess) -> None:
        await self._processes.start(child)

    async def stop_children(self, children: list[ChildProcess]) -> None:
        await self._processes.dismiss(children)

    def set_limits(self, limits: ResourceLimits) -> None:
        self._limits.set(limits)

    async def _submit(self, collection: Collection) -> None:
        """Submit a collection to the frontier; if it is unreachable, as soon as it is back."""
        while True:
            try:
                await submit_collection(self.frontier, collection)
                return
            except Unreachable:
                self._check()
                await self.frontier_link.wait_until_reachable()

    async def catch_up(self) -> None:
        """Return when the followers have processed everything that the workers archived."""
        while not self._followers.are_caught_up():
            self._check()
            await asyncio.sleep(TICK_S)
        await self._wait_for_anchor_refresh()

    async def _stop_idle_children(self) -> None:
        """The crawl is over: end the workers, and the followers that have nothing left to do, while the index takes in
        the last changes of links."""
        idle = self._followers.beside_index() if await asyncio.to_thread(self._followers.are_caught_up) else []
        await self.stop_children([*self._workers, *idle])

    async def _wait_for_anchor_refresh(self) -> None:
        """Let the index take in anchor texts and ranks, now that all are known; what takes too long is left for the
        next start."""
        until = boottime() + SETTLE_S_MAX
        while boottime() < until and self._followers.has_anchors_to_refresh():
            self._check()
            await asyncio.sleep(END_TICK_S)


async def submit_collection(
    frontier: Frontier, collection: Collection, *, start: bool = True, sown: Container[str] = frozenset()
) -> CollectionRow:
    """Submit a collection with its roots. `start=False` leaves its state as it is. `sown`: roots that the frontier has
    already. There may be a million roots: they go in batches, and slow steps run outside the event loop. A collection
    whose pages are to be rendered is refused where there can be no browser."""
    if collection.render.when != "never":
        from tarrafa.crawl.render.browser import check_browser

        await check_browser(collection.name)
    roots = (root for root in Admission(collection).admit_roots() if root.url not in sown)
    content = await asyncio.to_thread(config.encode_collection, collection)

    def next_roots() -> list[DiscoveredUrl]:
        return list(islice(roots, ROOTS_PER_CALL))

    row = await frontier.open_collection(content, await asyncio.to_thread(next_roots), start)
    while more := await asyncio.to_thread(next_roots):
        await frontier.seed(row.id, more)
        if start and any(one.id == row.id and one.state == "finished" for one in await frontier.collection_states()):
            row = await frontier.open_collection(content, [], start)  # it had finished with the roots sent so far
    return row
