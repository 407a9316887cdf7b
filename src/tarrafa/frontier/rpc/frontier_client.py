"""RPC client of the frontier: `RemoteFrontier` for coroutines, `SocketClient` for threads, over a Unix socket or TCP.

`RemoteFrontier` is the `Frontier` API at the other end of `frontier_server.py`; `SocketClient` calls by name and
blocks.
Promises: a lost connection fails every running call at once, and `on_lost` is called; no call is silently repeated; an
unreachable server is noticed.
"""

import asyncio
import contextlib
import functools
import itertools
import os
import socket
from collections.abc import Callable, Coroutine
from typing import Any

from tarrafa.clock import boottime
from tarrafa.errors import AccessRefused, FrontierError, TarrafaError, Unreachable
from tarrafa.frontier.api import Frontier
from tarrafa.frontier.rpc.codec_and_handshake import (
    DECODE_ERRORS,
    FRAME_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    LENGTH_PREFIX,
    METHODS,
    NOT_A_FRONTIER,
    client_handshake,
    decode_response,
    decode_result,
    encode_request,
    keep_alive,
    read_frame,
)
from tarrafa.i18n import Message, joined, message
from tarrafa.runtime.token import Token

CALL_TIMEOUT_S = 60.0
CONNECT_TIMEOUT_S = 10.0  # handshake included
SERVER_GONE = message("the frontier server went away")
OnLost = Callable[[TarrafaError], None]


