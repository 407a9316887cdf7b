"""The client: what leaves, what comes back, what is cut and when."""

import asyncio
import contextlib
import gzip
import os
import socket
import threading
import zlib
from pathlib import Path

import pytest

from tarrafa.clock import boottime
from tarrafa.fetch.content_encoding import DecodedBodyTooLarge, UndecodableBody, decode_body
from tarrafa.fetch.http_client import HttpClient, same_address
from tarrafa.fetch.http_message import FetchRequest, FetchResponse, ResponseHead, parse_head, retry_after_s
from tarrafa.model import Status
from tests.fake_server import run_fake_server
from tests.fetch.raw_server import Answer, RawServer, a_server
from tests.ports import reserved_port

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello"


async def fetch_from(
    *answers: Answer, keep: bool = False, times: int = 1, **limits: object
) -> tuple[list[FetchResponse], RawServer]:
    async with a_server(*answers, keep=keep) as server:
        client = HttpClient(10)
        headers = [("User-Agent", "Tarrafa-test")]
        responses = []
        for _ in range(times):
            request = FetchRequest("http://a.test/x?y=1", headers, f"127.0.0.1:{server.port}", **limits)  # type: ignore[arg-type]
            responses.append(await client.fetch(request))
        client.close()
        return responses, server


async def fetch_one(*answers: Answer, **limits: object) -> FetchResponse:
    return (await fetch_from(*answers, **limits))[0][0]  # type: ignore[arg-type]


async def test_a_plain_answer_comes_back_byte_for_byte():
    response = await fetch_one(OK)
    assert (response.status, response.raw_head + response.raw_body) == (200, OK)
    assert response.address == "127.0.0.1"
    assert response.head.content_type == "text/html"


async def test_a_connection_is_used_again():
    responses, server = await fetch_from(OK, OK, OK, keep=True, times=3)
    assert [response.status for response in responses] == [200, 200, 200]
    assert server.connections == 1


async def test_each_of_many_hosts_on_one_address_has_its_connection_used_again():
    hosts = [f"http://h{number}.test/" for number in range(40)]
    async with a_server(*[OK] * 80, keep=True) as server:
        client = HttpClient(1_000)
        for url in hosts * 2:
            response = await client.fetch(FetchRequest(url, [], f"127.0.0.1:{server.port}"))
            assert response.status == 200
        assert server.connections == len(hosts)
        client.close()


async def test_on_an_open_connection_a_request_leaves_before_anything_else_runs():
    with run_fake_server(serve_twice) as server:
        client, address = HttpClient(10), server.url.removeprefix("http://")
        await client.fetch(FetchRequest("http://a.test/1", [], address))
        second = asyncio.create_task(client.fetch(FetchRequest("http://a.test/2", [], address)))
        await asyncio.sleep(0)
        assert second_request_arrived.wait(10)  # the event loop stands still
        assert (await second).status == 200
        client.close()


second_request_arrived = threading.Event()


def serve_twice(connection: socket.socket) -> None:
    connection.sendall(OK)
    connection.recv(65_536)
    second_request_arrived.set()
    connection.sendall(OK)


def taken_back_after_ms(port: int) -> list[int]:
    """What our sockets to this port were told."""
    found = []
    for fd in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        with contextlib.suppress(OSError):
            own = socket.socket(fileno=os.dup(fd))
            if own.family == socket.AF_INET and own.getpeername()[1] == port:
                found.append(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT))
            own.close()
    return found


@pytest.mark.parametrize(("unheard_s", "told"), [(1.5, 1_500), (None, 0)])
async def test_the_kernel_is_told_how_long_it_may_try_to_send(unheard_s, told):
    async with a_server(OK, keep=True) as server:
        client = HttpClient(10, unheard_s=unheard_s)
        response = await client.fetch(FetchRequest("http://a.test/", [], f"127.0.0.1:{server.port}"))
        assert response.status == 200
        assert taken_back_after_ms(server.port) == [told]
        client.close()


async def test_encodings_are_left_on_for_the_archive_and_undone_by_us():
    body = gzip.compress(b"ol\xc3\xa1 " * 100)
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    response = await fetch_one(head + chunked)
    assert response.raw_body == chunked
    assert decode_body(response.head, response.raw_body, 10_000) == b"ol\xc3\xa1 " * 100


async def test_redirects_are_not_followed_behind_our_back():
    answer = b"HTTP/1.1 301 Moved\r\nLocation: http://b.test/\r\nContent-Length: 0\r\n\r\n"
    responses, server = await fetch_from(answer)
    assert responses[0].status == 301
    assert len(server.requests) == 1


