"""A real server on loopback against clients that send too much, too slowly, or nothing at all."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from tarrafa.server import connection_limits
from tarrafa.server.auth.request_origin import NO_PROXIES, TrustedProxies
from tarrafa.server.http_server import bind, run_app

END_S = 30.0  # generous: what is waited for happens at once
GET = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"


@dataclass
class Server:
    """Counts requests. /slow answers when `go` is set; /echo returns the length of the body; /big is long.
    /streamed sends its head at once, and its body when `go` is set."""

    port: int = 0
    requests: int = 0
    running: int = 0
    go: asyncio.Event = field(default_factory=asyncio.Event)

    async def healthz(self, request: Request) -> Response:
        self.requests += 1
        return PlainTextResponse("ok\n")

    async def slow(self, request: Request) -> Response:
        self.running += 1
        await self.go.wait()
        return PlainTextResponse("done\n")

    async def echo(self, request: Request) -> Response:
        return PlainTextResponse(str(len(await request.body())))

    async def big(self, request: Request) -> Response:
        self.requests += 1
        return PlainTextResponse("x" * (16 << 20))

    async def streamed(self, request: Request) -> Response:
        async def pieces() -> AsyncIterator[str]:
            await self.go.wait()
            yield "done\n"

        return StreamingResponse(pieces())

    async def connect(self, client: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(client, 0))

    async def ask(self, request: bytes) -> bytes:
        """Everything that a new connection answers until it is closed."""
        reader, writer = await self.connect()
        writer.write(request)
        answer = await until_closed(reader)
        writer.close()
        return answer


async def until_closed(reader: asyncio.StreamReader) -> bytes:
    content = b""
    with contextlib.suppress(ConnectionResetError):
        async with asyncio.timeout(END_S):
            while piece := await reader.read(1 << 16):
                content += piece
    return content


def request_once(path: bytes, *lines: bytes) -> bytes:
    return b"\r\n".join([b"GET " + path + b" HTTP/1.1", b"Host: a", b"Connection: close", *lines, b"", b""])


@contextlib.asynccontextmanager
async def serving(proxies: TrustedProxies = NO_PROXIES) -> AsyncIterator[Server]:
    one, ready, stop = Server(), asyncio.Event(), asyncio.Event()
    routes = [
        Route("/healthz", one.healthz),
        Route("/slow", one.slow),
        Route("/big", one.big),
        Route("/streamed", one.streamed),
        Route("/echo", one.echo, methods=["POST"]),
    ]
    listening = bind("127.0.0.1", 0)
    one.port = listening.getsockname()[1]
    running = asyncio.create_task(
        run_app(Starlette(routes=routes), "127.0.0.1", listening, stop, lambda address: ready.set(), proxies=proxies)
    )
    await ready.wait()
    yield one
    one.go.set()
    stop.set()
    await running


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as one:
        yield one


async def test_pipelined_requests_are_answered_one_after_the_other_and_in_order(server):
    requests = [b"POST /echo HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % n + b"x" * n for n in range(300)]
    answer = await server.ask(b"".join(requests) + request_once(b"/healthz"))
    bodies = [part.rpartition(b"\r\n\r\n")[2] for part in answer.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [b"%d" % n for n in range(300)] + [b"ok\n"]


async def test_the_head_of_a_response_does_not_wait_for_a_body_that_comes_later(server):
    reader, writer = await server.connect()
    writer.write(request_once(b"/streamed"))
    async with asyncio.timeout(END_S):
        head = await reader.readuntil(b"\r\n\r\n")
    server.go.set()
    rest = await until_closed(reader)
    writer.close()
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert rest == b"5\r\ndone\n\r\n0\r\n\r\n"


async def test_a_response_without_a_body_has_its_head(server):
    answer = await server.ask(request_once(b"/healthz").replace(b"GET", b"HEAD", 1))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")


async def test_pipelined_requests_wait_in_the_socket_and_not_in_memory(server):
    _reader, writer = await server.connect()
    writer.write(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n" + GET * 1_000_000)
    while not server.running:
        await asyncio.sleep(0)
    for _ in range(1_000):
        await asyncio.sleep(0)
    assert server.requests == 0
    assert writer.transport.get_write_buffer_size() > 10_000_000  # nobody takes them
    writer.transport.abort()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /healthz HTTP/1.1\r\nX: " + b"a" * connection_limits.HEAD_BYTES_MAX,
        b"GET /" + b"a" * connection_limits.HEAD_BYTES_MAX,
        request_once(b"/healthz", *[b"X: a"] * connection_limits.HEADER_LINES_MAX),
        request_once(b"/" + b"a" * connection_limits.HEAD_BYTES_MAX),
    ],
    ids=["a line without end", "a request line without end", "too many lines", "a long request line"],
)
async def test_too_long_a_head_is_refused(server, head):
    assert (await server.ask(head)).startswith(b"HTTP/1.1 431 ")
    assert server.requests == 0


async def test_a_head_within_the_limits_is_answered(server):
    lines = [b"X: " + b"a" * 500] * (connection_limits.HEADER_LINES_MAX - 2)
    assert (await server.ask(request_once(b"/healthz", *lines))).endswith(b"ok\n")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", GET + b"GET / HT"], ids=["nothing", "half a head", "half the next"])
async def test_a_connection_that_sends_no_whole_request_is_closed(server, sent, monkeypatch):
    monkeypatch.setattr(connection_limits, "HEAD_S_MAX", 0.2)
    answer = await server.ask(sent)
    assert answer.count(b"200 OK") == sent.count(GET)


async def test_a_body_that_does_not_arrive_ends_the_connection(server, monkeypatch):
    monkeypatch.setattr(connection_limits, "BODY_S_MAX", 0.2)
    assert await server.ask(b"POST /echo HTTP/1.1\r\nContent-Length: 9\r\n\r\nhalf") == b""


async def test_a_body_that_nobody_reads_ends_the_connection(server):
    reader, writer = await server.connect()
    writer.write(b"POST /nowhere HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n")
    answer = await until_closed(reader)
    assert answer.startswith(b"HTTP/1.1 404 ")
    writer.close()


async def test_a_client_that_sends_all_before_it_reads_gets_its_refusal(server):
    body = b"x" * (8 << 20)
    for _ in range(5):
        reader, writer = await server.connect()
        writer.write(b"POST /nowhere HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.write_eof()
        assert (await until_closed(reader)).startswith(b"HTTP/1.1 404 ")
        writer.close()


@pytest.mark.parametrize("length", [b"Content-Length: 33554432", b"Transfer-Encoding: chunked"])
@pytest.mark.parametrize("connection", [b"close", b"keep-alive"])
async def test_a_refused_upload_is_taken_to_its_end_and_not_reset(server, length, connection):
    reader, writer = await server.connect()
    head = [b"POST /healthz HTTP/1.1", b"Host: a", b"Connection: " + connection, length, b"", b""]
    body = b"10000\r\n" + b"x" * (64 << 10) + b"\r\n" if b"chunked" in length else b"x" * (64 << 10)
    writer.write(b"\r\n".join(head))
    for _ in range(512):
        writer.write(body)
        await writer.drain()  # raises if the server has reset the connection
    assert (await reader.read()).startswith(b"HTTP/1.1 405 ")
    writer.close()


async def test_a_client_that_sends_without_end_after_its_refusal_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(connection_limits, "DISCARD_S_MAX", 0.2)
    reader, writer = await server.connect()
    writer.write(b"POST /nowhere HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n")
    with pytest.raises(ConnectionError):
        async with asyncio.timeout(END_S):
            while True:
                writer.write(b"x" * (1 << 16))
                await writer.drain()
    assert reader.at_eof() or reader.exception()
    writer.close()


async def test_a_client_that_does_not_read_is_dropped(server, monkeypatch):
    monkeypatch.setattr(connection_limits, "WRITE_S_MAX", 0.2)
    reader, writer = await server.connect()
    writer.write(request_once(b"/big"))
    while not server.requests:
        await asyncio.sleep(0)
    await asyncio.sleep(1)  # the silence under test
    assert len(await until_closed(reader)) < 16 << 20
    writer.close()


async def test_nothing_is_parsed_after_a_chunked_body(server):
    chunked = b"POST /echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    answer = await server.ask(chunked + GET * 1_000)
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert answer.endswith(b"3")
    assert server.requests == 0


async def test_idle_connections_of_an_address_make_room_for_its_next(server, monkeypatch):
    monkeypatch.setattr(connection_limits, "CONNECTIONS_PER_ADDRESS_MAX", 5)
    idle = [await server.connect() for _ in range(5)]
    assert (await server.ask(request_once(b"/healthz"))).endswith(b"ok\n")
    assert await until_closed(idle[0][0]) == b""  # the oldest
    for _, writer in idle:
        writer.close()


async def test_an_address_with_its_share_of_running_requests_gets_no_more_connections(server, monkeypatch):
    monkeypatch.setattr(connection_limits, "CONNECTIONS_PER_ADDRESS_MAX", 5)
    busy = [await server.connect() for _ in range(5)]
    for _, writer in busy:
        writer.write(request_once(b"/slow"))
    while server.running < 5:
        await asyncio.sleep(0)
    assert (await server.ask(request_once(b"/healthz"))).startswith(b"HTTP/1.1 503 ")
    server.go.set()
    for reader, writer in busy:
        assert (await until_closed(reader)).endswith(b"done\n")
        writer.close()


async def test_a_named_proxy_has_no_share_per_address(monkeypatch):
    monkeypatch.setattr(connection_limits, "CONNECTIONS_PER_ADDRESS_MAX", 5)
    async with serving(TrustedProxies.parse(["127.0.0.1"])) as server:
        busy = [await server.connect() for _ in range(8)]
        for _, writer in busy:
            writer.write(request_once(b"/slow"))
        while server.running < 8:
            await asyncio.sleep(0)
        assert (await server.ask(request_once(b"/healthz"))).endswith(b"ok\n")
        server.go.set()
        for reader, writer in busy:
            assert (await until_closed(reader)).endswith(b"done\n")
            writer.close()


async def test_idle_connections_of_a_proxy_make_room_last(monkeypatch):
    monkeypatch.setattr(connection_limits, "CONNECTIONS_MAX", 5)
    async with serving(TrustedProxies.parse(["127.0.0.1"])) as server:
        proxy = [await server.connect() for _ in range(4)]
        direct = await server.connect("127.0.0.2")
        assert (await server.ask(request_once(b"/healthz"))).endswith(b"ok\n")
        assert await until_closed(direct[0]) == b""
        for reader, writer in proxy:
            writer.write(request_once(b"/healthz"))
            assert (await until_closed(reader)).endswith(b"ok\n")
            writer.close()
        direct[1].close()


async def test_a_full_server_answers_health_checks_and_refuses_the_rest(server, monkeypatch):
    monkeypatch.setattr(connection_limits, "CONNECTIONS_MAX", 5)
    monkeypatch.setattr(connection_limits, "CONNECTIONS_RESERVED", 2)
    busy = [await server.connect() for _ in range(5)]
    for _, writer in busy:
        writer.write(request_once(b"/slow"))
    while server.running < 5:
        await asyncio.sleep(0)
    assert (await server.ask(request_once(b"/big"))).startswith(b"HTTP/1.1 503 ")
    assert (await server.ask(request_once(b"/healthz"))).endswith(b"ok\n")
    for _, writer in busy:
        writer.close()


async def test_a_thousand_idle_connections_do_not_keep_others_out(server):
    idle = [await server.connect() for _ in range(connection_limits.CONNECTIONS_MAX)]
    for _, writer in idle[::2]:
        writer.write(b"GET / HT")
    assert (await server.ask(request_once(b"/healthz"))).endswith(b"ok\n")
    for _, writer in idle:
        writer.transport.abort()
