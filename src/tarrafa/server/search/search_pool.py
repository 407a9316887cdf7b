"""SearchPool: answers searches in several processes where searches overlap.

Python runs one thread at a time, so a server alone searches on one processor, and its threads wait for each other.
Promises: a search has the same result or error as in the server itself, and the caller never blocks. The processes
(`search_process`) are started when two searches overlap for the first time, and until they are ready the server
searches itself, as it does on a machine with one processor and where other machines are searched, too. A process that
dies is replaced, and its search is put to another one; one that kills two processes is refused, and so is one that
takes longer than SEARCH_S_MAX. Searches wait for a process in the order in which they came. Knows nothing of HTTP.
"""

import asyncio
import logging
import os
import socket
import subprocess
from collections import deque
from collections.abc import Callable
from typing import cast

import msgspec
from starlette.concurrency import run_in_threadpool

from tarrafa.errors import Busy, QueryLimitExceeded
from tarrafa.i18n import message
from tarrafa.model import SearchResult
from tarrafa.runtime.child_process import child_command
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sandbox import LENGTH_BYTES
from tarrafa.search.local_shard import LOCAL_SHARD_NAME
from tarrafa.search.request import SearchRequest
from tarrafa.search.searcher import Searcher
from tarrafa.server.search.search_process import SearchResponse

PROCESSES_MAX = 4  # by default; each takes some 100 MB
ATTEMPTS_MAX = 2
SEARCH_S_MAX = 30.0
RESPONSE_BYTES_MAX = 64 << 20
RESTART_PAUSE_S, RESTART_PAUSE_S_MAX = 1.0, 60.0
PROCESS_MODULE = "tarrafa.server.search.search_process"

log = logging.getLogger(__name__)
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SearchResponse).decode


def default_processes() -> int:
    """One for each processor, up to PROCESSES_MAX; none where there is only one processor."""
    processors = len(os.sched_getaffinity(0))
    return min(processors, PROCESSES_MAX) if processors > 1 else 0


