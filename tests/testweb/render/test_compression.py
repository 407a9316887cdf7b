"""Pages travel packed, and are the same pages."""

import gzip
from collections import Counter

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tarrafa.testweb import BY_NAME, World
from tarrafa.testweb.http.web_response import WebRequest, make_response
from tarrafa.testweb.render.compression import (
    CYCLE,
    GZIP_BYTES,
    STORED_MAX,
    accepts_coding,
    coding_of_host,
    compress_body,
    encode_chunks,
    is_chunked,
)
from tests.testweb.hostile.recorded_exchange import unchunk
from tests.testweb.http.test_web_server import RawConnection
from tests.testweb.web_in_thread import WebInThread

WORLD = World(seed=3, hosts=CYCLE, pages=200)
UNPACK = {
    "gzip": gzip.decompress,
    "br": brotli.decompress,
    "zstd": lambda data: zstandard.ZstdDecompressor().decompress(data),
}
EVERYTHING = "gzip, deflate, br, zstd"


def test_a_third_of_the_hosts_pack_with_gzip_and_a_few_otherwise():
    numbers = range(1, CYCLE + 1)
    assert Counter(coding_of_host(no) for no in numbers) == {"gzip": 8, "br": 2, "zstd": 2, "": 12}
    assert Counter(coding_of_host(no) for no in numbers if is_chunked(no)) == {"": 3}


@pytest.mark.parametrize("no", range(1, CYCLE + 1))
def test_the_page_is_the_same_in_every_wrapping(no):
    plain, packed = (make_response(WORLD, no, BY_NAME, WebRequest("GET", "/", accept_encoding=codings), 1.8e9)
                     for codings in ("", EVERYTHING))  # fmt: skip
    how = coding_of_host(no)
    assert (f"Content-Encoding: {how}\r\n" in packed.headers) == bool(how)
    assert "Content-Encoding" not in plain.headers
    assert ("Vary: Accept-Encoding\r\n" in plain.headers) == bool(how)
    assert UNPACK.get(how, bytes)(packed.body) == plain.body
    assert plain.chunked == packed.chunked == is_chunked(no)


@pytest.mark.parametrize("size", [0, 1, GZIP_BYTES, GZIP_BYTES + 1, GZIP_BYTES + STORED_MAX + 1, 200_000])
@pytest.mark.parametrize("how", UNPACK)
def test_any_size_can_be_packed(how, size):
    body = bytes(number * number & 0xFF for number in range(size))
    assert UNPACK[how](compress_body(body, how)) == body


@given(st.binary(max_size=20_000))
def test_chunks_hold_the_body(body):
    assert unchunk(encode_chunks(body)) == body


ASKED = [("gzip", True), ("deflate, GZIP;q=0.5", True), ("br, gzip ; q=1.0", True), ("", False), ("gzip;q=0", False),
         ("gzip; q=0.000", False), ("identity", False), ("*", False), ("x-gzip", False)]  # fmt: skip


@pytest.mark.parametrize(("offered", "whether"), ASKED)
def test_rfc9110_a_coding_is_used_only_where_it_is_named(offered, whether):
    assert accepts_coding(offered, "gzip") == whether


def test_over_a_socket_lengths_and_chunks_are_right():
    with WebInThread(WORLD) as web:
        wire = RawConnection(web.port)
        for no in range(1, CYCLE + 1):
            name = WORLD.host(no).name
            wire.send(f"GET / HTTP/1.1\r\nHost: {name}\r\nAccept-Encoding: {EVERYTHING}\r\n\r\n")
            status, headers, body = wire.receive()
            assert status == 200
            assert ("content-length" in headers) != ("transfer-encoding" in headers)
            page = UNPACK.get(headers.get("content-encoding", ""), bytes)(body)
            assert f"redacao@{name}".encode() in page
        old = RawConnection(web.port)
        old.send("GET / HTTP/1.0\r\nHost: h0005.br.test\r\n\r\n")
        assert "transfer-encoding" not in old.receive()[1], "HTTP/1.0 knows no chunks"
