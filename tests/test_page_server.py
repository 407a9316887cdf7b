"""The two page servers of the benchmarks, in C and in Python, answer the same bytes."""

import socket
from pathlib import Path
from typing import BinaryIO

import pytest
from benchmarks import page_server
from benchmarks.answer_file import Answer, write_answers

TEMPLATE = b"<html><title>@@@@</title><a href='http://h1.bench.test/@@@@@@@@.html'>next</a></html>"
REQUESTS = {
    "a page": "GET /a.html HTTP/1.1\r\nHost: h1.bench.test:20000\r\n\r\n",
    "a host in capitals": "GET /a.html HTTP/1.1\r\nhost: H1.bench.test\r\n\r\n",
    "the same path elsewhere": "GET /a.html HTTP/1.1\r\nHost: h2.bench.test\r\n\r\n",
    "robots.txt": "GET /robots.txt HTTP/1.1\r\nHost: h3.bench.test\r\n\r\n",
    "an unknown URL": "GET /none.html HTTP/1.1\r\nHost: h1.bench.test\r\n\r\n",
    "a large page": "GET /large.html HTTP/1.1\r\nHost: h1.bench.test\r\n\r\n",
}


@pytest.fixture(params=[(), (TEMPLATE,)], ids=["without templates", "with templates"])
def answers(tmp_path, request):
    pages = [("h1", "/a.html", b"one"), ("h2", "/a.html", b"two"), ("h1", "/large.html", b"x" * 3_000_000)]
    path = tmp_path / "answers"
    write_answers(path, [Answer(f"{host}.bench.test", place, body) for host, place, body in pages], request.param)
    return path


def served(answers: Path, folder: Path) -> tuple[str, dict[str, tuple[bytes, bytes]], tuple[int, ...]]:
    """All answers over one connection, with the requests sent at once, and the statistics."""
    port = page_server.free_port()
    with (
        page_server.start_server(answers, port, folder) as server,
        socket.create_connection(("127.0.0.1", port)) as sock,
    ):
        sock.sendall("".join(REQUESTS.values()).encode())
        stream = sock.makefile("rb")
        found = {name: read_answer(stream) for name in REQUESTS}
        stats, times = server.stats(), server.stop()
    assert len(times) == stats.pages and all(start <= end for start, end in times)
    return server.kind, found, (stats.requests, stats.pages, stats.robots, stats.missing, stats.sent_bytes)


def read_answer(stream: BinaryIO) -> tuple[bytes, bytes]:
    head = b"".join(iter(stream.readline, b"\r\n"))
    length = next(int(line[15:]) for line in head.splitlines() if line.startswith(b"Content-Length:"))
    return head, stream.read(length)


def test_both_servers_answer_the_same_bytes(answers, tmp_path, monkeypatch):
    kind, in_c, counts = served(answers, tmp_path)
    if kind != "C":
        pytest.skip("no C compiler")
    monkeypatch.setattr(page_server, "compiled", lambda *_: None)
    kind, in_python, counted = served(answers, tmp_path)
    assert kind != "C"
    assert in_python == in_c
    assert counted == counts
    assert in_c["a page"][1] == in_c["a host in capitals"][1] == b"one"
    assert in_c["the same path elsewhere"][1] == b"two"
    assert b"@" not in in_c["an unknown URL"][1]
