"""One running HTTP transfer: takes header and body, cuts at its limits, and maps its end to a status.

libcurl hands over header lines and parts of the body as they arrive; the transfer is cut as soon as the rest is known
to be unwanted. `build_response` maps every possible end of a transfer to a status: nothing that a server does is an
exception, and no fault of our own is blamed on the server.
"""

import asyncio
import errno
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import pycurl

from tarrafa.fetch.content_encoding import UndecodableBody, decode_chunked
from tarrafa.fetch.http_message import HEADER_BYTES_MAX, FetchRequest, FetchResponse, ResponseHead, parse_head
from tarrafa.fetch.transfer_limits import BandwidthLimiter
from tarrafa.i18n import Message, message, messages
from tarrafa.model import Status

INTERIM_MAX = 20  # interim responses (1xx) before the final one
STARVED_SHARE = 0.2  # of the exceeded time limit: if we caused at least this share, the host is not to blame
CURL_TEXT_CHARS_MAX = 200
TLS_HUNG_UP = "unexpected eof while reading"  # many servers close without TLS's close_notify; OpenSSL's wording

CURL_STATUS = {
    pycurl.E_OPERATION_TIMEDOUT: Status.TOO_SLOW,
    pycurl.E_COULDNT_RESOLVE_HOST: Status.NAME_UNKNOWN,
    pycurl.E_UNSUPPORTED_PROTOCOL: Status.INVALID_RESPONSE,
    pycurl.E_HTTP2: Status.INVALID_RESPONSE,
    8: Status.INVALID_RESPONSE,  # CURLE_WEIRD_SERVER_REPLY
    100: Status.INVALID_RESPONSE,  # CURLE_TOO_LARGE: a header line
    pycurl.E_SSL_CONNECT_ERROR: Status.TLS_ERROR,
    pycurl.E_PEER_FAILED_VERIFICATION: Status.TLS_ERROR,
    pycurl.E_SSL_CIPHER: Status.TLS_ERROR,
    pycurl.E_SSL_CACERT_BADFILE: Status.TLS_ERROR,
    pycurl.E_SSL_ISSUER_ERROR: Status.TLS_ERROR,
    pycurl.E_SSL_INVALIDCERTSTATUS: Status.TLS_ERROR,
}
CURL_REASONS = {
    pycurl.E_COULDNT_RESOLVE_HOST: message("name does not resolve"),
    pycurl.E_COULDNT_CONNECT: message("no connection"),
    pycurl.E_COULDNT_RESOLVE_PROXY: message("the name of the proxy does not resolve"),
    pycurl.E_UNSUPPORTED_PROTOCOL: message("the response is no HTTP"),
    pycurl.E_GOT_NOTHING: message("empty response"),
    pycurl.E_SEND_ERROR: message("connection lost while sending"),
    pycurl.E_RECV_ERROR: message("connection lost while receiving"),
    8: message("the response is no HTTP"),
    100: message("a header line is too long"),
}
ERRNO_REASONS = {
    errno.ECONNREFUSED: message("connection refused"),
    errno.ECONNRESET: message("connection reset by the host"),
    errno.EPIPE: message("connection closed by the host"),
    errno.EHOSTUNREACH: message("host unreachable"),
    errno.ENETUNREACH: message("network unreachable"),
    errno.ETIMEDOUT: message("connection timed out"),
}
OUR_ERRNOS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class CurlResult(NamedTuple):
    """libcurl's data about a finished transfer."""

    code: int = 0
    message: str = ""
    address: str = ""
    errno: int = 0


