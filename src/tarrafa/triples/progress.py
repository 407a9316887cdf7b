"""How far has the store come?

For whoever looks on while its follower works. Promises: `behind` is 0 only when every durable record is committed and
published, in every part that is kept here, and nothing has to be written anew under another ontology.
Knows nothing of what is in the store.
"""

from pathlib import Path

from tarrafa.archive import follow as archive
from tarrafa.archive.follow import Cursor
from tarrafa.data import DataDirectory, open_to_read
from tarrafa.graph.store import in_our_words, rows
from tarrafa.index import shards
from tarrafa.triples import layout


def behind(data: DataDirectory) -> int:
    """0 when all that the archive holds can be asked for, as far as it belongs here; else roughly how much cannot.

    The archive is asked first: what becomes durable afterwards was not there when the question was put."""
    published = archive.published(data.archive)
    found = [progress(part) for part in shards.parts(data)]
    unread = sum(max(0, length - min(cursor.get(file, 0) for cursor, _ in found)) for file, length in published.items())
    return unread + sum(unseen for _, unseen in found)


def cursor(data: DataDirectory) -> Cursor:
    """How far a part of the store has read the archive; one that is not ours has read nothing."""
    return progress(data)[0]


def progress(part: DataDirectory) -> tuple[Cursor, int]:
    """Where the follower of a part is, and whether it has to publish that, or to write pages anew."""
    if not layout.exists(part):
        return {}, 0
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
    return found, int(commits != shown(part)) + int(outdated)


def sign(data: DataDirectory) -> Path:
    return data.triples / "shown"


def shown(data: DataDirectory) -> int:
    """Which commit was published last."""
    try:
        text = sign(data).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return 0
    return int(text) if text.isdecimal() else 0
