"""RPC codec: frames and msgpack messages of frontier calls, typed by the annotations of the `Frontier` Protocol.

A frame is its length in four bytes, then msgpack: `[number, method, [arguments]]` one way, `[number, kind, result]`
back, where `kind` is empty or the class of error. Arguments and results are typed by the Protocol's own annotations:
values of other types are refused before the call is made.
"""

import asyncio
import inspect
import socket
import struct
import typing
from typing import Any

import msgspec

from tarrafa import errors
from tarrafa.errors import FrontierError, TarrafaError
from tarrafa.frontier.api import Frontier
from tarrafa.i18n import Message

FRAME_BYTES_MAX = 64 << 20
KEEPALIVE_IDLE_S, KEEPALIVE_EVERY_S, KEEPALIVE_PROBES = 10, 5, 3
LENGTH_PREFIX = struct.Struct("!I")
DECODE_ERRORS = (ValueError, RecursionError)  # raised by the decoder on invalid bytes


class RpcRequest(msgspec.Struct, frozen=True, array_like=True):
    number: int
    method: str
    arguments: msgspec.Raw


class RpcResponse(msgspec.Struct, frozen=True, array_like=True):
    number: int
    kind: str
    result: msgspec.Raw


class ArgumentsDecoder:
    """Decodes the arguments of a method; those with a default need not be sent."""

    def __init__(self, kinds: list[Any], required: int) -> None:
        self._most = len(kinds)
        self._decoders = {count: _decoder(kinds[:count]) for count in range(required, self._most + 1)}

    def decode(self, content: bytes | msgspec.Raw) -> tuple[Any, ...]:
        sent = len(_items(content)) if len(self._decoders) > 1 else self._most
        found: tuple[Any, ...] = self._decoders.get(sent, self._decoders[self._most]).decode(content)
        return found


def _decoder(kinds: list[Any]) -> "msgspec.msgpack.Decoder[Any]":
    arguments: Any = tuple[tuple(kinds)] if kinds else tuple[()]  # type: ignore[misc]
    return msgspec.msgpack.Decoder(arguments)


_items = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode


class RpcMethod:
    """One method of the Protocol, as it looks on the wire."""

    def __init__(self, name: str) -> None:
        function = getattr(Frontier, name)
        hints = typing.get_type_hints(function)
        returns = hints.pop("return")
        parameters = [one for name, one in inspect.signature(function).parameters.items() if name != "self"]
        required = sum(parameter.default is parameter.empty for parameter in parameters)
        self.arguments = ArgumentsDecoder([hints[parameter.name] for parameter in parameters], required)
        self.result = msgspec.msgpack.Decoder(returns)
        self._signature, self._count = inspect.Signature(parameters), len(parameters)

    def bind(self, positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of a call in their order, as they are sent."""
        if not named and len(positional) == self._count:
            return positional
        bound = self._signature.bind(*positional, **named)
        bound.apply_defaults()
        return bound.args


METHODS = {name: RpcMethod(name) for name, member in vars(Frontier).items() if inspect.iscoroutinefunction(member)}
ERRORS_BY_NAME: dict[str, type[TarrafaError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, TarrafaError)
}

encode = msgspec.msgpack.Encoder().encode
decode_request = msgspec.msgpack.Decoder(RpcRequest).decode
decode_response = msgspec.msgpack.Decoder(RpcResponse).decode
_decode_reason = msgspec.msgpack.Decoder(Message | str).decode


def encode_frame(message: RpcRequest | RpcResponse) -> bytes:
    body = encode(message)
    if len(body) > FRAME_BYTES_MAX:
        raise FrontierError(f"a message of {len(body):,} bytes is more than the {FRAME_BYTES_MAX:,} allowed")
    return LENGTH_PREFIX.pack(len(body)) + body


def encode_request(number: int, method: str, arguments: tuple[Any, ...]) -> bytes:
    return encode_frame(RpcRequest(number, method, msgspec.Raw(encode(arguments))))


def encode_response(number: int, result: Any, error: BaseException | None = None) -> bytes:
    if error is None:
        return encode_frame(RpcResponse(number, "", msgspec.Raw(encode(result))))
    kind = type(error).__name__ if isinstance(error, TarrafaError) else "FrontierError"
    return encode_frame(RpcResponse(number, kind, msgspec.Raw(encode(_reason(error)))))


def _reason(error: BaseException) -> Message | str:
    return (error.message if isinstance(error, TarrafaError) else str(error)) or type(error).__name__


def decode_result(method: str, reply: RpcResponse) -> Any:
    """The result of a call; raises its error."""
    if reply.kind:
        kind = ERRORS_BY_NAME.get(reply.kind, FrontierError)
        raise kind(_decode_reason(reply.result))
    return METHODS[method].result.decode(reply.result)


def keep_alive(connection: "socket.socket") -> None:
    """Let the kernel notice within half a minute that the other machine is unreachable."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_IDLE_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_EVERY_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
    unheard_s = KEEPALIVE_IDLE_S + KEEPALIVE_EVERY_S * KEEPALIVE_PROBES
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, unheard_s * 1000)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def read_frame(reader: asyncio.StreamReader, bytes_max: int = FRAME_BYTES_MAX) -> bytes:
    (length,) = LENGTH_PREFIX.unpack(await reader.readexactly(LENGTH_PREFIX.size))
    if length > bytes_max:
        raise ConnectionError(f"a frame of {length} bytes")
    return await reader.readexactly(length)
