"""Plan of a compaction: the captures that the retention rules of their collections let go.

It is made from the index of captures, in one pass in the order of its keys. Promises: a capture that is kept by a
legal hold, belongs to no collection, or lies in a file that is not rewritten, stays; so does every record to which a
`revisit` record that stays refers, and every version of a requisite: which of them the kept versions of pages need is
known to no index (decision 0370). Memory does not grow with the archive.
"""

from collections.abc import Container, Hashable, Iterator
from contextlib import closing
from itertools import groupby
from typing import Any, NamedTuple

import apsw
import msgspec

from tarrafa import config
from tarrafa.archive.warc_reader import durable_lengths, meta_path, read_collection_notes, read_entry
from tarrafa.captures.store import NO_COLLECTION, RESPONSE_KIND, open_reader
from tarrafa.captures.surt import surt
from tarrafa.config import Collection
from tarrafa.crawl.compaction.retention_rule import VersionSighting, kept_versions
from tarrafa.errors import DataError
from tarrafa.model import CollectionNote, UrlRole
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import open_sqlite_readonly, rows
from tarrafa.takedown import LegalHolds

KEEP_ALL = "all"
CAPTURES = (
    "SELECT urlkey, timestamp, file, offset, length, url, status, digest, kind, refers, refers_url, collection, meta"
    " FROM captures ORDER BY urlkey, timestamp, file, offset"
)
ORIGINAL = "SELECT file, offset FROM captures WHERE urlkey = ? AND timestamp = ? AND digest = ? AND kind = ?"
SCHEMA = """
CREATE TABLE dropped (
    file INTEGER, offset INTEGER, meta INTEGER, length INTEGER, collection INTEGER, is_body INTEGER,
    PRIMARY KEY (file, offset)
) WITHOUT ROWID;
CREATE TABLE needed (file INTEGER, offset INTEGER, PRIMARY KEY (file, offset)) WITHOUT ROWID;
"""
UNUSED = "DELETE FROM dropped WHERE (file, offset) IN (SELECT file, offset FROM needed)"
BY_COLLECTION = "SELECT collection, sum(is_body), count(*), sum(length) FROM dropped GROUP BY collection"


class _Row(NamedTuple):
    """A capture as the index has it."""

    urlkey: str
    timestamp: int
    file: int
    offset: int
    length: int
    url: str
    status: str
    digest: Any
    kind: int
    refers: int | None
    refers_url: str | None
    collection: int
    meta: int | None


class DroppedCaptures(msgspec.Struct, frozen=True):
    """What would go of a collection; `bytes` without requests and texts."""

    collection: str
    retention: str
    versions: int
    captures: int
    bytes: int

    def __add__(self, other: "DroppedCaptures") -> "DroppedCaptures":
        sums = (self.versions + other.versions, self.captures + other.captures, self.bytes + other.bytes)
        return DroppedCaptures(self.collection, self.retention, *sums)


def collection_definitions(data: DataDirectory) -> dict[str, Collection]:
    """The definitions of the collections: those of the frontier here, else the newest ones in the archive."""
    if data.frontier.exists():
        with closing(open_sqlite_readonly(data.frontier)) as connection:
            stored = rows(connection, "SELECT name, config FROM collection")
        return {name: config.decode_collection(bytes(content)) for name, content in stored}
    newest: dict[str, CollectionNote] = {}
    for file, length in durable_lengths(data.archive).items():
        for note in read_collection_notes(meta_path(data.archive, file), length):
            newest[note.collection] = max(note, newest.get(note.collection, note), key=lambda one: one.revision)
    return {name: config.decode_collection(bytes(note.config)) for name, note in newest.items()}


