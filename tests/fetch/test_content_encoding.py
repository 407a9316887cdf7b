"""Encodings: what is undone, what is cut, what is said."""

import gzip
import os
import tracemalloc
import zlib
from collections.abc import Callable
from typing import get_args

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tarrafa.config.sections import ContentEncoding
from tarrafa.fetch.content_encoding import (
    CODINGS_MAX,
    DECODERS,
    DecodedBodyTooLarge,
    UndecodableBody,
    decode,
    decode_body,
    decode_chunked,
)
from tarrafa.fetch.http_message import ResponseHead
from tarrafa.parse.gzip_members import MEMBERS_MAX

TEXT = bytes(range(256)) * 40 + b"ol\xc3\xa1 " * 3_000


def deflate(data: bytes, window: int = 15) -> bytes:
    packer = zlib.compressobj(wbits=window)
    return packer.compress(data) + packer.flush()


def zstd(data: bytes, window_log: int = 20) -> bytes:
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log, compression_level=3, write_checksum=True)
    packer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return packer.compress(data) + packer.flush()


PACK: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress, "x-gzip": gzip.compress, "deflate": deflate, "br": brotli.compress, "zstd": zstd,
}  # fmt: skip


@pytest.mark.parametrize("coding", PACK)
def test_every_coding_that_we_ask_for_is_undone(coding):
    assert decode([coding], PACK[coding](TEXT), len(TEXT)) == TEXT
    assert decode([coding], PACK[coding](b""), 10) == b""


def test_we_ask_for_what_we_can_undo_and_nothing_else():
    assert set(get_args(ContentEncoding)) == set(DECODERS) - {"x-gzip"}


def test_codings_upon_each_other_come_off_in_turn():
    head = ResponseHead(200, (("content-encoding", "gzip, BR"), ("content-encoding", "zstd")))
    packed = zstd(brotli.compress(gzip.compress(TEXT)))
    assert decode_body(head, packed, len(TEXT)) == TEXT


def test_more_codings_than_anybody_needs_are_refused():
    packed = TEXT
    for _ in range(CODINGS_MAX + 1):
        packed = gzip.compress(packed)
    with pytest.raises(UndecodableBody, match="content encodings one upon another"):
        decode(["gzip"] * (CODINGS_MAX + 1), packed, len(TEXT))


def test_codings_of_the_transfer_come_off_first():
    packed = gzip.compress(brotli.compress(TEXT))
    chunked = b"%x\r\n%b\r\n0\r\n\r\n" % (len(packed), packed)
    head = ResponseHead(200, (("content-encoding", "br"), ("transfer-encoding", "gzip, chunked")))
    assert decode_body(head, chunked, len(TEXT)) == TEXT


@pytest.mark.parametrize("coding", ["", "identity", "none", "UTF-8", " , "])
def test_lenient_what_is_no_coding_is_not_looked_for(coding):
    assert decode_body(ResponseHead(200, (("content-encoding", coding),)), TEXT, len(TEXT)) == TEXT


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br"])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.99])
def test_a_stream_cut_short_gives_what_was_there(coding, part):
    packed = PACK[coding](os.urandom(50_000))
    found = decode([coding], packed[: int(len(packed) * part)], 100_000)
    whole = decode([coding], packed, 100_000)
    assert whole.startswith(found)
    assert len(found) > 40_000 * part


def test_zstandard_cut_short_gives_the_blocks_that_were_whole():
    packer = zstandard.ZstdCompressor().compressobj()
    blocks = [packer.compress(TEXT) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for _ in range(3)]
    assert decode(["zstd"], (blocks[0] + blocks[1] + blocks[2])[:-9], 10 * len(TEXT)) == TEXT * 2


@pytest.mark.parametrize("coding", PACK)
@pytest.mark.parametrize("rubbish", [b"\0", b"\0" * 20_000, b"<!-- cached -->", b"x" * 100_000])
def test_rubbish_behind_the_end_costs_nothing_good(coding, rubbish):
    assert decode([coding], PACK[coding](TEXT) + rubbish, 10 * len(TEXT)) == TEXT


@pytest.mark.parametrize("coding", PACK)
def test_rubbish_alone_is_undecodable(coding):
    with pytest.raises(UndecodableBody):
        decode([coding], b"<html>not packed at all, whatever the header says</html>", 1_000)


@pytest.mark.parametrize("coding", ["br", "zstd"])
def test_a_damaged_stream_is_undecodable(coding):
    packed = bytearray(PACK[coding](TEXT * 5))
    packed[20:60] = bytes(40)
    with pytest.raises(UndecodableBody):
        decode([coding], bytes(packed), 10 * len(TEXT))


def test_frames_of_zstandard_follow_each_other():
    skippable = b"\x50\x2a\x4d\x18\x04\0\0\0skip"
    assert decode(["zstd"], zstd(b"one ") + skippable + zstd(b"") + zstd(b"two"), 100) == b"one two"


def test_rfc9659_a_window_larger_than_8_mb_is_refused():
    assert decode(["zstd"], zstd(TEXT, window_log=23), len(TEXT)) == TEXT
    with pytest.raises(UndecodableBody, match="too much memory"):
        decode(["zstd"], zstd(TEXT, window_log=24), len(TEXT))