@dataclass(slots=True, eq=False)
class Transfer:
    """One request in flight. `admit` of `Backpressure` is asked before each part of the body is taken."""

    request: FetchRequest
    curl: pycurl.Curl
    future: "asyncio.Future[FetchResponse]"
    started: float
    admit: "Callable[[Transfer, int], bool]"
    limiters: tuple[BandwidthLimiter, ...] = ()
    verify: bool = True
    head: bytearray = field(default_factory=bytearray)
    body: bytearray = field(default_factory=bytearray)
    parsed: ResponseHead | None = None
    complete_head: bool = False
    interim: int = 0
    refused: int = 0  # our own reason for cutting the transfer
    why: Message | str = ""  # the reason in words
    head_is_enough: bool = False  # the body is not needed: its head is the response
    sent: bool = False
    bytes_seen: int = -1  # bytes at the last stall check
    bytes_seen_at: float = 0.0
    waiting_bytes: int = 0  # bytes that wait to be taken
    held_since: float = 0.0  # 0: not paused
    held_s: float = 0.0  # how long our own limits paused it

    def refuse(self, status: int, why: Message | str) -> int:
        """Cut the transfer. Returns the value that libcurl's callbacks return for that."""
        self.refused, self.why = status, why
        return -1

    def is_stalled(self, now: float) -> bool:
        """Whether nothing arrived for too long; called now and then. (Connecting has its own limit; pauses of our own
        do not count.)

        libcurl's own LOW_SPEED_TIME is not usable. It averages over five seconds, does not begin to count before
        something wakes the transfer (a silent server was dropped after 21 s instead of 1), and wakes every transfer
        every second.
        """
        came = len(self.head) + len(self.body) + self.interim
        if came != self.bytes_seen or not self.sent or self.held_since:
            self.bytes_seen, self.bytes_seen_at = came, now
        return now - self.bytes_seen_at >= self.request.stall_timeout_s

    def take_header(self, line: bytes) -> int:
        """Take a header line; an interim response (1xx) is followed by another block."""
        if self.complete_head:
            if self.parsed is not None and self.parsed.code >= 200:
                return len(line)  # trailer fields
            self.head.clear()
            self.parsed, self.complete_head = None, False
        self.head += line
        if len(self.head) > HEADER_BYTES_MAX:
            return self.refuse(
                Status.INVALID_RESPONSE, message("header block larger than {bytes} bytes", bytes=HEADER_BYTES_MAX)
            )
        if line in {b"\r\n", b"\n"}:
            self.complete_head = True
            return self._judge_head() or len(line)
        return len(line)

    def _judge_head(self) -> int:
        """The block is complete: check whether it is a response and is wanted. 0: continue."""
        head = self.parsed = parse_head(bytes(self.head))
        for limiter in self.limiters:
            limiter.take(len(self.head))
        if head is None:
            line = bytes(self.head[:60]).partition(b"\n")[0].decode("latin-1").strip()
            return self.refuse(Status.INVALID_RESPONSE, message("status line {line!r}", line=line))
        if head.code < 200:
            self.interim += 1
            if head.code == 101:
                return self.refuse(Status.INVALID_RESPONSE, message("switches to another protocol, unasked"))
            if self.interim > INTERIM_MAX:
                return self.refuse(
                    Status.INVALID_RESPONSE, message("more than {count} interim responses", count=INTERIM_MAX)
                )
            return 0
        verdict = self.request.check_head(head)
        return self.refuse(verdict, "") if verdict else 0

    def take_body(self, part: bytes) -> int:
        """Take a part of the body; a part that was not taken comes again."""
        if not self.admit(self, len(part)):
            return int(pycurl.WRITEFUNC_PAUSE)
        self.body += part
        if len(self.body) > self.request.size_max:
            if self.parsed is not None and self.parsed.code != 200:
                self.head_is_enough = True
                return -1
            return self.refuse(Status.TOO_LARGE, message("more than {bytes} bytes", bytes=self.request.size_max))
        return len(part)


def build_response(transfer: Transfer, ending: CurlResult, elapsed_s: float, late_s: float) -> FetchResponse:
    """The response of a finished transfer. `late_s` is how late our own machine was meanwhile."""
    head = transfer.parsed
    status = _status(transfer, ending)
    error = transfer.why
    if not (error or transfer.refused or transfer.head_is_enough) and (ending.code or status < 0):
        error = _reason(transfer, ending, elapsed_s)
    if status == Status.TOO_SLOW and transfer.held_s + late_s >= STARVED_SHARE * elapsed_s:
        status = Status.STARVED
        error = message(
            "{error}; held back {held:.1f} s, late {late:.1f} s", error=error, held=transfer.held_s, late=late_s
        )
    return FetchResponse(
        status,
        head or ResponseHead(0, ()),
        bytes(transfer.head),
        bytes(transfer.body),
        ending.address,
        elapsed_s,
        error,
        held_s=transfer.held_s,
    )


def _reason(transfer: Transfer, ending: CurlResult, elapsed_s: float) -> Message:
    """Why a transfer ended so, by libcurl's code. Its own text is used only where the code says too little."""
    code = ending.code
    if not code:
        return message("the header block ends too soon")
    if code == pycurl.E_OPERATION_TIMEDOUT:
        if not transfer.sent:
            return message("no connection within {seconds:.1f} s", seconds=elapsed_s)
        size = len(transfer.head) + len(transfer.body)
        return messages(
            "not complete after {seconds:.1f} s: {count} byte received",
            "not complete after {seconds:.1f} s: {count} bytes received",
            size,
            seconds=elapsed_s,
        )
    if code == pycurl.E_PARTIAL_FILE:
        return messages(
            "the body ends too soon, after {count} byte",
            "the body ends too soon, after {count} bytes",
            len(transfer.body),
        )
    text = ending.message[:CURL_TEXT_CHARS_MAX]
    if CURL_STATUS.get(code) == Status.TLS_ERROR:
        return message("no secure connection ({error})", error=text or str(code))
    known = ERRNO_REASONS.get(ending.errno) or CURL_REASONS.get(code)
    return known or message("libcurl error {code}: {error}", code=str(code), error=text)


def _status(transfer: Transfer, ending: CurlResult) -> int:
    head, code = transfer.parsed, ending.code
    if transfer.refused:
        return transfer.refused
    if code and ending.errno in OUR_ERRNOS:
        return Status.NOT_SENT
    failure = CURL_STATUS.get(code, Status.SYSTEM_ERROR)
    if head is None:
        return failure  # also where libcurl accepts half a header block
    broken = code == pycurl.E_RECV_ERROR
    if (
        not code
        or transfer.head_is_enough
        or code == pycurl.E_PARTIAL_FILE
        or (broken and TLS_HUNG_UP in ending.message)
    ):
        return head.code  # the body may be shorter than declared: browsers show what arrived
    misframed = broken and not ending.errno and _is_misframed(head, bytes(transfer.body))
    return Status.INVALID_RESPONSE if misframed else failure


def _is_misframed(head: ResponseHead, body: bytes) -> bool:
    """Whether the chunks are malformed: libcurl has the same code for a broken connection, which is retried."""
    if "chunked" not in head.joined("transfer-encoding").lower():
        return False
    try:
        decode_chunked(body)
    except UndecodableBody:
        return True
    return False