class RetentionPlan:
    """The captures that go. Use it in a `with`: leaving it removes its temporary file."""

    def __init__(self, data: DataDirectory, definitions: dict[str, Collection], holds: LegalHolds) -> None:
        self._data, self._holds = data, holds
        self._rules = {name: one.archive.retention for name, one in definitions.items()}
        self._faithful = {name for name, one in definitions.items() if one.is_faithful}
        self._connection = apsw.Connection("")  # a temporary file of SQLite

    def __enter__(self) -> "RetentionPlan":
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def make(self, rewritable: Container[str]) -> None:
        """Choose what goes from these files."""
        self._connection.execute(f"DROP TABLE IF EXISTS dropped; DROP TABLE IF EXISTS needed; {SCHEMA}")
        with closing(open_reader(self._data)) as captures, self._connection:
            self._names = dict(rows(captures, "SELECT file, name FROM files"))
            self._collections = dict(rows(captures, "SELECT collection, name FROM collections"))
            there = {number for number, name in self._names.items() if name in rewritable}
            if all(rule == KEEP_ALL for rule in self._rules.values()):
                return
            for _, group in groupby(map(_Row._make, captures.execute(CAPTURES)), key=lambda row: row.urlkey):
                self._choose(captures, list(group), there)
        self._connection.execute(UNUSED)

    def _choose(self, captures: apsw.Connection, group: list[_Row], rewritable: set[int]) -> None:
        """Choose among the captures of a key."""
        bodies = {(row.timestamp, row.digest): row for row in group if row.kind == RESPONSE_KIND}
        pages: dict[tuple[str, int], list[_Row]] = {}
        for row in group:
            pages.setdefault((row.url, row.collection), []).append(row)
        for (url, number), page in pages.items():
            name = self._collections.get(number, "")
            rule = self._rules.get(name, KEEP_ALL)
            keeps_all = number == NO_COLLECTION or rule == KEEP_ALL or self._holds.covers(url, name)
            versions = [self._version(row, bodies) for row in page]
            kept = set(versions) if keeps_all else _kept(rule, page, versions)
            if name in self._faithful and not kept.issuperset(versions) and self._is_requisite(page):
                kept = set(versions)
            for row, version in zip(page, versions, strict=True):
                if version not in kept and row.file in rewritable:
                    values = (row.file, row.offset, row.meta, row.length, number, row.kind == RESPONSE_KIND)
                    self._connection.execute("INSERT OR REPLACE INTO dropped VALUES (?, ?, ?, ?, ?, ?)", values)
                elif row.kind != RESPONSE_KIND:
                    self._need(captures, row, version)

    def _is_requisite(self, captures: list[_Row]) -> bool:
        """Whether a URL was last fetched because pages need it to be shown. What cannot be read stays."""
        last = next((row for row in reversed(captures) if row.meta is not None), None)
        if last is None or last.meta is None:
            return False
        try:
            entry = read_entry(self._data.archive, self._names[last.file], last.meta)
        except DataError:
            return True
        return entry is not None and entry.record.outcome.role == UrlRole.REQUISITE

    def _version(self, row: _Row, bodies: dict[tuple[int, Any], _Row]) -> tuple[object, ...]:
        """Where the body of a capture is, or what is said of it."""
        if row.kind == RESPONSE_KIND:
            return row.file, row.offset
        original = None if row.refers_url else bodies.get((row.refers or 0, row.digest))
        if original is not None:
            return original.file, original.offset
        return surt(row.refers_url) if row.refers_url else row.urlkey, row.refers, row.digest

    def _need(self, captures: apsw.Connection, row: _Row, version: tuple[object, ...]) -> None:
        """A revisit record that stays refers to a record: this one stays, whatever page it is of."""
        found = [version] if len(version) == 2 else rows(captures, ORIGINAL, (*version, RESPONSE_KIND))
        self._connection.executemany("INSERT OR IGNORE INTO needed VALUES (?, ?)", found)

    # -- what goes ---------------------------------------------------------------------------------------------

    def bytes_by_file(self) -> dict[str, int]:
        found = rows(self._connection, "SELECT file, sum(length) FROM dropped GROUP BY file")
        return {self._names[number]: size for number, size in found}

    def dropped_of(self, name: str) -> Iterator[tuple[int, int | None]]:
        """The captures of a file that go, and where their visits are."""
        number = next((one for one, known in self._names.items() if known == name), -1)
        yield from rows(self._connection, "SELECT offset, meta FROM dropped WHERE file = ?", (number,))

    def summary(self) -> list[DroppedCaptures]:
        found = rows(self._connection, BY_COLLECTION)
        named = [(self._collections.get(number, ""), *numbers) for number, *numbers in found]
        return [DroppedCaptures(name, self._rules.get(name, KEEP_ALL), *numbers) for name, *numbers in sorted(named)]

    def captures(self) -> Iterator[tuple[str, str, str]]:
        """Timestamp, URL and collection of each capture that goes."""
        with closing(open_reader(self._data)) as index:
            for row in map(_Row._make, index.execute(CAPTURES)):
                if rows(
                    self._connection, "SELECT 1 FROM dropped WHERE (file, offset) = (?, ?)", (row.file, row.offset)
                ):
                    yield f"{row.timestamp:014d}", row.url, self._collections.get(row.collection, "")


def _kept(rule: str, page: list[_Row], versions: list[tuple[object, ...]]) -> set[Hashable]:
    sightings = [
        VersionSighting(row.timestamp, version, row.status == "200" or row.kind != RESPONSE_KIND)
        for row, version in zip(page, versions, strict=True)
    ]
    return kept_versions(rule, sightings)
