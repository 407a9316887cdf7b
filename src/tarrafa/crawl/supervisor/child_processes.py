"""Keeps the child processes of a supervisor running: restarts what dies, and gives up what no restart can mend.

A child that exits with `EXIT_ERROR` has printed why it cannot go on; one that dies too often is crash-looping. Both
are a failure, which the supervisor raises; a *patient* one waits instead, shows the problem and starts it again later.
Knows nothing of what the children do.
"""

import asyncio
from collections.abc import Awaitable, Callable

from tarrafa.clock import boottime
from tarrafa.crawl.supervisor.child_process import ChildProcess, terminate
from tarrafa.errors import DataError, TarrafaError
from tarrafa.runtime.child_process import EXIT_ERROR, EXIT_RETRY, EXIT_UNAVAILABLE

RESTART_PAUSE_S = 30.0  # before a patient supervisor starts a failed child again
TICK_S = 0.25


class ChildProcesses:
    """The running children. `environment`: what is added to ours. `may_restart`: whether a failed child may be started
    again now (not on a full disk)."""

    def __init__(
        self,
        environment: Callable[[], dict[str, str]],
        wait_for_frontier: Callable[[], Awaitable[None]],
        tell: Callable[[str], None],
        *,
        patient: bool,
        may_restart: Callable[[], bool],
    ) -> None:
        self._environment, self._wait_for_frontier, self._tell = environment, wait_for_frontier, tell
        self._patient, self._may_restart = patient, may_restart
        self._problems: dict[str, str] = {}  # by the name of the child
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopping = False
        self.failure: TarrafaError | None = None

    @property
    def problems(self) -> list[str]:
        return list(self._problems.values())

    def forget_problem(self, child: ChildProcess) -> None:
        self._problems.pop(child.name, None)

    async def start(self, child: ChildProcess) -> None:
        """Start a child, and restart it when it dies, until it is dismissed."""
        await child.start(self._environment())
        self.track(asyncio.create_task(self._watch(child)))

    def track(self, task: "asyncio.Task[None]") -> None:
        """Track a task that ends with the children."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def stop_restarts(self) -> None:
        self._stopping = True

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
        if code == EXIT_ERROR:
            raise DataError(child.last_error())
        if code == EXIT_UNAVAILABLE:  # the frontier is unreachable: not the child's fault, however often
            await self._wait_for_frontier()
            child.starts.clear()
        elif child.is_crash_looping():
            raise DataError(f"{child.name} keeps dying (exit status {code}); see {child.log}")
        elif code == EXIT_RETRY:
            self._tell(f"{child.name}: {child.last_error()}; it is started again")

    async def _wait_after_failure(self, child: ChildProcess, error: TarrafaError) -> None:
        """Continue without the child for a while, and as long as the disk is full."""
        self._problems[child.name] = f"{child.name}: {error}"
        self._tell(f"{child.name}: {error}; it is started again in {RESTART_PAUSE_S:.0f} s")
        until = boottime() + RESTART_PAUSE_S
        while (boottime() < until or not self._may_restart()) and not self._is_unwanted(child):  # noqa: ASYNC110
            await asyncio.sleep(TICK_S)
        self.forget_problem(child)
        child.starts.clear()
