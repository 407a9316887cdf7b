"""The server on its sockets."""

import asyncio
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tarrafa.clock import Clock
from tarrafa.errors import ListenError
from tarrafa.testweb import UrlForm, WebServer, World, read_log, start_process
from tarrafa.testweb.http.connection import HEAD_BYTES_MAX
from tests.testweb.web_in_thread import WebInThread

WORLD = World(hosts=16, pages=200, hostile=True)


class RawConnection:
    """A bare connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.stream = self.socket.makefile("rb")

    def send(self, text: str) -> None:
        self.socket.sendall(text.encode())

    def receive(self, body: bool = True) -> tuple[int, dict[str, str], bytes]:
        status = int(self.stream.readline().split()[1])
        headers = {}
        while line := self.stream.readline().strip():
            name, _, value = line.decode().partition(": ")
            headers[name.lower()] = value
        if body and headers.get("transfer-encoding") == "chunked":
            return status, headers, b"".join(self._chunks())
        return status, headers, self.stream.read(int(headers.get("content-length", "0"))) if body else b""

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.stream.readline(), 16):
            yield self.stream.read(size)
            self.stream.readline()
        self.stream.readline()

    def ended(self) -> bool:
        return self.stream.read(1) == b""


@pytest.fixture(scope="module")
def web():
    with WebInThread(WORLD) as web:
        yield web


def test_a_connection_is_kept_and_pipelined_requests_are_answered_in_order(web):
    wire = RawConnection(web.port)
    names = [WORLD.host(no).name for no in range(1, 17)] * 8
    wire.send("".join(f"GET / HTTP/1.1\r\nHost: {name}\r\n\r\n" for name in names))
    for name in names:
        status, _, body = wire.receive()
        assert status == 200
        assert f"redacao@{name}".encode() in body


def test_a_request_may_come_in_pieces(web):
    wire = RawConnection(web.port)
    for piece in ("GET /robo", "ts.txt HTT", "P/1.1\r\nHo", "st: h0001.br.test\r\nX: ", "y\r\n\r", "\n"):
        wire.send(piece)
    assert wire.receive()[0] in (200, 404)


def test_connection_close_and_http_1_0_end_the_connection(web):
    for text in (
        "GET / HTTP/1.1\r\nHost: h0001.br.test\r\nConnection: close\r\n\r\n",
        "GET / HTTP/1.0\r\nHost: h0001.br.test\r\n\r\n",
    ):
        wire = RawConnection(web.port)
        wire.send(text)
        status, headers, body = wire.receive()
        assert (status, headers["connection"]) == (200, "close")
        assert len(body) > 1000
        assert wire.ended()


def test_head_has_the_header_of_get_and_no_body(web):
    wire = RawConnection(web.port)
    wire.send("HEAD / HTTP/1.1\r\nHost: h0001.br.test\r\n\r\nGET / HTTP/1.1\r\nHost: h0001.br.test\r\n\r\n")
    status, head, _ = wire.receive(body=False)
    again, get, body = wire.receive()
    assert (status, again) == (200, 200)
    assert head["content-length"] == get["content-length"] == str(len(body))


ODD = [
    ("\x00\x01nonsense\r\n\r\n", 400),
    (f"GET / HTTP/1.1\r\nX: {'y' * HEAD_BYTES_MAX}", 431),
    ("POST / HTTP/1.1\r\nHost: h0001.br.test\r\nContent-Length: 3\r\n\r\nabc", 405),
    ("GET / HTTP/1.1\r\nHost: nobody.test\r\n\r\n", 404),
    ("GET /__nada__ HTTP/1.1\r\nHost: h0001.br.test\r\n\r\n", 404),
    ("GET http://h0001.br.test/ HTTP/1.1\r\nHost: proxy\r\n\r\n", 200),
    ("GET http://h0001.br.test HTTP/1.1\r\n\r\n", 200),
    ("GET / HTTP/1.1\r\nHost: H0001.BR.TEST:8090\r\n\r\n", 200),
    ("GET / HTTP/1.1\r\n\r\n", 200),
]


@pytest.mark.parametrize(("text", "status"), ODD)
def test_odd_requests_get_their_status(web, text, status):
    wire = RawConnection(web.port)
    wire.send(text)
    assert wire.receive()[0] == status


def test_the_server_counts_its_own_cpu(web):
    first = json.loads(web.get(f"http://127.0.0.1:{web.port}/__stats__").body)
    web.get(WORLD.root(1))
    second = json.loads(web.get(f"{WORLD.root(1)}__stats__").body)
    assert second["requests"] == first["requests"] + 1
    assert second["cpu_s"] > first["cpu_s"]
    assert second["uptime_s"] > first["uptime_s"]
    assert second["bytes"] > first["bytes"] + 1000


def test_every_host_answers_at_its_own_address_and_links_only_there():
    with WebInThread(WORLD, addresses=True) as web:
        form = UrlForm(web.port)
        for no in range(1, 17):
            answer = web.get(WORLD.root(no, form))
            assert answer.status == 200
            assert f"redacao@{WORLD.host(no).name}".encode() in answer.body, "the right host"
            assert b".test/" not in answer.body
        shared = WORLD.authority(8, form)
        assert shared == f"{WORLD.authority(7, form).partition(':')[0]}:{web.port + 1}"


def test_a_clock_that_runs_faster_moves_the_web():
    frozen, later = Clock(1.8e9, 0.0, 1e-9), Clock(1.8e9 + 400 * 86_400, 0.0, 1e-9)
    etags = []
    for clock in (frozen, later):
        with WebInThread(WORLD, clock=clock) as web:
            answer = web.get(next(WORLD.root(no) for no in range(1, 17) if WORLD.host(no).validators))
            etags.append(answer.headers["etag"])
            assert answer.headers["date"].endswith(("08:00:00 GMT",))
    assert etags[0] != etags[1]


def test_a_port_in_use_is_said_in_one_line(web):
    with pytest.raises(ListenError) as error:
        asyncio.run(WebServer(WORLD, port=web.port).start())
    assert str(error.value) == f"127.0.0.1:{web.port}: the port is already in use; choose another with --port"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org", ""])
def test_only_loopback_is_listened_on(host):
    with pytest.raises(ListenError, match="loopback only"):
        WebServer(WORLD, host)


def test_a_process_serves_the_same_world_and_tells_what_it_did(tmp_path):
    log_path = tmp_path / "log.jsonl"
    with start_process(WORLD, log_path=log_path, clock=Clock(1.8e9, 0.0, 1e-9)) as process:
        wire = RawConnection(process.port)
        wire.send("GET / HTTP/1.1\r\nHost: h0001.br.test\r\n\r\n")
        _, headers, body = wire.receive()
        assert process.stats().requests == 1
        process.flush_log()
        assert len(read_log(log_path)) == 1
        stats = process.stop()
    assert (stats.requests, stats.statuses) == (1, {200: 1})
    assert stats.cpu_s > 0
    assert "requests served: 1," in stats.sentence()
    with WebInThread(World(hosts=16, pages=200), clock=Clock(1.8e9, 0.0, 1e-9)) as web:
        here = web.get(WORLD.root(1))
    assert (here.body, here.headers) == (body, headers)


def test_a_process_that_cannot_listen_says_why(web):
    with pytest.raises(ListenError, match="already in use"):
        start_process(WORLD, port=web.port)


def test_a_process_dies_with_its_parent_and_leaves_a_whole_log(tmp_path):
    log_path = tmp_path / "log.jsonl"
    program = (
        "import sys, time; from pathlib import Path; from tarrafa.testweb import *\n"
        f"process = start_process(World(hosts=16, pages=200), log_path=Path({str(log_path)!r}))\n"
        "print(process.process.pid, process.port, flush=True); sys.stdin.read()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid, port = map(int, parent.stdout.readline().split())
    child = os.pidfd_open(pid)
    wire = RawConnection(port)
    wire.send("GET / HTTP/1.1\r\nHost: h0001.br.test\r\n\r\n")
    wire.receive()
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    assert select.select([child], [], [], 60)[0], "the child outlived its parent"
    os.close(child)
    assert len(read_log(log_path)) == 1


def test_a_page_costs_little():
    """A loose bound, for a shared machine: a quiet core serves some 6,000 a second."""
    from tarrafa.testweb import BY_NAME
    from tarrafa.testweb.http.web_response import WebRequest, make_response
    from tarrafa.testweb.world.resources import link_target

    pages = [(no, link_target(WORLD, no, n).path) for no in range(1, 17) for n in range(WORLD.host(no).open)]
    started = time.process_time()
    for no, path in pages:
        make_response(WORLD, no, BY_NAME, WebRequest("GET", path), 1.8e9).encode(1.8e9, keep_alive=True)
    assert (time.process_time() - started) / len(pages) < 0.002
