"""Link from a supervisor to its frontier: a local frontier process, or a remote frontier that others run.

`LocalFrontierLink`: the frontier server (`frontier/rpc/frontier_server.py`) is a child process, and may listen for
other machines. `RemoteFrontierLink`: the frontier runs elsewhere. When it does not answer, the supervisor waits, prints
that once, and prints when it answers again.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from tarrafa.clock import Clock
from tarrafa.crawl.supervisor.child_processes import ChildProcess, terminate
from tarrafa.errors import DataError, TarrafaError, Unreachable
from tarrafa.frontier.address import (
    Address,
    OpenFrontier,
    PostgresServers,
    TcpServer,
    child_environment,
    connect,
    local_address,
)
from tarrafa.frontier.clock_sync import sync_clock
from tarrafa.frontier.revisit_planner import PlannerLauncher
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.terminal import print_note
from tarrafa.runtime.token import TOKEN_VARIABLE, Token

START_PAUSE_S = 5.0  # before a failed start is tried again
LOOK_AGAIN_S = 1.0


class FrontierLink(Protocol):
    """What a supervisor needs from its frontier."""

    address: Address
    is_shared: bool  # other machines may work on it
    failure: TarrafaError | None  # an error that no waiting can mend
    trouble: Message | str  # what the link waits for; empty: nothing

    @property
    def children(self) -> list[ChildProcess]:
        """The processes of the frontier, if they are ours."""

    @property
    def address_for_others(self) -> Address | None:
        """The address for other machines; None: they cannot reach it."""

    @property
    def frontier(self) -> OpenFrontier: ...

    async def open(self) -> None: ...

    async def wait_until_reachable(self) -> None:
        """Return when the frontier answers (again)."""

    async def close(self) -> None: ...


class LocalFrontierLink:
    """The frontier server as a child process. `listen` is its address for other machines. `patient`: whatever keeps it
    from running, for example a full disk, its start is tried again until it succeeds."""

    def __init__(
        self,
        data: DataDirectory,
        clock: Clock,
        listen: tuple[str, int] | None = None,
        token: Token | None = None,
        print_line: Callable[[str], None] = print_note,
        *,
        patient: bool = False,
    ) -> None:
        self.address: Address = local_address(data)
        self.address_for_others = TcpServer(*listen, token or Token()) if listen is not None else None
        self.is_shared = listen is not None
        self.failure: TarrafaError | None = None
        self.trouble: Message | str = ""
        self._clock, self._print_line, self._patient = clock, print_line, patient
        self._child = ChildProcess.for_module(data, "frontier", "tarrafa.frontier.rpc.frontier_server")
        self.children = [self._child]
        self._command = list(self._child.arguments)
        self._frontier: OpenFrontier | None = None
        self._up, self._ending = asyncio.Event(), False
        self._watcher: asyncio.Task[None] | None = None

    @property
    def frontier(self) -> OpenFrontier:
        return _require_open(self._frontier)

    async def open(self) -> None:
        await self._start()
        self._watcher = asyncio.create_task(self._watch())
        if (server := self.address_for_others) is not None:
            open_to = "" if server.token else "   (without a token: every user of this machine may use it)"
            self._print_line(f"frontier server: {server}{open_to}")

    async def _start(self) -> None:
        settings = child_environment(self.address, self._clock) | {TOKEN_VARIABLE: ""}
        if (server := self.address_for_others) is not None:
            self._child.arguments = [*self._command, "--listen", str(server).removeprefix("tcp://")]
            settings[TOKEN_VARIABLE] = server.token.secret.decode()
        process = await self._child.start(settings, asyncio.subprocess.PIPE)
        assert process.stdout is not None
        words = (await process.stdout.readline()).split()  # the watchdog kills a server that is never ready
        if not words or words[0] != b"ready":
            code = await process.wait()
            self._child.note_exit(code)
            if code >= 0 or self._ending:
                raise DataError(self._child.last_error())
            await self._start_again(code)  # it was killed before it was ready
            return
        if server is not None:  # after a restart it listens on the same port
            self.address_for_others = replace(server, port=int(words[1]))
        if self._frontier is not None:
            await self._frontier.close()
        self._frontier = await connect(self.address, self._clock)
        self._up.set()

    async def _start_again(self, code: int) -> None:
        await asyncio.sleep(self._child.restart_pause_s)
        self._child.check_restartable(code)
        await self._start()

    async def _watch(self) -> None:
        """Restart the frontier server. Other children end by themselves without it, and are started again when it is
        back."""
        while True:
            process = self._child.process
            assert process is not None
            assert process.stdout is not None
            while line := await process.stdout.readline():
                self._print_line(line.decode(errors="replace").rstrip())
            code = await process.wait()
            self._up.clear()
            if self._ending:
                return
            self._child.note_exit(code)
            try:
                await self._start_again(code)
            except TarrafaError as error:
                if self._patient:
                    await self._try_again(error)
                    continue
                self.failure = error
                self._up.set()
                return

    async def _try_again(self, error: TarrafaError) -> None:
        self._print_line(f"the frontier: {error}; it is tried again")
        while True:
            self.trouble = message("the frontier: {error}", error=error.message)
            await terminate([self._child])
            await asyncio.sleep(START_PAUSE_S)
            try:
                await self._start()
                break
            except TarrafaError as again:
                error = again
        self.trouble = ""
        self._print_line("the frontier is back; going on")

    async def wait_until_reachable(self) -> None:
        while True:
            await self._up.wait()
            if self.failure is not None:
                raise self.failure
            with contextlib.suppress(Unreachable):
                await self.frontier.time()
                return
            await asyncio.sleep(LOOK_AGAIN_S)

    async def close(self) -> None:
        self._ending = True
        if self._frontier is not None:
            await self._frontier.close()
        await terminate([self._child])
        if self._watcher is not None:
            self._watcher.cancel()
            await asyncio.gather(self._watcher, return_exceptions=True)


class RemoteFrontierLink:
    """A frontier that runs elsewhere."""

    is_shared = True

    def __init__(self, address: Address, clock: Clock, print_line: Callable[[str], None] = print_note) -> None:
        self.address = self.address_for_others = address
        self.children: list[ChildProcess] = []
        self.failure: TarrafaError | None = None
        self.trouble: Message | str = ""
        self._clock, self._print_line = clock, print_line
        self._frontier: OpenFrontier | None = None
        self._reconnecting = asyncio.Lock()
        self._planners: asyncio.Task[None] | None = None

    @property
    def frontier(self) -> OpenFrontier:
        return _require_open(self._frontier)

    async def open(self) -> None:
        await self.wait_until_reachable()

    async def wait_until_reachable(self) -> None:
        async with self._reconnecting:
            while True:
                try:
                    await self._check_or_reconnect()
                    break
                except Unreachable as error:
                    if not self.trouble:
                        self._print_line(f"waiting for the frontier: {error}")
                    self.trouble = message("waiting for the frontier: {error}", error=error.message)
                    await asyncio.sleep(LOOK_AGAIN_S)
            if self.trouble:
                self._print_line(f"{self.address}: the frontier answers; going on")
            self.trouble = ""

    async def _check_or_reconnect(self) -> None:
        if self._frontier is not None:
            with contextlib.suppress(Unreachable):
                await self._frontier.time()
                return
            await self.close()
        opened = await connect(self.address, self._clock)
        await opened.time()
        self._frontier = opened
        if isinstance(self.address, PostgresServers):  # there is no frontier server that would plan the revisits
            clock = (await sync_clock(opened, self._clock)).clock
            self._planners = asyncio.create_task(PlannerLauncher(opened, self.address, clock).run())

    async def close(self) -> None:
        if self._planners is not None:
            self._planners.cancel()
            await asyncio.gather(self._planners, return_exceptions=True)
        opened, self._frontier, self._planners = self._frontier, None, None
        if opened is not None:
            await opened.close()


def _require_open(opened: OpenFrontier | None) -> OpenFrontier:
    if opened is None:
        raise Unreachable(message("the frontier is not connected yet, or is unreachable"))
    return opened
