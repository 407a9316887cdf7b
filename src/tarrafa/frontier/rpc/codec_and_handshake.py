"""RPC codec and handshake: frames and msgpack messages of frontier calls, and the token handshake of a TCP connection.

A frame is its length in four bytes, then msgpack: `[number, method, [arguments]]` one way, `[number, kind, result]`
back, where `kind` is empty or the class of error. Arguments and results are typed by the annotations of the `Frontier`
Protocol: values of other types are refused before the call is made.

The handshake is mutual HMAC-SHA256 authentication, and a check of the protocol version. Four small frames before the
first request: hello (client), challenge (server), proof (client), verdict (server). Each end proves that it knows the
token by an HMAC-SHA256 over both ends' nonces. So the token itself is never sent, a recorded handshake is worthless,
and neither end's proof serves for the other. The client proves first: a client without the token learns nothing that
guesses could be tried against. The two ends are generators that yield frames and receive the bodies of frames.
What follows is neither encrypted nor signed: that is the task of a private network, ssh or a VPN.
"""

import asyncio
import hmac
import inspect
import os
import socket
import struct
import typing
from collections.abc import Generator
from typing import Any

import msgspec

from tarrafa import errors
from tarrafa.errors import AccessRefused, FrontierError, TarrafaError
from tarrafa.frontier.api import Frontier
from tarrafa.i18n import Message
from tarrafa.runtime.token import TOKEN_VARIABLE, Token

FRAME_BYTES_MAX = 64 << 20
KEEPALIVE_IDLE_S, KEEPALIVE_EVERY_S, KEEPALIVE_PROBES = 10, 5, 3
LENGTH_PREFIX = struct.Struct("!I")
DECODE_ERRORS = (ValueError, RecursionError)  # raised by the decoder on invalid bytes


# -- calls -------------------------------------------------------------------------------------------------------------


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


def encode_frame(message: msgspec.Struct) -> bytes:
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


# -- the handshake -----------------------------------------------------------------------------------------------------

PROTOCOL_VERSION = 6  # of the calls that follow; both ends must have the same
MAGIC = "tarrafa-frontier"
NONCE_BYTES = 32
HANDSHAKE_BYTES_MAX = 512  # of one message of it
ROUNDS = 2  # frames that the server receives and answers
NOT_A_FRONTIER = "this is not a frontier server of Tarrafa"
WRONG_TOKEN = f"wrong token: --token-file or {TOKEN_VARIABLE} must be the same on both machines"

Handshake = Generator[bytes, bytes, None]  # yields frames, receives the bodies of frames


class HandshakeRefused(Exception):
    """A refused client; `response` is the frame that it gets, if any."""

    def __init__(self, reason: str, response: bytes = b"") -> None:
        super().__init__(reason)
        self.response = response


class HandshakeHello(msgspec.Struct, frozen=True, array_like=True):
    """The first frame each way; every version begins like this."""

    magic: str
    version: int
    nonce: bytes


class HandshakeProof(msgspec.Struct, frozen=True, array_like=True):
    proof: bytes


class HandshakeVerdict(msgspec.Struct, frozen=True, array_like=True):
    """`refusal` is empty for an accepted client, which checks the server's `proof`."""

    refusal: str
    proof: bytes = b""


_hello = msgspec.msgpack.Decoder(HandshakeHello).decode
_proof = msgspec.msgpack.Decoder(HandshakeProof).decode
_verdict = msgspec.msgpack.Decoder(HandshakeVerdict).decode


def _compute_proof(token: Token, end: str, hello: HandshakeHello, challenge: HandshakeHello) -> bytes:
    return hmac.digest(token.secret, encode((end, hello, challenge)), "sha256")


def _new_hello() -> HandshakeHello:
    return HandshakeHello(MAGIC, PROTOCOL_VERSION, os.urandom(NONCE_BYTES))


def _versions(theirs: int) -> str:
    return f"it speaks version {theirs} of the protocol, this Tarrafa version {PROTOCOL_VERSION}"


def client_handshake(token: Token, where: str) -> Handshake:
    """The client's part. Raises `AccessRefused`."""
    hello = _new_hello()
    try:
        challenge = _hello((yield encode_frame(hello)))
        if challenge.magic != MAGIC or len(challenge.nonce) != NONCE_BYTES:
            raise AccessRefused(f"{where}: {NOT_A_FRONTIER}")
        if challenge.version != PROTOCOL_VERSION:
            raise AccessRefused(f"{where}: {_versions(challenge.version)}; install the same version on both machines")
        verdict = _verdict((yield encode_frame(HandshakeProof(_compute_proof(token, "client", hello, challenge)))))
    except DECODE_ERRORS:
        raise AccessRefused(f"{where}: {NOT_A_FRONTIER}") from None
    if verdict.refusal:
        raise AccessRefused(f"{where}: {verdict.refusal[:200]}")
    if not hmac.compare_digest(verdict.proof, _compute_proof(token, "server", hello, challenge)):
        raise AccessRefused(f"{where}: the frontier server does not know our token; {WRONG_TOKEN}")


def server_handshake(token: Token) -> Handshake:
    """The server's part; it begins by receiving a frame (call `next` once). Raises `HandshakeRefused`."""
    try:
        hello = _hello((yield b""))
        if hello.magic != MAGIC or len(hello.nonce) != NONCE_BYTES:
            raise HandshakeRefused("it does not speak our protocol")
        challenge = _new_hello()
        if hello.version != PROTOCOL_VERSION:  # the client sees ours, and reports the same
            raise HandshakeRefused(_versions(hello.version), encode_frame(challenge))
        proof = _proof((yield encode_frame(challenge)))
    except DECODE_ERRORS:
        raise HandshakeRefused("it does not speak our protocol") from None
    if not hmac.compare_digest(proof.proof, _compute_proof(token, "client", hello, challenge)):
        raise HandshakeRefused("wrong token", encode_frame(HandshakeVerdict(WRONG_TOKEN)))
    yield encode_frame(HandshakeVerdict("", _compute_proof(token, "server", hello, challenge)))
