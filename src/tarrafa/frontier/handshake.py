"""Do both ends of a TCP connection know the same token, and speak the same language?

Four small frames before the first question: `Hello` (client), `Challenge` (server), `Proof` (client), `Verdict`
(server). Each end proves that it knows the token by an HMAC-SHA256 over both ends' nonces, so that the token itself
never travels, nothing recorded can be used again, and neither end's proof serves for the other. The client proves
first: a stranger learns nothing that could be tried out against guesses.

What follows is neither encrypted nor sealed: a private network, ssh or a VPN must see to that.
Knows nothing of sockets: `greet` and `receive` give what to send and take what came.
"""

import hmac
import os
from collections.abc import Generator

import msgspec

from tarrafa.errors import Refused
from tarrafa.frontier.token import TOKEN_VARIABLE, Token
from tarrafa.frontier.wire import LENGTH, UNREADABLE

PROTOCOL_VERSION = 3  # of the questions and answers that follow; both ends must have the same
MAGIC = "tarrafa-frontier"
NONCE_BYTES = 32
FRAME_BYTES_MAX = 512  # of one message of a handshake
ROUNDS = 2  # how often the server takes a frame and gives one
NOT_US = "what answers here is no URL server of Tarrafa"
WRONG_TOKEN = f"wrong token: --token-file or {TOKEN_VARIABLE} must be the same on both machines"

Handshake = Generator[bytes, bytes, None]  # gives frames, takes the bodies of frames


class Stranger(Exception):
    """Somebody knocked who may not come in; `told`, if anything, is what he is to hear."""

    def __init__(self, reason: str, told: bytes = b"") -> None:
        super().__init__(reason)
        self.told = told


class Hello(msgspec.Struct, frozen=True, array_like=True):
    """The first frame each way; every version begins like this."""

    magic: str
    version: int
    nonce: bytes


class Proof(msgspec.Struct, frozen=True, array_like=True):
    proof: bytes


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """`refusal` empty: come in; `proof` says who says so."""

    refusal: str
    proof: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_hello = msgspec.msgpack.Decoder(Hello).decode
_proof = msgspec.msgpack.Decoder(Proof).decode
_verdict = msgspec.msgpack.Decoder(Verdict).decode


def _frame(message: msgspec.Struct) -> bytes:
    body = _encode(message)
    return LENGTH.pack(len(body)) + body


def _seal(token: Token, end: str, hello: Hello, challenge: Hello) -> bytes:
    return hmac.digest(token.secret, _encode((end, hello, challenge)), "sha256")


def _new_hello() -> Hello:
    return Hello(MAGIC, PROTOCOL_VERSION, os.urandom(NONCE_BYTES))


def _versions(theirs: int) -> str:
    return f"it speaks version {theirs} of the protocol, this Tarrafa version {PROTOCOL_VERSION}"


def greet(token: Token, where: str) -> Handshake:
    """The client's part. Raises `Refused` with what is wrong, where and what to do."""
    hello = _new_hello()
    try:
        challenge = _hello((yield _frame(hello)))
        if challenge.magic != MAGIC or len(challenge.nonce) != NONCE_BYTES:
            raise Refused(f"{where}: {NOT_US}")
        if challenge.version != PROTOCOL_VERSION:
            raise Refused(f"{where}: {_versions(challenge.version)}; install the same version on both machines")
        verdict = _verdict((yield _frame(Proof(_seal(token, "client", hello, challenge)))))
    except UNREADABLE:
        raise Refused(f"{where}: {NOT_US}") from None
    if verdict.refusal:
        raise Refused(f"{where}: {verdict.refusal[:200]}")
    if not hmac.compare_digest(verdict.proof, _seal(token, "server", hello, challenge)):
        raise Refused(f"{where}: the URL server does not know our token; {WRONG_TOKEN}")


def receive(token: Token) -> Handshake:
    """The server's part; it begins by taking the first frame (`next` it once). Raises `Stranger`."""
    try:
        hello = _hello((yield b""))
        if hello.magic != MAGIC or len(hello.nonce) != NONCE_BYTES:
            raise Stranger("it does not speak our protocol")
        challenge = _new_hello()
        if hello.version != PROTOCOL_VERSION:  # it will see ours, and say the same at its end
            raise Stranger(_versions(hello.version), _frame(challenge))
        proof = _proof((yield _frame(challenge)))
    except UNREADABLE:
        raise Stranger("it does not speak our protocol") from None
    if not hmac.compare_digest(proof.proof, _seal(token, "client", hello, challenge)):
        raise Stranger("wrong token", _frame(Verdict(WRONG_TOKEN)))
    yield _frame(Verdict("", _seal(token, "server", hello, challenge)))
