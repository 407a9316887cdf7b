"""A sandboxed child process that answers one message at a time and may be killed at any moment.

A process beside this one, which answers one message with another. Promises: it is started when it is first needed,
has no terminal's Ctrl-C, dies with us, and may be killed at any moment; the next message finds another one. Knows
nothing of what is said.
"""

import asyncio
import contextlib
import os
import socket
import subprocess

from tarrafa.runtime.process import LENGTH_BYTES, READY, module_command

STARTS_MAX = 3
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}  # with more, nobody but root can leave the network
FEW_ARENAS = {"MALLOC_ARENA_MAX": "2"}  # each reserves addresses, which a limit of memory counts


class SandboxProcess:
    """`python -m MODULE FD PARENT ARGUMENTS`, and the line to it. One message at a time."""

    def __init__(self, module: str, answer_bytes_max: int, *arguments: str, quiet: bool = False) -> None:
        self._module, self._arguments, self._answer_bytes_max = module, arguments, answer_bytes_max
        self._stderr = subprocess.DEVNULL if quiet else None
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def request(self, content: bytes) -> bytes:
        """What it answers. `asyncio.IncompleteReadError` or `ConnectionError`: it died of it. Whoever does not wait
        for the end must kill it: the next answer would not be for the next question."""
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
        """Have it running: from then on, what becomes of it is the doing of what it is asked."""
        is_there = self._process is not None and self._process.poll() is None
        if is_there and self._streams is not None and not self._streams[0].at_eof():
            return
        for _ in range(STARTS_MAX):
            self.kill()
            ours, theirs = socket.socketpair()
            arguments = module_command(self._module, str(theirs.fileno()), str(os.getpid()), *self._arguments)
            with theirs:  # not asyncio's: libuv would make it listen to the terminal's Ctrl-C
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
