"""A shard behind a URL may be away, hang, lie or be somebody else: that costs one line, never a search."""

import math
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from tarrafa.errors import ConfigError, DataError, QueryError, ShardUnavailable
from tarrafa.fetch import node_client
from tarrafa.fetch.node_client import NodeHttpResponse
from tarrafa.i18n import PORTUGUESE, message
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.token import TOKEN_VARIABLE, Token
from tarrafa.search import remote_shard
from tarrafa.search.remote_shard import CONTENT_TYPE, RemoteShard
from tarrafa.search.request import Candidate, SearchRequest, ShardStatistics
from tarrafa.search.scatter_gather import open_local_shard
from tarrafa.search.searcher import Searcher
from tarrafa.server.http_server import bind
from tests.fake_server import run_fake_server
from tests.ports import reserved_port
from tests.search.sharded_index import PATIENCE_S, TOKEN, behind_a_url, divided
from tests.server.conftest import RunningSite

NEVER_S = 1_000.0
REDE = SearchRequest("rede")


def reply(body: bytes, code: int = 200, kind: str = CONTENT_TYPE) -> bytes:
    head = f"HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + body


def packed(value: object) -> bytes:
    return reply(msgspec.msgpack.encode(value))


def a_shard(url: str, limit_s: float = PATIENCE_S, token: Token = TOKEN) -> RemoteShard:
    return RemoteShard(url, token, limit_s, pause_s=NEVER_S)


GOOD = Candidate(1.0, b"i" * 16, 0, (0, 0), None, None, None, 1, 1)
BETTER = msgspec.structs.replace
GARBAGE = {
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n",
    "nothing": b"",
    "a page": reply(b"<html>Welcome to nginx</html>", kind="text/html"),
    "no page": reply(b"<html>404</html>", 404, "text/html"),
    "too busy": reply(b"Service Unavailable", 503, "text/plain"),
    "bytes": reply(b"\xc1\x00\xff" * 10),
    "half of it": reply(msgspec.msgpack.encode((1, 2, []))[:-1]),
    "brackets": reply(b"\x91" * 100_000),
    "another shape": packed({"total": 3}),
    "less than nothing": packed((1, -1, [])),
    "no id": packed((1, 1, [BETTER(GOOD, id=b"short")])),
    "no place": packed((1, 1, [BETTER(GOOD, place=(-1, 0))])),
    "no score": packed((1, 1, [BETTER(GOOD, score=math.nan)])),
    "more than asked for": packed((1, 9, [GOOD] * 9)),
    "trouble": reply(msgspec.msgpack.encode("it\nhurts " * 500), 500),
    "no sentence": reply(msgspec.msgpack.encode(7), 500),
    "somebody else": reply(msgspec.msgpack.encode("who are you?"), 401),
}


@pytest.mark.parametrize("name", GARBAGE)
def test_whatever_is_answered_is_an_answer_or_one_line(name):
    with run_fake_server(GARBAGE[name]) as liar:
        shard = a_shard(liar.url)
        with pytest.raises(ShardUnavailable) as caught:
            shard.top_matches(REDE, ShardStatistics(), 8)
        assert "\n" not in str(caught.value)
        assert 10 < len(str(caught.value)) <= remote_shard.MESSAGE_CHARS_MAX + 20
        with pytest.raises(ShardUnavailable):
            shard.documents()
        assert len(liar.heard) <= 2, "it is not asked again for now (libcurl itself repeats what got no answer at all)"
        shard.close()


def test_fewer_hits_than_asked_for_are_garbage():
    with run_fake_server(packed([])) as liar, pytest.raises(ShardUnavailable, match="cannot be understood"):
        a_shard(liar.url).show(REDE, 1, [(0, 0)])


@pytest.mark.parametrize(("code", "kind"), [(400, QueryError), (503, DataError)])
def test_what_a_shard_says_of_a_question_or_of_its_index_is_passed_on_and_does_not_make_it_away(code, kind):
    with run_fake_server(reply(msgspec.msgpack.encode("so\nit is"), code)) as liar:
        shard = a_shard(liar.url)
        for _ in range(2):
            with pytest.raises(kind, match=r"^so it is$"):
                shard.documents()
        assert len(liar.heard) == 2


def test_an_endless_answer_is_not_read_to_its_end(monkeypatch):
    monkeypatch.setattr(remote_shard, "RESPONSE_BYTES_MAX", 100_000)
    sent = threading.Event()

    def endless(connection: socket.socket) -> None:
        head = f"HTTP/1.1 200 X\r\nContent-Type: {CONTENT_TYPE}\r\n\r\n".encode()
        try:
            connection.sendall(head)
            while True:
                connection.sendall(b"\x00" * 65_536)
        except OSError:
            sent.set()

    with run_fake_server(endless) as liar, pytest.raises(ShardUnavailable, match="too long"):
        a_shard(liar.url).documents()
    assert sent.wait(PATIENCE_S)


