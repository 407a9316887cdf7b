"""Status of the triple store: cursor, commits, published commit, bytes behind, totals.

Promises: `behind` is 0 only when every durable record is committed and published, in every part that is kept here, and
no page has to be written again under another ontology. Opens nothing for writing; the follower may be running. Knows
nothing of the content of the store.
"""

from pathlib import Path
from typing import NamedTuple

import msgspec

from tarrafa.archive.projection import read_cursor, unread_bytes
from tarrafa.archive.warc_reader import Cursor, visit_lengths
from tarrafa.index import shards
from tarrafa.runtime.data_dir import DataDirectory
from tarrafa.runtime.sqlite import rows
from tarrafa.triples import ontology, storage


class TriplesPartProgress(NamedTuple):
    """The progress of the follower of a part: its cursor, its commits, and how many pages have to be written again
    under a changed ontology; all of them, until the follower has read the change.
    """

    cursor: Cursor
    commits: int = 0
    outdated: int = 0


def behind(data: DataDirectory, until: Cursor | None = None) -> int:
    """0 when all records of the archive (now, or at a given moment) can be queried, in the parts kept here; roughly
    the number of missing bytes otherwise.

    The archive's length is read first: records that become durable later were not there when the caller asked.
    """
    upto, parts = visit_lengths(data.archive) if until is None else until, shards.parts(data)
    found = [part_progress(part) for part in parts]
    unread = unread_bytes(upto, [one.cursor for one in found])
    unseen = [one.commits != published_commit(part) for part, one in zip(parts, found, strict=True)]
    return unread + sum(unseen) + sum(one.outdated > 0 for one in found)


def commits(data: DataDirectory, until: Cursor) -> list[int] | None:
    """The commits of all parts, once they cover the archive as it was at some moment, under the ontology in force;
    None: they do not yet.
    """
    found = [part_progress(part) for part in shards.parts(data)]
    if unread_bytes(until, [one.cursor for one in found]) or any(one.outdated for one in found):
        return None
    return [one.commits for one in found]


def are_published(data: DataDirectory, numbers: list[int]) -> bool:
    """Whether these commits, or later ones, are published; a store that was rebuilt since counts anew."""
    parts = shards.parts(data)
    return len(parts) != len(numbers) or all(
        published_commit(part) >= min(number, part_progress(part).commits)
        for part, number in zip(parts, numbers, strict=True)
    )


def cursor(data: DataDirectory) -> Cursor:
    """How far a part of the store has read the archive; a part of another version has read nothing."""
    return part_progress(data).cursor


def part_progress(part: DataDirectory) -> TriplesPartProgress:
    if not storage.exists(part):
        return TriplesPartProgress({})
    with storage.database_file(part).reading() as connection:
        found = read_cursor(connection)
        commits = rows(connection, "SELECT coalesce(max(commits), 0) FROM commits")[0][0]
        outdated = "" if is_ontology_read(part) else " OR true"
        counted = f"SELECT count(*) FROM pages WHERE ontology < (SELECT generation FROM ontology){outdated}"  # noqa: S608
        return TriplesPartProgress(found, commits, rows(connection, counted)[0][0])


def is_ontology_read(part: DataDirectory) -> bool:
    """Whether the follower of a part has read the ontology as its files are now."""
    try:
        return ontology_state_path(part).read_text() == repr(ontology.files_state(part))
    except (OSError, UnicodeDecodeError):
        return not ontology.path_of(part).exists()


def ontology_state_path(part: DataDirectory) -> Path:
    return part.triples / "ontology_read"


def published_commit_path(data: DataDirectory) -> Path:
    return data.triples / "shown"


def published_commit(data: DataDirectory) -> int:
    """The number of the last published commit."""
    try:
        text = published_commit_path(data).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() else 0


class TriplesStatus(msgspec.Struct, frozen=True):
    """`pages`: those with statements. `things`: entities; one on pages in several parts is counted in each."""

    pages: int
    statements: int
    inferred: int
    things: int
    behind_bytes: int
    outdated: int = 0  # pages that have to be written again under a changed ontology


def triples_status(data: DataDirectory) -> TriplesStatus | None:
    """None without a store."""
    there = [part for part in shards.parts(data) if storage.exists(part)]
    if not there:
        return None
    sums = {"pages": 0, "statements": 0, "inferred": 0, "things": 0}
    for part in there:
        with storage.database_file(part).reading() as connection:
            for name, value in rows(connection, "SELECT name, value FROM totals"):
                if name in sums:  # an older store has one more
                    sums[name] += value
    outdated = [part_progress(part).outdated for part in there]
    behind_bytes = max(0, behind(data) - sum(count > 0 for count in outdated))
    return TriplesStatus(**sums, behind_bytes=behind_bytes, outdated=sum(outdated))
