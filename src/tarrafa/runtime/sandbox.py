"""A sandboxed child process that answers one message at a time, without network, under limits of memory.

Promises: the process is started when it is first needed, does not receive the terminal's Ctrl-C, ends with its parent,
and may be killed at any moment; the next message starts another one. The child has no secret in its environment. Before
it reads its first message it has given up the network, writing files and new privileges, as far as the system allows.
Knows nothing of the content of the messages.
"""

import asyncio
import contextlib
import ctypes
import errno
import os
import resource
import socket
import struct
import subprocess

from tarrafa.runtime.child_process import child_command
from tarrafa.runtime.compiled_kernels import CompiledKernels

STARTS_MAX = 3
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # with more, only root can leave the network
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}  # each reserves address space, which a memory limit counts
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWNET, CLONE_NEWUSER = 0x40000000, 0x10000000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
SOCKET_CALLS = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}  # AUDIT_ARCH_…, the number of socket()
OTHER_NUMBERS, IO_URING_SETUP = 0x40000000, 425  # the numbers of x32 begin there
LENGTH_BYTES = 4
# Of variables with the keys of an object store, the password of a database, tokens and addresses that may hold one.
SECRET_PREFIXES = ("AWS_", "PG", "TARRAFA_FRONTIER", "TARRAFA_TOKEN", "TARRAFA_SMTP", "TARRAFA_WEBHOOK_SECRET")
READY = b"ready"


def environment_without_secrets() -> dict[str, str]:
    """Our environment for a process that reads what others have written: without keys, passwords and addresses."""
    return {name: value for name, value in os.environ.items() if not name.startswith(SECRET_PREFIXES)}


class SandboxProcess:
    """The parent's end: the child process of a module, and the socket to it. One message at a time."""

    def __init__(self, module: str, answer_bytes_max: int, *, quiet: bool = False, **arguments: object) -> None:
        self._module, self._arguments, self._answer_bytes_max = module, arguments, answer_bytes_max
        self._stderr = subprocess.DEVNULL if quiet else None
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, content: bytes) -> bytes:
        """Send a message and return the response. `asyncio.IncompleteReadError` or `ConnectionError`: the message
        killed the process. A caller that does not wait for the response must kill the process: the next response would
        not belong to the next message.
        """
        await self.ensure_started()
        assert self._streams is not None
        incoming, outgoing = self._streams
        outgoing.write(len(content).to_bytes(LENGTH_BYTES, "big") + content)
        await outgoing.drain()
        length = int.from_bytes(await incoming.readexactly(LENGTH_BYTES), "big")
        if length > self._answer_bytes_max:
            raise ConnectionError(f"an answer of {length} bytes")
        return await incoming.readexactly(length)

    async def ensure_started(self) -> None:
        """Start the process if needed: after this, a death of the process is caused by the message."""
        is_there = self._process is not None and self._process.poll() is None
        if is_there and self._streams is not None and not self._streams[0].at_eof():
            return
        for _ in range(STARTS_MAX):
            self.kill()
            ours, theirs = socket.socketpair()
            command = child_command(self._module, descriptor=theirs.fileno(), **self._arguments)
            with theirs:  # not asyncio's: libuv would make it receive the terminal's Ctrl-C
                self._process = subprocess.Popen(  # noqa: ASYNC220
                    command,
                    stdin=subprocess.DEVNULL,
                    stderr=self._stderr,
                    pass_fds=[theirs.fileno()],
                    env=environment_without_secrets() | ONE_THREAD | FEW_ARENAS,
                )
            self._streams = await asyncio.open_connection(sock=ours, limit=self._answer_bytes_max)
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await self._streams[0].readexactly(len(READY))
                return
        raise RuntimeError(f"the process of {self._module} does not start")

    def kill(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class MessageSocket:
    """The child's end of a socket: one message after another, each with its length before it."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def fileno(self) -> int:
        return self._socket.fileno()

    def receive(self) -> bytearray:
        """The next message of the parent process; without a parent this process ends."""
        return self._receive_exactly(int.from_bytes(self._receive_exactly(LENGTH_BYTES), "big"))

    def send(self, content: bytes) -> None:
        self._socket.sendall(len(content).to_bytes(LENGTH_BYTES, "big") + content)

    def _receive_exactly(self, count: int) -> bytearray:
        whole = bytearray(count)
        rest = memoryview(whole)
        while rest:
            got = self._socket.recv_into(rest)
            if not got:
                os._exit(0)  # the parent process is gone
            rest = rest[got:]
        return whole


class SandboxSocket(MessageSocket):
    """The same in a sandbox. To be made before any thread is started: with more than one, only root can leave the
    network.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor)
        CompiledKernels.may_compile = False
        drop_privileges()

    def send_ready(self) -> None:
        """After this, the parent takes a death of this process for the fault of the message."""
        self._socket.sendall(READY)


def drop_privileges() -> None:
    """Give up the network, writing files and new privileges, as far as the system allows."""
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
    _install_filter(libc, rules)


def forbid_network_sockets(libc: ctypes.CDLL) -> bool:
    """Make the kernel refuse sockets of any network, for this process and all that it starts; False if it does not.
    Sockets between processes of this machine, and those that ask the kernel about devices, are allowed. It needs
    PR_SET_NO_NEW_PRIVS."""
    known = SOCKET_CALLS.get(os.uname().machine)
    if known is None:
        return False
    architecture, number = known
    rules = (  # another architecture, or the other numbers of this one: EACCES; io_uring, which also opens sockets, too
        (0x20, 0, 0, 4), (0x15, 0, 8, architecture), (0x20, 0, 0, 0), (0x35, 6, 0, OTHER_NUMBERS),
        (0x15, 5, 0, IO_URING_SETUP), (0x15, 0, 3, number), (0x20, 0, 0, 16), (0x15, 1, 0, socket.AF_UNIX),
        (0x15, 0, 1, socket.AF_NETLINK), (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | errno.EACCES),
    )  # fmt: skip
    return _install_filter(libc, rules)


def _install_filter(libc: ctypes.CDLL, rules: tuple[tuple[int, int, int, int], ...]) -> bool:
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    whole = ctypes.create_string_buffer(struct.pack("HP", len(rules), ctypes.addressof(program)))
    return bool(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, whole, 0, 0) == 0)


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
    with open("/proc/self/statm") as file:  # noqa: PTH123
        addresses, resident = file.read().split()[:2]
    return int(addresses) * resource.getpagesize(), int(resident) * resource.getpagesize()