def test_a_shard_that_is_closed_is_asked_no_more_and_its_connections_end(tmp_path):
    over = threading.Event()

    def keep(connection: socket.socket) -> None:
        connection.sendall(packed(7).replace(b"Connection: close\r\n", b""))
        if not connection.recv(1):
            over.set()

    with run_fake_server(keep) as liar:
        shard = a_shard(liar.url)
        assert shard.documents() == 7
        assert not over.is_set()
        shard.close()
        assert over.wait(PATIENCE_S)
        with pytest.raises(ShardUnavailable, match="the connection is closed"):
            shard.documents()
        assert len(liar.heard) == 1


def test_without_tls_a_token_goes_to_no_public_address_where_that_is_wanted(monkeypatch):
    monkeypatch.setattr(node_client, "is_forbidden_address", lambda address: False)  # as if loopback were public
    with run_fake_server(packed(7)) as liar:
        with pytest.raises(ShardUnavailable, match="without TLS a token is sent to no public address"):
            RemoteShard(liar.url, TOKEN, PATIENCE_S, NEVER_S, private=True).documents()
        assert TOKEN.secret not in b"".join(liar.heard)
        assert a_shard(liar.url).documents() == 7


def test_a_shard_that_answers_a_byte_at_a_time_has_no_more_time_than_others():
    done = threading.Event()

    def drip(connection: socket.socket) -> None:
        for byte in packed(7):
            if done.wait(0.05):
                return
            connection.sendall(bytes([byte]))

    with run_fake_server(drip) as liar:
        with pytest.raises(ShardUnavailable, match=r"no answer within 0\.3 s"):
            a_shard(liar.url, limit_s=0.3).documents()
        done.set()


def test_a_token_goes_nowhere_else():
    with run_fake_server(b"") as other:
        answer = f"HTTP/1.1 307 X\r\nLocation: {other.url}/\r\nContent-Length: 0\r\n\r\n".encode()
        with run_fake_server(answer) as liar:
            with pytest.raises(ShardUnavailable, match="no shard of Tarrafa"):
                a_shard(liar.url).documents()
            assert TOKEN.secret in liar.heard[0]
        assert other.heard == []


def test_a_shard_that_hangs_costs_one_search_its_time_limit_and_the_others_nothing(tmp_path, monkeypatch):
    own = open_local_shard(divided(tmp_path / "data", "1/2"))
    ended, asked = threading.Event(), list[str]()

    def hang(connection: socket.socket) -> None:
        ended.wait(PATIENCE_S)

    with run_fake_server(hang) as liar:
        shard = a_shard(liar.url, limit_s=0.2)
        post = shard._peer.post

        def counted(path: str, *more: Any) -> NodeHttpResponse:
            asked.append(path)
            return post(path, *more)

        monkeypatch.setattr(shard._peer, "post", counted)  # the liar may not have heard of it yet
        searcher = Searcher([own, shard])
        for _ in range(5):
            found = searcher.search(REDE)
            assert [str(report.trouble) for report in found.shards] == ["", "no answer within 0.2 s"]
            assert found.hits
        assert searcher.count_urls() == own.count_urls()
        assert len(asked) == 1
        ended.set()
        shard.close()


def test_a_shard_that_is_back_answers_again_by_itself(tmp_path):
    data = divided(tmp_path / "data", "1")
    with reserved_port() as port:
        shard = RemoteShard(f"http://127.0.0.1:{port}/", TOKEN, PATIENCE_S, pause_s=0.01)
        with RunningSite(data, shard_token=TOKEN, listening=bind("127.0.0.1", port)):
            assert shard.documents() == 155
        with pytest.raises(ShardUnavailable, match="no answer"):
            shard.documents()
        with RunningSite(data, shard_token=TOKEN, listening=bind("127.0.0.1", port)):
            assert shard._present.wait(PATIENCE_S)
            assert shard.statistics(REDE).documents == 155
        shard.close()


def test_one_that_only_answers_when_it_is_asked_after_is_asked_less_and_less():
    with run_fake_server(packed(155)) as liar:
        shard = RemoteShard(liar.url, TOKEN, PATIENCE_S, pause_s=0.001)
        pauses = []
        for _ in range(4):
            with pytest.raises(ShardUnavailable, match="cannot be understood"):
                shard.top_matches(REDE, ShardStatistics(), 8)
            assert shard._present.wait(PATIENCE_S)
            pauses.append(shard._pause_s)
        assert pauses == [0.002, 0.004, 0.008, 0.016]


