"""Runs a command and measures CPU and memory of all its processes, by role.

Promises: the total CPU is exact (the kernel's sum for the command and all its descendants). The CPU of a role is what
/proc said last, at most a tenth of a second before a process ended; the difference to the total is the role `others`.
Knows nothing of crawls, but for the command lines of Tarrafa's processes.
"""

import contextlib
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
SAMPLE_EVERY_S = 0.1  # CPU of the known processes
FIND_EVERY_S = 0.5  # new processes, their roles, their peak memory
PSS_EVERY_S = 2.0  # the kernel walks all pages of a process for it
END_S_MAX = 60.0
MODULE_ROLES = {
    "crawl.worker.worker": "workers",
    "frontier.rpc.frontier_server": "frontier",
    "crawl.worker.parser_with_sandbox": "sandbox",
}


@dataclass(slots=True)
class ProcessUse:
    """What one process has used."""

    role: str
    cpu_s: float = 0.0
    rss_mb: float = 0.0  # peak
    pss_mb: float = 0.0  # largest sample: shared pages divided by those who share them


@dataclass(slots=True)
class Usage:
    """What a command and all its processes have used."""

    started_s: float
    ended_s: float = 0.0
    cpu_s: float = 0.0
    status: int | None = None
    processes: dict[int, ProcessUse] = field(default_factory=dict)

    def cpu_by_role(self) -> dict[str, float]:
        """CPU-seconds by role, the most expensive first."""
        found: defaultdict[str, float] = defaultdict(float)
        for one in self.processes.values():
            found[one.role] += one.cpu_s
        found["others"] += max(0.0, self.cpu_s - sum(found.values()))
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def peak_by_role(self) -> dict[str, tuple[float, float]]:
        """Peak RSS and PSS in MB of the largest process of each role."""
        found: dict[str, tuple[float, float]] = {}
        for one in self.processes.values():
            rss_mb, pss_mb = found.get(one.role, (0.0, 0.0))
            found[one.role] = max(rss_mb, one.rss_mb), max(pss_mb, one.pss_mb)
        return found


def process_role(words: list[str]) -> str:
    """Name of a process by its command line: `--projection index`, or the module that it runs."""
    if "--projection" in words:
        return words[words.index("--projection") + 1]
    if "-Pm" in words:
        module = words[words.index("-Pm") + 1].removeprefix("tarrafa.")
        return MODULE_ROLES.get(module, module.rpartition(".")[2])
    return "command"


def run_measured(
    command: Sequence[str], environment: dict[str, str], tick: Callable[[], None], time_max_s: float
) -> Usage:
    """Run a command to its end, or to its end by force after `time_max_s`. `tick` is called at every look for new
    processes.
    """
    used = Usage(time.monotonic())
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    find_at = pss_at = used.started_s
    try:
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            now = time.monotonic()
            if now - used.started_s > time_max_s:
                os.killpg(process.pid, signal.SIGKILL)
            if now >= find_at:
                _find(used.processes, process.pid)
                find_at = now + FIND_EVERY_S
                tick()
            if now >= pss_at:
                _sample_pss(used.processes)
                pss_at = now + PSS_EVERY_S
            _sample_cpu(used.processes)
            time.sleep(SAMPLE_EVERY_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    used.ended_s = time.monotonic()
    process.returncode = used.status = os.waitstatus_to_exitcode(ended[1])
    used.cpu_s = ended[2].ru_utime + ended[2].ru_stime
    return used


def _find(known: dict[int, ProcessUse], root: int) -> None:
    """Add the process and its descendants; set their roles and peak memory."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
    for pid in parents:
        above: int | None = pid
        while above is not None and above != root:
            above = parents.get(above)
        if above is None:
            continue
        with contextlib.suppress(OSError):
            line = Path(f"/proc/{pid}/cmdline").read_text()
            one = known.setdefault(pid, ProcessUse("command"))
            if line and pid != root:  # empty: the process is ending
                one.role = process_role(line.split("\0"))
            for row in Path(f"/proc/{pid}/status").read_text().splitlines():
                if row.startswith("VmHWM:"):
                    one.rss_mb = int(row.split()[1]) / 1024


def _sample_cpu(known: dict[int, ProcessUse]) -> None:
    for pid, one in known.items():
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            one.cpu_s = (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def _sample_pss(known: dict[int, ProcessUse]) -> None:
    for pid, one in known.items():
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    one.pss_mb = max(one.pss_mb, int(line.split()[1]) / 1024)
