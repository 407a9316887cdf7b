"""The archive as fastwarc writes it: the reference for our own record bytes, and files without the extra field."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from fastwarc.stream_io import GzipWriter
from fastwarc.warc import WarcRecord, WarcRecordType

from tarrafa import __version__
from tarrafa.archive.revisit_record import revisit_headers
from tarrafa.archive.warc_writer import WarcExchange, _note_uri, warc_date
from tarrafa.model import Note, VisitRecord

GZIP_LEVEL = 3
NAME = "tarrafa-20231114221320-w1-00001"
INFO = f"software: Tarrafa/{__version__}\r\nformat: WARC File Format 1.1\r\n".encode()


class FastwarcWriter:
    """Writes one pair of files, as earlier versions of Tarrafa did."""

    def __init__(self, directory: Path) -> None:
        self._durable = directory / f"{NAME}.durable"
        self.paths = (directory / f"{NAME}.warc.gz", directory / f"{NAME}.meta.warc.gz")
        self._files = [path.open("xb", buffering=1 << 20) for path in self.paths]
        self._warc, self._meta = (GzipWriter(file, compression_level=GZIP_LEVEL) for file in self._files)
        for zipped, path in zip((self._warc, self._meta), self.paths, strict=True):
            headers = {"Content-Type": "application/warc-fields", "WARC-Filename": path.name}
            self._write(zipped, WarcRecordType.warcinfo, 0.0, headers, INFO)

    def _write(self, zipped: GzipWriter, kind: Any, at: float, headers: dict[str, str], content: bytes) -> str:
        record = WarcRecord()
        record.init_headers(kind)
        record.record_date = datetime.fromtimestamp(at, UTC)
        for name, value in headers.items():
            record.headers[name] = value
        record.set_bytes_content(content)
        record.write(zipped, checksum_data=True)
        zipped.finish()
        return record.record_id or ""

    def append_exchange(self, exchange: WarcExchange) -> None:
        headers = {"WARC-Target-URI": exchange.url, "Content-Type": "application/http; msgtype=response"}
        if exchange.address:
            headers["WARC-IP-Address"] = exchange.address
        if exchange.truncated:
            headers["WARC-Truncated"] = exchange.truncated
        kind, content = WarcRecordType.response, exchange.response
        if exchange.is_revisit_record:
            kind, content = WarcRecordType.revisit, content[: exchange.head_bytes]
            headers |= revisit_headers(exchange.url, exchange.response, warc_date(exchange.archived_at))
        headers["WARC-Payload-Digest"] = exchange.digest()
        response = self._write(self._warc, kind, exchange.at, headers, content)
        if not exchange.request:
            return
        headers = {"WARC-Target-URI": exchange.url, "Content-Type": "application/http; msgtype=request"}
        headers["WARC-Concurrent-To"] = response
        self._write(self._warc, WarcRecordType.request, exchange.at, headers, exchange.request)

    def append(self, record: VisitRecord, exchange: WarcExchange | None) -> None:
        if exchange is not None:
            self.append_exchange(exchange)
        page, at = record.page, record.outcome.at
        if page is not None:
            record = msgspec.structs.replace(record, page=msgspec.structs.replace(page, text="", statements=""))
        headers = {"WARC-Target-URI": record.url, "Content-Type": "application/json"}
        metadata = self._write(self._meta, WarcRecordType.metadata, at, headers, msgspec.json.encode(record))
        if page is not None:
            for text, kind in ((page.text, "text/plain; charset=utf-8"), (page.statements, "application/n-quads")):
                if text:
                    headers = {"WARC-Target-URI": record.url, "Content-Type": kind, "WARC-Refers-To": metadata}
                    content = text.encode("utf-8", "surrogatepass")
                    self._write(self._meta, WarcRecordType.conversion, at, headers, content)

    def append_note(self, note: Note, at: float) -> None:
        headers = {"WARC-Target-URI": _note_uri(note), "Content-Type": "application/json"}
        self._write(self._meta, WarcRecordType.resource, at, headers, msgspec.json.encode(note))

    def close(self) -> None:
        for file in self._files:
            file.close()
        warc, meta = (path.stat().st_size for path in self.paths)
        line = f"{warc} {meta} {meta}"
        self._durable.write_text(f"{line} {crc32(line.encode()):08x}\n")
