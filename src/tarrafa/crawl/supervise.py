"""What must be running, and is it?

The first process to lock `DATA/lock` is the supervisor: it starts the frontier's owner, the workers and the followers,
starts again what dies, and ends when every collection has. They die with it, whatever ends it. A child that prints an
error and exits with status 2 has met what no restart can mend: everything stops and the error is told.
"""

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from tarrafa import config
from tarrafa.archive.writer import recover
from tarrafa.clock import CLOCK_VARIABLE, Clock, boottime
from tarrafa.config import Collection
from tarrafa.crawl.collection import Admission
from tarrafa.data import DataDirectory
from tarrafa.errors import DataError, FrontierError, Locked, TarrafaError
from tarrafa.frontier.protocol import CollectionStatus, Overview
from tarrafa.frontier.remote import RemoteFrontier
from tarrafa.graph import follower as graph
from tarrafa.index import follower as index
from tarrafa.process import EXIT_ERROR

READY_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 20.0
PAUSE_TIMEOUT_S = 5.0
TICK_S = 0.25
RESTARTS_MAX, RESTARTS_WINDOW_S = 5, 60.0
ROOTS_PER_CALL = 5_000


@dataclass(slots=True)
class Child:
    """One process of ours."""

    name: str
    arguments: list[str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_MAX))

    def keeps_dying(self) -> bool:
        return len(self.starts) == RESTARTS_MAX and boottime() - self.starts[0] < RESTARTS_WINDOW_S

    def last_error(self) -> str:
        """The last line that it wrote, without the word in front."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return lines[-1].removeprefix("error: ") if lines else "it said nothing"


class Supervisor:
    """Owns the processes of one data directory. Use it in an `async with`."""

    def __init__(self, data: DataDirectory, workers: int, clock: Clock | None = None) -> None:
        self._data, self._clock = data, clock or Clock.from_environment()
        self._lock: IO[bytes] | None = None
        self._owner = self._child("frontier", "tarrafa.frontier.owner")
        self._children = [
            self._child("graph", "tarrafa.crawl.follower", "graph"),
            self._child("index", "tarrafa.crawl.follower", "index"),
            *(
                self._child(f"w{n}", "tarrafa.crawl.worker", "--name", f"w{n}", "--workers", str(workers))
                for n in range(1, workers + 1)
            ),
        ]
        self._frontier: RemoteFrontier | None = None
        self._watchers: list[asyncio.Task[None]] = []
        self._failure: TarrafaError | None = None
        self._stopping = False

    def _child(self, name: str, module: str, *arguments: str) -> Child:
        line = [sys.executable, "-m", module, *arguments, "--data", str(self._data.root), "--parent", str(os.getpid())]
        return Child(name, line, self._data.logs / f"{name}.log")

    @property
    def frontier(self) -> RemoteFrontier:
        assert self._frontier is not None, "not started"
        return self._frontier

    async def __aenter__(self) -> "Supervisor":
        self._data.create()
        self._lock = self._data.try_lock()
        if self._lock is None:
            raise Locked(f"{self._data.root}: another Tarrafa process is working here")
        try:
            self._data.check_space()
            recover(self._data.archive)
            await self._start_owner()
            for child in self._children:
                await self._start(child)
                self._watchers.append(asyncio.create_task(self._watch(child)))
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    async def _start(self, child: Child, stdout: int | None = None) -> None:
        child.starts.append(boottime())
        environment = os.environ | {CLOCK_VARIABLE: self._clock.to_environment()}
        with child.log.open("ab") as log:
            child.process = await asyncio.create_subprocess_exec(
                *child.arguments, stdin=asyncio.subprocess.DEVNULL, stdout=stdout or log, stderr=log, env=environment
            )

    async def _start_owner(self) -> None:
        await self._start(self._owner, asyncio.subprocess.PIPE)
        process = self._owner.process
        assert process is not None
        assert process.stdout is not None
        try:
            line = await asyncio.wait_for(process.stdout.readline(), READY_TIMEOUT_S)
        except TimeoutError:
            raise DataError(f"the frontier is not ready after {READY_TIMEOUT_S:.0f} s; see {self._owner.log}") from None
        if line.strip() != b"ready":
            await process.wait()
            raise DataError(self._owner.last_error())
        self._frontier = await RemoteFrontier.connect(self._data.socket)
        self._watchers.append(asyncio.create_task(self._watch_owner()))

    async def _watch(self, child: Child) -> None:
        """Start again what dies, unless it said why or dies too often."""
        while True:
            assert child.process is not None
            code = await child.process.wait()
            if self._stopping:
                return
            if code == EXIT_ERROR:
                self._failure = DataError(child.last_error())
                return
            if child.keeps_dying():
                self._failure = DataError(f"{child.name} keeps dying (exit status {code}); see {child.log}")
                return
            await self._start(child)

    async def _watch_owner(self) -> None:
        """The others end by themselves without their frontier, and are started again when it is back."""
        assert self._owner.process is not None
        code = await self._owner.process.wait()
        if self._stopping:
            return
        if code == EXIT_ERROR:
            self._failure = DataError(self._owner.last_error())
        elif self._owner.keeps_dying():
            self._failure = DataError(f"the frontier keeps dying (exit status {code}); see {self._owner.log}")
        else:
            try:
                await self._start_owner()
            except TarrafaError as error:
                self._failure = DataError(f"the frontier does not come back: {error}")

    async def _end(self) -> None:
        """Workers first, so that they can hand back; then the followers; the owner last."""
        self._stopping = True
        with contextlib.suppress(FrontierError, TimeoutError):
            await asyncio.wait_for(self._pause_what_runs(), PAUSE_TIMEOUT_S)
        running = [child for child in self._children if child.process is not None and child.process.returncode is None]
        await _terminate(running)
        if self._frontier is not None:
            await self._frontier.close()
        if self._owner.process is not None and self._owner.process.returncode is None:
            await _terminate([self._owner])
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        if self._lock is not None:
            self._lock.close()

    async def _pause_what_runs(self) -> None:
        """Whoever asks for the state later learns that it was left on purpose, or why it had to be."""
        if self._frontier is None:
            return
        reason = str(self._failure) if self._failure else "stopped; `tarrafa crawl FILE` goes on where it was"
        for one in (await self._frontier.overview()).collections:
            if one.state == "running":
                await self._frontier.control(one.name, "paused", reason)

    async def overviews(self) -> AsyncIterator[Overview]:
        """The state of things a few times a second, until no collection runs any more."""
        while True:
            self._check()
            with contextlib.suppress(FrontierError):  # it is being started again
                overview = await self.frontier.overview()
                yield overview
                running = [one for one in overview.collections if one.state == "running"]
                finished = [one for one in running if is_exhausted(one)]
                if not running:
                    return
                if finished and self.is_caught_up():
                    await self._finish({one.name for one in finished})
                    continue
            await asyncio.sleep(TICK_S)

    def _check(self) -> None:
        """Raise what stands in the way of going on."""
        if self._failure is None:
            try:
                self._data.check_space()
            except DataError as error:
                self._failure = error
        if self._failure is not None:
            raise self._failure

    async def _finish(self, names: set[str]) -> None:
        """Asked once more, now that the graph has told all it knows: a depth that fell may have opened something."""
        for one in (await self.frontier.overview()).collections:
            if one.name in names and is_exhausted(one):
                await self.frontier.control(one.name, "finished", finish_reason(one))

    def is_caught_up(self) -> bool:
        """Everything archived is in the graph, the frontier knows its weights, and people can find it."""
        return graph.behind(self._data) == 0 and index.behind(self._data) == 0


async def _terminate(children: list[Child]) -> None:
    for child in children:
        assert child.process is not None
        with contextlib.suppress(ProcessLookupError):
            child.process.terminate()
    for child in children:
        assert child.process is not None
        try:
            await asyncio.wait_for(child.process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            child.process.kill()
            await child.process.wait()


def is_exhausted(status: CollectionStatus) -> bool:
    """Nothing is out, and nothing more may or can go out."""
    if status.handed_out:
        return False
    if status.keeps_fresh:
        spent = status.requests_max is not None and status.requests >= status.requests_max
        return spent or not (status.pending or status.fetched)
    full = status.pages_max is not None and status.fetched >= status.pages_max
    spent = status.requests_max is not None and status.requests >= status.requests_max
    return full or spent or not status.pending


def finish_reason(status: CollectionStatus) -> str:
    if status.requests_max is not None and status.requests >= status.requests_max:
        return f"requests_max = {status.requests_max} was reached"
    if not status.pending and status.sites_chosen:
        return f"every site in reach was visited; {status.passed_over:,} of their URLs were passed over"
    if not status.pending:
        return "everything in reach was visited"
    if status.pages_max is not None and status.fetched >= status.pages_max:
        return f"pages_max = {status.pages_max} was reached"
    return f"requests_max = {status.requests_max} was reached"


async def submit(frontier: RemoteFrontier, collection: Collection) -> None:
    """Hand a collection to the frontier, with its roots."""
    roots, content = list(Admission(collection).roots()), config.encode(collection)
    for start in range(0, len(roots), ROOTS_PER_CALL):
        await frontier.open_collection(content, roots[start : start + ROOTS_PER_CALL])
