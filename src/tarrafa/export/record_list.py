"""Record list: the records that an export copies, and the lines of their index, in a temporary file.

A capture that is a `revisit` record, also one of a 304, brings the record that it refers to along, so that it can be
resolved in the export alone. A page that was rendered brings what its browser asked for.
The lines are for wabac.js: their timestamps have milliseconds, because it looks the record that a revisit refers to up
by its exact date; the line of a 304 is a revisit with the status of the capture that it confirms, because it takes any
other status that begins with 3 for a redirect without a body (decision 0345).
Promises: each record once; records in the order of the archive, lines in the order of a CDXJ file; memory does not grow
with the selection. The file is unnamed, and ends with the process.
"""

import json
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from tarrafa.archive.warc_reader import read_entries
from tarrafa.captures.reader import REVISIT_MIME, Capture, CaptureRecordPlace, CapturesReader
from tarrafa.captures.timestamps import timestamp_of
from tarrafa.model import VisitRecord
from tarrafa.runtime.sqlite import SqliteErrors

CACHE_KIB = 64 << 10
TITLE_CHARS_MAX = 500
SCHEMA = """
CREATE TABLE copied (
    name TEXT, offset INTEGER, part TEXT, position INTEGER, moment TEXT, PRIMARY KEY (name, offset)
) WITHOUT ROWID;
CREATE TABLE lines (
    name TEXT, offset INTEGER, length INTEGER, urlkey TEXT, url TEXT, mime TEXT, status TEXT, digest TEXT,
    meta INTEGER, PRIMARY KEY (name, offset)
) WITHOUT ROWID;
CREATE TABLE metas (name TEXT, meta INTEGER, PRIMARY KEY (name, meta)) WITHOUT ROWID;
CREATE TABLE needed (name TEXT, meta INTEGER, PRIMARY KEY (name, meta)) WITHOUT ROWID;
CREATE TABLE pages (name TEXT, meta INTEGER, title TEXT, depth INTEGER, PRIMARY KEY (name, meta)) WITHOUT ROWID;
"""
REQUISITE_STEPS_MAX = 5  # from a page to what its requisites need
OnProgress = Callable[[int], None]


class IndexLine(NamedTuple):
    """A line of the index of an export: `part` is the file with the record, `position` where it begins there. `moment`:
    its date with milliseconds, 17 digits."""

    urlkey: str
    moment: str
    url: str
    mime: str | None
    status: str
    digest: str
    length: int
    position: int
    part: str

    def cdxj(self) -> str:
        fields = {"url": self.url, "mime": self.mime, "status": self.status, "digest": self.digest}
        fields |= {"length": str(self.length), "offset": str(self.position), "filename": self.part}
        known = {name: value for name, value in fields.items() if value is not None}
        return f"{self.urlkey} {self.moment} {json.dumps(known)}\n"


class ListedRecord(NamedTuple):
    """A record to copy, and its URL."""

    place: CaptureRecordPlace
    url: str


class ListedPage(NamedTuple):
    """A page for the list of pages."""

    url: str
    moment: str
    title: str
    depth: int


