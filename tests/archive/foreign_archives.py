"""WARC and ARC files as other programs write them, made by warcio and by hand."""

import gzip
import io
from collections.abc import Iterable
from dataclasses import dataclass, field

import zstandard
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

DAY = "2020-03-{:02d}T12:00:00Z"
REVISIT = "http://netpreserve.org/warc/1.1/revisit/"


def page(text: str, *links: str) -> bytes:
    anchors = "".join(f'<p><a href="{link}">to {link}</a></p>' for link in links)
    return f"<html><head><title>{text[:40]}</title></head><body><p>{text}</p>{anchors}</body></html>".encode()


@dataclass
class WarcFile:
    """Collects records; `content` is the file."""

    is_gzip: bool = True
    version: str = "WARC/1.0"
    buffer: io.BytesIO = field(default_factory=io.BytesIO)

    def __post_init__(self) -> None:
        self.writer = WARCWriter(self.buffer, gzip=self.is_gzip, warc_version=self.version.removeprefix("WARC/"))
        self.starts: list[int] = []

    def add(
        self,
        url: str,
        body: bytes = b"",
        date: str = DAY.format(1),
        *,
        status: str = "200 OK",
        kind: str = "response",
        content_type: str = "text/html",
        headers: Iterable[tuple[str, str]] = (),
        warc: dict[str, str] | None = None,
        request: bool = False,
        method: str = "GET",
    ) -> None:
        http = None
        if kind in {"response", "revisit"}:
            fields = [("Content-Type", content_type), *headers]
            http = StatusAndHeaders(status, fields, protocol="HTTP/1.1") if content_type or headers else None
        record = self.writer.create_warc_record(
            url, kind, payload=io.BytesIO(body), http_headers=http,
            warc_headers_dict={"WARC-Date": date} | (warc or {}),
            warc_content_type="" if kind in {"response", "revisit"} else content_type,
        )  # fmt: skip
        self.starts.append(self.buffer.tell())
        if not request:
            self.writer.write_record(record)
            return
        asked = StatusAndHeaders(
            f"{method} / HTTP/1.1", [("Host", "a.test"), ("User-Agent", "Elsewhere")], is_http_request=True
        )
        named = {"WARC-Date": date, "WARC-Concurrent-To": record.rec_headers.get_header("WARC-Record-ID")}
        pair = self.writer.create_warc_record(url, "request", http_headers=asked, warc_headers_dict=named)
        self.writer.write_request_response_pair(pair, record)

    @property
    def content(self) -> bytes:
        return self.buffer.getvalue()


def arc_record(url: str, date: str, content: bytes, kind: str = "text/html") -> bytes:
    return f"{url} 192.0.2.7 {date} {kind} {len(content)}\n".encode() + content + b"\n"


def arc_file(*records: bytes, version: str = "1 1 InternetArchive") -> bytes:
    block = f"{version}\nURL IP-address Archive-date Content-type Archive-length\n\n".encode()
    return arc_record("filedesc://made.arc", "20080430204825", block, "text/plain") + b"".join(records)


def response(body: bytes, status: str = "200 OK", *lines: str) -> bytes:
    head = "\r\n".join([f"HTTP/1.1 {status}", *(lines or ("Content-Type: text/html",))])
    return head.encode() + b"\r\n\r\n" + body


def per_record_gzip(records: Iterable[bytes]) -> bytes:
    return b"".join(gzip.compress(record) for record in records)


def with_dictionary(records: list[bytes]) -> bytes:
    """As the IIPC describes WARC with zstd: a skippable frame with the dictionary, then a frame for each record."""
    dictionary = zstandard.ZstdCompressionDict(b"".join(records)[: 64 << 10], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    packed = zstandard.ZstdCompressor().compress(dictionary.as_bytes())
    frames = [zstandard.ZstdCompressor(dict_data=dictionary).compress(record) for record in records]
    return b"\x5d\x2a\x4d\x18" + len(packed).to_bytes(4, "little") + packed + b"".join(frames)
