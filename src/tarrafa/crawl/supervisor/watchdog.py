"""Watchdog: kills a child process that has sent no heartbeat for long, so that the supervisor starts it again.

A stopped or deadlocked process never ends by itself, and everything that waits for it stands still. The watchdog counts
the silence of each child (`runtime/heartbeat.py`) and sends SIGKILL; the restart, after the process is really gone,
is that of any death (`child_processes.py`, `frontier_link.py`).

Not counted as silence: time in which the supervisor itself did not run (a tick counts at most its own length, so a
machine that slept or a supervisor that was stopped adds one second); ticks in which the supervisor's own heartbeat,
sent the same way, was not received; time in which the child waits for the disk (state D), when SIGKILL would have no
effect either. A process without a first heartbeat is still starting, and has longer.
Known weakness: a process whose heartbeats come, but whose work stands still, is not noticed.

Promises: what is silent is written to `DATA/run/silent.json`, for commands that get no answer.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tarrafa.clock import boottime
from tarrafa.crawl.supervisor.child_processes import ChildProcess
from tarrafa.i18n import Message, message
from tarrafa.runtime.data_dir import DataDirectory, write_atomically
from tarrafa.runtime.heartbeat import HeartbeatListener, HeartbeatSender, ProcessHeartbeat
from tarrafa.runtime.process_identity import is_waiting_for_disk, start_ticks

SHOWN_AFTER_S = 5.0  # a process silent for so long is reported to readers


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """How long a child may be silent: `starting_s` before its first heartbeat (imports, opening a large file)."""

    silent_s: float = 60.0
    starting_s: float = 300.0
    tick_s: float = 1.0


class SilentProcess(msgspec.Struct, frozen=True):
    """A process without heartbeats, as its supervisor sees it; `since` is a boot time."""

    name: str
    pid: int
    since: float

    @property
    def message(self) -> Message:
        seconds, pid = round(boottime() - self.since), str(self.pid)
        return message(
            "{name} (pid {pid}) has sent no heartbeat for {seconds} s", name=self.name, pid=pid, seconds=seconds
        )


@dataclass(slots=True)
class _Silence:
    seconds: float = 0.0
    is_starting: bool = True


class Watchdog:
    """Use it in a `with`, in the running event loop, before the first child is started. `on_heartbeat`: receives the
    heartbeats of the children too."""

    def __init__(
        self,
        data: DataDirectory,
        children: Callable[[], Iterable[ChildProcess]],
        print_line: Callable[[str], None],
        limits: SilenceLimits,
    ) -> None:
        self._data, self._children, self._print_line, self._limits = data, children, print_line, limits
        self._silences: dict[asyncio.subprocess.Process, _Silence] = {}
        self._heard: set[int] = set()  # pids, since the last tick
        self._waiting: dict[int, asyncio.Event] = {}  # by pid
        self._published: list[SilentProcess] = []
        self._closing = contextlib.ExitStack()
        self.on_heartbeat: Callable[[ProcessHeartbeat], None] = lambda heartbeat: None
        self.ticks = 0

    def __enter__(self) -> "Watchdog":
        _silent_file(self._data).unlink(missing_ok=True)
        sender = HeartbeatSender(self._data)
        self._closing.callback(sender.close)
        self._closing.callback(HeartbeatListener(self._data, self.receive).close)
        self._closing.callback(asyncio.create_task(self._run(sender)).cancel)
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()
        _silent_file(self._data).unlink(missing_ok=True)

    def receive(self, heartbeat: ProcessHeartbeat) -> None:
        self._heard.add(heartbeat.pid)
        if (heard := self._waiting.get(heartbeat.pid)) is not None:
            heard.set()
        if heartbeat.pid != os.getpid():
            self.on_heartbeat(heartbeat)

    async def wait_for_heartbeat(self, child: ChildProcess, wait_s_max: float) -> None:
        """Return when the first heartbeat of a child was received, when it ends, or after this time."""
        assert child.process is not None
        silence = self._silences.get(child.process)
        if child.process.pid in self._heard or (silence is not None and not silence.is_starting):
            return
        heard = self._waiting[child.process.pid] = asyncio.Event()
        tasks = [asyncio.create_task(heard.wait()), asyncio.create_task(child.process.wait())]
        try:
            await asyncio.wait(tasks, timeout=wait_s_max, return_when=asyncio.FIRST_COMPLETED)
        finally:
            del self._waiting[child.process.pid]
            for task in tasks:
                task.cancel()

    async def _run(self, sender: HeartbeatSender) -> None:
        while True:
            sender.send(ProcessHeartbeat("supervisor", os.getpid()))
            before = boottime()
            await asyncio.sleep(self._limits.tick_s)
            self.tick(boottime() - before)

    def tick(self, elapsed_s: float) -> None:
        """Count the silences since the last tick, and kill what is hung."""
        heard, self._heard = self._heard, set()
        counted_s = min(elapsed_s, self._limits.tick_s) if os.getpid() in heard else 0.0
        before, self._silences = self._silences, {}
        for child in self._children():
            process = child.process
            if process is None or not child.is_running or child.dismissed:
                continue
            silence = self._silences[process] = before.get(process, _Silence())
            if process.pid in heard:
                silence.seconds, silence.is_starting = 0.0, False
            elif not is_waiting_for_disk(process.pid):
                silence.seconds += counted_s
            limit_s = self._limits.starting_s if silence.is_starting else self._limits.silent_s
            if silence.seconds >= limit_s and not child.is_hung:
                self._print_line(f"{child.name}: no heartbeat for {silence.seconds:.0f} s; it is killed")
                child.kill_hung(silence.seconds)
        self._publish()
        self.ticks += 1

    def _publish(self) -> None:
        """Write which processes are silent, when that has changed."""
        silent = [
            SilentProcess(child.name, child.process.pid, boottime() - silence.seconds)
            for child in self._children()
            if child.process is not None and (silence := self._silences.get(child.process)) is not None
            if silence.seconds >= SHOWN_AFTER_S and not silence.is_starting
        ]
        if [one.pid for one in silent] != [one.pid for one in self._published]:
            self._published = silent
            with contextlib.suppress(OSError):  # a full disk: only a notice is missing
                write_atomically(_silent_file(self._data), msgspec.json.encode(silent), durable=False)


def silent_processes(data: DataDirectory) -> list[SilentProcess]:
    """The silent processes of a data directory, by its supervisor. An unfinished or old file says nothing."""
    try:
        noted = msgspec.json.decode(_silent_file(data).read_bytes(), type=list[SilentProcess])
    except (OSError, msgspec.MsgspecError):
        return []
    return [one for one in noted if start_ticks(one.pid) is not None]


def _silent_file(data: DataDirectory) -> Path:
    return data.run / "silent.json"
