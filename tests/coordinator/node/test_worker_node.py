"""A node asks its coordinator, whoever answers there."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from tarrafa.coordinator.node import worker_node
from tarrafa.coordinator.node.messages import JoinResponse, NodeOrders
from tarrafa.coordinator.node.worker_node import CoordinatorClient
from tarrafa.errors import AccessRefused, ConfigError, NameTaken, TarrafaError, Unreachable
from tarrafa.fetch import node_client
from tarrafa.runtime.token import Token
from tests.coordinator.node.sample_messages import a_beat, a_joining

SECRET = "a secret of many letters"
TOKEN = Token(SECRET.encode())


@contextmanager
def answering(reply: Callable[[socket.socket], None]) -> Iterator[tuple[str, list[bytes]]]:
    """Somebody who hears one request to its end and answers as told; what he heard."""
    heard: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                line, _ = listening.accept()
            except OSError:
                return
            with line:
                line.settimeout(10)
                request = b""
                while b"\r\n\r\n" not in request and (part := line.recv(65536)):
                    request += part
                if not request:
                    continue
                head, _, body = request.partition(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length:")[2].split()[0])
                while len(body) < length:
                    body += line.recv(65536)
                heard.append(head)
                with suppress(OSError):
                    reply(line)

    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()


def saying(code: int, body: bytes, head: str = "") -> Callable[[socket.socket], None]:
    def reply(line: socket.socket) -> None:
        line.sendall(
            f"HTTP/1.1 {code} X\r\nContent-Length: {len(body)}\r\n{head}Connection: close\r\n\r\n".encode() + body
        )

    return reply


def test_an_invitation_and_orders_are_understood_and_the_token_is_shown():
    with answering(saying(200, b'{"frontier": ["tcp://h:1"], "token": "t", "orders": {"workers": 3}}')) as (url, heard):
        assert CoordinatorClient(url, TOKEN).join(a_joining()) == JoinResponse(
            ("tcp://h:1",), "t", NodeOrders(workers=3)
        )
        assert f"Bearer {SECRET}".encode() in heard[0]
        assert heard[0].startswith(b"POST /nodes/v1/join ")
    with answering(saying(200, b'{"paused": true}')) as (url, heard):
        assert CoordinatorClient(f"{url}/", TOKEN).heartbeat(a_beat()) == NodeOrders(paused=True)
        assert heard[0].startswith(b"POST /nodes/v1/one/beat ")


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (saying(401, b'{"error": "no"}'), AccessRefused, "wrong token"),
        (saying(409, b'{"error": "taken"}'), NameTaken, "taken"),
        (saying(400, b'{"error": "odd"}'), AccessRefused, "same version"),
        (saying(503, b'{"error": "busy"}'), Unreachable, "busy"),
        (saying(200, b"{}"), Unreachable, "no Tarrafa coordinator"),
        (saying(200, b'{"frontier": [], "token": "", "orders": {}}'), Unreachable, "no Tarrafa coordinator"),
        (saying(200, b"<html>"), Unreachable, "no Tarrafa coordinator"),
        (saying(404, b"not here"), Unreachable, "no Tarrafa coordinator"),
        (saying(500, b'["error"]'), Unreachable, "no Tarrafa coordinator"),
        (saying(200, b"x" * 200_000), Unreachable, "too long"),
        (lambda line: line.close(), Unreachable, "no answer"),
    ],
)
def test_whatever_answers_it_is_one_line(monkeypatch, reply, error, words):
    monkeypatch.setattr("tarrafa.coordinator.node.worker_node.JOIN_RESPONSE_BYTES_MAX", 100_000)
    with answering(reply) as (url, _), pytest.raises(TarrafaError, match=words) as raised:
        CoordinatorClient(url, TOKEN).join(a_joining())
    assert type(raised.value) is error
    assert SECRET not in str(raised.value)
    assert str(raised.value).isprintable()


def test_a_token_does_not_travel_on():
    with answering(saying(200, b"{}")) as (elsewhere, stolen):
        with (
            answering(saying(307, b"", f"Location: {elsewhere}/nodes/v1/join\r\n")) as (url, _),
            pytest.raises(Unreachable, match="HTTP 307"),
        ):
            CoordinatorClient(url, TOKEN).join(a_joining())
        assert stolen == []


def test_a_proxy_of_the_environment_is_not_asked(monkeypatch):
    with answering(saying(200, b"{}")) as (proxy, stolen), answering(saying(200, b'{"paused": true}')) as (url, _):
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy)
        CoordinatorClient(url, TOKEN).heartbeat(a_beat())
        assert stolen == []


def test_an_answer_that_does_not_come_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(worker_node, "TIME_MAX_S", 0.2)
    ended = threading.Event()

    def keep_waiting(line: socket.socket) -> None:
        ended.wait(10)

    with answering(keep_waiting) as (url, _), pytest.raises(Unreachable, match=r"within 0\.2 s"):
        CoordinatorClient(url, TOKEN).join(a_joining())
    ended.set()


def test_nobody_there_is_worth_waiting_for():
    with pytest.raises(Unreachable, match="no answer"):
        CoordinatorClient("http://127.0.0.1:9", TOKEN).join(a_joining())


def test_without_tls_a_token_goes_to_no_public_address(monkeypatch):
    monkeypatch.setattr(node_client, "is_forbidden_address", lambda address: False)  # as if loopback were public
    with answering(saying(200, b'{"paused": true}')) as (url, heard):
        with pytest.raises(AccessRefused, match="without TLS a token is sent to no public address"):
            CoordinatorClient(url, TOKEN).heartbeat(a_beat())
        assert heard == []


@pytest.mark.parametrize("url", ["", "ftp://h", "http://u:p@h"])
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(ConfigError, match="--join"):
        CoordinatorClient(url, TOKEN)


def test_without_a_token_nobody_is_asked():
    with pytest.raises(ConfigError, match="--join needs the coordinator's token"):
        CoordinatorClient("http://h", Token())
