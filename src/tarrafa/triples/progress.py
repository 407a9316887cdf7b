"""How far has the store come?

For whoever looks on while its follower works. Promises: `behind` is 0 only when every durable record is committed and
published, in every part that is kept here, and nothing has to be written anew under another ontology.
Knows nothing of what is in the store.
"""

from pathlib import Path
from typing import NamedTuple

from tarrafa.archive import follow as archive
from tarrafa.archive.follow import Cursor
from tarrafa.data import DataDirectory, open_to_read
from tarrafa.graph.store import in_our_words, rows
from tarrafa.index import shards
from tarrafa.triples import layout


class Progress(NamedTuple):
    """Where the follower of a part is: what it has read, its commits, and whether pages have to be written anew."""

    cursor: Cursor
    commits: int = 0
    outdated: bool = False


def behind(data: DataDirectory) -> int:
    """0 when all that the archive holds can be asked for, as far as it belongs here; else roughly how much cannot.

    The archive is asked first: what becomes durable afterwards was not there when the question was put."""
    published, parts = archive.published(data.archive), shards.parts(data)
    found = [progress(part) for part in parts]
    unread = sum(max(0, length - min(one.cursor.get(file, 0) for one in found)) for file, length in published.items())
    unseen = sum((one.commits != shown(part)) + one.outdated for part, one in zip(parts, found, strict=True))
    return unread + unseen


def commits(data: DataDirectory, until: Cursor) -> list[int] | None:
    """The commits of all parts, once they hold what the archive held at some moment; None: they do not yet."""
    found = [progress(part) for part in shards.parts(data)]
    if any(one.cursor.get(file, 0) < length for one in found for file, length in until.items()):
        return None
    return [one.commits for one in found]


def are_shown(data: DataDirectory, numbers: list[int]) -> bool:
    """Whether these commits, or later ones, are published; a store that was made again since counts anew."""
    parts = shards.parts(data)
    return len(parts) != len(numbers) or all(
        shown(part) >= min(number, progress(part).commits) for part, number in zip(parts, numbers, strict=True)
    )


def cursor(data: DataDirectory) -> Cursor:
    """How far a part of the store has read the archive; one that is not ours has read nothing."""
    return progress(data).cursor


def progress(part: DataDirectory) -> Progress:
    if not layout.exists(part):
        return Progress({})
    path = layout.books(part)
    with in_our_words(path, what="triples"):
        connection = open_to_read(path)
        try:
            with connection:
                found = dict(rows(connection, "SELECT file, offset FROM cursor"))
                commits = rows(connection, "SELECT coalesce(max(commits), 0) FROM commits")[0][0]
                outdated = rows(connection, "SELECT count(*) FROM (SELECT 1 FROM pages WHERE ontology < (SELECT"
                                " generation FROM ontology) LIMIT 1)")[0][0]  # fmt: skip
        finally:
            connection.close()
    return Progress(found, commits, bool(outdated))


def sign(data: DataDirectory) -> Path:
    return data.triples / "shown"


def shown(data: DataDirectory) -> int:
    """Which commit was published last."""
    try:
        text = sign(data).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() else 0
