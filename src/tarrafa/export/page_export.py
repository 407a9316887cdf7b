"""Pages for programs that read text: JSON Lines with text or Markdown, or `|||URL|HTML`.

A line of JSON is one page: its newest capture in the selection, or each of them. The other form has, for each HTML
page, `|||`, its URL, `|`, and its HTML in UTF-8; `|||` in the HTML is written `||&#124;`, a `|` at its beginning
`&#124;`, and `|` in the URL `%7C`, so that the next `|||` always begins the next page.
Promises: pages whose publisher reserves the use that the export is for are left out and counted; so are bodies that
cannot be read. Texts are UTF-8. Memory does not grow with the selection.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import IO, Literal

import apsw
import msgspec

from tarrafa.archive.warc_reader import ArchiveEntry, read_entries
from tarrafa.archive.warc_writer import TEXT_TYPE
from tarrafa.captures.capture_access import CaptureStore, CaptureText
from tarrafa.captures.reader import Capture
from tarrafa.captures.text_diff import to_markdown
from tarrafa.captures.timestamps import iso_date
from tarrafa.errors import TarrafaError
from tarrafa.export.archive_export import STEP, Progress, count_rows
from tarrafa.export.record_list import CACHE_KIB, plain_text
from tarrafa.export.selection import Selection, selected_captures
from tarrafa.model import Page, PageDate
from tarrafa.parse.robots_meta_usage import Use, reserved_uses
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteErrors
from tarrafa.takedown import CurrentTakedowns

PageFormat = Literal["text", "markdown", "html"]
HTML_TYPES = ("text/html", "application/xhtml+xml")
SEPARATOR, SEPARATOR_IN_HTML = "|||", "||&#124;"
TEXTS, NO_TEXTS = frozenset({TEXT_TYPE}), frozenset[str]()
SCHEMA = """
CREATE TABLE chosen (
    url TEXT, timestamp TEXT, name TEXT, meta INTEGER, capture BLOB, PRIMARY KEY (url, timestamp)
) WITHOUT ROWID;
CREATE TABLE newest (
    url TEXT, timestamp TEXT, name TEXT, meta INTEGER, capture BLOB, PRIMARY KEY (url)
) WITHOUT ROWID;
"""


class PageLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A page as a line of JSON. `at`: when it was captured; `reserves`: the uses that its publisher reserves."""

    url: str
    at: str
    collection: str
    title: str = ""
    language: str = ""
    type: str = ""
    description: str = ""
    published: str = ""
    modified: str = ""
    text: str = ""
    markdown: str = ""
    reserves: list[str] = []


@dataclass(slots=True)
class PageCounts:
    """`reserved`: left out, because their publisher reserves the use; `unread`: their bytes cannot be read."""

    pages: int = 0
    reserved: int = 0
    unread: int = 0


@dataclass(frozen=True, slots=True)
class PageExportOptions:
    """What of each page is written. `content_only`: its main content instead of all its text."""

    form: PageFormat = "text"
    use: Use | None = None
    content_only: bool = False
    all_versions: bool = False


def export_pages(
    data: DataDirectory, selection: Selection, wanted: PageExportOptions, output: IO[bytes], progress: Progress
) -> PageCounts:
    """Write the pages of a selection."""
    with _ChosenPages(data, all_versions=wanted.all_versions) as chosen:
        with progress("selecting", count_rows(chosen.store.reader, selection)) as tell:
            chosen.add_all(selection, tell)
        counts, takedowns = PageCounts(), CurrentTakedowns(data)
        with progress("writing pages", chosen.count()) as tell:
            for entry, capture in chosen.entries(TEXTS if wanted.form != "html" else NO_TEXTS):
                tell(1)
                if not takedowns.covers(capture.url):
                    _write_page(entry, capture, wanted, chosen.store, output, counts)
        return counts


def _write_page(
    entry: ArchiveEntry,
    capture: Capture,
    wanted: PageExportOptions,
    store: CaptureStore,
    output: IO[bytes],
    counts: PageCounts,
) -> None:
    page = entry.record.page
    if page is None or not entry.record.outcome.kept or page.robots.noarchive:
        return
    if wanted.use is not None and wanted.use in reserved_uses(page):
        counts.reserved += 1
        return
    if wanted.form != "html":
        output.write(msgspec.json.encode(page_line(entry, page, capture, wanted)) + b"\n")
    elif capture.mime in HTML_TYPES:
        try:
            output.write(_html(store, capture, page))
        except TarrafaError:
            counts.unread += 1
            return
    else:
        return
    counts.pages += 1