class SearchPool:
    """Searches for one server, which must close it at the end. `count`: how many processes; None: by processors."""

    def __init__(self, data: DataDirectory, searcher: Searcher, count: int | None = None) -> None:
        self._data, self._searcher = data, searcher
        self._count = default_processes() if count is None else count
        self._searching_here = 0
        self._is_started = self._is_closed = False
        self._all: set[_SearchProcess] = set()
        self._ready = 0
        self._idle: list[_SearchProcess] = []
        self._waiting: deque[asyncio.Future[_SearchProcess | None]] = deque()
        self._restart_pause_s = RESTART_PAUSE_S
        self._starts: set[asyncio.Task[None]] = set()

    async def search(self, request: SearchRequest) -> SearchResult:
        for _ in range(ATTEMPTS_MAX):
            if not self._ready or not self._is_alone():
                return await self._search_here(request)
            process = self._idle.pop() if self._idle else await self._next_process()
            if process is None:
                return await self._search_here(request)
            try:
                response = _decode(await process.ask(_encode(request)))
            except ConnectionError:
                continue
            if response.result is not None:
                return response.result
            assert response.failure is not None
            raise response.failure.error()
        raise Busy(message("The search has ended the process that answered it; try again in some seconds."))

    def _is_alone(self) -> bool:
        """Whether no other machine is searched."""
        present = self._searcher.present_shards
        return len(present) == 1 and present[0].name == LOCAL_SHARD_NAME

    async def _search_here(self, request: SearchRequest) -> SearchResult:
        self._searching_here += 1
        try:
            if self._searching_here > 1 and self._count and not self._is_started and self._is_alone():
                self._is_started = True
                for _ in range(self._count):
                    self._start_process()
            return await run_in_threadpool(self._searcher.search, request)
        finally:
            self._searching_here -= 1

    async def _next_process(self) -> "_SearchProcess | None":
        """The next process that has time; None: there is none any more."""
        turn: asyncio.Future[_SearchProcess | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and (process := turn.result()) is not None:
                self._release(process)  # its turn came in the same moment
            raise

    def _release(self, process: "_SearchProcess") -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(process)
                return
        self._idle.append(process)

    # -- the processes ---------------------------------------------------------------------------------------------

    def _start_process(self) -> None:
        if not self._is_closed:
            task = asyncio.get_running_loop().create_task(self._started())
            self._starts.add(task)
            task.add_done_callback(self._starts.discard)

    async def _started(self) -> None:
        """Start a process; it may be used when it says that it is ready."""
        ours, theirs = socket.socketpair()
        process = _SearchProcess(self._has_time, self._has_ended)
        self._all.add(process)
        command = child_command(PROCESS_MODULE, descriptor=theirs.fileno(), data=self._data)
        try:
            with theirs:
                child = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()])  # noqa: ASYNC220
            process.child = child
            await asyncio.get_running_loop().create_connection(lambda: process, sock=ours)
            if self._is_closed:
                process.kill()
        except OSError as error:  # no memory, or too many files
            log.warning("a search process cannot be started: %s", error)
            ours.close()
            self._has_ended(process)

    def _has_time(self, process: "_SearchProcess") -> None:
        """It is ready, or has answered."""
        if process.is_new:
            process.is_new = False
            self._ready += 1
        else:
            self._restart_pause_s = RESTART_PAUSE_S
        self._release(process)

    def _has_ended(self, process: "_SearchProcess") -> None:
        self._all.discard(process)
        if not process.is_new:
            self._ready -= 1
        if process in self._idle:
            self._idle.remove(process)
        if not self._ready:
            while self._waiting:
                if not (turn := self._waiting.popleft()).done():
                    turn.set_result(None)
        if not self._is_closed:
            log.warning("a search process has ended; another one is started in %g s", self._restart_pause_s)
            asyncio.get_running_loop().call_later(self._restart_pause_s, self._start_process)
            self._restart_pause_s = min(2 * self._restart_pause_s, RESTART_PAUSE_S_MAX)

    def close(self) -> None:
        """End the processes; running searches end with an error."""
        self._is_closed = True
        for process in list(self._all):
            process.kill()

    def __enter__(self) -> "SearchPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _SearchProcess(asyncio.Protocol):
    """The server's end of one process, which answers one message at a time. `has_time` is called when it is ready and
    after each answer, also where nobody waits for that any more.
    """

    def __init__(
        self, has_time: "Callable[[_SearchProcess], None]", has_ended: "Callable[[_SearchProcess], None]"
    ) -> None:
        self._has_time, self._has_ended = has_time, has_ended
        self.child: subprocess.Popen[bytes] | None = None
        self.is_new = True
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._limit: asyncio.TimerHandle | None = None

    def ask(self, content: bytes) -> asyncio.Future[bytes]:
        """The answer; `ConnectionError`: the process ended."""
        loop = asyncio.get_running_loop()
        self._answer = loop.create_future()
        if self._transport is None or self._transport.is_closing():
            self._answer.set_exception(ConnectionError())
            return self._answer
        self._limit = loop.call_later(SEARCH_S_MAX, self._took_too_long)
        self._transport.write(len(content).to_bytes(LENGTH_BYTES, "big") + content)
        return self._answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is no subclass of it

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < LENGTH_BYTES:
            return
        length = int.from_bytes(self._received[:LENGTH_BYTES], "big")
        if length > RESPONSE_BYTES_MAX:
            self.kill()
        elif len(self._received) == LENGTH_BYTES + length:
            content = bytes(memoryview(self._received)[LENGTH_BYTES:])
            self._received.clear()
            self._end_answer(lambda answer: answer.set_result(content))
            self._has_time(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.kill()
        self._end_answer(lambda answer: answer.set_exception(ConnectionError()))
        self._has_ended(self)

    def _took_too_long(self) -> None:
        late = QueryLimitExceeded(
            message("The search took more than {seconds} s and was stopped; ask for less.", seconds=int(SEARCH_S_MAX))
        )
        self._end_answer(lambda answer: answer.set_exception(late))
        self.kill()

    def _end_answer(self, end: "Callable[[asyncio.Future[bytes]], None]") -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        answer, self._answer = self._answer, None
        if answer is not None and not answer.done():
            end(answer)

    def kill(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None
