"""Comparison of what is expected with what a store has: two sorted streams, read side by side.

A store is read some rows at a time, in short transactions, while its follower may be writing. So a row that is newer
than the archive as it was read is no finding: it is a *suspect*, and is looked for in the part of the archive that was
written meanwhile.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import apsw
import msgspec

from tarrafa.archive.warc_reader import Cursor, meta_path, read_records, visit_lengths
from tarrafa.archive.warc_writer import METADATA
from tarrafa.crawl.verify.expected import ExpectedContent
from tarrafa.crawl.verify.findings import Finding, Findings
from tarrafa.model import UrlId
from tarrafa.parse.url import url_id
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import SqliteFile
from tarrafa.takedown import TakedownSet

ROWS_AT_ONCE = 5_000
SUSPECTS_MAX = 100_000
Left = TypeVar("Left")
Right = TypeVar("Right")
Row = tuple[Any, ...]


class Suspect(NamedTuple):
    """Something that has no record, unless its record is newer than the archive as it was read."""

    id: UrlId
    collection: str
    visit: int
    finding: Finding


class _VisitName(msgspec.Struct):
    collection: str
    url: str
    visit: int


_decode_name = msgspec.json.Decoder(_VisitName).decode


@dataclass(slots=True)
class Comparison:
    """What the checks of all stores share. `upto`: how far the meta files were read; `pending_deletions`: collections
    that were deleted, and that some store has not dropped yet."""

    data: DataDirectory
    expected: ExpectedContent
    findings: Findings
    upto: Cursor
    takedowns: TakedownSet
    is_running: bool
    deleted: dict[str, float] = field(default_factory=dict)
    suspects: list[Suspect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def suspect(self, suspect: Suspect) -> None:
        if not self.is_running or len(self.suspects) >= SUSPECTS_MAX:
            self.findings.add(suspect.finding)
        else:
            self.suspects.append(suspect)

    def is_unsettled(self, collection: str, dropped: dict[str, float]) -> bool:
        """Whether a deletion of the collection is still to be applied."""
        return self.deleted.get(collection, -1.0) > dropped.get(collection, -1.0)

    def resolve_suspects(self) -> None:
        """Read what was archived meanwhile: suspects with a record there are no findings."""
        wanted = {(one.id, one.collection, one.visit): one for one in self.suspects}
        lengths = visit_lengths(self.data.archive) if wanted else {}
        for file, length in lengths.items():
            start = self.upto.get(file, 0)
            for _, head, content in (
                read_records(meta_path(self.data.archive, file), start, length) if length > start else ()
            ):
                if head.kind == METADATA:
                    found = _decode_name(content)
                    wanted.pop((url_id(found.url), found.collection, found.visit), None)
        for one in wanted.values():
            self.findings.add(one.finding)
        self.suspects.clear()


def merged(
    expected: Iterator[Left], stored: Iterator[Right], key: Callable[[Any], Any]
) -> Iterator[tuple[Left | None, Right | None]]:
    """Pairs of two streams that are sorted by the same key; None: the other one has no such key."""
    left, right = next(expected, None), next(stored, None)
    while left is not None or right is not None:
        if right is None or (left is not None and key(left) < key(right)):
            yield left, None
            left = next(expected, None)
        elif left is None or key(right) < key(left):
            yield None, right
            right = next(stored, None)
        else:
            yield left, right
            left, right = next(expected, None), next(stored, None)


def read_in_steps(file: SqliteFile, sql: str, first: Row, key: Callable[[Row], Row]) -> Iterator[Row]:
    """The rows of a query that begins behind a key and has a limit: `first` is the key before all, `key` that of a
    row. Each step is a transaction of its own, so that a running follower is not held up."""
    connection, after = file.open_readonly(), first
    with closing(connection), file.errors(connection):
        while found := connection.execute(sql, (*after, ROWS_AT_ONCE)).fetchall():
            yield from found
            if len(found) < ROWS_AT_ONCE:
                return
            after = key(found[-1])


def damage_of(file: SqliteFile) -> str:
    """What SQLite finds wrong in a file; empty: nothing."""
    try:
        connection = file.open_readonly()
    except Exception as error:
        return str(error)
    with closing(connection):
        try:
            found = connection.execute("PRAGMA quick_check(1)").fetchall()
        except apsw.Error as error:
            return str(error)
    return "" if found == [("ok",)] else str(found[0][0])
