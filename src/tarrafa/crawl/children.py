"""Which processes are ours, and how are they started, watched and ended?

Children die with the process that started them, whatever ends it. Their words go to a log each; secrets reach them by
environment, never by their command line.
"""

import asyncio
import contextlib
import os
import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tarrafa.clock import CLOCK_VARIABLE, Clock, boottime
from tarrafa.data import DataDirectory
from tarrafa.frontier.address import Address, to_environment

STOP_TIMEOUT_S = 20.0
RESTARTS_MAX, RESTARTS_WINDOW_S = 5, 60.0


@dataclass(slots=True)
class Child:
    """One process of ours."""

    name: str
    arguments: list[str]
    log: Path
    process: asyncio.subprocess.Process | None = None
    starts: deque[float] = field(default_factory=lambda: deque(maxlen=RESTARTS_MAX))

    @classmethod
    def of(cls, data: DataDirectory, name: str, module: str, *arguments: str) -> "Child":
        line = [sys.executable, "-m", module, *arguments, "--data", str(data.root), "--parent", str(os.getpid())]
        return cls(name, line, data.logs / f"{name}.log")

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.returncode is None

    async def start(self, settings: Mapping[str, str], stdout: int | None = None) -> asyncio.subprocess.Process:
        """`settings` are added to our environment."""
        self.starts.append(boottime())
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *self.arguments,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=stdout or log,
                stderr=log,
                env=os.environ | settings,
            )
        return self.process

    def keeps_dying(self) -> bool:
        return len(self.starts) == RESTARTS_MAX and boottime() - self.starts[0] < RESTARTS_WINDOW_S

    def last_error(self) -> str:
        """The last line that it wrote, without the word in front."""
        lines = self.log.read_text(errors="replace").strip().splitlines() if self.log.exists() else []
        return lines[-1].removeprefix("error: ") if lines else "it said nothing"


def settings(address: Address, clock: Clock) -> dict[str, str]:
    """What a child finds its frontier and its clock by."""
    return to_environment(address) | {CLOCK_VARIABLE: clock.to_environment()}


async def terminate(children: Iterable[Child]) -> None:
    """Ask them to end; after a while, end them."""
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
