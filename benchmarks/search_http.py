"""How many searches a second does `tarrafa serve` answer that no cache has seen, and at what cost?

    python benchmarks/search_http.py SRC [SRC ...] --keep FOLDER     each version of the source, in turns

FOLDER is one that benchmarks/search.py made (`--documents`). CONNECTIONS connections ask for ten hits as JSON, each as
soon as it has its answer: two or three words of the documents at random, some of them required. The client runs on the
same machine and takes its share; the processor time of the server a query is comparable on a busy machine, too.
"""

import argparse
import os
import random
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from urllib.parse import quote

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.search import ALL, ANY, questions

CONNECTIONS, SECONDS, ROUNDS = 8, 4.0, 3
START_S_MAX = 60.0


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
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def load(self, words: list[str], seed: str) -> tuple[float, float]:
        """Queries a second, and the server's processor time of each in seconds."""
        counts, until = [0] * CONNECTIONS, time.perf_counter() + SECONDS

        def ask(number: int) -> None:
            rng = random.Random(f"{seed} {number}")
            with socket.create_connection(self.address) as connection, connection.makefile("rb") as answers:
                while time.perf_counter() < until:
                    some = rng.sample(words, 2 + counts[number] % 2)
                    text = " ".join(("+" if rng.random() < 0.5 else "") + word for word in some)
                    connection.sendall(f"GET /search.json?q={quote(text)} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                    if b" 200 " not in answers.readline():
                        raise SystemExit("an answer is no 200")
                    length = 0
                    while (line := answers.readline()) not in (b"\r\n", b""):
                        if line.lower().startswith(b"content-length:"):
                            length = int(line.partition(b":")[2])
                    answers.read(length)
                    counts[number] += 1

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(CONNECTIONS)]
        cpu_s, began = self.cpu_s(), time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = max(sum(counts), 1)
        return asked / (time.perf_counter() - began), (self.cpu_s() - cpu_s) / asked


def main() -> None:
    parser = argparse.ArgumentParser(description="Searches a second over HTTP, uncached.")
    parser.add_argument("source", type=Path, nargs="+", help="the folder src of a version")
    parser.add_argument("--keep", type=Path, required=True, help="the folder that benchmarks/search.py has made")
    parser.add_argument("--documents", type=int, default=200_000)
    options = parser.parse_args()
    asked = questions(options.documents)
    words = sorted({word for kind in (ALL, ANY) for question in asked[kind] for word in question.words})
    servers = {source: Server(source, options.keep / "data") for source in options.source}
    try:
        for server in servers.values():
            server.load(words, "first")
        for number in range(ROUNDS):
            for source, server in servers.items():
                rate, cpu_s = server.load(words, str(number))
                print(
                    f"{source!s:<40}{rate:8.0f} queries a second{1000 * cpu_s:8.2f} ms of processor time each",
                    flush=True,
                )
    finally:
        for server in servers.values():
            server.process.terminate()
            server.process.wait()


if __name__ == "__main__":
    main()