class RemoteFrontier(Frontier):
    """The Protocol over a socket. Its calls are derived from the Protocol, below."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        timeout_s: float = CALL_TIMEOUT_S,
        on_lost: OnLost = lambda error: None,
    ) -> None:
        self._writer, self._timeout_s, self._on_lost = writer, timeout_s, on_lost
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[str, asyncio.Future[Any]]] = {}  # method and result, by number of the call
        self._gone = False
        self._listener = asyncio.create_task(self._listen(reader))

    @classmethod
    async def connect(
        cls, path: str, timeout_s: float = CALL_TIMEOUT_S, on_lost: OnLost = lambda error: None
    ) -> "RemoteFrontier":
        try:
            return cls(*await asyncio.open_unix_connection(path), timeout_s, on_lost)
        except OSError as error:
            raise Unreachable(_no_answer(str(path), error.strerror or str(error))) from None

    @classmethod
    async def connect_tcp(
        cls,
        host: str,
        port: int,
        token: Token,
        timeout_s: float = CALL_TIMEOUT_S,
        on_lost: OnLost = lambda error: None,
    ) -> "RemoteFrontier":
        where, writer = _where(host, port), None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(host, port)
                keep_alive(writer.get_extra_info("socket"))
                await _run_handshake(reader, writer, token, where)
                return cls(reader, writer, timeout_s, on_lost)
        except BaseException as error:
            if writer is not None:
                writer.close()
            raise _translate_connect_error(error, where) from None

    async def close(self) -> None:
        self._listener.cancel()
        self._writer.close()

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                reply = decode_response(await read_frame(reader))
                if reply.number not in self._waiting:  # it came too late
                    continue
                method, future = self._waiting.pop(reply.number)
                if future.done():
                    continue
                try:
                    future.set_result(decode_result(method, reply))
                except TarrafaError as error:
                    future.set_exception(error)
                except DECODE_ERRORS:
                    future.set_exception(FrontierError(f"the frontier server's answer to {method} is invalid"))
        except (asyncio.IncompleteReadError, OSError, *DECODE_ERRORS):
            self._on_lost(Unreachable(SERVER_GONE))
        finally:
            self._gone = True
            for _, future in self._waiting.values():
                if not future.done():
                    future.set_exception(Unreachable(SERVER_GONE))
            self._waiting.clear()

    async def _call(self, method: str, *arguments: Any) -> Any:
        if self._gone:
            raise Unreachable(SERVER_GONE)
        number = next(self._numbers)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = (method, future)
        self._writer.write(encode_request(number, method, arguments))
        try:
            async with asyncio.timeout(self._timeout_s):
                return await future
        except TimeoutError:
            self._waiting.pop(number, None)
            raise Unreachable(
                message(
                    "the frontier server did not answer {method} within {seconds:.0f} s",
                    method=method,
                    seconds=self._timeout_s,
                )
            ) from None


def _no_answer(server: str, error: str) -> Message:
    return message("{server}: no frontier server answers here ({error})", server=server, error=error)


def _remote_call(name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
    """The call of that name over the socket, with the signature that the Protocol gives it."""
    method = METHODS[name]

    @functools.wraps(getattr(Frontier, name))
    def call(self: RemoteFrontier, *positional: Any, **named: Any) -> Coroutine[Any, Any, Any]:
        return self._call(name, *method.bind(positional, named))

    return call


for _name in METHODS:
    setattr(RemoteFrontier, _name, _remote_call(_name))


async def _run_handshake(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: Token, where: str) -> None:
    steps = client_handshake(token, where)
    frame = next(steps)
    with contextlib.suppress(StopIteration):
        while True:
            writer.write(frame)
            frame = steps.send(await read_frame(reader, HANDSHAKE_BYTES_MAX))


def _where(host: str, port: int) -> str:
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"


def _translate_connect_error(error: BaseException, where: str) -> BaseException:
    """The error for the caller: why there is no connection."""
    if isinstance(error, TimeoutError) and not error.errno:
        return Unreachable(
            message(
                "{server}: no frontier server answered within {seconds:.0f} s", server=where, seconds=CONNECT_TIMEOUT_S
            )
        )
    if isinstance(error, ConnectionError) and not error.errno:  # a frame that our server does not send
        return AccessRefused(f"{where}: {NOT_A_FRONTIER}")
    if isinstance(error, asyncio.IncompleteReadError | EOFError):
        return Unreachable(message("{server}: the server closed the connection before the first call", server=where))
    if isinstance(error, OSError):
        reason = os.strerror(error.errno) if error.errno is not None and error.errno > 0 else error.strerror or error
        return Unreachable(_no_answer(where, str(reason)))
    return error


class SocketClient:
    """One blocking connection, for a thread that must not depend on any event loop."""

    def __init__(self, connection: "socket.socket") -> None:
        self._numbers = itertools.count()
        self._socket = connection

    @classmethod
    def connect_unix(cls, path: str) -> "SocketClient":
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(path)
        except OSError as error:
            connection.close()
            raise Unreachable(_no_answer(str(path), error.strerror or str(error))) from None
        return cls(connection)

    @classmethod
    def connect_tcp(cls, host: str, port: int, token: Token) -> "SocketClient":
        where, connection, until = _where(host, port), None, boottime() + CONNECT_TIMEOUT_S
        try:
            connection = socket.create_connection((host, port), CONNECT_TIMEOUT_S)
            keep_alive(connection)
            steps = client_handshake(token, where)
            frame = next(steps)
            with contextlib.suppress(StopIteration):
                while True:
                    connection.sendall(frame)
                    frame = steps.send(_receive_frame(connection, until, HANDSHAKE_BYTES_MAX))
        except BaseException as error:
            if connection is not None:
                connection.close()
            raise _translate_connect_error(error, where) from None
        return cls(connection)

    def call(self, method: str, *arguments: Any) -> Any:
        number, until = next(self._numbers), boottime() + CALL_TIMEOUT_S
        try:
            self._socket.settimeout(CALL_TIMEOUT_S)
            self._socket.sendall(encode_request(number, method, arguments))
            reply = decode_response(_receive_frame(self._socket, until, FRAME_BYTES_MAX))
        except (OSError, EOFError, *DECODE_ERRORS) as error:
            raise Unreachable(joined([SERVER_GONE, getattr(error, "strerror", None) or str(error)])) from None
        if reply.number != number:  # a late answer to an earlier call
            raise Unreachable(SERVER_GONE)
        return decode_result(method, reply)

    def close(self) -> None:
        self._socket.close()


def _receive_frame(connection: "socket.socket", until: float, bytes_max: int) -> bytes:
    (length,) = LENGTH_PREFIX.unpack(_receive(connection, LENGTH_PREFIX.size, until))
    if length > bytes_max:
        raise ConnectionError(f"a frame of {length} bytes")
    return _receive(connection, length, until)


def _receive(connection: "socket.socket", count: int, until: float) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        connection.settimeout(max(0.001, until - boottime()))
        part = connection.recv(min(1 << 20, count - len(parts)))
        if not part:
            raise EOFError("connection closed")
        parts += part
    return bytes(parts)
