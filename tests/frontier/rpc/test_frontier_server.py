"""The frontier server's door on TCP, against those who do not mean well: real sockets on loopback."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tarrafa.errors import AccessRefused, FrontierError, ListenError, TarrafaError, Unreachable
from tarrafa.frontier.rpc import frontier_client, frontier_server
from tarrafa.frontier.rpc.codec_and_handshake import (
    FRAME_BYTES_MAX,
    HANDSHAKE_BYTES_MAX,
    KEEPALIVE_IDLE_S,
    LENGTH_PREFIX,
    MAGIC,
    PROTOCOL_VERSION,
    ROUNDS,
    HandshakeHello,
    HandshakeProof,
    client_handshake,
    decode_result,
    encode_request,
    read_frame,
)
from tarrafa.frontier.rpc.frontier_client import RemoteFrontier, SocketClient
from tarrafa.runtime.token import Token
from tests.contract.frontier_bodies import a_collection, a_sqlite
from tests.wait import wait_until

TOKEN = Token(b"known to both ends only")
WAIT_S = 60.0


@dataclass
class UrlServer:
    """A frontier server that listens."""

    host: str
    port: int
    frontier: object
    complaints: list[str] = field(default_factory=list)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self.host, self.port)

    async def answer(self, *sent: bytes) -> bytes:
        """All that comes back to somebody who sends this, until the server hangs up."""
        reader, writer = await self.connect()
        try:
            for part in sent:
                writer.write(part)
            return await asyncio.wait_for(reader.read(), WAIT_S)
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def works(self) -> bool:
        client = await RemoteFrontier.connect_tcp(self.host, self.port, TOKEN)
        try:
            return await client.collections() == []
        finally:
            await client.close()


@asynccontextmanager
async def listening_server(path: Path, token: Token = TOKEN) -> AsyncIterator[UrlServer]:
    complaints: list[str] = []
    async with a_sqlite(path) as frontier:
        server = await frontier_server.serve_tcp(frontier, "127.0.0.1", 0, token, complaints.append)
        host, port = server.sockets[0].getsockname()[:2]
        try:
            yield UrlServer(host, port, frontier, complaints)
        finally:
            server.close()


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def url_server(tmp_path: Path) -> AsyncIterator[UrlServer]:
    async with listening_server(tmp_path) as url_server:
        yield url_server


def frame(body: bytes) -> bytes:
    return LENGTH_PREFIX.pack(len(body)) + body


def hello(version: int = PROTOCOL_VERSION, nonce: bytes = b"n" * 32) -> bytes:
    return frame(msgspec.msgpack.encode(HandshakeHello(MAGIC, version, nonce)))


GARBAGE = {
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: a.br\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "an empty frame": frame(b""),
    "a giant frame": LENGTH_PREFIX.pack(FRAME_BYTES_MAX) + b"x" * 1000,
    "a frame just too large": frame(b"x" * (HANDSHAKE_BYTES_MAX + 1)),
    "a question before the handshake": encode_request(0, "overview", ()),
    "a question after the hello": hello() + encode_request(0, "overview", ()),
    "a proof of nothing": hello() + frame(msgspec.msgpack.encode(HandshakeProof(b"x" * 32))),
    "an empty proof": hello() + frame(msgspec.msgpack.encode(HandshakeProof(b""))),
    "a name that is no text": frame(b"\x93\xa4\xff\xff\xff\xff\x01\xc4\x00"),
    "nested without end": frame(b"\x91" * 500),
}


async def test_whatever_a_stranger_sends_he_asks_nothing_and_the_others_go_on(url_server: UrlServer) -> None:
    friend = await RemoteFrontier.connect_tcp(url_server.host, url_server.port, TOKEN)
    for name, sent in GARBAGE.items():
        said = await url_server.answer(sent)
        assert len(said) <= 2 * (LENGTH_PREFIX.size + HANDSHAKE_BYTES_MAX), name
        assert b"collections" not in said, name
        assert await friend.collections() == [], name
    await friend.close()
    assert len(url_server.complaints) == 1, "one line, however many knock"
    assert "refused a connection from 127.0.0.1: it does not speak our protocol" in url_server.complaints[0]


async def test_a_handshake_that_was_recorded_opens_nothing(url_server: UrlServer) -> None:
    reader, writer = await url_server.connect()
    talk, recorded = client_handshake(TOKEN, ""), []
    part = next(talk)
    for _ in range(ROUNDS):
        recorded.append(part)
        writer.write(part)
        try:
            part = talk.send(await read_frame(reader, HANDSHAKE_BYTES_MAX))
        except StopIteration:
            break
    writer.close()
    said = await url_server.answer(*recorded, encode_request(0, "overview", ()))
    assert b"wrong token" in said
    assert b"nodes" not in said


async def test_of_too_many_who_have_said_nothing_yet_the_last_is_refused(
    url_server: UrlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier_server, "HANDSHAKE_S", 60.0)
    monkeypatch.setattr(frontier_server, "UNAUTHENTICATED_MAX", 3)

    strangers = [await url_server.connect() for _ in range(3)]
    with pytest.raises(Unreachable, match=r"closed the connection|reset"):
        await RemoteFrontier.connect_tcp(url_server.host, url_server.port, TOKEN)
    assert url_server.complaints == ["refused a connection from 127.0.0.1: too many connections at once"]
    for _, writer in strangers:
        writer.close()


async def test_who_says_nothing_or_too_little_is_left_after_a_while_and_makes_room(
    url_server: UrlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier_server, "HANDSHAKE_S", 0.3)
    monkeypatch.setattr(frontier_server, "UNAUTHENTICATED_MAX", 3)

    slow = [await url_server.connect() for _ in range(3)]
    for (_, writer), part in zip(slow, (b"", b"\x00", hello()[:10]), strict=True):
        writer.write(part)
    for reader, writer in slow:
        assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
        writer.close()
    monkeypatch.setattr(frontier_server, "HANDSHAKE_S", 60.0)  # a friend may be slow where others work, too
    assert await url_server.works()
    assert url_server.complaints == ["refused a connection from 127.0.0.1: no handshake within 0 s"]


async def test_one_byte_at_a_time_does_not_stretch_the_time_for_a_handshake(
    url_server: UrlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier_server, "HANDSHAKE_S", 0.3)

    reader, writer = await url_server.connect()
    ended = asyncio.create_task(reader.read())
    with pytest.raises(ConnectionError):
        for byte in hello() * 1000:
            writer.write(bytes([byte]))
            await writer.drain()
            done, _ = await asyncio.wait({ended}, timeout=0.02)
            if done:
                raise ConnectionResetError
    await asyncio.gather(ended, return_exceptions=True)
    writer.close()
    monkeypatch.setattr(frontier_server, "HANDSHAKE_S", 60.0)
    assert await url_server.works()


async def test_a_friend_who_asks_nonsense_is_told_and_goes_on(url_server: UrlServer) -> None:
    client = await RemoteFrontier.connect_tcp(url_server.host, url_server.port, TOKEN)
    with pytest.raises(FrontierError, match="has no call '_commit'"):
        await client._call("_commit")
    with pytest.raises(FrontierError):
        await client._call("discover", "not a number", "nor a list")
    assert await client.collections() == []
    await client.close()


@pytest.mark.parametrize("nonsense", [b"\xc1", b"\x93\x01\xa1\xff\x90", b"\x93\x01\xa1x" + b"\x91" * 5_000 + b"\x90"])
async def test_bytes_that_are_no_question_end_a_connection(url_server: UrlServer, nonsense: bytes) -> None:
    reader, writer = await url_server.connect()
    await frontier_client._run_handshake(reader, writer, TOKEN, "")
    writer.write(frame(nonsense))
    assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
    writer.close()
    assert await url_server.works()


async def test_no_more_questions_wait_than_the_bound_allows(
    url_server: UrlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frontier_server, "REQUESTS_AT_ONCE_MAX", 4)

    client = await RemoteFrontier.connect_tcp(url_server.host, url_server.port, TOKEN)
    answers = await asyncio.gather(*(client.collections() for _ in range(200)))
    assert answers == [[]] * 200
    await client.close()


@pytest.mark.parametrize("theirs", [Token(b"another one, as long"), Token()])
async def test_a_wrong_token_is_a_clear_error_for_coroutines_and_threads(url_server: UrlServer, theirs: Token) -> None:
    where = f"tcp://127.0.0.1:{url_server.port}"
    with pytest.raises(AccessRefused, match=f"{where}: wrong token: --token-file or TARRAFA_TOKEN"):
        await RemoteFrontier.connect_tcp(url_server.host, url_server.port, theirs)
    with pytest.raises(AccessRefused, match=f"{where}: wrong token: --token-file or TARRAFA_TOKEN"):
        await asyncio.to_thread(SocketClient.connect_tcp, url_server.host, url_server.port, theirs)
    assert url_server.complaints == ["refused a connection from 127.0.0.1: wrong token"]


async def test_a_thread_asks_over_tcp_as_over_the_socket(url_server: UrlServer) -> None:
    line = await asyncio.to_thread(SocketClient.connect_tcp, url_server.host, url_server.port, TOKEN)
    row = await asyncio.to_thread(line.call, "open_collection", a_collection(), [])
    assert row.name == "c"
    with pytest.raises(FrontierError, match="no collection is named 'x'"):
        await asyncio.to_thread(line.call, "set_state", "x", "paused", "")
    line.close()


async def test_both_ends_let_the_kernel_watch_the_other(url_server: UrlServer) -> None:
    client = await RemoteFrontier.connect_tcp(url_server.host, url_server.port, TOKEN)
    line = await asyncio.to_thread(SocketClient.connect_tcp, url_server.host, url_server.port, TOKEN)
    for end in (client._writer.get_extra_info("socket"), line._socket):
        assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == KEEPALIVE_IDLE_S
        assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) > 0
    line.close()
    await client.close()


async def test_a_server_that_is_none_of_ours_is_told_apart():
    for said in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.2\r\n", frame(b"\xff"), b""):

        async def impostor(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, said: bytes = said) -> None:
            await reader.read(1)
            writer.write(said)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(impostor, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        expected = AccessRefused if said else Unreachable
        with pytest.raises(expected, match=r"not a frontier server of Tarrafa|closed the connection|reset"):
            await RemoteFrontier.connect_tcp("127.0.0.1", port, TOKEN)
        with pytest.raises(expected, match=r"not a frontier server of Tarrafa|closed the connection|reset"):
            await asyncio.to_thread(SocketClient.connect_tcp, "127.0.0.1", port, TOKEN)
        server.close()


def test_a_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(frontier_client, "CONNECT_TIMEOUT_S", 0.2)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        port = silent.getsockname()[1]
        with pytest.raises(Unreachable, match="no frontier server answered within"):
            asyncio.run(RemoteFrontier.connect_tcp("127.0.0.1", port, TOKEN))
        with pytest.raises(Unreachable, match="no frontier server answered within"):
            SocketClient.connect_tcp("127.0.0.1", port, TOKEN)


async def test_a_port_that_is_taken_is_said(tmp_path):
    async with listening_server(tmp_path) as url_server:
        with pytest.raises(ListenError, match=rf"127\.0\.0\.1:{url_server.port}: cannot listen here"):
            await frontier_server.serve_tcp(url_server.frontier, "127.0.0.1", url_server.port, TOKEN)  # type: ignore[arg-type]


async def test_a_client_that_waits_for_nothing_hears_at_once_that_the_server_is_gone(tmp_path):
    heard: asyncio.Queue[TarrafaError] = asyncio.Queue()
    sessions = list[asyncio.StreamWriter]()
    server = await asyncio.start_unix_server(lambda reader, writer: sessions.append(writer), tmp_path / "s")
    client = await RemoteFrontier.connect(str(tmp_path / "s"), on_lost=heard.put_nowait)
    leaving = await RemoteFrontier.connect(str(tmp_path / "s"), on_lost=heard.put_nowait)
    await leaving.close()
    await wait_until(lambda: len(sessions) == 2)
    sessions[0].transport.abort()
    assert isinstance(await asyncio.wait_for(heard.get(), WAIT_S), Unreachable)
    assert heard.empty(), "who closes a connection has not lost it"
    await client.close()
    server.close()


async def test_a_call_that_is_cancelled_in_the_moment_of_its_answer_is_cancelled(
    url_server: UrlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a Ctrl-C is lost, and the command runs on."""
    client = await RemoteFrontier.connect_tcp(url_server.host, url_server.port, TOKEN)
    call, decode = asyncio.create_task(client.overview()), decode_result

    def decode_and_cancel(method: str, reply: Any) -> Any:
        asyncio.get_running_loop().call_soon(call.cancel)  # after the answer is there, before the caller runs
        return decode(method, reply)

    monkeypatch.setattr(frontier_client, "decode_result", decode_and_cancel)
    with pytest.raises(asyncio.CancelledError):
        await call
    await client.close()
