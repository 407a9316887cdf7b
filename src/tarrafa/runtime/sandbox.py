"""A sandboxed child process that answers one message at a time and may be killed at any moment.

Promises: the process is started when it is first needed, does not receive the terminal's Ctrl-C, ends with its parent,
and may be killed at any moment; the next message starts another one.
Knows nothing of the content of the messages.
"""

import asyncio
import contextlib
import os
import socket
import subprocess

from tarrafa.runtime.process import LENGTH_BYTES, READY, module_command

STARTS_MAX = 3
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # with more, only root can leave the network
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}  # each reserves address space, which a memory limit counts


class SandboxProcess:
    """`python -m MODULE FD PARENT ARGUMENTS`, and the socket to it. One message at a time."""

    def __init__(self, module: str, answer_bytes_max: int, *arguments: str, quiet: bool = False) -> None:
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
            arguments = module_command(self._module, str(theirs.fileno()), str(os.getpid()), *self._arguments)
            with theirs:  # not asyncio's: libuv would make it receive the terminal's Ctrl-C
                self._process = subprocess.Popen(  # noqa: ASYNC220
                    arguments,
                    stdin=subprocess.DEVNULL,
                    stderr=self._stderr,
                    pass_fds=[theirs.fileno()],
                    env=os.environ | ONE_THREAD | FEW_ARENAS,
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
