"""The health of a node: turns process heartbeats, child states and machine load into a node heartbeat.

Promises: a process that died is shown dead, with its cause, and stays marked after its restart; a process that runs
without heartbeats is shown silent; the system calls take a few milliseconds.
Knows nothing of who receives the heartbeat.
"""

import contextlib
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import psutil

from tarrafa import __version__
from tarrafa.archive.segment_log.log_mirror import log_path
from tarrafa.archive.segment_log.log_status import read_log_status
from tarrafa.clock import Clock, boottime
from tarrafa.coordinator.node.logs import LogReader
from tarrafa.coordinator.node.messages import (
    LINES_PER_HEARTBEAT_MAX,
    LogLine,
    LogState,
    Machine,
    NodeHeartbeat,
    ProcessState,
    ScrubState,
)
from tarrafa.crawl.supervisor.child_processes import ChildProcessState
from tarrafa.crawl.supervisor.drain import is_draining
from tarrafa.crawl.verify.scrub import read_scrub_result
from tarrafa.i18n import Message
from tarrafa.index.shards import read_layout
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import TEXT_CHARS_MAX, ProcessHeartbeat, printable_reason, printable_text
from tarrafa.runtime.process_identity import current_process

PROCESS_SILENT_AFTER_S = 5.0  # without a heartbeat, a running process is shown as silent
SUSPENDED_AFTER_S = 3.0  # between two heartbeats: then this process itself was suspended
LOG_SILENT_AFTER_S = 30.0  # without a word of the mirror
STARTING_S = 20.0  # a process may take so long until its first heartbeat


class ReceivedHeartbeat(NamedTuple):
    """The latest heartbeat of a process, and the one before it."""

    at: float
    pulse: ProcessHeartbeat
    before_at: float = 0.0
    before: ProcessHeartbeat | None = None

    def rate(self, field: str) -> float:
        """Growth of a counter per second, between the two."""
        if self.before is None or self.at <= self.before_at:
            return 0.0
        grown: int = getattr(self.pulse, field) - getattr(self.before, field)
        return max(0.0, grown / (self.at - self.before_at))


