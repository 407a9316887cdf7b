"""RPC server of the frontier: serves the `Frontier` API on a Unix socket, and over TCP after the token handshake.

`serve_unix` and `serve_tcp` open any body of the Protocol; an `RpcSession` answers one connection. Promises: no call is
answered before the handshake (`handshake.py`) is over; until then a connection costs a few hundred bytes and a few
seconds at most, however many there are and whatever they send; a refused client is told the reason where that helps an
honest one, and so is the operator, a few times a minute at most. Listening beyond this machine without a token is
refused.
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
UNAUTHENTICATED_MAX = 64  # connections that have not proved anything yet; one more is closed at once
SESSIONS_MAX = 2_000
REQUESTS_AT_ONCE_MAX = 256  # of one connection; it is not read from while so many wait
REFUSAL_LOG_EVERY_S = 10.0

LogRefusal = Callable[[str], None]


def parse_listen_address(text: str, token: Token) -> tuple[str, int]:
    """Where to listen, if that is safe."""
    host, port = parse_host_port(text, "--listen", any_port=True)
    if not token and not is_loopback(host, "--listen"):
        raise ConfigError(
            f"--listen {text}: other machines can reach this address, so it needs a token: --token-file FILE, or the "
            f"environment variable {TOKEN_VARIABLE}; {HOW_TO_MAKE_A_TOKEN}"
        )
    return host, port


def is_loopback(host: str, option: str) -> bool:
    """Whether nobody but this machine can reach an address of its own."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{option}: {host} is no address of this machine ({error.strerror or error})") from None
    return all(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_loopback for one in found)


async def serve_unix(frontier: Frontier, path: str) -> asyncio.Server:
    """Answer on a Unix socket that only this user may open."""
    Path(path).unlink(missing_ok=True)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await RpcSession(frontier, writer).run(reader)

    server = await asyncio.start_unix_server(connected, path)
    Path(path).chmod(0o600)
    return server


class RpcStats:
    """What this process has been asked so far, and by how many at this moment."""

    responses = sessions = 0


class RpcSession:
    """One connection: questions are answered as they get done, not in the order asked."""

    def __init__(self, frontier: Frontier, writer: asyncio.StreamWriter) -> None:
        self._frontier, self._writer = frontier, writer
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(REQUESTS_AT_ONCE_MAX)

    async def run(self, reader: asyncio.StreamReader) -> None:
        RpcStats.sessions += 1
        try:
            await self._serve_requests(reader)
        finally:
            RpcStats.sessions -= 1

    async def _serve_requests(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(
            asyncio.IncompleteReadError, OSError, *codec.DECODE_ERRORS, asyncio.CancelledError
        ):  # cancelled: the server ends
            while True:
                asked = codec.decode_request(await read_frame(reader))
                await self._room.acquire()
                task = asyncio.create_task(self._respond(asked))
                self._tasks.add(task)
                task.add_done_callback(self._request_done)
        self._writer.close()

    def _request_done(self, task: "asyncio.Task[None]") -> None:
        RpcStats.responses += 1
        self._tasks.discard(task)
        self._room.release()

    async def _respond(self, asked: codec.RpcRequest) -> None:
        try:
            method = codec.METHODS.get(asked.method)
            if method is None:
                raise FrontierError(f"the URL server knows no {asked.method!r}")
            arguments = method.arguments.decode(asked.arguments)
            reply = codec.encode_response(asked.number, await getattr(self._frontier, asked.method)(*arguments))
        except Exception as error:  # whoever asked must hear something
            reply = codec.encode_response(asked.number, None, error)
        with contextlib.suppress(OSError):
            self._writer.write(reply)
            await self._writer.drain()


async def serve_tcp(
    frontier: Frontier, host: str, port: int, token: Token, complain: LogRefusal = lambda line: None
) -> asyncio.Server:
    """Answer on a TCP port whoever knows the token."""
    door = _TcpListener(frontier, token, complain)
    try:
        return await asyncio.start_server(door.accept, host, port)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        raise ListenError(f"--listen {host}:{port}: cannot listen here ({reason})") from None


class _TcpListener:
    def __init__(self, frontier: Frontier, token: Token, complain: LogRefusal) -> None:
        self._frontier, self._token, self._complain = frontier, token, complain
        self._strangers = self._guests = 0
        self._complained_at, self._unsaid = -REFUSAL_LOG_EVERY_S, 0

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, from its first byte to its last."""
        if self._strangers >= UNAUTHENTICATED_MAX or self._guests >= SESSIONS_MAX:
            self._log_refusal(writer, "too many connections at once")
            writer.transport.abort()
            return
        self._strangers += 1
        try:
            let_in = await self._authenticate(reader, writer)
        finally:
            self._strangers -= 1
        if not let_in:
            writer.close()
            return
        self._guests += 1
        try:
            await RpcSession(self._frontier, writer).run(reader)
        finally:
            self._guests -= 1

    async def _authenticate(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                keep_alive(writer.get_extra_info("socket"))
                talk = handshake.server_handshake(self._token)
                next(talk)
                for _ in range(handshake.ROUNDS):
                    writer.write(talk.send(await read_frame(reader, handshake.FRAME_BYTES_MAX)))
                    await writer.drain()
                return True
        except HandshakeRefused as stranger:
            self._log_refusal(writer, str(stranger))
            with contextlib.suppress(OSError):
                writer.write(stranger.response)
        except TimeoutError:
            self._log_refusal(writer, f"no handshake within {HANDSHAKE_S:.0f} s")
        except (asyncio.IncompleteReadError, OSError):
            self._log_refusal(writer, "it does not speak our protocol")
        except asyncio.CancelledError:  # the server ends
            pass
        return False

    def _log_refusal(self, writer: asyncio.StreamWriter, reason: str) -> None:
        """Say it to the operator, but let nobody fill the log."""
        now = boottime()
        if now - self._complained_at < REFUSAL_LOG_EVERY_S:
            self._unsaid += 1
            return
        peer = (writer.get_extra_info("peername") or ("somebody",))[0]
        others = f" (and {self._unsaid:,} more before it)" if self._unsaid else ""
        self._complained_at, self._unsaid = now, 0
        self._complain(f"refused a connection from {peer}: {reason}{others}")
