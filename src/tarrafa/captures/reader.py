"""Reads the index of captures: ranges of keys in the order of CDX files, and the captures of a URL around a date.

Promises: what is taken down is not returned, from the moment of the order on. A page that asks not to be shown from an
archive (`noarchive`) is returned only to callers that say so. A `revisit` record that says "not modified" (HTTP 304) is
returned as the capture that it confirms, at its own time: replay programs show a 304 as an empty page (decision 0295).
Captures of one key and time are in the order of their CDXJ lines, as in a sorted file. May be used by several threads.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from tarrafa.archive.warc_writer import base32
from tarrafa.captures.store import NOT_MODIFIED_KIND, RESPONSE_KIND, captures_file, open_reader
from tarrafa.captures.surt import surt
from tarrafa.captures.timestamps import seconds, timestamp_of
from tarrafa.errors import QueryError
from tarrafa.i18n import message
from tarrafa.runtime.data_dir import DataDirectory, file_fingerprint
from tarrafa.runtime.sqlite import rows
from tarrafa.takedown import CurrentTakedowns

REVISIT_MIME = "warc/revisit"
COLUMNS = (
    "urlkey, timestamp, file, offset, length, url, mime, status, digest, kind, refers, refers_url, meta, noarchive"
)
OF_COLLECTION = "collection IN (0, (SELECT collection FROM collections WHERE name = ?))"
ROWS_READ_MAX = 100_000  # by one query, in some .8 s
COUNTED_MAX = 20_000_000  # captures of a range that is read by pages, in some seconds
FIRST_KEY, LAST_KEY = "", "\U0010ffff"


class CaptureRecordPlace(NamedTuple):
    """Where a record is: the name of its pair of files, and its gzip member in the one with the captures."""

    name: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture. `name`: of its pair of files; `confirms`: a 304 has confirmed it at this time; `meta`: where the
    meta file of `name` has the record of its visit. `revisit`: of a capture that a 304 confirms, the place of the
    record of that 304."""

    urlkey: str
    timestamp: str
    url: str
    mime: str | None
    status: str
    digest: str
    length: int
    offset: int
    name: str
    meta: int | None
    refers: str = ""  # the time of the record with the body
    refers_url: str = ""  # and its URL, if it is another one
    noarchive: bool = False
    confirms: bool = False
    revisit: CaptureRecordPlace | None = None

    @property
    def place(self) -> CaptureRecordPlace:
        return CaptureRecordPlace(self.name, self.offset, self.length)

    @property
    def is_revisit(self) -> bool:
        return self.mime == REVISIT_MIME

    @property
    def filename(self) -> str:
        return f"{self.name}.warc.gz"

    def fields(self, *, with_files: bool = True) -> dict[str, str]:
        """What a CDXJ line says after key and time. Without files: not where the record is."""
        found = {"url": self.url, "status": self.status, "digest": self.digest, "length": str(self.length)}
        if self.mime is not None:
            found = {"url": self.url, "mime": self.mime, **found}
        return found | ({"offset": str(self.offset), "filename": self.filename} if with_files else {})

    def cdxj(self, *, with_files: bool = True) -> str:
        return f"{self.urlkey} {self.timestamp} {json.dumps(self.fields(with_files=with_files))}"


class KeyRange(NamedTuple):
    """The keys from one on and before another one."""

    first: str = FIRST_KEY
    last: str = LAST_KEY


class RowRange(NamedTuple):
    """A part of a range: so many rows, after so many others."""

    most: int
    skipped: int


class YearCount(NamedTuple):
    """The captures of a URL in a year, and the first of them."""

    year: str
    captures: int
    first: str


class Versions(NamedTuple):
    """The captures of a URL as a bar shows them."""

    total: int
    first: Capture
    last: Capture
    previous: Capture | None
    next: Capture | None
    years: list[YearCount]


class _Open:
    """One connection of one thread, and the names of files by number."""

    def __init__(self, data: DataDirectory) -> None:
        self.connection = open_reader(data)
        self.names: dict[int, str] = {}

    def name(self, number: int) -> str:
        if number not in self.names:
            self.names.update(rows(self.connection, "SELECT file, name FROM files"))
        return self.names[number]