async def test_the_transfer_is_cut_at_the_header_when_the_verdict_says_so():
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\n\r\n")
        for _ in range(20_000):
            writer.write(b"x" * 10_000)
            sent += 10_000
            await writer.drain()

    def no_video(head: ResponseHead) -> int:
        return Status.TYPE_NOT_WANTED if head.content_type == "video/mp4" else 0

    response = await fetch_one(endless, check_head=no_video)
    assert (response.status, response.raw_body) == (Status.TYPE_NOT_WANTED, b"")
    assert sent < 50_000_000


async def test_a_body_larger_than_allowed_is_cut():
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(20_000):
            writer.write(b"x" * 10_000)
            await writer.drain()

    response = await fetch_one(endless, size_max=100_000)
    assert response.status == Status.TOO_LARGE


async def test_a_server_that_stalls_is_left_after_the_time_limit():
    async def silence(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)  # a server that stalls is what is tested

    assert (await fetch_one(silence, time_max_s=0.2)).status == Status.TOO_SLOW


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (b"", Status.SYSTEM_ERROR),
        (b"SSH-2.0-OpenSSH_9.2\r\n", Status.INVALID_RESPONSE),
        (b"\x00\x01\x02" * 50, Status.INVALID_RESPONSE),
        (b"HTTP/1.1 200 OK\r\n" + b"X-Long: %s\r\n" % (b"y" * 90_000) * 4 + b"\r\n", Status.INVALID_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\nless than promised", 200),
        (b"HTTP/1.1 100 Continue\r\n\r\n" + OK, 200),
        (b"HTTP/1.0 200\r\n\r\nno reason phrase, no length", 200),
        (b"HTTP/1.1 2000 What\r\n\r\n", Status.INVALID_RESPONSE),
        (b"HTTP/1.1 200 OK\r\nno colon at all\r\nX: a\x00b\r\n\r\n", Status.INVALID_RESPONSE),
    ],
)
async def test_broken_servers_give_a_status_never_an_exception(answer, status):
    assert (await fetch_one(answer)).status == status


async def test_nobody_listening_is_a_status():
    with reserved_port() as port:
        client = HttpClient(10)
        response = await client.fetch(FetchRequest("http://a.test/", [], f"127.0.0.1:{port}"))
        client.close()
        assert response.status == Status.SYSTEM_ERROR


async def test_nothing_leaves_once_the_fence_is_down():
    async with a_server(OK) as server:
        client = HttpClient(10, may_send=lambda: False)
        response = await client.fetch(FetchRequest("http://a.test/", [], f"127.0.0.1:{server.port}"))
        client.close()
    assert response.status == Status.NOT_SENT
    assert server.requests == []


async def test_nothing_is_sent_to_an_address_that_was_not_vetted(monkeypatch):
    monkeypatch.setattr("tarrafa.fetch.http_client.same_address", lambda one, other: False)  # it moved after the check

    async with a_server(OK) as server:
        client = HttpClient(10)
        response = await client.fetch(FetchRequest(f"http://127.0.0.1:{server.port}/", [], address="127.0.0.1"))
        client.close()
    assert response.status == Status.ADDRESS_REFUSED
    assert server.requests == []


