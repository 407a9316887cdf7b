"""Token handshake of a TCP connection: mutual HMAC-SHA256 authentication and check of the protocol version.

Four small frames before the first request: hello (client), challenge (server), proof (client), verdict (server). Each
end proves that it knows the token by an HMAC-SHA256 over both ends' nonces. So the token itself is never sent, a
recorded handshake is worthless, and neither end's proof serves for the other. The client proves first: a client without
the token learns nothing that guesses could be tried against.

What follows is neither encrypted nor signed: that is the task of a private network, ssh or a VPN.
Knows nothing of sockets: the two handshakes are generators that yield frames and receive the bodies of frames.
"""

import hmac
import os
from collections.abc import Generator

import msgspec

from tarrafa.errors import AccessRefused
from tarrafa.frontier.rpc.codec import DECODE_ERRORS, LENGTH_PREFIX
from tarrafa.runtime.token import TOKEN_VARIABLE, Token

PROTOCOL_VERSION = 5  # of the calls that follow; both ends must have the same
MAGIC = "tarrafa-frontier"
NONCE_BYTES = 32
FRAME_BYTES_MAX = 512  # of one message of a handshake
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


_encode = msgspec.msgpack.Encoder().encode
_hello = msgspec.msgpack.Decoder(HandshakeHello).decode
_proof = msgspec.msgpack.Decoder(HandshakeProof).decode
_verdict = msgspec.msgpack.Decoder(HandshakeVerdict).decode


def _frame(message: msgspec.Struct) -> bytes:
    body = _encode(message)
    return LENGTH_PREFIX.pack(len(body)) + body


def _compute_proof(token: Token, end: str, hello: HandshakeHello, challenge: HandshakeHello) -> bytes:
    return hmac.digest(token.secret, _encode((end, hello, challenge)), "sha256")


def _new_hello() -> HandshakeHello:
    return HandshakeHello(MAGIC, PROTOCOL_VERSION, os.urandom(NONCE_BYTES))


def _versions(theirs: int) -> str:
    return f"it speaks version {theirs} of the protocol, this Tarrafa version {PROTOCOL_VERSION}"


def client_handshake(token: Token, where: str) -> Handshake:
    """The client's part. Raises `AccessRefused`."""
    hello = _new_hello()
    try:
        challenge = _hello((yield _frame(hello)))
        if challenge.magic != MAGIC or len(challenge.nonce) != NONCE_BYTES:
            raise AccessRefused(f"{where}: {NOT_A_FRONTIER}")
        if challenge.version != PROTOCOL_VERSION:
            raise AccessRefused(f"{where}: {_versions(challenge.version)}; install the same version on both machines")
        verdict = _verdict((yield _frame(HandshakeProof(_compute_proof(token, "client", hello, challenge)))))
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
            raise HandshakeRefused(_versions(hello.version), _frame(challenge))
        proof = _proof((yield _frame(challenge)))
    except DECODE_ERRORS:
        raise HandshakeRefused("it does not speak our protocol") from None
    if not hmac.compare_digest(proof.proof, _compute_proof(token, "client", hello, challenge)):
        raise HandshakeRefused("wrong token", _frame(HandshakeVerdict(WRONG_TOKEN)))
    yield _frame(HandshakeVerdict("", _compute_proof(token, "server", hello, challenge)))
