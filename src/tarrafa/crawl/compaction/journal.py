"""Journal of a compaction: which new files replace which old ones, and where each record has gone.

    DATA/archive/compaction/journal.sqlite    one transaction turns it from *building* to *switching*
    DIRECTORY/compaction/NAME.*               the new files, until they are put in their place

Promises: until the journal says *switching*, the old files are the archive, and an interrupted compaction is simply
removed. From then on the new files are: `switch.finish` puts them in place, however often it is interrupted. Nothing
of an old file is removed before the new one is durable and every reader's place in it is known.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tarrafa.archive.archive_settings import directories, read_settings
from tarrafa.archive.file_rewrite import NewPair
from tarrafa.archive.warc_reader import Cursor
from tarrafa.archive.warc_writer import DurableLengths
from tarrafa.runtime.data_dir import DataDirectory, sync_directory
from tarrafa.runtime.sqlite import SqliteFile, rows

FOLDER = "compaction"
FORMAT = 1
SCHEMA = """
CREATE TABLE phase (is_switching INTEGER NOT NULL);
INSERT INTO phase VALUES (0);
CREATE TABLE output (name TEXT PRIMARY KEY, directory TEXT, warc INTEGER, meta INTEGER, visits_end INTEGER);
CREATE TABLE source (
    source INTEGER PRIMARY KEY,  -- those of one output in their order
    name TEXT NOT NULL UNIQUE, output TEXT NOT NULL, warc INTEGER, meta INTEGER, visits_end INTEGER
);
CREATE TABLE visit (source INTEGER, start INTEGER, new INTEGER, PRIMARY KEY (source, start)) WITHOUT ROWID;
CREATE TABLE capture (source INTEGER, start INTEGER, new INTEGER, PRIMARY KEY (source, start)) WITHOUT ROWID;
"""
MOVED = "SELECT min(new) FROM visit WHERE (source, start) >= (?, ?) AND source <= ?"


class Output(NamedTuple):
    """A new pair of files, and the directory where it goes."""

    name: str
    directory: Path
    lengths: DurableLengths


class Source(NamedTuple):
    """A pair of files that is replaced."""

    number: int
    name: str
    output: str
    lengths: DurableLengths


def folder_of(directory: Path) -> Path:
    """Where the new files of a directory lie until they are put in place."""
    return directory / FOLDER


def journal_path(data: DataDirectory) -> Path:
    return folder_of(data.archive) / "journal.sqlite"


def is_interrupted(data: DataDirectory) -> bool:
    """Whether a compaction was interrupted while it put new files in place."""
    return journal_path(data).exists() and Journal.is_committed(data)


def discard(data: DataDirectory) -> None:
    """Remove what an interrupted or finished compaction has left."""
    found = [data.archive, *directories(data.archive, read_settings(data.archive))]
    for directory in reversed(found):  # the journal last
        if folder_of(directory).is_dir():
            shutil.rmtree(folder_of(directory))
            sync_directory(directory)


class Journal:
    """The journal. Its numbers of sources are places in the order of records of their output."""

    def __init__(self, data: DataDirectory) -> None:
        path = journal_path(data)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = SqliteFile(path, FORMAT)
        self.connection = self._file.open(SCHEMA, journal="wal", sync="full")
        self.errors = self._file.errors(self.connection)

    @staticmethod
    def is_committed(data: DataDirectory) -> bool:
        file = SqliteFile(journal_path(data), FORMAT)
        if file.found_format() != FORMAT:
            return False
        with file.reading() as connection:
            return rows(connection, "SELECT is_switching FROM phase") == [(1,)]

    def close(self) -> None:
        self.connection.close()

    # -- building --------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")

    def add_sources(self, output: str, sources: dict[str, DurableLengths]) -> dict[str, int]:
        """Note what an output is made from; the numbers."""
        self.begin()
        for name, lengths in sources.items():
            sql = "INSERT INTO source (name, output, warc, meta, visits_end) VALUES (?, ?, ?, ?, ?)"
            self.connection.execute(sql, (name, output, *_values(lengths)))
        return dict(rows(self.connection, "SELECT name, source FROM source WHERE output = ?", (output,)))

    def move_visit(self, source: int, start: int, new: int) -> None:
        self.connection.execute("INSERT INTO visit VALUES (?, ?, ?)", (source, start, new))

    def move_capture(self, source: int, start: int, new: int) -> None:
        self.connection.execute("INSERT INTO capture VALUES (?, ?, ?)", (source, start, new))

    def add_output(self, directory: Path, pair: NewPair) -> None:
        values = (pair.name, str(directory), *_values(pair.lengths))
        self.connection.execute("INSERT INTO output VALUES (?, ?, ?, ?, ?)", values)
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        """Forget the output that is being made."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def commit(self) -> None:
        """From here on the new files are the archive."""
        self.connection.execute("UPDATE phase SET is_switching = 1")

    # -- switching -------------------------------------------------------------------------------------------------

    def outputs(self) -> Iterator[Output]:
        for name, directory, *lengths in rows(self.connection, "SELECT * FROM output ORDER BY name"):
            yield Output(name, Path(directory), DurableLengths(*lengths))

    def sources(self) -> list[Source]:
        found = rows(self.connection, "SELECT * FROM source ORDER BY source")
        return [Source(number, name, output, DurableLengths(*lengths)) for number, name, output, *lengths in found]

    def moved_cursor(self, cursor: Cursor) -> tuple[Cursor, set[str]]:
        """Where a reader of visits goes on in the new files, and the names that its cursor no longer has. The planner
        has merged only files that a reader had read in their order."""
        news: Cursor = {}
        sources = self.sources()
        for output in self.outputs():
            mine = [one for one in sources if one.output == output.name]
            if not any(one.name in cursor for one in mine):
                continue
            news[output.name] = self._place(output, mine, cursor)
        return news, {one.name for one in sources if one.name in cursor}

    def _place(self, output: Output, sources: list[Source], cursor: Cursor) -> int:
        for one in sources:
            read = cursor.get(one.name, 0)
            if read < one.lengths.visits_end:
                found = rows(self.connection, MOVED, (one.number, read, sources[-1].number))[0][0]
                return output.lengths.visits_end if found is None else int(found)
        return output.lengths.visits_end


def _values(lengths: DurableLengths) -> tuple[int, int, int]:
    return lengths.warc, lengths.meta, lengths.visits_end