def gigabyte_of(coding: str) -> bytes:
    """A small body that unpacks to a gigabyte, without packing one: a block of zeros, again and again."""
    if coding == "zstd":
        return b"\x28\xb5\x2f\xfd\x00\x58" + b"\x02\x00\x10\x00" * 8_192 + b"\x01\0\0"  # blocks of 128 KiB of one byte
    if coding == "br":
        packer = brotli.Compressor(quality=1)
        return b"".join([*(packer.process(bytes(10_000_000)) for _ in range(100)), packer.finish()])
    packer = zlib.compressobj(wbits=-15)
    block = packer.compress(bytes(1_000_000)) + packer.flush(zlib.Z_FULL_FLUSH)
    envelope = b"\x1f\x8b\x08\0\0\0\0\0\0\xff" if coding == "gzip" else b"\x78\x9c"
    return envelope + block * 1_000


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd"])
def test_a_gigabyte_in_a_small_body_is_cut_where_the_limit_is(coding):
    bomb = gigabyte_of(coding)
    assert len(bomb) < 2_000_000
    tracemalloc.start()
    with pytest.raises(DecodedBodyTooLarge):
        decode([coding], bomb, 1_000_000)
    assert decode([coding], bomb, 1_000_000, prefix=True) == bytes(1_000_000)
    assert decode([coding, "gzip"], gzip.compress(bomb), 1_000_000, prefix=True).strip(b"\0") == b""
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_a_packed_body_that_is_itself_too_large_is_too_large():
    inner = os.urandom(5_000)
    with pytest.raises(DecodedBodyTooLarge):
        decode(["gzip", "gzip"], gzip.compress(gzip.compress(inner)), 4_000)


def test_a_stream_of_countless_frames_ends_soon():
    assert set(decode(["zstd"], PACK["zstd"](b"a") * 60_000, 1_000_000)) == set(b"a")


def test_a_gzip_stream_in_blocks_is_decoded_whole_and_countless_members_are_refused():
    assert decode(["gzip"], PACK["gzip"](b"a") * MEMBERS_MAX, 1_000_000) == b"a" * MEMBERS_MAX
    with pytest.raises(UndecodableBody, match="more than 1,024 compressed parts"):
        decode(["gzip"], PACK["gzip"](b"a") * 60_000, 1_000_000)


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(PACK)), st.binary(max_size=300), st.integers(0, 200), st.booleans())
def test_any_bytes_give_a_body_within_the_limit_or_are_refused(coding, tail, limit, packed):
    raw = PACK[coding](b"abc" * 30)[:-5] + tail if packed else tail
    try:
        assert len(decode([coding], raw, limit)) <= limit
    except (UndecodableBody, DecodedBodyTooLarge):
        assert len(decode([coding], PACK[coding](b"x" * limit), limit)) == limit


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n", b"hello world"),
        (b"5\nhello\n0\n\n", b"hello"),
        (b"5;name=value\r\nhello\r\n0\r\n\r\n", b"hello"),
        (b"5 \t ; a\r\nhello\r\n00000000\r\n\r\n", b"hello"),
        (b"5\r\nhello\r\n0\r\nX-Trailer: 1\r\n\r\n", b"hello"),
        (b"a\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
        (b"0\r\n\r\n", b""),
        (b"5\r\nhello\r\n0\r\n", b"hello"),
        (b"5\r\nhello\r\n", b"hello"),
        (b"5\r\nhello\r", b"hello"),
        (b"5\r\nhello", b"hello"),
        (b"5\r\nhel", b"hel"),
        (b"5\r\nhello\r\n1", b"hello"),
        (b"7FFFFFFFFFFFFFFF\r\nhello", b"hello"),
        (b"ffffffffffffffff\r\nhello", b"hello"),
    ],
)
def test_rfc9112_chunks_are_put_together(raw, body):
    assert decode_chunked(raw) == body


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"zz\r\nhello", b"-5\r\nhello\r\n0\r\n\r\n", b"+5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n",
        b"1_0\r\n0123456789abcdef\r\n0\r\n\r\n", b" 5\r\nhello\r\n0\r\n\r\n", b"\r\n5\r\nhello\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF\r\nhello", b"5\r\nhello5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\rx0\r\n\r\n",
        b"5\r\nhello\r\nzz\r\nhello\r\n0\r\n\r\n", b"5 5\r\nhello", b"5",
        b"5;" + b"x" * 5_000 + b"\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n" + b"1" * 5_000,
    ],
)  # fmt: skip
def test_rfc9112_what_is_not_chunked_is_undecodable(raw):
    with pytest.raises(UndecodableBody):
        decode_chunked(raw)


def test_many_small_chunks_and_long_lines_take_linear_time():
    assert decode_chunked(b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n") == b"a" * 100_000
    with pytest.raises(UndecodableBody):
        decode_chunked(b"1\r\na\r\n" + b" " * 10_000_000)
    with pytest.raises(UndecodableBody):
        decode_chunked((b"1;" + b" " * 900 + b"\r\na\r\n") * 3_000 + b"\r\n")
