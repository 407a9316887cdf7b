"""The handshake by itself, without sockets: who gets in, who does not, and what he could have learned."""

import random

import msgspec
import pytest

from tarrafa.errors import AccessRefused
from tarrafa.frontier.rpc.codec_and_handshake import (
    HANDSHAKE_BYTES_MAX,
    LENGTH_PREFIX,
    MAGIC,
    NONCE_BYTES,
    PROTOCOL_VERSION,
    ROUNDS,
    Handshake,
    HandshakeHello,
    HandshakeProof,
    HandshakeRefused,
    HandshakeVerdict,
    client_handshake,
    server_handshake,
)
from tarrafa.runtime.token import Token

OURS, OTHER, NONE = Token(b"known to both ends"), Token(b"known to nobody else"), Token()
encode = msgspec.msgpack.encode


def body(frame: bytes) -> bytes:
    (length,) = LENGTH_PREFIX.unpack(frame[: LENGTH_PREFIX.size])
    assert len(frame) == LENGTH_PREFIX.size + length <= LENGTH_PREFIX.size + HANDSHAKE_BYTES_MAX
    return frame[LENGTH_PREFIX.size :]


def run_handshake(client: Handshake, server: Handshake) -> list[bytes]:
    """Both ends to their end; the bodies of all frames in the order sent."""
    next(server)
    frame, sent = next(client), []
    for _ in range(ROUNDS):
        sent.append(body(frame))
        answer = body(server.send(sent[-1]))
        sent.append(answer)
        try:
            frame = client.send(answer)
        except StopIteration:
            return sent
    raise AssertionError("the client wants more")


@pytest.mark.parametrize("token", [OURS, NONE])
def test_two_ends_with_one_token_agree_and_the_token_does_not_travel(token):
    sent = run_handshake(client_handshake(token, "here"), server_handshake(token))
    assert len(sent) == 4
    assert not token or not any(token.secret in part for part in sent)


@pytest.mark.parametrize(("ours", "theirs"), [(OURS, OTHER), (OURS, NONE), (NONE, OURS)])
def test_a_wrong_token_is_told_at_both_ends(ours, theirs):
    client, server = client_handshake(ours, "tcp://a.br:1"), server_handshake(theirs)
    next(server)
    proof = client.send(body(server.send(body(next(client)))))
    with pytest.raises(HandshakeRefused, match="wrong token") as stranger:
        server.send(body(proof))
    with pytest.raises(
        AccessRefused, match=r"tcp://a\.br:1: wrong token: --token-file or TARRAFA_TOKEN must be the same"
    ):
        client.send(body(stranger.value.response))


def test_another_version_is_told_at_both_ends(monkeypatch):
    client, server = client_handshake(OURS, "tcp://a.br:1"), server_handshake(OURS)
    next(server)
    hello = msgspec.msgpack.decode(body(next(client)), type=HandshakeHello)
    ours = f"this Tarrafa version {PROTOCOL_VERSION}"
    with pytest.raises(HandshakeRefused, match=f"it speaks version 7 of the protocol, {ours}") as stranger:
        server.send(encode(msgspec.structs.replace(hello, version=7)))
    told = msgspec.msgpack.decode(body(stranger.value.response), type=HandshakeHello)
    assert told.version == PROTOCOL_VERSION
    with pytest.raises(
        AccessRefused, match=r"speaks version 8 of the protocol.*install the same version on both machines"
    ):
        client.send(encode(msgspec.structs.replace(told, version=8)))


def test_what_was_recorded_cannot_be_played_again():
    recorded = run_handshake(client_handshake(OURS, "here"), server_handshake(OURS))
    server = server_handshake(OURS)
    next(server)
    server.send(recorded[0])
    with pytest.raises(HandshakeRefused, match="wrong token"):
        server.send(recorded[2])
    client = client_handshake(OURS, "here")
    next(client)
    client.send(recorded[1])
    with pytest.raises(AccessRefused, match="does not know our token"):
        client.send(recorded[3])


def test_an_ends_own_proof_does_not_serve_for_the_other():
    """A server without the token that gives back what it was given, or asks another server for the proof."""
    client = client_handshake(OURS, "here")
    hello = msgspec.msgpack.decode(body(next(client)), type=HandshakeHello)
    proof = msgspec.msgpack.decode(body(client.send(encode(hello))), type=HandshakeProof)
    with pytest.raises(AccessRefused, match="does not know our token"):
        client.send(encode(HandshakeVerdict("", proof.proof)))


def test_a_server_says_nothing_about_the_token_before_the_client_has_proved_that_it_knows_it():
    server = server_handshake(OURS)
    next(server)
    challenge = msgspec.msgpack.decode(
        body(server.send(encode(HandshakeHello(MAGIC, PROTOCOL_VERSION, b"n" * 32)))), type=HandshakeHello
    )
    assert (challenge.magic, len(challenge.nonce)) == (MAGIC, NONCE_BYTES)
    again = server_handshake(OURS)
    next(again)
    other = msgspec.msgpack.decode(
        body(again.send(encode(HandshakeHello(MAGIC, PROTOCOL_VERSION, b"n" * 32)))), type=HandshakeHello
    )
    assert other.nonce != challenge.nonce


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"GET / HTTP/1.1\r\n\r\n",
        encode(None),
        encode(HandshakeHello("somebody else", 1, b"n" * 32)),
        encode(HandshakeHello(MAGIC, PROTOCOL_VERSION, b"short")),
        encode([MAGIC]),
        encode(["x", "y", "z"]),
        encode([0, 1, "weigh", []]),
    ],
)
def test_what_is_no_hello_is_a_stranger_at_both_ends(first):
    server = server_handshake(OURS)
    next(server)
    with pytest.raises(HandshakeRefused, match="does not speak our protocol") as stranger:
        server.send(first)
    assert stranger.value.response == b"", "who does not speak our protocol hears nothing"
    client = client_handshake(OURS, "tcp://a.br:1")
    next(client)
    with pytest.raises(AccessRefused, match="not a frontier server of Tarrafa"):
        client.send(first)


def test_no_bytes_get_anybody_in_or_anything_but_a_refusal_out():
    rng = random.Random(4)
    good = run_handshake(client_handshake(OURS, "here"), server_handshake(OURS))
    for _ in range(3000):
        server = server_handshake(OTHER)
        next(server)
        for part in (good[0], good[2]):
            mutated = bytearray(part)
            for _ in range(rng.randrange(4)):
                mutated[rng.randrange(len(mutated))] = rng.randrange(256)
            with_tail = bytes(mutated[: rng.choice([len(mutated), rng.randrange(len(mutated))])])
            try:
                answer = server.send(with_tail)
            except HandshakeRefused:
                break
            assert msgspec.msgpack.decode(body(answer), type=HandshakeHello)
        else:
            raise AssertionError("somebody got in")
