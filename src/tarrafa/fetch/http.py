"""What did the server say, in its own bytes?

The shapes of a request and its answer, and the pure functions that read a header block and undo the encodings of a
body. Everything here is bounded: a megabyte that unpacks to a gigabyte is cut where the caller's limit is.
"""

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime

import msgspec

from tarrafa.model import Status

HEADER_BYTES_MAX = 256 << 10
CHUNK_LINE_MAX = 1 << 10
GZIP_MEMBERS_MAX = 64
CODE = re.compile(r"[1-5][0-9][0-9]")
MIME = re.compile(r"[a-z0-9!#$&^_.+-]{1,60}/[a-z0-9!#$&^_.+-]{1,60}")


class Head(msgspec.Struct, frozen=True):
    """A status line and its header fields, names in lower case."""

    code: int
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """The first field of that name, or an empty text."""
        return next((value for key, value in self.fields if key == name), "")

    def joined(self, name: str, glue: str = ", ") -> str:
        """All fields of that name, as one comma-separated list (RFC 9110 section 5.3)."""
        return glue.join(value for key, value in self.fields if key == name)

    @property
    def content_type(self) -> str:
        """The MIME type alone, in lower case, or an empty text if it is none."""
        kind = self.get("content-type").partition(";")[0].strip().lower()
        return kind if MIME.fullmatch(kind) else ""


@dataclass(slots=True)
class Request:
    """One GET. `verdict` may refuse the answer as soon as its head is there: the transfer is cut."""

    url: str
    headers: list[tuple[str, str]]
    connect_to: str | None = None  # address:port that the host is reached at
    address: str | None = None  # the vetted address of the host's name
    size_max: int = 2_000_000
    time_max_s: float = 600.0
    connect_timeout_s: float = 20.0
    stall_timeout_s: float = 60.0
    verdict: Callable[[Head], int] = field(default=lambda head: 0)


@dataclass(slots=True)
class Response:
    """What came back. `status` is the HTTP code, or why there is none, or why the body is not whole."""

    status: int
    head: Head = field(default=Head(0, ()))
    raw_head: bytes = b""
    raw_body: bytes = b""
    address: str = ""
    elapsed_s: float = 0.0
    error: str = ""


def parse_head(block: bytes) -> Head | None:
    """A raw header block as HTTP/1.x servers send it, folded lines joined; None if it is no such thing."""
    lines = block.decode("latin-1").split("\n")
    parts = lines[0].split(None, 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/") or not CODE.fullmatch(parts[1]):
        return None
    fields: list[tuple[str, str]] = []
    for line in lines[1:]:
        text = line.rstrip("\r")
        if text[:1] in (" ", "\t") and fields:
            fields[-1] = (fields[-1][0], f"{fields[-1][1]} {text.strip()}".strip())
        elif ":" in text:
            name, _, value = text.partition(":")
            fields.append((name.strip().lower(), value.strip()))
    return Head(int(parts[1]), tuple(fields))


class Undecodable(ValueError):
    """The body does not keep its header's promise."""


class TooLarge(ValueError):
    """The body unpacks to more than allowed."""


def header_lines(request: Request) -> list[bytes]:
    """As they are sent: one line each, whatever a server or a configuration put into them."""
    lines = (f"{name}: {value}" for name, value in request.headers)
    return [line.replace("\r", " ").replace("\n", " ").encode("latin-1", "replace") for line in lines]


def decode_body(head: Head, raw: bytes, size_max: int, *, prefix: bool = False) -> bytes:
    """The body without its transfer and content encodings; never more than `size_max` bytes of it.

    What is larger is an error, or, as `prefix`, cut there.
    """
    body = raw
    if "chunked" in head.joined("transfer-encoding").lower():
        body = _unchunk(body)
    codings = [coding.strip() for coding in head.joined("content-encoding").lower().split(",")]
    for coding in reversed([coding for coding in codings if coding and coding != "identity"]):
        if coding in {"gzip", "x-gzip"}:
            body = _inflate(body, size_max, 31)
        elif coding == "deflate":  # zlib by the standard, raw by custom
            try:
                body = _inflate(body, size_max, 15)
            except Undecodable:
                body = _inflate(body, size_max, -15)
        else:
            raise Undecodable(f"content encoding {coding[:40]!r}")
    if len(body) > size_max and not prefix:
        raise TooLarge
    return body[:size_max]


def _unchunk(raw: bytes) -> bytes:
    """RFC 9112 section 7.1; a body that ends too soon gives what was there."""
    parts: list[bytes] = []
    position = 0
    while True:
        end = raw.find(b"\n", position, position + CHUNK_LINE_MAX)
        if end < 0:
            if parts:
                break
            raise Undecodable("no chunk length")
        try:
            length = int(raw[position:end].partition(b";")[0].strip(), 16)
        except ValueError:
            raise Undecodable("bad chunk length") from None
        if length <= 0:
            break
        parts.append(raw[end + 1 : end + 1 + length])
        position = end + 1 + length
        position += 2 if raw[position : position + 2] == b"\r\n" else 1
        if position >= len(raw):
            break
    return b"".join(parts)


def _inflate(data: bytes, size_max: int, window: int) -> bytes:
    """All members of a gzip or zlib stream, to one byte beyond the limit; what ends too soon gives what was there."""
    parts: list[bytes] = []
    size = 0
    while data and size <= size_max and len(parts) < GZIP_MEMBERS_MAX:
        unzip = zlib.decompressobj(wbits=window)
        try:
            part = unzip.decompress(data, size_max + 1 - size)
        except zlib.error as error:
            if parts:
                break  # rubbish after the last member
            raise Undecodable(str(error)) from None
        parts.append(part)
        size += len(part)
        data = unzip.unused_data
    return b"".join(parts)


def retry_after(head: Head, now: float) -> float:
    """Seconds that a server asks us to stay away, 0 if it does not say."""
    text = head.get("retry-after")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def truncation(status: int) -> str:
    """How WARC names the reason that a body is not whole."""
    return {Status.TOO_LARGE: "length", Status.TOO_SLOW: "time"}.get(Status(status), "") if status < 0 else ""
