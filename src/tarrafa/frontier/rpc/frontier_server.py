"""Frontier server: serves the `Frontier` API on a Unix socket, and over TCP after the token handshake; and its process.

`serve_unix` and `serve_tcp` serve any implementation of the API; an `RpcSession` answers one connection.
Promises: no call is answered before the handshake (`codec_and_handshake.py`) is over; until then a connection costs a
few hundred bytes and a few seconds at most, however many there are and whatever they send; a refused client gets the
reason where that helps an honest one, and the log gets it a few times a minute at most. Listening beyond this machine
without a token is refused.

The process is started by the supervisor, and is the only one with the frontier's SQLite file open. Every other process
calls it over `DATA/run/frontier.sock`, and with `--listen` over TCP, from other machines too. It prints `ready` on its
standard output, with the port, then each refused client. When the file can no longer be written it prints the reason in
one line and ends: the supervisor decides what follows.
"""

import asyncio
import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import uvloop

from tarrafa.archive.warc_reader import visit_lengths
from tarrafa.clock import Clock, boottime
from tarrafa.errors import ConfigError, DataError, FrontierError, ListenError, Locked, TarrafaError
from tarrafa.frontier.address import local_address, parse_host_port
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.clock_sync import resume_clock
from tarrafa.frontier.revisit_planner import PlannerLauncher
from tarrafa.frontier.rpc.codec_and_handshake import (
    DECODE_ERRORS,
    HANDSHAKE_BYTES_MAX,
    METHODS,
    ROUNDS,
    HandshakeRefused,
    RpcRequest,
    decode_request,
    encode_response,
    keep_alive,
    read_frame,
    server_handshake,
)
from tarrafa.frontier.store.leases import LeaseClock
from tarrafa.frontier.store.sqlite_frontier import SqliteFrontier, last_clock_reading
from tarrafa.i18n import message
from tarrafa.runtime.child_process import on_sigterm, run_child
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.heartbeat import PROCESS_HEARTBEAT_EVERY_S, ProcessHeartbeat, send_heartbeats
from tarrafa.runtime.listen_address import is_listen_address_local
from tarrafa.runtime.public_suffix_list import bundled_suffix_list
from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, Token, load_token

HANDSHAKE_S = 5.0
UNAUTHENTICATED_MAX = 64  # connections before the end of their handshake; one more is closed at once
SESSIONS_MAX = 2_000
REQUESTS_AT_ONCE_MAX = 256  # of one connection; it is not read from while so many wait
REFUSAL_LOG_EVERY_S = 10.0
OPEN_TRIES, OPEN_WAIT_S = 50, 0.1  # a predecessor that was killed a moment ago may still hold the lock

LogRefusal = Callable[[str], None]


def parse_listen_address(text: str, token: Token) -> tuple[str, int]:
    """Host and port of `--listen`; an address that other machines can reach needs a token."""
    host, port = parse_host_port(text, "--listen", any_port=True)
    if not token and not is_listen_address_local(host, "--listen"):
        raise ConfigError(
            f"--listen {text}: other machines can reach this address, so it needs a token: --token-file FILE, or the "
            f"environment variable {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}"
        )
    return host, port


async def serve_unix(frontier: Frontier, path: str) -> asyncio.Server:
    """Serve on a Unix socket that only this user may open."""
    Path(path).unlink(missing_ok=True)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await RpcSession(frontier, writer).run(reader)

    server = await asyncio.start_unix_server(connected, path)
    Path(path).chmod(0o600)
    return server


