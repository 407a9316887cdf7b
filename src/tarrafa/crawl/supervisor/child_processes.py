"""The child processes of a supervisor: starts them, restarts what dies, and gives up what no restart can mend.

A child that exits with `EXIT_ERROR` has printed why it cannot go on; one that dies too often is crash-looping. Both
are a failure, which the supervisor raises; a *patient* one waits instead, shows the problem and starts it again later.
Promises: the output of each child goes to its own log. Secrets reach a child through its environment, never through its
command line.
Knows nothing of what the children do.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tarrafa.clock import boottime
from tarrafa.errors import DataError, TarrafaError
from tarrafa.i18n import Message, from_text, joined, message
from tarrafa.runtime.child_process import EXIT_ERROR, EXIT_RETRY, EXIT_UNAVAILABLE, FAILURE_VARIABLE, child_command
from tarrafa.runtime.data_dir import DataDirectory

RESTART_PAUSE_S = 30.0  # before a patient supervisor starts a failed child again
TICK_S = 0.25
STOP_TIMEOUT_S = 20.0
RESTARTS_MAX, RESTARTS_WINDOW_S = 5, 60.0
# Before the restart of a hung child; doubles with each hang in a row. A child that died is started again at once.
HANG_PAUSE_S, HANG_PAUSE_S_MAX = 1.0, 300.0
HANGS_FORGOTTEN_S = 900.0  # a child that ran for so long before it hung again begins a new row
LOG_TAIL_BYTES = 16 << 10  # the end of a log, in which its last line is looked for


@dataclass(frozen=True, slots=True)
class ChildProcessState:
    """State of one child process, for monitoring. Times are boot times; 0: never."""

    name: str
    role: str
    pid: int
    runs: bool
    started_at: float
    restarts: int
    died_at: float
    cause: Message | str  # of its last exit
    is_stopping: bool = False


@dataclass(slots=True)
class ChildProcess:
    """One child process. Once dismissed, it is not started again."""

    name: str
    arguments: list[str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_MAX))
    role: str = ""
    dismissed: bool = False
    secrets: dict[str, str] = field(default_factory=dict, repr=False)  # only in its environment
    launches: int = 0
    started_at: float = 0.0
    died_at: float = 0.0
    cause: Message | str = ""
    hung_cause: Message | str = ""  # it was killed because it was silent
    hangs: int = 0  # in a row

    @classmethod
    def for_module(
        cls, data: DataDirectory, name: str, module: str, /, role: str = "", **arguments: object
    ) -> "ChildProcess":
        command = child_command(module, **arguments, data=data)
        return cls(name, command, data.logs / f"{name}.log", role=role or name)

    @property
    def state(self) -> ChildProcessState:
        return ChildProcessState(
            self.name,
            self.role,
            pid=self.process.pid if self.process is not None else 0,
            runs=self.is_running,
            started_at=self.started_at,
            restarts=max(0, self.launches - 1),
            died_at=self.died_at,
            cause=self.cause,
            is_stopping=self.dismissed,
        )

    def note_exit(self, code: int) -> None:
        """Remember the time and cause of an exit."""
        self.died_at = boottime()
        if self.is_hung:
            self.cause = self.hung_cause
        elif code < 0:
            with contextlib.suppress(ValueError):
                self.cause = message(
                    "killed by signal {number} ({name})", number=str(-code), name=signal.Signals(-code).name
                )
                return
            self.cause = message("killed by signal {number}", number=str(-code))
        else:
            self.cause = message("exit status {code}: {error}", code=str(code), error=self.last_error())

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    @property
    def is_hung(self) -> bool:
        """Whether it was killed for its silence, and has not been started since."""
        return bool(self.hung_cause)

    def kill(self) -> None:
        if self.process is not None and self.is_running:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()

    def kill_hung(self, silent_s: float) -> None:
        """Kill a process that has hung for so long. It may take a while until the process is gone."""
        assert self.process is not None
        if boottime() - self.started_at > HANGS_FORGOTTEN_S:
            self.hangs = 0
        self.hangs += 1
        self.hung_cause = message("hung: no heartbeat for {seconds:.0f} s; killed", seconds=silent_s)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()

    @property
    def restart_pause_s(self) -> float:
        """The pause before its restart: the more often in a row it hung, the longer."""
        return min(HANG_PAUSE_S_MAX, HANG_PAUSE_S * 2.0 ** (self.hangs - 1)) if self.is_hung else 0.0

    async def start(self, settings: Mapping[str, str], stdout: int | None = None) -> asyncio.subprocess.Process:
        """Start the process; `settings` are added to our environment."""
        self.launches, self.started_at = self.launches + 1, boottime()
        self.starts.append(self.started_at)
        self.hung_cause = ""
        self._failure_file.unlink(missing_ok=True)
        try:
            with self.log.open("ab") as log:
                self.process = await asyncio.create_subprocess_exec(
                    *self.arguments,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=stdout or log,
                    stderr=log,
                    env=os.environ | settings | self.secrets | {FAILURE_VARIABLE: str(self._failure_file)},
                )
        except OSError as error:  # no memory, process or file left: a later attempt may succeed
            raise DataError(
                message("{name} could not be started ({error})", name=self.name, error=error.strerror or str(error))
            ) from None
        return self.process

    def check_restartable(self, code: int) -> None:
        """Raise why no restart can mend its last exit, if that is so."""
        if code == EXIT_ERROR:
            raise DataError(self.last_error())
        if len(self.starts) == RESTARTS_MAX and boottime() - self.starts[0] < RESTARTS_WINDOW_S:
            raise DataError(
                message("{name} keeps dying ({cause}); see {log}", name=self.name, cause=self.cause, log=self.log)
            )

    @property
    def _failure_file(self) -> Path:
        return self.log.with_suffix(".failure")

    def last_error(self) -> Message | str:
        """The message of the error that ended it; if it left none, the last line of its log."""
        with contextlib.suppress(OSError, UnicodeError):
            if failure := self._failure_file.read_text():
                return from_text(failure)
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].removeprefix("error: ") if lines else message("it printed nothing")


async def terminate(children: Iterable[ChildProcess]) -> None:
    """Send SIGTERM; kill after a while."""
    running = [child.process for child in children if child.process is not None and child.is_running]
    await asyncio.gather(*map(_terminate, running))


async def _terminate(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(STOP_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


class ChildProcesses:
    """The running children. `environment`: what is added to ours. `may_restart`: whether a failed child may be started
    again now (not on a full disk)."""

    def __init__(
        self,
        environment: Callable[[], dict[str, str]],
        wait_for_frontier: Callable[[], Awaitable[None]],
        print_line: Callable[[str], None],
        *,
        patient: bool,
        may_restart: Callable[[], bool],
    ) -> None:
        self._environment, self._wait_for_frontier, self._print_line = environment, wait_for_frontier, print_line
        self._patient, self._may_restart = patient, may_restart
        self._children: list[ChildProcess] = []
        self._problems: dict[str, Message | str] = {}  # by the name of the child
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.failure: TarrafaError | None = None

    @property
    def problems(self) -> list[Message | str]:
        return list(self._problems.values())

    @property
    def children(self) -> list[ChildProcess]:
        return list(self._children)

    async def start(self, child: ChildProcess) -> None:
        """Start a child, and restart it when it dies, until it is dismissed."""
        await child.start(self._environment())
        self._children.append(child)
        self.track(asyncio.create_task(self._watch(child)))

    async def dismiss(self, children: list[ChildProcess]) -> None:
        """End these children; they are not started again."""
        for child in children:
            child.dismissed = True
            self._problems.pop(child.name, None)
        await terminate(children)
        self._children = [child for child in self._children if child.is_running or not child.dismissed]

    def track(self, task: "asyncio.Task[None]") -> None:
        """Track a task that ends with the children."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop_restarts(self) -> None:
        self._stopping = True

    async def terminate(self) -> None:
        await terminate(self._children)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _is_unwanted(self, child: ChildProcess) -> bool:
        return self._stopping or child.dismissed

    async def _watch(self, child: ChildProcess) -> None:
        while True:
            assert child.process is not None
            code = await child.process.wait()
            if self._is_unwanted(child):
                return
            child.note_exit(code)
            if not await self._restart(child, code):
                return
            if child.dismissed:  # dismissed during the start
                await terminate([child])

    async def _restart(self, child: ChildProcess, code: int) -> bool:
        """Whether the child runs again. Otherwise it is no longer wanted, or it has failed for good."""
        error: TarrafaError | None = None
        while True:
            try:
                if error is None:
                    await self._wait_until_restartable(child, code)
                if self._is_unwanted(child):
                    return False
                await child.start(self._environment())
                return True
            except TarrafaError as again:
                error = again
            if not self._patient:
                self.failure = self.failure or error
                return False
            await self._wait_after_failure(child, error)

    async def _wait_until_restartable(self, child: ChildProcess, code: int) -> None:
        """Return when the child may be started again; raise the reason if it may not."""
        await asyncio.sleep(child.restart_pause_s)
        if code == EXIT_UNAVAILABLE:  # the frontier is unreachable: not the child's fault, however often
            await self._wait_for_frontier()
            child.starts.clear()
        child.check_restartable(code)
        if code == EXIT_RETRY:
            self._print_line(f"{child.name}: {child.last_error()}; it is started again")

    async def _wait_after_failure(self, child: ChildProcess, error: TarrafaError) -> None:
        """Continue without the child for a while, and as long as the disk is full."""
        self._problems[child.name] = joined([child.name, error.message], ": ")
        self._print_line(f"{child.name}: {error}; it is started again in {RESTART_PAUSE_S:.0f} s")
        until = boottime() + RESTART_PAUSE_S
        while (boottime() < until or not self._may_restart()) and not self._is_unwanted(child):  # noqa: ASYNC110
            await asyncio.sleep(TICK_S)
        self._problems.pop(child.name, None)
        child.starts.clear()
