"""HTTP as it is: what servers say on the wire, and what becomes of it."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from tarrafa.fetch.content_encoding import decode_body
from tarrafa.fetch.http_client import INTERIM_MAX, HttpClient
from tarrafa.fetch.http_message import (
    HEADER_BYTES_MAX,
    FetchRequest,
    FetchResponse,
    ResponseHead,
    parse_head,
)
from tarrafa.model import Status
from tests.fetch.raw_server import Answer, RawServer, a_server, reset

LINE = b"HTTP/1.1 200 OK\r\n"
OK = LINE + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = LINE + b"Transfer-Encoding: chunked\r\n\r\n"
HELLO = b"5\r\nhello\r\n0\r\n\r\n"


async def answers_to(
    *answers: Answer, keep: bool = False, times: int = 1, **limits: object
) -> tuple[list[FetchResponse], RawServer]:
    """What one client makes of them, one request behind the other."""

    async with a_server(*answers, keep=keep) as server:
        client = HttpClient(10)
        request = FetchRequest("http://a.test/x", **{"headers": [], "connect_to": server.place, **limits})  # type: ignore[arg-type]
        responses = [await asyncio.wait_for(client.fetch(request), 20) for _ in range(times)]
        client.close()
        return responses, server


async def answer_to(answer: Answer, **limits: object) -> FetchResponse:
    return (await answers_to(answer, **limits))[0][0]  # type: ignore[arg-type]


def length(value: bytes) -> bytes:
    return LINE + b"Content-Length: " + value + b"\r\n\r\nhello"


STATUS_LINES = {
    "the start of a page (HTTP/0.9)": (b"<html>hello</html>", Status.INVALID_RESPONSE),
    "a very long page without a head": (b"<html>" + b"x" * 200_000, Status.INVALID_RESPONSE),
    "another protocol": (b"ICY 200 OK\r\n\r\nhello", Status.INVALID_RESPONSE),
    "status 999": (b"HTTP/1.1 999 Denied\r\nContent-Length: 5\r\n\r\nhello", Status.INVALID_RESPONSE),
    "status 000": (b"HTTP/1.1 000 Zero\r\nContent-Length: 5\r\n\r\nhello", Status.INVALID_RESPONSE),
    "status 2000": (b"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello", Status.INVALID_RESPONSE),
    "status 20": (b"HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello", Status.INVALID_RESPONSE),
    "HTTP/2 in HTTP/1's clothes": (b"HTTP/2 200 OK\r\nContent-Length: 5\r\n\r\nhello", Status.INVALID_RESPONSE),
    "nothing": (b"", Status.SYSTEM_ERROR),
    "half a status line": (b"HTTP/1.1 200 O", Status.SYSTEM_ERROR),
    "half a header block": (LINE + b"Content-Type: text/html\r\n", Status.SYSTEM_ERROR),
    "half a header line": (LINE + b"Content-Ty", Status.SYSTEM_ERROR),
    "an interim answer and nothing more": (b"HTTP/1.1 100 Continue\r\n\r\n", Status.SYSTEM_ERROR),
    "an interim answer and half a block": (b"HTTP/1.1 100 Continue\r\n\r\n" + LINE, Status.SYSTEM_ERROR),
    "another protocol from now on": (b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\nhello", Status.INVALID_RESPONSE),
    "line feeds alone": (b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", 200),
    "no reason phrase": (b"HTTP/1.0 200\r\n\r\nhello", 200),
}


@pytest.mark.parametrize(("answer", "status"), STATUS_LINES.values(), ids=STATUS_LINES)
async def test_a_status_line_is_one_or_the_answer_is_invalid(answer, status):
    response = await answer_to(answer)
    assert response.status == status
    assert response.raw_body == (b"hello" if status == 200 else b"")
    assert bool(response.error) is (status < 0)


HEADERS = {
    "a NUL": (LINE + b"A: 1\0 2\r\nContent-Length: 5\r\n\r\nhello", Status.INVALID_RESPONSE),
    "no colon": (LINE + b"garbage\r\nContent-Length: 5\r\n\r\nhello", Status.INVALID_RESPONSE),
    "a line of 300 KB": (LINE + b"X: " + b"y" * 300_000 + b"\r\n\r\nhello", Status.INVALID_RESPONSE),
    "100,000 lines": (LINE + b"a:b\r\n" * 100_000 + b"\r\nhello", Status.INVALID_RESPONSE),
    "no name": (LINE + b": x\r\nContent-Length: 5\r\n\r\nhello", 200),
    "a space before the colon": (LINE + b"A : x\r\nContent-Length: 5\r\n\r\nhello", 200),
    "bytes that are no ASCII": (LINE + b"A: \xff\xfe\r\nContent-Length: 5\r\n\r\nhello", 200),
}


@pytest.mark.parametrize(("answer", "status"), HEADERS.values(), ids=HEADERS)
async def test_odd_header_lines_end_the_transfer_or_do_no_harm(answer, status):
    assert (await answer_to(answer)).status == status


async def test_a_header_block_of_10_mb_is_cut_long_before():
    sent = 0

    async def endless(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(LINE)
        for _ in range(1_000):
            writer.write(b"X-A: " + b"y" * 10_000 + b"\r\n")
            sent += 10_000
            await writer.drain()

    response = await answer_to(endless)
    assert response.status == Status.INVALID_RESPONSE
    assert "larger than" in str(response.error)
    assert len(response.raw_head) < HEADER_BYTES_MAX + 20_000
    assert sent < 9_000_000


async def test_interim_answers_without_end_are_cut():
    async def early_hints(writer: asyncio.StreamWriter) -> None:
        for _ in range(100_000):
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
            await writer.drain()

    response = await answer_to(early_hints)
    assert (response.status, str(response.error)) == (
        Status.INVALID_RESPONSE,
        f"more than {INTERIM_MAX} interim responses",
    )
    assert (await answer_to(b"HTTP/1.1 103 Early Hints\r\n\r\n" * INTERIM_MAX + OK)).status == 200


async def test_folded_and_repeated_lines_are_one_field_each():
    response = await answer_to(LINE + b"X-A: one\r\n two\r\n\tthree\r\nB: 1\r\nb: 2\r\nContent-Length: 5\r\n\r\nhello")
    assert response.head.get("x-a").split() == ["one", "two", "three"]
    assert response.head.joined("b") == "1, 2"


def test_a_block_of_nothing_but_folds_takes_linear_time():
    head = parse_head(LINE + b"X: 1\r\n" + b" y\r\n" * 1_000_000 + b"\r\n")
    assert head is not None
    assert len(head.get("x")) == 2_000_001


async def test_trailers_do_not_become_the_head():
    trailers = b"5\r\nhello\r\n0\r\nHTTP/1.1 404 Gone: x\r\nContent-Type: video/mp4\r\n\r\n"
    response = await answer_to(CHUNKED + trailers)
    assert (response.status, response.head.content_type) == (200, "")
    assert (response.raw_head, response.raw_body) == (CHUNKED, trailers)
    assert decode_body(response.head, response.raw_body, 100) == b"hello"


LENGTHS = {
    "longer than the body": (length(b"50"), 200, b"hello"),
    "shorter than the body": (length(b"3"), 200, b"hel"),
    "nothing": (length(b"0"), 200, b""),
    "larger than any number": (length(b"9" * 40), 200, b"hello"),
    "twice the same": (length(b"5\r\nContent-Length: 5"), 200, b"hello"),
    "the same, in a list": (length(b"5, 5"), 200, b"hello"),
    "negative": (length(b"-3"), Status.INVALID_RESPONSE, b""),
    "two different ones": (length(b"3\r\nContent-Length: 5"), Status.INVALID_RESPONSE, b""),
    "garbage": (length(b"many"), Status.INVALID_RESPONSE, b""),
    "with a sign": (length(b"+5"), Status.INVALID_RESPONSE, b""),
    "with a unit": (length(b"5B"), Status.INVALID_RESPONSE, b""),
}


@pytest.mark.parametrize(("answer", "status", "body"), LENGTHS.values(), ids=LENGTHS)
async def test_a_content_length_is_believed_as_far_as_it_goes(answer, status, body):
    response = await answer_to(answer)
    assert (response.status, response.raw_body) == (status, body)


@pytest.mark.parametrize(
    "fields", [b"Content-Length: 3\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 3"]
)
async def test_rfc9112_chunks_override_a_content_length(fields):
    response = await answer_to(LINE + fields + b"\r\n\r\n" + HELLO)
    assert decode_body(response.head, response.raw_body, 100) == b"hello"


CHUNKS = {
    "no hex": (b"zz\r\nhello\r\n0\r\n\r\n", Status.INVALID_RESPONSE),
    "no hex later": (b"5\r\nhello\r\nzz\r\n", Status.INVALID_RESPONSE),
    "negative": (b"-5\r\nhello\r\n0\r\n\r\n", Status.INVALID_RESPONSE),
    "with a sign": (b"+5\r\nhello\r\n0\r\n\r\n", Status.INVALID_RESPONSE),
    "0x5": (b"0x5\r\nhello\r\n0\r\n\r\n", Status.INVALID_RESPONSE),
    "larger than any number": (b"F" * 18 + b"\r\nhello", Status.INVALID_RESPONSE),
    "no line end behind the chunk": (b"5\r\nhello5\r\nhello\r\n0\r\n\r\n", Status.INVALID_RESPONSE),
    "more than ever comes": (b"7FFFFFFFFFFFFFFF\r\nhello", 200),
    "no last chunk": (b"5\r\nhello\r\n", 200),
    "a last chunk without end": (b"5\r\nhello\r\n0\r\n", 200),
    "line feeds alone": (b"5\nhello\n0\n\n", 200),
}


@pytest.mark.parametrize(("chunks", "status"), CHUNKS.values(), ids=CHUNKS)
async def test_chunks_that_are_none_make_the_answer_invalid(chunks, status):
    response = await answer_to(CHUNKED + chunks)
    assert response.status == status
    if status == 200:
        assert decode_body(response.head, response.raw_body, 100) == b"hello"


@pytest.mark.parametrize("code", [b"204 No Content", b"304 Not Modified"])
@pytest.mark.parametrize("rest", [b"Content-Length: 5\r\n\r\nhello", b"Transfer-Encoding: chunked\r\n\r\n" + HELLO])
async def test_a_body_where_there_is_none_is_not_taken_for_the_next_answer(code, rest):
    responses, server = await answers_to(b"HTTP/1.1 " + code + b"\r\n" + rest, OK, keep=True, times=2)
    assert [(response.status, response.raw_body) for response in responses] == [(int(code[:3]), b""), (200, b"hello")]
    assert server.connections == 2


@pytest.mark.parametrize("first", [OK + b"HTTP/1.1 404 Not Yours\r\nContent-Length: 0\r\n\r\n", length(b"3")])
async def test_what_is_said_unasked_is_never_an_answer(first):
    responses, server = await answers_to(first, OK, keep=True, times=2)
    assert [response.status for response in responses] == [200, 200]
    assert responses[1].raw_body == b"hello"
    assert server.connections == 2


async def test_a_connection_whose_body_was_cut_is_not_used_again():
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(LINE + b"Content-Type: video/mp4\r\nContent-Length: 100000000\r\n\r\n")
        while True:
            writer.write(b"x" * 10_000)
            await writer.drain()

    def no_video(head: ResponseHead) -> int:
        return Status.TYPE_NOT_WANTED if head.content_type == "video/mp4" else 0

    responses, server = await answers_to(endless, OK, keep=True, times=2, check_head=no_video)
    assert [(response.status, response.error) for response in responses] == [(Status.TYPE_NOT_WANTED, ""), (200, "")]
    assert server.connections == 2


@pytest.mark.parametrize(
    "before", [b"", LINE + b"Content-Len", LINE + b"Content-Length: 5000\r\n\r\nhello", CHUNKED, CHUNKED + b"5\r\nhel"]
)
async def test_a_connection_that_breaks_is_no_answer(before):
    async def crash(writer: asyncio.StreamWriter) -> None:
        writer.write(before)
        await writer.drain()
        reset(writer)

    assert (await answer_to(crash)).status == Status.SYSTEM_ERROR


async def test_servers_that_dawdle_are_left_after_a_second_of_nothing():
    stop = asyncio.Event()

    def then_silence(text: bytes) -> Callable[[asyncio.StreamWriter], Awaitable[None]]:
        async def say(writer: asyncio.StreamWriter) -> None:
            writer.write(text)
            await writer.drain()
            await stop.wait()

        return say

    texts = [b"", LINE + b"X-Slow: ", LINE + b"Content-Length: 500\r\n\r\nhello", CHUNKED + b"5\r\nhe"]
    client = HttpClient(10)
    servers = [a_server(then_silence(text)) for text in texts]
    places = [(await server.__aenter__()).place for server in servers]
    requests = [FetchRequest("http://a.test/", [], place, stall_timeout_s=1.0) for place in places]
    found = await asyncio.gather(*(client.fetch(request) for request in requests))
    client.close()
    stop.set()
    for server in servers:
        await server.__aexit__(None, None, None)
    assert all(response.elapsed_s >= 1.0 for response in found)
    assert {str(response.error) for response in found} == {"nothing came for 1 s"}, "not for the whole time limit"
    assert [response.status for response in found] == [Status.TOO_SLOW] * 4


async def test_a_drip_is_cut_by_the_time_limit():
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(LINE + b"Content-Length: 5000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)  # a server that drips is what is tested

    response = await answer_to(drip, time_max_s=0.3)
    assert response.status == Status.TOO_SLOW
    assert response.raw_body.strip(b"x") == b""


async def test_we_ask_for_exactly_this_and_only_by_get():
    responses, server = await answers_to(OK, headers=[("User-Agent", "T"), ("Accept", "*/*")])
    assert responses[0].status == 200
    assert server.requests == [b"GET /x HTTP/1.1\r\nHost: a.test\r\nUser-Agent: T\r\nAccept: */*\r\n\r\n"]