class RpcSession:
    """One connection: calls are answered as they finish, not in their order."""

    responses = 0  # of all sessions of this process
    open_sessions = 0

    def __init__(self, frontier: Frontier, writer: asyncio.StreamWriter) -> None:
        self._frontier, self._writer = frontier, writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(REQUESTS_AT_ONCE_MAX)

    async def run(self, reader: asyncio.StreamReader) -> None:
        RpcSession.open_sessions += 1
        try:
            await self._serve_requests(reader)
        finally:
            RpcSession.open_sessions -= 1

    async def _serve_requests(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(
            asyncio.IncompleteReadError, OSError, *DECODE_ERRORS, asyncio.CancelledError
        ):  # cancelled: the server ends
            while True:
                request = decode_request(await read_frame(reader))
                await self._room.acquire()
                task = asyncio.create_task(self._respond(request))
                self._tasks.add(task)
                task.add_done_callback(self._request_done)
        self._writer.close()

    def _request_done(self, task: "asyncio.Task[None]") -> None:
        RpcSession.responses += 1
        self._tasks.discard(task)
        self._room.release()

    async def _respond(self, request: RpcRequest) -> None:
        try:
            method = METHODS.get(request.method)
            if method is None:
                raise FrontierError(f"the frontier server has no call {request.method!r}")
            arguments = method.arguments.decode(request.arguments)
            reply = encode_response(request.number, await getattr(self._frontier, request.method)(*arguments))
        except Exception as error:  # every call gets an answer
            reply = encode_response(request.number, None, error)
        with contextlib.suppress(OSError):
            self._writer.write(reply)
            await self._writer.drain()


async def serve_tcp(
    frontier: Frontier, host: str, port: int, token: Token, log_refusal: LogRefusal = lambda line: None
) -> asyncio.Server:
    """Serve on a TCP port, for clients that know the token."""
    listener = _TcpListener(frontier, token, log_refusal)
    try:
        return await asyncio.start_server(listener.accept, host, port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        raise ListenError(f"--listen {host}:{port}: cannot listen here ({reason})") from None


class _TcpListener:
    def __init__(self, frontier: Frontier, token: Token, log_refusal: LogRefusal) -> None:
        self._frontier, self._token, self._log = frontier, token, log_refusal
        self._unauthenticated = self._sessions = 0
        self._logged_at, self._unlogged = -REFUSAL_LOG_EVERY_S, 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        if self._unauthenticated >= UNAUTHENTICATED_MAX or self._sessions >= SESSIONS_MAX:
            self._log_refusal(writer, "too many connections at once")
            writer.transport.abort()
            return
        self._unauthenticated += 1
        try:
            is_authentic = await self._authenticate(reader, writer)
        finally:
            self._unauthenticated -= 1
        if not is_authentic:
            writer.close()
            return
        self._sessions += 1
        try:
            await RpcSession(self._frontier, writer).run(reader)
        finally:
            self._sessions -= 1

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                keep_alive(writer.get_extra_info("socket"))
                steps = server_handshake(self._token)
                next(steps)
                for _ in range(ROUNDS):
                    writer.write(steps.send(await read_frame(reader, HANDSHAKE_BYTES_MAX)))
                    await writer.drain()
                return True
        except HandshakeRefused as refusal:
            self._log_refusal(writer, str(refusal))
            with contextlib.suppress(OSError):
                writer.write(refusal.response)
        except TimeoutError:
            self._log_refusal(writer, f"no handshake within {HANDSHAKE_S:.0f} s")
        except (asyncio.IncompleteReadError, OSError):
            self._log_refusal(writer, "it does not speak our protocol")
        except asyncio.CancelledError:  # the server ends
            pass
        return False

    def _log_refusal(self, writer: asyncio.StreamWriter, reason: str) -> None:
        """Log a refusal, at a limited rate: no client may fill the log."""
        now = boottime()
        if now - self._logged_at < REFUSAL_LOG_EVERY_S:
            self._unlogged += 1
            return
        peer = (writer.get_extra_info("peername") or ("an unknown address",))[0]
        others = f" (and {self._unlogged:,} more before it)" if self._unlogged else ""
        self._logged_at, self._unlogged = now, 0
        self._log(f"refused a connection from {peer}: {reason}{others}")


# -- the process -------------------------------------------------------------------------------------------------------


async def _serve(data: DataDirectory, listen: str) -> None:
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    fatal: list[TarrafaError] = []

    def on_fatal(error: TarrafaError) -> None:
        fatal.append(error)
        loop.call_soon_threadsafe(ended.set)

    on_sigterm(ended.set)
    resumed = resume_clock(Clock.from_environment(), last_clock_reading(data.frontier))
    clock = resumed.clock
    frontier = await _open(data, clock, on_fatal)
    server = await serve_unix(frontier, data.socket)
    ready = "ready"
    if listen:
        token = load_token(None)
        tcp = await serve_tcp(frontier, *parse_listen_address(listen, token), token, _print_line)
        ready = f"ready {tcp.sockets[0].getsockname()[1]}"
    planners = asyncio.create_task(PlannerLauncher(frontier, local_address(data), clock).run())
    heartbeats = asyncio.create_task(send_heartbeats(data, partial(next, _heartbeats())))
    _print_line(ready)
    if resumed.notice():
        _print_line(f"{resumed.notice()} (it was set back since the frontier was last open)")
    await ended.wait()
    heartbeats.cancel()
    planners.cancel()
    with contextlib.suppress(asyncio.CancelledError, TarrafaError):
        await planners
    server.close()
    await frontier.close()
    if fatal:
        raise fatal[0]


def _heartbeats() -> Iterator[ProcessHeartbeat]:
    """The heartbeat of each second, with the number of calls."""
    answers, at = RpcSession.responses, boottime()
    while True:
        before, since, answers, at = answers, at, RpcSession.responses, boottime()
        elapsed_s = max(at - since, PROCESS_HEARTBEAT_EVERY_S)
        note = message("{count} questions/s", count=round((answers - before) / elapsed_s))
        lag_s = elapsed_s - PROCESS_HEARTBEAT_EVERY_S
        yield ProcessHeartbeat("frontier", os.getpid(), connections=RpcSession.open_sessions, lag_s=lag_s, note=note)


def _print_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def _open(data: DataDirectory, clock: Clock, on_fatal: Callable[[TarrafaError], None]) -> SqliteFrontier:
    if not data.frontier.exists() and visit_lengths(data.archive):
        # An empty frontier would assign visit numbers that the archive has already, and the followers ignore those.
        raise DataError(
            message(
                "{path}: is missing, but the archive holds visits; `tarrafa rebuild frontier` makes it again",
                path=data.frontier,
            )
        )
    for attempt in range(OPEN_TRIES):
        try:
            return SqliteFrontier(data.frontier, clock, bundled_suffix_list(), on_fatal, LeaseClock.from_environment())
        except Locked:
            if attempt == OPEN_TRIES - 1:
                raise
            await asyncio.sleep(OPEN_WAIT_S)
    raise AssertionError


def main(data: DataDirectory, listen: str = "") -> None:
    """`listen`: HOST:PORT for other machines; the token is in the environment."""
    uvloop.run(_serve(data, listen))


if __name__ == "__main__":
    run_child(main)
