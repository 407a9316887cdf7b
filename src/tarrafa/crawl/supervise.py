"""What must be running, and is it?

The first process to lock `DATA/lock` is the supervisor: it starts the workers and the followers of this data directory,
and the frontier's owner if the frontier is here (`keeping.py`), starts again what dies, and ends when every collection
has. They die with it, whatever ends it. A child that prints an error and exits with status 2 has met what no restart
can mend: everything stops and the error is told.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import IO

from tarrafa import config
from tarrafa.archive.writer import recover
from tarrafa.clock import Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl.children import Child, settings, terminate
from tarrafa.crawl.collection import Admission
from tarrafa.crawl.ending import SETTLE_S, Ending
from tarrafa.crawl.keeping import Keeper, OwnFrontier, say
from tarrafa.crawl.spreading import spread
from tarrafa.data import DataDirectory
from tarrafa.errors import ConfigError, DataError, FrontierError, Locked, TarrafaError, Unreachable
from tarrafa.frontier.address import OpenFrontier
from tarrafa.frontier.protocol import Frontier, Overview
from tarrafa.frontier.timing import agree
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.index import shards
from tarrafa.index.refresh import is_settled
from tarrafa.index.shards import Shards
from tarrafa.process import EXIT_AWAY, EXIT_ERROR, EXIT_RETRY
from tarrafa.triples import follower as triples
from tarrafa.triples import layout

PAUSE_TIMEOUT_S = 5.0
TICK_S, WAIT_S = 0.25, 15.0
SETTLE_S_MAX = 30.0
ROOTS_PER_CALL = 5_000


class Supervisor:
    """Owns the processes of one data directory. Use it in an `async with`.

    `lasting`: the frontier outlives us, or is to go on as it was when we come back; what runs is not paused at our end.
    `follows`: somebody crawls into this directory, if not our workers, then crawlers that `serve` gives work to.
    `divided`: into which parts a new index is to be divided.
    """

    def __init__(
        self,
        data: DataDirectory,
        workers: int,
        clock: Clock | None = None,
        *,
        keeper: Keeper | None = None,
        name: str = "w",
        lasting: bool = False,
        follows: bool = True,
        divided: Shards | None = None,
    ) -> None:
        self.data, self._clock = data, clock or Clock.from_environment()
        self.keeper: Keeper = keeper or OwnFrontier(data, self._clock)
        self._lasting, self._follows = lasting, follows
        self._lock: IO[bytes] | None = None
        names = [f"{name}{number}" for number in range(1, workers + 1)]
        share = ("--workers", str(workers))
        self._workers = [Child.of(data, one, "tarrafa.crawl.worker", "--name", one, *share) for one in names]
        self._divided = divided
        self._followers: list[Child] = []
        self._watchers: list[asyncio.Task[None]] = []
        self._seen: set[str] = set()  # collections that ran while we did
        self._ending = Ending(self.is_caught_up, self._settle_s())
        self._failure: TarrafaError | None = None
        self._stopping = False

    def _settle_s(self) -> float:
        """Who only serves leaves it to those who crawl, and who know of their followers, as long as there are any."""
        if not self.keeper.is_shared:
            return 0.0
        return SETTLE_S if self._workers else 3 * SETTLE_S

    @property
    def frontier(self) -> OpenFrontier:
        return self.keeper.body

    async def __aenter__(self) -> "Supervisor":
        self.data.create()
        self._lock = self.data.try_lock()
        if self._lock is None:
            raise Locked(f"{self.data.root}: another Tarrafa process is working here")
        try:
            self.data.check_space()
            recover(self.data.archive)
            self._divide()
            await self.keeper.open()
            await self._set_clock()
            if not isinstance(self.keeper, OwnFrontier):  # else both have one log
                self._watchers.append(asyncio.create_task(spread(self.data, self._current)))
            for child in self._wanted():
                await child.start(settings(self.keeper.address, self._clock))
                self._watchers.append(asyncio.create_task(self._watch(child)))
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _current(self) -> Frontier:
        return self.frontier

    async def _set_clock(self) -> None:
        """Our children begin with the frontier's time. An owner of our own has spoken for itself."""
        agreed = await agree(self.frontier, self._clock)
        self._clock = agreed.clock
        if agreed.notice() and not isinstance(self.keeper, OwnFrontier):
            say(agreed.notice())

    def _divide(self) -> None:
        """One follower for each part of the index that is kept here, and one for the statements of its pages."""
        wanted, there = self._divided, shards.read(self.data)
        if wanted is not None and wanted != there:
            if shards.exists(self.data):
                raise ConfigError(
                    f"--index-shards {wanted}: the index of {self.data.root} is divided otherwise ({there}); "
                    f"`tarrafa rebuild index --shards {wanted}` makes it again"
                )
            shards.choose(self.data, wanted)
        shards.settle(self.data)
        layout.settle(self.data)
        self._followers = [Child.of(self.data, "graph", "tarrafa.crawl.follower", "graph")]
        for part in shards.parts(self.data):
            for role in ("index", "triples"):
                name = f"{role}-{part.part}" if part.part else role
                line = ("tarrafa.crawl.follower", role, f"--part={part.part}")
                self._followers.append(Child.of(self.data, name, *line))

    def _wanted(self) -> list[Child]:
        """Nobody need follow an archive that is empty and stays so."""
        follows = self._follows or bool(self._workers) or any(self.data.archive.iterdir())
        return [*(self._followers if follows else ()), *self._workers]

    async def _watch(self, child: Child) -> None:
        """Start again what dies, unless it said why or dies too often."""
        while True:
            assert child.process is not None
            code = await child.process.wait()
            if self._stopping:
                return
            try:
                await self._forgive(child, code)
            except TarrafaError as error:
                self._failure = self._failure or error
                return
            if self._stopping:
                return
            await child.start(settings(self.keeper.address, self._clock))

    async def _forgive(self, child: Child, code: int) -> None:
        """Return when it may be started again; raise why not."""
        if code == EXIT_ERROR:
            raise DataError(child.last_error())
        if code == EXIT_AWAY:  # not its fault, however often
            await self.keeper.back()
            child.starts.clear()
        elif child.keeps_dying():
            raise DataError(f"{child.name} keeps dying (exit status {code}); see {child.log}")
        elif code == EXIT_RETRY:
            say(f"{child.name}: {child.last_error()}; it is started again")

    async def _end(self) -> None:
        """Workers first, so that they can hand back; then the followers; the owner last."""
        self._stopping = True
        if not self._lasting:
            with contextlib.suppress(FrontierError, TimeoutError):
                await asyncio.wait_for(self._pause_what_runs(), PAUSE_TIMEOUT_S)
        await terminate([*self._workers, *self._followers])
        await self.keeper.close()
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        if self._lock is not None:
            self._lock.close()

    async def _pause_what_runs(self) -> None:
        """Whoever asks for the state later learns that it was left on purpose, or why it had to be."""
        failure = self._failure or self.keeper.failure
        reason = str(failure) if failure else "stopped; `tarrafa crawl FILE` goes on where it was"
        for one in (await self.frontier.overview()).collections:
            if one.state == "running":
                await self.frontier.control(one.name, "paused", reason)

    async def overviews(self) -> AsyncIterator[Overview]:
        """The state of things a few times a second, until no collection runs any more; if lasting, for ever.

        What a person has paused since we began may be resumed: we wait for that.
        """
        while True:
            self._check()
            try:
                overview = await self.frontier.overview()
                yield overview
                if await self._ending.look(self.frontier, overview):
                    continue
                self._seen |= {one.name for one in overview.collections if one.state == "running"}
                waits = [one for one in overview.collections if one.state == "paused" and one.name in self._seen]
                if not (self._lasting or waits or any(one.state == "running" for one in overview.collections)):
                    await self._settle()
                    return
            except Unreachable:
                with contextlib.suppress(TimeoutError):  # look up now and then: something else may stand in the way
                    await asyncio.wait_for(self.keeper.back(), WAIT_S)
            await asyncio.sleep(TICK_S)

    async def stay(self) -> None:
        """Work until something stands in the way of going on."""
        while True:
            self._check()
            await asyncio.sleep(TICK_S)

    def _check(self) -> None:
        """Raise what stands in the way of going on."""
        self._failure = self._failure or self.keeper.failure
        if self._failure is None:
            try:
                self.data.check_space()
            except DataError as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure

    async def submit(self, collection: Collection) -> None:
        """Hand a collection to our frontier; should that be away, when it is back."""
        while True:
            try:
                await submit(self.frontier, collection)
                return
            except Unreachable:
                self._check()
                await self.keeper.back()

    async def catch_up(self) -> None:
        """Return when our followers have seen all that our workers archived."""
        while not self.is_caught_up():
            self._check()
            await asyncio.sleep(TICK_S)
        await self._settle()

    async def _settle(self) -> None:
        """Let the index take in who links to whom, now that all of that is known; what takes long is done next time."""
        until = boottime() + SETTLE_S_MAX
        while any(child.runs for child in self._followers) and boottime() < until and not is_settled(self.data):
            self._check()
            await asyncio.sleep(TICK_S)

    def is_caught_up(self) -> bool:
        """Everything archived is in the graph, the frontier knows its weights, and people can find and ask for it."""
        return not (graph.behind(self.data) or index.behind(self.data) or triples.behind(self.data))


async def submit(frontier: Frontier, collection: Collection) -> None:
    """Hand a collection to the frontier, with its roots."""
    roots, content = list(Admission(collection).roots()), config.encode(collection)
    for start in range(0, len(roots), ROOTS_PER_CALL):
        await frontier.open_collection(content, roots[start : start + ROOTS_PER_CALL])
