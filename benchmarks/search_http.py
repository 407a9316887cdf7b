"""How many searches a second does `tarrafa serve` answer that no cache has seen, and at what cost?

    python benchmarks/search_http.py SRC [SRC ...] --keep FOLDER     each version of the source, in turns

FOLDER is one that benchmarks/search.py made (`--documents`). CONNECTIONS connections ask for ten hits as JSON, each as
soon as it has its answer: two or three words of the documents at random, some of them required. The client runs on the
same machine, in one thread, and takes its share, which is printed; the processor time of the server and its processes
a query is comparable on a busy machine, too. `--cached`: one question again and again, which shows what HTTP costs.
"""

import argparse
import os
import random
import select
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search import ALL, ANY, questions

CONNECTIONS, SECONDS, ROUNDS = 8, 4.0, 3
START_S_MAX = 60.0
HEAD_END, LENGTH = b"\r\n\r\n", b"content-length: "


class Load(NamedTuple):
    """Queries a second, and processor time of each in seconds: of the server with its processes, and of the client."""

    rate: float
    server_s: float
    client_s: float


class Server:
    """`tarrafa serve` of one version of the source."""

    def __init__(self, source: Path, data: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address: tuple[str, int] = free.getsockname()
        command = [sys.executable, "-c", "from tarrafa.cli import main; main()", "serve"]
        self.process = subprocess.Popen(
            [*command, "--data", str(data), "--port", str(self.address[1])],
            env=os.environ | {"PYTHONPATH": str(source)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until and self.process.poll() is None:
            try:
                socket.create_connection(self.address).close()
                return
            except OSError:
                time.sleep(0.1)
        raise SystemExit(f"{source}: the server did not start")

    def cpu_s(self) -> float:
        """Of the server and the processes that it has started."""
        found = 0.0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(stat.parent.name) == self.process.pid or int(fields[1]) == self.process.pid:
                found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        return found

    def load(self, words: list[str], seed: str, seconds: float = SECONDS) -> Load:
        rng, asked = random.Random(seed), 0
        connections = [socket.create_connection(self.address) for _ in range(CONNECTIONS)]
        by_number, received = {one.fileno(): one for one in connections}, dict.fromkeys(connections, b"")
        waiting = select.epoll()
        for one in connections:
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting.register(one, select.EPOLLIN)
        cpu_s, own_s, began = self.cpu_s(), time.process_time(), time.perf_counter()
        for one in connections:
            one.sendall(_request(rng, words))
        while time.perf_counter() < began + seconds:
            for number, _ in waiting.poll(1.0):
                one = by_number[number]
                received[one] += one.recv(1 << 16)
                if _is_whole(received[one]):
                    received[one] = b""
                    one.sendall(_request(rng, words))
                    asked += 1
        took, own_s, cpu_s = time.perf_counter() - began, time.process_time() - own_s, self.cpu_s() - cpu_s
        for one in connections:
            one.close()
        return Load(asked / took, cpu_s / max(asked, 1), own_s / max(asked, 1))


def some_words(rng: random.Random, words: list[str]) -> str:
    """Two or three words, some of them required."""
    return " ".join(("+" if rng.random() < 0.5 else "") + word for word in rng.sample(words, rng.choice((2, 3))))


def _request(rng: random.Random, words: list[str]) -> bytes:
    text = some_words(rng, words) if len(words) > 1 else words[0]
    return f"GET /search.json?q={quote(text)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def _is_whole(response: bytes) -> bool:
    head, end, body = response.partition(HEAD_END)
    if not end:
        return False
    if b" 200 " not in head[:20]:
        raise SystemExit(f"an answer is no 200: {head[:100]!r}")
    return len(body) >= int(head.lower().partition(LENGTH)[2].partition(b"\r")[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Searches a second over HTTP, uncached.")
    parser.add_argument("source", type=Path, nargs="+", help="the folder src of a version")
    parser.add_argument("--keep", type=Path, required=True, help="the folder that benchmarks/search.py has made")
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--cached", action="store_true", help="the same question, which the cache answers")
    options = parser.parse_args()
    asked = questions(options.documents)
    words = sorted({word for kind in (ALL, ANY) for question in asked[kind] for word in question.words})
    words = words[:1] if options.cached else words
    servers = {source: Server(source, options.keep / "data") for source in options.source}
    try:
        for server in servers.values():
            server.load(words, "first")
        for number in range(options.rounds):
            for source, server in servers.items():
                load = server.load(words, str(number))
                print(
                    f"{source!s:<30}{load.rate:8.0f} queries a second; ms of processor time each: server"
                    f"{1000 * load.server_s:6.2f}, client{1000 * load.client_s:6.2f}; a second of the server's answers"
                    f"{1 / load.server_s:6.0f}",
                    flush=True,
                )
    finally:
        for server in servers.values():
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
