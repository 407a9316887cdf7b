"""Starts the page server: `page_server.c` where a C compiler is found, else the same server on uvloop in this file.

Promises: when `start_server` returns, the server listens. It ends with this process, even if that is killed.
Knows nothing of what is served. The protocol on stdin and stdout is described in `page_server.c`.
"""

import array
import asyncio
import contextlib
import hashlib
import os
import random
import resource
import shutil
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import msgspec

from benchmarks.answer_file import AnswerFile

SOURCES = Path(__file__).parent
REQUEST_BYTES_MAX = 8192
COMPILE_S_MAX, STOP_S_MAX = 60.0, 30.0
PORTS = range(20_000, 30_000)  # below the ports that the kernel gives to clients


def cache_folder() -> Path:
    """Where benchmarks keep what they compile, download and install."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tarrafa"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def compiled(source: str, *options: str) -> Path | None:
    """A C file of this folder, compiled once into the cache; None without compiler or library."""
    text = (SOURCES / source).read_bytes()
    name = hashlib.sha256(text + " ".join(options).encode()).hexdigest()[:16]
    program = cache_folder() / f"{Path(source).stem}-{name}"
    compiler = shutil.which("cc")
    if not program.exists() and compiler is not None:
        with contextlib.suppress(subprocess.SubprocessError):
            built = program.with_suffix(f".{os.getpid()}")
            command = [compiler, "-O2", "-o", str(built), str(SOURCES / source), *options]
            subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_S_MAX)
            built.rename(program)
    return program if program.exists() else None


def free_port() -> int:
    """A port that is free now, chosen by chance: two benchmarks may run at once, and each opens its port again."""
    for port in random.sample(PORTS, len(PORTS)):
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", port))
            return port
    raise SystemExit(f"no free port from {PORTS.start} to {PORTS.stop - 1}")


class Certificate(msgspec.Struct, frozen=True):
    """Files of a certificate that signs itself."""

    certificate: Path
    key: Path


def make_certificate(folder: Path, name: str) -> Certificate:
    """A certificate for all hosts below a name. Needs the command `openssl`."""
    made = Certificate(folder / "certificate.pem", folder / "key.pem")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "30", "-subj", "/CN=Tarrafa benchmark", "-addext", f"subjectAltName=DNS:*.{name}"]
    command += ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(command, check=True, capture_output=True, timeout=COMPILE_S_MAX)
    return made


class ServerStats(msgspec.Struct, frozen=True):
    """What a page server has done so far. Times are those of `time.monotonic`."""

    requests: int
    pages: int
    robots: int
    missing: int
    sent_bytes: int
    connections: int
    first_s: float
    last_s: float
    cpu_s: float


class PageServer:
    """A page server that runs, in another process."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, kind: str) -> None:
        self._process, self._log, self.kind = process, log, kind

    def stats(self) -> ServerStats:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=ServerStats)

    def stop(self) -> list[tuple[float, float]]:
        """End the server; the times of each page: when its request was complete, and when its answer was sent."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(STOP_S_MAX)
        times = array.array("d", self._log.read_bytes())
        return list(zip(times[::2], times[1::2], strict=True))


@contextmanager
def start_server(
    answers: Path, port: int, folder: Path, certificate: Certificate | None = None
) -> Iterator[PageServer]:
    """Serve a file of answers while the context lasts."""
    options = ["-DWITH_TLS", "-lssl", "-lcrypto"] if certificate is not None else []
    program, log = compiled("page_server.c", *options), folder / "pages.log"
    python = [sys.executable, "-m", "benchmarks.page_server"]
    command = [*([str(program)] if program is not None else python), str(answers), str(port), str(log)]
    if certificate is not None:
        command += [str(certificate.certificate), str(certificate.key)]
    kind = "C" if program is not None else "Python (no C compiler)"
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=SOURCES.parent)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"ready\n":
            raise SystemExit(f"the page server does not start: {' '.join(command)}")
        yield PageServer(process, log, kind)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


class _Counts:
    """What the server in Python has done."""

    def __init__(self) -> None:
        self.requests = self.robots = self.missing = self.sent_bytes = self.connections = 0
        self.first_s, self.times = 0.0, array.array("d")

    def stats(self) -> ServerStats:
        used = resource.getrusage(resource.RUSAGE_SELF)
        last_s = self.times[-1] if self.times else 0.0
        return ServerStats(
            self.requests, len(self.times) // 2, self.robots, self.missing, self.sent_bytes, self.connections,
            self.first_s, last_s, used.ru_utime + used.ru_stime,
        )  # fmt: skip


class _PageProtocol(asyncio.Protocol):
    """One connection to the server in Python."""

    def __init__(self, answers: AnswerFile, counts: _Counts) -> None:
        self._answers, self._counts, self._received = answers, counts, b""
        counts.connections += 1

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        self._received += data
        while (end := self._received.find(b"\r\n\r\n")) >= 0:
            request, self._received = self._received[:end], self._received[end + 4 :]
            self._reply(request.decode("latin-1"), time.monotonic())
        if len(self._received) > REQUEST_BYTES_MAX:
            self._transport.close()

    def _reply(self, request: str, started: float) -> None:
        first, *lines = request.split("\r\n")
        path, counts = first.split(" ")[1], self._counts
        host = next((line[5:].strip().lower() for line in lines if line[:5].lower() == "host:"), "")
        counts.first_s = counts.first_s or started
        counts.requests += 1
        page = None
        if path == "/robots.txt":
            counts.robots += 1
            answer = self._answers.robots
        else:
            page = self._answers.page(host.partition(":")[0] + path)
            counts.missing += page is None
            answer = self._answers.missing if page is None else page
        self._transport.write(answer)
        counts.sent_bytes += len(answer)
        if page is not None:
            counts.times.extend((started, time.monotonic()))


async def _serve(answers: str, port: str, log: str, *certificate: str) -> None:
    context, counts, file = None, _Counts(), AnswerFile(Path(answers))
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*certificate)
    loop = asyncio.get_running_loop()
    await loop.create_server(
        lambda: _PageProtocol(file, counts), "127.0.0.1", int(port), ssl=context, backlog=4096, reuse_address=True
    )
    ended = asyncio.Event()

    def answer_stdin() -> None:
        if os.read(0, 256):
            print(msgspec.json.encode(counts.stats()).decode(), flush=True)
        else:
            ended.set()

    loop.add_reader(0, answer_stdin)
    print("ready", flush=True)
    await ended.wait()
    Path(log).write_bytes(counts.times.tobytes())


if __name__ == "__main__":
    import uvloop

    uvloop.run(_serve(*sys.argv[1:]))
