"""RPC server of the frontier: serves the `Frontier` API on a Unix socket, and over TCP after the token handshake.

`serve_unix` and `serve_tcp` serve any implementation of the API; an `RpcSession` answers one connection.
Promises: no call is answered before the handshake (`handshake.py`) is over; until then a connection costs a few hundred
bytes and a few seconds at most, however many there are and whatever they send; a refused client gets the reason where
that helps an honest one, and the log gets it a few times a minute at most. Listening beyond this machine without a
token is refused.
"""

import asyncio
import contextlib
import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path

from tarrafa.clock import boottime
from tarrafa.errors import ConfigError, FrontierError, ListenError
from tarrafa.frontier.address import parse_host_port
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.rpc import codec, handshake
from tarrafa.frontier.rpc.codec import keep_alive, read_frame
from tarrafa.frontier.rpc.handshake import HandshakeRefused
from tarrafa.runtime.token import HOW_TO_MAKE_A_TOKEN, TOKEN_VARIABLE, Token

HANDSHAKE_S = 5.0
UNAUTHENTICATED_MAX = 64  # connections before the end of their handshake; one more is closed at once
SESSIONS_MAX = 2_000
REQUESTS_AT_ONCE_MAX = 256  # of one connection; it is not read from while so many wait
REFUSAL_LOG_EVERY_S = 10.0

LogRefusal = Callable[[str], None]


def parse_listen_address(text: str, token: Token) -> tuple[str, int]:
    """Host and port of `--listen`; an address that other machines can reach needs a token."""
    host, port = parse_host_port(text, "--listen", any_port=True)
    if not token and not is_loopback(host, "--listen"):
        raise ConfigError(
            f"--listen {text}: other machines can reach this address, so it needs a token: --token-file FILE, or the "
            f"environment variable {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}"
        )
    return host, port


def is_loopback(host: str, option: str) -> bool:
    """Whether only this machine can reach that address of its own."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{option}: {host} is not an address of this machine ({error.strerror or error})") from None
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


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
            asyncio.IncompleteReadError, OSError, *codec.DECODE_ERRORS, asyncio.CancelledError
        ):  # cancelled: the server ends
            while True:
                request = codec.decode_request(await read_frame(reader))
                await self._room.acquire()
                task = asyncio.create_task(self._respond(request))
                self._tasks.add(task)
                task.add_done_callback(self._request_done)
        self._writer.close()

    def _request_done(self, task: "asyncio.Task[None]") -> None:
        RpcSession.responses += 1
        self._tasks.discard(task)
        self._room.release()

    async def _respond(self, request: codec.RpcRequest) -> None:
        try:
            method = codec.METHODS.get(request.method)
            if method is None:
                raise FrontierError(f"the frontier server has no call {request.method!r}")
            arguments = method.arguments.decode(request.arguments)
            reply = codec.encode_response(request.number, await getattr(self._frontier, request.method)(*arguments))
        except Exception as error:  # every call gets an answer
            reply = codec.encode_response(request.number, None, error)
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
                steps = handshake.server_handshake(self._token)
                next(steps)
                for _ in range(handshake.ROUNDS):
                    writer.write(steps.send(await read_frame(reader, handshake.FRAME_BYTES_MAX)))
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