def page_line(entry: ArchiveEntry, page: Page, capture: Capture, wanted: PageExportOptions) -> PageLine:
    text = plain_text((page.content if wanted.content_only else "") or page.text)
    markdown = ""
    if wanted.form == "markdown":
        headings = frozenset(map(plain_text, page.headings))
        markdown, text = to_markdown(CaptureText(capture, text, plain_text(page.title), headings=headings)), ""
    return PageLine(
        capture.url, iso_date(capture.timestamp), entry.record.collection, plain_text(page.title), page.language,
        entry.record.outcome.type, plain_text(page.description),
        stated_date(page.published), stated_date(page.modified), text, markdown, sorted(reserved_uses(page)),
    )  # fmt: skip


def _html(store: CaptureStore, capture: Capture, page: Page) -> bytes:
    """The HTML of a page, in UTF-8."""
    payload = store.read(capture)
    try:
        html = payload.body.decode(page.charset or "utf-8", "replace")
    except LookupError:
        html = payload.body.decode("utf-8", "replace")
    url, html = capture.url.replace("|", "%7C"), html.replace(SEPARATOR, SEPARATOR_IN_HTML)
    if html.startswith("|"):
        html = f"&#124;{html[1:]}"
    return plain_text(f"|||{url}|{html}\n").encode()


class _ChosenPages:
    """The captures of pages in a selection, in a temporary file; they are read in the order of the archive."""

    def __init__(self, data: DataDirectory, *, all_versions: bool) -> None:
        self.store, self._archive = CaptureStore(data), data.archive
        self._table = "chosen" if all_versions else "newest"
        self._connection = apsw.Connection("")
        self._errors = SqliteErrors(Path("temporary file"), self._connection)
        self._connection.pragma("cache_size", -CACHE_KIB)
        self._connection.execute(SCHEMA)
        self._connection.execute("BEGIN")

    def __enter__(self) -> "_ChosenPages":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add_all(self, selection: Selection, tell: Callable[[int], None]) -> None:
        """Choose the captures of pages; those that only confirm another one are no versions."""
        keep = "timestamp = excluded.timestamp, name = excluded.name, meta = excluded.meta, capture = excluded.capture"
        sql = (
            f"INSERT INTO {self._table} VALUES (?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET {keep}"  # noqa: S608 (our names)
            " WHERE excluded.timestamp > timestamp"
        )
        is_all = self._table == "chosen"
        for count, one in enumerate(selected_captures(self.store.reader, selection), 1):
            if one.meta is not None and one.status == "200" and not (is_all and one.confirms):
                with self._errors:
                    row = (one.url, one.timestamp, one.name, one.meta, msgspec.msgpack.encode(one))
                    self._connection.execute(sql, row)
            if count % STEP == 0:
                tell(STEP)

    def count(self) -> int:
        with self._errors:
            sql = f"SELECT count(*) FROM {self._table}"  # noqa: S608 (our names)
            return int(next(iter(self._connection.execute(sql)))[0])

    def entries(self, conversions: frozenset[str]) -> Iterator[tuple[ArchiveEntry, Capture]]:
        """The visits of the chosen captures."""
        sql = f"SELECT name, meta, capture FROM {self._table} ORDER BY name, meta"  # noqa: S608 (our names)
        with self._errors:
            for name, several in groupby(self._connection.execute(sql), key=itemgetter(0)):
                captures = defaultdict[int, list[Capture]](list)
                for _, meta, packed in several:
                    captures[meta].append(msgspec.msgpack.decode(packed, type=Capture))
                for entry in read_entries(self._archive, name, captures, conversions):
                    yield from ((entry, capture) for capture in captures[entry.start])


def stated_date(date: PageDate | None) -> str:
    """A date that a page states, in ISO 8601."""
    if date is None:
        return ""
    moment = datetime.fromtimestamp(date.at, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ" if date.has_time else "%Y-%m-%d")
