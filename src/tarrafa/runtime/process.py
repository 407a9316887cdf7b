"""Process identity, death with the parent, dropped privileges, memory limits, and the message frames of child

A process is identified by (boot id, pid, start time): a pid alone is soon reused. Dangerous work is done in a child
process (`sandbox`); here are the privileges that such a child drops, and how it receives and sends messages.
"""

import contextlib
import ctypes
import errno
import os
import resource
import signal
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from tarrafa.clock import boot_id
from tarrafa.errors import AccessRefused, FrontierError, TarrafaError, Unreachable

PR_SET_PDEATHSIG = 1
EXIT_ERROR = 2  # a message for people was printed
EXIT_UNAVAILABLE = 69  # EX_UNAVAILABLE: the frontier does not answer: restart this process when it does
EXIT_RETRY = 75  # EX_TEMPFAIL: the supervisor should simply restart this process
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
SOCKET_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}  # AUDIT_ARCH_…, the number of socket()
LENGTH_BYTES = 4
READY = b"ready"


class ProcessId(msgspec.Struct, frozen=True):
    """Identifies a process among all processes of all machines."""

    boot: str
    pid: int
    started: int  # clock ticks after boot
    space: str = ""  # the namespace of its pid


def start_ticks(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, or None if there is no such process (a zombie counts as gone)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name may hold spaces and brackets
    return None if fields[0] in "ZX" else int(fields[19])


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


def die_with_parent(parent_pid: int, death: signal.Signals = signal.SIGKILL) -> None:
    """End with the parent process, and leave Ctrl-C in the terminal to it."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, death)
    if os.getppid() != parent_pid:  # the parent died before prctl
        os._exit(EXIT_RETRY)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs one of our modules. -P: nothing is imported from the current folder, which may hold a
    copy.py that is not Python's.
    """
    return [sys.executable, "-Pm", module, *arguments]


def raise_file_limit(wanted: int) -> int:
    """Allow this process `wanted` open files, or as many as the system permits. Returns that number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < wanted:
        soft = min(wanted, hard) if hard >= 0 else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return soft if soft >= 0 else wanted


def drop_privileges() -> None:
    """Give up the network, writing files and new privileges, as far as the system allows. Call it before any thread is
    started: with more than one, only root can leave the network.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.unshare(CLONE_NEWNET) != 0:
        libc.unshare(CLONE_NEWUSER | CLONE_NEWNET)
    _forbid_sockets(libc)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _forbid_sockets(libc: ctypes.CDLL) -> None:
    """Make the kernel refuse new sockets: containers often do not let a process leave the network, but allow this."""
    known = SOCKET_CALLS.get(os.uname().machine)
    if known is None:
        return
    architecture, number = known
    rules = (  # seccomp(2): is it our architecture, and that call? then EACCES; anything else is allowed
        (0x20, 0, 0, 4), (0x15, 0, 3, architecture), (0x20, 0, 0, 0), (0x15, 0, 1, number),
        (0x06, 0, 0, 0x00050000 | errno.EACCES), (0x06, 0, 0, 0x7FFF0000),
    )  # fmt: skip
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    whole = ctypes.create_string_buffer(struct.pack("HP", len(rules), ctypes.addressof(program)))
    libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, whole, 0, 0)


def limit_memory(more_bytes: int | None) -> None:
    """Limit the memory to this much beyond the current use; another call counts from the use at that time. None: no
    limit.
    """
    if more_bytes is None:
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        return
    resource.setrlimit(
        resource.RLIMIT_AS, (_address_space_and_resident_bytes()[0] + more_bytes, resource.RLIM_INFINITY)
    )


def resident_bytes() -> int:
    """Resident memory of this process now. (The maximum that getrusage reports is at first that of the parent
    process.)
    """
    return _address_space_and_resident_bytes()[1]


def _address_space_and_resident_bytes() -> tuple[int, int]:
    """Address space and resident memory, in bytes."""
    with open("/proc/self/statm") as file:  # noqa: PTH123
        addresses, resident = file.read().split()[:2]
    return int(addresses) * resource.getpagesize(), int(resident) * resource.getpagesize()


def receive_message(line: socket.socket) -> bytearray:
    """The next message of the parent process; without a parent this process ends."""
    return _receive_exactly(line, int.from_bytes(_receive_exactly(line, LENGTH_BYTES), "big"))


def send_message(line: socket.socket, content: bytes) -> None:
    line.sendall(len(content).to_bytes(LENGTH_BYTES, "big") + content)


def _receive_exactly(line: socket.socket, count: int) -> bytearray:
    whole = bytearray(count)
    rest = memoryview(whole)
    while rest:
        got = line.recv_into(rest)
        if not got:
            os._exit(0)  # the parent process is gone
        rest = rest[got:]
    return whole


def run_child(main: Callable[[], None]) -> None:
    """Run a child's main function.

    An error that cannot be handled here becomes one line on stderr and exit status 2; a child without its frontier
    ends, to be restarted.
    """
    try:
        main()
    except TarrafaError as error:
        if isinstance(error, FrontierError) and not isinstance(error, AccessRefused):
            sys.stderr.write(f"{error}\n")
            sys.exit(EXIT_UNAVAILABLE if isinstance(error, Unreachable) else EXIT_RETRY)
        with contextlib.suppress(OSError):
            sys.stderr.write(f"error: {error}\n")
        sys.exit(EXIT_ERROR)