class NodeHealth:
    """`receive` each process heartbeat; `make_heartbeat` about once a second."""

    def __init__(self, data: DataDirectory, node: str, workers_named: str) -> None:
        self._data, self._node, self._workers_named = data, node, workers_named
        self._clock = Clock.real()  # also if the crawl runs by a false clock
        self.process = process_identity()
        self.started = self._clock.now()
        self._logs = LogReader(data.logs)
        self._lines: list[LogLine] = []
        self._received: dict[int, ReceivedHeartbeat] = {}  # by pid
        self._processes: dict[int, psutil.Process] = {}
        self._deaths: dict[str, float] = {}
        self._beat_at = self._awake_since = boottime()
        self.last: NodeHeartbeat | None = None
        self.cpu = 0.0  # share of all cores that our processes used lately
        self._model = printable_text(_cpu_model())
        self._system = printable_text(f"{platform.system()} {platform.release()}")
        psutil.cpu_percent(None)  # starts to count

    def receive(self, pulse: ProcessHeartbeat) -> None:
        last = self._received.get(pulse.pid)
        before = (last.at, last.pulse) if last is not None else (0.0, None)
        self._received[pulse.pid] = ReceivedHeartbeat(boottime(), pulse, *before)

    def add_log_line(self, text: str) -> None:
        """Add a line to the log of the node itself."""
        self._lines.append(LogLine(self._clock.now(), "node", printable_text(text, TEXT_CHARS_MAX)))
        del self._lines[:-LINES_PER_HEARTBEAT_MAX]

    def restore_lines(self, lines: Iterable[LogLine]) -> None:
        """Lines of a heartbeat that was not delivered: the next one carries them."""
        self._lines[:0] = lines
        del self._lines[:-LINES_PER_HEARTBEAT_MAX]

    def make_heartbeat(
        self,
        children: Iterable[ChildProcessState],
        orders: int = 0,
        trouble: Message | str = "",
        share: float = 1.0,
        address: str = "",
        *,
        is_paused: bool = False,
    ) -> NodeHeartbeat:
        now, children = boottime(), list(children)
        if now - self._beat_at > SUSPENDED_AFTER_S:  # missing heartbeats say nothing about the others
            self._awake_since = now
        self._beat_at = now
        pids = {child.pid for child in children if child.runs}
        self._received = {
            pid: last for pid, last in self._received.items() if pid in pids or now - last.at < STARTING_S
        }
        self._processes = {pid: process for pid, process in self._processes.items() if pid in pids}
        for child in children:
            self._log_death(child)
        processes = tuple(self._process_state(child, now) for child in children)
        self.cpu = sum(one.cpu for one in processes) / (psutil.cpu_count() or 1)
        lines = [*self._lines, *self._logs.new_lines(self._clock.now())][-LINES_PER_HEARTBEAT_MAX:]
        self._lines.clear()
        self.last = NodeHeartbeat(
            self._node, self._clock.now(), __version__, self.started, self.machine(), processes, orders,
            printable_reason(trouble), tuple(lines), address, self.process, self._workers_named, share, is_paused,
            self._scrub_state(), self._log_state(), is_draining=is_draining(self._data),
        )  # fmt: skip
        return self.last

    def _scrub_state(self) -> ScrubState | None:
        found = read_scrub_result(self._data)
        if found is None:
            return None
        counts = (found.bytes, found.lost, found.derived, found.harmless, found.known_losses)
        return ScrubState(found.at, found.took_s, *counts)

    def _log_state(self) -> LogState | None:
        found = read_log_status(self._data)
        if found is None or not log_path(self._data).exists():
            return None
        silent_s = self._clock.now() - found.at  # of a mirror that is dead, nothing else is known
        behind_s = found.behind_s + (silent_s if silent_s > LOG_SILENT_AFTER_S else 0.0)
        layout = read_layout(self._data)
        parts, building = (len(layout.here), len(layout.building)) if layout.is_owned else (0, 0)
        troubles = printable_text(found.store_trouble), printable_text(found.database_trouble)
        return LogState(found.behind, behind_s, *troubles, parts, building)

    def _log_death(self, child: ChildProcessState) -> None:
        """Log each death once."""
        if child.died_at > self._deaths.get(child.name, 0.0):
            self._deaths[child.name] = child.died_at
            self.add_log_line(f"{child.name} died: {child.cause}")

    def _process_state(self, child: ChildProcessState, now: float) -> ProcessState:
        last = self._received.get(child.pid)
        if last is not None and last.at < child.started_at:  # an earlier process had that pid
            last = None
        cpu, memory_bytes = self._cpu_and_memory(child.pid) if child.runs else (0.0, 0)
        silent_s = now - max(last.at, self._awake_since) if last is not None else 0.0
        fresh = child.runs and last is not None and now - last.at <= PROCESS_SILENT_AFTER_S
        state = _state_name(child, None if last is None else silent_s, now)
        return ProcessState(
            printable_text(child.name), child.role, child.pid, state, self._clock.at(child.started_at), child.restarts,
            died=self._clock.at(child.died_at) if child.died_at else 0.0,
            cause=printable_reason(child.cause),
            cpu=cpu,
            memory_bytes=memory_bytes,
            pages_per_s=last.rate("pages") if last is not None and fresh else 0.0,
            bytes_per_s=last.rate("bytes") if last is not None and fresh else 0.0,
            pulse=last.pulse if last is not None and child.runs else None,
        )  # fmt: skip

    def _cpu_and_memory(self, pid: int) -> tuple[float, int]:
        """CPU since the last call, of one core, and resident memory."""
        try:
            process = self._processes.get(pid)
            if process is None:
                process = self._processes[pid] = psutil.Process(pid)
            with process.oneshot():
                return max(0.0, process.cpu_percent(None) / 100), process.memory_info().rss
        except psutil.Error:
            return 0.0, 0

    def machine(self) -> Machine:
        memory, disk = psutil.virtual_memory(), psutil.disk_usage(str(self._data.root))
        speed = None
        with contextlib.suppress(OSError, NotImplementedError, RuntimeError):
            speed = psutil.cpu_freq()
        return Machine(
            cpus=psutil.cpu_count() or 1, cpu_mhz=speed.current if speed is not None else 0.0,
            cpu=psutil.cpu_percent(None) / 100, load=psutil.getloadavg()[0],
            memory_bytes=memory.total, memory_free_bytes=memory.available,
            disk_bytes=disk.total, disk_free_bytes=disk.free,
            model=self._model, system=self._system, processes=len(psutil.pids()), connections=_tcp_connections(),
        )  # fmt: skip


def _state_name(child: ChildProcessState, silent_s: float | None, now: float) -> str:
    if not child.runs:
        return "dead" if child.died_at else "starting"
    if child.is_stopping:
        return "leaving"
    if silent_s is None:
        return "starting" if now - child.started_at < STARTING_S else "silent"
    return "running" if silent_s <= PROCESS_SILENT_AFTER_S else "silent"


def process_identity() -> str:
    """Identifies this process among those of all machines."""
    me = current_process()
    return f"{me.boot}/{me.space}/{me.pid}/{me.started}"


def _cpu_model() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() in ("model name", "Hardware", "cpu model"):
                return value.strip()
    return platform.processor() or platform.machine()


def _tcp_connections() -> int:
    """TCP connections of this machine, by the kernel's count: listing them would be slow."""
    total = 0
    for path in ("/proc/net/sockstat", "/proc/net/sockstat6"):
        with contextlib.suppress(OSError, ValueError):
            for line in Path(path).read_text().splitlines():
                words = line.split()
                if words[:2] in (["TCP:", "inuse"], ["TCP6:", "inuse"]):
                    total += int(words[2])
    return total
