"""HTTP request, response and header block, with header parsing and Retry-After. Pure."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Literal

import msgspec

from tarrafa.fetch.transfer_limits import BandwidthLimiter
from tarrafa.i18n import Message

HEADER_BYTES_MAX = 256 << 10
CONTENT_TYPE_CHARS_MAX, CONTENT_TYPES_CACHED_MAX = 300, 256
WITHHELD = "(withheld)"  # replaces a secret where a request is shown
FOLD = re.compile(r"\r?\n[ \t]+")
CODE = re.compile(r"[1-5][0-9][0-9]")
MIME = re.compile(r"[a-z0-9!#$&^_.+-]{1,127}/[a-z0-9!#$&^_.+-]{1,127}")  # RFC 6838 section 4.2


class ResponseHead(msgspec.Struct, frozen=True):
    """A status line and its header fields, names in lower case."""

    code: int
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """The first field of that name, or an empty string."""
        for key, value in self.fields:
            if key == name:
                return value
        return ""

    def joined(self, name: str, glue: str = ", ") -> str:
        """All fields of that name, as one comma-separated list (RFC 9110 section 5.3)."""
        return glue.join([value for key, value in self.fields if key == name])

    @property
    def content_type(self) -> str:
        """The MIME type alone, in lower case; empty if it is invalid."""
        return _mime_type(self.get("content-type")[:CONTENT_TYPE_CHARS_MAX])


@lru_cache(CONTENT_TYPES_CACHED_MAX)
def _mime_type(content_type: str) -> str:
    kind = content_type.partition(";")[0].strip().lower()
    return kind if MIME.fullmatch(kind) else ""


@dataclass(slots=True)
class FetchRequest:
    """One GET. `check_head` may refuse the response as soon as its head is there; the transfer is then cut."""

    url: str
    headers: list[tuple[str, str]]
    connect_to: str | None = None  # address:port to which the host's connections go
    address: str | None = None  # the vetted address of the host name
    proxy: str | None = None  # proxy to use; then the address is unknown here
    size_max: int = 2_000_000
    time_max_s: float = 600.0
    connect_timeout_s: float = 20.0
    stall_timeout_s: float = 60.0
    check_head: Callable[[ResponseHead], int] = field(default=lambda head: 0)
    secret_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # secret header lines
    has_credentials: bool = True  # of the collection, for its host
    is_wanted: Callable[[], bool] = field(default=lambda: True)  # called at the last moment, before it is sent
    tls: Literal["strict", "accept"] = "strict"  # policy for a certificate that does not verify
    ca_file: str | None = None  # CA bundle to use instead of the system's
    host_bandwidth: int | None = None  # bytes per second of this transfer
    limiter: BandwidthLimiter | None = None  # bytes per second of all transfers that share it
    machine_limiter: BandwidthLimiter | None = None  # of all transfers of this process


@dataclass(slots=True)
class FetchResponse:
    """A response. `status` is the HTTP code, or why there is none or why the body is incomplete."""

    status: int
    head: ResponseHead = field(default=ResponseHead(0, ()))
    raw_head: bytes = b""
    raw_body: bytes = b""
    address: str = ""
    elapsed_s: float = 0.0
    error: Message | str = ""
    tls: Message | str = ""  # why the certificate does not verify: a TLS_ERROR, or accepted all the same
    held_s: float = 0.0  # part of elapsed_s during which our own limits paused it


def parse_head(block: bytes) -> ResponseHead | None:
    """Parse a raw header block as HTTP/1.x servers send it, folded lines joined; None if it is none."""
    text = block.decode("latin-1")
    if "\n " in text or "\n\t" in text:
        text = FOLD.sub(" ", text)
    lines = text.split("\n")
    parts = lines[0].split(None, 2)
    if len(parts) < 2 or not parts[0].startswith("HTTP/") or not CODE.fullmatch(parts[1]):
        return None
    fields: list[tuple[str, str]] = []
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if colon:
            fields.append((name.strip().lower(), value.strip()))
    return ResponseHead(int(parts[1]), tuple(fields))


def header_lines(request: FetchRequest, *, shown: bool = False) -> list[bytes]:
    """The header lines as sent, or as `shown` without secrets: one line each, whatever they contain."""
    secrets = ((name, WITHHELD if shown else value) for name, value in request.secret_headers)
    lines = (f"{name}: {value}" for name, value in (*request.headers, *secrets))
    return [line.replace("\r", " ").replace("\n", " ").encode("latin-1", "replace") for line in lines]


def retry_after_s(head: ResponseHead, now: float) -> float:
    """Seconds that a server asks us to wait; 0 if it does not say."""
    text = head.get("retry-after")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, TypeError, OverflowError):
        return 0.0
