"""Child process of the supervisor: its start, environment, log, restarts and end.

Promises: children die with the process that started them, whatever ends it. The output of each child goes to its own
log. Secrets reach a child through its environment, never through its command line.
"""

import asyncio
import contextlib
import os
import signal
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tarrafa.clock import boottime
from tarrafa.errors import DataError
from tarrafa.runtime.child_process import child_command
from tarrafa.runtime.data_dir import DataDirectory

STOP_TIMEOUT_S = 20.0
RESTARTS_MAX, RESTARTS_WINDOW_S = 5, 60.0
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
    cause: str  # of its last exit
    leaves: bool = False  # it was told to stop


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
    cause: str = ""

    @classmethod
    def for_module(
        cls, data: DataDirectory, name: str, module: str, /, role: str = "", **arguments: object
    ) -> "ChildProcess":
        command = child_command(module, **arguments, data=data)
        return cls(name, command, data.logs / f"{name}.log", role=role or name)

    @property
    def state(self) -> ChildProcessState:
        pid = self.process.pid if self.process is not None else 0
        restarts = max(0, self.launches - 1)
        return ChildProcessState(
            self.name,
            self.role,
            pid,
            self.is_running,
            self.started_at,
            restarts,
            self.died_at,
            self.cause,
            self.dismissed,
        )

    def note_exit(self, code: int) -> None:
        """Remember the time and cause of an exit."""
        self.died_at = boottime()
        if code < 0:
            with contextlib.suppress(ValueError):
                self.cause = f"killed by signal {-code} ({signal.Signals(-code).name})"
                return
            self.cause = f"killed by signal {-code}"
        else:
            self.cause = f"exit status {code}: {self.last_error()}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self, settings: Mapping[str, str], stdout: int | None = None) -> asyncio.subprocess.Process:
        """Start the process; `settings` are added to our environment."""
        self.starts.append(boottime())
        try:
            return await self._started(settings, stdout)
        except OSError as error:  # no memory, process or file left: a later attempt may succeed
            raise DataError(f"{self.name} could not be started ({error.strerror or error})") from None

    async def _started(self, settings: Mapping[str, str], stdout: int | None) -> asyncio.subprocess.Process:
        self.launches, self.started_at = self.launches + 1, boottime()
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                env=os.environ | settings | self.secrets,
            )
        return self.process

    def is_crash_looping(self) -> bool:
        return len(self.starts) == RESTARTS_MAX and boottime() - self.starts[0] < RESTARTS_WINDOW_S

    def last_error(self) -> str:
        """The last line of its log, without the leading word."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1].removeprefix("error: ") if lines else "it said nothing"


async def terminate(children: Iterable[ChildProcess]) -> None:
    """Send SIGTERM; kill after a while."""
    running = [child.process for child in children if child.process is not None and child.process.returncode is None]
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
    for process in running:
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
