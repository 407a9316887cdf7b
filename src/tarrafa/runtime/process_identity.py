"""Identity of a process, among all processes of all machines; and the files that this one may have open.

A process is identified by (boot id, pid, start time): a pid alone is soon reused.
"""

import os
import resource
from pathlib import Path

import msgspec

from tarrafa.clock import boot_id


class ProcessId(msgspec.Struct, frozen=True):
    """Identifies a process among all processes of all machines."""

    boot: str
    pid: int
    started: int  # clock ticks after boot
    space: str = ""  # the namespace of its pid


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on, or None if there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()  # the name may hold spaces and brackets


def start_ticks(pid: int) -> int | None:
    """When the process was started, or None if there is no such process (a zombie counts as gone)."""
    fields = _stat_fields(pid)
    return None if fields is None or fields[0] in "ZX" else int(fields[19])


def is_waiting_for_disk(pid: int) -> bool:
    """Whether the main thread of the process is in uninterruptible sleep: it waits for a disk, and no signal reaches
    it."""
    fields = _stat_fields(pid)
    return fields is not None and fields[0] == "D"


def current_process() -> ProcessId:
    return ProcessId(boot_id(), os.getpid(), start_ticks(os.getpid()) or 0, pid_namespace())


def pid_namespace() -> str:
    """The pid namespace. Containers count their own pids: the same number elsewhere is another process."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def is_dead(process: ProcessId) -> bool:
    """True only if the process provably ran on this machine and boot, and is gone. Processes of other machines cannot
    be judged.
    """
    here = process.boot == boot_id() and process.space in ("", pid_namespace())
    return here and start_ticks(process.pid) != process.started


def raise_file_limit(wanted: int) -> int:
    """Allow this process `wanted` open files, or as many as the system permits. Returns that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < wanted:
        soft = min(wanted, hard) if hard >= 0 else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft if soft >= 0 else wanted