class RecordList:
    """Records and lines of one export. Use it in a `with`."""

    def __init__(self, reader: CapturesReader, archive: Path) -> None:
        self._reader, self._archive = reader, archive
        self.left_out = 0  # revisits whose original asks not to be shown
        self.unresolved = 0  # revisits whose original is not in the archive
        self._connection = apsw.Connection("")  # an unnamed file of SQLite's folder for temporary files
        self.errors = SqliteErrors(Path("temporary file"), self._connection)
        self._connection.pragma("cache_size", -CACHE_KIB)
        self._connection.execute(SCHEMA)
        self._connection.execute("BEGIN")

    def __enter__(self) -> "RecordList":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, capture: Capture) -> None:
        """Add a capture, and what it needs."""
        if capture.is_revisit or capture.confirms:
            original = self._reader.original_of(capture)
            if original is not None and original.noarchive:
                self.left_out += 1
                return
            if original is None:
                self.unresolved += 1
            else:
                self._add_line(original)
        elif capture.meta is not None and capture.status == "200":
            self._run("INSERT OR IGNORE INTO metas VALUES (?, ?)", (capture.name, capture.meta))
        self._add_line(capture)

    def read_pages(self, tell: OnProgress = lambda pages: None, *, with_requisites: bool) -> None:
        """Read titles and depths of the listed pages. `with_requisites`: add what they needed when they were rendered;
        where everything is listed, that is listed, too."""
        with self.errors:
            names = [name for (name,) in self._connection.execute("SELECT DISTINCT name FROM metas ORDER BY name")]
        for name in names:
            found = self._connection.execute("SELECT meta FROM metas WHERE name = ? ORDER BY meta", (name,))
            starts = [meta for (meta,) in found]
            for entry in read_entries(self._archive, name, starts, frozenset()):
                record = entry.record
                tell(1)
                if record.page is not None and record.outcome.kept:
                    title = (record.page.title or record.url)[:TITLE_CHARS_MAX]
                    self._run(
                        "INSERT INTO pages VALUES (?, ?, ?, ?)", (name, entry.start, plain_text(title), record.depth)
                    )
                if with_requisites:
                    self._add_requisites(record)

    def _add_requisites(self, record: VisitRecord) -> None:
        """Add what a page needed, and what that needed: a style sheet imports another one, with a font."""
        at, waiting = timestamp_of(record.outcome.at), [record]
        for _ in range(REQUISITE_STEPS_MAX):
            urls = dict.fromkeys(url for one in waiting for url in requisite_urls(one))
            found = [capture for url in urls if (capture := self._reader.nearest(url, at)) is not None]
            waiting = [needed for capture in found if (needed := self._add_requisite(capture)) is not None]

    def _add_requisite(self, capture: Capture) -> VisitRecord | None:
        """Add a capture; returns the record of its visit the first time."""
        self.add(capture)
        if capture.meta is None or not self._run(
            "INSERT OR IGNORE INTO needed VALUES (?, ?)", (capture.name, capture.meta)
        ):
            return None
        return next(
            (one.record for one in read_entries(self._archive, capture.name, [capture.meta], frozenset())), None
        )

    def _add_line(self, capture: Capture) -> None:
        is_revisit = capture.is_revisit or capture.confirms
        mime = REVISIT_MIME if is_revisit else capture.mime
        meta, place = None if is_revisit else capture.meta, capture.revisit or capture.place
        row = (*place, capture.urlkey, capture.url, mime, capture.status, capture.digest, meta)
        self._run("INSERT OR IGNORE INTO lines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def note_copied(self, place: CaptureRecordPlace, part: str, position: int, moment: str) -> None:
        """Note where the copy of a record is, and its date with milliseconds: 17 digits."""
        self._run("INSERT INTO copied VALUES (?, ?, ?, ?, ?)", (place.name, place.offset, part, position, moment))

    def count(self) -> int:
        return self._number("SELECT count(*) FROM lines")

    def count_pages(self) -> int:
        return self._number("SELECT count(*) FROM metas")

    def size(self) -> int:
        """The bytes of all records, without those of their requests."""
        return self._number("SELECT ifnull(sum(length), 0) FROM lines")

    def records(self) -> Iterator[tuple[str, Iterator[ListedRecord]]]:
        """The records of each file, in the order of the archive."""
        sql = "SELECT name, offset, length, url FROM lines ORDER BY name, offset"
        with self.errors:
            for name, several in groupby(self._connection.execute(sql), key=itemgetter(0)):
                yield name, (ListedRecord(CaptureRecordPlace(*row[:3]), row[3]) for row in several)

    def lines(self) -> Iterator[IndexLine]:
        """The lines of the records that were copied, sorted."""
        sql = (
            "SELECT urlkey, moment, url, mime, status, digest, length, position, part FROM lines"
            " JOIN copied USING (name, offset) ORDER BY urlkey, moment, part, position"
        )
        with self.errors:
            yield from (IndexLine(*row) for row in self._connection.execute(sql))

    def pages(self) -> Iterator[ListedPage]:
        """The pages among the records that were copied, by URL and time; the records of 304 and revisits are none."""
        sql = (
            "SELECT url, moment, title, depth FROM lines JOIN copied USING (name, offset) JOIN pages"
            " ON pages.name = lines.name AND pages.meta = lines.meta ORDER BY urlkey, moment"
        )
        with self.errors:
            yield from (ListedPage(*row) for row in self._connection.execute(sql))

    def _run(self, sql: str, row: tuple[Any, ...]) -> int:
        """Run a statement; returns the number of changed rows."""
        with self.errors:
            self._connection.execute(sql, row)
            return self._connection.changes()

    def _number(self, sql: str) -> int:
        with self.errors:
            return int(next(iter(self._connection.execute(sql)))[0])


def requisite_urls(record: VisitRecord) -> list[str]:
    """The URLs that a page needed to be shown, as far as its visit says so."""
    asked = [one.url for one in record.rendered.requests] if record.rendered is not None else []
    return [*asked, *record.requisites]


def plain_text(text: str) -> str:
    """A text without lone surrogates, which UTF-8 does not have."""
    return text.encode("utf-8", "replace").decode()