def test_wrong_and_missing_tokens_are_told_apart_from_other_trouble(tmp_path, caplog):
    data = divided(tmp_path / "data", "1")
    with behind_a_url(data) as shard:
        for token in (Token(), Token(b"another token, as long")):
            with pytest.raises(ShardUnavailable, match=f"wrong token.*{TOKEN_VARIABLE}"):
                a_shard(shard.name, token=token).documents()
        assert shard.documents() == 155
    assert TOKEN.secret.decode() not in caplog.text


def test_another_version_is_told_by_name(tmp_path, monkeypatch):
    with behind_a_url(divided(tmp_path / "data", "1")) as shard:
        theirs = remote_shard.VERSION
        monkeypatch.setattr(remote_shard, "VERSION", "0badc0de")
        with pytest.raises(ShardUnavailable, match=f"another version.*{theirs} there, 0badc0de here"):
            shard.documents()


def test_the_version_is_made_of_what_is_said(monkeypatch):
    assert set(remote_shard.METHODS) >= {"documents", "statistics", "top_matches", "show"}
    assert remote_shard._version() == remote_shard.VERSION
    monkeypatch.setattr(remote_shard, "readings", lambda text: [("other", "words")])
    assert remote_shard._version() != remote_shard.VERSION


def test_what_is_no_address_of_a_shard_is_said():
    with pytest.raises(ConfigError, match=r"^--shard ftp://a: expected http://HOST:PORT or https://HOST$"):
        RemoteShard("ftp://a")


def test_a_frozen_shard_is_named_and_found_again_when_it_goes_on(tmp_path):
    data = divided(tmp_path / "there", "2/2")
    own = open_local_shard(divided(tmp_path / "here", "1/2"))
    with _serving(data) as (process, url):
        shard = RemoteShard(url, TOKEN, PATIENCE_S, pause_s=0.01)
        searcher = Searcher([own, shard])
        whole = searcher.search(SearchRequest("rede", n=100))
        assert [report.trouble for report in whole.shards] == ["", ""]
        process.send_signal(signal.SIGSTOP)
        shard._peer.timeout_s = 0.5
        less = searcher.search(SearchRequest("rede", n=100))
        assert str(less.shards[1].trouble) == "no answer within 0.5 s"
        assert 0 < less.total < whole.total
        process.send_signal(signal.SIGCONT)
        assert shard._present.wait(PATIENCE_S)
        shard._peer.timeout_s = PATIENCE_S
        assert searcher.search(SearchRequest("rede", n=100)).hits == whole.hits
        process.kill()
        process.wait()
        found = searcher.search(SearchRequest("rede", n=100))
        assert found.hits == less.hits
        assert "no answer" in str(found.shards[1].trouble)
        shard.close()


@contextmanager
def _serving(data: DataDirectory) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`tarrafa serve --as-shard` in a process of its own."""
    program = "from tarrafa.cli import main; main()"
    line = [sys.executable, "-c", program, "serve", "--as-shard", "--port", "0", "--data", str(data.root)]
    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, text=True, env=os.environ | {TOKEN_VARIABLE: TOKEN.secret.decode()}
    )
    assert process.stdout is not None
    try:
        said = [process.stdout.readline() for _ in range(2)]
        yield process, said[1].split()[-1]
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


# -- reasons ----------------------------------------------------------------------------------------------------------


def test_a_reason_crosses_the_wire_as_a_message_and_is_said_in_the_readers_language():
    sent = message("no answer within {seconds:g} s", seconds=2.5)
    got = remote_shard.decode_reason(remote_shard.encode(sent))
    assert got == sent
    assert PORTUGUESE.render(got) == "nenhuma resposta em 2,5 s"


@pytest.mark.parametrize(
    "reason",
    [
        {"text": "x" * 1000},
        {"text": "{a}", "values": {"a": {"text": "{a}{a}", "values": {"a": "b"}}}},
        {"text": "{a}", "values": {"a": "b" * 1000}},
        {"text": "{a}", "values": {f"a{n}": n for n in range(50)}},
        {"text": "{a:zz}", "values": {"a": 1}},
        {"values": {}},
        7,
    ],
)
def test_a_reason_out_of_bounds_is_not_understood(reason):
    with pytest.raises(remote_shard.DECODE_ERRORS):
        remote_shard.decode_reason(remote_shard.encode(reason))


def test_a_reason_is_one_line_and_its_places_reach_nothing():
    sent = {"text": "a\nb {x.__class__} {x:>999999999} {x}", "values": {"x": "c\nd"}}
    got = remote_shard.decode_reason(remote_shard.encode(sent))
    assert str(got) == "a b {x.__class__} {x:>999999999} c d"
