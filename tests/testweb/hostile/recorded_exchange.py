"""A visit to a corner without a socket and without waiting: its handler runs until it ends, or has had enough."""

import gzip
import zlib
from collections import Counter
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tarrafa.clock import Clock
from tarrafa.testweb.hostile import HostileExchange, hostile_host_of
from tarrafa.testweb.http.web_response import WebRequest

CLOCK = Clock(1.8e9, 0.0, 1e-9)
AGENT = "Tarrafa/1.0"
BYTES_MAX = 4_000_000
SLEEPS_MAX = 30


class ClientGone(Exception):
    """The client goes."""


@dataclass
class RecordedExchange:
    """All that a handler did."""

    data: bytes = b""
    status: int = 0  # for the log
    ends: str = ""  # how it ended the connection by itself
    sleeps: list[float] = field(default_factory=list)
    endless: bool = False  # it was left, and would have gone on

    @property
    def head(self) -> str:
        return self.data.partition(b"\r\n\r\n")[0].decode("latin-1")

    @property
    def body(self) -> bytes:
        """Without its codings."""
        body = self.data.partition(b"\r\n\r\n")[2]
        if self.header("transfer-encoding") == "chunked":
            body = unchunk(body)
        for coding in reversed(self.header("content-encoding").lower().replace(" ", "").split(",")):
            body = unpack(body, coding)
        return body

    @property
    def code(self) -> int:
        return int(self.head.split()[1])

    def header(self, name: str) -> str:
        found = [
            line.partition(":")[2].strip() for line in self.head.split("\r\n") if line.lower().startswith(name + ":")
        ]
        return found[0] if found else ""

    @property
    def type(self) -> str:
        return self.header("content-type").partition(";")[0].lower()


def unchunk(body: bytes) -> bytes:
    parts = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if not length:
            break
        parts.append(rest[:length])
        body = rest[length + 2 :]
    return b"".join(parts)


def unpack(body: bytes, coding: str) -> bytes:
    if coding in ("gzip", "x-gzip"):
        return gzip.decompress(body)
    if coding == "deflate":
        return zlib.decompress(body, 15 if body[0] & 15 == 8 else -15)
    if coding == "br":
        import brotli

        packed: bytes = brotli.decompress(body)
        return packed
    if coding == "zstd":
        import zstandard

        unpacked: bytes = zstandard.ZstdDecompressor().decompress(body)
        return unpacked
    return body


def request_hostile_url(
    url: str, memory: Counter[str] | None = None, agent: str = AGENT, cookie: str = ""
) -> RecordedExchange:
    parts = urlsplit(url)
    assert parts.hostname
    found = hostile_host_of(parts.hostname)
    assert found, url
    seen, pieces = RecordedExchange(), []

    def write(data: bytes) -> None:
        pieces.append(data)
        if sum(map(len, pieces)) > BYTES_MAX:
            raise ClientGone

    async def sleep(seconds: float) -> None:
        seen.sleeps.append(seconds)
        if len(seen.sleeps) > SLEEPS_MAX:
            raise ClientGone

    def end(how: str) -> None:
        seen.ends = seen.ends or how

    target = url.removeprefix(f"{parts.scheme}://{parts.netloc}")
    request = WebRequest("GET", target, parts.netloc, agent, cookie=cookie)
    exchange = HostileExchange(request, CLOCK, write, lambda: end("close"), sleep, abort=lambda: end("abort"))
    exchange.request_counts = Counter() if memory is None else memory
    work = found.handler(exchange)
    try:
        next(work.__await__())
    except StopIteration:
        pass
    except ClientGone:
        seen.endless = True
    else:
        raise AssertionError(f"{url}: a corner waits for something that is neither time nor the client")
    seen.data, seen.status = b"".join(pieces), exchange.status
    return seen