async def test_an_environment_proxy_is_never_used(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    assert (await fetch_one(OK)).status == 200


async def test_a_request_that_a_dead_connection_swallowed_is_not_repeated_at_once():
    """libcurl sends it again by itself, on a new connection, without any delay."""

    async def hang_up(writer: asyncio.StreamWriter) -> None:
        writer.close()

    responses, server = await fetch_from(OK, hang_up, OK, keep=True, times=2)
    assert [response.status for response in responses] == [200, Status.NOT_SENT]
    assert len(server.requests) == 2


async def test_odd_characters_in_header_values_are_sent_as_one_line():
    async with a_server(OK) as server:
        client = HttpClient(10)
        headers = [("User-Agent", "Tarrafa (+São Paulo → €)"), ("If-None-Match", '"caf\xe9\r\nX-Evil: 1"')]
        response = await client.fetch(FetchRequest("http://a.test/", headers, f"127.0.0.1:{server.port}"))
        client.close()
    assert response.status == 200
    assert b"(+S\xe3o Paulo ? ?)" in server.requests[0]
    assert b"\r\nX-Evil" not in server.requests[0]


async def test_a_redirect_with_an_endless_body_is_still_a_redirect():
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 301 Moved\r\nLocation: /x\r\n\r\n")
        for _ in range(20_000):
            writer.write(b"x" * 10_000)
            await writer.drain()

    response = await fetch_one(endless, size_max=100_000)
    assert (response.status, response.head.get("location")) == (301, "/x")


def test_folded_and_repeated_header_fields_are_read():
    head = parse_head(b"HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\nx-robots-tag: noindex\r\nX-Robots-Tag: nofollow\r\n\r\n")
    assert head is not None
    assert head.get("x-a") == "one two"
    assert head.joined("x-robots-tag") == "noindex, nofollow"


def test_a_bomb_is_cut_where_the_limit_is():
    bomb = gzip.compress(b"\0" * 50_000_000)
    assert len(bomb) < 100_000
    with pytest.raises(DecodedBodyTooLarge):
        decode_body(ResponseHead(200, (("content-encoding", "gzip"),)), bomb, 1_000_000)


@pytest.mark.parametrize("window", [15, -15])
def test_deflate_of_both_kinds_is_undone(window):
    packer = zlib.compressobj(wbits=window)
    packed = packer.compress(b"hello " * 50) + packer.flush()
    assert decode_body(ResponseHead(200, (("content-encoding", "deflate"),)), packed, 10_000) == b"hello " * 50


def test_several_gzip_members_and_a_stream_cut_short_give_what_is_there():
    head = ResponseHead(200, (("content-encoding", "gzip"),))
    assert decode_body(head, gzip.compress(b"one ") + gzip.compress(b"two"), 100) == b"one two"
    packed = gzip.compress(bytes(range(256)) * 40)
    part = decode_body(head, packed[: len(packed) // 2], 100_000)
    assert (bytes(range(256)) * 40).startswith(part)


def test_a_stream_of_empty_members_ends_soon():
    with pytest.raises(UndecodableBody):
        decode_body(ResponseHead(200, (("content-encoding", "gzip"),)), gzip.compress(b"") * 50_000, 100)


def test_as_a_prefix_the_body_is_cut_at_the_limit():
    packed = gzip.compress(b"0123456789" * 100)
    assert (
        decode_body(ResponseHead(200, (("content-encoding", "gzip"),)), packed, 15, prefix=True) == b"012345678901234"
    )


def test_what_cannot_be_decoded_is_said():
    with pytest.raises(UndecodableBody):
        decode_body(ResponseHead(200, (("content-encoding", "gzip"),)), b"not gzip", 100)
    with pytest.raises(UndecodableBody):
        decode_body(ResponseHead(200, (("content-encoding", "snappy"),)), b"x", 100)
    with pytest.raises(UndecodableBody):
        decode_body(ResponseHead(200, (("transfer-encoding", "chunked"),)), b"zz\r\nhello", 100)


@pytest.mark.parametrize(
    ("text", "seconds"), [("120", 120.0), ("Sun, 06 Nov 1994 08:49:37 GMT", 37.0), ("soon", 0.0), ("", 0.0)]
)
def test_retry_after_is_read_in_both_forms(text, seconds):
    assert retry_after_s(ResponseHead(503, (("retry-after", text),)), 784111740.0) == seconds


def test_two_spellings_of_one_address_are_the_same():
    assert same_address("::1", "0:0:0:0:0:0:0:1")
    assert not same_address("127.0.0.1", "127.0.0.2")


async def test_many_requests_at_once_share_handles_and_every_one_is_answered():
    servers = [a_server(*[OK] * 40, keep=True) for _ in range(20)]
    open_servers = [await server.__aenter__() for server in servers]
    client = HttpClient(10)

    async def visit(port: int) -> list[int]:
        return [
            (await client.fetch(FetchRequest(f"http://a.test/{number}", [], f"127.0.0.1:{port}"))).status
            for number in range(40)
        ]

    found = await asyncio.wait_for(asyncio.gather(*(visit(server.port) for server in open_servers)), 30)
    client.close()
    for server in servers:
        await server.__aexit__(None, None, None)
    assert [status for statuses in found for status in statuses] == [200] * 800


async def slow_fetch(late: float) -> FetchResponse:
    """A transfer that runs into a time limit, on a machine that was late for that part of the time meanwhile."""

    async def silence(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(30)  # a server that stalls is what is tested

    async with a_server(silence) as server:
        client = HttpClient(10, lag=lambda since: late * (boottime() - since))
        response = await client.fetch(FetchRequest("http://a.test/", [], server.place, time_max_s=0.3))
        client.close()
        return response


@pytest.mark.parametrize(("late", "status"), [(0.0, Status.TOO_SLOW), (0.1, Status.TOO_SLOW), (0.7, Status.STARVED)])
async def test_a_host_is_not_blamed_for_the_time_that_we_were_late(late, status):
    assert (await slow_fetch(late)).status == status
