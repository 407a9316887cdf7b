"""Turns a record of a foreign archive into the response that our own client would have given.

A `response` record holds it as it was transferred; a `resource` record has no header, so that one is made; a `revisit`
record refers to another one, whose body it takes. What others' tools have changed is undone: a body that was stored
unpacked under a header that still names its coding is taken as it is.
Pure.
"""

import contextlib
import re
from datetime import UTC, datetime
from typing import NamedTuple

from msgspec.structs import replace as replace_struct

from tarrafa.archive.foreign_archive_reader import ForeignRecord
from tarrafa.config import Collection
from tarrafa.crawl.scope.scope_rules import Admission
from tarrafa.crawl.worker.fetcher import decode_response
from tarrafa.crawl.worker.parser_with_sandbox import DecodedBody
from tarrafa.fetch.content_encoding import UndecodableBody, decode_chunked
from tarrafa.fetch.http_message import HEADER_BYTES_MAX, FetchResponse, ResponseHead, parse_head
from tarrafa.model import Status, Visit

RESPONSE, RESOURCE, REVISIT, REQUEST = "response", "resource", "revisit", "request"
CAPTURES = frozenset({RESPONSE, RESOURCE, REVISIT})
WEB_SCHEMES = ("http://", "https://")
YEAR_MIN = 1990  # before the Web
FUTURE_S_MAX = 86_400.0
CODING_MAGIC = {"gzip": b"\x1f\x8b", "x-gzip": b"\x1f\x8b", "zstd": b"\x28\xb5\x2f\xfd"}
BINARY = frozenset(bytes(range(9)) + bytes(range(14, 27)))  # bytes that no text has
SAMPLE_BYTES = 512
HEADER_END = re.compile(rb"\r?\n\r?\n").search
FRACTION = re.compile(r"\.(\d{1,6})\d*")
ARC_DATE, REDUCED_DATE = re.compile(r"\d{12,17}"), re.compile(r"\d{4}(-\d{2})?")
METHOD = re.compile(rb"([A-Z]{3,20}) ").match


class ForeignCapture(NamedTuple):
    """One capture of a URL, as it would have been answered to us."""

    url: str  # canonical
    at: float
    response: FetchResponse
    request: bytes = b""
    truncated: str = ""
    resource_type: str = ""  # of a record without a header
    is_unchanged: bool = False  # a revisit whose original is not here


def parse_date(text: str, now: float) -> float | None:
    """The moment of a WARC-Date (ISO 8601, also without a time) or of an ARC date (14 digits); None: none, or one
    before the Web or in the future."""
    text = text.strip().upper()
    try:
        if ARC_DATE.fullmatch(text):
            moment = datetime.strptime(text[:14].ljust(14, "0"), "%Y%m%d%H%M%S")
        elif REDUCED_DATE.fullmatch(text):
            moment = datetime.strptime(f"{text}-01-01"[:10], "%Y-%m-%d")
        else:
            moment = datetime.fromisoformat(FRACTION.sub(lambda found: "." + found[1].ljust(6, "0"), text))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        at = moment.timestamp()
    except (ValueError, OverflowError):
        return None
    return at if moment.year >= YEAR_MIN and at <= now + FUTURE_S_MAX else None


def is_web(url: str) -> bool:
    return url[:8].lower().startswith(WEB_SCHEMES)


def method_of(request: bytes) -> str:
    """The method of a request; GET if it shows none."""
    found = METHOD(request)
    return found[1].decode() if found else "GET"


def parse_response(block: bytes) -> FetchResponse | None:
    """The response in the block of a record; None: it does not begin as one."""
    end = HEADER_END(block, 0, HEADER_BYTES_MAX)
    raw_head = block[: end.end()] if end is not None else block[:HEADER_BYTES_MAX]
    head = parse_head(raw_head)
    if head is None:
        return None
    return FetchResponse(head.code, head, raw_head, block[len(raw_head) :])


def make_response(content_type: str, body: bytes) -> FetchResponse:
    """A response around a body that was archived without one."""
    kind = " ".join(content_type.split())[:200]
    lines = ["HTTP/1.1 200 OK", *([f"Content-Type: {kind}"] if kind else []), f"Content-Length: {len(body)}"]
    raw_head = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1", "replace")
    head = parse_head(raw_head)
    assert head is not None
    return FetchResponse(200, head, raw_head, body)


def response_of(record: ForeignRecord, original: ForeignRecord | None = None) -> FetchResponse | None:
    """The response of a capture; of a revisit with the body of its original, and with its header if it has none of its
    own. None: the record shows no HTTP response."""
    address = record.fields.get("warc-ip-address", "")[:64]
    if record.kind == RESOURCE:
        return replace_address(make_response(record.fields.get("content-type", ""), record.content), address)
    own = parse_response(record.content) if record.content.strip() else None
    if original is None:
        return replace_address(own, address) if own is not None else None
    former = response_of(original)
    if former is None or (own is not None and own.status == 304):
        return replace_address(own, address) if own is not None else None
    if own is None:
        return replace_address(former, address)
    return FetchResponse(own.status, own.head, own.raw_head, former.raw_body, address)


def replace_address(response: FetchResponse, address: str) -> FetchResponse:
    response.address = address
    return response


def decode_capture(visit: Visit, response: FetchResponse, collection: Collection, admission: Admission) -> DecodedBody:
    """The document of a response, decoded as its header says, or as its bytes show."""
    body = decode_response(visit, response, collection, admission)
    if body.status != Status.INVALID_RESPONSE:
        return body
    dropped = {name for name in ("transfer-encoding", "content-encoding") if _is_undone(name, response)}
    if not dropped:
        return body
    fields = tuple(one for one in response.head.fields if one[0] not in dropped)
    plain = FetchResponse(response.status, ResponseHead(response.head.code, fields), b"", response.raw_body)
    return decode_response(visit, plain, collection, admission)


def _is_undone(name: str, response: FetchResponse) -> bool:
    """Whether a header names a coding that the body does not show (any more)."""
    coding, body = response.head.joined(name).strip().lower(), response.raw_body
    if not coding:
        return False
    if name == "transfer-encoding":
        try:
            decode_chunked(body)
        except UndecodableBody:
            return True
        return False
    if "chunked" in response.head.joined("transfer-encoding").lower():
        with contextlib.suppress(UndecodableBody):
            body = decode_chunked(body)
    magic = CODING_MAGIC.get(coding)
    return not body.startswith(magic) if magic is not None else BINARY.isdisjoint(body[:SAMPLE_BYTES])


def as_unchanged(visit: Visit, response: FetchResponse) -> FetchResponse:
    """The response of a revisit whose original is not here: the page was found unchanged."""
    return FetchResponse(304, replace_struct(response.head, code=304), response.raw_head, b"", response.address)
