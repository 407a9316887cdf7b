"""Finds the capture of a URL, and reads it: header, body and text; refuses one that may not be shown.

Promises: a record is read whole and with its checksum, or `DataError` says which one is damaged; a `revisit` record is
read with the body of the record to which it refers. The body comes without its transfer and content encodings; one that
cannot be decoded comes as it was sent, and says so. A page that is taken down, or asks not to be shown from an archive,
is never read (`PageTakenDown`, `CaptureNotShown`). Knows nothing of HTTP requests or HTML.
"""

from dataclasses import dataclass
from pathlib import Path

from tarrafa.archive.archive_settings import raise_if_disk_missing
from tarrafa.archive.warc_reader import DamagedRecord, RecordHead, read_entry, read_record
from tarrafa.archive.warc_writer import RESOURCE
from tarrafa.captures.reader import Capture, CapturesReader
from tarrafa.captures.timestamps import from_typed_date
from tarrafa.errors import CaptureNotShown, ConfigError, DataError, NotFound
from tarrafa.fetch.content_encoding import DecodedBodyTooLarge, UndecodableBody, decode_body
from tarrafa.fetch.http_message import ResponseHead, parse_head
from tarrafa.i18n import message
from tarrafa.model import Page
from tarrafa.parse.url import canonical
from tarrafa.runtime.data_dir import DataDirectory

BODY_BYTES_MAX = 64 << 20  # unpacked
TEXT_BYTES_MAX = 500_000  # of a body that is text, and no page
URL_CHARS_SHOWN = 200


@dataclass(frozen=True, slots=True)
class CapturePayload:
    """`encoding`: of a body that could not be decoded."""

    head: ResponseHead
    body: bytes
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class CaptureText:
    """The text of a capture. `page`: what the parser found at its visit, if it is a page."""

    capture: Capture
    text: str
    title: str = ""
    language: str = ""
    headings: frozenset[str] = frozenset()
    location: str = ""  # of a redirect

    @property
    def lines(self) -> list[str]:
        return self.text.split("\n")


class CaptureStore:
    """Finds captures by URL and date, and reads them."""

    def __init__(self, data: DataDirectory) -> None:
        self._archive = data.archive
        self.reader = CapturesReader(data)

    def find(self, url: str, timestamp: str = "") -> Capture:
        """The capture nearest to a timestamp, which may be the beginning of one; the newest without one."""
        self.reader.raise_if_taken_down(url)
        found = self.reader.nearest(url, timestamp)
        if found is None:
            if self.reader.nearest(url, with_noarchive=True) is not None:
                raise _not_shown(url)
            raise NotFound(message("{url}: no capture of it is in this archive", url=url[:URL_CHARS_SHOWN]))
        return found

    def find_by_date(self, url: str, date: str) -> Capture:
        """The same with a date as people type it."""
        timestamp = from_typed_date(date) if date else ""
        if timestamp is None:
            raise ConfigError(
                message("{date!r}: not a date: write 2026, 2026-11, 2026-11-18 or 20261118203000", date=date)
            )
        return self.find(url, timestamp)

    def read(self, capture: Capture) -> CapturePayload:
        """Header and body of a capture."""
        if capture.noarchive:
            raise _not_shown(capture.url)
        capture = self._present(capture)
        head, body = self._read_record(capture)
        with_body, body_head = capture, head
        if capture.is_revisit:
            original = self.reader.original_of(capture)
            if original is None:
                sentence = message("{url}: the record with its body is not in this archive", url=capture.url)
                raise DataError(sentence)
            if original.noarchive:
                raise _not_shown(capture.url)
            with_body = original
            body_head, body = self._read_record(with_body)
        try:
            return CapturePayload(head, decode_body(body_head, body, BODY_BYTES_MAX))
        except DecodedBodyTooLarge:
            raise DataError(
                message("{url}: unpacks to more than {most} MB", url=capture.url, most=BODY_BYTES_MAX >> 20)
            ) from None
        except UndecodableBody:
            return CapturePayload(head, body, body_head.joined("content-encoding") or "unknown")

    def read_text(self, capture: Capture) -> CaptureText:
        """The text of a capture: of the page as it was parsed at its visit, or of a body that is plain text."""
        if capture.noarchive:
            raise _not_shown(capture.url)
        capture = self._present(capture)
        page = self.read_page(capture)
        if page is not None and page.text:
            return CaptureText(capture, page.text, page.title, page.language, frozenset(page.headings))
        payload = self.read(capture)
        location = canonical(payload.head.get("location"), capture.url) or "" if capture.status[:1] == "3" else ""
        text = ""
        if payload.head.content_type.startswith("text/plain") and not payload.encoding:
            text = payload.body[:TEXT_BYTES_MAX].decode("utf-8", "replace")
        return CaptureText(capture, text, page.title if page is not None else "", location=location)

    def _present(self, capture: Capture) -> Capture:
        """The capture where it is now: a compaction may have moved it since it was found."""
        if (self._archive / capture.filename).exists():
            return capture
        found = self.reader.nearest(capture.url, capture.timestamp)
        return found if found is not None and found.timestamp == capture.timestamp else capture

    def read_page(self, capture: Capture) -> Page | None:
        """The page as it was parsed at its visit, also if it is not to be shown: for comparison."""
        if capture.meta is None:
            return None
        entry = read_entry(self._archive, capture.name, capture.meta)
        return entry.record.page if entry is not None else None

    def _read_record(self, capture: Capture) -> tuple[ResponseHead, bytes]:
        """Header and body of the HTTP message of a record."""
        path = self._archive / capture.filename
        try:
            record_head, content = _read_content(path, capture)
        except DamagedRecord as error:
            raise DataError(
                message(
                    "{path}: damaged: the record at {position}: {error}",
                    path=path.name,
                    position=str(capture.offset),
                    error=error.message,
                )
            ) from None
        except FileNotFoundError:
            raise_if_disk_missing(path)
            raise DataError(message("{path}: is missing in the archive", path=path.name)) from None
        if record_head.kind == RESOURCE:  # imported without an HTTP header
            return ResponseHead(200, (("content-type", record_head.content_type),)), content
        header, _, body = content.partition(b"\r\n\r\n")
        if b"\n\n" in header:  # line ends without carriage returns
            header, _, body = content.partition(b"\n\n")
        head = parse_head(header)
        return (head, body) if head is not None else (ResponseHead(0, ()), content)


def _read_content(path: Path, capture: Capture) -> tuple[RecordHead, bytes]:
    with path.open("rb") as stream:
        stream.seek(capture.offset)
        record = read_record(stream, capture.length)
    is_other = record.head.url.strip("<>") != capture.url and not capture.confirms
    if record.content is None or is_other:
        raise DamagedRecord(message("it is another record than the index says; `tarrafa rebuild captures`"))
    return record.head, record.content


def _not_shown(url: str) -> CaptureNotShown:
    return CaptureNotShown(
        message("{url}: the page asks not to be shown from an archive (noarchive)", url=url[:URL_CHARS_SHOWN])
    )