class CapturesReader:
    """Opens the index when it is first needed, and again after a rebuild."""

    def __init__(self, data: DataDirectory) -> None:
        self._data, self._file = data, captures_file(data)
        self._local = threading.local()
        self._takedowns = CurrentTakedowns(data)

    def raise_if_taken_down(self, url: str) -> None:
        self._takedowns.raise_if_taken_down(url)

    def scan(
        self,
        keys: KeyRange,
        *,
        reverse: bool = False,
        since: str = "",
        until: str = "",
        page: RowRange | None = None,
        rows_max: int | None = ROWS_READ_MAX,
        with_noarchive: bool = False,
        collection: str | None = None,
    ) -> Iterator[Capture]:
        """The captures of a range, sorted. `since`, `until`: timestamps; `page` counts rows before any is hidden;
        `collection`: with those that belong to no collection. A scan that has to read more than `rows_max` raises
        `QueryError`."""
        order = "DESC" if reverse else "ASC"
        wanted = "" if collection is None else f" AND {OF_COLLECTION}"
        sql = (
            f"SELECT {COLUMNS} FROM captures WHERE urlkey >= ? AND urlkey < ? AND timestamp BETWEEN ? AND ?{wanted}"  # noqa: S608
            f" ORDER BY urlkey {order}, timestamp {order}, file {order}, offset {order} LIMIT ? OFFSET ?"
        )
        names = () if collection is None else (collection,)
        bindings = (*keys, int(since or 0), int(until or 10**14), *names, *(page or RowRange(-1, 0)))
        with self._opened() as opened:
            found = self._visible(opened, sql, bindings, rows_max, with_noarchive=with_noarchive)
            for _, together in groupby(found, key=lambda one: (one.urlkey, one.timestamp)):
                yield from sorted(together, key=Capture.cdxj, reverse=reverse)

    def count(self, keys: KeyRange) -> int:
        """The number of rows of a range, hidden ones included; more than `COUNTED_MAX` raise `QueryError`."""
        sql = "SELECT count(*) FROM (SELECT 1 FROM captures WHERE urlkey >= ? AND urlkey < ? LIMIT ?)"
        with self._opened() as opened:
            found = int(rows(opened.connection, sql, (*keys, COUNTED_MAX + 1))[0][0])
        if found > COUNTED_MAX:
            raise _too_many_rows(COUNTED_MAX)
        return found

    def collections(self) -> list[str]:
        """The names of the collections that have captures."""
        with self._opened() as opened:
            sql = (
                "SELECT name FROM collections one WHERE EXISTS"
                " (SELECT 1 FROM captures WHERE captures.collection = one.collection) ORDER BY name"
            )
            return [name for (name,) in rows(opened.connection, sql)]

    def captures_of(self, url: str, *, with_noarchive: bool = False) -> list[Capture]:
        """All captures of a URL, in order of time."""
        return list(self.scan(exact_range(url), with_noarchive=with_noarchive))

    def nearest(self, url: str, timestamp: str = "", *, with_noarchive: bool = False) -> Capture | None:
        """The capture of a URL nearest to a timestamp; the newest without one."""
        keys = exact_range(url)
        if not timestamp:
            return next(self.scan(keys, reverse=True, with_noarchive=with_noarchive), None)
        at = seconds(timestamp)
        moment = timestamp_of(at)
        before = next(self.scan(keys, until=moment, reverse=True, with_noarchive=with_noarchive), None)
        after = next(self.scan(keys, since=moment, with_noarchive=with_noarchive), None)
        found = [one for one in (before, after) if one is not None]
        return min(found, key=lambda one: abs(seconds(one.timestamp) - at), default=None)

    def versions(self, shown: Capture) -> Versions:
        """What there is of the URL before and after a capture."""
        keys, at = KeyRange(shown.urlkey, f"{shown.urlkey}\0"), int(shown.timestamp)
        sql = (
            "SELECT timestamp / 10000000000 AS year, count(*), min(timestamp) FROM captures"
            " WHERE urlkey = ? AND noarchive = 0 GROUP BY year ORDER BY year"
        )
        with self._opened() as opened:
            found = rows(opened.connection, sql, (shown.urlkey,))
        return Versions(
            sum(count for _, count, _ in found),
            next(self.scan(keys), shown),
            next(self.scan(keys, reverse=True), shown),
            next(self.scan(keys, until=str(at - 1), reverse=True), None),
            next(self.scan(keys, since=str(at + 1)), None),
            [YearCount(f"{year:04d}", count, f"{first:014d}") for year, count, first in found],
        )

    def original_of(self, capture: Capture) -> Capture | None:
        """The capture with the body to which a revisit record refers."""
        keys = exact_range(capture.refers_url or capture.url)
        found = self.scan(keys, since=capture.refers, until=capture.refers, with_noarchive=True)
        originals = (one for one in found if not one.is_revisit and not one.confirms)
        return next((one for one in originals if one.digest == capture.digest), None)

    @contextmanager
    def _opened(self) -> Iterator[_Open]:
        """This thread's connection: a new one after a rebuild. A scan that was not read to its end is closed with its
        generator."""
        found = file_fingerprint(self._file.path)[:1]
        opened: _Open | None = getattr(self._local, "opened", None)
        if opened is None or self._local.inode != found:
            opened = self._local.opened = _Open(self._data)
            self._local.inode = found
        with self._file.errors(opened.connection):
            yield opened

    def _visible(
        self, opened: _Open, sql: str, bindings: tuple[object, ...], rows_max: int | None, *, with_noarchive: bool
    ) -> Iterator[Capture]:
        takedowns = self._takedowns.now()
        for read, row in enumerate(opened.connection.execute(sql, bindings)):
            if read == rows_max:
                raise _too_many_rows(ROWS_READ_MAX)
            if takedowns and takedowns.covers(row[5]):
                continue
            capture = self._capture(opened, row)
            if with_noarchive or not capture.noarchive:
                yield capture

    def _capture(self, opened: _Open, row: tuple[Any, ...]) -> Capture:
        urlkey, timestamp, file, offset, length, url, mime, status, digest, kind = row[:10]
        refers, refers_url, meta, noarchive = row[10:]
        confirms, revisit = False, None
        if kind == NOT_MODIFIED_KIND:
            original = self._original(opened, surt(refers_url) if refers_url else urlkey, refers, digest)
            if original is not None and not (refers_url and self._takedowns.covers(refers_url)):
                revisit = CaptureRecordPlace(opened.name(file), offset, length)
                file, offset, length, mime, status, meta, unwanted = original
                noarchive, confirms = noarchive or unwanted, True
        if kind != RESPONSE_KIND and not confirms:
            mime = REVISIT_MIME
        shown = digest if isinstance(digest, str) else f"sha1:{base32(digest)}"
        return Capture(
            urlkey, f"{timestamp:014d}", url, mime, status, shown, length, offset, opened.name(file), meta,
            f"{refers:014d}" if refers else "", refers_url or "", bool(noarchive), confirms, revisit,
        )  # fmt: skip

    def _original(self, opened: _Open, urlkey: str, refers: int, digest: bytes | str) -> tuple[Any, ...] | None:
        sql = (
            "SELECT file, offset, length, mime, status, meta, noarchive FROM captures"
            " WHERE urlkey = ? AND timestamp = ? AND digest = ? AND kind = ? LIMIT 1"
        )
        found = rows(opened.connection, sql, (urlkey, refers, digest, RESPONSE_KIND))
        return found[0] if found else None


def exact_range(url: str) -> KeyRange:
    key = surt(url)
    return KeyRange(key, f"{key}\0")


def _too_many_rows(most: int) -> QueryError:
    return QueryError(
        message(
            "More than {most} captures would have to be read: name a URL or a longer prefix, or read them by `page`.",
            most=most,
        )
    )
