"""Supervisor: starts the workers, followers and frontier of a data directory, and restarts what dies.

The first process to lock `DATA/lock` is the supervisor: it starts the workers and the followers of this data
directory, and the frontier's owner if the frontier is here (`keeping.py`), starts again what dies, and ends when
every collection has. They die with it, whatever ends it. A child that prints an error and exits with status 2 has met
what no restart can mend: everything stops and the error is told. Only a *patient* supervisor, that of a node, goes
on: it shows what is wrong, tries again now and then, and pauses its workers while the disk is full. How many workers
there are, whether anybody follows, and how much they may take can be changed while it runs.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Container
from itertools import islice
from typing import IO

from msgspec.structs import replace

from tarrafa import config
from tarrafa.archive.warc_writer import recover_archive
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl.scope.admission import Admission
from tarrafa.crawl.supervisor.child_process import ChildProcess, ChildProcessState, child_environment, terminate
from tarrafa.crawl.supervisor.completion import SETTLE_S, CaughtUp, CompletionCheck, FollowerCatchUp
from tarrafa.crawl.supervisor.disk_space import DiskSpace
from tarrafa.crawl.supervisor.frontier_link import FrontierLink, LocalFrontierLink, print_status_line
from tarrafa.crawl.supervisor.propagation import run_propagation
from tarrafa.crawl.worker.resource_limits import PAUSED_BY_ORDER, UNLIMITED, ResourceLimits, write_limits
from tarrafa.errors import ConfigError, DataError, FrontierError, Locked, TarrafaError, Unreachable
from tarrafa.frontier.address import OpenFrontier
from tarrafa.frontier.api import CollectionRow, DiscoveredUrl, Frontier, FrontierOverview
from tarrafa.frontier.clock_sync import sync_clock
from tarrafa.graph import follower as graph
from tarrafa.i18n import Message, joined, message
from tarrafa.index import follower as index
from tarrafa.index import shards
from tarrafa.index.anchor_refresh import is_settled
from tarrafa.index.shards import ShardLayout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.process import EXIT_ERROR, EXIT_RETRY, EXIT_UNAVAILABLE
from tarrafa.triples import follower as triples
from tarrafa.triples import storage

STOPPED_REASON = message("stopped; `tarrafa crawl FILE`, or `tarrafa resume` beside a node, goes on where it was")
PAUSE_TIMEOUT_S = 5.0
TICK_S, WAIT_S = 0.25, 15.0
SETTLE_S_MAX = 30.0
RESTART_PAUSE_S = 30.0  # before what no restart could mend is started again all the same
ROOTS_PER_CALL = 4_000


class Supervisor:
    """Owns the processes of one data directory. Use it in an `async with`.

    `lasting`: the frontier outlives us, or is to go on as it was when we come back; what runs is not paused at our end.
    `follows`: somebody crawls into this directory, if not our workers, then crawlers that `serve` gives work to.
    `divided`: into which parts a new index is to be divided.
    `patient`: whatever happens to a child or to the disk, go on, and say what is wrong (`troubles`).
    """

    def __init__(
        self,
        data: DataDirectory,
        workers: int,
        clock: Clock | None = None,
        *,
        keeper: FrontierLink | None = None,
        name: str = "w",
        lasting: bool = False,
        follows: bool = True,
        divided: ShardLayout | None = None,
        patient: bool = False,
        rations: ResourceLimits = UNLIMITED,
        tell: Callable[[str], None] = print_status_line,
    ) -> None:
        self.data, self._clock = data, clock or Clock.from_environment()
        self.frontier_link: FrontierLink = keeper or LocalFrontierLink(data, self._clock, tell=tell, patient=patient)
        self.name = name  # what those of its workers begin with
        self._lasting, self._follows, self._patient, self._tell = lasting, follows, patient, tell
        self._disk_space, self._limits, self._limits_written = DiskSpace(data), rations, False
        self._troubles: dict[str, str] = {}  # of children
        self._lock: IO[bytes] | None = None
        self._workers = [self._worker(number, workers) for number in range(1, workers + 1)]
        self._divided = divided
        self._followers: list[ChildProcess] = []
        self._others: list[ChildProcess] = []
        self._leaving: list[ChildProcess] = []
        self._watchers: set[asyncio.Task[None]] = set()
        self._seen: set[str] = set()  # collections that ran while we did
        self._completion = CompletionCheck(self._follower_catch_up, self._settle_s())
        self._failure: TarrafaError | None = None
        self._stopping = False

    def _settle_s(self) -> float:
        """Who only serves leaves it to those who crawl, and who know of their followers, as long as there are any."""
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
            raise Locked(f"{self.data.root}: another Tarrafa process is working here")
        try:
            self._check()
            self._write_limits()
            recover_archive(self.data.archive)
            self._prepare_index_shards()
            await self.frontier_link.open()
            await self._set_clock()
            is_own = isinstance(self.frontier_link, LocalFrontierLink)
            self._track_task(
                asyncio.create_task(run_propagation(self.data, self._clock, self._current, one_log=is_own))
            )
            for child in self._wanted():
                await self.start_child(child)
        except BaseException:
            await self._shut_down()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shut_down()

    async def _current(self) -> Frontier:
        return self.frontier

    async def _set_clock(self) -> None:
        """Our children begin with the frontier's time. An owner of our own has spoken for itself."""
        agreed = await sync_clock(self.frontier, self._clock)
        self._clock = agreed.clock
        if agreed.notice() and not isinstance(self.frontier_link, LocalFrontierLink):
            self._tell(agreed.notice())

    def _prepare_index_shards(self) -> None:
        """One follower for each part of the index that is kept here, and one for the statements of its pages."""
        wanted, there = self._divided, shards.read_layout(self.data)
        if wanted is not None and wanted != there:
            if shards.exists(self.data):
                raise ConfigError(
                    f"--index-shards {wanted}: the index of {self.data.root} is divided otherwise ({there}); "
                    f"`tarrafa rebuild index --shards {wanted}` makes it again"
                )
            shards.set_layout(self.data, wanted)
        shards.remove_stray_parts(self.data)
        storage.remove_stray_parts(self.data)
        self._followers = self._new_followers()

    def _new_followers(self) -> list[ChildProcess]:
        found = [
            ChildProcess.for_module(
                self.data, "graph", "tarrafa.crawl.supervisor.follower_process", "graph", role="graph"
            )
        ]
        for part in shards.parts(self.data):
            for role in ("index", "triples"):
                name = f"{role}-{part.part}" if part.part else role
                line = ("tarrafa.crawl.supervisor.follower_process", role, f"--part={part.part}")
                found.append(ChildProcess.for_module(self.data, name, *line, role=role))
        return found

    def _wanted(self) -> list[ChildProcess]:
        """Nobody need follow an archive that is empty and stays so."""
        follows = self._follows or bool(self._workers) or any(self.data.archive.iterdir())
        return [*(self._followers if follows else ()), *self._workers]

    async def start_child(self, child: ChildProcess) -> None:
        """Start it, and start it again when it dies, until it is dismissed."""
        await child.start(child_environment(self.frontier_link.address, self._clock))
        self._track_task(asyncio.create_task(self._watch(child)))

    def _track_task(self, task: "asyncio.Task[None]") -> None:
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)

    async def _watch(self, child: ChildProcess) -> None:
        """Start again what dies, unless it said why or dies too often."""
        while True:
            assert child.process is not None
            code = await child.process.wait()
            if self._stopping or child.dismissed:
                return
            child.note_exit(code)
            if not await self._start_again(child, code):
                return
            if child.dismissed:  # meanwhile
                await terminate([child])

    async def _start_again(self, child: ChildProcess, code: int) -> bool:
        """Whether it runs; else nobody wants it any more, or nothing can be done."""
        error: TarrafaError | None = None
        while True:
            try:
                if error is None:
                    await self._wait_until_restartable(child, code)
                if self._stopping or child.dismissed:
                    return False
                await child.start(child_environment(self.frontier_link.address, self._clock))
                return True
            except TarrafaError as again:
                error = again
            if not self._patient:
                self._failure = self._failure or error
                return False
            await self._wait_after_failure(child, error)

    async def _wait_after_failure(self, child: ChildProcess, error: TarrafaError) -> None:
        """Go on without it for a while, and as long as there is no room to write."""
        self._troubles[child.name] = f"{child.name}: {error}"
        self._tell(f"{child.name}: {error}; it is started again in {RESTART_PAUSE_S:.0f} s")
        until = boottime() + RESTART_PAUSE_S
        while (boottime() < until or self._disk_space.trouble) and not (self._stopping or child.dismissed):  # noqa: ASYNC110
            await asyncio.sleep(TICK_S)
        self._troubles.pop(child.name, None)
        child.starts.clear()

    async def _wait_until_restartable(self, child: ChildProcess, code: int) -> None:
        """Return when it may be started again; raise why not."""
        if code == EXIT_ERROR:
            raise DataError(child.last_error())
        if code == EXIT_UNAVAILABLE:  # not its fault, however often
            await self.frontier_link.wait_until_reachable()
            child.starts.clear()
        elif child.is_crash_looping():
            raise DataError(f"{child.name} keeps dying (exit status {code}); see {child.log}")
        elif code == EXIT_RETRY:
            self._tell(f"{child.name}: {child.last_error()}; it is started again")

    async def _shut_down(self) -> None:
        """Workers first, so that they can hand back; then the followers; the owner last."""
        self._stopping = True
        if not self._lasting:
            with contextlib.suppress(FrontierError, TimeoutError):
                await asyncio.wait_for(self._pause_what_runs(), PAUSE_TIMEOUT_S)
        await terminate([*self._workers, *self._others, *self._followers])
        await self.frontier_link.close()
        watchers = list(self._watchers)
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        if self._lock is not None:
            self._lock.close()

    async def _pause_what_runs(self) -> None:
        """Whoever asks for the state later learns that it was left on purpose, or why it had to be."""
        failure = self._failure or self.frontier_link.failure
        reason = failure.message if failure else STOPPED_REASON
        for one in (await self.frontier.overview()).collections:
            if one.state == "running":
                await self.frontier.set_state(one.name, "paused", reason)

    async def overviews(self) -> AsyncIterator[FrontierOverview]:
        """The state of things a few times a second, until no collection runs any more; if lasting, for ever.

        What a person has paused since we began may be resumed: we wait for that.
        """
        while True:
            self._check()
            try:
                overview = await self.frontier.overview()
                yield overview
                if await self._completion.finish_exhausted(self.frontier, overview):
                    continue
                self._seen |= {one.name for one in overview.collections if one.state == "running"}
                waits = [one for one in overview.collections if one.state == "paused" and one.name in self._seen]
                if not (self._lasting or waits or any(one.state == "running" for one in overview.collections)):
                    await self._wait_for_anchor_refresh()
                    return
            except Unreachable:
                with contextlib.suppress(TimeoutError):  # look up now and then: something else may stand in the way
                    await asyncio.wait_for(self.frontier_link.wait_until_reachable(), WAIT_S)
            await asyncio.sleep(TICK_S)

    async def run_until_failure(self) -> None:
        """Work until something stands in the way of going on."""
        while True:
            self._check()
            await asyncio.sleep(TICK_S)

    def _check(self) -> None:
        """Raise what stands in the way of going on."""
        self._failure = self._failure or self.frontier_link.failure
        if self._patient:
            self._check_disk_space()
        elif self._failure is None:
            try:
                self.data.check_space()
            except DataError as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure

    # -- what may change while it runs ---------------------------------------------------------------------------

    @property
    def children(self) -> list[ChildProcessState]:
        """Our processes at this moment, for those who look on."""
        all_of_them = (*self.frontier_link.children, *self._followers, *self._others, *self._workers, *self._leaving)
        return [child.state for child in all_of_them if child.launches and (child.is_running or not child.dismissed)]

    @property
    def troubles(self) -> list[Message | str]:
        """What we wait for, or go on without."""
        return [one for one in (self._disk_space.trouble, self.frontier_link.trouble, *self._troubles.values()) if one]

    @property
    def is_disk_nearly_full(self) -> bool:
        return self._disk_space.trouble is not None

    def _worker(self, number: int, workers: int) -> ChildProcess:
        name = f"{self.name}{number}"
        line = ("tarrafa.crawl.worker.worker", "--name", name, "--workers", str(workers))
        return ChildProcess.for_module(self.data, name, *line, role="worker")

    async def set_worker_count(self, workers: int) -> None:
        """Have so many workers from now on; those that are too many hand back what they have, and leave."""
        kept, leaving = self._workers[:workers], self._workers[workers:]
        self._workers = kept
        await self.stop_children(leaving)
        for number in range(len(kept) + 1, workers + 1):
            child = self._worker(number, workers)
            await self.start_child(child)
            kept.append(child)

    async def set_following(self, wanted: bool) -> None:
        """Let our followers follow, where there is anything to follow, or rest."""
        if not wanted:
            await self.stop_children(self._followers)
            return
        if any(child.dismissed for child in self._followers):
            self._followers = self._new_followers()
        for child in self._wanted():
            if not child.launches:
                await self.start_child(child)

    async def add(self, child: ChildProcess) -> None:
        """One more process, of somebody else's choosing."""
        self._others.append(child)
        await self.start_child(child)

    async def stop_children(self, children: list[ChildProcess]) -> None:
        for child in children:
            child.dismissed = True
            self._troubles.pop(child.name, None)
        self._others = [child for child in self._others if not child.dismissed]
        self._leaving += [child for child in children if child not in self._followers]
        await terminate(children)
        self._leaving = [child for child in self._leaving if child.is_running]

    def set_limits(self, rations: ResourceLimits) -> None:
        """So much may the workers take from now on."""
        if rations != self._limits:
            self._limits, self._limits_written = rations, False
            self._write_limits()

    def _write_limits(self) -> None:
        ordered, disk = PAUSED_BY_ORDER if self._limits.paused else None, self._disk_space.trouble
        why = str(joined([one for one in (ordered, disk) if one is not None]))
        try:
            write_limits(self.data, replace(self._limits, paused=bool(why), why=why))
            self._limits_written = True
        except OSError:  # a disk without any room: it is tried again, and who cannot write ends by himself
            self._limits_written = False

    def _check_disk_space(self) -> None:
        if self._disk_space.refresh():
            self._limits_written = False
            self._tell(str(self._disk_space.trouble or "") or "there is room on the disk again; going on")
        if not self._limits_written:
            self._write_limits()

    async def submit(self, collection: Collection) -> None:
        """Hand a collection to our frontier; should that be away, when it is back."""
        while True:
            try:
                await submit_collection(self.frontier, collection)
                return
            except Unreachable:
                self._check()
                await self.frontier_link.wait_until_reachable()

    async def catch_up(self) -> None:
        """Return when our followers have seen all that our workers archived."""
        while not self.is_caught_up():
            self._check()
            await asyncio.sleep(TICK_S)
        await self._wait_for_anchor_refresh()

    async def _wait_for_anchor_refresh(self) -> None:
        """Let the index take in who links to whom, now that all of that is known; what takes long is done next time."""
        until = boottime() + SETTLE_S_MAX
        while any(child.is_running for child in self._followers) and boottime() < until and not is_settled(self.data):
            self._check()
            await asyncio.sleep(TICK_S)

    def _follower_catch_up(self, name: str) -> CaughtUp:
        """Whether what is archived of a collection until now has reached all; or it was decided that nobody follows."""
        passage = FollowerCatchUp(self.data, name)
        return lambda: self._has_no_followers or passage.is_complete()

    @property
    def _has_no_followers(self) -> bool:
        return bool(self._followers) and all(child.dismissed for child in self._followers)

    def is_caught_up(self) -> bool:
        """Everything archived is in the graph, the frontier knows its weights, and people can find and ask for it; or
        it was decided that nobody follows."""
        if self._has_no_followers:
            return True
        return not (graph.behind(self.data) or index.behind(self.data) or triples.behind(self.data))


async def submit_collection(
    frontier: Frontier, collection: Collection, *, start: bool = True, sown: Container[str] = frozenset()
) -> CollectionRow:
    """Hand a collection to the frontier, with its roots. Not to `start`: in the state that it is in. `sown` are roots
    that it was given already. There may be a million: some at a time, and beside the loop what takes long."""
    roots = (root for root in Admission(collection).admit_roots() if root.url not in sown)
    content = await asyncio.to_thread(config.encode_collection, collection)

    def next_roots() -> list[DiscoveredUrl]:
        return list(islice(roots, ROOTS_PER_CALL))

    row = await frontier.open_collection(content, await asyncio.to_thread(next_roots), start)
    while more := await asyncio.to_thread(next_roots):
        await frontier.seed(row.id, more)
        if start and any(one.id == row.id and one.state == "finished" for one in await frontier.collection_states()):
            row = await frontier.open_collection(content, [], start)  # it had ended with what it was given so far
    return row
